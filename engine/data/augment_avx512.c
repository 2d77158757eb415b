/* augment_avx512.c -- moves and colours pixels in blocks of four by four, for processors with AVX-512 VBMI.
**
** Unless an image becomes much smaller, what 16 neighbours read lies within a few rows and columns: these are loaded once,
** and one permutation of bytes per channel fetches all four neighbours of all 16 pixels. Coordinates and weights serve all
** channels. Where more must be read, the AVX2 path does it. Arithmetic as in augment_avx2.c.
** SPDX-License-Identifier: Apache-2.0
*/
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "data/augment_rows.h"

enum {
  SIDE = 4,                        /* of a block */
  WINDOW_ROWS = 8,
  WINDOW_GRAY = 8, WINDOW_RGB = 10, /* pixels across */
  STRIP = 4 * SIDE,                /* gray: pixels that are packed together */
  OFFSET = 128 << AUGMENT_FRACTION,
};
_Static_assert(SIDE == (int)AUGMENT_BAND && (int)AUGMENT_CELL % SIDE == 0, "a band has a row of blocks, a cell whole blocks");

#define INLINE static inline __attribute__((always_inline))

void augment_warp_avx2(const augment_job *job, int y, int rows, uint8_t *out);
void augment_warp_avx512(const augment_job *job, int y, int rows, uint8_t *out);
void augment_mask_avx2(const augment_job *job, int y, int rows, uint8_t *out);
void augment_mask_avx512(const augment_job *job, int y, int rows, uint8_t *out);
void augment_look_up_avx512(const uint8_t table[256], const uint8_t *in, size_t n, uint8_t *levels);
void augment_sums_avx512(const uint8_t *in, size_t n, uint64_t sum[3]);

/* ---- where a block reads from ---------------------------------------------------------------- */

/* Courses of the band's four rows, from some x on, in the order of a block's lanes: row by row. */
typedef struct {
  __m512i u, v, du, dv;
  int32_t least_u, least_v, step_u, step_v; /* of a map that does not bend: the least of u and v, and what it grows by */
} courses;

/* a[k] in the four lanes of row k. */
INLINE __m512i by_rows(const int32_t a[SIDE])
{
  const __m512i row = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm512_permutexvar_epi32(row, _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)a)));
}

/* The least coordinate of a block whose rows have one pace. */
INLINE int32_t least_of(const int32_t at[SIDE], int32_t pace)
{
  int32_t least = at[0];
  for (int k = 1; k < SIDE; k++) least = at[k] < least ? at[k] : least;
  return pace < 0 ? least + (SIDE - 1) * pace : least;
}

/* 0, 1, 2 or 3 times each lane, by its place in its row. */
INLINE __m512i times_column(__m512i v)
{
  return _mm512_add_epi32(_mm512_maskz_mov_epi32(0xaaaa, v), _mm512_maskz_slli_epi32(0xcccc, v, 1));
}

INLINE courses courses_of(const int32_t u[SIDE], const int32_t v[SIDE], const int32_t du[SIDE], const int32_t dv[SIDE])
{
  courses c = {.du = by_rows(du), .dv = by_rows(dv), .least_u = least_of(u, du[0]), .least_v = least_of(v, dv[0]),
               .step_u = SIDE * du[0], .step_v = SIDE * dv[0]};
  c.u = _mm512_add_epi32(by_rows(u), times_column(c.du));
  c.v = _mm512_add_epi32(by_rows(v), times_column(c.dv));
  return c;
}

INLINE void advance(courses *c)
{
  c->u = _mm512_add_epi32(c->u, _mm512_slli_epi32(c->du, 2));
  c->v = _mm512_add_epi32(c->v, _mm512_slli_epi32(c->dv, 2));
  c->least_u += c->step_u;
  c->least_v += c->step_v;
}

INLINE int whole_within(int32_t at, int last)
{
  return at < 0 ? 0 : at > (last + 1) << AUGMENT_FRACTION ? last + 1 : at >> AUGMENT_FRACTION;
}

