/* elementwise.c -- ops that treat every element alike: arithmetic, comparisons, activations, casts.
**
** Two-input ops broadcast as in PyTorch and promote dtypes: floats before integers, then the wider.
** The memory order of the output is that of the first input of the output's shape, so channels-last
** stays channels-last.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "ops/rules.h"

/* shape rules */

static capl_status compare_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(broadcast_sizes(call, out));
  out->dtype = CAPL_BOOL;
  return CAPL_OK;
}

/* Quotients of integers are floats, as in PyTorch. */
static capl_status div_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(rule_broadcast(call, out));
  if (!capl_dtype_is_float(out->dtype)) out->dtype = CAPL_F32;
  return CAPL_OK;
}

static capl_status where_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(need_dtype(call->in[0], "condition", CAPL_BOOL));
  CAPL_TRY(broadcast_sizes(call, out));
  out->dtype = promote(call->in[1]->dtype, call->in[2]->dtype);
  return CAPL_OK;
}

static capl_status float_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(need_float(call->in[0], "x"));
  return rule_like_first(call, out);
}

static bool fits_i64(double v)
{
  return v == floor(v) && fabs(v) < 0x1p63;
}

/* An integer stays one only if both constants are whole; a bool becomes one, as in PyTorch. */
static capl_status affine_shape(const capl_call *call, capl_out_spec *out)
{
  double scale = call->attr[AT(affine, scale)].f, shift = call->attr[AT(affine, shift)].f;
  CAPL_TRY(rule_like_first(call, out));
  if (capl_dtype_is_float(out->dtype)) return CAPL_OK;
  if (!fits_i64(scale) || !fits_i64(shift)) out->dtype = CAPL_F32;
  else if (out->dtype == CAPL_BOOL) out->dtype = CAPL_I64;
  return CAPL_OK;
}

static capl_status power_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(need_float(call->in[0], "a"));
  CAPL_TRY(need_float(call->in[1], "b"));
  return rule_broadcast(call, out);
}

static capl_status cast_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(rule_like_first(call, out));
  out->dtype = (capl_dtype)call->attr[AT(cast, dtype)].i;
  return CAPL_OK;
}

static capl_status relu_grad_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(need_same_shape(call->in[0], "y", call->in[1], "dy"));
  spec_like(out, call->in[0]);
  out->dtype = call->in[1]->dtype;
  return CAPL_OK;
}

/* gradient rules: a and b are the inputs, dy the gradient of y */

enum { A, B };

static capl_status add_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (node->needs[A]) CAPL_TRY(grad_unbroadcast(dy[0], node->in[A], &dx[A]));
  if (node->needs[B]) CAPL_TRY(grad_unbroadcast(dy[0], node->in[B], &dx[B]));
  return CAPL_OK;
}

static capl_status sub_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *sum = NULL;
  if (node->needs[A]) CAPL_TRY(grad_unbroadcast(dy[0], node->in[A], &dx[A]));
  if (!node->needs[B]) return CAPL_OK;
  CAPL_TRY(grad_unbroadcast(dy[0], node->in[B], &sum));
  return grad_affine(sum, -1, 0, &dx[B]);
}

/* out = a * b, summed back to the shape of like */
static capl_status mul_unbroadcast(capl_tensor *a, capl_tensor *b, const capl_tensor *like, capl_tensor **out)
{
  TEMP capl_tensor *product = NULL;
  CAPL_TRY(GRAD_CALL(CAPL_OP_mul, NULL, &product, a, b));
  return grad_unbroadcast(product, like, out);
}

static capl_status mul_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (node->needs[A]) CAPL_TRY(mul_unbroadcast(dy[0], node->in[B], node->in[A], &dx[A]));
  if (node->needs[B]) CAPL_TRY(mul_unbroadcast(dy[0], node->in[A], node->in[B], &dx[B]));
  return CAPL_OK;
}

/* da = dy / b, db = -da * y */
static capl_status div_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *da = NULL, *db = NULL;
  CAPL_TRY(GRAD_CALL(CAPL_OP_div, NULL, &da, dy[0], node->in[B]));
  if (node->needs[A]) CAPL_TRY(grad_unbroadcast(da, node->in[A], &dx[A]));
  if (!node->needs[B]) return CAPL_OK;
  CAPL_TRY(mul_unbroadcast(da, node->out[0], node->in[B], &db));
  return grad_affine(db, -1, 0, &dx[B]);
}

