/* conv_winograd_1d.c -- convolutions that step by 1 along rows but not along columns, by Winograd along rows.
**
** F(4,3): 4 pixels of an output row come from 6 pixels of an input row with 6 multiplications instead of
** 12, for each row of the kernel. Any kernel height and vertical stride will do: the rows of the kernel
** are summed directly. A thread transforms all rows of some images, then multiplies row by row of the
** output. The gradient of x is the same sum over dy, with every stride-th row of the turned kernel.
**
** Images in bf16 have F(2,3): 2 pixels from 4 with 4 multiplications instead of 6, of pairs of bf16; forward only.
**
** f32 64->128 3x3 stride (2,1), 64 images of 8x20, one core: 4.4 ms by oneDNN's direct one, 3.1 ms here.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/conv_winograd_1d.h"

#include <string.h>

#include "backend/cpu/conv_common.h"
#include "backend/cpu/conv_winograd_table.h"
#include "backend/cpu/cpu.h"
#include "ops/attrs.h"

enum { SIDE = 4, SIDE_BF16 = 2, KERNEL = 3, REACH_MAX = SIDE + KERNEL - 1 };

/* Lines of tiles that make about three dozen, which vec/gemm.c likes. */
enum { TILES = 36 };

/* Between frequencies, so that they do not share the same cache sets. */
enum { GAP = 16 };

typedef struct {
  cpu_image x, y; /* x: rows are read by `reach` pixels, y: rows are covered by `side` */
  capl_dtype real; /* of the images; with CAPL_BF16 `factors` are pairs of bf16 */
  int64_t side, reach;  /* and as many frequencies as reach */
  int64_t kernel_h, stride, pad_h, pad_w;
  bool backward;        /* x is dy and y is dx: stride and padding are those of the forward convolution */
  int64_t tiles, panel; /* tiles per row; columns of a panel of weights */
  int64_t images;       /* that a thread takes at a time */
  int64_t top, rows;    /* the rows of x that any row of y reads: [top, top + rows), zeros outside x */
  const void *x_data;
  void *y_data;      /* convolution: the result. Weight gradient: dy, read only */
  const float *bias; /* or NULL */
  bool relu;         /* of y */
  float *weights;    /* factors, per frequency panels of (kernel_h, inputs, 2 * lanes) */
  float *sums;       /* weight gradient: per thread and frequency (kernel_h, C, O) */
  float *zeros;      /* a pixel outside the images */
  float *room;       /* per thread: transforms of x (factors) and of y */
  int64_t room_size, sums_size;
} winoline;

static bool is_low(const winoline *w)
{
  return w->real == CAPL_BF16;
}

/* Factors that n numbers are. */
static int64_t factors(const winoline *w, int64_t n)
{
  return is_low(w) ? n / 2 : n;
}

/* What one row of y sums: rows of x from `first` on, each with one row of the kernel, from `kernel` on in
** the order of w->weights. */
typedef struct {
  int64_t first, count, kernel;
} window;

/* Rows of the kernel that meet phase r of dx: r, r + stride, ... */
static int64_t phase_rows(const winoline *w, int64_t r)
{
  return w->kernel_h > r ? (w->kernel_h - r + w->stride - 1) / w->stride : 0;
}

static window window_of(const winoline *w, int64_t row)
{
  if (!w->backward) return (window){row * w->stride - w->pad_h, w->kernel_h, 0};
  int64_t at = row + w->pad_h, r = at % w->stride, count = phase_rows(w, r), kernel = 0;
  for (int64_t before = 0; before < r; before++) kernel += phase_rows(w, before);
  return (window){(at - r) / w->stride - (count - 1), count, kernel};
}

static void set_rows(winoline *w)
{
  int64_t bottom = 0;
  w->top = 0;
  for (int64_t h = 0; h < w->y.H; h++) {
    window v = window_of(w, h);
    if (v.first < w->top) w->top = v.first;
    if (v.first + v.count > bottom) bottom = v.first + v.count;
  }
  w->rows = bottom - w->top;
}

static int64_t x_line(const winoline *w)
{
  return w->images * w->tiles * factors(w, w->x.C);
}

static int64_t x_frequency(const winoline *w)
{
  return w->rows * x_line(w) + GAP;
}

