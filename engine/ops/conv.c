/* conv.c -- descriptors of 2-d convolution and of its two gradients.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <string.h>

#include "ops/attrs.h"
#include "ops/rules.h"
#include "ops/window.h"

enum { SIZE_MAX_PX = 1 << 20 }; /* bound of every length in pixels; keeps products far from overflow */

#define CONV_ATTRS                                                                  \
  {"stride", CAPL_ATTR_INTS, .def = 1, .min = 1, .max = SIZE_MAX_PX, .n = 2},       \
      {"padding", CAPL_ATTR_INTS, .def = 0, .min = 0, .max = SIZE_MAX_PX, .n = 2},  \
      {"dilation", CAPL_ATTR_INTS, .def = 1, .min = 1, .max = SIZE_MAX_PX, .n = 2}, \
  {                                                                                 \
    "groups", CAPL_ATTR_INT, .def = 1, .min = 1, .max = SIZE_MAX_PX                 \
  }
#define PAIR_ATTR(text)                                                          \
  {                                                                              \
    text, CAPL_ATTR_INTS, .min = 1, .max = SIZE_MAX_PX, .n = 2, .required = true \
  }

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
  spec_set(&out[1], dtype, 1, size);
  return CAPL_OK;
}

/* ---- gradient rule ---------------------------------------------------------------------------- */

static capl_status conv2d_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (!dy[0]) return CAPL_OK;
  capl_tensor *x = node->in[0], *weight = node->in[1];
  bool bias_needs = node->n_in > 2 && node->needs[2];
  capl_attr attr[CAPL_MAX_ATTR];
  memcpy(attr, node->attr, sizeof attr);
  if (node->needs[0]) {
    attr[CONV_SIZE] = CAPL_A_INTS2(x->size[2], x->size[3]);
    CAPL_TRY(GRAD_CALL(CAPL_OP_conv2d_grad_x, attr, &dx[0], dy[0], weight));
  }
  if (node->needs[1] || bias_needs) {
    capl_tensor *got[2];
    attr[CONV_KERNEL] = CAPL_A_INTS2(weight->size[2], weight->size[3]);
    CAPL_TRY(GRAD_CALL(CAPL_OP_conv2d_grad_w, attr, got, x, dy[0]));
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
    .name = "conv2d",
    .ins = "x, weight, bias?",
    .outs = "y",
    .n_out = 1,
    .attrs = {CONV_ATTRS},
    .amp = CAPL_AMP_LOW,
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

const capl_op capl_op_conv2d_grad_x = {
    .name = "conv2d_grad_x",
    .ins = "dy, weight",
    .outs = "dx",
    .n_out = 1,
    .attrs = {CONV_ATTRS, PAIR_ATTR("size")},
    .amp = CAPL_AMP_KEEP,
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = conv2d_grad_x_shape,
    .macs = conv2d_grad_x_macs,
    .doc = "Gradient of conv2d with respect to x. Not differentiable.\n"
           "dy (N,O,H',W'), weight (O,C/groups,kh,kw) of one floating dtype -> dx (N,C,H,W) of that\n"
           "dtype. stride, padding, dilation, groups as in conv2d; size: {H, W} of x.\n"
           "Errors: shape if dy is not what conv2d gives for size; value if groups does not divide O; dtype.",
};

const capl_op capl_op_conv2d_grad_w = {
    .name = "conv2d_grad_w",
    .ins = "x, dy",
    .outs = "dw, db",
    .n_out = 2,
    .attrs = {CONV_ATTRS, PAIR_ATTR("kernel")},
    .amp = CAPL_AMP_KEEP,
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = conv2d_grad_w_shape,
    .macs = conv2d_grad_w_macs,
    .doc =
        "Gradients of conv2d with respect to weight and bias. Not differentiable.\n"
        "x (N,C,H,W), dy (N,O,H',W') of one floating dtype -> dw (O,C/groups,kh,kw), db (O), both f32\n"
        "whatever the dtype of x (f64 when x is f64): a 16-bit sum over a batch would lose the small\n"
        "terms. stride, padding, dilation, groups as in conv2d; kernel: {kh, kw}.\n"
        "Errors: shape if dy is not what conv2d gives for x; value if groups does not divide C or O; dtype.",
};
