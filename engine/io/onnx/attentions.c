/* attentions.c -- scaled dot product attention.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "io/onnx/write.h"

/* (L,S) bool: query i sees the keys 0..i */
static const char *causal(onnx_build *b, const char *scores)
{
  const char *shape = ONNX(b, "Shape", scores);
  onnx_int(b, "start", -2);
  const char *ones = ONNX(b, "Trilu", ONNX(b, "Expand", onnx_number(b, ONNX_F32, 1), shape));
  onnx_int(b, "upper", 0);
  return onnx_cast(b, ones, ONNX_BOOL);
}

static const char *last_two_turned(onnx_build *b, const char *x, int ndim)
{
  int64_t dims[CAPL_MAX_NDIM];
  for (int d = 0; d < ndim; d++) dims[d] = d < ndim - 2 ? d : 2 * ndim - 3 - d;
  return onnx_permute(b, x, ndim, dims);
}

/* Hidden keys count nothing; a query without any key gives 0. */
static const char *softmax_of_seen(onnx_build *b, const char *scores, const char *seen)
{
  const char *far = onnx_number(b, ONNX_F32, -3e38), *kept = ONNX(b, "Where", seen, scores, far);
  const char *share = ONNX(b, "Softmax", kept);
  onnx_int(b, "axis", -1);
  return ONNX(b, "Where", seen, share, onnx_number(b, ONNX_F32, 0));
}

static const char *softmax_of(onnx_build *b, const char *scores)
{
  const char *share = ONNX(b, "Softmax", scores);
  onnx_int(b, "axis", -1);
  return share;
}

static void write_attention(onnx_build *b, const onnx_call *c)
{
  const struct attrs_scaled_dot_product_attention *a = (const void *)c->attr;
  const char *mask = onnx_in(c, 3);
  double E = (double)c->in[0]->size[c->in[0]->ndim - 1], scale = a->scale.f;
  if (a->dropout_p.f > 0) onnx_fail(b, c, "it has dropout (dropout_p above 0)");
  if (scale == 0 && E < 1) onnx_fail(b, c, "the size of its features follows the width");
  const char *keys = last_two_turned(b, onnx_in(c, 1), c->in[1]->ndim);
  const char *scores = ONNX(b, "MatMul", onnx_in(c, 0), keys);
  scores = onnx_with(b, "Mul", scores, ONNX_F32, scale == 0 ? 1 / sqrt(E) : scale);
  bool seen = *mask && c->in[3]->dtype == CAPL_BOOL;
  const char *share;
  if (a->is_causal.i) share = softmax_of_seen(b, scores, causal(b, scores));
  else if (seen) share = softmax_of_seen(b, scores, mask);
  else share = softmax_of(b, *mask ? ONNX(b, "Add", scores, mask) : scores);
  c->out[0].name = ONNX(b, "MatMul", share, onnx_in(c, 2));
}

const onnx_row onnx_attentions[] = {{CAPL_OP_scaled_dot_product_attention, write_attention}, {0, NULL}};
