/* shape.c -- copies that change the order of elements: contiguous, concat, narrow_grad.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cpu/cpu.h"
#include "ops/rules.h"

typedef struct {
  size_t bytes; /* of an element */
  char *y;
  const char *x;
  size_t run;           /* short runs only: their bytes */
  const cpu_loop *loop; /* transposed copies only: */
  int row;              /* the dim in which x is contiguous; y is contiguous in the last one */
  int64_t rows_tiles;
} copy_job;

#define STRIDED(type)                                                      \
  {                                                                        \
    type *to = (type *)y;                                                  \
    const type *from = (const type *)x;                                    \
    for (int64_t i = 0; i < n; i++) to[i * step_y] = from[i * step_x];     \
  }

static void copy_strided(size_t bytes, int64_t n, char *y, int64_t step_y, const char *x, int64_t step_x)
{
  switch (bytes) {
  case 1: STRIDED(uint8_t) break;
  case 2: STRIDED(uint16_t) break;
  case 4: STRIDED(uint32_t) break;
  default: STRIDED(uint64_t) break;
  }
}

static void copy_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const copy_job *job = arg;
  char *y = job->y + at[0] * (int64_t)job->bytes;
  const char *x = job->x + at[1] * (int64_t)job->bytes;
  if (step[0] == 1 && step[1] == 1) memcpy(y, x, (size_t)n * job->bytes);
  else copy_strided(job->bytes, n, y, step[0], x, step[1]);
}

/* ---- short runs: both sides contiguous, but for a few elements only (PixelUnshuffle) ---- */

enum { SHORT_RUN = 64, LONG_ENOUGH = 8 }; /* bytes of a run; runs along the innermost dim that is left */

#define BLOCKS(size)                                                       \
  for (int64_t i = 0; i < n; i++) memcpy(y + i * step_y, x + i * step_x, size)

static void block_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const copy_job *job = arg;
  int64_t bytes = (int64_t)job->bytes, step_y = step[0] * bytes, step_x = step[1] * bytes;
  char *y = job->y + at[0] * bytes;
  const char *x = job->x + at[1] * bytes;
  switch (job->run) {
  case 4: BLOCKS(4); break;
  case 8: BLOCKS(8); break;
  case 16: BLOCKS(16); break;
  case 32: BLOCKS(32); break;
  default: BLOCKS(job->run); break;
  }
}

static bool short_runs(const cpu_loop *loop, size_t bytes)
{
  int last = loop->ndim - 1;
  return last > 0 && loop->stride[0][last] == 1 && loop->stride[1][last] == 1 &&
         (size_t)loop->size[last] * bytes <= SHORT_RUN;
}

/* One run becomes one element; of the dims left, the innermost in y that is long enough comes last. */
static void copy_short_runs(copy_job *job, cpu_loop *loop)
{
  int last = --loop->ndim;
  job->run = (size_t)loop->size[last] * job->bytes;
  for (int d = last - 1; d >= 0; d--) {
    if (loop->size[d] < LONG_ENOUGH) continue;
    cpu_loop_swap(loop, d, last - 1);
    break;
  }
  cpu_loop_run(loop, block_run, job);
}

/* ---- transposed copies: by tiles, so that both sides stay in the cache ---- */

enum { TILE = 32 };

static int64_t least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

#if defined(__clang__)
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIX(a, b, ...) __builtin_shuffle(a, b, (__typeof__(a)){__VA_ARGS__})
#endif

/* y[i][k] := x[k][i], 4 x 4 elements, rows y_row and x_row bytes apart. */
#define TURN(type)                                                                                              \
  static void turn_##type(char *y, int64_t y_row, const char *x, int64_t x_row)                                 \
  {                                                                                                             \
    typedef type four __attribute__((vector_size(4 * sizeof(type))));                                           \
    four a, b, c, d;                                                                                            \
    memcpy(&a, x, sizeof a), memcpy(&b, x + x_row, sizeof b);                                                   \
    memcpy(&c, x + 2 * x_row, sizeof c), memcpy(&d, x + 3 * x_row, sizeof d);                                   \
    four ab = MIX(a, b, 0, 4, 1, 5), cd = MIX(c, d, 0, 4, 1, 5);                                                \
    four low = MIX(ab, cd, 0, 1, 4, 5), next = MIX(ab, cd, 2, 3, 6, 7);                                         \
    memcpy(y, &low, sizeof low), memcpy(y + y_row, &next, sizeof next);                                         \
    ab = MIX(a, b, 2, 6, 3, 7), cd = MIX(c, d, 2, 6, 3, 7);                                                     \
    low = MIX(ab, cd, 0, 1, 4, 5), next = MIX(ab, cd, 2, 3, 6, 7);                                              \
    memcpy(y + 2 * y_row, &low, sizeof low), memcpy(y + 3 * y_row, &next, sizeof next);                         \
  }
TURN(uint16_t)
TURN(uint32_t)

/* As many rows of y as whole blocks of 4 x 4 have; columns is a multiple of 4. Gives their number. */
static int64_t turn_blocks(size_t bytes, char *y, int64_t y_row, const char *x, int64_t x_row, int64_t rows,
                           int64_t columns)
{
  int64_t size = (int64_t)bytes, r = 0;
  if (bytes != 2 && bytes != 4) return 0;
  for (; r + 4 <= rows; r += 4, y += 4 * y_row, x += 4 * size)
    for (int64_t c = 0; c < columns; c += 4)
      if (bytes == 4) turn_uint32_t(y + c * size, y_row, x + c * x_row, x_row);
      else turn_uint16_t(y + c * size, y_row, x + c * x_row, x_row);
  return r;
}

