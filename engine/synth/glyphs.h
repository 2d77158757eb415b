/* glyphs.h -- the letters of the lepture style: of several fonts at three sizes each, rendered once.
**
** A glyph is its ink as 8-bit coverage, and the cell its style lays out. Bilinear sampling wants neighbours, so the ink
** lies in strips: eight pixels wide, two pixels apart, row below row, so that any 7 x 8 pixels are one run of 64 bytes.
** Strips take five times the bytes of the ink. Glyphs of a small charset have them from the beginning; those of a large
** one are rendered at their first use and keep the ink alone, of which strips are made for each image.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_GLYPHS_H
#define CAPL_DATA_GLYPHS_H

#include <stdint.h>

#include "synth/letters.h"

typedef struct {
  int ink_w, ink_h;   /* px of the ink's bounding box */
  int cell_w, cell_h; /* px of the text box: advance or ink, ascender to the ink's bottom, + 1 */
  int strip_bytes;    /* from strip to strip */
  const int8_t *strips; /* pixel (x,y) of the ink is [x / 2 * strip_bytes + 8 * y + x % 2], less 128. The ink's edge is
                        ** repeated once outwards, which moves it by (1,1); what the last strips have beyond that is
                        ** never weighed. NULL: glyph_strips makes them */
  const int8_t *ink;    /* rows of strips that are NULL, ink_row bytes each, with the same edge */
  int ink_row;
} capl_glyph;

/* What is large enough for some glyphs. */
typedef struct {
  int side;       /* px of the largest plane: a turned glyph, or its grown cell */
  float shrink;   /* a turned glyph's diagonal by its cell's smaller side */
  int cell_w;     /* px of the widest cell */
} capl_glyph_bounds;

typedef struct {
  int first_font, n_fonts; /* of the generator's */
  int n_sizes, n_chars;    /* sizes of each font */
  const int *size_px;
  int *space_w;            /* [font * n_sizes + size], px of a blank cell */
  const capl_vocab *symbols; /* borrowed */
  letter_store *store;       /* capl_glyph by (font * n_sizes + size) * n_chars + id; NULL: the style is not used */
  bool whole;                /* all are there, with their strips */
} capl_glyphs;

/* glyphs: first_font, n_fonts, n_sizes and size_px are set by the caller, the rest is 0. most: bytes of glyphs to keep.
** Noto Mono has the outlines of Droid Sans Mono, which captcha generators like to bring along, below a lower line: it
** gets the line of Droid Sans Mono, every other font keeps its own.
** EFORMAT if a file is no font or lacks a symbol; ENOMEM. Finish with _fini either way. */
capl_status capl_glyphs_init(capl_glyphs *glyphs, captcha_renderer *renderer, const capl_vocab *symbols, size_t most);
void capl_glyphs_fini(capl_glyphs *glyphs);

/* sized: font * n_sizes + size. */
static inline size_t capl_glyphs_place(const capl_glyphs *g, int sized, int id)
{
  return (size_t)sized * (size_t)g->n_chars + (size_t)id;
}

/* Renders the glyph of a place and puts it into the store. *glyph: borrowed, until captcha_renderer_drop at least. */
capl_status capl_glyphs_render(const capl_glyphs *glyphs, captcha_renderer *renderer, size_t place,
                               const capl_glyph **glyph);

/* Widens bounds by a glyph whose cell grows by a share of its sides. */
void glyph_bounds_add(capl_glyph_bounds *bounds, const capl_glyph *glyph, float grow_x, float grow_y);
/* Bytes of the strips of a glyph at most `side` px wide and high. */
size_t glyph_strips_room(int side);
/* The strips of a glyph that has only its ink. */
void glyph_strips(const capl_glyph *glyph, int8_t *strips);

#endif
