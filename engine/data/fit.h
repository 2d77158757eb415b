/* fit.h -- brings an image to the size a network reads.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_FIT_H
#define CAPL_DATA_FIT_H

#include "capl/data.h"

enum { FIT_SHRINK_MAX = 64 }; /* times smaller, per side */

/* out (height,width,C): in, stretched to that size with Pillow's BICUBIC filter (a = -0.5, wider when shrinking);
** a copy when the sizes are equal. out is never in's memory. EVALUE for an
** image more than FIT_SHRINK_MAX times as wide or high; ENOMEM. */
CAPL_API capl_status fit_image(const uint8_t *in, int in_width, int in_height, int channels, int width, int height, uint8_t *out);

/* Gray to RGB and back (luma); a copy when both have equally many channels, 1 or 3. */
CAPL_API void fit_channels(const uint8_t *in, size_t n_pixels, int in_channels, int channels, uint8_t *out);

#endif
