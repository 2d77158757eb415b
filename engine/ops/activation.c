/* activation.c -- activations whose gradient takes one pass and keeps nothing but the input; erf, sine and cosine.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/activation.h"

#include "ops/rules.h"

#define FLOAT_DOC "\nx: any shape, floating point -> y alike. Errors: dtype, if x is an integer or bool."
#define GRAD_DOC "\nx, dy: the same shape -> dx alike. Not differentiable."

static capl_status float_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(need_float(call->in[0], "x"));
  return rule_like_first(call, out);
}

static capl_status grad_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(need_float(call->in[0], "x"));
  CAPL_TRY(need_same_shape(call->in[0], "x", call->in[1], "dy"));
  return rule_like_first(call, out);
}

/* ---- activations ------------------------------------------------------------------------------ */

#define RULE(X, op, numbers)                                                                         \
  static capl_status op##_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)      \
  {                                                                                                  \
    return GRAD_CALL(CAPL_OP_##op##_grad, node->attr, &dx[0], node->in[0], dy[0]);                   \
  }
ACTIVATION_MAP(RULE, )

/* An activation and its gradient. */
#define ACTIVATION(op, class, text)                                                               \
  const capl_op capl_op_##op = {NAME_AND_ATTRS(op), .ins = "x", OUTS(y), .amp = CAPL_AMP_##class, \
                                .save_in = 1u, .shape = float_shape, .grad = op##_rule,           \
                                .doc = "y = " text FLOAT_DOC};                                    \
  const capl_op capl_op_##op##_grad = {NAME_AND_ATTRS(op##_grad), .ins = "x, dy", OUTS(dx),       \
                                       .amp = CAPL_AMP_WIDEST, .shape = grad_shape,               \
                                       .doc = "dx = dy times the slope of " #op " at x." GRAD_DOC};

ACTIVATION(silu, KEEP, "x * sigmoid(x), also called swish.")
ACTIVATION(gelu, KEEP, "x times the share of a normal distribution that lies below x.\n"
           "approximate: none (default, by erf), tanh (0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))).")
ACTIVATION(softplus, F32, "log(1 + exp(beta x)) / beta, and x itself where beta x is above threshold.")
ACTIVATION(leaky_relu, KEEP, "x where x > 0, else slope * x.")
ACTIVATION(elu, KEEP, "x where x > 0, else alpha * (exp(x) - 1).")
ACTIVATION(hardsigmoid, KEEP, "(x + 3) / 6, kept in 0..1.")
ACTIVATION(hardswish, KEEP, "x * hardsigmoid(x).")
ACTIVATION(log_sigmoid, KEEP, "log(sigmoid(x)), without overflow.")
ACTIVATION(clamp, KEEP, "x, kept in min..max.\n"
           "Where min is above max y is max. The gradient is 0 at the bounds themselves.")

/* ---- gradients by the result ------------------------------------------------------------------ */

static capl_status saturating_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(need_float(call->in[0], "y"));
  CAPL_TRY(need_same_shape(call->in[0], "y", call->in[1], "dy"));
  return rule_like_first(call, out);
}

#define SATURATING(X, op, numbers)                                                                  \
  const capl_op capl_op_##op##_grad = {NAME_AND_ATTRS(op##_grad), .ins = "y, dy", OUTS(dx),         \
                                       .amp = CAPL_AMP_WIDEST, .shape = saturating_shape,           \
                                       .doc = "dx = dy times the slope of " #op " where it is y.\n" \
                                              "y, dy: the same shape -> dx alike. Not differentiable."};
SATURATING_MAP(SATURATING, )

/* ---- functions -------------------------------------------------------------------------------- */

/* 2 / sqrt(pi) * exp(-x^2) */
static capl_status erf_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *square = NULL, *negative = NULL, *bell = NULL, *slope = NULL;
  CAPL_TRY(GRAD_CALL(CAPL_OP_mul, NULL, &square, node->in[0], node->in[0]));
  CAPL_TRY(grad_affine(square, -1, 0, &negative));
  CAPL_TRY(GRAD_CALL(CAPL_OP_exp, NULL, &bell, negative));
  CAPL_TRY(grad_affine(bell, 1.1283791670955126, 0, &slope));
  return GRAD_CALL(CAPL_OP_mul, NULL, &dx[0], dy[0], slope);
}

static capl_status sin_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *slope = NULL;
  CAPL_TRY(GRAD_CALL(CAPL_OP_cos, NULL, &slope, node->in[0]));
  return GRAD_CALL(CAPL_OP_mul, NULL, &dx[0], dy[0], slope);
}

static capl_status cos_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *sine = NULL, *slope = NULL;
  CAPL_TRY(GRAD_CALL(CAPL_OP_sin, NULL, &sine, node->in[0]));
  CAPL_TRY(grad_affine(sine, -1, 0, &slope));
  return GRAD_CALL(CAPL_OP_mul, NULL, &dx[0], dy[0], slope);
}

#define FUNCTION(op, text)                                                                                    \
  const capl_op capl_op_##op = {NAME_AND_ATTRS(op), .ins = "x", OUTS(y), .save_in = 1u, .shape = float_shape, \
                                .grad = op##_rule, .doc = text FLOAT_DOC};

FUNCTION(erf, "y = the error function of x: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.")
FUNCTION(sin, "y = sine of x, an angle in radians.")
FUNCTION(cos, "y = cosine of x, an angle in radians.")
