/* norm.cu -- batch norm over channels-last pixels, alone, with relu or silu, and with relu and 2x2 max pooling.
**
** Bytes decide the time: the forward pass reads x twice and writes y, the backward one reads x and dy twice and writes
** dx. With pooling the forward pass also writes the winners, the value of x that each window's maximum comes from, and
** the backward one reads those instead of x the first time.
** Statistics are taken without cancellation: every thread sums around its own first value, then (count, mean, sum of
** squares) triples are merged in a fixed order (T. Chan et al., "Algorithms for computing the sample variance",
** 1983), with means counted from the first pixel of the channel, which keeps their digits where all values are far from
** 0. So no result depends on which block runs first.
** The value before the activation, and the places of the winners, are computed again from x in the backward pass by the
** forward pass's own expressions.
** Memory is kept busy by loads of several pixels or of a whole window before the first of them is used (cu_ahead), and
** by few instructions beside: tests/cuda/sass counts both in the machine code.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/norm.h"

#include "backend/cuda/kernels/join.h"
#include "backend/cuda/kernels/vector.h"

/* Pixels whose loads are under way at the same time: of x, and of x and dy; rows of what blocks left. */
enum { AHEAD = 4, GRAD_AHEAD = 4, JOIN_AHEAD = 8 };

/* ---- statistics ------------------------------------------------------------------------------ */

/* Mean (from the channel's first value) and sum of squared distances from the mean of some values. */
struct moments {
  float mean, m2;
};

/* Of n values and `more` ones together. */
static __device__ __forceinline__ moments merged(const moments &a, float n, const moments &b, float more)
{
  float shift = b.mean - a.mean, share = n + more > 0 ? more / (n + more) : 0.0f;
  return {a.mean + shift * share, a.m2 + b.m2 + shift * shift * n * share};
}

/* The moments of one thread's pixels, whose number is the result. */
template <class T, int V>
static __device__ __forceinline__ float own_moments(const cu_pixels &p, const cu_place &at, const T *x, moments own[V])
{
  float pivot[V] = {}, sum[V] = {}, square[V] = {};
  const int turns = cu_turns(p, at);
  const int64_t step = p.height * p.channels;
  const T *from = x + at.first * p.channels + at.channel;
  if (turns > 0) {
    cu_pack<T, V> head = cu_load<T, V>(from);
    for (int i = 0; i < V; i++) pivot[i] = cu_float(head.v[i]);
  }
  cu_pack<T, V> part[AHEAD];
  auto load = [&](int k, int i) { part[k] = cu_load<T, V>(from + i * step); };
  auto use = [&](int k) {
#pragma unroll
    for (int i = 0; i < V; i++) {
      float away = cu_float(part[k].v[i]) - pivot[i];
      sum[i] += away;
      square[i] += away * away;
    }
  };
  cu_ahead<AHEAD>(turns, load, use, [&] { from += AHEAD * step; });
  cu_pack<T, V> origin = cu_load<T, V>(x + at.channel);
  const float n = (float)turns, each = n > 0 ? 1.0f / n : 0.0f;
  for (int i = 0; i < V; i++) {
    float shift = sum[i] * each;
    own[i].mean = pivot[i] - cu_float(origin.v[i]) + shift;
    own[i].m2 = fmaxf(square[i] - sum[i] * shift, 0.0f);
  }
  return n;
}

/* Merges the moments of all lanes of a block, of n values each, into those of lane 0. room: 2 * V + 1 rows of
** CU_PIXEL_THREADS floats. */
template <int V>
static __device__ __forceinline__ void block_moments(const cu_pixels &p, int lane, float *room, float n, moments own[V])
{
  float *mine = room + threadIdx.x;
  for (int step = cu_first_step(p.height); step > 0; step /= 2) {
    if (cu_gives(lane, step)) {
      mine[2 * V * CU_PIXEL_THREADS] = n;
      for (int i = 0; i < V; i++) {
        mine[2 * i * CU_PIXEL_THREADS] = own[i].mean;
        mine[(2 * i + 1) * CU_PIXEL_THREADS] = own[i].m2;
      }
    }
    __syncthreads();
    if (lane < step && lane + step < p.height) {
      const float *other = mine + step * p.width;
      float more = other[2 * V * CU_PIXEL_THREADS];
      for (int i = 0; i < V; i++)
        own[i] = merged(own[i], n, {other[2 * i * CU_PIXEL_THREADS], other[(2 * i + 1) * CU_PIXEL_THREADS]}, more);
      n += more;
    }
  }
}