/* Rows [first, last) of one plane spanned by job->row and the last dim. */
static void copy_tiles(const copy_job *job, char *y, const char *x, int64_t first, int64_t last)
{
  const cpu_loop *loop = job->loop;
  int in = loop->ndim - 1;
  int64_t bytes = (int64_t)job->bytes, y_row = loop->stride[0][job->row] * bytes, x_in = loop->stride[1][in];
  for (int64_t c = 0; c < loop->size[in]; c += TILE) {
    int64_t n = least(TILE, loop->size[in] - c), whole = n / 4 * 4, r = first;
    char *to = y + c * bytes;
    const char *from = x + c * x_in * bytes;
    r += turn_blocks(job->bytes, to + r * y_row, y_row, from + r * bytes, x_in * bytes, last - first, whole);
    for (int64_t done = first; done < r; done++)
      copy_strided(job->bytes, n - whole, to + done * y_row + whole * bytes, 1,
                   from + (done + whole * x_in) * bytes, x_in);
    for (; r < last; r++) copy_strided(job->bytes, n, to + r * y_row, 1, from + r * bytes, x_in);
  }
}

/* Element offsets of plane number `plane` (all dims but the two of the tile). */
static void plane_offset(const copy_job *job, int64_t plane, int64_t *y, int64_t *x)
{
  const cpu_loop *loop = job->loop;
  *y = *x = 0;
  for (int d = loop->ndim - 2; d >= 0; d--) {
    if (d == job->row) continue;
    int64_t i = plane % loop->size[d];
    plane /= loop->size[d];
    *y += i * loop->stride[0][d];
    *x += i * loop->stride[1][d];
  }
}

static void transpose_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const copy_job *job = arg;
  for (int64_t i = begin; i < end; i++) {
    int64_t y, x, first = i % job->rows_tiles * TILE;
    plane_offset(job, i / job->rows_tiles, &y, &x);
    copy_tiles(job, job->y + y * (int64_t)job->bytes, job->x + x * (int64_t)job->bytes, first,
               least(first + TILE, job->loop->size[job->row]));
  }
}

/* The dim in which x is contiguous although y is not, -1 = none. */
static int transposed_dim(const cpu_loop *loop)
{
  int last = loop->ndim - 1;
  if (loop->stride[0][last] != 1 || loop->stride[1][last] <= 1) return -1;
  for (int d = 0; d < last; d++)
    if (loop->stride[1][d] == 1 && loop->size[d] > 1) return d;
  return -1;
}

/* y := x, of one dtype, x broadcast to y's shape. Neither needs to own its memory. */
static void copy(const capl_tensor *y, const capl_tensor *x)
{
  const capl_tensor *t[] = {y, x};
  cpu_loop loop;
  if (capl_tensor_numel(y) == 0) return;
  cpu_loop_init(&loop, 2, t);
  copy_job job = {.bytes = capl_dtype_size(y->dtype), .y = capl_tensor_data(y), .x = capl_tensor_data(x),
                  .loop = &loop, .row = transposed_dim(&loop)};
  if (job.row < 0) {
    if (short_runs(&loop, job.bytes)) copy_short_runs(&job, &loop);
    else cpu_loop_run(&loop, copy_run, &job);
    return;
  }
  int64_t tiles = 1, last = loop.size[loop.ndim - 1];
  job.rows_tiles = (loop.size[job.row] + TILE - 1) / TILE;
  for (int d = 0; d < loop.ndim - 1; d++) tiles *= d == job.row ? job.rows_tiles : loop.size[d];
  cpu_parallel(tiles, CPU_GRAIN / (TILE * last) + 1, transpose_part, &job);
}

/* The part of t with index start .. start + length - 1 in dim; a borrowed view. */
static capl_tensor slice(const capl_tensor *t, int dim, int64_t start, int64_t length)
{
  capl_tensor part = *t;
  part.size[dim] = length;
  part.offset += start * t->stride[dim];
  return part;
}

static capl_status cpu_contiguous(const capl_call *call)
{
  copy(call->out[0], call->in[0]);
  return CAPL_OK;
}

static capl_status cpu_concat(const capl_call *call)
{
  int dim;
  int64_t start = 0;
  CAPL_TRY(normalize_dim(call->attr[AT(concat, dim)].i, call->in[0]->ndim, &dim));
  for (int i = 0; i < call->n_in; i++) {
    capl_tensor part = slice(call->out[0], dim, start, call->in[i]->size[dim]);
    copy(&part, call->in[i]);
    start += call->in[i]->size[dim];
  }
  return CAPL_OK;
}

static bool supports_concat(const capl_call *call)
{
  for (int i = 1; i < call->n_in; i++)
    if (call->in[i]->dtype != call->in[0]->dtype) return false;
  return true;
}

static capl_status cpu_narrow_grad(const capl_call *call)
{
  int dim;
  CAPL_TRY(normalize_dim(call->attr[AT(narrow_grad, dim)].i, call->in[0]->ndim, &dim));
  if (capl_tensor_numel(call->out[0]) == 0) return CAPL_OK; /* no memory to clear */
  memset(capl_tensor_data(call->out[0]), 0, capl_tensor_bytes(call->out[0]));
  capl_tensor part = slice(call->out[0], dim, call->attr[AT(narrow_grad, start)].i, call->in[0]->size[dim]);
  copy(&part, call->in[0]);
  return CAPL_OK;
}

const capl_kernel cpu_shape_kernels[] = {
  {CAPL_OP_contiguous, cpu_contiguous, NULL, 0},
  {CAPL_OP_concat, cpu_concat, supports_concat, 0},
  {CAPL_OP_narrow_grad, cpu_narrow_grad, NULL, 0},
  {0},
};
