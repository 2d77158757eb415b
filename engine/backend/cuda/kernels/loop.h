/* loop.h -- strided operands as kernels walk them: dims sorted and joined by the host, indices split by multiplication.
**
** A thread turns its number i into one offset per operand. That takes a division per dim beyond the first, done as a
** multiplication with a prepared factor: of 32 bits while fewer than 2^31 steps are walked, else of 64. Dense operands
** have one dim and need no division.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_LOOP_H
#define CAPL_CUDA_KERNELS_LOOP_H

#include "backend/cuda/kernels/types.h"

enum { CU_LOOP_DIMS = 6, CU_LOOP_OPERANDS = 4 };

/* Filled by loop.c. Dim 0 is the outermost; there is at least one. */
typedef struct {
  int64_t total; /* steps to walk: the product of the sizes */
  int ndim;
  bool wide; /* 2^31 steps or more */
  int64_t size[CU_LOOP_DIMS];
  uint64_t factor[CU_LOOP_DIMS]; /* i / size = (i * factor / 2^32 + i) >> shift; 2^64 if wide */
  int shift[CU_LOOP_DIMS];
  int64_t stride[CU_LOOP_OPERANDS][CU_LOOP_DIMS];     /* in elements */
} cu_loop;

#ifdef __cplusplus
#include <string.h>

#include "backend/cuda/kernels/kernel.h"

static __device__ __forceinline__ int64_t cu_divide(const cu_loop &loop, int64_t i, int d)
{
  if (loop.wide) {
    uint64_t n = (uint64_t)i;
    return (int64_t)(((uint64_t)((unsigned __int128)n * loop.factor[d] >> 64) + n) >> loop.shift[d]);
  }
  uint32_t n = (uint32_t)i;
  return (__umulhi(n, (uint32_t)loop.factor[d]) + n) >> loop.shift[d];
}

/* The offset in elements of operands 0 .. N-1 at step i. */
template <int N> static __device__ __forceinline__ void cu_locate(const cu_loop &loop, int64_t i, int64_t *at)
{
  for (int k = 0; k < N; k++) at[k] = 0;
  int64_t left = i;
  for (int d = loop.ndim - 1; d > 0; d--) {
    int64_t rest = cu_divide(loop, left, d), index = left - rest * loop.size[d];
    for (int k = 0; k < N; k++) at[k] += index * loop.stride[k][d];
    left = rest;
  }
  for (int k = 0; k < N; k++) at[k] += left * loop.stride[k][0];
}

/* The first step of this thread, and how far its next one is, in a grid of any size. */
static __device__ __forceinline__ int64_t cu_first(void)
{
  return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ int64_t cu_stride(void)
{
  return (int64_t)gridDim.x * blockDim.x;
}

/* N neighbouring elements that are moved by one instruction (two above 16 bytes): p must be aligned to their size. */
template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) cu_pack {
  T v[N];
};

/* By words: a compiler that sees elements may store each by itself, or keep them in memory. */
template <class T, int N> static __device__ __forceinline__ cu_pack<T, N> cu_load(const T *p)
{
  cu_pack<T, N> pack;
  if constexpr (sizeof pack == sizeof(uint4)) {
    uint4 words = *(const uint4 *)p;
    memcpy(&pack, &words, sizeof words);
  } else if constexpr (sizeof pack == sizeof(uint2)) {
    uint2 words = *(const uint2 *)p;
    memcpy(&pack, &words, sizeof words);
  } else {
    pack = *(const cu_pack<T, N> *)p;
  }
  return pack;
}

/* The same element N times where step is 0, N neighbours where it is not. */
template <class T, int N> static __device__ __forceinline__ cu_pack<T, N> cu_load_step(const T *p, int64_t step)
{
  if constexpr (N > 1) {
    if (step == 0) {
      cu_pack<T, N> same;
      for (int j = 0; j < N; j++) same.v[j] = *p;
      return same;
    }
  }
  return cu_load<T, N>(p);
}

template <class T, int N> static __device__ __forceinline__ void cu_store(T *p, const cu_pack<T, N> &pack)
{
  if constexpr (sizeof pack == sizeof(uint4)) {
    uint4 words;
    memcpy(&words, &pack, sizeof words);
#ifdef CAPL_CUDA_SHIM
    *(uint4 *)p = words;
#else
    __stwb((uint4 *)p, words); /* a plain store may be cut into four */
#endif
  } else {
    *(cu_pack<T, N> *)p = pack;
  }
}

#endif
#endif