static int64_t y_line(const winoline *w)
{
  return w->images * w->tiles * w->y.C;
}

/* Convolution keeps one row of products at a time, the weight gradient all rows of dy. */
static int64_t y_frequency(const winoline *w)
{
  return (w->sums_size ? w->y.H : 1) * y_line(w) + GAP;
}

/* The sizes, x, y and what the kernel does are set; sums_size, too. */
static void set_sizes(winoline *w)
{
  w->side = is_low(w) ? SIDE_BF16 : SIDE;
  w->reach = w->side + KERNEL - 1;
  w->tiles = (w->y.W + w->side - 1) / w->side;
  w->images = w->tiles < TILES ? TILES / w->tiles : 1;
  w->panel = 2 * cpu_now->lanes;
  set_rows(w);
  w->room_size = conv_round_up(w->reach * (x_frequency(w) + y_frequency(w)), GAP);
}

static float *room_x(const winoline *w, int thread)
{
  return w->room + thread * w->room_size;
}

static float *room_y(const winoline *w, int thread)
{
  return room_x(w, thread) + w->reach * x_frequency(w);
}

/* ---- transforms ---- */

/* `size` pixels of a row from column `left` on: the first, where all lie inside in f32; else NULL, and each. */
static const float *pixels(const winoline *w, const void *row, cpu_image image, int64_t left, int64_t size,
                           const void **each)
{
  if (!is_low(w) && left >= 0 && left + size <= image.W) return (const float *)row + left * image.C;
  for (int64_t j = left; j < left + size; j++)
    *each++ = j >= 0 && j < image.W ? cpu_at(row, w->real, j * image.C) : w->zeros;
  return NULL;
}

/* Row h of x of `count` images from n on. */
static void transform_row(const winoline *w, int64_t n, int64_t count, int64_t h, float *to)
{
  int64_t C = w->x.C;
  vec_winograd v = {C, 0, C, (is_low(w) ? 2 : 1) * x_frequency(w), false};
  const void *each[REACH_MAX];
  for (int64_t i = 0; i < count; i++) {
    const void *row = cpu_at(w->x_data, w->real, ((n + i) * w->x.H + h) * w->x.W * C);
    for (int64_t j = 0; j < w->tiles; j++, to += factors(w, C)) {
      const float *x = pixels(w, row, w->x, j * w->side - w->pad_w, w->reach, each);
      if (is_low(w)) cpu_now->winoline_bf16_x(&v, each, (uint16_t *)(void *)to);
      else cpu_now->winoline_x(&v, x, each, to);
    }
  }
}

static void transform_x(const winoline *w, int64_t n, int64_t count, int thread)
{
  for (int64_t r = 0; r < w->rows; r++) {
    int64_t h = r + w->top;
    float *to = room_x(w, thread) + r * x_line(w);
    if (h >= 0 && h < w->x.H) transform_row(w, n, count, h, to);
    else
      for (int f = 0; f < w->reach; f++) memset(to + f * x_frequency(w), 0, (size_t)x_line(w) * sizeof *to);
  }
}

/* All rows of dy, without gaps for images that are not there. */
static void transform_dy(const winoline *w, int64_t n, int64_t count, int thread)
{
  int64_t O = w->y.C;
  vec_winograd v = {O, 0, O, y_frequency(w), false};
  const void *each[SIDE];
  float *to = room_y(w, thread);
  for (int64_t h = 0; h < w->y.H; h++)
    for (int64_t i = 0; i < count; i++) {
      const float *row = (const float *)w->y_data + ((n + i) * w->y.H + h) * w->y.W * O;
      for (int64_t j = 0; j < w->tiles; j++, to += O)
        cpu_now->winoline_dy(&v, pixels(w, row, w->y, j * SIDE, SIDE, each), each, to);
    }
}

