/* reduce.c -- sums, means and largest values over any dims, and argmax over the innermost one.
**
** x is walked once in memory order, adding to one double per output element. When the outermost dim
** is kept, threads own parts of the output; when it is reduced, each thread sums for itself and the
** sums are added in the threads' order.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "base/float16.h"
#include "ops/rules.h"


/* Sums kept by every thread for itself; larger outputs with a reduced outermost dim use one thread. */
enum { PRIVATE_SUMS = 1 << 18 };

typedef struct {
  cpu_loop loop; /* operand 0: x; operand 1: the sums, as if they were the output without gaps */
  capl_dtype real;
  const void *x;
  double *sums;
  int64_t n_sums;
  bool kept; /* the outermost dim is kept */
  bool max;  /* the largest value instead of the sum */
} sum_job;

typedef struct {
  const sum_job *job;
  double *sums;
} sum_part;

static float value_at(capl_dtype real, const void *x, int64_t i)
{
  return real == CAPL_BF16 ? capl_bf16_to_float(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

/* The larger one; NaN wins, as in PyTorch. */
static double larger(double a, double b)
{
  return b > a || b != b ? b : a;
}

static void max_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const sum_part *part = arg;
  const void *x = cpu_at(part->job->x, part->job->real, at[0]);
  double *best = part->sums + at[1];
  if (step[0] == 1 && step[1] == 0) *best = larger(*best, cpu_now->largest(part->job->real, n, x));
  else if (step[0] == 1 && step[1] == 1) cpu_now->largest_to(part->job->real, n, x, best);
  else
    for (int64_t i = 0; i < n; i++)
      best[i * step[1]] = larger(best[i * step[1]], value_at(part->job->real, x, i * step[0]));
}

static void sum_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const sum_part *part = arg;
  capl_dtype real = part->job->real;
  const void *x = cpu_at(part->job->x, real, at[0]);
  double *sums = part->sums + at[1];
  if (step[0] == 1 && step[1] == 0) *sums += cpu_now->sum(real, n, x);
  else if (step[0] == 1 && step[1] == 1) cpu_now->add_to(real, n, x, sums);
  else
    for (int64_t i = 0; i < n; i++) sums[i * step[1]] += value_at(real, x, i * step[0]);
}

/* begin, end: indices of the outermost dim. */
static void sum_task(void *arg, int64_t begin, int64_t end, int thread)
{
  const sum_job *job = arg;
  sum_part part = {job, job->sums + (job->kept ? 0 : thread * job->n_sums)};
  int64_t inner = cpu_loop_total(&job->loop) / job->loop.size[0];
  cpu_loop_part(&job->loop, begin * inner, end * inner, job->max ? max_run : sum_run, &part);
}

/* Strides without gaps in the order of memory in which x lies, so that runs of x are runs of the sums. */
static void strides_as(const capl_tensor *x, capl_tensor *sums)
{
  int64_t next = 1;
  bool done[CAPL_MAX_NDIM] = {false};
  for (int i = 0; i < x->ndim; i++) {
    int inner = -1;
    for (int d = x->ndim - 1; d >= 0; d--)
      if (!done[d] && (inner < 0 || x->stride[d] < x->stride[inner])) inner = d;
    done[inner] = true;
    sums->stride[inner] = next;
    next *= sums->size[inner];
  }
}

/* The output as a tensor of x's dims: size 1 where reduced. */
static capl_status sums_like(const capl_call *call, capl_tensor *sums)
{
  const capl_tensor *x = call->in[0];
  const capl_attr *dims = &call->attr[AT(sum, dims)];
  *sums = *x;
  for (int d = 0; d < x->ndim; d++) sums->size[d] = dims->n ? x->size[d] : 1;
  for (int i = 0; i < dims->n; i++) {
    int d;
    CAPL_TRY(normalize_dim(dims->v[i], x->ndim, &d));
    sums->size[d] = 1;
  }
  strides_as(x, sums);
  return CAPL_OK;
}