/* da = dy, db = -dy * floor(a / b) = dy * (y - a) / b */
static capl_status remainder_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *less = NULL, *slope = NULL;
  if (node->needs[A]) CAPL_TRY(grad_unbroadcast(dy[0], node->in[A], &dx[A]));
  if (!node->needs[B]) return CAPL_OK;
  CAPL_TRY(GRAD_CALL(CAPL_OP_sub, NULL, &less, node->out[0], node->in[A]));
  CAPL_TRY(GRAD_CALL(CAPL_OP_div, NULL, &slope, less, node->in[B]));
  return mul_unbroadcast(dy[0], slope, node->in[B], &dx[B]);
}

static capl_status scalar_zero(const capl_tensor *like, capl_tensor **out)
{
  CAPL_TRY(capl_tensor_new(like->device, like->dtype, 0, NULL, CAPL_AUTO, out));
  return capl_tensor_fill(*out, 0);
}

/* out = condition ? dy : 0, summed back to the shape of like. A product would turn 0 * inf into NaN. */
static capl_status where_unbroadcast(capl_tensor *condition, capl_tensor *dy, const capl_tensor *like,
                                     capl_tensor **out)
{
  TEMP capl_tensor *zero = NULL, *chosen = NULL;
  CAPL_TRY(scalar_zero(dy, &zero));
  CAPL_TRY(GRAD_CALL(CAPL_OP_where, NULL, &chosen, condition, dy, zero));
  return grad_unbroadcast(chosen, like, out);
}

/* The loser of a maximum or minimum gets 0, of equals each half of dy, the others dy, as in PyTorch: NaN, too. */
static capl_status pick_grad(const capl_node *node, capl_op_id loses, capl_tensor *dy, int which, capl_tensor **out)
{
  TEMP capl_tensor *lost = NULL, *tie = NULL, *half = NULL, *rest = NULL, *zero = NULL, *chosen = NULL;
  capl_tensor *self = node->in[which], *other = node->in[1 - which];
  CAPL_TRY(GRAD_CALL(loses, NULL, &lost, self, other));
  CAPL_TRY(GRAD_CALL(CAPL_OP_eq, NULL, &tie, self, other));
  CAPL_TRY(scalar_zero(dy, &zero));
  CAPL_TRY(grad_affine(dy, 0.5, 0, &half));
  CAPL_TRY(GRAD_CALL(CAPL_OP_where, NULL, &rest, tie, half, dy));
  CAPL_TRY(GRAD_CALL(CAPL_OP_where, NULL, &chosen, lost, zero, rest));
  return grad_unbroadcast(chosen, self, out);
}

static capl_status maximum_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (node->needs[A]) CAPL_TRY(pick_grad(node, CAPL_OP_lt, dy[0], A, &dx[A]));
  if (node->needs[B]) CAPL_TRY(pick_grad(node, CAPL_OP_lt, dy[0], B, &dx[B]));
  return CAPL_OK;
}

static capl_status minimum_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (node->needs[A]) CAPL_TRY(pick_grad(node, CAPL_OP_gt, dy[0], A, &dx[A]));
  if (node->needs[B]) CAPL_TRY(pick_grad(node, CAPL_OP_gt, dy[0], B, &dx[B]));
  return CAPL_OK;
}

static capl_status where_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *zero = NULL, *chosen = NULL;
  if (node->needs[1]) CAPL_TRY(where_unbroadcast(node->in[0], dy[0], node->in[1], &dx[1]));
  if (!node->needs[2]) return CAPL_OK;
  CAPL_TRY(scalar_zero(dy[0], &zero));
  CAPL_TRY(GRAD_CALL(CAPL_OP_where, NULL, &chosen, node->in[0], zero, dy[0]));
  return grad_unbroadcast(chosen, node->in[2], &dx[2]);
}

static capl_status affine_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return grad_affine(dy[0], node->attr[AT(affine, scale)].f, 0, &dx[0]);
}

/* e * x^(e-1); e = 0 apart, where x^-1 may be infinite. */
static capl_status pow_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *power = NULL, *slope = NULL;
  double exponent = node->attr[AT(pow, exponent)].f;
  if (exponent == 0) {
    CAPL_TRY(capl_tensor_new_like(dy[0], &dx[0]));
    return capl_tensor_fill(dx[0], 0);
  }
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(pow, exponent)] = CAPL_A_REAL(exponent - 1)};
  CAPL_TRY(GRAD_CALL(CAPL_OP_pow, attr, &power, node->in[0]));
  CAPL_TRY(grad_affine(power, exponent, 0, &slope));
  return GRAD_CALL(CAPL_OP_mul, NULL, &dx[0], dy[0], slope);
}

