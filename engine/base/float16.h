/* float16.h -- bf16 and f16 to float and back, rounding to nearest even.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_FLOAT16_H
#define CAPL_BASE_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline float capl_bits_to_float(uint32_t bits)
{
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static inline uint32_t capl_float_to_bits(float f)
{
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static inline float capl_bf16_to_float(uint16_t h)
{
  return capl_bits_to_float((uint32_t)h << 16);
}

static inline uint16_t capl_bf16_from_float(float f)
{
  uint32_t bits = capl_float_to_bits(f);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u); /* NaN stays NaN */
  return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

static inline float capl_f16_to_float(uint16_t h)
{
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7FFFu;
  if (magnitude >= 0x7C00u) return capl_bits_to_float(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
  if (magnitude >= 0x0400u) return capl_bits_to_float(sign | ((magnitude << 13) + (112u << 23)));
  float subnormal = (float)magnitude * 0x1p-24f;
  return sign ? -subnormal : subnormal;
}

static inline uint16_t capl_f16_from_float(float f)
{
  uint32_t bits = capl_float_to_bits(f), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u);
  if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 and more round to infinity */
  if (magnitude < 0x38800000u) {
    /* Subnormal: adding 0.5 lines the result's bits up at the bottom of the mantissa, rounded. */
    float shifted = capl_bits_to_float(magnitude) + 0.5f;
    return (uint16_t)(sign | (capl_float_to_bits(shifted) - 0x3F000000u));
  }
  uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return (uint16_t)(sign | (rounded - (112u << 23)) >> 13);
}

/* Rounds to odd: a later rounding to 16 bits then gives what one rounding of v would give. Without math.h: kernels that
** are compiled at run time declare its functions themselves. */
static inline float capl_float_to_odd(double v)
{
  float f = (float)v;
  if (v != v || (double)f == v) return f; /* no number, or exact, as infinities are */
  uint32_t bits = capl_float_to_bits(f);
  if ((f < 0 ? -(double)f : (double)f) > (v < 0 ? -v : v)) bits--; /* towards zero */
  return capl_bits_to_float(bits | 1);
}

#endif
