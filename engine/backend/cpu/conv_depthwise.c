/* conv_depthwise.c -- depthwise convolution and its gradients, one line of pixels at a time.
**
** The gradient of x is a depthwise convolution, too: pixels of dx that are a stride apart see the same taps
** of dy. So both directions are lines of vec_depthwise: an axis says which taps reach which pixels, its
** pieces are the runs of pixels that the same taps reach, from border to border. With several outputs per
** channel the channels are repeated first, image by image, and their gradients summed.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/conv_depthwise.h"

#include <string.h>

#include "backend/cpu/conv_common.h"
#include "backend/cpu/cpu.h"
#include "base/float16.h"
#include "ops/attrs.h"

enum { KERNEL_MAX = 7, STRIDE_MAX = 4, PIECES = 2 * KERNEL_MAX + 1, TAPS = KERNEL_MAX * KERNEL_MAX };

/* ---- which taps reach which pixels, along one axis ---- */

/* Target pixels q, q + period, q + 2 * period ... read source pixels that lie `step` apart. */
typedef struct {
  int64_t kernel, stride, padding, dilation;
  int64_t from, to; /* pixels of the source and of the target */
  int64_t period, step;
  bool backward;
} axis;

/* Forward from x to y; backward from dy to dx. */
static axis axis_of(const capl_attr *attr, int which, int64_t kernel, int64_t from, int64_t to, bool backward)
{
  int64_t stride = attr[CONV_STRIDE].v[which];
  return (axis){.kernel = kernel, .stride = stride, .padding = attr[CONV_PADDING].v[which],
                .dilation = attr[CONV_DILATION].v[which], .from = from, .to = to, .period = backward ? stride : 1,
                .step = backward ? 1 : stride, .backward = backward};
}

/* The source pixel of a tap for target pixel q < period, inside or not; false where the tap falls between pixels. */
static bool source_of(const axis *a, int64_t q, int64_t tap, int64_t *at)
{
  if (!a->backward) return *at = tap * a->dilation - a->padding, true;
  int64_t reach = q + a->padding - tap * a->dilation;
  *at = reach / a->stride;
  return reach % a->stride == 0;
}

/* Targets number first to first + count - 1 of a phase, and the taps that reach them. */
typedef struct {
  int64_t first, count;
  int n;
  int8_t tap[KERNEL_MAX];
  int64_t at[KERNEL_MAX]; /* source pixel of the first target */
} piece;

/* The end of the run of targets from r on that the same taps reach; fills the rest of p. */
static void fill_piece(const axis *a, int64_t q, int64_t total, piece *p)
{
  int64_t end = total;
  p->n = 0;
  for (int64_t tap = 0; tap < a->kernel; tap++) {
    int64_t at;
    if (!source_of(a, q, tap, &at)) continue;
    at += p->first * a->step;
    if (at >= a->from) continue; /* and never again */
    if (at < 0) { /* not yet */
      end = conv_least(end, p->first + (-at + a->step - 1) / a->step);
      continue;
    }
    end = conv_least(end, p->first + (a->from - at + a->step - 1) / a->step);
    p->tap[p->n] = (int8_t)tap;
    p->at[p->n++] = at;
  }
  p->count = end - p->first;
}

/* All pieces of one phase; returns how many. */
static int pieces_of(const axis *a, int64_t q, piece *list)
{
  int n = 0;
  int64_t total = (a->to - q + a->period - 1) / a->period;
  for (int64_t first = 0; first < total; first += list[n++].count) {
    list[n].first = first;
    fill_piece(a, q, total, &list[n]);
  }
  return n;
}

/* ---- one call ---- */

typedef struct {
  capl_dtype real;
  int64_t images, channels, repeat; /* channels: of y; of x there are channels / repeat */
  axis h, w;
  int n_pieces[STRIDE_MAX];
  piece pieces[STRIDE_MAX][PIECES]; /* of the width, phase by phase */
  const void *from;
  void *to; /* y or dx; of the weights' gradient: dy */
  const float *weight, *bias; /* weight (taps, channels) */
  bool stream;                /* stores past the caches */
  char *room;                 /* per thread: an image of x or dx with its channels repeated */
  int64_t room_bytes;
  double *totals;             /* per thread: (taps, channels), then (channels); then the same in f32 */
} depthwise_job;

static void plan_width(depthwise_job *job)
{
  for (int64_t q = 0; q < job->w.period && q < job->w.to; q++)
    job->n_pieces[q] = pieces_of(&job->w, q, job->pieces[q]);
}