static capl_status exp_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return GRAD_CALL(CAPL_OP_mul, NULL, &dx[0], dy[0], node->out[0]);
}

static capl_status log_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return GRAD_CALL(CAPL_OP_div, NULL, &dx[0], dy[0], node->in[0]);
}

static capl_status sqrt_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *twice = NULL;
  CAPL_TRY(grad_affine(node->out[0], 2, 0, &twice));
  return GRAD_CALL(CAPL_OP_div, NULL, &dx[0], dy[0], twice);
}

static capl_status log1p_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *more = NULL;
  CAPL_TRY(grad_affine(node->in[0], 1, 1, &more));
  return GRAD_CALL(CAPL_OP_div, NULL, &dx[0], dy[0], more);
}

/* Steps are flat: 0, as in PyTorch. */
static capl_status step_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  (void)node;
  CAPL_TRY(capl_tensor_new_like(dy[0], &dx[0]));
  return capl_tensor_fill(dx[0], 0);
}

/* b * a^(b-1); 0 where b is 0. */
static capl_status power_slope_a(const capl_node *node, capl_tensor **out)
{
  TEMP capl_tensor *less = NULL, *power = NULL, *slope = NULL, *flat = NULL, *zero = NULL;
  capl_tensor *a = node->in[A], *b = node->in[B];
  CAPL_TRY(grad_affine(b, 1, -1, &less));
  CAPL_TRY(GRAD_CALL(CAPL_OP_power, NULL, &power, a, less));
  CAPL_TRY(GRAD_CALL(CAPL_OP_mul, NULL, &slope, power, b));
  CAPL_TRY(scalar_zero(slope, &zero));
  CAPL_TRY(GRAD_CALL(CAPL_OP_eq, NULL, &flat, b, zero));
  return GRAD_CALL(CAPL_OP_where, NULL, out, flat, zero, slope);
}

/* y * log a; 0 where a is 0 and b is not negative. */
static capl_status power_slope_b(const capl_node *node, capl_tensor **out)
{
  TEMP capl_tensor *log = NULL, *slope = NULL, *none = NULL, *up = NULL, *flat = NULL, *zero = NULL;
  capl_tensor *a = node->in[A], *b = node->in[B];
  CAPL_TRY(GRAD_CALL(CAPL_OP_log, NULL, &log, a));
  CAPL_TRY(GRAD_CALL(CAPL_OP_mul, NULL, &slope, node->out[0], log));
  CAPL_TRY(scalar_zero(slope, &zero));
  CAPL_TRY(GRAD_CALL(CAPL_OP_eq, NULL, &none, a, zero));
  CAPL_TRY(GRAD_CALL(CAPL_OP_ge, NULL, &up, b, zero));
  CAPL_TRY(GRAD_CALL(CAPL_OP_mul, NULL, &flat, none, up));
  return GRAD_CALL(CAPL_OP_where, NULL, out, flat, zero, slope);
}

static capl_status power_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *slope_a = NULL, *slope_b = NULL;
  if (node->needs[A]) {
    CAPL_TRY(power_slope_a(node, &slope_a));
    CAPL_TRY(mul_unbroadcast(dy[0], slope_a, node->in[A], &dx[A]));
  }
  if (!node->needs[B]) return CAPL_OK;
  CAPL_TRY(power_slope_b(node, &slope_b));
  return mul_unbroadcast(dy[0], slope_b, node->in[B], &dx[B]);
}

static capl_status abs_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *sign = NULL;
  CAPL_TRY(GRAD_CALL(CAPL_OP_sign, NULL, &sign, node->in[0]));
  return GRAD_CALL(CAPL_OP_mul, NULL, &dx[0], dy[0], sign);
}

static capl_status sigmoid_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return GRAD_CALL(CAPL_OP_sigmoid_grad, NULL, &dx[0], node->out[0], dy[0]);
}

static capl_status tanh_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return GRAD_CALL(CAPL_OP_tanh_grad, NULL, &dx[0], node->out[0], dy[0]);
}

static capl_status relu_grad_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return GRAD_CALL(CAPL_OP_relu_grad, NULL, &dx[0], node->out[0], dy[0]);
}

