/* optim.c -- optimizer steps over all tensors of a group at once, and the norm of all gradients.
**
** The tensors are laid end to end and the whole is split among the threads, so that a model's many
** small tensors cost no more than one large one.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/optim.h"
#include "base/float16.h"
#include "ops/attrs.h"
#include "ops/control.h"

enum { MAX_GROUPS = 5, PARAM = 0, GRAD = 1 };

typedef struct {
  const capl_call *call;
  int n;        /* tensors per group */
  int n_groups;
  vec_adam adam;
  vec_sgd sgd;
  vec_rmsprop rmsprop;
  void (*step)(const void *job, int64_t n, float *const *at);
  double partial[CPU_MAX_THREADS];
} optim_job;

static capl_tensor *member(const optim_job *job, int group, int i)
{
  return job->call->in[group * job->n + i];
}

/* Elements of tensor i that take part: none when it has no gradient. */
static int64_t active(const optim_job *job, int i)
{
  const capl_tensor *grad = member(job, job->n_groups > 1 ? GRAD : 0, i);
  return grad ? capl_tensor_numel(grad) : 0;
}

static int64_t active_total(const optim_job *job)
{
  int64_t total = 0;
  for (int i = 0; i < job->n; i++) total += active(job, i);
  return total;
}

/* Calls step for the elements [from, to) of tensor i. */
static void step_run(const optim_job *job, int i, int64_t from, int64_t to)
{
  float *at[MAX_GROUPS] = {NULL};
  for (int g = 0; g < job->n_groups; g++)
    if (member(job, g, i)) at[g] = (float *)capl_tensor_data(member(job, g, i)) + from;
  job->step(job, to - from, at);
}

void cpu_narrow(int64_t n, const float *x, capl_dtype dtype, uint16_t *y)
{
  if (dtype == CAPL_BF16) cpu_now->to_bf16(n, x, y);
  else
    for (int64_t i = 0; i < n; i++) y[i] = capl_f16_from_float(capl_float_to_odd(x[i]));
}

/* The same for elements whose shadow low is written, too: while they are in the cache. */
static void step_shadowed(const optim_job *job, int i, int64_t from, int64_t to, const capl_tensor *low)
{
  const float *param = capl_tensor_data(member(job, PARAM, i));
  uint16_t *to_low = capl_tensor_data(low);
  for (int64_t at = from, end; at < to; at = end) {
    end = at + CPU_PIECE < to ? at + CPU_PIECE : to;
    step_run(job, i, at, end);
    cpu_narrow(end - at, param + at, low->dtype, to_low + at);
  }
}

static void step_piece(const optim_job *job, int i, int64_t from, int64_t to)
{
  capl_tensor low;
  if (capl_shadow_of(member(job, PARAM, i), &low)) step_shadowed(job, i, from, to, &low);
  else step_run(job, i, from, to);
}

static void step_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const optim_job *job = arg;
  int64_t start = 0;
  for (int i = 0; i < job->n && start < end; i++) {
    int64_t n = active(job, i), from = begin - start, to = end - start;
    if (from < 0) from = 0;
    if (to > n) to = n;
    if (from < to) step_piece(job, i, from, to);
    start += n;
  }
}

static void run_step(optim_job *job, const capl_call *call, int n_groups,
                     void (*step)(const void *, int64_t, float *const *))
{
  job->call = call;
  job->n_groups = n_groups;
  job->n = call->n_in / n_groups;
  job->step = step;
  cpu_parallel(active_total(job), CPU_GRAIN, step_part, job);
}

/* ---- the numbers that change from step to step ---- */

step_numbers cpu_step_numbers(const capl_call *call, int n_groups, int scale, double step)
{
  const capl_attr *shared = call->attr + scale;
  step_numbers s = {call->attr[STEP_LR].f, step, shared[STEP_GRAD_SCALE].f, false};
  if (call->n_in % n_groups == 0) return s;
  const float *control = capl_tensor_data(call->in[call->n_in - 1]);
  s.lr = control[CONTROL_LR + shared[STEP_GROUP].i];
  s.step = fmax(1, control[CONTROL_STEPS] - (double)shared[STEP_BEHIND].i);
  s.grad_scale *= control[CONTROL_MULTIPLIER];
  s.skip = control[CONTROL_SKIP] != 0;
  return s;
}

