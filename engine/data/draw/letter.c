/* letter.c -- one letter, by the three steps of its style: turned (bilinear), stretched (bicubic), looked up (nearest).
**
** Turning and looking up follow straight lines through the source in 16.16 fixed point. AVX-512 gathers and permutes;
** the other sets do the same arithmetic pixel by pixel.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "data/draw/lanes.h"

enum { HALF = 1 << 15 };

static inline int to_fixed(double px)
{
  return (int)lrint(px * 65536);
}

/* ---- turning --------------------------------------------------------------------------------- */

/* The bilinear sum of the four neighbours: across with 8-bit weights that add up to 255, down with 15-bit weights that
** add up to `down`, which holds the opacity. The neighbours are stored less 128, so that products fit 16 bits. */
enum { SCALE = 22 }; /* down is opacity / 255 * 2^22 / 255 */

static int32_t down_weights(int opacity)
{
  return (opacity * (1 << SCALE) + 255 * 255 / 2) / (255 * 255);
}

static int32_t level_offset(int32_t down)
{
  return 255 * 128 * down + (1 << (SCALE - 1));
}

#if defined(__AVX512VBMI__)

typedef struct {
  __m512i u_lane, v_lane, u_next, v_next; /* of 16 pixels along a column; from 16 to the next 16 */
  __m512i down, offset, strides, limit_u, limit_v;
} turn_constants;

static turn_constants turn_prepare(const draw_turn *t, int du, int dv)
{
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  int down = down_weights(t->opacity);
  return (turn_constants){
    .u_lane = _mm512_mullo_epi32(lane, _mm512_set1_epi32(du)),
    .v_lane = _mm512_mullo_epi32(lane, _mm512_set1_epi32(dv)),
    .u_next = _mm512_set1_epi32(16 * du),
    .v_next = _mm512_set1_epi32(16 * dv),
    .down = _mm512_set1_epi16((short)down),
    .offset = _mm512_set1_epi32(level_offset(down)),
    .strides = _mm512_set1_epi32((t->ink_w + 1) << 16 | 1),
    .limit_u = _mm512_set1_epi32(t->ink_w << 16),
    .limit_v = _mm512_set1_epi32(t->ink_h << 16),
  };
}

/* Sixteen levels at (u,v), half a pixel on; those outside are 0. */
INLINE __m256i turn_16(const draw_turn *t, const turn_constants *k, __m512i u, __m512i v, __mmask16 inside)
{
  const __m512i second_byte = _mm512_set4_epi32(0x0d0d0d0d, 0x09090909, 0x05050505, 0x01010101);
  const __m512i first_word = _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100);
  __m512i at = _mm512_mask_blend_epi16(0x55555555, v, _mm512_srli_epi32(u, 16)); /* words: column, row */
  __m512i quad = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), inside, _mm512_madd_epi16(at, k->strides), t->quad, 4);
  __m512i across = _mm512_xor_si512(_mm512_shuffle_epi8(u, second_byte), _mm512_set1_epi32(0x00ff00ff));
  __m512i part = _mm512_mulhi_epu16(_mm512_shuffle_epi8(v, first_word), k->down);
  __m512i down = _mm512_mask_sub_epi16(part, 0x55555555, k->down, part);
  __m512i sum = _mm512_madd_epi16(_mm512_maddubs_epi16(across, quad), down);
  sum = _mm512_srai_epi32(_mm512_add_epi32(sum, k->offset), SCALE - DRAW_LEVEL);
  return _mm512_maskz_cvtepi32_epi16(inside, _mm512_and_si512(sum, _mm512_set1_epi32(255 << DRAW_LEVEL)));
}

INLINE void turn_column(const draw_turn *t, const turn_constants *k, int u0, int v0, int16_t *column)
{
  const __m512i half = _mm512_set1_epi32(HALF);
  __m512i u = _mm512_add_epi32(_mm512_set1_epi32(u0), k->u_lane), v = _mm512_add_epi32(_mm512_set1_epi32(v0), k->v_lane);
  int height = draw_padded(t->height);
  for (int y = 0; y < height; y += 16) {
    __mmask16 inside = _mm512_cmplt_epu32_mask(u, k->limit_u);
    inside = _mm512_mask_cmplt_epu32_mask(inside, v, k->limit_v);
    __m256i levels = _mm256_setzero_si256();
    if (inside) levels = turn_16(t, k, _mm512_add_epi32(u, half), _mm512_add_epi32(v, half), inside);
    _mm256_storeu_si256((__m256i *)(column + y), levels);
    u = _mm512_add_epi32(u, k->u_next);
    v = _mm512_add_epi32(v, k->v_next);
  }
}

