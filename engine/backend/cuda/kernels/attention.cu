/* attention.cu -- scaled dot product attention in tiles of TILE queries and TILE keys, all sums in f32.
**
** Thread t of a block works on row t / 8 of a tile: on the columns t % 8, t % 8 + 8 and so on. Forward, scores are
** summed over slices of the features, then their exponentials with the largest score so far taken off multiply the
** values; when a larger score comes, what was summed is scaled down. Backward, scores are computed again: one kernel
** has tiles of queries and gives dq, one has tiles of keys and gives dk and dv, so that nothing is added up between
** blocks. Where the products are the library's (attention_products.c), two kernels do what is between them.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/attention.h"

#include <math.h>

#include "backend/cuda/kernels/any.h"
#include "backend/cuda/kernels/kernel.h"

namespace {

enum { TILE = ATTENTION_TILE, WIDE = ATTENTION_COLUMNS, LANES = 8, EACH = TILE / LANES, WIDE_EACH = WIDE / LANES };

typedef float tile[TILE][TILE + 1];   /* odd rows: no two lanes meet in a bank */
typedef float wide_tile[TILE][WIDE + 1];

__device__ __forceinline__ int my_row() { return (int)threadIdx.x / LANES; }
__device__ __forceinline__ int my_lane() { return (int)threadIdx.x % LANES; }

__device__ __forceinline__ int64_t matrix_at(const attention_call &c, const attention_operand &o, int64_t b)
{
  int64_t at = 0;
  for (int d = ATTENTION_DIMS - 1; d >= 0; d--) {
    at += b % c.size[d] * o.batch[d];
    b /= c.size[d];
  }
  return at;
}

/* room[r][i] := o[first + r][column + i], 0 outside of rows and columns. */
template <class T, int N>
__device__ __forceinline__ void fetch(float (*room)[N + 1], const attention_operand &o, int64_t at, int64_t first,
                                      int64_t rows, int64_t column, int64_t columns)
{
  const T *p = (const T *)o.p + at;
  for (int i = threadIdx.x; i < TILE * N; i += ATTENTION_THREADS) {
    int r = i / N, k = i % N;
    bool there = first + r < rows && column + k < columns;
    room[r][k] = there ? cu_float(p[(first + r) * o.row + (column + k) * o.column]) : 0.0f;
  }
}

/* out[i] := a[a_first + my row] * b[b_first + my lane + 8 i], over all features. */
template <class T>
__device__ __forceinline__ void dots(const attention_operand &a, int64_t a_at, int64_t a_first, int64_t a_rows,
                                     const attention_operand &b, int64_t b_at, int64_t b_first, int64_t b_rows,
                                     int64_t features, tile left, tile right, float out[EACH])
{
  for (int i = 0; i < EACH; i++) out[i] = 0.0f;
  for (int64_t e = 0; e < features; e += TILE) {
    __syncthreads();
    fetch<T, TILE>(left, a, a_at, a_first, a_rows, e, features);
    fetch<T, TILE>(right, b, b_at, b_first, b_rows, e, features);
    __syncthreads();
    for (int k = 0; k < TILE; k++) {
      float v = left[my_row()][k];
      for (int i = 0; i < EACH; i++) out[i] += v * right[my_lane() + LANES * i][k];
    }
  }
}

/* The score after scale and mask. */
__device__ __forceinline__ float masked(const attention_call &c, int64_t mask_at, int64_t l, int64_t s, float dot)
{
  if (l >= c.L || s >= c.S || (c.causal && s > l)) return -INFINITY;
  float v = dot * c.scale;
  if (!c.mask.p) return v;
  double m = cu_get_real(c.mask_dtype, c.mask.p, mask_at + l * c.mask.row + s * c.mask.column);
  return c.mask_dtype == CAPL_BOOL ? (m != 0 ? v : -INFINITY) : v + (float)m;
}

/* The factor of weight (l, s) of matrix b under dropout. */
__device__ __forceinline__ float kept(const attention_call &c, int64_t b, int64_t l, int64_t s)
{
  if (c.limit == 0) return 1.0f;
  int64_t i = (b * c.L + l) * c.S + s;
  uint64_t offset = c.offset + (uint64_t)*c.delta;
  uint32_t w[4];
  cu_philox(c.seed, (uint32_t)(i / 4), (uint32_t)offset, (uint32_t)(offset >> 32), 0xD20, w);
  int k = (int)(i % 4);
  uint32_t word = k == 0 ? w[0] : k == 1 ? w[1] : k == 2 ? w[2] : w[3];
  return word >= c.limit ? c.keep : 0.0f;
}

