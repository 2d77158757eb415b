/* loss.c -- losses element by element, and their slopes: smooth L1, sigmoid focal.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/math.h"

enum { TILE = 4096 }; /* elements summed in f32 before they are added to a double */

INLINE vf smooth_l1(vf d, vf beta)
{
  vf far = v_abs(d);
  return v_select(far < beta, 0.5f * d * d / beta, far - 0.5f * beta);
}

INLINE vf smooth_l1_slope(vf d, vf beta)
{
  vf sign = v_signed(v_set(1), d);
  sign = v_select((d == (vf){0}) | (d != d), d, sign);
  return v_select(v_abs(d) < beta, d / beta, sign);
}

/* a to the power of a number that is the same in all lanes; a from 0 on. */
INLINE vf power(vf a, vf exponent)
{
  float e = exponent[0];
  if (e == 2) return a * a;
  return e == 0 ? v_set(1) : e == 1 ? a : v_exp(exponent * v_log(a));
}

/* See ref/loss.c: bce * weight, with the probability of the target's opposite as rest. */
INLINE vf focal(vf x, vf target, vf alpha, vf gamma, bool slope)
{
  vf one = v_set(1), p = v_sigmoid(x), q = v_sigmoid(-x), other = one - target, rest = p * other + q * target;
  vf weight = power(rest, gamma) * (alpha[0] < 0 ? one : alpha * target + (one - alpha) * other);
  vf bce = v_relu(x) - x * target + v_log1p(v_exp(-v_abs(x)));
  if (!slope) return weight * bce;
  vf turn = v_where(rest > (vf){0}, p * q * (other - target) / rest);
  return weight * (p * other - q * target + gamma * turn * bce);
}

INLINE vf loss_of(vec_loss_kind kind, vf x, vf target, vf p, vf q)
{
  return kind == VEC_SMOOTH_L1 ? smooth_l1(x - target, p) : focal(x, target, p, q, false);
}

INLINE vf slope_of(vec_loss_kind kind, vf x, vf target, vf p, vf q)
{
  return kind == VEC_SMOOTH_L1 ? smooth_l1_slope(x - target, p) : focal(x, target, p, q, true);
}

INLINE double sum_of(const vec_loss *l, vec_loss_kind kind, capl_dtype real, int64_t n, const void *x,
                     const float *target)
{
  double total = 0;
  vf p = v_set(l->p), q = v_set(l->q);
  for (int64_t first = 0; first < n; first += TILE) {
    int64_t last = first + TILE < n ? first + TILE : n, i = first;
    vf sum = {0};
    for (; i + VN <= last; i += VN) sum += loss_of(kind, v_load(real, x, i), v_load_f32(target + i), p, q);
    total += v_total(sum);
    if (i == last) continue;
    vf rest = loss_of(kind, v_load_upto(real, x, i, last, 0), v_load_upto(CAPL_F32, target, i, last, 0), p, q);
    for (int64_t k = 0; k < last - i; k++) total += rest[k];
  }
  return total;
}

INLINE void each_of(const vec_loss *l, vec_loss_kind kind, capl_dtype real, int64_t n, const void *x,
                    const float *target, float *y)
{
  vf p = v_set(l->p), q = v_set(l->q);
  for (int64_t i = 0; i < n; i += VN)
    v_store_upto(CAPL_F32, y, i, n,
                 loss_of(kind, v_load_upto(real, x, i, n, 0), v_load_upto(CAPL_F32, target, i, n, 0), p, q));
}

INLINE void grad_of(const vec_loss *l, vec_loss_kind kind, capl_dtype real, int64_t n, const void *x,
                    const float *target, float scale, const float *each, void *dx)
{
  vf p = v_set(l->p), q = v_set(l->q);
  for (int64_t i = 0; i < n; i += VN) {
    vf slope = slope_of(kind, v_load_upto(real, x, i, n, 0), v_load_upto(CAPL_F32, target, i, n, 0), p, q) * scale;
    v_store_upto(real, dx, i, n, each ? slope * v_load_upto(CAPL_F32, each, i, n, 0) : slope);
  }
}

/* One body for each kind and dtype. */
#define CHOOSE(result, fn, ...)                                                                      \
  if (l->kind == VEC_SMOOTH_L1 && l->real == CAPL_BF16) result fn(l, VEC_SMOOTH_L1, CAPL_BF16, __VA_ARGS__); \
  else if (l->kind == VEC_SMOOTH_L1) result fn(l, VEC_SMOOTH_L1, CAPL_F32, __VA_ARGS__);             \
  else if (l->real == CAPL_BF16) result fn(l, VEC_SIGMOID_FOCAL, CAPL_BF16, __VA_ARGS__);            \
  else result fn(l, VEC_SIGMOID_FOCAL, CAPL_F32, __VA_ARGS__)

double VEC(loss_sum)(const vec_loss *l, int64_t n, const void *x, const float *target)
{
  CHOOSE(return, sum_of, n, x, target);
}

void VEC(loss_each)(const vec_loss *l, int64_t n, const void *x, const float *target, float *y)
{
  CHOOSE(, each_of, n, x, target, y);
}

void VEC(loss_grad)(const vec_loss *l, int64_t n, const void *x, const float *target, float scale, const float *each,
                    void *dx)
{
  CHOOSE(, grad_of, n, x, target, scale, each, dx);
}
