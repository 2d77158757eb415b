/* ctc.c -- the states of a text at one time step of the CTC recursion, in log space.
** SPDX-License-Identifier: Apache-2.0
*/
#include <float.h>

#include "backend/cpu/vec/math.h"

/* log(exp(a) + exp(b) + exp(c)). The largest counts 1, so two exponentials do; it is kept above -infinity, whose
** difference with itself is NaN. NaN and +infinity give NaN. */
INLINE vf join(vf a, vf b, vf c)
{
  vf high = v_max(a, b), low = v_min(a, b), all = a + b + c;
  vf most = v_max(v_max(high, c), v_set(-FLT_MAX)), middle = v_max(low, v_min(high, c)), least = v_min(low, c);
  vf sum = v_exp(middle - most) + v_exp(least - most);
  vf y = v_select(most > v_set(-FLT_MAX), most + v_log(sum + 1.0f), v_set(-__builtin_inff()));
  return v_select(all != all, all, y);
}

float VEC(ctc_step)(int64_t n, const float *from, const float *skip, const float *e, float less, float *path, float *to)
{
  vf best = v_set(-__builtin_inff());
  for (int64_t s = 0; s < n; s += VN) {
    vf into = join(v_load_f32(from + s), v_load_f32(from + s - 1), v_load_f32(from + s - 2) + v_load_f32(skip + s))
    - less;
    vf now = into + v_load_f32(e + s);
    v_store(CAPL_F32, path, s, into);
    v_store(CAPL_F32, to, s, now);
    best = v_max(best, now);
  }
  return v_largest(best);
}

float VEC(ctc_shares)(int64_t n, const float *other, float *path)
{
  vf best = v_set(-FLT_MAX), sum = {0};
  for (int64_t s = 0; s < n; s += VN) {
    vf both = v_load_f32(path + s) + v_load_f32(other + s);
    v_store(CAPL_F32, path, s, both);
    best = v_max(best, both);
  }
  vf most = v_set(v_largest(best));
  for (int64_t s = 0; s < n; s += VN) {
    vf share = v_exp(v_load_f32(path + s) - most);
    v_store(CAPL_F32, path, s, share);
    sum += share;
  }
  return v_total(sum);
}
