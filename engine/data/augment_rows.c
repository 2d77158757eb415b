/* augment_rows.c -- the loops over pixels of the augmentation, in plain C that compilers turn into vector code.
**
** Compiled once per instruction set, with AUGMENT_ISA as its name and AUGMENT_WARP naming a faster way to move pixels
** where there is one.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/augment_rows.h"

#include <string.h>

enum { ONE = AUGMENT_ONE, FRACTION = AUGMENT_FRACTION };

static inline float clip(float level)
{
  level = level > 0 ? level : 0;
  return level < 255 ? level : 255;
}

static inline uint8_t rounded(float level)
{
  return (uint8_t)(int)(level + 0.5f);
}

/* ---- noise ----------------------------------------------------------------------------------- */

/* A counter well stirred (a 32-bit integer hash by multiplication and shifts). */
static inline uint32_t stir(uint32_t x)
{
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

/* The sum of four random bytes: mean 510, deviation 147.8, close enough to a normal for pixel noise. */
static inline float bell(uint32_t counter, uint32_t key)
{
  uint32_t r = stir(stir(counter) + key);
  int sum = (int)((r & 255) + (r >> 8 & 255) + (r >> 16 & 255) + (r >> 24));
  return (float)(sum - 510) * (1 / 147.8f);
}

static inline float noisy(float level, float sigma, uint32_t counter, uint32_t key)
{
  return clip(level + sigma * bell(counter, key));
}

/* ---- images that stay ------------------------------------------------------------------------ */

static void still(const augment_job *job, const uint8_t *restrict in, uint32_t first, size_t n, uint8_t *restrict out)
{
  float gain = job->gain, lift = job->lift, sigma = job->draw->noise;
  uint32_t key = job->draw->noise_key;
  if (sigma > 0) {
    for (size_t i = 0; i < n; i++) {
      float level = clip((float)(in[i] << FRACTION) * gain + lift);
      out[i] = rounded(noisy(level, sigma, first + (uint32_t)i, key));
    }
  } else {
    for (size_t i = 0; i < n; i++) out[i] = rounded(clip((float)(in[i] << FRACTION) * gain + lift));
  }
}

/* ---- images that move ------------------------------------------------------------------------ */

#if !defined AUGMENT_WARP || !defined AUGMENT_MASK
/* coordinate[x] of a segment: kept within one pixel of the source, beyond which nothing changes. */
static void follow(int64_t start, int32_t pace, int last, int n, int32_t *restrict coordinate)
{
  int32_t most = (last + 1) << FRACTION;
  if (augment_is_narrow(start, pace, n)) {
    int32_t first = (int32_t)start;
    for (int x = 0; x < n; x++) {
      int32_t at = first + x * pace;
      at = at > 0 ? at : 0;
      coordinate[x] = at < most ? at : most;
    }
  } else {
    for (int x = 0; x < n; x++) {
      int64_t at = start + (int64_t)x * pace;
      coordinate[x] = (int32_t)(at < 0 ? 0 : at > most ? most : at);
    }
  }
}

enum { CHUNK = 64 }; /* pixels that are located together, a multiple of AUGMENT_CELL */

/* Where n pixels from x on of the row last begun read from. course: of the row, moved on, unless the map bends. */
static void locate(const augment_job *job, int x, int n, augment_course *course, int32_t u[CHUNK], int32_t v[CHUNK])
{
  int step = job->draw->bends ? AUGMENT_CELL : n;
  for (int i = 0; i < n; i += step) {
    int count = n - i < step ? n - i : step;
    if (job->draw->bends) *course = augment_course_on(job->lines, x + i);
    follow(course->u, course->du, job->width, count, u + i);
    follow(course->v, course->dv, job->height, count, v + i);
    course->u += (int64_t)count * course->du;
    course->v += (int64_t)count * course->dv;
  }
}

#endif

#ifdef AUGMENT_WARP
void AUGMENT_WARP(const augment_job *job, int y, int rows, uint8_t *out);
#define WARP AUGMENT_WARP
#else
#define WARP warp

static inline int bilinear(const uint8_t *above, const uint8_t *below, int c, int fx, int fy)
{
  int upper = above[0] * (256 - fx) + above[c] * fx, lower = below[0] * (256 - fx) + below[c] * fx;
  return upper * (256 - fy) + lower * fy;
}

/* Gray is worth its own loop: the general one spends as much on counting channels. */
static void sample_gray(const augment_job *job, const int32_t *u, const int32_t *v, int n, int32_t *restrict value)
{
  for (int x = 0; x < n; x++) {
    const uint8_t *p = job->padded + (size_t)(v[x] >> FRACTION) * job->stride + (u[x] >> FRACTION);
    value[x] = bilinear(p, p + job->stride, 1, u[x] >> 8 & 255, v[x] >> 8 & 255);
  }
}

static void sample_colours(const augment_job *job, const int32_t *u, const int32_t *v, int n, int32_t *restrict value)
{
  for (int x = 0; x < n; x++) {
    const uint8_t *p = job->padded + (size_t)(v[x] >> FRACTION) * job->stride + (size_t)(u[x] >> FRACTION) * 3;
    int fx = u[x] >> 8 & 255, fy = v[x] >> 8 & 255;
    for (int c = 0; c < 3; c++) value[3 * x + c] = bilinear(p + c, p + c + job->stride, 3, fx, fy);
  }
}

static void sample_row(const augment_job *job, int y)
{
  int32_t u[CHUNK], v[CHUNK];
  augment_course course = augment_course_of(job, y, job->lines);
  for (int x = 0; x < job->width; x += CHUNK) {
    int n = job->width - x < CHUNK ? job->width - x : CHUNK;
    locate(job, x, n, &course, u, v);
    if (job->channels == 1) sample_gray(job, u, v, n, job->value + x);
    else sample_colours(job, u, v, n, job->value + 3 * x);
  }
}

static void colour_row(const augment_job *job, uint32_t first, uint8_t *restrict out)
{
  const int32_t *restrict value = job->value;
  float gain = job->gain, lift = job->lift, sigma = job->draw->noise;
  uint32_t key = job->draw->noise_key;
  int n = job->width * job->channels;
  if (sigma > 0) {
    for (int i = 0; i < n; i++)
      out[i] = rounded(noisy(clip((float)value[i] * gain + lift), sigma, first + (uint32_t)i, key));
  } else {
    for (int i = 0; i < n; i++) out[i] = rounded(clip((float)value[i] * gain + lift));
  }
}

static void blend_row(const augment_job *job, uint32_t first, uint8_t *restrict out)
{
  for (int i = 0; i < job->width * 3; i += 3) {
    float r = (float)job->value[i], g = (float)job->value[i + 1], b = (float)job->value[i + 2];
    for (int c = 0; c < 3; c++) {
      const float *m = job->colour + 3 * c;
      float level = clip(((m[0] * r + m[1] * g) + m[2] * b) + job->lift);
      if (job->draw->noise > 0) level = noisy(level, job->draw->noise, first + (uint32_t)(i + c), job->draw->noise_key);
      out[i + c] = rounded(level);
    }
  }
}

static void warp(const augment_job *job, int y, int rows, uint8_t *out)
{
  size_t row = (size_t)job->width * (size_t)job->channels;
  for (int k = 0; k < rows; k++) {
    uint32_t first = (uint32_t)(y + k) * (uint32_t)row;
    sample_row(job, y + k);
    if (job->draw->blends && job->channels == 3) blend_row(job, first, out + (size_t)k * row);
    else colour_row(job, first, out + (size_t)k * row);
  }
}
#endif

/* ---- masks ----------------------------------------------------------------------------------- */

#ifdef AUGMENT_MASK
void AUGMENT_MASK(const augment_job *job, int y, int rows, uint8_t *out);
#define MASK AUGMENT_MASK
#else
#define MASK mask

static void mask(const augment_job *job, int y, int rows, uint8_t *out)
{
  int32_t u[CHUNK], v[CHUNK];
  for (int end = y + rows; y < end; y++) {
    augment_course course = augment_course_of(job, y, job->lines);
    for (int x = 0; x < job->width; x += CHUNK) {
      int n = job->width - x < CHUNK ? job->width - x : CHUNK;
      locate(job, x, n, &course, u, v);
      for (int i = 0; i < n; i++)
        *out++ = job->padded[(size_t)((v[i] + ONE / 2) >> FRACTION) * job->stride
                             + (size_t)((u[i] + ONE / 2) >> FRACTION)];
    }
  }
}
#endif

/* ---- sums ------------------------------------------------------------------------------------ */

#ifdef AUGMENT_SUMS
void AUGMENT_SUMS(const uint8_t *in, size_t n, uint64_t sum[3]);
#define SUMS AUGMENT_SUMS
#else
#define SUMS sums

/* 48 columns, each of which always meets the same channel, in 16 bits for as long as they hold. Plain sums of every
** third byte do not vectorize. */
static void sums(const uint8_t *restrict in, size_t n, uint64_t sum[3])
{
  enum { COLUMNS = 48, ROWS = 256 };
  size_t i = 0;
  while (n - i >= COLUMNS) {
    uint16_t column[COLUMNS] = {0};
    for (int row = 0; row < ROWS && n - i >= COLUMNS; row++, i += COLUMNS) {
      for (int k = 0; k < COLUMNS; k++) column[k] = (uint16_t)(column[k] + in[i + (size_t)k]);
    }
    for (int k = 0; k < COLUMNS; k++) sum[k % 3] += column[k];
  }
  for (; i < n; i++) sum[i % 3] += in[i];
}
#endif

/* ---- blur, mixing ---------------------------------------------------------------------------- */

static void blur_across(const capl_augment_draw *d, const uint8_t *restrict in, int channels, size_t n,
                        uint8_t *restrict out)
{
  const uint16_t *w = d->blur_weight;
  const uint8_t *restrict p = in + d->blur_radius * channels;
  int one = channels, two = 2 * channels, three = 3 * channels;
  /* w[k] is 0 beyond the radius, but there is nothing to read there either. */
  if (d->blur_radius < 2) two = 0;
  if (d->blur_radius < 3) three = 0;
  for (size_t i = 0; i < n; i++) {
    const uint8_t *at = p + i;
    uint16_t sum = (uint16_t)(w[0] * at[0] + w[1] * (at[-one] + at[one]) + w[2] * (at[-two] + at[two]) + w[3]
                              * (at[-three] + at[three]));
    out[i] = (uint8_t)((uint16_t)(sum + 128) >> 8);
  }
}

static void blur_down(const capl_augment_draw *d, const uint8_t *const *row, size_t n, uint8_t *restrict out)
{
  const uint16_t *w = d->blur_weight;
  int r = d->blur_radius, two = r < 2 ? 0 : 2, three = r < 3 ? 0 : 3;
  const uint8_t *a = row[r - three], *b = row[r - two], *c = row[r - 1], *m = row[r], *e = row[r + 1],
      *f = row[r + two], *g = row[r + three];
  for (size_t i = 0; i < n; i++) {
    uint16_t sum = (uint16_t)(w[0] * m[i] + w[1] * (c[i] + e[i]) + w[2] * (b[i] + f[i]) + w[3] * (a[i] + g[i]));
    out[i] = (uint8_t)((uint16_t)(sum + 128) >> 8);
  }
}

static void blend(const uint8_t *restrict other, int share, size_t n, uint8_t *restrict levels)
{
  for (size_t i = 0; i < n; i++)
    levels[i] = (uint8_t)((levels[i] * share + other[i] * (AUGMENT_SHARE - share) + 128) >> 8);
}

#ifdef AUGMENT_LOOK_UP
void AUGMENT_LOOK_UP(const uint8_t table[256], const uint8_t *in, size_t n, uint8_t *levels);
#define LOOK_UP AUGMENT_LOOK_UP
#else
#define LOOK_UP look_up

static void look_up(const uint8_t table[256], const uint8_t *in, size_t n, uint8_t *levels)
{
  for (size_t i = 0; i < n; i++) levels[i] = table[in[i]];
}
#endif

#ifndef AUGMENT_PAIRS
#define AUGMENT_PAIRS false
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
const augment_kernels JOIN(augment_kernels_, AUGMENT_ISA) = {TEXT(AUGMENT_ISA), AUGMENT_PAIRS, WARP, LOOK_UP, still,
    blur_across, blur_down, blend, SUMS, MASK};
