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

/* `blocks` vectors of a row; of bf16 two at a time, the even elements and the odd ones: widening takes an instruction
** each then. */
INLINE void load_blocks(capl_dtype real, const void *p, int64_t i, const int blocks, vf *out)
{
#pragma GCC unroll 8
  for (int b = 0; b < blocks; b++) {
    vu both = {0};
    bool pairs = real == CAPL_BF16 && blocks > 1;
    if (pairs) both = *(const vu_at *)((const uint16_t *)p + i + b / 2 * 2 * VN);
    out[b] = !pairs ? v_load(real, p, i + b * VN) : b % 2 ? (vf)(both & 0xFFFF0000u) : (vf)(both << 16);
  }
}

/* Floats in the same order. */
INLINE void load_order(capl_dtype real, const float *p, const int blocks, vf *out)
{
  if (real != CAPL_BF16 || blocks == 1) {
#pragma GCC unroll 8
    for (int b = 0; b < blocks; b++) out[b] = v_load_f32(p + b * VN);
    return;
  }
#pragma GCC unroll 4
  for (int b = 0; b < blocks; b += 2) {
    float lanes[2][VN];
    for (int k = 0; k < VN; k++) lanes[0][k] = p[b * VN + 2 * k], lanes[1][k] = p[b * VN + 2 * k + 1];
    out[b] = v_load_f32(lanes[0]), out[b + 1] = v_load_f32(lanes[1]);
  }
}

/* sum += blocks of floats in that order */
INLINE void add_order(capl_dtype real, const vf *in, const int blocks, double *sum)
{
  float part[WIDE * VN];
  const float *lanes = (const float *)in;
  if (real != CAPL_BF16 || blocks == 1) memcpy(part, in, (size_t)blocks * sizeof *in);
  else
    for (int b = 0; b < blocks; b += 2)
      for (int k = 0; k < VN; k++)
        part[b * VN + 2 * k] = lanes[b * VN + k], part[b * VN + 2 * k + 1] = lanes[b * VN + VN + k];
  for (int k = 0; k < blocks * VN; k++) sum[k] += part[k];
}