#else

typedef struct {
  int du, dv;
  int32_t down, offset;
} turn_constants;

static turn_constants turn_prepare(const draw_turn *t, int du, int dv)
{
  int32_t down = down_weights(t->opacity);
  return (turn_constants){du, dv, down, level_offset(down)};
}

/* Narrows [*first, *end) to the steps i for which start + i * step lies in [0, limit). */
static void clip_steps(int start, int step, int limit, int *first, int *end)
{
  int from = 0, to = *end;
  if (step == 0) {
    if (start < 0 || start >= limit) to = 0;
  } else {
    int near = step > 0 ? -start : start - limit + 1; /* distance to the first value inside, and past the last */
    int far = step > 0 ? limit - start : start + 1;
    int stride = step > 0 ? step : -step;
    from = near > 0 ? (near + stride - 1) / stride : 0;
    to = far > 0 ? (far + stride - 1) / stride : 0;
  }
  if (from > *first) *first = from;
  if (to < *end) *end = to;
}

INLINE int16_t turn_1(const draw_turn *t, const turn_constants *k, int u, int v)
{
  uint32_t quad = t->quad[(v >> 16) * (t->ink_w + 1) + (u >> 16)];
  int across = u >> 8 & 255;
  int above = (int8_t)quad * (255 - across) + (int8_t)(quad >> 8) * across;
  int below = (int8_t)(quad >> 16) * (255 - across) + (int8_t)(quad >> 24) * across;
  int part = (int)((uint32_t)(v & 0xffff) * (uint32_t)k->down >> 16);
  int sum = above * (k->down - part) + below * part + k->offset;
  return (int16_t)(sum >> (SCALE - DRAW_LEVEL) & 255 << DRAW_LEVEL);
}

INLINE void turn_column(const draw_turn *t, const turn_constants *k, int u, int v, int16_t *column)
{
  int first = 0, end = t->height;
  clip_steps(u, k->du, t->ink_w << 16, &first, &end);
  clip_steps(v, k->dv, t->ink_h << 16, &first, &end);
  memset(column, 0, (size_t)draw_padded(t->height) * sizeof *column);
  u += HALF + first * k->du;
  v += HALF + first * k->dv;
  for (int y = first; y < end; y++, u += k->du, v += k->dv) column[y] = turn_1(t, k, u, v);
}

#endif

void DRAW(turn)(const draw_turn *turn, int16_t *plane, int step)
{
  turn_constants k = turn_prepare(turn, to_fixed(turn->sin), to_fixed(turn->cos));
  for (int x = 0; x < turn->width; x++) {
    turn_column(turn, &k, to_fixed(turn->u + x * turn->cos), to_fixed(turn->v - x * turn->sin), plane + x * step);
  }
}

/* ---- stretching ------------------------------------------------------------------------------ */

/* The products' upper halves are levels times 2^5: a level has 7 bits more, a weight 14. Each is cut off, by half a
** step on average. */
enum { MIXED = 5 };

INLINE lanes mix(const draw_taps *taps, int n_taps, int i, const int16_t *in, int step)
{
  lanes sum = lanes_set((1 << (MIXED - 1)) + n_taps / 2);
  for (int k = 0; k < n_taps; k++) {
    sum += lanes_mulhi(lanes_load(in + k * step), lanes_set(taps->weight[k * taps->max_out + i]));
  }
  return sum >> MIXED;
}

INLINE void mix_columns(const draw_taps *taps, int n_taps, int n_out, int height, const int16_t *in, int16_t *out, int step)
{
  for (int i = 0; i < n_out; i++) {
    const int16_t *from = in + taps->first[i] * step;
    for (int y = 0; y < height; y += LANES) {
      lanes_store(out + i * step + y, lanes_clip(mix(taps, n_taps, i, from + y, step), 0, 255) << DRAW_LEVEL);
    }
  }
}

