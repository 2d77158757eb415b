/* ctc.c -- ref kernels of the CTC loss: the forward-backward recursion in double precision.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/ref/ref.h"
#include "ops/ctc.h"

/* Sample n: steps time steps, and the states of its text: a blank before, between and behind its labels. */
typedef struct {
  const ctc_problem *p;
  int64_t n, steps, states;
} sample;

static sample sample_of(const ctc_problem *p, int64_t n)
{
  return (sample){p, n, ctc_input_length(p, n), 2 * ctc_target_length(p, n) + 1};
}

static int64_t class_of(const sample *m, int64_t s)
{
  return s % 2 ? ctc_label(m->p, m->n, s / 2) : m->p->blank;
}

static double log_prob(const sample *m, int64_t t, int64_t s)
{
  const capl_tensor *x = m->p->log_probs;
  return ref_get(x, t * x->stride[0] + m->n * x->stride[1] + class_of(m, s) * x->stride[2]);
}

static double log_add(double a, double b)
{
  if (a == -INFINITY) return b;
  if (b == -INFINITY) return a;
  double max = fmax(a, b);
  return max + log(exp(a - max) + exp(b - max));
}

/* The blank between two different labels may be passed over. */
static bool may_skip_to(const sample *m, int64_t s)
{
  return s % 2 && s >= 2 && class_of(m, s) != class_of(m, s - 2);
}

/* alpha[t][s]: log of all paths that are at state s at time t, t's own probability included. */
static void forward(const sample *m, double *alpha)
{
  for (int64_t t = 0; t < m->steps; t++) {
    double *now = alpha + t * m->states, *before = now - m->states;
    for (int64_t s = 0; s < m->states; s++) {
      double sum = -INFINITY;
      if (t == 0) sum = s < 2 ? 0 : -INFINITY;
      else {
        sum = before[s];
        if (s >= 1) sum = log_add(sum, before[s - 1]);
        if (may_skip_to(m, s)) sum = log_add(sum, before[s - 2]);
      }
      now[s] = sum + log_prob(m, t, s);
    }
  }
}

/* beta[t][s]: log of all paths from state s at time t to the end, t's own probability left out. */
static void backward(const sample *m, double *beta)
{
  for (int64_t t = m->steps - 1; t >= 0; t--) {
    double *now = beta + t * m->states, *after = now + m->states;
    for (int64_t s = 0; s < m->states; s++) {
      double sum = t == m->steps - 1 && s >= m->states - 2 ? 0 : -INFINITY;
      if (t < m->steps - 1) {
        sum = after[s] + log_prob(m, t + 1, s);
        if (s + 1 < m->states) sum = log_add(sum, after[s + 1] + log_prob(m, t + 1, s + 1));
        if (s + 2 < m->states && may_skip_to(m, s + 2)) sum = log_add(sum, after[s + 2] + log_prob(m, t + 1, s + 2));
      }
      now[s] = sum;
    }
  }
}

/* Minus the log probability of the text. No time steps spell the empty text. */
static double loss_of(const sample *m, const double *alpha)
{
  if (m->steps == 0) return m->states == 1 ? 0 : INFINITY;
  const double *last = alpha + (m->steps - 1) * m->states + m->states - 1;
  return -(m->states == 1 ? *last : log_add(last[0], last[-1]));
}

static void keep_alpha(const sample *m, const double *alpha, capl_tensor *out)
{
  for (int64_t t = 0; t < m->p->T; t++) {
    double max = -INFINITY;
    for (int64_t s = 0; s < m->states && t < m->steps; s++) max = fmax(max, alpha[t * m->states + s]);
    for (int64_t s = 0; s < m->p->states; s++) {
      bool inside = t < m->steps && s < m->states && max > -INFINITY;
      ref_set(out, m->n * out->stride[0] + t * out->stride[1] + s * out->stride[2],
              inside ? alpha[t * m->states + s] - max : -INFINITY);
    }
  }
}

