/* conv_rows.c -- convolutions with few channels, one row at a time.
**
** oneDNN pads few input channels to a whole vector. Here a thread copies a few rows of x with their padding, which stay
** in the first cache, and computes rows of y from them (vec/conv_row.c). The gradient of x is such a convolution of dy,
** too: pixels of dx that are a stride apart, a phase, see the same taps. How a pixel is computed depends on nothing
** but its window, so one image gives the same bits as many.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/conv_rows.h"

#include <string.h>

#include "backend/cpu/conv_common.h"
#include "backend/cpu/cpu.h"
#include "base/float16.h"
#include "base/isa.h"

enum { KERNEL_MAX = 7, STRIDE_MAX = 3 };

/* ---- which shapes ---- */

static bool is_plain(const capl_call *call, const int64_t *w)
{
  const capl_attr *attr = call->attr;
  for (int i = 0; i < 2; i++)
    if (attr[CONV_DILATION].v[i] != 1 || attr[CONV_STRIDE].v[i] > STRIDE_MAX || w[2 + i] > KERNEL_MAX) return false;
  return attr[CONV_GROUPS].i == 1;
}

/* AVX-512, for bf16 with its dot products. */
static bool is_native(const capl_call *call)
{
  return cpu_now->lanes == 16 && (call->in[0]->dtype == CAPL_F32 || capl_isa_has_bf16());
}

/* Where this was faster than oneDNN (bench/conv_bench.c); never by the number of images. */
bool conv_rows_fits(const capl_call *call, const int64_t *w)
{
  if (!is_plain(call, w) || w[0] % 8 != 0 || w[1] * w[3] < 2) return false;
  if (w[1] == 1 && w[0] == 8) return true;
  if (!is_native(call)) return false;
  if (call->in[0]->dtype == CAPL_F32) return w[1] == 1 && w[0] <= 32 && w[2] * w[3] <= 9;
  return w[1] == 1 ? w[0] <= 64 : w[1] <= 4 && w[0] <= 16;
}

bool conv_rows_grad_x_fits(const capl_call *call, const int64_t *w)
{
  const capl_attr *attr = call->attr;
  for (int i = 0; i < 2; i++)
    if (attr[CONV_STRIDE].v[i] != 2 || w[2 + i] < 2) return false;
  return is_plain(call, w) && is_native(call) && w[1] == 8 && w[0] % 2 == 0 && w[0] <= 16;
}

/* ---- one axis: which pixels of the source the pixels of a phase read ---- */

typedef struct {
  int64_t target, step, targets; /* pixel i of the phase is pixel target + i * step of the result */
  int64_t source, stride;        /* its first tap reads pixel source + i * stride */
  int64_t tap, tap_step, taps;   /* which taps, in the order of what they read */
} window;

static window forward_window(int64_t stride, int64_t pad, int64_t kernel, int64_t to)
{
  return (window){0, 1, to, -pad, stride, 0, 1, kernel};
}

/* Phase f < stride <= kernel. */
static window backward_window(int64_t stride, int64_t pad, int64_t kernel, int64_t to, int64_t f)
{
  int64_t least = (f + pad) % stride, taps = (kernel - least + stride - 1) / stride;
  return (window){f, stride, to > f ? (to - f + stride - 1) / stride : 0, (f + pad) / stride - (taps - 1), 1,
                  least + stride * (taps - 1), -stride, taps};
}

/* ---- the call ---- */

typedef struct {
  cpu_image from, to;
  const void *source;
  void *target;
  capl_dtype real;
  bool relu;
  int phases[2];
  window window[2][STRIDE_MAX];
  int64_t left, line;   /* pixels of padding before a row; values in a row with its padding */
  int64_t at_once;      /* rows of the result */
  int64_t room_size;    /* bytes of copied rows per thread */
  int64_t weights_size; /* 4-byte values of one pair of phases */
  uint32_t *weights;    /* per phase of rows and phase of columns */
  float *bias;          /* or NULL */
  char *room;
} rows_job;

static int64_t values_at_once(const rows_job *job)
{
  return job->real == CAPL_BF16 ? 2 : 1;
}

static int64_t steps_of(const rows_job *job, int64_t taps)
{
  return (taps * job->from.C + values_at_once(job) - 1) / values_at_once(job);
}

