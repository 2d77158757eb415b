/* region.cu -- areas of predicted and labelled regions, a warp per place, and their gradient.
**
** A label that is no class makes the sums of its image and the gradient of its place NaN, so that it is seen.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/region.h"

#include "backend/cuda/kernels/any.h"
#include "backend/cuda/kernels/kernel.h"
#include "ops/attrs.h"

namespace {

enum { WARPS = REGION_THREADS / 32 };

__device__ __forceinline__ int lane_of()
{
  return (int)threadIdx.x % 32;
}

__device__ __forceinline__ int64_t label_at(const region_places &r, int64_t at)
{
  return cu_get_whole(r.label_dtype, r.labels, at);
}

__device__ __forceinline__ bool is_class(const region_places &r, int64_t label)
{
  return label >= 0 && label < r.classes;
}

/* Share of class k: exp(x - top) * by. Without softmax it is x itself. */
struct row_scale {
  float top, by;
};

template <class T> __device__ __forceinline__ row_scale scale_of(const region_places &r, const T *x)
{
  row_scale s = {-INFINITY, 0};
  if (!r.softmax) return s;
  for (int64_t k = lane_of(); k < r.classes; k += 32) s.top = fmaxf(s.top, cu_float(x[k]));
  s.top = cu_warp_max(s.top);
  for (int64_t k = lane_of(); k < r.classes; k += 32) s.by += expf(cu_float(x[k]) - s.top);
  s.by = 1.0f / cu_warp_sum(s.by);
  return s;
}

template <class T> __device__ __forceinline__ float share_of(const region_places &r, const row_scale &s, T x)
{
  return r.softmax ? expf(cu_float(x) - s.top) * s.by : cu_float(x);
}

/* Adds the warps' sums lane by lane, in order, and stores them as the block's part. */
__device__ __forceinline__ void store_sums(float *partial, const float *sums)
{
  __shared__ float room[WARPS][REGION_SUMS][32];
  int warp = (int)threadIdx.x / 32;
  for (int w = 0; w < REGION_SUMS; w++) room[warp][w][lane_of()] = sums[w];
  __syncthreads();
  if (threadIdx.x >= REGION_SUMS * 32) return;
  float sum = 0;
  for (int k = 0; k < WARPS; k++) sum += room[k][warp][lane_of()];
  partial[threadIdx.x] = sum;
}

template <class T> __global__ void __launch_bounds__(REGION_THREADS) region_sum(dice_sums_args a)
{
  const region_places &r = a.r;
  int64_t part = (int64_t)blockIdx.x % r.parts, group = (int64_t)blockIdx.x / r.parts % r.groups;
  int64_t image = (int64_t)blockIdx.x / r.parts / r.groups, own = group * 32 + lane_of();
  float sums[REGION_SUMS] = {0, 0, 0};
  for (int64_t i = part * WARPS + threadIdx.x / 32; i < r.places; i += r.parts * WARPS) {
    int64_t at = image * r.places + i, label = label_at(r, at);
    if (label == r.ignore) continue;
    const T *x = (const T *)r.x + at * r.classes;
    row_scale s = scale_of(r, x);
    if (own >= r.classes) continue;
    float p = is_class(r, label) ? share_of(r, s, x[own]) : NAN;
    sums[REGION_PREDICTED] += p;
    if (label != own && is_class(r, label)) continue;
    sums[REGION_SHARED] += p;
    sums[REGION_LABELLED] += p != p ? p : 1.0f;
  }
  store_sums(a.partial + (int64_t)blockIdx.x * REGION_SUMS * 32, sums);
}

__global__ void region_total(region_total_args a)
{
  const region_places &r = a.r;
  int64_t step = (int64_t)gridDim.x * blockDim.x, n = r.images * REGION_SUMS * r.classes;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    int64_t k = i % r.classes, which = i / r.classes % REGION_SUMS, image = i / r.classes / REGION_SUMS;
    const float *p = a.partial + ((image * r.groups + k / 32) * r.parts * REGION_SUMS + which) * 32 + k % 32;
    float sum = 0;
    for (int64_t part = 0; part < r.parts; part++) sum += p[part * REGION_SUMS * 32];
    a.sums[i] = sum;
  }
}

__device__ __forceinline__ float dsum(const region_grad_args &a, int64_t image, int which, int64_t k)
{
  return (float)cu_get_real(a.dsums_dtype, a.dsums, (image * REGION_SUMS + which) * a.r.classes + k);
}

/* The slope of the sums by the share of class k. */
__device__ __forceinline__ float slope_of(const region_grad_args &a, int64_t image, int64_t label, int64_t k)
{
  float d = dsum(a, image, REGION_PREDICTED, k);
  return label == k ? d + dsum(a, image, REGION_SHARED, k) : d;
}

template <class T> __global__ void __launch_bounds__(REGION_THREADS) region_grad(region_grad_args a)
{
  const region_places &r = a.r;
  int64_t first = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, step = (int64_t)gridDim.x * WARPS;
  for (int64_t at = first; at < r.images * r.places; at += step) {
    int64_t image = at / r.places, label = label_at(r, at);
    const T *x = (const T *)r.x + at * r.classes;
    T *dx = (T *)a.dx + at * r.classes;
    bool ignored = label == r.ignore;
    row_scale s = scale_of(r, x);
    float mean = 0;
    for (int64_t k = lane_of(); r.softmax && k < r.classes; k += 32)
      mean += share_of(r, s, x[k]) * slope_of(a, image, label, k);
    mean = cu_warp_sum(mean);
    for (int64_t k = lane_of(); k < r.classes; k += 32) {
      float d = slope_of(a, image, label, k);
      if (r.softmax) d = share_of(r, s, x[k]) * (d - mean);
      dx[k] = cu_as<T>(ignored ? 0.0f : is_class(r, label) ? d : NAN);
    }
  }
}

} // namespace

/* ORDER region kernels */
CU_TABLE(cu_region_table, CU_FLOATS(region_sum), CU_FLOATS(region_grad), CU_ENTRY(region_total))