/* ---- adam ---- */

static void adam_piece(const void *p, int64_t n, float *const *at)
{
  cpu_now->adam(&((const optim_job *)p)->adam, n, at[PARAM], at[GRAD], at[2], at[3], at[4]);
}

/* amsgrad_step has one group more. */
static capl_status adam_of(const capl_call *call, int n_groups)
{
  const struct attrs_adam_step *a = ATTRS(call, adam_step);
  step_numbers now = cpu_step_numbers(call, n_groups, AT(adam_step, grad_scale), (double)a->step.i);
  if (now.skip) return CAPL_OK;
  double lr = now.lr, step = now.step;
  bool decoupled = a->decoupled.i;
  optim_job job;
  job.adam = (vec_adam){.grad_scale = (float)now.grad_scale, .beta1 = (float)a->beta1.f, .beta2 = (float)a->beta2.f,
                        .eps = (float)a->eps.f, .decay_grad = decoupled ? 0 : (float)a->weight_decay.f,
                        .keep_weight = decoupled ? (float)(1 - lr * a->weight_decay.f) : 1,
                        .rate = (float)(lr / (1 - pow(a->beta1.f, step))),
                        .root_correct = (float)(1 / sqrt(1 - pow(a->beta2.f, step)))};
  run_step(&job, call, n_groups, adam_piece);
  return CAPL_OK;
}

static capl_status cpu_adam_step(const capl_call *call)
{
  return adam_of(call, 4);
}

static capl_status cpu_amsgrad_step(const capl_call *call)
{
  return adam_of(call, 5);
}

/* ---- sgd ---- */

static void sgd_piece(const void *p, int64_t n, float *const *at)
{
  cpu_now->sgd(&((const optim_job *)p)->sgd, n, at[PARAM], at[GRAD], at[2]);
}

static capl_status cpu_sgd_step(const capl_call *call)
{
  const struct attrs_sgd_step *a = ATTRS(call, sgd_step);
  step_numbers now = cpu_step_numbers(call, 3, AT(sgd_step, grad_scale), a->first_step.i ? 1 : 2);
  if (now.skip) return CAPL_OK;
  optim_job job;
  job.sgd = (vec_sgd){(float)now.grad_scale, (float)now.lr,    (float)a->momentum.f, (float)a->dampening.f,
                      (float)a->weight_decay.f,     a->nesterov.i, now.step <= 1};
  run_step(&job, call, 3, sgd_piece);
  return CAPL_OK;
}

/* ---- rmsprop ---- */

static void rmsprop_piece(const void *p, int64_t n, float *const *at)
{
  cpu_now->rmsprop(&((const optim_job *)p)->rmsprop, n, at[PARAM], at[GRAD], at[2], at[3], at[4]);
}

static capl_status cpu_rmsprop_step(const capl_call *call)
{
  const struct attrs_rmsprop_step *a = ATTRS(call, rmsprop_step);
  step_numbers now = cpu_step_numbers(call, 5, AT(rmsprop_step, grad_scale), 1);
  if (now.skip) return CAPL_OK;
  optim_job job;
  job.rmsprop = (vec_rmsprop){(float)now.grad_scale, (float)now.lr,        (float)a->alpha.f, (float)a->eps.f,
                              (float)a->weight_decay.f,     (float)a->momentum.f, a->centered.i};
  run_step(&job, call, 5, rmsprop_piece);
  return CAPL_OK;
}

/* ---- norm of all gradients ---- */

static void norm_part(void *arg, int64_t begin, int64_t end, int thread)
{
  optim_job *job = arg;
  int64_t start = 0;
  double sum = 0;
  for (int i = 0; i < job->n && start < end; i++) {
    int64_t n = active(job, i), from = begin - start, to = end - start;
    if (from < 0) from = 0;
    if (to > n) to = n;
    if (from < to)
      sum += cpu_now->sum_squares(CAPL_F32, to - from, (const float *)capl_tensor_data(member(job, 0, i)) + from);
    start += n;
  }
  job->partial[thread] = sum;
}

