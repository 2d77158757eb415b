/* augment_avx512.c -- moves and colours pixels in blocks of four by four, for processors with AVX-512 VBMI and VNNI.
**
** Unless an image becomes much smaller, what 16 neighbours read lies within a few rows and columns: these are loaded
** once, and a permutation or two of bytes per channel fetch all four neighbours of all 16 pixels. Coordinates and
** weights serve all channels. Where more must be read, the AVX2 path does it. Arithmetic as in augment_avx2.c.
** SPDX-License-Identifier: Apache-2.0
*/
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "data/augment_rows.h"

enum {
  SIDE = 4,                        /* of a block */
  WIDE_GRAY = 8, WIDE_RGB = 10, WIDE_ROWS = 8, /* pixels across and rows of a window */
  NARROW_RGB = 7, NARROW_ROWS = 6, /* of one that takes two registers less: of turns up to 25 degrees, say */
  WIDE_BYTES = 32, NARROW_BYTES = 3 * NARROW_RGB, /* of its row */
  STRIP = 4 * SIDE,                /* gray: pixels that are packed together */
  OFFSET = 128 << AUGMENT_FRACTION,
  A_OR_B_AND_C = 0xf8, A_WHERE_C_ELSE_B = 0xe4, /* logic of three operands, bit by bit */
};
_Static_assert(SIDE == (int)AUGMENT_BAND && (int)AUGMENT_CELL % SIDE == 0,
               "a band has a row of blocks, a cell whole blocks");

#define INLINE static inline __attribute__((always_inline))

typedef int64_t __attribute__((aligned(1), may_alias)) unaligned_i64;

/* A constant that compilers keep in a register: making it anew for each block would take the port that permutes. */
INLINE __m512i kept(__m512i v)
{
  __asm__("" : "+v"(v));
  return v;
}

INLINE __m512i kept_words(int v)
{
  return kept(_mm512_set1_epi32(v));
}

INLINE __m512i kept_float(float v)
{
  return kept(_mm512_castps_si512(_mm512_set1_ps(v)));
}

INLINE __mmask64 kept_mask(__mmask64 k)
{
  __asm__("" : "+k"(k));
  return k;
}

/* What all blocks need. */
typedef struct {
  __m512i sign;           /* bytes: 128 */
  __m512i upper;          /* bits: the upper halves of lanes */
  __m512i quarters, down; /* orders of bytes: each lane's first, four times; its third as two words */
  __m512i neighbours;     /* bytes: how much further they lie in the small window */
  __m512i worth;          /* bytes: what pixel and row are worth in the small window's index */
  __m512i lower;          /* bytes: where the lower half of the small window begins */
  __m512i flip;           /* bytes 255, 0 */
  __m512i most;           /* words: 256 */
  __m512i offset, ones, first, half, order; /* levels lack 128; bytes 1; bytes 1, 0; f32 0.5; packed channels to
                                            ** pixels */
  __m512i gain, lift;     /* f32 */
  __m512i halves;         /* order of bytes: a lane's upper half to its lower */
  __m512i stir1, stir2, key, fewer, bell, noise, brightest; /* of noise; the last three f32 */
  __mmask64 row1, row2, even;
} constants;

void augment_warp_avx2(const augment_job *job, int y, int rows, uint8_t *out);
void augment_warp_avx512(const augment_job *job, int y, int rows, uint8_t *out);
void augment_mask_avx2(const augment_job *job, int y, int rows, uint8_t *out);
void augment_mask_avx512(const augment_job *job, int y, int rows, uint8_t *out);
void augment_look_up_avx512(const uint8_t table[256], const uint8_t *in, size_t n, uint8_t *levels);
void augment_sums_avx512(const uint8_t *in, size_t n, uint64_t sum[3]);

/* ---- where a block reads from ---------------------------------------------------------------- */

/* Where the blocks of a band read from, one after the other, in the order of a block's lanes: row by row. */
typedef struct {
  __m512i u, v;            /* of a map that does not bend: beyond the least of the block, else beyond 0 */
  __m512i du, dv;          /* of a map that bends: what they grow by from block to block */
  int32_t least_u, least_v, step_u, step_v; /* of a map that does not bend: the least, and what it grows by */
  uint32_t most_u, most_v; /* as long as 0 <= least_u <= most_u, all of the block's u lie within the image */
} courses;

