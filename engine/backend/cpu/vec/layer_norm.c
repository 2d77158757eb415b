/* layer_norm.c -- layer norm and RMS norm of rows, and what group norm needs of runs of one channel.
**
** A row is read three times forward and twice backward, all but the first time from the cache. Sums run in f32 over
** TILE values at most and are then added to doubles.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/cpu/vec/simd.h"

enum { TILE = 4096, WIDE = 4 }; /* values summed in f32; vectors of sums side by side */

/* ---- the last vector of a row: k < VN values, the other lanes 0 ---- */

INLINE vf load_tail(capl_dtype real, const void *p, int64_t i, int k)
{
#if defined(__AVX512F__)
  __mmask16 mask = (__mmask16)((1u << k) - 1);
  if (real == CAPL_F32) return (vf)_mm512_maskz_loadu_ps(mask, (const float *)p + i);
  __m256i half = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)p + i);
  return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
#else
  return v_load_part(real, p, i, k);
#endif
}

INLINE void store_tail(capl_dtype real, void *p, int64_t i, vf f, int k)
{
#if defined(__AVX512F__)
  __mmask16 mask = (__mmask16)((1u << k) - 1);
  if (real == CAPL_F32) _mm512_mask_storeu_ps((float *)p + i, mask, (__m512)f);
  else _mm256_mask_storeu_epi16((uint16_t *)p + i, mask, (__m256i)v_to_bf16(f));
#else
  v_store_part(real, p, i, f, k);
#endif
}

/* Lanes below k. */
INLINE vi first_lanes(int k)
{
  vi lane;
  for (int j = 0; j < VN; j++) lane[j] = j < k ? -1 : 0;
  return lane;
}

/* k == VN: a whole vector. */
INLINE vf load(capl_dtype real, const void *p, int64_t i, const int k)
{
  return k == VN ? v_load(real, p, i) : load_tail(real, p, i, k);
}

INLINE void store(capl_dtype real, void *p, int64_t i, vf f, const int k)
{
  if (k == VN) v_store(real, p, i, f);
  else store_tail(real, p, i, f, k);
}

/* ---- sums over a run ---- */

INLINE vf term_of(capl_dtype real, const void *x, int64_t i, vf center, bool square)
{
  vf d = v_load(real, x, i) - center;
  return square ? d * d : d;
}

/* The sum of x - center, or of its square. */
INLINE double run_sum(capl_dtype real, int64_t n, const void *x, float middle, const bool square)
{
  double total = 0;
  vf center = v_set(middle);
  for (int64_t first = 0; first < n; first += TILE) {
    int64_t last = first + TILE < n ? first + TILE : n, i = first;
    vf sum[WIDE] = {{0}};
    for (; i + WIDE * VN <= last; i += WIDE * VN)
      for (int k = 0; k < WIDE; k++) sum[k] += term_of(real, x, i + k * VN, center, square);
    for (; i + VN <= last; i += VN) sum[0] += term_of(real, x, i, center, square);
    if (i < last) {
      vf d = v_where(first_lanes((int)(last - i)), load_tail(real, x, i, (int)(last - i)) - center);
      sum[1] += square ? d * d : d;
    }
    total += v_total(sum[0] + sum[1] + (sum[2] + sum[3]));
  }
  return total;
}

/* ---- layer norm, forward ---- */

INLINE void norm_piece(const vec_layer_norm *p, capl_dtype real, const void *x, int64_t i, vf mean, vf invstd, void *y,
                       const int k)
{
  vf v = (load(real, x, i, k) - mean) * invstd;
  if (p->weight) v *= load(CAPL_F32, p->weight, i, k);
  if (p->bias) v += load(CAPL_F32, p->bias, i, k);
  store(real, y, i, v, k);
}

