/* conv_winograd.c -- 3x3 convolutions of stride 1 by Winograd's algorithm, tile by tile.
**
** Images are covered by tiles of 4x4 output pixels. A thread takes some tiles at a time, transforms their
** 6x6 input pixels to 36 matrices (tiles, channels), multiplies each by its 36th of the transformed
** weights, and transforms back: all of it stays in the thread's second-level cache, and nothing is
** reordered in memory. The gradient of x is the same with the weights turned round. The gradient of the
** weights multiplies the transforms of x and of dy instead and adds up over tiles.
**
** Images in bf16 have tiles of 2x2 output pixels, 4x4 input pixels and 16 matrices of pairs of bf16: of two channels,
** or of two tiles in the gradient of the weights.
**
** f32 32->32 3x3, 64 images of 15x40, one core: 4.8 ms by oneDNN's Winograd between reorders, 2.3 ms here.
** bf16 128->128 there: 47 ms by oneDNN's direct convolution, which its registers' rate bounds, 28.6 ms here.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/conv_winograd.h"

#include <string.h>

#include "backend/cpu/conv_common.h"
#include "backend/cpu/conv_winograd_table.h"
#include "backend/cpu/cpu.h"
#include "ops/attrs.h"

enum { KERNEL = 3, TAPS = KERNEL * KERNEL, SIDE = 4, SIDE_BF16 = 2, REACH_MAX = SIDE + KERNEL - 1 };

/* Tiles that a thread takes at a time, dozens being what vec/gemm.c likes. More tiles mean fewer passes
** over the weights, or over the sums of their gradient, and less room in the second-level cache. Between
** 12 and 96 the time changes by a tenth; with more than 100 channels the gradient wants 48. */
enum { TILES = 24, TILES_GRAD = 48, TILES_BF16 = 72, TILES_GRAD_BF16 = 96 };

/* Between frequencies, so that they do not share the same cache sets. */
enum { GAP = 16 };

typedef struct {
  cpu_image x, y; /* x: what is read by reach x reach pixels, y: what is covered by side x side tiles */
  capl_dtype real; /* of the images; with CAPL_BF16 `factors` are pairs of bf16 */
  int64_t side, reach, frequencies;
  int64_t columns; /* y.C in whole vectors: transforms of y have so many channels */
  int64_t pad_h, pad_w, tiles_h, tiles_w, block, panel;
  const void *x_data;
  void *y_data;       /* convolution: the result. Weight gradient: dy, read only */
  const float *bias;  /* or NULL */
  bool relu;          /* of y */
  float *weights;     /* factors, per frequency panels of (inputs, 2 * lanes) */
  float *sums;        /* weight gradient: per thread and frequency (C, O) */
  float *totals;      /* weight gradient in bf16: per thread sums of dy, of a block and of all, (O) each */
  float *zeros;       /* a pixel outside the images */
  float *room;        /* per thread: transforms of x (factors) and of y */
  int64_t room_size, sums_size;
} wino;

static bool is_low(const wino *w)
{
  return w->real == CAPL_BF16;
}

/* Factors that n numbers are. */
static int64_t factors(const wino *w, int64_t n)
{
  return is_low(w) ? n / 2 : n;
}

static int64_t frequency_gap(int64_t block, int64_t channels)
{
  return block * channels + GAP;
}

static void set_tiles(wino *w, int64_t block, int64_t block_bf16)
{
  w->side = is_low(w) ? SIDE_BF16 : SIDE;
  w->reach = w->side + KERNEL - 1;
  w->frequencies = w->reach * w->reach;
  w->tiles_h = (w->y.H + w->side - 1) / w->side;
  w->tiles_w = (w->y.W + w->side - 1) / w->side;
  w->block = is_low(w) ? block_bf16 : block;
  w->panel = 2 * cpu_now->lanes;
  w->columns = conv_round_up(w->y.C, cpu_now->lanes);
  int64_t each = frequency_gap(w->block, w->x.C) + frequency_gap(w->block, w->columns);
  w->room_size = w->frequencies * each; /* more than 2 w->y.C */
}

static int64_t tile_count(const wino *w)
{
  return w->x.N * w->tiles_h * w->tiles_w;
}

/* ---- tiles of pixels ---- */

/* Where a tile lies: image and first output pixel. */
typedef struct {
  int64_t n, h, w;
} tile_at;

static tile_at locate(const wino *w, int64_t tile)
{
  int64_t row = tile / w->tiles_w;
  return (tile_at){row / w->tiles_h, row % w->tiles_h * w->side, tile % w->tiles_w * w->side};
}

