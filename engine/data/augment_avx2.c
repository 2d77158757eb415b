/* augment_avx2.c -- moves and colours pixels eight at a time, for processors with AVX2.
**
** Gathers are slow, so each pixel is loaded by itself: eight bytes hold a pixel and its right neighbour in colour; four
** bytes of a buffer in which two rows alternate hold all four neighbours in gray. Two multiply-adds of bytes and words
** weigh them. Weights of 8 bits go up to 256, which no byte holds: a weight of 256 - f is 255 - f and one more. Bytes
** are signed to these instructions, so levels are used less 128, of which 128 * 65536 is left to be added in the end.
** SPDX-License-Identifier: Apache-2.0
*/
#include <immintrin.h>
#include <string.h>

#include "data/augment_rows.h"

enum { GROUP = 8, OFFSET = 128 << AUGMENT_FRACTION };
_Static_assert(GROUP == (int)AUGMENT_CELL, "a group has one course");

#define INLINE static inline __attribute__((always_inline))

/* ---- where eight pixels read from ------------------------------------------------------------ */

typedef struct {
  int32_t at[GROUP];  /* bytes from the padded source's start */
  __m256i across;     /* of each pixel, bytes 255 - f, f, twice */
  __m256i down;       /* of each pixel, words 256 - f, f */
} places;

INLINE __m256i follow(int64_t start, int32_t pace, int last)
{
  const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  int32_t most = (last + 1) << AUGMENT_FRACTION;
  if (augment_is_narrow(start, pace, GROUP)) {
    __m256i at = _mm256_add_epi32(_mm256_set1_epi32((int32_t)start),
                                  _mm256_mullo_epi32(steps, _mm256_set1_epi32(pace)));
    return _mm256_min_epi32(_mm256_max_epi32(at, _mm256_setzero_si256()), _mm256_set1_epi32(most));
  }
  int32_t each[GROUP];
  for (int x = 0; x < GROUP; x++) {
    int64_t at = start + (int64_t)x * pace;
    each[x] = (int32_t)(at < 0 ? 0 : at > most ? most : at);
  }
  return _mm256_loadu_si256((const __m256i *)each);
}

/* pairs: rows alternate in what is read, so the first multiplication goes down. */
INLINE void locate(const augment_job *job, const augment_course *course, int pixel_bytes, bool pairs, places *p)
{
  int row_bytes = (int)job->stride * (pairs ? 2 : 1);
  const __m256i ff = _mm256_set1_epi32(255);
  __m256i u = follow(course->u, course->du, job->width), v = follow(course->v, course->dv, job->height);
  __m256i x = _mm256_srli_epi32(u, AUGMENT_FRACTION), y = _mm256_srli_epi32(v, AUGMENT_FRACTION);
  __m256i at = _mm256_add_epi32(_mm256_mullo_epi32(y, _mm256_set1_epi32(row_bytes)),
                                _mm256_mullo_epi32(x, _mm256_set1_epi32(pixel_bytes)));
  _mm256_storeu_si256((__m256i *)p->at, at);
  __m256i fx = _mm256_and_si256(_mm256_srli_epi32(u, 8), ff), fy = _mm256_and_si256(_mm256_srli_epi32(v, 8), ff);
  if (pairs) {
    __m256i t = fx;
    fx = fy;
    fy = t;
  }
  __m256i bytes = _mm256_or_si256(_mm256_sub_epi32(ff, fx), _mm256_slli_epi32(fx, 8));
  p->across = _mm256_or_si256(bytes, _mm256_slli_epi32(bytes, 16));
  p->down = _mm256_or_si256(_mm256_sub_epi32(_mm256_set1_epi32(256), fy), _mm256_slli_epi32(fy, 16));
}

/* Sums of four weighed levels, times 65536, as f32. */
INLINE __m256 weigh(__m256i levels, __m256i across, __m256i down)
{
  const __m256i one_more = _mm256_set1_epi16(1);
  __m256i l = _mm256_xor_si256(levels, _mm256_set1_epi8((char)0x80));
  __m256i h = _mm256_add_epi16(_mm256_maddubs_epi16(across, l), _mm256_maddubs_epi16(one_more, l));
  __m256i sum = _mm256_madd_epi16(h, down);
  return _mm256_cvtepi32_ps(_mm256_add_epi32(sum, _mm256_set1_epi32(OFFSET)));
}

/* ---- colour ---------------------------------------------------------------------------------- */

INLINE __m256i stir(__m256i x)
{
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
  x = _mm256_mullo_epi32(x, _mm256_set1_epi32(0x7feb352d));
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
  x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int)0x846ca68bu));
  return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
}

INLINE __m256 clip(__m256 t)
{
  return _mm256_min_ps(_mm256_max_ps(t, _mm256_setzero_ps()), _mm256_set1_ps(255));
}

