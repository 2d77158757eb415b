/* trials.c -- the trials of a sweep: a figure over each setting, and all settings of every trial side by side.
**
** Above, a plot for each setting, three in a row: a dot for each trial, a line through the mean of each value. Below, an
** axis for each setting and a last one for the figure; a trial is the line that meets them at its values. The best trial
** is blue and on top everywhere; those without a figure are red.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdlib.h>

#include "report/axis.h"
#include "report/drawing.h"

enum {
  WIDTH = 960, PAD = 16, TITLE_ROW = 54, COLUMNS = 3, HEAD = 24, PLOT = 170, FOOT = 34, GAP = 18, LABEL = 56,
  LINES_HEAD = 44, LINES = 230, LINES_FOOT = 30, MOST_LABELS = 8,
};

static const double name_size = 13, small_size = 12, title_size = 17;

typedef struct {
  canvas paper;
  const report_trials *what;
  axis figure; /* of the values */
  axis setting[REPORT_MAX_SETTINGS];
  int *order;  /* trials, the best one last, those without a figure first */
  int n_good;  /* with a figure */
} plotter;

typedef struct {
  double x, y, width, height;
} box;

/* ---- what is to be drawn --------------------------------------------------------------------- */

static bool good(const report_trials *t, int trial)
{
  return fabs(t->value[trial]) <= 1e300;
}

static capl_status check_setting(const report_trials *t, const report_setting *s)
{
  for (int i = 0; i < t->n_trials; i++) {
    double at = s->at[i];
    if (!(fabs(at) <= 1e300) || (s->log && at <= 0))
      return CAPL_FAIL(CAPL_EVALUE, "setting %s of trial %d is %g, which has no place on its axis", s->name, i + 1, at);
    if (s->n_labels > 0 && (at < 0 || at >= s->n_labels))
      return CAPL_FAIL(CAPL_EVALUE, "setting %s of trial %d has no label", s->name, i + 1);
  }
  return CAPL_OK;
}

static capl_status check_trials(const report_trials *t)
{
  if (t->n_trials < 1 || t->n_trials > REPORT_MAX_CELLS)
    return CAPL_FAIL(CAPL_EVALUE, "1 to %d trials are drawn, not %d", REPORT_MAX_CELLS, t->n_trials);
  if (t->n_settings < 1 || t->n_settings > REPORT_MAX_SETTINGS)
    return CAPL_FAIL(CAPL_EVALUE, "1 to %d settings are drawn, not %d", REPORT_MAX_SETTINGS, t->n_settings);
  for (int k = 0; k < t->n_settings; k++) CAPL_TRY(check_setting(t, &t->settings[k]));
  return CAPL_OK;
}

/* Whether trial a belongs below trial b: worse, or without a figure. */
static bool below(const report_trials *t, int a, int b)
{
  if (!good(t, a) || !good(t, b)) return !good(t, a) && good(t, b);
  if (t->chosen > 0 && (a == t->chosen - 1 || b == t->chosen - 1)) return b == t->chosen - 1;
  if (t->value[a] == t->value[b]) return a > b; /* the first of equals is best */
  return t->less ? t->value[a] > t->value[b] : t->value[a] < t->value[b];
}

static void sort_trials(plotter *p)
{
  for (int i = 0; i < p->what->n_trials; i++) {
    int at = i;
    for (; at > 0 && below(p->what, i, p->order[at - 1]); at--) p->order[at] = p->order[at - 1];
    p->order[at] = i;
    p->n_good += good(p->what, i);
  }
}

static void set_axes(plotter *p)
{
  const report_trials *t = p->what;
  double lo = INFINITY, hi = -INFINITY;
  for (int i = 0; i < t->n_trials; i++)
    if (good(t, i)) lo = fmin(lo, t->value[i]), hi = fmax(hi, t->value[i]);
  p->figure = (axis){.percent = t->percent};
  axis_limits(&p->figure, lo, hi, true);
  axis_ticks(&p->figure, 5);
  for (int k = 0; k < t->n_settings; k++) {
    const report_setting *s = &t->settings[k];
    axis *a = &p->setting[k];
    lo = INFINITY, hi = -INFINITY;
    *a = (axis){.log = s->log, .whole = true};
    for (int i = 0; i < t->n_trials; i++) {
      lo = fmin(lo, s->at[i]), hi = fmax(hi, s->at[i]);
      a->whole = a->whole && s->at[i] == floor(s->at[i]);
    }
    axis_limits(a, lo, hi, false);
    axis_ticks(a, 5);
  }
}

