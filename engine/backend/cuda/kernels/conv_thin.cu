/* conv_thin.cu -- convolution of one input channel, 3x3, stride 1 or 2, and the gradients of its weights and bias.
**
** A thread has 16 bytes of output channels of 4 pixels side by side and walks down the image, so that the weights (or
** their sums) stay in registers and a row of x is read once for three rows of y. While a row is worked on, the loads of
** the next are under way. Sums over blocks are taken by the last ones (join.h), in an order that the sizes and the
** number of multiprocessors decide.
**
** Counted in sm_90 code, per warp and 1024 results of 16 bits: forward 396 instructions, 288 of them multiply-adds;
** weight gradient 419, with that of the bias 449. At batch 1024 of 1x60x160 with 32 outputs that is 230, 244 and 261
** thousand cycles of an H200's 528 schedulers, 0.12, 0.12 and 0.13 ms; y or dy and x are 649 MB, 0.135 ms at 4.8 TB/s.
** An H200 took 0.20 and 0.23 ms in a plain step. SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/kernel.h"

#include <string.h>

#include "backend/cuda/kernels/conv_thin.h"
#include "backend/cuda/kernels/join.h"
#include "backend/cuda/kernels/vector.h"

namespace {

enum { TAPS = CONV_THIN_TAPS, PIXELS = CONV_THIN_PIXELS, SIDE = 3 };

template <class T> constexpr int values_of = 16 / (int)sizeof(T);                   /* channels of a thread */
template <class T> constexpr int lanes_of = CONV_THIN_CHANNELS / values_of<T>;      /* threads of a pixel */
template <int S> constexpr int columns_of = (PIXELS - 1) * S + SIDE;                /* of x that a strip reads */

/* ---- strips ---------------------------------------------------------------------------------- */

/* One strip: image, first row and column of y, the row behind its last. */
struct strip {
  uint32_t n;
  int row, last, column;
};

__device__ __forceinline__ strip strip_of(const conv_thin_strips &s, uint32_t i)
{
  uint32_t rest = i / (uint32_t)s.column_strips, n = rest / (uint32_t)s.row_strips;
  int row = (int)(rest - n * (uint32_t)s.row_strips) * s.rows;
  int last = row + s.rows < s.out_H ? row + s.rows : s.out_H;
  return {n, row, last, (int)(i - rest * (uint32_t)s.column_strips) * PIXELS};
}

template <class T> __device__ __forceinline__ uint32_t first_strip(void)
{
  return blockIdx.x * (CONV_THIN_THREADS / lanes_of<T>) + threadIdx.x / lanes_of<T>;
}

template <class T> __device__ __forceinline__ uint32_t strip_step(void)
{
  return gridDim.x * (CONV_THIN_THREADS / lanes_of<T>);
}

template <class T> __device__ __forceinline__ int64_t first_channel(void)
{
  return (int64_t)blockIdx.y * CONV_THIN_CHANNELS + threadIdx.x % lanes_of<T> * values_of<T>;
}

/* An element of x on its way: 16 bits in a register of their own, since packing them takes instructions. */
template <class T> struct raw {
  uint32_t bits;
  __device__ __forceinline__ void load(const T *p, bool inside)
  {
    bits = inside ? *(const uint16_t *)p : 0;
  }
  __device__ __forceinline__ float value(void) const
  {
    uint16_t low = (uint16_t)bits;
    T v;
    memcpy(&v, &low, sizeof v);
    return cu_float(v);
  }
};

template <> struct raw<float> {
  float v;
  __device__ __forceinline__ void load(const float *p, bool inside) { v = inside ? *p : 0.0f; }
  __device__ __forceinline__ float value(void) const { return v; }
};

/* The rows of x that a strip reads, one at a time; 0 outside the image. */
template <class T, int S> struct reader {
  const T *p; /* first column of the next row, where that lies in the image */
  int H, W, row;
  unsigned inside; /* bit k: column k of the strip is in the image */
  __device__ __forceinline__ reader(const conv_thin_strips &s, const void *x, const strip &at)
    : H(s.H), W(s.W), row(at.row * S - s.padding[0]), inside(0)
  {
    int column = at.column * S - s.padding[1];
    p = (const T *)x + ((int64_t)at.n * s.H + row) * s.W + column;
#pragma unroll
    for (int k = 0; k < columns_of<S>; k++) inside |= (unsigned)((unsigned)(column + k) < (unsigned)W) << k;
  }
  __device__ __forceinline__ void next(raw<T> *out)
  {
    unsigned here = (unsigned)row < (unsigned)H ? inside : 0;
#pragma unroll
    for (int k = 0; k < columns_of<S>; k++) out[k].load(p + k, here >> k & 1);
    row++;
    p += W;
  }
};