/* Adds blocks * VN channels from channel c on of rows [first, last) to sum and square. */
INLINE void sums_block(const vec_pixels *p, capl_dtype real, const void *x, const float *center, int64_t c,
                       const int blocks, int64_t first, int64_t last, double *sum, double *square)
{
  vf s[WIDE] = {{0}}, q[WIDE] = {{0}}, mid[WIDE], v[WIDE];
  load_order(real, center + c, blocks, mid);
  for (int64_t r = first; r < last; r++) {
    load_blocks(real, x, r * p->channels + c, blocks, v);
#pragma GCC unroll 8
    for (int b = 0; b < blocks; b++) {
      vf d = v[b] - mid[b];
      s[b] += d;
      q[b] += d * d;
    }
  }
  add_order(real, s, blocks, sum + c);
  add_order(real, q, blocks, square + c);
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
  vf s[WIDE] = {{0}}, q[WIDE] = {{0}}, mid[WIDE], scale[WIDE], shift[WIDE], v[WIDE], g[WIDE];
  load_order(real, n->center + c, blocks, mid);
  load_order(real, n->scale + c, blocks, scale);
  load_order(real, n->shift + c, blocks, shift);
  for (int64_t r = first; r < last; r++) {
    int64_t at = r * p->channels + c;
#pragma GCC unroll 4
    for (int b = 0; b < blocks; b += 2) {
      const int some = blocks == 1 ? 1 : 2;
      load_blocks(real, x, at + b * VN, some, v);
      load_blocks(real, dy, at + b * VN, some, g);
#pragma GCC unroll 2
      for (int k = 0; k < some; k++) {
        vf dz = sloped(act, v[k] * scale[b + k] + shift[b + k], g[k]);
        if (real == CAPL_F32 && act == VEC_THEN_SILU) v_store(real, keep, at + (b + k) * VN, dz);
        s[b + k] += dz;
        q[b + k] += dz * (v[k] - mid[b + k]);
      }
    }
  }
  add_order(real, s, blocks, sum_dz + c);
  add_order(real, q, blocks, sum_dzx + c);
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

/* Asks for the line of element i two rows on: the processor alone only follows rows that have been begun. f32 rows were
** measured to be slower with it. */
INLINE void ask_ahead(const vec_pool_row *p, capl_dtype real, const void *row, int64_t i, bool first_level)
{
  const uint16_t *line = (const uint16_t *)row + i + 2 * p->width * p->channels;
  if (real != CAPL_BF16) return;
  if (first_level) __builtin_prefetch(line, 0, 3);
  else __builtin_prefetch(line, 0, 2);
}

/* Values that load_blocks gave, as they were. */
INLINE void store_loaded(capl_dtype real, void *y, int64_t i, const vf *v, const int blocks)
{
  if (real == CAPL_BF16 && blocks == 2) *(vu_at *)((uint16_t *)y + i) = (vu)v[0] >> 16 | (vu)v[1];
  else v_store(real, y, i, v[0]);
}

/* Bytes in load_blocks's order. */
INLINE void store_places(capl_dtype real, uint8_t *index, const vi *place, const int blocks)
{
  if (real == CAPL_BF16 && blocks == 2) {
    vh pairs = __builtin_convertvector((vu)(place[0] | place[1] << 8), vh);
    memcpy(index, &pairs, sizeof pairs); /* at any address */
  } else v_store_u8(index, place[0]);
}

/* Channels [c, c + blocks * VN) of windows [first, last). */
INLINE void pool_block(const vec_pool_row *p, capl_dtype real, const vec_norm *n, const void *x0, const void *x1,
                       void *y, uint8_t *index, int64_t c, const int blocks, int64_t first, int64_t last, double *sum,
                       double *square)
{
  vf s[WIDE] = {{0}}, q[WIDE] = {{0}}, mid[WIDE] = {{0}}, scale[WIDE];
  const int unit = real == CAPL_BF16 && blocks > 1 ? 2 : 1;
  load_order(real, n->scale + c, blocks, scale);
  if (sum) load_order(real, n->center + c, blocks, mid);
  vi flip[WIDE];
  for (int b = 0; b < blocks; b++) flip[b] = (vi)scale[b] & INT32_MIN;
  for (int64_t j = first; j < last; j++) {
#pragma GCC unroll 8
    for (int b = 0; b < blocks; b += unit) {
      vf best[2], v[2];
      vi place[2] = {{0}};
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        load_blocks(real, k < 2 ? x0 : x1, tap(p, j, k) + c + b * VN, unit, v);
        ask_ahead(p, real, k < 2 ? x0 : x1, tap(p, j, k) + c + b * VN, false);
#pragma GCC unroll 2
        for (int i = 0; i < unit; i++) {
          vf d = v[i] - mid[b + i], z = (vf)((vi)v[i] ^ flip[b + i]);
          if (sum) s[b + i] += d, q[b + i] += d * d;
          vi more = ~(z <= best[i]); /* also where z is NaN */
          place[i] = k == 0 ? (vi){0} : (place[i] & ~more) | (more & k);
          best[i] = k == 0 ? z : v_max(best[i], z);
        }
      }
      for (int i = 0; i < unit; i++) best[i] = (vf)((vi)best[i] ^ flip[b + i]);
      int64_t at = j * p->channels + c + b * VN;
      store_loaded(real, y, at, best, unit);
      store_places(real, index + at, place, unit);
    }
  }
  if (!sum) return;
  add_order(real, s, blocks, sum + c);
  add_order(real, q, blocks, square + c);
}

/* Channel c of window j. */
INLINE void pool_one(const vec_pool_row *p, capl_dtype real, const vec_norm *n, const void *x0, const void *x1,
                     void *y, uint8_t *index, int64_t j, int64_t c, double *sum, double *square)
{
  float best = 0, sign = n->scale[c] < 0 ? -1 : 1;
  int place = 0;
  for (int k = 0; k < 4; k++) {
    float v = f_load(real, k < 2 ? x0 : x1, tap(p, j, k) + c), z = v * sign;
    if (k == 0 || !(z <= best)) best = z, place = k;
    if (!sum) continue;
    float d = v - n->center[c];
    sum[c] += d;
    square[c] += (double)d * d;
  }
  f_store(real, y, j * p->channels + c, best * sign);
  index[j * p->channels + c] = (uint8_t)place;
}

INLINE void pool_row(const vec_pool_row *p, capl_dtype real, const vec_norm *n, const void *x0, const void *x1,
                     void *y, uint8_t *index, double *sum, double *square)
{
  for (int64_t first = 0; first < p->width / 2; first += TILE / 4) {
    int64_t last = first + TILE / 4 < p->width / 2 ? first + TILE / 4 : p->width / 2, c = 0;
    for (; WIDE == 8 && c + 8 * VN <= p->channels; c += 8 * VN)
      pool_block(p, real, n, x0, x1, y, index, c, 8, first, last, sum, square);
    for (; c + 4 * VN <= p->channels; c += 4 * VN)
      pool_block(p, real, n, x0, x1, y, index, c, 4, first, last, sum, square);
    for (; c + 2 * VN <= p->channels; c += 2 * VN)
      pool_block(p, real, n, x0, x1, y, index, c, 2, first, last, sum, square);
    for (; c + VN <= p->channels; c += VN)
      pool_block(p, real, n, x0, x1, y, index, c, 1, first, last, sum, square);
    for (int64_t j = first; c < p->channels && j < last; j++)
      for (int64_t k = c; k < p->channels; k++) pool_one(p, real, n, x0, x1, y, index, j, k, sum, square);
  }
}

