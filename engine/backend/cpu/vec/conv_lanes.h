/* conv_lanes.h -- vectors of VN lanes, or of 8 where VN is 16, by a constant argument: channels of few.
**
** Eight lanes are the lower half of a vf. Pairs of bf16 stand in for floats where low is set.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_CONV_LANES_H
#define CAPL_CPU_CONV_LANES_H

#include "backend/cpu/vec/simd.h"

/* lanes is named only where there are halves. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#if defined(__AVX512F__)
INLINE vf half_of(__m256 f)
{
  return (vf)_mm512_castps256_ps512(f);
}

INLINE __m256 as_half(vf f)
{
  return _mm512_castps512_ps256((__m512)f);
}
#endif

INLINE vf lanes_load(const void *p, const int lanes)
{
#if defined(__AVX512F__)
  if (lanes == 8) return half_of(_mm256_loadu_ps(p));
#endif
  return v_load_f32(p);
}

/* lanes elements of an array of real, from i on. */
INLINE vf lanes_load_real(capl_dtype real, const void *p, int64_t i, const int lanes)
{
#if defined(__AVX512F__)
  if (lanes == 8 && real == CAPL_F32) return half_of(_mm256_loadu_ps((const float *)p + i));
  if (lanes == 8) {
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)p + i));
    return half_of(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(low), 16)));
  }
#endif
  return v_load(real, p, i);
}

/* sum + left * right; low: pairs of bf16, of which both products are added. */
INLINE vf lanes_add(vf sum, vf left, vf right, const bool low, const int lanes)
{
#if defined(__AVX512BF16__)
  if (low && lanes == 8)
    return half_of(_mm256_dpbf16_ps(as_half(sum), (__m256bh)as_half(left), (__m256bh)as_half(right)));
  if (low) return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
#endif
#if defined(__AVX512F__)
  if (!low && lanes == 8) return half_of(_mm256_fmadd_ps(as_half(left), as_half(right), as_half(sum)));
#endif
  if (!low) return sum + left * right;
  vu a = (vu)left, b = (vu)right;
  return sum + (vf)(a << 16) * (vf)(b << 16) + (vf)(a & 0xFFFF0000u) * (vf)(b & 0xFFFF0000u);
}

/* The same with one float or pair for all lanes. gcc 12 broadcasts it in an instruction of its own, which costs a third
** of the time: hence the assembler. */
INLINE vf lanes_add_one(vf sum, vf left, const void *right, const bool low, const int lanes)
{
  float one;
  memcpy(&one, right, sizeof one);
#if defined(__AVX512F__)
  const float *at = right; /* of any alignment */
#if defined(__AVX512BF16__)
  if (low && lanes == 8) __asm__("vdpbf16ps %2%{1to8%}, %t1, %t0" : "+v"(sum) : "v"(left), "m"(*at));
  else if (low) __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(left), "m"(*at));
#else
  if (low) return lanes_add(sum, left, v_set(one), low, lanes);
#endif
  if (!low && lanes == 8) __asm__("vfmadd231ps %2%{1to8%}, %t1, %t0" : "+v"(sum) : "v"(left), "m"(*at));
  else if (!low) __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(left), "m"(*at));
  return sum;
#else
  return lanes_add(sum, left, v_set(one), low, lanes);
#endif
}

INLINE void lanes_store(capl_dtype real, void *p, int64_t i, vf f, const int lanes)
{
#if defined(__AVX512F__)
  if (lanes == 8 && real == CAPL_F32) {
    _mm256_storeu_ps((float *)p + i, as_half(f));
    return;
  }
#if defined(__AVX512BF16__)
  if (lanes == 8) {
    _mm_storeu_si128((__m128i *)(void *)((uint16_t *)p + i), (__m128i)_mm256_cvtneps_pbh(as_half(f)));
    return;
  }
#endif
  if (lanes == 8) {
    v_store_part(real, p, i, f, 8);
    return;
  }
#endif
  v_store(real, p, i, f);
}

#endif