/* a[k] in the four lanes of row k. */
INLINE __m512i by_rows(__m128i a)
{
  const __m512i row = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm512_permutexvar_epi32(row, _mm512_castsi128_si512(a));
}

/* 0, 1, 2 or 3 times each lane, by its place in its row. */
INLINE __m512i times_column(__m512i v)
{
  return _mm512_add_epi32(_mm512_maskz_mov_epi32(0xaaaa, v), _mm512_maskz_slli_epi32(0xcccc, v, 1));
}

/* Where u or v never are outside the image and its surroundings. */
INLINE int32_t last_of(int size)
{
  return (size + 1) << AUGMENT_FRACTION;
}

/* A block's pixels in its window. */
typedef struct {
  int x0, y0;      /* where the window begins */
  __m512i place;   /* of each lane, beyond that: the fraction of u, its whole, the fraction of v, its whole; a byte
                   ** each */
  bool narrow;     /* the small window is enough */
} block;

INLINE __m512i keep_within(__m512i at, int32_t last)
{
  return _mm512_min_epi32(_mm512_max_epi32(at, _mm512_setzero_si512()), _mm512_set1_epi32(last));
}

INLINE int32_t within(int32_t at, int32_t last)
{
  return at < 0 ? 0 : at > last ? last : at;
}

/* u and v beyond where the window begins, so below 2^24. */
INLINE __m512i place_of(const constants *k, __m512i u, __m512i v)
{
  return _mm512_ternarylogic_epi32(_mm512_srli_epi32(u, 8), _mm512_slli_epi32(v, 8), k->upper, A_OR_B_AND_C);
}

/* ahead: added to u and v once they are clamped. */
INLINE block straight_block(const augment_job *job, const constants *k, const courses *c, int32_t ahead, bool narrow)
{
  const int32_t fraction = AUGMENT_ONE - 1;
  if ((uint32_t)c->least_u <= c->most_u && (uint32_t)c->least_v <= c->most_v) {
    __m512i u = _mm512_add_epi32(c->u, _mm512_set1_epi32((c->least_u & fraction) + ahead));
    __m512i v = _mm512_add_epi32(c->v, _mm512_set1_epi32((c->least_v & fraction) + ahead));
    return (block){c->least_u >> AUGMENT_FRACTION, c->least_v >> AUGMENT_FRACTION, place_of(k, u, v), narrow};
  }
  int32_t x0 = within(c->least_u, last_of(job->width)) & ~fraction,
      y0 = within(c->least_v, last_of(job->height)) & ~fraction;
  __m512i u = keep_within(_mm512_add_epi32(c->u, _mm512_set1_epi32(c->least_u)), last_of(job->width));
  __m512i v = keep_within(_mm512_add_epi32(c->v, _mm512_set1_epi32(c->least_v)), last_of(job->height));
  u = _mm512_add_epi32(u, _mm512_set1_epi32(ahead - x0));
  v = _mm512_add_epi32(v, _mm512_set1_epi32(ahead - y0));
  return (block){x0 >> AUGMENT_FRACTION, y0 >> AUGMENT_FRACTION, place_of(k, u, v), narrow};
}