void VEC(norm_pool_row)(const vec_pool_row *p, const vec_norm *n, const void *x0, const void *x1, void *y,
                        uint8_t *index, double *sum, double *square)
{
  if (p->real == CAPL_BF16 && sum) pool_row(p, CAPL_BF16, n, x0, x1, y, index, sum, square);
  else if (p->real == CAPL_BF16) pool_row(p, CAPL_BF16, n, x0, x1, y, index, NULL, NULL);
  else if (sum) pool_row(p, CAPL_F32, n, x0, x1, y, index, sum, square);
  else pool_row(p, CAPL_F32, n, x0, x1, y, index, NULL, NULL);
}

INLINE float f_masked_dy(float x, float dy, float scale, float shift)
{
  return f_sloped(VEC_THEN_RELU, __builtin_fmaf(x, scale, shift), dy);
}

/* What store_places stored. */
INLINE void load_places(capl_dtype real, const uint8_t *index, const int blocks, vi *place)
{
  if (real == CAPL_BF16 && blocks == 2) {
    vh pairs;
    memcpy(&pairs, index, sizeof pairs); /* from any address */
    vu both = (vu)v_load_bf16((const uint16_t *)&pairs); /* pairs of bytes, in the upper halves */
    place[0] = (vi)(both >> 16 & 0xFFu);
    place[1] = (vi)(both >> 24);
  } else place[0] = v_load_u8(index);
}

/* x at the places of the maxima. */
INLINE void load_picked(const vec_pool_row *p, capl_dtype real, const void *x0, const void *x1, const uint8_t *index,
                        int64_t j, int64_t c, const int blocks, vf *out)
{
  vf v[2], picked[2] = {{0}};
  vi place[2];
  load_places(real, index + j * p->channels + c, blocks, place);
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) {
    load_blocks(real, k < 2 ? x0 : x1, tap(p, j, k) + c, blocks, v);
    ask_ahead(p, real, k < 2 ? x0 : x1, tap(p, j, k) + c, false);
    for (int i = 0; i < blocks; i++) picked[i] = (vf)((vi)picked[i] | ((vi)v[i] & (place[i] == k)));
  }
  for (int i = 0; i < blocks; i++) out[i] = picked[i];
}

INLINE void pool_sums_block(const vec_pool_row *p, capl_dtype real, const vec_norm *n, const void *x0,
                            const void *x1, const void *dy, const uint8_t *index, int64_t c, const int blocks,
                            double *sum_dz, double *sum_dzx)
{
  vf s[WIDE] = {{0}}, q[WIDE] = {{0}}, mid[WIDE], scale[WIDE], shift[WIDE];
  const int unit = real == CAPL_BF16 && blocks > 1 ? 2 : 1;
  load_order(real, n->center + c, blocks, mid);
  load_order(real, n->scale + c, blocks, scale);
  load_order(real, n->shift + c, blocks, shift);
  for (int64_t j = 0; j < p->width / 2; j++) {
#pragma GCC unroll 8
    for (int b = 0; b < blocks; b += unit) {
      vf v[2], g[2];
      load_picked(p, real, x0, x1, index, j, c + b * VN, unit, v);
      load_blocks(real, dy, j * p->channels + c + b * VN, unit, g);
#pragma GCC unroll 2
      for (int i = 0; i < unit; i++) {
        vf dz = v_where(v[i] * scale[b + i] + shift[b + i] > (vf){0}, g[i]);
        s[b + i] += dz;
        q[b + i] += dz * (v[i] - mid[b + i]);
      }
    }
  }
  add_order(real, s, blocks, sum_dz + c);
  add_order(real, q, blocks, sum_dzx + c);
}

INLINE void pool_sums(const vec_pool_row *p, capl_dtype real, const vec_norm *n, const void *x0, const void *x1,
                      const void *dy, const uint8_t *index, double *sum_dz, double *sum_dzx)
{
  int64_t c = 0;
  for (; WIDE == 8 && c + 8 * VN <= p->channels; c += 8 * VN)
    pool_sums_block(p, real, n, x0, x1, dy, index, c, 8, sum_dz, sum_dzx);
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
                              const void *dy, const uint8_t *index, double *sum_dz, double *sum_dzx)
{
  if (p->real == CAPL_BF16) pool_sums(p, CAPL_BF16, n, x0, x1, dy, index, sum_dz, sum_dzx);
  else pool_sums(p, CAPL_F32, n, x0, x1, dy, index, sum_dz, sum_dzx);
}

