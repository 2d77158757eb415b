/* warp.h -- draws one letter of a captcha: turned, stretched, pushed into a quadrilateral.
**
** A canvas is a plane of ink coverage stored column by column (0 = background, 1 = full ink), because
** the later squeeze mixes columns. All letters of an image have one colour, so coverage is enough.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_WARP_H
#define CAPL_DATA_WARP_H

#include <stdbool.h>
#include <stddef.h>

#include "data/glyphs.h"
#include "data/resample.h"

/* What the dice said about one letter. Its corners are moved by (x1,y1) top left and bottom left mirrored,
** (x2,y2) bottom right and top right mirrored. */
typedef struct {
  const capl_glyph *glyph;
  float angle; /* radians */
  int x1, y1, x2, y2;
} capl_warp;

typedef struct {
  float *coverage; /* [x * height + y] */
  int width, height;
} capl_canvas;

/* How the ink's alpha (0..255) covers what is below it. cover[0] is 0. */
typedef struct {
  int opacity; /* 0..255, scales the glyph's coverage to alpha */
  float cover[256];
} capl_ink;

typedef struct {
  int side; /* px, the largest plane a letter needs; also the planes' stride */
  float *turned, *widened;
  uint8_t *alpha; /* alpha[-1] is 0 and stands for everything outside */
  uint8_t *alpha_memory;
  capl_taps taps;
} capl_warp_scratch;

/* Room for every glyph of the font at its largest warp: cell + grow px. */
capl_status capl_warp_scratch_init(capl_warp_scratch *scratch, const capl_glyphs *glyphs, float grow_x,
                                   float grow_y);
void capl_warp_scratch_fini(capl_warp_scratch *scratch);

/* Draws the letter's cell with its top left corner at (left, top), which may lie outside the canvas. */
void capl_warp_draw(const capl_warp *warp, const capl_ink *ink, capl_warp_scratch *scratch,
                    const capl_canvas *canvas, int left, int top);

#endif
