/* augment.cu -- makes images from u8 levels: inverse affine map, colour, noise, normalisation, one pass.
**
** The arithmetic is that of engine/data/augment.c and convert.c, in the same order and without fused multiply-adds
** where they round differently, so the values are the same bit for bit. The bilinear sum is done in float: its terms are
** whole numbers below 2^24, hence exact in any order. A warp makes one row, a lane one pixel with all its channels; where
** a row starts and how fast it moves is known once, so a pixel costs no division and no 64-bit arithmetic.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/augment.h"

#include "backend/cuda/kernels/kernel.h"

enum { FRACTION = 16, ONE = 1 << FRACTION };

/* ---- arithmetic that must round as the CPU does ---------------------------------------------- */

#ifdef CAPL_CUDA_SHIM
static inline double times(double a, double b) { return a * b; }
static inline double plus(double a, double b) { return a + b; }
static inline long long nearest(double v) { return llrint(v); }
static inline float whole_part(float v) { return floorf(v); }
#else
static __device__ __forceinline__ double times(double a, double b) { return __dmul_rn(a, b); }
static __device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
static __device__ __forceinline__ long long nearest(double v) { return __double2ll_rn(v); }
/* For 0 <= v < 2^22: at 2^23 the last bit is 1, and adding rounds down. A floor would go through the slow unit. */
static __device__ __forceinline__ float whole_part(float v) { return __fadd_rd(v, 8388608.0f) - 8388608.0f; }
#endif

/* v * gain + lift, rounded twice. */
static __device__ __forceinline__ float linear(float v, float gain, float lift)
{
  return __fadd_rn(__fmul_rn(v, gain), lift);
}

static __device__ __forceinline__ float clip(float level)
{
  return fminf(fmaxf(level, 0.0f), 255.0f);
}

/* Byte k of a word as a float: put behind 2^23, which is then taken away. Conversions would be slower. */
static __device__ __forceinline__ float byte_of(unsigned word, int k)
{
  return __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7650u | (unsigned)k)) - 8388608.0f;
}

/* ---- where a row reads from ------------------------------------------------------------------ */

/* Coordinate of column x in 16.16, in the source with one pixel of surroundings: first + x * pace within 0..most. */
typedef struct {
  long long start;
  int first, pace, most;
  bool narrow; /* 32 bits are enough for the whole row */
} course;

static __device__ __forceinline__ bool is_narrow(long long v)
{
  return v > -0x3fffffffLL && v < 0x3fffffffLL;
}

static __device__ __forceinline__ course follow(double from, double step, int last, int n)
{
  course c;
  c.start = nearest(from * ONE);
  c.pace = (int)nearest(step * ONE);
  c.most = (last + 1) << FRACTION;
  c.narrow = is_narrow(c.start) && is_narrow(c.start + (long long)c.pace * n);
  c.first = c.narrow ? (int)c.start + ONE : 0;
  return c;
}

static __device__ __forceinline__ int place(const course &c, int x)
{
  if (c.narrow) return min(max(c.first + x * c.pace, 0), c.most);
  long long at = c.start + ONE + (long long)x * c.pace;
  return at < 0 ? 0 : at > c.most ? c.most : (int)at;
}

/* ---- one row of an image --------------------------------------------------------------------- */

typedef struct {
  const uint8_t *image;
  int width, height, fill;
  bool moves;
  course across, down;
  float gain, lift, noise;
  unsigned noise_key;
  int y;
} painter;

static __device__ __forceinline__ painter begin_row(const augment_args &a, const capl_feed_row &row, int y, int pixel_bytes)
{
  painter p;
  p.image = a.images + (size_t)row.image * (size_t)a.height * (size_t)a.width * (size_t)pixel_bytes;
  p.width = a.width;
  p.height = a.height;
  p.fill = a.fill;
  p.moves = row.moves != 0;
  p.gain = row.gain * (1.0f / ONE);
  p.lift = row.lift;
  p.noise = row.noise;
  p.noise_key = row.noise_key;
  p.y = y;
  if (p.moves) {
    p.across = follow(plus(times(row.map[1], y), row.map[2]), row.map[0], a.width, a.width);
    p.down = follow(plus(times(row.map[4], y), row.map[5]), row.map[3], a.height, a.width);
  }
  return p;
}

