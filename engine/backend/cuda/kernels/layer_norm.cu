/* layer_norm.cu -- layer norm, RMS norm and group norm: a team of threads per set; the parameters' gradients by
** columns.
**
** A set is read three times forward and twice backward; all but the first come from the caches. Sums are taken in an
** order that depends on the sizes and the GPU alone.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/layer_norm.h"

#include <math.h>

#include "backend/cuda/kernels/kernel.h"

namespace {

struct sum_of {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

/* Where a set and its parameters begin. A thread without a set has no elements, but takes part in the folds. */
struct place {
  int64_t set, first, parameter, count;
};

__device__ __forceinline__ place find(const layer_norm_sets &s, int64_t set)
{
  int64_t outer = s.period == 1 ? set : set / s.period, within = set - outer * s.period;
  place p = {set, outer * s.outer + within * s.inner_sets, within * s.params, set < s.sets ? s.count : 0};
  return p;
}

__device__ __forceinline__ int64_t element(const layer_norm_sets &s, const place &p, int64_t i)
{
  return p.first + (s.run == s.count ? i : i / s.run * s.step + i % s.run);
}

__device__ __forceinline__ int64_t parameter(const layer_norm_sets &s, const place &p, int64_t i)
{
  int64_t in_run = s.run == s.count ? i : i % s.run;
  return p.parameter + (s.spread == 1 ? in_run : in_run / s.spread);
}

template <class T> __global__ void __launch_bounds__(CU_TEAM_THREADS) layer_norm(layer_norm_args a)
{
  __shared__ float room[CU_TEAM_THREADS];
  const T *x = (const T *)a.x;
  T *y = (T *)a.y;
  team_place me = team_find(a.team);
  for (int64_t base = (int64_t)blockIdx.x * me.groups; base < a.s.sets; base += (int64_t)gridDim.x * me.groups) {
    place p = find(a.s, base + me.group);
    float mean = 0.0f, square = 0.0f, share = 1.0f / (float)a.s.count;
    if (a.mean) {
      for (int64_t i = me.y; i < p.count; i += a.team.depth) mean += cu_float(x[element(a.s, p, i)]);
      mean = team_fold(a.team, mean, room, sum_of()) * share;
    }
    for (int64_t i = me.y; i < p.count; i += a.team.depth) {
      float d = cu_float(x[element(a.s, p, i)]) - mean;
      square += d * d;
    }
    square = team_fold(a.team, square, room, sum_of()) * share;
    float invstd = 1.0f / sqrtf(square + a.eps);
    if (me.y == 0 && p.count > 0) {
      if (a.mean) a.mean[p.set] = mean;
      a.invstd[p.set] = invstd;
    }
    for (int64_t i = me.y; i < p.count; i += a.team.depth) {
      int64_t at = element(a.s, p, i), k = parameter(a.s, p, i);
      float v = (cu_float(x[at]) - mean) * invstd;
      if (a.weight) v *= a.weight[k];
      if (a.bias) v += a.bias[k];
      y[at] = cu_as<T>(v);
    }
  }
}

/* dx = invstd * (g - mean of g - xhat * mean of g * xhat) with g = dy * weight; RMS norm has no mean of g. */
template <class T> __global__ void __launch_bounds__(CU_TEAM_THREADS) layer_norm_grad(layer_norm_grad_args a)
{
  __shared__ float room[CU_TEAM_THREADS];
  const T *x = (const T *)a.x, *dy = (const T *)a.dy;
  T *dx = (T *)a.dx;
  team_place me = team_find(a.team);
  for (int64_t base = (int64_t)blockIdx.x * me.groups; base < a.s.sets; base += (int64_t)gridDim.x * me.groups) {
    place p = find(a.s, base + me.group);
    float mean = a.mean && p.count > 0 ? a.mean[p.set] : 0.0f, invstd = p.count > 0 ? a.invstd[p.set] : 0.0f;
    float sum = 0.0f, sum_xhat = 0.0f, share = 1.0f / (float)a.s.count;
    for (int64_t i = me.y; i < p.count; i += a.team.depth) {
      int64_t at = element(a.s, p, i);
      float g = cu_float(dy[at]) * (a.weight ? a.weight[parameter(a.s, p, i)] : 1.0f);
      sum += g;
      sum_xhat += g * ((cu_float(x[at]) - mean) * invstd);
    }
    sum = team_fold(a.team, sum, room, sum_of());
    sum_xhat = team_fold(a.team, sum_xhat, room, sum_of());
    float common = a.mean ? sum * share : 0.0f, common_xhat = sum_xhat * share;
    for (int64_t i = me.y; i < p.count; i += a.team.depth) {
      int64_t at = element(a.s, p, i);
      float g = cu_float(dy[at]) * (a.weight ? a.weight[parameter(a.s, p, i)] : 1.0f);
      dx[at] = cu_as<T>((g - common - (cu_float(x[at]) - mean) * invstd * common_xhat) * invstd);
    }
  }
}

/* This block's chunk of rows summed for its columns: dweight in the first half of a partial row, dbias in the
** second. */
template <class T> __global__ void __launch_bounds__(CU_TEAM_THREADS) layer_norm_sums(layer_norm_sums_args a)
{
  __shared__ float room[2][LAYER_NORM_LANES][LAYER_NORM_COLUMNS];
  const T *x = (const T *)a.x, *dy = (const T *)a.dy;
  int column = threadIdx.x % LAYER_NORM_COLUMNS, lane = threadIdx.x / LAYER_NORM_COLUMNS;
  int64_t k = (int64_t)blockIdx.x * LAYER_NORM_COLUMNS + column, first = (int64_t)blockIdx.y * a.chunk;
  int64_t last = first + a.chunk < a.rows ? first + a.chunk : a.rows, group = a.period == 1 ? 0 : k / a.params;
  float dweight = 0.0f, dbias = 0.0f;
  for (int64_t r = first + lane; r < last && k < a.columns; r += LAYER_NORM_LANES) {
    int64_t b = a.pixels == 1 ? r : r / a.pixels,
    at = b * a.batch_step + (r - b * a.pixels) * a.pixel_step + k * a.k_step;
    int64_t set = b * a.period + group;
    float d = cu_float(dy[at]);
    dweight += d * ((cu_float(x[at]) - (a.mean ? a.mean[set] : 0.0f)) * a.invstd[set]);
    dbias += d;
  }
  room[0][lane][column] = dweight;
  room[1][lane][column] = dbias;
  __syncthreads();
  if (lane != 0 || k >= a.columns) return;
  for (int l = 1; l < LAYER_NORM_LANES; l++) {
    dweight += room[0][l][column];
    dbias += room[1][l][column];
  }
  float *partial = a.partial + 2 * (int64_t)blockIdx.y * a.columns;
  partial[k] = dweight;
  partial[a.columns + k] = dbias;
}

__global__ void __launch_bounds__(CU_TEAM_THREADS) layer_norm_totals(layer_norm_totals_args a)
{
  for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < a.columns;
       k += (int64_t)gridDim.x * blockDim.x) {
    float dweight = 0.0f, dbias = 0.0f;
    for (int64_t c = 0; c < a.chunks; c++) {
      dweight += a.partial[2 * c * a.columns + k];
      dbias += a.partial[(2 * c + 1) * a.columns + k];
    }
    a.dweight[k] = dweight;
    if (a.dbias) a.dbias[k] = dbias;
  }
}

} // namespace

CU_TABLE(cu_layer_norm_table, CU_FLOATS(layer_norm), CU_FLOATS(layer_norm_grad), CU_FLOATS(layer_norm_sums),
         CU_ENTRY(layer_norm_totals))
