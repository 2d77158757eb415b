/* letter.c -- one letter, by the three steps of its style: turned (bilinear), stretched (bicubic), looked up (nearest).
**
** Turning and looking up follow straight lines through the source in 16.16 fixed point. AVX-512 gathers and permutes;
** the other sets do the same arithmetic pixel by pixel.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "synth/draw/lanes.h"

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

/* Levels are cut off, not rounded: so the style does it, and letters are half a level thinner for it. A tenth of a
** level keeps full ink from falling short. */
static int32_t level_offset(int32_t down)
{
  return 255 * 128 * down + (1 << SCALE) / 10;
}

/* A coordinate of pixel (x,y) of the plane is at + x dx + y dy, in 16.16 and exactly so on every path. */
typedef struct {
  int at, dx, dy;
} turn_map;

#if defined(__AVX512VBMI__)

/* Blocks of 4 x 4 pixels: turned by half a right angle or less, they and their neighbours lie within 7 x 8 pixels of
** the source, which are one load. */
enum { BLOCK = 4 };

typedef struct {
  __m512i lane, next, limit; /* of one coordinate: the block's pixels, less the first; one block down; the ink's side */
  int by, least;             /* next, as a number; the smallest of the lanes, half a pixel on */
} block_map;

static block_map block_of(const turn_map *m, int side)
{
  const __m512i x = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
  const __m512i y = _mm512_set_epi32(3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0);
  __m512i across = _mm512_mullo_epi32(x, _mm512_set1_epi32(m->dx)),
      down = _mm512_mullo_epi32(y, _mm512_set1_epi32(m->dy));
  int far_x = (BLOCK - 1) * m->dx, far_y = (BLOCK - 1) * m->dy;
  return (block_map){_mm512_add_epi32(across, down), _mm512_set1_epi32(BLOCK * m->dy), _mm512_set1_epi32(side << 16),
                     BLOCK * m->dy, (far_x < 0 ? far_x : 0) + (far_y < 0 ? far_y : 0) + HALF};
}

/* Levels of sixteen pixels out of the 64 bytes of the window, whose first pixel has the number `first` = 8 row +
** column. */
INLINE __m512i turn_16(__m512i u, __m512i v, __m512i window, int first, __mmask16 inside, __m512i weights,
                       __m512i offset)
{
  const __m512i each_first = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0x00000000);
  const __m512i each_second = _mm512_set4_epi32(0x0d0d0d0d, 0x09090909, 0x05050505, 0x01010101);
  const __m512i first_word = _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100);
  __m512i whole = _mm512_mask_blend_epi16(0x55555555, v, _mm512_srli_epi32(u, 16)); /* words: column, row */
  __m512i number = _mm512_sub_epi32(_mm512_madd_epi16(whole, _mm512_set1_epi32(8 << 16 | 1)), _mm512_set1_epi32(first));
  __m512i four = _mm512_add_epi8(_mm512_shuffle_epi8(number, each_first), _mm512_set1_epi32(0x09080100));
  __m512i across = _mm512_xor_si512(_mm512_shuffle_epi8(u, each_second), _mm512_set1_epi32(0x00ff00ff));
  __m512i part = _mm512_mulhi_epu16(_mm512_shuffle_epi8(v, first_word), weights);
  __m512i down = _mm512_mask_sub_epi16(part, 0x55555555, weights, part);
  __m512i sum = _mm512_madd_epi16(_mm512_maddubs_epi16(across, _mm512_permutexvar_epi8(four, window)), down);
  sum = _mm512_srai_epi32(_mm512_add_epi32(sum, offset), SCALE - DRAW_LEVEL);
  return _mm512_maskz_and_epi32(inside, sum, _mm512_set1_epi32(255 << DRAW_LEVEL));
}

INLINE int within(int n, int most)
{
  n = n > 0 ? n : 0;
  return n < most ? n : most;
}

/* What the blocks of a letter have in common, and where the present one is: its pixels' coordinates and their least. */
typedef struct {
  const draw_turn *turn;
  block_map across, down;
  __m512i weights, offset, u, v;
  int left, top;
} block_row;

