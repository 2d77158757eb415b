/* lanes.h -- 16-bit numbers side by side: 32 with AVX-512, 16 with AVX2, else 8.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_LANES_H
#define CAPL_DATA_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "synth/draw/draw.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512BW__)
enum { LANES = 32 };
#elif defined(__AVX2__)
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif

/* DRAW(turn) is draw_turn_avx2 in the AVX2 build, and so on; DRAW_ISA comes from the build. */
#define DRAW_JOIN_(a, b) a##_##b
#define DRAW_JOIN(a, b) DRAW_JOIN_(a, b)
#define DRAW(name) DRAW_JOIN(draw_##name, DRAW_ISA)

#define INLINE static inline __attribute__((always_inline))

typedef int16_t lanes __attribute__((vector_size(2 * LANES)));
typedef int16_t lanes_at __attribute__((vector_size(2 * LANES), aligned(2), may_alias)); /* the same at any address */

INLINE lanes lanes_set(int n)
{
  return (int16_t)n - (lanes){0};
}

INLINE lanes lanes_load(const int16_t *p)
{
  return *(const lanes_at *)p;
}

INLINE void lanes_store(int16_t *p, lanes a)
{
  *(lanes_at *)p = a;
}

/* mulhi: the upper half of the product. to_bytes: LANES bytes, clipped to 0..255. */
#if defined(__AVX512BW__)

INLINE lanes lanes_mulhi(lanes a, lanes b)
{
  return (lanes)_mm512_mulhi_epi16((__m512i)a, (__m512i)b);
}

INLINE lanes lanes_clip(lanes a, int lo, int hi)
{
  return (lanes)_mm512_min_epi16(_mm512_max_epi16((__m512i)a, (__m512i)lanes_set(lo)), (__m512i)lanes_set(hi));
}

INLINE void lanes_to_bytes(uint8_t *p, lanes a)
{
  __m512i clipped = _mm512_max_epi16((__m512i)a, _mm512_setzero_si512());
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtusepi16_epi8(clipped));
}

#elif defined(__AVX2__)

INLINE lanes lanes_mulhi(lanes a, lanes b)
{
  return (lanes)_mm256_mulhi_epi16((__m256i)a, (__m256i)b);
}

INLINE lanes lanes_clip(lanes a, int lo, int hi)
{
  return (lanes)_mm256_min_epi16(_mm256_max_epi16((__m256i)a, (__m256i)lanes_set(lo)), (__m256i)lanes_set(hi));
}

INLINE void lanes_to_bytes(uint8_t *p, lanes a)
{
  __m128i low = _mm256_castsi256_si128((__m256i)a), high = _mm256_extracti128_si256((__m256i)a, 1);
  _mm_storeu_si128((__m128i *)p, _mm_packus_epi16(low, high));
}

#elif defined(__SSE2__)

INLINE lanes lanes_mulhi(lanes a, lanes b)
{
  return (lanes)_mm_mulhi_epi16((__m128i)a, (__m128i)b);
}

INLINE lanes lanes_clip(lanes a, int lo, int hi)
{
  return (lanes)_mm_min_epi16(_mm_max_epi16((__m128i)a, (__m128i)lanes_set(lo)), (__m128i)lanes_set(hi));
}

INLINE void lanes_to_bytes(uint8_t *p, lanes a)
{
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16((__m128i)a, (__m128i)a));
}

#else

INLINE lanes lanes_mulhi(lanes a, lanes b)
{
  for (int i = 0; i < LANES; i++) a[i] = (int16_t)(a[i] * b[i] >> 16);
  return a;
}

INLINE lanes lanes_clip(lanes a, int lo, int hi)
{
  for (int i = 0; i < LANES; i++) a[i] = (int16_t)(a[i] < lo ? lo : a[i] > hi ? hi : a[i]);
  return a;
}

INLINE void lanes_to_bytes(uint8_t *p, lanes a)
{
  for (int i = 0; i < LANES; i++) p[i] = (uint8_t)(a[i] < 0 ? 0 : a[i] > 255 ? 255 : a[i]);
}

#endif

/* ---- floats: half as many as lanes ---- */

enum { REALS = LANES / 2 };
typedef float reals __attribute__((vector_size(4 * REALS)));
typedef int32_t wholes __attribute__((vector_size(4 * REALS)));

INLINE reals reals_set(float f)
{
  return f - (reals){0};
}

/* min: of each. below_1: a where x < 1, else b. to_halves: rounded to the nearest, clipped to 16 bits. */
#if defined(__AVX512BW__)

INLINE reals reals_min(reals a, reals b)
{
  return (reals)_mm512_min_ps((__m512)a, (__m512)b);
}

INLINE reals reals_below_1(reals x, reals a, reals b)
{
  return (reals)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(1), _CMP_LT_OQ), (__m512)b,
                                     (__m512)a);
}

INLINE void reals_to_halves(int16_t *p, reals a)
{
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32((__m512)a)));
}

#elif defined(__AVX2__)

INLINE reals reals_min(reals a, reals b)
{
  return (reals)_mm256_min_ps((__m256)a, (__m256)b);
}

INLINE reals reals_below_1(reals x, reals a, reals b)
{
  return (reals)_mm256_blendv_ps((__m256)b, (__m256)a, _mm256_cmp_ps((__m256)x, _mm256_set1_ps(1), _CMP_LT_OQ));
}

