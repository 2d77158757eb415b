/* rows.c -- rows of values: softmax, sums, the largest, binary cross-entropy.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/cpu/vec/math.h"

enum { TILE = 4096 }; /* elements summed in f32 before they are added to a double */

/* Element vector i of n, padded with `rest` after the end. */
INLINE vf load_upto(capl_dtype real, const void *p, int64_t i, int64_t n, float rest)
{
  static const int32_t lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  if (i + VN <= n) return v_load(real, p, i);
  vi at;
  memcpy(&at, lane, sizeof at);
  return v_select(at < (vi){0} + (int32_t)(n - i), v_load_part(real, p, i, (int)(n - i)), v_set(rest));
}

INLINE void store_upto(capl_dtype real, void *p, int64_t i, int64_t n, vf f)
{
  if (i + VN <= n) v_store(real, p, i, f);
  else v_store_part(real, p, i, f, (int)(n - i));
}

/* ---- softmax ---- */

INLINE float row_max(capl_dtype real, int64_t n, const void *x)
{
  vf best = v_set(-__builtin_inff());
  for (int64_t i = 0; i < n; i += VN) {
    vf v = load_upto(real, x, i, n, -__builtin_inff());
    best = v_select((v > best) | (v != v), v, best);
  }
  return v_largest(best);
}

INLINE void softmax_of(capl_dtype real, int64_t n, const void *x, void *y, bool log)
{
  vf top = v_set(row_max(real, n, x)), sum = {0};
  for (int64_t i = 0; i < n; i += VN) sum += v_exp(load_upto(real, x, i, n, -__builtin_inff()) - top);
  float total = v_total(sum);
  vf scale = v_set(1 / total), log_total = v_set(logf(total));
  for (int64_t i = 0; i < n; i += VN) {
    vf v = load_upto(real, x, i, n, 0);
    store_upto(real, y, i, n, log ? v - top - log_total : v_exp(v - top) * scale);
  }
}

void VEC(softmax_row)(capl_dtype real, int64_t n, const void *x, void *y, bool log)
{
  if (real == CAPL_BF16) softmax_of(CAPL_BF16, n, x, y, log);
  else softmax_of(CAPL_F32, n, x, y, log);
}

/* softmax: dx = y * (dy - sum(y * dy)); log_softmax: dx = dy - exp(y) * sum(dy) */
INLINE void softmax_grad_of(capl_dtype real, int64_t n, const void *y, const void *dy, void *dx, bool log)
{
  vf sum = {0};
  for (int64_t i = 0; i < n; i += VN) {
    vf g = load_upto(real, dy, i, n, 0);
    sum += log ? g : g * load_upto(real, y, i, n, 0);
  }
  vf total = v_set(v_total(sum));
  for (int64_t i = 0; i < n; i += VN) {
    vf v = load_upto(real, y, i, n, 0), g = load_upto(real, dy, i, n, 0);
    store_upto(real, dx, i, n, log ? g - v_exp(v) * total : v * (g - total));
  }
}

void VEC(softmax_grad_row)(capl_dtype real, int64_t n, const void *y, const void *dy, void *dx, bool log)
{
  if (real == CAPL_BF16) softmax_grad_of(CAPL_BF16, n, y, dy, dx, log);
  else softmax_grad_of(CAPL_F32, n, y, dy, dx, log);
}

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
      vf v = load_upto(real, x, i, last, 0);
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

int64_t VEC(argmax)(capl_dtype real, int64_t n, const void *x)
{
  int64_t best = 0;
  float top = f_load(real, x, 0);
  for (int64_t i = 1; i < n && top == top; i++) {
    float v = f_load(real, x, i);
    if (v > top || v != v) best = i, top = v;
  }
  return best;
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
    vf rest = bce(load_upto(real, x, i, last, 0), load_upto(CAPL_F32, target, i, last, 0));
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
    store_upto(CAPL_F32, y, i, n, bce(load_upto(real, x, i, n, 0), load_upto(CAPL_F32, target, i, n, 0)));
}

INLINE void bce_grad_of(capl_dtype real, int64_t n, const void *x, const float *target, float scale,
                        const float *each, void *dx)
{
  for (int64_t i = 0; i < n; i += VN) {
    vf probability = 1.0f / (1.0f + v_exp(-load_upto(real, x, i, n, 0)));
    vf slope = (probability - load_upto(CAPL_F32, target, i, n, 0)) * scale;
    store_upto(real, dx, i, n, each ? slope * load_upto(CAPL_F32, each, i, n, 0) : slope);
  }
}

void VEC(bce_grad)(capl_dtype real, int64_t n, const void *x, const float *target, float scale, const float *each,
                   void *dx)
{
  if (real == CAPL_BF16) bce_grad_of(CAPL_BF16, n, x, target, scale, each, dx);
  else bce_grad_of(CAPL_F32, n, x, target, scale, each, dx);
}
