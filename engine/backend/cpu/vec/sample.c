/* sample.c -- lines of images as weighted sums of other lines, and sums of rows.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/simd.h"

/* ---- whole rows ---- */

INLINE void blend_of(capl_dtype real, int64_t n, int rows, const void *const *row, const float *weight, float *y)
{
  int64_t whole = n / VN * VN;
  for (int64_t i = 0; i < whole; i += VN) {
    vf total = v_load(real, row[0], i) * weight[0];
    for (int k = 1; k < rows; k++) total += v_load(real, row[k], i) * weight[k];
    *(vf_at *)(y + i) = total;
  }
  for (int64_t i = whole; i < n; i++) {
    float total = f_load(real, row[0], i) * weight[0];
    for (int k = 1; k < rows; k++) total += f_load(real, row[k], i) * weight[k];
    y[i] = total;
  }
}

void VEC(blend_rows)(capl_dtype real, int64_t n, int rows, const void *const *row, const float *weight, float *y)
{
  if (real == CAPL_BF16) blend_of(CAPL_BF16, n, rows, row, weight, y);
  else blend_of(CAPL_F32, n, rows, row, weight, y);
}

/* ---- along a row ---- */

INLINE void pixels_of(capl_dtype real, const vec_taps *t, int64_t width, int64_t channels, const float *x, void *y)
{
  int64_t whole = channels / VN * VN;
  for (int64_t w = 0; w < width; w++) {
    int64_t first = t->start[w], last = t->start[w + 1], at = w * channels;
    for (int64_t c = 0; c < whole; c += VN) {
      vf total = {0};
      for (int64_t k = first; k < last; k++) total += v_load_f32(x + t->from[k] * channels + c) * t->weight[k];
      v_store(real, y, at + c, total);
    }
    for (int64_t c = whole; c < channels; c++) {
      float total = 0;
      for (int64_t k = first; k < last; k++) total += x[t->from[k] * channels + c] * t->weight[k];
      f_store(real, y, at + c, total);
    }
  }
}

void VEC(blend_pixels)(capl_dtype real, const vec_taps *t, int64_t width, int64_t channels, const float *x, void *y)
{
  if (real == CAPL_BF16) pixels_of(CAPL_BF16, t, width, channels, x, y);
  else if (channels == 1) pixels_of(CAPL_F32, t, width, 1, x, y);
  else pixels_of(CAPL_F32, t, width, channels, x, y);
}

/* ---- rows that are added ---- */

INLINE void add_of(capl_dtype real, int64_t n, const void *x, float weight, float *y)
{
  int64_t whole = n / VN * VN;
  for (int64_t i = 0; i < whole; i += VN) *(vf_at *)(y + i) = v_load_f32(y + i) + v_load(real, x, i) * weight;
  for (int64_t i = whole; i < n; i++) y[i] += f_load(real, x, i) * weight;
}

void VEC(add_row)(capl_dtype real, int64_t n, const void *x, float *y)
{
  if (real == CAPL_BF16) add_of(CAPL_BF16, n, x, 1, y);
  else add_of(CAPL_F32, n, x, 1, y);
}

void VEC(add_weighted)(capl_dtype real, int64_t n, const void *x, float weight, float *y)
{
  if (real == CAPL_BF16) add_of(CAPL_BF16, n, x, weight, y);
  else add_of(CAPL_F32, n, x, weight, y);
}

INLINE float dot_of(capl_dtype real, int64_t n, const void *a, const void *b)
{
  int64_t whole = n / VN * VN;
  vf total = {0};
  for (int64_t i = 0; i < whole; i += VN) total += v_load(real, a, i) * v_load(real, b, i);
  float sum = whole ? v_total(total) : 0;
  for (int64_t i = whole; i < n; i++) sum += f_load(real, a, i) * f_load(real, b, i);
  return sum;
}

float VEC(dot)(capl_dtype real, int64_t n, const void *a, const void *b)
{
  return real == CAPL_BF16 ? dot_of(CAPL_BF16, n, a, b) : dot_of(CAPL_F32, n, a, b);
}