/* Sum and largest over the eight lanes of a row. */
__device__ __forceinline__ float row_sum(float v)
{
  for (int step = 1; step < LANES; step *= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

__device__ __forceinline__ float row_max(float v)
{
  for (int step = 1; step < LANES; step *= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}

/* What a block works on: blockIdx.x counts matrices and tiles, blockIdx.y columns of the results. */
struct place {
  int64_t b, first, column;
};

__device__ __forceinline__ place find(int64_t rows)
{
  int64_t tiles = (rows + TILE - 1) / TILE;
  place p = {(int64_t)blockIdx.x / tiles, (int64_t)blockIdx.x % tiles * TILE, (int64_t)blockIdx.y * WIDE};
  return p;
}

/* sum[i] += weights[k][my row or column k] * values[k][my lane + 8 i]; turned: weights[k][my row]. */
__device__ __forceinline__ void add_products(tile weights, wide_tile values, bool turned, float sum[WIDE_EACH])
{
  for (int k = 0; k < TILE; k++) {
    float w = turned ? weights[k][my_row()] : weights[my_row()][k];
    for (int i = 0; i < WIDE_EACH; i++) sum[i] += w * values[k][my_lane() + LANES * i];
  }
}

template <class T>
__device__ __forceinline__ void store(const attention_operand &o, int64_t at, int64_t row, int64_t rows, int64_t column,
                                      int64_t columns, float factor, const float sum[WIDE_EACH])
{
  T *p = (T *)o.p + at;
  if (row >= rows) return;
  for (int i = 0; i < WIDE_EACH; i++) {
    int64_t k = column + my_lane() + LANES * i;
    if (k < columns) p[row * o.row + k * o.column] = cu_as<T>(factor * sum[i]);
  }
}

__device__ __forceinline__ int64_t keys_for(const attention_call &c, int64_t first)
{
  int64_t last = first + TILE;
  return c.causal && last < c.S ? last : c.S;
}

template <class T> __global__ void __launch_bounds__(ATTENTION_THREADS) attention(attention_args a)
{
  __shared__ tile left, right, weights;
  __shared__ wide_tile values;
  place p = find(a.c.L);
  int64_t l = p.first + my_row(), q = matrix_at(a.c, a.c.q, p.b), k = matrix_at(a.c, a.c.k, p.b),
      v = matrix_at(a.c, a.c.v, p.b);
  int64_t mask = a.c.mask.p ? matrix_at(a.c, a.c.mask, p.b) : 0, last = keys_for(a.c, p.first);
  float max = -INFINITY, total = 0.0f, sum[WIDE_EACH] = {0.0f};
  for (int64_t s = 0; s < last; s += TILE) {
    float score[EACH], best = max, part = 0.0f;
    dots<T>(a.c.q, q, p.first, a.c.L, a.c.k, k, s, a.c.S, a.c.E, left, right, score);
    for (int i = 0; i < EACH; i++) {
      score[i] = masked(a.c, mask, l, s + my_lane() + LANES * i, score[i]);
      best = fmaxf(best, score[i]);
    }
    best = row_max(best);
    float factor = max == -INFINITY ? 0.0f : expf(max - best), less = best == -INFINITY ? 0.0f : best;
    __syncthreads(); /* the weights and values of the keys before have been used */
    for (int i = 0; i < EACH; i++) {
      float w = expf(score[i] - less);
      int64_t key = s + my_lane() + LANES * i;
      part += w;
      weights[my_row()][my_lane() + LANES * i] = l < a.c.L && key < a.c.S ? w * kept(a.c, p.b, l, key) : 0.0f;
    }
    fetch<T, WIDE>(values, a.c.v, v, s, a.c.S, p.column, a.c.Ev);
    __syncthreads();
    total = total * factor + row_sum(part);
    for (int i = 0; i < WIDE_EACH; i++) sum[i] *= factor;
    add_products(weights, values, false, sum);
    max = best;
  }
  store<T>(a.y, matrix_at(a.c, a.y, p.b), l, a.c.L, p.column, a.c.Ev, total > 0.0f ? 1.0f / total : 0.0f, sum);
  if (p.column == 0 && my_lane() == 0 && l < a.c.L)
    a.lse[p.b * a.c.L + l] = max == -INFINITY ? -INFINITY : max + logf(total);
}

/* A warp per query. */
template <class T> __global__ void __launch_bounds__(ATTENTION_THREADS) attention_dot(attention_grad_args a)
{
  int64_t warps = (int64_t)gridDim.x * (ATTENTION_THREADS / 32), lane = threadIdx.x % 32;
  for (int64_t i = (int64_t)blockIdx.x * (ATTENTION_THREADS / 32) + threadIdx.x / 32; i < a.c.batch * a.c.L;
       i += warps) {
    int64_t b = i / a.c.L, l = i % a.c.L;
    const T *y = (const T *)a.y.p + matrix_at(a.c, a.y, b) + l * a.y.row;
    const T *dy = (const T *)a.dy.p + matrix_at(a.c, a.dy, b) + l * a.dy.row;
    float sum = 0.0f;
    for (int64_t e = lane; e < a.c.Ev; e += 32) sum += cu_float(y[e * a.y.column]) * cu_float(dy[e * a.dy.column]);
    sum = cu_warp_sum(sum);
    if (lane == 0) a.dot[i] = sum;
  }
}

/* Of query i: its matrix b and its row l; the matrix of the mask. */
struct query {
  int64_t b, l, mask;
};

__device__ __forceinline__ query query_at(const attention_call &c, int64_t i)
{
  query at = {i / c.L, i % c.L, 0};
  if (c.mask.p) at.mask = matrix_at(c, c.mask, at.b);
  return at;
}

/* Scores of a row to weights; a row is read twice, the second time from the caches. */
template <class T> __global__ void __launch_bounds__(ATTENTION_THREADS) attention_weights(attention_weights_args a)
{
  int64_t warps = (int64_t)gridDim.x * (ATTENTION_THREADS / 32), lane = threadIdx.x % 32;
  for (int64_t i = (int64_t)blockIdx.x * (ATTENTION_THREADS / 32) + threadIdx.x / 32; i < a.c.batch * a.c.L;
       i += warps) {
    query at = query_at(a.c, i);
    const float *scores = a.scores + i * a.c.S;
    T *weights = (T *)a.weights + i * a.c.S;
    float max = -INFINITY, total = 0.0f;
    for (int64_t s = lane; s < a.c.S; s += 32) max = fmaxf(max, masked(a.c, at.mask, at.l, s, scores[s]));
    max = cu_warp_max(max);
    float less = max == -INFINITY ? 0.0f : max;
    for (int64_t s = lane; s < a.c.S; s += 32) total += expf(masked(a.c, at.mask, at.l, s, scores[s]) - less);
    total = cu_warp_sum(total);
    float share = total > 0.0f ? 1.0f / total : 0.0f;
    for (int64_t s = lane; s < a.c.S; s += 32) {
      float w = expf(masked(a.c, at.mask, at.l, s, scores[s]) - less) * share;
      weights[s] = cu_as<T>(w * kept(a.c, at.b, at.l, s));
    }
    if (lane == 0) a.lse[i] = max == -INFINITY ? -INFINITY : max + logf(total);
  }
}

template <class T> __global__ void __launch_bounds__(ATTENTION_THREADS) attention_slopes(attention_slopes_args a)
{
  int64_t warps = (int64_t)gridDim.x * (ATTENTION_THREADS / 32), lane = threadIdx.x % 32;
  for (int64_t i = (int64_t)blockIdx.x * (ATTENTION_THREADS / 32) + threadIdx.x / 32; i < a.c.batch * a.c.L;
       i += warps) {
    query at = query_at(a.c, i);
    int64_t row = i * a.c.S;
    float lse = a.lse[i], dot = a.dot[i];
    for (int64_t s = lane; s < a.c.S; s += 32) {
      float w = lse == -INFINITY ? 0.0f : expf(masked(a.c, at.mask, at.l, s, a.scores[row + s]) - lse);
      float factor = kept(a.c, at.b, at.l, s);
      ((T *)a.weights)[row + s] = cu_as<T>(w * factor);
      ((T *)a.ds)[row + s] = cu_as<T>(w * (factor * a.slopes[row + s] - dot) * a.c.scale);
    }
  }
}

/* For the tile of queries at l and keys at s: weights with dropout, and the gradient of the scores. */
template <class T>
__device__ __forceinline__ void tile_grad(const attention_grad_args &a, int64_t b, int64_t first, int64_t s, tile left,
                                          tile right, float weight[EACH], float ds[EACH])
{
  const attention_call &c = a.c;
  int64_t l = first + my_row(), mask = c.mask.p ? matrix_at(c, c.mask, b) : 0;
  float dw[EACH], lse = l < c.L ? a.lse[b * c.L + l] : -INFINITY, dot = l < c.L ? a.dot[b * c.L + l] : 0.0f;
  dots<T>(c.q, matrix_at(c, c.q, b), first, c.L, c.k, matrix_at(c, c.k, b), s, c.S, c.E, left, right, weight);
  dots<T>(a.dy, matrix_at(c, a.dy, b), first, c.L, c.v, matrix_at(c, c.v, b), s, c.S, c.Ev, left, right, dw);
  for (int i = 0; i < EACH; i++) {
    int64_t key = s + my_lane() + LANES * i;
    float w = lse == -INFINITY ? 0.0f : expf(masked(c, mask, l, key, weight[i]) - lse), factor = 0.0f;
    if (l < c.L && key < c.S) factor = kept(c, b, l, key);
    ds[i] = w * (factor * dw[i] - dot);
    weight[i] = w * factor;
  }
}

__device__ __forceinline__ void put(tile room, const float v[EACH])
{
  for (int i = 0; i < EACH; i++) room[my_row()][my_lane() + LANES * i] = v[i];
}

template <class T> __global__ void __launch_bounds__(ATTENTION_THREADS) attention_queries_grad(attention_grad_args a)
{
  __shared__ tile left, right, slopes;
  __shared__ wide_tile values;
  place p = find(a.c.L);
  int64_t k = matrix_at(a.c, a.c.k, p.b), last = keys_for(a.c, p.first);
  float weight[EACH], ds[EACH], sum[WIDE_EACH] = {0.0f};
  for (int64_t s = 0; s < last; s += TILE) {
    tile_grad<T>(a, p.b, p.first, s, left, right, weight, ds);
    __syncthreads();
    put(slopes, ds);
    fetch<T, WIDE>(values, a.c.k, k, s, a.c.S, p.column, a.c.E);
    __syncthreads();
    add_products(slopes, values, false, sum);
  }
  store<T>(a.dq, matrix_at(a.c, a.dq, p.b), p.first + my_row(), a.c.L, p.column, a.c.E, a.c.scale, sum);
}

template <class T> __global__ void __launch_bounds__(ATTENTION_THREADS) attention_keys_grad(attention_grad_args a)
{
  __shared__ tile left, right, weights;
  __shared__ wide_tile values;
  place p = find(a.c.S);
  int64_t q = matrix_at(a.c, a.c.q, p.b), dy = matrix_at(a.c, a.dy, p.b);
  float weight[EACH], ds[EACH], dk[WIDE_EACH] = {0.0f}, dv[WIDE_EACH] = {0.0f};
  /* causal: queries before the keys do not see them */
  for (int64_t l = a.c.causal ? p.first : 0; l < a.c.L; l += TILE) {
    tile_grad<T>(a, p.b, l, p.first, left, right, weight, ds);
    __syncthreads();
    put(weights, weight);
    fetch<T, WIDE>(values, a.dy, dy, l, a.c.L, p.column, a.c.Ev);
    __syncthreads();
    add_products(weights, values, true, dv);
    __syncthreads();
    put(weights, ds);
    fetch<T, WIDE>(values, a.c.q, q, l, a.c.L, p.column, a.c.E);
    __syncthreads();
    add_products(weights, values, true, dk);
  }
  int64_t row = p.first + my_row();
  store<T>(a.dk, matrix_at(a.c, a.dk, p.b), row, a.c.S, p.column, a.c.E, a.c.scale, dk);
  store<T>(a.dv, matrix_at(a.c, a.dv, p.b), row, a.c.S, p.column, a.c.Ev, 1.0f, dv);
}

} // namespace

CU_TABLE(cu_attention_table, CU_FLOATS(attention), CU_FLOATS(attention_dot), CU_FLOATS(attention_queries_grad),
         CU_FLOATS(attention_keys_grad), CU_FLOATS(attention_weights), CU_FLOATS(attention_slopes))