/* The least of the lower and of the upper halves of all lanes. */
INLINE uint32_t least_halves(__m512i v)
{
  __m256i w = _mm256_min_epu16(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  __m128i q = _mm_min_epu16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
  q = _mm_min_epu16(q, _mm_shuffle_epi32(q, _MM_SHUFFLE(1, 0, 3, 2)));
  q = _mm_min_epu16(q, _mm_shuffle_epi32(q, _MM_SHUFFLE(2, 3, 0, 1)));
  return (uint32_t)_mm_cvtsi128_si32(q);
}

/* Whether any lane's place has more than so many pixels to the right or below. */
INLINE bool exceeds(__m512i wholes, int across, int down)
{
  return _mm512_cmpgt_epu16_mask(wholes, _mm512_set1_epi32(down << 16 | across)) != 0;
}

/* false: the block needs more than a window of so many pixels across. */
INLINE bool bent_block(const augment_job *job, const constants *k, const courses *c, int32_t ahead, int across,
                       block *b)
{
  __m512i u = keep_within(c->u, last_of(job->width)), v = keep_within(c->v, last_of(job->height));
  if (ahead) u = _mm512_add_epi32(u, _mm512_set1_epi32(ahead)), v = _mm512_add_epi32(v, _mm512_set1_epi32(ahead));
  __m512i wholes = _mm512_ternarylogic_epi32(_mm512_srli_epi32(u, 16), v, k->upper, A_OR_B_AND_C);
  uint32_t least = least_halves(wholes);
  wholes = _mm512_sub_epi16(wholes, _mm512_set1_epi32((int)least));
  b->x0 = (int)(least & 0xffff), b->y0 = (int)(least >> 16);
  b->narrow = !exceeds(wholes, NARROW_RGB - 2, NARROW_ROWS - 2);
  if (!b->narrow && exceeds(wholes, across - 2, WIDE_ROWS - 2)) return false;
  __m512i fractions = _mm512_ternarylogic_epi32(_mm512_slli_epi32(v, 8), _mm512_srli_epi32(u, 8), k->upper,
                                                A_WHERE_C_ELSE_B);
  b->place = _mm512_ternarylogic_epi32(_mm512_slli_epi16(wholes, 8), fractions, k->flip, A_OR_B_AND_C);
  return true;
}

/* Where a lane's upper left neighbour lies in a window, four times in its bytes. worth: of pixel and row. */
INLINE __m512i index_of(const constants *k, const block *b, __m512i worth)
{
  return _mm512_shuffle_epi8(_mm512_dpbusd_epi32(_mm512_setzero_si512(), b->place, worth), k->quarters);
}

INLINE __m512i worth_of(int pixel, int row)
{
  return _mm512_set1_epi32(row << 24 | pixel << 8);
}

/* ---- neighbours ------------------------------------------------------------------------------ */

/* Rows of eight pixels from p on, most of a window. */
INLINE __m512i gray_window(const uint8_t *p, size_t stride, bool narrow)
{
  __m512i w = _mm512_castsi128_si512(_mm_loadl_epi64((const __m128i *)p));
#pragma GCC unroll 8
  for (int k = 1; k < WIDE_ROWS; k++) {
    if (k == NARROW_ROWS && narrow) break;
    w = _mm512_mask_set1_epi64(w, (__mmask8)(1 << k), *(const unaligned_i64 *)(p + (size_t)k * stride));
  }
  return w;
}

/* Of each pixel: upper left, upper right, lower left, lower right; all levels less 128. */
INLINE __m512i fetch_gray(const augment_job *job, const constants *k, const block *b)
{
  const uint8_t *p = job->padded + (size_t)b->y0 * job->stride + (size_t)b->x0;
  __m512i index = _mm512_add_epi8(index_of(k, b, k->worth), k->neighbours);
  __m512i window = _mm512_xor_si512(gray_window(p, job->stride, b->narrow), k->sign);
  return _mm512_permutexvar_epi8(index, window);
}

/* Rows 0 to 2 lie in one register, 3 to 5 in the other. */
INLINE void narrow_colours(const constants *k, const block *b, const uint8_t *p, size_t stride, __m512i out[3])
{
  const uint8_t *q = p + 3 * stride;
  __m512i upper = _mm512_loadu_si512(p), lower = _mm512_loadu_si512(q);
  upper = _mm512_mask_loadu_epi8(upper, k->row1, p + stride - NARROW_BYTES);
  lower = _mm512_mask_loadu_epi8(lower, k->row1, q + stride - NARROW_BYTES);
  upper = _mm512_mask_loadu_epi8(upper, k->row2, p + 2 * (stride - NARROW_BYTES));
  lower = _mm512_mask_loadu_epi8(lower, k->row2, q + 2 * (stride - NARROW_BYTES));
  upper = _mm512_xor_si512(upper, k->sign);
  lower = _mm512_xor_si512(lower, k->sign);
  __m512i at = _mm512_add_epi8(index_of(k, b, k->worth), k->neighbours);
  __mmask64 below = _mm512_cmpge_epu8_mask(at, k->lower); /* whatever the channel */
#pragma GCC unroll 3
  for (int c = 0; c < 3; c++) {
    __m512i next = _mm512_add_epi8(at, k->ones); /* three rows are 63 bytes, and permutations count modulo 64 */
    out[c] = _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(at, upper), below, next, lower);
    at = next;
  }
}