/* Rounds and stores in load_blocks's order. */
INLINE void put_blocks(capl_dtype real, bool stream, void *y, int64_t at, const vf *f, const int blocks)
{
  if (real == CAPL_BF16 && blocks == 2) {
    vu both = v_pair(f[0], f[1]);
    if (stream) v_store_past(CAPL_F32, (uint16_t *)y + at, 0, (vf)both);
    else *(vu_at *)((uint16_t *)y + at) = both;
  } else put(real, stream, y, at, f[0]);
}

INLINE void pool_grad_block(const vec_pool_row *p, capl_dtype real, bool stream, const vec_norm *n, const void *x0,
                            const void *x1, const void *dy, const uint8_t *index, void *dx0, void *dx1, int64_t c,
                            const int blocks)
{
  vf scale[WIDE], shift[WIDE], k_dy[WIDE], k_x[WIDE], k_1[WIDE];
  const int unit = real == CAPL_BF16 && blocks > 1 ? 2 : 1;
  load_order(real, n->scale + c, blocks, scale);
  load_order(real, n->shift + c, blocks, shift);
  load_order(real, n->k_dy + c, blocks, k_dy);
  load_order(real, n->k_x + c, blocks, k_x);
  load_order(real, n->k_1 + c, blocks, k_1);
  for (int64_t j = 0; j < p->width / 2; j++) {
#pragma GCC unroll 8
    for (int b = 0; b < blocks; b += unit) {
      int64_t out = j * p->channels + c + b * VN;
      vf g[2], v[2], d[2];
      vi place[2];
      load_blocks(real, dy, out, unit, g);
      load_places(real, index + out, unit, place);
      for (int i = 0; i < unit; i++) g[i] *= k_dy[b + i];
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        int64_t at = tap(p, j, k) + c + b * VN;
        load_blocks(real, k < 2 ? x0 : x1, at, unit, v);
        ask_ahead(p, real, k < 2 ? x0 : x1, at, true);
#pragma GCC unroll 2
        for (int i = 0; i < unit; i++) {
          vi here = (place[i] == k) & (v[i] * scale[b + i] + shift[b + i] > (vf){0});
          d[i] = v_where(here, g[i]) + (v[i] * k_x[b + i] + k_1[b + i]);
        }
        put_blocks(real, stream, k < 2 ? dx0 : dx1, at, d, unit);
      }
    }
  }
}

/* Channel c of window j. */
INLINE void pool_grad_one(const vec_pool_row *p, capl_dtype real, const vec_norm *n, const void *x0, const void *x1,
                          const void *dy, const uint8_t *index, void *dx0, void *dx1, int64_t j, int64_t c)
{
  int64_t out = j * p->channels + c;
  for (int k = 0; k < 4; k++) {
    int64_t at = tap(p, j, k) + c;
    float v = f_load(real, k < 2 ? x0 : x1, at);
    float g = index[out] == k ? f_masked_dy(v, f_load(real, dy, out), n->scale[c], n->shift[c]) : 0;
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
  int64_t c = 0;
  for (; WIDE == 8 && c + 8 * VN <= p->channels; c += 8 * VN)
    pool_grad_block(p, real, stream, n, x0, x1, dy, index, dx0, dx1, c, 8);
  for (; c + 4 * VN <= p->channels; c += 4 * VN)
    pool_grad_block(p, real, stream, n, x0, x1, dy, index, dx0, dx1, c, 4);
  for (; c + 2 * VN <= p->channels; c += 2 * VN)
    pool_grad_block(p, real, stream, n, x0, x1, dy, index, dx0, dx1, c, 2);
  for (; c + VN <= p->channels; c += VN) pool_grad_block(p, real, stream, n, x0, x1, dy, index, dx0, dx1, c, 1);
  for (int64_t j = 0; c < p->channels && j < p->width / 2; j++)
    for (int64_t k = c; k < p->channels; k++) pool_grad_one(p, real, n, x0, x1, dy, index, dx0, dx1, j, k);
  if (p->width % 2) pool_grad_rest(p, real, n, x0, dx0), pool_grad_rest(p, real, n, x1, dx1);
  if (stream) v_store_past_end();
}

void VEC(norm_pool_grad_row)(const vec_pool_row *p, const vec_norm *n, const void *x0, const void *x1,
                             const void *dy, const uint8_t *index, void *dx0, void *dx1, bool stream)
{
  if (p->real == CAPL_BF16) pool_grad(p, CAPL_BF16, stream, n, x0, x1, dy, index, dx0, dx1);
  else pool_grad(p, CAPL_F32, stream, n, x0, x1, dy, index, dx0, dx1);
}