/* Nearly every enlargement has four taps; the compiler unrolls them. */
static void stretch_across(const draw_taps *taps, int n_out, int height, const int16_t *in, int16_t *out, int step)
{
  if (taps->n_taps == 4) mix_columns(taps, 4, n_out, height, in, out, step);
  else mix_columns(taps, taps->n_taps, n_out, height, in, out, step);
}

/* Rows of levels -> rows of bytes. */
INLINE void mix_rows(const draw_taps *taps, int n_taps, int width, int height, const int16_t *in, uint8_t *out, int step)
{
  for (int i = 0; i < height; i++) {
    const int16_t *from = in + taps->first[i] * step;
    for (int x = 0; x < width; x += LANES) lanes_to_bytes(out + i * step + x, mix(taps, n_taps, i, from + x, step));
  }
}

/* By way of rows, because a column's own numbers do not mix. */
static void stretch_down_rows(const draw_taps *taps, int from_h, int16_t *columns, int16_t *rows, int step, draw_sheet *sheet)
{
  for (int x = 0; x < sheet->width; x += 8) {
    for (int y = 0; y < from_h; y += 8) transpose_8x8(columns + x * step + y, step, rows + y * step + x, step);
  }
  sheet->step_u = 1;
  sheet->step_v = step;
  if (taps->n_taps == 4) mix_rows(taps, 4, sheet->width, sheet->height, rows, sheet->alpha, step);
  else mix_rows(taps, taps->n_taps, sheet->width, sheet->height, rows, sheet->alpha, step);
}

#if defined(__AVX512VBMI__)

/* A column of up to 64 numbers lies in two registers, of which any 32 are picked at once. */
INLINE void pick_columns(const draw_taps *taps, int n_taps, int y, int width, const int16_t *columns, int step, uint8_t *alpha)
{
  __m512i first = (__m512i)lanes_load(taps->first + y);
  for (int x = 0; x < width; x++) {
    __m512i upper = _mm512_loadu_si512(columns + x * step), lower = _mm512_loadu_si512(columns + x * step + 32), at = first;
    lanes sum = lanes_set((1 << (MIXED - 1)) + n_taps / 2);
    for (int k = 0; k < n_taps; k++) {
      lanes picked = (lanes)_mm512_permutex2var_epi16(upper, at, lower);
      sum += lanes_mulhi(picked, lanes_load(taps->weight + k * taps->max_out + y));
      at = _mm512_add_epi16(at, _mm512_set1_epi16(1));
    }
    lanes_to_bytes(alpha + x * step + y, sum >> MIXED);
  }
}

static void stretch_down(const draw_taps *taps, int from_h, int16_t *columns, int16_t *rows, int step, draw_sheet *sheet)
{
  if (from_h > 64) {
    stretch_down_rows(taps, from_h, columns, rows, step, sheet);
    return;
  }
  sheet->step_u = step;
  sheet->step_v = 1;
  for (int y = 0; y < sheet->height; y += 32) {
    if (taps->n_taps == 4) pick_columns(taps, 4, y, sheet->width, columns, step, sheet->alpha);
    else pick_columns(taps, taps->n_taps, y, sheet->width, columns, step, sheet->alpha);
  }
}

#else

static void stretch_down(const draw_taps *taps, int from_h, int16_t *columns, int16_t *rows, int step, draw_sheet *sheet)
{
  stretch_down_rows(taps, from_h, columns, rows, step, sheet);
}

#endif

void DRAW(stretch)(const draw_taps *across, const draw_taps *down, int from_h, int16_t *plane, int16_t *other, int step,
                   draw_sheet *sheet)
{
  stretch_across(across, sheet->width, from_h, plane, other, step);
  stretch_down(down, from_h, other, plane, step, sheet);
}

/* ---- looking up ------------------------------------------------------------------------------ */

static double map_at(const draw_map *m, double x, double y)
{
  return m->base + m->dx * x + m->dy * y + m->dxy * (x * y);
}

#if defined(__AVX512VBMI__)

typedef struct {
  __m512i cover[2], strides, limit_u, limit_v;
} place_constants;

