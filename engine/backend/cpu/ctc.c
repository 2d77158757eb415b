/* ctc.c -- the CTC loss and its gradient, one sample per task.
**
** Both recursions are the same one, a step of which is vectorized over the states of the text: the gradient runs it
** over the text and the time steps reversed. After each step the largest value is taken off, so that numbers stay small
** however long the text is; the loss is the sum of what was taken off, in double precision.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/float16.h"
#include "ops/ctc.h"

enum { PAD = 16 }; /* the longest vector, and more than the two states in front that a step reads */

typedef struct {
  ctc_problem p;
  const capl_call *call;
  int64_t width; /* states of the longest text, in whole vectors */
  int64_t thread_floats;
  float *scratch;
  double *losses; /* per sample, as they count */
} ctc_job;

/* A thread's memory while it works on a sample. Rows have width values, states first, then -infinity. */
typedef struct {
  const ctc_problem *p;
  int64_t n, steps, labels, states, width;
  int64_t *label;     /* in the order of the recursion */
  float *skip;        /* 0 where a state may be entered from the one before the last, else -infinity */
  float *e;           /* log probability of each state's class */
  float *row[2];      /* of the recursion, two readable values of -infinity in front */
  float *path;        /* the row before e was added */
  float *class_share; /* K values, zero between samples */
} ctc_sample;

static int64_t floats_of_labels(const ctc_problem *p)
{
  return 2 * (p->S + PAD);
}

static void job_sizes(ctc_job *job)
{
  const ctc_problem *p = &job->p;
  job->width = (p->states + PAD - 1) / PAD * PAD;
  job->thread_floats = floats_of_labels(p) + 5 * (job->width + PAD) + p->K + PAD;
  job->thread_floats = (job->thread_floats + PAD - 1) / PAD * PAD;
}

static void fill(float *p, int64_t n, float v)
{
  for (int64_t i = 0; i < n; i++) p[i] = v;
}

/* A thread's memory, laid out and filled once per task. */
static ctc_sample sample_room(const ctc_job *job, int thread)
{
  float *room = job->scratch + thread * job->thread_floats;
  ctc_sample m = {.p = &job->p, .label = (int64_t *)(void *)room};
  int64_t stride = job->width + PAD;
  room += floats_of_labels(&job->p);
  m.skip = room;
  m.e = room + stride;
  m.path = room + 2 * stride;
  m.row[0] = room + 3 * stride + PAD;
  m.row[1] = room + 4 * stride + PAD;
  fill(room, 5 * stride, -INFINITY);
  m.class_share = room + 5 * stride;
  fill(m.class_share, job->p.K, 0);
  return m;
}

/* reversed: the recursion runs over the text from its end. */
static void sample_start(ctc_sample *m, int64_t n, bool reversed)
{
  const ctc_problem *p = m->p;
  int64_t lanes = cpu_now->lanes, before = m->width;
  m->n = n;
  m->steps = ctc_input_length(p, n);
  m->labels = ctc_target_length(p, n);
  m->states = 2 * m->labels + 1;
  m->width = (m->states + lanes - 1) / lanes * lanes;
  for (int64_t i = 0; i < m->labels; i++)
    m->label[i] = ctc_label(p, n, reversed ? m->labels - 1 - i : i);
  int64_t used = before > m->width ? before : m->width;
  fill(m->skip, used, -INFINITY);
  for (int64_t i = 1; i < m->labels; i++)
    if (m->label[i] != m->label[i - 1]) m->skip[2 * i + 1] = 0;
  fill(m->e, used, -INFINITY);
}

/* The row before the first step: step 0 may be in the first state or in the second. */
static void start_row(const ctc_sample *m, float *row)
{
  fill(row, m->width, -INFINITY);
  row[0] = 0;
}

static void load_e(const ctc_sample *m, int64_t t)
{
  const capl_tensor *x = m->p->log_probs;
  const void *p = cpu_at(capl_tensor_data(x), x->dtype, t * x->stride[0] + m->n * x->stride[1]);
  int64_t step = x->stride[2];
  if (x->dtype == CAPL_F32) {
    const float *f = p;
    for (int64_t i = 0; i < m->labels; i++) m->e[2 * i + 1] = f[m->label[i] * step];
  } else {
    const uint16_t *h = p;
    for (int64_t i = 0; i < m->labels; i++) m->e[2 * i + 1] = capl_bf16_to_float(h[m->label[i] * step]);
  }
  float blank = x->dtype == CAPL_F32 ? ((const float *)p)[m->p->blank * step]
                                     : capl_bf16_to_float(((const uint16_t *)p)[m->p->blank * step]);
  for (int64_t i = 0; i <= m->labels; i++) m->e[2 * i] = blank;
}

