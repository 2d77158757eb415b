/* attention.c -- what attention does with rows of scores, and how its matrices are laid out for products (gemm.c).
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/simd.h"

/* ---- laying out ---- */

INLINE void pack_row(capl_dtype real, int64_t n, int64_t padded, float scale, const void *x, int64_t at, int64_t step,
                     float *y)
{
  int64_t i = 0;
  if (step == 1)
    for (; i + VN <= n; i += VN) *(vf_at *)(y + i) = v_load(real, x, at + i) * scale;
  for (; i < n; i++) y[i] = f_load(real, x, at + i * step) * scale;
  for (; i < padded; i++) y[i] = 0;
}

void VEC(attend_pack)(capl_dtype real, int64_t rows, int64_t columns, int64_t padded, float scale, const void *x,
                      int64_t row, int64_t step, float *y)
{
  for (int64_t r = 0; r < rows; r++)
    if (real == CAPL_BF16) pack_row(CAPL_BF16, columns, padded, scale, x, r * row, step, y + r * padded);
    else pack_row(CAPL_F32, columns, padded, scale, x, r * row, step, y + r * padded);
}

/* VN rows turned: by halves, log2(VN) times. */
INLINE void turn_square(vf *a)
{
  for (int half = 1; half < VN; half *= 2) {
    vi low, high; /* lanes of (a, b) that make the new a, the new b */
    for (int k = 0; k < VN; k++) {
      low[k] = (k & half) ? VN + (k ^ half) : k;
      high[k] = (k & half) ? VN + k : k ^ half;
    }
    for (int k = 0; k < VN; k++) {
      if (k & half) continue;
      vf x = a[k], y = a[k + half];
#if defined(__clang__)
      for (int j = 0; j < VN; j++) {
        a[k][j] = low[j] < VN ? x[low[j]] : y[low[j] - VN];
        a[k + half][j] = high[j] < VN ? x[high[j]] : y[high[j] - VN];
      }
#else
      a[k] = __builtin_shuffle(x, y, low);
      a[k + half] = __builtin_shuffle(x, y, high);
#endif
    }
  }
}

/* y[c][r] := x[r][c]; rows of y are padded with 0. */
INLINE void turn_of(capl_dtype real, int64_t rows, int64_t columns, int64_t padded, const void *x, int64_t row,
                    int64_t step, float *y)
{
  for (int64_t r = 0; r < padded; r += VN) {
    int64_t c = 0;
    if (step == 1 && r + VN <= rows)
      for (; c + VN <= columns; c += VN) {
        vf square[VN];
        for (int k = 0; k < VN; k++) square[k] = v_load(real, x, (r + k) * row + c);
        turn_square(square);
        for (int k = 0; k < VN; k++) *(vf_at *)(y + (c + k) * padded + r) = square[k];
      }
    for (; c < columns; c++)
      for (int64_t k = r; k < r + VN; k++) y[c * padded + k] = k < rows ? f_load(real, x, k * row + c * step) : 0;
  }
}

void VEC(attend_turn)(capl_dtype real, int64_t rows, int64_t columns, int64_t padded, const void *x, int64_t row,
                      int64_t step, float *y)
{
  if (real == CAPL_BF16) turn_of(CAPL_BF16, rows, columns, padded, x, row, step, y);
  else turn_of(CAPL_F32, rows, columns, padded, x, row, step, y);
}

INLINE void store_row(capl_dtype real, int64_t n, float scale, const float *x, void *y, int64_t at, int64_t step)
{
  int64_t i = 0;
  if (step == 1)
    for (; i + VN <= n; i += VN) v_store(real, y, at + i, v_load_f32(x + i) * scale);
  for (; i < n; i++) f_store(real, y, at + i * step, x[i] * scale);
}

void VEC(attend_store)(capl_dtype real, int64_t n, float scale, const float *x, void *y, int64_t step)
{
  if (real == CAPL_BF16) store_row(CAPL_BF16, n, scale, x, y, 0, step);
  else store_row(CAPL_F32, n, scale, x, y, 0, step);
}

/* ---- rows of scores: n is a multiple of VN ---- */

double VEC(attend_dot)(capl_dtype real, int64_t n, const void *x, int64_t x_step, const float *y)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += f_load(real, x, i * x_step) * y[i];
  return sum;
}

void VEC(attend_bool)(int64_t n, const uint8_t *mask, float *s)
{
  for (int64_t i = 0; i < n; i++) s[i] = mask[i] ? s[i] : -__builtin_inff();
}

float VEC(attend_row)(int64_t n, float *s, float *max)
{
  vf top = v_set(*max), sum[2] = {{0}, {0}};
  int64_t i = 0;
  for (; i < n; i += VN) top = v_select(v_load_f32(s + i) > top, v_load_f32(s + i), top);
  float best = v_largest(top);
  vf less = v_set(best == -__builtin_inff() ? 0 : best);
  for (i = 0; i + 2 * VN <= n; i += 2 * VN)
    for (int k = 0; k < 2; k++) {
      vf e = v_exp(v_load_f32(s + i + k * VN) - less);
      *(vf_at *)(s + i + k * VN) = e;
      sum[k] += e;
    }
  if (i < n) {
    vf e = v_exp(v_load_f32(s + i) - less);
    *(vf_at *)(s + i) = e;
    sum[0] += e;
  }
  *max = best;
  return v_total(sum[0] + sum[1]);
}

void VEC(attend_scale)(int64_t n, float *y, float factor)
{
  for (int64_t i = 0; i < n; i += VN) *(vf_at *)(y + i) = v_load_f32(y + i) * factor;
}

void VEC(attend_exp)(int64_t n, float *s, float less)
{
  for (int64_t i = 0; i < n; i += VN) *(vf_at *)(s + i) = v_exp(v_load_f32(s + i) - v_set(less));
}

void VEC(attend_grad)(int64_t n, const float *weight, float dot, float *dw)
{
  for (int64_t i = 0; i < n; i += VN)
    *(vf_at *)(dw + i) = v_load_f32(weight + i) * (v_load_f32(dw + i) - v_set(dot));
}
