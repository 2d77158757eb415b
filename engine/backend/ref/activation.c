/* activation.c -- ref kernels of activations, their gradients, erf, sine and cosine.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/activation.h"

#include "backend/ref/ref.h"

/* p, q: the op's numbers in order */

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double between(double x, double lo, double hi) { return isnan(x) ? x : fmin(fmax(x, lo), hi); }

static double erf_of(double x, double p, double q) { (void)p, (void)q; return erf(x); }
static double sin_of(double x, double p, double q) { (void)p, (void)q; return sin(x); }
static double cos_of(double x, double p, double q) { (void)p, (void)q; return cos(x); }

static double silu_of(double x, double p, double q)
{
  (void)p, (void)q;
  return x / (1 + exp(-x));
}

static double silu_slope(double x, double p, double q)
{
  (void)p, (void)q;
  return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
}

/* 0.5 (1 + tanh(u)) is sigmoid(2 u); beyond 12 nothing changes any more, but x^3 may overflow. */
static double tanh_gate(double x)
{
  x = between(x, -12, 12);
  return sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

static double gelu_of(double x, double form, double q)
{
  (void)q;
  return form != 0 ? x * tanh_gate(x) : x * 0.5 * erfc(-x * M_SQRT1_2);
}

static double gelu_slope(double x, double form, double q)
{
  (void)q;
  double near = between(x, -50, 50), gate = tanh_gate(x), z = between(x, -12, 12);
  if (form == 0) return 0.5 * erfc(-x * M_SQRT1_2) + near * exp(-0.5 * near * near) / sqrt(2 * M_PI);
  return gate + z * gate * (1 - gate) * 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * z * z);
}

static double softplus_of(double x, double beta, double threshold)
{
  double z = beta * x;
  return z > threshold ? x : (fmax(z, 0) + log1p(exp(-fabs(z)))) / beta + (isnan(x) ? x : 0);
}

static double softplus_slope(double x, double beta, double threshold)
{
  return beta * x > threshold ? 1 : sigmoid(beta * x);
}

static double leaky_relu_of(double x, double slope, double q) { (void)q; return x > 0 ? x : slope * x; }
static double leaky_relu_slope(double x, double slope, double q) { (void)q; return x > 0 ? 1 : slope; }
static double elu_of(double x, double alpha, double q) { (void)q; return x > 0 ? x : alpha * expm1(x); }
static double elu_slope(double x, double alpha, double q) { (void)q; return x > 0 ? 1 : alpha * exp(x); }

static double hardsigmoid_of(double x, double p, double q)
{
  (void)p, (void)q;
  return between(x + 3, 0, 6) / 6;
}

static double hardsigmoid_slope(double x, double p, double q)
{
  (void)p, (void)q;
  return x > -3 && x < 3 ? 1.0 / 6 : 0;
}

static double hardswish_of(double x, double p, double q)
{
  return x * hardsigmoid_of(x, p, q);
}

static double hardswish_slope(double x, double p, double q)
{
  (void)p, (void)q;
  return x <= -3 ? 0 : x < 3 ? x / 3 + 0.5 : x >= 3 ? 1 : x;
}

static double log_sigmoid_of(double x, double p, double q)
{
  (void)p, (void)q;
  return isnan(x) ? x : fmin(x, 0) - log1p(exp(-fabs(x)));
}

static double log_sigmoid_slope(double x, double p, double q) { (void)p, (void)q; return sigmoid(-x); }
static double clamp_of(double x, double lo, double hi) { return between(x, lo, hi); }
static double clamp_slope(double x, double lo, double hi) { return x > lo && x < hi; }

/* 1 - y first, which is exact where y is near 1: y - y * y is not in 16 bits. */
static double sigmoid_slope(double y, double p, double q) { (void)p, (void)q; return y * (1 - y); }
static double tanh_slope(double y, double p, double q) { (void)p, (void)q; return (1 - y) * (1 + y); }

typedef double (*number_fn)(double x, double p, double q);

static capl_status activate(const capl_call *call, number_fn f)
{
  const capl_tensor *x = call->in[0];
  double p = activation_number(call, 0), q = activation_number(call, 1);
  ref_walk w;
  for (REF_WALK(&w, call->out[0], x); w.more; ref_walk_next(&w))
    ref_set(call->out[0], w.at[0], f(ref_get(x, w.at[1]), p, q));
  return CAPL_OK;
}

static capl_status activate_grad(const capl_call *call, number_fn slope)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  double p = activation_number(call, 0), q = activation_number(call, 1);
  ref_walk w;
  for (REF_WALK(&w, call->out[0], x, dy); w.more; ref_walk_next(&w))
    ref_set(call->out[0], w.at[0], ref_get(dy, w.at[2]) * slope(ref_get(x, w.at[1]), p, q));
  return CAPL_OK;
}

#define FUNCTION(X, op, numbers) \
  static capl_status ref_##op(const capl_call *call) { return activate(call, op##_of); }
#define ACTIVATION(X, op, numbers) \
  FUNCTION(X, op, numbers)         \
  static capl_status ref_##op##_grad(const capl_call *call) { return activate_grad(call, op##_slope); }
#define SATURATING(X, op, numbers) \
  static capl_status ref_##op##_grad(const capl_call *call) { return activate_grad(call, op##_slope); }
FUNCTION_MAP(FUNCTION, )
ACTIVATION_MAP(ACTIVATION, )
SATURATING_MAP(SATURATING, )

#define FUNCTION_ROW(X, op, numbers) {CAPL_OP_##op, ref_##op, ref_supports_any, 0},
#define ACTIVATION_ROW(X, op, numbers) \
  FUNCTION_ROW(X, op, numbers) {CAPL_OP_##op##_grad, ref_##op##_grad, ref_supports_any, 0},
#define SATURATING_ROW(X, op, numbers) {CAPL_OP_##op##_grad, ref_##op##_grad, ref_supports_any, 0},
const capl_kernel ref_activation_kernels[] = {FUNCTION_MAP(FUNCTION_ROW, ) ACTIVATION_MAP(ACTIVATION_ROW, )
                                                SATURATING_MAP(SATURATING_ROW, ){0}};