static void run_sums(sum_job *job)
{
  int64_t outer = job->loop.size[0], inner = cpu_loop_total(&job->loop) / outer;
  bool alone = !job->kept && job->n_sums > PRIVATE_SUMS;
  cpu_parallel(outer, alone ? outer : CPU_GRAIN / (inner + 1) + 1, sum_task, job);
  for (int t = 1; !job->kept && !alone && t < cpu_threads(); t++)
    for (int64_t i = 0; i < job->n_sums; i++) {
      double other = job->sums[t * job->n_sums + i];
      job->sums[i] = job->max ? larger(job->sums[i], other) : job->sums[i] + other;
    }
}

/* sums times scale into y; each in its own order of memory. */
static void store(const capl_tensor *sums_shape, const double *sums, double scale, const capl_tensor *y)
{
  capl_tensor shaped = *sums_shape;
  int from = 0;
  /* y has the same dims, maybe without those of size 1: match them in order. */
  for (int d = 0; d < shaped.ndim; d++) {
    while (from < y->ndim && y->size[from] == 1) from++;
    if (shaped.size[d] != 1) shaped.stride[d] = y->stride[from++];
  }
  int64_t index[CAPL_MAX_NDIM] = {0}, at = 0, place = 0, n = capl_tensor_numel(&shaped);
  for (int64_t i = 0; i < n; i++) {
    float value = (float)(sums[place] * scale);
    void *p = cpu_at(capl_tensor_data(y), y->dtype, at);
    if (y->dtype == CAPL_BF16) *(uint16_t *)p = capl_bf16_from_float(value);
    else *(float *)p = value;
    for (int d = shaped.ndim - 1; d >= 0; d--) {
      at += shaped.stride[d];
      place += sums_shape->stride[d];
      if (++index[d] < shaped.size[d]) break;
      at -= shaped.stride[d] * shaped.size[d];
      place -= sums_shape->stride[d] * shaped.size[d];
      index[d] = 0;
    }
  }
}

typedef enum { SUM, MEAN, MAX } reduction;

static capl_status reduce(const capl_call *call, reduction kind)
{
  const capl_tensor *x = call->in[0];
  capl_tensor sums;
  CAPL_TRY(sums_like(call, &sums));
  const capl_tensor *t[] = {x, &sums};
  sum_job job = {.real = x->dtype, .x = capl_tensor_data(x), .n_sums = capl_tensor_numel(&sums),
                 .max = kind == MAX};
  cpu_loop_init(&job.loop, 2, t);
  job.kept = job.loop.stride[1][0] != 0;
  size_t bytes = (size_t)job.n_sums * sizeof(double) * (size_t)(job.kept ? 1 : cpu_threads());
  void *scratch;
  CAPL_TRY(capl_scratch_get(call->device, bytes, &scratch));
  job.sums = scratch;
  for (size_t i = 0; i < bytes / sizeof(double); i++) job.sums[i] = job.max ? -INFINITY : 0;
  run_sums(&job);
  store(&sums, job.sums, kind == MEAN ? (double)job.n_sums / (double)capl_tensor_numel(x) : 1, call->out[0]);
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

static capl_status cpu_sum(const capl_call *call)
{
  return reduce(call, SUM);
}

static capl_status cpu_mean(const capl_call *call)
{
  return reduce(call, MEAN);
}

static capl_status cpu_amax(const capl_call *call)
{
  return reduce(call, MAX);
}

static bool supports_reduce(const capl_call *call)
{
  return cpu_supports_first(call) && capl_tensor_numel(call->in[0]) > 0;
}

/* ---- argmax: dim, keepdim ---- */

typedef struct {
  capl_dtype real;
  int64_t n;
  const void *x;
  int32_t *y;
} argmax_job;

static void argmax_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const argmax_job *job = arg;
  for (int64_t r = begin; r < end; r++)
    job->y[r] = (int32_t)cpu_now->argmax(job->real, job->n, cpu_at(job->x, job->real, r * job->n));
}

