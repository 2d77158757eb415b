/* plane.c -- the whole image: taps, squeeze to width, smoothing, colour.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "synth/draw/lanes.h"

/* ---- taps ------------------------------------------------------------------------------------ */

INLINE reals cubic(reals x)
{
  x = reals_min((reals)((wholes)x & INT32_MAX), reals_set(2)); /* from 2 on it is 0, as far is at 2 */
  reals near = (1.5f * x - 2.5f) * x * x + 1;
  reals far = ((-0.5f * x + 2.5f) * x - 4) * x + 2;
  return reals_below_1(x, near, far);
}

INLINE reals count_up(void)
{
  static const float count[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  reals n;
  memcpy(&n, count, sizeof n);
  return n;
}

/* Those of REALS lines from i on. */
INLINE void taps_of(draw_taps *taps, int i, int n_in, float scale, float widen, float narrow, float one)
{
  reals centre = (count_up() + ((float)i + 0.5f)) * scale, from = centre - (2 * widen - 0.5f), sum = reals_set(0);
  wholes first = __builtin_convertvector(from, wholes);
  first &= first > 0;
  reals line = __builtin_convertvector(first, reals), offset = line + 0.5f - centre, *exact = (reals *)taps->exact;
  reals_to_halves(taps->first + i, line);
  bool ends = first[REALS - 1] + taps->n_taps > n_in;
  for (int k = 0; k < taps->n_taps; k++) {
    reals value = cubic((offset + (float)k) * narrow);
    if (ends) value = (reals)((wholes)value & (first + k < n_in));
    exact[k] = value;
    sum += value;
  }
  reals share = one / sum;
  for (int k = 0; k < taps->n_taps; k++) reals_to_halves(taps->weight + k * taps->max_out + i, exact[k] * share);
}

/* Where whole registers of weights are used, those past the last line are 0, so that no sum overflows. */
static void clear_rest(draw_taps *taps, int n_out)
{
#if defined(__AVX512BW__)
  int16_t *weight = taps->weight + n_out / LANES * LANES;
  __mmask32 rest = n_out % LANES ? UINT32_MAX << n_out % LANES : 0;
  for (int k = 0; k < taps->n_taps; k++)
    _mm512_mask_storeu_epi16(weight + k * taps->max_out, rest, _mm512_setzero_si512());
#else
  (void)taps;
  (void)n_out;
#endif
}

void DRAW(taps)(draw_taps *taps, int n_in, int n_out, int one)
{
  float scale = (float)n_in / (float)n_out, widen = scale < 1 ? 1 : scale;
  int n_taps = (int)ceilf(4 * widen);
  taps->n_taps = n_taps < taps->max_taps ? n_taps : taps->max_taps;
  for (int i = 0; i < n_out; i += REALS) taps_of(taps, i, n_in, scale, widen, 1 / widen, (float)one);
  clear_rest(taps, n_out);
}

/* ---- squeeze --------------------------------------------------------------------------------- */

enum { MOST = 2500 }; /* 13 times this is still a 16-bit number */

/* The products are cut off, by half a step on average. */
INLINE void squeeze_column(const draw_taps *taps, int n_taps, int i, const int16_t *in, int16_t *out, int step)
{
  for (int y = 0; y < step; y += 2 * LANES) {
    const int16_t *from = in + taps->first[i] * step + y;
    int16_t *to = out + i * step + y;
    lanes a = lanes_set(n_taps / 2), b = a;
    for (int k = 0; k < n_taps; k++, from += step) {
      lanes weight = lanes_set(taps->weight[k * taps->max_out + i]);
      a += lanes_mulhi(lanes_load(from), weight);
      b += lanes_mulhi(lanes_load(from + LANES), weight);
    }
    lanes_store(to, lanes_clip(a >> 1, -MOST, MOST));
    lanes_store(to + LANES, lanes_clip(b >> 1, -MOST, MOST));
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

/* The pixel with its upper and lower neighbour. */
INLINE lanes sum_down(const int16_t *in)
{
  return lanes_load(in - 1) + lanes_load(in) + lanes_load(in + 1);
}

void DRAW(smooth)(const int16_t *in, int width, int height, int step, int16_t *out)
{
  keep(in, out, step);
  keep(in + (width - 1) * step, out + (width - 1) * step, step);
  for (int y = 0; y < step; y += LANES) {
    lanes left = sum_down(in + y), middle = sum_down(in + step + y);
    for (int x = 1; x < width - 1; x++) {
      const int16_t *here = in + x * step + y;
      lanes right = sum_down(here + step);
      lanes_store(out + x * step + y, left + middle + right + lanes_load(here) * 4);
      left = middle;
      middle = right;
    }
  }
  for (int x = 1; x < width - 1; x++) {
    out[x * step] = (int16_t)(13 * in[x * step]);
    out[x * step + height - 1] = (int16_t)(13 * in[x * step + height - 1]);
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

INLINE lanes level_of(const inks *mixed, int c, lanes coverage)
{
  return channel(mixed, c, coverage) >> FRACTION;
}

#if defined(__AVX512VBMI__)

/* Bytes of 32 pixels. Packing takes turns between red and green, and between blue and blue, every 8 pixels. */
#define RED_GREEN(i) ((i) / 8 * 16 + (i) % 8)
#define PIXEL(i) RED_GREEN(i), RED_GREEN(i) + 8, RED_GREEN(i)
#define PIXELS_8(i) PIXEL(i), PIXEL((i) + 1), PIXEL((i) + 2), PIXEL((i) + 3), PIXEL((i) + 4), PIXEL((i) + 5), \
    PIXEL((i) + 6), PIXEL((i) + 7)
static const uint8_t rgb_order[128] = {PIXELS_8(0), PIXELS_8(8), PIXELS_8(16), PIXELS_8(24)};

static void rgb_row(const int16_t *row, int width, const inks *mixed, uint8_t *line)
{
  const __m512i first = _mm512_loadu_si512(rgb_order), second = _mm512_loadu_si512(rgb_order + 64);
  const __mmask64 first_blue = 0x4924924924924924, second_blue = 0x92492492;
  for (int x = 0; x < width; x += 32, line += 96) {
    lanes coverage = lanes_load(row + x);
    __m512i blue = (__m512i)level_of(mixed, 2, coverage);
    __m512i red_green = _mm512_packus_epi16((__m512i)level_of(mixed, 0, coverage),
                                            (__m512i)level_of(mixed, 1, coverage));
    blue = _mm512_packus_epi16(blue, blue);
    __m512i head = _mm512_permutexvar_epi8(first, red_green), tail = _mm512_permutexvar_epi8(second, red_green);
    head = _mm512_mask_permutexvar_epi8(head, first_blue, first, blue);
    tail = _mm512_mask_permutexvar_epi8(tail, second_blue, second, blue);
    _mm512_storeu_si512(line, head);
    _mm256_storeu_si256((__m256i *)(line + 64), _mm512_castsi512_si256(tail));
  }
}

#elif defined(__AVX2__)

/* Byte j of 16 pixels' third t is a byte of channel c, or none (the highest bit). */
#define BYTE(c, j) ((j) % 3 == (c) ? (j) / 3 : 0x80)
#define BYTES_4(c, j) BYTE(c, j), BYTE(c, (j) + 1), BYTE(c, (j) + 2), BYTE(c, (j) + 3)
#define BYTES_16(c, j) {BYTES_4(c, j), BYTES_4(c, (j) + 4), BYTES_4(c, (j) + 8), BYTES_4(c, (j) + 12)}
static const uint8_t third_order[3][3][16] = {
  {BYTES_16(0, 0), BYTES_16(1, 0), BYTES_16(2, 0)},
  {BYTES_16(0, 16), BYTES_16(1, 16), BYTES_16(2, 16)},
  {BYTES_16(0, 32), BYTES_16(1, 32), BYTES_16(2, 32)},
};

static void rgb_row(const int16_t *row, int width, const inks *mixed, uint8_t *line)
{
  for (int x = 0; x < width; x += 16, line += 48) {
    __m128i level[3];
    for (int c = 0; c < 3; c++) lanes_to_bytes((uint8_t *)&level[c], level_of(mixed, c, lanes_load(row + x)));
    for (int t = 0; t < 3; t++) {
      __m128i third = _mm_setzero_si128();
      for (int c = 0; c < 3; c++) {
        third = _mm_or_si128(third, _mm_shuffle_epi8(level[c], _mm_loadu_si128((const __m128i *)third_order[t][c])));
      }
      _mm_storeu_si128((__m128i *)(line + 16 * t), third);
    }
  }
}

#else

static void rgb_row(const int16_t *row, int width, const inks *mixed, uint8_t *line)
{
  for (int x = 0; x < width; x += LANES, line += 3 * LANES) {
    uint8_t level[3][LANES];
    for (int c = 0; c < 3; c++) lanes_to_bytes(level[c], level_of(mixed, c, lanes_load(row + x)));
    for (int i = 0; i < LANES; i++) {
      for (int c = 0; c < 3; c++) line[3 * i + c] = level[c][i];
    }
  }
}

#endif

void DRAW(colour)(const int16_t *in, int width, int height, int step, const draw_colours *colours, int channels,
                  int16_t *rows, uint8_t *line, uint8_t *pixels)
{
  inks mixed = mix_inks(colours, channels == 3 ? 1 << (FRACTION - 1) : 0);
  size_t row_bytes = (size_t)width * (size_t)channels;
  for (int y = 0; y < height; y += LANES) {
    for (int x = 0; x < width; x += 8) transpose(in + x * step + y, step, rows + x, DRAW_ROW_STEP);
    for (int i = 0; i < LANES && y + i < height; i++) {
      uint8_t *to = pixels + (size_t)(y + i) * row_bytes;
      bool last = y + i == height - 1; /* the others may spill into the row below, which is yet to come */
      if (channels == 3) rgb_row(rows + i * DRAW_ROW_STEP, width, &mixed, last ? line : to);
      else luma_row(rows + i * DRAW_ROW_STEP, width, &mixed, last ? line : to);
      if (last) memcpy(to, line, row_bytes);
    }
  }
}
