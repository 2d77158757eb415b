/* pool.c -- max and average pooling, any window, and adaptive average pooling (pool_adaptive.c has the rest).
**
** Every output pixel is a list of taps (input pixels) and, backwards, every input pixel a list of the
** output pixels that it took part in; so no two threads write the same place and sums have one order.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/pool_adaptive.h"
#include "ops/attrs.h"
#include "ops/window.h"

enum { MAX_TAPS = 256 };

/* How windows lie over the image, one axis at a time. */
typedef struct {
  bool adaptive;
  int64_t kernel, stride, padding, dilation;
  int64_t in, out;
} pool_axis;

typedef struct {
  pool_axis h, w;
  int64_t channels;
  capl_dtype real;
  bool count_pad;
  const void *from; /* what the taps are taken from: x, or dy backwards */
  const uint8_t *index_in;
  void *to;
  uint8_t *index_out;
} pool_job;

static pool_axis axis_of(const capl_attr *attr, int which, int64_t in, int64_t out)
{
  return (pool_axis){false, attr[POOL_KERNEL].v[which], window_stride(&attr[POOL_STRIDE], &attr[POOL_KERNEL], which),
                     attr[POOL_PADDING].v[which], 1, in, out};
}

/* Inputs [first, last) of window o, without padding; they are `dilation` apart. */
static void window_of(const pool_axis *a, int64_t o, int64_t *first, int64_t *last)
{
  if (a->adaptive) {
    *first = window_adaptive_first(o, a->in, a->out);
    *last = window_adaptive_last(o, a->in, a->out);
    return;
  }
  int64_t start = o * a->stride - a->padding, end = start + window_reach(a->kernel, a->dilation);
  *first = start >= 0 ? start : (start % a->dilation + a->dilation) % a->dilation; /* the first tap inside */
  *last = end < a->in ? end : a->in;
}

/* Windows [first, last) that reach over input i. With a dilation some of them leave it out: in_window. */
static void windows_with(const pool_axis *a, int64_t i, int64_t *first, int64_t *last)
{
  if (a->adaptive) {
    *first = i * a->out / a->in;
    *last = ((i + 1) * a->out + a->in - 1) / a->in;
    return;
  }
  int64_t reach = i + a->padding, width = window_reach(a->kernel, a->dilation);
  *first = reach < width ? 0 : (reach - width) / a->stride + 1;
  *last = reach / a->stride + 1;
  if (*last > a->out) *last = a->out;
}

static bool in_window(const pool_axis *a, int64_t o, int64_t i)
{
  return a->dilation == 1 || (i + a->padding - o * a->stride) % a->dilation == 0;
}

/* Which tap of window o the input i is. */
static int64_t tap_of(const pool_axis *a, int64_t o, int64_t i)
{
  int64_t at = i + a->padding - o * a->stride;
  return a->dilation == 1 ? at : at / a->dilation;
}

/* How many elements the average over window o divides by, along one axis. */
static int64_t divisor(const pool_axis *a, bool count_pad, int64_t o)
{
  int64_t first, last;
  window_of(a, o, &first, &last);
  if (a->adaptive || !count_pad) return last - first;
  int64_t start = o * a->stride - a->padding, end = start + a->kernel;
  return (end < a->in + a->padding ? end : a->in + a->padding) - start;
}

typedef struct {
  int n;
  const void *tap[MAX_TAPS];
  const uint8_t *index[MAX_TAPS];
  uint8_t place[MAX_TAPS];
  float weight[MAX_TAPS];
} tap_list;

/* Pixel number `row` * width + column of an image, as an element offset. */
static int64_t pixel_at(const pool_job *job, int64_t n, int64_t h, int64_t height, int64_t w, int64_t width)
{
  return ((n * height + h) * width + w) * job->channels;
}

static float average_weight(const pool_job *job, int64_t oh, int64_t ow)
{
  return 1.0f / (float)(divisor(&job->h, job->count_pad, oh) * divisor(&job->w, job->count_pad, ow));
}

/* Taps of output pixel (n, oh, ow). */
static void gather_inputs(const pool_job *job, int64_t n, int64_t oh, int64_t ow, tap_list *taps)
{
  int64_t h0, h1, w0, w1;
  window_of(&job->h, oh, &h0, &h1);
  window_of(&job->w, ow, &w0, &w1);
  float weight = job->index_out ? 0 : average_weight(job, oh, ow);
  taps->n = 0;
  for (int64_t h = h0; h < h1; h += job->h.dilation)
    for (int64_t w = w0; w < w1; w += job->w.dilation, taps->n++) {
      taps->tap[taps->n] = cpu_at(job->from, job->real, pixel_at(job, n, h, job->h.in, w, job->w.in));
      taps->place[taps->n] = (uint8_t)(tap_of(&job->h, oh, h) * job->w.kernel + tap_of(&job->w, ow, w));
      taps->weight[taps->n] = weight;
    }
}

/* Whether window o lies in the image with its whole width. */
static bool is_whole(const pool_axis *a, int64_t o)
{
  int64_t start = o * a->stride - a->padding;
  return !a->adaptive && start >= 0 && start + window_reach(a->kernel, a->dilation) <= a->in;
}

