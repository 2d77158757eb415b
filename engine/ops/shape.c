/* shape.c -- ops that rearrange elements without computing: views, slices, joins, copies.
**
** Logical order is row-major over the printed sizes, as in PyTorch, whatever the memory order: to
** flatten a channels-last image therefore copies it into C,H,W order, unless H and W are 1.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "ops/rules.h"

enum { TEXT = 96 };

/* reshape */

/* Product of sizes; -1 when strides could not be counted, even if one of the sizes is 0. */
static int64_t product(const int64_t *size, int n)
{
  int64_t result = 1;
  bool empty = false;
  for (int d = 0; d < n; d++) {
    empty |= size[d] == 0;
    if (size[d] != 0 && __builtin_mul_overflow(result, size[d], &result)) return -1;
  }
  return empty ? 0 : result;
}

static capl_status fail_reshape(const capl_tensor *x, const capl_attr *size)
{
  char from[TEXT], to[TEXT];
  return CAPL_FAIL(CAPL_ESHAPE, "x %s has %lld elements and cannot become %s",
                   capl_shape_describe(x->ndim, x->size, from, sizeof from), (long long)capl_tensor_numel(x),
                   capl_shape_describe(size->n, size->v, to, sizeof to));
}

/* Copies size with its -1 replaced by what is left. */
static capl_status reshape_sizes(const capl_tensor *x, const capl_attr *size, int64_t *out)
{
  int64_t total = capl_tensor_numel(x);
  int open = -1;
  for (int d = 0; d < size->n; d++) {
    out[d] = size->v[d];
    if (out[d] < -1) return CAPL_FAIL(CAPL_EVALUE, "size %lld is negative", (long long)out[d]);
    if (out[d] == -1 && open >= 0) return CAPL_FAIL(CAPL_EVALUE, "only one size may be -1");
    if (out[d] == -1) open = d;
  }
  if (open >= 0) {
    out[open] = 1;
    int64_t known = product(out, size->n);
    if (known <= 0 || total % known != 0) return fail_reshape(x, size);
    out[open] = total / known;
  }
  return product(out, size->n) == total ? CAPL_OK : fail_reshape(x, size);
}

static capl_status reshape_shape(const capl_call *call, capl_out_spec *out)
{
  int64_t size[CAPL_MAX_NDIM];
  CAPL_TRY(reshape_sizes(call->in[0], &call->attr[AT(reshape, size)], size));
  spec_set(out, call->in[0]->dtype, call->attr[AT(reshape, size)].n, size);
  return CAPL_OK;
}

/* Strides of x seen as size, where no copy is needed: every run of x's dims that lies in memory like
** one dim is cut into the new dims, from the last to the first. Returns whether that works out. */
static bool view_strides(const capl_tensor *x, int ndim, const int64_t *size, int64_t *stride)
{
  int d = ndim - 1; /* next new dim to place */
  int64_t run = 1, placed = 1, step = x->ndim ? x->stride[x->ndim - 1] : 1;
  if (capl_tensor_numel(x) == 0) {
    capl_strides_row(ndim, size, stride);
    return true;
  }
  for (int s = x->ndim - 1; s >= 0; s--) {
    run *= x->size[s];
    bool joined = s > 0 && (x->size[s - 1] == 1 || x->stride[s - 1] == run * step);
    if (joined) continue;
    for (; d >= 0 && (placed < run || size[d] == 1); d--) {
      stride[d] = placed * step;
      placed *= size[d];
    }
    if (placed != run) return false;
    if (s > 0) step = x->stride[s - 1];
    run = placed = 1;
  }
  for (; d >= 0; d--) stride[d] = 1; /* what is left has size 1 */
  return true;
}

static capl_status row_copy(capl_tensor *x, capl_tensor **out)
{
  bool recorded = capl_grad_set_enabled(false);
  capl_status status = capl_op_call(CAPL_OP_contiguous, &x, 1, NULL, out);
  capl_grad_set_enabled(recorded);
  return status;
}

static capl_status reshape_view(const capl_call *call)
{
  TEMP capl_tensor *copy = NULL;
  capl_tensor *x = call->in[0];
  int ndim = call->attr[AT(reshape, size)].n;
  int64_t size[CAPL_MAX_NDIM], stride[CAPL_MAX_NDIM];
  CAPL_TRY(reshape_sizes(x, &call->attr[AT(reshape, size)], size));
  if (view_strides(x, ndim, size, stride))
    return capl_tensor_alias(x, ndim, size, stride, x->offset, &call->out[0]);
  CAPL_TRY(row_copy(x, &copy));
  capl_strides_row(ndim, size, stride);
  return capl_tensor_alias(copy, ndim, size, stride, copy->offset, &call->out[0]);
}

