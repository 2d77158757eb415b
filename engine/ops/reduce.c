/* reduce.c -- ops that make one element of many: sums, means, extremes.
**
** Attribute dims names the reduced dims, counted from 0 here (negative: from the end); none = all.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/rules.h"


/* Marks the dims to reduce. */
static capl_status reduced_dims(const capl_tensor *x, const capl_attr *dims, bool *reduced)
{
  for (int d = 0; d < x->ndim; d++) reduced[d] = dims->n == 0;
  for (int i = 0; i < dims->n; i++) {
    int d;
    CAPL_TRY(normalize_dim(dims->v[i], x->ndim, &d));
    if (reduced[d]) return CAPL_FAIL(CAPL_EVALUE, "dim %d is given twice", (int)capl_counted(d));
    reduced[d] = true;
  }
  return CAPL_OK;
}

static void spec_without(const capl_tensor *x, const bool *reduced, bool keepdim, capl_out_spec *out)
{
  *out = (capl_out_spec){.dtype = x->dtype};
  for (int d = 0; d < x->ndim; d++) {
    if (!reduced[d]) out->size[out->ndim++] = x->size[d];
    else if (keepdim) out->size[out->ndim++] = 1;
  }
}

static capl_status reduce_shape(const capl_call *call, capl_out_spec *out)
{
  bool reduced[CAPL_MAX_NDIM];
  CAPL_TRY(reduced_dims(call->in[0], &call->attr[AT(sum, dims)], reduced));
  spec_without(call->in[0], reduced, call->attr[AT(sum, keepdim)].i, out);
  return CAPL_OK;
}

/* Sums of integers are i64, as in PyTorch: sums of u8 would not fit. */
static capl_status sum_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(reduce_shape(call, out));
  if (!capl_dtype_is_float(out->dtype)) out->dtype = CAPL_I64;
  return CAPL_OK;
}

static capl_status mean_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(need_float(call->in[0], "x"));
  return reduce_shape(call, out);
}

/* An extreme of nothing does not exist. */
static capl_status need_elements(const capl_tensor *x, const bool *reduced)
{
  for (int d = 0; d < x->ndim; d++)
    if (reduced[d] && x->size[d] == 0)
      return CAPL_FAIL(CAPL_ESHAPE, "dim %d of x has size 0: nothing to choose from", (int)capl_counted(d));
  return CAPL_OK;
}

static capl_status amax_shape(const capl_call *call, capl_out_spec *out)
{
  bool reduced[CAPL_MAX_NDIM];
  CAPL_TRY(reduced_dims(call->in[0], &call->attr[AT(amax, dims)], reduced));
  CAPL_TRY(need_elements(call->in[0], reduced));
  return reduce_shape(call, out);
}

static capl_status argmax_shape(const capl_call *call, capl_out_spec *out)
{
  bool reduced[CAPL_MAX_NDIM] = {false};
  int dim;
  CAPL_TRY(normalize_dim(call->attr[AT(argmax, dim)].i, call->in[0]->ndim, &dim));
  reduced[dim] = true;
  CAPL_TRY(need_elements(call->in[0], reduced));
  spec_without(call->in[0], reduced, call->attr[AT(argmax, keepdim)].i, out);
  out->dtype = CAPL_I32;
  return CAPL_OK;
}

static capl_status argsort_shape(const capl_call *call, capl_out_spec *out)
{
  int dim;
  CAPL_TRY(normalize_dim(call->attr[AT(argsort, dim)].i, call->in[0]->ndim, &dim));
  if (call->in[0]->size[dim] > INT32_MAX) return CAPL_FAIL(CAPL_ESHAPE, "dim %d is longer than i32 counts", dim + 1);
  spec_set(out, CAPL_I32, call->in[0]->ndim, call->in[0]->size);
  return CAPL_OK;
}

/* gradients */

static capl_status sum_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return grad_expand_reduced(dy[0], node->in[0], &node->attr[AT(sum, dims)], &dx[0]);
}

