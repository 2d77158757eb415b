/* index.c -- descriptors of ops that move elements by index: gather, scatter, index_select, embedding.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/index.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ops/attrs.h"
#include "ops/rules.h"

enum { TEXT = 96 };

/* ---- places ---------------------------------------------------------------------------------- */

/* A borrowed view of t in other sizes; strides are 0 until set. */
static capl_tensor view_of(const capl_tensor *t, int ndim, const int64_t *size)
{
  capl_tensor view = *t;
  view.ndim = ndim;
  memset(view.stride, 0, sizeof view.stride);
  memcpy(view.size, size, (size_t)ndim * sizeof *size);
  return view;
}

static void start_place(const capl_tensor *large, const capl_tensor *index, int ndim, const int64_t *size, int dim,
                        index_position *out)
{
  *out = (index_position){.n = large->size[dim], .step = large->stride[dim], .skip = -1, .given = index,
                      .index = view_of(index, ndim, size), .base = view_of(large, ndim, size),
                      .order = view_of(index, ndim, size)};
  capl_strides_row(ndim, size, out->order.stride);
}

void index_position_each(const capl_tensor *large, const capl_tensor *index, int dim, index_position *out)
{
  start_place(large, index, index->ndim, index->size, dim, out);
  memcpy(out->index.stride, index->stride, sizeof index->stride);
  memcpy(out->base.stride, large->stride, sizeof large->stride);
  out->base.stride[dim] = 0;
}

void index_position_slices(const capl_tensor *large, const capl_tensor *index, int dim, index_position *out)
{
  int64_t size[CAPL_MAX_NDIM];
  memcpy(size, large->size, sizeof size);
  size[dim] = index->size[0];
  start_place(large, index, large->ndim, size, dim, out);
  out->index.stride[dim] = index->stride[0];
  memcpy(out->base.stride, large->stride, sizeof large->stride);
  out->base.stride[dim] = 0;
}

void index_position_rows(const capl_tensor *large, const capl_tensor *index, int64_t skip, index_position *out)
{
  int64_t size[CAPL_MAX_NDIM];
  memcpy(size, index->size, sizeof size);
  size[index->ndim] = large->size[1];
  start_place(large, index, index->ndim + 1, size, 0, out);
  memcpy(out->index.stride, index->stride, (size_t)index->ndim * sizeof *index->stride);
  out->base.stride[index->ndim] = large->stride[1];
  out->skip = skip;
}

/* ---- the range of indices -------------------------------------------------------------------- */

static int64_t index_at(const capl_tensor *t, int64_t at)
{
  const void *p = capl_tensor_data(t);
  return t->dtype == CAPL_I64 ? ((const int64_t *)p)[at] : ((const int32_t *)p)[at];
}

/* Offset of logical element i, and its place as "3,0" in text. */
static int64_t locate(const capl_tensor *t, int64_t i, char *text, size_t len)
{
  int64_t at = 0, place[CAPL_MAX_NDIM];
  size_t used = 0;
  for (int d = t->ndim - 1; d >= 0; d--) {
    place[d] = i % t->size[d];
    i /= t->size[d];
    at += place[d] * t->stride[d];
  }
  text[0] = 0;
  for (int d = 0; d < t->ndim && used < len; d++)
    used += (size_t)snprintf(text + used, len - used, "%s%" PRId64, d ? "," : "", capl_counted(place[d]));
  return at;
}

capl_status index_need_range(const index_position *p)
{
  char place[TEXT];
  int64_t numel = capl_tensor_numel(p->given);
  for (int64_t i = 0; i < numel; i++) {
    int64_t v = index_at(p->given, locate(p->given, i, place, sizeof place));
    if (v >= 0 && v < p->n) continue;
    if (p->n == 0) CAPL_FAIL(CAPL_EVALUE, "index[%s] is %" PRId64 ", and there is nothing to choose from", place, v);
    else
      CAPL_FAIL(CAPL_EVALUE, "index[%s] is %" PRId64 ", it must be in 0..%" PRId64 " (values count from 0)", place, v,
                p->n - 1);
    capl_error_hint(v == p->n && v > 0 ? "subtract 1 from indices that count from 1"
                                       : "labels of padding (-1) must be replaced first, e.g. index:clamp(0)");
    return CAPL_EVALUE;
  }
  return CAPL_OK;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static capl_status need_index(const capl_tensor *t)
{
  if (t->dtype == CAPL_I32 || t->dtype == CAPL_I64) return CAPL_OK;
  CAPL_FAIL(CAPL_EDTYPE, "index must be i32 or i64, it is %s", capl_dtype_name(t->dtype));
  capl_error_hint("convert it first: index:to(\"i32\")");
  return CAPL_EDTYPE;
}

/* index has the dims of x and is nowhere longer but along dim. */
static capl_status need_each(const capl_tensor *x, const char *name, const capl_tensor *index, int dim)
{
  char left[TEXT], right[TEXT];
  CAPL_TRY(need_index(index));
  bool fits = index->ndim == x->ndim;
  for (int d = 0; fits && d < x->ndim; d++) fits = d == dim || index->size[d] <= x->size[d];
  if (fits) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "index is %s, %s is %s: they need as many dims, and index may be longer in dim %d only",
                   capl_shape_describe(index->ndim, index->size, left, sizeof left), name,
                   capl_shape_describe(x->ndim, x->size, right, sizeof right), (int)capl_counted(dim));
}

