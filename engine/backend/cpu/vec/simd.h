/* simd.h -- floats side by side, in the vector extensions that gcc and clang share.
**
** VN lanes: 16 with AVX-512, 8 with AVX2, else 4. load and store convert bf16 on the way (round to
** nearest even, NaN stays NaN). Intrinsics stand only where the generic form was measured slower.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_SIMD_H
#define CAPL_CPU_SIMD_H

#include <string.h>

#include "backend/cpu/vec/vec.h"
#include "base/float16.h"

#if defined(__AVX512F__)
#include <immintrin.h>
enum { VN = 16 };
#elif defined(__AVX2__)
#include <immintrin.h>
enum { VN = 8 };
#else
enum { VN = 4 };
#endif

/* VEC(add) is add_avx2 in the AVX2 build, and so on; VEC_ISA comes from the build. */
#define VEC_JOIN_(a, b) a##_##b
#define VEC_JOIN(a, b) VEC_JOIN_(a, b)
#define VEC(name) VEC_JOIN(vec_##name, VEC_ISA)

#define X(result, name, args) result VEC(name) args;
CPU_VEC_MAP(X)
#undef X

#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * VN)));
typedef uint32_t vu __attribute__((vector_size(4 * VN)));
typedef int32_t vi __attribute__((vector_size(4 * VN)));
typedef uint16_t vh __attribute__((vector_size(2 * VN)));
typedef uint8_t vb __attribute__((vector_size(VN)));
/* The same at any address. */
typedef float vf_at __attribute__((vector_size(4 * VN), aligned(4), may_alias));
typedef uint32_t vu_at __attribute__((vector_size(4 * VN), aligned(2), may_alias));
typedef uint16_t vh_at __attribute__((vector_size(2 * VN), aligned(2), may_alias));
typedef uint8_t vb_at __attribute__((vector_size(VN), aligned(1), may_alias));

INLINE vf v_set(float f)
{
  return f - (vf){0};
}

INLINE vf v_load_f32(const float *p)
{
  return *(const vf_at *)p;
}

INLINE vf v_load_bf16(const uint16_t *p)
{
#if defined(__AVX512F__) /* gcc 12 widens half a vector at a time */
  return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)), 16);
#else
  return (vf)(__builtin_convertvector(*(const vh_at *)p, vu) << 16);
#endif
}

INLINE vh v_to_bf16(vf f)
{
#if defined(__AVX512BF16__)
  return (vh)_mm512_cvtneps_pbh((__m512)f);
#else
  vu u = (vu)f;
  vu rounded = (u + 0x7FFFu + (u >> 16 & 1u)) >> 16, nan = u >> 16 | 0x40u;
  vu is_nan = (vu)(f != f);
  return __builtin_convertvector((nan & is_nan) | (rounded & ~is_nan), vh);
#endif
}

/* Both rounded to bf16, side by side: low in the lower half of each lane. */
INLINE vu v_pair(vf low, vf high)
{
#if defined(__AVX512BF16__)
  static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
  return (vu)_mm512_permutexvar_epi16(_mm512_loadu_si512(order), halves);
#else
  return __builtin_convertvector(v_to_bf16(low), vu) | __builtin_convertvector(v_to_bf16(high), vu) << 16;
#endif
}

/* VN bytes as numbers, and numbers up to 255 as bytes; the generic form goes byte by byte (gcc 12). */
INLINE vi v_load_u8(const uint8_t *p)
{
#if defined(__AVX512F__)
  return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
#elif defined(__AVX2__)
  return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
#else
  return __builtin_convertvector(*(const vb_at *)p, vi);
#endif
}

INLINE void v_store_u8(uint8_t *p, vi v)
{
#if defined(__AVX512F__)
  _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8((__m512i)v));
#elif defined(__AVX2__)
  __m128i half = _mm_packus_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(half, half));
#else
  *(vb_at *)p = __builtin_convertvector(v, vb);
#endif
}

/* Element i of an array of real. */
INLINE vf v_load(capl_dtype real, const void *p, int64_t i)
{
  return real == CAPL_BF16 ? v_load_bf16((const uint16_t *)p + i) : v_load_f32((const float *)p + i);
}

INLINE void v_store(capl_dtype real, void *p, int64_t i, vf f)
{
  if (real == CAPL_BF16) *(vh_at *)((uint16_t *)p + i) = v_to_bf16(f);
  else *(vf_at *)((float *)p + i) = f;
}

/* Past the caches: for results much larger than them. p + i must be aligned to the vector's size. */
INLINE void v_store_past(capl_dtype real, void *p, int64_t i, vf f)
{
#if defined(__AVX512F__)
  if (real == CAPL_BF16) _mm256_stream_si256((__m256i *)((uint16_t *)p + i), (__m256i)v_to_bf16(f));
  else _mm512_stream_ps((float *)p + i, (__m512)f);
#elif defined(__AVX2__)
  if (real == CAPL_BF16) _mm_stream_si128((__m128i *)((uint16_t *)p + i), (__m128i)v_to_bf16(f));
  else _mm256_stream_ps((float *)p + i, (__m256)f);
#else
  v_store(real, p, i, f);
#endif
}