/* ---- what blocks leave ----------------------------------------------------------------------- */

/* Where the two numbers of a channel of block `row` are: the second one a row of channels further. */
static __device__ __forceinline__ float *partial_of(const cu_pixels &p, float *partial, int64_t row, int64_t channel)
{
  return partial + row * 2 * p.channels + channel;
}

/* For each channel c of this block: use(first, second) for its two numbers in each of some rows, then done(c). */
template <int V, class Use, class Done>
static __device__ __forceinline__ void join_rows(const cu_pixels &p, const float *partial, const cu_rows &rows, Use use,
                                                 Done done)
{
  const int64_t tile = (int64_t)p.width * V, begin = blockIdx.y * tile, end = begin + tile;
  const int64_t step = rows.step * 2 * p.channels;
  for (int64_t c = begin + threadIdx.x; c < end && c < p.channels; c += CU_PIXEL_THREADS) {
    const float *from = partial + rows.first * 2 * p.channels + c;
    float v[JOIN_AHEAD][2];
    auto load = [&](int k, int i) {
      v[k][0] = __ldcg(from + i * step);
      v[k][1] = __ldcg(from + i * step + p.channels);
    };
    cu_ahead<JOIN_AHEAD>(rows.count, load, [&](int k) { use(v[k][0], v[k][1]); }, [&] { from += JOIN_AHEAD * step; });
    done(c);
  }
}

template <class T>
static __device__ __forceinline__ void store_statistics(const norm_moments_args &a, int64_t c, float n,
                                                        const moments &all)
{
  float variance = all.m2 / n, mean = cu_float(((const T *)a.x)[c]) + all.mean;
  a.mean[c] = mean;
  a.invstd[c] = 1.0f / sqrtf(variance + a.eps);
  if (!a.running_mean) return;
  float kept = 1.0f - a.momentum;
  a.running_mean[c] = kept * a.running_mean[c] + a.momentum * mean;
  a.running_var[c] = kept * a.running_var[c] + a.momentum * (all.m2 / (n - 1.0f));
}