static int64_t argmax_dim(const capl_call *call)
{
  int64_t dim = call->attr[AT(argmax, dim)].i;
  return dim < 0 ? dim + call->in[0]->ndim : dim;
}

static capl_status cpu_argmax(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  argmax_job job = {x->dtype, x->size[argmax_dim(call)], capl_tensor_data(x), capl_tensor_data(call->out[0])};
  cpu_parallel(capl_tensor_numel(x) / job.n, CPU_GRAIN / job.n + 1, argmax_part, &job);
  return CAPL_OK;
}

/* The dim must be innermost in memory and the others in their logical order, which is y's. */
static bool supports_argmax(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  if (!cpu_real(x) || x->ndim == 0 || capl_tensor_numel(x) == 0) return false;
  int64_t dim = argmax_dim(call);
  return (capl_tensor_is_row(x) && dim == x->ndim - 1) || (capl_tensor_is_nhwc(x) && x->ndim == 4 && dim == 1);
}

/* ---- argsort: dim, descending ---- */

typedef struct {
  capl_dtype real;
  bool descending;
  int64_t n;
  const void *x;
  int32_t *y;
  uint64_t *keys; /* room for one row in each thread */
} sort_job;

/* The number's order above, its place below: equals stay in order. NaN is last, the zeros are equal. */
static uint64_t sort_key(float v, bool descending, int64_t place)
{
  uint32_t bits = capl_float_to_bits(v + 0.0f);
  uint32_t order = v != v ? UINT32_MAX : bits >> 31 ? ~bits : bits | 0x80000000u;
  return (uint64_t)(descending ? ~order : order) << 32 | (uint64_t)place;
}

static int compare_keys(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void argsort_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const sort_job *job = arg;
  uint64_t *keys = job->keys + thread * job->n;
  for (int64_t r = begin; r < end; r++) {
    const void *row = cpu_at(job->x, job->real, r * job->n);
    for (int64_t i = 0; i < job->n; i++) {
      bool wide = job->real == CAPL_F32;
      float v = wide ? ((const float *)row)[i] : capl_bf16_to_float(((const uint16_t *)row)[i]);
      keys[i] = sort_key(v, job->descending, i);
    }
    qsort(keys, (size_t)job->n, sizeof *keys, compare_keys);
    for (int64_t i = 0; i < job->n; i++) job->y[r * job->n + i] = (int32_t)(uint32_t)keys[i];
  }
}

static capl_status cpu_argsort(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  void *room;
  sort_job job = {.real = x->dtype, .descending = call->attr[AT(argsort, descending)].i, .n = x->size[x->ndim - 1],
                  .x = capl_tensor_data(x), .y = capl_tensor_data(call->out[0])};
  CAPL_TRY(capl_scratch_get(call->device, (size_t)cpu_threads() * (size_t)job.n * sizeof *job.keys, &room));
  job.keys = room;
  cpu_parallel(capl_tensor_numel(x) / job.n, 1 + 1024 / job.n, argsort_part, &job);
  capl_scratch_put(call->device, room);
  return CAPL_OK;
}

/* Rows that lie one after the other, as y's do. */
static bool supports_argsort(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  int64_t dim = call->attr[AT(argsort, dim)].i;
  return cpu_real(x) && x->ndim > 0 && capl_tensor_numel(x) > 0 && capl_tensor_is_row(x) &&
         (dim == -1 || dim == x->ndim - 1);
}

const capl_kernel cpu_reduce_kernels[] = {
  {CAPL_OP_sum, cpu_sum, supports_reduce, CPU_REAL},
  {CAPL_OP_mean, cpu_mean, supports_reduce, CPU_REAL},
  {CAPL_OP_amax, cpu_amax, supports_reduce, CPU_REAL},
  {CAPL_OP_argmax, cpu_argmax, supports_argmax, CPU_REAL},
  {CAPL_OP_argsort, cpu_argsort, supports_argsort, CPU_REAL},
  {0},
};
