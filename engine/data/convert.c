/* convert.c -- normalises levels to f32 or bf16, or copies them.
**
** Every normalisation is value = level * scale + shift, one pair per channel; standardising finds its pair from
** exact integer sums, so the result does not depend on the order of summation.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/convert.h"

#include <math.h>
#include <string.h>

typedef struct {
  float scale[3], shift[3];
} affine;

size_t capl_pixel_bytes(capl_pixel_type type)
{
  static const size_t bytes[] = {[CAPL_PIXEL_F32] = 4, [CAPL_PIXEL_BF16] = 2, [CAPL_PIXEL_U8] = 1};
  return bytes[type];
}

/* Sums in blocks whose 32-bit sums cannot overflow, so that the inner loop vectorises. */
static void add_up(const uint8_t *level, size_t n, uint64_t *sum, uint64_t *squares)
{
  enum { BLOCK = 16384 };
  *sum = *squares = 0;
  for (size_t from = 0; from < n; from += BLOCK) {
    size_t end = from + BLOCK < n ? from + BLOCK : n;
    uint32_t block_sum = 0, block_squares = 0;
    for (size_t i = from; i < end; i++) {
      block_sum += level[i];
      block_squares += (uint32_t)level[i] * level[i];
    }
    *sum += block_sum;
    *squares += block_squares;
  }
}

/* An image of one level has no deviation; it becomes zeros. */
static affine standardise(const uint8_t *levels, size_t n)
{
  uint64_t sum, squares;
  add_up(levels, n, &sum, &squares);
  double mean = (double)sum / (double)n;
  double variance = (double)squares / (double)n - mean * mean;
  double scale = variance > 1e-9 ? 1 / sqrt(variance) : 1;
  affine a;
  for (int c = 0; c < 3; c++) {
    a.scale[c] = (float)scale;
    a.shift[c] = (float)(-mean * scale);
  }
  return a;
}

static affine find_affine(const capl_conversion *conversion, const uint8_t *levels, size_t n)
{
  affine a = {{0}, {0}};
  if (conversion->norm == CAPL_NORM_STANDARDISE) return standardise(levels, n);
  for (int c = 0; c < 3; c++) {
    bool plain = conversion->norm == CAPL_NORM_UNIT;
    float mean = plain ? 0 : conversion->mean[c], std = plain ? 1 : conversion->std[c];
    a.scale[c] = 1 / (255 * std);
    a.shift[c] = -mean / std;
  }
  return a;
}

/* Rounds to nearest, ties to even. The values here are finite. */
static inline uint16_t to_bf16(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static void gray_f32(affine a, const uint8_t *restrict level, size_t n, float *restrict out)
{
  for (size_t i = 0; i < n; i++) out[i] = (float)level[i] * a.scale[0] + a.shift[0];
}

static void gray_bf16(affine a, const uint8_t *restrict level, size_t n, uint16_t *restrict out)
{
  for (size_t i = 0; i < n; i++) out[i] = to_bf16((float)level[i] * a.scale[0] + a.shift[0]);
}

static void rgb_f32(affine a, const uint8_t *restrict level, size_t n_pixels, float *restrict out)
{
  for (size_t i = 0; i < n_pixels; i++) {
    for (int c = 0; c < 3; c++) out[3 * i + c] = (float)level[3 * i + c] * a.scale[c] + a.shift[c];
  }
}

static void rgb_bf16(affine a, const uint8_t *restrict level, size_t n_pixels, uint16_t *restrict out)
{
  for (size_t i = 0; i < n_pixels; i++) {
    for (int c = 0; c < 3; c++) out[3 * i + c] = to_bf16((float)level[3 * i + c] * a.scale[c] + a.shift[c]);
  }
}

void capl_convert(const capl_conversion *conversion, const uint8_t *levels, size_t n_pixels, int channels, void *out)
{
  size_t n = n_pixels * (size_t)channels;
  if (conversion->type == CAPL_PIXEL_U8) {
    memcpy(out, levels, n);
    return;
  }
  affine a = find_affine(conversion, levels, n);
  bool f32 = conversion->type == CAPL_PIXEL_F32;
  bool one_pair = channels == 1 || conversion->norm != CAPL_NORM_MEAN_STD;
  if (one_pair && f32) gray_f32(a, levels, n, out);
  if (one_pair && !f32) gray_bf16(a, levels, n, out);
  if (!one_pair && f32) rgb_f32(a, levels, n_pixels, out);
  if (!one_pair && !f32) rgb_bf16(a, levels, n_pixels, out);
}
