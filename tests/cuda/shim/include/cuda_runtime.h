/* cuda_runtime.h -- CUDA's kernel language on the host: a .cu file that includes this compiles with g++ and clang++.
**
** Threads of a block are fibers of one host thread (../block.cc), blocks run one after the other. What the card has and
** kernels here must not use (float atomics, textures, CUB, cooperative groups) is left out, so that using it does not
** compile. Functions follow the CUDA math API; those that differ from C only in speed are C's.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_CUDA_RUNTIME_H
#define SHIM_CUDA_RUNTIME_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/types.h"

/* ---- words of the language ------------------------------------------------------------------- */

#define __global__ static
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static /* filled with garbage before each block (block.cc) */
/* As many bytes of padding in front of the kernel as it has threads at most: shared.cc counts them. sizeof, because gcc
** 12 takes nothing else in a template. */
#define SHIM_BOUND(threads, ...) \
  __attribute__((patchable_function_entry(sizeof(char[threads]), sizeof(char[threads]))))
#define __launch_bounds__(...) SHIM_BOUND(__VA_ARGS__, 0)
#define __grid_constant__
#ifdef __SANITIZE_ADDRESS__
#define __forceinline__ inline /* instrumented code inlined everywhere takes the compiler minutes */
#else
#define __forceinline__ inline __attribute__((always_inline))
#endif

using std::max;
using std::min;

extern "C" {
SHIM_API extern uint3 threadIdx, blockIdx; /* of the fiber that runs */
SHIM_API extern dim3 blockDim, gridDim;
}
static const int warpSize = 32;

/* ---- tables of kernels (kernel.h) ------------------------------------------------------------ */

/* What a table's entry points to. */
struct shim_kernel {
  void (*call)(const void *args);
  size_t args_bytes;
  const void *code; /* the kernel itself, for its name */
};

template <auto kernel> struct shim_thunk;
template <class Args, void (*kernel)(Args)> struct shim_thunk<kernel> {
  static_assert(std::is_trivially_copyable<Args>::value, "a kernel's arguments are copied byte by byte");
  static_assert(sizeof(Args) <= 4096, "a kernel takes at most 4 KB of arguments");
  static void call(const void *args) { kernel(*(const Args *)args); }
  static const shim_kernel entry;
};
template <class Args, void (*kernel)(Args)>
const shim_kernel shim_thunk<kernel>::entry = {call, sizeof(Args), (const void *)kernel};

template <auto kernel> static inline cu_entry shim_entry() { return {&shim_thunk<kernel>::entry}; }

extern "C" SHIM_API void *shim_dynamic_shared(void);

/* ---- barriers and warps ---------------------------------------------------------------------- */

extern "C" {
SHIM_API void shim_syncthreads(const char *file, int line);
/* Waits until all lanes of mask have come; -> the value of lane source, or for source < 0 the bits of all values. */
SHIM_API uint64_t shim_warp(unsigned mask, uint64_t value, int source, const char *file, int line);
SHIM_API void shim_syncwarp(unsigned mask, const char *file, int line);
SHIM_API int shim_lane(void);
}

#define __syncthreads() shim_syncthreads(__FILE__, __LINE__)
#define __syncwarp(...) shim_syncwarp(shim_mask(__VA_ARGS__), __FILE__, __LINE__)
static inline unsigned shim_mask(unsigned mask = 0xffffffffu) { return mask; }

