/* loss.c -- cross-entropy, binary cross-entropy and other losses of elements, forward and backward.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/count.h"

enum { MEAN, SUM, NONE };

/* ---- cross-entropy: label_smoothing, ignore_index, reduction, gamma ---- */


typedef struct {
  int64_t rows, classes;
  const float *logits;
  const capl_tensor *labels;
  const float *weight; /* of classes, or NULL */
  double all_weights;  /* their sum */
  double smoothing, gamma;
  int64_t ignore, reduction;
  double counted; /* rows that are not ignored, by the weights of their labels */
  const float *dloss;
  float *out; /* losses per row, or dlogits */
  double partial[CPU_MAX_THREADS];
} ce_job;

static int64_t label_of(const ce_job *job, int64_t row)
{
  const void *p = capl_tensor_data(job->labels);
  return job->labels->dtype == CAPL_I64 ? ((const int64_t *)p)[row] : ((const int32_t *)p)[row];
}

static double weight_of(const ce_job *job, int64_t k)
{
  return job->weight ? (double)job->weight[k] : 1;
}

/* weight: the place of that input. */
static capl_status ce_init(ce_job *job, const capl_call *call, int weight)
{
  const struct attrs_cross_entropy *a = ATTRS(call, cross_entropy);
  const capl_tensor *logits = call->in[0];
  *job = (ce_job){.rows = logits->size[0], .classes = logits->size[1], .logits = capl_tensor_data(logits),
                  .labels = call->in[1], .gamma = a->gamma.f, .smoothing = a->label_smoothing.f,
                  .ignore = a->ignore_index.i, .reduction = a->reduction.i, .out = capl_tensor_data(call->out[0])};
  if (weight < call->n_in && call->in[weight]) job->weight = capl_tensor_data(call->in[weight]);
  for (int64_t k = 0; k < job->classes; k++) job->all_weights += weight_of(job, k);
  for (int64_t r = 0; r < job->rows; r++) {
    int64_t label = label_of(job, r);
    if (label == job->ignore) continue;
    if (label < 0 || label >= job->classes)
      return CAPL_FAIL(CAPL_EVALUE, "labels[%" PRId64 "] is %" PRId64 ", classes are 0 to %" PRId64, capl_counted(r),
                       label, job->classes - 1);
    job->counted += weight_of(job, label);
  }
  return CAPL_OK;
}

static vec_rows ce_rows(const ce_job *job, int64_t count)
{
  return (vec_rows){CAPL_F32, false, count, job->classes, job->classes, 1};
}

/* What smoothing spreads over the classes: the sum of their log-probabilities times their weights. */
static double spread(const ce_job *job, const float *x, double log_sum)
{
  double sum = 0;
  if (!job->weight) return cpu_now->sum(CAPL_F32, job->classes, x) - (double)job->classes * log_sum;
  for (int64_t k = 0; k < job->classes; k++) sum += (double)job->weight[k] * ((double)x[k] - log_sum);
  return sum;
}

/* Minus the log-probability of the label, blended with the mean of all. */
static double row_loss(const ce_job *job, int64_t r, double log_sum)
{
  int64_t label = label_of(job, r), n = job->classes;
  const float *x = job->logits + r * n;
  if (label == job->ignore) return 0;
  double log_p = (double)x[label] - log_sum, loss = -(1 - job->smoothing) * weight_of(job, label) * log_p;
  if (job->smoothing > 0) loss -= job->smoothing * spread(job, x, log_sum) / (double)n;
  if (job->gamma > 0) loss *= pow(-expm1(log_p), job->gamma);
  return loss;
}

enum { ROWS = 64 }; /* at once */

