/* sample.cu -- images read between their pixels: interpolate, grid_sample, and their gradients.
**
** The gradient of interpolate walks over the outputs that read a pixel, so that every element is written once. That of
** grid_sample cannot: any output may read any pixel, so its terms are added as whole numbers (fixed.h).
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/sample.h"

#include <math.h>

#include "backend/cuda/kernels/vector.h"
#include "ops/sample.h"

namespace {

/* ---- interpolate ----------------------------------------------------------------------------- */

/* An output's two inputs along one axis, and the second one's share. */
struct pair {
  int first, second;
  float share;
};

static __device__ __forceinline__ pair pair_of(const sample_line &a, int o)
{
  if (!a.bilinear) {
    float at = (float)o * a.ratio;
    int i = at < (float)a.in ? (int)at : a.in - 1; /* a scale may point far outside */
    i = i < a.in ? i : a.in - 1;
    return {i, i, 0.0f};
  }
  float at = a.align ? a.ratio * (float)o : a.ratio * ((float)o + 0.5f) - 0.5f;
  at = at < 0.0f ? 0.0f : at;
  if (!(at < (float)(a.in - 1))) return {a.in - 1, a.in - 1, 0.0f};
  int first = (int)at;
  return {first, first + 1, at - (float)first};
}

template <class T, int V> static __device__ __forceinline__ void gather(float sum[V], const T *from, float weight)
{
  if (weight == 0.0f) return; /* what does not count may be infinite */
  cu_pack<T, V> v = cu_load<T, V>(from);
#pragma unroll
  for (int i = 0; i < V; i++) sum[i] += cu_float(v.v[i]) * weight;
}

template <class T, int V> static __device__ __forceinline__ void store(T *to, const float sum[V])
{
  cu_pack<T, V> v;
  for (int i = 0; i < V; i++) v.v[i] = cu_as<T>(sum[i]);
  cu_store(to, v);
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS,
                                                            CU_PIXEL_BLOCKS) interpolate(interpolate_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  const T *x = (const T *)a.from + at.channel;
  cu_cursor o = cu_cursor_at(at.first, a.h.out, a.w.out);
  const cu_cursor step = cu_cursor_at(a.p.height, a.h.out, a.w.out);
  for (int64_t pixel = at.first; pixel < at.last; pixel += a.p.height) {
    pair h = pair_of(a.h, o.h), w = pair_of(a.w, o.w);
    const T *top = x + (o.n * a.h.in + h.first) * a.w.in * a.p.channels;
    const T *bottom = x + (o.n * a.h.in + h.second) * a.w.in * a.p.channels;
    float sum[V] = {};
    gather<T, V>(sum, top + w.first * a.p.channels, (1.0f - h.share) * (1.0f - w.share));
    gather<T, V>(sum, top + w.second * a.p.channels, (1.0f - h.share) * w.share);
    gather<T, V>(sum, bottom + w.first * a.p.channels, h.share * (1.0f - w.share));
    gather<T, V>(sum, bottom + w.second * a.p.channels, h.share * w.share);
    store<T, V>((T *)a.to + pixel * a.p.channels + at.channel, sum);
    cu_cursor_move(o, step, a.h.out, a.w.out);
  }
}

/* Outputs that may read input i, last excluded: one too many on each side costs less than an exact answer. */
struct range {
  int first, last;
};

static __device__ __forceinline__ range readers_of(const sample_line &a, int i)
{
  if (a.ratio <= 0.0f) return {0, a.out};
  float shift = a.bilinear && !a.align ? 0.5f : 0.0f;
  float low = ((float)i - 1.0f + shift) / a.ratio - shift - 1.0f,
      high = ((float)i + 1.0f + shift) / a.ratio - shift + 2.0f;
  float end = (float)a.out;
  range r = {i == 0 || low < 0.0f ? 0 : low > end ? a.out : (int)low, i == a.in - 1 || high > end ? a.out : (int)high};
  return r;
}