static void transform_y(const winoline *w, int64_t n, int64_t count, int64_t h, int thread)
{
  int64_t O = w->y.C;
  vec_winograd v = {.channels = O, .pixel = O, .frequency = y_frequency(w), .relu = w->relu};
  const float *from = room_y(w, thread);
  for (int64_t i = 0; i < count; i++) {
    int64_t row = ((n + i) * w->y.H + h) * w->y.W;
    for (int64_t j = 0; j < w->y.W; j += w->side, from += O) {
      int columns = (int)conv_least(w->side, w->y.W - j);
      void *y = cpu_at(w->y_data, w->real, (row + j) * O);
      if (is_low(w)) cpu_now->winoline_bf16_y(&v, from, w->bias, columns, y);
      else cpu_now->winoline_y(&v, from, w->bias, columns, y);
    }
  }
}

/* ---- convolution ---- */

static void multiply(const winoline *w, int64_t count, int64_t h, int thread)
{
  int64_t length = factors(w, w->x.C), O = w->y.C;
  window v = window_of(w, h);
  vec_product p = {.rows = count * w->tiles, .columns = O, .segments = v.count, .length = length, .a_row = length,
                   .a_segment = x_line(w), .a_step = 1, .b_row = w->panel,
                   .b_panel = w->kernel_h * length * w->panel, .y_row = O};
  for (int f = 0; f < w->reach; f++) {
    const float *x = room_x(w, thread) + (v.first - w->top) * x_line(w) + f * x_frequency(w);
    const float *weights = w->weights + (v.kernel * w->panel + f * w->kernel_h * conv_round_up(O, w->panel)) * length;
    float *y = room_y(w, thread) + f * y_frequency(w);
    if (is_low(w)) cpu_now->product_pairs(&p, x, weights, NULL, y);
    else cpu_now->product(&p, x, weights, NULL, y);
  }
}

static void convolve_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const winoline *w = arg;
  for (int64_t n = begin; n < end; n += w->images) {
    int64_t count = conv_least(w->images, end - n);
    transform_x(w, n, count, thread);
    for (int64_t h = 0; h < w->y.H; h++) {
      multiply(w, count, h, thread);
      transform_y(w, n, count, h, thread);
    }
  }
}

/* Transforms the weights of one row of the kernel: from[c * input + j * tap + o], to row `row` of panels. */
static void weight_row(const winoline *w, const float *from, int64_t input, int64_t tap, int64_t row)
{
  int64_t length = factors(w, w->x.C), O = w->y.C;
  vec_winograd v = {0, 0, tap, w->kernel_h * length * conv_round_up(O, w->panel), false};
  for (int64_t c = 0; c < length; c++)
    for (int64_t o = 0; o < O; o += w->panel) {
      const float *taps = from + (is_low(w) ? 2 * c : c) * input + o;
      float *to = w->weights + ((o / w->panel * w->kernel_h + row) * length + c) * w->panel;
      v.channels = conv_least(w->panel, O - o);
      if (is_low(w)) cpu_now->winoline_bf16_w(&v, taps, taps + input, (uint32_t *)(void *)to);
      else cpu_now->winoline_w(&v, taps, to);
    }
}

/* Weights (O,C,kh,3), in memory (O,kh,3,C), for a convolution over C. */
static void weights_forward(const winoline *w, const float *data, float *flipped)
{
  int64_t C = w->x.C, O = w->y.C;
  conv_flip(data, flipped, w->kernel_h * KERNEL * C, O);
  for (int64_t k = 0; k < w->kernel_h; k++) weight_row(w, flipped + k * KERNEL * C * O, O, C * O, k);
}

/* The same turned by 180 degrees for a convolution of dy over O, its rows sorted by phase. */
static void weights_backward(const winoline *w, const float *data)
{
  int64_t C = w->y.C, row = 0;
  for (int64_t r = 0; r < w->stride; r++)
    for (int64_t u = phase_rows(w, r) - 1; u >= 0; u--)
      weight_row(w, data + ((r + u * w->stride) * KERNEL + KERNEL - 1) * C, w->kernel_h * KERNEL * C, -C, row++);
}

