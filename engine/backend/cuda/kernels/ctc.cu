/* ctc.cu -- the CTC loss: forward and backward recursion over the states of a text, and the gradient.
**
** The device cannot raise an error about a length or a label out of range: such a sample is infeasible, and none of its
** values is read through. Numbers stay small: the largest of each time step is taken off, and summed in double.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/ctc.h"

#include <float.h>
#include <math.h>

#include "backend/cuda/kernels/any.h"
#include "backend/cuda/kernels/kernel.h"
#include "ops/ctc.h"

namespace {

/* ---- a block's sample ------------------------------------------------------------------------ */

struct sample {
  int64_t n, steps, labels, states;
};

__device__ __forceinline__ int64_t whole_at(const ctc_whole_list &list, int64_t n, int64_t column)
{
  return cu_get_whole(list.dtype, list.data, n * list.step + column * list.column);
}

__device__ __forceinline__ int64_t class_of(const ctc_inputs &p, const sample &m, int64_t s)
{
  return s % 2 ? whole_at(p.targets, m.n, s / 2) : p.blank;
}

__device__ __forceinline__ bool may_skip_to(const ctc_inputs &p, const sample &m, int64_t s)
{
  return s % 2 && s >= 2 && class_of(p, m, s) != class_of(p, m, s - 2);
}

template <class T> __device__ __forceinline__ float log_prob(const ctc_inputs &p, const sample &m, int64_t t, int64_t s)
{
  return cu_float(((const T *)p.log_probs)[t * p.step + m.n * p.sample + class_of(p, m, s) * p.column]);
}

/* Whether all numbers of sample n are in range, in all threads; then m is filled. bad: of the block. */
__device__ __forceinline__ bool read_sample(const ctc_inputs &p, int64_t n, sample *m, int *bad)
{
  m->n = n;
  m->steps = whole_at(p.input_lengths, n, 0);
  m->labels = whole_at(p.target_lengths, n, 0);
  m->states = 2 * m->labels + 1;
  bool fine = m->steps >= 0 && m->steps <= p.T && m->labels >= 0 && m->labels <= p.S;
  if (threadIdx.x == 0) *bad = 0;
  __syncthreads();
  for (int64_t i = threadIdx.x; fine && i < m->labels; i += blockDim.x) {
    int64_t k = whole_at(p.targets, n, i);
    if (k < 0 || k >= p.K || k == p.blank) *bad = 1; /* whoever writes, writes the same */
  }
  __syncthreads();
  return fine && !*bad;
}

/* ---- sums in log space ----------------------------------------------------------------------- */

/* The largest is kept above -infinity, whose difference with itself is NaN. */
__device__ __forceinline__ float join(float a, float b, float c)
{
  float most = fmaxf(fmaxf(fmaxf(a, b), c), -FLT_MAX);
  return most + logf(expf(a - most) + expf(b - most) + expf(c - most));
}

/* The largest over the block, in every thread. room: 32 floats, free for the next call after a barrier. */
__device__ __forceinline__ float block_max(float v, float *room)
{
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  v = cu_warp_max(v);
  if (lane == 0) room[warp] = v;
  __syncthreads();
  v = cu_warp_max(lane < warps ? room[lane] : -INFINITY);
  __syncthreads();
  return v;
}

/* Takes the row's largest off and returns it; 0 if that is -infinity. Each thread wrote the states that it reads. */
__device__ __forceinline__ float settle(float *row, int64_t states, float most, float *room)
{
  most = block_max(most, room);
  if (!(most > -INFINITY)) most = 0.0f;
  for (int64_t s = threadIdx.x; s < states; s += blockDim.x) row[s] -= most;
  __syncthreads();
  return most;
}

/* ---- forward --------------------------------------------------------------------------------- */

template <class T>
__device__ __forceinline__ float forward_row(const ctc_inputs &p, const sample &m, int64_t t, float *row, float *room)
{
  const float *before = row - p.states;
  float most = -INFINITY;
  for (int64_t s = threadIdx.x; s < p.states; s += blockDim.x) {
    float v = -INFINITY;
    if (s < m.states && t == 0) v = s < 2 ? 0.0f : -INFINITY;
    else if (s < m.states)
      v = join(before[s], s >= 1 ? before[s - 1] : -INFINITY, may_skip_to(p, m, s) ? before[s - 2] : -INFINITY);
    if (s < m.states) v += log_prob<T>(p, m, t, s);
    row[s] = v;
    most = fmaxf(most, v);
  }
  return settle(row, p.states, most, room);
}

