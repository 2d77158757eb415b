/* conv.cu -- convolution and its gradients as plain sums, for what cuDNN has no engine for (bf16 before sm_80, weights
** without input channels) and conv_tiled.cu no use (few channels a group, depthwise).
**
** One thread for each element of y, neighbours along the channels, so that warps read and write whole lines; one or a
** few for each of dx. Weight gradients are summed in parts of the pixels, and the parts in fixed order. Every shape is
** taken; a depthwise layer is within some 10 times of an engine, since its bytes are read once or twice and its taps
** are few. SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/kernel.h"

#include "backend/cuda/kernels/conv.h"
#include "backend/cuda/kernels/vector.h"

/* Position in x that tap `tap` of output position `out` reads; may lie in the padding. */
static __device__ __forceinline__ int64_t input_of(const conv_sizes &s, int axis, int64_t out, int64_t tap)
{
  return out * s.stride[axis] - s.padding[axis] + tap * s.dilation[axis];
}

/* Output position whose tap `tap` reads input position `in`, -1 if there is none. */
static __device__ __forceinline__ int64_t output_of(const conv_sizes &s, int axis, int64_t size, int64_t in,
                                                    int64_t tap)
{
  int64_t from = in + s.padding[axis] - tap * s.dilation[axis];
  if (from < 0) return -1;
  int64_t out = s.stride[axis] == 1 ? from : from / s.stride[axis]; /* a division is some 70 instructions */
  if (out * s.stride[axis] != from) return -1;
  return out < size ? out : -1;
}

/* Splits element i of an N,H,W,C image into its coordinates. */
struct place {
  int64_t n, h, w, c;
};

static __device__ __forceinline__ place place_of(int64_t i, int64_t H, int64_t W, int64_t C)
{
  place p;
  p.c = i % C;
  p.w = i / C % W;
  p.h = i / C / W % H;
  p.n = i / C / W / H;
  return p;
}

/* ---- forward --------------------------------------------------------------------------------- */

template <class T> static __device__ float output_sum(const conv_args &g, const place &at)
{
  const conv_sizes &s = g.s;
  int64_t inputs = s.C / s.groups, first = at.c / (s.O / s.groups) * inputs;
  const T *x = (const T *)g.x, *w = (const T *)g.w + at.c * s.kernel[0] * s.kernel[1] * inputs;
  float sum = 0.0f;
  for (int64_t i = 0; i < s.kernel[0]; i++) {
    int64_t row = input_of(s, 0, at.h, i);
    if (row < 0 || row >= s.H) continue;
    for (int64_t j = 0; j < s.kernel[1]; j++) {
      int64_t column = input_of(s, 1, at.w, j);
      if (column < 0 || column >= s.W) continue;
      const T *pixel = x + ((at.n * s.H + row) * s.W + column) * s.C + first;
      const T *tap = w + (i * s.kernel[1] + j) * inputs;
      for (int64_t k = 0; k < inputs; k++) sum += cu_float(pixel[k]) * cu_float(tap[k]);
    }
  }
  return sum;
}

template <class T> __global__ void conv(conv_args g)
{
  int64_t total = g.s.N * g.s.out_H * g.s.out_W * g.s.O, step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
    place at = place_of(i, g.s.out_H, g.s.out_W, g.s.O);
    float sum = output_sum<T>(g, at);
    if (g.bias) sum += g.bias_f32 ? ((const float *)g.bias)[at.c] : cu_float(((const T *)g.bias)[at.c]);
    ((T *)g.y)[i] = cu_as<T>(sum);
  }
}

/* ---- gradient of x --------------------------------------------------------------------------- */

/* Every `lanes`-th output channel from `lane` on, of those that read element `at` of x. */
template <class T> static __device__ float input_sum(const conv_grad_x_args &g, const place &at, int lane)
{
  const conv_sizes &s = g.s;
  int64_t inputs = s.C / s.groups, outputs = s.O / s.groups;
  int64_t k = at.c % inputs, first = at.c / inputs * outputs, taps = s.kernel[0] * s.kernel[1];
  const T *dy = (const T *)g.dy, *w = (const T *)g.w;
  float sum = 0.0f;
  for (int64_t i = 0; i < s.kernel[0]; i++) {
    int64_t row = output_of(s, 0, s.out_H, at.h, i);
    if (row < 0) continue;
    for (int64_t j = 0; j < s.kernel[1]; j++) {
      int64_t column = output_of(s, 1, s.out_W, at.w, j);
      if (column < 0) continue;
      const T *pixel = dy + ((at.n * s.out_H + row) * s.out_W + column) * s.O;
      const T *tap = w + (i * s.kernel[1] + j) * inputs + k;
      for (int64_t o = first + lane; o < first + outputs; o += g.lanes)
        sum += cu_float(pixel[o]) * cu_float(tap[o * taps * inputs]);
    }
  }
  return sum;
}

