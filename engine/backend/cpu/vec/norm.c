/* norm.c -- batch norm over channels-last pixels, alone, with relu or silu, and with relu and 2x2 max pool.
**
** Sums run in f32 over TILE rows at most and are then added to doubles: fast, and good to about 1e-7
** however many pixels there are. What the activation was given is recomputed in the backward pass from x by the
** same expression as in the forward pass, so nothing but x is kept.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/math.h"
#include "backend/cpu/vec/simd.h"

enum { TILE = 128 };

/* Vectors of a row that are summed at a time, as many as have registers: rows that are read to their end come from
** memory as fast as it gives them, those of which each sweep takes a part do not. */
#if defined(__AVX512F__)
enum { WIDE = 8 };
#else
enum { WIDE = 4 };
#endif

INLINE vf normed(vf x, const float *scale, const float *shift)
{
  return x * v_load_f32(scale) + v_load_f32(shift);
}

INLINE vf activated(vec_norm_act act, vf z)
{
  return act == VEC_THEN_RELU ? v_relu(z) : act == VEC_THEN_SILU ? z * v_sigmoid(z) : z;
}

/* dy times the slope of the activation at z. */
INLINE vf sloped(vec_norm_act act, vf z, vf dy)
{
  if (act == VEC_NO_ACT) return dy;
  if (act == VEC_THEN_RELU) return v_where(z > (vf){0}, dy);
  vf s = v_sigmoid(z);
  return dy * (s * (1.0f + z * (1.0f - s)));
}

/* The same of one value. */
INLINE float f_activated(vec_norm_act act, float z)
{
  if (act == VEC_THEN_RELU) return z < 0 ? 0 : z;
  return act == VEC_NO_ACT ? z : activated(act, v_set(z))[0];
}

INLINE float f_sloped(vec_norm_act act, float z, float dy)
{
  if (act == VEC_THEN_RELU) return z > 0 ? dy : 0;
  return act == VEC_NO_ACT ? dy : sloped(act, v_set(z), v_set(dy))[0];
}

/* fn(p, dtype, activation, …) with both as constants, so that no loop asks for them. */
#define BY_ACT(fn, p, real, ...)                                                 \
  do {                                                                           \
    if ((p)->act == VEC_THEN_RELU) fn(p, real, VEC_THEN_RELU, __VA_ARGS__);      \
    else if ((p)->act == VEC_THEN_SILU) fn(p, real, VEC_THEN_SILU, __VA_ARGS__); \
    else fn(p, real, VEC_NO_ACT, __VA_ARGS__);                                   \
  } while (0)
#define SPECIAL(fn, p, ...)                                                      \
  do {                                                                           \
    if ((p)->real == CAPL_BF16) BY_ACT(fn, p, CAPL_BF16, __VA_ARGS__);           \
    else BY_ACT(fn, p, CAPL_F32, __VA_ARGS__);                                   \
  } while (0)

/* ---- sums over rows ---- */

/* Adds blocks * VN channels from channel c on of rows [first, last) to sum and square. */
INLINE void sums_block(const vec_pixels *p, capl_dtype real, const void *x, const float *center, int64_t c,
                       const int blocks, int64_t first, int64_t last, double *sum, double *square)
{
  vf s[WIDE] = {{0}}, q[WIDE] = {{0}};
  for (int64_t r = first; r < last; r++) {
#pragma GCC unroll 8
    for (int b = 0; b < blocks; b++) {
      int64_t at = c + b * VN;
      vf d = v_load(real, x, r * p->channels + at) - v_load_f32(center + at);
      s[b] += d;
      q[b] += d * d;
    }
  }
  for (int b = 0; b < blocks; b++)
    for (int k = 0; k < VN; k++) sum[c + b * VN + k] += s[b][k], square[c + b * VN + k] += q[b][k];
}

