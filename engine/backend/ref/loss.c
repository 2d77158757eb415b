/* loss.c -- ref kernels of the losses.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/ref/ref.h"
#include "base/count.h"

enum { MEAN, SUM, NONE };

/* Writes element i of the loss for reduction none, else adds to *sum. */
static void take_loss(capl_tensor *loss, int64_t reduction, int64_t at, double v, double *sum)
{
  if (reduction == NONE) ref_set(loss, at, v);
  else *sum += v;
}

/* Writes the reduced loss; count: what a mean divides by. */
static void finish_loss(capl_tensor *loss, int64_t reduction, double sum, double count)
{
  if (reduction != NONE) ref_set(loss, 0, reduction == MEAN ? sum / count : sum);
}

/* cross_entropy; attributes in order: label_smoothing, ignore_index, reduction, gamma */

typedef struct {
  const capl_tensor *logits, *labels, *weight;
  double smoothing, gamma;
  int64_t ignore, reduction, n, classes;
} ce;

/* weight: the place of that input. */
static ce ce_of(const capl_call *call, int weight)
{
  const capl_tensor *logits = call->in[0];
  return (ce){
    .logits = logits,
    .labels = call->in[1],
    .weight = weight < call->n_in ? call->in[weight] : NULL,
    .gamma = call->attr[AT(cross_entropy, gamma)].f,
    .smoothing = call->attr[AT(cross_entropy, label_smoothing)].f,
    .ignore = call->attr[AT(cross_entropy, ignore_index)].i,
    .reduction = call->attr[AT(cross_entropy, reduction)].i,
    .n = logits->size[0],
    .classes = logits->size[1],
  };
}

static double logit(const ce *c, int64_t n, int64_t k)
{
  return ref_get(c->logits, n * c->logits->stride[0] + k * c->logits->stride[1]);
}

static int64_t label(const ce *c, int64_t n)
{
  return ref_get_int(c->labels, n * c->labels->stride[0]);
}

static double weight_of(const ce *c, int64_t k)
{
  return c->weight ? ref_get(c->weight, k * c->weight->stride[0]) : 1;
}

/* The weights of the rows that are not ignored. */
static capl_status check_labels(const ce *c, double *counted)
{
  *counted = 0;
  for (int64_t n = 0; n < c->n; n++) {
    int64_t y = label(c, n);
    if (y == c->ignore) continue;
    if (y < 0 || y >= c->classes)
      return CAPL_FAIL(CAPL_EVALUE, "labels[%lld] is %lld, classes are 0 to %lld", (long long)capl_counted(n),
                       (long long)y, (long long)c->classes - 1);
    *counted += weight_of(c, y);
  }
  return CAPL_OK;
}

static double log_sum_exp(const ce *c, int64_t n)
{
  double max = -INFINITY, sum = 0;
  for (int64_t k = 0; k < c->classes; k++) max = fmax(max, logit(c, n, k));
  for (int64_t k = 0; k < c->classes; k++) sum += exp(logit(c, n, k) - max);
  return max + log(sum);
}

/* Probability that the smoothed label of row n gives to class k, times the weight of k. */
static double target_of(const ce *c, int64_t n, int64_t k)
{
  double target = c->smoothing / (double)c->classes;
  return weight_of(c, k) * (label(c, n) == k ? target + 1 - c->smoothing : target);
}

/* (1 - p)^gamma, where the label's probability p costs nll = -log(p). */
static double focus(const ce *c, double nll)
{
  return c->gamma == 0 ? 1 : pow(-expm1(-nll), c->gamma);
}

/* The slope of focus(nll) * nll by nll. */
static double focus_slope(const ce *c, double nll)
{
  double rest = -expm1(-nll);
  if (c->gamma == 0) return 1;
  return rest > 0 ? focus(c, nll) * (1 + c->gamma * exp(-nll) * nll / rest) : 0;
}

static double ce_row(const ce *c, int64_t n)
{
  double all = log_sum_exp(c, n), loss = 0;
  for (int64_t k = 0; k < c->classes; k++) {
    double target = target_of(c, n, k);
    /* a logit of -inf off the target costs nothing */
    if (target != 0) loss += target * (all - logit(c, n, k)) * focus(c, all - logit(c, n, k));
  }
  return loss;
}

