/* softmax.cu -- softmax, log_softmax and their gradients, one team of threads per row of classes.
**
** A row is read two or three times; all but the first come from the caches.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/softmax.h"

#include <math.h>

#include "backend/cuda/kernels/kernel.h"

namespace {

struct larger {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct sum_of {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

/* This thread's row: element k lies at first + k * inner. A thread without one has no classes, so that it can go on to
** the folds that all threads of the block take part in. */
struct row {
  int64_t first, classes;
};

__device__ __forceinline__ row find_row(const softmax_args &a, const team_place &me, int64_t item)
{
  int64_t outer = a.tiles == 1 ? item : item / a.tiles, column = (item - outer * a.tiles) * a.team.width + me.x;
  row r = {outer * a.classes * a.inner + column, outer < a.outer && column < a.inner ? a.classes : 0};
  return r;
}

/* exp(x - max) keeps all exponents at or below 0. */
template <class T> __global__ void __launch_bounds__(CU_TEAM_THREADS) softmax(softmax_args a)
{
  __shared__ float room[CU_TEAM_THREADS];
  const T *x = (const T *)a.x;
  T *y = (T *)a.out;
  team_place me = team_find(a.team);
  int64_t items = a.outer * a.tiles;
  for (int64_t base = (int64_t)blockIdx.x * me.groups; base < items; base += (int64_t)gridDim.x * me.groups) {
    row r = find_row(a, me, base + me.group);
    float max = -INFINITY, sum = 0.0f;
    for (int64_t k = me.y; k < r.classes; k += a.team.depth) max = fmaxf(max, cu_float(x[r.first + k * a.inner]));
    max = team_fold(a.team, max, room, larger());
    for (int64_t k = me.y; k < r.classes; k += a.team.depth) sum += expf(cu_float(x[r.first + k * a.inner]) - max);
    sum = team_fold(a.team, sum, room, sum_of());
    float share = 1.0f / sum, log_sum = logf(sum);
    for (int64_t k = me.y; k < r.classes; k += a.team.depth) {
      float v = cu_float(x[r.first + k * a.inner]) - max;
      y[r.first + k * a.inner] = cu_as<T>(a.log ? v - log_sum : expf(v) * share);
    }
  }
}

/* softmax: y * (dy - sum of y * dy); log_softmax: dy - exp(y) * sum of dy. */
template <class T> __global__ void __launch_bounds__(CU_TEAM_THREADS) softmax_grad(softmax_args a)
{
  __shared__ float room[CU_TEAM_THREADS];
  const T *y = (const T *)a.x, *dy = (const T *)a.dy;
  T *dx = (T *)a.out;
  team_place me = team_find(a.team);
  int64_t items = a.outer * a.tiles;
  for (int64_t base = (int64_t)blockIdx.x * me.groups; base < items; base += (int64_t)gridDim.x * me.groups) {
    row r = find_row(a, me, base + me.group);
    float sum = 0.0f;
    for (int64_t k = me.y; k < r.classes; k += a.team.depth) {
      int64_t at = r.first + k * a.inner;
      sum += a.log ? cu_float(dy[at]) : cu_float(y[at]) * cu_float(dy[at]);
    }
    sum = team_fold(a.team, sum, room, sum_of());
    for (int64_t k = me.y; k < r.classes; k += a.team.depth) {
      int64_t at = r.first + k * a.inner;
      float v = cu_float(y[at]), d = cu_float(dy[at]);
      dx[at] = cu_as<T>(a.log ? d - expf(v) * sum : v * (d - sum));
    }
  }
}

} // namespace

CU_TABLE(cu_softmax_table, CU_FLOATS(softmax), CU_FLOATS(softmax_grad))