/* Three rows of x under a row of y, and the S that come next as they were loaded. */
template <class T, int S> struct window {
  float x[SIDE][columns_of<S>];
  raw<T> coming[S][columns_of<S>];
  __device__ __forceinline__ void widen(float *to, const raw<T> *from)
  {
#pragma unroll
    for (int k = 0; k < columns_of<S>; k++) to[k] = from[k].value();
  }
  __device__ __forceinline__ void start(reader<T, S> &from)
  {
    raw<T> row[columns_of<S>];
#pragma unroll
    for (int r = 0; r < SIDE - S; r++) from.next(row), widen(x[r + S], row);
    fetch(from);
  }
  __device__ __forceinline__ void fetch(reader<T, S> &from)
  {
#pragma unroll
    for (int r = 0; r < S; r++) from.next(coming[r]);
  }
  __device__ __forceinline__ void advance(void)
  {
#pragma unroll
    for (int r = 0; r < SIDE - S; r++)
#pragma unroll
      for (int k = 0; k < columns_of<S>; k++) x[r][k] = x[r + S][k];
#pragma unroll
    for (int r = 0; r < S; r++) widen(x[SIDE - S + r], coming[r]);
  }
};

/* ---- forward --------------------------------------------------------------------------------- */

/* The weights of this thread's channels, tap by tap, and the bias; 0 beyond the last channel. */
template <class T, int V>
__device__ __forceinline__ void load_weights(const conv_thin_args &g, int64_t channel, float w[TAPS][V], float bias[V])
{
#pragma unroll
  for (int v = 0; v < V; v++) {
    bool real = channel + v < g.s.O;
    bias[v] = !real || !g.bias ? 0.0f
              : g.bias_f32     ? ((const float *)g.bias)[channel + v]
                               : cu_float(((const T *)g.bias)[channel + v]);
#pragma unroll
    for (int t = 0; t < TAPS; t++) w[t][v] = real ? cu_float(((const T *)g.w)[(channel + v) * TAPS + t]) : 0.0f;
  }
}

template <class T, int V, bool WIDE>
__device__ __forceinline__ void store_values(T *y, const float sum[V], int64_t channel, int64_t O)
{
  cu_pack<T, V> pack;
#pragma unroll
  for (int v = 0; v < V; v++) pack.v[v] = cu_as<T>(sum[v]);
  if constexpr (WIDE) cu_store(y, pack);
  else
    for (int v = 0; v < V; v++)
      if (channel + v < O) y[v] = pack.v[v];
}

template <class T, int S, bool WIDE>
__global__ void __launch_bounds__(CONV_THIN_THREADS, CONV_THIN_BLOCKS) conv_thin(conv_thin_args g)
{
  constexpr int V = values_of<T>;
  int64_t channel = first_channel<T>();
  if (channel >= g.s.O) return;
  float w[TAPS][V], bias[V];
  load_weights<T, V>(g, channel, w, bias);
  for (uint32_t i = first_strip<T>(); i < g.s.strips; i += strip_step<T>()) {
    strip at = strip_of(g.s, i);
    reader<T, S> from(g.s, g.x, at);
    window<T, S> under;
    under.start(from);
    T *y = (T *)g.y + (((int64_t)at.n * g.s.out_H + at.row) * g.s.out_W + at.column) * g.s.O + channel;
    for (int row = at.row; row < at.last; row++, y += g.s.out_W * g.s.O) {
      under.advance();
      under.fetch(from);
#pragma unroll
      for (int p = 0; p < PIXELS; p++) {
        float sum[V];
#pragma unroll
        for (int v = 0; v < V; v++) sum[v] = bias[v];
#pragma unroll
        for (int t = 0; t < TAPS; t++)
#pragma unroll
          for (int v = 0; v < V; v++) sum[v] += under.x[t / SIDE][p * S + t % SIDE] * w[t][v];
        if (at.column + p < g.s.out_W) store_values<T, V, WIDE>(y + p * g.s.O, sum, channel, g.s.O);
      }
    }
  }
}