static capl_status ref_cross_entropy(const capl_call *call)
{
  ce c = ce_of(call, 2);
  double sum = 0, counted;
  CAPL_TRY(check_labels(&c, &counted));
  for (int64_t n = 0; n < c.n; n++)
    take_loss(call->out[0], c.reduction, n, label(&c, n) == c.ignore ? 0 : ce_row(&c, n), &sum);
  finish_loss(call->out[0], c.reduction, sum, counted);
  return CAPL_OK;
}

static void ce_grad_row(const ce *c, int64_t n, double dloss, capl_tensor *dx)
{
  bool ignored = label(c, n) == c->ignore;
  double all = ignored ? 0 : log_sum_exp(c, n), whole = 0;
  if (!ignored) dloss *= focus_slope(c, all - logit(c, n, label(c, n)));
  for (int64_t k = 0; !ignored && k < c->classes; k++) whole += target_of(c, n, k);
  for (int64_t k = 0; k < c->classes; k++) {
    double slope = ignored ? 0 : (exp(logit(c, n, k) - all) * whole - target_of(c, n, k)) * dloss;
    ref_set(dx, n * dx->stride[0] + k * dx->stride[1], slope);
  }
}

static capl_status ref_cross_entropy_grad(const capl_call *call)
{
  ce c = ce_of(call, 3);
  const capl_tensor *dloss = call->in[2];
  double counted;
  CAPL_TRY(check_labels(&c, &counted));
  for (int64_t n = 0; n < c.n; n++) {
    double d = ref_get(dloss, c.reduction == NONE ? n * dloss->stride[0] : 0);
    ce_grad_row(&c, n, c.reduction == MEAN ? d / counted : d, call->out[0]);
  }
  return CAPL_OK;
}

/* bce_with_logits, multilabel_soft_margin, mse; attribute: reduction */

/* -(t log s + (1 - t) log(1 - s)) with s = sigmoid(x), without overflow */
static double bce(double x, double target)
{
  return fmax(x, 0) - x * target + log1p(exp(-fabs(x)));
}

static double squared_error(double x, double target)
{
  return (x - target) * (x - target);
}

