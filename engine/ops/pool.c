/* pool.c -- descriptors of max, average and adaptive pooling over images.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <string.h>

#include "ops/attrs.h"
#include "ops/rules.h"
#include "ops/window.h"

enum {
  SIZE_MAX_PX = 1 << 20,
  INDEX_MAX = 255, /* positions of a window that a u8 index can distinguish */
};


/* ---- sizes ------------------------------------------------------------------------------------ */

extern const capl_op capl_op_max_pool2d, capl_op_max_pool2d_grad;

/* Dilations of max pools; the windows of averages have no gaps. */
static const int64_t *dilation_of(const capl_op *op, const capl_attr *attr)
{
  static const int64_t none[2] = {1, 1};
  bool max = op == &capl_op_max_pool2d || op == &capl_op_max_pool2d_grad;
  return max ? attr[MAX_POOL_DILATION].v : none;
}

/* Output H,W of a pool over H,W `in`. */
static capl_status pool_output_size(const capl_op *op, const int64_t *in, const capl_attr *attr, int64_t *out)
{
  const int64_t *padding = attr[POOL_PADDING].v, *dilation = dilation_of(op, attr);
  const int64_t kernel[2] = {window_reach(attr[POOL_KERNEL].v[0], dilation[0]),
                             window_reach(attr[POOL_KERNEL].v[1], dilation[1])};
  for (int axis = 0; axis < 2; axis++) {
    if (padding[axis] > kernel[axis] / 2)
      return CAPL_FAIL(CAPL_EVALUE, "padding %" PRId64 " is more than half the kernel size %" PRId64,
                       padding[axis], kernel[axis]);
    if (padding[axis] && dilation[axis] > in[axis] && in[axis])
      return CAPL_FAIL(CAPL_EVALUE,
                       "dilation %" PRId64 " is more than the %" PRId64 " px of x: a window of padding alone",
                       dilation[axis], in[axis]);
    int64_t stride = window_stride(&attr[POOL_STRIDE], &attr[POOL_KERNEL], axis);
    out[axis] = in[axis]
                    ? window_count_pool(in[axis], kernel[axis], stride, padding[axis], attr[POOL_CEIL_MODE].i)
                    : 0;
    if (out[axis] > 0) continue;
    char text[48];
    return CAPL_FAIL(CAPL_ESHAPE,
                     "x is %" PRId64 "x%" PRId64 ", the %" PRId64 "x%" PRId64
                     " pooling window (padding %s) does not fit",
                     in[0], in[1], kernel[0], kernel[1], window_pair_text(padding, text, sizeof text));
  }
  return CAPL_OK;
}

/* The window's positions must be countable in a u8. */
static capl_status need_index_range(const capl_attr *attr)
{
  const int64_t *kernel = attr[POOL_KERNEL].v;
  if (kernel[0] <= INDEX_MAX && kernel[1] <= INDEX_MAX && kernel[0] * kernel[1] <= INDEX_MAX) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE,
                   "a %" PRId64 "x%" PRId64 " window has more than the %d positions an index can name",
                   kernel[0], kernel[1], INDEX_MAX);
}

/* Sizes of t with H,W replaced. */
static void image_size(const capl_tensor *t, const int64_t *height_width, int64_t *size)
{
  memcpy(size, t->size, 2 * sizeof *size);
  memcpy(size + 2, height_width, 2 * sizeof *size);
}

static capl_status pool_size(const capl_call *call, int64_t *size)
{
  const capl_tensor *x = call->in[0];
  CAPL_TRY(window_need_attrs(call));
  CAPL_TRY(window_need_image(x, "x"));
  memcpy(size, x->size, 2 * sizeof *size);
  return pool_output_size(call->op, x->size + 2, call->attr, size + 2);
}

/* dy must have the size that pooling images of the given H,W gives; dx is then (N,C,H,W). */
static capl_status pool_grad_spec(const capl_call *call, int size_attr, capl_out_spec *out)
{
  const capl_tensor *dy = call->in[0];
  const int64_t *image = call->attr[size_attr].v;
  CAPL_TRY(window_need_attrs(call));
  CAPL_TRY(window_need_image(dy, "dy"));
  int64_t expected[4] = {dy->size[0], dy->size[1]}, size[4];
  CAPL_TRY(pool_output_size(call->op, image, call->attr, expected + 2));
  CAPL_TRY(window_need_size(dy, "dy", 4, expected, "kernel and size give an output of"));
  image_size(dy, image, size);
  spec_set(&out[0], dy->dtype, 4, size);
  return CAPL_OK;
}

static capl_status need_index(const capl_call *call, capl_dtype dtype)
{
  CAPL_TRY(need_dtype(call->in[1], "index", dtype));
  return need_same_shape(call->in[0], "dy", call->in[1], "index");
}

/* ---- shape rules ------------------------------------------------------------------------------ */

