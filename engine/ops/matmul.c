/* matmul.c -- descriptors of fully connected layers and of batched matrix products.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <string.h>

#include "ops/attrs.h"
#include "ops/rules.h"
#include "ops/window.h"

/* ---- linear ----------------------------------------------------------------------------------- */

static capl_status need_features(const capl_tensor *x, const char *name)
{
  CAPL_TRY(need_float(x, name));
  if (x->ndim >= 1) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "%s is a scalar, at least one dim is needed", name);
}

/* Last size of t, which counts the features of one row. */
static int64_t features(const capl_tensor *t) { return t->size[t->ndim - 1]; }

/* Shape of t with its last size replaced. */
static void spec_rows(capl_out_spec *out, const capl_tensor *t, int64_t last)
{
  spec_set(out, t->dtype, t->ndim, t->size);
  out->size[t->ndim - 1] = last;
  out->format = CAPL_ROW;
}

static capl_status linear_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0], *weight = call->in[1], *bias = call_input(call, 2);
  CAPL_TRY(need_features(x, "x"));
  CAPL_TRY(need_ndim(weight, "weight", 2));
  CAPL_TRY(need_same_dtype(x, "x", weight, "weight"));
  if (features(x) != weight->size[1]) {
    capl_status status = CAPL_FAIL(CAPL_ESHAPE, "weight expects %" PRId64 " input features, x has %" PRId64,
                                   weight->size[1], features(x));
    capl_error_hint("use nn.Linear(%" PRId64 ", %" PRId64 ")", features(x), weight->size[0]);
    return status;
  }
  if (bias) {
    CAPL_TRY(need_vector(bias, "bias", weight->size[0], "output feature"));
    CAPL_TRY(need_bias_dtype(x, bias));
  }
  spec_rows(&out[0], x, weight->size[0]);
  return CAPL_OK;
}

static capl_status linear_grad_x_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *dy = call->in[0], *weight = call->in[1];
  CAPL_TRY(need_features(dy, "dy"));
  CAPL_TRY(need_ndim(weight, "weight", 2));
  CAPL_TRY(need_same_dtype(dy, "dy", weight, "weight"));
  if (features(dy) != weight->size[0])
    return CAPL_FAIL(CAPL_ESHAPE, "weight gives %" PRId64 " output features, dy has %" PRId64,
                     weight->size[0], features(dy));
  spec_rows(&out[0], dy, weight->size[1]);
  return CAPL_OK;
}

static capl_status linear_grad_w_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  CAPL_TRY(need_features(x, "x"));
  CAPL_TRY(need_features(dy, "dy"));
  CAPL_TRY(need_same_dtype(x, "x", dy, "dy"));
  int64_t expected[CAPL_MAX_NDIM];
  memcpy(expected, x->size, sizeof expected);
  expected[x->ndim - 1] = features(dy);
  CAPL_TRY(window_need_size(dy, "dy", x->ndim, expected, "the rows of x call for"));
  int64_t size[2] = {features(dy), features(x)};
  capl_dtype dtype = x->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32;
  spec_set(&out[0], dtype, 2, size);
  spec_set(&out[1], dtype, 1, size);
  return CAPL_OK;
}

/* dy: the gradient of x * weight' + bias. */
static capl_status product_gradients(const capl_node *node, capl_tensor *dy, capl_tensor **dx)
{
  capl_tensor *x = node->in[0], *weight = node->in[1];
  bool bias_needs = node->n_in > 2 && node->needs[2];
  if (node->needs[0]) CAPL_TRY(GRAD_CALL(CAPL_OP_linear_grad_x, NULL, &dx[0], dy, weight));
  if (node->needs[1] || bias_needs) {
    capl_tensor *got[2];
    CAPL_TRY(GRAD_CALL(CAPL_OP_linear_grad_w, NULL, got, x, dy));
    if (node->needs[1])
      dx[1] = got[0];
    else
      capl_tensor_unref(got[0]);
    if (bias_needs)
      dx[2] = got[1];
    else
      capl_tensor_unref(got[1]);
  }
  return CAPL_OK;
}

static capl_status linear_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return dy[0] ? product_gradients(node, dy[0], dx) : CAPL_OK;
}

/* y > 0 where relu passed the product. */
static capl_status linear_act_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *passed = NULL;
  if (!dy[0]) return CAPL_OK;
  CAPL_TRY(GRAD_CALL(CAPL_OP_relu_grad, NULL, &passed, node->out[0], dy[0]));
  return product_gradients(node, passed, dx);
}

static capl_status linear_act_expand(const capl_call *call)
{
  TEMP capl_tensor *product = NULL;
  CAPL_TRY(capl_op_call(CAPL_OP_linear, call->in, call->n_in, NULL, &product));
  return capl_op_call(CAPL_OP_relu, &product, 1, NULL, call->out);
}

