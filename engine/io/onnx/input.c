/* input.c -- preprocessing as nodes: the formulas of engine/data (image.c, resize.c, convert.c), number by number.
**
** Levels are whole numbers in f32, which holds every sum of the luma's fixed point exactly.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/input.h"

#include <math.h>

/* ---- channels ---------------------------------------------------------------------------------- */

/* How many of C channels are colors, i64 (1): 1 of gray, 3 of RGB, without alpha. */
static const char *colors_of(onnx_build *b, const char *levels)
{
  const char *C = onnx_dim(b, levels, 3), *odd = ONNX(b, "Mod", C, ONNX_LIST(b, 2));
  return ONNX(b, "Sub", ONNX(b, "Add", C, odd), ONNX_LIST(b, 1));
}

static const char *pick_channels(onnx_build *b, const char *x, const char *which)
{
  const char *y = ONNX(b, "Gather", x, which);
  onnx_int(b, "axis", 3);
  return y;
}

static const char *floor_of(onnx_build *b, const char *x) { return ONNX(b, "Floor", x); }

/* (N,H,W,C) -> RGB (N,H,W,3), alpha composited on white. Where there is none, a channel of 255 stands for it. */
static const char *to_rgb(onnx_build *b, const char *levels)
{
  const char *colors = colors_of(b, levels), *last = ONNX(b, "Sub", colors, ONNX_LIST(b, 1));
  const char *white = onnx_number(b, ONNX_F32, 255);
  const char *padded = ONNX(b, "Pad", levels, ONNX_LIST(b, 0, 0, 0, 0, 0, 0, 0, 1), white);
  const char *alpha = pick_channels(b, padded, colors);
  const char *rgb = pick_channels(b, levels, ONNX(b, "Min", ONNX_LIST(b, 0, 1, 2), last));
  const char *seen = ONNX(b, "Mul", rgb, alpha);
  const char *rest = onnx_with(b, "Mul", ONNX(b, "Sub", white, alpha), ONNX_F32, 255);
  const char *sum = onnx_with(b, "Add", ONNX(b, "Add", seen, rest), ONNX_F32, 127);
  return floor_of(b, onnx_with(b, "Div", sum, ONNX_F32, 255));
}

/* capl_luma */
static const char *to_gray(onnx_build *b, const char *rgb)
{
  static const float luma[] = {19595, 38470, 7471};
  const char *weights = onnx_constant(b, NULL, ONNX_F32, 2, (const int64_t[]){3, 1}, luma);
  const char *sum = onnx_with(b, "Add", ONNX(b, "MatMul", rgb, weights), ONNX_F32, 0x8000);
  return floor_of(b, onnx_with(b, "Mul", sum, ONNX_F32, 1.0 / 65536));
}

/* ---- size -------------------------------------------------------------------------------------- */

static const char *to_f32(onnx_build *b, const char *x) { return onnx_cast(b, x, ONNX_F32); }
static const char *scalar(onnx_build *b, const char *x) { return ONNX(b, "Squeeze", x); }

/* 0, 1, … n - 1 as f32; n: i64 (1) */
static const char *count_to(onnx_build *b, const char *n)
{
  const char *from = onnx_number(b, ONNX_I64, 0), *step = onnx_number(b, ONNX_I64, 1);
  return to_f32(b, ONNX(b, "Range", from, scalar(b, n), step));
}

/* The bicubic kernel, a = -0.5, of a distance that is not negative. */
static const char *cubic(onnx_build *b, const char *x)
{
  const char *near = onnx_with(b, "Sub", onnx_with(b, "Mul", x, ONNX_F32, 1.5), ONNX_F32, 2.5);
  near = onnx_with(b, "Add", ONNX(b, "Mul", ONNX(b, "Mul", near, x), x), ONNX_F32, 1);
  const char *far = onnx_with(b, "Add", onnx_with(b, "Mul", x, ONNX_F32, -0.5), ONNX_F32, 2.5);
  far = ONNX(b, "Mul", onnx_with(b, "Sub", ONNX(b, "Mul", far, x), ONNX_F32, 4), x);
  far = onnx_with(b, "Add", far, ONNX_F32, 2);
  const char *none = onnx_number(b, ONNX_F32, 0), *two = onnx_with(b, "Less", x, ONNX_F32, 2);
  return ONNX(b, "Where", onnx_with(b, "Less", x, ONNX_F32, 1), near, ONNX(b, "Where", two, far, none));
}

