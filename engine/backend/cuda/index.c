/* index.c -- gather, scatter, index_select, embedding and their gradients.
**
** Nothing is read back, so an index out of range, which ref and cpu refuse, shows in the result: NaN where it should
** have been read, NaN everywhere where it should have been written. Integers have no NaN: 0, and nothing is written.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/index.h"

#include <math.h>
#include <string.h>

#include "backend/cuda/fixed.h"
#include "backend/cuda/kernels/take.h"
#include "backend/cuda/loop.h"
#include "base/float16.h"
#include "ops/attrs.h"
#include "ops/rules.h"

static take_index index_of(const index_position *p)
{
  return (take_index){capl_tensor_data(&p->index), p->index.dtype == CAPL_I64, p->n, p->step};
}

static capl_status launch(int kernel, const cu_loop *loop, const void *args)
{
  return cu_launch(cu_take_table[kernel], cu_blocks(loop->total, TAKE_THREADS), TAKE_THREADS, 0, args);
}

static int log2_bytes(const capl_tensor *t)
{
  return __builtin_ctz((unsigned)capl_dtype_size(t->dtype));
}

/* An element of t's dtype as bits: v, or what stands for nothing. */
static uint64_t bits_of(const capl_tensor *t, double v)
{
  uint64_t bits = 0;
  int64_t whole = fabs(v) < 9e18 ? (int64_t)v : 0;
  switch (t->dtype) {
  case CAPL_F32: return capl_float_to_bits((float)v);
  case CAPL_F16: return capl_f16_from_float((float)v);
  case CAPL_BF16: return capl_bf16_from_float((float)v);
  case CAPL_F64: memcpy(&bits, &v, sizeof bits); return bits;
  case CAPL_BOOL: return whole != 0;
  default: return (uint64_t)whole;
  }
}

static capl_status take(capl_tensor *y, const capl_tensor *x, const index_position *p)
{
  const capl_tensor *t[] = {y, &p->index, &p->base};
  take_args a = {.index = index_of(p), .y = capl_tensor_data(y), .x = capl_tensor_data(x), .nothing = bits_of(y, NAN)};
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  loop_init(&a.loop, 3, t);
  return launch(TAKE + log2_bytes(y), &a.loop, &a);
}

/* y := x + src by index, x may be NULL. count: how many values may meet in one place. */
static capl_status add(capl_tensor *y, const capl_tensor *x, const capl_tensor *src, const index_position *p,
                       int64_t count)
{
  const capl_tensor *t[] = {src, &p->index, &p->base};
  take_add_args a = {.index = index_of(p), .src = capl_tensor_data(src), .skip = p->skip};
  capl_status status = CAPL_OK;
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  CAPL_TRY(fixed_open(y, src, count, &a.f));
  if (capl_tensor_numel(src) > 0) {
    loop_init(&a.loop, 3, t);
    status = launch(TAKE_ADD + cu_type_of(src->dtype), &a.loop, &a);
  }
  return fixed_close(status, &a.f, y, x);
}

static capl_status count(capl_tensor *y, const capl_tensor *x, const capl_tensor *src, const index_position *p)
{
  const capl_tensor *t[] = {src, &p->index, &p->base};
  take_count_args a = {.index = index_of(p), .src = capl_tensor_data(src), .y = capl_tensor_data(y)};
  CAPL_TRY(cu_copy_tensor(y, x));
  if (capl_tensor_numel(y) == 0 || capl_tensor_numel(src) == 0) return CAPL_OK;
  loop_init(&a.loop, 3, t);
  return launch(TAKE_COUNT + (y->dtype == CAPL_I64), &a.loop, &a);
}

/* ---- gather, index_select, embedding --------------------------------------------------------- */

static capl_status cu_gather(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, call->in[0]->ndim, &dim));
  index_position_each(call->in[0], call->in[1], dim, &p);
  return take(call->out[0], call->in[0], &p);
}

static capl_status cu_gather_grad(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, call->out[0]->ndim, &dim));
  index_position_each(call->out[0], call->in[1], dim, &p);
  return add(call->out[0], NULL, call->in[0], &p, call->in[1]->size[dim]);
}

static capl_status cu_index_select(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, call->in[0]->ndim, &dim));
  index_position_slices(call->in[0], call->in[1], dim, &p);
  return take(call->out[0], call->in[0], &p);
}

static capl_status cu_index_select_grad(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, call->out[0]->ndim, &dim));
  index_position_slices(call->out[0], call->in[1], dim, &p);
  return add(call->out[0], NULL, call->in[0], &p, call->in[1]->size[0]);
}

static capl_status cu_embedding(const capl_call *call)
{
  index_position p;
  index_position_rows(call->in[0], call->in[1], -1, &p);
  return take(call->out[0], call->in[0], &p);
}

static capl_status cu_embedding_grad(const capl_call *call)
{
  index_position p;
  index_position_rows(call->out[0], call->in[1], call->attr[EMBEDDING_GRAD_PADDING].i, &p);
  return add(call->out[0], NULL, call->in[0], &p, capl_tensor_numel(call->in[1]));
}