/* A block's pixels in its window: x0, y0 is where the window begins. */
typedef struct {
  int x0, y0;
  __m512i index;        /* of the upper left neighbour, in bytes of the window, four times */
  __m512i across, down; /* weights: bytes 255 - f, f, twice; words 256 - f, f */
} block;

INLINE __m512i repeat_byte(__m512i v)
{
  const __m512i order = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
  return _mm512_shuffle_epi8(v, order);
}

INLINE __m512i keep_within(__m512i at, int last)
{
  return _mm512_min_epi32(_mm512_max_epi32(at, _mm512_setzero_si512()), _mm512_set1_epi32((last + 1) << AUGMENT_FRACTION));
}

/* false: the block needs more than a window. */
INLINE bool locate(const augment_job *job, const courses *c, int channels, bool bends, block *b)
{
  const __m512i ff = _mm512_set1_epi32(255);
  __m512i u = keep_within(c->u, job->width), v = keep_within(c->v, job->height);
  __m512i x = _mm512_srli_epi32(u, AUGMENT_FRACTION), y = _mm512_srli_epi32(v, AUGMENT_FRACTION);
  b->x0 = bends ? _mm512_reduce_min_epi32(x) : whole_within(c->least_u, job->width);
  b->y0 = bends ? _mm512_reduce_min_epi32(y) : whole_within(c->least_v, job->height);
  x = _mm512_sub_epi32(x, _mm512_set1_epi32(b->x0));
  y = _mm512_sub_epi32(y, _mm512_set1_epi32(b->y0));
  if (bends) {
    const int most_x = (channels == 3 ? WINDOW_RGB : WINDOW_GRAY) - 2;
    __mmask16 beyond = _mm512_cmpgt_epu32_mask(x, _mm512_set1_epi32(most_x)) | _mm512_cmpgt_epu32_mask(y, _mm512_set1_epi32(WINDOW_ROWS - 2));
    if (beyond) return false;
  }
  __m512i at = channels == 3 ? _mm512_add_epi32(_mm512_slli_epi32(y, 5), _mm512_add_epi32(x, _mm512_add_epi32(x, x)))
                             : _mm512_add_epi32(_mm512_slli_epi32(y, 3), x);
  b->index = repeat_byte(at);
  __m512i fx = _mm512_and_si512(_mm512_srli_epi32(u, 8), ff), fy = _mm512_and_si512(_mm512_srli_epi32(v, 8), ff);
  b->across = _mm512_xor_si512(repeat_byte(fx), _mm512_set1_epi32(0x00ff00ff));
  b->down = _mm512_or_si512(_mm512_sub_epi32(_mm512_set1_epi32(256), fy), _mm512_slli_epi32(fy, 16));
  return true;
}

/* ---- neighbours ------------------------------------------------------------------------------ */

INLINE __m512i two_rows(const uint8_t *p, size_t stride)
{
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p)), _mm256_loadu_si256((const __m256i *)(p + stride)), 1);
}

INLINE __m128i two_short_rows(const uint8_t *p, size_t stride)
{
  __m128i above = _mm_loadl_epi64((const __m128i *)p);
  return _mm_castpd_si128(_mm_loadh_pd(_mm_castsi128_pd(above), (const double *)(const void *)(p + stride)));
}

INLINE __m512i gray_window(const uint8_t *p, size_t stride)
{
  __m256i upper = _mm256_inserti128_si256(_mm256_castsi128_si256(two_short_rows(p, stride)), two_short_rows(p + 2 * stride, stride), 1);
  p += 4 * stride;
  __m256i lower = _mm256_inserti128_si256(_mm256_castsi128_si256(two_short_rows(p, stride)), two_short_rows(p + 2 * stride, stride), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(upper), lower, 1);
}

