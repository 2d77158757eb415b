/* widths.h -- images of one height and several widths: which widths batches have, and which of them a sample goes into.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_WIDTHS_H
#define CAPL_DATA_WIDTHS_H

#include "data/source.h"

enum {
  WIDTHS_FOUND = 6, /* as many at most are chosen by themselves */
  WIDTHS_PX_MAX = 8192,
};

/* Ascending widths, multiples of step, that hold n images of these widths (px, any order) with little to pad: as few as
** leave at most a twentieth of the pixels empty, at most WIDTHS_FOUND, each for at least a few images. Images far wider
** than nearly all others set none; they would have to be squeezed. Returns how many; 0 = no memory. */
CAPL_API int widths_choose(const int *px, uint32_t n, int step, int widths[CAPL_WIDTHS_MAX]);
/* The smallest of the widths that holds so many px; the last if none does. */
CAPL_API int widths_find(const int *widths, int n, int px);
/* How wide an image becomes when it is brought to a height. */
CAPL_API int widths_scaled(int width, int height, int to_height);

#endif