/* All its pixels are zeros: the partner of the last tile. */
static tile_at outside(const wino *w)
{
  return (tile_at){0, -w->reach, 0};
}

/* The size x size pixels of image n from row top and column left on in reading order, zeros for those outside. */
static void list_pixels(const wino *w, const void *data, cpu_image image, int64_t n, int64_t top, int64_t left,
                        int64_t size, const void **each)
{
  int64_t H = image.H, W = image.W, pixel = image.C * (is_low(w) ? 2 : 4); /* bytes */
  for (int64_t i = top; i < top + size; i++)
    for (int64_t j = left; j < left + size; j++)
      *each++ = i >= 0 && i < H && j >= 0 && j < W ? (const char *)data + ((n * H + i) * W + j) * pixel
                                                   : (const char *)w->zeros;
}

/* The first of those pixels in f32, where all lie inside the image; else NULL, and each gets them one by one. */
static const float *pixels(const wino *w, const void *data, cpu_image image, int64_t n, int64_t top, int64_t left,
                           int64_t size, const void **each)
{
  int64_t H = image.H, W = image.W;
  if (top >= 0 && left >= 0 && top + size <= H && left + size <= W)
    return (const float *)data + ((n * H + top) * W + left) * image.C;
  list_pixels(w, data, image, n, top, left, size, each);
  return NULL;
}

/* The thread's room: transforms of x and of y. */
static float *room_x(const wino *w, int thread)
{
  return w->room + thread * w->room_size;
}

static float *room_y(const wino *w, int thread)
{
  return room_x(w, thread) + w->frequencies * frequency_gap(w->block, w->x.C);
}

static void list_x(const wino *w, tile_at at, const void **each)
{
  list_pixels(w, w->x_data, w->x, at.n, at.h - w->pad_h, at.w - w->pad_w, w->reach, each);
}

static void transform_x(const wino *w, int64_t first, int64_t count, int thread)
{
  int64_t C = w->x.C;
  vec_winograd v = {C, w->x.W * C, C, frequency_gap(w->block, C), false};
  const void *each[REACH_MAX * REACH_MAX];
  for (int64_t t = 0; t < count; t++) {
    tile_at at = locate(w, first + t);
    const float *x = pixels(w, w->x_data, w->x, at.n, at.h - w->pad_h, at.w - w->pad_w, w->reach, each);
    cpu_now->winograd_x(&v, x, each, room_x(w, thread) + t * C);
  }
}

static void transform_x_bf16(const wino *w, int64_t first, int64_t count, int thread)
{
  int64_t C = w->x.C;
  vec_winograd v = {.channels = C, .frequency = 2 * frequency_gap(w->block, C / 2)};
  const void *each[REACH_MAX * REACH_MAX];
  for (int64_t t = 0; t < count; t++) {
    list_x(w, locate(w, first + t), each);
    cpu_now->winograd_bf16_x(&v, each, (uint16_t *)(void *)room_x(w, thread) + t * C);
  }
}

/* ---- convolution ---- */

static void product(const wino *w, const vec_product *p, const float *a, const float *b, float *y)
{
  if (is_low(w)) cpu_now->product_pairs(p, a, b, NULL, y);
  else cpu_now->product(p, a, b, NULL, y);
}

static void multiply(const wino *w, int64_t count, int thread)
{
  int64_t length = factors(w, w->x.C), O = w->columns;
  vec_product p = {.rows = count, .columns = O, .segments = 1, .length = length, .a_row = length, .a_step = 1,
                   .b_row = w->panel, .b_panel = length * w->panel, .y_row = O};
  for (int f = 0; f < w->frequencies; f++)
    product(w, &p, room_x(w, thread) + f * frequency_gap(w->block, length),
            w->weights + f * length * conv_round_up(O, w->panel), room_y(w, thread) + f * frequency_gap(w->block, O));
}

static void transform_y(const wino *w, int64_t first, int64_t count, int thread)
{
  int64_t O = w->y.C;
  vec_winograd v = {.channels = O, .row = w->y.W * O, .pixel = O, .frequency = frequency_gap(w->block, w->columns),
                    .relu = w->relu};
  for (int64_t t = 0; t < count; t++) {
    tile_at at = locate(w, first + t);
    const float *from = room_y(w, thread) + t * w->columns;
    void *to = cpu_at(w->y_data, w->real, ((at.n * w->y.H + at.h) * w->y.W + at.w) * O);
    int rows = (int)conv_least(w->side, w->y.H - at.h), columns = (int)conv_least(w->side, w->y.W - at.w);
    if (is_low(w)) cpu_now->winograd_bf16_y(&v, from, w->bias, rows, columns, to);
    else cpu_now->winograd_y(&v, from, w->bias, rows, columns, to);
  }
}