static void ce_part(void *arg, int64_t begin, int64_t end, int thread)
{
  ce_job *job = arg;
  double sum = 0, log_sums[ROWS];
  for (int64_t r = begin; r < end; r++) {
    vec_rows rows = ce_rows(job, end - r < ROWS ? end - r : ROWS);
    if ((r - begin) % ROWS == 0) cpu_now->log_sums(&rows, job->logits + r * job->classes, log_sums);
    double loss = row_loss(job, r, log_sums[(r - begin) % ROWS]);
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
  CAPL_TRY(ce_init(&job, call, 2));
  cpu_parallel(job.rows, ce_grain(&job), ce_part, &job);
  if (job.reduction == NONE) return CAPL_OK;
  double sum = 0;
  for (int t = 0; t < cpu_threads(); t++) sum += job.partial[t];
  job.out[0] = (float)(job.reduction == MEAN ? sum / job.counted : sum);
  return CAPL_OK;
}

/* The slope of (1 - p)^gamma * nll by nll = -log(p). */
static double focus_slope(const ce_job *job, double p)
{
  double nll = -log(p), rest = 1 - p;
  if (p <= 0) return 1; /* nll is infinite, p * nll is 0 */
  return rest > 0 ? pow(rest, job->gamma) * (1 + job->gamma * p * nll / rest) : 0;
}

/* dx: the row's softmax -> (dx * sum of targets - target) * scale, a target being its share times its class's
** weight. */
static void row_slope(const ce_job *job, int64_t label, double scale, float *dx)
{
  int64_t n = job->classes;
  double even = job->smoothing / (double)n, whole = 1 - job->smoothing;
  if (job->gamma > 0) scale *= focus_slope(job, (double)dx[label]);
  if (!job->weight) {
    float factor = (float)scale, shift = (float)(-even * scale);
    dx[label] -= (float)whole;
    if (n > VEC_FEW) cpu_now->unary(VEC_affine, CAPL_F32, n, dx, dx, factor, shift);
    else
      for (int64_t k = 0; k < n; k++) dx[k] = dx[k] * factor + shift;
    return;
  }
  double sum = whole * weight_of(job, label) + even * job->all_weights;
  for (int64_t k = 0; k < n; k++)
    dx[k] = (float)((dx[k] * sum - (double)job->weight[k] * (k == label ? even + whole : even)) * scale);
}

/* Rows [begin, end) of dx, which lie in the cache. */
static void ce_grad_rows(const ce_job *job, int64_t begin, int64_t end)
{
  int64_t n = job->classes;
  vec_rows rows = ce_rows(job, end - begin);
  cpu_now->softmax(&rows, job->logits + begin * n, job->out + begin * n);
  for (int64_t r = begin; r < end; r++) {
    int64_t label = label_of(job, r);
    float *dx = job->out + r * n;
    double scale = job->dloss[job->reduction == NONE ? r : 0];
    if (job->reduction == MEAN) scale /= job->counted;
    if (label == job->ignore) memset(dx, 0, (size_t)n * sizeof *dx);
    else row_slope(job, label, scale, dx);
  }
}

static void ce_grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const ce_job *job = arg;
  int64_t some = job->classes > VEC_FEW ? 1 : ROWS;
  for (int64_t r = begin; r < end; r += some) ce_grad_rows(job, r, end - r < some ? end : r + some);
}

static capl_status cpu_cross_entropy_grad(const capl_call *call)
{
  ce_job job;
  CAPL_TRY(ce_init(&job, call, 3));
  job.dloss = capl_tensor_data(call->in[2]);
  cpu_parallel(job.rows, ce_grain(&job), ce_grad_part, &job);
  return CAPL_OK;
}

/* weight, or dloss and weight */
static bool is_f32_or_none(const capl_call *call, int i)
{
  return i >= call->n_in || !call->in[i] || call->in[i]->dtype == CAPL_F32;
}

