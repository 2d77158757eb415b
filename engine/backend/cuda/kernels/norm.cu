/* norm.cu -- batch norm over channels-last pixels, alone, with relu, and with relu and 2x2 max pooling.
**
** Bytes decide the time: the forward pass reads x twice and writes y, the backward one reads x and dy (and index)
** twice and writes dx. Statistics are taken without cancellation: every thread sums around its own first value, then
** (count, mean, sum of squares) triples are merged pairwise in a fixed order (T. Chan et al., "Algorithms for computing
** the sample variance", 1983), with means counted from the first pixel of the channel, which keeps their digits where
** all values are far from 0. So no result depends on which block runs first.
** The relu mask of the backward pass is computed again from x by the forward pass's own expression.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/norm.h"

#include "backend/cuda/kernels/vector.h"

/* Pixels whose loads are under way at the same time. */
enum { AHEAD = 4, GRAD_AHEAD = 2 };

/* ---- statistics ------------------------------------------------------------------------------ */

/* Count, mean (from the channel's first value) and sum of squared distances from the mean of some values. */
struct moments {
  float n, mean, m2;
};

static __device__ __forceinline__ moments merged(const moments &a, const moments &b)
{
  moments all;
  float shift = b.mean - a.mean;
  all.n = a.n + b.n;
  float share = all.n > 0 ? b.n / all.n : 0.0f;
  all.mean = a.mean + shift * share;
  all.m2 = a.m2 + b.m2 + shift * shift * a.n * share;
  return all;
}

/* The moments of one thread's pixels. */
template <class T, int V>
static __device__ __forceinline__ void own_moments(const cu_pixels &p, const cu_place &at, const T *x, moments own[V])
{
  float pivot[V] = {}, sum[V] = {}, square[V] = {}, n = 0;
  const T *from = x + at.channel;
  if (at.first < at.last) {
    cu_pack<T, V> head = cu_load<T, V>(from + at.first * p.channels);
    for (int i = 0; i < V; i++) pivot[i] = cu_float(head.v[i]);
  }
  for (int64_t pixel = at.first; pixel < at.last; pixel += AHEAD * p.height) {
    cu_pack<T, V> part[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      if (pixel + k * p.height < at.last) part[k] = cu_load<T, V>(from + (pixel + k * p.height) * p.channels);
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      if (pixel + k * p.height >= at.last) break;
      n += 1;
#pragma unroll
      for (int i = 0; i < V; i++) {
        float away = cu_float(part[k].v[i]) - pivot[i];
        sum[i] += away;
        square[i] += away * away;
      }
    }
  }
  cu_pack<T, V> origin = cu_load<T, V>(from);
  for (int i = 0; i < V; i++) {
    float shift = n > 0 ? sum[i] / n : 0.0f;
    own[i].n = n;
    own[i].mean = pivot[i] - cu_float(origin.v[i]) + shift;
    own[i].m2 = fmaxf(square[i] - sum[i] * shift, 0.0f);
  }
}

/* Merges the moments of all lanes of a block into those of lane 0. room: 2 * V + 1 rows of CU_PIXEL_THREADS floats. */
template <int V> static __device__ __forceinline__ void block_moments(const cu_pixels &p, int lane, float *room, moments own[V])
{
  float *mine = room + threadIdx.x;
  for (int step = cu_first_step(p.height); step > 0; step /= 2) {
    if (cu_gives(lane, step)) {
      mine[2 * V * CU_PIXEL_THREADS] = own[0].n;
      for (int i = 0; i < V; i++) {
        mine[2 * i * CU_PIXEL_THREADS] = own[i].mean;
        mine[(2 * i + 1) * CU_PIXEL_THREADS] = own[i].m2;
      }
    }
    __syncthreads();
    if (lane < step && lane + step < p.height) {
      const float *other = mine + step * p.width;
      for (int i = 0; i < V; i++)
        own[i] = merged(own[i], {other[2 * V * CU_PIXEL_THREADS], other[2 * i * CU_PIXEL_THREADS],
                                 other[(2 * i + 1) * CU_PIXEL_THREADS]});
    }
  }
}

