/* layer_norm.c -- reference kernels of layer norm, RMS norm and group norm.
**
** All three normalize sets of elements: a row of the last dims, or the channels of a group with all their pixels. A set
** is walked in logical order; element i has weight and bias number i / spread + first.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/ref/ref.h"
#include "ops/attrs.h"

/* Where the elements are, in logical row-major order: set s, element i is number s * count + i. */
typedef struct {
  int64_t sets, count;
  int64_t spread;  /* neighbouring elements that share a parameter */
  int64_t period;  /* sets after which the parameters begin again; 1: every set has all of them */
} norm_sets;

static norm_sets rows_of(const capl_tensor *x, const capl_attr *shape)
{
  norm_sets n = {.sets = 1, .count = 1, .spread = 1, .period = 1};
  for (int d = 0; d < x->ndim; d++) *(d < x->ndim - shape->n ? &n.sets : &n.count) *= x->size[d];
  return n;
}

static norm_sets groups_of(const capl_tensor *x, int64_t groups)
{
  norm_sets n = {.sets = x->size[0] * groups, .count = x->size[1] / groups, .spread = 1, .period = groups};
  for (int d = 2; d < x->ndim; d++) n.spread *= x->size[d];
  n.count *= n.spread;
  return n;
}

/* Offset of the element with logical number i. */
static int64_t at(const capl_tensor *t, int64_t i)
{
  int64_t offset = 0;
  for (int d = t->ndim - 1; d >= 0; d--) {
    offset += i % t->size[d] * t->stride[d];
    i /= t->size[d];
  }
  return offset;
}

static double get(const capl_tensor *t, int64_t i) { return ref_get(t, at(t, i)); }

static void set(capl_tensor *t, int64_t i, double v) { ref_set(t, at(t, i), v); }

/* Number of the parameter of element i of set s. */
static int64_t parameter_at(const norm_sets *n, int64_t s, int64_t i)
{
  return s % n->period * (n->count / n->spread) + i / n->spread;
}

/* The mean of x - center, or of its square. */
static double mean_of(const norm_sets *n, const capl_tensor *x, int64_t s, double center, bool square)
{
  double sum = 0;
  for (int64_t i = 0; i < n->count; i++) {
    double v = get(x, s * n->count + i) - center;
    sum += square ? v * v : v;
  }
  return n->count ? sum / (double)n->count : 0;
}

/* mean == NULL: RMS norm. */
static capl_status forward(const capl_call *call, const norm_sets *n, double eps, capl_tensor *mean,
                           capl_tensor *invstd)
{
  const capl_tensor *x = call->in[0], *weight = call_input(call, 1), *bias = mean ? call_input(call, 2) : NULL;
  for (int64_t s = 0; s < n->sets; s++) {
    double center = mean ? mean_of(n, x, s, 0, false) : 0;
    double factor = 1 / sqrt(mean_of(n, x, s, center, true) + eps);
    if (mean) set(mean, s, center);
    set(invstd, s, factor);
    for (int64_t i = 0; i < n->count; i++) {
      int64_t e = s * n->count + i, p = parameter_at(n, s, i);
      double xhat = (get(x, e) - center) * factor;
      set(call->out[0], e, xhat * (weight ? get(weight, p) : 1) + (bias ? get(bias, p) : 0));
    }
  }
  return CAPL_OK;
}

/* What the backward pass knows. mean, dbias: NULL for RMS norm. */
typedef struct {
  norm_sets n;
  const capl_tensor *x, *dy, *weight, *mean, *invstd;
  capl_tensor *dx, *dweight, *dbias;
} norm_grad;

static double xhat_of(const norm_grad *a, int64_t s, int64_t i)
{
  return (get(a->x, s * a->n.count + i) - (a->mean ? get(a->mean, s) : 0)) * get(a->invstd, s);
}

/* dy * weight of element i of set s */
static double scaled_dy(const norm_grad *a, int64_t s, int64_t i)
{
  return get(a->dy, s * a->n.count + i) * (a->weight ? get(a->weight, parameter_at(&a->n, s, i)) : 1);
}