static capl_status cpu_grad_norm(const capl_call *call)
{
  optim_job job = {.call = call, .n = call->n_in, .n_groups = 1};
  double sum = 0;
  cpu_parallel(active_total(&job), CPU_GRAIN, norm_part, &job);
  for (int t = 0; t < cpu_threads(); t++) sum += job.partial[t];
  *(float *)capl_tensor_data(call->out[0]) = (float)sqrt(sum);
  return CAPL_OK;
}

/* ---- step_control ---- */

/* The loss scale of the next step, as PyTorch's GradScaler finds it. */
static void next_scale(float *state, const capl_attr *attr, bool finite)
{
  float grown = state[CONTROL_SCALE] * (float)attr[CONTROL_GROWTH].f;
  state[CONTROL_TRACKER] = finite ? state[CONTROL_TRACKER] + 1 : 0;
  if (!finite) state[CONTROL_SCALE] *= (float)attr[CONTROL_BACKOFF].f;
  if (state[CONTROL_TRACKER] < (float)attr[CONTROL_INTERVAL].i) return;
  state[CONTROL_TRACKER] = 0;
  if (!isfinite(grown)) return;
  state[CONTROL_SCALE] = grown;
  state[CONTROL_GROWTHS]++;
}

static capl_status cpu_step_control(const capl_call *call)
{
  const capl_attr *attr = call->attr;
  const capl_tensor *norm = call_input(call, 1), *common = call_input(call, 2);
  float *state = capl_tensor_data(call->in[0]);
  const float *leader = common ? capl_tensor_data(common) : NULL;
  double multiplier = attr[CONTROL_SCALING].i ? 1 / (double)state[CONTROL_SCALE] : leader ? leader[CONTROL_MULTIPLIER]
      : 1;
  double length = norm ? *(float *)capl_tensor_data(norm) * multiplier : 0;
  bool finite = isfinite(length), skip = !finite || (leader && leader[CONTROL_SKIP] != 0);
  if (finite && attr[CONTROL_MAX_NORM].f > 0) multiplier *= fmin(1, attr[CONTROL_MAX_NORM].f / (length + 1e-6));
  if (attr[CONTROL_SCALING].i) next_scale(state, attr, finite);
  state[CONTROL_NORM] = (float)length;
  state[CONTROL_MULTIPLIER] = skip ? 0 : (float)multiplier;
  state[CONTROL_SKIP] = skip;
  state[skip ? CONTROL_SKIPPED : CONTROL_STEPS]++;
  return CAPL_OK;
}

/* ---- rows ---- */

bool cpu_supports_steps(const capl_call *call, int n_groups)
{
  bool control = call->n_in % n_groups != 0;
  if (control && call->in[call->n_in - 1]->dtype != CAPL_F32) return false;
  int n = call->n_in / n_groups;
  for (int i = 0; i < n; i++)
    for (int g = 0; g < n_groups; g++) {
      const capl_tensor *first = call->in[i], *t = call->in[g * n + i];
      if (!t) continue;
      if (!first || t->dtype != CAPL_F32 || !capl_tensor_is_dense(t) || !capl_tensor_same_layout(t, first))
        return false;
    }
  return true;
}

static bool supports_sgd(const capl_call *call)
{
  return cpu_supports_steps(call, 3);
}

static bool supports_adam(const capl_call *call)
{
  return cpu_supports_steps(call, 4);
}

static bool supports_five(const capl_call *call)
{
  return cpu_supports_steps(call, 5);
}

static bool supports_control(const capl_call *call)
{
  return call->in[0]->dtype == CAPL_F32 && (!call_input(call, 2) || call->in[2]->dtype == CAPL_F32);
}

static bool supports_norm(const capl_call *call)
{
  return cpu_supports_steps(call, 1);
}

const capl_kernel cpu_optim_kernels[] = {
  {CAPL_OP_sgd_step, cpu_sgd_step, supports_sgd, CPU_F32},
  {CAPL_OP_adam_step, cpu_adam_step, supports_adam, CPU_F32},
  {CAPL_OP_amsgrad_step, cpu_amsgrad_step, supports_five, CPU_F32},
  {CAPL_OP_rmsprop_step, cpu_rmsprop_step, supports_five, CPU_F32},
  {CAPL_OP_grad_norm, cpu_grad_norm, supports_norm, CPU_F32},
  {CAPL_OP_step_control, cpu_step_control, supports_control, CPU_F32},
  {0},
};
