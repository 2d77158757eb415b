/* pool_adaptive.c -- adaptive max pooling, and adaptive averages over windows of any size.
**
** One output pixel at a time: its window's pixels are gone through with the channels' best values or sums in f32 or
** double beside each other. Backwards every input pixel collects from the windows that it lies in.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/pool_adaptive.h"

#include <string.h>

#include "backend/cpu/cpu.h"
#include "ops/window.h"

typedef struct {
  capl_dtype real;
  int64_t channels;
  int64_t in[2], out[2]; /* H,W */
  const void *from;      /* x, or dy */
  void *to;              /* y, or dx */
  int32_t *index;        /* of max pools: row * W + column in x */
  char *room;            /* per thread: values, then best values or sums of a pixel's channels */
  int64_t room_bytes;
} adaptive_job;

/* Window o of an axis is [first, last). */
static void window_of(const adaptive_job *job, int axis, int64_t o, int64_t *first, int64_t *last)
{
  *first = window_adaptive_first(o, job->in[axis], job->out[axis]);
  *last = window_adaptive_last(o, job->in[axis], job->out[axis]);
}

/* Windows [first, last) that input i lies in. */
static void windows_with(const adaptive_job *job, int axis, int64_t i, int64_t *first, int64_t *last)
{
  *first = i * job->out[axis] / job->in[axis];
  *last = ((i + 1) * job->out[axis] + job->in[axis] - 1) / job->in[axis];
}

/* n values as f32: where they are, or in room. */
static const float *as_f32(capl_dtype real, int64_t n, const void *p, float *room)
{
  if (real == CAPL_F32) return p;
  cpu_now->to_f32(n, p, room);
  return room;
}

static void store(capl_dtype real, int64_t n, const float *from, void *to)
{
  if (real == CAPL_F32) memcpy(to, from, (size_t)n * sizeof *from);
  else cpu_now->to_bf16(n, from, to);
}

static float *values_room(const adaptive_job *job, int thread)
{
  return (float *)(job->room + thread * job->room_bytes);
}

/* ---- averages ---- */

static void average_pixel(const adaptive_job *job, int64_t n, int64_t oh, int64_t ow, void *y, float *values)
{
  int64_t h0, h1, w0, w1, C = job->channels;
  double *sum = (double *)(values + (C + 1) / 2 * 2);
  window_of(job, 0, oh, &h0, &h1);
  window_of(job, 1, ow, &w0, &w1);
  memset(sum, 0, (size_t)C * sizeof *sum);
  for (int64_t h = h0; h < h1; h++)
    for (int64_t w = w0; w < w1; w++)
      cpu_now->add_to(job->real, C, cpu_at(job->from, job->real, ((n * job->in[0] + h) * job->in[1] + w) * C), sum);
  double share = 1.0 / (double)((h1 - h0) * (w1 - w0));
  for (int64_t c = 0; c < C; c++) values[c] = (float)(sum[c] * share);
  store(job->real, C, values, y);
}

/* Output pixels [begin, end) of all images. */
static void average_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const adaptive_job *job = arg;
  int64_t pixels = job->out[0] * job->out[1];
  for (int64_t p = begin; p < end; p++)
    average_pixel(job, p / pixels, p % pixels / job->out[1], p % job->out[1],
                  cpu_at(job->to, job->real, p * job->channels), values_room(job, thread));
}

/* ---- the largest ---- */

static void larger_of(int64_t n, const float *values, int32_t position, float *best, int32_t *index)
{
  for (int64_t c = 0; c < n; c++) {
    bool more = values[c] > best[c] || values[c] != values[c]; /* as in PyTorch, a NaN wins */
    best[c] = more ? values[c] : best[c];
    index[c] = more ? position : index[c];
  }
}

static void largest_pixel(const adaptive_job *job, int64_t n, int64_t oh, int64_t ow, void *y, int32_t *index,
                          float *values)
{
  int64_t h0, h1, w0, w1, C = job->channels;
  float *best = values + (C + 1) / 2 * 2;
  window_of(job, 0, oh, &h0, &h1);
  window_of(job, 1, ow, &w0, &w1);
  for (int64_t h = h0; h < h1; h++)
    for (int64_t w = w0; w < w1; w++) {
      const void *pixel = cpu_at(job->from, job->real, ((n * job->in[0] + h) * job->in[1] + w) * C);
      const float *x = as_f32(job->real, C, pixel, values);
      int32_t position = (int32_t)(h * job->in[1] + w);
      if (h == h0 && w == w0) {
        memcpy(best, x, (size_t)C * sizeof *best);
        for (int64_t c = 0; c < C; c++) index[c] = position;
      } else {
        larger_of(C, x, position, best, index);
      }
    }
  store(job->real, C, best, y);
}

