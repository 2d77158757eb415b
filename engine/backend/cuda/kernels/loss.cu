/* loss.cu -- cross-entropy of classes (a warp per row) and element by element losses, with their gradients.
**
** The device cannot raise an error about a label that is no class: the loss and the gradient of such a row are NaN,
** so that it is seen.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/loss.h"

#include "backend/cuda/kernels/any.h"
#include "backend/cuda/kernels/join.h"
#include "backend/cuda/kernels/kernel.h"

enum { WARPS = LOSS_THREADS / 32 };

static __device__ __forceinline__ float real_at(int dtype, const void *p, int64_t i)
{
  return dtype == CAPL_F32 ? ((const float *)p)[i] : (float)cu_get_real(dtype, p, i);
}

/* ---- sums in two steps ----------------------------------------------------------------------- */

/* The loss from all parts, by one block. */
static __device__ __forceinline__ void store_loss(const loss_sum &to)
{
  __shared__ float room[2][32];
  float sum = 0, counted = 0;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += LOSS_THREADS) {
    sum += __ldcg(to.partial + 2 * (int64_t)b);
    counted += __ldcg(to.partial + 2 * (int64_t)b + 1);
  }
  sum = cu_block_sum(sum, room[0]);
  counted = cu_block_sum(counted, room[1]);
  if (threadIdx.x == 0) to.loss[0] = to.by_count ? sum / counted : sum * to.factor;
}

/* Adds two numbers over a block and stores them as its part; the last block adds those up. */
static __device__ __forceinline__ void add_up(const loss_sum &to, float sum, float counted)
{
  __shared__ float room[2][32];
  sum = cu_block_sum(sum, room[0]);
  counted = cu_block_sum(counted, room[1]);
  if (threadIdx.x == 0) {
    to.partial[2 * (int64_t)blockIdx.x] = sum;
    to.partial[2 * (int64_t)blockIdx.x + 1] = counted;
  }
  if (cu_is_last(to.counter, gridDim.x)) store_loss(to);
}

/* ---- rows of classes ------------------------------------------------------------------------- */

