/* optim.c -- optimizer steps over all tensors in few launches, the norm of all gradients, and the step control.
**
** Parameters fill a table until it is full; each full table is one launch. A parameter whose members are not all f32
** without gaps in one memory order steps through copies that are. Numbers that a control holds stay on the GPU.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/optim.h"
#include "ops/attrs.h"
#include "ops/control.h"

/* ---- tables ---------------------------------------------------------------------------------- */

/* Adds a parameter; at: its members by group; low: its shadow or NULL. Returns whether the table is now full. */
static bool table_add(optim_table *table, int64_t size, float *const *at, int n_groups, const capl_tensor *low)
{
  int i = table->count++;
  table->first_block[i + 1] = table->first_block[i] + (int)((size + OPTIM_CHUNK - 1) / OPTIM_CHUNK);
  table->size[i] = size;
  memset(table->at[i], 0, sizeof table->at[i]);
  memcpy(table->at[i], at, (size_t)n_groups * sizeof *at);
  table->shadow[i] = low ? capl_tensor_data(low) : NULL;
  table->shadow_f16[i] = low && low->dtype == CAPL_F16;
  return table->count == OPTIM_TENSORS;
}

static int table_blocks(const optim_table *table)
{
  return table->first_block[table->count];
}

static bool fits(const capl_tensor *t, const capl_tensor *first)
{
  return t->dtype == CAPL_F32 && capl_tensor_is_dense(t) && capl_tensor_same_layout(t, first);
}

/* t in f32, row-major, without gaps. */
static capl_status plain_copy(const capl_tensor *t, capl_tensor **out)
{
  CAPL_TRY(capl_tensor_new(t->device, CAPL_F32, t->ndim, t->size, CAPL_ROW, out));
  return cu_copy_tensor(*out, t);
}

/* ---- steps ----------------------------------------------------------------------------------- */

typedef struct {
  const capl_call *call;
  int n, n_groups; /* tensors per group */
  int kernel;
  optim_step_args args;
} step_job;

static capl_tensor *member(const step_job *job, int group, int i)
{
  return job->call->in[group * job->n + i];
}

static capl_status flush_step(step_job *job)
{
  capl_status status = cu_launch(cu_optim_table[job->kernel], table_blocks(&job->args.table), OPTIM_THREADS, 0,
                                 &job->args);
  job->args.table.count = 0;
  return status;
}

static capl_status add_param(step_job *job, int64_t size, capl_tensor *const *members, const capl_tensor *low)
{
  float *at[OPTIM_GROUPS] = {NULL};
  for (int g = 0; g < job->n_groups; g++)
    if (members[g]) at[g] = capl_tensor_data(members[g]);
  return table_add(&job->args.table, size, at, job->n_groups, low) ? flush_step(job) : CAPL_OK;
}

static bool param_fits(const step_job *job, int i)
{
  for (int g = 0; g < job->n_groups; g++)
    if (member(job, g, i) && !fits(member(job, g, i), member(job, OPTIM_PARAM, i))) return false;
  return true;
}

/* The step of copies[], and back into the members. */
static capl_status step_copies(step_job *job, int i, capl_tensor **copies)
{
  for (int g = 0; g < job->n_groups; g++)
    if (member(job, g, i)) CAPL_TRY(plain_copy(member(job, g, i), &copies[g]));
  capl_tensor low;
  CAPL_TRY(add_param(job, capl_tensor_numel(copies[OPTIM_PARAM]), copies, NULL));
  CAPL_TRY(flush_step(job));
  if (capl_shadow_of(member(job, OPTIM_PARAM, i), &low)) CAPL_TRY(cu_copy_tensor(&low, copies[OPTIM_PARAM]));
  for (int g = 0; g < job->n_groups; g++)
    if (copies[g] && g != OPTIM_GRAD) CAPL_TRY(cu_copy_tensor(member(job, g, i), copies[g]));
  return CAPL_OK;
}

