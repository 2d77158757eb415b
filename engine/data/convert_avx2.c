/* convert_avx2.c -- levels to f32, eight at a time.
** SPDX-License-Identifier: Apache-2.0
*/
#include <immintrin.h>

#include "data/convert.h"

enum { LANES = 8, BLOCK = 3 * LANES };

#define INLINE static inline __attribute__((always_inline))

INLINE void convert(const capl_affine *a, const uint8_t *level, size_t blocks, bool stream, float *out)
{
  const float *s = a->scale, *t = a->shift;
  const __m256 scale[3] = {_mm256_setr_ps(s[0], s[1], s[2], s[0], s[1], s[2], s[0], s[1]),
                           _mm256_setr_ps(s[2], s[0], s[1], s[2], s[0], s[1], s[2], s[0]),
                           _mm256_setr_ps(s[1], s[2], s[0], s[1], s[2], s[0], s[1], s[2])};
  const __m256 shift[3] = {_mm256_setr_ps(t[0], t[1], t[2], t[0], t[1], t[2], t[0], t[1]),
                           _mm256_setr_ps(t[2], t[0], t[1], t[2], t[0], t[1], t[2], t[0]),
                           _mm256_setr_ps(t[1], t[2], t[0], t[1], t[2], t[0], t[1], t[2])};
  for (size_t i = 0; i < blocks; i++) {
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++, level += LANES, out += LANES) {
      __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)level)));
      v = _mm256_add_ps(_mm256_mul_ps(v, scale[k]), shift[k]);
      if (stream) _mm256_stream_ps(out, v);
      else _mm256_storeu_ps(out, v);
    }
  }
}

void convert_f32_avx2(const capl_affine *a, const uint8_t *level, size_t n, bool stream, float *out)
{
  size_t done = n / BLOCK * BLOCK;
  if (stream && (uintptr_t)out % sizeof(__m256) == 0) convert(a, level, n / BLOCK, true, out);
  else convert(a, level, n / BLOCK, false, out);
  convert_f32_portable(a, level + done, n - done, false, out + done); /* blocks begin with the first channel */
}

/* Rounds to nearest, ties to even. */
static inline __m256i to_bf16(__m256 v)
{
  __m256i bits = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd)), 16);
}

void round_bf16_avx2(const float *value, size_t n, uint16_t *out)
{
  size_t i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    __m256i both = _mm256_packus_epi32(to_bf16(_mm256_loadu_ps(value + i)),
                                       to_bf16(_mm256_loadu_ps(value + i + LANES)));
    _mm256_storeu_si256((__m256i *)(out + i), _mm256_permute4x64_epi64(both, 0xd8));
  }
  round_bf16_portable(value + i, n - i, out + i);
}