static capl_status reshape_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(reshape, size)] = {.n = node->in[0]->ndim}};
  memcpy(attr[AT(reshape, size)].v, node->in[0]->size, sizeof node->in[0]->size);
  return GRAD_CALL(CAPL_OP_reshape, attr, &dx[0], dy[0]);
}

const capl_op capl_op_reshape = {
  NAME_AND_ATTRS(reshape),
  .ins = "x",
  OUTS(y),
  .shape = reshape_shape,
  .view = reshape_view,
  .grad = reshape_grad,
  .doc = "The same elements in the same logical (row-major) order under other sizes.\n"
         "x: any shape -> y (size), a view where x's strides allow, else a copy. One size may be -1: what is left.\n"
         "Errors: shape, if the numbers of elements differ; value, for sizes below -1 or a second -1.",
};

/* permute */

static capl_status permute_dims(const capl_call *call, int *dims)
{
  const capl_tensor *x = call->in[0];
  const capl_attr *attr = &call->attr[AT(permute, dims)];
  bool seen[CAPL_MAX_NDIM] = {false};
  if (attr->n != x->ndim)
    return CAPL_FAIL(CAPL_ESHAPE, "%d dims given for x with %d dims", attr->n, x->ndim);
  for (int d = 0; d < attr->n; d++) {
    CAPL_TRY(normalize_dim(attr->v[d], x->ndim, &dims[d]));
    if (seen[dims[d]]) return CAPL_FAIL(CAPL_EVALUE, "dim %d is given twice", (int)capl_counted(dims[d]));
    seen[dims[d]] = true;
  }
  return CAPL_OK;
}

static capl_status permute_shape(const capl_call *call, capl_out_spec *out)
{
  int dims[CAPL_MAX_NDIM];
  int64_t size[CAPL_MAX_NDIM];
  CAPL_TRY(permute_dims(call, dims));
  for (int d = 0; d < call->in[0]->ndim; d++) size[d] = call->in[0]->size[dims[d]];
  spec_set(out, call->in[0]->dtype, call->in[0]->ndim, size);
  return CAPL_OK;
}

static capl_status permute_view(const capl_call *call)
{
  capl_tensor *x = call->in[0];
  int dims[CAPL_MAX_NDIM];
  int64_t size[CAPL_MAX_NDIM], stride[CAPL_MAX_NDIM];
  CAPL_TRY(permute_dims(call, dims));
  for (int d = 0; d < x->ndim; d++) {
    size[d] = x->size[dims[d]];
    stride[d] = x->stride[dims[d]];
  }
  return capl_tensor_alias(x, x->ndim, size, stride, x->offset, &call->out[0]);
}

static capl_status permute_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  int ndim = node->in[0]->ndim;
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(permute, dims)] = {.n = ndim}};
  for (int d = 0; d < ndim; d++) {
    int64_t from = node->attr[AT(permute, dims)].v[d];
    attr[AT(permute, dims)].v[from < 0 ? from + ndim : from] = d;
  }
  return GRAD_CALL(CAPL_OP_permute, attr, &dx[0], dy[0]);
}

const capl_op capl_op_permute = {
  NAME_AND_ATTRS(permute),
  .ins = "x",
  OUTS(y),
  .shape = permute_shape,
  .view = permute_view,
  .grad = permute_grad,
  .doc = "A view with the dims in another order: dim i of y is dim dims[i] of x.\n"
         "x: any shape -> y. Errors: shape, unless every dim is named; value, if one is named twice.",
};

/* narrow */

/* Checks dim, start and length against x; length -1 = up to the end is not allowed: say what you mean. */
static capl_status narrow_check(const capl_tensor *x, const capl_attr *attr, int *dim)
{
  int64_t start = attr[AT(narrow, start)].i, length = attr[AT(narrow, length)].i;
  CAPL_TRY(normalize_dim(attr[AT(narrow, dim)].i, x->ndim, dim));
  if (start >= 0 && length >= 0 && start <= x->size[*dim] - length) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%lld elements from %lld on are outside dim %d of size %lld", (long long)length,
                   (long long)capl_counted(start), (int)capl_counted(*dim), (long long)x->size[*dim]);
}

static capl_status narrow_shape(const capl_call *call, capl_out_spec *out)
{
  int dim;
  CAPL_TRY(narrow_check(call->in[0], call->attr, &dim));
  spec_set(out, call->in[0]->dtype, call->in[0]->ndim, call->in[0]->size);
  out->size[dim] = call->attr[AT(narrow, length)].i;
  return CAPL_OK;
}

