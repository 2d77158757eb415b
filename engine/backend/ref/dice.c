/* dice.c -- ref kernels of the areas that dice losses are made of.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <math.h>

#include "backend/ref/ref.h"
#include "base/count.h"
#include "ops/attrs.h"

typedef struct {
  const capl_tensor *x, *labels;
  bool softmax;
  int64_t ignore, images, places, classes;
} regions;

static regions regions_of(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  return (regions){.x = x, .labels = call->in[1], .softmax = call->attr[REGION_ACTIVATION].i == 0,
                   .ignore = call->attr[REGION_IGNORE].i, .images = x->size[0], .places = x->size[1],
                   .classes = x->size[2]};
}

static int64_t label(const regions *r, int64_t n, int64_t i)
{
  return ref_get_int(r->labels, n * r->labels->stride[0] + i * r->labels->stride[1]);
}

static double score(const regions *r, int64_t n, int64_t i, int64_t k)
{
  return ref_get(r->x, n * r->x->stride[0] + i * r->x->stride[1] + k * r->x->stride[2]);
}

/* What the scores of a place are divided by after exp(score - *top). */
static double total(const regions *r, int64_t n, int64_t i, double *top)
{
  double sum = 0;
  *top = -INFINITY;
  for (int64_t k = 0; k < r->classes; k++) *top = fmax(*top, score(r, n, i, k));
  for (int64_t k = 0; k < r->classes; k++) sum += exp(score(r, n, i, k) - *top);
  return sum;
}

static double share(const regions *r, int64_t n, int64_t i, int64_t k, double top, double sum)
{
  return r->softmax ? exp(score(r, n, i, k) - top) / sum : score(r, n, i, k);
}

static capl_status check_label(const regions *r, int64_t n, int64_t i)
{
  int64_t y = label(r, n, i);
  if (y == r->ignore || (y >= 0 && y < r->classes)) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "labels[%" PRId64 "][%" PRId64 "] is %" PRId64 ", classes are 0 to %" PRId64,
                   capl_counted(n), capl_counted(i), y, r->classes - 1);
}

static double area(const regions *r, int64_t n, int64_t k, int which)
{
  double sum = 0, top = 0, all = 1;
  for (int64_t i = 0; i < r->places; i++) {
    if (label(r, n, i) == r->ignore) continue;
    if (r->softmax) all = total(r, n, i, &top);
    double p = which == REGION_LABELLED ? 1 : share(r, n, i, k, top, all);
    if (which == REGION_PREDICTED || label(r, n, i) == k) sum += p;
  }
  return sum;
}

static capl_status ref_dice_sums(const capl_call *call)
{
  regions r = regions_of(call);
  capl_tensor *sums = call->out[0];
  for (int64_t n = 0; n < r.images; n++) {
    for (int64_t i = 0; i < r.places; i++) CAPL_TRY(check_label(&r, n, i));
    for (int which = 0; which < REGION_SUMS; which++)
      for (int64_t k = 0; k < r.classes; k++)
        ref_set(sums, n * sums->stride[0] + which * sums->stride[1] + k * sums->stride[2], area(&r, n, k, which));
  }
  return CAPL_OK;
}

/* The slope of the sums by the share of class k at a place. */
static double slope(const regions *r, const capl_tensor *dsums, int64_t n, int64_t i, int64_t k)
{
  const int64_t *s = dsums->stride;
  double d = ref_get(dsums, n * s[0] + REGION_PREDICTED * s[1] + k * s[2]);
  return label(r, n, i) == k ? d + ref_get(dsums, n * s[0] + REGION_SHARED * s[1] + k * s[2]) : d;
}

static void grad_place(const regions *r, const capl_tensor *dsums, int64_t n, int64_t i, capl_tensor *dx)
{
  double top = 0, all = r->softmax ? total(r, n, i, &top) : 1, mean = 0;
  bool ignored = label(r, n, i) == r->ignore;
  for (int64_t k = 0; r->softmax && k < r->classes; k++) mean += share(r, n, i, k, top, all) * slope(r, dsums, n, i, k);
  for (int64_t k = 0; k < r->classes; k++) {
    double d = slope(r, dsums, n, i, k);
    if (r->softmax) d = share(r, n, i, k, top, all) * (d - mean);
    ref_set(dx, n * dx->stride[0] + i * dx->stride[1] + k * dx->stride[2], ignored ? 0 : d);
  }
}

static capl_status ref_dice_sums_grad(const capl_call *call)
{
  regions r = regions_of(call);
  for (int64_t n = 0; n < r.images; n++)
    for (int64_t i = 0; i < r.places; i++) {
      CAPL_TRY(check_label(&r, n, i));
      grad_place(&r, call->in[2], n, i, call->out[0]);
    }
  return CAPL_OK;
}

const capl_kernel ref_region_kernels[] = {
  {CAPL_OP_dice_sums, ref_dice_sums, ref_supports_any, 0},
  {CAPL_OP_dice_sums_grad, ref_dice_sums_grad, ref_supports_any, 0},
  {0},
};