/* Where a block's two rows of partial sums are. */
static __device__ __forceinline__ float *partial_of(const cu_pixels &p, float *partial, int64_t channel)
{
  return partial + (int64_t)blockIdx.x * 2 * p.channels + channel;
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_PIXEL_BLOCKS) norm_moments(norm_moments_args a)
{
  __shared__ float room[(2 * V + 1) * CU_PIXEL_THREADS];
  cu_place at = cu_place_of<V>(a.p);
  moments own[V] = {};
  if (at.works) own_moments<T, V>(a.p, at, (const T *)a.x, own);
  block_moments<V>(a.p, at.works ? at.lane : a.p.height, room, own);
  if (!at.works || at.lane > 0) return;
  float *out = partial_of(a.p, a.partial, at.channel);
  for (int i = 0; i < V; i++) {
    out[i] = own[i].mean;
    out[a.p.channels + i] = own[i].m2;
    if (blockIdx.x == 0) a.origin[at.channel + i] = cu_float(((const T *)a.x)[at.channel + i]);
  }
}

/* A thread's place in the kernels that add up what the blocks found: some channels side by side, lanes that share the
** blocks. */
struct total_place {
  int64_t channel;
  int lane, lanes; /* lanes: a power of two */
};

static __device__ __forceinline__ total_place total_place_of()
{
  total_place at;
  at.channel = (int64_t)blockIdx.x * NORM_TOTAL_CHANNELS + threadIdx.x % NORM_TOTAL_CHANNELS;
  at.lane = threadIdx.x / NORM_TOTAL_CHANNELS;
  at.lanes = blockDim.x / NORM_TOTAL_CHANNELS;
  return at;
}

static __device__ void store_statistics(const norm_statistics_args &a, int64_t c, const moments &all)
{
  float variance = all.m2 / all.n, mean = a.origin[c] + all.mean;
  a.mean[c] = mean;
  a.invstd[c] = 1.0f / sqrtf(variance + a.eps);
  if (!a.running_mean) return;
  float kept = 1.0f - a.momentum;
  a.running_mean[c] = kept * a.running_mean[c] + a.momentum * mean;
  a.running_var[c] = kept * a.running_var[c] + a.momentum * (all.m2 / (all.n - 1.0f));
}

__global__ void __launch_bounds__(NORM_TOTAL_CHANNELS * NORM_TOTAL_LANES) norm_statistics(norm_statistics_args a)
{
  __shared__ moments room[NORM_TOTAL_CHANNELS * NORM_TOTAL_LANES];
  total_place at = total_place_of();
  moments own = {0, 0, 0};
  int64_t blocks = (a.pixels + a.chunk - 1) / a.chunk;
  for (int64_t b = at.lane; b < blocks && at.channel < a.channels; b += at.lanes) {
    const float *from = a.partial + b * 2 * a.channels + at.channel;
    float n = (float)(b + 1 < blocks ? a.chunk : a.pixels - b * a.chunk);
    own = merged(own, {n, from[0], from[a.channels]});
  }
  for (int step = at.lanes / 2; step > 0; step /= 2) {
    if (cu_gives(at.lane, step)) room[threadIdx.x] = own;
    __syncthreads();
    if (at.lane < step) own = merged(own, room[threadIdx.x + step * NORM_TOTAL_CHANNELS]);
  }
  if (at.lane == 0 && at.channel < a.channels) store_statistics(a, at.channel, own);
}

__global__ void norm_running(norm_running_args a)
{
  int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= a.channels) return;
  a.mean[c] = a.running_mean[c];
  a.invstd[c] = 1.0f / sqrtf(a.running_var[c] + a.eps);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* The numbers of a thread's channels. */
template <int V> struct affine {
  float mean[V], scale[V], bias[V];
};

