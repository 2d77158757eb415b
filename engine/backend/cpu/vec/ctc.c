/* ctc.c -- one time step of the CTC recursion over the states of a text, in log space.
** SPDX-License-Identifier: Apache-2.0
*/
#include <float.h>

#include "backend/cpu/vec/simd.h"

/* log of 1 to 3, relative error below 2e-7; of 0 it is -infinity. The argument is scaled to 1 within a factor of sqrt 2. */
INLINE vf log_of_sum(vf f)
{
  vi big = f > v_set(1.41421356f);
  vf x = v_select(big, f * 0.5f, f);
  vi huge = x > v_set(1.41421356f);
  x = v_select(huge, x * 0.5f, x) - 1.0f;
  vf twos = v_where(big, v_set(1)) + v_where(huge, v_set(1)), square = x * x;
  vf p = v_set(7.0376836292e-2f);
  p = p * x - 1.1514610310e-1f;
  p = p * x + 1.1676998740e-1f;
  p = p * x - 1.2420140846e-1f;
  p = p * x + 1.4249322787e-1f;
  p = p * x - 1.6668057665e-1f;
  p = p * x + 2.0000714765e-1f;
  p = p * x - 2.4999993993e-1f;
  p = p * x + 3.3333331174e-1f;
  vf y = x + (square * x * p - 0.5f * square + twos * 0.693147181f);
  return v_select(f == (vf){0}, v_set(-__builtin_inff()), y);
}

/* The largest is kept above -infinity, whose difference with itself is NaN; NaN itself comes through. */
INLINE vf join(vf a, vf b, vf c)
{
  vf max = v_max(v_max(v_max(a, b), c), v_set(-FLT_MAX));
  return max + log_of_sum(v_exp(a - max) + v_exp(b - max) + v_exp(c - max));
}

float VEC(ctc_step)(int64_t n, const float *from, const float *skip, const float *e, float less, float *path, float *to)
{
  vf best = v_set(-__builtin_inff());
  for (int64_t s = 0; s < n; s += VN) {
    vf into = join(v_load_f32(from + s), v_load_f32(from + s - 1), v_load_f32(from + s - 2) + v_load_f32(skip + s)) - less;
    vf now = into + v_load_f32(e + s);
    v_store(CAPL_F32, path, s, into);
    v_store(CAPL_F32, to, s, now);
    best = v_max(best, now);
  }
  return v_largest(best);
}