/* Place of a trial's setting on its axis, 0 to 1. */
static double place(const plotter *p, int k, int trial)
{
  const report_setting *s = &p->what->settings[k];
  if (s->n_labels > 0) return (s->at[trial] + 0.5) / s->n_labels;
  return 0.04 + 0.92 * axis_place(&p->setting[k], s->at[trial]);
}

/* ---- marks ----------------------------------------------------------------------------------- */

static void hairline(canvas *c, uint32_t rgb, double x0, double y0, double x1, double y1)
{
  canvas_colour(c, rgb, 1);
  cairo_set_line_width(c->cr, 1);
  cairo_move_to(c->cr, floor(x0) + 0.5, floor(y0) + 0.5);
  cairo_line_to(c->cr, floor(x1) + 0.5, floor(y1) + 0.5);
  cairo_stroke(c->cr);
}

static void dot(canvas *c, double x, double y, double radius)
{
  cairo_arc(c->cr, x, y, radius, 0, 2 * 3.14159265358979);
  cairo_fill(c->cr);
}

static void cross(canvas *c, double x, double y)
{
  cairo_set_line_width(c->cr, 1.6);
  for (int side = -1; side <= 1; side += 2) {
    cairo_move_to(c->cr, x - 3.5, y - 3.5 * side);
    cairo_line_to(c->cr, x + 3.5, y + 3.5 * side);
  }
  cairo_stroke(c->cr);
}

static bool is_best(const plotter *p, int nth) { return p->n_good > 0 && nth == p->what->n_trials - 1; }

/* Colour of the nth trial of the order: the better, the bluer. */
static void rank_colour(plotter *p, int nth)
{
  int trial = p->order[nth], worse = p->what->n_trials - p->n_good;
  if (!good(p->what, trial)) canvas_colour(&p->paper, COLOUR_RED, 0.8);
  else if (is_best(p, nth)) canvas_colour(&p->paper, COLOUR_BLUE, 1);
  else if (4 * (nth - worse) >= 3 * p->n_good) canvas_colour(&p->paper, COLOUR_SKY, 0.9);
  else canvas_colour(&p->paper, COLOUR_AXIS, 0.55);
}

/* ---- a figure over a setting ----------------------------------------------------------------- */

static double y_of(const plotter *p, const box *b, double value)
{
  return b->y + b->height * (1 - axis_place(&p->figure, value));
}

static void draw_frame(plotter *p, const box *b, bool first)
{
  canvas *c = &p->paper;
  for (int i = 0; i < p->figure.n; i++) {
    double y = y_of(p, b, p->figure.at[i]);
    hairline(c, COLOUR_GRID, b->x, y, b->x + b->width, y);
    if (first) canvas_text(c, b->x - 7, y + 4, LABEL, TEXT_RIGHT, small_size, COLOUR_QUIET, p->figure.label[i]);
  }
  hairline(c, COLOUR_AXIS, b->x, b->y, b->x, b->y + b->height);
  hairline(c, COLOUR_AXIS, b->x, b->y + b->height, b->x + b->width, b->y + b->height);
}

static void draw_setting_labels(plotter *p, int k, const box *b)
{
  canvas *c = &p->paper;
  const report_setting *s = &p->what->settings[k];
  int n = s->n_labels > 0 ? s->n_labels : p->setting[k].n, step = (n + MOST_LABELS - 1) / MOST_LABELS;
  for (int i = 0; i < n; i += step) {
    double share = s->n_labels > 0 ? (i + 0.5) / n : 0.04 + 0.92 * axis_place(&p->setting[k], p->setting[k].at[i]);
    double x = b->x + share * b->width, bottom = b->y + b->height;
    if (share < 0 || share > 1) continue;
    hairline(c, COLOUR_AXIS, x, bottom, x, bottom + 4);
    canvas_text(c, x, bottom + 17, b->width / fmin(n, MOST_LABELS) - 4, TEXT_CENTRE, small_size, COLOUR_QUIET,
                s->n_labels > 0 ? s->labels[i] : p->setting[k].label[i]);
  }
}

