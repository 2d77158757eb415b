/* convert.c -- normalizes levels to f32, bf16 or f16, or copies them.
**
** Every normalization is value = level * scale + shift, one pair per channel; standardizing finds its pair from
** exact integer sums, so the result does not depend on the order of summation.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/convert.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/float16.h"
#include "base/isa.h"

typedef capl_affine affine;

size_t capl_pixel_bytes(capl_pixel_type type)
{
  static const size_t bytes[] = {[CAPL_PIXEL_F32] = 4, [CAPL_PIXEL_BF16] = 2, [CAPL_PIXEL_U8] = 1,
                                 [CAPL_PIXEL_F16] = 2};
  return bytes[type];
}

/* In blocks whose 32-bit sums cannot overflow, so that the inner loop vectorizes. */
void capl_level_sums(const uint8_t *level, size_t n, uint64_t *sum, uint64_t *squares)
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
static affine standardize(uint64_t sum, uint64_t squares, size_t n)
{
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

affine capl_conversion_affine(const capl_conversion *conversion, uint64_t sum, uint64_t squares, size_t n)
{
  affine a = {{0}, {0}};
  if (conversion->norm == CAPL_NORM_STANDARDIZE) return standardize(sum, squares, n);
  for (int c = 0; c < 3; c++) {
    bool plain = conversion->norm == CAPL_NORM_UNIT;
    float mean = plain ? 0 : conversion->mean[c], std = plain ? 1 : conversion->std[c];
    a.scale[c] = 1 / (255 * std);
    a.shift[c] = -mean / std;
  }
  return a;
}

void convert_f32_portable(const affine *pairs, const uint8_t *restrict level, size_t n, bool stream,
                          float *restrict out)
{
  (void)stream;
  size_t i = 0;
  for (; i + 2 < n; i += 3) {
    for (size_t c = 0; c < 3; c++) out[i + c] = (float)level[i + c] * pairs->scale[c] + pairs->shift[c];
  }
  for (; i < n; i++) out[i] = (float)level[i] * pairs->scale[i % 3] + pairs->shift[i % 3];
}

static void one_pair_f32(affine a, const uint8_t *restrict level, size_t n, float *restrict out)
{
  for (size_t i = 0; i < n; i++) out[i] = (float)level[i] * a.scale[0] + a.shift[0];
}

/* Rounds to nearest, ties to even. The values here are finite. */
static inline uint16_t to_bf16(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

void round_bf16_portable(const float *value, size_t n, uint16_t *out)
{
  for (size_t i = 0; i < n; i++) out[i] = to_bf16(value[i]);
}

typedef struct {
  convert_f32 *to_f32;
  round_bf16 *to_bf16;
} converter;

static const converter portable = {convert_f32_portable, round_bf16_portable};
#if defined(__x86_64__)
static const converter avx2 = {convert_f32_avx2, round_bf16_avx2}, avx512 = {convert_f32_avx512, round_bf16_avx512};
#endif

/* The same for ever, so whichever thread writes it writes the same. A bad CAPL_ASSUME is the loader's to report. */
static const converter *best(void)
{
  static const converter *_Atomic chosen;
  const converter *found = chosen;
  if (found) return found;
  found = &portable;
#if defined(__x86_64__)
  capl_isa isa;
  bool known = capl_isa_choose(&isa) == CAPL_OK;
  if (known && isa == CAPL_ISA_AVX512) found = &avx512;
  else if (known && isa == CAPL_ISA_AVX2) found = &avx2;
#endif
  chosen = found;
  return found;
}

static void to_f32(const affine *a, bool one_pair, const uint8_t *level, size_t n, bool stream, float *out)
{
  convert_f32 *convert = best()->to_f32;
  affine same = {{a->scale[0], a->scale[0], a->scale[0]}, {a->shift[0], a->shift[0], a->shift[0]}};
  if (one_pair && convert == convert_f32_portable) one_pair_f32(*a, level, n, out); /* which vectorizes better */
  else convert(one_pair ? &same : a, level, n, stream, out);
}

/* Through a few f32 values at a time, which stay in the cache: both loops vectorize. A multiple of three. */
enum { CHUNK = 3 * 256 };

static void to_16_bits(affine a, bool one_pair, bool bf16, const uint8_t *level, size_t n, uint16_t *out)
{
  float value[CHUNK];
  for (size_t from = 0; from < n; from += CHUNK) {
    size_t count = n - from < CHUNK ? n - from : CHUNK;
    to_f32(&a, one_pair, level + from, count, false, value);
    if (bf16) {
      best()->to_bf16(value, count, out + from);
    } else {
      for (size_t i = 0; i < count; i++) out[from + i] = capl_f16_from_float(value[i]);
    }
  }
}

bool capl_convert_streams(size_t bytes)
{
  return bytes >= 16 << 10;
}

static void convert_by(const capl_conversion *conversion, affine a, const uint8_t *levels, size_t n, int channels,
                       bool stream, void *out)
{
  bool one_pair = channels == 1 || conversion->norm != CAPL_NORM_MEAN_STD;
  if (conversion->type != CAPL_PIXEL_F32) to_16_bits(a, one_pair, conversion->type == CAPL_PIXEL_BF16, levels, n, out);
  else to_f32(&a, one_pair, levels, n, stream, out);
}

void capl_convert_part(const capl_conversion *conversion, const uint8_t *levels, size_t n_pixels, int channels,
                       bool stream, void *out)
{
  size_t n = n_pixels * (size_t)channels;
  if (conversion->type == CAPL_PIXEL_U8) memcpy(out, levels, n);
  else convert_by(conversion, capl_conversion_affine(conversion, 0, 0, n), levels, n, channels, stream, out);
}

void capl_convert(const capl_conversion *conversion, const uint8_t *levels, size_t n_pixels, int channels, void *out)
{
  size_t n = n_pixels * (size_t)channels;
  uint64_t sum = 0, squares = 0;
  if (conversion->type == CAPL_PIXEL_U8) {
    memcpy(out, levels, n);
    return;
  }
  if (conversion->norm == CAPL_NORM_STANDARDIZE) capl_level_sums(levels, n, &sum, &squares);
  affine a = capl_conversion_affine(conversion, sum, squares, n);
  convert_by(conversion, a, levels, n, channels, capl_convert_streams(n * sizeof(float)), out);
}