/* How much of input i output o is. */
static __device__ __forceinline__ float weight_on(const sample_line &a, int o, int i)
{
  pair p = pair_of(a, o);
  return (p.first == i ? 1.0f - p.share : 0.0f) + (p.second == i ? p.share : 0.0f);
}

template <class T, int V>
__global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_PIXEL_BLOCKS) interpolate_grad(interpolate_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  const T *dy = (const T *)a.from + at.channel;
  cu_cursor o = cu_cursor_at(at.first, a.h.in, a.w.in);
  const cu_cursor step = cu_cursor_at(a.p.height, a.h.in, a.w.in);
  for (int64_t pixel = at.first; pixel < at.last; pixel += a.p.height) {
    range rows = readers_of(a.h, o.h), columns = readers_of(a.w, o.w);
    float sum[V] = {};
    for (int h = rows.first; h < rows.last; h++) {
      float by_h = weight_on(a.h, h, o.h);
      if (by_h == 0.0f) continue;
      const T *row = dy + (o.n * a.h.out + h) * a.w.out * a.p.channels;
      for (int w = columns.first; w < columns.last; w++)
        gather<T, V>(sum, row + w * a.p.channels, by_h * weight_on(a.w, w, o.w));
    }
    store<T, V>((T *)a.to + pixel * a.p.channels + at.channel, sum);
    cu_cursor_move(o, step, a.h.in, a.w.in);
  }
}

/* ---- grid_sample ----------------------------------------------------------------------------- */

/* Coordinate g as a position in pixels of an axis of n (ops/sample.h, sample_position, in float). */
static __device__ __forceinline__ float position(float g, int64_t n, int padding, bool align, float *slope)
{
  float last = (float)(n - 1), at = align ? (g + 1.0f) / 2.0f * last : ((g + 1.0f) * (float)n - 1.0f) / 2.0f;
  *slope = align ? last / 2.0f : (float)n / 2.0f;
  if (padding == SAMPLE_ZEROS) return at;
  if (padding == SAMPLE_REFLECTION) {
    float low = align ? 0.0f : -0.5f, span = align ? last : (float)n;
    if (span <= 0.0f) {
      *slope = 0.0f;
      return 0.0f;
    }
    float away = at - low;
    if (away < 0.0f) away = -away, *slope = -*slope;
    float turns = floorf(away / span), rest = away - turns * span;
    bool odd = fmodf(turns, 2.0f) != 0.0f;
    if (odd) *slope = -*slope;
    at = low + (odd ? span - rest : rest);
  }
  if (at > 0.0f && at < last) return at;
  *slope = 0.0f;
  return at > 0.0f ? last : 0.0f;
}

static __device__ __forceinline__ int64_t whole(float at, bool nearest)
{
  const float far = 1e9f;
  return at > -far && at < far ? (int64_t)(nearest ? rintf(at) : floorf(at)) : -(int64_t)far;
}

/* The pixels that one place of the grid reads: element offsets of their channels in x, -1 = outside. */
struct reads {
  int64_t at[4];
  float weight[4], by_x[4], by_y[4];
  int n;
};

static __device__ __forceinline__ int64_t pixel_at(const grid_shape &s, int64_t n, int64_t h, int64_t w)
{
  if (h < 0 || h >= s.H || w < 0 || w >= s.W) return -1;
  return ((n * s.H + h) * s.W + w) * s.C;
}

template <class T> static __device__ __forceinline__ reads reads_of(const grid_shape &s, int64_t n, int64_t i,
    int64_t j)
{
  const T *g = (const T *)s.grid + n * s.grid_stride[0] + i * s.grid_stride[1] + j * s.grid_stride[2];
  float slope_x, slope_y;
  float px = position(cu_float(g[0]), s.W, s.padding, s.align, &slope_x);
  float py = position(cu_float(g[s.grid_stride[3]]), s.H, s.padding, s.align, &slope_y);
  int64_t left = whole(px, s.nearest), top = whole(py, s.nearest);
  float fx = px - (float)left, fy = py - (float)top;
  reads r = {{pixel_at(s, n, top, left), -1, -1, -1}, {1.0f}, {}, {}, 1};
  if (s.nearest) return r;
  r.n = 4;
  r.at[1] = pixel_at(s, n, top, left + 1);
  r.at[2] = pixel_at(s, n, top + 1, left);
  r.at[3] = pixel_at(s, n, top + 1, left + 1);
  for (int k = 0; k < 4; k++) {
    float wx = k % 2 ? fx : 1.0f - fx, wy = k / 2 ? fy : 1.0f - fy;
    r.weight[k] = wx * wy;
    r.by_x[k] = (k % 2 ? wy : -wy) * slope_x;
    r.by_y[k] = (k / 2 ? wx : -wx) * slope_y;
  }
  return r;
}