/* The taps of target row h: n of them, each with its row of the source. */
static int rows_of(const axis *a, int64_t h, int64_t *tap, int64_t *row)
{
  int n = 0;
  for (int64_t i = 0; i < a->kernel; i++) {
    int64_t at;
    if (!source_of(a, h % a->period, i, &at)) continue;
    at += h / a->period * a->step;
    if (at < 0 || at >= a->from) continue;
    tap[n] = i;
    row[n++] = at;
  }
  return n;
}

/* Taps of one piece in one row: where the first target reads, and the number of each weight. */
typedef struct {
  int n;
  const void *x[TAPS];
  int place[TAPS];
} tap_list;

static void taps_of(const depthwise_job *job, const void *image, int rows, const int64_t *tap, const int64_t *row,
                    const piece *p, tap_list *list)
{
  list->n = 0;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < p->n; j++) {
      list->x[list->n] = cpu_at(image, job->real, (row[i] * job->w.from + p->at[j]) * job->channels);
      list->place[list->n++] = (int)tap[i] * (int)job->w.kernel + p->tap[j];
    }
}

/* Row h of the target from an image of the source; to: the image of the target. */
static void target_row(const depthwise_job *job, const void *image, void *to, int64_t h)
{
  int64_t tap[KERNEL_MAX], row[KERNEL_MAX], period = job->w.period, C = job->channels;
  int rows = rows_of(&job->h, h, tap, row);
  tap_list list;
  const float *weight[TAPS];
  for (int64_t q = 0; q < period && q < job->w.to; q++)
    for (const piece *p = job->pieces[q]; p < job->pieces[q] + job->n_pieces[q]; p++) {
      taps_of(job, image, rows, tap, row, p, &list);
      for (int t = 0; t < list.n; t++) weight[t] = job->weight + list.place[t] * C;
      vec_depthwise line = {.real = job->real, .count = p->count, .channels = C, .x_step = job->w.step * C,
                            .y_step = period * C, .taps = list.n, .stream = job->stream};
      void *y = cpu_at(to, job->real, (h * job->w.to + q + p->first * period) * C);
      cpu_now->depthwise(&line, list.x, weight, job->bias, y);
    }
}

/* Rows [begin, end) of images * target rows. */
static void rows_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const depthwise_job *job = arg;
  int64_t source = job->h.from * job->w.from * job->channels, target = job->h.to * job->w.to * job->channels;
  for (int64_t r = begin; r < end; r++) {
    int64_t n = r / job->h.to;
    target_row(job, cpu_at(job->from, job->real, n * source), cpu_at(job->to, job->real, n * target), r % job->h.to);
  }
}

/* ---- several outputs per channel ---- */

/* to[c * repeat + k] := from[c] */
static void repeat_channels(const depthwise_job *job, const void *from, void *to, int64_t pixels)
{
  int64_t n = pixels * job->channels / job->repeat, repeat = job->repeat;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < repeat; k++) {
      if (job->real == CAPL_BF16) ((uint16_t *)to)[i * repeat + k] = ((const uint16_t *)from)[i];
      else ((float *)to)[i * repeat + k] = ((const float *)from)[i];
    }
}

/* to[c] := sum of from[c * repeat + k]; 16-bit parts are rounded once more, together. */
static void join_channels(const depthwise_job *job, const void *from, void *to, int64_t pixels)
{
  int64_t n = pixels * job->channels / job->repeat, repeat = job->repeat;
  for (int64_t i = 0; i < n; i++) {
    float sum = 0;
    for (int64_t k = i * repeat; k < (i + 1) * repeat; k++)
      sum += job->real == CAPL_BF16 ? capl_bf16_to_float(((const uint16_t *)from)[k]) : ((const float *)from)[k];
    if (job->real == CAPL_BF16) ((uint16_t *)to)[i] = capl_bf16_from_float(sum);
    else ((float *)to)[i] = sum;
  }
}

static int64_t pixels_from(const depthwise_job *job) { return job->h.from * job->w.from; }
static int64_t pixels_to(const depthwise_job *job) { return job->h.to * job->w.to; }

static void repeated_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const depthwise_job *job = arg;
  void *room = job->room + thread * job->room_bytes;
  for (int64_t n = begin; n < end; n++) {
    int64_t at = n * pixels_from(job) * job->channels / job->repeat;
    repeat_channels(job, cpu_at(job->from, job->real, at), room, pixels_from(job));
    void *to = cpu_at(job->to, job->real, n * pixels_to(job) * job->channels);
    for (int64_t h = 0; h < job->h.to; h++) target_row(job, room, to, h);
  }
}

