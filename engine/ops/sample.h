/* sample.h -- where resampled pixels come from: source positions and weights, one axis at a time.
**
** PyTorch's conventions. Without align_corners pixels are areas and the edges of both images meet ("half pixel"); with
** it pixels are points and the corner points meet. Nearest positions are computed in float, as PyTorch does, so that
** every backend chooses the same pixel.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_SAMPLE_H
#define CAPL_OPS_SAMPLE_H

#include <math.h>

#include "ops/attrs.h"

/* Attributes of interpolate and its gradient (size: of y, of x). */
enum {
  INTERPOLATE_SIZE = AT(interpolate, size),
  INTERPOLATE_MODE = AT(interpolate, mode),
  INTERPOLATE_ALIGN = AT(interpolate, align_corners),
  INTERPOLATE_SCALE_H = AT(interpolate, scale_h),
  INTERPOLATE_SCALE_W = AT(interpolate, scale_w),
};
static_assert(INTERPOLATE_SCALE_W == INTERPOLATE_SCALE_H + 1, "scale_w follows scale_h");
/* Attributes of grid_sample and its gradient. */
enum {
  GRID_MODE = AT(grid_sample, mode),
  GRID_PADDING = AT(grid_sample, padding_mode),
  GRID_ALIGN = AT(grid_sample, align_corners),
};

typedef enum { SAMPLE_NEAREST, SAMPLE_BILINEAR } sample_mode;
typedef enum { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION } sample_padding;

/* ---- interpolate ----------------------------------------------------------------------------- */

/* One axis of interpolate. */
typedef struct {
  int64_t in, out;
  double ratio; /* inputs per output */
  bool bilinear, align;
} sample_axis;

/* An output's two inputs: first with weight 1 - share, second with share. */
typedef struct {
  int64_t first, second;
  double share;
} sample_pair;

/* scale: outputs per input as asked for, 0 = out / in. */
static inline sample_axis sample_axis_of(int64_t in, int64_t out, double scale, sample_mode mode, bool align)
{
  sample_axis a = {in, out, scale > 0 ? 1 / scale : (double)in / (double)out, mode == SAMPLE_BILINEAR, align};
  if (align) a.ratio = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
  return a;
}

/* The axes of a call; x: the image, y: the result (or dx and dy). */
static inline sample_axis sample_axis_for(const capl_attr *attr, int axis, const capl_tensor *x, const capl_tensor *y)
{
  return sample_axis_of(x->size[2 + axis], y->size[2 + axis], attr[INTERPOLATE_SCALE_H + axis].f,
                        (sample_mode)attr[INTERPOLATE_MODE].i, attr[INTERPOLATE_ALIGN].i);
}

static inline sample_pair sample_pair_of(const sample_axis *a, int64_t o)
{
  sample_pair pair = {0, 0, 0}; /* C++ has no compound literals */
  if (!a->bilinear) {
    float at = (float)o * (float)a->ratio;
    int64_t i = at < (float)a->in ? (int64_t)at : a->in - 1; /* a scale may point far outside */
    if (i > a->in - 1) i = a->in - 1;
    pair.first = pair.second = i;
    return pair;
  }
  double at = a->align ? a->ratio * (double)o : a->ratio * ((double)o + 0.5) - 0.5;
  if (at < 0) at = 0;
  bool inside = at < (double)(a->in - 1);
  pair.first = inside ? (int64_t)at : a->in - 1;
  pair.second = inside ? pair.first + 1 : pair.first;
  pair.share = inside ? at - (double)pair.first : 0;
  return pair;
}

/* ---- grid_sample ----------------------------------------------------------------------------- */

/* Coordinate g in -1..1 as a position in pixels of an axis of n, and the slope d position / d g. */
static inline double sample_position(double g, int64_t n, sample_padding padding, bool align, double *slope)
{
  double last = (double)(n - 1), at = align ? (g + 1) / 2 * last : ((g + 1) * (double)n - 1) / 2;
  *slope = align ? last / 2 : (double)n / 2;
  if (padding == SAMPLE_ZEROS) return at;
  if (padding == SAMPLE_REFLECTION) {
    double low = align ? 0 : -0.5, span = align ? last : (double)n; /* mirrors lie at low and low + span */
    if (span <= 0) {
      *slope = 0;
      return 0;
    }
    double away = at - low;
    if (away < 0) away = -away, *slope = -*slope;
    double turns = floor(away / span), rest = away - turns * span;
    bool odd = fmod(turns, 2) != 0;
    if (odd) *slope = -*slope;
    at = low + (odd ? span - rest : rest);
  }
  if (at > 0 && at < last) return at;
  *slope = 0; /* at or beyond the border nothing changes */
  return at > 0 ? last : 0;
}

/* Positions far outside, infinite or no number at all count as outside. */
static inline int64_t sample_floor(double at)
{
  const double far = 1e9;
  if (!(at > -far && at < far)) return -(int64_t)far;
  int64_t whole = (int64_t)at; /* cut towards zero: faster than floor where that is a call */
  return whole - ((double)whole > at);
}

/* The nearest pixel; halves go to the even one. */
static inline int64_t sample_round(double at)
{
  const double far = 1e9;
  return at > -far && at < far ? (int64_t)nearbyint(at) : -(int64_t)far;
}

#endif