/* Several blocks' moments become those of their pixels together, or the statistics. Means are counted from the first
** one: at worst that costs as many times the precision as there are rows. */
template <class T, int V>
static __device__ __forceinline__ void join_moments(const norm_moments_args &a, const cu_rows &rows)
{
  /* of a row; from the first on */
  const int64_t each = rows.step * a.p.chunk, pixels = a.p.pixels - rows.first * a.p.chunk;
  int64_t left = pixels;
  float n = 0, pivot = 0, sum = 0, square = 0, m2 = 0;
  auto use = [&](float mean, float more_m2) {
    float more = (float)(left < each ? left : each);
    if (n == 0) pivot = mean;
    float away = mean - pivot;
    n += more;
    sum += more * away;
    square += more * away * away;
    m2 += more_m2;
    left -= each;
  };
  auto done = [&](int64_t c) {
    float *out = partial_of(a.p, a.partial, rows.first, c), shift = sum / n;
    moments all = {pivot + shift, m2 + fmaxf(square - sum * shift, 0.0f)};
    if (rows.all) store_statistics<T>(a, c, n, all);
    else out[0] = all.mean, out[a.p.channels] = all.m2;
    left = pixels;
    n = sum = square = m2 = 0;
  };
  join_rows<V>(a.p, a.partial, rows, use, done);
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS,
                                                            CU_PIXEL_BLOCKS) norm_moments(norm_moments_args a)
{
  __shared__ float room[(2 * V + 1) * CU_PIXEL_THREADS];
  cu_place at = cu_place_of<V>(a.p);
  moments own[V] = {};
  float n = at.works ? own_moments<T, V>(a.p, at, (const T *)a.x, own) : 0.0f;
  block_moments<V>(a.p, at.works ? at.lane : a.p.height, room, n, own);
  if (at.works && at.lane == 0) {
    float *out = partial_of(a.p, a.partial, blockIdx.x, at.channel);
    for (int i = 0; i < V; i++) {
      out[i] = own[i].mean;
      out[a.p.channels + i] = own[i].m2;
    }
  }
  cu_join(a.counters, [&](const cu_rows &rows) { join_moments<T, V>(a, rows); });
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

/* Offset of a thread's last pixel. */
static __device__ __forceinline__ int64_t last_pixel(const cu_pixels &p, const cu_place &at, int turns)
{
  return (at.first + (int64_t)(turns - 1) * p.height) * p.channels + at.channel;
}

/* Activations behind the norm, of z = normed(x): value(z), and gradient(z, dy), that of z. */
struct identity {
  static __device__ __forceinline__ float value(float z) { return z; }
  static __device__ __forceinline__ float gradient(float, float dy) { return dy; }
};

/* NaN stays in the value. */
struct relu {
  static __device__ __forceinline__ float value(float z) { return z < 0.0f ? 0.0f : z; }
  static __device__ __forceinline__ float gradient(float z, float dy) { return z > 0.0f ? dy : 0.0f; }
};

/* 1 / (1 + exp(-z)) in 4 instructions: with expf and a division, 14, issuing them takes as long as the memory. Off by
** 4 + |z| * 2 / 3 ulp at most; below -87 it is 0, which is off by 1e-38. */
static __device__ __forceinline__ float sigmoid(float z)
{
#ifdef CAPL_CUDA_SHIM
  return 1.0f / (1.0f + expf(-z));
#else
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(z * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
  return inverse;
#endif
}

struct silu {
  static __device__ __forceinline__ float value(float z) { return z * sigmoid(z); }
  static __device__ __forceinline__ float gradient(float z, float dy)
  {
    float s = sigmoid(z);
    return dy * (s * (1.0f + z * (1.0f - s)));
  }
};

/* From the back: what the pass before read last is still in the L2 cache. */
template <class T, int V, class Act>
__global__ void __launch_bounds__(CU_PIXEL_THREADS, CU_PIXEL_BLOCKS) norm_apply(norm_apply_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works) return;
  const affine<V> f = affine_of<V>(a.c, at.channel);
  const int turns = cu_turns(a.p, at);
  const int64_t step = a.p.height * a.p.channels;
  int64_t from = last_pixel(a.p, at, turns);
  const T *__restrict__ x = (const T *)a.x;
  T *__restrict__ y = (T *)a.y;
  cu_pack<T, V> v[AHEAD];
  auto load = [&](int k, int i) { v[k] = cu_load<T, V>(x + (from - i * step)); };
  auto use = [&](int k) {
#pragma unroll
    for (int i = 0; i < V; i++) v[k].v[i] = cu_as<T>(Act::value(normed(f, i, cu_float(v[k].v[i]))));
    cu_store(y + (from - k * step), v[k]);
  };
  cu_ahead<AHEAD>(turns, load, use, [&] { from -= AHEAD * step; });
}

/* ---- pooled forward -------------------------------------------------------------------------- */

/* A window: its place in the image, and the offsets of its first pixel in x and of its value in y. */
struct window_place {
  int h, w;
  int64_t corner, pooled;
};

static __device__ __forceinline__ window_place window_at(const norm_windows &w, const cu_place &at, int64_t channels)
{
  cu_cursor first = cu_cursor_at(at.first, w.windows_h, w.windows_w);
  int64_t row = first.n * w.H + 2 * (int64_t)first.h, pooled_row = first.n * (w.H / 2) + first.h;
  return {first.h, first.w, (row * w.W + 2 * first.w) * channels + at.channel,
          (pooled_row * (w.W / 2) + first.w) * channels + at.channel};
}

/* To the thread's next window, without a division or a product. */
static __device__ __forceinline__ void window_move(const norm_windows &w, window_place &at)
{
  at.w += w.step_w;
  at.h += w.step_h;
  at.corner += w.x.step;
  at.pooled += w.y.step;
  if (at.w >= w.windows_w) at.w -= w.windows_w, at.h++, at.corner += w.x.wrap_w, at.pooled += w.y.wrap_w;
  if (at.h >= w.windows_h) at.h -= w.windows_h, at.corner += w.x.wrap_h, at.pooled += w.y.wrap_h;
}

/* Pixel k of a window, row by row, counted from its corner. */
static __device__ __forceinline__ int64_t window_pixel(const norm_windows &w, int k)
{
  return (k / 2 ? w.row : 0) + (k % 2 ? w.column : 0);
}

/* The winner of a window in a channel: its value before relu, and its place. */
struct window_winner {
  float z;
  int place;
};

/* The first of equal ones wins; NaN beats everything. */
template <int V>
static __device__ __forceinline__ window_winner winner_of(const affine<V> &f, int i, float x0, float x1, float x2,
                                                          float x3)
{
  const float x[4] = {x0, x1, x2, x3};
  window_winner best = {normed(f, i, x0), 0};
#pragma unroll
  for (int k = 1; k < 4; k++) {
    float z = normed(f, i, x[k]);
    if (!(z <= best.z) && best.z == best.z) best = {z, k};
  }
  return best;
}

/* y and the winner's x, written over the first two pixels. */
template <class T, int V>
static __device__ __forceinline__ void pool_window(const affine<V> &f, cu_pack<T, V> part[4])
{
#pragma unroll
  for (int i = 0; i < V; i++) {
    window_winner best = winner_of(f, i, cu_float(part[0].v[i]), cu_float(part[1].v[i]), cu_float(part[2].v[i]),
                                   cu_float(part[3].v[i]));
    T x = part[0].v[i];
#pragma unroll
    for (int k = 1; k < 4; k++)
      if (best.place == k) x = part[k].v[i];
    part[0].v[i] = cu_as<T>(best.z <= 0.0f ? 0.0f : best.z);
    part[1].v[i] = x;
  }
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS,
                                                            CU_PIXEL_BLOCKS) norm_pool(norm_pool_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  const affine<V> f = affine_of<V>(a.c, at.channel);
  window_place window = window_at(a.w, at, a.p.channels);
#pragma unroll 1
  for (int left = cu_turns(a.p, at); left > 0; left--) {
    const T *x = (const T *)a.x + window.corner;
    cu_pack<T, V> part[4];
#pragma unroll
    for (int k = 0; k < 4; k++) part[k] = cu_load<T, V>(x + window_pixel(a.w, k));
    pool_window(f, part);
    cu_store((T *)a.y + window.pooled, part[0]);
    cu_store((T *)a.winner + window.pooled, part[1]);
    window_move(a.w, window);
  }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Adds dz and dz * (x - mean) of all lanes of a block and stores them. */
template <int V>
static __device__ __forceinline__ void store_sums(const norm_grad_args &a, const cu_place &at, float *room, float dz[V],
                                                  float dzx[V])
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
  float *out = partial_of(a.p, a.partial, blockIdx.x, at.channel);
  for (int i = 0; i < V; i++) {
    out[i] = dz[i];
    out[a.p.channels + i] = dzx[i];
  }
}

/* Several blocks' sums become one block's, or dweight and dbias. */
template <int V> static __device__ __forceinline__ void join_sums(const norm_grad_args &a, const cu_rows &rows)
{
  float dz = 0, dzx = 0;
  auto use = [&](float more_dz, float more_dzx) {
    dz += more_dz;
    dzx += more_dzx;
  };
  auto done = [&](int64_t c) {
    float *out = partial_of(a.p, a.partial, rows.first, c);
    if (rows.all) a.dbias[c] = dz, a.dweight[c] = dzx * a.c.invstd[c];
    else out[0] = dz, out[a.p.channels] = dzx;
    dz = dzx = 0;
  };
  join_rows<V>(a.p, a.partial, rows, use, done);
}

template <class T, int V, class Act>
static __device__ __forceinline__ void own_sums(const norm_grad_args &a, const cu_place &at, float dz[V], float dzx[V])
{
  const affine<V> f = affine_of<V>(a.c, at.channel);
  const int64_t step = a.p.height * a.p.channels;
  int64_t from = at.first * a.p.channels + at.channel;
  const T *x = (const T *)a.x, *dy = (const T *)a.dy;
  cu_pack<T, V> v[GRAD_AHEAD], g[GRAD_AHEAD];
  auto load = [&](int k, int i) {
    v[k] = cu_load<T, V>(x + (from + i * step));
    g[k] = cu_load<T, V>(dy + (from + i * step));
  };
  auto use = [&](int k) {
#pragma unroll
    for (int i = 0; i < V; i++) {
      float value = cu_float(v[k].v[i]), slope = Act::gradient(normed(f, i, value), cu_float(g[k].v[i]));
      dz[i] += slope;
      dzx[i] += slope * (value - f.mean[i]);
    }
  };
  cu_ahead<GRAD_AHEAD>(cu_turns(a.p, at), load, use, [&] { from += GRAD_AHEAD * step; });
}

template <class T, int V, class Act>
__global__ void __launch_bounds__(CU_PIXEL_THREADS, NORM_GRAD_BLOCKS(V)) norm_grad_sums(norm_grad_args a)
{
  __shared__ float room[2 * V * CU_PIXEL_THREADS];
  cu_place at = cu_place_of<V>(a.p);
  float dz[V] = {}, dzx[V] = {};
  if (at.works) own_sums<T, V, Act>(a, at, dz, dzx);
  store_sums<V>(a, at, room, dz, dzx);
  cu_join(a.counters, [&](const cu_rows &rows) { join_sums<V>(a, rows); });
}

/* What dx takes from the statistics' own gradients: dx = scale * (dz - even - (x - mean) * slope). */
template <int V> struct feedback {
  float even[V], slope[V];
};

template <int V> static __device__ __forceinline__ feedback<V> feedback_of(const norm_grad_args &a, int64_t channel)
{
  feedback<V> b;
  for (int i = 0; i < V; i++) {
    b.even[i] = a.training ? a.dbias[channel + i] * a.share : 0.0f;
    b.slope[i] = a.training ? a.dweight[channel + i] * a.c.invstd[channel + i] * a.share : 0.0f;
  }
  return b;
}

template <int V>
static __device__ __forceinline__ float slope_of(const affine<V> &f, const feedback<V> &b, int i, float x, float dz)
{
  return f.scale[i] * (dz - b.even[i] - (x - f.mean[i]) * b.slope[i]);
}

template <class Act, class T, int V>
static __device__ __forceinline__ cu_pack<T, V> slopes_of(const affine<V> &f, const feedback<V> &b,
                                                            const cu_pack<T, V> &x, const cu_pack<T, V> &dy)
{
  cu_pack<T, V> dx;
#pragma unroll
  for (int i = 0; i < V; i++) {
    float value = cu_float(x.v[i]), dz = Act::gradient(normed(f, i, value), cu_float(dy.v[i]));
    dx.v[i] = cu_as<T>(slope_of(f, b, i, value, dz));
  }
  return dx;
}

/* From the back, as norm_apply. */
template <class T, int V, class Act>
__global__ void __launch_bounds__(CU_PIXEL_THREADS, NORM_GRAD_BLOCKS(V)) norm_grad_apply(norm_grad_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works) return;
  const affine<V> f = affine_of<V>(a.c, at.channel);
  const feedback<V> b = feedback_of<V>(a, at.channel);
  const int turns = cu_turns(a.p, at);
  const int64_t step = a.p.height * a.p.channels;
  int64_t from = last_pixel(a.p, at, turns);
  const T *__restrict__ x = (const T *)a.x, *__restrict__ dy = (const T *)a.dy;
  T *__restrict__ dx = (T *)a.dx;
  cu_pack<T, V> v[GRAD_AHEAD], g[GRAD_AHEAD];
  auto load = [&](int k, int i) {
    v[k] = cu_load<T, V>(x + (from - i * step));
    g[k] = cu_load<T, V>(dy + (from - i * step));
  };
  auto use = [&](int k) { cu_store(dx + (from - k * step), slopes_of<Act>(f, b, v[k], g[k])); };
  cu_ahead<GRAD_AHEAD>(turns, load, use, [&] { from -= GRAD_AHEAD * step; });
}