/* Clipped only where noise is added: packing to bytes clips too. */
INLINE __m256i finish(const augment_job *job, __m256 t, __m256i counter, bool noise)
{
  if (noise) {
    __m256i r = stir(_mm256_add_epi32(stir(counter), _mm256_set1_epi32((int)job->draw->noise_key)));
    __m256i pairs = _mm256_maddubs_epi16(r, _mm256_set1_epi8(1));
    __m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    __m256 bell = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(sum, _mm256_set1_epi32(510))),
                                _mm256_set1_ps(1 / 147.8f));
    t = _mm256_add_ps(clip(t), _mm256_mul_ps(_mm256_set1_ps(job->draw->noise), bell));
  }
  return _mm256_cvttps_epi32(_mm256_add_ps(t, _mm256_set1_ps(0.5f)));
}

INLINE __m256 tint(const augment_job *job, __m256 t, bool blends)
{
  const float *m = job->colour;
  __m256 lift = _mm256_set1_ps(job->lift);
  if (!blends) return _mm256_add_ps(_mm256_mul_ps(t, _mm256_set1_ps(job->gain)), lift);
  __m256 r = _mm256_mul_ps(_mm256_shuffle_ps(t, t, 0x00), _mm256_setr_ps(m[0], m[3], m[6], 0, m[0], m[3], m[6], 0));
  __m256 g = _mm256_mul_ps(_mm256_shuffle_ps(t, t, 0x55), _mm256_setr_ps(m[1], m[4], m[7], 0, m[1], m[4], m[7], 0));
  __m256 b = _mm256_mul_ps(_mm256_shuffle_ps(t, t, 0xaa), _mm256_setr_ps(m[2], m[5], m[8], 0, m[2], m[5], m[8], 0));
  return _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(r, g), b), lift);
}

/* ---- eight pixels ---------------------------------------------------------------------------- */

/* Pixels k and k + 4, each in a half: levels of red, green and blue as four bytes each. */
INLINE __m256i load_pair(const augment_job *job, const places *p, int k)
{
  const uint8_t *one = job->padded + p->at[k], *two = job->padded + p->at[k + 4];
  const __m256i order = _mm256_setr_epi8(0, 3, 8, 11, 1, 4, 9, 12, 2, 5, 10, 13, -1, -1, -1, -1, 0, 3, 8, 11, 1, 4, 9,
                                         12, 2, 5, 10, 13, -1, -1, -1, -1);
  __m256i above = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)one)),
                                          _mm_loadu_si128((const __m128i *)two), 1);
  __m256i below = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(one + job->stride))),
                                          _mm_loadu_si128((const __m128i *)(two + job->stride)), 1);
  return _mm256_shuffle_epi8(_mm256_unpacklo_epi64(above, below), order);
}

INLINE void paint_colours(const augment_job *job, const places *p, uint32_t counter, bool noise, bool blends,
                          uint8_t *out)
{
  const __m256i dense = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0, 1, 2, 4, 5, 6, 8, 9,
                                         10, 12, 13, 14, -1, -1, -1, -1);
  __m256i level[4], count = _mm256_add_epi32(_mm256_set1_epi32((int)counter),
                                             _mm256_setr_epi32(0, 1, 2, 3, 12, 13, 14, 15));
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) {
    const __m256i pick = _mm256_setr_epi32(k, k, k, k, k + 4, k + 4, k + 4, k + 4);
    __m256 t = weigh(load_pair(job, p, k), _mm256_permutevar8x32_epi32(p->across, pick),
                     _mm256_permutevar8x32_epi32(p->down, pick));
    level[k] = finish(job, tint(job, t, blends), _mm256_add_epi32(count, _mm256_set1_epi32(3 * k)), noise);
  }
  __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(level[0], level[1]), _mm256_packs_epi32(level[2], level[3]));
  bytes = _mm256_shuffle_epi8(bytes, dense);
  __m128i high = _mm256_extracti128_si256(bytes, 1);
  _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(bytes));
  _mm_storel_epi64((__m128i *)(out + 12), high);
  int32_t last = _mm_extract_epi32(high, 2);
  memcpy(out + 20, &last, sizeof last);
}

INLINE int32_t word_at(const uint8_t *p)
{
  int32_t word;
  memcpy(&word, p, sizeof word);
  return word;
}

/* The neighbours of pixel k, the right ones above. */
INLINE int32_t two_at(const augment_job *job, const places *p, int k)
{
  uint16_t above, below;
  memcpy(&above, job->padded + p->at[k], sizeof above);
  memcpy(&below, job->padded + p->at[k] + job->stride, sizeof below);
  return (int32_t)(above | (uint32_t)below << 16);
}