/* The same stream makes the same mask, so nothing is saved. */
static capl_status dropout_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return GRAD_CALL(CAPL_OP_dropout, node->attr, &dx[0], dy[0]);
}

static capl_status cast_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  const capl_dtype dtype = node->in[0]->dtype;
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(dtype)};
  bool later = node->edges[0].leaf && dtype == CAPL_F32; /* the tape makes f32 of a leaf's gradient, of several at a
                                                         ** time */
  if (dy[0]->dtype != dtype && !later) return GRAD_CALL(CAPL_OP_cast, attr, &dx[0], dy[0]);
  dx[0] = capl_tensor_ref(dy[0]);
  return CAPL_OK;
}

/* descriptors: arithmetic of two tensors */

#define BINARY(op, ...) \
  const capl_op capl_op_##op = {NAME_AND_ATTRS(op), .ins = "a, b", OUTS(y), .amp = CAPL_AMP_WIDEST, __VA_ARGS__}
#define SAVE_A 1u
#define SAVE_B 2u
#define SAVE_Y 1u
#define BROADCAST_DOC                                                                         \
  "a, b: any shapes that broadcast, any dtypes -> y in the broadcast shape and promoted dtype.\n" \
  "Errors: shape, if the sizes do not broadcast."
#define COMPARE_DOC                                                     \
  "a, b: any shapes that broadcast, any dtypes -> y bool. Not differentiable.\n" \
  "Errors: shape, if the sizes do not broadcast."

BINARY(add, .shape = rule_broadcast, .grad = add_grad, .doc = "y = a + b.\n" BROADCAST_DOC);
BINARY(sub, .shape = rule_broadcast, .grad = sub_grad, .doc = "y = a - b.\n" BROADCAST_DOC);
BINARY(mul, .shape = rule_broadcast, .grad = mul_grad, .save_in = SAVE_A | SAVE_B, .doc = "y = a * b.\n" BROADCAST_DOC);
BINARY(div, .shape = div_shape, .grad = div_grad, .save_in = SAVE_B, .save_out = SAVE_Y,
       .doc = "y = a / b. The quotient of two integer tensors is f32.\n" BROADCAST_DOC);
BINARY(maximum, .shape = rule_broadcast, .grad = maximum_grad, .save_in = SAVE_A | SAVE_B,
       .doc = "y = the larger of a and b; NaN if one is NaN. Of equals each gets half of the gradient.\n" BROADCAST_DOC);
BINARY(minimum, .shape = rule_broadcast, .grad = minimum_grad, .save_in = SAVE_A | SAVE_B,
       .doc = "y = the smaller of a and b; NaN if one is NaN. Of equals each gets half of the gradient.\n" BROADCAST_DOC);
BINARY(remainder, .shape = rule_broadcast, .grad = remainder_grad, .save_in = SAVE_A | SAVE_B, .save_out = SAVE_Y,
       .doc = "y = a - floor(a / b) * b, exactly, with the sign of b; of a division by 0: NaN, of integers 0.\n" BROADCAST_DOC);
BINARY(power, .shape = power_shape, .grad = power_grad, .save_in = SAVE_A | SAVE_B, .save_out = SAVE_Y,
       .doc = "y = a to the power of b; NaN where a is negative and b is not whole.\n"
              "a, b: any shapes that broadcast, floating point -> y in the broadcast shape and promoted dtype.\n"
              "Errors: shape, if the sizes do not broadcast; dtype, if one is an integer or bool.");
BINARY(eq, .shape = compare_shape, .doc = "y = a == b.\n" COMPARE_DOC);
BINARY(ne, .shape = compare_shape, .doc = "y = a ~= b.\n" COMPARE_DOC);
BINARY(lt, .shape = compare_shape, .doc = "y = a < b.\n" COMPARE_DOC);
BINARY(le, .shape = compare_shape, .doc = "y = a <= b.\n" COMPARE_DOC);
BINARY(gt, .shape = compare_shape, .doc = "y = a > b.\n" COMPARE_DOC);
BINARY(ge, .shape = compare_shape, .doc = "y = a >= b.\n" COMPARE_DOC);

const capl_op capl_op_where = {
  NAME_AND_ATTRS(where),
  .ins = "condition, a, b",
  OUTS(y),
  .amp = CAPL_AMP_WIDEST,
  .mask_in = 1u,
  .save_in = 1u,
  .shape = where_shape,
  .grad = where_grad,
  .doc = "y = a where condition is true, b elsewhere.\n"
         "condition bool; a, b any dtypes; all shapes must broadcast -> y in the promoted dtype of a and b.\n"
         "Errors: shape, if the sizes do not broadcast; dtype, if condition is not bool.",
};

