/* conv.c -- descriptors of 2-d convolution, of its two gradients and of transposed convolution.
**
** conv_transpose2d has no arithmetic of its own: it is conv2d_grad_x with a bias, its gradients are conv2d and
** conv2d_grad_w with the parts of x and dy exchanged.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <string.h>

#include "ops/attrs.h"
#include "ops/rules.h"
#include "ops/window.h"
#include "tape/deferred.h"

enum { SIZE_MAX_PX = 1 << 20 }; /* bound of every length in pixels; keeps products far from overflow */


/* ---- shape rules ------------------------------------------------------------------------------ */

/* H,W of y for inputs of H,W `in`. ESHAPE if not even one window fits. */
static capl_status conv_output_size(const int64_t *in, const int64_t *kernel, const capl_attr *attr,
                                    int64_t *out)
{
  const int64_t *padding = attr[CONV_PADDING].v, *dilation = attr[CONV_DILATION].v;
  for (int axis = 0; axis < 2; axis++) {
    out[axis] =
        window_count(in[axis], kernel[axis], attr[CONV_STRIDE].v[axis], padding[axis], dilation[axis]);
    if (out[axis] > 0) continue;
    char pad[48], step[48];
    return CAPL_FAIL(CAPL_ESHAPE,
                     "x is %" PRId64 "x%" PRId64 ", the %" PRId64 "x%" PRId64
                     " kernel (padding %s, dilation %s) does not fit",
                     in[0], in[1], kernel[0], kernel[1], window_pair_text(padding, pad, sizeof pad),
                     window_pair_text(dilation, step, sizeof step));
  }
  return CAPL_OK;
}

/* groups must divide the channels of both sides; side is "input" or "output". */
static capl_status need_groups(int64_t channels, const char *name, const char *side, int64_t groups)
{
  if (channels % groups == 0) return CAPL_OK;
  capl_status status =
      CAPL_FAIL(CAPL_EVALUE, "%s has %" PRId64 " %s channels, groups = %" PRId64 " does not divide them",
                name, channels, side, groups);
  capl_error_hint("input and output channels must both be multiples of groups");
  return status;
}

/* x must have the channels that weight (O,C/groups,kh,kw) reads. */
static capl_status need_channels(const capl_tensor *x, const capl_tensor *weight, int64_t groups)
{
  int64_t expected = weight->size[1] * groups, given = x->size[1];
  if (given == expected) return CAPL_OK;
  CAPL_TRY(need_groups(given, "x", "input", groups));
  const char *plural = expected == 1 ? "" : "s";
  capl_status status = CAPL_FAIL(CAPL_ESHAPE, "weight expects %" PRId64 " input channel%s, x has %" PRId64,
                                 expected, plural, given);
  capl_error_hint("use nn.Conv2d(%" PRId64 ", %" PRId64 ", …) or feed images with %" PRId64 " channel%s",
                  given, weight->size[0], expected, plural);
  return status;
}

static capl_status conv2d_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0], *weight = call->in[1], *bias = call_input(call, 2);
  int64_t groups = call->attr[CONV_GROUPS].i;
  CAPL_TRY(window_need_attrs(call));
  CAPL_TRY(window_need_image(x, "x"));
  CAPL_TRY(window_need_image(weight, "weight"));
  CAPL_TRY(need_same_dtype(x, "x", weight, "weight"));
  CAPL_TRY(need_groups(weight->size[0], "weight", "output", groups));
  CAPL_TRY(need_channels(x, weight, groups));
  if (bias) {
    CAPL_TRY(need_vector(bias, "bias", weight->size[0], "output channel"));
    CAPL_TRY(need_bias_dtype(x, bias));
  }
  int64_t size[4] = {x->size[0], weight->size[0]};
  CAPL_TRY(conv_output_size(x->size + 2, weight->size + 2, call->attr, size + 2));
  spec_set(&out[0], x->dtype, 4, size);
  return CAPL_OK;
}

