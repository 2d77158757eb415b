/* cuda_bf16.h -- __nv_bfloat16 on the host: storage and conversions, no arithmetic (kernels compute in float).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_CUDA_BF16_H
#define SHIM_CUDA_BF16_H

#include "base/float16.h"
#include "vector_types.h"

struct __align__(2) __nv_bfloat16 {
  uint16_t bits;
};
struct __align__(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline float __bfloat162float(__nv_bfloat16 v) { return capl_bf16_to_float(v.bits); }
static inline __nv_bfloat16 __float2bfloat16_rn(float v) { return {capl_bf16_from_float(v)}; }
static inline __nv_bfloat16 __float2bfloat16(float v) { return __float2bfloat16_rn(v); }
static inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {__bfloat162float(v.x), __bfloat162float(v.y)}; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float a,
                                                   float b) { return {__float2bfloat16_rn(a), __float2bfloat16_rn(b)}; }
static inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return __floats2bfloat162_rn(v.x, v.y); }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.bits; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }

#endif
