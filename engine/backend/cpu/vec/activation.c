/* activation.c -- activations of runs of elements and their gradients.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/cpu/vec/math.h"

/* Lanes through libm: the rare functions. */
INLINE vf each(float (*f)(float), vf x)
{
  float lane[VN];
  memcpy(lane, &x, sizeof lane);
  for (int k = 0; k < VN; k++) lane[k] = f(lane[k]);
  return v_load_f32(lane);
}

/* 0.5 (1 + tanh(u)) is sigmoid(2 u); beyond 12 nothing changes any more, but x^3 may overflow. */
INLINE vf tanh_gate(vf x)
{
  x = v_between(x, v_set(-12), v_set(12));
  return v_sigmoid(1.59576912f * x * (1.0f + 0.044715f * x * x));
}

INLINE vf gelu_of(vf x, vf form)
{
  vf density;
  return form[0] != 0 ? x * tanh_gate(x) : x * v_normal_share(x, &density);
}

INLINE vf gelu_slope(vf x, vf form)
{
  vf density, share = v_normal_share(x, &density), gate, z;
  if (form[0] == 0) return share + v_between(x, v_set(-50), v_set(50)) * density;
  gate = tanh_gate(x);
  z = v_between(x, v_set(-12), v_set(12));
  return gate + z * gate * (1.0f - gate) * 1.59576912f * (1.0f + 0.134145f * z * z);
}

INLINE vf softplus_of(vf x, vf beta, vf threshold)
{
  vf z = beta * x, y = (v_select(z < (vf){0}, (vf){0}, z) + v_log1p(v_exp(-v_abs(z)))) / beta;
  return v_select(z > threshold, x, y);
}

INLINE vf hardsigmoid_of(vf x)
{
  return v_between(x + 3.0f, (vf){0}, v_set(6)) / 6.0f;
}

INLINE vf hardswish_slope(vf x)
{
  vf y = v_select(x < v_set(3), x / 3.0f + 0.5f, v_set(1));
  return v_select(x != x, x, v_where(~(x <= v_set(-3)), y));
}

INLINE vf activation_of(vec_activation_kind kind, vf x, vf p, vf q)
{
  switch (kind) {
  case VEC_ERF: return v_erf(x);
  case VEC_SIN: return each(sinf, x);
  case VEC_COS: return each(cosf, x);
  case VEC_SILU: return x / (1.0f + v_exp(-x));
  case VEC_GELU: return gelu_of(x, p);
  case VEC_SOFTPLUS: return softplus_of(x, p, q);
  case VEC_LEAKY_RELU: return v_select(x > (vf){0}, x, p * x);
  case VEC_ELU: return v_select(x > (vf){0}, x, p * v_expm1_below(x));
  case VEC_HARDSIGMOID: return hardsigmoid_of(x);
  case VEC_HARDSWISH: return x * hardsigmoid_of(x);
  case VEC_LOG_SIGMOID: return v_select(x > (vf){0}, (vf){0}, x) - v_log1p(v_exp(-v_abs(x)));
  default: return v_between(x, p, q); /* VEC_CLAMP */
  }
}

/* x: of a gradient by the result, that. 1 - x first, which is exact where x is near 1. */
INLINE vf slope_of(vec_activation_kind kind, vf x, vf p, vf q)
{
  vf one = v_set(1), s;
  switch (kind) {
  case VEC_SILU: return s = v_sigmoid(x), s * (1.0f + x * (1.0f - s));
  case VEC_GELU: return gelu_slope(x, p);
  case VEC_SOFTPLUS: return v_select(p * x > q, one, v_sigmoid(p * x));
  case VEC_LEAKY_RELU: return v_select(x > (vf){0}, one, p);
  case VEC_ELU: return v_select(x > (vf){0}, one, p * v_exp(x));
  case VEC_HARDSIGMOID: return v_where((x > v_set(-3)) & (x < v_set(3)), v_set(1.0f / 6));
  case VEC_HARDSWISH: return hardswish_slope(x);
  case VEC_LOG_SIGMOID: return v_sigmoid(-x);
  case VEC_BY_SIGMOID: return x * (1.0f - x);
  case VEC_BY_TANH: return (1.0f - x) * (1.0f + x);
  default: return v_where((x > p) & (x < q), one); /* VEC_CLAMP; functions have no kernel of their slope */
  }
}

INLINE void forward_run(vec_activation_kind kind, capl_dtype real, int64_t n, const void *x, void *y, vf p, vf q)
{
  int64_t i = 0;
  for (; i + VN <= n; i += VN) v_store(real, y, i, activation_of(kind, v_load(real, x, i), p, q));
  if (i < n) v_store_part(real, y, i, activation_of(kind, v_load_part(real, x, i, (int)(n - i)), p, q), (int)(n - i));
}

/* Both operands move (step 1) or stand still (step 0). */
INLINE void backward_run(vec_activation_kind kind, capl_dtype real, int64_t n, const void *x, int sx, const void *dy,
                         int sy, void *dx, vf p, vf q)
{
  vf still_x = v_set(f_load(real, x, 0)), still_dy = v_set(f_load(real, dy, 0));
  int64_t i = 0;
  for (; i + VN <= n; i += VN)
    v_store(real, dx, i, (sy ? v_load(real, dy, i) : still_dy) * slope_of(kind, sx ? v_load(real, x, i) : still_x, p,
        q));
  if (i == n) return;
  int part = (int)(n - i);
  vf last_x = sx ? v_load_part(real, x, i, part) : still_x, last_dy = sy ? v_load_part(real, dy, i, part) : still_dy;
  v_store_part(real, dx, i, last_dy * slope_of(kind, last_x, p, q), part);
}

#define EVERY_FUNCTION(CASE) CASE(VEC_ERF) CASE(VEC_SIN) CASE(VEC_COS)
#define EVERY_ACTIVATION(CASE)                                                                                       \
  CASE(VEC_SILU) CASE(VEC_GELU) CASE(VEC_SOFTPLUS) CASE(VEC_LEAKY_RELU) CASE(VEC_ELU) CASE(VEC_HARDSIGMOID)          \
  CASE(VEC_HARDSWISH) CASE(VEC_LOG_SIGMOID) CASE(VEC_CLAMP)

void VEC(activation)(vec_activation_kind kind, capl_dtype real, int64_t n, const void *x, void *y, float p, float q)
{
#define CASE(k)                                                                              \
  case k:                                                                                    \
    if (real == CAPL_BF16) forward_run(k, CAPL_BF16, n, x, y, v_set(p), v_set(q));           \
    else forward_run(k, CAPL_F32, n, x, y, v_set(p), v_set(q));                              \
    break;
  switch (kind) {
    EVERY_FUNCTION(CASE)
    EVERY_ACTIVATION(CASE)
  default: break;
  }
#undef CASE
}

void VEC(activation_grad)(vec_activation_kind kind, capl_dtype real, int64_t n, const void *x, int sx, const void *dy,
                          int sy, void *dx, float p, float q)
{
#define CASE(k)                                                                                        \
  case k:                                                                                              \
    if (real == CAPL_BF16) backward_run(k, CAPL_BF16, n, x, sx, dy, sy, dx, v_set(p), v_set(q));       \
    else backward_run(k, CAPL_F32, n, x, sx, dy, sy, dx, v_set(p), v_set(q));                          \
    break;
  switch (kind) {
    EVERY_ACTIVATION(CASE)
    CASE(VEC_BY_SIGMOID)
    CASE(VEC_BY_TANH)
  default: break;
  }
#undef CASE
}