INLINE void reals_to_halves(int16_t *p, reals a)
{
  __m256i whole = _mm256_cvtps_epi32((__m256)a);
  _mm_storeu_si128((__m128i *)p, _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1)));
}

#elif defined(__SSE2__)

INLINE reals reals_min(reals a, reals b)
{
  return (reals)_mm_min_ps((__m128)a, (__m128)b);
}

INLINE reals reals_below_1(reals x, reals a, reals b)
{
  __m128 mask = _mm_cmplt_ps((__m128)x, _mm_set1_ps(1));
  return (reals)_mm_or_ps(_mm_and_ps(mask, (__m128)a), _mm_andnot_ps(mask, (__m128)b));
}

INLINE void reals_to_halves(int16_t *p, reals a)
{
  __m128i whole = _mm_cvtps_epi32((__m128)a);
  _mm_storel_epi64((__m128i *)p, _mm_packs_epi32(whole, whole));
}

#else

INLINE reals reals_min(reals a, reals b)
{
  for (int i = 0; i < REALS; i++) a[i] = a[i] < b[i] ? a[i] : b[i];
  return a;
}

INLINE reals reals_below_1(reals x, reals a, reals b)
{
  for (int i = 0; i < REALS; i++) a[i] = x[i] < 1 ? a[i] : b[i];
  return a;
}

INLINE void reals_to_halves(int16_t *p, reals a)
{
  for (int i = 0; i < REALS; i++) {
    float near = rintf(a[i]);
    p[i] = (int16_t)(near < -32768 ? -32768 : near > 32767 ? 32767 : near);
  }
}

#endif

/* ---- columns to rows ---- */

/* Eight columns `step` apart, LANES long -> LANES rows `to_step` apart. The unpacking happens in each 128 bits. */
#if defined(__AVX512BW__)

INLINE void transpose(const int16_t *from, int step, int16_t *to, int to_step)
{
  __m512i a[8], b[8];
  for (int i = 0; i < 8; i++) a[i] = _mm512_loadu_si512(from + i * step);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 4; i++) {
      b[2 * i] = _mm512_unpacklo_epi16(a[i], a[i + 4]);
      b[2 * i + 1] = _mm512_unpackhi_epi16(a[i], a[i + 4]);
    }
    for (int i = 0; i < 8; i++) a[i] = b[i];
  }
  for (int i = 0; i < 8; i++) {
    _mm_storeu_si128((__m128i *)(to + i * to_step), _mm512_castsi512_si128(a[i]));
    _mm_storeu_si128((__m128i *)(to + (8 + i) * to_step), _mm512_extracti32x4_epi32(a[i], 1));
    _mm_storeu_si128((__m128i *)(to + (16 + i) * to_step), _mm512_extracti32x4_epi32(a[i], 2));
    _mm_storeu_si128((__m128i *)(to + (24 + i) * to_step), _mm512_extracti32x4_epi32(a[i], 3));
  }
}

#elif defined(__AVX2__)

INLINE void transpose(const int16_t *from, int step, int16_t *to, int to_step)
{
  __m256i a[8], b[8];
  for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_si256((const __m256i *)(from + i * step));
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 4; i++) {
      b[2 * i] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
      b[2 * i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
    }
    for (int i = 0; i < 8; i++) a[i] = b[i];
  }
  for (int i = 0; i < 8; i++) {
    _mm_storeu_si128((__m128i *)(to + i * to_step), _mm256_castsi256_si128(a[i]));
    _mm_storeu_si128((__m128i *)(to + (8 + i) * to_step), _mm256_extracti128_si256(a[i], 1));
  }
}

#elif defined(__SSE2__)

INLINE void transpose(const int16_t *from, int step, int16_t *to, int to_step)
{
  __m128i a[8], b[8];
  for (int i = 0; i < 8; i++) a[i] = _mm_loadu_si128((const __m128i *)(from + i * step));
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 4; i++) {
      b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]);
      b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
    }
    for (int i = 0; i < 8; i++) a[i] = b[i];
  }
  for (int i = 0; i < 8; i++) _mm_storeu_si128((__m128i *)(to + i * to_step), a[i]);
}

#else

INLINE void transpose(const int16_t *from, int step, int16_t *to, int to_step)
{
  for (int i = 0; i < LANES; i++) {
    for (int j = 0; j < 8; j++) to[i * to_step + j] = from[j * step + i];
  }
}

#endif

void DRAW(taps)(draw_taps *taps, int n_in, int n_out, int one);
void DRAW(turn)(const draw_turn *turn, int16_t *plane, int step);
void DRAW(stretch)(const draw_taps *across, const draw_taps *down, int from_h, int16_t *plane, int16_t *other, int step,
                   draw_sheet *sheet);
void DRAW(place)(const draw_place *place, const draw_sheet *sheet);
void DRAW(squeeze)(const draw_taps *taps, int n_out, const int16_t *in, int16_t *out, int step);
void DRAW(smooth)(const int16_t *in, int width, int height, int step, int16_t *out);
void DRAW(colour)(const int16_t *in, int width, int height, int step, const draw_colours *colours, int channels,
                  int16_t *rows, uint8_t *line, uint8_t *pixels);

#endif