/* Of each pixel: upper left, upper right, lower left, lower right. */
INLINE __m512i fetch_gray(const augment_job *job, const block *b)
{
  const uint8_t *p = job->padded + (size_t)b->y0 * job->stride + (size_t)b->x0;
  __m512i index = _mm512_add_epi8(b->index, _mm512_set1_epi32(0x09080100));
  return _mm512_permutexvar_epi8(index, gray_window(p, job->stride));
}

INLINE void fetch_colours(const augment_job *job, const block *b, __m512i out[3])
{
  const uint8_t *p = job->padded + (size_t)b->y0 * job->stride + (size_t)b->x0 * 3;
  size_t two = 2 * job->stride;
  __m512i w0 = two_rows(p, job->stride), w1 = two_rows(p + two, job->stride), w2 = two_rows(p + 2 * two, job->stride),
          w3 = two_rows(p + 3 * two, job->stride);
  __m512i index = _mm512_add_epi8(b->index, _mm512_set1_epi32(0x23200300));
  __mmask64 lower = _mm512_movepi8_mask(index); /* whatever the channel: a row is 32 bytes */
#pragma GCC unroll 3
  for (int c = 0; c < 3; c++) {
    __m512i at = _mm512_add_epi8(index, _mm512_set1_epi8((char)c));
    out[c] = _mm512_mask_blend_epi8(lower, _mm512_permutex2var_epi8(w0, at, w1), _mm512_permutex2var_epi8(w2, at, w3));
  }
}

/* Sums of four weighed levels, times 65536, as f32. */
INLINE __m512 weigh(const block *b, __m512i levels)
{
  __m512i l = _mm512_xor_si512(levels, _mm512_set1_epi8((char)0x80));
  __m512i h = _mm512_add_epi16(_mm512_maddubs_epi16(b->across, l), _mm512_maddubs_epi16(_mm512_set1_epi16(1), l));
  __m512i sum = _mm512_madd_epi16(h, b->down);
  return _mm512_cvtepi32_ps(_mm512_add_epi32(sum, _mm512_set1_epi32(OFFSET)));
}

/* ---- colour ---------------------------------------------------------------------------------- */

INLINE __m512i stir(__m512i x)
{
  x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
  x = _mm512_mullo_epi32(x, _mm512_set1_epi32(0x7feb352d));
  x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 15));
  x = _mm512_mullo_epi32(x, _mm512_set1_epi32((int)0x846ca68bu));
  return _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
}

/* Clipped only where noise is added: packing to bytes clips too. */
INLINE __m512i finish(const augment_job *job, __m512 t, __m512i counter, bool noise)
{
  if (noise) {
    __m512i r = stir(_mm512_add_epi32(stir(counter), _mm512_set1_epi32((int)job->draw->noise_key)));
    __m512i sum = _mm512_madd_epi16(_mm512_maddubs_epi16(r, _mm512_set1_epi8(1)), _mm512_set1_epi16(1));
    __m512 bell = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_set1_epi32(510))), _mm512_set1_ps(1 / 147.8f));
    t = _mm512_min_ps(_mm512_max_ps(t, _mm512_setzero_ps()), _mm512_set1_ps(255));
    t = _mm512_add_ps(t, _mm512_mul_ps(_mm512_set1_ps(job->draw->noise), bell));
  }
  return _mm512_cvttps_epi32(_mm512_add_ps(t, _mm512_set1_ps(0.5f)));
}

INLINE __m512 gained(const augment_job *job, __m512 t)
{
  return _mm512_add_ps(_mm512_mul_ps(t, _mm512_set1_ps(job->gain)), _mm512_set1_ps(job->lift));
}

INLINE __m512 blended(const augment_job *job, const __m512 t[3], int c)
{
  const float *m = job->colour + 3 * c;
  __m512 rg = _mm512_add_ps(_mm512_mul_ps(t[0], _mm512_set1_ps(m[0])), _mm512_mul_ps(t[1], _mm512_set1_ps(m[1])));
  return _mm512_add_ps(_mm512_add_ps(rg, _mm512_mul_ps(t[2], _mm512_set1_ps(m[2]))), _mm512_set1_ps(job->lift));
}