/* ---- pooled backward ------------------------------------------------------------------------- */

/* A window of x, perhaps cut by the edge (then no pooling saw it, and dy is 0), and what came back for it. */
template <class T, int V> struct window_data {
  cu_pack<T, V> x0, x1, x2, x3, dy; /* names and no array: that would be put into memory */
  bool below, beside; /* whether x has a row below the corner, and a column beside it */
};

template <class T, int V>
static __device__ __forceinline__ window_data<T, V> load_window(const norm_grad_args &a, const window_place &at)
{
  window_data<T, V> d = {};
  const T *x = (const T *)a.x + at.corner;
  d.below = 2 * at.h + 1 < a.w.H;
  d.beside = 2 * at.w + 1 < a.w.W;
  if (d.below && d.beside) { /* the branch comes before all loads, so that none is waited for in between */
    d.dy = cu_load<T, V>((const T *)a.dy + at.pooled);
    d.x3 = cu_load<T, V>(x + (a.w.row + a.w.column));
  }
  d.x0 = cu_load<T, V>(x);
  if (d.beside) d.x1 = cu_load<T, V>(x + a.w.column);
  if (d.below) d.x2 = cu_load<T, V>(x + a.w.row);
  return d;
}

/* What a window passes back in each channel, and to which of its pixels. */
template <int V> struct window_back {
  float dz[V];
  int place[V];
};