static capl_status conv2d_grad_x_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *dy = call->in[0], *weight = call->in[1];
  int64_t groups = call->attr[CONV_GROUPS].i;
  const int64_t *image = call->attr[CONV_SIZE].v;
  CAPL_TRY(window_need_attrs(call));
  CAPL_TRY(window_need_image(dy, "dy"));
  CAPL_TRY(window_need_image(weight, "weight"));
  CAPL_TRY(need_same_dtype(dy, "dy", weight, "weight"));
  CAPL_TRY(need_groups(weight->size[0], "weight", "output", groups));
  int64_t expected[4] = {dy->size[0], weight->size[0]};
  CAPL_TRY(conv_output_size(image, weight->size + 2, call->attr, expected + 2));
  CAPL_TRY(window_need_size(dy, "dy", 4, expected, "weight and size give an output of"));
  int64_t size[4] = {dy->size[0], weight->size[1] * groups, image[0], image[1]};
  spec_set(&out[0], dy->dtype, 4, size);
  return CAPL_OK;
}

static capl_status conv2d_grad_w_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  int64_t groups = call->attr[CONV_GROUPS].i;
  const int64_t *kernel = call->attr[CONV_KERNEL].v;
  CAPL_TRY(window_need_attrs(call));
  CAPL_TRY(window_need_image(x, "x"));
  CAPL_TRY(window_need_image(dy, "dy"));
  CAPL_TRY(need_same_dtype(x, "x", dy, "dy"));
  CAPL_TRY(need_groups(dy->size[1], "dy", "output", groups));
  CAPL_TRY(need_groups(x->size[1], "x", "input", groups));
  int64_t expected[4] = {x->size[0], dy->size[1]};
  CAPL_TRY(conv_output_size(x->size + 2, kernel, call->attr, expected + 2));
  CAPL_TRY(window_need_size(dy, "dy", 4, expected, "x and kernel give an output of"));
  int64_t size[4] = {dy->size[1], x->size[1] / groups, kernel[0], kernel[1]};
  capl_dtype dtype = x->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32;
  spec_set(&out[0], dtype, 4, size);
  spec_set(&out[1], dtype, 1, call->attr[CONV_NO_BIAS].i ? (int64_t[1]){0} : size);
  return CAPL_OK;
}

/* output_padding selects among the sizes that conv2d maps to one: more than stride or dilation has no meaning. */
static capl_status need_output_padding(const capl_attr *attr)
{
  for (int axis = 0; axis < 2; axis++) {
    int64_t more = attr[CONV_OUTPUT_PADDING].v[axis], stride = attr[CONV_STRIDE].v[axis];
    int64_t dilation = attr[CONV_DILATION].v[axis];
    if (more < stride || more < dilation) continue;
    capl_status status =
        CAPL_FAIL(CAPL_EVALUE, "output_padding %" PRId64 " must be smaller than stride %" PRId64
                  " or dilation %" PRId64, more, stride, dilation);
    capl_error_hint("use output_padding up to %" PRId64, (stride > dilation ? stride : dilation) - 1);
    return status;
  }
  return CAPL_OK;
}

/* H,W of y of a transposed convolution. */
static capl_status transposed_size(const int64_t *in, const int64_t *kernel, const capl_attr *attr, int64_t *out)
{
  const int64_t *stride = attr[CONV_STRIDE].v, *padding = attr[CONV_PADDING].v, *dilation = attr[CONV_DILATION].v;
  for (int axis = 0; axis < 2; axis++) {
    out[axis] = (in[axis] - 1) * stride[axis] - 2 * padding[axis] + dilation[axis] * (kernel[axis] - 1) +
                attr[CONV_OUTPUT_PADDING].v[axis] + 1;
    if (in[axis] > 0 && out[axis] > 0) continue;
    char pad[48];
    return CAPL_FAIL(CAPL_ESHAPE, "x is %" PRId64 "x%" PRId64 ", nothing is left of y with the %" PRId64 "x%" PRId64
                     " kernel and padding %s", in[0], in[1], kernel[0], kernel[1],
                     window_pair_text(padding, pad, sizeof pad));
  }
  return CAPL_OK;
}

