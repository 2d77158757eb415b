/* vector.h -- for kernels over pixels: several values in one load, a thread's place, walking over images.
**
** The wide instance of a kernel moves 4 values per thread and load; it needs channels in multiples of 4 and tensors
** that begin at a multiple of 4 elements. The narrow one moves single values and takes any number of channels. The
** kernels of norm.cu also have instances that move 16 bytes: 8 values of 16 bits.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_VECTOR_H
#define CAPL_CUDA_VECTOR_H

#include "backend/cuda/kernels/kernel.h"
/* cu_load and cu_store of several values need what kernel.h declares. */
#include "backend/cuda/kernels/loop.h"
#include "backend/cuda/kernels/pixels.h"

/* V floats of a per-channel vector, which is read rarely: no demands on its alignment. */
template <int V> static __device__ __forceinline__ void cu_channels(const float *p, int64_t channel, float out[V])
{
#pragma unroll
  for (int i = 0; i < V; i++) out[i] = p[channel + i];
}

/* The instances of a kernel<T, V>, where cu_wide_entry (pixels.h) finds them. */
#define CU_WIDE(kernel)                                                                            \
  CU_ENTRY(kernel<float, 1>), CU_ENTRY(kernel<cu_f16, 1>), CU_ENTRY(kernel<cu_bf16, 1>),           \
      CU_ENTRY(kernel<float, CU_WIDE_VALUES>), CU_ENTRY(kernel<cu_f16, CU_WIDE_VALUES>),           \
      CU_ENTRY(kernel<cu_bf16, CU_WIDE_VALUES>)

/* Likewise in three widths, where cu_vector_entry (pixels.h) finds them. */
#define CU_VECTORS(kernel)                                                                         \
  CU_WIDE(kernel), CU_ENTRY(kernel<float, 4>), CU_ENTRY(kernel<cu_f16, 8>), CU_ENTRY(kernel<cu_bf16, 8>)

/* ---- a thread's place (pixels.h) ------------------------------------------------------------- */

struct cu_place {
  int64_t channel;     /* first of its channels */
  int64_t first, last; /* its pixels: first, first + height, ... below last */
  int lane;            /* row of the block: pixel number among those read at a time */
  bool works;          /* has channels at all */
};

template <int V> static __device__ __forceinline__ cu_place cu_place_of(const cu_pixels &p)
{
  cu_place at;
  int column = (int)threadIdx.x % p.width;
  int64_t group = (int64_t)blockIdx.y * p.width + column, begin = (int64_t)blockIdx.x * p.chunk;
  at.lane = (int)threadIdx.x / p.width;
  at.works = at.lane < p.height && group < p.groups;
  at.channel = group * V;
  at.first = begin + at.lane;
  at.last = begin + p.chunk < p.pixels ? begin + p.chunk : p.pixels;
  return at;
}

/* How many pixels a thread has. */
static __device__ __forceinline__ int cu_turns(const cu_pixels &p, const cu_place &at)
{
  return at.first < at.last ? (int)(at.last - at.first - 1) / p.height + 1 : 0;
}

/* Runs load(k, k) for N pixels, then use(k) for the same, then next() to move on by N, until `turns` pixels were used:
** so N loads are under way at a time, without a branch in between. load(k, i) puts pixel i from here into place k; the
** last, incomplete turn loads pixel 0 again where there is none. */
template <int N, class Count, class Load, class Use, class Next>
static __device__ __forceinline__ void cu_ahead(Count turns, Load load, Use use, Next next)
{
  Count left = turns;
#pragma unroll 1
  for (; left >= N; left -= N) {
#pragma unroll
    for (int k = 0; k < N; k++) load(k, k);
#pragma unroll
    for (int k = 0; k < N; k++) use(k);
    next();
  }
  if (left <= 0) return;
#pragma unroll
  for (int k = 0; k < N - 1; k++) load(k, k < left ? k : 0);
#pragma unroll
  for (int k = 0; k < N - 1; k++)
    if (k < left) use(k);
}

/* ---- joining what lanes have ----------------------------------------------------------------- */

/* Lanes are joined by halves: with step = 2^k, ..., 2, 1 lane i takes over what lane i + step has. */
static __device__ __forceinline__ int cu_first_step(int lanes)
{
  int step = 1;
  while (2 * step < lanes) step *= 2;
  return step;
}

/* Whether a lane hands over at this step. Only those write to shared memory: so while slower threads still read, faster
** ones write elsewhere, for the next step, and one barrier a step is enough. */
static __device__ __forceinline__ bool cu_gives(int lane, int step)
{
  return lane >= step && lane < 2 * step;
}

/* ---- walking over images --------------------------------------------------------------------- */

/* Position in (N,H,W), moved on by a fixed number of pixels without a division. */
struct cu_cursor {
  int64_t n;
  int h, w;
};

static __device__ __forceinline__ cu_cursor cu_cursor_at(int64_t pixel, int H, int W)
{
  cu_cursor at;
  int64_t row = pixel / W;
  at.w = (int)(pixel - row * W);
  at.n = row / H;
  at.h = (int)(row - at.n * H);
  return at;
}

/* step: the cursor at the number of pixels to move by. */
static __device__ __forceinline__ void cu_cursor_move(cu_cursor &at, const cu_cursor &step, int H, int W)
{
  at.w += step.w;
  at.h += step.h;
  at.n += step.n;
  if (at.w >= W) at.w -= W, at.h++;
  if (at.h >= H) at.h -= H, at.n++;
}

#endif
