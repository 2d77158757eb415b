/* pool.cu -- max and average pooling over channels-last pixels, with any windows, and adaptive pooling.
**
** The forward kernels walk over the window of a pixel of y; the gradients walk over the windows that cover a pixel of
** dx and add up what comes back from them, so every element is written once and always summed in the same order.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/pool.h"

#include "backend/cuda/kernels/vector.h"

/* Some positions along an axis, last excluded. */
struct range {
  int first, last;
};

static __device__ __forceinline__ int lesser(int a, int b) { return a < b ? a : b; }

/* ---- windows --------------------------------------------------------------------------------- */

static __device__ __forceinline__ int window_start(const pool_axis &a, int o)
{
  return a.kernel ? o * a.stride - a.padding : 0;
}

/* Inputs from the first to the last tap of a window. */
static __device__ __forceinline__ int reach_of(const pool_axis &a) { return a.dilation * (a.kernel - 1) + 1; }

/* Taps that are d inputs apart. */
static __device__ __forceinline__ int taps_in(const pool_axis &a, int d)
{
  return a.dilation == 1 ? d : d / a.dilation;
}

/* Inputs in window o; with a dilation not all of them, but every dilation-th from the first. */
static __device__ __forceinline__ range window_of(const pool_axis &a, int o)
{
  if (!a.kernel) {
    int64_t next = (int64_t)(o + 1) * a.in + a.out - 1;
    return {(int)((int64_t)o * a.in / a.out), (int)(next / a.out)};
  }
  int start = window_start(a, o);
  int first = start < 0 && a.dilation > 1 ? (start % a.dilation + a.dilation) % a.dilation : start;
  return {first < 0 ? 0 : first, lesser(start + reach_of(a), a.in)};
}

/* Windows that reach over input i; with a dilation some of them leave it out. */
static __device__ __forceinline__ range covering(const pool_axis &a, int i)
{
  if (!a.kernel) {
    int64_t next = (int64_t)(i + 1) * a.out + a.in - 1;
    return {(int)((int64_t)i * a.out / a.in), (int)(next / a.in)};
  }
  int at = i + a.padding, reach = reach_of(a);
  return {at < reach ? 0 : (at - reach) / a.stride + 1, lesser(at / a.stride + 1, a.out)};
}

static __device__ __forceinline__ bool leaves_out(const pool_axis &a, int o, int i)
{
  return a.dilation > 1 && (i - window_start(a, o)) % a.dilation != 0;
}

/* What an average divides by along one axis: padding may count, but not what ceil_mode adds beyond it. */
static __device__ __forceinline__ int counted(const pool_axis &a, int o, bool padding_too)
{
  range inside = window_of(a, o);
  if (!a.kernel || !padding_too) return inside.last - inside.first;
  int start = window_start(a, o);
  return lesser(start + a.kernel, a.in + a.padding) - start;
}

static __device__ __forceinline__ float divisor(const pool_shape &s, int h, int w)
{
  return (float)counted(s.h, h, s.count_pad) * (float)counted(s.w, w, s.count_pad);
}

/* Position h,w of the image as an index of window oh,ow: within the window, or within the image if adaptive. */
static __device__ __forceinline__ int index_of(const pool_shape &s, int oh, int ow, int h, int w)
{
  int row = s.h.kernel ? s.w.kernel : s.w.in;
  return taps_in(s.h, h - window_start(s.h, oh)) * row + taps_in(s.w, w - window_start(s.w, ow));
}

/* ---- max ------------------------------------------------------------------------------------- */

/* The largest value so far of V channels, and where. */
template <int V> struct winners {
  float value[V];
  int index[V];
};

/* NaN beats everything. */
static __device__ __forceinline__ bool beats(float a, float b)
{
  return a > b || (a != a && b == b);
}

