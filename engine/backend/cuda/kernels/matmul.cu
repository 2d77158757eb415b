/* matmul.cu -- a plain tiled matrix product for what cuBLASLt does not take.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/kernel.h"

#include "backend/cuda/kernels/matmul.h"

/* ---- products -------------------------------------------------------------------------------- */

/* Tiles of 64x64 results by 256 threads, each with 4x4 of them: rows ty, ty+16 ..., columns tx, tx+16 ..., so that
** neighbouring threads read and write neighbouring elements. Both operands pass through shared memory in steps of
** DEPTH along k. A row of a tile is one float longer than it holds: columns of it then lie in different banks. */
#define DEPTH 16
#define SIDE 16
#define EACH (MATMUL_TILE / SIDE)

/* tile[k][i] := element (first + i, k0 + k) of a matrix that has `size` times K of them, 0 outside. fast_k: k is the
** direction in which memory runs, so neighbouring threads go along it. */
template <class T>
static __device__ void load_tile(float (*tile)[MATMUL_TILE + 1], const T *p, int64_t step, int64_t step_k,
                                 int64_t first, int64_t size, int64_t k0, int64_t K)
{
  bool fast_k = step_k == 1;
  for (int n = threadIdx.x; n < DEPTH * MATMUL_TILE; n += MATMUL_THREADS) {
    int k = fast_k ? n % DEPTH : n / MATMUL_TILE;
    int i = fast_k ? n / DEPTH : n % MATMUL_TILE;
    bool inside = first + i < size && k0 + k < K;
    tile[k][i] = inside ? cu_float(p[(first + i) * step + (k0 + k) * step_k]) : 0.0f;
  }
}

static __device__ __forceinline__ void multiply_tiles(float (*a)[MATMUL_TILE + 1], float (*b)[MATMUL_TILE + 1],
                                                      int ty, int tx, float (*sum)[EACH])
{
  for (int k = 0; k < DEPTH; k++)
    for (int i = 0; i < EACH; i++)
      for (int j = 0; j < EACH; j++) sum[i][j] += a[k][ty + i * SIDE] * b[k][tx + j * SIDE];
}

template <class T, class Y> __global__ void __launch_bounds__(MATMUL_THREADS) matmul(matmul_args g)
{
  __shared__ float a[DEPTH][MATMUL_TILE + 1], b[DEPTH][MATMUL_TILE + 1];
  int64_t tiles_n = (g.N + MATMUL_TILE - 1) / MATMUL_TILE, tiles_m = (g.M + MATMUL_TILE - 1) / MATMUL_TILE;
  int64_t tile = (int64_t)blockIdx.x;
  int64_t n0 = tile % tiles_n * MATMUL_TILE, m0 = tile / tiles_n % tiles_m * MATMUL_TILE;
  int64_t batch = tile / tiles_n / tiles_m;
  const T *in_a = (const T *)g.a.p + batch * g.a.batch, *in_b = (const T *)g.b.p + batch * g.b.batch;
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  float sum[EACH][EACH] = {};
  for (int64_t k0 = 0; k0 < g.K; k0 += DEPTH) {
    load_tile(a, in_a, g.a.rows, g.a.columns, m0, g.M, k0, g.K);
    load_tile(b, in_b, g.b.columns, g.b.rows, n0, g.N, k0, g.K);
    __syncthreads();
    multiply_tiles(a, b, ty, tx, sum);
    __syncthreads();
  }
  Y *y = (Y *)g.y + batch * g.y_batch;
  for (int i = 0; i < EACH; i++)
    for (int j = 0; j < EACH; j++) {
      int64_t m = m0 + ty + i * SIDE, n = n0 + tx + j * SIDE;
      if (m >= g.M || n >= g.N) continue;
      float v = sum[i][j] + (g.bias ? cu_float(((const Y *)g.bias)[n]) : 0.0f);
      y[m * g.N + n] = cu_as<Y>(g.relu && v < 0.0f ? 0.0f : v);
    }
}

/* ---- bias and relu behind a product ----------------------------------------------------------- */

template <class T> __global__ void finish(finish_args g)
{
  T *y = (T *)g.y;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < g.n; i += (int64_t)gridDim.x * blockDim.x) {
    float v = cu_float(y[i]) + (g.bias ? cu_float(((const T *)g.bias)[i % g.columns]) : 0.0f);
    y[i] = cu_as<T>(g.relu && v < 0.0f ? 0.0f : v);
  }
}

CU_TABLE(cu_matmul_table, CU_ENTRY(matmul<float, float>), CU_ENTRY(matmul<cu_f16, cu_f16>),
         CU_ENTRY(matmul<cu_bf16, cu_bf16>), CU_ENTRY(matmul<float, float>), CU_ENTRY(matmul<cu_f16, float>),
         CU_ENTRY(matmul<cu_bf16, float>), CU_FLOATS(finish))