/* The taps of capl_taps_set as a matrix (n_out, n_in): row i weighs the lines that make output line i. */
static const char *taps(onnx_build *b, const char *n_in, const char *n_out)
{
  const char *last = ONNX_LIST(b, 1), *scale = ONNX(b, "Div", to_f32(b, n_in), to_f32(b, n_out));
  const char *widen = onnx_with(b, "Max", scale, ONNX_F32, 1), *reach = onnx_with(b, "Mul", widen, ONNX_F32, 2);
  const char *centre = ONNX(b, "Mul", onnx_with(b, "Add", count_to(b, n_out), ONNX_F32, 0.5), scale);
  centre = ONNX(b, "Unsqueeze", centre, last);
  const char *first = floor_of(b, onnx_with(b, "Add", ONNX(b, "Sub", centre, reach), ONNX_F32, 0.5));
  const char *end = floor_of(b, onnx_with(b, "Add", ONNX(b, "Add", centre, reach), ONNX_F32, 0.5));
  const char *k = count_to(b, n_in);
  const char *away = onnx_with(b, "Add", ONNX(b, "Sub", k, centre), ONNX_F32, 0.5);
  const char *weight = cubic(b, ONNX(b, "Abs", ONNX(b, "Div", away, widen)));
  const char *inside = ONNX(b, "And", ONNX(b, "GreaterOrEqual", k, first), ONNX(b, "Less", k, end));
  weight = ONNX(b, "Where", inside, weight, onnx_number(b, ONNX_F32, 0));
  return ONNX(b, "Div", weight, ONNX(b, "ReduceSum", weight, last));
}

/* clamp_round of resize.c: halves go up. */
static const char *to_levels(onnx_build *b, const char *x)
{
  const char *kept = ONNX(b, "Clip", x, onnx_number(b, ONNX_F32, 0), onnx_number(b, ONNX_F32, 255));
  return floor_of(b, onnx_with(b, "Add", kept, ONNX_F32, 0.5));
}

/* (N,C,h,w) -> (N,C,H,W): columns first, rounded in between. Equal sizes give the same levels. */
static const char *resize(onnx_build *b, const char *x, const char *width, const char *height)
{
  const char *columns = ONNX_PERMUTE(b, taps(b, onnx_dim(b, x, 3), width), 1, 0);
  const char *wide = to_levels(b, ONNX(b, "MatMul", x, columns));
  return to_levels(b, ONNX(b, "MatMul", taps(b, onnx_dim(b, x, 2), height), wide));
}

/* resize_choose: floor(w * height / h + 1/2), in whole numbers. */
static const char *wanted_width(onnx_build *b, const char *x, int height)
{
  const char *w = onnx_dim(b, x, 3), *h = onnx_dim(b, x, 2);
  const char *twice = ONNX(b, "Add", ONNX(b, "Mul", w, ONNX_LIST(b, 2 * (int64_t)height)), h);
  return ONNX(b, "Div", twice, ONNX(b, "Mul", h, ONNX_LIST(b, 2)));
}

/* The last column's median of each channel, (N,C,1,1): edge_level of resize.c. */
static const char *edge(onnx_build *b, const char *x, int height)
{
  int64_t middle = (height + 1) / 2;
  const char *column = onnx_slice(b, x, 3, -1, INT32_MAX);
  const char *least = ONNX(b, "TopK", column, ONNX_LIST(b, middle));
  onnx_int(b, "axis", 2);
  onnx_int(b, "largest", 0);
  onnx_also(b);
  return onnx_slice(b, least, 2, middle - 1, middle);
}

