/* index.c -- gather, scatter, index_select, embedding and their gradients.
**
** Reading is split by values. Writing is split so that no two threads meet: by rows where rows of values go to rows of
** the result, else by indices, where each thread walks over all values and takes those whose place is in its own part.
** Sums have one order, whatever the number of threads.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/index.h"

#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/float16.h"
#include "ops/attrs.h"
#include "ops/rules.h"

typedef struct {
  const index_position *p;
  const cpu_loop *loop;
  const void *index;
  bool wide; /* i64, else i32 */
  size_t bytes; /* of an element that is moved */
  capl_dtype real; /* of what is added */
  const char *from;
  char *to;
  float *sums;
  int64_t begin, end; /* indices of this part; all of them when reading */
  int64_t skip;       /* this one takes part in nothing */
  atomic_bool *bad;   /* an index was out of range */
} take_job;

/* Index at `at`; wide is job->wide, a constant in inner loops. */
static inline int64_t index_at(const void *index, bool wide, int64_t at)
{
  return wide ? ((const int64_t *)index)[at] : ((const int32_t *)index)[at];
}

static inline bool in_range(const take_job *job, int64_t i)
{
  if (i >= 0 && i < job->p->n) return true;
  atomic_store_explicit(job->bad, true, memory_order_relaxed);
  return false;
}

/* Loops are made for each type of index and element, with all they use in locals: what they write might be the job. */
#define INLINE static inline __attribute__((always_inline))
#define EACH_INDEX(loop, ...) ((job->wide) ? loop(job, true, __VA_ARGS__) : loop(job, false, __VA_ARGS__))

/* ---- moving elements ---- */

#define MOVE(type) \
  { \
    const type *x = (const type *)from; \
    type *y = (type *)to; \
    for (int64_t i = 0; i < n; i++) y[i * step_to] = x[i * step_from]; \
  }

/* n elements by steps; step_from may be 0. */
static void move(size_t bytes, int64_t n, const char *from, int64_t step_from, char *to, int64_t step_to)
{
  if (step_from == 1 && step_to == 1) {
    memcpy(to, from, (size_t)n * bytes);
    return;
  }
  switch (bytes) {
  case 1: MOVE(uint8_t) break;
  case 2: MOVE(uint16_t) break;
  case 4: MOVE(uint32_t) break;
  default: MOVE(uint64_t) break;
  }
}

/* ---- reading: operands y, index, base ---- */

#define TAKE(type, name) \
  INLINE void name(const take_job *job, bool wide, int64_t n, const int64_t *at, const int64_t *step) \
  { \
    const void *index = job->index; \
    const type *from = (const type *)job->from + at[2]; \
    type *to = (type *)job->to + at[0]; \
    int64_t first = at[1], by_to = step[0], by_index = step[1], by_from = step[2], stride = job->p->step, \
        all = job->p->n; \
    bool bad = false; \
    for (int64_t i = 0; i < n; i++) { \
      int64_t k = index_at(index, wide, first + i * by_index); \
      if (k >= 0 && k < all) to[i * by_to] = from[i * by_from + k * stride]; \
      else bad = true; \
    } \
    if (bad) atomic_store_explicit(job->bad, true, memory_order_relaxed); \
  }
TAKE(uint8_t, take_1)
TAKE(uint16_t, take_2)
TAKE(uint32_t, take_4)
TAKE(uint64_t, take_8)

static void take_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const take_job *job = arg;
  if (step[1] == 0) { /* one index for all: a row, or a part of one */
    int64_t k = index_at(job->index, job->wide, at[1]), bytes = (int64_t)job->bytes;
    if (in_range(job, k))
      move(job->bytes, n, job->from + (at[2] + k * job->p->step) * bytes, step[2], job->to + at[0] * bytes, step[0]);
    return;
  }
  switch (job->bytes) {
  case 1: EACH_INDEX(take_1, n, at, step); break;
  case 2: EACH_INDEX(take_2, n, at, step); break;
  case 4: EACH_INDEX(take_4, n, at, step); break;
  default: EACH_INDEX(take_8, n, at, step); break;
  }
}

static take_job job_of(const index_position *p, atomic_bool *bad)
{
  *bad = false;
  return (take_job){.p = p, .skip = p->skip, .index = capl_tensor_data(&p->index), .wide = p->index.dtype == CAPL_I64,
                    .bad = bad};
}

static capl_status take(capl_tensor *y, const capl_tensor *x, const index_position *p)
{
  const capl_tensor *t[] = {y, &p->index, &p->base};
  atomic_bool bad;
  cpu_loop loop;
  take_job job = job_of(p, &bad);
  if (capl_tensor_numel(y) == 0) return index_need_range(p);
  cpu_loop_init(&loop, 3, t);
  job.bytes = capl_dtype_size(y->dtype);
  job.from = capl_tensor_data(x);
  job.to = capl_tensor_data(y);
  cpu_loop_run(&loop, take_run, &job);
  return bad ? index_need_range(p) : CAPL_OK;
}