INLINE void sums_rest(const vec_pixels *p, capl_dtype real, const void *x, const float *center, int64_t c,
                      int64_t first, int64_t last, double *sum, double *square)
{
  for (int64_t r = first; r < last; r++)
    for (int64_t k = c; k < p->channels; k++) {
      float d = f_load(real, x, r * p->channels + k) - center[k];
      sum[k] += d;
      square[k] += (double)d * d;
    }
}

INLINE void sums_of(const vec_pixels *p, capl_dtype real, const void *x, const float *center, double *sum,
                    double *square)
{
  for (int64_t first = 0; first < p->rows; first += TILE) {
    int64_t last = first + TILE < p->rows ? first + TILE : p->rows, c = 0;
    for (; WIDE == 8 && c + 8 * VN <= p->channels; c += 8 * VN)
      sums_block(p, real, x, center, c, 8, first, last, sum, square);
    for (; c + 4 * VN <= p->channels; c += 4 * VN) sums_block(p, real, x, center, c, 4, first, last, sum, square);
    for (; c + 2 * VN <= p->channels; c += 2 * VN) sums_block(p, real, x, center, c, 2, first, last, sum, square);
    for (; c + VN <= p->channels; c += VN) sums_block(p, real, x, center, c, 1, first, last, sum, square);
    sums_rest(p, real, x, center, c, first, last, sum, square);
  }
}

void VEC(norm_sums)(const vec_pixels *p, const void *x, const float *center, double *sum, double *square)
{
  if (p->real == CAPL_BF16) sums_of(p, CAPL_BF16, x, center, sum, square);
  else sums_of(p, CAPL_F32, x, center, sum, square);
}

/* With silu, whose slope takes longer than a store and a load, f32 dz goes to keep; bf16 would round it. */
INLINE void grad_sums_block(const vec_pixels *p, capl_dtype real, vec_norm_act act, const vec_norm *n, const void *x,
                            const void *dy, void *keep, int64_t c, const int blocks, int64_t first, int64_t last,
                            double *sum_dz, double *sum_dzx)
{
  vf s[WIDE] = {{0}}, q[WIDE] = {{0}};
  for (int64_t r = first; r < last; r++) {
#pragma GCC unroll 8
    for (int b = 0; b < blocks; b++) {
      int64_t at = c + b * VN;
      vf v = v_load(real, x, r * p->channels + at);
      vf g = sloped(act, normed(v, n->scale + at, n->shift + at), v_load(real, dy, r * p->channels + at));
      if (real == CAPL_F32 && act == VEC_THEN_SILU) v_store(real, keep, r * p->channels + at, g);
      s[b] += g;
      q[b] += g * (v - v_load_f32(n->center + at));
    }
  }
  for (int b = 0; b < blocks; b++)
    for (int k = 0; k < VN; k++) sum_dz[c + b * VN + k] += s[b][k], sum_dzx[c + b * VN + k] += q[b][k];
}

INLINE void grad_sums_of(const vec_pixels *p, capl_dtype real, vec_norm_act act, const vec_norm *n, const void *x,
                         const void *dy, void *keep, double *sum_dz, double *sum_dzx)
{
  for (int64_t first = 0; first < p->rows; first += TILE) {
    int64_t last = first + TILE < p->rows ? first + TILE : p->rows, c = 0;
    for (; WIDE == 8 && c + 8 * VN <= p->channels; c += 8 * VN)
      grad_sums_block(p, real, act, n, x, dy, keep, c, 8, first, last, sum_dz, sum_dzx);
    for (; c + 4 * VN <= p->channels; c += 4 * VN)
      grad_sums_block(p, real, act, n, x, dy, keep, c, 4, first, last, sum_dz, sum_dzx);
    for (; c + 2 * VN <= p->channels; c += 2 * VN)
      grad_sums_block(p, real, act, n, x, dy, keep, c, 2, first, last, sum_dz, sum_dzx);
    for (; c + VN <= p->channels; c += VN)
      grad_sums_block(p, real, act, n, x, dy, keep, c, 1, first, last, sum_dz, sum_dzx);
    for (int64_t r = first; r < last; r++)
      for (int64_t k = c; k < p->channels; k++) {
        float v = f_load(real, x, r * p->channels + k);
        float g = f_sloped(act, __builtin_fmaf(v, n->scale[k], n->shift[k]), f_load(real, dy, r * p->channels + k));
        if (real == CAPL_F32 && act == VEC_THEN_SILU) f_store(real, keep, r * p->channels + k, g);
        sum_dz[k] += g;
        sum_dzx[k] += (double)g * (v - n->center[k]);
      }
  }
}

