/* bars.c -- numbers with names: a horizontal bar for each, from 0.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "report/axis.h"
#include "report/drawing.h"

enum {
  PAD = 16,
  TITLE_ROW = 34,
  ROW = 22,      /* px per bar */
  BAR = 14,      /* of which it covers */
  FOOT = 34,     /* labels and name of the axis */
  LEAST = 120,   /* px of the bars, whatever the labels need */
};

static const double title_size = 17, text_size = 13, small_size = 12;

typedef struct {
  canvas paper;
  const report_bars *bars;
  double x, y, width; /* of the plot */
  axis axis;
} plotter;

static capl_status check_bars(const report_bars *b)
{
  if (b->n < 1 || b->n > REPORT_MAX_LABELS)
    return CAPL_FAIL(CAPL_EVALUE, "1 to %d bars, not %d", REPORT_MAX_LABELS, b->n);
  for (int i = 0; i < b->n; i++)
    if (!(fabs(b->values[i]) <= 1e300)) return CAPL_FAIL(CAPL_EVALUE, "value %d is no finite number", i + 1);
  return CAPL_OK;
}

static void set_axis(plotter *p)
{
  double lo = 0, hi = 0;
  for (int i = 0; i < p->bars->n; i++) {
    lo = fmin(lo, p->bars->values[i]);
    hi = fmax(hi, p->bars->values[i]);
  }
  axis_limits(&p->axis, lo, hi, false);
  axis_ticks(&p->axis, (int)(p->width / 80));
}

static void place(plotter *p)
{
  double widest = 0, width = p->bars->width;
  for (int i = 0; i < p->bars->n; i++)
    widest = fmax(widest, canvas_text_width(&p->paper, small_size, p->bars->labels[i]));
  p->x = fmin(PAD + ceil(widest) + 8, width - PAD - LEAST);
  p->y = PAD + (p->bars->title && *p->bars->title ? TITLE_ROW : 0);
  p->width = width - PAD - p->x;
}

static double x_of(const plotter *p, double value)
{
  return p->x + axis_place(&p->axis, value) * p->width;
}

static void draw_axis(plotter *p)
{
  canvas *c = &p->paper;
  double height = p->bars->n * ROW;
  for (int i = 0; i < p->axis.n; i++) {
    double x = floor(x_of(p, p->axis.at[i]));
    canvas_fill(c, p->axis.at[i] == 0 ? COLOUR_AXIS : COLOUR_GRID, x, p->y, 1, height);
    canvas_text(c, x, p->y + height + 17, 80, TEXT_CENTRE, small_size, COLOUR_QUIET, p->axis.label[i]);
  }
  canvas_text(c, p->x + p->width / 2, p->y + height + 35, p->width, TEXT_CENTRE, text_size, COLOUR_TEXT,
              p->bars->x_label);
}

static void draw_bar(plotter *p, int i)
{
  double zero = x_of(p, 0), end = x_of(p, p->bars->values[i]), top = p->y + i * ROW;
  canvas_text(&p->paper, p->x - 8, top + ROW - 7, p->x - PAD - 8, TEXT_RIGHT, small_size, COLOUR_TEXT,
              p->bars->labels[i]);
  canvas_fill(&p->paper, end < zero ? COLOUR_RED : COLOUR_BLUE, fmin(zero, end), top + (ROW - BAR) / 2.0,
              fabs(end - zero), BAR);
}

static void draw(plotter *p)
{
  place(p);
  set_axis(p);
  canvas_text(&p->paper, PAD, PAD + 14, p->bars->width - 2 * PAD, TEXT_LEFT, title_size, COLOUR_TEXT, p->bars->title);
  draw_axis(p);
  for (int i = 0; i < p->bars->n; i++) draw_bar(p, i);
}

capl_status draw_bars(const report_bars *bars, report_picture *out)
{
  plotter p = {.bars = bars};
  *out = (report_picture){0};
  CAPL_TRY(check_bars(bars));
  int height = 2 * PAD + (bars->title && *bars->title ? TITLE_ROW : 0) + bars->n * ROW + FOOT;
  if (bars->width < 240) return CAPL_FAIL(CAPL_EVALUE, "the width is at least 240 px, not %d", bars->width);
  CAPL_TRY(canvas_begin(&p.paper, bars->font, bars->width, height));
  draw(&p);
  return canvas_end(&p.paper, CAPL_OK, out);
}