/* ---- writing: operands order, index, base, src ---- */

typedef struct {
  take_job job;
  cpu_loop_body body;
} write_task;

/* Values begin..end-1 of the loop's first dim: what they write, no others do. */
static void write_rows(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const write_task *task = arg;
  take_job job = task->job;
  int64_t row = cpu_loop_total(job.loop) / job.loop->size[0];
  job.end = job.p->n;
  cpu_loop_part(job.loop, begin * row, end * row, task->body, &job);
}

static void write_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const write_task *task = arg;
  take_job job = task->job;
  job.begin = begin;
  job.end = end;
  cpu_loop_part(job.loop, 0, cpu_loop_total(job.loop), task->body, &job);
}

/* Whether a value with index k is this part's; parts that begin with 0 report indices out of range. */
static inline bool is_mine(const take_job *job, int64_t k)
{
  if (k >= job->begin && k < job->end) return k != job->skip;
  if (job->begin == 0) in_range(job, k);
  return false;
}

static capl_status write(const capl_tensor *src, const index_position *p, take_job *job, cpu_loop_body body)
{
  const capl_tensor *t[] = {&p->order, &p->index, &p->base, src ? src : &p->index};
  cpu_loop loop;
  if (capl_tensor_numel(&p->order) == 0 || p->n == 0) return index_need_range(p);
  cpu_loop_init(&loop, 4, t);
  write_task task = {*job, body};
  task.job.loop = &loop;
  int64_t parts = cpu_loop_total(&loop) / CPU_GRAIN + 1;
  bool by_rows = loop.stride[2][0] != 0 && loop.size[0] >= cpu_threads();
  int64_t n = by_rows ? loop.size[0] : p->n;
  cpu_parallel(n, (n + parts - 1) / parts, by_rows ? write_rows : write_part, &task);
  return *job->bad ? index_need_range(p) : CAPL_OK;
}

#define PUT(type, name) \
  INLINE void name(const take_job *job, bool wide, int64_t n, const int64_t *at, const int64_t *step) \
  { \
    const take_job own = *job; \
    const type *from = (const type *)own.from + at[3]; \
    type *to = (type *)own.to + at[2]; \
    int64_t first = at[1], by_index = step[1], by_to = step[2], by_from = step[3], stride = own.p->step; \
    for (int64_t i = 0; i < n; i++) { \
      int64_t k = index_at(own.index, wide, first + i * by_index); \
      if (is_mine(&own, k)) to[i * by_to + k * stride] = from[i * by_from]; \
    } \
  }
PUT(uint8_t, put_1)
PUT(uint16_t, put_2)
PUT(uint32_t, put_4)
PUT(uint64_t, put_8)

static void put_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const take_job *job = arg;
  switch (job->bytes) {
  case 1: EACH_INDEX(put_1, n, at, step); break;
  case 2: EACH_INDEX(put_2, n, at, step); break;
  case 4: EACH_INDEX(put_4, n, at, step); break;
  default: EACH_INDEX(put_8, n, at, step); break;
  }
}

INLINE void add_each(const take_job *job, bool wide, capl_dtype real, int64_t n, const int64_t *at, const int64_t *step)
{
  const take_job own = *job;
  float *sums = own.sums + at[2];
  int64_t first = at[1], by_index = step[1], by_sums = step[2], by_from = step[3], stride = own.p->step;
  for (int64_t i = 0; i < n; i++) {
    int64_t k = index_at(own.index, wide, first + i * by_index), source = at[3] + i * by_from;
    if (!is_mine(&own, k)) continue;
    sums[i * by_sums + k * stride] +=
      real == CAPL_BF16 ? capl_bf16_to_float(((const uint16_t *)own.from)[source]) : ((const float *)own.from)[source];
  }
}

static void add_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const take_job *job = arg;
  if (step[1] == 0 && step[2] == 1 && step[3] == 1) { /* rows */
    int64_t k = index_at(job->index, job->wide, at[1]);
    if (is_mine(job, k))
      cpu_now->add_row(job->real, n, cpu_at(job->from, job->real, at[3]), job->sums + at[2] + k * job->p->step);
    return;
  }
  if (job->real == CAPL_BF16) EACH_INDEX(add_each, CAPL_BF16, n, at, step);
  else EACH_INDEX(add_each, CAPL_F32, n, at, step);
}

/* sums += src by index; sums are those of the dense y. */
static capl_status add_to(float *sums, const capl_tensor *src, const index_position *p)
{
  atomic_bool bad;
  take_job job = job_of(p, &bad);
  job.real = src->dtype;
  job.from = capl_tensor_data(src);
  job.sums = sums;
  return write(src, p, &job, add_run);
}