/* Whether all windows over input i do. */
static bool in_whole_windows(const pool_axis *a, int64_t i)
{
  int64_t reach = window_reach(a->kernel, a->dilation);
  return !a->adaptive && i >= reach && i + reach <= a->in;
}

/* The list of the pixel whose taps lie so many elements further on, with the same places and weights. */
static void shift(const pool_job *job, tap_list *taps, int64_t elements)
{
  for (int k = 0; k < taps->n; k++) {
    taps->tap[k] = cpu_at(taps->tap[k], job->real, elements);
    if (job->index_in) taps->index[k] += elements;
  }
}

/* Output pixels that input pixel (n, h, w) took part in. */
static void gather_outputs(const pool_job *job, int64_t n, int64_t h, int64_t w, tap_list *taps)
{
  int64_t h0, h1, w0, w1;
  windows_with(&job->h, h, &h0, &h1);
  windows_with(&job->w, w, &w0, &w1);
  taps->n = 0;
  for (int64_t oh = h0; oh < h1; oh++)
    for (int64_t ow = w0; ow < w1; ow++) {
      if (!in_window(&job->h, oh, h) || !in_window(&job->w, ow, w)) continue;
      int64_t at = pixel_at(job, n, oh, job->h.out, ow, job->w.out);
      taps->tap[taps->n] = cpu_at(job->from, job->real, at);
      if (job->index_in) {
        taps->index[taps->n] = job->index_in + at;
        taps->place[taps->n] = (uint8_t)(tap_of(&job->h, oh, h) * job->w.kernel + tap_of(&job->w, ow, w));
      } else {
        taps->weight[taps->n] = average_weight(job, oh, ow);
      }
      taps->n++;
    }
}

static void forward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const pool_job *job = arg;
  tap_list taps;
  for (int64_t r = begin; r < end; r++)
    for (int64_t w = 0; w < job->w.out; w++) {
      int64_t at = (r * job->w.out + w) * job->channels;
      void *y = cpu_at(job->to, job->real, at);
      if (w > 0 && is_whole(&job->w, w - 1) && is_whole(&job->w, w)) shift(job, &taps, job->w.stride * job->channels);
      else gather_inputs(job, r / job->h.out, r % job->h.out, w, &taps);
      if (job->index_out)
        cpu_now->pool_max(job->real, job->channels, taps.n, taps.tap, taps.place, y, job->index_out + at);
      else cpu_now->pool_sum(job->real, job->channels, taps.n, taps.tap, taps.weight, y);
    }
}

/* Pixels a stride apart have lists one output pixel apart: that many lists are kept. */
enum { STRIDE_MAX = 4 };

static void backward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const pool_job *job = arg;
  tap_list lists[STRIDE_MAX];
  int64_t stride = job->w.stride, kept = stride <= STRIDE_MAX ? stride : 0;
  for (int64_t r = begin; r < end; r++)
    for (int64_t w = 0; w < job->w.in; w++) {
      tap_list *taps = &lists[kept ? w % kept : 0];
      void *dx = cpu_at(job->to, job->real, (r * job->w.in + w) * job->channels);
      if (kept && in_whole_windows(&job->w, w - kept) && in_whole_windows(&job->w, w)) shift(job, taps, job->channels);
      else gather_outputs(job, r / job->h.in, r % job->h.in, w, taps);
      if (job->index_in)
        cpu_now->pool_pick(job->real, job->channels, taps->n, taps->tap, taps->index, taps->place, dx);
      else cpu_now->pool_sum(job->real, job->channels, taps->n, taps->tap, taps->weight, dx);
    }
}

static pool_job job_of(const capl_call *call, const capl_tensor *in, const capl_tensor *out)
{
  return (pool_job){.h = axis_of(call->attr, 0, in->size[2], out->size[2]),
                    .w = axis_of(call->attr, 1, in->size[3], out->size[3]),
                    .channels = in->size[1], .real = in->dtype, .from = capl_tensor_data(in),
                    .to = capl_tensor_data(out)};
}

static void run_forward(pool_job *job, int64_t images)
{
  cpu_parallel(images * job->h.out, CPU_GRAIN / (job->w.out * job->channels) + 1, forward_part, job);
}

static void run_backward(pool_job *job, int64_t images)
{
  cpu_parallel(images * job->h.in, CPU_GRAIN / (job->w.in * job->channels) + 1, backward_part, job);
}

/* The axes are those of the forward pool: from dx's image to dy's. */
static pool_job grad_job_of(const capl_call *call)
{
  pool_job job = job_of(call, call->out[0], call->in[0]);
  job.from = capl_tensor_data(call->in[0]);
  job.to = capl_tensor_data(call->out[0]);
  return job;
}

static void dilate(pool_job *job, const capl_call *call)
{
  job->h.dilation = call->attr[MAX_POOL_DILATION].v[0];
  job->w.dilation = call->attr[MAX_POOL_DILATION].v[1];
}

