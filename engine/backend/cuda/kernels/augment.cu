/* augment.cu -- makes images from u8 levels: inverse affine map, colour, noise, normalization, one pass.
**
** The arithmetic is that of engine/data/augment.c and convert.c, in the same order and without fused multiply-adds
** where they round differently, so the values are the same bit for bit. A warp makes one row, a lane one pixel with all
** its channels; where a row starts and how fast it moves is known once, so a pixel costs no division and no 64-bit
** arithmetic. Instructions, not bytes, bound the plainer way of writing this: hence the path for pixels inside the
** source, the dot products of bytes, and rounding without the slow conversion unit.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/augment.h"

#include "backend/cuda/kernels/kernel.h"
#include "backend/cuda/kernels/loop.h"

enum { FRACTION = 16, ONE = 1 << FRACTION };

/* ---- arithmetic that must round as the CPU does ---------------------------------------------- */

#ifdef CAPL_CUDA_SHIM
static inline double times(double a, double b) { return a * b; }
static inline double plus(double a, double b) { return a + b; }
static inline long long nearest(double v) { return llrint(v); }
static inline float whole_part(float v) { return floorf(v); }
static inline unsigned dot_low(unsigned pair,
                               unsigned bytes) { return (pair & 0xffff) * (bytes & 255) + (pair >> 16)
                                                * (bytes >> 8 & 255); }
static inline unsigned dot_high(unsigned pair, unsigned bytes) { return dot_low(pair, bytes >> 16); }
static inline void copy_16(void *to, const void *from) { memcpy(to, from, 16); }
#else
static __device__ __forceinline__ double times(double a, double b) { return __dmul_rn(a, b); }
static __device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
static __device__ __forceinline__ long long nearest(double v) { return __double2ll_rn(v); }
/* For 0 <= v < 2^22: at 2^23 the last bit is 1, and adding rounds down. A floor would go through the slow unit. */
static __device__ __forceinline__ float whole_part(float v) { return __fadd_rd(v, 8388608.0f) - 8388608.0f; }
/* Two numbers of 16 bits times two bytes, the lower or the upper ones, summed. */
static __device__ __forceinline__ unsigned dot_low(unsigned pair, unsigned bytes) { return __dp2a_lo(pair, bytes, 0u); }
static __device__ __forceinline__ unsigned dot_high(unsigned pair, unsigned bytes) { return __dp2a_hi(pair, bytes, 0u);
    }
/* In one transfer; both begin at a multiple of 16 bytes. */
static __device__ __forceinline__ void copy_16(void *to, const void *from) { *(uint4 *)to = *(const uint4 *)from; }
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

static __device__ __forceinline__ painter begin_row(const augment_args &a, const capl_feed_row &row, int y,
                                                    int pixel_bytes)
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

/* A source pixel: one word with a byte for each channel, or a byte in a word for each. */
template <int C, int BYTES> struct texel {
  unsigned v[BYTES == 4 ? 1 : C];
};

template <int C, int BYTES> static __device__ __forceinline__ texel<C, BYTES> load(const uint8_t *at)
{
  texel<C, BYTES> t;
  if constexpr (BYTES == 4) {
    t.v[0] = __ldg((const unsigned *)at);
  } else {
#pragma unroll
    for (int c = 0; c < C; c++) t.v[c] = __ldg(at + c);
  }
  return t;
}

/* One multiplication and addition: images have fewer than 2^28 pixels. */
static __device__ __forceinline__ const uint8_t *address(const painter &p, int pixel, int pixel_bytes)
{
  return p.image + (ptrdiff_t)pixel * pixel_bytes;
}

