/* conv_winograd.c -- 3x3 convolutions of stride 1 by Winograd's algorithm, tile by tile.
**
** Images are covered by tiles of 4x4 output pixels. A thread takes some tiles at a time, transforms their
** 6x6 input pixels to 36 matrices (tiles, channels), multiplies each by its 36th of the transformed
** weights, and transforms back: all of it stays in the thread's second-level cache, and nothing is
** reordered in memory. The gradient of x is the same with the weights turned round. The gradient of the
** weights multiplies the transforms of x and of dy instead and adds up over tiles.
**
** f32 32->32 3x3, 64 images of 15x40, one core: 4.8 ms by oneDNN's Winograd between reorders, 2.3 ms here.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/conv_winograd.h"

#include <string.h>

#include "backend/cpu/conv_common.h"
#include "backend/cpu/cpu.h"
#include "ops/attrs.h"

enum { SIDE = 4, REACH = 6, KERNEL = 3, FREQUENCIES = REACH * REACH, TAPS = KERNEL * KERNEL };

/* Tiles that a thread takes at a time, dozens being what vec/gemm.c likes. More tiles mean fewer passes
** over the weights, or over the sums of their gradient, and less room in the second-level cache. Between
** 12 and 96 the time changes by a tenth; with more than 100 channels the gradient wants 48. */
enum { TILES = 24, TILES_GRAD = 48 };

/* Between frequencies, so that they do not share the same cache sets. */
enum { GAP = 16 };

typedef struct {
  cpu_image x, y; /* x: what is read by 6x6 pixels, y: what is covered by 4x4 tiles */
  int64_t pad_h, pad_w, tiles_h, tiles_w, block, panel;
  const float *x_data;
  float *y_data;      /* convolution: the result. Weight gradient: dy, read only */
  const float *bias;  /* or NULL */
  bool relu;          /* of y */
  float *weights;     /* transformed, 36 times panels of (C, 2 * lanes) */
  float *sums;        /* weight gradient: per thread 36 (C, O) */
  float *zeros;       /* a pixel outside the images */
  float *room;        /* per thread: transforms of x and of y */
  int64_t room_size, sums_size;
} wino;

static int64_t frequency_gap(int64_t block, int64_t channels)
{
  return block * channels + GAP;
}

static void set_tiles(wino *w, int64_t block)
{
  w->tiles_h = (w->y.H + SIDE - 1) / SIDE;
  w->tiles_w = (w->y.W + SIDE - 1) / SIDE;
  w->block = block;
  w->panel = 2 * cpu_now->lanes;
  w->room_size = FREQUENCIES * (frequency_gap(block, w->x.C) + frequency_gap(block, w->y.C)); /* above 2 w->y.C */
}

static int64_t tile_count(const wino *w)
{
  return w->x.N * w->tiles_h * w->tiles_w;
}

/* ---- tiles of pixels ---- */

/* Where a tile lies: image and first pixel of 4x4 output pixels. */
typedef struct {
  int64_t n, h, w;
} tile_at;

static tile_at locate(const wino *w, int64_t tile)
{
  int64_t row = tile / w->tiles_w;
  return (tile_at){row / w->tiles_h, row % w->tiles_h * SIDE, tile % w->tiles_w * SIDE};
}

/* The size x size pixels of image n from row top and column left on: the first one, where all lie inside
** the image; else NULL, and each gets them one by one in reading order, zeros for those outside. */
static const float *pixels(const wino *w, const float *data, cpu_image image, int64_t n, int64_t top, int64_t left,
                           int64_t size, const float **each)
{
  int64_t H = image.H, W = image.W;
  data += n * H * W * image.C;
  if (top >= 0 && left >= 0 && top + size <= H && left + size <= W) return data + (top * W + left) * image.C;
  for (int64_t i = top; i < top + size; i++)
    for (int64_t j = left; j < left + size; j++)
      *each++ = i >= 0 && i < H && j >= 0 && j < W ? data + (i * W + j) * image.C : w->zeros;
  return NULL;
}

