/* optim.cu -- optimizer steps over many tensors in one launch, the norm of all gradients, and the step control.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/kernel.h"

#include "backend/cuda/kernels/optim.h"
#include "ops/control.h"

static_assert(sizeof(optim_step_args) <= 4096, "kernel arguments are at most 4 KB");

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Four neighbours, moved in one access where the address allows. */
struct alignas(16) four {
  float v[4];
};
#define ROUNDS (OPTIM_CHUNK / (4 * OPTIM_THREADS))

/* Tensor that this block works on: the last one whose blocks begin at or before it. */
static __device__ __forceinline__ int tensor_of_block(const optim_table &table)
{
  int low = 0, high = table.count - 1, block = (int)blockIdx.x;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (table.first_block[middle] <= block) low = middle;
    else high = middle - 1;
  }
  return low;
}

/* First element of this thread's four in a round of its block. */
static __device__ __forceinline__ int64_t first_of_four(const optim_table &table, int tensor, int round)
{
  int64_t chunk = (int64_t)((int)blockIdx.x - table.first_block[tensor]) * OPTIM_CHUNK;
  return chunk + (int64_t)(round * OPTIM_THREADS + (int)threadIdx.x) * 4;
}

static __device__ __forceinline__ bool in_fours(const float *p) { return (uintptr_t)p % sizeof(four) == 0; }

/* Elements i to i+3 of n; those beyond the end are 0. */
static __device__ __forceinline__ four load_four(const float *p, int64_t i, int64_t n)
{
  if (i + 4 <= n && in_fours(p)) return *(const four *)(p + i);
  four x;
  for (int k = 0; k < 4; k++) x.v[k] = i + k < n ? p[i + k] : 0.0f;
  return x;
}

static __device__ __forceinline__ void store_four(float *p, int64_t i, int64_t n, const four &x)
{
  if (i + 4 <= n && in_fours(p)) {
    *(four *)(p + i) = x;
    return;
  }
  for (int k = 0; k < 4; k++)
    if (i + k < n) p[i + k] = x.v[k];
}

/* As the cast kernel rounds. */
static __device__ __forceinline__ uint16_t narrowed(float v, bool f16)
{
  return f16 ? __half_as_ushort(cu_as<cu_f16>(v)) : __bfloat16_as_ushort(cu_as<cu_bf16>(v));
}

/* Four neighbours in 16 bits. */
struct alignas(8) four_narrow {
  uint16_t v[4];
};

static __device__ __forceinline__ void store_narrow(uint16_t *p, bool f16, int64_t i, int64_t n, const four &x)
{
  four_narrow y;
  for (int k = 0; k < 4; k++) y.v[k] = narrowed(x.v[k], f16);
  if (i + 4 <= n && (uintptr_t)p % sizeof y == 0) {
    *(four_narrow *)(p + i) = y;
    return;
  }
  for (int k = 0; k < 4; k++)
    if (i + k < n) p[i + k] = y.v[k];
}

/* ---- methods --------------------------------------------------------------------------------- */

/* Each has its number of groups and what happens to one element of each: v = parameter, gradient, states. */

struct sgd {
  enum { groups = 3, BUFFER = 2 };
  static __device__ __forceinline__ void apply(const optim_rule &rule, const optim_numbers &now, float *v)
  {
    float slope = v[OPTIM_GRAD] * now.grad_scale + rule.decay * v[OPTIM_PARAM];
    if (rule.momentum != 0.0f) {
      float kept = now.first_step ? 0.0f : rule.momentum * v[BUFFER];
      v[BUFFER] = kept + (now.first_step ? 1.0f : 1.0f - rule.dampening) * slope;
      slope = rule.nesterov ? slope + rule.momentum * v[BUFFER] : v[BUFFER];
    }
    v[OPTIM_PARAM] -= now.rate * slope;
  }
};

