/* conv.c -- reference kernels of 2-d convolution and of its gradients.
**
** Each kernel sums in double, for one element of its result at a time, every product that belongs to it;
** input_of and output_of state the geometry once, in both directions.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/attrs.h"

#include "backend/ref/ref.h"

/* Sizes and strides of one convolution, the same for all three kernels. */
typedef struct {
  int64_t batch, groups;
  int64_t in_channels, out_channels; /* of one group */
  int64_t in[2], out[2], kernel[2];  /* H,W */
  const int64_t *stride, *padding, *dilation;
} conv;

static conv conv_of(const capl_attr *attr, const capl_tensor *x, const capl_tensor *weight,
                    const capl_tensor *y)
{
  int64_t groups = attr[CONV_GROUPS].i;
  return (conv){
      .batch = x->size[0],
      .groups = groups,
      .in_channels = weight->size[1],
      .out_channels = weight->size[0] / groups,
      .in = {x->size[2], x->size[3]},
      .out = {y->size[2], y->size[3]},
      .kernel = {weight->size[2], weight->size[3]},
      .stride = attr[CONV_STRIDE].v,
      .padding = attr[CONV_PADDING].v,
      .dilation = attr[CONV_DILATION].v,
  };
}

/* Input position that tap `tap` of output position `out` reads; may lie in the padding. */
static int64_t input_of(const conv *c, int axis, int64_t out, int64_t tap)
{
  return out * c->stride[axis] - c->padding[axis] + tap * c->dilation[axis];
}

/* Output position whose tap `tap` reads input position `in`, -1 if there is none. */
static int64_t output_of(const conv *c, int axis, int64_t in, int64_t tap)
{
  int64_t from = in + c->padding[axis] - tap * c->dilation[axis];
  if (from < 0 || from % c->stride[axis]) return -1;
  int64_t out = from / c->stride[axis];
  return out < c->out[axis] ? out : -1;
}

static bool inside(const conv *c, int axis, int64_t in) { return in >= 0 && in < c->in[axis]; }

/* ---- y[n,o,h,w] = bias[o] + sum over c,i,j of x[n,c,..] * weight[o,c,i,j] ---------------------- */

static double output_sum(const conv *c, const capl_tensor *x, const capl_tensor *weight, int64_t n, int64_t o,
                         int64_t h, int64_t w)
{
  double sum = 0;
  int64_t first = o / c->out_channels * c->in_channels; /* channel of x at which o's group starts */
  for (int64_t i = 0; i < c->kernel[0]; i++) {
    int64_t row = input_of(c, 0, h, i);
    if (!inside(c, 0, row)) continue;
    for (int64_t j = 0; j < c->kernel[1]; j++) {
      int64_t column = input_of(c, 1, w, j);
      if (!inside(c, 1, column)) continue;
      for (int64_t k = 0; k < c->in_channels; k++)
        sum +=
            ref_get(x, ref_at4(x, n, first + k, row, column)) * ref_get(weight, ref_at4(weight, o, k, i, j));
    }
  }
  return sum;
}

static capl_status ref_conv2d(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *weight = call->in[1], *bias = call_input(call, 2);
  capl_tensor *y = call->out[0];
  conv c = conv_of(call->attr, x, weight, y);
  for (int64_t n = 0; n < y->size[0]; n++)
    for (int64_t o = 0; o < y->size[1]; o++) {
      double start = bias ? ref_get(bias, o * bias->stride[0]) : 0;
      for (int64_t h = 0; h < c.out[0]; h++)
        for (int64_t w = 0; w < c.out[1]; w++)
          ref_set(y, ref_at4(y, n, o, h, w), start + output_sum(&c, x, weight, n, o, h, w));
    }
  return CAPL_OK;
}

/* ---- dx[n,c,h,w] = sum over the outputs that read this input ----------------------------------- */