/* The thread's room: transforms of x and of y. */
static float *room_x(const wino *w, int thread)
{
  return w->room + thread * w->room_size;
}

static float *room_y(const wino *w, int thread)
{
  return room_x(w, thread) + FREQUENCIES * frequency_gap(w->block, w->x.C);
}

static void transform_x(const wino *w, int64_t first, int64_t count, int thread)
{
  int64_t C = w->x.C;
  vec_winograd v = {C, w->x.W * C, C, frequency_gap(w->block, C), false};
  const float *each[REACH * REACH];
  for (int64_t t = 0; t < count; t++) {
    tile_at at = locate(w, first + t);
    const float *x = pixels(w, w->x_data, w->x, at.n, at.h - w->pad_h, at.w - w->pad_w, REACH, each);
    cpu_now->winograd_x(&v, x, each, room_x(w, thread) + t * C);
  }
}

/* ---- convolution ---- */

static void multiply(const wino *w, int64_t count, int thread)
{
  int64_t C = w->x.C, O = w->y.C;
  vec_product p = {.rows = count, .columns = O, .segments = 1, .length = C, .a_row = C, .a_step = 1,
                   .b_row = w->panel, .b_panel = C * w->panel, .y_row = O};
  for (int f = 0; f < FREQUENCIES; f++)
    cpu_now->product(&p, room_x(w, thread) + f * frequency_gap(w->block, C),
                     w->weights + f * C * conv_round_up(O, w->panel), NULL,
                     room_y(w, thread) + f * frequency_gap(w->block, O));
}

static void transform_y(const wino *w, int64_t first, int64_t count, int thread)
{
  int64_t O = w->y.C;
  vec_winograd v = {.channels = O, .row = w->y.W * O, .pixel = O, .frequency = frequency_gap(w->block, O),
                    .relu = w->relu};
  for (int64_t t = 0; t < count; t++) {
    tile_at at = locate(w, first + t);
    float *to = w->y_data + ((at.n * w->y.H + at.h) * w->y.W + at.w) * O;
    cpu_now->winograd_y(&v, room_y(w, thread) + t * O, w->bias, (int)conv_least(SIDE, w->y.H - at.h),
                        (int)conv_least(SIDE, w->y.W - at.w), to);
  }
}

static void convolve_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const wino *w = arg;
  for (int64_t first = begin; first < end; first += w->block) {
    int64_t count = conv_least(w->block, end - first);
    transform_x(w, first, count, thread);
    multiply(w, count, thread);
    transform_y(w, first, count, thread);
  }
}

/* Weights as winograd_w wants them: 3x3 taps of a vector of outputs, for every input. */
typedef struct {
  vec_winograd v;
  const float *w;
  int64_t input; /* from one input channel to the next, in w */
  int64_t inputs, outputs, panel;
  float *to;
} weight_job;

static void weight_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const weight_job *job = arg;
  for (int64_t c = begin; c < end; c++)
    for (int64_t o = 0; o < job->outputs; o += job->panel) {
      vec_winograd v = job->v;
      v.channels = conv_least(job->panel, job->outputs - o);
      cpu_now->winograd_w(&v, job->w + c * job->input + o, job->to + (o / job->panel * job->inputs + c) * job->panel);
    }
}

/* x's transform of the weights (O,C,3,3), in memory (O,3,3,C), for a convolution over C. */
static void weights_forward(const wino *w, const float *data, float *flipped)
{
  int64_t C = w->x.C, O = w->y.C;
  conv_flip(data, flipped, TAPS * C, O);
  weight_job job = {{0, KERNEL * C * O, C * O, C * conv_round_up(O, w->panel), false}, flipped, O, C, O, w->panel,
                    w->weights};
  cpu_parallel(C, CPU_GRAIN / (FREQUENCIES * O) + 1, weight_part, &job);
}

