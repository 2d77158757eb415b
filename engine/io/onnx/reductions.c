/* reductions.c -- sums, means and greatest values over dims; softmax.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/write.h"

enum { DIMS = AT(sum, dims), KEEPDIM = AT(sum, keepdim) };
SAME_PLACE(sum, mean, dims);
SAME_PLACE(sum, amax, dims);

static void write_sum(onnx_build *b, const onnx_call *c)
{
  const capl_attr *dims = &c->attr[DIMS];
  const char *x = onnx_in_as_out(b, c, 0);
  c->out[0].name = ONNX(b, "ReduceSum", x, dims->n ? onnx_list(b, dims->n, dims->v) : ONNX_NONE);
  onnx_int(b, "keepdims", c->attr[KEEPDIM].i);
}

/* ONNX Runtime has no order of booleans. */
static const char *numbers(onnx_build *b, const onnx_call *c, const char *x)
{
  return c->in[0]->dtype == CAPL_BOOL ? onnx_cast(b, x, ONNX_I32) : x;
}

static void reduce(onnx_build *b, const onnx_call *c, const char *type)
{
  const capl_attr *dims = &c->attr[DIMS];
  bool truth = c->out[0].dtype == CAPL_BOOL;
  const char *y = ONNX(b, type, numbers(b, c, onnx_in_as_out(b, c, 0)));
  if (dims->n) onnx_ints(b, "axes", dims->n, dims->v);
  onnx_int(b, "keepdims", c->attr[KEEPDIM].i);
  c->out[0].name = truth ? onnx_cast(b, y, ONNX_BOOL) : y;
}

static void write_mean(onnx_build *b, const onnx_call *c) { reduce(b, c, "ReduceMean"); }
static void write_amax(onnx_build *b, const onnx_call *c) { reduce(b, c, "ReduceMax"); }

static void write_argmax(onnx_build *b, const onnx_call *c)
{
  const char *x = numbers(b, c, onnx_in(c, 0));
  if (c->in[0]->dtype == CAPL_I64) x = onnx_cast(b, x, ONNX_F64); /* ONNX Runtime 1.16 has none of i64 */
  const char *y = ONNX(b, "ArgMax", x);
  onnx_int(b, "axis", c->attr[AT(argmax, dim)].i);
  onnx_int(b, "keepdims", c->attr[AT(argmax, keepdim)].i);
  c->out[0].name = onnx_cast(b, y, onnx_out_type(c));
}

static void write_softmax(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, c->op == CAPL_OP_softmax ? "Softmax" : "LogSoftmax", onnx_in(c, 0));
  onnx_int(b, "axis", c->attr[AT(softmax, dim)].i);
}
SAME_PLACE(softmax, log_softmax, dim);

const onnx_row onnx_reductions[] = {
  {CAPL_OP_sum, write_sum}, {CAPL_OP_mean, write_mean}, {CAPL_OP_amax, write_amax}, {CAPL_OP_argmax, write_argmax},
  {CAPL_OP_softmax, write_softmax}, {CAPL_OP_log_softmax, write_softmax}, {0, NULL},
};