INLINE __m512i two_rows(const constants *k, const uint8_t *p, size_t stride)
{
  __m512i rows = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p)),
                                    _mm256_loadu_si256((const __m256i *)(p + stride)), 1);
  return _mm512_xor_si512(rows, k->sign);
}

INLINE void wide_colours(const constants *k, const block *b, const uint8_t *p, size_t stride, __m512i out[3])
{
  size_t two = 2 * stride;
  __m512i w0 = two_rows(k, p, stride), w1 = two_rows(k, p + two, stride), w2 = two_rows(k, p + 2 * two, stride),
          w3 = two_rows(k, p + 3 * two, stride);
  __m512i index = _mm512_add_epi8(index_of(k, b, worth_of(3, WIDE_BYTES)), _mm512_set1_epi32(0x23200300));
  __mmask64 lower = _mm512_movepi8_mask(index); /* whatever the channel: a row is 32 bytes */
#pragma GCC unroll 3
  for (int c = 0; c < 3; c++) {
    __m512i at = _mm512_add_epi8(index, _mm512_set1_epi8((char)c));
    out[c] = _mm512_mask_blend_epi8(lower, _mm512_permutex2var_epi8(w0, at, w1), _mm512_permutex2var_epi8(w2, at, w3));
  }
}

INLINE void fetch_colours(const augment_job *job, const constants *k, const block *b, __m512i out[3])
{
  const uint8_t *p = job->padded + (size_t)b->y0 * job->stride + (size_t)b->x0 * 3;
  if (b->narrow) narrow_colours(k, b, p, job->stride, out);
  else wide_colours(k, b, p, job->stride, out);
}

/* What neighbours weigh. */
typedef struct {
  __m512i across; /* bytes 255 - f, f, twice */
  __m512i down;   /* words 256 - f, f */
} weights;

INLINE weights weights_of(const constants *k, const block *b)
{
  __m512i fy = _mm512_shuffle_epi8(b->place, k->down);
  return (weights){_mm512_xor_si512(_mm512_shuffle_epi8(b->place, k->quarters), k->flip),
                   _mm512_mask_sub_epi16(fy, (__mmask32)k->even, k->most, fy)};
}

/* Sums of four weighed levels that lack 128, times 65536, as f32. */
INLINE __m512 weigh(const constants *k, const weights *w, __m512i l)
{
  __m512i h = _mm512_add_epi16(_mm512_maddubs_epi16(w->across, l), _mm512_maddubs_epi16(k->first, l));
  return _mm512_cvtepi32_ps(_mm512_dpwssd_epi32(k->offset, h, w->down));
}

/* ---- colour ---------------------------------------------------------------------------------- */

INLINE __m512i stir(const constants *k, __m512i x)
{
  x = _mm512_xor_si512(x, _mm512_shuffle_epi8(x, k->halves));
  x = _mm512_mullo_epi32(x, k->stir1);
  x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 15));
  x = _mm512_mullo_epi32(x, k->stir2);
  return _mm512_xor_si512(x, _mm512_shuffle_epi8(x, k->halves));
}

/* Noise of one value per lane. */
INLINE __m512 noise_of(const constants *k, __m512i counter)
{
  __m512i r = stir(k, _mm512_add_epi32(stir(k, counter), k->key));
  __m512i sum = _mm512_dpbusd_epi32(k->fewer, r, k->ones);
  return _mm512_mul_ps(_mm512_castsi512_ps(k->noise),
                       _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_castsi512_ps(k->bell)));
}