template <int V> static __device__ __forceinline__ affine<V> affine_of(const norm_channels &c, int64_t channel)
{
  affine<V> f;
  float invstd[V];
  cu_channels<V>(c.mean, channel, f.mean);
  cu_channels<V>(c.weight, channel, f.scale);
  cu_channels<V>(c.invstd, channel, invstd);
  for (int i = 0; i < V; i++) f.scale[i] *= invstd[i];
  if (c.bias) cu_channels<V>(c.bias, channel, f.bias);
  return f;
}

/* fmaf and no contraction left to the compiler: both passes must get the same bits, or their relu masks differ. */
template <int V> static __device__ __forceinline__ float normed(const affine<V> &f, int i, float x)
{
  return fmaf(x - f.mean[i], f.scale[i], f.bias[i]);
}

/* Offset of a thread's pixel number `step`. */
static __device__ __forceinline__ int64_t pixel_at(const cu_pixels &p, const cu_place &at, int64_t step)
{
  return (at.first + step * p.height) * p.channels;
}

/* NaN stays. */
static __device__ __forceinline__ float rectified(float z)
{
  return z < 0.0f ? 0.0f : z;
}

/* From the back: what the pass before read last is still in the L2 cache. */
template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_PIXEL_BLOCKS) norm_apply(norm_apply_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  affine<V> f = affine_of<V>(a.c, at.channel);
  const T *__restrict__ x = (const T *)a.x + at.channel;
  T *__restrict__ y = (T *)a.y + at.channel;
  int64_t steps = (at.last - at.first - 1) / a.p.height;
  for (int64_t step = steps; step >= 0; step -= AHEAD) {
    cu_pack<T, V> v[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      if (step >= k) v[k] = cu_load<T, V>(x + pixel_at(a.p, at, step - k));
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      if (step < k) break;
#pragma unroll
      for (int i = 0; i < V; i++) {
        float z = normed(f, i, cu_float(v[k].v[i]));
        v[k].v[i] = cu_as<T>(a.relu ? rectified(z) : z);
      }
      cu_store(y + pixel_at(a.p, at, step - k), v[k]);
    }
  }
}

/* ---- pooled forward -------------------------------------------------------------------------- */

/* First pixel of a window in x. */
static __device__ __forceinline__ int64_t window_corner(const norm_windows &w, const cu_cursor &at)
{
  return (at.n * w.H + 2 * (int64_t)at.h) * w.W + 2 * at.w;
}

/* Pixel k of a window, row by row, counted from its corner. */
static __device__ __forceinline__ int64_t window_pixel(const norm_windows &w, int k)
{
  return (int64_t)(k / 2) * w.W + k % 2;
}