/* weight (I,O/groups,kh,kw) takes the channels of x as they are. */
static capl_status need_transposed_channels(const capl_tensor *x, const capl_tensor *weight, int64_t groups)
{
  int64_t given = x->size[1], expected = weight->size[0];
  CAPL_TRY(need_groups(expected, "weight", "input", groups));
  if (given == expected) return CAPL_OK;
  const char *plural = expected == 1 ? "" : "s";
  capl_status status = CAPL_FAIL(CAPL_ESHAPE, "weight expects %" PRId64 " input channel%s, x has %" PRId64, expected,
                                 plural, given);
  capl_error_hint("use nn.ConvTranspose2d(%" PRId64 ", %" PRId64 ", …) or feed images with %" PRId64 " channel%s",
                  given, weight->size[1] * groups, expected, plural);
  return status;
}

static capl_status conv_transpose2d_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0], *weight = call->in[1], *bias = call_input(call, 2);
  int64_t groups = call->attr[CONV_GROUPS].i;
  CAPL_TRY(window_need_attrs(call));
  CAPL_TRY(need_output_padding(call->attr));
  CAPL_TRY(window_need_image(x, "x"));
  CAPL_TRY(window_need_image(weight, "weight"));
  CAPL_TRY(need_same_dtype(x, "x", weight, "weight"));
  CAPL_TRY(need_transposed_channels(x, weight, groups));
  int64_t size[4] = {x->size[0], weight->size[1] * groups};
  if (bias) {
    CAPL_TRY(need_vector(bias, "bias", size[1], "output channel"));
    CAPL_TRY(need_bias_dtype(x, bias));
  }
  CAPL_TRY(transposed_size(x->size + 2, weight->size + 2, call->attr, size + 2));
  spec_set(&out[0], x->dtype, 4, size);
  return CAPL_OK;
}

/* ---- gradient rules --------------------------------------------------------------------------- */

/* Puts those of two gradients into place that are wanted. */
static void keep_wanted(capl_tensor *const got[2], bool first, bool second, capl_tensor **dx)
{
  if (first) dx[0] = got[0];
  else capl_tensor_unref(got[0]);
  if (second) dx[1] = got[1];
  else capl_tensor_unref(got[1]);
}

/* dy: the gradient of the convolution's own result. The bias before a training batch norm moves nothing: its gradient
** is 0, and dy need not be read for it. */
static capl_status product_gradients(const capl_node *node, capl_tensor *dy, capl_tensor **dx)
{
  capl_tensor *x = node->in[0], *weight = node->in[1], *got[2];
  bool bias_needs = node->n_in > 2 && node->needs[2], sums = bias_needs && !dy->zero_sums;
  capl_attr attr[CAPL_MAX_ATTR];
  memcpy(attr, node->attr, sizeof attr);
  if (node->needs[0]) {
    attr[CONV_SIZE] = CAPL_A_INTS2(x->size[2], x->size[3]);
    CAPL_TRY(GRAD_CALL(CAPL_OP_conv2d_grad_x, attr, &dx[0], dy, weight));
  }
  if (node->needs[1] || sums) {
    attr[CONV_KERNEL] = CAPL_A_INTS2(weight->size[2], weight->size[3]);
    attr[CONV_NO_BIAS] = CAPL_A_INT(!sums);
    CAPL_TRY(GRAD_CALL(CAPL_OP_conv2d_grad_w, attr, got, x, dy));
    keep_wanted(got, node->needs[1], sums, dx + 1);
  }
  if (sums || !bias_needs) return CAPL_OK;
  return deferred_zeros(x->device, x->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32, weight->size[0], &dx[2]);
}

static capl_status conv2d_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return dy[0] ? product_gradients(node, dy[0], dx) : CAPL_OK;
}

/* y > 0 where relu passed the product; silu's slope is taken at the product, which is computed again. */
static capl_status conv2d_act_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *product = NULL, *passed = NULL;
  if (!dy[0]) return CAPL_OK;
  if (node->attr[AT(conv2d_act, act)].i == NORM_RELU) {
    CAPL_TRY(GRAD_CALL(CAPL_OP_relu_grad, NULL, &passed, node->out[0], dy[0]));
  } else {
    CAPL_TRY(capl_op_call(CAPL_OP_conv2d, node->in, node->n_in, node->attr, &product));
    CAPL_TRY(GRAD_CALL(CAPL_OP_silu_grad, NULL, &passed, product, dy[0]));
  }
  return product_gradients(node, passed, dx);
}