/* The present block, and on to the next one below. */
INLINE __m512i turn_block(block_row *r)
{
  const __m512i half = _mm512_set1_epi32(HALF);
  const draw_turn *t = r->turn;
  int column = within(r->left >> 16, t->ink_w) / 2 * 2, row = within(r->top >> 16, t->ink_h);
  __m512i window = _mm512_loadu_si512(t->strips + column / 2 * t->strip_bytes + 8 * row);
  __mmask16 inside = _mm512_cmplt_epu32_mask(r->u, r->across.limit);
  inside = _mm512_mask_cmplt_epu32_mask(inside, r->v, r->down.limit);
  __m512i levels = turn_16(_mm512_add_epi32(r->u, half), _mm512_add_epi32(r->v, half), window, 8 * row + column, inside,
                           r->weights, r->offset);
  r->u = _mm512_add_epi32(r->u, r->across.next);
  r->v = _mm512_add_epi32(r->v, r->down.next);
  r->left += r->across.by;
  r->top += r->down.by;
  return levels;
}

/* Four columns of the plane. Two blocks make eight rows of each. */
INLINE void turn_columns(block_row *r, int16_t *plane, int step)
{
  int y = 0;
  for (; y < r->turn->height; y += 2 * BLOCK) {
    __m512i upper = turn_block(r), both = _mm512_packs_epi32(upper, turn_block(r));
    int16_t *to = plane + y;
    _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(both));
    _mm_storeu_si128((__m128i *)(to + step), _mm512_extracti32x4_epi32(both, 1));
    _mm_storeu_si128((__m128i *)(to + 2 * step), _mm512_extracti32x4_epi32(both, 2));
    _mm_storeu_si128((__m128i *)(to + 3 * step), _mm512_extracti32x4_epi32(both, 3));
  }
  for (; y % DRAW_PAD; y += 2 * BLOCK) {
    for (int x = 0; x < BLOCK; x++) _mm_storeu_si128((__m128i *)(plane + x * step + y), _mm_setzero_si128());
  }
}

static void turn_plane(const draw_turn *t, const turn_map *u, const turn_map *v, int16_t *plane, int step)
{
  int weight = down_weights(t->opacity);
  block_row r = {.turn = t, .across = block_of(u, t->ink_w), .down = block_of(v, t->ink_h),
                 .weights = _mm512_set1_epi16((short)weight), .offset = _mm512_set1_epi32(level_offset(weight))};
  for (int x = 0; x < t->width; x += BLOCK) {
    int at_u = u->at + x * u->dx, at_v = v->at + x * v->dx;
    r.u = _mm512_add_epi32(_mm512_set1_epi32(at_u), r.across.lane);
    r.v = _mm512_add_epi32(_mm512_set1_epi32(at_v), r.down.lane);
    r.left = at_u + r.across.least;
    r.top = at_v + r.down.least;
    turn_columns(&r, plane + x * step, step);
  }
}

#else

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

INLINE int16_t turn_1(const draw_turn *t, int u, int v, int32_t weights, int32_t offset)
{
  int x = u >> 16, across = u >> 8 & 255;
  const int8_t *p = t->strips + (x >> 1) * t->strip_bytes + 8 * (v >> 16) + (x & 1);
  int above = p[0] * (255 - across) + p[1] * across, below = p[8] * (255 - across) + p[9] * across;
  int part = (int)((uint32_t)(v & 0xffff) * (uint32_t)weights >> 16);
  int sum = above * (weights - part) + below * part + offset;
  return (int16_t)(sum >> (SCALE - DRAW_LEVEL) & 255 << DRAW_LEVEL);
}

static void turn_plane(const draw_turn *t, const turn_map *across, const turn_map *down, int16_t *plane, int step)
{
  int32_t weights = down_weights(t->opacity), offset = level_offset(weights);
  for (int x = 0; x < t->width; x++) {
    int u = across->at + x * across->dx, v = down->at + x * down->dx, first = 0, end = t->height;
    int16_t *column = plane + x * step;
    clip_steps(u, across->dy, t->ink_w << 16, &first, &end);
    clip_steps(v, down->dy, t->ink_h << 16, &first, &end);
    memset(column, 0, (size_t)draw_padded(t->height) * sizeof *column);
    u += HALF + first * across->dy;
    v += HALF + first * down->dy;
    for (int y = first; y < end; y++, u += across->dy, v += down->dy) column[y] = turn_1(t, u, v, weights, offset);
  }
}

#endif

void DRAW(turn)(const draw_turn *t, int16_t *plane, int step)
{
  int cosine = to_fixed(t->cos), sine = to_fixed(t->sin);
  turn_map across = {to_fixed(t->u), cosine, sine}, down = {to_fixed(t->v), -sine, cosine};
  turn_plane(t, &across, &down, plane, step);
}

