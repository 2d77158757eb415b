/* glyphs.h -- the letters of one font at the sizes a captcha style uses, rendered once.
**
** A glyph is its ink as 8-bit coverage, and the cell its style lays out. Bilinear sampling wants neighbours, so the ink
** lies in strips: eight pixels wide, two pixels apart, row below row, so that any 7 x 8 pixels are one run of 64 bytes.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_GLYPHS_H
#define CAPL_DATA_GLYPHS_H

#include <stdint.h>

#include "capl/field.h"

typedef struct {
  int ink_w, ink_h;   /* px of the ink's bounding box */
  int cell_w, cell_h; /* px of the text box: advance or ink, ascender to the ink's bottom, + 1 */
  int strip_bytes;    /* from strip to strip */
  int8_t *strips;     /* pixel (x,y) of the ink is [x / 2 * strip_bytes + 8 * y + x % 2], less 128. The ink's edge is
                      ** repeated once outwards, which moves it by (1,1);
                          what the last strips have beyond that is never weighed */
} capl_glyph;

typedef struct {
  int n_sizes, n_chars;
  capl_glyph *glyph; /* [size * n_chars + char] */
  int *space_w;      /* [size], px of a blank cell */
  char *path;
} capl_glyphs;

/* path: of the font. symbols: one glyph each.
** Noto Mono has the outlines of Droid Sans Mono, which captcha generators like to bring along, below a lower line: it
** gets the line of Droid Sans Mono, every other font keeps its own.
** EFORMAT if it is no font or lacks a character. Finish with _fini either way. */
capl_status capl_glyphs_init(capl_glyphs *glyphs, const char *path, const capl_vocab *symbols, const int *sizes_px,
                             int n_sizes);
void capl_glyphs_fini(capl_glyphs *glyphs);

#endif