static capl_status mean_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *scaled = NULL;
  const capl_tensor *x = node->in[0];
  double share = (double)capl_tensor_numel(dy[0]) / (double)capl_tensor_numel(x);
  if (capl_tensor_numel(x) == 0) share = 0; /* dx has no elements either */
  CAPL_TRY(grad_affine(dy[0], share, 0, &scaled));
  return grad_expand_reduced(scaled, x, &node->attr[AT(sum, dims)], &dx[0]);
}

/* All places that hold the maximum share dy equally. */
static capl_status amax_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *y = NULL, *mask = NULL, *places = NULL, *count = NULL, *share = NULL, *wide = NULL;
  capl_tensor *x = node->in[0];
  capl_attr dtype[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(dy[0]->dtype)};
  CAPL_TRY(grad_expand_reduced(node->out[0], x, &node->attr[AT(sum, dims)], &y));
  CAPL_TRY(GRAD_CALL(CAPL_OP_eq, NULL, &mask, x, y));
  CAPL_TRY(GRAD_CALL(CAPL_OP_cast, dtype, &places, mask));
  CAPL_TRY(GRAD_CALL(CAPL_OP_sum, node->attr, &count, places));
  CAPL_TRY(GRAD_CALL(CAPL_OP_div, NULL, &share, dy[0], count));
  CAPL_TRY(grad_expand_reduced(share, x, &node->attr[AT(sum, dims)], &wide));
  return GRAD_CALL(CAPL_OP_mul, NULL, &dx[0], wide, places);
}

/* descriptors */

#define REDUCTION(op, ...)                                               \
  const capl_op capl_op_##op = {NAME_AND_ATTRS(op), .ins = "x", OUTS(y), \
                                __VA_ARGS__}
#define DIMS_DOC                                                                                   \
  "dims: counted from 0 in C, from 1 in Lua; none = all; keepdim leaves them in place with size 1.\n"                  \
  "Errors: value, if a dim does not exist or is given twice"

REDUCTION(sum, .amp = CAPL_AMP_F32, .shape = sum_shape, .grad = sum_grad,
          .doc = "Sum over dims.\nx: any shape and dtype -> y without dims, same dtype; integers and bool give i64.\n"
                 DIMS_DOC ".");
REDUCTION(mean, .amp = CAPL_AMP_F32, .shape = mean_shape, .grad = mean_grad,
          .doc = "Mean over dims; of no elements: NaN.\nx: any shape, floating point -> y without dims, same dtype.\n"
                 DIMS_DOC "; dtype, if x is an integer or bool.");
REDUCTION(amax, .save_in = 1u, .save_out = 1u, .shape = amax_shape, .grad = amax_grad,
          .doc = "Largest element over dims; NaN if one is NaN.\n"
                 "x: any shape and dtype -> y without dims, same dtype. Equal maxima share the gradient.\n"
                 DIMS_DOC "; shape, if there are no elements.");

const capl_op capl_op_argmax = {
  NAME_AND_ATTRS(argmax),
  .ins = "x",
  OUTS(y),
  .index_outs = 1u,
  .shape = argmax_shape,
  .doc = "Where the largest element along dim is, counted from 0; the first of equals, NaN before all.\n"
         "x: any shape and dtype -> y i32 without dim (keepdim: size 1). Not differentiable.\n"
         "Errors: value, if dim does not exist; shape, if it has size 0.",
};

const capl_op capl_op_argsort = {
  NAME_AND_ATTRS(argsort),
  .ins = "x",
  OUTS(y),
  .index_outs = 1u,
  .shape = argsort_shape,
  .doc = "Places along dim, counted from 0, in the order of their elements; equals stay in order; NaN is the largest.\n"
         "x: any shape and dtype -> y i32 in x's shape. Not differentiable; gather takes the elements.\n"
         "Errors: value, if dim does not exist.",
};
