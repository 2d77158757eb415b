/* convert.h -- from u8 levels to what a network reads.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_CONVERT_H
#define CAPL_DATA_CONVERT_H

#include "capl/data.h"

typedef struct {
  capl_pixel_type type;
  capl_norm norm;
  float mean[3], std[3]; /* of x / 255 */
} capl_conversion;

/* Bytes of one value. */
size_t capl_pixel_bytes(capl_pixel_type type);

/* value = level * scale[c] + shift[c]. */
typedef struct {
  float scale[3], shift[3];
} capl_affine;

/* Sum of n levels, and of their squares. */
void capl_level_sums(const uint8_t *levels, size_t n, uint64_t *sum, uint64_t *squares);
/* What a conversion does to an image; sums of its n levels are read if it standardizes. */
CAPL_API capl_affine capl_conversion_affine(const capl_conversion *conversion, uint64_t sum, uint64_t squares,
                                            size_t n);

/* Whether an image of so many bytes is written past the caches: it would only push out what is needed sooner. */
bool capl_convert_streams(size_t bytes);
/* A part of an image, from its first channel on, by a conversion that does not standardize. */
void capl_convert_part(const capl_conversion *conversion, const uint8_t *levels, size_t n_pixels, int channels,
                       bool stream, void *out);
/* One image of n_pixels * channels levels. */
CAPL_API void capl_convert(const capl_conversion *conversion, const uint8_t *levels, size_t n_pixels, int channels,
                           void *out);

/* n levels to f32 by scale[i % 3] and shift[i % 3]; stream: past the caches. All instruction sets give the same
** bytes. */
typedef void convert_f32(const capl_affine *pairs, const uint8_t *levels, size_t n, bool stream, float *out);
convert_f32 convert_f32_portable, convert_f32_avx2, convert_f32_avx512;
/* n finite values to bf16, to nearest, ties to even. */
typedef void round_bf16(const float *value, size_t n, uint16_t *out);
round_bf16 round_bf16_portable, round_bf16_avx2, round_bf16_avx512;

#endif