/* Enough rows at once that few are copied twice, and few enough to stay in the first cache. */
static void set_sizes(rows_job *job)
{
  enum { BYTES = 24 << 10, ROWS_MAX = 16 };
  const window *down = job->window[0], *along = job->window[1];
  int64_t end = 0, rows = 0, taps[2] = {0, 0};
  for (int i = 0; i < job->phases[1]; i++) {
    int64_t last = along[i].source + (along[i].targets - 1) * along[i].stride + along[i].taps;
    if (-along[i].source > job->left) job->left = -along[i].source;
    if (last > end) end = last;
    if (along[i].taps > taps[1]) taps[1] = along[i].taps;
  }
  for (int i = 0; i < job->phases[0]; i++)
    if (down[i].taps > taps[0]) taps[0] = down[i].taps;
  job->line = (job->left + end) * job->from.C;
  job->weights_size = taps[0] * steps_of(job, taps[1]) * job->to.C;
  int64_t bytes = job->line * (int64_t)capl_dtype_size(job->real);
  job->at_once = conv_least(BYTES / (bytes * down[0].stride), ROWS_MAX) / job->phases[0] * job->phases[0];
  if (job->at_once < job->phases[0]) job->at_once = job->phases[0];
  rows = job->at_once * down[0].stride + taps[0] + 1;
  job->room_size = conv_round_up(rows * bytes, 64);
}

/* ---- weights ---- */

/* w (O,kh,kw,C) in f32 -> weights of a pair of phases, [row][step][channel of the result]. */
static void set_weights(const rows_job *job, const float *w, cpu_image k, bool backward, const window *down,
                        const window *along, uint32_t *to)
{
  int64_t taps = along->taps * job->from.C, both = values_at_once(job), steps = steps_of(job, along->taps);
  for (int64_t r = 0; r < down->taps; r++)
    for (int64_t t = 0; t < taps; t++) {
      int64_t row = down->tap + r * down->tap_step, column = along->tap + t / job->from.C * along->tap_step;
      uint32_t *at = to + (r * steps + t / both) * job->to.C;
      bool high = t % both == 1 || (both == 2 && t == taps - 1); /* an odd last tap, too (vec.h) */
      for (int64_t c = 0; c < job->to.C; c++) {
        int64_t o = backward ? t % job->from.C : c, i = backward ? c : t % job->from.C;
        float value = w[((o * k.H + row) * k.W + column) * k.C + i];
        if (both == 1) memcpy(&at[c], &value, sizeof value);
        else if (high) at[c] = (t % 2 ? at[c] : 0) | (uint32_t)capl_bf16_from_float(value) << 16;
        else at[c] = capl_bf16_from_float(value);
      }
    }
}

static void set_all_weights(const rows_job *job, const float *w, cpu_image k, bool backward)
{
  for (int v = 0; v < job->phases[0]; v++)
    for (int u = 0; u < job->phases[1]; u++)
      set_weights(job, w, k, backward, &job->window[0][v], &job->window[1][u],
                  job->weights + (v * job->phases[1] + u) * job->weights_size);
}

/* ---- rows ---- */

/* Rows [first, first + count) of image n of the source; those outside it are zeros. */
static void copy_rows(const rows_job *job, int64_t n, int64_t first, int64_t count, char *to)
{
  size_t size = capl_dtype_size(job->real), line = (size_t)job->line * size;
  size_t left = (size_t)(job->left * job->from.C) * size, row = (size_t)(job->from.W * job->from.C) * size;
  size_t inside = row < line - left ? row : line - left;
  for (int64_t h = first; h < first + count; h++, to += line) {
    if (h < 0 || h >= job->from.H) {
      memset(to, 0, line);
      continue;
    }
    memset(to, 0, left);
    memcpy(to + left, (const char *)job->source + (size_t)(n * job->from.H + h) * row, inside);
    memset(to + left + inside, 0, line - left - inside);
  }
}

static int64_t first_source(const rows_job *job, int64_t h)
{
  const window *down = &job->window[0][h % job->phases[0]];
  return down->source + h / job->phases[0] * down->stride;
}