static void convolve_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const wino *w = arg;
  for (int64_t first = begin; first < end; first += w->block) {
    int64_t count = conv_least(w->block, end - first);
    if (is_low(w)) transform_x_bf16(w, first, count, thread);
    else transform_x(w, first, count, thread);
    multiply(w, count, thread);
    transform_y(w, first, count, thread);
  }
}

/* Weights as winograd_w wants them: 3x3 taps of a vector of outputs, for every input. */
typedef struct {
  vec_winograd v;
  const float *w;
  int64_t input; /* from one input channel to the next, in w */
  int64_t length, outputs, panel; /* length: factors that the inputs are */
  bool low;
  float *to;
} weight_job;

/* Factors [begin, end). */
static void weight_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const weight_job *job = arg;
  for (int64_t c = begin; c < end; c++)
    for (int64_t o = 0; o < job->outputs; o += job->panel) {
      vec_winograd v = job->v;
      const float *from = job->w + (job->low ? 2 * c : c) * job->input + o;
      float *to = job->to + (o / job->panel * job->length + c) * job->panel;
      v.channels = conv_least(job->panel, job->outputs - o);
      if (job->low) cpu_now->winograd_bf16_w(&v, from, from + job->input, (uint32_t *)(void *)to);
      else cpu_now->winograd_w(&v, from, to);
    }
}

static void transform_weights(const wino *w, vec_winograd v, const float *data, int64_t input)
{
  int64_t length = factors(w, w->x.C), outputs = w->y.C;
  v.frequency = length * conv_round_up(outputs, w->panel);
  if (outputs < w->columns) memset(w->weights, 0, (size_t)(w->frequencies * v.frequency) * sizeof *w->weights);
  weight_job job = {v, data, input, length, outputs, w->panel, is_low(w), w->weights};
  cpu_parallel(length, CPU_GRAIN / (w->frequencies * outputs) + 1, weight_part, &job);
}

/* x's transform of the weights (O,C,3,3), in memory (O,3,3,C), for a convolution over C. */
static void weights_forward(const wino *w, const float *data, float *flipped)
{
  int64_t C = w->x.C, O = w->y.C;
  conv_flip(data, flipped, TAPS * C, O);
  transform_weights(w, (vec_winograd){.row = KERNEL * C * O, .pixel = C * O}, flipped, O);
}

/* The same turned by 180 degrees, for a convolution of dy over O. */
static void weights_backward(const wino *w, const float *data)
{
  int64_t C = w->y.C;
  transform_weights(w, (vec_winograd){.row = -KERNEL * C, .pixel = -C}, data + (TAPS - 1) * C, TAPS * C);
}