/* (N,C,h,w) -> (N,C,H,W) of one of the widths, its proportions kept; b->width: which. */
static const char *fit(onnx_build *b, const char *x, const model_meta *m)
{
  int64_t widths[META_WIDTHS_MAX];
  int n = m->n_widths;
  for (int w = 0; w < n; w++) widths[w] = m->widths[w];
  const char *wanted = wanted_width(b, x, m->height), *all = onnx_list(b, n, widths);
  const char *below = onnx_cast(b, ONNX(b, "Less", onnx_list(b, n - 1, widths), wanted), ONNX_I64);
  const char *count = n > 1 ? ONNX(b, "ReduceSum", below, ONNX_LIST(b, 0)) : ONNX_LIST(b, 0);
  b->width = scalar(b, count);
  const char *wide = ONNX(b, "Gather", all, count);
  const char *used = ONNX(b, "Min", ONNX(b, "Max", wanted, ONNX_LIST(b, 1)), wide);
  const char *y = resize(b, x, used, ONNX_LIST(b, m->height));
  const char *size = ONNX(b, "Concat", ONNX_LIST(b, 1, 1, m->height), ONNX(b, "Sub", wide, used));
  onnx_int(b, "axis", 0);
  const char *right = ONNX(b, "Expand", edge(b, y, m->height), size);
  const char *padded = ONNX(b, "Concat", y, right);
  onnx_int(b, "axis", 3);
  return padded;
}

/* size of one side of a letterbox: scale (f64) times the side that was given, rounded, at least 1; i64 (1) */
static const char *scaled_side(onnx_build *b, const char *scale, const char *side)
{
  const char *px = ONNX(b, "Mul", scale, onnx_cast(b, side, ONNX_F64));
  px = onnx_with(b, "Max", ONNX(b, "Floor", onnx_with(b, "Add", px, ONNX_F64, 0.5)), ONNX_F64, 1);
  return onnx_cast(b, px, ONNX_I64);
}

/* f64 (1): px of the sample for each px that was given */
static const char *scale_to(onnx_build *b, int px, const char *side)
{
  return ONNX(b, "Div", onnx_number(b, ONNX_F64, px), onnx_cast(b, side, ONNX_F64));
}

/* Padding before and behind a side, i64 (1) each. */
static void pad_side(onnx_build *b, const model_meta *m, int whole, const char *used, const char **before,
                     const char **behind)
{
  const char *rest = ONNX(b, "Sub", ONNX_LIST(b, whole), used);
  *before = m->letterbox.top_left ? ONNX_LIST(b, 0) : ONNX(b, "Div", rest, ONNX_LIST(b, 2));
  *behind = ONNX(b, "Sub", rest, *before);
}

/* resize_place and resize_surround of resize.c: the image with its proportions, levels of fill around it. */
static const char *letterbox(onnx_build *b, const char *x, const model_meta *m)
{
  const char *w = onnx_dim(b, x, 3), *h = onnx_dim(b, x, 2), *left, *right, *top, *bottom;
  const char *wide = scale_to(b, m->width, w), *high = scale_to(b, m->height, h);
  const char *flat = ONNX(b, "Less", wide, high);
  const char *width = ONNX(b, "Where", flat, ONNX_LIST(b, m->width), scaled_side(b, high, w));
  const char *height = ONNX(b, "Where", flat, scaled_side(b, wide, h), ONNX_LIST(b, m->height));
  pad_side(b, m, m->width, width, &left, &right);
  pad_side(b, m, m->height, height, &top, &bottom);
  const char *zeros = ONNX_LIST(b, 0, 0), *pads = ONNX(b, "Concat", zeros, top, left, zeros, bottom, right);
  onnx_int(b, "axis", 0);
  float fill[3];
  for (int c = 0; c < 3; c++) fill[c] = m->letterbox.fill[c];
  const char *around = onnx_constant(b, NULL, ONNX_F32, 3, (const int64_t[]){m->channels, 1, 1}, fill);
  return ONNX(b, "Add", ONNX(b, "Pad", ONNX(b, "Sub", resize(b, x, width, height), around), pads), around);
}