/* The same turned by 180 degrees, for a convolution of dy over O. */
static void weights_backward(const wino *w, const float *data)
{
  int64_t O = w->x.C, C = w->y.C;
  weight_job job = {{0, -KERNEL * C, -C, O * conv_round_up(C, w->panel), false}, data + (TAPS - 1) * C, TAPS * C, O, C,
                    w->panel, w->weights};
  cpu_parallel(O, CPU_GRAIN / (FREQUENCIES * C) + 1, weight_part, &job);
}

/* w->x, w->y and the padding are set. */
static capl_status convolve(wino *w, capl_device *device, const capl_tensor *weights, bool backward)
{
  set_tiles(w, TILES);
  int64_t transformed = FREQUENCIES * w->x.C * conv_round_up(w->y.C, w->panel), flipped = TAPS * w->x.C * w->y.C;
  void *scratch, *kept;
  bool fresh;
  CAPL_TRY(cpu_weight_form(backward ? NULL : weights, w->y.N * w->y.H * w->y.W, CPU_FORM_WINOGRAD,
                           (size_t)transformed * sizeof(float), &kept, &fresh));
  int64_t for_call = (fresh ? flipped : 0) + (kept ? 0 : transformed);
  size_t floats = (size_t)(for_call + w->x.C + cpu_threads() * w->room_size);
  CAPL_TRY(capl_scratch_get(device, floats * sizeof(float), &scratch));
  w->weights = kept ? kept : (float *)scratch + flipped;
  w->zeros = (float *)scratch + for_call;
  w->room = w->zeros + w->x.C;
  memset(w->zeros, 0, (size_t)w->x.C * sizeof(float));
  if (backward) weights_backward(w, capl_tensor_data(weights));
  else if (fresh) weights_forward(w, capl_tensor_data(weights), scratch);
  if (kept && fresh) capl_weight_form_filled(weights, CPU_FORM_WINOGRAD);
  cpu_parallel(tile_count(w), 1, convolve_part, w);
  capl_scratch_put(device, scratch);
  return CAPL_OK;
}

capl_status conv_winograd(const capl_call *call, bool relu)
{
  const capl_tensor *x = call->in[0], *bias = call_input(call, 2), *y = call->out[0];
  wino w = {.x = cpu_image_of(x), .y = cpu_image_of(y), .pad_h = call->attr[CONV_PADDING].v[0],
            .pad_w = call->attr[CONV_PADDING].v[1], .x_data = capl_tensor_data(x), .y_data = capl_tensor_data(y),
            .bias = bias ? capl_tensor_data(bias) : NULL, .relu = relu};
  return convolve(&w, call->device, call->in[1], false);
}

capl_status conv_winograd_grad_x(const capl_call *call)
{
  const capl_tensor *dy = call->in[0], *dx = call->out[0];
  wino w = {.x = cpu_image_of(dy), .y = cpu_image_of(dx), .pad_h = KERNEL - 1 - call->attr[CONV_PADDING].v[0],
            .pad_w = KERNEL - 1 - call->attr[CONV_PADDING].v[1], .x_data = capl_tensor_data(dy),
            .y_data = capl_tensor_data(dx)};
  return convolve(&w, call->device, call->in[1], true);
}

/* ---- weight gradient ---- */

static void transform_dy(const wino *w, int64_t first, int64_t count, int thread)
{
  int64_t O = w->y.C;
  vec_winograd v = {O, w->y.W * O, O, frequency_gap(w->block, O), false};
  const float *each[SIDE * SIDE];
  for (int64_t t = 0; t < count; t++) {
    tile_at at = locate(w, first + t);
    const float *dy = pixels(w, w->y_data, w->y, at.n, at.h, at.w, SIDE, each);
    cpu_now->winograd_dy(&v, dy, each, room_y(w, thread) + t * O);
  }
}

static void add_products(const wino *w, int64_t count, int thread)
{
  int64_t C = w->x.C, O = w->y.C;
  float *sums = w->sums + thread * w->sums_size;
  vec_product p = {.rows = C, .columns = O, .segments = 1, .length = count, .a_row = 1, .a_step = C, .b_row = O,
                   .b_panel = w->panel, .y_row = O, .add = true};
  for (int f = 0; f < FREQUENCIES; f++)
    cpu_now->product(&p, room_x(w, thread) + f * frequency_gap(w->block, C),
                     room_y(w, thread) + f * frequency_gap(w->block, O), NULL, sums + f * frequency_gap(C, O));
}