/* The pixel (x,y), which may lie outside the source. */
template <int C, int BYTES> static __device__ __forceinline__ texel<C,
    BYTES> load_anywhere(const painter &p, int x, int y)
{
  int in_x = min(max(x, 0), p.width - 1), in_y = min(max(y, 0), p.height - 1);
  texel<C, BYTES> t = load<C, BYTES>(address(p, in_y * p.width + in_x, BYTES));
  if (p.fill < 0 || (in_x == x && in_y == y)) return t;
  for (unsigned &v : t.v) v = BYTES == 4 ? (unsigned)p.fill * 0x01010101u : (unsigned)p.fill;
  return t;
}

/* out[c] = left * a's level + right * b's; at most 255 * 256. */
template <int C, int BYTES>
static __device__ __forceinline__ void mix(const texel<C, BYTES> &a, const texel<C, BYTES> &b, unsigned left,
                                           unsigned right, unsigned out[C])
{
  if constexpr (BYTES == 4) {
    unsigned pair = left | right << 16;
    unsigned red_green = __byte_perm(a.v[0], b.v[0], 0x5140), blue = __byte_perm(a.v[0], b.v[0], 0x7362);
    out[0] = dot_low(pair, red_green);
    out[1] = dot_high(pair, red_green);
    out[2] = dot_low(pair, blue);
  } else {
#pragma unroll
    for (int c = 0; c < C; c++) out[c] = left * a.v[c] + right * b.v[c];
  }
}

/* Levels of the source pixel in the same place, times 65536. */
template <int C, int BYTES> static __device__ __forceinline__ void copy(const painter &p, int x, float value[C])
{
  texel<C, BYTES> t = load<C, BYTES>(address(p, p.y * p.width + x, BYTES));
#pragma unroll
  for (int c = 0; c < C; c++)
    value[c] = (float)(BYTES == 4 ? (t.v[0] >> 8 * c & 255u) << FRACTION : t.v[BYTES == 4 ? 0 : c] << FRACTION);
}

/* Levels of output pixel x, times 65536: four pixels of the source by the 8-bit fractions of its place. Whole numbers
** below 2^24, which a float holds. */
template <int C, int BYTES> static __device__ __forceinline__ void sample_at(const painter &p, int u, int v,
    float value[C])
{
  int from_x = (u >> FRACTION) - 1, from_y = (v >> FRACTION) - 1;
  unsigned right = u >> 8 & 255, low = v >> 8 & 255, upper[C], lower[C];
  texel<C, BYTES> a, b, c, d;
  if ((unsigned)from_x < (unsigned)(p.width - 1) && (unsigned)from_y < (unsigned)(p.height - 1)) {
    int pixel = from_y * p.width + from_x;
    const uint8_t *at = address(p, pixel, BYTES), *below = address(p, pixel + p.width, BYTES);
    a = load<C, BYTES>(at);
    b = load<C, BYTES>(at + BYTES);
    c = load<C, BYTES>(below);
    d = load<C, BYTES>(below + BYTES);
  } else {
    a = load_anywhere<C, BYTES>(p, from_x, from_y);
    b = load_anywhere<C, BYTES>(p, from_x + 1, from_y);
    c = load_anywhere<C, BYTES>(p, from_x, from_y + 1);
    d = load_anywhere<C, BYTES>(p, from_x + 1, from_y + 1);
  }
  mix<C, BYTES>(a, b, 256 - right, right, upper);
  mix<C, BYTES>(c, d, 256 - right, right, lower);
#pragma unroll
  for (int k = 0; k < C; k++) value[k] = (float)(upper[k] * (256 - low) + lower[k] * low);
}