/* w->x, w->y, real and the padding are set. */
static capl_status convolve(wino *w, const capl_call *call, const capl_tensor *bias, bool backward)
{
  const capl_tensor *weight = call->in[1];
  set_tiles(w, TILES, TILES_BF16);
  int64_t transformed = w->frequencies * factors(w, w->x.C) * conv_round_up(w->y.C, w->panel);
  int64_t taps = TAPS * w->x.C * w->y.C;
  void *scratch, *kept;
  bool fresh;
  CAPL_TRY(cpu_weight_form(backward ? NULL : weight, w->y.N * w->y.H * w->y.W, CPU_FORM_WINOGRAD,
                           (size_t)transformed * sizeof(float), &kept, &fresh));
  int64_t own = kept ? 0 : transformed, flipped = fresh ? taps : 0, copies = is_low(w) ? flipped + w->y.C : 0;
  size_t floats = (size_t)(own + flipped + copies + w->x.C + cpu_threads() * w->room_size);
  CAPL_TRY(capl_scratch_get(call->device, floats * sizeof(float), &scratch));
  w->weights = kept ? kept : scratch;
  float *turned = (float *)scratch + own, *copy = turned + flipped;
  w->zeros = copy + copies;
  w->room = w->zeros + w->x.C;
  memset(w->zeros, 0, (size_t)w->x.C * sizeof(float));
  if (backward) weights_backward(w, conv_in_f32(weight, copy));
  else if (fresh) weights_forward(w, conv_in_f32(weight, copy), turned);
  if (kept && fresh) capl_weight_form_filled(weight, CPU_FORM_WINOGRAD);
  if (bias) w->bias = conv_in_f32(bias, w->zeros - w->y.C);
  cpu_parallel(tile_count(w), 1, convolve_part, w);
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

static wino winograd_of(const capl_call *call, const capl_tensor *x, const capl_tensor *y)
{
  const int64_t *padding = call->attr[CONV_PADDING].v;
  return (wino){.x = cpu_image_of(x), .y = cpu_image_of(y), .real = x->dtype, .pad_h = padding[0],
                .pad_w = padding[1], .x_data = capl_tensor_data(x), .y_data = capl_tensor_data(y)};
}

capl_status conv_winograd(const capl_call *call, bool relu)
{
  wino w = winograd_of(call, call->in[0], call->out[0]);
  w.relu = relu;
  return convolve(&w, call, call_input(call, 2), false);
}

capl_status conv_winograd_grad_x(const capl_call *call)
{
  wino w = winograd_of(call, call->in[0], call->out[0]);
  w.pad_h = KERNEL - 1 - w.pad_h;
  w.pad_w = KERNEL - 1 - w.pad_w;
  return convolve(&w, call, NULL, true);
}

/* ---- weight gradient ---- */

static void transform_dy(const wino *w, int64_t first, int64_t count, int thread)
{
  int64_t O = w->y.C;
  vec_winograd v = {O, w->y.W * O, O, frequency_gap(w->block, w->columns), false};
  const void *each[SIDE * SIDE];
  for (int64_t t = 0; t < count; t++) {
    tile_at at = locate(w, first + t);
    const float *dy = pixels(w, w->y_data, w->y, at.n, at.h, at.w, w->side, each);
    cpu_now->winograd_dy(&v, dy, each, room_y(w, thread) + t * w->columns);
  }
}

/* Both transforms in pairs of tiles, and the sums of dy. */
static void transform_pairs(const wino *w, int64_t first, int64_t count, int thread)
{
  int64_t C = w->x.C, O = w->y.C;
  vec_winograd vx = {.channels = C, .frequency = frequency_gap(w->block / 2, C)};
  vec_winograd vy = {.channels = O, .frequency = frequency_gap(w->block / 2, O)};
  const void *each[2][REACH_MAX * REACH_MAX];
  float *total = w->totals + thread * 2 * O, *block = total + O;
  memset(block, 0, (size_t)O * sizeof *block);
  for (int64_t t = 0; t < count; t += 2) {
    tile_at at[2] = {locate(w, first + t), t + 1 < count ? locate(w, first + t + 1) : outside(w)};
    for (int i = 0; i < 2; i++) list_x(w, at[i], each[i]);
    cpu_now->winograd_bf16_x_pair(&vx, each[0], each[1], (uint32_t *)(void *)room_x(w, thread) + t / 2 * C);
    for (int i = 0; i < 2; i++) list_pixels(w, w->y_data, w->y, at[i].n, at[i].h, at[i].w, w->side, each[i]);
    cpu_now->winograd_bf16_dy_pair(&vy, each[0], each[1], (uint32_t *)(void *)room_y(w, thread) + t / 2 * O, block);
  }
  for (int64_t o = 0; o < O; o++) total[o] += block[o];
}

static void add_products(const wino *w, int64_t count, int thread)
{
  int64_t C = w->x.C, O = w->columns, block = factors(w, w->block), length = is_low(w) ? (count + 1) / 2 : count;
  float *sums = w->sums + thread * w->sums_size;
  vec_product p = {.rows = C, .columns = O, .segments = 1, .length = length, .a_row = 1, .a_step = C, .b_row = O,
                   .b_panel = w->panel, .y_row = O, .add = true};
  for (int f = 0; f < w->frequencies; f++)
    product(w, &p, room_x(w, thread) + f * frequency_gap(block, C), room_y(w, thread) + f * frequency_gap(block, O),
            sums + f * frequency_gap(C, O));
}

static void grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const wino *w = arg;
  for (int64_t first = begin; first < end; first += w->block) {
    int64_t count = conv_least(w->block, end - first);
    if (is_low(w)) transform_pairs(w, first, count, thread);
    else transform_x(w, first, count, thread), transform_dy(w, first, count, thread);
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
  vec_winograd v = {O, KERNEL * C * O, C * O, frequency_gap(C, w->columns), false};
  const float *parts[CPU_MAX_THREADS];
  for (int64_t c = begin; c < end; c++) {
    for (int t = 0; t < cpu_threads(); t++) parts[t] = w->sums + t * w->sums_size + c * w->columns;
    if (is_low(w)) cpu_now->winograd_bf16_dw(&v, cpu_threads(), parts, job->dw + c * O);
    else cpu_now->winograd_dw(&v, cpu_threads(), parts, job->dw + c * O);
  }
}

static void collect(const wino *w, float *taps, float *dw)
{
  int64_t C = w->x.C, O = w->y.C;
  collect_job job = {w, taps};
  cpu_parallel(C, CPU_GRAIN / (w->frequencies * O) + 1, collect_part, &job);
  conv_flip(taps, dw, O, TAPS * C);
}

static void collect_bias(const wino *w, float *db)
{
  if (!is_low(w)) {
    conv_bias_grad(w->y_data, w->y.N * w->y.H * w->y.W, w->y.C, w->room, db);
    return;
  }
  int64_t O = w->y.C;
  for (int64_t o = 0; o < O; o++) {
    db[o] = 0;
    for (int t = 0; t < cpu_threads(); t++) db[o] += w->totals[t * 2 * O + o];
  }
}

capl_status conv_winograd_grad_w(const capl_call *call)
{
  wino w = winograd_of(call, call->in[0], call->in[1]);
  set_tiles(&w, TILES_GRAD, TILES_GRAD_BF16);
  w.sums_size = w.frequencies * frequency_gap(w.x.C, w.columns);
  int64_t taps = TAPS * w.x.C * w.y.C, threads = cpu_threads(), zeros = w.x.C > w.y.C ? w.x.C : w.y.C;
  int64_t cleared = zeros + threads * (w.sums_size + 2 * w.y.C);
  void *scratch;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(taps + cleared + threads * w.room_size) * sizeof(float), &scratch));
  w.sums = (float *)scratch + taps;
  w.totals = w.sums + threads * w.sums_size;
  w.zeros = w.totals + threads * 2 * w.y.C;
  w.room = w.sums + cleared;
  memset(w.sums, 0, (size_t)(cleared + (w.y.C < w.columns ? threads * w.room_size : 0)) * sizeof(float));
  cpu_parallel(tile_count(&w), 1, grad_part, &w);
  collect(&w, scratch, capl_tensor_data(call->out[0]));
  collect_bias(&w, capl_tensor_data(call->out[1]));
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

