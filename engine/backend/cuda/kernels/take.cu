/* take.cu -- gather, scatter, index_select, embedding and their gradients.
**
** Elements are moved as bits. Sums and "the last one wins" do not depend on the order in which threads arrive.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/take.h"

#include <string.h>

#include "backend/cuda/kernels/any.h"
#include "backend/cuda/kernels/kernel.h"

namespace {

static __device__ __forceinline__ int64_t index_at(const take_index &t, int64_t at)
{
  return t.wide ? ((const int64_t *)t.index)[at] : ((const int32_t *)t.index)[at];
}

static __device__ __forceinline__ bool fits(const take_index &t, int64_t i)
{
  return i >= 0 && i < t.n;
}

template <class U> __global__ void __launch_bounds__(TAKE_THREADS) take(take_args a)
{
  U nothing;
  memcpy(&nothing, &a.nothing, sizeof nothing);
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[3];
    cu_locate<3>(a.loop, i, at);
    int64_t index = index_at(a.index, at[1]);
    ((U *)a.y)[at[0]] = fits(a.index, index) ? ((const U *)a.x)[at[2] + index * a.index.step] : nothing;
  }
}

template <class T> __global__ void __launch_bounds__(TAKE_THREADS) take_add(take_add_args a)
{
  int scale = cu_fixed_scale(a.f);
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[3];
    cu_locate<3>(a.loop, i, at);
    int64_t index = index_at(a.index, at[1]);
    if (!fits(a.index, index)) cu_fixed_spoil(a.f);
    else if (index != a.skip)
      cu_fixed_add(a.f, scale, at[2] + index * a.index.step, cu_float(((const T *)a.src)[at[0]]));
  }
}

template <class T> __global__ void __launch_bounds__(TAKE_THREADS) take_count(take_count_args a)
{
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[3];
    cu_locate<3>(a.loop, i, at);
    int64_t index = index_at(a.index, at[1]);
    if (fits(a.index, index)) atomicAdd((T *)a.y + at[2] + index * a.index.step, ((const T *)a.src)[at[0]]);
  }
}

__global__ void __launch_bounds__(TAKE_THREADS) take_last(take_last_args a)
{
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[3];
    cu_locate<3>(a.loop, i, at);
    int64_t index = index_at(a.index, at[1]);
    if (fits(a.index, index)) atomicMax(&a.last[at[2] + index * a.index.step], (unsigned long long)i + 1);
    else atomicMax(a.bad, 1u);
  }
}

/* Numbers as integers of the same order; NaN last, the zeros equal. */
static __device__ __forceinline__ int64_t sort_key(const take_sort_args &a, int64_t at)
{
  int64_t key;
  if (cu_is_whole(a.from)) key = cu_get_whole(a.from, a.x, at);
  else {
    double v = cu_get_real(a.from, a.x, at) + 0.0;
    memcpy(&key, &v, sizeof key);
    if (key < 0) key ^= INT64_MAX;
    if (v != v) key = INT64_MAX;
  }
  return a.descending ? ~key : key;
}

/* Each element counts those before it: n reads that neighbours share, no barriers, any strides. */
__global__ void __launch_bounds__(TAKE_THREADS) take_sort(take_sort_args a)
{
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[4];
    cu_locate<4>(a.loop, i, at);
    int64_t mine = sort_key(a, at[0]), rank = 0;
    for (int64_t j = 0; j < a.n; j++) {
      int64_t other = sort_key(a, at[1] + j * a.step);
      rank += other < mine || (other == mine && j < at[3]);
    }
    a.y[at[2] + rank * a.step_y] = (int32_t)at[3];
  }
}

template <class U> __global__ void __launch_bounds__(TAKE_THREADS) take_write(take_write_args a)
{
  U value, nothing;
  memcpy(&value, &a.value, sizeof value);
  memcpy(&nothing, &a.nothing, sizeof nothing);
  bool spoilt = a.real && *a.bad;
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[2], from[2];
    cu_locate<2>(a.loop, i, at);
    unsigned long long last = a.last[at[0]];
    U v = value;
    if (last > 0 && a.src) {
      cu_locate<2>(a.order, (int64_t)last - 1, from);
      v = ((const U *)a.src)[from[1]];
    }
    ((U *)a.y)[at[0]] = spoilt ? nothing : last > 0 ? v : ((const U *)a.x)[at[1]];
  }
}

} // namespace

#define UNITS(kernel) \
  CU_ENTRY(kernel<uint8_t>), CU_ENTRY(kernel<uint16_t>), CU_ENTRY(kernel<uint32_t>), CU_ENTRY(kernel<uint64_t>)

CU_TABLE(cu_take_table, UNITS(take), UNITS(take_write), CU_FLOATS(take_add), CU_ENTRY(take_count<int>),
         CU_ENTRY(take_count<unsigned long long>), CU_ENTRY(take_last), CU_ENTRY(take_sort))
