/* rtc_prelude.h -- what stands before every source that NVRTC compiles: kernel.h's element types without its headers.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_RTC_PRELUDE_H
#define CAPL_CUDA_RTC_PRELUDE_H

/* Conversions of f16 are one instruction on every card; of bf16 from sm_80 on, elsewhere the bits are rounded by
** hand. */
#define RTC_PRELUDE                                                                                                   \
  "typedef unsigned char uint8_t;\n"                                                                                  \
  "typedef unsigned short uint16_t;\n"                                                                                \
  "typedef int int32_t;\n"                                                                                            \
  "typedef unsigned int uint32_t;\n"                                                                                  \
  "typedef long long int64_t;\n"                                                                                      \
  "typedef unsigned long long uint64_t;\n"                                                                            \
  "#define RTC_KERNEL extern \"C\" __global__\n"                                                                      \
  "struct cu_f16 { uint16_t bits; };\n"                                                                               \
  "struct cu_bf16 { uint16_t bits; };\n"                                                                              \
  "static __device__ __forceinline__ float cu_float(float v) { return v; }\n"                                         \
  "static __device__ __forceinline__ float cu_float(cu_f16 v)\n"                                                      \
  "{ float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(v.bits)); return f; }\n"                                \
  "static __device__ __forceinline__ float cu_float(cu_bf16 v)\n"                                                     \
  "{ return __uint_as_float((uint32_t)v.bits << 16); }\n"                                                             \
  "template <class T> static __device__ __forceinline__ T cu_as(float v);\n"                                          \
  "template <> __device__ __forceinline__ float cu_as<float>(float v) { return v; }\n"                                \
  "template <> __device__ __forceinline__ cu_f16 cu_as<cu_f16>(float v)\n"                                            \
  "{ cu_f16 h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h.bits) : \"f\"(v)); return h; }\n"                            \
  "template <> __device__ __forceinline__ cu_bf16 cu_as<cu_bf16>(float v)\n"                                          \
  "{\n"                                                                                                               \
  "  cu_bf16 h;\n"                                                                                                    \
  "#if __CUDA_ARCH__ >= 800\n"                                                                                        \
  "  asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(h.bits) : \"f\"(v));\n"                                                 \
  "#else\n"                                                                                                           \
  "  uint32_t b = __float_as_uint(v);\n"                                                                              \
  "  h.bits = (b & 0x7FFFFFFFu) > 0x7F800000u ? b >> 16 | 0x40u : (b + 0x7FFFu + (b >> 16 & 1u)) >> 16;\n"            \
  "#endif\n"                                                                                                          \
  "  return h;\n"                                                                                                     \
  "}\n"                                                                                                               \
  "#line 1\n"

#endif
