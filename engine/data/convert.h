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

/* One image of n_pixels * channels levels. */
void capl_convert(const capl_conversion *conversion, const uint8_t *levels, size_t n_pixels, int channels, void *out);

#endif
