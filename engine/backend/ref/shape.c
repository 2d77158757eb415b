/* shape.c -- ref kernels of ops that rearrange elements. Views need none.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/ref/ref.h"

/* The dim that concat and narrow_grad are given. */
static int first_dim(const capl_call *call)
{
  int64_t dim = call->attr[AT(concat, dim)].i;
  return (int)(dim < 0 ? dim + call->in[0]->ndim : dim);
}

static capl_status ref_contiguous(const capl_call *call)
{
  ref_walk w;
  for (REF_WALK(&w, call->out[0], call->in[0]); w.more; ref_walk_next(&w))
    ref_move(call->out[0], w.at[0], call->in[0], w.at[1]);
  return CAPL_OK;
}

/* y[..., start + i, ...] := x[..., i, ...] */
static void put(capl_tensor *y, const capl_tensor *x, int dim, int64_t start)
{
  capl_tensor part = *y; /* the slice of y that x fills, never seen outside */
  for (int d = 0; d < x->ndim; d++) part.size[d] = x->size[d];
  int64_t offset = start * y->stride[dim];
  ref_walk w;
  for (REF_WALK(&w, &part, x); w.more; ref_walk_next(&w)) ref_move(y, offset + w.at[0], x, w.at[1]);
}

static capl_status ref_concat(const capl_call *call)
{
  int dim = first_dim(call);
  int64_t start = 0;
  for (int i = 0; i < call->n_in; i++) {
    put(call->out[0], call->in[i], dim, start);
    start += call->in[i]->size[dim];
  }
  return CAPL_OK;
}

static capl_status ref_narrow_grad(const capl_call *call)
{
  ref_walk w;
  for (REF_WALK(&w, call->out[0]); w.more; ref_walk_next(&w)) ref_set(call->out[0], w.at[0], 0);
  put(call->out[0], call->in[0], first_dim(call), call->attr[AT(narrow_grad, start)].i);
  return CAPL_OK;
}

const capl_kernel ref_shape_kernels[] = {
  {CAPL_OP_contiguous, ref_contiguous, ref_supports_any, 0},
  {CAPL_OP_concat, ref_concat, ref_supports_any, 0},
  {CAPL_OP_narrow_grad, ref_narrow_grad, ref_supports_any, 0},
  {0},
};