template <int C, int BYTES> static __device__ __forceinline__ void sample(const painter &p, int x, float value[C])
{
  sample_at<C, BYTES>(p, place(p.across, x), place(p.down, x), value);
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

/* Clamped, with noise, rounded: a level. v: before that, of output pixel x. */
template <int C> static __device__ __forceinline__ float finish(const painter &p, int x, int c, float v)
{
  v = clip(v);
  if (p.noise > 0.0f) {
    unsigned counter = ((unsigned)p.y * (unsigned)p.width + (unsigned)x) * (unsigned)C + (unsigned)c;
    v = clip(__fadd_rn(v, __fmul_rn(p.noise, bell(counter, p.noise_key))));
  }
  return whole_part(__fadd_rn(v, 0.5f));
}

/* The augmented levels of output pixel x: whole numbers 0..255. Pixels up to 31 behind the row's end cost less than a
** test for them; they get some level. */
template <int C, int BYTES> static __device__ __forceinline__ void paint(const painter &p, int x, float level[C])
{
  if (p.moves) sample<C, BYTES>(p, x, level);
  else copy<C, BYTES>(p, min(x, p.width - 1), level);
#pragma unroll
  for (int c = 0; c < C; c++) level[c] = finish<C>(p, x, c, linear(level[c], p.gain, p.lift));
}

/* ---- rows that may need anything ------------------------------------------------------------- */

enum { CELL_BITS = 3 }; /* px between the nodes of a map that bends: 8 */

/* An image with what its row says besides. */
typedef struct {
  painter p;
  const int2 *nodes; /* of the row of nodes above y; NULL = the map does not bend */
  int across;        /* nodes in a row */
  bool blends;
  float colour[9];
} artist;

/* An image, the one it is mixed with, and what is erased; as far as a row of pixels is concerned. */
typedef struct {
  artist own, other;
  int mixing, share;
  int cut_from, cut_to, erased_from, erased_to;
  float erase_value;
} studio;

/* The whole numbers left <= x < right of an area in row y; none if it does not reach it. */
static __device__ __forceinline__ void span_of(const capl_feed_area &area, int y, int *from, int *to)
{
  bool in = y >= area.y0 && y < area.y1;
  *from = in ? area.x0 : 0;
  *to = in ? area.x1 : 0;
}

static __device__ __forceinline__ artist begin_artist(const augment_args &a, int n, int y, int pixel_bytes)
{
  const capl_feed_more &more = a.more[n];
  artist t;
  t.p = begin_row(a, a.rows[n], y, pixel_bytes);
  if (more.filters) t.p.image = a.filtered + (size_t)n * (size_t)a.height * (size_t)a.width * (size_t)pixel_bytes;
  t.across = ((a.width + (1 << CELL_BITS) - 1) >> CELL_BITS) + 1;
  t.nodes = more.bends ? (const int2 *)(a.nodes + (size_t)n * (size_t)a.row_nodes) + (y >> CELL_BITS) * t.across
      : (const int2 *)0;
  t.blends = more.blends != 0;
#pragma unroll
  for (int k = 0; k < 9; k++) t.colour[k] = more.colour[k] * (1.0f / ONE);
  return t;
}

static __device__ __forceinline__ studio begin_studio(const augment_args &a, int n, int y, int pixel_bytes)
{
  const capl_feed_more &more = a.more[n];
  studio s;
  s.own = begin_artist(a, n, y, pixel_bytes);
  s.mixing = more.mixing;
  if (s.mixing) s.other = begin_artist(a, n + a.partner, y, pixel_bytes);
  s.share = more.share;
  span_of(more.cut, y, &s.cut_from, &s.cut_to);
  span_of(more.erased, y, &s.erased_from, &s.erased_to);
  s.erase_value = (float)a.erase_value;
  return s;
}

/* One coordinate of a map that bends: between nodes, in whole numbers. above, below: left and right node. */
static __device__ __forceinline__ int bend(int above_left, int above_right, int below_left, int below_right, int x,
                                           int y, int most)
{
  int row = y & 7, column = x & 7;
  long long left = above_left + (((long long)below_left - above_left) >> CELL_BITS) * row;
  long long right = above_right + (((long long)below_right - above_right) >> CELL_BITS) * row;
  long long at = left + ((right - left) >> CELL_BITS) * column + ONE;
  return at < 0 ? 0 : at > most ? most : (int)at;
}

template <int C, int BYTES> static __device__ __forceinline__ void sample_bent(const artist &t, int x, float value[C])
{
  const int2 *at = t.nodes + (x >> CELL_BITS);
  int2 a = at[0], b = at[1], c = at[t.across], d = at[t.across + 1];
  int u = bend(a.x, b.x, c.x, d.x, x, t.p.y, (t.p.width + 1) << FRACTION);
  int v = bend(a.y, b.y, c.y, d.y, x, t.p.y, (t.p.height + 1) << FRACTION);
  sample_at<C, BYTES>(t.p, u, v, value);
}

template <int C, int BYTES> static __device__ __forceinline__ void paint_one(const artist &t, int x, float level[C])
{
  float value[C];
  x = min(x, t.p.width - 1); /* there are no nodes behind the row's end */
  if (t.nodes) sample_bent<C, BYTES>(t, x, value);
  else if (t.p.moves) sample<C, BYTES>(t.p, x, value);
  else copy<C, BYTES>(t.p, x, value);
#pragma unroll
  for (int c = 0; c < C; c++) {
    float v = linear(value[c], t.p.gain, t.p.lift);
    if constexpr (C == 3) {
      const float *m = t.colour + 3 * c;
      float sum = __fadd_rn(__fadd_rn(__fmul_rn(m[0], value[0]), __fmul_rn(m[1], value[1])), __fmul_rn(m[2], value[2]));
      if (t.blends) v = __fadd_rn(sum, t.p.lift);
    }
    level[c] = finish<C>(t.p, x, c, v);
  }
}

template <int C, int BYTES> static __device__ __forceinline__ void paint(const studio &s, int x, float level[C])
{
  enum { MIXUP = 1, ALL = 256 };
  paint_one<C, BYTES>(s.own, x, level);
  if (s.mixing == MIXUP || (s.mixing && x >= s.cut_from && x < s.cut_to)) {
    float other[C];
    paint_one<C, BYTES>(s.other, x, other);
#pragma unroll
    for (int c = 0; c < C; c++)
      level[c] = s.mixing == MIXUP ? (float)(((int)level[c] * s.share + (int)other[c] * (ALL - s.share) + 128) >> 8)
          : other[c];
  }
  if (x < s.erased_from || x >= s.erased_to) return;
#pragma unroll
  for (int c = 0; c < C; c++) level[c] = s.erase_value;
}

/* Who paints a row of row n's image, by what its batch may need. */
template <bool ALL> struct who;
template <> struct who<false> {
  typedef painter type;
  static __device__ __forceinline__ painter begin(const augment_args &a, int n, int y, int pixel_bytes)
  {
    return begin_row(a, a.rows[n], y, pixel_bytes);
  }
};
template <> struct who<true> {
  typedef studio type;
  static __device__ __forceinline__ studio begin(const augment_args &a, int n, int y, int pixel_bytes)
  {
    return begin_studio(a, n, y, pixel_bytes);
  }
};

/* A byte of a row, blurred across. */
static __device__ __forceinline__ int blurred_across(const uint8_t *row, int x, int byte, int last, int bytes,
                                                     const uint8_t *table, const capl_feed_more &m)
{
  int sum = 128 + m.blur_weight[0] * table[row[x * bytes + byte]];
  for (int k = 1; k <= m.blur_radius; k++)
    sum += m.blur_weight[k] * (table[row[max(x - k, 0) * bytes + byte]] + table[row[min(x + k, last) * bytes + byte]]);
  return sum >> 8;
}

__global__ void __launch_bounds__(AUGMENT_THREADS) augment_filter(filter_args a)
{
  int n = blockIdx.y, y = blockIdx.x * AUGMENT_STRIP + threadIdx.x / 32, bytes = a.pixel_bytes;
  const capl_feed_more &m = a.more[n];
  if (!m.filters || y >= a.height) return;
  const uint8_t *table = a.tables + (size_t)n * 256;
  size_t row_bytes = (size_t)a.width * (size_t)bytes, image_bytes = (size_t)a.height * row_bytes;
  const uint8_t *image = a.images + (size_t)a.rows[n].image * image_bytes;
  uint8_t *out = a.out + (size_t)n * image_bytes + (size_t)y * row_bytes;
  for (int i = threadIdx.x % 32; i < a.width * bytes; i += 32) {
    int x = i / bytes, byte = i % bytes, sum = 128;
    for (int k = -m.blur_radius; k <= m.blur_radius; k++) {
      const uint8_t *row = image + (size_t)min(max(y + k, 0), a.height - 1) * row_bytes;
      sum += m.blur_weight[k < 0 ? -k : k] * blurred_across(row, x, byte, a.width - 1, bytes, table, m);
    }
    out[i] = (uint8_t)(m.blur_radius > 0 ? sum >> 8 : table[image[(size_t)y * row_bytes + (size_t)i]]);
  }
}

/* ---- normalizing ----------------------------------------------------------------------------- */

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

enum { STORE_BYTES = 16 };

/* Writes 32 neighbouring pixels, or as many as there are, as one run of values: three channels go through shared
** memory, because stores with gaps would each cost a whole transfer. wide: runs of 32 begin at multiples of 16
** bytes. */
template <class T, int C>
static __device__ __forceinline__ void store_run(const T value[C], int there, bool wide, T *out, T *room)
{
  int lane = threadIdx.x % 32;
  if constexpr (C == 1) {
    (void)room, (void)wide;
    if (lane < there) out[lane] = value[0];
  } else {
    constexpr int V = STORE_BYTES / sizeof(T);
#pragma unroll
    for (int c = 0; c < C; c++) room[lane * C + c] = value[c];
    __syncwarp();
    if (wide && there >= 32) {
      if (lane < 32 * C / V) copy_16(out + lane * V, room + lane * V);
    } else {
#pragma unroll
      for (int k = 0; k < C; k++)
        if (lane + 32 * k < there * C) out[lane + 32 * k] = room[lane + 32 * k];
    }
    __syncwarp();
  }
}

/* How image n is normalized when its sums are there. Called by whole blocks. */
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

template <class T, int C, int BYTES, bool ALL>
__global__ void __launch_bounds__(AUGMENT_THREADS) augment_strips(augment_args a)
{
  alignas(STORE_BYTES) __shared__ T room[AUGMENT_STRIP][C == 1 ? 1 : 32 * C];
  const capl_feed_row &row = a.rows[blockIdx.y];
  affine to = a.sums ? affine_of_strips(a, (double)a.height * a.width * C) : affine_of(row);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, y = blockIdx.x * AUGMENT_STRIP + warp;
  if (y >= a.height) return;
  auto p = who<ALL>::begin(a, blockIdx.y, y, BYTES);
  T *out = (T *)a.out + ((size_t)blockIdx.y * (size_t)a.height + (size_t)y) * (size_t)a.width * C;
  bool wide = (size_t)out % STORE_BYTES == 0;
  for (int x = 0; x < a.width; x += 32, out += 32 * C) {
    float level[C];
    T value[C];
    paint<C, BYTES>(p, x + lane, level);
#pragma unroll
    for (int c = 0; c < C; c++) value[c] = value_of<T>(level[c], to, c);
    store_run<T, C>(value, a.width - x, wide, out, room[warp]);
  }
}

/* Adds a row's levels to a thread's sums; keep: where they are kept too, NULL = nowhere. */
template <int C, int BYTES, class P>
static __device__ __forceinline__ void sum_row(const P &p, int width, uint8_t *keep, unsigned long long *sum,
                                               unsigned long long *squares)
{
  unsigned row_sum = 0, row_squares = 0; /* 512 pixels of a thread at most */
  for (int x = threadIdx.x % 32; x < width; x += 32) {
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

template <int C, int BYTES, bool ALL> __global__ void __launch_bounds__(AUGMENT_THREADS) augment_sums(augment_args a)
{
  __shared__ unsigned long long room[2][32];
  unsigned long long sum = 0, squares = 0;
  int y = blockIdx.x * AUGMENT_STRIP + threadIdx.x / 32;
  if (y < a.height) sum_row<C, BYTES>(who<ALL>::begin(a, blockIdx.y, y, BYTES), a.width, (uint8_t *)0, &sum, &squares);
  sum = block_sum(sum, room[0]);
  squares = block_sum(squares, room[1]);
  if (threadIdx.x > 0) return;
  unsigned long long *to = a.sums + ((size_t)blockIdx.y * (size_t)a.strips + blockIdx.x) * 2;
  to[0] = sum;
  to[1] = squares;
}

/* A whole block writes n levels as values; four at a time where images have a multiple of four. */
template <class T> static __device__ __forceinline__ void write_values(const uint8_t *levels, int n, const affine &to,
    T *out)
{
  enum { V = 4 };
  if (n % V != 0) {
    for (int i = threadIdx.x; i < n; i += AUGMENT_THREADS) out[i] = value_of<T>((float)levels[i], to, 0);
    return;
  }
  for (int i = threadIdx.x; i < n / V; i += AUGMENT_THREADS) {
    cu_pack<uint8_t, V> level = cu_load<uint8_t, V>(levels + i * V);
    cu_pack<T, V> value;
#pragma unroll
    for (int k = 0; k < V; k++) value.v[k] = value_of<T>((float)level.v[k], to, 0);
    cu_store<T, V>(out + i * V, value);
  }
}

template <class T, int C, int BYTES, bool ALL>
__global__ void __launch_bounds__(AUGMENT_THREADS) augment_whole(augment_args a)
{
  __shared__ unsigned long long room[2][32];
  static_assert(sizeof room + AUGMENT_WHOLE_BYTES <= 48 * 1024, "more shared memory would have to be asked for");
  CU_SHARED(uint8_t, levels);
  unsigned long long sum = 0, squares = 0;
  int row_values = a.width * C, n = a.height * row_values;
  for (int y = threadIdx.x / 32; y < a.height; y += AUGMENT_STRIP)
    sum_row<C, BYTES>(who<ALL>::begin(a, blockIdx.y, y, BYTES), a.width, levels + y * row_values, &sum, &squares);
  sum = block_sum(sum, room[0]);
  squares = block_sum(squares, room[1]); /* its barrier also makes all levels visible */
  affine to = affine_of_sums(sum, squares, (double)n);
  T *out = (T *)a.out + (size_t)blockIdx.y * (size_t)n;
  write_values<T>(levels, n, to, out);
}

/* ORDER augment_kernel */
#define LAYOUT(C, BYTES, ALL)                                                                                   \
  CU_ENTRY(augment_strips<float, C, BYTES, ALL>), CU_ENTRY(augment_strips<cu_f16, C, BYTES, ALL>),              \
    CU_ENTRY(augment_strips<cu_bf16, C, BYTES, ALL>), CU_ENTRY(augment_strips<uint8_t, C, BYTES, ALL>),         \
    CU_ENTRY(augment_whole<float, C, BYTES, ALL>), CU_ENTRY(augment_whole<cu_f16, C, BYTES, ALL>),              \
    CU_ENTRY(augment_whole<cu_bf16, C, BYTES, ALL>), CU_ENTRY(augment_sums<C, BYTES, ALL>)

/* ORDER augment_kind, augment_layout */
CU_TABLE(cu_augment_table, LAYOUT(1, 1, false), LAYOUT(3, 3, false), LAYOUT(3, 4, false), LAYOUT(1, 1, true),
         LAYOUT(3, 3, true), LAYOUT(3, 4, true), CU_ENTRY(augment_filter))