__device__ __forceinline__ int reason(const ctc_inputs &p, const sample &m)
{
  int64_t needs = m.labels;
  for (int64_t i = 1; i < m.labels; i++) needs += class_of(p, m, 2 * i + 1) == class_of(p, m, 2 * i - 1);
  return m.steps < needs ? CTC_TOO_SHORT : CTC_IMPOSSIBLE;
}

/* One thread: what the sample comes to. last: its last row; taken_off: of all rows. */
__device__ __forceinline__ void store_loss(const ctc_forward_args &a, const sample &m, bool valid, const float *last,
                                           double taken_off)
{
  float loss = INFINITY;
  if (valid && m.steps == 0) loss = m.labels ? INFINITY : 0.0f;
  else if (valid)
    loss = (float)-(taken_off + (double)join(last[m.states - 1], m.labels ? last[m.states - 2] : -INFINITY, -INFINITY));
  bool infeasible = loss == INFINITY;
  a.infeasible[m.n] = (uint8_t)(!valid ? CTC_INVALID : infeasible ? reason(a.p, m) : CTC_FEASIBLE);
  if (infeasible && a.p.zero_infinity) loss = 0.0f;
  a.losses[m.n] = a.p.mean && m.labels > 1 ? loss / (float)m.labels : loss;
}

template <class T> __global__ void __launch_bounds__(CTC_MOST_THREADS) ctc_forward(ctc_forward_args a)
{
  __shared__ float room[32];
  __shared__ int bad;
  sample m;
  bool valid = read_sample(a.p, blockIdx.x, &m, &bad);
  float *alpha = a.alpha + m.n * a.p.T * a.p.states;
  int64_t steps = valid ? m.steps : 0;
  double taken_off = 0;
  for (int64_t t = 0; t < steps; t++) taken_off += (double)forward_row<T>(a.p, m, t, alpha + t * a.p.states, room);
  for (int64_t i = steps * a.p.states + threadIdx.x; i < a.p.T * a.p.states; i += blockDim.x) alpha[i] = -INFINITY;
  if (steps > 1) alpha += (steps - 1) * a.p.states; /* the last row */
  if (threadIdx.x == 0) store_loss(a, m, valid, alpha, taken_off);
}