/* ---- numbers ----------------------------------------------------------------------------------- */

static const char *mean_of(onnx_build *b, const char *x)
{
  const char *y = ONNX(b, "ReduceMean", x);
  ONNX_INTS(b, "axes", 1, 2, 3);
  return y;
}

/* Each image by its own mean and deviation, in f64; one of one level has no deviation and becomes zeros. */
static const char *standardize(onnx_build *b, const char *x)
{
  const char *wide = onnx_cast(b, x, ONNX_F64), *mean = mean_of(b, wide);
  const char *squares = mean_of(b, ONNX(b, "Mul", wide, wide));
  const char *variance = ONNX(b, "Sub", squares, ONNX(b, "Mul", mean, mean));
  const char *one = onnx_number(b, ONNX_F64, 1);
  const char *has = onnx_with(b, "Greater", variance, ONNX_F64, 1e-9);
  const char *scale = ONNX(b, "Div", one, ONNX(b, "Sqrt", ONNX(b, "Where", has, variance, one)));
  const char *shift = ONNX(b, "Neg", ONNX(b, "Mul", mean, scale));
  return ONNX(b, "Add", ONNX(b, "Mul", x, to_f32(b, scale)), to_f32(b, shift));
}

static const char *normalize(onnx_build *b, const model_meta *m, const char *x)
{
  if (m->conversion.norm == CAPL_NORM_STANDARDIZE) return standardize(b, x);
  capl_affine a = capl_conversion_affine(&m->conversion, 0, 0, 1);
  int64_t size[] = {m->channels, 1, 1};
  const char *scale = onnx_constant(b, NULL, ONNX_F32, 3, size, a.scale);
  const char *shift = onnx_constant(b, NULL, ONNX_F32, 3, size, a.shift);
  return ONNX(b, "Add", ONNX(b, "Mul", x, scale), shift);
}

const char *onnx_image(onnx_build *b, const model_meta *m, const char *levels)
{
  const char *x = to_rgb(b, levels);
  if (m->channels == 1) x = to_gray(b, x);
  x = ONNX_PERMUTE(b, x, 0, 3, 1, 2);
  if (m->n_widths) x = fit(b, x, m);
  else if (m->letterbox.on) x = letterbox(b, x, m);
  else x = resize(b, x, ONNX_LIST(b, m->width), ONNX_LIST(b, m->height));
  return normalize(b, m, x);
}

/* ---- numbers in their units -------------------------------------------------------------------- */

/* Of a list of numbers, f64 (D); NULL: the key is missing. */
static const char *numbers(onnx_build *b, const cJSON *list)
{
  int64_t n = cJSON_GetArraySize(list);
  double *values = onnx_alloc(b, (size_t)(n + 1) * sizeof *values);
  if (!cJSON_IsArray(list) || !values) return NULL;
  for (int i = 0; i < n; i++) values[i] = cJSON_GetArrayItem(list, i)->valuedouble;
  return onnx_constant(b, NULL, ONNX_F64, 1, &n, values);
}

const char *onnx_scaled(onnx_build *b, const cJSON *described, const char *x)
{
  const char *mean = numbers(b, cJSON_GetObjectItemCaseSensitive(described, "mean"));
  const char *std = numbers(b, cJSON_GetObjectItemCaseSensitive(described, "std"));
  const char *y = onnx_cast(b, x, ONNX_F64);
  if (mean) y = ONNX(b, "Sub", y, mean);
  if (std) y = ONNX(b, "Div", y, std);
  return to_f32(b, y);
}
