/* linear_few.c -- linear layers of few rows and many weights, which are read where they lie, once.
**
** oneDNN copies the weights into panels first. Here they are the factor that is broadcast, and the rows of x, turned,
** are the vectors: y' = w x'. dw = dy' x is stored past the caches. Each sum runs in the order of its products,
** whatever the number of rows or threads. Zen 4, 64 rows, 17,920 -> 1024, one thread: f32 28.0 -> 22.6 ms, its weight
** gradient 26.1 -> 22.3; bf16 14.5 -> 11.9. Two threads: f32 26.0 -> 11.8, 13.0 -> 11.2; bf16 7.3 -> 5.8.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/linear_few.h"

#include <string.h>

#include "backend/cpu/conv_common.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/dnnl.h"
#include "base/float16.h"

/* A block of x' or w stays in the second cache: inputs, rows of w. BROAD, STRIP: columns and rows of dw at once. */
enum { DEEP = 512, HIGH = 96, BROAD = 256, STRIP = 12 };
enum { LEAST_ROWS = 16, MOST_ROWS = 128, LEAST_WEIGHTS = 1 << 18, LANES_MAX = 16 };

typedef struct {
  int64_t rows, padded, panelled; /* of x; to whole vectors, to whole panels of two vectors */
  int64_t inputs, outputs;
  bool low, relu; /* low: x and w are pairs of bf16, which count as one input */
  const float *x, *w, *dy;
  float *turned, *sums; /* x', y' */
  float *panels;        /* per thread: BROAD columns of x */
  const capl_tensor *bias, *out;
} few_job;

static int64_t last_size(const capl_tensor *t) { return t->size[t->ndim - 1]; }
static int64_t rows_of(const capl_tensor *t) { return capl_tensor_numel(t) / last_size(t); }

/* ---- forward ---- */

/* Blocks of DEEP inputs: panels of two vectors of rows each. */
static void turn_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const few_job *job = arg;
  int64_t wide = 2 * cpu_now->lanes;
  for (int64_t k = begin * DEEP; k < end * DEEP && k < job->inputs; k += DEEP) {
    int64_t deep = conv_least(DEEP, job->inputs - k);
    for (int64_t r = 0; r < job->rows; r += wide)
      cpu_now->attend_turn(CAPL_F32, conv_least(wide, job->rows - r), deep, wide, job->x + r * job->inputs + k,
                           job->inputs, 1, job->turned + k * job->panelled + r * deep);
  }
}

static void fill_bias(const few_job *job, int64_t begin, int64_t end)
{
  const capl_tensor *bias = job->bias;
  const void *data = bias ? capl_tensor_data(bias) : NULL;
  for (int64_t o = begin; o < end; o++) {
    float value = 0;
    if (bias) value = bias->dtype == CAPL_F32 ? ((const float *)data)[o]
                                              : capl_bf16_to_float(((const uint16_t *)data)[o]);
    for (int64_t r = 0; r < job->padded; r++) job->sums[o * job->padded + r] = value;
  }
}

/* y := sums', of the outputs begin … end - 1. */
static void store_part(const few_job *job, int64_t begin, int64_t end)
{
  float square[MOST_ROWS * LANES_MAX];
  int64_t lanes = cpu_now->lanes;
  void *y = capl_tensor_data(job->out);
  for (int64_t o = begin; o < end; o += lanes) {
    int64_t n = conv_least(lanes, end - o);
    cpu_now->attend_turn(CAPL_F32, n, job->rows, lanes, job->sums + o * job->padded, job->padded, 1, square);
    for (int64_t r = 0; r < job->rows; r++)
      cpu_now->attend_store(job->out->dtype, n, 1, square + r * lanes,
                            cpu_at(y, job->out->dtype, r * job->outputs + o), 1);
  }
}

/* Outputs [begin, end). */
static void forward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const few_job *job = arg;
  int64_t wide = 2 * cpu_now->lanes;
  fill_bias(job, begin, end);
  for (int64_t k = 0; k < job->inputs; k += DEEP)
    for (int64_t o = begin; o < end; o += HIGH) {
      int64_t deep = conv_least(DEEP, job->inputs - k);
      vec_product p = {.rows = conv_least(HIGH, end - o), .columns = job->padded, .segments = 1, .length = deep,
                       .a_row = job->inputs, .a_step = 1, .b_row = wide, .b_panel = wide * deep,
                       .y_row = job->padded, .add = true};
      const float *w = job->w + o * job->inputs + k, *x = job->turned + k * job->panelled;
      float *y = job->sums + o * job->padded;
      if (job->low) cpu_now->product_pairs(&p, w, x, NULL, y);
      else cpu_now->product(&p, w, x, NULL, y);
    }
  float *sums = job->sums + begin * job->padded;
  if (job->relu) cpu_now->unary(VEC_relu, CAPL_F32, (end - begin) * job->padded, sums, sums, 0, 0);
  store_part(job, begin, end);
}