/* Clipped only where noise is added: packing to bytes clips too. */
INLINE __m512i finish(const constants *k, __m512 t, const __m512 *noise)
{
  if (noise)
    t = _mm512_add_ps(_mm512_min_ps(_mm512_max_ps(t, _mm512_setzero_ps()), _mm512_castsi512_ps(k->brightest)), *noise);
  return _mm512_cvttps_epi32(_mm512_add_ps(t, _mm512_castsi512_ps(k->half)));
}

INLINE __m512 gained(const constants *k, __m512 t)
{
  return _mm512_add_ps(_mm512_mul_ps(t, _mm512_castsi512_ps(k->gain)), _mm512_castsi512_ps(k->lift));
}

INLINE __m512 blended(const augment_job *job, const __m512 t[3], int c)
{
  const float *m = job->colour + 3 * c;
  __m512 rg = _mm512_add_ps(_mm512_mul_ps(t[0], _mm512_set1_ps(m[0])), _mm512_mul_ps(t[1], _mm512_set1_ps(m[1])));
  return _mm512_add_ps(_mm512_add_ps(rg, _mm512_mul_ps(t[2], _mm512_set1_ps(m[2]))), _mm512_set1_ps(job->lift));
}

INLINE constants constants_of(const augment_job *job)
{
  const __m128i packed = _mm_setr_epi8(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, -1, -1, -1, -1);
  bool gray = job->channels == 1;
  return (constants){
    .sign = kept_words((int)0x80808080u), .upper = kept_words((int)0xffff0000u),
    .quarters = kept(_mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0)),
    .down = kept(_mm512_set4_epi32((int)0x800e800eu, (int)0x800a800au, (int)0x80068006u, (int)0x80028002u)),
    .neighbours = kept_words(gray ? 0x09080100 : 0x18150300),
    .worth = kept(gray ? worth_of(1, 8) : worth_of(3, NARROW_BYTES)), .lower = kept(_mm512_set1_epi8(3 * NARROW_BYTES)),
    .flip = kept_words(0x00ff00ff), .most = kept_words(0x01000100), .offset = kept_words(OFFSET),
    .ones = kept_words(0x01010101), .first = kept_words(0x00010001),
    .halves = kept(_mm512_set4_epi32((int)0x80800f0eu, (int)0x80800b0au, (int)0x80800706u, (int)0x80800302u)),
    .stir1 = kept_words(0x7feb352d), .stir2 = kept_words((int)0x846ca68bu),
    .key = kept_words((int)job->draw->noise_key), .fewer = kept_words(-510), .bell = kept_float(1 / 147.8f),
    .noise = kept_float(job->draw->noise), .brightest = kept_float(255), .half = kept_float(0.5f),
    .order = kept(_mm512_broadcast_i32x4(packed)), .gain = kept_float(job->gain), .lift = kept_float(job->lift),
    .row1 = kept_mask(~(__mmask64)0 << NARROW_BYTES), .row2 = kept_mask(~(__mmask64)0 << 2 * NARROW_BYTES),
    .even = kept_mask(0x55555555)};
}

/* ---- bands ----------------------------------------------------------------------------------- */

/* Rows of a band as it is made; behind the image's last they repeat it. */
typedef struct {
  const augment_job *job;
  uint8_t *out;
  int y, rows;
  bool narrow;           /* of a map that does not bend: blocks need no more than the small window */
  augment_course course[SIDE];
  int32_t *line[SIDE];   /* of a map that bends */
  __m512i counter;       /* of lanes' first values at x = 0 */
} band;

/* at[k]: where row k begins, beyond the least of which the lanes lie. */
INLINE __m512i spread(const int32_t at[SIDE], int32_t pace, int size, int32_t *least, uint32_t *most)
{
  int32_t low = at[0], high = at[0], across = (SIDE - 1) * pace;
  for (int k = 1; k < SIDE; k++) {
    low = at[k] < low ? at[k] : low;
    high = at[k] > high ? at[k] : high;
  }
  int32_t extent = high - low + (across < 0 ? -across : across);
  *least = low + (across < 0 ? across : 0);
  *most = (uint32_t)(last_of(size) > extent ? last_of(size) - extent : 0);
  __m512i rows = by_rows(_mm_setr_epi32(at[0] - *least, at[1] - *least, at[2] - *least, at[3] - *least));
  return _mm512_add_epi32(rows, times_column(_mm512_set1_epi32(pace)));
}

