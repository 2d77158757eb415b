/* math.h -- functions of floats side by side: logarithm, hyperbolic tangent, error function, and what follows from
** them.
**
** Polynomials are least-maximum fits of our own; errors are those that tests/unit/cpu_math.c finds over all of f32.
** NaN stays NaN and infinities give the limits; subnormal results are 0 where they come from exp.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_MATH_H
#define CAPL_CPU_MATH_H

#include "backend/cpu/vec/simd.h"

INLINE vf v_abs(vf x)
{
  return (vf)((vi)x & 0x7FFFFFFF);
}

/* The absolute value of a with the sign of b. */
INLINE vf v_signed(vf a, vf b)
{
  return (vf)(((vi)a & 0x7FFFFFFF) | ((vi)b & (int32_t)0x80000000));
}

/* x kept in lo..hi; NaN stays. */
INLINE vf v_between(vf x, vf lo, vf hi)
{
  x = v_select(x < lo, lo, x);
  return v_select(x > hi, hi, x);
}

/* Natural logarithm, within 1.5 units in the last place; subnormals too. */
INLINE vf v_log(vf x)
{
  vi small = x < v_set(1.17549435e-38f);
  vi bits = (vi)v_select(small, x * 8388608.0f, x);
  vi power = (vi)((vu)bits - 0x3F3504F3u) >> 23; /* the mantissa is then in sqrt(1/2)..sqrt(2); bits of x < 0 wrap
                                                 ** around */
  vf e = __builtin_convertvector(power - (small & 23), vf), f = (vf)((vu)bits - ((vu)power << 23)) - 1.0f, z = f * f;
  vf p = v_set(6.915265162e-02f);
  p = p * f - 1.178974859e-01f;
  p = p * f + 1.187299107e-01f;
  p = p * f - 1.238435969e-01f;
  p = p * f + 1.421865758e-01f;
  p = p * f - 1.666925014e-01f;
  p = p * f + 2.000222661e-01f;
  p = p * f - 2.499998661e-01f;
  p = p * f + 3.333331044e-01f;
  vf y = f * z * p - e * 2.12194440e-4f - 0.5f * z + f + e * 0.693359375f; /* ln 2 in two parts */
  y = v_select(x < v_set(__builtin_inff()), y, x); /* infinity and NaN */
  y = v_select(x == (vf){0}, v_set(-__builtin_inff()), y);
  return v_select(x < (vf){0}, v_set(__builtin_nanf("")), y);
}

/* log(1 + u) for u in 0..1: what rounding 1 + u lost is put back. */
INLINE vf v_log1p(vf u)
{
  vf w = 1.0f + u;
  return v_log(w) - ((w - 1.0f) - u) / w;
}

/* exp(x) - 1 for x up to 0 */
INLINE vf v_expm1_below(vf x)
{
  return v_select(x > v_set(-0.34f), v_exp_quotient(x) * x * x + x, v_exp(x) - 1.0f);
}

INLINE vf v_sigmoid(vf x)
{
  return 1.0f / (1.0f + v_exp(-x));
}

/* Within 2 units in the last place. */
INLINE vf v_tanh(vf x)
{
  vf z = x * x, p = v_set(-6.112501224e-03f);
  p = p * z + 2.100961090e-02f;
  p = p * z - 5.385397162e-02f;
  p = p * z + 1.333279391e-01f;
  p = p * z - 3.333332924e-01f;
  vf far = v_signed(1.0f - 2.0f / (v_exp(2.0f * v_abs(x)) + 1.0f), x);
  return v_select(v_abs(x) < v_set(0.625f), p * z * x + x, v_select(x != x, x, far));
}

/* exp(t^2) * erfc(t) for t from 0 on: smooth, falling like 1 / t. */
INLINE vf v_erfc_scaled(vf t)
{
  vf u = (t - 2.0f) / (t + 2.0f), p = v_set(-3.615912136e-04f);
  p = p * u - 1.168305037e-03f;
  p = p * u + 1.295985096e-03f;
  p = p * u + 8.574118709e-03f;
  p = p * u - 8.063685193e-03f;
  p = p * u - 5.418722884e-02f;
  p = p * u + 1.640573588e-01f;
  p = p * u - 1.660330791e-01f;
  p = p * u - 9.276410821e-02f;
  p = p * u + 1.276978419e+00f;
  return p / (1.0f + 2.0f * t);
}

/* Error function, within 3 units in the last place. */
INLINE vf v_erf(vf x)
{
  vf t = v_between(v_abs(x), (vf){0}, v_set(10.5f)), z = x * x, p = v_set(7.853857595e-05f);
  p = p * z - 8.010192487e-04f;
  p = p * z + 5.188327556e-03f;
  p = p * z - 2.685381187e-02f;
  p = p * z + 1.128358515e-01f;
  p = p * z - 3.761262582e-01f;
  p = p * z + 1.128379166e+00f;
  vf far = v_signed(1.0f - v_exp(-t * t) * v_erfc_scaled(t), x);
  return v_select(t < v_set(1.0f), p * x, v_select(x != x, x, far));
}

/* What gelu needs of x: the share of a normal distribution below x, and its density at x. Relative errors of the share
** grow with x^2 where it vanishes, to 2e-5. */
INLINE vf v_normal_share(vf x, vf *density)
{
  vf t = v_between(v_abs(x) * 0.70710678f, (vf){0}, v_set(10.5f)), bell = v_exp(-t * t);
  vf tail = 0.5f * bell * v_erfc_scaled(t);
  *density = bell * 0.39894228f;
  return v_select(x > (vf){0}, 1.0f - tail, tail);
}

#endif
