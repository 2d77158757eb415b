/* conv_tiled.cu -- convolution, its gradients and their groups as matrix products in tiles, for what cuDNN has no
** engine for.
**
** The matrices are never written: what a tile needs of them is gathered from the images into shared memory.
**     forward  y (pixels, O)      = windows of x (pixels, K) * w (K, O),        K = kH*kW*C, rows of y
**     grad_x   dx (pixels, C)     = windows of dy (pixels, kH*kW*O) * w         rows of x
**     grad_w   dw (O, K)          = dy (O, pixels) * windows of x (pixels, K)   in parts of the pixels, conv_total adds
**     them
** Counted in sm_90 code: a step of 16 along the inner dim is 256 multiply-adds of some 1,000 instructions a thread, a
** quarter of the f32 rate. An f32 convolution then takes some 4 times what an engine needs, one in 16 bits, which
** tensor cores would run, some 30 to 40 times; a tile that is half empty twice that. Estimates, not measured.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/kernel.h"

#include "backend/cuda/kernels/conv_tiled.h"
#include "backend/cuda/kernels/vector.h"

namespace {

enum { TILE = CONV_TILE, DEPTH = CONV_TILE_DEPTH, THREADS = CONV_TILE_THREADS, SIDE = 16, EACH = TILE / SIDE };

/* One float more than it holds: columns of it lie in different banks. */
typedef float tile[TILE + 1];

/* Place of this block among all, whose number has 31 bits. */
struct block_place {
  int64_t m0, n0, part;
  int group;
};

__device__ __forceinline__ block_place place_of_block(int64_t rows, int64_t columns, int64_t groups)
{
  uint32_t tiles_n = (uint32_t)((columns + TILE - 1) / TILE), tiles_m = (uint32_t)((rows + TILE - 1) / TILE);
  uint32_t m = blockIdx.x / tiles_n, group = m / tiles_m, part = group / (uint32_t)groups;
  return {(int64_t)(m - group * tiles_m) * TILE, (int64_t)(blockIdx.x - m * tiles_n) * TILE, part,
          (int)(group - part * (uint32_t)groups)};
}

/* A pixel of an image: elements before the image, and where it is; n < 0: there is none. */
struct pixel {
  int64_t n;
  int h, w;
};

__device__ __forceinline__ void list_pixels(pixel *list, int64_t first, int64_t N, int64_t H, int64_t W)
{
  for (int i = threadIdx.x; i < TILE; i += THREADS) {
    cu_cursor at = cu_cursor_at(first + i, (int)H, (int)W);
    list[i] = {first + i < N * H * W ? at.n : -1, at.h, at.w};
  }
  __syncthreads();
}

/* A tap of the kernel and a channel behind it, from number r = (i * kW + j) * channels + c. */
struct tap {
  int i, j, c;
};

__device__ __forceinline__ tap tap_of(const conv_sizes &s, int r, int channels)
{
  int t = r / channels, i = t / (int)s.kernel[1];
  return {i, t - i * (int)s.kernel[1], r - t * channels};
}

/* x under tap t of output pixel at; 0 in the padding. first: the group's first channel. */
template <class T>
__device__ __forceinline__ float window_value(const conv_sizes &s, const T *x, const pixel &at, const tap &t,
                                              int64_t first)
{
  int64_t row = at.h * s.stride[0] - s.padding[0] + t.i * s.dilation[0];
  int64_t column = at.w * s.stride[1] - s.padding[1] + t.j * s.dilation[1];
  if (at.n < 0 || row < 0 || row >= s.H || column < 0 || column >= s.W) return 0.0f;
  return cu_float(x[((at.n * s.H + row) * s.W + column) * s.C + first + t.c]);
}

/* dy of the output pixel whose tap t reads pixel `at` of x; 0 if there is none. */
template <class T>
__device__ __forceinline__ float output_value(const conv_sizes &s, const T *dy, const pixel &at, const tap &t,
                                              int64_t first)
{
  int row = at.h + (int)s.padding[0] - t.i * (int)s.dilation[0],
  column = at.w + (int)s.padding[1] - t.j * (int)s.dilation[1];
  if (at.n < 0 || row < 0 || column < 0) return 0.0f;
  int stride_h = (int)s.stride[0], stride_w = (int)s.stride[1], h = row / stride_h, w = column / stride_w;
  if (h * stride_h != row || w * stride_w != column || h >= s.out_H || w >= s.out_W) return 0.0f;
  return cu_float(dy[((at.n * s.out_H + h) * s.out_W + w) * s.O + first + t.c]);
}

/* ---- the product ----------------------------------------------------------------------------- */

__device__ __forceinline__ void multiply(const tile *a, const tile *b, float sum[EACH][EACH])
{
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  __syncthreads();
  for (int k = 0; k < DEPTH; k++)
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
      for (int j = 0; j < EACH; j++) sum[i][j] += a[k][ty + i * SIDE] * b[k][tx + j * SIDE];
  __syncthreads();
}

/* Calls put(row, column, sum) for this thread's results, neighbours along the columns. */
template <class F> __device__ __forceinline__ void for_results(const float sum[EACH][EACH], F put)
{
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
#pragma unroll
  for (int i = 0; i < EACH; i++)
#pragma unroll
    for (int j = 0; j < EACH; j++) put(ty + i * SIDE, tx + j * SIDE, sum[i][j]);
}

/* ---- forward --------------------------------------------------------------------------------- */

