/* conv_common.c -- what own convolutions share: turning weights over, and the gradient of the bias.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/conv_common.h"

#include <string.h>

#include "backend/cpu/cpu.h"

/* ---- from (columns, rows) to (rows, columns), sixteen rows at a time ---- */

typedef struct {
  const float *from;
  float *to;
  int64_t rows, columns;
} flip_job;

enum { FLIP = 16 };

static void flip_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const flip_job *job = arg;
  int64_t last = conv_least(end * FLIP, job->rows);
  for (int64_t r = begin * FLIP; r < last; r += FLIP)
    for (int64_t c = 0; c < job->columns; c++)
      for (int64_t i = r; i < conv_least(r + FLIP, last); i++)
        job->to[i * job->columns + c] = job->from[c * job->rows + i];
}

void conv_flip(const float *from, float *to, int64_t rows, int64_t columns)
{
  flip_job job = {from, to, rows, columns};
  cpu_parallel((rows + FLIP - 1) / FLIP, CPU_GRAIN / (FLIP * columns) + 1, flip_part, &job);
}

/* ---- sums of dy ---- */

typedef struct {
  const float *dy;
  float *sums, *part; /* (threads, O) each */
  int64_t O;
} bias_job;

enum { PIXELS_AT_ONCE = 256 }; /* in one f32 sum: the error stays that of some hundred additions */

/* Channels from `whole` on, which do not fill a vector, of n pixels. */
static void sum_rest(const float *dy, int64_t n, int64_t O, int64_t whole, float *part)
{
  for (int64_t o = whole; o < O; o++) part[o] = 0;
  for (int64_t i = 0; whole < O && i < n; i++)
    for (int64_t o = whole; o < O; o++) part[o] += dy[i * O + o];
}

/* Pixels [begin, end): products with a row of ones. */
static void bias_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const bias_job *job = arg;
  const float one = 1;
  int64_t O = job->O, whole = O / cpu_now->lanes * cpu_now->lanes;
  vec_product p = {.rows = 1, .columns = whole, .segments = 1, .a_row = 1, .a_step = 0, .b_row = O,
                   .b_panel = 2 * cpu_now->lanes, .y_row = O};
  float *sums = job->sums + thread * O, *part = job->part + thread * O;
  for (int64_t first = begin; first < end; first += PIXELS_AT_ONCE) {
    p.length = conv_least(PIXELS_AT_ONCE, end - first);
    cpu_now->product(&p, &one, job->dy + first * O, NULL, part);
    sum_rest(job->dy + first * O, p.length, O, whole, part);
    for (int64_t o = 0; o < O; o++) sums[o] += part[o];
  }
}

int64_t conv_bias_room(int64_t O)
{
  return 2 * cpu_threads() * O;
}

void conv_bias_grad(const float *dy, int64_t pixels, int64_t O, float *room, float *db)
{
  bias_job job = {dy, room, room + cpu_threads() * O, O};
  memset(room, 0, (size_t)(cpu_threads() * O) * sizeof *room);
  cpu_parallel(pixels, CPU_GRAIN / O + 1, bias_part, &job);
  for (int64_t o = 0; o < O; o++) {
    double sum = 0;
    for (int t = 0; t < cpu_threads(); t++) sum += job.sums[t * O + o];
    db[o] = (float)sum;
  }
}

bool conv_all_f32(const capl_call *call)
{
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i] && call->in[i]->dtype != CAPL_F32) return false;
  return true;
}

const float *conv_in_f32(const capl_tensor *t, float *room)
{
  if (t->dtype == CAPL_F32) return capl_tensor_data(t);
  cpu_convert(t->dtype, capl_tensor_data(t), CAPL_F32, room, capl_tensor_numel(t));
  return room;
}
