/* plane.c -- the whole image: taps, squeeze to width, smoothing, colour.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "data/draw/lanes.h"

/* ---- taps ------------------------------------------------------------------------------------ */

static inline float cubic(float x)
{
  x = fabsf(x);
  float near = (1.5f * x - 2.5f) * x * x + 1;
  float far = ((-0.5f * x + 2.5f) * x - 4) * x + 2;
  return x < 1 ? near : x < 2 ? far : 0;
}

void DRAW(taps)(draw_taps *taps, int n_in, int n_out, int one)
{
  int outs = draw_padded(n_out);
  float scale = (float)n_in / (float)n_out, widen = scale < 1 ? 1 : scale, narrow = 1 / widen;
  int n_taps = (int)ceilf(4 * widen);
  taps->n_taps = n_taps < taps->max_taps ? n_taps : taps->max_taps;
  float *restrict sum = taps->sum;
  for (int i = 0; i < outs; i++) {
    float first = ((float)i + 0.5f) * scale - 2 * widen + 0.5f;
    taps->first[i] = (int16_t)(first > 0 ? first : 0);
    sum[i] = 0;
  }
  for (int k = 0; k < taps->n_taps; k++) {
    float *restrict exact = taps->exact + k * taps->max_out;
    for (int i = 0; i < outs; i++) {
      int line = taps->first[i] + k;
      float value = cubic(((float)line + 0.5f - ((float)i + 0.5f) * scale) * narrow);
      exact[i] = line < n_in ? value : 0;
      sum[i] += exact[i];
    }
  }
  for (int k = 0; k < taps->n_taps; k++) {
    const float *restrict exact = taps->exact + k * taps->max_out;
    int16_t *restrict weight = taps->weight + k * taps->max_out;
    for (int i = 0; i < outs; i++) {
      float share = exact[i] / (i < n_out ? sum[i] : 1);
      int rounded = (int)(share * (float)one + 32768.5f) - 32768;
      weight[i] = (int16_t)(rounded < 32767 ? rounded : 32767);
    }
  }
}

/* ---- squeeze --------------------------------------------------------------------------------- */

enum { MOST = 2500 }; /* 13 times this is still a 16-bit number */

INLINE void squeeze_column(const draw_taps *taps, int n_taps, int i, const int16_t *in, int16_t *out, int step)
{
  const int16_t *from = in + taps->first[i] * step;
  for (int y = 0; y < step; y += LANES) {
    lanes sum = lanes_set(n_taps / 2); /* the products are cut off, by half a step on average */
    for (int k = 0; k < n_taps; k++) {
      sum += lanes_mulhi(lanes_load(from + k * step + y), lanes_set(taps->weight[k * taps->max_out + i]));
    }
    lanes_store(out + i * step + y, lanes_clip(sum >> 1, -MOST, MOST));
  }
}

void DRAW(squeeze)(const draw_taps *taps, int n_out, const int16_t *in, int16_t *out, int step)
{
  if (taps) {
    for (int i = 0; i < n_out; i++) squeeze_column(taps, taps->n_taps, i, in, out, step);
    return;
  }
  for (int i = 0; i < n_out * step; i += LANES) lanes_store(out + i, lanes_clip(lanes_load(in + i) >> 2, -MOST, MOST));
}

/* ---- smoothing ------------------------------------------------------------------------------- */

INLINE void keep(const int16_t *in, int16_t *out, int n)
{
  for (int y = 0; y < n; y += LANES) lanes_store(out + y, lanes_load(in + y) * 13);
}

/* sums[y]: the pixel with its upper and lower neighbour. */
INLINE void sum_down(const int16_t *in, int16_t *sums, int step)
{
  for (int y = 0; y < step; y += LANES) {
    lanes_store(sums + y, lanes_load(in + y - 1) + lanes_load(in + y) + lanes_load(in + y + 1));
  }
}

void DRAW(smooth)(const int16_t *in, int width, int height, int step, int16_t *sums, int16_t *out)
{
  for (int x = 0; x < width; x++) sum_down(in + x * step, sums + x * step, step);
  keep(in, out, step);
  keep(in + (width - 1) * step, out + (width - 1) * step, step);
  for (int x = 1; x < width - 1; x++) {
    const int16_t *middle = in + x * step, *sum = sums + x * step;
    int16_t *to = out + x * step;
    for (int y = 0; y < step; y += LANES) {
      lanes around = lanes_load(sum - step + y) + lanes_load(sum + y) + lanes_load(sum + step + y);
      lanes_store(to + y, around + lanes_load(middle + y) * 4);
    }
    to[0] = (int16_t)(13 * middle[0]);
    to[height - 1] = (int16_t)(13 * middle[height - 1]);
  }
}