/* The winners of one window so far, for values that come in the order of their indices. */
template <class T, int V> static __device__ __forceinline__ void challenge(winners<V> &best, const cu_pack<T, V> &x,
    int index)
{
#pragma unroll
  for (int i = 0; i < V; i++) {
    float value = cu_float(x.v[i]);
    if (!beats(value, best.value[i])) continue;
    best.value[i] = value;
    best.index[i] = index;
  }
}

template <int V> static __device__ __forceinline__ winners<V> nobody(int index)
{
  winners<V> best;
  for (int i = 0; i < V; i++) best.value[i] = -INFINITY, best.index[i] = index;
  return best;
}

template <class T, int V> static __device__ __forceinline__ void store_winners(const pool_args &a, int64_t at,
    const winners<V> &best)
{
  cu_pack<T, V> y;
  cu_pack<int32_t, V> wide;
  cu_pack<uint8_t, V> byte;
  for (int i = 0; i < V; i++) {
    y.v[i] = cu_as<T>(best.value[i]);
    wide.v[i] = best.index[i];
    byte.v[i] = (uint8_t)best.index[i];
  }
  cu_store((T *)a.y + at, y);
  if (a.s.h.kernel) cu_store((uint8_t *)a.index + at, byte);
  else cu_store((int32_t *)a.index + at, wide);
}

/* First pixel of row h of image n. */
static __device__ __forceinline__ int64_t row_of(const pool_shape &s, int64_t n, int h)
{
  return (n * s.h.in + h) * s.w.in;
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_PIXEL_BLOCKS) pool_max(pool_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  const T *x = (const T *)a.x + at.channel;
  cu_cursor o = cu_cursor_at(at.first, a.s.h.out, a.s.w.out);
  const cu_cursor step = cu_cursor_at(a.p.height, a.s.h.out, a.s.w.out);
  for (int64_t pixel = at.first; pixel < at.last; pixel += a.p.height) {
    range rows = window_of(a.s.h, o.h), columns = window_of(a.s.w, o.w);
    winners<V> best = nobody<V>(index_of(a.s, o.h, o.w, rows.first, columns.first));
    for (int h = rows.first; h < rows.last; h += a.s.h.dilation)
      for (int w = columns.first; w < columns.last; w += a.s.w.dilation)
        challenge(best, cu_load<T, V>(x + (row_of(a.s, o.n, h) + w) * a.p.channels), index_of(a.s, o.h, o.w, h, w));
    store_winners<T, V>(a, pixel * a.p.channels + at.channel, best);
    cu_cursor_move(o, step, a.s.h.out, a.s.w.out);
  }
}

/* ---- average --------------------------------------------------------------------------------- */

template <class T, int V> static __device__ __forceinline__ void gather(float sum[V], const T *from, float factor)
{
  cu_pack<T, V> v = cu_load<T, V>(from);
#pragma unroll
  for (int i = 0; i < V; i++) sum[i] += cu_float(v.v[i]) * factor;
}

template <class T, int V> static __device__ __forceinline__ void store_sum(T *to, const float sum[V], float by)
{
  cu_pack<T, V> v;
  for (int i = 0; i < V; i++) v.v[i] = cu_as<T>(sum[i] / by);
  cu_store(to, v);
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_PIXEL_BLOCKS) pool_average(pool_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  const T *x = (const T *)a.x + at.channel;
  cu_cursor o = cu_cursor_at(at.first, a.s.h.out, a.s.w.out);
  const cu_cursor step = cu_cursor_at(a.p.height, a.s.h.out, a.s.w.out);
  for (int64_t pixel = at.first; pixel < at.last; pixel += a.p.height) {
    range rows = window_of(a.s.h, o.h), columns = window_of(a.s.w, o.w);
    float sum[V] = {};
    for (int h = rows.first; h < rows.last; h++)
      for (int w = columns.first; w < columns.last; w++)
        gather<T, V>(sum, x + (row_of(a.s, o.n, h) + w) * a.p.channels, 1.0f);
    store_sum<T, V>((T *)a.y + pixel * a.p.channels + at.channel, sum, divisor(a.s, o.h, o.w));
    cu_cursor_move(o, step, a.s.h.out, a.s.w.out);
  }
}