/* Levels of the source pixel (x,y), which exists. */
template <int C, int BYTES> static __device__ __forceinline__ void load(const painter &p, int x, int y, float level[C])
{
  const uint8_t *at = p.image + (unsigned)(y * p.width + x) * (unsigned)BYTES;
  if (BYTES == 4) {
    unsigned word = __ldg((const unsigned *)at);
#pragma unroll
    for (int c = 0; c < C; c++) level[c] = byte_of(word, c);
  } else {
#pragma unroll
    for (int c = 0; c < C; c++) level[c] = byte_of(__ldg(at + c), 0);
  }
}

/* value[c] += weight * level of source pixel (x,y), which may lie outside. */
template <int C, int BYTES>
static __device__ __forceinline__ void add_corner(const painter &p, int x, int y, float weight, float value[C])
{
  int in_x = min(max(x, 0), p.width - 1), in_y = min(max(y, 0), p.height - 1);
  bool outside = p.fill >= 0 && (in_x != x || in_y != y);
  float level[C];
  load<C, BYTES>(p, in_x, in_y, level);
#pragma unroll
  for (int c = 0; c < C; c++) value[c] += weight * (outside ? (float)p.fill : level[c]);
}

/* Levels times 65536 of output pixel x. */
template <int C, int BYTES> static __device__ __forceinline__ void sample(const painter &p, int x, float value[C])
{
  if (!p.moves) {
    load<C, BYTES>(p, x, p.y, value);
#pragma unroll
    for (int c = 0; c < C; c++) value[c] *= ONE;
    return;
  }
  int u = place(p.across, x), v = place(p.down, x);
  int from_x = (u >> FRACTION) - 1, from_y = (v >> FRACTION) - 1;
  float right = (float)(u >> 8 & 255), below = (float)(v >> 8 & 255), left = 256.0f - right, above = 256.0f - below;
#pragma unroll
  for (int c = 0; c < C; c++) value[c] = 0.0f;
  add_corner<C, BYTES>(p, from_x, from_y, left * above, value);
  add_corner<C, BYTES>(p, from_x + 1, from_y, right * above, value);
  add_corner<C, BYTES>(p, from_x, from_y + 1, left * below, value);
  add_corner<C, BYTES>(p, from_x + 1, from_y + 1, right * below, value);
}

