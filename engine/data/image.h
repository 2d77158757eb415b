/* image.h -- small helpers on u8 images that several files here need.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_IMAGE_H
#define CAPL_DATA_IMAGE_H

#include "capl/data.h"

/* Makes room for H*W*channels bytes and sets the sizes. ENOMEM. */
capl_status capl_image_resize(capl_image *image, int width, int height, int channels);

/* The usual 8-bit luma: 0.299 R + 0.587 G + 0.114 B in 16-bit fixed point, rounded. */
static inline uint8_t capl_luma(uint8_t red, uint8_t green, uint8_t blue)
{
  return (uint8_t)((red * 19595u + green * 38470u + blue * 7471u + 0x8000u) >> 16);
}

#endif