INLINE courses straight_courses(const band *b)
{
  int32_t u[SIDE], v[SIDE], du = b->course[0].du, dv = b->course[0].dv;
  courses c = {.step_u = SIDE * du, .step_v = SIDE * dv};
  for (int k = 0; k < SIDE; k++) u[k] = (int32_t)b->course[k].u, v[k] = (int32_t)b->course[k].v;
  c.u = spread(u, du, b->job->width, &c.least_u, &c.most_u);
  c.v = spread(v, dv, b->job->height, &c.least_v, &c.most_v);
  return c;
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
  __m512i du = _mm512_srai_epi32(_mm512_sub_epi32(_mm512_shuffle_epi32(q, _MM_PERM_CCCC), u), 3);
  __m512i dv = _mm512_srai_epi32(_mm512_sub_epi32(_mm512_shuffle_epi32(q, _MM_PERM_DDDD), v), 3);
  return (courses){.u = _mm512_add_epi32(_mm512_add_epi32(u, one), times_column(du)), .du = _mm512_slli_epi32(du, 2),
                   .v = _mm512_add_epi32(_mm512_add_epi32(v, one), times_column(dv)), .dv = _mm512_slli_epi32(dv, 2)};
}

INLINE void advance(courses *c, bool bends)
{
  if (bends) {
    c->u = _mm512_add_epi32(c->u, c->du);
    c->v = _mm512_add_epi32(c->v, c->dv);
  } else {
    c->least_u += c->step_u;
    c->least_v += c->step_v;
  }
}

/* A block at x as three packed channels: in each quarter a row of four pixels. false: it needs more than a window. */
INLINE bool make_colours(const band *a, const constants *k, const courses *c, int x, bool bends, bool noise,
                         bool blends, __m512i *bytes)
{
  const augment_job *job = a->job;
  __m512i levels[3], level[3];
  __m512 t[3], noises[3];
  block b;
  if (!bends) b = straight_block(job, k, c, 0, a->narrow);
  else if (!bent_block(job, k, c, 0, WIDE_RGB, &b)) return false;
  fetch_colours(job, k, &b, levels);
  weights w = weights_of(k, &b);
  if (noise) {
    __m512i counter = _mm512_add_epi32(a->counter, _mm512_set1_epi32(3 * x));
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) noises[i] = noise_of(k, _mm512_add_epi32(counter, _mm512_set1_epi32(i)));
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; i++) t[i] = weigh(k, &w, levels[i]);
#pragma GCC unroll 3
  for (int i = 0; i < 3; i++)
    level[i] = finish(k, blends ? blended(job, t, i) : gained(k, t[i]), noise ? &noises[i] : NULL);
  __m512i packed = _mm512_packus_epi16(_mm512_packs_epi32(level[0], level[1]), _mm512_packs_epi32(level[2], level[2]));
  *bytes = _mm512_shuffle_epi8(packed, k->order);
  return true;
}

/* Pixels x .. x + n of the band, by the path that can read from anywhere. */
static void make_slowly(const band *a, int x, int n, int channels)
{
  size_t row = (size_t)a->job->width * (size_t)channels;
  for (int k = 0; k < a->rows; k++)
    augment_part_avx2(a->job, a->line[k], a->y + k, x, n, a->out + (size_t)k * row + (size_t)(x * channels));
}

