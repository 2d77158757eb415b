/* softmax.c -- softmax and log_softmax over the dim that is innermost in memory.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/cpu.h"

typedef struct {
  capl_dtype real;
  int64_t n;
  bool log;
  const void *x, *dy;
  void *y;
} softmax_job;

static void forward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const softmax_job *job = arg;
  for (int64_t r = begin; r < end; r++)
    cpu_now->softmax_row(job->real, job->n, cpu_at(job->x, job->real, r * job->n),
                         cpu_at(job->y, job->real, r * job->n), job->log);
}

static void backward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const softmax_job *job = arg;
  for (int64_t r = begin; r < end; r++)
    cpu_now->softmax_grad_row(job->real, job->n, cpu_at(job->x, job->real, r * job->n),
                              cpu_at(job->dy, job->real, r * job->n), cpu_at(job->y, job->real, r * job->n), job->log);
}

static int64_t class_count(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  int64_t dim = call->attr[0].i;
  return x->size[dim < 0 ? dim + x->ndim : dim];
}

static capl_status rows(const capl_call *call, bool log, bool backward)
{
  const capl_tensor *x = call->in[0];
  softmax_job job = {.real = x->dtype, .n = class_count(call), .log = log, .x = capl_tensor_data(x),
                     .y = capl_tensor_data(call->out[0])};
  if (backward) job.dy = capl_tensor_data(call->in[1]);
  /* an exponential costs several nanoseconds */
  cpu_parallel(capl_tensor_numel(x) / job.n, CPU_GRAIN / (4 * job.n) + 1, backward ? backward_part : forward_part, &job);
  return CAPL_OK;
}

static capl_status cpu_softmax(const capl_call *call)
{
  return rows(call, false, false);
}

static capl_status cpu_log_softmax(const capl_call *call)
{
  return rows(call, true, false);
}

static capl_status cpu_softmax_grad(const capl_call *call)
{
  return rows(call, false, true);
}

static capl_status cpu_log_softmax_grad(const capl_call *call)
{
  return rows(call, true, true);
}

/* Inputs are dense and alike (LAYOUT_DENSE); the class dim must be the one with stride 1. */
static bool supports_rows(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  if (!cpu_supports_same(call) || x->ndim == 0 || capl_tensor_numel(x) == 0) return false;
  int64_t dim = call->attr[0].i < 0 ? call->attr[0].i + x->ndim : call->attr[0].i;
  return x->stride[dim] == 1 && x->size[dim] > 1;
}

const capl_kernel cpu_softmax_kernels[] = {
  {CAPL_OP_softmax, cpu_softmax, supports_rows, CPU_REAL},
  {CAPL_OP_softmax_grad, cpu_softmax_grad, supports_rows, CPU_REAL},
  {CAPL_OP_log_softmax, cpu_log_softmax, supports_rows, CPU_REAL},
  {CAPL_OP_log_softmax_grad, cpu_log_softmax_grad, supports_rows, CPU_REAL},
  {0},
};