/* ---- bands ----------------------------------------------------------------------------------- */

/* Rows of a band as it is made; behind the image's last they repeat it. */
typedef struct {
  const augment_job *job;
  uint8_t *out;
  int y, rows;
  augment_course course[SIDE];
  int32_t *line[SIDE]; /* of a map that bends */
  __m512i counter; /* of lanes' first values at x = 0 */
} band;

INLINE courses straight_courses(const band *b)
{
  int32_t u[SIDE], v[SIDE], du[SIDE], dv[SIDE];
  for (int k = 0; k < SIDE; k++) {
    const augment_course *c = &b->course[k];
    u[k] = (int32_t)c->u, v[k] = (int32_t)c->v, du[k] = c->du, dv[k] = c->dv;
  }
  return courses_of(u, v, du, dv);
}

/* In the cell that begins at x, of a map that bends: u and v here and at the next cell, of each row in a quarter. */
INLINE courses bent_courses(const band *b, int x)
{
  const __m512i one = _mm512_set1_epi32(AUGMENT_ONE);
  int at = x / AUGMENT_CELL * 2;
  __m512i q = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(b->line[0] + at)));
  q = _mm512_inserti32x4(q, _mm_loadu_si128((const __m128i *)(b->line[1] + at)), 1);
  q = _mm512_inserti32x4(q, _mm_loadu_si128((const __m128i *)(b->line[2] + at)), 2);
  q = _mm512_inserti32x4(q, _mm_loadu_si128((const __m128i *)(b->line[3] + at)), 3);
  __m512i u = _mm512_shuffle_epi32(q, _MM_PERM_AAAA), v = _mm512_shuffle_epi32(q, _MM_PERM_BBBB);
  courses c = {.du = _mm512_srai_epi32(_mm512_sub_epi32(_mm512_shuffle_epi32(q, _MM_PERM_CCCC), u), 3),
               .dv = _mm512_srai_epi32(_mm512_sub_epi32(_mm512_shuffle_epi32(q, _MM_PERM_DDDD), v), 3)};
  c.u = _mm512_add_epi32(_mm512_add_epi32(u, one), times_column(c.du));
  c.v = _mm512_add_epi32(_mm512_add_epi32(v, one), times_column(c.dv));
  return c;
}

/* A block at x as three packed channels: in each quarter a row of four pixels. false: it needs more than a window. */
INLINE bool make_colours(const band *a, const courses *c, int x, bool bends, bool noise, bool blends, __m512i *bytes)
{
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, -1, -1, -1, -1));
  const augment_job *job = a->job;
  __m512i levels[3], level[3];
  __m512 t[3];
  block b;
  if (!locate(job, c, 3, bends, &b)) return false;
  fetch_colours(job, &b, levels);
  __m512i counter = _mm512_add_epi32(a->counter, _mm512_set1_epi32(3 * x));
#pragma GCC unroll 3
  for (int k = 0; k < 3; k++) t[k] = weigh(&b, levels[k]);
#pragma GCC unroll 3
  for (int k = 0; k < 3; k++)
    level[k] = finish(job, blends ? blended(job, t, k) : gained(job, t[k]), _mm512_add_epi32(counter, _mm512_set1_epi32(k)), noise);
  __m512i packed = _mm512_packus_epi16(_mm512_packs_epi32(level[0], level[1]), _mm512_packs_epi32(level[2], level[2]));
  *bytes = _mm512_shuffle_epi8(packed, order);
  return true;
}

/* Pixels x .. x + n of the band, by the path that can read from anywhere. */
static void make_slowly(const band *a, int x, int n, int channels)
{
  size_t row = (size_t)a->job->width * (size_t)channels;
  for (int k = 0; k < a->rows; k++) augment_part_avx2(a->job, a->line[k], a->y + k, x, n, a->out + (size_t)k * row + (size_t)(x * channels));
}