static bool supports_ce(const capl_call *call)
{
  const capl_tensor *logits = call->in[0];
  return logits->dtype == CAPL_F32 && capl_tensor_numel(logits) > 0 && is_f32_or_none(call, 2) &&
         is_f32_or_none(call, 3);
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
  int64_t reduction = call->attr[LOSS_REDUCTION].i;
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
  if (call->attr[LOSS_REDUCTION].i == MEAN) job.scale = (float)(job.scale / (double)job.n);
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

/* ---- smooth L1, sigmoid focal: reduction, then the loss's numbers ---- */

typedef struct {
  bce_job at;
  vec_loss loss;
} element_job;

static void element_part(void *arg, int64_t begin, int64_t end, int thread)
{
  element_job *job = arg;
  const void *x = cpu_at(job->at.x, job->at.real, begin);
  const float *target = job->at.target + begin;
  if (job->at.each) cpu_now->loss_each(&job->loss, end - begin, x, target, (float *)job->at.out + begin);
  else job->at.partial[thread] = cpu_now->loss_sum(&job->loss, end - begin, x, target);
}

static void element_grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const element_job *job = arg;
  const bce_job *at = &job->at;
  cpu_now->loss_grad(&job->loss, end - begin, cpu_at(at->x, at->real, begin), at->target + begin, at->scale,
                     at->dloss ? at->dloss + begin : NULL, cpu_at(at->out, at->real, begin));
}

static element_job element_job_of(const capl_call *call, vec_loss_kind kind)
{
  return (element_job){.at = bce_job_of(call),
                       .loss = {kind, call->in[0]->dtype, (float)call->attr[LOSS_FIRST].f,
                                (float)call->attr[LOSS_SECOND].f}};
}

static capl_status element_loss(const capl_call *call, vec_loss_kind kind)
{
  element_job job = element_job_of(call, kind);
  int64_t reduction = call->attr[LOSS_REDUCTION].i;
  job.at.each = reduction == NONE;
  cpu_parallel(job.at.n, CPU_GRAIN / 4, element_part, &job);
  if (job.at.each) return CAPL_OK;
  double sum = 0;
  for (int t = 0; t < cpu_threads(); t++) sum += job.at.partial[t];
  *(float *)job.at.out = (float)(reduction == MEAN ? sum / (double)job.at.n : sum);
  return CAPL_OK;
}

static capl_status element_grad(const capl_call *call, vec_loss_kind kind)
{
  element_job job = element_job_of(call, kind);
  const float *dloss = capl_tensor_data(call->in[2]);
  if (capl_tensor_same_shape(call->in[2], call->in[0])) job.at.dloss = dloss;
  else job.at.scale = *dloss;
  if (call->attr[LOSS_REDUCTION].i == MEAN) job.at.scale = (float)(job.at.scale / (double)job.at.n);
  cpu_parallel(job.at.n, CPU_GRAIN / 4, element_grad_part, &job);
  return CAPL_OK;
}

#define ELEMENT_LOSS(op, kind)                                                                    \
  static capl_status cpu_##op(const capl_call *call) { return element_loss(call, kind); }         \
  static capl_status cpu_##op##_grad(const capl_call *call) { return element_grad(call, kind); }
ELEMENT_LOSS(smooth_l1, VEC_SMOOTH_L1)
ELEMENT_LOSS(sigmoid_focal, VEC_SIGMOID_FOCAL)

const capl_kernel cpu_loss_kernels[] = {
  {CAPL_OP_smooth_l1, cpu_smooth_l1, supports_bce, CPU_F32},
  {CAPL_OP_smooth_l1_grad, cpu_smooth_l1_grad, supports_bce_grad, CPU_F32},
  {CAPL_OP_sigmoid_focal, cpu_sigmoid_focal, supports_bce, CPU_F32},
  {CAPL_OP_sigmoid_focal_grad, cpu_sigmoid_focal_grad, supports_bce_grad, CPU_F32},
  {CAPL_OP_cross_entropy, cpu_cross_entropy, supports_ce, CPU_F32},
  {CAPL_OP_cross_entropy_grad, cpu_cross_entropy_grad, supports_ce, CPU_F32},
  {CAPL_OP_bce_with_logits, cpu_bce_with_logits, supports_bce, CPU_F32},
  {CAPL_OP_bce_with_logits_grad, cpu_bce_with_logits_grad, supports_bce_grad, CPU_F32},
  {0},
};