/* One step at time t; k counts steps of the recursion. less: the largest value of the row before. Returns that of the
** new row, 0 if it has none: all -infinity, or NaN. */
static float step(const ctc_sample *m, int64_t k, int64_t t, float less)
{
  load_e(m, t);
  float most = cpu_now->ctc_step(m->width, m->row[(k + 1) & 1], m->skip, m->e, less, m->path, m->row[k & 1]);
  return most > -INFINITY ? most : 0;
}

/* ---- the loss ---- */

static void keep_alpha(const ctc_sample *m, float less, const float *row, float *alpha)
{
  for (int64_t s = 0; s < m->states; s++) alpha[s] = row[s] - less;
  fill(alpha + m->states, m->p->states - m->states, -INFINITY);
}

/* Minus the log probability of both ends of the text: behind its last label, or at it. */
static double loss_of_row(const ctc_sample *m, const float *row, double taken_off)
{
  double last = row[m->states - 1], label = m->states > 1 ? row[m->states - 2] : -INFINITY;
  double most = last > label ? last : label;
  if (most == -INFINITY && last == label) return INFINITY;
  return -(taken_off + most + log(exp(last - most) + exp(label - most)));
}

static double sample_loss(ctc_sample *m, float *alpha)
{
  double taken_off = 0;
  float less = 0;
  start_row(m, m->row[1]);
  for (int64_t t = 0; t < m->steps; t++, alpha += m->p->states) {
    less = step(m, t, t, less);
    taken_off += less;
    keep_alpha(m, less, m->row[t & 1], alpha);
  }
  fill(alpha, (m->p->T - m->steps) * m->p->states, -INFINITY);
  if (m->steps == 0) return m->labels ? INFINITY : 0;
  return loss_of_row(m, m->row[(m->steps - 1) & 1], taken_off - less);
}

static void loss_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const ctc_job *job = arg;
  const ctc_problem *p = &job->p;
  ctc_sample m = sample_room(job, thread);
  float *alpha = capl_tensor_data(job->call->out[CTC_ALPHA]);
  uint8_t *infeasible = capl_tensor_data(job->call->out[CTC_INFEASIBLE]);
  for (int64_t n = begin; n < end; n++) {
    sample_start(&m, n, false);
    double loss = sample_loss(&m, alpha + n * p->T * p->states);
    infeasible[n] = (uint8_t)(loss == INFINITY ? ctc_reason(p, n) : CTC_FEASIBLE);
    job->losses[n] = ctc_counted(p, n, loss, infeasible[n] != CTC_FEASIBLE);
  }
}

static void reduce(const ctc_job *job, float *out)
{
  double sum = 0;
  for (int64_t n = 0; n < job->p.N; n++) {
    sum += job->losses[n];
    if (job->p.reduction == CTC_NONE) out[n] = (float)job->losses[n];
  }
  if (job->p.reduction != CTC_NONE) *out = (float)(job->p.reduction == CTC_MEAN ? sum / (double)job->p.N : sum);
}

/* Checks the values, gets the memory and runs the task over all samples. The caller gives job->losses back. */
static capl_status run(ctc_job *job, const capl_call *call, cpu_task task)
{
  *job = (ctc_job){.p = ctc_of(call), .call = call};
  CAPL_TRY(ctc_check_values(&job->p));
  job_sizes(job);
  size_t losses = (size_t)(job->p.N + PAD) / PAD * PAD * sizeof(double);
  size_t rooms = (size_t)(cpu_threads() * job->thread_floats) * sizeof(float);
  CAPL_TRY(capl_scratch_get(call->device, losses + rooms, (void **)&job->losses));
  job->scratch = (float *)(void *)((char *)job->losses + losses);
  /* a state costs some ten nanoseconds */
  cpu_parallel(job->p.N, CPU_GRAIN / (8 * job->p.T * job->p.states) + 1, task, job);
  return CAPL_OK;
}

static capl_status cpu_ctc_loss(const capl_call *call)
{
  ctc_job job;
  CAPL_TRY(run(&job, call, loss_part));
  reduce(&job, capl_tensor_data(call->out[CTC_LOSS]));
  capl_scratch_put(call->device, job.losses);
  return CAPL_OK;
}

/* ---- the gradient ---- */

