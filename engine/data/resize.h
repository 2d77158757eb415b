/* resize.h -- brings an image to the size a network reads.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_RESIZE_H
#define CAPL_DATA_RESIZE_H

#include "capl/data.h"

enum { FIT_SHRINK_MAX = 64 }; /* times smaller, per side */

/* out (height,width,C): in, stretched to that size with Pillow's BICUBIC filter (a = -0.5, wider when shrinking);
** a copy when the sizes are equal. out is never in's memory. EVALUE for an
** image more than FIT_SHRINK_MAX times as wide or high; ENOMEM. */
CAPL_API capl_status resize_image(const uint8_t *in, int in_width, int in_height, int channels, int width, int height,
                                  uint8_t *out);

/* px of a sample that an image takes; the rest is padding. */
typedef struct {
  int left, top, width, height;
} resize_area;

/* Where an image goes in a sample of width x height: everywhere, or in its letterbox. */
CAPL_API resize_area resize_place(const capl_letterbox *how, int in_width, int in_height, int width, int height);
/* out (height,width,C): in, fitted to its place, padding around it. Errors as resize_image. */
CAPL_API capl_status resize_fit(const capl_letterbox *how, const uint8_t *in, int in_width, int in_height, int channels,
                                int width, int height, uint8_t *out);
/* The second half of it, in place: out begins with the image, which has the area's size already. */
CAPL_API void resize_surround(const capl_letterbox *how, const resize_area *area, int channels, int width, int height,
                              uint8_t *out);

/* Where an image goes that keeps its proportions: at `height`, in the narrowest of the n ascending widths that holds
** it; what is wider than the last is squeezed into it. -> number of the width; *used: px that the image takes of it. */
CAPL_API int resize_choose(int in_width, int in_height, int height, const int *widths, int n, int *used);
/* out (height,width,C): in, fitted to used x height on the left; to the right of it the colour of its right edge (per
** channel the median), so that nothing begins where the image ends. Errors as resize_image. */
CAPL_API capl_status resize_padded(const uint8_t *in, int in_width, int in_height, int channels, int used, int width,
                                   int height, uint8_t *out);

/* Gray to RGB and back (luma); a copy when both have equally many channels, 1 or 3. */
CAPL_API void resize_channels(const uint8_t *in, size_t n_pixels, int in_channels, int channels, uint8_t *out);

#endif