/* Largest of the window after relu, and the first place that has it; NaN beats everything. */
template <class T, int V>
static __device__ __forceinline__ void window_best(const affine<V> &f, const cu_pack<T, V> part[4], float best[V],
                                                   uint8_t place[V])
{
#pragma unroll
  for (int i = 0; i < V; i++) {
    best[i] = rectified(normed(f, i, cu_float(part[0].v[i])));
    place[i] = 0;
#pragma unroll
    for (int k = 1; k < 4; k++) {
      float z = rectified(normed(f, i, cu_float(part[k].v[i])));
      if (z > best[i] || (z != z && best[i] == best[i])) best[i] = z, place[i] = (uint8_t)k;
    }
  }
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_PIXEL_BLOCKS) norm_pool(norm_pool_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  affine<V> f = affine_of<V>(a.c, at.channel);
  cu_cursor window = cu_cursor_at(at.first, a.w.windows_h, a.w.windows_w);
  const cu_cursor step = cu_cursor_at(a.p.height, a.w.windows_h, a.w.windows_w);
  const T *x = (const T *)a.x + at.channel;
  for (int64_t pixel = at.first; pixel < at.last; pixel += a.p.height) {
    int64_t corner = window_corner(a.w, window), to = pixel * a.p.channels + at.channel;
    cu_pack<T, V> part[4];
#pragma unroll
    for (int k = 0; k < 4; k++) part[k] = cu_load<T, V>(x + (corner + window_pixel(a.w, k)) * a.p.channels);
    float best[V];
    cu_pack<uint8_t, V> place;
    window_best<T, V>(f, part, best, place.v);
    for (int i = 0; i < V; i++) part[0].v[i] = cu_as<T>(best[i]);
    cu_store((T *)a.y + to, part[0]);
    cu_store(a.index + to, place);
    cu_cursor_move(window, step, a.w.windows_h, a.w.windows_w);
  }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* dz: dy where relu let z pass. */
template <int V> static __device__ __forceinline__ float masked(const affine<V> &f, int i, bool relu, float x, float dy)
{
  return relu && !(normed(f, i, x) > 0.0f) ? 0.0f : dy;
}

/* Adds dz and dz * (x - mean) of all lanes of a block and stores them. */
template <int V>
static __device__ __forceinline__ void store_sums(const norm_grad_args &a, const cu_place &at, float *room, float dz[V], float dzx[V])
{
  int lane = at.works ? at.lane : a.p.height;
  float *mine = room + threadIdx.x;
  for (int step = cu_first_step(a.p.height); step > 0; step /= 2) {
    for (int i = 0; i < V && cu_gives(lane, step); i++) {
      mine[2 * i * CU_PIXEL_THREADS] = dz[i];
      mine[(2 * i + 1) * CU_PIXEL_THREADS] = dzx[i];
    }
    __syncthreads();
    if (lane < step && lane + step < a.p.height) {
      const float *other = mine + step * a.p.width;
      for (int i = 0; i < V; i++) {
        dz[i] += other[2 * i * CU_PIXEL_THREADS];
        dzx[i] += other[(2 * i + 1) * CU_PIXEL_THREADS];
      }
    }
  }
  if (lane > 0) return;
  float *out = partial_of(a.p, a.partial, at.channel);
  for (int i = 0; i < V; i++) {
    out[i] = dz[i];
    out[a.p.channels + i] = dzx[i];
  }
}

template <class T, int V>
static __device__ __forceinline__ void own_sums(const norm_grad_args &a, const cu_place &at, float dz[V], float dzx[V])
{
  affine<V> f = affine_of<V>(a.c, at.channel);
  const T *x = (const T *)a.x + at.channel, *dy = (const T *)a.dy + at.channel;
  for (int64_t pixel = at.first; pixel < at.last; pixel += GRAD_AHEAD * a.p.height) {
    cu_pack<T, V> v[GRAD_AHEAD], g[GRAD_AHEAD];
#pragma unroll
    for (int k = 0; k < GRAD_AHEAD; k++) {
      int64_t from = (pixel + k * a.p.height) * a.p.channels;
      if (pixel + k * a.p.height < at.last) v[k] = cu_load<T, V>(x + from), g[k] = cu_load<T, V>(dy + from);
    }
#pragma unroll
    for (int k = 0; k < GRAD_AHEAD; k++) {
      if (pixel + k * a.p.height >= at.last) break;
#pragma unroll
      for (int i = 0; i < V; i++) {
        float value = cu_float(v[k].v[i]), slope = masked(f, i, a.relu, value, cu_float(g[k].v[i]));
        dz[i] += slope;
        dzx[i] += slope * (value - f.mean[i]);
      }
    }
  }
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_PIXEL_BLOCKS) norm_grad_sums(norm_grad_args a)
{
  __shared__ float room[2 * V * CU_PIXEL_THREADS];
  cu_place at = cu_place_of<V>(a.p);
  float dz[V] = {}, dzx[V] = {};
  if (at.works) own_sums<T, V>(a, at, dz, dzx);
  store_sums<V>(a, at, room, dz, dzx);
}

/* The sums of all blocks: dweight and dbias. */
__global__ void __launch_bounds__(NORM_TOTAL_CHANNELS * NORM_TOTAL_LANES) norm_totals(norm_totals_args a)
{
  __shared__ float room[2][NORM_TOTAL_CHANNELS * NORM_TOTAL_LANES];
  total_place at = total_place_of();
  float dz = 0, dzx = 0;
  for (int64_t b = at.lane; b < a.blocks && at.channel < a.channels; b += at.lanes) {
    const float *from = a.partial + b * 2 * a.channels + at.channel;
    dz += from[0];
    dzx += from[a.channels];
  }
  for (int step = at.lanes / 2; step > 0; step /= 2) {
    if (cu_gives(at.lane, step)) room[0][threadIdx.x] = dz, room[1][threadIdx.x] = dzx;
    __syncthreads();
    if (at.lane < step) {
      dz += room[0][threadIdx.x + step * NORM_TOTAL_CHANNELS];
      dzx += room[1][threadIdx.x + step * NORM_TOTAL_CHANNELS];
    }
  }
  if (at.lane > 0 || at.channel >= a.channels) return;
  a.dbias[at.channel] = dz;
  a.dweight[at.channel] = dzx * a.invstd[at.channel];
}

/* What dx takes from the statistics' own gradients: dx = scale * (dz - even - (x - mean) * slope). */
template <int V> struct feedback {
  float even[V], slope[V];
};

template <int V> static __device__ __forceinline__ feedback<V> feedback_of(const norm_grad_args &a, int64_t channel)
{
  feedback<V> b;
  for (int i = 0; i < V; i++) {
    b.even[i] = a.dbias ? a.dbias[channel + i] * a.share : 0.0f;
    b.slope[i] = a.dweight ? a.dweight[channel + i] * a.c.invstd[channel + i] * a.share : 0.0f;
  }
  return b;
}

template <int V>
static __device__ __forceinline__ float slope_of(const affine<V> &f, const feedback<V> &b, int i, float x, float dz)
{
  return f.scale[i] * (dz - b.even[i] - (x - f.mean[i]) * b.slope[i]);
}

template <class T, int V>
static __device__ __forceinline__ cu_pack<T, V> slopes_of(const affine<V> &f, const feedback<V> &b, bool relu,
                                                            const cu_pack<T, V> &x, const cu_pack<T, V> &dy)
{
  cu_pack<T, V> dx;
#pragma unroll
  for (int i = 0; i < V; i++) {
    float value = cu_float(x.v[i]), dz = masked(f, i, relu, value, cu_float(dy.v[i]));
    dx.v[i] = cu_as<T>(slope_of(f, b, i, value, dz));
  }
  return dx;
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_PIXEL_BLOCKS) norm_grad_apply(norm_grad_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  affine<V> f = affine_of<V>(a.c, at.channel);
  feedback<V> b = feedback_of<V>(a, at.channel);
  const T *__restrict__ x = (const T *)a.x + at.channel, *__restrict__ dy = (const T *)a.dy + at.channel;
  T *__restrict__ dx = (T *)a.dx + at.channel;
  int64_t steps = (at.last - at.first - 1) / a.p.height;
  for (int64_t step = steps; step >= 0; step -= GRAD_AHEAD) { /* from the back, as norm_apply */
    cu_pack<T, V> v[GRAD_AHEAD], g[GRAD_AHEAD];
#pragma unroll
    for (int k = 0; k < GRAD_AHEAD; k++) {
      if (step < k) break;
      v[k] = cu_load<T, V>(x + pixel_at(a.p, at, step - k));
      g[k] = cu_load<T, V>(dy + pixel_at(a.p, at, step - k));
    }
#pragma unroll
    for (int k = 0; k < GRAD_AHEAD; k++)
      if (step >= k) cu_store(dx + pixel_at(a.p, at, step - k), slopes_of<T, V>(f, b, a.relu, v[k], g[k]));
  }
}

/* ---- pooled backward ------------------------------------------------------------------------- */

/* A window of x, perhaps cut by the edge (then no pooling saw it: dy and index are zeros), and what came back for it. */
template <class T, int V> struct window_data {
  cu_pack<T, V> x[4], dy;
  cu_pack<uint8_t, V> index;
  bool whole, has[4];
};

template <class T, int V>
static __device__ __forceinline__ void load_window(const norm_grad_args &a, const cu_cursor &at, int64_t channel, int64_t corner,
                                                   window_data<T, V> &d)
{
  int height = a.w.H - 2 * at.h, width = a.w.W - 2 * at.w;
  d.whole = height >= 2 && width >= 2;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    d.has[k] = k / 2 < height && k % 2 < width;
    if (d.has[k]) d.x[k] = cu_load<T, V>((const T *)a.x + (corner + window_pixel(a.w, k)) * a.p.channels + channel);
  }
  if (!d.whole) return;
  int64_t pooled = (at.n * (a.w.H / 2) + at.h) * (a.w.W / 2) + at.w;
  d.dy = cu_load<T, V>((const T *)a.dy + pooled * a.p.channels + channel);
  d.index = cu_load<uint8_t, V>(a.index + pooled * a.p.channels + channel);
}