static capl_status narrow_view(const capl_call *call)
{
  capl_tensor *x = call->in[0];
  int64_t size[CAPL_MAX_NDIM];
  int dim;
  CAPL_TRY(narrow_check(x, call->attr, &dim));
  memcpy(size, x->size, sizeof size);
  size[dim] = call->attr[AT(narrow, length)].i;
  int64_t offset = x->offset + call->attr[AT(narrow, start)].i * x->stride[dim];
  return capl_tensor_alias(x, x->ndim, size, x->stride, offset, &call->out[0]);
}

static capl_status narrow_grad_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  int dim;
  CAPL_TRY(normalize_dim(node->attr[AT(narrow, dim)].i, node->in[0]->ndim, &dim));
  capl_attr attr[CAPL_MAX_ATTR] = {
    [AT(narrow_grad, dim)] = CAPL_A_INT(dim),
    [AT(narrow_grad, start)] = node->attr[AT(narrow, start)],
    [AT(narrow_grad, size)] = CAPL_A_INT(node->in[0]->size[dim]),
  };
  return GRAD_CALL(CAPL_OP_narrow_grad, attr, &dx[0], dy[0]);
}

const capl_op capl_op_narrow = {
  NAME_AND_ATTRS(narrow),
  .ins = "x",
  OUTS(y),
  .shape = narrow_shape,
  .view = narrow_view,
  .grad = narrow_grad_rule,
  .doc = "A view of length elements of one dim, from start on.\n"
         "x: any shape -> y alike, with size length in dim. Errors: value, if the range leaves the dim.",
};

static capl_status narrow_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *dy = call->in[0];
  int64_t start = call->attr[AT(narrow_grad, start)].i, size = call->attr[AT(narrow_grad, size)].i;
  int dim;
  CAPL_TRY(normalize_dim(call->attr[AT(narrow_grad, dim)].i, dy->ndim, &dim));
  if (start < 0 || size < dy->size[dim] || start > size - dy->size[dim])
    return CAPL_FAIL(CAPL_EVALUE, "%lld elements from %lld on do not fit into size %lld", (long long)dy->size[dim],
                     (long long)start, (long long)size);
  spec_set(out, dy->dtype, dy->ndim, dy->size);
  out->size[dim] = size;
  return CAPL_OK;
}

/* The slice that narrow took. */
static capl_status slice_of(capl_tensor *x, int64_t dim, int64_t start, int64_t length, capl_tensor **out)
{
  capl_attr attr[CAPL_MAX_ATTR] = {
    [AT(narrow, dim)] = CAPL_A_INT(dim),
    [AT(narrow, start)] = CAPL_A_INT(start),
    [AT(narrow, length)] = CAPL_A_INT(length),
  };
  return GRAD_CALL(CAPL_OP_narrow, attr, out, x);
}

static capl_status narrow_grad_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  int dim;
  CAPL_TRY(normalize_dim(node->attr[AT(narrow_grad, dim)].i, node->in[0]->ndim, &dim));
  return slice_of(dy[0], dim, node->attr[AT(narrow_grad, start)].i, node->in[0]->size[dim], &dx[0]);
}

const capl_op capl_op_narrow_grad = {
  NAME_AND_ATTRS(narrow_grad),
  .ins = "dy",
  OUTS(dx),
  .shape = narrow_grad_shape,
  .grad = narrow_grad_grad,
  .doc = "dy put back where narrow took it from, zeros elsewhere: pads one dim.\n"
         "dy: any shape -> dx alike, with the given size in dim. Errors: value, if dy does not fit.",
};

/* expand */

static capl_status expand_sizes(const capl_tensor *x, const capl_attr *size, int64_t *out)
{
  char from[TEXT], to[TEXT];
  int lead = size->n - x->ndim;
  if (lead < 0) return CAPL_FAIL(CAPL_ESHAPE, "%d sizes given for x with %d dims", size->n, x->ndim);
  for (int d = 0; d < size->n; d++) {
    int64_t own = d >= lead ? x->size[d - lead] : 1;
    bool keep = size->v[d] == -1 && d >= lead;
    out[d] = keep ? own : size->v[d];
    if (out[d] >= 0 && (own == 1 || own == out[d])) continue;
    return CAPL_FAIL(CAPL_ESHAPE, "x %s cannot be expanded to %s: dim %d is neither 1 nor equal",
                     capl_shape_describe(x->ndim, x->size, from, sizeof from),
                     capl_shape_describe(size->n, size->v, to, sizeof to), (int)capl_counted(d));
  }
  return CAPL_OK;
}

static capl_status expand_shape(const capl_call *call, capl_out_spec *out)
{
  int64_t size[CAPL_MAX_NDIM];
  CAPL_TRY(expand_sizes(call->in[0], &call->attr[AT(expand, size)], size));
  spec_set(out, call->in[0]->dtype, call->attr[AT(expand, size)].n, size);
  return CAPL_OK;
}