template <class T> static inline T shim_shuffle(unsigned mask, T v, int source, const char *file, int line)
{
  static_assert(sizeof v <= 8, "shuffles move at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &v, sizeof v);
  bits = shim_warp(mask, bits, source, file, line);
  memcpy(&v, &bits, sizeof v);
  return v;
}

/* The lane to read from; those beyond the group of width lanes read themselves. */
static inline int shim_from(int lane, int width)
{
  int own = shim_lane();
  return lane >= 0 && lane / width == own / width ? lane : own;
}
static inline int shim_index(int lane, int width)
{
  return (shim_lane() & ~(width - 1)) | (lane & (width - 1));
}
static inline int shim_width(int width = 32) { return width; }

#define __shfl_sync(mask, v, lane, ...) \
  shim_shuffle(mask, v, shim_index(lane, shim_width(__VA_ARGS__)), __FILE__, __LINE__)
#define __shfl_xor_sync(mask, v, bits, ...) \
  shim_shuffle(mask, v, shim_from(shim_lane() ^ (bits), shim_width(__VA_ARGS__)), __FILE__, __LINE__)
#define __shfl_down_sync(mask, v, by, ...) \
  shim_shuffle(mask, v, shim_from(shim_lane() + (int)(by), shim_width(__VA_ARGS__)), __FILE__, __LINE__)
#define __shfl_up_sync(mask, v, by, ...) \
  shim_shuffle(mask, v, shim_from(shim_lane() - (int)(by), shim_width(__VA_ARGS__)), __FILE__, __LINE__)
#define __ballot_sync(mask, p) ((unsigned)shim_warp(mask, (p) ? 1 : 0, -1, __FILE__, __LINE__))
#define __any_sync(mask, p) (__ballot_sync(mask, p) != 0)
#define __all_sync(mask, p) (__ballot_sync(mask, !(p)) == 0)

/* Blocks run one after the other: only the search for races (race.cc) has to know. */
#ifdef __SANITIZE_THREAD__
extern "C" SHIM_API void shim_fence(void);
static inline void __threadfence() { shim_fence(); }
#else
static inline void __threadfence() {}
#endif
static inline void __threadfence_block() {}

/* ---- atomics: whole numbers only, the order of float sums is not fixed on the card ------------ */

/* One access, not two, to the search for races (race.cc). */
#ifdef __SANITIZE_THREAD__
extern "C" SHIM_API void shim_atomic(const void *p, size_t bytes, const void *caller);
#define SHIM_ATOMIC_FN static inline __attribute__((no_sanitize("thread"), noinline))
#define SHIM_ATOMIC_SEEN(p) shim_atomic(p, sizeof *(p), __builtin_return_address(0))
#else
#define SHIM_ATOMIC_FN static inline
#define SHIM_ATOMIC_SEEN(p) ((void)0)
#endif
#define SHIM_ATOMIC(name, T, result)                      \
  SHIM_ATOMIC_FN T name(T *p, T v)                        \
  {                                                       \
    SHIM_ATOMIC_SEEN(p);                                  \
    T old = *p;                                           \
    *p = (result);                                        \
    return old;                                           \
  }
#define SHIM_ATOMICS(T)                                   \
  SHIM_ATOMIC(atomicAdd, T, old + v)                      \
  SHIM_ATOMIC(atomicMax, T, old > v ? old : v)            \
  SHIM_ATOMIC(atomicMin, T, old < v ? old : v)            \
  SHIM_ATOMIC(atomicOr, T, old | v)                       \
  SHIM_ATOMIC(atomicAnd, T, old & v)                      \
  SHIM_ATOMIC(atomicExch, T, v)                           \
  SHIM_ATOMIC_FN T atomicCAS(T *p, T expected, T v)       \
  {                                                       \
    SHIM_ATOMIC_SEEN(p);                                  \
    T old = *p;                                           \
    if (old == expected) *p = v;                          \
    return old;                                           \
  }
SHIM_ATOMICS(int)
SHIM_ATOMICS(unsigned int)
SHIM_ATOMICS(unsigned long long)
SHIM_ATOMIC(atomicInc, unsigned int, old >= v ? 0 : old + 1)

/* ---- loads and stores with a hint, bits ------------------------------------------------------- */

template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldca(const T *p) { return *p; }
template <class T> static inline void __stcs(T *p, T v) { *p = v; }
template <class T> static inline void __stcg(T *p, T v) { *p = v; }

static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
  uint64_t both = (uint64_t)b << 32 | a;
  unsigned out = 0;
  for (int k = 0; k < 4; k++) out |= (unsigned)(both >> 8 * (selector >> 4 * k & 7) & 0xFF) << 8 * k;
  return out;
}

static inline int __float_as_int(float v) { int bits; memcpy(&bits, &v, 4); return bits; }
static inline unsigned __float_as_uint(float v) { unsigned bits; memcpy(&bits, &v, 4); return bits; }
static inline float __int_as_float(int bits) { float v; memcpy(&v, &bits, 4); return v; }
static inline float __uint_as_float(unsigned bits) { float v; memcpy(&v, &bits, 4); return v; }

/* ---- numbers --------------------------------------------------------------------------------- */

/* Conversions saturate on the card, and NaN becomes 0. */
static inline int shim_to_int(float v)
{
  return v != v ? 0 : v >= 0x1p31f ? INT32_MAX : v <= -0x1p31f ? INT32_MIN : (int)v;
}
static inline int __float2int_rn(float v) { return shim_to_int(rintf(v)); }
static inline int __float2int_rz(float v) { return shim_to_int(truncf(v)); }
static inline int __float2int_rd(float v) { return shim_to_int(floorf(v)); }
static inline int __float2int_ru(float v) { return shim_to_int(ceilf(v)); }
static inline unsigned __float2uint_rn(float v)
{
  v = rintf(v);
  return v >= 0x1p32f ? UINT32_MAX : v > 0 ? (unsigned)v : 0; /* NaN fails both */
}
static inline float __int2float_rn(int v) { return (float)v; }
static inline float __uint2float_rn(unsigned v) { return (float)v; }

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fsqrt_rn(float v) { return sqrtf(v); }
static inline float __frcp_rn(float v) { return 1.0f / v; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float v) { return v > 0 ? (v < 1 ? v : 1.0f) : 0.0f; }
static inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
static inline void sincospif(float v, float *s, float *c)
{
  *s = (float)sin(M_PI * (double)v);
  *c = (float)cos(M_PI * (double)v);
}
/* The C library has its own functions of these names. */
#define __expf(v) expf(v)
#define __logf(v) logf(v)
#define __powf(a, b) powf(a, b)
#define __sinf(v) sinf(v)
#define __cosf(v) cosf(v)
#define __sincosf(v, s, c) sincosf(v, s, c)

/* Members of short vectors at once. */
#define SHIM_MAKE(T, name)                                                                        \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                               \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                       \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
SHIM_MAKE(float, float)
SHIM_MAKE(int, int)
SHIM_MAKE(unsigned int, uint)
SHIM_MAKE(unsigned char, uchar)
SHIM_MAKE(unsigned short, ushort)

#endif