/* A line through the mean figure of each value, if values come more than once: what the setting does on the whole. */
static void draw_means(plotter *p, int k, const box *b)
{
  const report_trials *t = p->what;
  const double *at = t->settings[k].at;
  double last = -INFINITY;
  bool down = false;
  canvas_colour(&p->paper, COLOUR_ORANGE, 1);
  cairo_set_line_width(p->paper.cr, 1.8);
  for (;;) {
    double next = INFINITY, sum = 0;
    int n = 0, trial = 0;
    for (int i = 0; i < t->n_trials; i++)
      if (good(t, i) && at[i] > last && at[i] < next) next = at[i];
    if (next == INFINITY) break;
    for (int i = 0; i < t->n_trials; i++)
      if (good(t, i) && at[i] == next) sum += t->value[i], n++, trial = i;
    double x = b->x + place(p, k, trial) * b->width, y = y_of(p, b, sum / n);
    if (down) cairo_line_to(p->paper.cr, x, y);
    else cairo_move_to(p->paper.cr, x, y);
    down = true, last = next;
  }
  cairo_stroke(p->paper.cr);
}

/* Whether values were tried twice or more on the average: means of single trials would only join dots. */
static bool repeats(const report_trials *t, int k)
{
  const double *at = t->settings[k].at;
  int different = 0;
  for (int i = 0, j; i < t->n_trials; i++) {
    for (j = 0; j < i && at[j] != at[i]; j++) continue;
    different += j == i;
  }
  return 2 * different <= t->n_trials;
}

static void draw_plot(plotter *p, int k, const box *b)
{
  canvas *c = &p->paper;
  canvas_text(c, b->x, b->y - 8, b->width, TEXT_LEFT, name_size, COLOUR_TEXT, p->what->settings[k].name);
  draw_frame(p, b, k % COLUMNS == 0);
  draw_setting_labels(p, k, b);
  if (repeats(p->what, k)) draw_means(p, k, b);
  for (int nth = 0; nth < p->what->n_trials; nth++) {
    int trial = p->order[nth];
    double x = b->x + place(p, k, trial) * b->width;
    rank_colour(p, nth);
    if (good(p->what, trial)) dot(c, x, y_of(p, b, p->what->value[trial]), is_best(p, nth) ? 5 : 3.5);
    else cross(c, x, b->y + b->height - 6);
  }
}

static int plot_columns(const report_trials *t) { return t->n_settings < COLUMNS ? t->n_settings : COLUMNS; }

static int plot_rows(const report_trials *t) { return (t->n_settings + COLUMNS - 1) / COLUMNS; }

static double draw_plots(plotter *p, double top)
{
  int columns = plot_columns(p->what);
  double width = (WIDTH - 2.0 * PAD - LABEL - (columns - 1) * GAP) / columns;
  for (int k = 0; k < p->what->n_settings; k++) {
    int row = k / COLUMNS, column = k % COLUMNS;
    box b = {PAD + LABEL + column * (width + GAP), top + row * (HEAD + PLOT + FOOT) + HEAD, width, PLOT};
    draw_plot(p, k, &b);
  }
  return top + plot_rows(p->what) * (HEAD + PLOT + FOOT);
}

/* ---- all settings of a trial ----------------------------------------------------------------- */

static double axis_x(const plotter *p, int k)
{
  return PAD + LABEL + (WIDTH - 2.0 * PAD - 2 * LABEL) * k / p->what->n_settings;
}

/* Behind a label that lines may cross. */
static void clear_label(canvas *c, double x, double y, bool right, const char *text)
{
  double width = fmin(canvas_text_width(c, small_size, text), LABEL + PAD - 10) + 4;
  canvas_colour(c, COLOUR_PAPER, 0.8);
  cairo_rectangle(c->cr, right ? x - 2 : x - width + 2, y - 7, width, 15);
  cairo_fill(c->cr);
}

static void draw_axis(plotter *p, int k, double top)
{
  canvas *c = &p->paper;
  bool last = k == p->what->n_settings;
  const axis *a = last ? &p->figure : &p->setting[k];
  const report_setting *s = last ? NULL : &p->what->settings[k];
  double x = axis_x(p, k), bottom = top + LINES;
  canvas_text(c, x, top - 12, 2.0 * LABEL, TEXT_CENTRE, name_size, COLOUR_TEXT, last ? p->what->metric : s->name);
  hairline(c, COLOUR_AXIS, x, top, x, bottom);
  int n = s && s->n_labels > 0 ? s->n_labels : a->n, step = (n + MOST_LABELS - 1) / MOST_LABELS;
  for (int i = 0; i < n; i += step) {
    double share = s && s->n_labels > 0 ? (i + 0.5) / n : last ? axis_place(a, a->at[i]) : 0.04 + 0.92 * axis_place(a, a->at[i]);
    double y = bottom - share * LINES;
    if (share < 0 || share > 1) continue;
    hairline(c, COLOUR_AXIS, x - 3, y, x + 4, y);
    const char *text = s && s->n_labels > 0 ? s->labels[i] : a->label[i];
    clear_label(c, last ? x + 8 : x - 7, y, last, text);
    canvas_text(c, last ? x + 8 : x - 7, y + 4, LABEL + PAD - 10, last ? TEXT_LEFT : TEXT_RIGHT, small_size, COLOUR_QUIET, text);
  }
}