/* ---- gradient of the weights ----------------------------------------------------------------- */

/* 16 bytes of dy as they were loaded. */
template <class T> struct alignas(16) words {
  uint32_t w[4];
  __device__ __forceinline__ void set(int i, T v)
  {
    constexpr int bits = 8 * (int)sizeof(T), each = 32 / bits;
    uint32_t low = 0;
    memcpy(&low, &v, sizeof v);
    w[i / each] |= low << i % each * bits % 32;
  }
  __device__ __forceinline__ float value(int i) const
  {
    if constexpr (sizeof(T) == 2) return raw<T>{i % 2 ? w[i / 2] >> 16 : w[i / 2]}.value();
    float v;
    memcpy(&v, &w[i % 4], sizeof v);
    return v;
  }
};

/* The upper half as it is, in one instruction. */
template <> __device__ __forceinline__ float words<cu_bf16>::value(int i) const
{
  uint32_t bits = i % 2 ? w[i / 2] & 0xffff0000u : w[i / 2] << 16;
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

/* 4 pixels of dy, of this thread's channels, loaded without a branch: what lies beyond the image is another pixel,
** beyond the last channel another channel. Neither is added to a sum that is kept. */
template <class T, bool WIDE> struct dy_reader {
  const T *p;
  int64_t row;
  int channels;            /* of this thread; narrow only */
  int offset[PIXELS];      /* in elements */
  bool inside[PIXELS];
  __device__ __forceinline__ dy_reader(const conv_thin_grad_w_args &g, const strip &at, int64_t channel)
    : row((int64_t)g.s.out_W * g.s.O)
  {
    int64_t left = g.s.O - channel;
    channels = left < 0 ? 0 : left < values_of<T> ? (int)left : values_of<T>;
    p = (const T *)g.dy + (((int64_t)at.n * g.s.out_H + at.row) * g.s.out_W + at.column) * g.s.O
        + (left > 0 ? channel : 0);
#pragma unroll
    for (int k = 0; k < PIXELS; k++) {
      inside[k] = at.column + k < g.s.out_W;
      offset[k] = inside[k] ? k * (int)g.s.O : 0;
    }
  }
  __device__ __forceinline__ void load(words<T> out[PIXELS]) const
  {
#pragma unroll
    for (int k = 0; k < PIXELS; k++) {
      if constexpr (WIDE) out[k] = *(const words<T> *)(p + offset[k]);
      else {
        out[k] = {};
        for (int v = 0; v < values_of<T>; v++)
          if (v < channels) out[k].set(v, p[offset[k] + v]);
      }
    }
  }
  __device__ __forceinline__ void keep(words<T> to[PIXELS], const words<T> from[PIXELS]) const
  {
#pragma unroll
    for (int k = 0; k < PIXELS; k++)
#pragma unroll
      for (int i = 0; i < 4; i++) to[k].w[i] = inside[k] ? from[k].w[i] : 0;
  }
};

/* sum[TAPS] is that of dy, where it is wanted. */
template <bool BIAS, class T, int S, int V>
__device__ __forceinline__ void add_row(const window<T, S> &under, const words<T> dy[PIXELS], float sum[TAPS + 1][V])
{
#pragma unroll
  for (int p = 0; p < PIXELS; p++)
#pragma unroll
    for (int v = 0; v < V; v++) {
      float d = dy[p].value(v);
      if (BIAS) sum[TAPS][v] += d;
#pragma unroll
      for (int t = 0; t < TAPS; t++) sum[t][v] += under.x[t / SIDE][p * S + t % SIDE] * d;
    }
}

/* The sums of a thread's strips. */
template <bool BIAS, class T, int S, bool WIDE, int V>
__device__ __forceinline__ void add_strips(const conv_thin_grad_w_args &g, float sum[TAPS + 1][V])
{
  for (uint32_t i = first_strip<T>(); i < g.s.strips; i += strip_step<T>()) {
    strip at = strip_of(g.s, i);
    reader<T, S> from(g.s, g.x, at);
    dy_reader<T, WIDE> dy(g, at, first_channel<T>());
    window<T, S> under;
    words<T> here[PIXELS], coming[PIXELS];
    dy.load(coming);
    under.start(from);
    for (int row = at.row; row < at.last; row++) {
      under.advance();
      dy.keep(here, coming);
      if (row + 1 < at.last) dy.p += dy.row;
      under.fetch(from);
      dy.load(coming);
      add_row<BIAS, T, S, V>(under, here, sum);
    }
  }
}

/* Sums over the block's threads of the same channels, one tap at a time through shared memory. */
template <class T, int V>
__device__ __forceinline__ void store_sums(const conv_thin_grad_w_args &g, float sum[TAPS + 1][V])
{
  constexpr int LANES = lanes_of<T>, WARPS = CONV_THIN_THREADS / 32;
  __shared__ float room[TAPS + 1][WARPS][CONV_THIN_CHANNELS];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int t = 0; t <= TAPS; t++)
#pragma unroll
    for (int v = 0; v < V; v++) {
      float s = sum[t][v];
      for (int step = LANES; step < 32; step *= 2) s += __shfl_xor_sync(0xffffffffu, s, step);
      if (lane < LANES) room[t][warp][lane * V + v] = s;
    }
  __syncthreads();
  int64_t tile = (int64_t)blockIdx.y * CONV_THIN_CHANNELS;
  for (int i = threadIdx.x; i < (TAPS + 1) * CONV_THIN_CHANNELS; i += CONV_THIN_THREADS) {
    int t = i / CONV_THIN_CHANNELS, c = i % CONV_THIN_CHANNELS;
    float s = room[t][0][c];
    for (int k = 1; k < WARPS; k++) s += room[t][k][c];
    if (tile + c < g.s.O) g.partial[((int64_t)blockIdx.x * (TAPS + 1) + t) * g.s.O + tile + c] = s;
  }
}