/* A counter well stirred, and the sum of four random bytes (augment.c). */
static __device__ __forceinline__ unsigned stir(unsigned x)
{
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

static __device__ __forceinline__ float bell(unsigned counter, unsigned key)
{
  unsigned r = stir(stir(counter) + key);
  unsigned pairs = (r & 0x00ff00ffu) + (r >> 8 & 0x00ff00ffu);
  int sum = (int)((pairs & 0xffffu) + (pairs >> 16));
  return __fmul_rn((float)(sum - 510), 1 / 147.8f);
}

/* The augmented levels of output pixel x: whole numbers 0..255. */
template <int C, int BYTES> static __device__ __forceinline__ void paint(const painter &p, int x, float level[C])
{
  sample<C, BYTES>(p, x, level);
#pragma unroll
  for (int c = 0; c < C; c++) {
    float v = clip(linear(level[c], p.gain, p.lift));
    if (p.noise > 0.0f) {
      unsigned counter = ((unsigned)p.y * (unsigned)p.width + (unsigned)x) * (unsigned)C + (unsigned)c;
      v = clip(__fadd_rn(v, __fmul_rn(p.noise, bell(counter, p.noise_key))));
    }
    level[c] = whole_part(__fadd_rn(v, 0.5f));
  }
}

/* ---- normalising ----------------------------------------------------------------------------- */

typedef struct {
  float scale[3], shift[3];
} affine;

static __device__ __forceinline__ affine affine_of(const capl_feed_row &row)
{
  affine a;
#pragma unroll
  for (int c = 0; c < 3; c++) {
    a.scale[c] = row.scale[c];
    a.shift[c] = row.shift[c];
  }
  return a;
}

/* As convert.c: an image of one level has no deviation; it becomes zeros. */
static __device__ __forceinline__ affine affine_of_sums(unsigned long long sum, unsigned long long squares, double n)
{
  double mean = (double)sum / n;
  double variance = plus((double)squares / n, -times(mean, mean));
  double scale = variance > 1e-9 ? 1.0 / sqrt(variance) : 1.0;
  affine a;
#pragma unroll
  for (int c = 0; c < 3; c++) {
    a.scale[c] = (float)scale;
    a.shift[c] = (float)times(-mean, scale);
  }
  return a;
}

template <class T> static __device__ __forceinline__ T value_of(float level, const affine &a, int c)
{
  return cu_as<T>(linear(level, a.scale[c], a.shift[c]));
}
template <> __device__ __forceinline__ uint8_t value_of<uint8_t>(float level, const affine &, int)
{
  return (uint8_t)level;
}

/* Sum over a block's threads, in every thread. room: 32 numbers of shared memory, which it may use at once. */
static __device__ __forceinline__ unsigned long long block_sum(unsigned long long v, unsigned long long *room)
{
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int k = 0; k < AUGMENT_STRIP; k++) v += room[k];
  return v;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Writes 32 neighbouring pixels, `there` of them real, as one run of values: three channels go through shared memory,
** because stores with gaps would each cost a whole transfer. */
template <class T, int C>
static __device__ __forceinline__ void store_run(const T value[C], int there, T *out, T *room)
{
  int lane = threadIdx.x % 32;
  if constexpr (C == 1) {
    (void)room;
    if (lane < there) out[lane] = value[0];
  } else {
#pragma unroll
    for (int c = 0; c < C; c++) room[lane * C + c] = value[c];
    __syncwarp();
#pragma unroll
    for (int k = 0; k < C; k++) {
      int i = lane + 32 * k;
      if (i < there * C) out[i] = room[i];
    }
    __syncwarp();
  }
}

/* How image n is normalised when its sums are there. Called by whole blocks. */
static __device__ __forceinline__ affine affine_of_strips(const augment_args &a, double n_values)
{
  __shared__ unsigned long long room[2][32];
  unsigned long long sum = 0, squares = 0;
  const unsigned long long *of_image = a.sums + (size_t)blockIdx.y * (size_t)a.strips * 2;
  for (int k = threadIdx.x; k < a.strips; k += AUGMENT_THREADS) {
    sum += of_image[2 * k];
    squares += of_image[2 * k + 1];
  }
  sum = block_sum(sum, room[0]);
  squares = block_sum(squares, room[1]);
  return affine_of_sums(sum, squares, n_values);
}

template <class T, int C, int BYTES>
__global__ void __launch_bounds__(AUGMENT_THREADS) augment_strips(augment_args a)
{
  __shared__ T room[AUGMENT_STRIP][C == 1 ? 1 : 32 * C];
  const capl_feed_row &row = a.rows[blockIdx.y];
  affine to = a.sums ? affine_of_strips(a, (double)a.height * a.width * C) : affine_of(row);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, y = blockIdx.x * AUGMENT_STRIP + warp;
  if (y >= a.height) return;
  painter p = begin_row(a, row, y, BYTES);
  T *out = (T *)a.out + ((size_t)blockIdx.y * (size_t)a.height + (size_t)y) * (size_t)a.width * C;
  for (int x = 0; x < a.width; x += 32) {
    float level[C];
    T value[C];
    paint<C, BYTES>(p, min(x + lane, a.width - 1), level);
#pragma unroll
    for (int c = 0; c < C; c++) value[c] = value_of<T>(level[c], to, c);
    store_run<T, C>(value, min(a.width - x, 32), out + (size_t)x * C, room[warp]);
  }
}

/* Adds a row's levels to a thread's sums; keep: where they are kept too, NULL = nowhere. */
template <int C, int BYTES>
static __device__ __forceinline__ void sum_row(const painter &p, uint8_t *keep, unsigned long long *sum,
                                               unsigned long long *squares)
{
  unsigned row_sum = 0, row_squares = 0; /* 512 pixels of a thread at most */
  for (int x = threadIdx.x % 32; x < p.width; x += 32) {
    float level[C];
    paint<C, BYTES>(p, x, level);
#pragma unroll
    for (int c = 0; c < C; c++) {
      unsigned whole = (unsigned)level[c];
      row_sum += whole;
      row_squares += whole * whole;
      if (keep) keep[x * C + c] = (uint8_t)whole;
    }
  }
  *sum += row_sum;
  *squares += row_squares;
}

template <int C, int BYTES> __global__ void __launch_bounds__(AUGMENT_THREADS) augment_sums(augment_args a)
{
  __shared__ unsigned long long room[2][32];
  unsigned long long sum = 0, squares = 0;
  int y = blockIdx.x * AUGMENT_STRIP + threadIdx.x / 32;
  if (y < a.height) sum_row<C, BYTES>(begin_row(a, a.rows[blockIdx.y], y, BYTES), (uint8_t *)0, &sum, &squares);
  sum = block_sum(sum, room[0]);
  squares = block_sum(squares, room[1]);
  if (threadIdx.x > 0) return;
  unsigned long long *to = a.sums + ((size_t)blockIdx.y * (size_t)a.strips + blockIdx.x) * 2;
  to[0] = sum;
  to[1] = squares;
}

template <class T, int C, int BYTES>
__global__ void __launch_bounds__(AUGMENT_THREADS) augment_whole(augment_args a)
{
  __shared__ unsigned long long room[2][32];
  CU_SHARED(uint8_t, levels);
  const capl_feed_row &row = a.rows[blockIdx.y];
  unsigned long long sum = 0, squares = 0;
  int row_values = a.width * C, n = a.height * row_values;
  for (int y = threadIdx.x / 32; y < a.height; y += AUGMENT_STRIP)
    sum_row<C, BYTES>(begin_row(a, row, y, BYTES), levels + y * row_values, &sum, &squares);
  sum = block_sum(sum, room[0]);
  squares = block_sum(squares, room[1]); /* its barrier also makes all levels visible */
  affine to = affine_of_sums(sum, squares, (double)n);
  T *out = (T *)a.out + (size_t)blockIdx.y * (size_t)n;
  for (int i = threadIdx.x; i < n; i += AUGMENT_THREADS) out[i] = value_of<T>(byte_of(levels[i], 0), to, 0);
}

/* ORDER augment_kernel */
#define LAYOUT(C, BYTES)                                                                              \
  CU_ENTRY(augment_strips<float, C, BYTES>), CU_ENTRY(augment_strips<cu_f16, C, BYTES>),              \
    CU_ENTRY(augment_strips<cu_bf16, C, BYTES>), CU_ENTRY(augment_strips<uint8_t, C, BYTES>),         \
    CU_ENTRY(augment_whole<float, C, BYTES>), CU_ENTRY(augment_whole<cu_f16, C, BYTES>),              \
    CU_ENTRY(augment_whole<cu_bf16, C, BYTES>), CU_ENTRY(augment_sums<C, BYTES>)

/* ORDER augment_layout */
CU_TABLE(cu_augment_table, LAYOUT(1, 1), LAYOUT(3, 3), LAYOUT(3, 4))
