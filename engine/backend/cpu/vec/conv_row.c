/* conv_row.c -- one row of a convolution with few channels: the vector runs over channels of y.
**
** Some pixels share the register of a tap's weights. bf16 goes in pairs of taps, which lie side by side in x; what
** AVX-512 has for them adds both products at once. Eight channels are half a vector of AVX-512: two halves a cycle are
** as fast as one whole.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/conv_lanes.h"

#if defined(__AVX512F__)
enum { PIXELS = 10 };
#else
enum { PIXELS = 8 };
#endif

/* Pixel k, counted from four pointers so that addresses need no arithmetic; step in bytes. */
INLINE const char *pixel(const char *const *q, int k, int64_t step)
{
  return q[k / 3] + k % 3 * step;
}

/* What the taps [from, from + low + 1) of each pixel add. */
INLINE void add_taps(const char *x, int64_t step, const void *w, vf *sum, const int count, const bool low,
                     const int lanes)
{
  const char *q[4];
  for (int i = 0; i < 4; i++) q[i] = x + 3 * i * step;
  vf weight = lanes_load(w, lanes);
#pragma GCC unroll 12
  for (int k = 0; k < count; k++)
    sum[k] = lanes_add_one(sum[k], weight, pixel(q, k, step), low, lanes);
}

/* y: of the first pixel. */
INLINE void store_pixels(const vec_conv_row *p, capl_dtype real, const vf *sum, void *y, const int count,
                         const int lanes)
{
  char *to = y;
  int64_t step = p->y_step * (real == CAPL_BF16 ? 2 : 4);
#pragma GCC unroll 12
  for (int k = 0; k < count; k++, to += step) lanes_store(real, to, 0, p->relu ? v_relu(sum[k]) : sum[k], lanes);
}

INLINE void some_pixels(const vec_conv_row *p, const void *const *x, const void *w, const float *bias, void *y,
                        int64_t first, const int count, int64_t c, const bool low, const int lanes)
{
  const capl_dtype real = low ? CAPL_BF16 : CAPL_F32;
  const int64_t size = low ? 2 : 4, both = low ? 2 : 1, step = p->step * size;
  const char *weights = (const char *)w + 4 * c;
  vf sum[PIXELS], start = bias ? lanes_load(bias + c, lanes) : (vf){0};
#pragma GCC unroll 12
  for (int k = 0; k < count; k++) sum[k] = start;
  for (int64_t r = 0; r < p->kernel_h; r++) {
    const char *row = (const char *)x[r] + first * step;
    int64_t t = 0;
    for (; t + both <= p->taps; t += both, weights += 4 * p->channels)
      add_taps(row + t * size, step, weights, sum, count, low, lanes);
    if (t == p->taps) continue;
    add_taps(row + (t - 1) * size, step, weights, sum, count, low, lanes);
    weights += 4 * p->channels;
  }
  store_pixels(p, real, sum, (char *)y + (first * p->y_step + c) * size, count, lanes);
}

INLINE void pixels(const vec_conv_row *p, const void *const *x, const void *w, const float *bias, void *y,
                   int64_t first, const int count, const bool low)
{
  int64_t c = 0;
  for (; c + VN <= p->channels; c += VN) some_pixels(p, x, w, bias, y, first, count, c, low, VN);
  if (c < p->channels) some_pixels(p, x, w, bias, y, first, count, c, low, 8); /* VN is 16 */
}

/* In tiles of PIXELS; the last one overlaps the one before it, and computes the same there. */
INLINE void line(const vec_conv_row *p, const void *const *x, const void *w, const float *bias, void *y,
                 const bool low)
{
  int64_t first = 0;
  if (p->width >= PIXELS) {
    for (; first + PIXELS <= p->width; first += PIXELS) pixels(p, x, w, bias, y, first, PIXELS, low);
    if (first < p->width) pixels(p, x, w, bias, y, p->width - PIXELS, PIXELS, low);
    return;
  }
  for (; first + 4 <= p->width; first += 4) pixels(p, x, w, bias, y, first, 4, low);
  for (; first < p->width; first++) pixels(p, x, w, bias, y, first, 1, low);
}

/* A copy of p that nobody else sees: else each store might change it. A 3x3 kernel on one channel is a build of its
** own, without loops. */
INLINE void any_line(vec_conv_row p, const void *const *x, const void *w, const float *bias, void *y, const bool low)
{
  if (p.kernel_h == 3 && p.taps == 3 && p.step == 1) {
    p.kernel_h = p.taps = 3;
    p.step = 1;
    line(&p, x, w, bias, y, low);
  } else line(&p, x, w, bias, y, low);
}

void VEC(conv_row)(const vec_conv_row *p, const void *const *x, const void *w, const float *bias, void *y)
{
  if (p->real == CAPL_BF16) any_line(*p, x, w, bias, y, true);
  else any_line(*p, x, w, bias, y, false);
}