/* Sums of some blocks, in the order of their numbers: of one block, or the gradients. */
__device__ __forceinline__ void join_sums(const conv_thin_grad_w_args &g, const cu_rows &rows)
{
  enum { AHEAD = 8 };
  const int64_t tile = (int64_t)blockIdx.y * CONV_THIN_CHANNELS, row = (TAPS + 1) * g.s.O;
  for (int i = threadIdx.x; i < (TAPS + 1) * CONV_THIN_CHANNELS; i += CONV_THIN_THREADS) {
    const int64_t t = i / CONV_THIN_CHANNELS, o = tile + i % CONV_THIN_CHANNELS;
    if (o >= g.s.O) continue;
    const float *from = g.partial + rows.first * row + t * g.s.O + o;
    float sum = 0, v[AHEAD];
    auto load = [&](int k, int i) { v[k] = __ldcg(from + i * rows.step * row); };
    cu_ahead<AHEAD>(rows.count, load, [&](int k) { sum += v[k]; }, [&] { from += AHEAD * rows.step * row; });
    if (!rows.all) g.partial[rows.first * row + t * g.s.O + o] = sum;
    else if (t < TAPS) g.dw[o * TAPS + t] = sum;
    else if (g.db) g.db[o] = sum;
  }
}

template <class T, int S, bool WIDE>
__global__ void __launch_bounds__(CONV_THIN_THREADS, S == 1 && WIDE ? CONV_THIN_BLOCKS : 2)
conv_thin_grad_w(conv_thin_grad_w_args g)
{
  constexpr int V = values_of<T>;
  float sum[TAPS + 1][V] = {};
  if (g.db) add_strips<true, T, S, WIDE, V>(g, sum);
  else add_strips<false, T, S, WIDE, V>(g, sum);
  store_sums<T, V>(g, sum);
  cu_join(g.counters, [&](const cu_rows &rows) { join_sums(g, rows); });
}

} // namespace

#define OF_TYPES(kernel, stride, wide)                                                                  \
  CU_ENTRY(kernel<float, stride, wide>), CU_ENTRY(kernel<cu_f16, stride, wide>), CU_ENTRY(kernel<cu_bf16, stride, wide>)
#define OF_STRIDES(kernel)                                                                              \
  OF_TYPES(kernel, 1, false), OF_TYPES(kernel, 1, true), OF_TYPES(kernel, 2, false), OF_TYPES(kernel, 2, true)

CU_TABLE(cu_conv_thin_table, OF_STRIDES(conv_thin), OF_STRIDES(conv_thin_grad_w))