static void largest_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const adaptive_job *job = arg;
  int64_t pixels = job->out[0] * job->out[1];
  for (int64_t p = begin; p < end; p++)
    largest_pixel(job, p / pixels, p % pixels / job->out[1], p % job->out[1],
                  cpu_at(job->to, job->real, p * job->channels), job->index + p * job->channels,
                  values_room(job, thread));
}

/* ---- backwards: dx of a pixel is the sum of dy of the windows that it won ---- */

static void collect_pixel(const adaptive_job *job, int64_t n, int64_t h, int64_t w, void *dx, float *values)
{
  int64_t h0, h1, w0, w1, C = job->channels;
  float *sum = values + (C + 1) / 2 * 2;
  int32_t position = (int32_t)(h * job->in[1] + w);
  windows_with(job, 0, h, &h0, &h1);
  windows_with(job, 1, w, &w0, &w1);
  memset(sum, 0, (size_t)C * sizeof *sum);
  for (int64_t oh = h0; oh < h1; oh++)
    for (int64_t ow = w0; ow < w1; ow++) {
      int64_t at = ((n * job->out[0] + oh) * job->out[1] + ow) * C;
      const float *dy = as_f32(job->real, C, cpu_at(job->from, job->real, at), values);
      const int32_t *index = job->index + at;
      for (int64_t c = 0; c < C; c++) sum[c] += index[c] == position ? dy[c] : 0;
    }
  store(job->real, C, sum, dx);
}

/* Input pixels [begin, end) of all images. */
static void collect_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const adaptive_job *job = arg;
  int64_t pixels = job->in[0] * job->in[1];
  for (int64_t p = begin; p < end; p++)
    collect_pixel(job, p / pixels, p % pixels / job->in[1], p % job->in[1],
                  cpu_at(job->to, job->real, p * job->channels), values_room(job, thread));
}

/* ---- ops ---- */

/* image: x or dx; pooled: y or dy. */
static adaptive_job job_of(const capl_tensor *image, const capl_tensor *pooled)
{
  adaptive_job job = {.real = image->dtype, .channels = image->size[1], .in = {image->size[2], image->size[3]},
                      .out = {pooled->size[2], pooled->size[3]}};
  job.room_bytes = ((job.channels + 1) * (int64_t)(sizeof(float) + sizeof(double)) + 127) / 64 * 64;
  return job;
}

/* work: elements read for each pixel of the result. */
static capl_status run(const capl_call *call, adaptive_job *job, int64_t pixels, int64_t work, cpu_task part)
{
  void *room;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(cpu_threads() * job->room_bytes), &room));
  job->room = room;
  cpu_parallel(pixels, CPU_GRAIN / (work + 1) + 1, part, job);
  capl_scratch_put(call->device, room);
  return CAPL_OK;
}

static capl_status run_forward(const capl_call *call, adaptive_job *job, cpu_task part)
{
  int64_t images = call->in[0]->size[0], pixels = images * job->out[0] * job->out[1];
  job->from = capl_tensor_data(call->in[0]);
  job->to = capl_tensor_data(call->out[0]);
  return run(call, job, pixels, capl_tensor_numel(call->in[0]) / pixels, part);
}

capl_status cpu_adaptive_avg_pool2d_wide(const capl_call *call)
{
  adaptive_job job = job_of(call->in[0], call->out[0]);
  return run_forward(call, &job, average_part);
}

capl_status cpu_adaptive_max_pool2d(const capl_call *call)
{
  adaptive_job job = job_of(call->in[0], call->out[0]);
  job.index = capl_tensor_data(call->out[1]);
  return run_forward(call, &job, largest_part);
}

capl_status cpu_adaptive_max_pool2d_grad(const capl_call *call)
{
  const capl_tensor *dy = call->in[0], *dx = call->out[0];
  adaptive_job job = job_of(dx, dy);
  job.index = capl_tensor_data(call->in[1]);
  job.from = capl_tensor_data(dy);
  job.to = capl_tensor_data(dx);
  return run(call, &job, dx->size[0] * job.in[0] * job.in[1], job.channels, collect_part);
}
