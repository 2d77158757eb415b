/* depthwise.c -- lines of a depthwise convolution and of its gradients: the vector runs over channels.
**
** A line is a row of pixels with the same taps. Every product is one load of a pixel and one multiply-add: eight pixels
** share a weight's register going forward, nine weights share a pixel of dy in their gradient. Channels that fill no
** vector are computed by one that overlaps the vector before it.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/simd.h"

/* ---- y = bias + sum of x * w ---- */

INLINE void some_pixels(const vec_depthwise *p, capl_dtype real, const void *const *x, const float *const *w,
                        const float *bias, void *y, int64_t first, const int count, int64_t c)
{
  vf sum[8];
  vf start = bias ? v_load_f32(bias + c) : (vf){0};
#pragma GCC unroll 8
  for (int k = 0; k < count; k++) sum[k] = start;
  for (int t = 0; t < p->taps; t++) {
    vf weight = v_load_f32(w[t] + c);
#pragma GCC unroll 8
    for (int k = 0; k < count; k++) sum[k] += v_load(real, x[t], (first + k) * p->x_step + c) * weight;
  }
  if (p->stream) {
#pragma GCC unroll 8
    for (int k = 0; k < count; k++) v_store_past(real, y, (first + k) * p->y_step + c, sum[k]);
  } else {
#pragma GCC unroll 8
    for (int k = 0; k < count; k++) v_store(real, y, (first + k) * p->y_step + c, sum[k]);
  }
}

INLINE void pixels_at(const vec_depthwise *p, capl_dtype real, const void *const *x, const float *const *w,
                      const float *bias, void *y, int64_t first, const int count)
{
  int64_t c = 0;
  for (; c + VN <= p->channels; c += VN) some_pixels(p, real, x, w, bias, y, first, count, c);
  if (c < p->channels) some_pixels(p, real, x, w, bias, y, first, count, p->channels - VN);
}

INLINE void line(const vec_depthwise *p, capl_dtype real, const void *const *x, const float *const *w,
                 const float *bias, void *y)
{
  int64_t first = 0;
  for (; first + 8 <= p->count; first += 8) pixels_at(p, real, x, w, bias, y, first, 8);
  for (; first + 4 <= p->count; first += 4) pixels_at(p, real, x, w, bias, y, first, 4);
  for (; first < p->count; first++) pixels_at(p, real, x, w, bias, y, first, 1);
}

void VEC(depthwise)(const vec_depthwise *p, const void *const *x, const float *const *w, const float *bias, void *y)
{
  if (p->real == CAPL_BF16) line(p, CAPL_BF16, x, w, bias, y);
  else line(p, CAPL_F32, x, w, bias, y);
}

/* ---- dw += sum of x * dy, db += sum of dy ---- */

#if defined(__AVX512F__)
enum { WIDE = 2 }; /* vectors of channels at once */
#else
enum { WIDE = 1 };
#endif

/* The last `fresh` lanes of a sum: those before them belong to the vector that this one overlaps. */
INLINE void put(float *to, vf sum, int64_t fresh)
{
  if (fresh == VN) {
    *(vf_at *)to = sum;
    return;
  }
  float lanes[VN];
  memcpy(lanes, &sum, sizeof lanes);
  memcpy(to + VN - fresh, lanes + VN - fresh, (size_t)fresh * sizeof *to);
}

INLINE void some_taps(const vec_depthwise *p, capl_dtype real, const void *const *x, const void *dy, float *const *dw,
                      const int count, int64_t c, const int blocks, int64_t fresh)
{
  vf sum[9 * WIDE];
#pragma GCC unroll 9
  for (int t = 0; t < count; t++)
    for (int b = 0; b < blocks; b++) sum[t * WIDE + b] = v_load_f32(dw[t] + c + b * VN);
  for (int64_t k = 0; k < p->count; k++) {
    vf g[WIDE];
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++) g[b] = v_load(real, dy, k * p->y_step + c + b * VN);
#pragma GCC unroll 9
    for (int t = 0; t < count; t++)
#pragma GCC unroll 2
      for (int b = 0; b < blocks; b++) sum[t * WIDE + b] += v_load(real, x[t], k * p->x_step + c + b * VN) * g[b];
  }
#pragma GCC unroll 9
  for (int t = 0; t < count; t++)
    for (int b = 0; b < blocks; b++) put(dw[t] + c + b * VN, sum[t * WIDE + b], fresh);
}

INLINE void bias_at(const vec_depthwise *p, capl_dtype real, const void *dy, float *db, int64_t c, const int blocks,
                    int64_t fresh)
{
  vf sum[WIDE];
  for (int b = 0; b < blocks; b++) sum[b] = v_load_f32(db + c + b * VN);
  for (int64_t k = 0; k < p->count; k++)
    for (int b = 0; b < blocks; b++) sum[b] += v_load(real, dy, k * p->y_step + c + b * VN);
  for (int b = 0; b < blocks; b++) put(db + c + b * VN, sum[b], fresh);
}

INLINE void weights_at(const vec_depthwise *p, capl_dtype real, const void *const *x, const void *dy, float *const *dw,
                       float *db, int64_t c, const int blocks, int64_t fresh)
{
  int t = 0;
  for (; t + 9 <= p->taps; t += 9) some_taps(p, real, x + t, dy, dw + t, 9, c, blocks, fresh);
  for (; t + 5 <= p->taps; t += 5) some_taps(p, real, x + t, dy, dw + t, 5, c, blocks, fresh);
  for (; t + 2 <= p->taps; t += 2) some_taps(p, real, x + t, dy, dw + t, 2, c, blocks, fresh);
  for (; t < p->taps; t++) some_taps(p, real, x + t, dy, dw + t, 1, c, blocks, fresh);
  bias_at(p, real, dy, db, c, blocks, fresh);
}

INLINE void weights(const vec_depthwise *p, capl_dtype real, const void *const *x, const void *dy, float *const *dw,
                    float *db)
{
  int64_t c = 0;
  for (; c + WIDE * VN <= p->channels; c += WIDE * VN) weights_at(p, real, x, dy, dw, db, c, WIDE, VN);
  for (; c + VN <= p->channels; c += VN) weights_at(p, real, x, dy, dw, db, c, 1, VN);
  if (c < p->channels) weights_at(p, real, x, dy, dw, db, p->channels - VN, 1, p->channels - c);
}

void VEC(depthwise_grad_w)(const vec_depthwise *p, const void *const *x, const void *dy, float *const *dw, float *db)
{
  if (p->real == CAPL_BF16) weights(p, CAPL_BF16, x, dy, dw, db);
  else weights(p, CAPL_F32, x, dy, dw, db);
}