INLINE void paint_gray(const augment_job *job, const places *p, uint32_t counter, bool noise, uint8_t *out)
{
  const uint8_t *s = job->pairs;
  __m256i levels =
    s ? _mm256_setr_epi32(word_at(s + p->at[0]), word_at(s + p->at[1]), word_at(s + p->at[2]), word_at(s + p->at[3]),
                          word_at(s + p->at[4]), word_at(s + p->at[5]), word_at(s + p->at[6]), word_at(s + p->at[7]))
      : _mm256_setr_epi32(two_at(job, p, 0), two_at(job, p, 1), two_at(job, p, 2), two_at(job, p, 3), two_at(job, p, 4),
                          two_at(job, p, 5), two_at(job, p, 6), two_at(job, p, 7));
  __m256i count = _mm256_add_epi32(_mm256_set1_epi32((int)counter), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  __m256i level = finish(job, tint(job, weigh(levels, p->across, p->down), false), count, noise);
  __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(level), _mm256_extracti128_si256(level, 1));
  _mm_storel_epi64((__m128i *)out, _mm_packus_epi16(words, words));
}

/* Pixels x .. x + n of row y. A group never goes beyond its cell. */
INLINE void paint_part(const augment_job *job, const int32_t *line, augment_course course, int y, int x, int n,
                       bool noise, bool blends, uint8_t *out)
{
  int channels = job->channels;
  bool pairs = channels == 1 && job->pairs;
  uint32_t counter = ((uint32_t)y * (uint32_t)job->width + (uint32_t)x) * (uint32_t)channels;
  uint8_t rest[4 * GROUP];
  while (n > 0) {
    int ahead = job->draw->bends ? x % GROUP : 0, count = n < GROUP - ahead ? n : GROUP - ahead;
    uint8_t *to = count == GROUP ? out : rest;
    places p;
    if (job->draw->bends) course = augment_course_on(line, x - ahead);
    course.u += (int64_t)ahead * course.du;
    course.v += (int64_t)ahead * course.dv;
    locate(job, &course, channels == 3 ? 3 : pairs ? 2 : 1, pairs, &p);
    if (channels == 3) paint_colours(job, &p, counter, noise, blends, to);
    else paint_gray(job, &p, counter, noise, to);
    if (count < GROUP) memcpy(out, rest, (size_t)(count * channels));
    course.u += (int64_t)count * course.du;
    course.v += (int64_t)count * course.dv;
    counter += (uint32_t)(count * channels);
    out += count * channels;
    x += count;
    n -= count;
  }
}

static void paint(const augment_job *job, const int32_t *line, augment_course course, int y, int x, int n, uint8_t *out)
{
  if (job->draw->noise > 0) {
    if (job->draw->blends) paint_part(job, line, course, y, x, n, true, true, out);
    else paint_part(job, line, course, y, x, n, true, false, out);
  } else {
    if (job->draw->blends) paint_part(job, line, course, y, x, n, false, true, out);
    else paint_part(job, line, course, y, x, n, false, false, out);
  }
}

void augment_part_avx2(const augment_job *job, const int32_t *line, int y, int x, int n, uint8_t *out)
{
  augment_course course = {0};
  if (!job->draw->bends) {
    course = augment_course_of(job, y, NULL);
    course.u += (int64_t)x * course.du;
    course.v += (int64_t)x * course.dv;
  }
  paint(job, line, course, y, x, n, out);
}

void augment_warp_avx2(const augment_job *job, int y, int rows, uint8_t *out)
{
  size_t row = (size_t)job->width * (size_t)job->channels;
  for (int end = y + rows; y < end; y++, out += row) {
    augment_course course = augment_course_of(job, y, job->lines);
    paint(job, job->lines, course, y, 0, job->width, out);
  }
}

/* ---- masks ----------------------------------------------------------------------------------- */

void augment_mask_avx2(const augment_job *job, int y, int rows, uint8_t *out)
{
  const __m256i half = _mm256_set1_epi32(AUGMENT_ONE / 2);
  for (int end = y + rows; y < end; y++) {
    augment_course course = augment_course_of(job, y, job->lines);
    for (int x = 0; x < job->width; x += GROUP) {
      int32_t at[GROUP];
      int n = job->width - x < GROUP ? job->width - x : GROUP;
      if (job->draw->bends) course = augment_course_on(job->lines, x);
      __m256i u = _mm256_srli_epi32(_mm256_add_epi32(follow(course.u, course.du, job->width), half), AUGMENT_FRACTION);
      __m256i v = _mm256_srli_epi32(_mm256_add_epi32(follow(course.v, course.dv, job->height), half), AUGMENT_FRACTION);
      _mm256_storeu_si256((__m256i *)at,
                          _mm256_add_epi32(_mm256_mullo_epi32(v, _mm256_set1_epi32((int)job->stride)), u));
      for (int i = 0; i < n; i++) *out++ = job->padded[at[i]];
      course.u += GROUP * (int64_t)course.du;
      course.v += GROUP * (int64_t)course.dv;
    }
  }
}