/* linear: each of y's elements takes I products. */
static double linear_macs(const capl_call *call)
{
  return (double)capl_tensor_numel(call->out[0]) * (double)call->in[1]->size[1];
}

static double linear_grad_x_macs(const capl_call *call)
{
  return (double)capl_tensor_numel(call->in[0]) * (double)call->in[1]->size[1];
}

static double linear_grad_w_macs(const capl_call *call)
{
  return (double)capl_tensor_numel(call->in[1]) * (double)features(call->in[0]);
}

/* ---- matmul ----------------------------------------------------------------------------------- */

/* Broadcasts the dims before the last two of a and b into size; *ndim counts all dims of y. */
static capl_status broadcast_batch(const capl_tensor *a, const capl_tensor *b, int *ndim, int64_t *size)
{
  *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  for (int dim = 0; dim < *ndim - 2; dim++) {
    int in_a = dim - (*ndim - a->ndim), in_b = dim - (*ndim - b->ndim);
    int64_t size_a = in_a < 0 ? 1 : a->size[in_a], size_b = in_b < 0 ? 1 : b->size[in_b];
    if (size_a != size_b && size_a != 1 && size_b != 1)
      return CAPL_FAIL(CAPL_ESHAPE, "batch sizes %" PRId64 " of a and %" PRId64 " of b do not match", size_a,
                       size_b);
    size[dim] = size_a == 1 ? size_b : size_a;
  }
  return CAPL_OK;
}

static capl_status need_matrix(const capl_tensor *t, const char *name)
{
  CAPL_TRY(need_float(t, name));
  if (t->ndim >= 2) return CAPL_OK;
  char text[96];
  return CAPL_FAIL(CAPL_ESHAPE, "%s is %s, at least 2 dims are needed", name,
                   capl_shape_describe(t->ndim, t->size, text, sizeof text));
}

/* a or b seen as a matrix: rows or columns after the asked transposition. */
static int64_t matrix_size(const capl_tensor *t, bool transposed, int which)
{
  return t->size[t->ndim - 2 + (transposed ? 1 - which : which)];
}

static capl_status matmul_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *a = call->in[0], *b = call->in[1];
  bool a_flip = call->attr[MATMUL_TRANSPOSE_A].i, b_flip = call->attr[MATMUL_TRANSPOSE_B].i;
  CAPL_TRY(need_matrix(a, "a"));
  CAPL_TRY(need_matrix(b, "b"));
  CAPL_TRY(need_same_dtype(a, "a", b, "b"));
  int64_t inner_a = matrix_size(a, a_flip, 1), inner_b = matrix_size(b, b_flip, 0);
  if (inner_a != inner_b)
    return CAPL_FAIL(CAPL_ESHAPE, "inner sizes differ: a has %" PRId64 " columns%s, b has %" PRId64 " rows%s",
                     inner_a, a_flip ? " (transposed)" : "", inner_b, b_flip ? " (transposed)" : "");
  int ndim;
  int64_t size[CAPL_MAX_NDIM];
  CAPL_TRY(broadcast_batch(a, b, &ndim, size));
  size[ndim - 2] = matrix_size(a, a_flip, 0);
  size[ndim - 1] = matrix_size(b, b_flip, 1);
  spec_set(&out[0], a->dtype, ndim, size);
  out[0].format = CAPL_ROW;
  return CAPL_OK;
}

/* left * right with transpositions, summed to the shape of `like`. */
static capl_status product_grad(capl_tensor *left, bool flip_left, capl_tensor *right, bool flip_right,
                                const capl_tensor *like, capl_tensor **out)
{
  capl_attr attr[CAPL_MAX_ATTR] = {
    [MATMUL_TRANSPOSE_A] = CAPL_A_INT(flip_left), [MATMUL_TRANSPOSE_B] = CAPL_A_INT(flip_right)};
  capl_tensor *product;
  CAPL_TRY(GRAD_CALL(CAPL_OP_matmul, attr, &product, left, right));
  capl_status status = grad_unbroadcast(product, like, out);
  capl_tensor_unref(product);
  return status;
}