/* ---- stretching ------------------------------------------------------------------------------ */

/* The products' upper halves are levels times 2^5: a level has 7 bits more, a weight 14. Each is cut off, by half a
** step on average. */
enum { MIXED = 5 };

INLINE lanes mixing(int n_taps)
{
  return lanes_set((1 << (MIXED - 1)) + n_taps / 2);
}

INLINE lanes to_level(lanes sum)
{
  return lanes_clip(sum >> MIXED, 0, 255) << DRAW_LEVEL;
}

/* Two registers at a time, because spreading a weight costs as much as using it. */
INLINE void mix_columns(const draw_taps *taps, int n_taps, int n_out, int height, const int16_t *in, int16_t *out,
                        int step)
{
  for (int i = 0; i < n_out; i++) {
    for (int y = 0; y < height; y += 2 * LANES) {
      const int16_t *from = in + taps->first[i] * step + y;
      int16_t *to = out + i * step + y;
      lanes a = mixing(n_taps), b = a;
      for (int k = 0; k < n_taps; k++, from += step) {
        lanes weight = lanes_set(taps->weight[k * taps->max_out + i]);
        a += lanes_mulhi(lanes_load(from), weight);
        b += lanes_mulhi(lanes_load(from + LANES), weight);
      }
      lanes_store(to, to_level(a));
      lanes_store(to + LANES, to_level(b));
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
INLINE void mix_rows(const draw_taps *taps, int n_taps, int width, int height, const int16_t *in, uint8_t *out,
                     int step)
{
  for (int i = 0; i < height; i++) {
    for (int x = 0; x < width; x += LANES) {
      const int16_t *from = in + taps->first[i] * step + x;
      lanes sum = mixing(n_taps);
      for (int k = 0; k < n_taps; k++, from += step) {
        sum += lanes_mulhi(lanes_load(from), lanes_set(taps->weight[k * taps->max_out + i]));
      }
      lanes_to_bytes(out + i * step + x, sum >> MIXED);
    }
  }
}

/* By way of rows, because a column's own numbers do not mix. */
static void stretch_down_rows(const draw_taps *taps, int from_h, int16_t *columns, int16_t *rows, int step,
                              draw_sheet *sheet)
{
  for (int x = 0; x < sheet->width; x += 8) {
    for (int y = 0; y < from_h; y += LANES) transpose(columns + x * step + y, step, rows + y * step + x, step);
  }
  sheet->step_u = 1;
  sheet->step_v = step;
  if (taps->n_taps == 4) mix_rows(taps, 4, sheet->width, sheet->height, rows, sheet->alpha, step);
  else mix_rows(taps, taps->n_taps, sheet->width, sheet->height, rows, sheet->alpha, step);
}

#if defined(__AVX512VBMI__)

/* 32 numbers of a column, out of a window of 32: an enlargement needs no more. */
INLINE void pick_near(const draw_taps *taps, int n_taps, int y, int width, const int16_t *columns, int step,
                      uint8_t *alpha)
{
  int start = taps->first[y];
  lanes first = lanes_load(taps->first + y) - (int16_t)start;
  for (int x = 0; x < width; x++) {
    __m512i window = _mm512_loadu_si512(columns + x * step + start);
    lanes sum = mixing(n_taps);
    for (int k = 0; k < n_taps; k++) {
      lanes picked = (lanes)_mm512_permutexvar_epi16((__m512i)(first + (int16_t)k), window);
      sum += lanes_mulhi(picked, lanes_load(taps->weight + k * taps->max_out + y));
    }
    lanes_to_bytes(alpha + x * step + y, sum >> MIXED);
  }
}

/* 32 numbers of a column of up to 64, which lies in two registers. */
static void pick_far(const draw_taps *taps, int y, int width, const int16_t *columns, int step, uint8_t *alpha)
{
  lanes first = lanes_load(taps->first + y);
  for (int x = 0; x < width; x++) {
    __m512i upper = _mm512_loadu_si512(columns + x * step), lower = _mm512_loadu_si512(columns + x * step + 32);
    lanes sum = mixing(taps->n_taps);
    for (int k = 0; k < taps->n_taps; k++) {
      lanes picked = (lanes)_mm512_permutex2var_epi16(upper, (__m512i)(first + (int16_t)k), lower);
      sum += lanes_mulhi(picked, lanes_load(taps->weight + k * taps->max_out + y));
    }
    lanes_to_bytes(alpha + x * step + y, sum >> MIXED);
  }
}

static void stretch_down(const draw_taps *taps, int from_h, int16_t *columns, int16_t *rows, int step,
                         draw_sheet *sheet)
{
  if (from_h > 64) {
    stretch_down_rows(taps, from_h, columns, rows, step, sheet);
    return;
  }
  sheet->step_u = step;
  sheet->step_v = 1;
  for (int y = 0; y < sheet->height; y += 32) {
    int last = y + 31 < sheet->height ? y + 31 : sheet->height - 1;
    bool near = taps->n_taps == 4 && taps->first[last] - taps->first[y] <= 28;
    if (near) pick_near(taps, 4, y, sheet->width, columns, step, sheet->alpha);
    else pick_far(taps, y, sheet->width, columns, step, sheet->alpha);
  }
}

#else

static void stretch_down(const draw_taps *taps, int from_h, int16_t *columns, int16_t *rows, int step,
                         draw_sheet *sheet)
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

/* A coordinate of pixel (x,y) of what is drawn is at + x dx + y (dy + x dxy), in 16.16 and exactly so on every path. */
typedef struct {
  int at, dx, dy, dxy;
} fixed_map;

static fixed_map fix_map(const draw_map *m, int x0, int y0)
{
  double x = x0 + 0.5, y = y0 + 0.5;
  double dx = m->dx + m->dxy * y, dy = m->dy + m->dxy * x;
  return (fixed_map){to_fixed(m->base + m->dx * x + dy * y), to_fixed(dx), to_fixed(dy), to_fixed(m->dxy)};
}

static void place_one_by_one(const draw_place *p, const draw_sheet *sheet, fixed_map across, fixed_map down)
{
  uint32_t limit_u = (uint32_t)sheet->width << 16, limit_v = (uint32_t)sheet->height << 16;
  for (int x = 0; x < p->x1 - p->x0; x++) {
    int u = across.at + x * across.dx, v = down.at + x * down.dx;
    int du = across.dy + x * across.dxy, dv = down.dy + x * down.dxy;
    int16_t *dest = p->dest + x * p->dest_step;
    for (int y = p->y0; y < p->y1; y++, u += du, v += dv, dest++) {
      if ((uint32_t)u >= limit_u || (uint32_t)v >= limit_v) continue;
      int alpha = sheet->alpha[(u >> 16) * sheet->step_u + (v >> 16) * sheet->step_v];
      int cover = p->cover[alpha < DRAW_ALPHAS ? alpha : DRAW_ALPHAS - 1];
      *dest = (int16_t)(*dest + ((2 * (DRAW_INK - *dest) * cover + (1 << 14)) >> 15));
    }
  }
}

#if defined(__AVX512VBMI__)

enum { ROWS = 64, PARTS = 4 }; /* a column's rows that are looked up together, as bytes; as 32-bit numbers */

/* A coordinate of 64 rows. Packing 32-bit numbers to bytes interleaves the parts: part j's number d is row
** 16 (d / 4) + 4 j + d % 4. */
typedef struct {
  __m512i part[PARTS], step[PARTS];
} row_positions;

static row_positions rows_from(const fixed_map *m, int y)
{
  const __m512i row = _mm512_set_epi32(51, 50, 49, 48, 35, 34, 33, 32, 19, 18, 17, 16, 3, 2, 1, 0);
  row_positions r;
  for (int j = 0; j < PARTS; j++) {
    __m512i at = _mm512_add_epi32(row, _mm512_set1_epi32(y + 4 * j));
    r.part[j] = _mm512_add_epi32(_mm512_mullo_epi32(at, _mm512_set1_epi32(m->dy)), _mm512_set1_epi32(m->at));
    r.step[j] = _mm512_add_epi32(_mm512_mullo_epi32(at, _mm512_set1_epi32(m->dxy)), _mm512_set1_epi32(m->dx));
  }
  return r;
}

/* Whole pixels, -128..127, and on to the next column. */
INLINE __m512i take_rows(row_positions *r)
{
  __m512i whole[PARTS];
  for (int j = 0; j < PARTS; j++) {
    whole[j] = _mm512_srai_epi32(r->part[j], 16);
    r->part[j] = _mm512_add_epi32(r->part[j], r->step[j]);
  }
  return _mm512_packs_epi16(_mm512_packs_epi32(whole[0], whole[1]), _mm512_packs_epi32(whole[2], whole[3]));
}

enum { TOGETHER = 2 }; /* columns without a branch between; their number is hard to predict */

/* The alpha of 64 rows, whose sources lie in columns first..last of the sheet. */
INLINE __m512i find_alpha(const draw_sheet *sheet, __m512i u, __m512i v, int first, int last)
{
  const uint8_t *column = sheet->alpha + first * sheet->step_u;
  __m512i found = _mm512_setzero_si512(), number = _mm512_set1_epi8((char)first);
  __mmask64 inside = _mm512_cmplt_epu8_mask(v, _mm512_set1_epi8((char)sheet->height));
  inside = _mm512_mask_cmplt_epu8_mask(inside, u, _mm512_set1_epi8((char)sheet->width));
  for (int c = first; c <= last; c += TOGETHER) {
    for (int i = 0; i < TOGETHER; i++, column += sheet->step_u) {
      __mmask64 here = _mm512_mask_cmpeq_epi8_mask(inside, u, number);
      __m512i top = _mm512_loadu_si512(column), bottom = _mm512_loadu_si512(column + 64);
      found = _mm512_or_si512(found, _mm512_maskz_permutex2var_epi8(here, top, v, bottom));
      number = _mm512_add_epi8(number, _mm512_set1_epi8(1));
    }
  }
  return _mm512_min_epu8(found, _mm512_set1_epi8(DRAW_ALPHAS - 1));
}

/* Lays 32 rows over dest. */
INLINE void lay_over(int16_t *dest, __mmask32 rows, __m256i alpha, const __m512i *cover)
{
  __m512i covered = _mm512_permutex2var_epi16(cover[0], _mm512_cvtepu8_epi16(alpha), cover[1]);
  __m512i below = _mm512_maskz_loadu_epi16(rows, dest);
  __m512i free = _mm512_sub_epi16(_mm512_set1_epi16(DRAW_INK), below);
  __m512i more = _mm512_mulhrs_epi16(_mm512_add_epi16(free, free), covered);
  _mm512_mask_storeu_epi16(dest, rows, _mm512_add_epi16(below, more));
}

/* A line through the sheet crosses few of its columns, and a column lies in two registers. */
static void place_rows(const draw_place *p, const draw_sheet *sheet, const fixed_map *across, const fixed_map *down,
                       int y, int n_rows)
{
  const __m512i cover[2] = {_mm512_loadu_si512(p->cover), _mm512_loadu_si512(p->cover + 32)};
  row_positions u = rows_from(across, y), v = rows_from(down, y);
  __mmask64 rows = n_rows >= ROWS ? ~0ull : (1ull << n_rows) - 1;
  int16_t *dest = p->dest + y;
  for (int x = 0; x < p->x1 - p->x0; x++, dest += p->dest_step) {
    int by = across->dy + x * across->dxy, top = across->at + x * across->dx + y * by, bottom = top + (n_rows - 1) * by;
    int first = (top < bottom ? top : bottom) >> 16, last = (top < bottom ? bottom : top) >> 16;
    first = first > 0 ? first : 0;
    last = last < sheet->width ? last : sheet->width - 1;
    __m512i u_now = take_rows(&u), v_now = take_rows(&v);
    __m512i alpha = find_alpha(sheet, u_now, v_now, first, last);
    lay_over(dest, (__mmask32)rows, _mm512_castsi512_si256(alpha), cover);
    lay_over(dest + 32, (__mmask32)(rows >> 32), _mm512_extracti64x4_epi64(alpha, 1), cover);
  }
}

void DRAW(place)(const draw_place *p, const draw_sheet *sheet)
{
  fixed_map across = fix_map(&p->u, p->x0, p->y0), down = fix_map(&p->v, p->x0, p->y0);
  if (sheet->step_v == 1 && sheet->width < 128 && sheet->height < 128) {
    int n_rows = p->y1 - p->y0;
    for (int y = 0; y < n_rows; y += ROWS)
      place_rows(p, sheet, &across, &down, y, n_rows - y < ROWS ? n_rows - y : ROWS);
  } else {
    place_one_by_one(p, sheet, across, down);
  }
}

#else

void DRAW(place)(const draw_place *p, const draw_sheet *sheet)
{
  place_one_by_one(p, sheet, fix_map(&p->u, p->x0, p->y0), fix_map(&p->v, p->x0, p->y0));
}

#endif
