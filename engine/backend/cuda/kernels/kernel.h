/* kernel.h -- what every .cu file includes: element types as float, tables of kernels, Philox.
**
** The same .cu file is compiled by nvcc for the card and by g++ or clang++ against tests/cuda/shim, where blocks run
** on the CPU. So a kernel keeps to what both have: one argument struct by value; load, compute in float, store;
** __shared__ and CU_SHARED for shared memory; warp shuffles; no textures, no float atomics (the order of their sums
** changes from run to run), no device libraries. The C side launches through tables of entries (cuda.h, cu_launch).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNEL_H
#define CAPL_CUDA_KERNEL_H

#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <stdint.h>

#include "backend/cuda/kernels/types.h"

/* ---- element types --------------------------------------------------------------------------- */

typedef __half cu_f16;
typedef __nv_bfloat16 cu_bf16;

static __device__ __forceinline__ float cu_float(float v) { return v; }
static __device__ __forceinline__ float cu_float(cu_f16 v) { return __half2float(v); }
static __device__ __forceinline__ float cu_float(cu_bf16 v) { return __bfloat162float(v); }

/* cu_as<T>(v): v rounded to nearest even. */
template <class T> static __device__ __forceinline__ T cu_as(float v);
template <> __device__ __forceinline__ float cu_as<float>(float v) { return v; }
template <> __device__ __forceinline__ cu_f16 cu_as<cu_f16>(float v) { return __float2half_rn(v); }
template <> __device__ __forceinline__ cu_bf16 cu_as<cu_bf16>(float v) { return __float2bfloat16_rn(v); }

/* ---- tables ---------------------------------------------------------------------------------- */

/* CU_TABLE(name, entries): the table that C knows as `extern const cu_entry name[];`. An entry is CU_ENTRY(kernel), or
** CU_FLOATS(kernel) for a template's three instances in the order of cu_type. */
#ifdef CAPL_CUDA_SHIM
#define CU_ENTRY(...) shim_entry<&__VA_ARGS__>()
#define CU_SHARED(type, name) type *name = (type *)shim_dynamic_shared()
#else
#define CU_ENTRY(...) {(const void *)&__VA_ARGS__}
#define CU_SHARED(type, name)                                            \
  extern __shared__ __align__(16) unsigned char cu_dynamic_shared[];     \
  type *name = (type *)cu_dynamic_shared
#endif
#define CU_FLOATS(kernel) CU_ENTRY(kernel<float>), CU_ENTRY(kernel<cu_f16>), CU_ENTRY(kernel<cu_bf16>)
#define CU_TABLE(name, ...)               \
  extern "C" const cu_entry name[];       \
  extern "C" const cu_entry name[] = {__VA_ARGS__};

/* ---- sums over a warp and a block ------------------------------------------------------------ */

static __device__ __forceinline__ float cu_warp_sum(float v)
{
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

static __device__ __forceinline__ float cu_warp_max(float v)
{
  for (int step = 16; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}

/* The sum over all threads of a one-dimensional block of whole warps, in every thread. room: 32 floats of shared
** memory, free again when all threads have returned and met a barrier. */
static __device__ __forceinline__ float cu_block_sum(float v, float *room)
{
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  v = cu_warp_sum(v);
  if (lane == 0) room[warp] = v;
  __syncthreads();
  v = lane < warps ? room[lane] : 0.0f;
  return cu_warp_sum(v);
}

/* ---- Philox4x32-10 (capl/rng.h) -------------------------------------------------------------- */

static __device__ __forceinline__ void cu_philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                                                 uint32_t out[4])
{
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    uint32_t lo0 = 0xD2511F53u * c0, hi0 = __umulhi(0xD2511F53u, c0);
    uint32_t lo1 = 0xCD9E8D57u * c2, hi1 = __umulhi(0xCD9E8D57u, c2);
    c0 = hi1 ^ c1 ^ k0;
    c1 = lo1;
    c2 = hi0 ^ c3 ^ k1;
    c3 = lo0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

#endif