static double sigmoid(double x)
{
  return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static capl_status pointwise_loss(const capl_call *call, double (*f)(double x, double target))
{
  const capl_tensor *x = call->in[0], *target = call->in[1];
  int64_t reduction = call->attr[LOSS_REDUCTION].i;
  double sum = 0;
  capl_tensor *loss = call->out[0];
  ref_walk w;
  for (REF_WALK(&w, x, target, loss); w.more; ref_walk_next(&w))
    take_loss(loss, reduction, w.at[2], f(ref_get(x, w.at[0]), ref_get(target, w.at[1])), &sum);
  finish_loss(loss, reduction, sum, (double)capl_tensor_numel(x));
  return CAPL_OK;
}

static capl_status ref_bce_with_logits(const capl_call *call)
{
  return pointwise_loss(call, bce);
}

static capl_status ref_mse(const capl_call *call)
{
  return pointwise_loss(call, squared_error);
}

static capl_status ref_bce_with_logits_grad(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *target = call->in[1], *dloss = call->in[2];
  double share = call->attr[LOSS_REDUCTION].i == MEAN ? 1 / (double)capl_tensor_numel(x) : 1;
  ref_walk w;
  for (REF_WALK(&w, call->out[0], x, target, dloss); w.more; ref_walk_next(&w)) {
    double slope = sigmoid(ref_get(x, w.at[1])) - ref_get(target, w.at[2]);
    ref_set(call->out[0], w.at[0], slope * share * ref_get(dloss, w.at[3]));
  }
  return CAPL_OK;
}

/* smooth_l1, sigmoid_focal; attributes: reduction, then p and q */

typedef double (*element_fn)(double x, double target, double p, double q);

static double smooth_l1(double x, double target, double beta, double q)
{
  double d = fabs(x - target);
  (void)q;
  return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
}

static double smooth_l1_slope(double x, double target, double beta, double q)
{
  double d = x - target;
  (void)q;
  return fabs(d) < beta ? d / beta : d > 0 ? 1 : d < 0 ? -1 : d;
}

/* The weight of target times (1 - p)^gamma; *rest: 1 - p, written so that nothing is lost where it is small. */
static double focal_weight(double x, double target, double alpha, double gamma, double *rest)
{
  *rest = sigmoid(x) * (1 - target) + sigmoid(-x) * target;
  return (alpha < 0 ? 1 : alpha * target + (1 - alpha) * (1 - target)) * (gamma == 0 ? 1 : pow(*rest, gamma));
}

static double focal(double x, double target, double alpha, double gamma)
{
  double rest;
  return focal_weight(x, target, alpha, gamma, &rest) * bce(x, target);
}

static double focal_slope(double x, double target, double alpha, double gamma)
{
  double rest, weight = focal_weight(x, target, alpha, gamma, &rest), p = sigmoid(x), q = sigmoid(-x);
  double turn = rest > 0 ? p * q * (1 - 2 * target) / rest : 0;
  return weight * (p * (1 - target) - q * target + gamma * turn * bce(x, target));
}

static capl_status element_loss(const capl_call *call, element_fn f)
{
  const capl_tensor *x = call->in[0], *target = call->in[1];
  int64_t reduction = call->attr[LOSS_REDUCTION].i;
  double sum = 0, first = call->attr[LOSS_FIRST].f, second = call->attr[LOSS_SECOND].f;
  capl_tensor *loss = call->out[0];
  ref_walk w;
  for (REF_WALK(&w, x, target, loss); w.more; ref_walk_next(&w))
    take_loss(loss, reduction, w.at[2], f(ref_get(x, w.at[0]), ref_get(target, w.at[1]), first, second), &sum);
  finish_loss(loss, reduction, sum, (double)capl_tensor_numel(x));
  return CAPL_OK;
}

static capl_status element_grad(const capl_call *call, element_fn slope)
{
  const capl_tensor *x = call->in[0], *target = call->in[1], *dloss = call->in[2];
  double share = call->attr[LOSS_REDUCTION].i == MEAN ? 1 / (double)capl_tensor_numel(x) : 1;
  ref_walk w;
  for (REF_WALK(&w, call->out[0], x, target, dloss); w.more; ref_walk_next(&w))
    ref_set(call->out[0], w.at[0], share * ref_get(dloss, w.at[3]) *
            slope(ref_get(x, w.at[1]), ref_get(target, w.at[2]), call->attr[LOSS_FIRST].f, call->attr[LOSS_SECOND].f));
  return CAPL_OK;
}

static capl_status ref_smooth_l1(const capl_call *call) { return element_loss(call, smooth_l1); }
static capl_status ref_smooth_l1_grad(const capl_call *call) { return element_grad(call, smooth_l1_slope); }
static capl_status ref_sigmoid_focal(const capl_call *call) { return element_loss(call, focal); }
static capl_status ref_sigmoid_focal_grad(const capl_call *call) { return element_grad(call, focal_slope); }

static capl_status ref_multilabel_soft_margin(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *target = call->in[1];
  int64_t n_rows = x->size[0], classes = x->size[1];
  double sum = 0;
  for (int64_t n = 0; n < n_rows; n++) {
    double row = 0;
    for (int64_t k = 0; k < classes; k++)
      row += bce(ref_get(x, n * x->stride[0] + k * x->stride[1]),
                 ref_get(target, n * target->stride[0] + k * target->stride[1]));
    take_loss(call->out[0], call->attr[LOSS_REDUCTION].i, n, row / (double)classes, &sum);
  }
  finish_loss(call->out[0], call->attr[LOSS_REDUCTION].i, sum, (double)n_rows);
  return CAPL_OK;
}

const capl_kernel ref_loss_kernels[] = {
  {CAPL_OP_cross_entropy, ref_cross_entropy, ref_supports_any, 0},
  {CAPL_OP_cross_entropy_grad, ref_cross_entropy_grad, ref_supports_any, 0},
  {CAPL_OP_bce_with_logits, ref_bce_with_logits, ref_supports_any, 0},
  {CAPL_OP_bce_with_logits_grad, ref_bce_with_logits_grad, ref_supports_any, 0},
  {CAPL_OP_smooth_l1, ref_smooth_l1, ref_supports_any, 0},
  {CAPL_OP_smooth_l1_grad, ref_smooth_l1_grad, ref_supports_any, 0},
  {CAPL_OP_sigmoid_focal, ref_sigmoid_focal, ref_supports_any, 0},
  {CAPL_OP_sigmoid_focal_grad, ref_sigmoid_focal_grad, ref_supports_any, 0},
  {CAPL_OP_multilabel_soft_margin, ref_multilabel_soft_margin, ref_supports_any, 0},
  {CAPL_OP_mse, ref_mse, ref_supports_any, 0},
  {0},
};
