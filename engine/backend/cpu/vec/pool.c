/* pool.c -- pooling one pixel at a time over a list of taps; any window, stride and padding.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/simd.h"

INLINE void max_of(capl_dtype real, int64_t channels, int n, const void *const *taps, const uint8_t *place, void *y,
                   uint8_t *index)
{
  int64_t whole = channels / VN * VN;
  for (int64_t c = 0; c < whole; c += VN) {
    vf best = v_load(real, taps[0], c);
    vi at = place[0] + (vi){0};
    for (int k = 1; k < n; k++) {
      vf v = v_load(real, taps[k], c);
      vi more = (v > best) | (v != v); /* as in PyTorch, a NaN wins */
      best = v_select(more, v, best);
      at = (at & ~more) | (more & place[k]);
    }
    v_store(real, y, c, best);
    v_store_u8(index + c, at);
  }
  for (int64_t c = whole; c < channels; c++) {
    int best = 0;
    for (int k = 1; k < n; k++) {
      float v = f_load(real, taps[k], c);
      if (v > f_load(real, taps[best], c) || v != v) best = k;
    }
    f_store(real, y, c, f_load(real, taps[best], c));
    index[c] = place[best];
  }
}

void VEC(pool_max)(capl_dtype real, int64_t channels, int n, const void *const *taps, const uint8_t *place, void *y,
                   uint8_t *index)
{
  if (real == CAPL_BF16) max_of(CAPL_BF16, channels, n, taps, place, y, index);
  else max_of(CAPL_F32, channels, n, taps, place, y, index);
}

INLINE void sum_of(capl_dtype real, int64_t channels, int n, const void *const *taps, const float *weight, void *y)
{
  int64_t whole = channels / VN * VN;
  for (int64_t c = 0; c < whole; c += VN) {
    vf total = {0};
    for (int k = 0; k < n; k++) total += v_load(real, taps[k], c) * weight[k];
    v_store(real, y, c, total);
  }
  for (int64_t c = whole; c < channels; c++) {
    float total = 0;
    for (int k = 0; k < n; k++) total += f_load(real, taps[k], c) * weight[k];
    f_store(real, y, c, total);
  }
}

void VEC(pool_sum)(capl_dtype real, int64_t channels, int n, const void *const *taps, const float *weight, void *y)
{
  if (real == CAPL_BF16) sum_of(CAPL_BF16, channels, n, taps, weight, y);
  else sum_of(CAPL_F32, channels, n, taps, weight, y);
}

INLINE void pick_of(capl_dtype real, int64_t channels, int n, const void *const *taps, const uint8_t *const *index,
                    const uint8_t *place, void *dx)
{
  int64_t whole = channels / VN * VN;
  for (int64_t c = 0; c < whole; c += VN) {
    vf total = {0};
    for (int k = 0; k < n; k++) {
      vi at = v_load_u8(index[k] + c);
      total += v_where(at == place[k], v_load(real, taps[k], c));
    }
    v_store(real, dx, c, total);
  }
  for (int64_t c = whole; c < channels; c++) {
    float total = 0;
    for (int k = 0; k < n; k++) total += index[k][c] == place[k] ? f_load(real, taps[k], c) : 0;
    f_store(real, dx, c, total);
  }
}

void VEC(pool_pick)(capl_dtype real, int64_t channels, int n, const void *const *taps, const uint8_t *const *index,
                    const uint8_t *place, void *dx)
{
  if (real == CAPL_BF16) pick_of(CAPL_BF16, channels, n, taps, index, place, dx);
  else pick_of(CAPL_F32, channels, n, taps, index, place, dx);
}