static capl_status max_pool2d_shape(const capl_call *call, capl_out_spec *out)
{
  int64_t size[4];
  CAPL_TRY(pool_size(call, size));
  CAPL_TRY(need_index_range(call->attr));
  spec_set(&out[0], call->in[0]->dtype, 4, size);
  spec_set(&out[1], CAPL_U8, 4, size);
  return CAPL_OK;
}

static capl_status max_pool2d_grad_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(need_index(call, CAPL_U8));
  return pool_grad_spec(call, MAX_POOL_SIZE, out);
}

static capl_status avg_pool2d_shape(const capl_call *call, capl_out_spec *out)
{
  int64_t size[4];
  CAPL_TRY(pool_size(call, size));
  spec_set(&out[0], call->in[0]->dtype, 4, size);
  return CAPL_OK;
}

static capl_status avg_pool2d_grad_shape(const capl_call *call, capl_out_spec *out)
{
  return pool_grad_spec(call, AVG_POOL_SIZE, out);
}

/* (N,C) of t with the pair in the attribute: the output of a pool, or the input of its gradient. */
static capl_status adaptive_spec(const capl_call *call, const char *name, capl_out_spec *out)
{
  const capl_tensor *t = call->in[0];
  CAPL_TRY(window_need_attrs(call));
  int64_t size[4];
  CAPL_TRY(window_need_image(t, name));
  if (t->size[2] < 1 || t->size[3] < 1)
    return CAPL_FAIL(CAPL_ESHAPE, "%s is %" PRId64 "x%" PRId64 ", there is nothing to pool", name, t->size[2],
                     t->size[3]);
  image_size(t, call->attr[ADAPTIVE_SIZE].v, size);
  spec_set(&out[0], t->dtype, 4, size);
  return CAPL_OK;
}

static capl_status adaptive_avg_pool2d_shape(const capl_call *call, capl_out_spec *out)
{
  return adaptive_spec(call, "x", out);
}

static capl_status adaptive_max_pool2d_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(adaptive_spec(call, "x", out));
  spec_set(&out[1], CAPL_I32, 4, out[0].size);
  return CAPL_OK;
}

static capl_status adaptive_avg_pool2d_grad_shape(const capl_call *call, capl_out_spec *out)
{
  return adaptive_spec(call, "dy", out);
}

static capl_status adaptive_max_pool2d_grad_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(need_index(call, CAPL_I32));
  return adaptive_spec(call, "dy", out);
}

/* ---- gradient rules --------------------------------------------------------------------------- */

/* The forward call's attributes with H,W of x at position size. */
static void attrs_with_size(const capl_node *node, int size, capl_attr *attr)
{
  const int64_t *image = node->in[0]->size + 2;
  memcpy(attr, node->attr, sizeof *attr * CAPL_MAX_ATTR);
  attr[size] = CAPL_A_INTS2(image[0], image[1]);
}

static capl_status max_pool2d_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_attr attr[CAPL_MAX_ATTR];
  if (!dy[0] || !node->needs[0]) return CAPL_OK;
  attrs_with_size(node, MAX_POOL_SIZE, attr);
  return GRAD_CALL(CAPL_OP_max_pool2d_grad, attr, &dx[0], dy[0], node->out[1]);
}

static capl_status avg_pool2d_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_attr attr[CAPL_MAX_ATTR];
  if (!dy[0] || !node->needs[0]) return CAPL_OK;
  attrs_with_size(node, AVG_POOL_SIZE, attr);
  return GRAD_CALL(CAPL_OP_avg_pool2d_grad, attr, &dx[0], dy[0]);
}

static capl_status adaptive_avg_pool2d_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_attr attr[CAPL_MAX_ATTR];
  if (!dy[0] || !node->needs[0]) return CAPL_OK;
  attrs_with_size(node, ADAPTIVE_SIZE, attr);
  return GRAD_CALL(CAPL_OP_adaptive_avg_pool2d_grad, attr, &dx[0], dy[0]);
}

static capl_status adaptive_max_pool2d_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_attr attr[CAPL_MAX_ATTR];
  if (!dy[0] || !node->needs[0]) return CAPL_OK;
  attrs_with_size(node, ADAPTIVE_SIZE, attr);
  return GRAD_CALL(CAPL_OP_adaptive_max_pool2d_grad, attr, &dx[0], dy[0], node->out[1]);
}

/* ---- descriptors ------------------------------------------------------------------------------ */

#define POOL_DOC                                                                                       \
  "H' = floor((H + 2*padding - kh) / stride) + 1, W' alike; with ceil_mode rounded up, but the last\n" \
  "window starts inside x or the left padding.\n"                                                      \
  "kernel, stride, padding: px, one number or {vertical, horizontal}; stride 0 = kernel.\n"
#define POOL_DOC_ERRORS \
  "Errors: shape if x is not 4-d or the window does not fit; value if padding is more than half the kernel."