/* ---- large windows: a block each ------------------------------------------------------------- */

/* What the threads of a block share: pixel blockIdx.x of y, whose window they walk over together. */
struct large_window {
  cu_cursor o;
  range rows, columns;
  int width, area; /* taps */
};

static __device__ __forceinline__ large_window large_window_of(const pool_shape &s)
{
  large_window v;
  v.o = cu_cursor_at(blockIdx.x, s.h.out, s.w.out);
  v.rows = window_of(s.h, v.o.h);
  v.columns = window_of(s.w, v.o.w);
  v.width = taps_in(s.w, v.columns.last - v.columns.first + s.w.dilation - 1);
  v.area = taps_in(s.h, v.rows.last - v.rows.first + s.h.dilation - 1) * v.width;
  return v;
}

/* Row and column in the image of position k of the window. */
static __device__ __forceinline__ void large_position(const pool_shape &s, const large_window &v, int k, int *h, int *w)
{
  int row = k / v.width;
  *h = v.rows.first + row * s.h.dilation;
  *w = v.columns.first + (k - row * v.width) * s.w.dilation;
}

/* Of two winners the better one; of equals the one that came first. */
static __device__ __forceinline__ bool ahead(float a, int index_a, float b, int index_b)
{
  bool equal = a == b || (a != a && b != b);
  return beats(a, b) || (equal && index_a < index_b);
}

template <int V> static __device__ __forceinline__ void join_winners(const cu_pixels &p, int lane, winners<V> &best)
{
  __shared__ float value[V][CU_PIXEL_THREADS];
  __shared__ int index[V][CU_PIXEL_THREADS];
  for (int step = cu_first_step(p.height); step > 0; step /= 2) {
    for (int i = 0; i < V && cu_gives(lane, step); i++)
      value[i][threadIdx.x] = best.value[i], index[i][threadIdx.x] = best.index[i];
    __syncthreads();
    int other = (int)threadIdx.x + step * p.width;
    for (int i = 0; i < V && lane < step && lane + step < p.height; i++)
      if (ahead(value[i][other], index[i][other], best.value[i], best.index[i]))
        best.value[i] = value[i][other], best.index[i] = index[i][other];
  }
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS,
                                                            CU_PIXEL_BLOCKS) pool_max_large(pool_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  large_window v = large_window_of(a.s);
  winners<V> best = nobody<V>(0x7fffffff);
  for (int k = at.works ? at.lane : v.area; k < v.area; k += a.p.height) {
    int h, w;
    large_position(a.s, v, k, &h, &w);
    int index = index_of(a.s, v.o.h, v.o.w, h, w);
    if (k == at.lane) best = nobody<V>(index);
    challenge(best, cu_load<T, V>((const T *)a.x + (row_of(a.s, v.o.n, h) + w) * a.p.channels + at.channel), index);
  }
  join_winners<V>(a.p, at.works ? at.lane : a.p.height, best);
  if (at.works && at.lane == 0) store_winners<T, V>(a, (int64_t)blockIdx.x * a.p.channels + at.channel, best);
}