static void draw_trial(plotter *p, int nth, double top)
{
  int trial = p->order[nth], n = p->what->n_settings;
  cairo_t *cr = p->paper.cr;
  rank_colour(p, nth);
  cairo_set_line_width(cr, is_best(p, nth) ? 2.6 : 1.3);
  cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
  for (int k = 0; k < n; k++) {
    double y = top + LINES * (1 - place(p, k, trial));
    if (k == 0) cairo_move_to(cr, axis_x(p, k), y);
    else cairo_line_to(cr, axis_x(p, k), y);
  }
  if (good(p->what, trial)) {
    cairo_line_to(cr, axis_x(p, n), top + LINES * (1 - axis_place(&p->figure, p->what->value[trial])));
    cairo_stroke(cr);
    return;
  }
  double end = axis_x(p, n - 1), y = top + LINES * (1 - place(p, n - 1, trial)); /* half-way to the figure it never had */
  cairo_rel_line_to(cr, (axis_x(p, n) - end) / 4, 0);
  cairo_stroke(cr);
  cross(&p->paper, end + (axis_x(p, n) - end) / 4, y);
}

static void draw_all_trials(plotter *p, double top)
{
  for (int nth = 0; nth < p->what->n_trials; nth++) draw_trial(p, nth, top);
  for (int k = 0; k <= p->what->n_settings; k++) draw_axis(p, k, top);
}

/* What the colours say, from the right end of a line. */
static void draw_legend(plotter *p, double y)
{
  static const struct {
    const char *text;
    uint32_t colour;
  } entries[] = {{"mean of a value", COLOUR_ORANGE}, {"failed", COLOUR_RED}, {"others", COLOUR_AXIS},
                 {"best quarter", COLOUR_SKY}, {"best", COLOUR_BLUE}};
  double x = WIDTH - PAD;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    if (entries[i].colour == COLOUR_RED && p->n_good == p->what->n_trials) continue;
    x -= canvas_text(&p->paper, x, y, WIDTH, TEXT_RIGHT, small_size, COLOUR_QUIET, entries[i].text) + 10;
    canvas_colour(&p->paper, entries[i].colour, 1);
    dot(&p->paper, x, y - 4, 4);
    x -= 18;
  }
}

/* ---- the picture ----------------------------------------------------------------------------- */

static capl_status draw_picture(plotter *p)
{
  sort_trials(p);
  set_axes(p);
  canvas_text(&p->paper, PAD, PAD + 14, WIDTH - 2 * PAD, TEXT_LEFT, title_size, COLOUR_TEXT, p->what->title);
  canvas_text(&p->paper, PAD, PAD + 38, WIDTH / 2.0, TEXT_LEFT, name_size, COLOUR_QUIET, p->what->metric);
  draw_legend(p, PAD + 38);
  double top = draw_plots(p, PAD + TITLE_ROW);
  draw_all_trials(p, top + LINES_HEAD);
  return CAPL_OK;
}

capl_status draw_trials(const report_trials *trials, report_picture *out)
{
  *out = (report_picture){0};
  CAPL_TRY(check_trials(trials));
  plotter p = {.what = trials, .order = calloc((size_t)trials->n_trials, sizeof *p.order)};
  if (!p.order) return CAPL_FAIL(CAPL_ENOMEM, "no memory to sort %d trials", trials->n_trials);
  int height = PAD + TITLE_ROW + plot_rows(trials) * (HEAD + PLOT + FOOT) + LINES_HEAD + LINES + LINES_FOOT;
  capl_status status = canvas_begin(&p.paper, trials->font, WIDTH, height);
  if (status == CAPL_OK) status = canvas_end(&p.paper, draw_picture(&p), out);
  free(p.order);
  return status;
}
