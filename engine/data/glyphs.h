/* glyphs.h -- the letters of one font at the sizes a captcha style uses, rendered once.
**
** A glyph is its ink as 8-bit coverage, and the cell its style lays out. For bilinear sampling each place between four
** pixels holds all of them in one word; the edge is repeated once outwards, so that no bounds need testing.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_GLYPHS_H
#define CAPL_DATA_GLYPHS_H

#include <stdint.h>

#include "capl/error.h"

typedef struct {
  int ink_w, ink_h;   /* px of the ink's bounding box */
  int cell_w, cell_h; /* px of the text box: advance or ink, ascender to the ink's bottom, + 1 */
  uint32_t *quad;     /* (ink_h + 1, ink_w + 1): bytes above left, above right, below left, below right, each less 128 */
} capl_glyph;

typedef struct {
  int n_sizes, n_chars;
  capl_glyph *glyph; /* [size * n_chars + char] */
  int *space_w;      /* [size], px of a blank cell */
  char *path;
} capl_glyphs;

/* path: of the font. chars: one glyph each.
** Noto Mono has the outlines of Droid Sans Mono, which captcha generators like to bring along, below a lower line: it
** gets the line of Droid Sans Mono, every other font keeps its own.
** EFORMAT if it is no font or lacks a character. Finish with _fini either way. */
capl_status capl_glyphs_init(capl_glyphs *glyphs, const char *path, const char *chars, const int *sizes_px,
                             int n_sizes);
void capl_glyphs_fini(capl_glyphs *glyphs);

#endif
