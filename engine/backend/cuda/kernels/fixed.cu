/* fixed.cu -- the beginning and the end of sums in whole numbers: the largest term, and the sums as floats.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/fixed.h"

#include <string.h>

#include "backend/cuda/kernels/kernel.h"

namespace {

/* Absolute values order like their bits, NaN above all. */
static __device__ __forceinline__ unsigned size_bits(float v)
{
  unsigned bits;
  memcpy(&bits, &v, sizeof bits);
  return bits & 0x7fffffffu;
}

template <class T> __global__ void __launch_bounds__(FIXED_THREADS) largest(fixed_largest_args a)
{
  unsigned most = 0;
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[1];
    cu_locate<1>(a.loop, i, at);
    unsigned bits = size_bits(cu_float(((const T *)a.src)[at[0]]));
    most = bits > most ? bits : most;
  }
  for (int step = 16; step > 0; step /= 2) {
    unsigned other = __shfl_xor_sync(0xffffffffu, most, step);
    most = other > most ? other : most;
  }
  if (threadIdx.x % 32 == 0 && most > 0) atomicMax(a.largest, most);
}

template <class T> __global__ void __launch_bounds__(FIXED_THREADS) store(fixed_store_args a)
{
  int scale = cu_fixed_scale(a.f);
  bool spoilt = a.f.largest[0] >= (unsigned)FIXED_INFINITY || a.f.largest[1];
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[2];
    cu_locate<2>(a.loop, i, at);
    float sum = (float)scalbn((double)(long long)a.f.sums[at[0]], -scale);
    if (a.x) sum += cu_float(((const T *)a.x)[at[1]]);
    ((T *)a.y)[at[0]] = cu_as<T>(spoilt ? NAN : sum);
  }
}

} // namespace

CU_TABLE(cu_fixed_table, CU_FLOATS(largest), CU_FLOATS(store))
