/* shapes.c -- other views of a tensor, and several as one.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/write.h"

/* A shape of which only one number follows the batch and none is -1 needs no computing: that one is left to ONNX. */
static const char *short_shape(onnx_build *b, const onnx_call *c)
{
  enum { SIZE = AT(reshape, size) };
  const capl_attr *a = &c->attr[SIZE];
  uint8_t bits = c->node ? c->node->follows_batch[SIZE] : 0;
  int64_t size[CAPL_MAX_NDIM];
  if (!bits || (bits & (bits - 1)) || (c->node->by_width && c->node->follows_width[SIZE])) return NULL;
  for (int d = 0; d < a->n; d++) {
    if (a->v[d] <= 0) return NULL;
    size[d] = bits >> d & 1 ? -1 : a->v[d];
  }
  return onnx_list(b, a->n, size);
}

/* 0 means a size of 0 here, not that of the input. */
static void write_reshape(onnx_build *b, const onnx_call *c)
{
  const char *shape = short_shape(b, c);
  if (!shape) shape = onnx_sizes(b, c, AT(reshape, size));
  c->out[0].name = ONNX(b, "Reshape", onnx_in(c, 0), shape);
}

static void write_permute(onnx_build *b, const onnx_call *c)
{
  const capl_attr *dims = &c->attr[AT(permute, dims)];
  int64_t perm[CAPL_MAX_NDIM];
  for (int d = 0; d < dims->n; d++) perm[d] = dims->v[d] < 0 ? dims->v[d] + dims->n : dims->v[d];
  c->out[0].name = onnx_permute(b, onnx_in(c, 0), dims->n, perm);
}

static void write_narrow(onnx_build *b, const onnx_call *c)
{
  const char *start = onnx_sizes(b, c, AT(narrow, start)), *length = onnx_sizes(b, c, AT(narrow, length));
  const char *end = ONNX(b, "Add", start, length), *axis = ONNX_LIST(b, c->attr[AT(narrow, dim)].i);
  c->out[0].name = ONNX(b, "Slice", onnx_in(c, 0), start, end, axis);
}

/* -1 keeps a size, as 1 does in ONNX. */
static void write_expand(onnx_build *b, const onnx_call *c)
{
  const char *size = onnx_sizes(b, c, AT(expand, size));
  c->out[0].name = ONNX(b, "Expand", onnx_in(c, 0), ONNX(b, "Abs", size));
}

static void write_concat(onnx_build *b, const onnx_call *c)
{
  const char **parts = onnx_alloc(b, (size_t)(c->n_in + 1) * sizeof *parts);
  if (!parts) return;
  for (int i = 0; i < c->n_in; i++) parts[i] = onnx_in_as_out(b, c, i);
  c->out[0].name = onnx_node(b, "Concat", parts);
  onnx_int(b, "axis", c->attr[AT(concat, dim)].i);
}

static void write_contiguous(onnx_build *b, const onnx_call *c)
{
  (void)b;
  c->out[0].name = onnx_in(c, 0);
}

const onnx_row onnx_shapes[] = {
  {CAPL_OP_reshape, write_reshape}, {CAPL_OP_permute, write_permute}, {CAPL_OP_narrow, write_narrow},
  {CAPL_OP_expand, write_expand}, {CAPL_OP_concat, write_concat}, {CAPL_OP_contiguous, write_contiguous}, {0, NULL},
};
