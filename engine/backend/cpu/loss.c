/* loss.c -- cross-entropy and binary cross-entropy, forward and backward.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"

enum { MEAN, SUM, NONE };

/* ---- cross-entropy: label_smoothing, ignore_index, reduction ---- */

enum { SMOOTHING, IGNORE, CE_REDUCTION };

typedef struct {
  int64_t rows, classes;
  const float *logits;
  const capl_tensor *labels;
  double smoothing;
  int64_t ignore, reduction;
  double counted; /* rows that are not ignored */
  const float *dloss;
  float *out; /* losses per row, or dlogits */
  double partial[CPU_MAX_THREADS];
} ce_job;

static int64_t label_of(const ce_job *job, int64_t row)
{
  const void *p = capl_tensor_data(job->labels);
  return job->labels->dtype == CAPL_I64 ? ((const int64_t *)p)[row] : ((const int32_t *)p)[row];
}

static capl_status ce_init(ce_job *job, const capl_call *call)
{
  const capl_tensor *logits = call->in[0];
  *job = (ce_job){.rows = logits->size[0], .classes = logits->size[1], .logits = capl_tensor_data(logits),
                  .labels = call->in[1], .smoothing = call->attr[SMOOTHING].f, .ignore = call->attr[IGNORE].i,
                  .reduction = call->attr[CE_REDUCTION].i, .out = capl_tensor_data(call->out[0])};
  for (int64_t r = 0; r < job->rows; r++) {
    int64_t label = label_of(job, r);
    if (label == job->ignore) continue;
    if (label < 0 || label >= job->classes)
      return CAPL_FAIL(CAPL_EVALUE, "labels[%" PRId64 "] is %" PRId64 ", classes are 0 to %" PRId64, r, label,
                       job->classes - 1);
    job->counted++;
  }
  return CAPL_OK;
}

/* log_softmax of one row into y; the loss is minus its value at the label, blended with its mean. */
static double row_loss(const ce_job *job, int64_t r, float *y)
{
  int64_t label = label_of(job, r), n = job->classes;
  if (label == job->ignore) return 0;
  cpu_now->softmax_row(CAPL_F32, n, job->logits + r * n, y, true);
  double loss = -(1 - job->smoothing) * y[label];
  if (job->smoothing > 0) loss -= job->smoothing * cpu_now->sum(CAPL_F32, n, y) / (double)n;
  return loss;
}

enum { STACK_CLASSES = 1024 };

static void ce_part(void *arg, int64_t begin, int64_t end, int thread)
{
  ce_job *job = arg;
  float row[STACK_CLASSES];
  double sum = 0;
  for (int64_t r = begin; r < end; r++) {
    double loss = row_loss(job, r, row);
    if (job->reduction == NONE) job->out[r] = (float)loss;
    sum += loss;
  }
  job->partial[thread] = sum;
}

static int64_t ce_grain(const ce_job *job)
{
  return CPU_GRAIN / (8 * job->classes) + 1;
}

static capl_status cpu_cross_entropy(const capl_call *call)
{
  ce_job job;
  CAPL_TRY(ce_init(&job, call));
  cpu_parallel(job.rows, ce_grain(&job), ce_part, &job);
  if (job.reduction == NONE) return CAPL_OK;
  double sum = 0;
  for (int t = 0; t < cpu_threads(); t++) sum += job.partial[t];
  job.out[0] = (float)(job.reduction == MEAN ? sum / job.counted : sum);
  return CAPL_OK;
}

static void ce_grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const ce_job *job = arg;
  int64_t n = job->classes;
  float even = (float)(job->smoothing / (double)n), whole = (float)(1 - job->smoothing);
  for (int64_t r = begin; r < end; r++) {
    int64_t label = label_of(job, r);
    float *dx = job->out + r * n, scale = job->dloss[job->reduction == NONE ? r : 0];
    if (job->reduction == MEAN) scale = (float)(scale / job->counted);
    if (label == job->ignore) {
      memset(dx, 0, (size_t)n * sizeof *dx);
      continue;
    }
    cpu_now->softmax_row(CAPL_F32, n, job->logits + r * n, dx, false);
    dx[label] -= whole;
    cpu_now->unary(VEC_AFFINE, CAPL_F32, n, dx, dx, scale, -even * scale);
  }
}