static capl_status conv2d_act_expand(const capl_call *call)
{
  TEMP capl_tensor *product = NULL;
  CAPL_TRY(capl_op_call(CAPL_OP_conv2d, call->in, call->n_in, call->attr, &product));
  bool silu = call->attr[AT(conv2d_act, act)].i == NORM_SILU;
  return capl_op_call(silu ? CAPL_OP_silu : CAPL_OP_relu, &product, 1, NULL, call->out);
}

/* The two products that a convolution's weight has a part in, one for each neighbour. like: the weight's shape. */
static capl_status weight_gradient(const capl_attr *given, capl_tensor *x, capl_tensor *dy, const capl_tensor *like,
                                   capl_tensor **dw)
{
  capl_tensor *got[2];
  capl_attr attr[CAPL_MAX_ATTR];
  memcpy(attr, given, sizeof attr);
  attr[CONV_KERNEL] = CAPL_A_INTS2(like->size[2], like->size[3]);
  attr[CONV_NO_BIAS] = CAPL_A_INT(true);
  CAPL_TRY(GRAD_CALL(CAPL_OP_conv2d_grad_w, attr, got, x, dy));
  capl_tensor_unref(got[1]);
  *dw = got[0];
  return CAPL_OK;
}

static capl_status forward_again(const capl_attr *given, capl_tensor *x, capl_tensor *weight, capl_tensor **y)
{
  capl_attr attr[CAPL_MAX_ATTR] = {
    [CONV_STRIDE] = given[CONV_STRIDE],
    [CONV_PADDING] = given[CONV_PADDING],
    [CONV_DILATION] = given[CONV_DILATION],
    [CONV_GROUPS] = given[CONV_GROUPS],
  };
  return GRAD_CALL(CAPL_OP_conv2d, attr, y, x, weight);
}

/* dx = conv2d_grad_x(dy, weight) is linear in both; ddx is its gradient. */
static capl_status conv2d_grad_x_grad(const capl_node *node, capl_tensor *const *ddx, capl_tensor **out)
{
  capl_tensor *dy = node->in[0], *weight = node->in[1];
  if (!ddx[0]) return CAPL_OK;
  if (node->needs[0]) CAPL_TRY(forward_again(node->attr, ddx[0], weight, &out[0]));
  if (node->needs[1]) CAPL_TRY(weight_gradient(node->attr, ddx[0], dy, weight, &out[1]));
  return CAPL_OK;
}

/* Only where a backend has the kernel: output_padding is below stride there. */
static capl_status conv_transpose2d_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_attr image[CAPL_MAX_ATTR] = {[AT(sum, dims)] = {.n = 3, .v = {0, 2, 3}}};
  CAPL_TRY(conv2d_grad_x_grad(node, dy, dx));
  if (!dy[0] || node->n_in < 3 || !node->needs[2]) return CAPL_OK;
  return GRAD_CALL(CAPL_OP_sum, image, &dx[2], dy[0]);
}

/* ---- transposed convolution in simpler ops ----------------------------------------------------- */

/* x with rows and columns of zeros behind it, as many as output_padding has whole strides. */
static capl_status pad_behind(capl_tensor *x, const capl_attr *attr, capl_tensor **out)
{
  *out = capl_tensor_ref(x);
  for (int axis = 0; axis < 2; axis++) {
    int64_t more = attr[CONV_OUTPUT_PADDING].v[axis] / attr[CONV_STRIDE].v[axis];
    if (more == 0) continue;
    TEMP capl_tensor *before = *out;
    capl_attr pad[CAPL_MAX_ATTR] = {
      [AT(narrow_grad, dim)] = CAPL_A_INT(2 + axis),
      [AT(narrow_grad, start)] = CAPL_A_INT(0),
      [AT(narrow_grad, size)] = CAPL_A_INT(x->size[2 + axis] + more),
    };
    *out = NULL;
    CAPL_TRY(GRAD_CALL(CAPL_OP_narrow_grad, pad, out, before));
  }
  return CAPL_OK;
}

