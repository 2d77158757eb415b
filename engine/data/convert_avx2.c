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