/* ---- scatter --------------------------------------------------------------------------------- */

static bool is_real(const capl_tensor *t)
{
  return cu_type_of(t->dtype) != CU_TYPES;
}

static capl_status cu_scatter_add(const capl_call *call)
{
  index_position p;
  int dim;
  capl_tensor *y = call->out[0];
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, y->ndim, &dim));
  index_position_each(y, call->in[1], dim, &p);
  if (!is_real(y)) return count(y, call->in[0], call->in[2], &p);
  return add(y, call->in[0], call->in[2], &p, call->in[1]->size[dim]);
}

static capl_status find_last(const index_position *p, take_write_args *write, void *memory)
{
  const capl_tensor *t[] = {&p->order, &p->index, &p->base};
  take_last_args a = {.index = index_of(p), .bad = memory, .last = (unsigned long long *)memory + 1};
  write->bad = a.bad;
  write->last = a.last;
  if (capl_tensor_numel(&p->index) == 0) return CAPL_OK;
  loop_init(&a.loop, 3, t);
  return launch(TAKE_LAST, &a.loop, &a);
}

static capl_status write_last(const capl_call *call, const index_position *p, void *memory)
{
  capl_tensor *y = call->out[0];
  const capl_tensor *x = call->in[0], *src = call_input(call, 2), *values[] = {&p->order, src, &p->base}, *t[] = {y, x};
  take_write_args a = {.y = capl_tensor_data(y), .x = capl_tensor_data(x), .src = src ? capl_tensor_data(src) : NULL,
                       .value = bits_of(y, call->attr[TAKE_VALUE].f), .nothing = bits_of(y, NAN), .real = is_real(y)};
  size_t bytes = (size_t)(1 + capl_tensor_numel(y)) * sizeof *a.last;
  CU_TRY(cudaMemsetAsync(memory, 0, bytes, cu.stream), "filling with zeros");
  CAPL_TRY(find_last(p, &a, memory));
  loop_init(&a.loop, 2, t);
  if (src && capl_tensor_numel(src) > 0) loop_init(&a.order, 2, values);
  return launch(TAKE_WRITE + log2_bytes(y), &a.loop, &a);
}

static capl_status cu_scatter(const capl_call *call)
{
  index_position p;
  void *memory;
  int dim;
  capl_tensor *y = call->out[0];
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, y->ndim, &dim));
  index_position_each(y, call->in[1], dim, &p);
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(1 + capl_tensor_numel(y)) * sizeof(unsigned long long), &memory));
  capl_status status = write_last(call, &p, memory);
  capl_scratch_put(call->device, memory);
  return status;
}

/* ---- argsort: dim, descending ---------------------------------------------------------------- */

static capl_status cu_argsort(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *y = call->out[0];
  capl_tensor start_x = *x, start_y = *x, place = *x;
  const capl_tensor *t[] = {x, &start_x, &start_y, &place};
  int dim;
  CAPL_TRY(normalize_dim(call->attr[AT(argsort, dim)].i, x->ndim, &dim));
  if (capl_tensor_numel(x) == 0) return CAPL_OK;
  take_sort_args a = {.x = capl_tensor_data(x), .y = capl_tensor_data(y), .n = x->size[dim], .step = x->stride[dim],
                      .step_y = y->stride[dim], .from = x->dtype,
                      .descending = call->attr[AT(argsort, descending)].i};
  memcpy(start_y.stride, y->stride, sizeof y->stride);
  memset(place.stride, 0, sizeof place.stride);
  start_x.stride[dim] = start_y.stride[dim] = 0;
  place.stride[dim] = 1;
  loop_init(&a.loop, 4, t);
  return launch(TAKE_SORT, &a.loop, &a);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool supports_sums(const capl_call *call)
{
  return is_real(call->in[0]);
}

/* Of the whole numbers those that a GPU adds at once. */
static bool supports_scatter_add(const capl_call *call)
{
  return is_real(call->in[0]) || call->in[0]->dtype == CAPL_I32 || call->in[0]->dtype == CAPL_I64;
}

const capl_kernel cu_take_kernels[] = {
  {CAPL_OP_gather, cu_gather, NULL, 0},
  {CAPL_OP_gather_grad, cu_gather_grad, supports_sums, 0},
  {CAPL_OP_scatter, cu_scatter, NULL, 0},
  {CAPL_OP_scatter_add, cu_scatter_add, supports_scatter_add, 0},
  {CAPL_OP_index_select, cu_index_select, NULL, 0},
  {CAPL_OP_index_select_grad, cu_index_select_grad, supports_sums, 0},
  {CAPL_OP_argsort, cu_argsort, NULL, 0},
  {CAPL_OP_embedding, cu_embedding, NULL, 0},
  {CAPL_OP_embedding_grad, cu_embedding_grad, supports_sums, 0},
  {0},
};