static capl_status step_by_copies(step_job *job, int i)
{
  capl_tensor *copies[OPTIM_GROUPS] = {NULL};
  capl_status status = step_copies(job, i, copies);
  for (int g = 0; g < OPTIM_GROUPS; g++) capl_tensor_unref(copies[g]);
  return status;
}

static capl_status step_param(step_job *job, int i)
{
  capl_tensor *members[OPTIM_GROUPS] = {NULL};
  int64_t size = capl_tensor_numel(member(job, OPTIM_PARAM, i));
  if (!member(job, OPTIM_GRAD, i) || size == 0) return CAPL_OK;
  if (!param_fits(job, i)) return step_by_copies(job, i);
  capl_tensor low;
  for (int g = 0; g < job->n_groups; g++) members[g] = member(job, g, i);
  return add_param(job, size, members, capl_shadow_of(members[OPTIM_PARAM], &low) ? &low : NULL);
}

static capl_status step_all(step_job *job)
{
  for (int i = 0; i < job->n; i++) CAPL_TRY(step_param(job, i));
  return flush_step(job);
}

/* The numbers of this step into device memory, from the control. shared: grad_scale and what follows it. */
static capl_status numbers_on_device(const step_job *job, const optim_sources *sources, const capl_attr *shared,
                                     optim_numbers *out)
{
  const capl_call *call = job->call;
  optim_numbers_args args = {.control = capl_tensor_data(call->in[call->n_in - 1]),
                             .out = out,
                             .sources = *sources,
                             .group = (int)shared[STEP_GROUP].i,
                             .behind = shared[STEP_BEHIND].i};
  return cu_launch(cu_optim_table[OPTIM_NUMBERS], 1, 32, 0, &args);
}

/* sources: as the attributes say them. scale: position of grad_scale. */
static capl_status run_step(step_job *job, const capl_call *call, int n_groups, int scale, optim_sources sources)
{
  job->call = call;
  job->n_groups = n_groups;
  job->n = call->n_in / n_groups;
  sources.lr = call->attr[STEP_LR].f;
  sources.grad_scale = call->attr[scale].f;
  job->args.numbers = optim_numbers_of(&sources);
  if (call->n_in % n_groups == 0) return step_all(job);
  void *live;
  CAPL_TRY(capl_scratch_get(call->device, sizeof(optim_numbers), &live));
  job->args.live = live;
  capl_status status = numbers_on_device(job, &sources, call->attr + scale, live);
  if (status == CAPL_OK) status = step_all(job);
  capl_scratch_put(call->device, live);
  return status;
}

static capl_status adam_by(const capl_call *call, int kernel, int n_groups)
{
  const struct attrs_adam_step *a = ATTRS(call, adam_step);
  bool decoupled = a->decoupled.i;
  step_job job = {.kernel = kernel};
  job.args.rule = (optim_rule){.beta1 = (float)a->beta1.f, .beta2 = (float)a->beta2.f, .eps = (float)a->eps.f,
                               .decay = decoupled ? 0 : (float)a->weight_decay.f};
  return run_step(&job, call, n_groups, AT(adam_step, grad_scale),
                  (optim_sources){.step = (double)a->step.i, .beta1 = a->beta1.f, .beta2 = a->beta2.f,
                                  .decoupled_decay = decoupled ? a->weight_decay.f : 0});
}

static capl_status cuda_adam_step(const capl_call *call)
{
  return adam_by(call, OPTIM_ADAM, 4);
}

static capl_status cuda_amsgrad_step(const capl_call *call)
{
  return adam_by(call, OPTIM_AMSGRAD, 5);
}

static capl_status cuda_sgd_step(const capl_call *call)
{
  const struct attrs_sgd_step *a = ATTRS(call, sgd_step);
  step_job job = {.kernel = OPTIM_SGD};
  job.args.rule = (optim_rule){.momentum = (float)a->momentum.f, .dampening = (float)a->dampening.f,
                               .nesterov = (int)a->nesterov.i, .decay = (float)a->weight_decay.f};
  return run_step(&job, call, 3, AT(sgd_step, grad_scale), (optim_sources){.step = a->first_step.i ? 1 : 2});
}

