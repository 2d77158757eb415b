/* cuda_fp16.h -- __half on the host: storage and conversions, no arithmetic (kernels compute in float).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_CUDA_FP16_H
#define SHIM_CUDA_FP16_H

#include "base/float16.h"
#include "vector_types.h"

struct __align__(2) __half {
  uint16_t bits;
};
struct __align__(4) __half2 {
  __half x, y;
};
typedef __half half;
typedef __half2 half2;

static inline float __half2float(__half v) { return capl_f16_to_float(v.bits); }
static inline __half __float2half_rn(float v) { return {capl_f16_from_float(v)}; }
static inline __half __float2half(float v) { return __float2half_rn(v); }
static inline float2 __half22float2(__half2 v) { return {__half2float(v.x), __half2float(v.y)}; }
static inline __half2 __floats2half2_rn(float a, float b) { return {__float2half_rn(a), __float2half_rn(b)}; }
static inline __half2 __float22half2_rn(float2 v) { return __floats2half2_rn(v.x, v.y); }
static inline unsigned short __half_as_ushort(__half v) { return v.bits; }
static inline __half __ushort_as_half(unsigned short bits) { return {bits}; }

#endif