/* Row h of image n from copied rows, of which the first is row `top` of the source. */
static void one_row(const rows_job *job, int64_t n, int64_t h, int64_t top, const char *copied)
{
  int64_t v = h % job->phases[0], size = (int64_t)capl_dtype_size(job->real);
  const window *down = &job->window[0][v];
  for (int u = 0; u < job->phases[1]; u++) {
    const window *along = &job->window[1][u];
    const void *x[KERNEL_MAX];
    for (int64_t k = 0; k < down->taps; k++)
      x[k] = copied + ((first_source(job, h) - top + k) * job->line + (along->source + job->left) * job->from.C) * size;
    vec_conv_row row = {job->real, along->targets, job->to.C, down->taps, along->taps * job->from.C,
                        along->stride * job->from.C, along->step * job->to.C, job->relu};
    void *y = cpu_at(job->target, job->real, ((n * job->to.H + h) * job->to.W + along->target) * job->to.C);
    cpu_now->conv_row(&row, x, job->weights + (v * job->phases[1] + u) * job->weights_size, job->bias, y);
  }
}

/* Rows [begin, end) of N * H of the result. */
static void rows_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const rows_job *job = arg;
  char *room = job->room + thread * job->room_size;
  while (begin < end) {
    int64_t n = begin / job->to.H, h = begin % job->to.H, top, bottom;
    int64_t last = conv_least(conv_least(h + job->at_once, job->to.H), h + end - begin);
    top = bottom = first_source(job, h);
    for (int64_t i = h; i < last; i++) {
      int64_t from = first_source(job, i), past = from + job->window[0][i % job->phases[0]].taps;
      if (from < top) top = from;
      if (past > bottom) bottom = past;
    }
    copy_rows(job, n, top, bottom - top, room);
    for (int64_t i = h; i < last; i++) one_row(job, n, i, top, room);
    begin += last - h;
  }
}

/* All but the memory is set; w, and a bias or NULL. */
static capl_status run(rows_job *job, const capl_call *call, const capl_tensor *w, const capl_tensor *bias,
                       bool backward)
{
  int64_t all = job->weights_size * job->phases[0] * job->phases[1], n_weight = capl_tensor_numel(w);
  int64_t values = conv_round_up(all, 16) + conv_round_up(n_weight, 16) + conv_round_up(job->to.C, 16);
  char *scratch;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(4 * values + cpu_threads() * job->room_size), (void **)&scratch));
  float *wide = (float *)(void *)scratch + conv_round_up(all, 16), *room = wide + conv_round_up(n_weight, 16);
  job->weights = (uint32_t *)(void *)scratch;
  job->bias = NULL;
  if (bias) {
    if (bias->dtype == CAPL_BF16) cpu_now->to_f32(job->to.C, capl_tensor_data(bias), room);
    else memcpy(room, capl_tensor_data(bias), (size_t)job->to.C * sizeof *room);
    job->bias = room;
  }
  job->room = scratch + 4 * values;
  set_all_weights(job, conv_in_f32(w, wide), cpu_image_of(w), backward);
  int64_t row = job->to.W * job->to.C * job->weights_size / job->to.C / 16;
  cpu_parallel(job->to.N * job->to.H, CPU_GRAIN / (row + 1) + 1, rows_part, job);
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

capl_status conv_rows(const capl_call *call, bool relu)
{
  const capl_tensor *x = call->in[0], *w = call->in[1], *y = call->out[0];
  rows_job job = {.from = cpu_image_of(x), .to = cpu_image_of(y), .source = capl_tensor_data(x),
                  .target = capl_tensor_data(y), .real = x->dtype, .relu = relu, .phases = {1, 1}};
  const int64_t to[2] = {job.to.H, job.to.W};
  for (int i = 0; i < 2; i++)
    job.window[i][0] = forward_window(call->attr[CONV_STRIDE].v[i], call->attr[CONV_PADDING].v[i], w->size[2 + i],
                                      to[i]);
  set_sizes(&job);
  return run(&job, call, w, call_input(call, 2), false);
}

capl_status conv_rows_grad_x(const capl_call *call)
{
  const capl_tensor *dy = call->in[0], *w = call->in[1], *dx = call->out[0];
  rows_job job = {.from = cpu_image_of(dy), .to = cpu_image_of(dx), .source = capl_tensor_data(dy),
                  .target = capl_tensor_data(dx), .real = dy->dtype};
  const int64_t to[2] = {job.to.H, job.to.W};
  for (int i = 0; i < 2; i++) {
    int64_t stride = call->attr[CONV_STRIDE].v[i];
    job.phases[i] = (int)stride;
    for (int f = 0; f < stride; f++)
      job.window[i][f] = backward_window(stride, call->attr[CONV_PADDING].v[i], w->size[2 + i], to[i], f);
  }
  set_sizes(&job);
  return run(&job, call, w, NULL, true);
}