static double run_sample(const capl_call *call, const sample *m, double *alpha)
{
  forward(m, alpha);
  keep_alpha(m, alpha, call->out[CTC_ALPHA]);
  double loss = loss_of(m, alpha);
  bool infeasible = loss == INFINITY;
  ref_set_int(call->out[CTC_INFEASIBLE], m->n * call->out[CTC_INFEASIBLE]->stride[0],
              infeasible ? ctc_reason(m->p, m->n) : CTC_FEASIBLE);
  return ctc_counted(m->p, m->n, loss, infeasible);
}

static capl_status table_get(const capl_call *call, const ctc_problem *p, int tables, double **out)
{
  return capl_scratch_get(call->device, (size_t)(tables * p->T * p->states + 1) * sizeof(double), (void **)out);
}

static capl_status ref_ctc_loss(const capl_call *call)
{
  ctc_problem p = ctc_of(call);
  capl_tensor *out = call->out[CTC_LOSS];
  double sum = 0, *alpha;
  CAPL_TRY(ctc_check_values(&p));
  CAPL_TRY(table_get(call, &p, 1, &alpha));
  for (int64_t n = 0; n < p.N; n++) {
    sample m = sample_of(&p, n);
    double loss = run_sample(call, &m, alpha);
    if (p.reduction == CTC_NONE) ref_set(out, n * out->stride[0], loss);
    sum += loss;
  }
  if (p.reduction != CTC_NONE) ref_set(out, 0, p.reduction == CTC_MEAN ? sum / (double)p.N : sum);
  capl_scratch_put(call->device, alpha);
  return CAPL_OK;
}

/* The share of all paths that are at class k at time t. */
static double share_of(const sample *m, int64_t t, int64_t k, const double *alpha, const double *beta, double loss)
{
  double share = 0;
  for (int64_t s = 0; s < m->states; s++)
    if (class_of(m, s) == k) share += exp(alpha[t * m->states + s] + beta[t * m->states + s] + loss);
  return share;
}

static void grad_sample(const sample *m, double dloss, bool infeasible, double *tables, capl_tensor *dx)
{
  const ctc_problem *p = m->p;
  double *alpha = tables, *beta = tables + p->T * p->states;
  forward(m, alpha);
  backward(m, beta);
  double loss = loss_of(m, alpha);
  for (int64_t t = 0; t < p->T; t++)
    for (int64_t k = 0; k < p->K; k++) {
      bool counts = t < m->steps && !infeasible;
      ref_set(dx, t * dx->stride[0] + m->n * dx->stride[1] + k * dx->stride[2],
              counts ? -dloss * share_of(m, t, k, alpha, beta, loss) : 0);
    }
}

static capl_status ref_ctc_loss_grad(const capl_call *call)
{
  ctc_problem p = ctc_of(call);
  const capl_tensor *dloss = call->in[CTC_DLOSS], *infeasible = call->in[CTC_SAVED_INFEASIBLE];
  double *tables;
  CAPL_TRY(ctc_check_values(&p));
  CAPL_TRY(table_get(call, &p, 2, &tables));
  for (int64_t n = 0; n < p.N; n++) {
    sample m = sample_of(&p, n);
    double d = ref_get(dloss, p.reduction == CTC_NONE ? n * dloss->stride[0] : 0);
    grad_sample(&m, d * ctc_share(&p, n), ref_get_int(infeasible, n * infeasible->stride[0]) != 0, tables,
                call->out[0]);
  }
  capl_scratch_put(call->device, tables);
  return CAPL_OK;
}

const capl_kernel ref_ctc_kernels[] = {
  {CAPL_OP_ctc_loss, ref_ctc_loss, ref_supports_any, 0},
  {CAPL_OP_ctc_loss_grad, ref_ctc_loss_grad, ref_supports_any, 0},
  {0},
};