/* descriptors: functions of one tensor */

#define UNARY(op, class, ...) \
  const capl_op capl_op_##op = {NAME_AND_ATTRS(op), .ins = "x", OUTS(y), .amp = CAPL_AMP_##class, __VA_ARGS__}
#define SAVE_X 1u
#define FLOAT_DOC "\nx: any shape, floating point -> y alike. Errors: dtype, if x is an integer or bool."
#define ANY_DOC "\nx: any shape and dtype -> y alike."

UNARY(relu, KEEP, .save_out = SAVE_Y, .shape = rule_like_first, .grad = relu_grad_rule,
      .doc = "y = x where x > 0, else 0; NaN stays NaN." ANY_DOC);
UNARY(affine, KEEP, .shape = affine_shape, .grad = affine_grad,
      .doc = "y = scale * x + shift, with constants.\n"
             "x: any shape and dtype -> y alike; integers wrap around, as in PyTorch, and become f32 if scale or shift\n"
             "is not whole; bool becomes i64.");
UNARY(pow, F32, .save_in = SAVE_X, .shape = float_shape,
      .grad = pow_grad, .doc = "y = x to the power of a constant exponent." FLOAT_DOC);
UNARY(exp, F32, .save_out = SAVE_Y, .shape = float_shape, .grad = exp_grad,
      .doc = "y = e to the power of x." FLOAT_DOC);
UNARY(log, F32, .save_in = SAVE_X, .shape = float_shape, .grad = log_grad,
      .doc = "y = natural logarithm of x; NaN below 0." FLOAT_DOC);
UNARY(sqrt, F32, .save_out = SAVE_Y, .shape = float_shape, .grad = sqrt_grad,
      .doc = "y = square root of x; NaN below 0." FLOAT_DOC);
UNARY(log1p, F32, .save_in = SAVE_X, .shape = float_shape, .grad = log1p_grad,
      .doc = "y = natural logarithm of 1 + x, exact for small x; NaN below -1." FLOAT_DOC);
UNARY(floor, KEEP, .shape = float_shape, .grad = step_grad,
      .doc = "y = the largest whole number that is not above x. Its gradient is 0." FLOAT_DOC);
UNARY(round, KEEP, .shape = float_shape, .grad = step_grad,
      .doc = "y = the whole number nearest to x, of two the even one. Its gradient is 0." FLOAT_DOC);
UNARY(abs, KEEP, .save_in = SAVE_X, .shape = rule_like_first, .grad = abs_grad,
      .doc = "y = |x|; the gradient at 0 is 0." ANY_DOC);
UNARY(sigmoid, KEEP, .save_out = SAVE_Y, .shape = float_shape, .grad = sigmoid_rule,
      .doc = "y = 1 / (1 + exp(-x))." FLOAT_DOC);
UNARY(tanh, KEEP, .save_out = SAVE_Y, .shape = float_shape, .grad = tanh_rule,
      .doc = "y = hyperbolic tangent of x." FLOAT_DOC);
UNARY(sign, KEEP, .shape = rule_like_first, .doc = "y = -1, 0 or 1: the sign of x. Not differentiable." ANY_DOC);
UNARY(cast, KEEP, .shape = cast_shape, .grad = cast_grad,
      .doc = "y = x as another dtype.\n"
             "Floats round to nearest even; integers are cut towards zero; anything but 0 is true.\n"
             "x: any shape -> y in the same memory order.");

UNARY(dropout, KEEP,
      .shape = float_shape, .grad = dropout_grad,
      .doc = "Sets elements to 0 with probability p and scales the others by 1 / (1 - p).\n"
             "x: any shape, floating point -> y alike. Element i of logical row-major order is kept iff word i % 4 of\n"
             "philox(seed, {i / 4, offset low, offset high, 0xD20}) >= p * 2^32: the same seed and offset give the\n"
             "same mask on every backend, and nothing is saved for the backward pass.");

const capl_op capl_op_relu_grad = {
  NAME_AND_ATTRS(relu_grad),
  .ins = "y, dy",
  OUTS(dx),
  .shape = relu_grad_shape,
  .doc = "dx = dy where y > 0, else 0: the gradient of relu. Not differentiable.\n"
         "y, dy: the same shape -> dx in the dtype of dy and the memory order of y.",
};