/* Place number k of the result. */
struct spot {
  int64_t n, i, j;
};

static __device__ __forceinline__ spot spot_of(const grid_shape &s, int64_t k)
{
  int64_t row = k / s.w;
  return {row / s.h, row % s.h, k - row * s.w};
}

template <class T> __global__ void __launch_bounds__(GRID_THREADS) grid_sample(grid_args a)
{
  for (int64_t e = cu_first(); e < a.s.N * a.s.h * a.s.w * a.s.C; e += cu_stride()) {
    int64_t k = e / a.s.C, c = e - k * a.s.C;
    spot p = spot_of(a.s, k);
    reads r = reads_of<T>(a.s, p.n, p.i, p.j);
    float sum = 0.0f;
    for (int q = 0; q < r.n; q++)
      if (r.at[q] >= 0) sum += r.weight[q] * cu_float(((const T *)a.s.x)[r.at[q] + c]);
    ((T *)a.y)[e] = cu_as<T>(sum);
  }
}

template <class T> __global__ void __launch_bounds__(GRID_THREADS) grid_dx(grid_grad_args a)
{
  int scale = cu_fixed_scale(a.dx);
  for (int64_t e = cu_first(); e < a.s.N * a.s.h * a.s.w * a.s.C; e += cu_stride()) {
    int64_t k = e / a.s.C, c = e - k * a.s.C;
    spot p = spot_of(a.s, k);
    reads r = reads_of<T>(a.s, p.n, p.i, p.j);
    float d = cu_float(((const T *)a.dy)[e]);
    for (int q = 0; q < r.n; q++)
      if (r.at[q] >= 0) cu_fixed_add(a.dx, scale, r.at[q] + c, r.weight[q] * d);
  }
}

/* A warp for each place; its threads share the channels. */
template <class T> __global__ void __launch_bounds__(GRID_THREADS) grid_dgrid(grid_grad_args a)
{
  int lane = threadIdx.x % 32;
  int64_t places = a.s.N * a.s.h * a.s.w;
  for (int64_t k = cu_first() / 32; k < places; k += cu_stride() / 32) {
    spot p = spot_of(a.s, k);
    reads r = reads_of<T>(a.s, p.n, p.i, p.j);
    const T *dy = (const T *)a.dy + k * a.s.C, *x = (const T *)a.s.x;
    float gx = 0.0f, gy = 0.0f;
    for (int64_t c = lane; c < a.s.C; c += 32)
      for (int q = 0; q < r.n; q++) {
        if (r.at[q] < 0) continue;
        float v = cu_float(dy[c]) * cu_float(x[r.at[q] + c]);
        gx += r.by_x[q] * v;
        gy += r.by_y[q] * v;
      }
    gx = cu_warp_sum(gx);
    gy = cu_warp_sum(gy);
    T *to = (T *)a.dgrid + p.n * a.dgrid_stride[0] + p.i * a.dgrid_stride[1] + p.j * a.dgrid_stride[2];
    if (lane == 0) to[0] = cu_as<T>(gx), to[a.dgrid_stride[3]] = cu_as<T>(gy);
  }
}

} // namespace

CU_TABLE(cu_sample_table, CU_WIDE(interpolate), CU_WIDE(interpolate_grad), CU_FLOATS(grid_sample), CU_FLOATS(grid_dx),
         CU_FLOATS(grid_dgrid))
