/* pools.c -- pooling.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "io/onnx/write.h"
#include "ops/window.h"

/* Padding before and behind each side, as `pads` has it. */
typedef struct {
  int64_t v[4];
} padding;

/* With ceil_mode what the last window needs behind x: ONNX Runtime 1.16 has other rules for that mode, so it is left
** off. added: px that x has got on each end already. */
static padding pads_of(onnx_build *b, const onnx_call *c, const int64_t *added)
{
  padding p;
  for (int d = 0; d < 2; d++) {
    int64_t in = c->in[0]->size[2 + d], out = c->out[0].size[2 + d], kernel = c->attr[POOL_KERNEL].v[d];
    int64_t stride = c->attr[POOL_STRIDE].v[d] ? c->attr[POOL_STRIDE].v[d] : kernel;
    if (c->op == CAPL_OP_max_pool2d) kernel = window_reach(kernel, c->attr[MAX_POOL_DILATION].v[d]);
    p.v[d] = p.v[2 + d] = c->attr[POOL_PADDING].v[d] - added[d];
    if (!c->attr[POOL_CEIL_MODE].i) continue;
    if (in < 0) onnx_fail(b, c, "it has ceil_mode on a side that follows the width");
    int64_t behind = (out - 1) * stride + kernel - (in + 2 * added[d]) - p.v[d];
    p.v[2 + d] = behind > 0 ? behind : 0;
  }
  return p;
}

/* As much padding as the kernel is wide, which dilation allows, is none to ONNX Runtime: then x gets it beforehand. */
static const char *padded(onnx_build *b, const onnx_call *c, const char *x, padding *p)
{
  const int64_t *kernel = c->attr[POOL_KERNEL].v, *v = p->v;
  bool fits = true;
  for (int i = 0; i < 4; i++) fits = fits && v[i] < kernel[i % 2];
  if (fits) return x;
  x = ONNX(b, "Pad", x, ONNX_LIST(b, 0, 0, v[0], v[1], 0, 0, v[2], v[3]), onnx_number(b, ONNX_F32, -INFINITY));
  *p = (padding){{0}};
  return x;
}

static const char *pool(onnx_build *b, const onnx_call *c, const char *type, const char *x, const int64_t *added)
{
  const int64_t *kernel = c->attr[POOL_KERNEL].v, *stride = c->attr[POOL_STRIDE].v;
  for (int k = 0; k < 3; k++) onnx_need_fixed(b, c, (const int[]){POOL_KERNEL, POOL_STRIDE, POOL_PADDING}[k]);
  padding pads = pads_of(b, c, added);
  if (c->op == CAPL_OP_max_pool2d) x = padded(b, c, x, &pads);
  const char *y = ONNX(b, type, x);
  onnx_ints(b, "kernel_shape", 2, kernel);
  ONNX_INTS(b, "strides", stride[0] ? stride[0] : kernel[0], stride[1] ? stride[1] : kernel[1]);
  onnx_ints(b, "pads", 4, pads.v);
  return y;
}

static const int64_t none[2] = {0, 0};

static void write_max_pool2d(onnx_build *b, const onnx_call *c)
{
  onnx_need_fixed(b, c, MAX_POOL_DILATION);
  c->out[0].name = pool(b, c, "MaxPool", onnx_in(c, 0), none);
  onnx_ints(b, "dilations", 2, c->attr[MAX_POOL_DILATION].v);
}

/* Padding that counts is zeros in x; what ceil_mode adds behind it never counts. */
static void write_avg_pool2d(onnx_build *b, const onnx_call *c)
{
  const int64_t *p = c->attr[POOL_PADDING].v;
  const char *x = onnx_in(c, 0);
  bool counts = c->attr[AVG_POOL_COUNT_PAD].i && (p[0] || p[1]);
  if (counts) x = ONNX(b, "Pad", x, ONNX_LIST(b, 0, 0, p[0], p[1], 0, 0, p[0], p[1]));
  c->out[0].name = pool(b, c, "AveragePool", x, counts ? p : none);
}

/* ---- adaptive ---------------------------------------------------------------------------------- */

static const char *reduce(onnx_build *b, const char *type, const char *x, int64_t axis)
{
  const char *y = ONNX(b, type, x);
  onnx_ints(b, "axes", 1, &axis);
  return y;
}

/* One axis from `in` to `out` positions: position i covers floor(i*in/out) to ceil((i+1)*in/out). */
static const char *adapt(onnx_build *b, const char *type, const char *x, int64_t axis, int64_t in, int64_t out)
{
  if (out == 1) return reduce(b, type, x, axis);
  const char **parts = onnx_alloc(b, (size_t)(out + 1) * sizeof *parts);
  if (!parts) return "";
  for (int64_t i = 0; i < out; i++)
    parts[i] = reduce(b, type, onnx_slice(b, x, axis, i * in / out, ((i + 1) * in + out - 1) / out), axis);
  const char *y = onnx_node(b, "Concat", parts);
  onnx_int(b, "axis", axis);
  return y;
}

static void write_adaptive(onnx_build *b, const onnx_call *c)
{
  const char *type = c->op == CAPL_OP_adaptive_avg_pool2d ? "ReduceMean" : "ReduceMax", *y = onnx_in(c, 0);
  const capl_attr *output = &c->attr[ADAPTIVE_SIZE];
  for (int axis = 2; axis < 4; axis++) {
    int64_t in = c->in[0]->size[axis], out = output->v[axis - 2];
    if (c->out[0].size[axis] < 0 || (in < 0 && out != 1))
      onnx_fail(b, c, "its %s size follows the width and is not 1", c->out[0].size[axis] < 0 ? "output" : "input");
    else if (in != out || out == 1) y = adapt(b, type, y, axis, in, out);
  }
  c->out[0].name = y;
}

const onnx_row onnx_pools[] = {
  {CAPL_OP_max_pool2d, write_max_pool2d}, {CAPL_OP_avg_pool2d, write_avg_pool2d},
  {CAPL_OP_adaptive_avg_pool2d, write_adaptive}, {CAPL_OP_adaptive_max_pool2d, write_adaptive}, {0, NULL},
};