static capl_status convolve(winoline *w, capl_device *device, const capl_tensor *weights, const capl_tensor *bias)
{
  set_sizes(w);
  int64_t O = w->y.C, taps = KERNEL * w->kernel_h * w->x.C * O;
  int64_t transformed = w->reach * w->kernel_h * factors(w, w->x.C) * conv_round_up(O, w->panel);
  void *scratch, *kept;
  bool fresh;
  CAPL_TRY(cpu_weight_form(w->backward ? NULL : weights, w->y.N * w->y.H * w->y.W, CPU_FORM_WINOGRAD_1D,
                           (size_t)transformed * sizeof(float), &kept, &fresh));
  int64_t own = kept ? 0 : transformed, flipped = fresh ? taps : 0, copies = is_low(w) ? flipped + O : 0;
  size_t floats = (size_t)(own + flipped + copies + w->x.C + cpu_threads() * w->room_size);
  CAPL_TRY(capl_scratch_get(device, floats * sizeof(float), &scratch));
  w->weights = kept ? kept : scratch;
  float *turned = (float *)scratch + own, *copy = turned + flipped;
  w->zeros = copy + copies;
  w->room = w->zeros + w->x.C;
  memset(w->zeros, 0, (size_t)w->x.C * sizeof(float));
  if (w->backward) weights_backward(w, capl_tensor_data(weights));
  else if (fresh) weights_forward(w, conv_in_f32(weights, copy), turned);
  if (kept && fresh) capl_weight_form_filled(weights, CPU_FORM_WINOGRAD_1D);
  if (bias) w->bias = conv_in_f32(bias, w->zeros - O);
  cpu_parallel(w->x.N, 1, convolve_part, w);
  capl_scratch_put(device, scratch);
  return CAPL_OK;
}

static winoline winograd_1d_of(const capl_call *call, const capl_tensor *x, const capl_tensor *y, int64_t kernel_h)
{
  const capl_attr *attr = call->attr;
  return (winoline){.x = cpu_image_of(x), .y = cpu_image_of(y), .real = x->dtype, .x_data = capl_tensor_data(x),
                    .y_data = capl_tensor_data(y), .kernel_h = kernel_h, .stride = attr[CONV_STRIDE].v[0],
                    .pad_h = attr[CONV_PADDING].v[0], .pad_w = attr[CONV_PADDING].v[1]};
}

capl_status conv_winograd_1d(const capl_call *call, bool relu)
{
  const capl_tensor *weight = call->in[1];
  winoline w = winograd_1d_of(call, call->in[0], call->out[0], weight->size[2]);
  w.relu = relu;
  return convolve(&w, call->device, weight, call_input(call, 2));
}

capl_status conv_winograd_1d_grad_x(const capl_call *call)
{
  const capl_tensor *weight = call->in[1];
  winoline w = winograd_1d_of(call, call->in[0], call->out[0], weight->size[2]);
  w.backward = true;
  w.pad_w = KERNEL - 1 - w.pad_w;
  return convolve(&w, call->device, weight, NULL);
}

/* ---- weight gradient ---- */

static void add_products(const winoline *w, int64_t count, int thread)
{
  int64_t C = w->x.C, O = w->y.C;
  vec_product p = {.rows = C, .columns = O, .segments = w->y.H, .length = count * w->tiles, .a_row = 1,
                   .a_segment = w->stride * x_line(w), .a_step = C, .b_row = O, .b_panel = w->panel, .y_row = O,
                   .add = true};
  for (int f = 0; f < w->reach; f++)
    for (int64_t k = 0; k < w->kernel_h; k++)
      cpu_now->product(&p, room_x(w, thread) + f * x_frequency(w) + (k - w->pad_h - w->top) * x_line(w),
                       room_y(w, thread) + f * y_frequency(w), NULL,
                       w->sums + thread * w->sums_size + (f * w->kernel_h + k) * C * O);
}

static void grad_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const winoline *w = arg;
  for (int64_t n = begin; n < end; n += w->images) {
    int64_t count = conv_least(w->images, end - n);
    transform_x(w, n, count, thread);
    transform_dy(w, n, count, thread);
    add_products(w, count, thread);
  }
}

typedef struct {
  const winoline *w;
  float *taps; /* (kh, 3, C, O) */
} collect_job;

/* Rows (kh, C) from begin to end: adds the threads' sums and transforms them to taps. */
static void collect_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const collect_job *job = arg;
  const winoline *w = job->w;
  int64_t C = w->x.C, O = w->y.C;
  vec_winograd v = {O, 0, C * O, w->kernel_h * C * O, false};
  const float *parts[CPU_MAX_THREADS];
  for (int64_t i = begin; i < end; i++) {
    for (int t = 0; t < cpu_threads(); t++) parts[t] = w->sums + t * w->sums_size + i * O;
    cpu_now->winoline_dw(&v, cpu_threads(), parts, job->taps + (i / C * KERNEL * C + i % C) * O);
  }
}