template <class T> __global__ void __launch_bounds__(CONV_TILE_THREADS) conv_tiled(conv_args g)
{
  __shared__ tile a[DEPTH], b[DEPTH];
  __shared__ pixel pixels[TILE];
  const conv_sizes &s = g.s;
  int inputs = (int)(s.C / s.groups), K = (int)(s.kernel[0] * s.kernel[1]) * inputs;
  int64_t outputs = s.O / s.groups, all = s.N * s.out_H * s.out_W;
  block_place at = place_of_block(all, outputs, s.groups);
  list_pixels(pixels, at.m0, s.N, s.out_H, s.out_W);
  int k = threadIdx.x % DEPTH; /* along which x and w run in memory */
  float sum[EACH][EACH] = {};
  for (int r = 0; r < K; r += DEPTH) {
    tap t = tap_of(s, r + k, inputs);
    for (int i = threadIdx.x / DEPTH; i < TILE; i += THREADS / DEPTH) {
      int64_t o = at.n0 + i;
      bool real = r + k < K;
      a[k][i] = real ? window_value(s, (const T *)g.x, pixels[i], t, at.group * inputs) : 0.0f;
      b[k][i] = real && o < outputs ? cu_float(((const T *)g.w)[(at.group * outputs + o) * K + r + k]) : 0.0f;
    }
    multiply(a, b, sum);
  }
  for_results(sum, [&](int i, int j, float v) {
    int64_t o = at.group * outputs + at.n0 + j;
    if (at.m0 + i >= all || at.n0 + j >= outputs) return;
    if (g.bias) v += g.bias_f32 ? ((const float *)g.bias)[o] : cu_float(((const T *)g.bias)[o]);
    ((T *)g.y)[(at.m0 + i) * s.O + o] = cu_as<T>(v);
  });
}

/* ---- gradient of x --------------------------------------------------------------------------- */

template <class T> __global__ void __launch_bounds__(CONV_TILE_THREADS) conv_tiled_grad_x(conv_grad_x_args g)
{
  __shared__ tile a[DEPTH], b[DEPTH];
  __shared__ pixel pixels[TILE];
  const conv_sizes &s = g.s;
  int outputs = (int)(s.O / s.groups), taps = (int)(s.kernel[0] * s.kernel[1]), K = taps * outputs;
  int64_t inputs = s.C / s.groups, all = s.N * s.H * s.W;
  block_place at = place_of_block(all, inputs, s.groups);
  list_pixels(pixels, at.m0, s.N, s.H, s.W);
  int k = threadIdx.x % DEPTH, c = threadIdx.x % TILE; /* along which dy and w run in memory */
  float sum[EACH][EACH] = {};
  for (int r = 0; r < K; r += DEPTH) {
    tap t = tap_of(s, r + k, outputs);
    for (int i = threadIdx.x / DEPTH; i < TILE; i += THREADS / DEPTH)
      a[k][i] = r + k < K ? output_value(s, (const T *)g.dy, pixels[i], t, at.group * outputs) : 0.0f;
    for (int i = threadIdx.x / TILE; i < DEPTH; i += THREADS / TILE) {
      int from = (r + i) / outputs, o = r + i - from * outputs;
      bool real = r + i < K && at.n0 + c < inputs;
      b[i][c] = real ? cu_float(((const T *)g.w)[((at.group * outputs + o) * taps + from) * inputs + at.n0 + c]) : 0.0f;
    }
    multiply(a, b, sum);
  }
  for_results(sum, [&](int i, int j, float v) {
    if (at.m0 + i < all && at.n0 + j < inputs)
      ((T *)g.dx)[(at.m0 + i) * s.C + at.group * inputs + at.n0 + j] = cu_as<T>(v);
  });
}

/* ---- gradient of the weights ----------------------------------------------------------------- */

template <class T> __global__ void __launch_bounds__(CONV_TILE_THREADS) conv_tiled_grad_w(conv_grad_w_args g)
{
  __shared__ tile a[DEPTH], b[DEPTH];
  const conv_sizes &s = g.s;
  int inputs = (int)(s.C / s.groups), K = (int)(s.kernel[0] * s.kernel[1]) * inputs;
  int64_t outputs = s.O / s.groups, all = s.N * s.out_H * s.out_W;
  block_place at = place_of_block(outputs, K, s.groups);
  int64_t first = at.part * g.chunk, last = first + g.chunk < all ? first + g.chunk : all;
  int column = threadIdx.x % TILE, lane = threadIdx.x / TILE; /* dy and windows run along the columns */
  tap t = tap_of(s, (int)at.n0 + column, inputs);
  cu_cursor cursor = cu_cursor_at(first + lane, (int)s.out_H, (int)s.out_W);
  cu_cursor step = cu_cursor_at(THREADS / TILE, (int)s.out_H, (int)s.out_W);
  float sum[EACH][EACH] = {};
  for (int64_t r = first; r < last; r += DEPTH) {
    for (int i = lane; i < DEPTH; i += THREADS / TILE) {
      int64_t p = r + i;
      pixel here = {p < last ? cursor.n : -1, cursor.h, cursor.w};
      bool real = p < last && at.m0 + column < outputs;
      a[i][column] = real ? cu_float(((const T *)g.dy)[p * s.O + at.group * outputs + at.m0 + column]) : 0.0f;
      b[i][column] = at.n0 + column < K ? window_value(s, (const T *)g.x, here, t, at.group * inputs) : 0.0f;
      cu_cursor_move(cursor, step, (int)s.out_H, (int)s.out_W);
    }
    multiply(a, b, sum);
  }
  for_results(sum, [&](int i, int j, float v) {
    if (at.m0 + i < outputs && at.n0 + j < K)
      g.partial[(at.part * K + at.n0 + j) * s.O + at.group * outputs + at.m0 + i] = v;
  });
}

} // namespace

CU_TABLE(cu_conv_tiled_table, CU_FLOATS(conv_tiled), CU_FLOATS(conv_tiled_grad_x), CU_FLOATS(conv_tiled_grad_w))