void VEC(norm_grad_sums)(const vec_pixels *p, const vec_norm *n, const void *x, const void *dy, void *keep,
                         double *sum_dz, double *sum_dzx)
{
  SPECIAL(grad_sums_of, p, n, x, dy, keep, sum_dz, sum_dzx);
}

/* ---- application ---- */

INLINE void put(capl_dtype real, bool stream, void *y, int64_t at, vf f)
{
  if (stream) v_store_past(real, y, at, f);
  else v_store(real, y, at, f);
}

INLINE void apply_to(const vec_pixels *p, capl_dtype real, vec_norm_act act, bool stream, const vec_norm *n,
                     const void *x, void *y)
{
  int64_t channels = p->channels, whole = channels / VN * VN;
  for (int64_t r = 0; r < p->rows; r++) {
    int64_t row = r * channels;
    for (int64_t c = 0; c < whole; c += VN) {
      vf z = normed(v_load(real, x, row + c), n->scale + c, n->shift + c);
      put(real, stream, y, row + c, activated(act, z));
    }
    for (int64_t c = whole; c < channels; c++) {
      float z = __builtin_fmaf(f_load(real, x, row + c), n->scale[c], n->shift[c]);
      f_store(real, y, row + c, f_activated(act, z));
    }
  }
  if (stream) v_store_past_end();
}

void VEC(norm_apply)(const vec_pixels *p, const vec_norm *n, const void *x, void *y, bool stream)
{
  SPECIAL(apply_to, p, stream, n, x, y);
}

INLINE void grad_apply_to(const vec_pixels *p, capl_dtype real, vec_norm_act act, bool stream, const vec_norm *n,
                          const void *x, const void *dy, void *dx)
{
  int64_t channels = p->channels, whole = channels / VN * VN;
  for (int64_t r = 0; r < p->rows; r++) {
    int64_t row = r * channels;
    for (int64_t c = 0; c < whole; c += VN) {
      vf v = v_load(real, x, row + c);
      vf g = sloped(act, normed(v, n->scale + c, n->shift + c), v_load(real, dy, row + c));
      put(real, stream, dx, row + c, g * v_load_f32(n->k_dy + c) + normed(v, n->k_x + c, n->k_1 + c));
    }
    for (int64_t c = whole; c < channels; c++) {
      float v = f_load(real, x, row + c);
      float g = f_sloped(act, __builtin_fmaf(v, n->scale[c], n->shift[c]), f_load(real, dy, row + c));
      f_store(real, dx, row + c, g * n->k_dy[c] + (v * n->k_x[c] + n->k_1[c]));
    }
  }
  if (stream) v_store_past_end();
}

void VEC(norm_grad_apply)(const vec_pixels *p, const vec_norm *n, const void *x, const void *dy, void *dx,
                          bool stream)
{
  SPECIAL(grad_apply_to, p, stream, n, x, dy, dx);
}

/* ---- with relu and 2x2 max pool ---- */

/* Offset of window element k (row by row) of output pixel j in its input row. */
INLINE int64_t tap(const vec_pool_row *p, int64_t j, int k)
{
  return (2 * j + (k & 1)) * p->channels;
}