__global__ void ctc_total(ctc_total_args a)
{
  __shared__ float room[32];
  float sum = 0.0f;
  for (int64_t n = threadIdx.x; n < a.n; n += blockDim.x) sum += a.losses[n];
  sum = cu_block_sum(sum, room);
  if (threadIdx.x == 0) *a.loss = sum * a.share;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* A path that is at s one step later, that step's own probability included. */
template <class T>
__device__ __forceinline__ float later(const ctc_inputs &p, const sample &m, int64_t t, int64_t s, const float *after)
{
  return s < m.states ? after[s] + log_prob<T>(p, m, t + 1, s) : -INFINITY;
}

template <class T> __device__ __forceinline__ void backward_row(const ctc_inputs &p, const sample &m, int64_t t,
    float *row, float *room)
{
  const float *after = row + p.states;
  float most = -INFINITY;
  for (int64_t s = threadIdx.x; s < m.states; s += blockDim.x) {
    bool skip = s + 2 < m.states && may_skip_to(p, m, s + 2);
    float v = s >= m.states - 2 ? 0.0f : -INFINITY;
    if (t < m.steps - 1)
      v = join(later<T>(p, m, t, s, after), later<T>(p, m, t, s + 1, after),
               skip ? later<T>(p, m, t, s + 2, after) : -INFINITY);
    row[s] = v;
    most = fmaxf(most, v);
  }
  settle(row, m.states, most, room);
}

/* An infeasible sample has no paths; one that is, has numbers that have been checked. */
template <class T> __global__ void __launch_bounds__(CTC_MOST_THREADS) ctc_backward(ctc_backward_args a)
{
  __shared__ float room[32];
  __shared__ int bad;
  sample m;
  bool valid = read_sample(a.p, blockIdx.x, &m, &bad);
  if (!valid || a.infeasible[m.n * a.infeasible_step] != CTC_FEASIBLE) return;
  float *beta = a.beta + m.n * a.p.T * a.p.states;
  for (int64_t t = m.steps - 1; t >= 0; t--) backward_row<T>(a.p, m, t, beta + t * a.p.states, room);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* Of one sample and time step: log of the paths through each state, and what makes their shares sum to 1. */
struct shares {
  const float *alpha, *beta;
  float most, scale;
};

__device__ __forceinline__ float share_of(const shares &w, int64_t s)
{
  return expf(w.alpha[s] + w.beta[s] - w.most) * w.scale;
}

__device__ __forceinline__ shares weigh(const ctc_gradient_args &a, const sample &m, int64_t t, float dloss,
                                        float *room)
{
  int64_t at = (m.n * a.p.T + t) * a.p.states;
  shares w = {a.alpha + at, a.beta + at, -INFINITY, 1.0f};
  for (int64_t s = threadIdx.x; s < m.states; s += blockDim.x) w.most = fmaxf(w.most, w.alpha[s] + w.beta[s]);
  w.most = block_max(w.most, room);
  float sum = 0.0f;
  for (int64_t s = threadIdx.x; s < m.states; s += blockDim.x) sum += share_of(w, s);
  sum = cu_block_sum(sum, room);
  __syncthreads();
  w.scale = -dloss / sum;
  return w;
}

/* A label that the text has more than once is summed by the thread that meets it first. */
__device__ __forceinline__ bool is_first(const ctc_inputs &p, const sample &m, int64_t i, int64_t k)
{
  for (int64_t j = 0; j < i; j++)
    if (class_of(p, m, 2 * j + 1) == k) return false;
  return true;
}

template <class T>
__device__ __forceinline__ void store_shares(const ctc_gradient_args &a, const sample &m, const shares &w, T *dx,
                                             float *room)
{
  float blank = 0.0f;
  for (int64_t i = threadIdx.x; i <= m.labels; i += blockDim.x) blank += share_of(w, 2 * i);
  blank = cu_block_sum(blank, room);
  if (threadIdx.x == 0) dx[a.p.blank * a.dx_column] = cu_as<T>(blank);
  for (int64_t i = threadIdx.x; i < m.labels; i += blockDim.x) {
    int64_t k = class_of(a.p, m, 2 * i + 1);
    if (!is_first(a.p, m, i, k)) continue;
    float sum = share_of(w, 2 * i + 1);
    for (int64_t j = i + 1; j < m.labels; j++)
      if (class_of(a.p, m, 2 * j + 1) == k) sum += share_of(w, 2 * j + 1);
    dx[k * a.dx_column] = cu_as<T>(sum);
  }
  __syncthreads();
}

template <class T> __global__ void __launch_bounds__(CTC_MOST_THREADS) ctc_gradient(ctc_gradient_args a)
{
  __shared__ float room[32];
  __shared__ int bad;
  sample m;
  for (int64_t row = blockIdx.x; row < a.p.N * a.p.T; row += gridDim.x) {
    int64_t n = row / a.p.T, t = row % a.p.T;
    T *dx = (T *)a.dx + t * a.dx_step + n * a.dx_sample;
    bool valid = read_sample(a.p, n, &m, &bad);
    for (int64_t k = threadIdx.x; k < a.p.K; k += blockDim.x) dx[k * a.dx_column] = cu_as<T>(0.0f);
    __syncthreads();
    if (!valid || a.infeasible[n * a.infeasible_step] != CTC_FEASIBLE || t >= m.steps) continue;
    float dloss = (float)cu_get_real(a.dloss_dtype, a.dloss, n * a.dloss_step);
    if (a.p.mean) dloss /= (float)a.p.N * (float)(m.labels > 1 ? m.labels : 1);
    store_shares(a, m, weigh(a, m, t, dloss, room), dx, room);
  }
}

} // namespace

CU_TABLE(cu_ctc_table, CU_FLOATS(ctc_forward), CU_FLOATS(ctc_backward), CU_FLOATS(ctc_gradient), CU_ENTRY(ctc_total))