static capl_status cpu_cross_entropy_grad(const capl_call *call)
{
  ce_job job;
  CAPL_TRY(ce_init(&job, call));
  job.dloss = capl_tensor_data(call->in[2]);
  cpu_parallel(job.rows, ce_grain(&job), ce_grad_part, &job);
  return CAPL_OK;
}

static bool supports_ce(const capl_call *call)
{
  const capl_tensor *logits = call->in[0];
  return logits->dtype == CAPL_F32 && logits->size[1] <= STACK_CLASSES && capl_tensor_numel(logits) > 0 &&
         (call->n_in < 3 || call->in[2]->dtype == CAPL_F32);
}

/* ---- binary cross-entropy with logits: reduction ---- */

typedef struct {
  capl_dtype real;
  int64_t n;
  const void *x;
  const float *target;
  void *out;
  float scale;
  bool each; /* one loss per element */
  const float *dloss; /* then: their gradients */
  double partial[CPU_MAX_THREADS];
} bce_job;

static void bce_part(void *arg, int64_t begin, int64_t end, int thread)
{
  bce_job *job = arg;
  const void *x = cpu_at(job->x, job->real, begin);
  if (job->each) cpu_now->bce_each(job->real, end - begin, x, job->target + begin, (float *)job->out + begin);
  else job->partial[thread] = cpu_now->bce_sum(job->real, end - begin, x, job->target + begin);
}

static void bce_grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const bce_job *job = arg;
  cpu_now->bce_grad(job->real, end - begin, cpu_at(job->x, job->real, begin), job->target + begin, job->scale,
                    job->dloss ? job->dloss + begin : NULL, cpu_at(job->out, job->real, begin));
}

static bce_job bce_job_of(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  return (bce_job){.real = x->dtype, .n = capl_tensor_numel(x), .x = capl_tensor_data(x),
                   .target = capl_tensor_data(call->in[1]), .out = capl_tensor_data(call->out[0]), .scale = 1};
}

static capl_status cpu_bce_with_logits(const capl_call *call)
{
  bce_job job = bce_job_of(call);
  int64_t reduction = call->attr[0].i;
  job.each = reduction == NONE;
  cpu_parallel(job.n, CPU_GRAIN / 8, bce_part, &job);
  if (job.each) return CAPL_OK;
  double sum = 0;
  for (int t = 0; t < cpu_threads(); t++) sum += job.partial[t];
  *(float *)job.out = (float)(reduction == MEAN ? sum / (double)job.n : sum);
  return CAPL_OK;
}

static capl_status cpu_bce_with_logits_grad(const capl_call *call)
{
  bce_job job = bce_job_of(call);
  const float *dloss = capl_tensor_data(call->in[2]);
  if (capl_tensor_same_shape(call->in[2], call->in[0])) job.dloss = dloss;
  else job.scale = *dloss;
  if (call->attr[0].i == MEAN) job.scale = (float)(job.scale / (double)job.n);
  cpu_parallel(job.n, CPU_GRAIN / 4, bce_grad_part, &job);
  return CAPL_OK;
}

/* Inputs are dense and alike (LAYOUT_DENSE). */
static bool supports_bce(const capl_call *call)
{
  return cpu_real(call->in[0]) && call->in[1]->dtype == CAPL_F32 && capl_tensor_numel(call->in[0]) > 0;
}

/* dloss is one number, or one per element. */
static bool supports_bce_grad(const capl_call *call)
{
  const capl_tensor *dloss = call->in[2];
  return supports_bce(call) && dloss->dtype == CAPL_F32 &&
         (capl_tensor_numel(dloss) == 1 || capl_tensor_same_shape(dloss, call->in[0]));
}

const capl_kernel cpu_loss_kernels[] = {
  {CAPL_OP_cross_entropy, cpu_cross_entropy, supports_ce, CPU_F32},
  {CAPL_OP_cross_entropy_grad, cpu_cross_entropy_grad, supports_ce, CPU_F32},
  {CAPL_OP_bce_with_logits, cpu_bce_with_logits, supports_bce, CPU_F32},
  {CAPL_OP_bce_with_logits_grad, cpu_bce_with_logits_grad, supports_bce_grad, CPU_F32},
  {0},
};
