/* conv_small_channels.c -- weight gradient of the first layer: 1 to 4 input channels, no groups, no dilation.
**
** x is copied once into f32 rows with its padding, then each thread walks rows of dy with the
** accumulators of one kernel in registers (vec/conv.c). Partial sums per thread are added in order,
** so the result repeats for a given number of threads.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/conv_small_channels.h"

#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/float16.h"
#include "ops/attrs.h"

enum { FEW_CHANNELS = 4, MAX_KERNEL = 7 };

bool conv_small_channels_fits(const capl_call *call)
{
  const capl_attr *attr = call->attr;
  int64_t channels = call->in[0]->size[1], outputs = call->in[1]->size[1];
  const int64_t *kernel = attr[CONV_KERNEL].v;
  bool eight = outputs == 8 && channels == 1 && kernel[0] == 3 && kernel[1] == 3 && attr[CONV_STRIDE].v[1] == 1;
  return channels <= FEW_CHANNELS && (outputs % 16 == 0 || eight) && attr[CONV_GROUPS].i == 1 &&
         attr[CONV_DILATION].v[0] == 1 && attr[CONV_DILATION].v[1] == 1 && kernel[0] <= MAX_KERNEL &&
         kernel[1] <= MAX_KERNEL;
}

typedef struct {
  vec_conv_row row;
  cpu_image x, y;
  int64_t stride, pad_h, pad_w;
  int64_t padded_h, padded_w; /* of the f32 copy of x */
  capl_dtype x_type;
  const void *x_data, *dy;
  float *padded;
  double *partial;    /* per thread: weights, then biases */
  int64_t n_weight, n_sum;
} few_job;

/* Rows of the padded copy: [begin, end) of N * padded_h. */
static void pad_rows(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const few_job *job = arg;
  int64_t width = job->padded_w * job->x.C, inside = job->x.W * job->x.C;
  for (int64_t r = begin; r < end; r++) {
    int64_t n = r / job->padded_h, h = r % job->padded_h - job->pad_h;
    float *row = job->padded + r * width;
    memset(row, 0, (size_t)width * sizeof *row);
    if (h < 0 || h >= job->x.H) continue;
    const void *from = cpu_at(job->x_data, job->x_type, (n * job->x.H + h) * inside);
    if (job->x_type == CAPL_BF16) cpu_now->to_f32(inside, from, row + job->pad_w * job->x.C);
    else memcpy(row + job->pad_w * job->x.C, from, (size_t)inside * sizeof *row);
  }
}

/* Adds the f32 sums of some rows to the thread's doubles and clears them. */
static void flush(double *total, float *sums, int64_t n)
{
  for (int64_t i = 0; i < n; i++) total[i] += sums[i];
  memset(sums, 0, (size_t)n * sizeof *sums);
}

enum { ROWS_PER_FLUSH = 16 };

/* Rows [begin, end) of N * H' of dy. */
static void grad_rows(void *arg, int64_t begin, int64_t end, int thread)
{
  const few_job *job = arg;
  double *total = job->partial + thread * (job->n_sum + job->n_sum / 2);
  float *sums = (float *)(total + job->n_sum);
  int64_t width = job->padded_w * job->x.C, dy_row = job->y.W * job->y.C;
  for (int64_t r = begin; r < end; r++) {
    int64_t n = r / job->y.H, top = n * job->padded_h + r % job->y.H * job->stride;
    const float *x[MAX_KERNEL];
    for (int64_t k = 0; k < job->row.kernel_h; k++) x[k] = job->padded + (top + k) * width;
    cpu_now->conv_row_grad_w(&job->row, x, cpu_at(job->dy, job->row.real, r * dy_row), sums, sums + job->n_weight);
    if ((r - begin) % ROWS_PER_FLUSH == ROWS_PER_FLUSH - 1) flush(total, sums, job->n_sum);
  }
  flush(total, sums, job->n_sum);
}

/* Sums over threads; dw (O,kh,kw,C) from the kernel's order (kh,kw*C,O). */
static void collect(const few_job *job, float *dw, float *db)
{
  int64_t outputs = job->row.channels, taps = job->n_weight / outputs;
  for (int64_t i = 0; i < job->n_sum; i++) {
    double sum = 0;
    for (int t = 0; t < cpu_threads(); t++) sum += job->partial[t * (job->n_sum + job->n_sum / 2) + i];
    int64_t tap = i / outputs, o = i % outputs;
    if (i < job->n_weight) dw[o * taps + tap] = (float)sum;
    else db[o] = (float)sum;
  }
}

static few_job job_of(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  const capl_attr *attr = call->attr;
  const int64_t *kernel = attr[CONV_KERNEL].v;
  few_job job = {.x = cpu_image_of(x), .y = cpu_image_of(dy), .stride = attr[CONV_STRIDE].v[0],
                 .pad_h = attr[CONV_PADDING].v[0], .pad_w = attr[CONV_PADDING].v[1], .x_type = x->dtype,
                 .x_data = capl_tensor_data(x), .dy = capl_tensor_data(dy)};
  job.padded_h = job.x.H + 2 * job.pad_h;
  job.padded_w = job.x.W + 2 * job.pad_w;
  job.row = (vec_conv_row){dy->dtype, job.y.W, job.y.C, kernel[0], kernel[1] * job.x.C,
                           attr[CONV_STRIDE].v[1] * job.x.C, job.y.C, false};
  job.n_weight = kernel[0] * job.row.taps * job.y.C;
  job.n_sum = job.n_weight + job.y.C;
  return job;
}

capl_status conv_small_channels_grad_w(const capl_call *call)
{
  few_job job = job_of(call);
  int64_t rows = job.x.N * job.padded_h;
  size_t padded = ((size_t)(rows * job.padded_w * job.x.C) * sizeof(float) + 63) / 64 * 64;
  size_t partial = (size_t)cpu_threads() * (size_t)(job.n_sum + job.n_sum / 2) * sizeof(double);
  void *scratch;
  CAPL_TRY(capl_scratch_get(call->device, padded + partial, &scratch));
  job.padded = scratch;
  job.partial = (double *)((char *)scratch + padded);
  memset(job.partial, 0, partial);
  cpu_parallel(rows, CPU_GRAIN / (job.padded_w * job.x.C) + 1, pad_rows, &job);
  cpu_parallel(job.x.N * job.y.H, 1, grad_rows, &job);
  collect(&job, capl_tensor_data(call->out[0]), capl_tensor_data(call->out[1]));
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}