template <class T> __global__ void conv_grad_x(conv_grad_x_args g)
{
  int64_t total = g.s.N * g.s.H * g.s.W * g.s.C, step = (int64_t)gridDim.x * blockDim.x / g.lanes;
  int lane = (int)threadIdx.x % g.lanes;
  int64_t first = (int64_t)blockIdx.x * blockDim.x / g.lanes;
  for (int64_t base = first; base < total; base += step) { /* all lanes of a warp, for the shuffles */
    int64_t i = base + (int)threadIdx.x / g.lanes;
    float sum = i < total ? input_sum<T>(g, place_of(i, g.s.H, g.s.W, g.s.C), lane) : 0.0f;
    for (int k = g.lanes / 2; k > 0; k /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
    if (lane == 0 && i < total) ((T *)g.dx)[i] = cu_as<T>(sum);
  }
}

/* ---- gradient of the weights ----------------------------------------------------------------- */

/* The weights of a block: CONV_GRAD_W_TAPS of each of CONV_GRAD_W_OUTPUTS outputs, one output a thread; a warp has a
** pixel. */
template <class T> __global__ void __launch_bounds__(CONV_GRAD_W_THREADS) conv_grad_w(conv_grad_w_args g)
{
  enum { TAPS = CONV_GRAD_W_TAPS, OUTPUTS = CONV_GRAD_W_OUTPUTS, LANES = CONV_GRAD_W_THREADS / OUTPUTS };
  __shared__ float room[TAPS][LANES][OUTPUTS];
  __shared__ int64_t row_of[TAPS], column_of[TAPS], channel_of[TAPS];
  const conv_sizes &s = g.s;
  int64_t inputs = s.C / s.groups, K = s.kernel[0] * s.kernel[1] * inputs;
  int64_t tiles = (s.O + OUTPUTS - 1) / OUTPUTS, runs = (K + TAPS - 1) / TAPS;
  int64_t part = blockIdx.x / (tiles * runs), k0 = blockIdx.x / tiles % runs * TAPS;
  int x = threadIdx.x % OUTPUTS, lane = threadIdx.x / OUTPUTS;
  int64_t o = blockIdx.x % tiles * OUTPUTS + x, pixels = s.N * s.out_H * s.out_W;
  int64_t first = part * g.chunk, last = first + g.chunk < pixels ? first + g.chunk : pixels;
  if (threadIdx.x < TAPS) {
    int64_t k = k0 + threadIdx.x < K ? k0 + threadIdx.x : K - 1; /* beyond the last: summed, and not kept */
    row_of[threadIdx.x] = k / inputs / s.kernel[1] * s.dilation[0] - s.padding[0];
    column_of[threadIdx.x] = k / inputs % s.kernel[1] * s.dilation[1] - s.padding[1];
    channel_of[threadIdx.x] = k % inputs;
  }
  __syncthreads();
  float sum[TAPS] = {};
  cu_cursor at = cu_cursor_at(first + lane, (int)s.out_H, (int)s.out_W),
      step = cu_cursor_at(LANES, (int)s.out_H, (int)s.out_W);
  for (int64_t p = first + lane; p < last && o < s.O; p += LANES) {
    const T *image = (const T *)g.x + at.n * s.H * s.W * s.C + o / (s.O / s.groups) * inputs;
    float d = cu_float(((const T *)g.dy)[p * s.O + o]);
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
      int64_t row = at.h * s.stride[0] + row_of[t], column = at.w * s.stride[1] + column_of[t];
      if (row >= 0 && row < s.H && column >= 0 && column < s.W)
        sum[t] += cu_float(image[(row * s.W + column) * s.C + channel_of[t]]) * d;
    }
    cu_cursor_move(at, step, (int)s.out_H, (int)s.out_W);
  }
#pragma unroll
  for (int t = 0; t < TAPS; t++) room[t][lane][x] = sum[t];
  __syncthreads();
  for (int t = lane; t < TAPS; t += LANES) {
    float all = 0.0f;
    for (int k = 0; k < LANES; k++) all += room[t][k][x];
    if (o < s.O && k0 + t < K) g.partial[(part * K + k0 + t) * s.O + o] = all;
  }
}

/* A column of partial: some threads each add up every DEPTH-th part, then a tree of them. */
__global__ void __launch_bounds__(CONV_TOTAL_THREADS) conv_total(conv_total_args g)
{
  enum { DEPTH = CONV_TOTAL_THREADS / CONV_TOTAL_COLUMNS, AHEAD = 4 };
  __shared__ float room[DEPTH][CONV_TOTAL_COLUMNS];
  int x = threadIdx.x % CONV_TOTAL_COLUMNS, y = threadIdx.x / CONV_TOTAL_COLUMNS;
  int64_t width = g.K * g.O, at = (int64_t)blockIdx.x * CONV_TOTAL_COLUMNS + x;
  float sum = 0.0f;
  for (int64_t part = y; at < width && part < g.parts; part += AHEAD * DEPTH) {
    float v[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      v[k] = part + k * DEPTH < g.parts ? g.partial[(part + k * DEPTH) * width + at] : 0.0f;
#pragma unroll
    for (int k = 0; k < AHEAD; k++) sum += v[k];
  }
  room[y][x] = sum;
  for (int step = DEPTH / 2; step > 0; step /= 2) {
    __syncthreads();
    if (y < step) room[y][x] += room[y + step][x];
  }
  if (y > 0 || at >= width) return;
  g.dw[at % g.O * g.K + at / g.O] = room[0][x];
}

CU_TABLE(cu_conv_table, CU_FLOATS(conv), CU_FLOATS(conv_grad_x), CU_FLOATS(conv_grad_w), CU_ENTRY(conv_total))