INLINE void pool_row(const vec_pool_row *p, capl_dtype real, const vec_norm *n, const void *x0, const void *x1,
                     void *y, uint8_t *index)
{
  int64_t channels = p->channels, whole = channels / VN * VN;
  for (int64_t j = 0; j < p->width / 2; j++) {
    for (int64_t c = 0; c < whole; c += VN) {
      vf best = {0};
      vi place = {0};
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        vf z = normed(v_load(real, k < 2 ? x0 : x1, tap(p, j, k) + c), n->scale + c, n->shift + c);
        vi more = ~(z <= best); /* also where z is NaN */
        best = v_select(more, z, best);
        place = (place & ~more) | (more & k);
      }
      v_store(real, y, j * channels + c, best);
      v_store_u8(index + j * channels + c, place);
    }
    for (int64_t c = whole; c < channels; c++) {
      float best = 0;
      int place = 0;
      for (int k = 0; k < 4; k++) {
        float z = __builtin_fmaf(f_load(real, k < 2 ? x0 : x1, tap(p, j, k) + c), n->scale[c], n->shift[c]);
        if (!(z <= best)) best = z, place = k;
      }
      f_store(real, y, j * channels + c, best);
      index[j * channels + c] = (uint8_t)place;
    }
  }
}

void VEC(norm_pool_row)(const vec_pool_row *p, const vec_norm *n, const void *x0, const void *x1, void *y,
                        uint8_t *index)
{
  if (p->real == CAPL_BF16) pool_row(p, CAPL_BF16, n, x0, x1, y, index);
  else pool_row(p, CAPL_F32, n, x0, x1, y, index);
}

INLINE float f_masked_dy(float x, float dy, float scale, float shift)
{
  return f_sloped(VEC_THEN_RELU, __builtin_fmaf(x, scale, shift), dy);
}

/* x at the place of the maximum. */
INLINE vf picked(const vec_pool_row *p, capl_dtype real, const void *x0, const void *x1, vi place, int64_t j, int64_t c)
{
  vf v = {0};
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) v = v_select(place == k, v_load(real, k < 2 ? x0 : x1, tap(p, j, k) + c), v);
  return v;
}

INLINE void pool_sums_block(const vec_pool_row *p, capl_dtype real, const vec_norm *n, const void *x0,
                            const void *x1, const void *dy, const uint8_t *index, int64_t c, const int blocks,
                            float *sum_dz, float *sum_dzx)
{
  vf s[4] = {{0}}, q[4] = {{0}};
  for (int64_t j = 0; j < p->width / 2; j++) {
#pragma GCC unroll 4
    for (int b = 0; b < blocks; b++) {
      int64_t at = c + b * VN, out = j * p->channels + at;
      vf v = picked(p, real, x0, x1, v_load_u8(index + out), j, at);
      vf g = v_where(normed(v, n->scale + at, n->shift + at) > (vf){0}, v_load(real, dy, out));
      s[b] += g;
      q[b] += g * (v - v_load_f32(n->center + at));
    }
  }
  for (int b = 0; b < blocks; b++) {
    *(vf_at *)(sum_dz + c + b * VN) += s[b];
    *(vf_at *)(sum_dzx + c + b * VN) += q[b];
  }
}

INLINE void pool_sums(const vec_pool_row *p, capl_dtype real, const vec_norm *n, const void *x0, const void *x1,
                      const void *dy, const uint8_t *index, float *sum_dz, float *sum_dzx)
{
  int64_t c = 0;
  for (; c + 4 * VN <= p->channels; c += 4 * VN)
    pool_sums_block(p, real, n, x0, x1, dy, index, c, 4, sum_dz, sum_dzx);
  for (; c + 2 * VN <= p->channels; c += 2 * VN)
    pool_sums_block(p, real, n, x0, x1, dy, index, c, 2, sum_dz, sum_dzx);
  for (; c + VN <= p->channels; c += VN) pool_sums_block(p, real, n, x0, x1, dy, index, c, 1, sum_dz, sum_dzx);
  for (int64_t j = 0; c < p->channels && j < p->width / 2; j++)
    for (int64_t k = c; k < p->channels; k++) {
      int place = index[j * p->channels + k];
      float v = f_load(real, place < 2 ? x0 : x1, tap(p, j, place) + k);
      float g = f_masked_dy(v, f_load(real, dy, j * p->channels + k), n->scale[k], n->shift[k]);
      sum_dz[k] += g;
      sum_dzx[k] += g * (v - n->center[k]);
    }
}