/* y := x + src by index, x may be NULL. In f32; 16-bit results are rounded once, at the end. x has y's strides. */
static capl_status add(capl_tensor *y, const capl_tensor *x, const capl_tensor *src, const index_position *p)
{
  int64_t numel = capl_tensor_numel(y);
  void *memory = NULL;
  if (numel == 0) return index_need_range(p);
  if (y->dtype != CAPL_F32) CAPL_TRY(capl_scratch_get(y->device, (size_t)numel * sizeof(float), &memory));
  float *sums = memory ? memory : capl_tensor_data(y);
  if (x) cpu_convert(x->dtype, capl_tensor_data(x), CAPL_F32, sums, numel);
  else memset(sums, 0, (size_t)numel * sizeof(float));
  capl_status status = add_to(sums, src, p);
  if (memory && status == CAPL_OK) cpu_convert(CAPL_F32, sums, y->dtype, capl_tensor_data(y), numel);
  if (memory) capl_scratch_put(y->device, memory);
  return status;
}

/* ---- ops ---- */

static capl_status cpu_gather(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, call->in[0]->ndim, &dim));
  index_position_each(call->in[0], call->in[1], dim, &p);
  return take(call->out[0], call->in[0], &p);
}

static capl_status cpu_gather_grad(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, call->out[0]->ndim, &dim));
  index_position_each(call->out[0], call->in[1], dim, &p);
  return add(call->out[0], NULL, call->in[0], &p);
}

static capl_status cpu_index_select(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, call->in[0]->ndim, &dim));
  index_position_slices(call->in[0], call->in[1], dim, &p);
  return take(call->out[0], call->in[0], &p);
}

static capl_status cpu_index_select_grad(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, call->out[0]->ndim, &dim));
  index_position_slices(call->out[0], call->in[1], dim, &p);
  return add(call->out[0], NULL, call->in[0], &p);
}

static capl_status cpu_embedding(const capl_call *call)
{
  index_position p;
  index_position_rows(call->in[0], call->in[1], -1, &p);
  return take(call->out[0], call->in[0], &p);
}

static capl_status cpu_embedding_grad(const capl_call *call)
{
  index_position p;
  index_position_rows(call->out[0], call->in[1], call->attr[EMBEDDING_GRAD_PADDING].i, &p);
  return add(call->out[0], NULL, call->in[0], &p);
}

static capl_status cpu_scatter_add(const capl_call *call)
{
  index_position p;
  int dim;
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, call->out[0]->ndim, &dim));
  index_position_each(call->out[0], call->in[1], dim, &p);
  return add(call->out[0], call->in[0], call->in[2], &p);
}

/* Without src one element that stays: steps of 0. */
static capl_status cpu_scatter(const capl_call *call)
{
  index_position p;
  atomic_bool bad;
  int dim;
  capl_tensor *y = call->out[0];
  const capl_tensor *src = call_input(call, 2);
  union {
    float f32;
    uint16_t bf16;
  } value = {.f32 = (float)call->attr[TAKE_VALUE].f};
  if (y->dtype == CAPL_BF16) value.bf16 = capl_bf16_from_float(value.f32);
  CAPL_TRY(normalize_dim(call->attr[TAKE_DIM].i, y->ndim, &dim));
  index_position_each(y, call->in[1], dim, &p);
  if (capl_tensor_numel(y) == 0) return index_need_range(&p);
  take_job job = job_of(&p, &bad);
  job.bytes = capl_dtype_size(y->dtype);
  job.to = capl_tensor_data(y);
  job.from = src ? capl_tensor_data(src) : (const char *)&value;
  memcpy(job.to, capl_tensor_data(call->in[0]), capl_tensor_bytes(y));
  capl_tensor still = p.order;
  memset(still.stride, 0, sizeof still.stride);
  return write(src ? src : &still, &p, &job, put_run);
}

/* ---- rows ---- */

/* Copies x as it lies in memory: x must be dense, as then y is like it. */
static bool supports_copy(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *src = call_input(call, 2);
  return cpu_real(x) && capl_tensor_is_dense(x) && (!src || src->dtype == x->dtype);
}

const capl_kernel cpu_take_kernels[] = {
  {CAPL_OP_gather, cpu_gather, NULL, 0},
  {CAPL_OP_gather_grad, cpu_gather_grad, cpu_supports_first, CPU_REAL},
  {CAPL_OP_scatter, cpu_scatter, supports_copy, CPU_REAL},
  {CAPL_OP_scatter_add, cpu_scatter_add, supports_copy, CPU_REAL},
  {CAPL_OP_index_select, cpu_index_select, NULL, 0},
  {CAPL_OP_index_select_grad, cpu_index_select_grad, cpu_supports_first, CPU_REAL},
  {CAPL_OP_embedding, cpu_embedding, NULL, 0},
  {CAPL_OP_embedding_grad, cpu_embedding_grad, cpu_supports_first, CPU_REAL},
  {0},
};