/* The first n of each quarter's bytes to the band's rows; whole: 16 may be written. */
INLINE void store_quarters(const band *a, size_t at, size_t n, bool whole, size_t row, __m512i bytes)
{
  uint8_t quarter[4][16], *to = a->out + at;
  if (!whole) {
    _mm512_storeu_si512(quarter, bytes);
    for (int k = 0; k < a->rows; k++) memcpy(to + (size_t)k * row, quarter[k], n);
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
  size_t row = (size_t)job->width * 3;
  const constants constant = constants_of(job);
  courses c = bends ? bent_courses(a, 0) : straight_courses(a);
  for (int x = 0; x < job->width; x += SIDE) {
    int n = job->width - x < SIDE ? job->width - x : SIDE;
    size_t at = (size_t)x * 3;
    __m512i bytes;
    if (bends && x % AUGMENT_CELL == 0) c = bent_courses(a, x);
    if (make_colours(a, &constant, &c, x, bends, noise, blends, &bytes))
      store_quarters(a, at, (size_t)n * 3, at + 16 <= row, row, bytes);
    else make_slowly(a, x, n, 3);
    advance(&c, bends);
  }
}

INLINE void store_gray(const band *a, int x, int n, const __m512i level[4])
{
  __m512i bytes = _mm512_packus_epi16(_mm512_packs_epi32(level[0], level[1]), _mm512_packs_epi32(level[2], level[3]));
  store_quarters(a, (size_t)x, (size_t)n, n == STRIP, (size_t)a->job->width, bytes);
}

INLINE bool make_gray(const band *a, const constants *k, const courses *c, int x, bool bends, bool noise,
                      __m512i *level)
{
  block b;
  if (!bends) b = straight_block(a->job, k, c, 0, a->narrow);
  else if (!bent_block(a->job, k, c, 0, WIDE_GRAY, &b)) return false;
  weights w = weights_of(k, &b);
  __m512 more = noise ? noise_of(k, _mm512_add_epi32(a->counter, _mm512_set1_epi32(x))) : _mm512_setzero_ps();
  *level = finish(k, gained(k, weigh(k, &w, fetch_gray(a->job, k, &b))), noise ? &more : NULL);
  return true;
}

INLINE void paint_gray(const band *a, bool bends, bool noise)
{
  const augment_job *job = a->job;
  const constants constant = constants_of(job);
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
      fits &= make_gray(a, &constant, &c, at, bends, noise, &level[k]);
      advance(&c, bends);
    }
    if (fits) store_gray(a, x, n, level);
    else make_slowly(a, x, n, 1);
  }
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* A block of nearest classes, each in four bytes. */
INLINE bool make_classes(const band *a, const constants *k, const courses *c, bool bends, __m512i *classes)
{
  const augment_job *job = a->job;
  block b;
  if (!bends) b = straight_block(job, k, c, AUGMENT_ONE / 2, a->narrow);
  else if (!bent_block(job, k, c, AUGMENT_ONE / 2, WIDE_GRAY, &b)) return false;
  __m512i window = gray_window(job->padded + (size_t)b.y0 * job->stride + (size_t)b.x0, job->stride, b.narrow);
  __m512i index = _mm512_dpbusd_epi32(_mm512_setzero_si512(), b.place, k->worth);
  *classes = _mm512_maskz_permutexvar_epi8(0x1111111111111111, index, window);
  return true;
}

/* Pixels x .. x + n, one by one. */
static void look_up_classes(const band *a, int x, int n)
{
  const augment_job *job = a->job;
  for (int k = 0; k < a->rows; k++) {
    for (int i = 0; i < n; i++) {
      augment_course c = augment_course_on(a->line[k], x + i);
      int ahead = (x + i) % AUGMENT_CELL;
      int u = within((int)c.u + ahead * c.du, last_of(job->width)),
          v = within((int)c.v + ahead * c.dv, last_of(job->height));
      size_t row = (size_t)((v + AUGMENT_ONE / 2) >> AUGMENT_FRACTION),
          column = (size_t)((u + AUGMENT_ONE / 2) >> AUGMENT_FRACTION);
      a->out[(size_t)k * (size_t)job->width + (size_t)(x + i)] = job->padded[row * job->stride + column];
    }
  }
}