static void collect(const winoline *w, float *taps, float *dw)
{
  int64_t rows = w->kernel_h * w->x.C;
  collect_job job = {w, taps};
  cpu_parallel(rows, CPU_GRAIN / (w->reach * w->y.C) + 1, collect_part, &job);
  conv_flip(taps, dw, w->y.C, KERNEL * rows);
}

capl_status conv_winograd_1d_grad_w(const capl_call *call)
{
  winoline w = winograd_1d_of(call, call->in[0], call->in[1], call->attr[CONV_KERNEL].v[0]);
  w.sums_size = REACH_MAX * w.kernel_h * w.x.C * w.y.C;
  set_sizes(&w);
  int64_t taps = KERNEL * w.kernel_h * w.x.C * w.y.C, threads = cpu_threads(), zeros = w.x.C > w.y.C ? w.x.C : w.y.C;
  size_t floats = (size_t)(taps + zeros + threads * (w.sums_size + w.room_size));
  void *scratch;
  CAPL_TRY(capl_scratch_get(call->device, floats * sizeof(float), &scratch));
  w.zeros = (float *)scratch + taps;
  w.sums = w.zeros + zeros;
  w.room = w.sums + threads * w.sums_size;
  memset(w.zeros, 0, (size_t)(zeros + threads * w.sums_size) * sizeof(float));
  cpu_parallel(w.x.N, 1, grad_part, &w);
  collect(&w, scratch, capl_tensor_data(call->out[0]));
  conv_bias_grad(w.y_data, w.y.N * w.y.H * w.y.W, w.y.C, w.room, capl_tensor_data(call->out[1]));
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

/* ---- when ---- */

/* Weights and rows of images that still fit the second-level cache once they are transformed. */
enum { WEIGHTS_MAX = 3 * 128 * 128, ROW_FLOATS_MAX = 1 << 11, HEIGHT_MAX = 7, LEAST_WIDTH = 12 };

/* An image in bf16 and a model file's weights: one alone is read with the bits that it has among others. */
static bool alone_as_among(const capl_call *call)
{
  return !conv_all_f32(call) && capl_weight_is_frozen(call->in[1]);
}

/* Along rows alone, and where it was faster than oneDNN's direct convolution. */
static bool bf16_fits(const capl_call *call, const int64_t *weight)
{
  enum { INPUTS_LEAST = 32, OUTPUTS_LEAST = 64 };
  bool forward = call->id == CAPL_OP_conv2d || call->id == CAPL_OP_conv2d_act;
  return forward && call->in[0]->dtype == CAPL_BF16 && call->in[1]->dtype == CAPL_BF16 &&
         call->attr[CONV_STRIDE].v[0] > 1 && weight[1] >= INPUTS_LEAST && weight[0] >= OUTPUTS_LEAST &&
         conv_winograd_bf16_is_on();
}

bool conv_winograd_1d_fits(const capl_call *call, const int64_t *x, const int64_t *weight)
{
  const capl_attr *attr = call->attr;
  const int64_t *padding = attr[CONV_PADDING].v;
  int64_t O = weight[0], C = weight[1], kernel_h = weight[2];
  if (attr[CONV_STRIDE].v[1] != 1 || attr[CONV_DILATION].v[0] != 1 || attr[CONV_DILATION].v[1] != 1) return false;
  if (weight[3] != KERNEL || padding[1] >= KERNEL || padding[0] >= kernel_h || kernel_h > HEIGHT_MAX) return false;
  if (O % cpu_now->lanes || C % cpu_now->lanes || kernel_h * O * C > WEIGHTS_MAX) return false;
  if (!conv_all_f32(call) && !bf16_fits(call, weight)) return false;
  return attr[CONV_GROUPS].i == 1 && (x[0] >= cpu_threads() || alone_as_among(call)) && x[3] >= LEAST_WIDTH &&
         (x[2] + 2 * padding[0]) * (O > C ? O : C) <= ROW_FLOATS_MAX;
}