/* ---- when ---- */

/* Transformed weights in f32 that still fit the second-level cache beside the tiles; in bf16 the table knows better.
** What each thread sums for itself is limited to 38 MB. */
enum { WEIGHTS_MAX = 256 * 128, WEIGHTS_MOST = 512 * 512, LEAST_SIDE = 3 };

/* Whether vectors of channels are whole, or the last one of a panel may overlap the one before it and little is in
** vain. */
static bool fills_vectors(int64_t channels)
{
  int64_t lanes = cpu_now->lanes, last = channels % (2 * lanes);
  return channels % lanes == 0 || (last > lanes && 4 * channels >= 3 * conv_round_up(channels, lanes));
}

/* Whether images are large enough for tiles, and channels fill vectors. */
static bool f32_can(const capl_call *call, const int64_t *x, const int64_t *weight)
{
  const int64_t *padding = call->attr[CONV_PADDING].v;
  for (int i = 0; i < 2; i++)
    if (x[2 + i] + 2 * padding[i] < LEAST_SIDE + KERNEL - 1 || !fills_vectors(weight[i])) return false;
  return true;
}

static bool bf16_can(const capl_call *call, const int64_t *weight)
{
  bool low = call->in[0]->dtype == CAPL_BF16 && call->in[1]->dtype == CAPL_BF16;
  return low && weight[0] % cpu_now->lanes == 0 && weight[1] % cpu_now->lanes == 0;
}

bool conv_winograd_can(const capl_call *call, const int64_t *x, const int64_t *weight)
{
  const capl_attr *attr = call->attr;
  const int64_t *padding = attr[CONV_PADDING].v;
  for (int i = 0; i < 2; i++)
    if (attr[CONV_STRIDE].v[i] != 1 || attr[CONV_DILATION].v[i] != 1 || weight[2 + i] != KERNEL ||
        padding[i] >= KERNEL)
      return false;
  if (attr[CONV_GROUPS].i != 1 || weight[0] * weight[1] > WEIGHTS_MOST) return false;
  return conv_all_f32(call) ? f32_can(call, x, weight) : bf16_can(call, weight);
}

bool conv_winograd_fits(const capl_call *call, const int64_t *x, const int64_t *weight)
{
  if (!conv_winograd_can(call, x, weight)) return false;
  if (conv_all_f32(call)) return weight[0] * weight[1] <= WEIGHTS_MAX;
  return conv_winograd_bf16_pays(call->id, x, call->attr[CONV_PADDING].v, weight, capl_weight_is_frozen(call->in[1]));
}