static capl_status expand_view(const capl_call *call)
{
  capl_tensor *x = call->in[0];
  int ndim = call->attr[AT(expand, size)].n, lead = ndim - x->ndim;
  int64_t size[CAPL_MAX_NDIM], stride[CAPL_MAX_NDIM];
  CAPL_TRY(expand_sizes(x, &call->attr[AT(expand, size)], size));
  for (int d = 0; d < ndim; d++) {
    bool own = d >= lead && x->size[d - lead] == size[d];
    stride[d] = own ? x->stride[d - lead] : 0;
  }
  return capl_tensor_alias(x, ndim, size, stride, x->offset, &call->out[0]);
}

static capl_status expand_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return grad_unbroadcast(dy[0], node->in[0], &dx[0]);
}

const capl_op capl_op_expand = {
  NAME_AND_ATTRS(expand),
  .ins = "x",
  OUTS(y),
  .shape = expand_shape,
  .view = expand_view,
  .grad = expand_grad,
  .doc = "A view that repeats dims of size 1, without copying.\n"
         "x: any shape -> y (size); -1 keeps a dim; new dims may be added in front.\n"
         "Errors: shape, if a dim is neither 1 nor equal to the wanted size.",
};

/* concat */

static capl_status concat_check(const capl_call *call, int i, int dim)
{
  char first[TEXT], other[TEXT];
  const capl_tensor *a = call->in[0], *b = call->in[i];
  if (!a || !b) return CAPL_FAIL(CAPL_EVALUE, "input %d is missing", a ? i + 1 : 1);
  bool fits = a->ndim == b->ndim;
  for (int d = 0; fits && d < a->ndim; d++) fits = d == dim || a->size[d] == b->size[d];
  if (fits) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "input 1 is %s, input %d is %s: they may differ in dim %d only",
                   capl_shape_describe(a->ndim, a->size, first, sizeof first), i + 1,
                   capl_shape_describe(b->ndim, b->size, other, sizeof other), (int)capl_counted(dim));
}

static capl_status concat_shape(const capl_call *call, capl_out_spec *out)
{
  int dim;
  if (call->n_in == 0) return CAPL_FAIL(CAPL_EVALUE, "concat of no tensors");
  CAPL_TRY(concat_check(call, 0, 0));
  CAPL_TRY(normalize_dim(call->attr[AT(concat, dim)].i, call->in[0]->ndim, &dim));
  spec_set(out, call->in[0]->dtype, call->in[0]->ndim, call->in[0]->size);
  for (int i = 1; i < call->n_in; i++) {
    CAPL_TRY(concat_check(call, i, dim));
    if (__builtin_add_overflow(out->size[dim], call->in[i]->size[dim], &out->size[dim]))
      return CAPL_FAIL(CAPL_EVALUE, "the sizes in dim %d add up to too many", (int)capl_counted(dim));
    out->dtype = promote(out->dtype, call->in[i]->dtype);
  }
  return CAPL_OK;
}

static capl_status concat_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  int dim;
  int64_t start = 0;
  CAPL_TRY(normalize_dim(node->attr[AT(concat, dim)].i, node->in[0]->ndim, &dim));
  for (int i = 0; i < node->n_in; i++) {
    int64_t length = node->in[i]->size[dim];
    if (node->needs[i]) CAPL_TRY(slice_of(dy[0], dim, start, length, &dx[i]));
    start += length;
  }
  return CAPL_OK;
}

const capl_op capl_op_concat = {
  NAME_AND_ATTRS(concat),
  .ins = "xs...",
  OUTS(y),
  .amp = CAPL_AMP_WIDEST,
  .shape = concat_shape,
  .grad = concat_grad,
  .doc = "Joins tensors along one dim.\n"
         "xs: alike but for dim; dtypes are promoted -> y with the sum of their sizes in dim.\n"
         "Errors: shape, if they differ elsewhere.",
};

/* contiguous */

static capl_status contiguous_shape(const capl_call *call, capl_out_spec *out)
{
  spec_set(out, call->in[0]->dtype, call->in[0]->ndim, call->in[0]->size);
  out->format = CAPL_ROW;
  return CAPL_OK;
}

static capl_status contiguous_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  (void)node;
  dx[0] = capl_tensor_ref(dy[0]);
  return CAPL_OK;
}

const capl_op capl_op_contiguous = {
  NAME_AND_ATTRS(contiguous),
  .ins = "x",
  OUTS(y),
  .shape = contiguous_shape,
  .grad = contiguous_grad,
  .doc = "A row-major copy, also of images (N,C,H,W): the last dim is contiguous.\n"
         "x: any shape, strides and dtype -> y alike.",
};