/* y = x + bias per channel, in the dtype of x. */
static capl_status add_bias(capl_tensor *x, capl_tensor *bias, capl_tensor **y)
{
  TEMP capl_tensor *alike = NULL, *wide = NULL;
  capl_attr dtype[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(x->dtype)};
  capl_attr shape[CAPL_MAX_ATTR] = {[AT(reshape, size)] = {.n = 4, .v = {1, bias->size[0], 1, 1}}};
  CAPL_TRY(GRAD_CALL(CAPL_OP_cast, dtype, &alike, bias));
  CAPL_TRY(GRAD_CALL(CAPL_OP_reshape, shape, &wide, alike));
  return GRAD_CALL(CAPL_OP_add, NULL, y, x, wide);
}

static capl_status conv_transpose2d_expand(const capl_call *call)
{
  capl_tensor *bias = call_input(call, 2);
  TEMP capl_tensor *x = NULL, *product = NULL;
  capl_attr attr[CAPL_MAX_ATTR];
  int64_t size[2];
  memcpy(attr, call->attr, sizeof attr);
  CAPL_TRY(transposed_size(call->in[0]->size + 2, call->in[1]->size + 2, attr, size));
  CAPL_TRY(pad_behind(call->in[0], attr, &x));
  attr[CONV_SIZE] = CAPL_A_INTS2(size[0], size[1]);
  CAPL_TRY(GRAD_CALL(CAPL_OP_conv2d_grad_x, attr, bias ? &product : call->out, x, call->in[1]));
  return bias ? add_bias(product, bias, call->out) : CAPL_OK;
}

/* ---- cost ------------------------------------------------------------------------------------- */

/* y (N,O,H',W') takes C/groups * kh * kw products for each element; the gradients take as many. */
static double conv_macs(const capl_tensor *y, int64_t channels, const int64_t *kernel)
{
  return (double)capl_tensor_numel(y) * (double)channels * (double)(kernel[0] * kernel[1]);
}

static double conv2d_macs(const capl_call *call)
{
  const capl_tensor *weight = call->in[1];
  return conv_macs(call->out[0], weight->size[1], weight->size + 2);
}

static double conv2d_grad_x_macs(const capl_call *call)
{
  const capl_tensor *weight = call->in[1];
  return conv_macs(call->in[0], weight->size[1], weight->size + 2);
}

static double conv2d_grad_w_macs(const capl_call *call)
{
  const capl_tensor *dw = call->out[0];
  return conv_macs(call->in[1], dw->size[1], dw->size + 2);
}

/* ---- descriptors ------------------------------------------------------------------------------ */

const capl_op capl_op_conv2d = {
    NAME_AND_ATTRS(conv2d),
    .ins = "x, weight, bias?",
    OUTS(y),
    .amp = CAPL_AMP_LOW,
    .low_in = 3u,
    .layout = CAPL_LAYOUT_IMAGE,
    .save_in = 1u << 0 | 1u << 1,
    .shape = conv2d_shape,
    .grad = conv2d_grad,
    .macs = conv2d_macs,
    .doc = "2-d convolution (cross-correlation, as in PyTorch).\n"
           "x (N,C,H,W), weight (O,C/groups,kh,kw), bias (O), all of one floating dtype -> y (N,O,H',W')\n"
           "of that dtype; H' = floor((H + 2*padding - dilation*(kh-1) - 1) / stride) + 1, W' alike. bias\n"
           "may be f32 beside 16-bit factors. Sums are f32 or wider.\n"
           "stride, padding, dilation: px, one number or {vertical, horizontal}. groups: C and O are split\n"
           "into that many independent parts; groups = C is a depthwise convolution.\n"
           "Errors: shape if x has other channels than weight expects, if bias is not (O), or if the kernel\n"
           "does not fit into x; value if groups does not divide C or O; dtype if x and weight differ.",
};