struct adam {
  enum { groups = 4, FIRST_MOMENT = 2, SECOND_MOMENT, LARGEST };
  static __device__ __forceinline__ void by(const optim_rule &rule, const optim_numbers &now, float *v, bool amsgrad)
  {
    float slope = v[OPTIM_GRAD] * now.grad_scale + rule.decay * v[OPTIM_PARAM];
    float first = rule.beta1 * v[FIRST_MOMENT] + (1.0f - rule.beta1) * slope;
    float second = rule.beta2 * v[SECOND_MOMENT] + (1.0f - rule.beta2) * slope * slope;
    v[FIRST_MOMENT] = first;
    v[SECOND_MOMENT] = second;
    if (amsgrad) second = v[LARGEST] = v[LARGEST] > second ? v[LARGEST] : second;
    v[OPTIM_PARAM] = v[OPTIM_PARAM] * now.keep_weight - now.rate * first
        / (sqrtf(second) * now.root_correct + rule.eps);
  }
  static __device__ __forceinline__ void apply(const optim_rule &rule, const optim_numbers &now, float *v)
  {
    by(rule, now, v, false);
  }
};

struct amsgrad {
  enum { groups = 5 };
  static __device__ __forceinline__ void apply(const optim_rule &rule, const optim_numbers &now, float *v)
  {
    adam::by(rule, now, v, true);
  }
};

struct rmsprop {
  enum { groups = 5, SQUARE = 2, BUFFER, AVERAGE };
  static __device__ __forceinline__ void apply(const optim_rule &rule, const optim_numbers &now, float *v)
  {
    float slope = v[OPTIM_GRAD] * now.grad_scale + rule.decay * v[OPTIM_PARAM];
    float variance = rule.alpha * v[SQUARE] + (1.0f - rule.alpha) * slope * slope;
    v[SQUARE] = variance;
    if (rule.centered) {
      v[AVERAGE] = rule.alpha * v[AVERAGE] + (1.0f - rule.alpha) * slope;
      variance -= v[AVERAGE] * v[AVERAGE];
    }
    float update = slope / (sqrtf(variance) + rule.eps);
    if (rule.momentum != 0.0f) update = v[BUFFER] = rule.momentum * v[BUFFER] + update;
    v[OPTIM_PARAM] -= now.rate * update;
  }
};

/* All groups are loaded before any is stored, so that a thread waits for memory once in a round. */
template <class method>
static __device__ __forceinline__ void step_four(const optim_step_args &a, const optim_numbers &now, int tensor,
                                                 int64_t i)
{
  const int64_t n = a.table.size[tensor];
  four x[method::groups] = {};
  for (int g = 0; g < method::groups; g++)
    if (a.table.at[tensor][g]) x[g] = load_four(a.table.at[tensor][g], i, n);
  for (int k = 0; k < 4; k++) {
    float v[method::groups];
    for (int g = 0; g < method::groups; g++) v[g] = x[g].v[k];
    method::apply(a.rule, now, v);
    for (int g = 0; g < method::groups; g++) x[g].v[k] = v[g];
  }
  for (int g = 0; g < method::groups; g++)
    if (g != OPTIM_GRAD && a.table.at[tensor][g]) store_four(a.table.at[tensor][g], i, n, x[g]);
  if (a.table.shadow[tensor]) store_narrow(a.table.shadow[tensor], a.table.shadow_f16[tensor], i, n, x[OPTIM_PARAM]);
}

template <class method> __global__ void __launch_bounds__(OPTIM_THREADS) step(const optim_step_args a)
{
  optim_numbers now = a.numbers;
  if (a.live) now = *a.live;
  if (now.skip) return;
  int tensor = tensor_of_block(a.table);
  for (int round = 0; round < ROUNDS; round++) {
    int64_t i = first_of_four(a.table, tensor, round);
    if (i < a.table.size[tensor]) step_four<method>(a, now, tensor, i);
  }
}

/* The powers of the betas want double precision: worked out once per step by one thread, not by each block. */
__global__ void numbers_of_step(const optim_numbers_args a)
{
  if (threadIdx.x > 0) return;
  optim_sources s = a.sources;
  double number = (double)a.control[CONTROL_STEPS] - (double)a.behind;
  s.lr = (double)a.control[CONTROL_LR + a.group];
  s.step = number < 1 ? 1 : number;
  s.grad_scale *= (double)a.control[CONTROL_MULTIPLIER];
  s.skip = a.control[CONTROL_SKIP] != 0.0f;
  *a.out = optim_numbers_of(&s);
}

/* ---- gradients made f32 ---------------------------------------------------------------------- */