static void joined_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const depthwise_job *job = arg;
  void *room = job->room + thread * job->room_bytes;
  for (int64_t n = begin; n < end; n++) {
    const void *from = cpu_at(job->from, job->real, n * pixels_from(job) * job->channels);
    for (int64_t h = 0; h < job->h.to; h++) target_row(job, from, room, h);
    int64_t at = n * pixels_to(job) * job->channels / job->repeat;
    join_channels(job, room, cpu_at(job->to, job->real, at), pixels_to(job));
  }
}

/* ---- forward and the gradient of x ---- */

/* weight (channels, taps) -> f32 (taps, channels) */
static void turn_weights(capl_dtype real, const void *from, float *to, int64_t channels, int64_t taps)
{
  for (int64_t t = 0; t < taps; t++)
    for (int64_t c = 0; c < channels; c++)
      to[t * channels + c] = real == CAPL_BF16 ? capl_bf16_to_float(((const uint16_t *)from)[c * taps + t])
                                               : ((const float *)from)[c * taps + t];
}

/* kernel: kh,kw. backward: from y to x. */
static depthwise_job job_of(const capl_call *call, const capl_tensor *x, const int64_t *kernel, const capl_tensor *y,
                            bool backward)
{
  const capl_tensor *from = backward ? y : x, *to = backward ? x : y;
  depthwise_job job = {.real = x->dtype, .images = x->size[0], .channels = y->size[1],
                       .repeat = y->size[1] / x->size[1],
                       .h = axis_of(call->attr, 0, kernel[0], from->size[2], to->size[2], backward),
                       .w = axis_of(call->attr, 1, kernel[1], from->size[3], to->size[3], backward),
                       .from = capl_tensor_data(from), .to = capl_tensor_data(to)};
  if (job.repeat > 1)
    job.room_bytes = conv_round_up(x->size[2] * x->size[3] * job.channels * (int64_t)capl_dtype_size(job.real), 64);
  plan_width(&job);
  return job;
}

/* Stores past the caches pay for results that no cache holds until they are read. */
enum { STREAM_BYTES = 16 << 20 };

static bool streams(const depthwise_job *job)
{
  int64_t pixel = job->channels * (int64_t)capl_dtype_size(job->real);
  return job->repeat == 1 && pixel % 64 == 0 && (uintptr_t)job->to % 64 == 0 &&
         job->images * pixels_to(job) * pixel >= STREAM_BYTES;
}

static void run_lines(depthwise_job *job, bool backward)
{
  job->stream = streams(job);
  int64_t row = job->w.to * job->channels * (1 + job->h.kernel * job->w.kernel / 8);
  if (job->repeat == 1) cpu_parallel(job->images * job->h.to, CPU_GRAIN / row + 1, rows_part, job);
  else cpu_parallel(job->images, CPU_GRAIN / (row * job->h.to) + 1, backward ? joined_part : repeated_part, job);
}

