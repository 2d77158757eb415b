/* softmax.c -- ref kernels of softmax and log_softmax.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/ref/ref.h"

/* One row of K classes: where it starts in each tensor and how far its elements are apart. */
typedef struct {
  int64_t n;
  int64_t start[3], step[3];
} row;

/* Calls f for every row along dim; tensors: output first, then the inputs. */
static capl_status each_row(const capl_call *call, void (*f)(const capl_call *call, const row *r))
{
  const capl_tensor *tensors[3] = {call->out[0], call->in[0], call->n_in > 1 ? call->in[1] : call->in[0]};
  capl_tensor heads[3]; /* the tensors cut down to the first element of every row */
  const capl_tensor *const list[3] = {&heads[0], &heads[1], &heads[2]};
  int64_t given = call->attr[AT(softmax, dim)].i, dim = given < 0 ? given + call->in[0]->ndim : given;
  row r = {.n = call->in[0]->size[dim]};
  if (r.n == 0) return CAPL_OK;
  for (int i = 0; i < 3; i++) {
    heads[i] = *tensors[i];
    heads[i].size[dim] = 1;
    r.step[i] = tensors[i]->stride[dim];
  }
  ref_walk w;
  for (ref_walk_start(&w, 3, list); w.more; ref_walk_next(&w)) {
    for (int i = 0; i < 3; i++) r.start[i] = w.at[i];
    f(call, &r);
  }
  return CAPL_OK;
}

enum { OUT, FIRST, SECOND };

static double get(const capl_call *call, const row *r, int which, int64_t k)
{
  return ref_get(call->in[which - FIRST], r->start[which] + k * r->step[which]);
}

static void set(const capl_call *call, const row *r, int64_t k, double v)
{
  ref_set(call->out[0], r->start[OUT] + k * r->step[OUT], v);
}

/* log of sum of exp, without overflow */
static double log_sum_exp(const capl_call *call, const row *r)
{
  double max = -INFINITY, sum = 0;
  for (int64_t k = 0; k < r->n; k++) max = fmax(max, get(call, r, FIRST, k));
  for (int64_t k = 0; k < r->n; k++) sum += exp(get(call, r, FIRST, k) - max);
  return max + log(sum);
}

static void softmax_row(const capl_call *call, const row *r)
{
  double all = log_sum_exp(call, r);
  for (int64_t k = 0; k < r->n; k++) set(call, r, k, exp(get(call, r, FIRST, k) - all));
}

static void log_softmax_row(const capl_call *call, const row *r)
{
  double all = log_sum_exp(call, r);
  for (int64_t k = 0; k < r->n; k++) set(call, r, k, get(call, r, FIRST, k) - all);
}

static void softmax_grad_row(const capl_call *call, const row *r)
{
  double dot = 0;
  for (int64_t k = 0; k < r->n; k++) dot += get(call, r, FIRST, k) * get(call, r, SECOND, k);
  for (int64_t k = 0; k < r->n; k++) set(call, r, k, get(call, r, FIRST, k) * (get(call, r, SECOND, k) - dot));
}

static void log_softmax_grad_row(const capl_call *call, const row *r)
{
  double sum = 0;
  for (int64_t k = 0; k < r->n; k++) sum += get(call, r, SECOND, k);
  for (int64_t k = 0; k < r->n; k++) set(call, r, k, get(call, r, SECOND, k) - exp(get(call, r, FIRST, k)) * sum);
}

static capl_status ref_softmax(const capl_call *call)
{
  return each_row(call, softmax_row);
}

static capl_status ref_log_softmax(const capl_call *call)
{
  return each_row(call, log_softmax_row);
}

static capl_status ref_softmax_grad(const capl_call *call)
{
  return each_row(call, softmax_grad_row);
}

static capl_status ref_log_softmax_grad(const capl_call *call)
{
  return each_row(call, log_softmax_grad_row);
}

const capl_kernel ref_softmax_kernels[] = {
  {CAPL_OP_softmax, ref_softmax, ref_supports_any, 0},
  {CAPL_OP_softmax_grad, ref_softmax_grad, ref_supports_any, 0},
  {CAPL_OP_log_softmax, ref_log_softmax, ref_supports_any, 0},
  {CAPL_OP_log_softmax_grad, ref_log_softmax_grad, ref_supports_any, 0},
  {0},
};