/* This warp's first row, and how far its next one is. */
static __device__ __forceinline__ int64_t first_row()
{
  return (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
}

static __device__ __forceinline__ int64_t row_step()
{
  return (int64_t)gridDim.x * WARPS;
}

static __device__ __forceinline__ int lane_of()
{
  return (int)threadIdx.x % 32;
}

static __device__ __forceinline__ int64_t label_of(const loss_rows &r, int64_t row)
{
  return cu_get_whole(r.label_dtype, r.labels, row);
}

static __device__ __forceinline__ bool is_class(const loss_rows &r, int64_t label)
{
  return label >= 0 && label < r.classes;
}

/* What softmax needs of a row, in all lanes. */
struct row_sums {
  float max;
  float exponentials; /* sum of exp(x - max) */
  float below;        /* sum of x - max */
};

template <class T> static __device__ __forceinline__ row_sums sums_of(const T *x, int64_t classes)
{
  row_sums s = {-INFINITY, 0, 0};
  for (int64_t k = lane_of(); k < classes; k += 32) s.max = fmaxf(s.max, cu_float(x[k]));
  s.max = cu_warp_max(s.max);
  for (int64_t k = lane_of(); k < classes; k += 32) {
    float below = cu_float(x[k]) - s.max;
    s.exponentials += expf(below);
    s.below += below;
  }
  s.exponentials = cu_warp_sum(s.exponentials);
  s.below = cu_warp_sum(s.below);
  return s;
}

static __device__ __forceinline__ float weight_of(const loss_rows &r, int64_t k)
{
  return r.weight ? real_at(r.weight_dtype, r.weight, k) : 1.0f;
}

/* (1 - p)^gamma, where the label's probability p costs nll = -log(p). */
static __device__ __forceinline__ float focus(const loss_rows &r, float nll)
{
  return r.gamma == 0 ? 1.0f : powf(-expm1f(-nll), r.gamma);
}

/* The slope of focus(nll) * nll by nll. */
static __device__ __forceinline__ float focus_slope(const loss_rows &r, float nll)
{
  float rest = -expm1f(-nll);
  if (r.gamma == 0) return 1.0f;
  return rest > 0 ? focus(r, nll) * (1.0f + r.gamma * (nll < 80.0f ? expf(-nll) * nll : 0.0f) / rest) : 0.0f;
}

/* The sum over the classes of what f(k) is, in all lanes. */
#define SUM_OF_CLASSES(r, sum, term)                                            \
  do {                                                                          \
    for (int64_t k = lane_of(); k < (r).classes; k += 32) (sum) += (term);      \
    (sum) = cu_warp_sum(sum);                                                   \
  } while (0)

/* Terms of weight 0 are left out: a logit of -inf off the target costs nothing. */
template <class T> static __device__ __forceinline__ float row_loss(const loss_rows &r, int64_t row, int64_t label)
{
  if (!is_class(r, label)) return NAN;
  const T *x = (const T *)r.logits + row * r.classes;
  row_sums s = sums_of(x, r.classes);
  float all = logf(s.exponentials), nll = all - (cu_float(x[label]) - s.max);
  float loss = nll * weight_of(r, label) * focus(r, nll), spread = all * (float)r.classes - s.below;
  if (r.smoothing <= 0) return loss;
  if (r.weight) {
    spread = 0;
    SUM_OF_CLASSES(r, spread, weight_of(r, k) * (all - (cu_float(x[k]) - s.max)));
  }
  return (1.0f - r.smoothing) * loss + r.smoothing * spread / (float)r.classes;
}

template <class T> __global__ void __launch_bounds__(LOSS_THREADS) cross_entropy(cross_entropy_args a)
{
  float sum = 0, counted = 0;
  for (int64_t row = first_row(); row < a.r.rows; row += row_step()) {
    int64_t label = label_of(a.r, row);
    bool ignored = label == a.r.ignore;
    float loss = ignored ? 0.0f : row_loss<T>(a.r, row, label);
    if (a.each && lane_of() == 0) a.each[row] = loss;
    sum += loss;
    counted += ignored ? 0.0f : is_class(a.r, label) ? weight_of(a.r, label) : 1.0f;
  }
  bool speaks = lane_of() == 0; /* all lanes of a warp have the same numbers */
  if (!a.each) add_up(a.sum, speaks ? sum : 0.0f, speaks ? counted : 0.0f);
}

__global__ void __launch_bounds__(LOSS_THREADS) count_labels(count_labels_args a)
{
  __shared__ float room[32];
  int64_t step = (int64_t)gridDim.x * LOSS_THREADS, counted = 0;
  float weight = 0;
  for (int64_t row = (int64_t)blockIdx.x * LOSS_THREADS + threadIdx.x; row < a.r.rows; row += step) {
    int64_t label = label_of(a.r, row);
    counted += label != a.r.ignore;
    if (a.weights && label != a.r.ignore && is_class(a.r, label)) weight += weight_of(a.r, label);
  }
  if (a.weights) {
    weight = cu_block_sum(weight, room);
    if (threadIdx.x == 0) a.weights[blockIdx.x] = weight;
    return;
  }
  /* floats hold whole numbers up to 2^24: low and high halves apart */
  float low = cu_block_sum((float)(counted & 0xffff), room);
  __syncthreads();
  float high = cu_block_sum((float)(counted >> 16), room);
  if (threadIdx.x == 0) a.partial[blockIdx.x] = (int64_t)low + ((int64_t)high << 16);
}

/* dloss of a row, shared by the counted rows for a mean. */
static __device__ __forceinline__ float row_dloss(const cross_entropy_grad_args &a, int64_t row, float counted)
{
  float d = real_at(a.dloss_dtype, a.dloss, a.each ? row : 0);
  return a.counted ? d / counted : d;
}

template <class T>
static __device__ __forceinline__ void row_slope(const loss_rows &r, int64_t row, int64_t label, float dloss, T *dx)
{
  const T *x = (const T *)r.logits + row * r.classes;
  row_sums s = sums_of(x, r.classes);
  float even = r.smoothing / (float)r.classes, whole = 1.0f - r.smoothing, by = 1.0f / s.exponentials, sum = 1.0f;
  if (!is_class(r, label)) dloss = NAN;
  else if (r.gamma > 0) dloss *= focus_slope(r, logf(s.exponentials) - (cu_float(x[label]) - s.max));
  if (r.weight) {
    sum = 0;
    SUM_OF_CLASSES(r, sum, weight_of(r, k) * (k == label ? even + whole : even));
  }
  for (int64_t k = lane_of(); k < r.classes; k += 32) {
    float target = weight_of(r, k) * (k == label ? even + whole : even);
    dx[k] = cu_as<T>((expf(cu_float(x[k]) - s.max) * by * sum - target) * dloss);
  }
}

template <class T> __global__ void __launch_bounds__(LOSS_THREADS) cross_entropy_grad(cross_entropy_grad_args a)
{
  int64_t counted = 0;
  float weight = 0;
  for (int k = 0; a.counted && k < a.parts; k++) {
    if (a.weights) weight += a.weights[k];
    else counted += a.counted[k];
  }
  if (!a.weights) weight = (float)counted;
  for (int64_t row = first_row(); row < a.r.rows; row += row_step()) {
    int64_t label = label_of(a.r, row);
    T *dx = (T *)a.dx + row * a.r.classes;
    if (label != a.r.ignore) {
      row_slope<T>(a.r, row, label, row_dloss(a, row, weight), dx);
      continue;
    }
    for (int64_t k = lane_of(); k < a.r.classes; k += 32) dx[k] = cu_as<T>(0.0f);
  }
}

/* ---- element by element ---------------------------------------------------------------------- */

/* -(t log s + (1 - t) log(1 - s)) with s = sigmoid(x), without overflow */
static __device__ __forceinline__ float bce(float x, float target)
{
  return fmaxf(x, 0.0f) - x * target + log1pf(expf(-fabsf(x)));
}

static __device__ __forceinline__ float sigmoid(float x)
{
  float e = expf(-fabsf(x)), small = 1.0f / (1.0f + e);
  return x >= 0 ? small : e * small;
}

static __device__ __forceinline__ float smooth_l1(float d, float beta)
{
  float far = fabsf(d);
  return far < beta ? 0.5f * d * d / beta : far - 0.5f * beta;
}

static __device__ __forceinline__ float smooth_l1_slope(float d, float beta)
{
  return fabsf(d) < beta ? d / beta : d > 0 ? 1.0f : d < 0 ? -1.0f : d;
}

/* The weight of target times (1 - p)^gamma; *rest: 1 - p, written so that nothing is lost where it is small. */
static __device__ __forceinline__ float focal_weight(float x, float target, float alpha, float gamma, float *rest)
{
  *rest = sigmoid(x) * (1.0f - target) + sigmoid(-x) * target;
  float power = gamma == 2 ? *rest * *rest : gamma == 0 ? 1.0f : powf(*rest, gamma);
  return power * (alpha < 0 ? 1.0f : alpha * target + (1.0f - alpha) * (1.0f - target));
}

static __device__ __forceinline__ float focal(float x, float target, float alpha, float gamma)
{
  float rest;
  return focal_weight(x, target, alpha, gamma, &rest) * bce(x, target);
}

static __device__ __forceinline__ float focal_slope(float x, float target, float alpha, float gamma)
{
  float rest, weight = focal_weight(x, target, alpha, gamma, &rest), p = sigmoid(x), q = sigmoid(-x);
  float turn = rest > 0 ? p * q * (1.0f - 2.0f * target) / rest : 0.0f;
  return weight * (p * (1.0f - target) - q * target + gamma * turn * bce(x, target));
}

template <class T> static __device__ __forceinline__ float term_at(const elements_args &a, int64_t i)
{
  float x = cu_float(((const T *)a.x)[i]), target = real_at(a.target_dtype, a.target, i), away = x - target;
  switch (a.term) {
  case LOSS_BCE: return bce(x, target);
  case LOSS_SQUARED: return away * away;
  case LOSS_SMOOTH_L1: return smooth_l1(away, a.p);
  default: return focal(x, target, a.p, a.q);
  }
}

/* Of squared error the gradient is taken by ordinary ops. */
static __device__ __forceinline__ float slope_of(const element_grad_args &a, float x, float target)
{
  switch (a.term) {
  case LOSS_BCE: return sigmoid(x) - target;
  case LOSS_SMOOTH_L1: return smooth_l1_slope(x - target, a.p);
  default: return focal_slope(x, target, a.p, a.q);
  }
}

template <class T> __global__ void __launch_bounds__(LOSS_THREADS) elements(elements_args a)
{
  int64_t step = (int64_t)gridDim.x * LOSS_THREADS;
  float sum = 0;
  for (int64_t i = (int64_t)blockIdx.x * LOSS_THREADS + threadIdx.x; i < a.n; i += step) {
    float loss = term_at<T>(a, i);
    if (a.each) a.each[i] = loss;
    sum += loss;
  }
  if (!a.each) add_up(a.sum, sum, 0);
}

template <class T> __global__ void __launch_bounds__(LOSS_THREADS) margin(margin_args a)
{
  for (int64_t row = first_row(); row < a.rows; row += row_step()) {
    float sum = 0;
    for (int64_t k = row * a.classes + lane_of(); k < (row + 1) * a.classes; k += 32)
      sum += bce(cu_float(((const T *)a.x)[k]), real_at(a.target_dtype, a.target, k));
    sum = cu_warp_sum(sum);
    if (lane_of() == 0) a.each[row] = sum / (float)a.classes;
  }
}

template <class T> __global__ void __launch_bounds__(LOSS_THREADS) element_grad(element_grad_args a)
{
  int64_t step = (int64_t)gridDim.x * LOSS_THREADS;
  float all = a.each ? 0.0f : real_at(a.dloss_dtype, a.dloss, 0);
  for (int64_t i = (int64_t)blockIdx.x * LOSS_THREADS + threadIdx.x; i < a.n; i += step) {
    float dloss = (a.each ? real_at(a.dloss_dtype, a.dloss, i) : all) * a.share;
    float slope = slope_of(a, cu_float(((const T *)a.x)[i]), real_at(a.target_dtype, a.target, i));
    ((T *)a.dx)[i] = cu_as<T>(slope * dloss);
  }
}

/* ORDER loss kernels */
CU_TABLE(cu_loss_table, CU_FLOATS(cross_entropy), CU_FLOATS(cross_entropy_grad), CU_FLOATS(elements), CU_FLOATS(margin),
         CU_FLOATS(element_grad), CU_ENTRY(count_labels))