/* Weights and bias in f32, then room for repeated channels. */
static capl_status run_with_weights(depthwise_job *job, const capl_call *call, const capl_tensor *w,
                                    const capl_tensor *bias, bool backward)
{
  int64_t taps = w->size[2] * w->size[3], C = job->channels, floats = conv_round_up((taps + 1) * C, 16);
  size_t bytes = (size_t)floats * sizeof(float) + (size_t)(cpu_threads() * job->room_bytes);
  void *scratch;
  CAPL_TRY(capl_scratch_get(call->device, bytes, &scratch));
  float *weight = scratch;
  turn_weights(w->dtype, capl_tensor_data(w), weight, C, taps);
  if (bias) cpu_convert(bias->dtype, capl_tensor_data(bias), CAPL_F32, weight + taps * C, C);
  job->weight = weight;
  job->bias = bias ? weight + taps * C : NULL;
  job->room = (char *)(weight + floats);
  run_lines(job, backward);
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

capl_status conv_depthwise(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *w = call->in[1];
  depthwise_job job = job_of(call, x, w->size + 2, call->out[0], false);
  return run_with_weights(&job, call, w, call_input(call, 2), false);
}

capl_status conv_depthwise_grad_x(const capl_call *call)
{
  const capl_tensor *dy = call->in[0], *w = call->in[1];
  depthwise_job job = job_of(call, call->out[0], w->size + 2, dy, true);
  return run_with_weights(&job, call, w, NULL, true);
}

/* ---- the gradient of the weights ---- */

enum { PIXELS_PER_FLUSH = 1024 }; /* in one f32 sum */

static int64_t sums_of(const depthwise_job *job) { return (job->h.kernel * job->w.kernel + 1) * job->channels; }

/* Adds the f32 sums of some rows to the thread's doubles and clears them. */
static void flush(double *total, float *sums, int64_t n)
{
  for (int64_t i = 0; i < n; i++) total[i] += sums[i];
  memset(sums, 0, (size_t)n * sizeof *sums);
}

/* Row h of dy with its image of x. */
static void grad_row(const depthwise_job *job, const void *image, const void *dy, int64_t h, float *sums)
{
  int64_t tap[KERNEL_MAX], row[KERNEL_MAX], C = job->channels;
  int rows = rows_of(&job->h, h, tap, row);
  float *db = sums + job->h.kernel * job->w.kernel * C, *dw[TAPS];
  tap_list list;
  for (const piece *p = job->pieces[0]; p < job->pieces[0] + job->n_pieces[0]; p++) {
    taps_of(job, image, rows, tap, row, p, &list);
    for (int t = 0; t < list.n; t++) dw[t] = sums + list.place[t] * C;
    vec_depthwise line = {.real = job->real, .count = p->count, .channels = C, .x_step = job->w.step * C, .y_step = C,
                          .taps = list.n};
    cpu_now->depthwise_grad_w(&line, list.x, cpu_at(dy, job->real, (h * job->w.to + p->first) * C), dw, db);
  }
}

/* Rows [begin, end) of images * rows of dy. */
static void grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const depthwise_job *job = arg;
  int64_t n_sums = sums_of(job), pixels = 0, last = -1;
  double *total = job->totals + thread * (n_sums + n_sums / 2 + 1);
  float *sums = (float *)(total + n_sums);
  char *room = job->room + thread * job->room_bytes;
  for (int64_t r = begin; r < end; r++) {
    int64_t n = r / job->h.to;
    const void *image = cpu_at(job->from, job->real, n * pixels_from(job) * (job->channels / job->repeat));
    if (job->repeat > 1 && n != last) repeat_channels(job, image, room, pixels_from(job));
    last = n;
    const void *dy = cpu_at(job->to, job->real, n * pixels_to(job) * job->channels);
    grad_row(job, job->repeat > 1 ? room : image, dy, r % job->h.to, sums);
    pixels += job->w.to;
    if (pixels >= PIXELS_PER_FLUSH) flush(total, sums, n_sums), pixels = 0;
  }
  flush(total, sums, n_sums);
}

/* Sums over threads; dw (channels, taps). */
static void collect(const depthwise_job *job, float *dw, float *db)
{
  int64_t n_sums = sums_of(job), C = job->channels, taps = job->h.kernel * job->w.kernel;
  for (int64_t i = 0; i < n_sums; i++) {
    double sum = 0;
    for (int t = 0; t < cpu_threads(); t++) sum += job->totals[t * (n_sums + n_sums / 2 + 1) + i];
    if (i < taps * C) dw[i % C * taps + i / C] = (float)sum;
    else db[i - taps * C] = (float)sum;
  }
}

capl_status conv_depthwise_grad_w(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1], *dw = call->out[0];
  depthwise_job job = job_of(call, x, dw->size + 2, dy, false);
  int64_t n_sums = sums_of(&job), doubles = conv_round_up(cpu_threads() * (n_sums + n_sums / 2 + 1), 8);
  size_t bytes = (size_t)doubles * sizeof(double) + (size_t)(cpu_threads() * job.room_bytes);
  void *scratch;
  CAPL_TRY(capl_scratch_get(call->device, bytes, &scratch));
  job.totals = scratch;
  job.room = (char *)(job.totals + doubles);
  memset(job.totals, 0, (size_t)doubles * sizeof(double));
  int64_t row = job.w.to * job.channels * (1 + job.h.kernel * job.w.kernel / 8);
  cpu_parallel(job.images * job.h.to, CPU_GRAIN / row + 1, grad_part, &job);
  collect(&job, capl_tensor_data(dw), capl_tensor_data(call->out[1]));
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

/* ---- when ---- */

bool conv_depthwise_fits(const capl_call *call, const int64_t *weight)
{
  const capl_attr *attr = call->attr;
  int64_t groups = attr[CONV_GROUPS].i;
  return weight[1] == 1 && groups > 1 && weight[0] >= cpu_now->lanes && weight[2] <= KERNEL_MAX &&
         weight[3] <= KERNEL_MAX && attr[CONV_STRIDE].v[0] <= STRIDE_MAX && attr[CONV_STRIDE].v[1] <= STRIDE_MAX;
}