static void grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const wino *w = arg;
  for (int64_t first = begin; first < end; first += w->block) {
    int64_t count = conv_least(w->block, end - first);
    transform_x(w, first, count, thread);
    transform_dy(w, first, count, thread);
    add_products(w, count, thread);
  }
}

typedef struct {
  const wino *w;
  float *dw; /* (taps, C, O) */
} collect_job;

/* Input channels [begin, end): adds the threads' sums and transforms them to taps. */
static void collect_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const collect_job *job = arg;
  const wino *w = job->w;
  int64_t C = w->x.C, O = w->y.C;
  vec_winograd v = {O, KERNEL * C * O, C * O, frequency_gap(C, O), false};
  const float *parts[CPU_MAX_THREADS];
  for (int64_t c = begin; c < end; c++) {
    for (int t = 0; t < cpu_threads(); t++) parts[t] = w->sums + t * w->sums_size + c * O;
    cpu_now->winograd_dw(&v, cpu_threads(), parts, job->dw + c * O);
  }
}

static void collect(const wino *w, float *taps, float *dw)
{
  int64_t C = w->x.C, O = w->y.C;
  collect_job job = {w, taps};
  cpu_parallel(C, CPU_GRAIN / (FREQUENCIES * O) + 1, collect_part, &job);
  conv_flip(taps, dw, O, TAPS * C);
}

capl_status conv_winograd_grad_w(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  wino w = {.x = cpu_image_of(x), .y = cpu_image_of(dy), .pad_h = call->attr[CONV_PADDING].v[0],
            .pad_w = call->attr[CONV_PADDING].v[1], .x_data = capl_tensor_data(x), .y_data = capl_tensor_data(dy)};
  set_tiles(&w, TILES_GRAD);
  w.sums_size = FREQUENCIES * frequency_gap(w.x.C, w.y.C);
  int64_t taps = TAPS * w.x.C * w.y.C, threads = cpu_threads(), zeros = w.x.C > w.y.C ? w.x.C : w.y.C;
  size_t floats = (size_t)(taps + zeros + threads * (w.sums_size + w.room_size));
  void *scratch;
  CAPL_TRY(capl_scratch_get(call->device, floats * sizeof(float), &scratch));
  w.zeros = (float *)scratch + taps;
  w.sums = w.zeros + zeros;
  w.room = w.sums + threads * w.sums_size;
  memset(w.zeros, 0, (size_t)(zeros + threads * w.sums_size) * sizeof(float));
  cpu_parallel(tile_count(&w), 1, grad_part, &w);
  collect(&w, scratch, capl_tensor_data(call->out[0]));
  conv_bias_grad(w.y_data, w.y.N * w.y.H * w.y.W, w.y.C, w.room, capl_tensor_data(call->out[1]));
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

/* ---- when ---- */

/* Transformed weights that still fit the second-level cache beside the tiles. */
enum { WEIGHTS_MAX = 256 * 128, LEAST_SIDE = 3 };

bool conv_winograd_fits(const capl_call *call, const int64_t *x, const int64_t *weight)
{
  const capl_attr *attr = call->attr;
  const int64_t *padding = attr[CONV_PADDING].v;
  for (int i = 0; i < 2; i++)
    if (attr[CONV_STRIDE].v[i] != 1 || attr[CONV_DILATION].v[i] != 1 || weight[2 + i] != KERNEL ||
        padding[i] >= KERNEL || x[2 + i] + 2 * padding[i] < LEAST_SIDE + KERNEL - 1)
      return false;
  return conv_all_f32(call) && attr[CONV_GROUPS].i == 1 && weight[0] % cpu_now->lanes == 0
      && weight[1] % cpu_now->lanes == 0 &&
         weight[0] * weight[1] <= WEIGHTS_MAX;
}