INLINE void norm_row(const vec_layer_norm *p, capl_dtype real, const void *x, void *y, float *mean, float *invstd)
{
  float center = mean ? (float)(run_sum(real, p->n, x, 0, false) / (double)p->n) : 0;
  float factor = (float)(1 / sqrt(run_sum(real, p->n, x, center, true) / (double)p->n + p->eps));
  int64_t i = 0;
  if (mean) *mean = center;
  *invstd = factor;
  for (; i + VN <= p->n; i += VN) norm_piece(p, real, x, i, v_set(center), v_set(factor), y, VN);
  if (i < p->n) norm_piece(p, real, x, i, v_set(center), v_set(factor), y, (int)(p->n - i));
}

INLINE void norm_rows(const vec_layer_norm *p, capl_dtype real, int64_t rows, const char *x, char *y, float *mean,
                      float *invstd)
{
  int64_t bytes = p->n * (real == CAPL_BF16 ? 2 : 4);
  for (int64_t r = 0; r < rows; r++)
    norm_row(p, real, x + r * bytes, y + r * bytes, mean ? mean + r : NULL, invstd + r);
}

void VEC(layer_norm)(const vec_layer_norm *p, int64_t rows, const void *x, void *y, float *mean, float *invstd)
{
  if (p->real == CAPL_BF16) norm_rows(p, CAPL_BF16, rows, x, y, mean, invstd);
  else norm_rows(p, CAPL_F32, rows, x, y, mean, invstd);
}

/* ---- layer norm, backward: g = dy * weight, dx = invstd * (g - mean of g - xhat * mean of g * xhat) ---- */

typedef struct {
  vf g, gx; /* sums of g and g * xhat */
} grad_sums;

INLINE void grad_sum_piece(const vec_layer_norm *p, capl_dtype real, const void *x, const void *dy, int64_t i, vf mean,
                           vf invstd, float *dweight, float *dbias, grad_sums *sums, const int k)
{
  vf d = load(real, dy, i, k), xhat = (load(real, x, i, k) - mean) * invstd, dx = d * xhat;
  vf weight = p->weight ? load(CAPL_F32, p->weight, i, k) : v_set(1);
  sums->g += d * weight;
  sums->gx += dx * weight;
  store(CAPL_F32, dweight, i, load(CAPL_F32, dweight, i, k) + dx, k);
  store(CAPL_F32, dbias, i, load(CAPL_F32, dbias, i, k) + d, k);
}

INLINE void grad_piece(const vec_layer_norm *p, capl_dtype real, const void *x, const void *dy, int64_t i, vf mean,
                       vf invstd, vf share, vf share_x, void *dx, const int k)
{
  vf g = load(real, dy, i, k), xhat = (load(real, x, i, k) - mean) * invstd;
  if (p->weight) g *= load(CAPL_F32, p->weight, i, k);
  store(real, dx, i, (g - share - xhat * share_x) * invstd, k);
}

INLINE void grad_row(const vec_layer_norm *p, capl_dtype real, const void *x, const void *dy, const float *mean,
                     float invstd, float *dweight, float *dbias, void *dx)
{
  vf m = v_set(mean ? *mean : 0), f = v_set(invstd);
  int64_t n = p->n, i = 0;
  double g = 0, gx = 0;
  while (i < n) {
    int64_t last = i + TILE < n ? i + TILE : n;
    grad_sums one = {{0}, {0}}, two = {{0}, {0}};
    for (; i + 2 * VN <= last; i += 2 * VN) {
      grad_sum_piece(p, real, x, dy, i, m, f, dweight, dbias, &one, VN);
      grad_sum_piece(p, real, x, dy, i + VN, m, f, dweight, dbias, &two, VN);
    }
    for (; i + VN <= last; i += VN) grad_sum_piece(p, real, x, dy, i, m, f, dweight, dbias, &one, VN);
    if (i < last) grad_sum_piece(p, real, x, dy, i, m, f, dweight, dbias, &two, (int)(last - i)), i = last;
    g += v_total(one.g + two.g);
    gx += v_total(one.gx + two.gx);
  }
  vf share = v_set(mean ? (float)(g / (double)n) : 0), share_x = v_set((float)(gx / (double)n));
  for (i = 0; i + VN <= n; i += VN) grad_piece(p, real, x, dy, i, m, f, share, share_x, dx, VN);
  if (i < n) grad_piece(p, real, x, dy, i, m, f, share, share_x, dx, (int)(n - i));
}