/* With A, B the matrices after transposition: dA = dY B', dB = A' dY; a transposed operand wants its
** gradient transposed too, which the products (B dY') and (dY' A) give directly. */
static capl_status matmul_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (!dy[0]) return CAPL_OK;
  capl_tensor *a = node->in[0], *b = node->in[1];
  bool a_flip = node->attr[MATMUL_TRANSPOSE_A].i, b_flip = node->attr[MATMUL_TRANSPOSE_B].i;
  if (node->needs[0] && a_flip) CAPL_TRY(product_grad(b, b_flip, dy[0], true, a, &dx[0]));
  if (node->needs[0] && !a_flip) CAPL_TRY(product_grad(dy[0], false, b, !b_flip, a, &dx[0]));
  if (node->needs[1] && b_flip) CAPL_TRY(product_grad(dy[0], true, a, a_flip, b, &dx[1]));
  if (node->needs[1] && !b_flip) CAPL_TRY(product_grad(a, !a_flip, dy[0], false, b, &dx[1]));
  return CAPL_OK;
}

static double matmul_macs(const capl_call *call)
{
  int64_t inner = matrix_size(call->in[0], call->attr[MATMUL_TRANSPOSE_A].i, 1);
  return (double)capl_tensor_numel(call->out[0]) * (double)inner;
}

/* ---- descriptors ------------------------------------------------------------------------------ */

const capl_op capl_op_linear = {
    NAME_AND_ATTRS(linear),
    .ins = "x, weight, bias?",
    OUTS(y),
    .amp = CAPL_AMP_LOW,
    .low_in = 3u,
    .layout = CAPL_LAYOUT_ROW,
    .save_in = 1u << 0 | 1u << 1,
    .shape = linear_shape,
    .grad = linear_grad,
    .macs = linear_macs,
    .doc = "Fully connected layer: y = x * weight' + bias.\n"
           "x (...,I), weight (O,I), bias (O), all of one floating dtype -> y (...,O) of that dtype. bias\n"
           "may be f32 beside 16-bit factors. Sums are f32 or wider.\n"
           "Errors: shape if x has other than I features or bias is not (O); dtype if x and weight differ.",
};

const capl_op capl_op_linear_act = {
    NAME_AND_ATTRS(linear_act),
    .ins = "x, weight, bias?",
    OUTS(y),
    .amp = CAPL_AMP_LOW,
    .low_in = 3u,
    .layout = CAPL_LAYOUT_ROW,
    .save_in = 1u << 0 | 1u << 1,
    .save_out = 1u << 0,
    .shape = linear_shape,
    .grad = linear_act_grad,
    .expand = linear_act_expand,
    .macs = linear_macs,
    .doc = "Fully connected layer and activation in one: y = act(x * weight' + bias).\n"
           "x (...,I), weight (O,I), bias (O), all of one floating dtype -> y (...,O) of that dtype. bias\n"
           "may be f32 beside 16-bit factors. act: relu.\n"
           "Errors: as linear.",
};

const capl_op capl_op_linear_grad_x = {
    NAME_AND_ATTRS(linear_grad_x),
    .ins = "dy, weight",
    OUTS(dx),
    .layout = CAPL_LAYOUT_ROW,
    .shape = linear_grad_x_shape,
    .macs = linear_grad_x_macs,
    .doc = "Gradient of linear with respect to x: dx = dy * weight. Not differentiable.\n"
           "dy (...,O), weight (O,I) of one floating dtype -> dx (...,I) of that dtype.\n"
           "Errors: shape if dy has other than O features; dtype if the two differ.",
};

const capl_op capl_op_linear_grad_w = {
    NAME_AND_ATTRS(linear_grad_w),
    .ins = "x, dy",
    OUTS(dw, db),
    .layout = CAPL_LAYOUT_ROW,
    .shape = linear_grad_w_shape,
    .macs = linear_grad_w_macs,
    .doc = "Gradients of linear with respect to weight and bias. Not differentiable.\n"
           "x (...,I), dy (...,O) of one floating dtype and equal leading sizes -> dw (O,I), db (O), both\n"
           "f32 whatever the dtype of x (f64 when x is f64): a 16-bit sum over a batch would lose the small\n"
           "terms. Errors: shape if the leading sizes differ; dtype if the two differ.",
};

const capl_op capl_op_matmul = {
    NAME_AND_ATTRS(matmul),
    .ins = "a, b",
    OUTS(y),
    .amp = CAPL_AMP_LOW,
    .low_in = 3u,
    .layout = CAPL_LAYOUT_ROW,
    .save_in = 1u << 0 | 1u << 1,
    .shape = matmul_shape,
    .grad = matmul_grad,
    .macs = matmul_macs,
    .doc = "Product of matrices, or of batches of matrices.\n"
           "a (...,M,K), b (...,K,N) of one floating dtype -> y (...,M,N) of that dtype; leading sizes\n"
           "are broadcast against each other. Sums are f32 or wider.\n"
           "transpose_a: a is stored as (...,K,M); transpose_b: b is stored as (...,N,K).\n"
           "Errors: shape if the inner sizes or the leading sizes do not match; dtype if the two differ.",
};
