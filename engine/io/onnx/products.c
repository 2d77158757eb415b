/* products.c -- linear layers, matrix products, convolutions.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/write.h"

/* (…,M,K) -> (…,K,M) */
static const char *turned(onnx_build *b, const char *x, int ndim)
{
  int64_t dims[CAPL_MAX_NDIM];
  for (int d = 0; d < ndim; d++) dims[d] = d < ndim - 2 ? d : 2 * ndim - 3 - d;
  return onnx_permute(b, x, ndim, dims);
}

static const char *linear(onnx_build *b, const onnx_call *c)
{
  const char *x = onnx_in(c, 0), *weight = onnx_in(c, 1), *bias = onnx_in(c, 2);
  if (c->in[0]->ndim == 2) {
    const char *y = ONNX(b, "Gemm", x, weight, bias);
    onnx_int(b, "transB", 1);
    return y;
  }
  const char *y = ONNX(b, "MatMul", x, turned(b, weight, 2));
  return *bias ? ONNX(b, "Add", y, bias) : y;
}

static void write_linear(onnx_build *b, const onnx_call *c) { c->out[0].name = linear(b, c); }
static void write_linear_act(onnx_build *b, const onnx_call *c) { c->out[0].name = ONNX(b, "Relu", linear(b, c)); }

static void write_matmul(onnx_build *b, const onnx_call *c)
{
  const char *left = onnx_in(c, 0), *right = onnx_in(c, 1);
  if (c->attr[MATMUL_TRANSPOSE_A].i) left = turned(b, left, c->in[0]->ndim);
  if (c->attr[MATMUL_TRANSPOSE_B].i) right = turned(b, right, c->in[1]->ndim);
  c->out[0].name = ONNX(b, "MatMul", left, right);
}

static void add_window(onnx_build *b, const onnx_call *c)
{
  const int64_t *padding = c->attr[CONV_PADDING].v;
  onnx_ints(b, "strides", 2, c->attr[CONV_STRIDE].v);
  ONNX_INTS(b, "pads", padding[0], padding[1], padding[0], padding[1]);
  onnx_ints(b, "dilations", 2, c->attr[CONV_DILATION].v);
  onnx_int(b, "group", c->attr[CONV_GROUPS].i);
}

static void write_conv2d(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "Conv", onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2));
  add_window(b, c);
}

static void write_conv2d_act(onnx_build *b, const onnx_call *c)
{
  write_conv2d(b, c);
  const char *y = c->out[0].name;
  bool silu = c->attr[AT(conv2d_act, act)].i == NORM_SILU;
  c->out[0].name = silu ? ONNX(b, "Mul", y, ONNX(b, "Sigmoid", y)) : ONNX(b, "Relu", y);
}

/* ONNX Runtime wants output_padding below the stride. */
static void write_conv_transpose2d(onnx_build *b, const onnx_call *c)
{
  for (int d = 0; d < 2; d++)
    if (c->attr[CONV_OUTPUT_PADDING].v[d] > 0 && c->attr[CONV_OUTPUT_PADDING].v[d] >= c->attr[CONV_STRIDE].v[d])
      onnx_fail(b, c, "its output_padding is not below its stride");
  c->out[0].name = ONNX(b, "ConvTranspose", onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2));
  add_window(b, c);
  onnx_ints(b, "output_padding", 2, c->attr[CONV_OUTPUT_PADDING].v);
}

const onnx_row onnx_products[] = {
  {CAPL_OP_linear, write_linear}, {CAPL_OP_linear_act, write_linear_act}, {CAPL_OP_matmul, write_matmul},
  {CAPL_OP_conv2d, write_conv2d}, {CAPL_OP_conv2d_act, write_conv2d_act},
  {CAPL_OP_conv_transpose2d, write_conv_transpose2d}, {0, NULL},
};