static capl_status dim_of(const capl_call *call, int ndim, int *dim)
{
  return normalize_dim(call->attr[TAKE_DIM].i, ndim, dim);
}

/* ---- gather ---------------------------------------------------------------------------------- */

static capl_status gather_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0], *index = call->in[1];
  int dim;
  CAPL_TRY(dim_of(call, x->ndim, &dim));
  CAPL_TRY(need_each(x, "x", index, dim));
  spec_set(out, x->dtype, index->ndim, index->size);
  return CAPL_OK;
}

static capl_attr sizes_of(const capl_tensor *t)
{
  capl_attr a = {.n = t->ndim};
  memcpy(a.v, t->size, sizeof t->size);
  return a;
}

static capl_status gather_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[TAKE_DIM] = node->attr[TAKE_DIM], [TAKE_SIZE] = sizes_of(node->in[0])};
  if (!node->needs[0]) return CAPL_OK;
  return GRAD_CALL(CAPL_OP_gather_grad, attr, &dx[0], dy[0], node->in[1]);
}

/* The size attribute as a tensor without elements, to check an index against. */
static capl_status large_of(const capl_call *call, const capl_tensor *dy, capl_tensor *large)
{
  const capl_attr *size = &call->attr[TAKE_SIZE];
  for (int d = 0; d < size->n; d++)
    if (size->v[d] < 0) return CAPL_FAIL(CAPL_EVALUE, "size[%d] is %" PRId64 ", below 0", d + 1, size->v[d]);
  *large = view_of(dy, size->n, size->v);
  return CAPL_OK;
}

static capl_status gather_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *dy = call->in[0], *index = call->in[1];
  capl_tensor large;
  int dim;
  CAPL_TRY(large_of(call, dy, &large));
  CAPL_TRY(dim_of(call, large.ndim, &dim));
  CAPL_TRY(need_each(&large, "x", index, dim));
  CAPL_TRY(need_same_shape(dy, "dy", index, "index"));
  spec_set(out, dy->dtype, large.ndim, large.size);
  return CAPL_OK;
}

#define INDEX_DOC "Indices are values counted from 0, as class labels are and as argmax gives them.\n"
#define RANGE_DOC                                                                                               \
  "Errors: dtype, if index is neither i32 nor i64; value, if an index is out of range, naming its place. On cuda, " \
  "where\n" \
  "nothing may be read back, "

const capl_op capl_op_gather = {
  NAME_AND_ATTRS(gather),
  .ins = "x, index",
  OUTS(y),
  .save_in = 1u << 1,
  .shape = gather_shape,
  .grad = gather_rule,
  .doc = "Elements chosen along one dim: for dim 1 of a matrix, y[i][j] = x[index[i][j]][j].\n"
         "x: any shape and dtype; index i32|i64 with as many dims, nowhere longer than x but along dim -> y (index's "
         "shape).\n" INDEX_DOC
         RANGE_DOC "an index out of range gives NaN (0 for integers).",
};

const capl_op capl_op_gather_grad = {
  NAME_AND_ATTRS(gather_grad),
  .ins = "dy, index",
  OUTS(dx),
  .shape = gather_grad_shape,
  .doc = "The gradient of gather: dy summed where it was taken from, zeros elsewhere. Not differentiable.\n"
         "dy, index: one shape -> dx (size). The order of sums is fixed: the same bits each time.",
};

/* ---- scatter --------------------------------------------------------------------------------- */

