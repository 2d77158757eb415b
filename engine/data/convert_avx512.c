/* convert_avx512.c -- levels to f32, sixteen at a time.
** SPDX-License-Identifier: Apache-2.0
*/
#include <immintrin.h>

#include "data/convert.h"

enum { LANES = 16 };

#define INLINE static inline __attribute__((always_inline))

/* v[(first + i) % 3] in lane i. */
INLINE __m512 turned(const float v[3], int first)
{
  const __m512i order = _mm512_setr_epi32(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0);
  const __m512i next = _mm512_setr_epi32(1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1);
  const __m512i last = _mm512_setr_epi32(2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2);
  return _mm512_permutexvar_ps(first == 0 ? order : first == 1 ? next : last, _mm512_maskz_loadu_ps(7, v));
}

INLINE __m512 valued(__m128i levels, __m512 scale, __m512 shift)
{
  return _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(levels)), scale), shift);
}

INLINE void convert(const capl_affine *a, const uint8_t *level, size_t n, bool stream, float *out)
{
  __m512 scale[3] = {turned(a->scale, 0), turned(a->scale, 1), turned(a->scale, 2)};
  __m512 shift[3] = {turned(a->shift, 0), turned(a->shift, 1), turned(a->shift, 2)};
  for (; n >= 3 * LANES; n -= 3 * LANES) {
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++, level += LANES, out += LANES) {
      __m512 v = valued(_mm_loadu_si128((const __m128i *)level), scale[k], shift[k]);
      if (stream) _mm512_stream_ps(out, v);
      else _mm512_storeu_ps(out, v);
    }
  }
#pragma GCC unroll 3
  for (int k = 0; k < 3; k++, level += LANES, out += LANES) {
    size_t left = n > (size_t)k * LANES ? n - (size_t)k * LANES : 0;
    __mmask16 there = (__mmask16)(left < LANES ? (1u << left) - 1 : 0xffff);
    if (!there) return;
    __m512 v = valued(_mm_maskz_loadu_epi8(there, level), scale[k], shift[k]);
    if (stream && left >= LANES) _mm512_stream_ps(out, v);
    else _mm512_mask_storeu_ps(out, there, v);
  }
}

void convert_f32_avx512(const capl_affine *a, const uint8_t *level, size_t n, bool stream, float *out)
{
  if (stream && (uintptr_t)out % sizeof(__m512) == 0) convert(a, level, n, true, out);
  else convert(a, level, n, false, out);
}

/* Rounds to nearest, ties to even. */
static inline __m256i to_bf16(__m512 v)
{
  __m512i bits = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  bits = _mm512_add_epi32(bits, _mm512_add_epi32(_mm512_set1_epi32(0x7fff), odd));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
}

void round_bf16_avx512(const float *value, size_t n, uint16_t *out)
{
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) _mm256_storeu_si256((__m256i *)(out + i), to_bf16(_mm512_loadu_ps(value + i)));
  round_bf16_portable(value + i, n - i, out + i);
}