INLINE void grad_rows(const vec_layer_norm *p, capl_dtype real, int64_t rows, const char *x, const char *dy,
                      const float *mean, const float *invstd, float *dweight, float *dbias, char *dx)
{
  int64_t bytes = p->n * (real == CAPL_BF16 ? 2 : 4);
  for (int64_t r = 0; r < rows; r++, x += bytes, dy += bytes, dx += bytes)
    grad_row(p, real, x, dy, mean ? mean + r : NULL, invstd[r], dweight, dbias, dx);
}

void VEC(layer_norm_grad)(const vec_layer_norm *p, int64_t rows, const void *x, const void *dy, const float *mean,
                          const float *invstd, float *dweight, float *dbias, void *dx)
{
  if (p->real == CAPL_BF16) grad_rows(p, CAPL_BF16, rows, x, dy, mean, invstd, dweight, dbias, dx);
  else grad_rows(p, CAPL_F32, rows, x, dy, mean, invstd, dweight, dbias, dx);
}

/* ---- a run of one channel ---- */

void VEC(run_moments)(capl_dtype real, int64_t n, const void *x, float center, double *sum, double *square)
{
  bool low = real == CAPL_BF16;
  *sum = low ? run_sum(CAPL_BF16, n, x, center, false) : run_sum(CAPL_F32, n, x, center, false);
  *square = low ? run_sum(CAPL_BF16, n, x, center, true) : run_sum(CAPL_F32, n, x, center, true);
}

INLINE void run_grad_sums_of(capl_dtype real, int64_t n, const void *x, const void *dy, float center, double *sum_dy,
                             double *sum_dyx)
{
  *sum_dy = *sum_dyx = 0;
  for (int64_t first = 0; first < n; first += TILE) {
    int64_t last = first + TILE < n ? first + TILE : n, i = first;
    vf s = {0}, q = {0};
    for (; i + VN <= last; i += VN) {
      vf d = v_load(real, dy, i);
      s += d;
      q += d * (v_load(real, x, i) - v_set(center));
    }
    if (i < last) {
      vf d = load_tail(real, dy, i, (int)(last - i));
      s += d;
      q += d * (load_tail(real, x, i, (int)(last - i)) - v_set(center));
    }
    *sum_dy += v_total(s);
    *sum_dyx += v_total(q);
  }
}

void VEC(run_grad_sums)(capl_dtype real, int64_t n, const void *x, const void *dy, float center, double *sum_dy,
                        double *sum_dyx)
{
  if (real == CAPL_BF16) run_grad_sums_of(CAPL_BF16, n, x, dy, center, sum_dy, sum_dyx);
  else run_grad_sums_of(CAPL_F32, n, x, dy, center, sum_dy, sum_dyx);
}

INLINE void run_grad_of(capl_dtype real, int64_t n, const void *x, const void *dy, float k_dy, float k_x, float k_1,
                        void *dx)
{
  int64_t i = 0;
  for (; i + VN <= n; i += VN) v_store(real, dx, i, k_dy * v_load(real, dy, i) + k_x * v_load(real, x, i) + k_1);
  if (i == n) return;
  int k = (int)(n - i);
  store_tail(real, dx, i, k_dy * load_tail(real, dy, i, k) + k_x * load_tail(real, x, i, k) + k_1, k);
}

void VEC(run_grad)(capl_dtype real, int64_t n, const void *x, const void *dy, float k_dy, float k_x, float k_1,
                   void *dx)
{
  if (real == CAPL_BF16) run_grad_of(CAPL_BF16, n, x, dy, k_dy, k_x, k_1, dx);
  else run_grad_of(CAPL_F32, n, x, dy, k_dy, k_x, k_1, dx);
}
