/* norm.c -- reference kernels of batch normalization.
**
** The fused ops (bn_act, bn_act_pool and their gradients) have no kernel here: their .expand is their
** definition.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "ops/attrs.h"

#include "backend/ref/ref.h"

/* x (N,C) or (N,C,H,W) seen as channels of `count` values each. */
typedef struct {
  int64_t channels, count, height, width;
} plane;

static plane plane_of(const capl_tensor *x)
{
  plane p = {.channels = x->size[1], .height = 1, .width = 1};
  if (x->ndim == 4) {
    p.height = x->size[2];
    p.width = x->size[3];
  }
  p.count = x->size[0] * p.height * p.width;
  return p;
}

/* Offset of value i of channel c. */
static int64_t value_at(const plane *p, const capl_tensor *t, int64_t c, int64_t i)
{
  if (t->ndim == 2) return i * t->stride[0] + c * t->stride[1];
  int64_t pixels = p->height * p->width;
  return ref_at4(t, i / pixels, c, i % pixels / p->width, i % p->width);
}

static double vector_get(const capl_tensor *t, int64_t c) { return ref_get(t, c * t->stride[0]); }

static void vector_set(capl_tensor *t, int64_t c, double v) { ref_set(t, c * t->stride[0], v); }

/* Mean and biased variance of one channel, in two passes. */
static void channel_moments(const plane *p, const capl_tensor *x, int64_t c, double *mean, double *var)
{
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < p->count; i++) sum += ref_get(x, value_at(p, x, c, i));
  *mean = sum / (double)p->count;
  for (int64_t i = 0; i < p->count; i++) {
    double centred = ref_get(x, value_at(p, x, c, i)) - *mean;
    squares += centred * centred;
  }
  *var = squares / (double)p->count;
}

static void update_running(capl_tensor *running, int64_t c, double value, double momentum)
{
  vector_set(running, c, (1 - momentum) * vector_get(running, c) + momentum * value);
}

/* The statistics that normalize channel c; updates the running ones in training. */
static void channel_statistics(const capl_call *call, const plane *p, int64_t c, double *mean, double *var)
{
  capl_tensor *running_mean = call_input(call, NORM_RUNNING_MEAN);
  capl_tensor *running_var = call_input(call, NORM_RUNNING_VAR);
  if (!call->attr[NORM_TRAINING].i) {
    *mean = vector_get(running_mean, c);
    *var = vector_get(running_var, c);
    return;
  }
  channel_moments(p, call->in[NORM_X], c, mean, var);
  if (!running_mean) return;
  double count = (double)p->count, momentum = call->attr[NORM_MOMENTUM].f;
  update_running(running_mean, c, *mean, momentum);
  update_running(running_var, c, *var * count / (count - 1), momentum);
}

static capl_status ref_batch_norm(const capl_call *call)
{
  const capl_tensor *x = call->in[NORM_X];
  capl_tensor *y = call->out[NORM_Y];
  plane p = plane_of(x);
  for (int64_t c = 0; c < p.channels; c++) {
    double mean, var;
    channel_statistics(call, &p, c, &mean, &var);
    double invstd = 1 / sqrt(var + call->attr[NORM_EPS].f);
    double scale = invstd * vector_get(call->in[NORM_WEIGHT], c), shift = vector_get(call->in[NORM_BIAS], c);
    vector_set(call->out[NORM_MEAN], c, mean);
    vector_set(call->out[NORM_INVSTD], c, invstd);
    for (int64_t i = 0; i < p.count; i++) {
      double centred = ref_get(x, value_at(&p, x, c, i)) - mean;
      ref_set(y, value_at(&p, y, c, i), centred * scale + shift);
    }
  }
  return CAPL_OK;
}

/* With xhat = (x - mean) * invstd: dbias = sum of dy, dweight = sum of dy * xhat, and in training
** dx = weight * invstd * (dy - dbias / count - xhat * dweight / count). */
static void channel_grad(const capl_call *call, const plane *p, int64_t c)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  double weight = vector_get(call->in[2], c), mean = vector_get(call->in[3], c);
  double invstd = vector_get(call->in[4], c), dweight = 0, dbias = 0;
  for (int64_t i = 0; i < p->count; i++) {
    double g = ref_get(dy, value_at(p, dy, c, i));
    dbias += g;
    dweight += g * (ref_get(x, value_at(p, x, c, i)) - mean) * invstd;
  }
  vector_set(call->out[1], c, dweight);
  vector_set(call->out[2], c, dbias);
  double share = call->attr[NORM_GRAD_TRAINING].i ? 1 / (double)p->count : 0;
  for (int64_t i = 0; i < p->count; i++) {
    double xhat = (ref_get(x, value_at(p, x, c, i)) - mean) * invstd;
    double g = ref_get(dy, value_at(p, dy, c, i)) - share * (dbias + xhat * dweight);
    ref_set(call->out[0], value_at(p, call->out[0], c, i), weight * invstd * g);
  }
}

static capl_status ref_batch_norm_grad(const capl_call *call)
{
  plane p = plane_of(call->in[0]);
  for (int64_t c = 0; c < p.channels; c++) channel_grad(call, &p, c);
  return CAPL_OK;
}

const capl_kernel ref_norm_kernels[] = {
    {CAPL_OP_batch_norm, ref_batch_norm, ref_supports_any, 0},
    {CAPL_OP_batch_norm_grad, ref_batch_norm_grad, ref_supports_any, 0},
    {0},
};