/* With g = dy * weight: dx = invstd * (g - mean of g - xhat * mean of g * xhat); RMS norm has no mean of g. */
static void set_dx(const norm_grad *a, int64_t s)
{
  double sum = 0, sum_xhat = 0;
  for (int64_t i = 0; i < a->n.count; i++) {
    sum += scaled_dy(a, s, i);
    sum_xhat += scaled_dy(a, s, i) * xhat_of(a, s, i);
  }
  for (int64_t i = 0; i < a->n.count; i++) {
    double common = ((a->mean ? sum : 0) + xhat_of(a, s, i) * sum_xhat) / (double)a->n.count;
    set(a->dx, s * a->n.count + i, get(a->invstd, s) * (scaled_dy(a, s, i) - common));
  }
}

/* Parameter p's gradients: over all sets that have it, and the elements that share it. */
static void set_dparameter(const norm_grad *a, int64_t p)
{
  int64_t in_set = a->n.count / a->n.spread;
  double dweight = 0, dbias = 0;
  for (int64_t s = p / in_set; s < a->n.sets; s += a->n.period)
    for (int64_t i = p % in_set * a->n.spread; i < (p % in_set + 1) * a->n.spread; i++) {
      double d = get(a->dy, s * a->n.count + i);
      dweight += d * xhat_of(a, s, i);
      dbias += d;
    }
  set(a->dweight, p, dweight);
  if (a->dbias) set(a->dbias, p, dbias);
}

static capl_status backward(const norm_grad *a)
{
  for (int64_t s = 0; s < a->n.sets; s++) set_dx(a, s);
  for (int64_t p = 0; p < capl_tensor_numel(a->dweight); p++) {
    if (a->n.count > 0) set_dparameter(a, p);
    else set(a->dweight, p, 0), set(a->dbias ? a->dbias : a->dweight, p, 0);
  }
  return CAPL_OK;
}

/* ---- kernels ---------------------------------------------------------------------------------- */

static capl_status ref_layer_norm(const capl_call *call)
{
  norm_sets n = rows_of(call->in[0], &call->attr[LAYER_NORM_SHAPE]);
  return forward(call, &n, call->attr[LAYER_NORM_EPS].f, call->out[1], call->out[2]);
}

static capl_status ref_rms_norm(const capl_call *call)
{
  norm_sets n = rows_of(call->in[0], &call->attr[LAYER_NORM_SHAPE]);
  return forward(call, &n, call->attr[LAYER_NORM_EPS].f, NULL, call->out[1]);
}

static capl_status ref_group_norm(const capl_call *call)
{
  norm_sets n = groups_of(call->in[0], call->attr[GROUP_NORM_GROUPS].i);
  return forward(call, &n, call->attr[GROUP_NORM_EPS].f, call->out[1], call->out[2]);
}

static norm_grad grad_of(const capl_call *call, norm_sets n)
{
  return (norm_grad){n, call->in[0], call->in[1], call->in[2], call->in[3], call->in[4], call->out[0], call->out[1],
                     call->out[2]};
}

static capl_status ref_layer_norm_grad(const capl_call *call)
{
  norm_grad a = grad_of(call, rows_of(call->in[0], &call->attr[LAYER_NORM_SHAPE]));
  return backward(&a);
}

static capl_status ref_group_norm_grad(const capl_call *call)
{
  norm_grad a = grad_of(call, groups_of(call->in[0], call->attr[GROUP_NORM_GROUPS].i));
  return backward(&a);
}

static capl_status ref_rms_norm_grad(const capl_call *call)
{
  norm_grad a = {rows_of(call->in[0], &call->attr[LAYER_NORM_SHAPE]), call->in[0], call->in[1], call->in[2], NULL,
                 call->in[3], call->out[0], call->out[1], NULL};
  return backward(&a);
}

#define ROW(op) {CAPL_OP_##op, ref_##op, ref_supports_any, 0}
const capl_kernel ref_layer_norm_kernels[] = {
  ROW(layer_norm), ROW(layer_norm_grad), ROW(rms_norm), ROW(rms_norm_grad), ROW(group_norm), ROW(group_norm_grad), {0},
};
