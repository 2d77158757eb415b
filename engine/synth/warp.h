/* warp.h -- draws one letter of a captcha: turned, stretched, pushed into a quadrilateral.
**
** A canvas is a plane of ink coverage (0 = background, DRAW_INK = full ink), column by column. All letters of an image
** have one colour, so coverage is enough.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_WARP_H
#define CAPL_DATA_WARP_H

#include "synth/draw/draw.h"
#include "synth/glyphs.h"

/* The random numbers of one letter. Its corners are moved by (x1,y1) top left and bottom left mirrored,
** (x2,y2) bottom right and top right mirrored. */
typedef struct {
  const capl_glyph *glyph;
  float angle; /* radians */
  int x1, y1, x2, y2;
} capl_warp;

typedef struct {
  int16_t *coverage; /* [x * step + y] */
  int width, height, step;
} capl_canvas;

/* How the ink's alpha (0..255) covers what is below it. */
typedef struct {
  int opacity;                 /* 0..255, scales the glyph's coverage to alpha */
  int16_t cover[DRAW_ALPHAS]; /* times 2^14; cover[0] is 0 */
} capl_ink;

typedef struct {
  const draw_kernels *draw;
  int side; /* px, more than the largest plane a letter needs; also the planes' step */
  int16_t *plane, *other;
  uint8_t *alpha;
  int8_t *strips; /* of a glyph that keeps its ink alone */
  draw_taps across, down;
} capl_warp_scratch;

/* Room for every glyph within the bounds. ENOMEM, or as draw_kernels_choose. */
capl_status capl_warp_scratch_init(capl_warp_scratch *scratch, const capl_glyph_bounds *bounds);
void capl_warp_scratch_fini(capl_warp_scratch *scratch);

/* Draws the letter's cell with its top left corner at (left, top), which may lie outside the canvas. */
void capl_warp_draw(const capl_warp *warp, const capl_ink *ink, capl_warp_scratch *scratch, const capl_canvas *canvas,
                    int left, int top);

/* Both to 1e-7, by the same operations on every processor, as the C library's are not. radians: -pi..pi. */
void capl_sine_cosine(double radians, double *sine, double *cosine);

#endif