static void put(capl_dtype real, void *p, int64_t i, float v)
{
  if (real == CAPL_F32) ((float *)p)[i] = v;
  else ((uint16_t *)p)[i] = capl_bf16_from_float(v);
}

static void zero_step(const ctc_problem *p, int64_t n, int64_t t, const capl_tensor *dx)
{
  void *at = cpu_at(capl_tensor_data(dx), dx->dtype, t * dx->stride[0] + n * dx->stride[1]);
  if (dx->stride[2] == 1) memset(at, 0, (size_t)p->K * capl_dtype_size(dx->dtype));
  else
    for (int64_t k = 0; k < p->K; k++) put(dx->dtype, at, k * dx->stride[2], 0);
}

/* path becomes the share of all paths that are in each state, but for the factor that makes them sum to 1, which is the
** result. alpha counts from the text's beginning, path from its end; e is free to hold it, as it is loaded anew. */
static float share_of_states(const ctc_sample *m, const float *alpha)
{
  for (int64_t s = 0; s < m->states; s++) m->e[s] = alpha[m->states - 1 - s];
  return 1 / cpu_now->ctc_shares(m->width, m->e, m->path);
}

/* Classes that the text has more than once get the sum of their states. */
static void put_shares(const ctc_sample *m, int64_t t, float scale, const capl_tensor *dx)
{
  void *at = cpu_at(capl_tensor_data(dx), dx->dtype, t * dx->stride[0] + m->n * dx->stride[1]);
  int64_t step = dx->stride[2];
  float blank = m->path[0];
  for (int64_t i = 0; i < m->labels; i++) {
    m->class_share[m->label[i]] += m->path[2 * i + 1];
    blank += m->path[2 * i + 2];
  }
  put(dx->dtype, at, m->p->blank * step, blank * scale);
  for (int64_t i = 0; i < m->labels; i++) put(dx->dtype, at, m->label[i] * step, m->class_share[m->label[i]] * scale);
  for (int64_t i = 0; i < m->labels; i++) m->class_share[m->label[i]] = 0;
}

static void sample_grad(ctc_sample *m, float dloss, const float *alpha, const capl_tensor *dx)
{
  float less = 0;
  start_row(m, m->row[1]);
  for (int64_t k = 0; k < m->steps; k++) {
    int64_t t = m->steps - 1 - k;
    less = step(m, k, t, less);
    put_shares(m, t, -dloss * share_of_states(m, alpha + t * m->p->states), dx);
  }
}

static void grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const ctc_job *job = arg;
  const ctc_problem *p = &job->p;
  const capl_tensor *infeasible = job->call->in[CTC_SAVED_INFEASIBLE], *dloss = job->call->in[CTC_DLOSS];
  const float *alpha = capl_tensor_data(job->call->in[CTC_SAVED_ALPHA]), *d = capl_tensor_data(dloss);
  ctc_sample m = sample_room(job, thread);
  for (int64_t n = begin; n < end; n++) {
    for (int64_t t = 0; t < p->T; t++) zero_step(p, n, t, job->call->out[0]);
    if (((const uint8_t *)capl_tensor_data(infeasible))[n * infeasible->stride[0]] != CTC_FEASIBLE) continue;
    sample_start(&m, n, true);
    double each = d[p->reduction == CTC_NONE ? n * dloss->stride[0] : 0];
    sample_grad(&m, (float)(each * ctc_share(p, n)), alpha + n * p->T * p->states, job->call->out[0]);
  }
}

static capl_status cpu_ctc_loss_grad(const capl_call *call)
{
  ctc_job job;
  CAPL_TRY(run(&job, call, grad_part));
  capl_scratch_put(call->device, job.losses);
  return CAPL_OK;
}

static bool supports_ctc(const capl_call *call)
{
  return cpu_real(call->in[CTC_LOG_PROBS]) && capl_tensor_numel(call->in[CTC_LOG_PROBS]) > 0;
}

static bool supports_ctc_grad(const capl_call *call)
{
  return supports_ctc(call) && call->in[CTC_DLOSS]->dtype == CAPL_F32 && capl_tensor_is_row(call->in[CTC_SAVED_ALPHA]);
}

const capl_kernel cpu_ctc_kernels[] = {
  {CAPL_OP_ctc_loss, cpu_ctc_loss, supports_ctc, CPU_REAL},
  {CAPL_OP_ctc_loss_grad, cpu_ctc_loss_grad, supports_ctc_grad, CPU_REAL},
  {0},
};
