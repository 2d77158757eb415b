/* rows.c -- rows of values: sums, the largest, binary cross-entropy.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/cpu/vec/math.h"

enum { TILE = 4096 }; /* elements summed in f32 before they are added to a double */

/* ---- sums ---- */

INLINE double sum_of(capl_dtype real, int64_t n, const void *x, bool squares)
{
  double total = 0;
  for (int64_t first = 0; first < n; first += TILE) {
    int64_t last = first + TILE < n ? first + TILE : n;
    vf sum[4] = {{0}};
    int64_t i = first;
    for (; i + 4 * VN <= last; i += 4 * VN)
      for (int k = 0; k < 4; k++) {
        vf v = v_load(real, x, i + k * VN);
        sum[k] += squares ? v * v : v;
      }
    for (; i < last; i += VN) {
      vf v = v_load_upto(real, x, i, last, 0);
      sum[0] += squares ? v * v : v;
    }
    total += v_total(sum[0] + sum[1] + (sum[2] + sum[3]));
  }
  return total;
}

double VEC(sum)(capl_dtype real, int64_t n, const void *x)
{
  return real == CAPL_BF16 ? sum_of(CAPL_BF16, n, x, false) : sum_of(CAPL_F32, n, x, false);
}

double VEC(sum_squares)(capl_dtype real, int64_t n, const void *x)
{
  return real == CAPL_BF16 ? sum_of(CAPL_BF16, n, x, true) : sum_of(CAPL_F32, n, x, true);
}

void VEC(add_to)(capl_dtype real, int64_t n, const void *x, double *acc)
{
  if (real == CAPL_BF16)
    for (int64_t i = 0; i < n; i++) acc[i] += f_load(CAPL_BF16, x, i);
  else
    for (int64_t i = 0; i < n; i++) acc[i] += f_load(CAPL_F32, x, i);
}

/* ---- the largest ---- */

/* NaN if one is. */
INLINE float largest_of(capl_dtype real, int64_t n, const void *x)
{
  vf top[4];
  vi unordered = {0};
  int64_t i = 0;
  for (int k = 0; k < 4; k++) top[k] = v_set(-__builtin_inff());
  for (; i + 4 * VN <= n; i += 4 * VN)
    for (int k = 0; k < 4; k++) {
      vf v = v_load(real, x, i + k * VN);
      top[k] = v_max(top[k], v);
      unordered |= v != v;
    }
  for (; i < n; i += VN) {
    vf v = v_load_upto(real, x, i, n, -__builtin_inff());
    top[0] = v_max(top[0], v);
    unordered |= v != v;
  }
  return v_any(unordered) ? __builtin_nanf("") : v_largest(v_max(v_max(top[0], top[1]), v_max(top[2], top[3])));
}

float VEC(largest)(capl_dtype real, int64_t n, const void *x)
{
  return real == CAPL_BF16 ? largest_of(CAPL_BF16, n, x) : largest_of(CAPL_F32, n, x);
}

INLINE int64_t argmax_short(capl_dtype real, int64_t n, const void *x)
{
  int64_t best = 0;
  float top = f_load(real, x, 0);
  for (int64_t i = 1; i < n && top == top; i++) {
    float v = f_load(real, x, i);
    if (v > top || v != v) best = i, top = v;
  }
  return best;
}

/* The first element that is `top`, the largest; the first NaN where one is. */
INLINE int64_t first_of(capl_dtype real, int64_t n, const void *x, float top)
{
  int64_t i = 0;
  for (vi hit = {0}; i + 4 * VN <= n; i += 4 * VN) {
    for (int k = 0; k < 4; k++) {
      vf v = v_load(real, x, i + k * VN);
      hit |= (v == v_set(top)) | (v != v);
    }
    if (v_any(hit)) break;
  }
  for (; i < n; i++) {
    float v = f_load(real, x, i);
    if (v == top || v != v) break;
  }
  return i;
}

int64_t VEC(argmax)(capl_dtype real, int64_t n, const void *x)
{
  if (n < 4 * VN) return argmax_short(real, n, x);
  if (real == CAPL_BF16) return first_of(CAPL_BF16, n, x, largest_of(CAPL_BF16, n, x));
  return first_of(CAPL_F32, n, x, largest_of(CAPL_F32, n, x));
}

INLINE void largest_to(capl_dtype real, int64_t n, const void *x, double *best)
{
  for (int64_t i = 0; i < n; i++) {
    double v = (double)f_load(real, x, i), kept = v > best[i] ? v : best[i];
    best[i] = v != v ? v : kept;
  }
}

void VEC(largest_to)(capl_dtype real, int64_t n, const void *x, double *best)
{
  if (real == CAPL_BF16) largest_to(CAPL_BF16, n, x, best);
  else largest_to(CAPL_F32, n, x, best);
}

/* ---- binary cross-entropy with logits: max(x,0) - x*t + log(1 + exp(-|x|)) ---- */

INLINE vf bce(vf x, vf target)
{
  return v_relu(x) - x * target + v_log1p(v_exp(-v_abs(x)));
}

INLINE double bce_sum_of(capl_dtype real, int64_t n, const void *x, const float *target)
{
  double total = 0;
  for (int64_t first = 0; first < n; first += TILE) {
    int64_t last = first + TILE < n ? first + TILE : n, i = first;
    vf sum = {0};
    for (; i + VN <= last; i += VN) sum += bce(v_load(real, x, i), v_load_f32(target + i));
    total += v_total(sum);
    if (i == last) continue;
    vf rest = bce(v_load_upto(real, x, i, last, 0), v_load_upto(CAPL_F32, target, i, last, 0));
    for (int64_t k = 0; k < last - i; k++) total += rest[k];
  }
  return total;
}

double VEC(bce_sum)(capl_dtype real, int64_t n, const void *x, const float *target)
{
  return real == CAPL_BF16 ? bce_sum_of(CAPL_BF16, n, x, target) : bce_sum_of(CAPL_F32, n, x, target);
}

void VEC(bce_each)(capl_dtype real, int64_t n, const void *x, const float *target, float *y)
{
  for (int64_t i = 0; i < n; i += VN)
    v_store_upto(CAPL_F32, y, i, n, bce(v_load_upto(real, x, i, n, 0), v_load_upto(CAPL_F32, target, i, n, 0)));
}

INLINE void bce_grad_of(capl_dtype real, int64_t n, const void *x, const float *target, float scale,
                        const float *each, void *dx)
{
  for (int64_t i = 0; i < n; i += VN) {
    vf probability = 1.0f / (1.0f + v_exp(-v_load_upto(real, x, i, n, 0)));
    vf slope = (probability - v_load_upto(CAPL_F32, target, i, n, 0)) * scale;
    v_store_upto(real, dx, i, n, each ? slope * v_load_upto(CAPL_F32, each, i, n, 0) : slope);
  }
}

void VEC(bce_grad)(capl_dtype real, int64_t n, const void *x, const float *target, float scale, const float *each,
                   void *dx)
{
  if (real == CAPL_BF16) bce_grad_of(CAPL_BF16, n, x, target, scale, each, dx);
  else bce_grad_of(CAPL_F32, n, x, target, scale, each, dx);
}
