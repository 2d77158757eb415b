/* captcha.h -- the inside of a generator: its style, and what the dice say about one image.
**
** captcha.c makes generators and rolls plans; paint.c turns a plan into pixels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_CAPTCHA_H
#define CAPL_DATA_CAPTCHA_H

#include <pthread.h>
#include <stdatomic.h>

#include "capl/data.h"
#include "data/warp.h"

enum { CAPTCHA_SIZES = 3, CAPTCHA_DOTS = 30 };

/* Largest displacement of a letter's corners: share * cell + px, share = least + spread * uniform. */
typedef struct {
  float least, spread, px;
} captcha_warp_rule;

typedef struct {
  const char *name;
  int size_px[CAPTCHA_SIZES];
  captcha_warp_rule warp_x, warp_y;
  bool arc_spans; /* the arc ends in the last fifth of the width; else anywhere right of the first */
} captcha_preset;

/* One place of the line: a letter, or a blank of the given width. */
typedef struct {
  capl_warp warp; /* glyph NULL = blank */
  int width;
  int step_back; /* px by which the next cell overlaps this one */
} captcha_cell;

typedef struct {
  int x, y;
} captcha_point;

typedef struct {
  float background[3], ink[3]; /* RGB levels */
  int opacity;
  int n_cells, text_width; /* text_width: sum of the cells' widths */
  captcha_cell cell[2 * CAPL_LABEL_MAX];
  captcha_point dot[CAPTCHA_DOTS];
  captcha_point arc_from, arc_to; /* corners of the ellipse's box */
  float arc_start, arc_end;       /* radians, clockwise from three o'clock */
} captcha_plan;

typedef struct captcha_scratch captcha_scratch; /* what one thread needs to paint; paint.c */

struct capl_captcha {
  atomic_int refs;
  const captcha_preset *preset;
  int length, width, height;
  int canvas_width; /* px of the longest possible line, at least width */
  char charset[CAPL_CHARSET_MAX + 1];
  uint8_t pick[CAPL_CHARSET_MAX * CAPL_OFTEN_MAX]; /* what letters are drawn from, uniformly: class ids, repeated as wanted */
  int n_pick;
  capl_glyphs glyphs;
  pthread_mutex_t lock; /* of idle */
  captcha_scratch *idle;
};

capl_status captcha_scratch_new(const capl_captcha *gen, captcha_scratch **scratch);
void captcha_scratch_free(captcha_scratch *scratch); /* and those behind it in a list */
captcha_scratch **captcha_scratch_next(captcha_scratch *scratch);

void captcha_paint(const capl_captcha *gen, const captcha_plan *plan, captcha_scratch *scratch, int channels,
                   uint8_t *pixels);

#endif