static capl_status cuda_rmsprop_step(const capl_call *call)
{
  const struct attrs_rmsprop_step *a = ATTRS(call, rmsprop_step);
  step_job job = {.kernel = OPTIM_RMSPROP};
  job.args.rule = (optim_rule){.alpha = (float)a->alpha.f, .eps = (float)a->eps.f, .decay = (float)a->weight_decay.f,
                               .momentum = (float)a->momentum.f, .centered = (int)a->centered.i};
  return run_step(&job, call, 5, AT(rmsprop_step, grad_scale), (optim_sources){.step = 2});
}

/* ---- gradients made f32, weights made 16-bit ------------------------------------------------- */

/* What waits for its launch: gradients of one type at a time, and weights. */
typedef struct {
  optim_copy_args widened, narrowed;
  cu_type type; /* of the gradients */
} copy_job;

static capl_status flush_copies(int kernel, optim_copy_args *args)
{
  capl_status status = cu_launch(cu_optim_table[kernel], table_blocks(&args->table), OPTIM_THREADS, 0, args);
  args->table.count = 0;
  return status;
}

static capl_status flush_widened(copy_job *job)
{
  return flush_copies(OPTIM_WIDEN + (int)job->type, &job->widened);
}

/* src NULL: zeros, which go with any type. */
static capl_status add_widened(copy_job *job, const capl_tensor *dst, const capl_tensor *src)
{
  int64_t size = capl_tensor_numel(dst);
  float *at[2] = {capl_tensor_data(dst), src ? capl_tensor_data(src) : NULL};
  if (size == 0) return CAPL_OK;
  if (src && cu_type_of(src->dtype) != job->type) {
    CAPL_TRY(flush_widened(job));
    job->type = cu_type_of(src->dtype);
  }
  return table_add(&job->widened.table, size, at, 2, NULL) ? flush_widened(job) : CAPL_OK;
}

static capl_status add_narrowed(copy_job *job, const capl_tensor *dst, const capl_tensor *src)
{
  int64_t size = capl_tensor_numel(dst);
  float *at = capl_tensor_data(src);
  bool full = size > 0 && table_add(&job->narrowed.table, size, &at, 1, dst);
  return full ? flush_copies(OPTIM_NARROW, &job->narrowed) : CAPL_OK;
}

static bool can_widen(const capl_tensor *dst, const capl_tensor *src)
{
  if (dst->dtype != CAPL_F32 || !capl_tensor_is_dense(dst)) return false;
  return !src || (cu_type_of(src->dtype) != CU_TYPES && capl_tensor_same_layout(src, dst));
}

static bool can_narrow(const capl_tensor *dst, const capl_tensor *src)
{
  return src && capl_dtype_is_16_bit(dst->dtype) && fits(src, dst);
}

static capl_status add_copy(copy_job *job, capl_tensor *dst, const capl_tensor *src)
{
  if (can_widen(dst, src)) return add_widened(job, dst, src);
  if (can_narrow(dst, src)) return add_narrowed(job, dst, src);
  return src ? cu_copy_tensor(dst, src) : cu_fill_tensor(dst, 0);
}

capl_status cu_copy_many(capl_tensor *const *dst, capl_tensor *const *src, int n)
{
  copy_job job = {.type = CU_BF16};
  for (int i = 0; i < n; i++) CAPL_TRY(add_copy(&job, dst[i], src[i]));
  CAPL_TRY(flush_widened(&job));
  return flush_copies(OPTIM_NARROW, &job.narrowed);
}

/* ---- norm of all gradients ------------------------------------------------------------------- */