INLINE void store_colours(const band *a, int x, int n, __m512i bytes)
{
  size_t row = (size_t)a->job->width * 3;
  uint8_t quarter[4][16], *to = a->out + (size_t)x * 3;
  if ((size_t)x * 3 + sizeof quarter[0] > row) { /* 16 bytes would reach into the next row */
    _mm512_storeu_si512(quarter, bytes);
    for (int k = 0; k < a->rows; k++) memcpy(to + (size_t)k * row, quarter[k], (size_t)(3 * n));
    return;
  }
  _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(bytes));
  if (a->rows > 1) _mm_storeu_si128((__m128i *)(to + row), _mm512_extracti32x4_epi32(bytes, 1));
  if (a->rows > 2) _mm_storeu_si128((__m128i *)(to + 2 * row), _mm512_extracti32x4_epi32(bytes, 2));
  if (a->rows > 3) _mm_storeu_si128((__m128i *)(to + 3 * row), _mm512_extracti32x4_epi32(bytes, 3));
}

INLINE void paint_colours(const band *a, bool bends, bool noise, bool blends)
{
  const augment_job *job = a->job;
  courses c = bends ? bent_courses(a, 0) : straight_courses(a);
  for (int x = 0; x < job->width; x += SIDE) {
    int n = job->width - x < SIDE ? job->width - x : SIDE;
    __m512i bytes;
    if (bends && x % AUGMENT_CELL == 0) c = bent_courses(a, x);
    if (make_colours(a, &c, x, bends, noise, blends, &bytes)) store_colours(a, x, n, bytes);
    else make_slowly(a, x, n, 3);
    advance(&c);
  }
}

INLINE void store_gray(const band *a, int x, int n, const __m512i level[4])
{
  size_t row = (size_t)a->job->width;
  uint8_t quarter[4][16];
  __m512i bytes = _mm512_packus_epi16(_mm512_packs_epi32(level[0], level[1]), _mm512_packs_epi32(level[2], level[3]));
  _mm512_storeu_si512(quarter, bytes);
  for (int k = 0; k < a->rows; k++) {
    uint8_t *to = a->out + (size_t)k * row + (size_t)x;
    if (n == STRIP) memcpy(to, quarter[k], STRIP);
    else memcpy(to, quarter[k], (size_t)n);
  }
}

INLINE bool make_gray(const band *a, const courses *c, int x, bool bends, bool noise, __m512i *level)
{
  block b;
  if (!locate(a->job, c, 1, bends, &b)) return false;
  __m512i counter = _mm512_add_epi32(a->counter, _mm512_set1_epi32(x));
  *level = finish(a->job, gained(a->job, weigh(&b, fetch_gray(a->job, &b))), counter, noise);
  return true;
}