capl_status linear_few(const capl_call *call, bool relu)
{
  const capl_tensor *x = call->in[0], *w = call->in[1], *y = call->out[0];
  few_job job = {.rows = rows_of(x), .outputs = last_size(y), .low = x->dtype == CAPL_BF16, .relu = relu, .out = y,
                 .x = capl_tensor_data(x), .w = capl_tensor_data(w), .bias = call_input(call, 2)};
  void *scratch;
  job.inputs = last_size(x) / (job.low ? 2 : 1);
  job.padded = conv_round_up(job.rows, cpu_now->lanes);
  job.panelled = conv_round_up(job.rows, 2 * cpu_now->lanes);
  size_t floats = (size_t)(job.panelled * job.inputs + job.padded * job.outputs);
  CAPL_TRY(capl_scratch_get(call->device, floats * sizeof(float), &scratch));
  job.turned = scratch;
  job.sums = job.turned + job.panelled * job.inputs;
  cpu_parallel((job.inputs + DEEP - 1) / DEEP, 1, turn_part, &job);
  cpu_parallel(job.outputs, STRIP, forward_part, &job);
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

/* ---- gradient ---- */

/* Blocks of BROAD inputs: columns of x in panels of two vectors, then all rows of dw. */
static void grad_w_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const few_job *job = arg;
  int64_t wide = 2 * cpu_now->lanes, rows = job->rows;
  float *panels = job->panels + thread * rows * BROAD, *dw = capl_tensor_data(job->out);
  for (int64_t i = begin * BROAD; i < end * BROAD && i < job->inputs; i += BROAD) {
    vec_product p = {.columns = conv_least(BROAD, job->inputs - i), .segments = 1, .length = rows, .a_row = 1,
                     .a_step = job->outputs, .b_row = wide, .b_panel = wide * rows, .y_row = job->inputs,
                     .past = true};
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < p.columns; c += wide)
        memcpy(panels + c * rows + r * wide, job->x + r * job->inputs + i + c,
               (size_t)conv_least(wide, p.columns - c) * sizeof *panels);
    for (int64_t o = 0; o < job->outputs; o += STRIP) {
      p.rows = conv_least(STRIP, job->outputs - o);
      cpu_now->product(&p, job->dy + o, panels, NULL, dw + o * job->inputs + i);
    }
  }
}

static void sum_bias(const few_job *job, double *sums, float *db)
{
  memset(sums, 0, (size_t)job->outputs * sizeof *sums);
  for (int64_t r = 0; r < job->rows; r++)
    cpu_now->add_to(CAPL_F32, job->outputs, job->dy + r * job->outputs, sums);
  for (int64_t o = 0; o < job->outputs; o++) db[o] = (float)sums[o];
}

capl_status linear_few_grad_w(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  few_job job = {.rows = rows_of(x), .inputs = last_size(x), .outputs = last_size(dy), .x = capl_tensor_data(x),
                 .dy = capl_tensor_data(dy), .out = call->out[0]};
  void *scratch;
  size_t panels = (size_t)(cpu_threads() * job.rows * BROAD) * sizeof(float);
  CAPL_TRY(capl_scratch_get(call->device, panels + (size_t)job.outputs * sizeof(double), &scratch));
  job.panels = scratch;
  sum_bias(&job, (double *)(void *)((char *)scratch + panels), capl_tensor_data(call->out[1]));
  cpu_parallel((job.inputs + BROAD - 1) / BROAD, 1, grad_w_part, &job);
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

/* ---- where it pays ---- */

/* With fewer rows vectors are not filled; of more, oneDNN's copies of the weights cost little. Frozen weights stay with
** oneDNN: one image and many have the same bits there, also where they are packed. */
bool linear_few_fits(const capl_call *call)
{
  bool grad = call->id == CAPL_OP_linear_grad_w, low = call->in[0]->dtype == CAPL_BF16;
  const capl_tensor *w = grad ? call->out[0] : call->in[1];
  int64_t rows = rows_of(call->in[0]), lanes = cpu_now->lanes;
  if (lanes < LANES_MAX || (low && (grad || !dn_bf16_is_fast())) || capl_weight_is_frozen(w)) return false;
  if (rows < LEAST_ROWS || rows > MOST_ROWS || capl_tensor_numel(w) < LEAST_WEIGHTS) return false;
  return w->size[1] % lanes == 0 && (uintptr_t)capl_tensor_data(w) % 64 == 0;
}