/* Ends a run of v_store_past before another thread may read it. */
INLINE void v_store_past_end(void)
{
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

INLINE float f_load(capl_dtype real, const void *p, int64_t i)
{
  return real == CAPL_BF16 ? capl_bf16_to_float(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

INLINE void f_store(capl_dtype real, void *p, int64_t i, float f)
{
  if (real == CAPL_BF16) ((uint16_t *)p)[i] = capl_bf16_from_float(f);
  else ((float *)p)[i] = f;
}

#if defined(__AVX2__) && !defined(__AVX512F__)
/* All bits of the first n of 8 lanes. */
INLINE __m256i v_first(int n)
{
  static const int32_t bits[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256((const __m256i *)(const void *)(bits + 8 - n));
}
#endif

/* One vector of n < VN elements; the others are 0, and are not touched in memory. */
INLINE vf v_load_part(capl_dtype real, const void *p, int64_t i, int n)
{
#if defined(__AVX512F__)
  if (real == CAPL_F32) return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), (const float *)p + i);
  return (vf)(__builtin_convertvector((vh)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), (const uint16_t *)p + i),
                                      vu) << 16);
#else
#if defined(__AVX2__)
  if (real == CAPL_F32) return (vf)_mm256_maskload_ps((const float *)p + i, v_first(n));
#endif
  float part[VN] = {0};
  for (int k = 0; k < n; k++) part[k] = f_load(real, p, i + k);
  return v_load_f32(part);
#endif
}

INLINE void v_store_part(capl_dtype real, void *p, int64_t i, vf f, int n)
{
#if defined(__AVX512F__)
  if (real == CAPL_F32) _mm512_mask_storeu_ps((float *)p + i, (__mmask16)((1u << n) - 1), (__m512)f);
  else _mm256_mask_storeu_epi16((uint16_t *)p + i, (__mmask16)((1u << n) - 1), (__m256i)v_to_bf16(f));
#else
#if defined(__AVX2__)
  if (real == CAPL_F32) {
    _mm256_maskstore_ps((float *)p + i, v_first(n), (__m256)f);
    return;
  }
#endif
  float part[VN];
  memcpy(part, &f, sizeof part);
  for (int k = 0; k < n; k++) f_store(real, p, i + k, part[k]);
#endif
}

/* m has all bits of a lane set or none. */
INLINE vf v_select(vi m, vf yes, vf no)
{
  return (vf)(((vi)yes & m) | ((vi)no & ~m));
}

/* Elements i, i + 1, … of n; lanes behind the end are `rest`. */
INLINE vf v_load_upto(capl_dtype real, const void *p, int64_t i, int64_t n, float rest)
{
  static const int32_t lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  if (i + VN <= n) return v_load(real, p, i);
  vi at;
  memcpy(&at, lane, sizeof at);
  return v_select(at < (vi){0} + (int32_t)(n - i), v_load_part(real, p, i, (int)(n - i)), v_set(rest));
}

INLINE void v_store_upto(capl_dtype real, void *p, int64_t i, int64_t n, vf f)
{
  if (i + VN <= n) v_store(real, p, i, f);
  else v_store_part(real, p, i, f, (int)(n - i));
}

INLINE bool v_any(vi m)
{
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)m, (__m512i)m) != 0;
#else
  int32_t part[VN], either = 0;
  memcpy(part, &m, sizeof part);
  for (int k = 0; k < VN; k++) either |= part[k];
  return either != 0;
#endif
}

INLINE vf v_where(vi m, vf f)
{
  return (vf)((vi)f & m);
}

INLINE vf v_max(vf a, vf b)
{
#if defined(__AVX512F__)
  return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return v_select(a > b, a, b);
#endif
}

INLINE vf v_min(vf a, vf b)
{
#if defined(__AVX512F__)
  return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return v_select(a < b, a, b);
#endif
}

/* max(f, 0); NaN stays NaN. */
INLINE vf v_relu(vf f)
{
#if defined(__AVX512F__) || defined(__AVX2__)
  return v_max((vf){0}, f); /* the second operand wins when one is NaN */
#else
  return v_where(~(f < (vf){0}), f);
#endif
}

INLINE float v_total(vf f)
{
  float part[VN];
  memcpy(part, &f, sizeof part);
  for (int half = VN / 2; half > 0; half /= 2) /* in pairs: a chain of additions would wait for each */
    for (int k = 0; k < half; k++) part[k] += part[k + half];
  return part[0];
}

INLINE float v_largest(vf f)
{
  float part[VN];
  memcpy(part, &f, sizeof part);
  for (int half = VN / 2; half > 0; half /= 2)
    for (int k = 0; k < half; k++) part[k] = part[k] > part[k + half] ? part[k] : part[k + half];
  return part[0];
}

/* (exp(r) - 1 - r) / r^2 for |r| up to half of ln 2 */
INLINE vf v_exp_quotient(vf r)
{
  vf p = v_set(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  return p * r + 5.0000001201e-1f;
}

/* p * 2^n of a whole n in -126..128. turns: n + 1.5 * 2^23, whose low bits hold n. */
INLINE vf v_scaled(vf p, vf n, vf turns)
{
#if defined(__AVX512F__)
  (void)turns;
  return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  (void)n;
  return p * (vf)(((vu)turns + 126) << 23) * 2.0f; /* in two factors: 2^128 is no float */
#endif
}

/* e to the power f, relative error below 3e-7; below -87 it is 0, from 88.73 on infinity. NaN stays: it passes v_max
** and v_min as their second operand. */
INLINE vf v_exp(vf f)
{
  vf kept = v_min(v_set(88.73f), v_max(v_set(-87.3f), f)), magic = v_set(12582912.0f); /* a sum with it is rounded */
  vf turns = kept * 1.44269504f + magic, n = turns - magic;
  vf r = kept - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 in two parts */
  vf p = v_exp_quotient(r) * r * r + r + 1.0f;
  return v_where(~(f < v_set(-87.3f)), v_scaled(p, n, turns));
}

#endif