template <int V> static __device__ __forceinline__ void join_sums(const cu_pixels &p, int lane, float sum[V])
{
  __shared__ float room[V][CU_PIXEL_THREADS];
  for (int step = cu_first_step(p.height); step > 0; step /= 2) {
    for (int i = 0; i < V && cu_gives(lane, step); i++) room[i][threadIdx.x] = sum[i];
    __syncthreads();
    for (int i = 0; i < V && lane < step && lane + step < p.height; i++)
      sum[i] += room[i][threadIdx.x + step * p.width];
  }
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS,
                                                            CU_PIXEL_BLOCKS) pool_average_large(pool_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  large_window v = large_window_of(a.s);
  float sum[V] = {};
  for (int k = at.works ? at.lane : v.area; k < v.area; k += a.p.height) {
    int h, w;
    large_position(a.s, v, k, &h, &w);
    gather<T, V>(sum, (const T *)a.x + (row_of(a.s, v.o.n, h) + w) * a.p.channels + at.channel, 1.0f);
  }
  join_sums<V>(a.p, at.works ? at.lane : a.p.height, sum);
  if (!at.works || at.lane > 0) return;
  store_sum<T, V>((T *)a.y + (int64_t)blockIdx.x * a.p.channels + at.channel, sum, divisor(a.s, v.o.h, v.o.w));
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Pixel oh,ow of image n of dy. */
static __device__ __forceinline__ int64_t pooled_pixel(const pool_shape &s, int64_t n, int oh, int ow)
{
  return (n * s.h.out + oh) * s.w.out + ow;
}

/* Adds dy of the channels whose winner has this index. */
template <class T, class I, int V>
static __device__ __forceinline__ void gather_winners(float sum[V], const T *dy, const I *index, int wanted)
{
  cu_pack<T, V> v = cu_load<T, V>(dy);
  cu_pack<I, V> won = cu_load<I, V>(index);
#pragma unroll
  for (int i = 0; i < V; i++) sum[i] += (int)won.v[i] == wanted ? cu_float(v.v[i]) : 0.0f;
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS,
                                                            CU_PIXEL_BLOCKS) pool_max_grad(pool_grad_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  cu_cursor i = cu_cursor_at(at.first, a.s.h.in, a.s.w.in);
  const cu_cursor step = cu_cursor_at(a.p.height, a.s.h.in, a.s.w.in);
  for (int64_t pixel = at.first; pixel < at.last; pixel += a.p.height) {
    range rows = covering(a.s.h, i.h), columns = covering(a.s.w, i.w);
    float sum[V] = {};
    for (int oh = rows.first; oh < rows.last; oh++)
      for (int ow = columns.first; ow < columns.last; ow++) {
        if (leaves_out(a.s.h, oh, i.h) || leaves_out(a.s.w, ow, i.w)) continue;
        int64_t from = pooled_pixel(a.s, i.n, oh, ow) * a.p.channels + at.channel;
        int wanted = index_of(a.s, oh, ow, i.h, i.w);
        if (a.s.h.kernel)
          gather_winners<T, uint8_t, V>(sum, (const T *)a.dy + from, (const uint8_t *)a.index + from, wanted);
        else gather_winners<T, int32_t, V>(sum, (const T *)a.dy + from, (const int32_t *)a.index + from, wanted);
      }
    store_sum<T, V>((T *)a.dx + pixel * a.p.channels + at.channel, sum, 1.0f);
    cu_cursor_move(i, step, a.s.h.in, a.s.w.in);
  }
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS,
                                                            CU_PIXEL_BLOCKS) pool_average_grad(pool_grad_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  cu_cursor i = cu_cursor_at(at.first, a.s.h.in, a.s.w.in);
  const cu_cursor step = cu_cursor_at(a.p.height, a.s.h.in, a.s.w.in);
  for (int64_t pixel = at.first; pixel < at.last; pixel += a.p.height) {
    range rows = covering(a.s.h, i.h), columns = covering(a.s.w, i.w);
    float sum[V] = {};
    for (int oh = rows.first; oh < rows.last; oh++)
      for (int ow = columns.first; ow < columns.last; ow++)
        gather<T, V>(sum, (const T *)a.dy + pooled_pixel(a.s, i.n, oh, ow) * a.p.channels + at.channel,
                     1.0f / divisor(a.s, oh, ow));
    store_sum<T, V>((T *)a.dx + pixel * a.p.channels + at.channel, sum, 1.0f);
    cu_cursor_move(i, step, a.s.h.in, a.s.w.in);
  }
}

/* ORDER pool kernels */
CU_TABLE(cu_pool_table, CU_WIDE(pool_max), CU_WIDE(pool_average), CU_WIDE(pool_max_large), CU_WIDE(pool_average_large),
         CU_WIDE(pool_max_grad), CU_WIDE(pool_average_grad))