const capl_op capl_op_conv2d_act = {
    NAME_AND_ATTRS(conv2d_act),
    .ins = "x, weight, bias?",
    OUTS(y),
    .amp = CAPL_AMP_LOW,
    .low_in = 3u,
    .layout = CAPL_LAYOUT_IMAGE,
    .save_in = 1u << 0 | 1u << 1 | 1u << 2,
    .save_out = 1u << 0,
    .shape = conv2d_shape,
    .grad = conv2d_act_grad,
    .expand = conv2d_act_expand,
    .macs = conv2d_macs,
    .doc = "2-d convolution and activation in one: y = act(conv2d(x, weight, bias)). Open model files are run with it.\n"
           "x (N,C,H,W), weight (O,C/groups,kh,kw), bias (O), all of one floating dtype -> y (N,O,H',W') of that\n"
           "dtype. stride, padding, dilation, groups as in conv2d; act: relu or silu.\n"
           "Errors: as conv2d.",
};

const capl_op capl_op_conv2d_grad_x = {
    NAME_AND_ATTRS(conv2d_grad_x),
    .ins = "dy, weight",
    OUTS(dx),
    .layout = CAPL_LAYOUT_IMAGE,
    .save_in = 1u << 0 | 1u << 1,
    .shape = conv2d_grad_x_shape,
    .grad = conv2d_grad_x_grad,
    .macs = conv2d_grad_x_macs,
    .doc = "Gradient of conv2d with respect to x.\n"
           "dy (N,O,H',W'), weight (O,C/groups,kh,kw) of one floating dtype -> dx (N,C,H,W) of that\n"
           "dtype. stride, padding, dilation, groups as in conv2d; size: {H, W} of x.\n"
           "Errors: shape if dy is not what conv2d gives for size; value if groups does not divide O; dtype.",
};

const capl_op capl_op_conv2d_grad_w = {
    NAME_AND_ATTRS(conv2d_grad_w),
    .ins = "x, dy",
    OUTS(dw, db),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = conv2d_grad_w_shape,
    .macs = conv2d_grad_w_macs,
    .doc =
        "Gradients of conv2d with respect to weight and bias. Not differentiable.\n"
        "x (N,C,H,W), dy (N,O,H',W') of one floating dtype -> dw (O,C/groups,kh,kw), db (O), both f32\n"
        "whatever the dtype of x (f64 when x is f64): a 16-bit sum over a batch would lose the small\n"
        "terms. On cuda dw has the dtype of x where cuDNN makes it: summed in f32 and rounded once.\n"
        "stride, padding, dilation, groups as in conv2d; kernel: {kh, kw}. no_bias: db (0), dy is not\n"
        "summed.\n"
        "Errors: shape if dy is not what conv2d gives for x; value if groups does not divide C or O; dtype.",
};

const capl_op capl_op_conv_transpose2d = {
    NAME_AND_ATTRS(conv_transpose2d),
    .ins = "x, weight, bias?",
    OUTS(y),
    .amp = CAPL_AMP_LOW,
    .low_in = 3u,
    .layout = CAPL_LAYOUT_IMAGE,
    .save_in = 1u << 0 | 1u << 1,
    .shape = conv_transpose2d_shape,
    .grad = conv_transpose2d_grad,
    .expand = conv_transpose2d_expand,
    .macs = conv2d_grad_x_macs,
    .doc = "Transposed 2-d convolution: what conv2d's gradient makes of dy, with a bias. Enlarges by stride.\n"
           "x (N,I,H,W), weight (I,O/groups,kh,kw), bias (O), all of one floating dtype -> y (N,O,H',W') of that\n"
           "dtype; H' = (H - 1) * stride - 2*padding + dilation*(kh-1) + output_padding + 1, W' alike. bias may be\n"
           "f32 beside 16-bit factors.\n"
           "stride, padding, dilation, output_padding: px, one number or {vertical, horizontal}. output_padding:\n"
           "rows below and columns to the right that conv2d with this stride would not see. groups: I and O are\n"
           "split into that many independent parts.\n"
           "Errors: shape if x has other channels than weight expects, if bias is not (O), or if padding leaves\n"
           "nothing; value if groups does not divide I, or if output_padding is neither below stride nor below\n"
           "dilation; dtype if x and weight differ.",
};
