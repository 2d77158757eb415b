/* portable_math.h -- mathematics that gives the same bits on every machine.
**
** The C library's exp, log, sin and cos differ in the last bit between machines and versions; what decides a pixel or a
** number of a generated set must not. These are sums and products only (and square roots, which IEEE 754 fixes too), so
** they agree wherever files are compiled with -ffp-contract=off, as all that include this are.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_PORTABLE_MATH_H
#define CAPL_DATA_PORTABLE_MATH_H

#include <math.h>
#include <stdint.h>

#include "capl/rng.h"

#define STEADY_PI 3.14159265358979323846

static inline float portable_clamp(float x, float lo, float hi)
{
  return x < lo ? lo : x > hi ? hi : x;
}

static inline float portable_mix(float a, float b, float share)
{
  return a + (b - a) * share;
}

/* Largest whole number that is not above x; |x| < 2^31. */
static inline int portable_floor(float x)
{
  int i = (int)x;
  return i - (x < (float)i);
}

/* exp(-x) within 2 % for 0 <= x, without calls: loops over pixels vectorize. */
static inline float portable_decay(float x)
{
  float y = 1 / (1 + x * (1 / 64.0f));
  y *= y, y *= y, y *= y, y *= y, y *= y, y *= y;
  return y;
}

/* Within 1e-13 of the true value, for |x| < 700. */
static inline double portable_exp(double x)
{
  int k = (int)(x * 1.44269504088896340736 + (x < 0 ? -0.5 : 0.5));
  double r = x - (double)k * 0.693147180559945309417, sum = 1;
  for (int i = 14; i > 0; i--) sum = 1 + r * sum / (double)i;
  return ldexp(sum, k); /* exact */
}

/* Natural logarithm of x > 0, within 1e-13: 2 atanh((m - 1) / (m + 1)), m in [0.7, 1.4]. */
static inline double portable_log(double x)
{
  int k;
  double m = frexp(x, &k); /* exact */
  if (m < 0.70710678118654752) m *= 2, k--;
  double t = (m - 1) / (m + 1), square = t * t, sum = 0;
  for (int i = 25; i > 0; i -= 2) sum = sum * square + 1 / (double)i;
  return 2 * t * sum + (double)k * 0.693147180559945309417;
}

/* Within 1e-11; radians, |x| < 1e6. */
static inline double portable_sin(double x)
{
  double turns = x / (2 * STEADY_PI);
  x -= (double)(int64_t)(turns + (turns < 0 ? -0.5 : 0.5)) * (2 * STEADY_PI); /* -pi .. pi */
  if (x > STEADY_PI / 2) x = STEADY_PI - x;
  if (x < -STEADY_PI / 2) x = -STEADY_PI - x;
  double square = x * x, sum = 1;
  for (int i = 16; i > 0; i -= 2) sum = 1 - square * sum / (double)(i * (i + 1));
  return x * sum;
}

static inline double portable_cos(double x)
{
  return portable_sin(x + STEADY_PI / 2);
}

/* Standard normal (Box-Muller). */
static inline double portable_normal(capl_rng *rng)
{
  double u = 1 - (double)capl_rng_float(rng), v = capl_rng_float(rng);
  return sqrt(-2 * portable_log(u)) * portable_cos(2 * STEADY_PI * v);
}

/* A number to 32 others with no pattern in it: the texture of what is drawn (Wellons, "lowbias32"). */
static inline uint32_t portable_hash(uint32_t x)
{
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

#endif