template <class T, int V>
static __device__ __forceinline__ window_back<V> back_of(const affine<V> &f, const window_data<T, V> &d)
{
  window_back<V> back;
#pragma unroll
  for (int i = 0; i < V; i++) {
    window_winner best = winner_of(f, i, cu_float(d.x0.v[i]), cu_float(d.x1.v[i]), cu_float(d.x2.v[i]),
                                   cu_float(d.x3.v[i]));
    back.dz[i] = best.z > 0.0f ? cu_float(d.dy.v[i]) : 0.0f;
    back.place[i] = best.place;
  }
  return back;
}

/* dx of pixel `k` of a window. */
template <class T, int V>
static __device__ __forceinline__ void window_slopes(const affine<V> &f, const feedback<V> &b,
                                                     const window_back<V> &back, int k, const cu_pack<T, V> &x, T *dx)
{
  cu_pack<T, V> out;
#pragma unroll
  for (int i = 0; i < V; i++)
    out.v[i] = cu_as<T>(slope_of(f, b, i, cu_float(x.v[i]), back.place[i] == k ? back.dz[i] : 0.0f));
  cu_store(dx, out);
}

template <class T, int V> __global__ void __launch_bounds__(CU_PIXEL_THREADS,
                                                            NORM_GRAD_BLOCKS(V)) norm_pool_grad_apply(norm_grad_args a)
{
  cu_place at = cu_place_of<V>(a.p);
  if (!at.works || at.first >= at.last) return;
  const affine<V> f = affine_of<V>(a.c, at.channel);
  const feedback<V> b = feedback_of<V>(a, at.channel);
  window_place window = window_at(a.w, at, a.p.channels);
#pragma unroll 1
  for (int left = cu_turns(a.p, at); left > 0; left--) {
    window_data<T, V> d = load_window<T, V>(a, window);
    T *dx = (T *)a.dx + window.corner;
    window_move(a.w, window);
    const window_back<V> back = back_of(f, d);
    window_slopes(f, b, back, 0, d.x0, dx);
    if (d.beside) window_slopes(f, b, back, 1, d.x1, dx + a.w.column);
    if (d.below) window_slopes(f, b, back, 2, d.x2, dx + a.w.row);
    if (d.beside && d.below) window_slopes(f, b, back, 3, d.x3, dx + (a.w.row + a.w.column));
  }
}

/* CU_VECTORS of a kernel for each activation, in the order of norm_act. */
#define ACT_FLOATS(kernel, act, wide, wide16) \
  CU_ENTRY(kernel<float, wide, act>), CU_ENTRY(kernel<cu_f16, wide16, act>), CU_ENTRY(kernel<cu_bf16, wide16, act>)
#define ACT_VECTORS(kernel, act) \
  ACT_FLOATS(kernel, act, 1, 1), ACT_FLOATS(kernel, act, 4, 4), ACT_FLOATS(kernel, act, 4, 8)
#define EACH_ACT(kernel) ACT_VECTORS(kernel, identity), ACT_VECTORS(kernel, relu), ACT_VECTORS(kernel, silu)

/* ORDER norm kernels */
CU_TABLE(cu_norm_table, CU_VECTORS(norm_moments), CU_VECTORS(norm_pool), CU_VECTORS(norm_pool_grad_apply),
         EACH_ACT(norm_apply), EACH_ACT(norm_grad_sums), EACH_ACT(norm_grad_apply), CU_ENTRY(norm_running))