template <class T, int V>
static __device__ __forceinline__ void own_pool_sums(const norm_grad_args &a, const cu_place &at, float dz[V], float dzx[V])
{
  affine<V> f = affine_of<V>(a.c, at.channel);
  cu_cursor window = cu_cursor_at(at.first, a.w.windows_h, a.w.windows_w);
  const cu_cursor step = cu_cursor_at(a.p.height, a.w.windows_h, a.w.windows_w);
  for (int64_t pixel = at.first; pixel < at.last; pixel += a.p.height) {
    window_data<T, V> d;
    load_window<T, V>(a, window, at.channel, window_corner(a.w, window), d);
    cu_cursor_move(window, step, a.w.windows_h, a.w.windows_w);
    if (!d.whole) continue;
#pragma unroll
    for (int i = 0; i < V; i++) {
      float value = 0;
      for (int k = 0; k < 4; k++) value = d.index.v[i] == k ? cu_float(d.x[k].v[i]) : value;
      float slope = masked(f, i, true, value, cu_float(d.dy.v[i]));
      dz[i] += slope;
      dzx[i] += slope * (value - f.mean[i]);
    }
  }
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_WINDOW_BLOCKS) norm_pool_grad_sums(norm_grad_args a)
{
  __shared__ float room[2 * V * CU_PIXEL_THREADS];
  cu_place at = cu_place_of<V>(a.p);
  float dz[V] = {}, dzx[V] = {};
  if (at.works && at.first < at.last) own_pool_sums<T, V>(a, at, dz, dzx);
  store_sums<V>(a, at, room, dz, dzx);
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_WINDOW_BLOCKS) norm_pool_grad_apply(norm_grad_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  affine<V> f = affine_of<V>(a.c, at.channel);
  feedback<V> b = feedback_of<V>(a, at.channel);
  cu_cursor window = cu_cursor_at(at.first, a.w.windows_h, a.w.windows_w);
  const cu_cursor step = cu_cursor_at(a.p.height, a.w.windows_h, a.w.windows_w);
  for (int64_t pixel = at.first; pixel < at.last; pixel += a.p.height) {
    window_data<T, V> d;
    int64_t corner = window_corner(a.w, window);
    load_window<T, V>(a, window, at.channel, corner, d);
    cu_cursor_move(window, step, a.w.windows_h, a.w.windows_w);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (!d.has[k]) continue;
#pragma unroll
      for (int i = 0; i < V; i++) {
        float value = cu_float(d.x[k].v[i]);
        bool won = d.whole && d.index.v[i] == k;
        float dz = won ? masked(f, i, true, value, cu_float(d.dy.v[i])) : 0.0f;
        d.x[k].v[i] = cu_as<T>(slope_of(f, b, i, value, dz));
      }
      cu_store((T *)a.dx + (corner + window_pixel(a.w, k)) * a.p.channels + at.channel, d.x[k]);
    }
  }
}

/* ORDER norm kernels */
CU_TABLE(cu_norm_table, CU_WIDE(norm_moments), CU_WIDE(norm_apply), CU_WIDE(norm_pool), CU_WIDE(norm_grad_sums),
         CU_WIDE(norm_grad_apply), CU_WIDE(norm_pool_grad_sums), CU_WIDE(norm_pool_grad_apply), CU_ENTRY(norm_statistics),
         CU_ENTRY(norm_running), CU_ENTRY(norm_totals))