void VEC(norm_pool_grad_sums)(const vec_pool_row *p, const vec_norm *n, const void *x0, const void *x1,
                              const void *dy, const uint8_t *index, float *sum_dz, float *sum_dzx)
{
  if (p->real == CAPL_BF16) pool_sums(p, CAPL_BF16, n, x0, x1, dy, index, sum_dz, sum_dzx);
  else pool_sums(p, CAPL_F32, n, x0, x1, dy, index, sum_dz, sum_dzx);
}

INLINE void pool_grad_pixel(const vec_pool_row *p, capl_dtype real, bool stream, const vec_norm *n, const void *x0,
                            const void *x1, const void *dy, const uint8_t *index, void *dx0, void *dx1, int64_t j)
{
  int64_t channels = p->channels, whole = channels / VN * VN, out = j * channels;
  for (int64_t c = 0; c < whole; c += VN) {
    vf g = v_load(real, dy, out + c) * v_load_f32(n->k_dy + c);
    vi place = v_load_u8(index + out + c);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      int64_t at = tap(p, j, k) + c;
      vf v = v_load(real, k < 2 ? x0 : x1, at);
      vi here = (place == k) & (normed(v, n->scale + c, n->shift + c) > (vf){0});
      put(real, stream, k < 2 ? dx0 : dx1, at, v_where(here, g) + normed(v, n->k_x + c, n->k_1 + c));
    }
  }
  for (int64_t c = whole; c < channels; c++)
    for (int k = 0; k < 4; k++) {
      int64_t at = tap(p, j, k) + c;
      float v = f_load(real, k < 2 ? x0 : x1, at);
      float g = index[out + c] == k ? f_masked_dy(v, f_load(real, dy, out + c), n->scale[c], n->shift[c]) : 0;
      f_store(real, k < 2 ? dx0 : dx1, at, g * n->k_dy[c] + (v * n->k_x[c] + n->k_1[c]));
    }
}

/* Column width - 1 of an odd width lies in no window. */
INLINE void pool_grad_rest(const vec_pool_row *p, capl_dtype real, const vec_norm *n, const void *x, void *dx)
{
  int64_t at = (p->width - 1) * p->channels;
  for (int64_t c = 0; c < p->channels; c++)
    f_store(real, dx, at + c, f_load(real, x, at + c) * n->k_x[c] + n->k_1[c]);
}

INLINE void pool_grad(const vec_pool_row *p, capl_dtype real, bool stream, const vec_norm *n, const void *x0,
                      const void *x1, const void *dy, const uint8_t *index, void *dx0, void *dx1)
{
  for (int64_t j = 0; j < p->width / 2; j++) pool_grad_pixel(p, real, stream, n, x0, x1, dy, index, dx0, dx1, j);
  if (p->width % 2) pool_grad_rest(p, real, n, x0, dx0), pool_grad_rest(p, real, n, x1, dx1);
  if (stream) v_store_past_end();
}

void VEC(norm_pool_grad_row)(const vec_pool_row *p, const vec_norm *n, const void *x0, const void *x1,
                             const void *dy, const uint8_t *index, void *dx0, void *dx1, bool stream)
{
  if (p->real == CAPL_BF16) pool_grad(p, CAPL_BF16, stream, n, x0, x1, dy, index, dx0, dx1);
  else pool_grad(p, CAPL_F32, stream, n, x0, x1, dy, index, dx0, dx1);
}