static place_constants place_prepare(const draw_place *p, const draw_sheet *sheet)
{
  return (place_constants){
    .cover = {_mm512_loadu_si512(p->cover), _mm512_loadu_si512(p->cover + 32)},
    .strides = _mm512_set1_epi32(sheet->step_v << 16 | sheet->step_u),
    .limit_u = _mm512_set1_epi32(sheet->width << 16),
    .limit_v = _mm512_set1_epi32(sheet->height << 16),
  };
}

/* What sixteen pixels leave, as words. */
INLINE __m256i cover_16(const place_constants *k, const uint8_t *alpha, __m512i u, __m512i v)
{
  __mmask16 inside = _mm512_cmplt_epu32_mask(u, k->limit_u);
  inside = _mm512_mask_cmplt_epu32_mask(inside, v, k->limit_v);
  __m512i at = _mm512_mask_blend_epi16(0x55555555, v, _mm512_srli_epi32(u, 16)); /* words: column, row */
  __m512i found = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), inside, _mm512_madd_epi16(at, k->strides), alpha, 1);
  found = _mm512_min_epu8(_mm512_and_si512(found, _mm512_set1_epi32(255)), _mm512_set1_epi32(DRAW_ALPHAS - 1));
  return _mm512_cvtepi32_epi16(_mm512_permutex2var_epi16(k->cover[0], found, k->cover[1]));
}

INLINE void place_column(const draw_place *p, const place_constants *k, const draw_sheet *sheet, const int *start,
                         const int *by, int16_t *dest)
{
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512i u = _mm512_add_epi32(_mm512_set1_epi32(start[0]), _mm512_mullo_epi32(lane, _mm512_set1_epi32(by[0])));
  __m512i v = _mm512_add_epi32(_mm512_set1_epi32(start[1]), _mm512_mullo_epi32(lane, _mm512_set1_epi32(by[1])));
  for (int y = p->y0; y < p->y1; y += 16, dest += 16) {
    __mmask16 in_cell = p->y1 - y >= 16 ? 0xffff : (__mmask16)((1 << (p->y1 - y)) - 1);
    __m256i below = _mm256_maskz_loadu_epi16(in_cell, dest);
    __m256i free = _mm256_slli_epi16(_mm256_sub_epi16(_mm256_set1_epi16(DRAW_INK), below), 1);
    __m256i more = _mm256_mulhrs_epi16(free, cover_16(k, sheet->alpha, u, v));
    _mm256_mask_storeu_epi16(dest, in_cell, _mm256_add_epi16(below, more));
    u = _mm512_add_epi32(u, _mm512_set1_epi32(16 * by[0]));
    v = _mm512_add_epi32(v, _mm512_set1_epi32(16 * by[1]));
  }
}

#else

typedef struct {
  uint32_t limit_u, limit_v;
} place_constants;

static place_constants place_prepare(const draw_place *p, const draw_sheet *sheet)
{
  (void)p;
  return (place_constants){(uint32_t)sheet->width << 16, (uint32_t)sheet->height << 16};
}

INLINE void place_column(const draw_place *p, const place_constants *k, const draw_sheet *sheet, const int *start,
                         const int *by, int16_t *dest)
{
  int u = start[0], v = start[1];
  for (int y = p->y0; y < p->y1; y++, u += by[0], v += by[1], dest++) {
    if ((uint32_t)u >= k->limit_u || (uint32_t)v >= k->limit_v) continue;
    int alpha = sheet->alpha[(u >> 16) * sheet->step_u + (v >> 16) * sheet->step_v];
    int cover = p->cover[alpha < DRAW_ALPHAS ? alpha : DRAW_ALPHAS - 1];
    *dest = (int16_t)(*dest + ((2 * (DRAW_INK - *dest) * cover + (1 << 14)) >> 15));
  }
}

#endif

void DRAW(place)(const draw_place *p, const draw_sheet *sheet)
{
  place_constants k = place_prepare(p, sheet);
  for (int x = p->x0; x < p->x1; x++) {
    double at = x + 0.5, y = p->y0 + 0.5;
    int start[2] = {to_fixed(map_at(&p->u, at, y)), to_fixed(map_at(&p->v, at, y))};
    int by[2] = {to_fixed(p->u.dy + p->u.dxy * at), to_fixed(p->v.dy + p->v.dxy * at)};
    place_column(p, &k, sheet, start, by, p->dest + (x - p->x0) * p->dest_step);
  }
}
