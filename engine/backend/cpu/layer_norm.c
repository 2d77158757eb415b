/* layer_norm.c -- layer norm and RMS norm: rows, divided among the threads.
**
** Each thread sums the gradients of the parameters over its rows, in f32 over FLUSH of them and then in doubles; the
** threads' sums are added in their order.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cpu/cpu.h"
#include "ops/attrs.h"

typedef struct {
  vec_layer_norm p;
  const void *x, *dy;
  void *y; /* dx */
  const float *mean_in, *invstd_in;
  float *mean, *invstd; /* mean: NULL for RMS norm */
  /* gradients of the parameters, by thread */
  int64_t stride; /* n, rounded up to whole cache lines */
  double *sums;   /* [threads][2][stride] */
  float *parts;   /* [threads][2][stride] */
} row_job;

static row_job job_of(const capl_call *call, const capl_tensor *weight)
{
  const capl_tensor *x = call->in[0];
  row_job job = {.p = {.real = x->dtype, .n = 1}, .x = capl_tensor_data(x), .y = capl_tensor_data(call->out[0])};
  const capl_attr *shape = &call->attr[LAYER_NORM_SHAPE];
  for (int d = 0; d < shape->n; d++) job.p.n *= shape->v[d];
  if (weight) job.p.weight = capl_tensor_data(weight);
  return job;
}

static int64_t rows_of(const capl_call *call, const row_job *job)
{
  return capl_tensor_numel(call->in[0]) / job->p.n;
}

/* Rows a thread should get at least. */
static int64_t grain(const row_job *job)
{
  return CPU_GRAIN / (2 * job->p.n) + 1;
}

/* ---- forward ---- */

static void forward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const row_job *job = arg;
  cpu_now->layer_norm(&job->p, end - begin, cpu_at(job->x, job->p.real, begin * job->p.n),
                      cpu_at(job->y, job->p.real, begin * job->p.n), job->mean ? job->mean + begin : NULL,
                      job->invstd + begin);
}

static capl_status forward(const capl_call *call, row_job *job)
{
  job->p.eps = call->attr[LAYER_NORM_EPS].f;
  cpu_parallel(rows_of(call, job), grain(job), forward_part, job);
  return CAPL_OK;
}

static capl_status cpu_layer_norm(const capl_call *call)
{
  const capl_tensor *bias = call_input(call, 2);
  row_job job = job_of(call, call_input(call, 1));
  if (bias) job.p.bias = capl_tensor_data(bias);
  job.mean = capl_tensor_data(call->out[1]);
  job.invstd = capl_tensor_data(call->out[2]);
  return forward(call, &job);
}

static capl_status cpu_rms_norm(const capl_call *call)
{
  row_job job = job_of(call, call_input(call, 1));
  job.invstd = capl_tensor_data(call->out[1]);
  return forward(call, &job);
}

/* ---- backward ---- */

enum { FLUSH = 64 }; /* rows summed in f32 */

static void flush(const row_job *job, float *parts, double *sums)
{
  for (int64_t i = 0; i < 2 * job->stride; i++) sums[i] += parts[i];
  memset(parts, 0, 2 * (size_t)job->stride * sizeof *parts);
}

static void backward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const row_job *job = arg;
  float *parts = job->parts + 2 * thread * job->stride;
  for (int64_t r = begin, n; r < end; r += n) {
    n = end - r < FLUSH ? end - r : FLUSH;
    int64_t at = r * job->p.n;
    cpu_now->layer_norm_grad(&job->p, n, cpu_at(job->x, job->p.real, at), cpu_at(job->dy, job->p.real, at),
                             job->mean_in ? job->mean_in + r : NULL, job->invstd_in + r, parts, parts + job->stride,
                             cpu_at(job->y, job->p.real, at));
    flush(job, parts, job->sums + 2 * thread * job->stride);
  }
}

/* which: 0 dweight, 1 dbias */
static void add_up(const row_job *job, int which, const capl_tensor *out)
{
  float *y = capl_tensor_data(out);
  for (int64_t i = 0; i < job->p.n; i++) {
    double sum = 0;
    for (int t = 0; t < cpu_threads(); t++) sum += job->sums[(2 * t + which) * job->stride + i];
    y[i] = (float)sum;
  }
}

static capl_status backward(const capl_call *call, row_job *job)
{
  enum { LINE = 16 };
  job->dy = capl_tensor_data(call->in[1]);
  job->stride = (job->p.n + LINE - 1) / LINE * LINE;
  size_t count = 2 * (size_t)job->stride * (size_t)cpu_threads(), bytes = count * (sizeof(double) + sizeof(float));
  void *room;
  CAPL_TRY(capl_scratch_get(call->device, bytes, &room));
  memset(room, 0, bytes);
  job->sums = room;
  job->parts = (float *)(job->sums + count);
  cpu_parallel(rows_of(call, job), grain(job), backward_part, job);
  add_up(job, 0, call->out[1]);
  if (job->mean_in) add_up(job, 1, call->out[2]);
  capl_scratch_put(call->device, room);
  return CAPL_OK;
}

static capl_status cpu_layer_norm_grad(const capl_call *call)
{
  row_job job = job_of(call, call->in[2]);
  job.mean_in = capl_tensor_data(call->in[3]);
  job.invstd_in = capl_tensor_data(call->in[4]);
  return backward(call, &job);
}

static capl_status cpu_rms_norm_grad(const capl_call *call)
{
  row_job job = job_of(call, call->in[2]);
  job.invstd_in = capl_tensor_data(call->in[3]);
  return backward(call, &job);
}

static bool supports_rows(const capl_call *call)
{
  return cpu_supports_first(call) && capl_tensor_numel(call->in[0]) > 0;
}

const capl_kernel cpu_layer_norm_kernels[] = {
  {CAPL_OP_layer_norm, cpu_layer_norm, supports_rows, CPU_REAL},
  {CAPL_OP_layer_norm_grad, cpu_layer_norm_grad, supports_rows, CPU_REAL},
  {CAPL_OP_rms_norm, cpu_rms_norm, supports_rows, CPU_REAL},
  {CAPL_OP_rms_norm_grad, cpu_rms_norm_grad, supports_rows, CPU_REAL},
  {0},
};