typedef struct {
  optim_squares_args args;
  double *next; /* where the next launch leaves its partial sums */
} norm_job;

static capl_status flush_squares(norm_job *job)
{
  int blocks = table_blocks(&job->args.table);
  job->args.partial = job->next;
  CAPL_TRY(cu_launch(cu_optim_table[OPTIM_SQUARES], blocks, OPTIM_THREADS, 0, &job->args));
  job->next += blocks;
  job->args.table.count = 0;
  return CAPL_OK;
}

static capl_status add_grad(norm_job *job, const capl_tensor *grad)
{
  float *at = capl_tensor_data(grad);
  int64_t size = capl_tensor_numel(grad);
  return size > 0 && table_add(&job->args.table, size, &at, 1, NULL) ? flush_squares(job) : CAPL_OK;
}

static capl_status add_grad_by_copy(norm_job *job, const capl_tensor *grad)
{
  capl_tensor *copy = NULL;
  capl_status status = plain_copy(grad, &copy);
  if (status == CAPL_OK) status = add_grad(job, copy);
  if (status == CAPL_OK) status = flush_squares(job); /* before the copy's memory is somebody else's */
  capl_tensor_unref(copy);
  return status;
}

static int64_t chunks_of(const capl_call *call)
{
  int64_t chunks = 0;
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i]) chunks += (capl_tensor_numel(call->in[i]) + OPTIM_CHUNK - 1) / OPTIM_CHUNK;
  return chunks;
}

static capl_status norm_by(const capl_call *call, double *partial)
{
  norm_job job = {.next = partial};
  for (int i = 0; i < call->n_in; i++) {
    capl_tensor *grad = call->in[i];
    if (grad) CAPL_TRY(fits(grad, grad) ? add_grad(&job, grad) : add_grad_by_copy(&job, grad));
  }
  CAPL_TRY(flush_squares(&job));
  optim_norm_args args = {.partial = partial, .count = job.next - partial, .norm = capl_tensor_data(call->out[0])};
  return cu_launch(cu_optim_table[OPTIM_NORM], 1, OPTIM_THREADS, 0, &args);
}

static capl_status cuda_grad_norm(const capl_call *call)
{
  void *partial;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)chunks_of(call) * sizeof(double), &partial));
  capl_status status = norm_by(call, partial);
  capl_scratch_put(call->device, partial);
  return status;
}

/* ---- step_control ---------------------------------------------------------------------------- */

static capl_status cuda_step_control(const capl_call *call)
{
  const capl_attr *a = call->attr;
  const capl_tensor *norm = call_input(call, 1), *common = call_input(call, 2);
  optim_control_args args = {.state = capl_tensor_data(call->in[0]),
                             .norm = norm ? capl_tensor_data(norm) : NULL,
                             .common = common ? capl_tensor_data(common) : NULL,
                             .max_norm = a[CONTROL_MAX_NORM].f,
                             .growth_factor = (float)a[CONTROL_GROWTH].f,
                             .backoff_factor = (float)a[CONTROL_BACKOFF].f,
                             .growth_interval = (float)a[CONTROL_INTERVAL].i,
                             .scaling = (int)a[CONTROL_SCALING].i};
  return cu_launch(cu_optim_table[OPTIM_CONTROL], 1, 32, 0, &args);
}

const capl_kernel cu_optim_kernels[] = {
  {CAPL_OP_sgd_step, cuda_sgd_step, NULL, CU_REAL},
  {CAPL_OP_adam_step, cuda_adam_step, NULL, CU_REAL},
  {CAPL_OP_amsgrad_step, cuda_amsgrad_step, NULL, CU_REAL},
  {CAPL_OP_rmsprop_step, cuda_rmsprop_step, NULL, CU_REAL},
  {CAPL_OP_grad_norm, cuda_grad_norm, NULL, CU_REAL},
  {CAPL_OP_step_control, cuda_step_control, NULL, CAPL_BIT(CAPL_F32)},
  {0},
};