const capl_op capl_op_max_pool2d = {
    NAME_AND_ATTRS(max_pool2d),
    .ins = "x",
    OUTS(y, index),
    .layout = CAPL_LAYOUT_IMAGE,
    .save_out = 1u << 1,
    .index_outs = 1u << 1,
    .shape = max_pool2d_shape,
    .grad = max_pool2d_rule,
    .doc = "Largest value of each window; padding never wins.\n"
           "x (N,C,H,W) floating -> y (N,C,H',W') of that dtype, index (N,C,H',W') u8: position in the\n"
           "window, row by row; the first of equal values. NaN wins.\n" POOL_DOC
           "dilation: px from one position of a window to the next; kernel then counts as dilation*(kernel-1) + 1.\n"
           POOL_DOC_ERRORS
           " Also if the\nwindow has more than 255 positions, or a window can lie in the padding alone.",
};

const capl_op capl_op_max_pool2d_grad = {
    NAME_AND_ATTRS(max_pool2d_grad),
    .ins = "dy, index",
    OUTS(dx),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = max_pool2d_grad_shape,
    .doc = "Gradient of max_pool2d: dy goes to the winners, summed where they meet. Not differentiable.\n"
           "dy (N,C,H',W') floating, index (N,C,H',W') u8 -> dx (N,C,H,W) of dy's dtype.\n"
           "kernel, stride, padding, ceil_mode, dilation as in max_pool2d; size: {H, W} of x.\n"
           "Errors: shape if dy is not what max_pool2d gives for size.",
};

const capl_op capl_op_avg_pool2d = {
    NAME_AND_ATTRS(avg_pool2d),
    .ins = "x",
    OUTS(y),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = avg_pool2d_shape,
    .grad = avg_pool2d_rule,
    .doc =
        "Mean of each window.\n"
        "x (N,C,H,W) floating -> y (N,C,H',W') of that dtype.\n" POOL_DOC
        "count_include_pad: the divisor counts padding too, but not what ceil_mode adds.\n" POOL_DOC_ERRORS,
};

const capl_op capl_op_avg_pool2d_grad = {
    NAME_AND_ATTRS(avg_pool2d_grad),
    .ins = "dy",
    OUTS(dx),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = avg_pool2d_grad_shape,
    .doc = "Gradient of avg_pool2d. Not differentiable.\n"
           "dy (N,C,H',W') floating -> dx (N,C,H,W) of that dtype.\n"
           "kernel, stride, padding, ceil_mode, count_include_pad as in avg_pool2d; size: {H, W} of x.\n"
           "Errors: shape if dy is not what avg_pool2d gives for size.",
};

#define ADAPTIVE_DOC                                                                            \
  "output: {h, w}; window i along an axis covers inputs floor(i*H/h) to ceil((i+1)*H/h) - 1.\n" \
  "Errors: shape if x is not 4-d or empty."

const capl_op capl_op_adaptive_avg_pool2d = {
    NAME_AND_ATTRS(adaptive_avg_pool2d),
    .ins = "x",
    OUTS(y),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = adaptive_avg_pool2d_shape,
    .grad = adaptive_avg_pool2d_rule,
    .doc = "Means over windows chosen so that the output has the asked size.\n"
           "x (N,C,H,W) floating -> y (N,C,h,w) of that dtype.\n" ADAPTIVE_DOC,
};

const capl_op capl_op_adaptive_avg_pool2d_grad = {
    NAME_AND_ATTRS(adaptive_avg_pool2d_grad),
    .ins = "dy",
    OUTS(dx),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = adaptive_avg_pool2d_grad_shape,
    .doc = "Gradient of adaptive_avg_pool2d. Not differentiable.\n"
           "dy (N,C,h,w) floating -> dx (N,C,H,W) of that dtype. size: {H, W} of x.\n"
           "Errors: shape if dy is not 4-d or empty.",
};

const capl_op capl_op_adaptive_max_pool2d = {
    NAME_AND_ATTRS(adaptive_max_pool2d),
    .ins = "x",
    OUTS(y, index),
    .layout = CAPL_LAYOUT_IMAGE,
    .save_out = 1u << 1,
    .index_outs = 1u << 1,
    .shape = adaptive_max_pool2d_shape,
    .grad = adaptive_max_pool2d_rule,
    .doc = "Largest values of windows chosen so that the output has the asked size.\n"
           "x (N,C,H,W) floating -> y (N,C,h,w) of that dtype, index (N,C,h,w) i32: row * W + column in\n"
           "x; the first of equal values. NaN wins.\n" ADAPTIVE_DOC,
};

const capl_op capl_op_adaptive_max_pool2d_grad = {
    NAME_AND_ATTRS(adaptive_max_pool2d_grad),
    .ins = "dy, index",
    OUTS(dx),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = adaptive_max_pool2d_grad_shape,
    .doc = "Gradient of adaptive_max_pool2d: dy goes to the winners. Not differentiable.\n"
           "dy (N,C,h,w) floating, index (N,C,h,w) i32 -> dx (N,C,H,W) of dy's dtype. size: {H, W} of x.\n"
           "Errors: shape if dy is not 4-d or empty.",
};