static capl_status scatter_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0], *index = call->in[1], *src = call_input(call, 2);
  int dim;
  CAPL_TRY(dim_of(call, x->ndim, &dim));
  CAPL_TRY(need_each(x, "x", index, dim));
  if (src) CAPL_TRY(need_same_shape(src, "src", index, "index"));
  if (src) CAPL_TRY(need_same_dtype(src, "src", x, "x"));
  spec_like(out, x);
  return CAPL_OK;
}

/* dx: dy without the places that were written. dsrc: what was written. */
static capl_status scatter_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[TAKE_DIM] = node->attr[TAKE_DIM]};
  capl_tensor *index = node->in[1];
  if (node->needs[0]) CAPL_TRY(GRAD_CALL(CAPL_OP_scatter, attr, &dx[0], dy[0], index));
  if (node->n_in > 2 && node->needs[2]) CAPL_TRY(GRAD_CALL(CAPL_OP_gather, attr, &dx[2], dy[0], index));
  return CAPL_OK;
}

static capl_status scatter_add_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[TAKE_DIM] = node->attr[TAKE_DIM]};
  if (node->needs[0]) dx[0] = capl_tensor_ref(dy[0]);
  return node->needs[2] ? GRAD_CALL(CAPL_OP_gather, attr, &dx[2], dy[0], node->in[1]) : CAPL_OK;
}

const capl_op capl_op_scatter = {
  NAME_AND_ATTRS(scatter),
  .ins = "x, index, src?",
  OUTS(y),
  .save_in = 1u << 1,
  .shape = scatter_shape,
  .grad = scatter_rule,
  .doc = "A copy of x with src, or value, written where index says: for dim 1 of a matrix, y[index[i][j]][j] = "
         "src[i][j].\n"
         "x: any shape and dtype; index i32|i64 with as many dims, nowhere longer than x but along dim; src: of "
         "index's\n"
         "shape and x's dtype -> y like x. Of several values for one place the last one (row-major) stays, each time;\n"
         "the gradient of src is dy there for all of them, as in PyTorch.\n" INDEX_DOC
         RANGE_DOC "an index out of range makes all of y NaN (of integers: it is left out).",
};

const capl_op capl_op_scatter_add = {
  NAME_AND_ATTRS(scatter_add),
  .ins = "x, index, src",
  OUTS(y),
  .save_in = 1u << 1,
  .shape = scatter_shape,
  .grad = scatter_add_rule,
  .doc = "A copy of x with src added where index says: for dim 1 of a matrix, y[index[i][j]][j] += src[i][j].\n"
         "Inputs as in scatter -> y like x. The order of sums is fixed: the same bits each time.\n" INDEX_DOC
         RANGE_DOC "an index out of range makes all of y NaN (of integers: it is left out).",
};

/* ---- index_select ---------------------------------------------------------------------------- */

static capl_status index_select_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0], *index = call->in[1];
  int dim;
  CAPL_TRY(dim_of(call, x->ndim, &dim));
  CAPL_TRY(need_index(index));
  CAPL_TRY(need_ndim(index, "index", 1));
  spec_set(out, x->dtype, x->ndim, x->size);
  out->size[dim] = index->size[0];
  return CAPL_OK;
}

static capl_status index_select_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  int dim;
  CAPL_TRY(normalize_dim(node->attr[TAKE_DIM].i, node->in[0]->ndim, &dim));
  capl_attr attr[CAPL_MAX_ATTR] = {[TAKE_DIM] = CAPL_A_INT(dim), [TAKE_SIZE] = CAPL_A_INT(node->in[0]->size[dim])};
  if (!node->needs[0]) return CAPL_OK;
  return GRAD_CALL(CAPL_OP_index_select_grad, attr, &dx[0], dy[0], node->in[1]);
}

static capl_status index_select_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *dy = call->in[0], *index = call->in[1];
  int dim;
  CAPL_TRY(dim_of(call, dy->ndim, &dim));
  CAPL_TRY(need_index(index));
  CAPL_TRY(need_vector(index, "index", dy->size[dim], "slice of dy"));
  spec_set(out, dy->dtype, dy->ndim, dy->size);
  out->size[dim] = call->attr[TAKE_SIZE].i;
  return CAPL_OK;
}