INLINE void paint_gray(const band *a, bool bends, bool noise)
{
  const augment_job *job = a->job;
  courses c = bends ? bent_courses(a, 0) : straight_courses(a);
  for (int x = 0; x < job->width; x += STRIP) {
    int n = job->width - x < STRIP ? job->width - x : STRIP;
    bool fits = true;
    __m512i level[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      int at = x + SIDE * k;
      level[k] = _mm512_setzero_si512();
      if (at >= job->width) continue;
      if (bends && k % 2 == 0) c = bent_courses(a, at);
      fits &= make_gray(a, &c, at, bends, noise, &level[k]);
      advance(&c);
    }
    if (fits) store_gray(a, x, n, level);
    else make_slowly(a, x, n, 1);
  }
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* A block of nearest classes, each in four bytes. */
INLINE bool make_classes(const augment_job *job, const courses *c, bool bends, __m512i *classes)
{
  const __m512i half = _mm512_set1_epi32(AUGMENT_ONE / 2);
  __m512i x = _mm512_srli_epi32(_mm512_add_epi32(keep_within(c->u, job->width), half), AUGMENT_FRACTION);
  __m512i y = _mm512_srli_epi32(_mm512_add_epi32(keep_within(c->v, job->height), half), AUGMENT_FRACTION);
  int x0 = _mm512_reduce_min_epi32(x), y0 = _mm512_reduce_min_epi32(y);
  x = _mm512_sub_epi32(x, _mm512_set1_epi32(x0));
  y = _mm512_sub_epi32(y, _mm512_set1_epi32(y0));
  if (bends && _mm512_cmpgt_epu32_mask(_mm512_or_si512(x, y), _mm512_set1_epi32(WINDOW_ROWS - 1))) return false;
  __m512i window = gray_window(job->padded + (size_t)y0 * job->stride + (size_t)x0, job->stride);
  __m512i index = _mm512_add_epi32(_mm512_slli_epi32(y, 3), x);
  *classes = _mm512_and_si512(_mm512_permutexvar_epi8(index, window), _mm512_set1_epi32(255));
  return true;
}

/* Pixels x .. x + n, one by one. */
static void look_up_classes(const band *a, int x, int n)
{
  const augment_job *job = a->job;
  for (int k = 0; k < a->rows; k++) {
    for (int i = 0; i < n; i++) {
      augment_course c = augment_course_on(a->line[k], x + i);
      int ahead = (x + i) % AUGMENT_CELL, u = (int)c.u + ahead * c.du, v = (int)c.v + ahead * c.dv;
      u = u < 0 ? 0 : u > (job->width + 1) << AUGMENT_FRACTION ? (job->width + 1) << AUGMENT_FRACTION : u;
      v = v < 0 ? 0 : v > (job->height + 1) << AUGMENT_FRACTION ? (job->height + 1) << AUGMENT_FRACTION : v;
      size_t row = (size_t)((v + AUGMENT_ONE / 2) >> AUGMENT_FRACTION), column = (size_t)((u + AUGMENT_ONE / 2) >> AUGMENT_FRACTION);
      a->out[(size_t)k * (size_t)job->width + (size_t)(x + i)] = job->padded[row * job->stride + column];
    }
  }
}

INLINE void paint_classes(const band *a, bool bends)
{
  const augment_job *job = a->job;
  courses c = bends ? bent_courses(a, 0) : straight_courses(a);
  for (int x = 0; x < job->width; x += STRIP) {
    int n = job->width - x < STRIP ? job->width - x : STRIP;
    bool fits = true;
    __m512i classes[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      int at = x + SIDE * k;
      classes[k] = _mm512_setzero_si512();
      if (at >= job->width) continue;
      if (bends && k % 2 == 0) c = bent_courses(a, at);
      fits &= make_classes(job, &c, bends, &classes[k]);
      advance(&c);
    }
    if (fits) store_gray(a, x, n, classes);
    else look_up_classes(a, x, n);
  }
}

/* ---- entry ----------------------------------------------------------------------------------- */

/* Whether 32 bits hold the course, from the image's first block to one behind its last. */
static bool is_short(const augment_job *job, const augment_course *c)
{
  int n = job->width + STRIP;
  return job->draw->bends || (augment_is_narrow(c->u, c->du, n) && augment_is_narrow(c->v, c->dv, n));
}

/* Whether what a block reads fits its window, wherever it lies: else each block would find out by itself. */
static bool fits(const augment_job *job)
{
  const double *m = job->draw->map;
  if (job->draw->bends) return true; /* this differs from block to block */
  double across = (SIDE - 1) * (fabs(m[0]) + fabs(m[1])), down = (SIDE - 1) * (fabs(m[3]) + fabs(m[4]));
  const double rounding = 0.001;
  return across + rounding < (job->channels == 3 ? WINDOW_RGB : WINDOW_GRAY) - 2 && down + rounding < WINDOW_ROWS - 2;
}

static bool begin(band *a)
{
  const augment_job *job = a->job;
  int last = a->y + a->rows - 1;
  int32_t first[SIDE];
  for (int k = 0; k < SIDE; k++) {
    int y = a->y + k < last ? a->y + k : last;
    a->line[k] = augment_line(job, k);
    a->course[k] = augment_course_of(job, y, a->line[k]);
    if (!is_short(job, &a->course[k])) return false;
    first[k] = (int32_t)((uint32_t)y * (uint32_t)job->width * (uint32_t)job->channels);
  }
  a->counter = _mm512_add_epi32(by_rows(first), times_column(_mm512_set1_epi32(job->channels)));
  return true;
}

static void paint_straight(const band *a, bool noise, bool blends)
{
  if (a->job->channels == 1) {
    if (noise) paint_gray(a, false, true);
    else paint_gray(a, false, false);
  } else if (blends) {
    if (noise) paint_colours(a, false, true, true);
    else paint_colours(a, false, false, true);
  } else {
    if (noise) paint_colours(a, false, true, false);
    else paint_colours(a, false, false, false);
  }
}

static void paint_bent(const band *a, bool noise, bool blends)
{
  if (a->job->channels == 1) {
    if (noise) paint_gray(a, true, true);
    else paint_gray(a, true, false);
  } else if (blends) {
    if (noise) paint_colours(a, true, true, true);
    else paint_colours(a, true, false, true);
  } else {
    if (noise) paint_colours(a, true, true, false);
    else paint_colours(a, true, false, false);
  }
}

void augment_warp_avx512(const augment_job *job, int y, int rows, uint8_t *out)
{
  band a = {.job = job, .out = out, .y = y, .rows = rows};
  bool noise = job->draw->noise > 0, blends = job->draw->blends;
  if (!fits(job) || !begin(&a)) augment_warp_avx2(job, y, rows, out);
  else if (job->draw->bends) paint_bent(&a, noise, blends);
  else paint_straight(&a, noise, blends);
}

void augment_mask_avx512(const augment_job *job, int y, int rows, uint8_t *out)
{
  band a = {.job = job, .out = out, .y = y, .rows = rows};
  if (!fits(job) || !begin(&a)) augment_mask_avx2(job, y, rows, out);
  else if (job->draw->bends) paint_classes(&a, true);
  else paint_classes(&a, false);
}

/* ---- tables ---------------------------------------------------------------------------------- */

void augment_look_up_avx512(const uint8_t table[256], const uint8_t *in, size_t n, uint8_t *levels)
{
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64), t2 = _mm512_loadu_si512(table + 128),
                t3 = _mm512_loadu_si512(table + 192);
  for (size_t i = 0; i < n; i += 64) {
    __mmask64 there = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
    __m512i v = _mm512_maskz_loadu_epi8(there, in + i);
    __m512i low = _mm512_permutex2var_epi8(t0, v, t1), high = _mm512_permutex2var_epi8(t2, v, t3);
    _mm512_mask_storeu_epi8(levels + i, there, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high));
  }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Every third byte from the first-th on of 64. */
INLINE __mmask64 thirds(int first)
{
  return (__mmask64)(0x9249249249249249u << first);
}

/* 192 bytes at a time, in which channels take the same places. */
void augment_sums_avx512(const uint8_t *in, size_t n, uint64_t sum[3])
{
  __m512i total[3] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  size_t i = 0;
  for (; i + 192 <= n; i += 192) {
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++) {
      __m512i v = _mm512_loadu_si512(in + i + 64 * k);
#pragma GCC unroll 3
      for (int c = 0; c < 3; c++) /* 64 bytes are one more than 21 pixels */
        total[c] = _mm512_add_epi64(total[c], _mm512_sad_epu8(_mm512_maskz_mov_epi8(thirds((c + 2 * k) % 3), v), _mm512_setzero_si512()));
    }
  }
  for (int c = 0; c < 3; c++) sum[c] += (uint64_t)_mm512_reduce_add_epi64(total[c]);
  for (; i < n; i++) sum[i % 3] += in[i];
}
