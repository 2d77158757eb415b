/* index.c -- ref kernels of gather, scatter, index_select, embedding and their gradients.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/ref/ref.h"
#include "ops/attrs.h"
#include "ops/rules.h"
#include "ops/index.h"

/* y[i] := element of x that index i stands for. */
static capl_status take(capl_tensor *y, const capl_tensor *x, const index_position *p)
{
  ref_walk w;
  CAPL_TRY(index_need_range(p));
  for (REF_WALK(&w, y, &p->index, &p->base); w.more; ref_walk_next(&w))
    ref_move(y, w.at[0], x, w.at[2] + ref_get_int(&p->index, w.at[1]) * p->step);
  return CAPL_OK;
}

/* Sums stay in double until the end: adding in 16 bits would lose what is small. y is dense. */
static capl_status add(capl_tensor *y, const capl_tensor *src, const index_position *p)
{
  ref_walk w;
  void *memory;
  int64_t numel = capl_tensor_numel(y);
  CAPL_TRY(index_need_range(p));
  CAPL_TRY(capl_scratch_get(y->device, (size_t)numel * sizeof(double), &memory));
  double *sum = memory;
  for (int64_t i = 0; i < numel; i++) sum[i] = ref_get(y, i);
  for (REF_WALK(&w, &p->order, &p->index, &p->base, src); w.more; ref_walk_next(&w)) {
    int64_t i = ref_get_int(&p->index, w.at[1]);
    if (i != p->skip) sum[w.at[2] + i * p->step] += ref_get(src, w.at[3]);
  }
  for (int64_t i = 0; i < numel; i++) ref_set(y, i, sum[i]);
  capl_scratch_put(y->device, memory);
  return CAPL_OK;
}

/* Whole numbers are added exactly. */
static capl_status add_whole(capl_tensor *y, const capl_tensor *src, const index_position *p)
{
  ref_walk w;
  CAPL_TRY(index_need_range(p));
  for (REF_WALK(&w, &p->order, &p->index, &p->base, src); w.more; ref_walk_next(&w)) {
    int64_t at = w.at[2] + ref_get_int(&p->index, w.at[1]) * p->step;
    ref_set_int(y, at, (int64_t)((uint64_t)ref_get_int(y, at) + (uint64_t)ref_get_int(src, w.at[3])));
  }
  return CAPL_OK;
}

static capl_status add_any(capl_tensor *y, const capl_tensor *src, const index_position *p)
{
  return capl_dtype_is_float(y->dtype) ? add(y, src, p) : add_whole(y, src, p);
}

static void put_all(capl_tensor *y, const capl_tensor *x)
{
  ref_walk w;
  for (REF_WALK(&w, y, x); w.more; ref_walk_next(&w)) ref_move(y, w.at[0], x, w.at[1]);
}

static void clear(capl_tensor *y) /* a fresh output: dense */
{
  if (capl_tensor_numel(y) > 0) memset(capl_tensor_data(y), 0, capl_tensor_bytes(y));
}

static capl_status dim_of(const capl_call *call, int ndim, int *dim)
{
  return normalize_dim(call->attr[TAKE_DIM].i, ndim, dim);
}

/* ---- ops ---- */

static capl_status ref_gather(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(dim_of(call, call->in[0]->ndim, &dim));
  index_position_each(call->in[0], call->in[1], dim, &p);
  return take(call->out[0], call->in[0], &p);
}

static capl_status ref_gather_grad(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(dim_of(call, call->out[0]->ndim, &dim));
  index_position_each(call->out[0], call->in[1], dim, &p);
  clear(call->out[0]);
  return add(call->out[0], call->in[0], &p);
}

static capl_status ref_scatter(const capl_call *call)
{
  index_position p;
  ref_walk w;
  int dim;
  capl_tensor *y = call->out[0];
  const capl_tensor *src = call_input(call, 2);
  CAPL_TRY(dim_of(call, y->ndim, &dim));
  index_position_each(y, call->in[1], dim, &p);
  CAPL_TRY(index_need_range(&p));
  put_all(y, call->in[0]);
  for (REF_WALK(&w, &p.order, &p.index, &p.base, src ? src : &p.index); w.more; ref_walk_next(&w)) {
    int64_t at = w.at[2] + ref_get_int(&p.index, w.at[1]) * p.step;
    if (src) ref_move(y, at, src, w.at[3]);
    else ref_set(y, at, call->attr[TAKE_VALUE].f);
  }
  return CAPL_OK;
}

static capl_status ref_scatter_add(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(dim_of(call, call->out[0]->ndim, &dim));
  index_position_each(call->out[0], call->in[1], dim, &p);
  put_all(call->out[0], call->in[0]);
  return add_any(call->out[0], call->in[2], &p);
}

static capl_status ref_index_select(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(dim_of(call, call->in[0]->ndim, &dim));
  index_position_slices(call->in[0], call->in[1], dim, &p);
  return take(call->out[0], call->in[0], &p);
}

static capl_status ref_index_select_grad(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(dim_of(call, call->out[0]->ndim, &dim));
  index_position_slices(call->out[0], call->in[1], dim, &p);
  clear(call->out[0]);
  return add(call->out[0], call->in[0], &p);
}

static capl_status ref_embedding(const capl_call *call)
{
  index_position p;
  index_position_rows(call->in[0], call->in[1], -1, &p);
  return take(call->out[0], call->in[0], &p);
}

static capl_status ref_embedding_grad(const capl_call *call)
{
  index_position p;
  index_position_rows(call->out[0], call->in[1], call->attr[EMBEDDING_GRAD_PADDING].i, &p);
  clear(call->out[0]);
  return add(call->out[0], call->in[0], &p);
}

const capl_kernel ref_take_kernels[] = {
  {CAPL_OP_gather, ref_gather, ref_supports_any, 0},
  {CAPL_OP_gather_grad, ref_gather_grad, ref_supports_any, 0},
  {CAPL_OP_scatter, ref_scatter, ref_supports_any, 0},
  {CAPL_OP_scatter_add, ref_scatter_add, ref_supports_any, 0},
  {CAPL_OP_index_select, ref_index_select, ref_supports_any, 0},
  {CAPL_OP_index_select_grad, ref_index_select_grad, ref_supports_any, 0},
  {CAPL_OP_embedding, ref_embedding, ref_supports_any, 0},
  {CAPL_OP_embedding_grad, ref_embedding_grad, ref_supports_any, 0},
  {0},
};