const capl_op capl_op_index_select = {
  NAME_AND_ATTRS(index_select),
  .ins = "x, index",
  OUTS(y),
  .save_in = 1u << 1,
  .shape = index_select_shape,
  .grad = index_select_rule,
  .doc = "Slices of x along one dim, in the order of index; one may come more than once.\n"
         "x: any shape and dtype; index (n) i32|i64 -> y like x with size n in dim.\n" INDEX_DOC
         RANGE_DOC "an index out of range gives NaN (0 for integers).",
};

const capl_op capl_op_index_select_grad = {
  NAME_AND_ATTRS(index_select_grad),
  .ins = "dy, index",
  OUTS(dx),
  .shape = index_select_grad_shape,
  .doc = "The gradient of index_select: slices of dy summed where they were taken from, zeros elsewhere. Not "
         "differentiable.\n"
         "dy, index (n) -> dx like dy with the given size in dim. The order of sums is fixed: the same bits each time.",
};

/* ---- embedding ------------------------------------------------------------------------------- */

static capl_status need_room(const capl_tensor *index)
{
  if (index->ndim < CAPL_MAX_NDIM) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "index has %d dims, with the rows' own dim that is more than %d", index->ndim,
                   CAPL_MAX_NDIM);
}

static capl_status need_padding(int64_t padding, int64_t rows)
{
  if (padding < rows) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "padding_idx is %" PRId64 ", weight has rows 0 to %" PRId64 " (counted from 0)",
                   padding, rows - 1);
}

static capl_status embedding_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *weight = call->in[0], *index = call->in[1];
  CAPL_TRY(need_float(weight, "weight"));
  CAPL_TRY(need_ndim(weight, "weight", 2));
  CAPL_TRY(need_index(index));
  CAPL_TRY(need_room(index));
  CAPL_TRY(need_padding(call->attr[EMBEDDING_PADDING].i, weight->size[0]));
  spec_set(out, weight->dtype, index->ndim, index->size);
  out->size[out->ndim++] = weight->size[1];
  return CAPL_OK;
}

static capl_status embedding_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_attr attr[CAPL_MAX_ATTR] = {
    [EMBEDDING_GRAD_ROWS] = CAPL_A_INT(node->in[0]->size[0]), [EMBEDDING_GRAD_PADDING] = node->attr[EMBEDDING_PADDING]};
  if (!node->needs[0]) return CAPL_OK;
  return GRAD_CALL(CAPL_OP_embedding_grad, attr, &dx[0], dy[0], node->in[1]);
}

static capl_status embedding_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *dy = call->in[0], *index = call->in[1];
  char left[TEXT], right[TEXT];
  CAPL_TRY(need_float(dy, "dy"));
  CAPL_TRY(need_index(index));
  bool fits = dy->ndim == index->ndim + 1;
  for (int d = 0; fits && d < index->ndim; d++) fits = dy->size[d] == index->size[d];
  if (!fits)
    return CAPL_FAIL(CAPL_ESHAPE, "dy is %s, index is %s: dy has the dims of index and one more",
                     capl_shape_describe(dy->ndim, dy->size, left, sizeof left),
                     capl_shape_describe(index->ndim, index->size, right, sizeof right));
  CAPL_TRY(need_padding(call->attr[EMBEDDING_GRAD_PADDING].i, call->attr[EMBEDDING_GRAD_ROWS].i));
  int64_t size[2] = {call->attr[EMBEDDING_GRAD_ROWS].i, dy->size[index->ndim]};
  spec_set(out, dy->dtype, 2, size);
  return CAPL_OK;
}


const capl_op capl_op_embedding = {
  NAME_AND_ATTRS(embedding),
  .ins = "weight, index",
  OUTS(y),
  .save_in = 1u << 1,
  .shape = embedding_shape,
  .grad = embedding_rule,
  .doc = "A row of weight for each index.\n"
         "weight (V,D) floating, index i32|i64 of any shape -> y (index's shape, D) of weight's dtype.\n"
         "padding_idx: rows of this index get no gradient; -1 = none.\n" INDEX_DOC
         RANGE_DOC "an index out of range gives NaN.",
};

const capl_op capl_op_embedding_grad = {
  NAME_AND_ATTRS(embedding_grad),
  .ins = "dy, index",
  OUTS(dweight),
  .shape = embedding_grad_shape,
  .doc = "The gradient of embedding: rows of dy summed by index, zeros for rows that none chose. Not differentiable.\n"
         "dy (index's shape, D) floating, index i32|i64 -> dweight (rows, D) of dy's dtype. The order of sums is "
         "fixed: the\n"
         "same bits each time.",
};
