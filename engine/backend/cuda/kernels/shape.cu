/* shape.cu -- copies in another order, as bits: elements are moved, never looked at.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/shape.h"

#include <string.h>

#include "backend/cuda/kernels/kernel.h"

namespace {

struct alignas(16) unit16 {
  uint64_t v[2];
};

template <class U> __global__ void copy(copy_args g)
{
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[2];
    cu_locate<2>(g.loop, i, at);
    ((U *)g.y)[at[0]] = ((const U *)g.x)[at[1]];
  }
}

template <class U> __global__ void fill(fill_args g)
{
  U unit;
  memcpy(&unit, g.bits, sizeof unit);
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[1];
    cu_locate<1>(g.loop, i, at);
    ((U *)g.y)[at[0]] = unit;
  }
}

/* Lines of a tile from `first` on, 0 where a thread has none. */
template <int TILE> __device__ __forceinline__ int left(int64_t lines, int64_t first, bool works)
{
  int64_t rest = lines - first;
  return !works ? 0 : rest < TILE ? (int)rest : TILE;
}

/* A tile's row of x lies along its column of y. A row of the tile begins in the bank behind that in which the one above
** begins, so that the elements of a column lie in different banks. All loads of a thread are under way at a time. */
template <class U> __global__ void __launch_bounds__(TRANSPOSE_THREADS) transpose(transpose_args g)
{
  constexpr int TILE = TRANSPOSE_TILE, LINES = TRANSPOSE_THREADS / TILE, PAD = sizeof(U) < 4 ? 4 / (int)sizeof(U) : 1;
  __shared__ U tile[TILE][TILE + PAD];
  const int lane = (int)threadIdx.x % TILE, line = (int)threadIdx.x / TILE;
  for (uint32_t t = blockIdx.x; t < g.tiles; t += gridDim.x) {
    uint32_t rest = t / g.tiles_c, plane = rest / g.tiles_r;
    int64_t at[2], r0 = (int64_t)(rest - plane * g.tiles_r) * TILE, c0 = (int64_t)(t - rest * g.tiles_c) * TILE;
    cu_locate<2>(g.loop, plane, at);
    const U *x = (const U *)g.x + at[1] + r0 + lane + (c0 + line) * g.x_column;
    U *y = (U *)g.y + at[0] + (r0 + line) * g.y_row + c0 + lane, v[TILE / LINES];
    int reads = left<TILE>(g.columns, c0 + line, r0 + lane < g.rows),
        writes = left<TILE>(g.rows, r0 + line, c0 + lane < g.columns);
#pragma unroll
    for (int k = 0; k < TILE; k += LINES, x += LINES * g.x_column) v[k / LINES] = k < reads ? *x : U();
#pragma unroll
    for (int k = 0; k < TILE; k += LINES) tile[line + k][lane] = v[k / LINES];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; k += LINES, y += LINES * g.y_row)
      if (k < writes) *y = tile[lane][line + k];
    __syncthreads();
  }
}

} // namespace

#define UNITS(kernel) \
  CU_ENTRY(kernel<uint8_t>), CU_ENTRY(kernel<uint16_t>), CU_ENTRY(kernel<uint32_t>), CU_ENTRY(kernel<uint64_t>)

CU_TABLE(cu_shape_table, UNITS(copy), CU_ENTRY(copy<unit16>), UNITS(fill), CU_ENTRY(fill<unit16>), UNITS(transpose))