template <class T> __global__ void __launch_bounds__(OPTIM_THREADS) widen(const optim_copy_args a)
{
  int tensor = tensor_of_block(a.table);
  const int64_t n = a.table.size[tensor];
  const T *from = (const T *)a.table.at[tensor][1];
  for (int round = 0; round < ROUNDS; round++) {
    int64_t i = first_of_four(a.table, tensor, round);
    four x = {};
    for (int k = 0; from && k < 4 && i + k < n; k++) x.v[k] = cu_float(from[i + k]);
    if (i < n) store_four(a.table.at[tensor][0], i, n, x);
  }
}

/* ---- weights in 16 bits ---------------------------------------------------------------------- */

__global__ void __launch_bounds__(OPTIM_THREADS) narrow(const optim_copy_args a)
{
  int tensor = tensor_of_block(a.table);
  const int64_t n = a.table.size[tensor];
  for (int round = 0; round < ROUNDS; round++) {
    int64_t i = first_of_four(a.table, tensor, round);
    if (i >= n) return;
    store_narrow(a.table.shadow[tensor], a.table.shadow_f16[tensor], i, n, load_four(a.table.at[tensor][0], i, n));
  }
}

/* ---- norm of all gradients ------------------------------------------------------------------- */

/* Sum of v over the block, in thread 0. In double precision and in a fixed order. */
static __device__ __forceinline__ double block_sum(double v, double *room)
{
  room[threadIdx.x] = v;
  __syncthreads();
  for (int half = OPTIM_THREADS / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
    __syncthreads();
  }
  return room[0];
}

__global__ void __launch_bounds__(OPTIM_THREADS) squares(const optim_squares_args a)
{
  __shared__ double room[OPTIM_THREADS];
  int tensor = tensor_of_block(a.table);
  const int64_t n = a.table.size[tensor];
  double sum = 0;
  for (int round = 0; round < ROUNDS; round++) {
    int64_t i = first_of_four(a.table, tensor, round);
    if (i >= n) continue;
    four x = load_four(a.table.at[tensor][0], i, n);
    for (int k = 0; k < 4; k++) sum += (double)x.v[k] * (double)x.v[k];
  }
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) a.partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(OPTIM_THREADS) norm_of_sums(const optim_norm_args a)
{
  __shared__ double room[OPTIM_THREADS];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < a.count; i += OPTIM_THREADS) sum += a.partial[i];
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) *a.norm = (float)sqrt(sum);
}

/* ---- step_control ---------------------------------------------------------------------------- */

/* The loss scale of the next step, as PyTorch's GradScaler finds it. */
static __device__ void next_scale(const optim_control_args &a, bool finite)
{
  float *state = a.state, grown = state[CONTROL_SCALE] * a.growth_factor;
  state[CONTROL_TRACKER] = finite ? state[CONTROL_TRACKER] + 1.0f : 0.0f;
  if (!finite) state[CONTROL_SCALE] *= a.backoff_factor;
  if (state[CONTROL_TRACKER] < a.growth_interval) return;
  state[CONTROL_TRACKER] = 0.0f;
  if (!isfinite(grown)) return;
  state[CONTROL_SCALE] = grown;
  state[CONTROL_GROWTHS] += 1.0f;
}

__global__ void decide(const optim_control_args a)
{
  if (threadIdx.x > 0) return;
  float *state = a.state;
  double multiplier = a.common ? (double)a.common[CONTROL_MULTIPLIER] : 1;
  if (a.scaling) multiplier = 1 / (double)state[CONTROL_SCALE];
  double length = a.norm ? (double)*a.norm * multiplier : 0;
  bool finite = isfinite(length), skip = !finite || (a.common && a.common[CONTROL_SKIP] != 0.0f);
  if (finite && a.max_norm > 0) multiplier *= fmin(1.0, a.max_norm / (length + 1e-6));
  if (a.scaling) next_scale(a, finite);
  state[CONTROL_NORM] = (float)length;
  state[CONTROL_MULTIPLIER] = skip ? 0.0f : (float)multiplier;
  state[CONTROL_SKIP] = skip ? 1.0f : 0.0f;
  state[skip ? CONTROL_SKIPPED : CONTROL_STEPS] += 1.0f;
}

CU_TABLE(cu_optim_table, CU_ENTRY(step<sgd>), CU_ENTRY(step<adam>), CU_ENTRY(step<amsgrad>), CU_ENTRY(step<rmsprop>),
         CU_ENTRY(numbers_of_step), CU_ENTRY(squares), CU_ENTRY(norm_of_sums), CU_ENTRY(decide), CU_ENTRY(narrow),
         CU_FLOATS(widen))
