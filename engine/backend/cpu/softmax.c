/* softmax.c -- softmax and log_softmax over any dim.
**
** Rows that lie in one piece in memory are computed where they are, and so are short ones whose elements lie apart. Of
** long ones sixteen neighbours are laid out as rows first, so that every line that is read or written is used whole.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/cpu.h"

typedef struct {
  capl_dtype real;
  int64_t n;     /* elements of a row */
  int64_t inner; /* from one of them to the next */
  bool log, backward;
  const void *x, *dy;
  void *y;
  char *room; /* per thread: SIDE rows of x, of dy and of y */
  int64_t room_bytes;
} softmax_job;

enum { SIDE = 16 };

/* count rows whose elements lie step apart. */
static void run_rows(const softmax_job *job, int64_t count, int64_t step, const void *x, const void *dy, void *y)
{
  vec_rows rows = {job->real, job->log, count, job->n, step == 1 ? job->n : 1, step};
  if (job->backward) cpu_now->softmax_grad(&rows, x, dy, y);
  else cpu_now->softmax(&rows, x, y);
}

static void run_at(const softmax_job *job, int64_t count, int64_t at)
{
  run_rows(job, count, job->inner, cpu_at(job->x, job->real, at), job->backward ? cpu_at(job->dy, job->real, at) : NULL,
           cpu_at(job->y, job->real, at));
}

static void rows_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const softmax_job *job = arg;
  run_at(job, end - begin, begin * job->n);
}

/* Rows of few elements that lie apart, in the order of memory. */
static void few_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const softmax_job *job = arg;
  while (begin < end) {
    int64_t first = begin % job->inner, left = job->inner - first, count = end - begin < left ? end - begin : left;
    run_at(job, count, begin / job->inner * job->n * job->inner + first);
    begin += count;
  }
}

/* ---- long rows whose elements lie apart ---- */

#define TURN(type, to, from)                                                       \
  for (int64_t k = 0; k < job->n; k++)                                             \
    for (int64_t c = 0; c < count; c++) ((type *)out)[to] = ((const type *)in)[from]

/* count columns of in, beside each other in memory, become rows. */
static void columns_to_rows(const softmax_job *job, const void *in, int64_t count, void *out)
{
  if (job->real == CAPL_BF16) TURN(uint16_t, c * job->n + k, k * job->inner + c);
  else TURN(float, c * job->n + k, k * job->inner + c);
}

static void rows_to_columns(const softmax_job *job, const void *in, int64_t count, void *out)
{
  if (job->real == CAPL_BF16) TURN(uint16_t, k * job->inner + c, c * job->n + k);
  else TURN(float, k * job->inner + c, c * job->n + k);
}

/* Blocks [begin, end): up to SIDE columns each. */
static void columns_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const softmax_job *job = arg;
  int64_t blocks = (job->inner + SIDE - 1) / SIDE, step = SIDE * job->n;
  char *x = job->room + thread * job->room_bytes, *dy = cpu_at(x, job->real, step), *y = cpu_at(dy, job->real, step);
  for (int64_t b = begin; b < end; b++) {
    int64_t first = b % blocks * SIDE, count = job->inner - first < SIDE ? job->inner - first : SIDE;
    int64_t at = b / blocks * job->n * job->inner + first;
    columns_to_rows(job, cpu_at(job->x, job->real, at), count, x);
    if (job->backward) columns_to_rows(job, cpu_at(job->dy, job->real, at), count, dy);
    run_rows(job, count, 1, x, dy, y);
    rows_to_columns(job, y, count, cpu_at(job->y, job->real, at));
  }
}

static capl_status run_columns(const capl_call *call, softmax_job *job, int64_t grain)
{
  void *room;
  int64_t blocks = (job->inner + SIDE - 1) / SIDE * (capl_tensor_numel(call->in[0]) / (job->n * job->inner));
  job->room_bytes = (3 * SIDE * job->n * (int64_t)capl_dtype_size(job->real) + 63) / 64 * 64;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(cpu_threads() * job->room_bytes), &room));
  job->room = room;
  cpu_parallel(blocks, grain / SIDE + 1, columns_part, job);
  capl_scratch_put(call->device, room);
  return CAPL_OK;
}

/* ---- ops ---- */

static capl_status softmax(const capl_call *call, bool log, bool backward)
{
  const capl_tensor *x = call->in[0];
  int64_t given = call->attr[AT(softmax, dim)].i, dim = given < 0 ? given + x->ndim : given, n = x->size[dim];
  softmax_job job = {.real = x->dtype, .n = n, .inner = n > 1 ? x->stride[dim] : 1, .log = log, .backward = backward,
                     .x = capl_tensor_data(x), .y = capl_tensor_data(call->out[0])};
  if (backward) job.dy = capl_tensor_data(call->in[1]);
  int64_t grain = CPU_GRAIN / (4 * n) + 1; /* an exponential costs several nanoseconds */
  if (job.inner > 1 && n > VEC_FEW) return run_columns(call, &job, grain);
  cpu_parallel(capl_tensor_numel(x) / n, grain, job.inner > 1 ? few_part : rows_part, &job);
  return CAPL_OK;
}

#define SOFTMAX(name, log, backward) \
  static capl_status cpu_##name(const capl_call *call) { return softmax(call, log, backward); }
SOFTMAX(softmax, false, false)
SOFTMAX(log_softmax, true, false)
SOFTMAX(softmax_grad, false, true)
SOFTMAX(log_softmax_grad, true, true)

/* Inputs are dense and alike (LAYOUT_DENSE). */
static bool supports_softmax(const capl_call *call)
{
  return cpu_supports_same(call) && call->in[0]->ndim > 0 && capl_tensor_numel(call->in[0]) > 0;
}

const capl_kernel cpu_softmax_kernels[] = {
  {CAPL_OP_softmax, cpu_softmax, supports_softmax, CPU_REAL},
  {CAPL_OP_softmax_grad, cpu_softmax_grad, supports_softmax, CPU_REAL},
  {CAPL_OP_log_softmax, cpu_log_softmax, supports_softmax, CPU_REAL},
  {CAPL_OP_log_softmax_grad, cpu_log_softmax_grad, supports_softmax, CPU_REAL},
  {0},
};