static double input_sum(const conv *c, const capl_tensor *dy, const capl_tensor *weight, int64_t n,
                        int64_t channel, int64_t h, int64_t w)
{
  double sum = 0;
  int64_t k = channel % c->in_channels;
  int64_t first = channel / c->in_channels * c->out_channels; /* first output of the channel's group */
  for (int64_t i = 0; i < c->kernel[0]; i++) {
    int64_t row = output_of(c, 0, h, i);
    if (row < 0) continue;
    for (int64_t j = 0; j < c->kernel[1]; j++) {
      int64_t column = output_of(c, 1, w, j);
      if (column < 0) continue;
      for (int64_t o = first; o < first + c->out_channels; o++)
        sum += ref_get(dy, ref_at4(dy, n, o, row, column)) * ref_get(weight, ref_at4(weight, o, k, i, j));
    }
  }
  return sum;
}

static capl_status ref_conv2d_grad_x(const capl_call *call)
{
  const capl_tensor *dy = call->in[0], *weight = call->in[1];
  capl_tensor *dx = call->out[0];
  conv c = conv_of(call->attr, dx, weight, dy);
  for (int64_t n = 0; n < dx->size[0]; n++)
    for (int64_t channel = 0; channel < dx->size[1]; channel++)
      for (int64_t h = 0; h < c.in[0]; h++)
        for (int64_t w = 0; w < c.in[1]; w++)
          ref_set(dx, ref_at4(dx, n, channel, h, w), input_sum(&c, dy, weight, n, channel, h, w));
  return CAPL_OK;
}

/* ---- dw[o,k,i,j] = sum over n,h,w of x at that tap * dy; db[o] = sum of dy ---------------------- */

static double weight_sum(const conv *c, const capl_tensor *x, const capl_tensor *dy, int64_t o, int64_t k,
                         int64_t i, int64_t j)
{
  double sum = 0;
  int64_t channel = o / c->out_channels * c->in_channels + k;
  for (int64_t n = 0; n < c->batch; n++)
    for (int64_t h = 0; h < c->out[0]; h++) {
      int64_t row = input_of(c, 0, h, i);
      if (!inside(c, 0, row)) continue;
      for (int64_t w = 0; w < c->out[1]; w++) {
        int64_t column = input_of(c, 1, w, j);
        if (!inside(c, 1, column)) continue;
        sum += ref_get(x, ref_at4(x, n, channel, row, column)) * ref_get(dy, ref_at4(dy, n, o, h, w));
      }
    }
  return sum;
}

static double bias_sum(const capl_tensor *dy, int64_t o)
{
  double sum = 0;
  for (int64_t n = 0; n < dy->size[0]; n++)
    for (int64_t h = 0; h < dy->size[2]; h++)
      for (int64_t w = 0; w < dy->size[3]; w++) sum += ref_get(dy, ref_at4(dy, n, o, h, w));
  return sum;
}

static capl_status ref_conv2d_grad_w(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  capl_tensor *dw = call->out[0], *db = call->out[1];
  conv c = conv_of(call->attr, x, dw, dy);
  for (int64_t o = 0; o < dw->size[0]; o++) {
    if (!call->attr[CONV_NO_BIAS].i) ref_set(db, o * db->stride[0], bias_sum(dy, o));
    for (int64_t k = 0; k < c.in_channels; k++)
      for (int64_t i = 0; i < c.kernel[0]; i++)
        for (int64_t j = 0; j < c.kernel[1]; j++)
          ref_set(dw, ref_at4(dw, o, k, i, j), weight_sum(&c, x, dy, o, k, i, j));
  }
  return CAPL_OK;
}

const capl_kernel ref_conv_kernels[] = {
    {CAPL_OP_conv2d, ref_conv2d, ref_supports_any, 0},
    {CAPL_OP_conv2d_grad_x, ref_conv2d_grad_x, ref_supports_any, 0},
    {CAPL_OP_conv2d_grad_w, ref_conv2d_grad_w, ref_supports_any, 0},
    {0},
};