INLINE void paint_classes(const band *a, bool bends)
{
  const augment_job *job = a->job;
  const constants constant = constants_of(job);
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
      fits &= make_classes(a, &constant, &c, bends, &classes[k]);
      advance(&c, bends);
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

/* Whether what a block reads fits a window of so many pixels and rows, wherever it lies. */
static bool fits(const augment_job *job, int pixels, int rows)
{
  const double *m = job->draw->map, rounding = 0.001;
  double across = (SIDE - 1) * (fabs(m[0]) + fabs(m[1])), down = (SIDE - 1) * (fabs(m[3]) + fabs(m[4]));
  return across + rounding < pixels - 2 && down + rounding < rows - 2;
}

/* false: the other path must make the band. Of a map that bends this differs from block to block. */
static bool begin(band *a)
{
  const augment_job *job = a->job;
  int last = a->y + a->rows - 1;
  uint32_t first[SIDE];
  if (!job->draw->bends && !fits(job, job->channels == 3 ? WIDE_RGB : WIDE_GRAY, WIDE_ROWS)) return false;
  a->narrow = fits(job, NARROW_RGB, NARROW_ROWS);
  for (int k = 0; k < SIDE; k++) {
    int y = a->y + k < last ? a->y + k : last;
    a->line[k] = augment_line(job, k);
    a->course[k] = augment_course_of(job, y, a->line[k]);
    if (!is_short(job, &a->course[k])) return false;
    first[k] = (uint32_t)y * (uint32_t)job->width * (uint32_t)job->channels;
  }
  a->counter = by_rows(_mm_setr_epi32((int)first[0], (int)first[1], (int)first[2], (int)first[3]));
  a->counter = _mm512_add_epi32(a->counter, times_column(_mm512_set1_epi32(job->channels)));
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
  if (!begin(&a)) augment_warp_avx2(job, y, rows, out);
  else if (job->draw->bends) paint_bent(&a, noise, blends);
  else paint_straight(&a, noise, blends);
}

void augment_mask_avx512(const augment_job *job, int y, int rows, uint8_t *out)
{
  band a = {.job = job, .out = out, .y = y, .rows = rows};
  if (!begin(&a)) augment_mask_avx2(job, y, rows, out);
  else if (job->draw->bends) paint_classes(&a, true);
  else paint_classes(&a, false);
}

/* ---- tables ---------------------------------------------------------------------------------- */

void augment_look_up_avx512(const uint8_t table[256], const uint8_t *in, size_t n, uint8_t *levels)
{
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64),
  t2 = _mm512_loadu_si512(table + 128),
                t3 = _mm512_loadu_si512(table + 192);
  for (size_t i = 0; i < n; i += 64) {
    __mmask64 there = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
    __m512i v = _mm512_maskz_loadu_epi8(there, in + i);
    __m512i low = _mm512_permutex2var_epi8(t0, v, t1), high = _mm512_permutex2var_epi8(t2, v, t3);
    _mm512_mask_storeu_epi8(levels + i, there, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high));
  }
}

/* ---- sums ------------------------------------------------------------------------------------ */

enum { AHEAD = 2048 }; /* bytes: images are too far away for what processors fetch ahead by themselves */

/* 192 bytes at a time, in which channels take the same places, in 16 bits for as long as they hold. */
void augment_sums_avx512(const uint8_t *in, size_t n, uint64_t sum[3])
{
  enum { BLOCK = 192, BLOCKS = 256 };
  const __m512i low = _mm512_set1_epi16(255);
  size_t i = 0;
  while (n - i >= BLOCK) {
    __m512i even[3], odd[3];
    uint16_t column[2][BLOCK / 2];
    for (int k = 0; k < 3; k++) even[k] = odd[k] = _mm512_setzero_si512();
    for (int block = 0; block < BLOCKS && n - i >= BLOCK; block++, i += BLOCK) {
#pragma GCC unroll 3
      for (int k = 0; k < 3; k++) {
        const uint8_t *at = in + i + 64 * k;
        __m512i v = _mm512_loadu_si512(at);
        _mm_prefetch((const char *)at + AHEAD, _MM_HINT_T0);
        even[k] = _mm512_add_epi16(even[k], _mm512_and_si512(v, low));
        odd[k] = _mm512_add_epi16(odd[k], _mm512_srli_epi16(v, 8));
      }
    }
    for (int k = 0; k < 3; k++) {
      _mm512_storeu_si512(column[0] + 32 * k, even[k]);
      _mm512_storeu_si512(column[1] + 32 * k, odd[k]);
    }
    for (int k = 0; k < BLOCK; k++) sum[k % 3] += column[k % 2][k / 2];
  }
  for (; i < n; i++) sum[i % 3] += in[i];
}
