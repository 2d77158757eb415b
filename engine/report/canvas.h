/* canvas.h -- the paper that pictures are drawn on: a Cairo surface, fonts, texts that cannot go wrong.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_REPORT_CANVAS_H
#define CAPL_REPORT_CANVAS_H

#include <cairo.h>

#include "report/report.h"

/* Colours that colour-blind readers distinguish: Okabe and Ito, without the yellow that white paper swallows. */
enum {
  COLOUR_BLUE = 0x0072b2,
  COLOUR_RED = 0xd55e00,
  COLOUR_GREEN = 0x009e73,
  COLOUR_PINK = 0xcc79a7,
  COLOUR_ORANGE = 0xe69f00,
  COLOUR_SKY = 0x56b4e9,
  COLOUR_BLACK = 0x000000,
  /* what is no data */
  COLOUR_PAPER = 0xffffff,
  COLOUR_TEXT = 0x222222,
  COLOUR_QUIET = 0x6b6b6b,
  COLOUR_AXIS = 0x8a8a8a,
  COLOUR_GRID = 0xe4e4e4,
};

typedef struct {
  cairo_surface_t *surface;
  cairo_t *cr;
  struct font_file *font; /* of texts; what it lacks comes from other fonts of the system */
} canvas;

/* White paper of width x height px. font: path, or NULL. Takes the lock that canvas_end gives back; on an error there
** is nothing to end. EVALUE if too large, EIO, EFORMAT (font), ENOMEM. */
capl_status canvas_begin(canvas *c, const char *font, int width, int height);
/* Frees c. If status is CAPL_OK, *out (may be NULL) gets the pixels; else status is returned.
** ENOMEM. */
capl_status canvas_end(canvas *c, capl_status status, report_picture *out);

void canvas_colour(canvas *c, uint32_t rgb, double opacity);
void canvas_fill(canvas *c, uint32_t rgb, double x, double y, double width, double height);

typedef enum { TEXT_LEFT, TEXT_CENTRE, TEXT_RIGHT } text_side;

/* px from the left end of text to its right end, size px high. */
double canvas_text_width(canvas *c, double size, const char *text);
/* Draws text with its base line at y, and x at its left end, centre or right end. Returns its width. Longer than
** room px, it is cut. NULL is no text. */
double canvas_text(canvas *c, double x, double y, double room, text_side side, double size, uint32_t rgb,
                   const char *text);

/* The next character of *text (UTF-8), NUL-ended, and steps over it; U+FFFD for what cannot be shown. false at the
** end. */
bool text_next(const char **text, char character[8]);

#endif