/* ---- colour ---------------------------------------------------------------------------------- */

/* Levels times 2^5, as the product with 16 bits cut off leaves them. */
enum { FRACTION = 5 };

typedef struct {
  lanes base[3], slope[3];
} inks;

static inks mix_inks(const draw_colours *colours, int rounding)
{
  inks mixed;
  for (int c = 0; c < 3; c++) {
    int background = colours->background[c], away = background - colours->ink[c];
    mixed.base[c] = lanes_set((background << FRACTION) + rounding);
    mixed.slope[c] = lanes_set(-(((away << (FRACTION + 16)) + DRAW_SMOOTHED / 2) / DRAW_SMOOTHED));
  }
  return mixed;
}

INLINE lanes channel(const inks *mixed, int c, lanes coverage)
{
  return mixed->base[c] + lanes_mulhi(coverage, mixed->slope[c]);
}

/* Luma of the channels, each clipped as it is in the RGB image. 2^16 times 0.299 and 0.114, and 2^15 times 0.587. */
static void luma_row(const int16_t *row, int width, const inks *mixed, uint8_t *line)
{
  for (int x = 0; x < width; x += LANES) {
    lanes coverage = lanes_load(row + x), sum = lanes_set(33);
    static const int weight[3] = {9798, 19235, 3736}; /* times 4 and half a level: 2^6 */
    for (int c = 0; c < 3; c++) {
      lanes level = lanes_clip(channel(mixed, c, coverage), 0, 255 << FRACTION);
      sum += lanes_mulhi(level << 2, lanes_set(weight[c]));
    }
    lanes_to_bytes(line + x, sum >> 6);
  }
}

#if defined(__AVX512VBMI__)

INLINE lanes level_of(const inks *mixed, int c, lanes coverage)
{
  return lanes_clip(channel(mixed, c, coverage) >> FRACTION, 0, 255);
}

static void rgb_row(const int16_t *row, int width, const inks *mixed, uint8_t *line)
{
  uint8_t order[128]; /* of 32 pixels, out of red and green bytes, then blue words */
  for (int i = 0; i < 96; i++) order[i] = (uint8_t)(i % 3 < 2 ? i / 3 * 2 + i % 3 : 64 + i / 3 * 2);
  __m512i first = _mm512_loadu_si512(order), second = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(order + 64)));
  for (int x = 0; x < width; x += 32, line += 96) {
    lanes coverage = lanes_load(row + x);
    __m512i red_green = (__m512i)(level_of(mixed, 0, coverage) | level_of(mixed, 1, coverage) << 8);
    __m512i blue = (__m512i)level_of(mixed, 2, coverage);
    _mm512_storeu_si512(line, _mm512_permutex2var_epi8(red_green, first, blue));
    __m512i rest = _mm512_permutex2var_epi8(red_green, second, blue);
    _mm256_storeu_si256((__m256i *)(line + 64), _mm512_castsi512_si256(rest));
  }
}

#else

static void rgb_row(const int16_t *row, int width, const inks *mixed, uint8_t *line)
{
  for (int x = 0; x < width; x += LANES, line += 3 * LANES) {
    uint8_t level[3][LANES];
    for (int c = 0; c < 3; c++) lanes_to_bytes(level[c], channel(mixed, c, lanes_load(row + x)) >> FRACTION);
    for (int i = 0; i < LANES; i++) {
      for (int c = 0; c < 3; c++) line[3 * i + c] = level[c][i];
    }
  }
}

#endif

void DRAW(colour)(const int16_t *in, int width, int height, int step, const draw_colours *colours, int channels,
                  int16_t *rows, uint8_t *line, uint8_t *pixels)
{
  int row_step = draw_padded(width) + DRAW_PAD;
  inks mixed = mix_inks(colours, channels == 3 ? 1 << (FRACTION - 1) : 0);
  size_t row_bytes = (size_t)width * (size_t)channels;
  for (int y = 0; y < height; y += 8) {
    for (int x = 0; x < width; x += 8) transpose_8x8(in + x * step + y, step, rows + x, row_step);
    for (int i = 0; i < 8 && y + i < height; i++) {
      if (channels == 3) rgb_row(rows + i * row_step, width, &mixed, line);
      else luma_row(rows + i * row_step, width, &mixed, line);
      memcpy(pixels + (size_t)(y + i) * row_bytes, line, row_bytes);
    }
  }
}