static capl_status cpu_max_pool2d(const capl_call *call)
{
  pool_job job = job_of(call, call->in[0], call->out[0]);
  dilate(&job, call);
  job.index_out = capl_tensor_data(call->out[1]);
  run_forward(&job, call->in[0]->size[0]);
  return CAPL_OK;
}

static capl_status cpu_max_pool2d_grad(const capl_call *call)
{
  pool_job job = grad_job_of(call);
  dilate(&job, call);
  job.index_in = capl_tensor_data(call->in[1]);
  run_backward(&job, call->in[0]->size[0]);
  return CAPL_OK;
}

static capl_status cpu_avg_pool2d(const capl_call *call)
{
  pool_job job = job_of(call, call->in[0], call->out[0]);
  job.count_pad = call->attr[AVG_POOL_COUNT_PAD].i;
  run_forward(&job, call->in[0]->size[0]);
  return CAPL_OK;
}

static capl_status cpu_avg_pool2d_grad(const capl_call *call)
{
  pool_job job = grad_job_of(call);
  job.count_pad = call->attr[AVG_POOL_COUNT_PAD].i;
  run_backward(&job, call->in[0]->size[0]);
  return CAPL_OK;
}

/* Whether the lists of taps hold a window, or the windows around a pixel, of this many positions along both axes. */
static bool fits_adaptive(const int64_t *most, const int64_t *least)
{
  int64_t taps = 1;
  for (int i = 0; i < 2; i++) {
    taps *= (most[i] + least[i] - 1) / least[i] + 1;
    if (taps > MAX_TAPS) return false;
  }
  return true;
}

/* Adaptive pools have no window attributes: both axes follow from the two sizes. */
static pool_job adaptive_job(const capl_tensor *image, const capl_tensor *pooled)
{
  return (pool_job){.h = {.adaptive = true, .dilation = 1, .in = image->size[2], .out = pooled->size[2]},
                    .w = {.adaptive = true, .dilation = 1, .in = image->size[3], .out = pooled->size[3]},
                    .channels = image->size[1], .real = image->dtype};
}

static capl_status cpu_adaptive_avg_pool2d(const capl_call *call)
{
  if (!fits_adaptive(call->in[0]->size + 2, call->out[0]->size + 2)) return cpu_adaptive_avg_pool2d_wide(call);
  pool_job job = adaptive_job(call->in[0], call->out[0]);
  job.from = capl_tensor_data(call->in[0]);
  job.to = capl_tensor_data(call->out[0]);
  run_forward(&job, call->in[0]->size[0]);
  return CAPL_OK;
}

static capl_status cpu_adaptive_avg_pool2d_grad(const capl_call *call)
{
  pool_job job = adaptive_job(call->out[0], call->in[0]);
  job.from = capl_tensor_data(call->in[0]);
  job.to = capl_tensor_data(call->out[0]);
  run_backward(&job, call->in[0]->size[0]);
  return CAPL_OK;
}

/* ---- rows ---- */

static bool not_empty(const capl_call *call)
{
  return cpu_real(call->in[0]) && capl_tensor_numel(call->in[0]) > 0;
}

/* The lists of taps hold one window; backwards no pixel lies in more windows than a window has pixels. */
static bool supports_pool(const capl_call *call)
{
  const int64_t *kernel = call->attr[POOL_KERNEL].v;
  return not_empty(call) && kernel[0] <= MAX_TAPS && kernel[1] <= MAX_TAPS && kernel[0] * kernel[1] <= MAX_TAPS;
}

/* Backwards a pixel lies in few windows unless the pool enlarges. */
static bool supports_adaptive_grad(const capl_call *call)
{
  return not_empty(call) && fits_adaptive(call->in[0]->size + 2, call->attr[ADAPTIVE_SIZE].v);
}

static bool supports_index(const capl_call *call)
{
  return not_empty(call) && (call->n_in < 2 || call->in[1]->dtype == CAPL_I32);
}

const capl_kernel cpu_pool_kernels[] = {
  {CAPL_OP_max_pool2d, cpu_max_pool2d, supports_pool, CPU_REAL},
  {CAPL_OP_max_pool2d_grad, cpu_max_pool2d_grad, supports_pool, CPU_REAL},
  {CAPL_OP_avg_pool2d, cpu_avg_pool2d, supports_pool, CPU_REAL},
  {CAPL_OP_avg_pool2d_grad, cpu_avg_pool2d_grad, supports_pool, CPU_REAL},
  {CAPL_OP_adaptive_avg_pool2d, cpu_adaptive_avg_pool2d, not_empty, CPU_REAL},
  {CAPL_OP_adaptive_avg_pool2d_grad, cpu_adaptive_avg_pool2d_grad, supports_adaptive_grad, CPU_REAL},
  {CAPL_OP_adaptive_max_pool2d, cpu_adaptive_max_pool2d, supports_index, CPU_REAL},
  {CAPL_OP_adaptive_max_pool2d_grad, cpu_adaptive_max_pool2d_grad, supports_index, CPU_REAL},
  {0},
};
