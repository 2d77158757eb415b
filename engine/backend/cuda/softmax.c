/* softmax.c -- softmax and log_softmax over any dim, and their gradients.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/softmax.h"

#include "backend/cuda/loop.h"
#include "ops/rules.h"

enum { CLASSES_EACH = 4 }; /* that a thread should have at least */

/* x is dense (LAYOUT_DENSE), so that a dim of stride s has s elements inside it. */
static void divide_work(softmax_args *a, const capl_tensor *x, int dim)
{
  int64_t numel = capl_tensor_numel(x);
  a->classes = x->size[dim];
  a->inner = a->classes > 1 ? x->stride[dim] : 1;
  a->outer = numel / (a->classes * a->inner);
  a->team.width = cu_power_of_2(a->inner, CU_TEAM_WIDTH);
  a->team.depth = cu_power_of_2((a->classes + CLASSES_EACH - 1) / CLASSES_EACH, CU_TEAM_THREADS / a->team.width);
  a->tiles = (a->inner + a->team.width - 1) / a->team.width;
}

static capl_status run(const capl_call *call, int kernel, bool log, const void *dy)
{
  const capl_tensor *x = call->in[0];
  softmax_args a = {.out = capl_tensor_data(call->out[0]), .x = capl_tensor_data(x), .dy = dy, .log = log};
  int dim;
  CAPL_TRY(normalize_dim(call->attr[AT(softmax, dim)].i, x->ndim, &dim));
  divide_work(&a, x, dim);
  int64_t threads = a.outer * a.tiles * a.team.width * a.team.depth;
  return cu_launch(cu_softmax_table[kernel + cu_type_of(x->dtype)], cu_blocks(threads, CU_TEAM_THREADS),
                   CU_TEAM_THREADS, 0, &a);
}

static capl_status forward(const capl_call *call, bool log)
{
  if (capl_tensor_numel(call->in[0]) == 0) return CAPL_OK;
  return run(call, SOFTMAX, log, NULL);
}

/* The kernels want dy in the dtype of y, which is that of dx. */
static capl_status backward(const capl_call *call, bool log)
{
  const capl_tensor *y = call->in[0], *dy = call->in[1];
  capl_tensor *same;
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  if (dy->dtype == y->dtype) return run(call, SOFTMAX_GRAD, log, capl_tensor_data(dy));
  CAPL_TRY(capl_tensor_new_like(y, &same));
  capl_status status = cu_cast_tensor(same, dy);
  if (status == CAPL_OK) status = run(call, SOFTMAX_GRAD, log, capl_tensor_data(same));
  capl_tensor_unref(same);
  return status;
}

static capl_status cu_softmax(const capl_call *call)
{
  return forward(call, false);
}

static capl_status cu_log_softmax(const capl_call *call)
{
  return forward(call, true);
}

static capl_status cu_softmax_grad(const capl_call *call)
{
  return backward(call, false);
}

static capl_status cu_log_softmax_grad(const capl_call *call)
{
  return backward(call, true);
}

static bool supports_rows(const capl_call *call)
{
  for (int i = 0; i < call->n_in; i++)
    if (cu_type_of(call->in[i]->dtype) == CU_TYPES) return false;
  return true;
}

const capl_kernel cu_softmax_kernels[] = {
  {CAPL_OP_softmax, cu_softmax, supports_rows, CU_REAL},
  {CAPL_OP_softmax_grad, cu_softmax_grad, supports_rows, CU_REAL},
  {CAPL_OP_log_softmax, cu_log_softmax, supports_rows, CU_REAL},
  {CAPL_OP_log_softmax_grad, cu_log_softmax_grad, supports_rows, CU_REAL},
  {0},
};
