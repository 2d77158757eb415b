/* lines.c -- line charts: panels one above the other over a common x axis, drawn like those of a good paper.
**
** From top to bottom: the title; for each panel a head with the name of its axis and the legend, which so never hides
** data, then the plot; below the last one the labels of x.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdlib.h>

#include "report/axis.h"
#include "report/drawing.h"

enum {
  PAD = 16,         /* px around everything */
  TITLE_ROW = 34,
  HEAD_ROW = 22,    /* one line of a panel's head */
  GAP = 14,         /* between panels */
  LABEL_ROW = 20,   /* labels of the x axis */
  NAME_ROW = 20,    /* its name */
  PANEL_HEIGHT = 200, /* of a plot, if the chart's height is not given */
  LEAST_PLOT = 40,
  TICK_EVERY = 38,  /* px between two ticks of a y axis, at least */
  SAMPLE = 22,      /* line in the legend */
  FEW_POINTS = 40,  /* so many are drawn as dots too */
  FEW_DOTS = 200,   /* more of them are pale, so that one sees where most are */
  CHUNK = 100,      /* points per stroke: the cost of one grows faster than its length */
};

static const double title_size = 17, text_size = 13, small_size = 12;
/* Values beyond these count as infinite, or as 0 on a log axis: what is computed of the others stays finite. */
static const double out_of_reach = 1e300, out_of_sight = 1e-300;

static const uint32_t colours[] = {COLOUR_BLUE, COLOUR_RED, COLOUR_GREEN, COLOUR_PINK, COLOUR_ORANGE, COLOUR_SKY,
                                   COLOUR_BLACK};
enum { COLOURS = sizeof colours / sizeof *colours };

typedef struct {
  double x, y, width, height; /* of the plot */
  double head;                /* y of its head's first line */
  axis axis;
} panel_place;

typedef struct {
  canvas paper;
  const report_chart *chart;
  panel_place place[REPORT_MAX_PANELS];
  axis x_axis;
} plotter;

/* ---- what is to be drawn --------------------------------------------------------------------- */

bool panel_shows(const report_panel *panel, double y)
{
  return fabs(y) <= out_of_reach && !(panel->log && y < out_of_sight);
}

static capl_status check_series(const report_series *s, int panel, int number)
{
  if (s->n < 0 || (s->n > 0 && (!s->x || !s->y)))
    return CAPL_FAIL(CAPL_EVALUE, "panel %d, series %d has no values", panel, number);
  if (!(s->smooth >= 0 && s->smooth < 1))
    return CAPL_FAIL(CAPL_EVALUE, "panel %d, series %d: smooth is at least 0 and less than 1, not %g", panel, number,
                     s->smooth);
  for (int64_t i = 0; i < s->n; i++)
    if (!(fabs(s->x[i]) <= out_of_reach))
      return CAPL_FAIL(CAPL_EVALUE, "panel %d, series %d: x[%lld] is no finite number; only y may have gaps", panel,
                       number, (long long)i + 1);
  return CAPL_OK;
}

static capl_status check_limits(const report_panel *p, int panel)
{
  if (fabs(p->min) > out_of_reach || fabs(p->max) > out_of_reach)
    return CAPL_FAIL(CAPL_EVALUE, "panel %d: min and max are finite numbers up to %g", panel, out_of_reach);
  if (p->min >= p->max)
    return CAPL_FAIL(CAPL_EVALUE, "panel %d: min = %g is not below max = %g", panel, p->min, p->max);
  if (p->log && (p->min < out_of_sight || p->max < out_of_sight))
    return CAPL_FAIL(CAPL_EVALUE, "panel %d: limits of a log axis are above 0, not %g", panel, fmin(p->min, p->max));
  return CAPL_OK;
}

static capl_status check_panel(const report_panel *p, int panel)
{
  CAPL_TRY(check_limits(p, panel));
  if (p->n_series < 0 || p->n_series > REPORT_MAX_SERIES)
    return CAPL_FAIL(CAPL_EVALUE, "panel %d has %d series; at most %d can be distinguished", panel, p->n_series,
                     REPORT_MAX_SERIES);
  for (int i = 0; i < p->n_series; i++) CAPL_TRY(check_series(&p->series[i], panel, i + 1));
  return CAPL_OK;
}

static capl_status check_lines(const report_chart *chart)
{
  for (int i = 0; i < chart->n_lines; i++)
    if (!(fabs(chart->lines[i].x) <= out_of_reach))
      return CAPL_FAIL(CAPL_EVALUE, "line %d: x is no finite number", i + 1);
  return CAPL_OK;
}

static capl_status check_log_x(const report_panel *p, int panel)
{
  for (int k = 0; k < p->n_series; k++)
    for (int64_t i = 0; i < p->series[k].n; i++)
      if (!(p->series[k].x[i] >= out_of_sight))
        return CAPL_FAIL(CAPL_EVALUE,
                         "panel %d, series %d: x[%lld] = %g, but a log axis has no place for what is not above 0",
                         panel, k + 1, (long long)i + 1, p->series[k].x[i]);
  return CAPL_OK;
}

static capl_status check_chart(const report_chart *chart)
{
  if (chart->n_panels < 1 || chart->n_panels > REPORT_MAX_PANELS)
    return CAPL_FAIL(CAPL_EVALUE, "a chart has 1 to %d panels, not %d", REPORT_MAX_PANELS, chart->n_panels);
  if (chart->width < 240 || chart->width > REPORT_MAX_SIDE)
    return CAPL_FAIL(CAPL_EVALUE, "the width of a chart is 240 to %d px, not %d", REPORT_MAX_SIDE, chart->width);
  for (int i = 0; i < chart->n_panels; i++) {
    CAPL_TRY(check_panel(&chart->panels[i], i + 1));
    if (chart->log_x) CAPL_TRY(check_log_x(&chart->panels[i], i + 1));
  }
  return check_lines(chart);
}

/* ---- axes ------------------------------------------------------------------------------------ */

static void y_limits(const report_panel *panel, axis *a)
{
  double lo = INFINITY, hi = -INFINITY;
  for (int k = 0; k < panel->n_series; k++)
    for (int64_t i = 0; i < panel->series[k].n; i++) {
      double y = panel->series[k].y[i];
      if (!panel_shows(panel, y)) continue;
      lo = fmin(lo, y);
      hi = fmax(hi, y);
    }
  *a = (axis){.log = panel->log, .percent = panel->percent};
  axis_limits(a, lo, hi, true);
  double below = a->log ? a->hi / 10 : a->hi - 1, above = a->log ? a->lo * 10 : a->lo + 1;
  if (!isnan(panel->min)) a->lo = panel->min, a->hi = a->hi > a->lo ? a->hi : above;
  if (!isnan(panel->max)) a->hi = panel->max, a->lo = a->lo < a->hi ? a->lo : below;
}

static void x_limits(const report_chart *chart, axis *a)
{
  double lo = INFINITY, hi = -INFINITY;
  *a = (axis){.whole = !chart->log_x, .log = chart->log_x};
  for (int p = 0; p < chart->n_panels; p++)
    for (int k = 0; k < chart->panels[p].n_series; k++) {
      const report_series *s = &chart->panels[p].series[k];
      for (int64_t i = 0; i < s->n; i++) {
        lo = fmin(lo, s->x[i]);
        hi = fmax(hi, s->x[i]);
        a->whole = a->whole && s->x[i] == floor(s->x[i]);
      }
    }
  for (int i = 0; i < chart->n_lines; i++) {
    lo = fmin(lo, chart->lines[i].x);
    hi = fmax(hi, chart->lines[i].x);
  }
  axis_limits(a, lo, hi, false);
}

static double widest_label(canvas *c, const axis *a)
{
  double widest = 0;
  for (int i = 0; i < a->n; i++) widest = fmax(widest, canvas_text_width(c, small_size, a->label[i]));
  return widest;
}

/* Fewer ticks until their labels stand apart. */
static void fit_x_ticks(plotter *p, double width)
{
  int most = (int)(width / 60);
  do {
    axis_ticks(&p->x_axis, most);
  } while (p->x_axis.n > 1 && (widest_label(&p->paper, &p->x_axis) + 24) * p->x_axis.n > width && --most > 0);
}

/* ---- layout ---------------------------------------------------------------------------------- */

static bool has_name(const report_series *s)
{
  return s->name && *s->name;
}

static double entry_width(plotter *p, const report_series *s)
{
  double room = p->chart->width / 2.0;
  return SAMPLE + 6 + fmin(room, canvas_text_width(&p->paper, small_size, s->name)) + 18;
}

/* One line of the legend: series first to before last, width px wide. */
typedef struct {
  int first, last;
  double width;
} legend_line;

/* The number-th line, which starts at series first. The first one shares its room with the name of the axis and may
** stay empty for that; others have at least one entry, if any is left. */
static legend_line next_line(plotter *p, const report_panel *panel, int number, int first)
{
  double label = number == 0 ? canvas_text_width(&p->paper, text_size, panel->y_label) : 0;
  double room = p->chart->width - 2 * PAD - (label > 0 ? label + 24 : 0);
  legend_line line = {first, first, 0};
  for (; line.last < panel->n_series; line.last++) {
    if (!has_name(&panel->series[line.last])) continue;
    double width = entry_width(p, &panel->series[line.last]);
    if ((line.width > 0 || label > 0) && line.width + width > room + 18) break; /* the last entry's gap is not seen */
    line.width += width;
  }
  return line;
}

static int head_lines(plotter *p, const report_panel *panel)
{
  int lines = 0, first = 0;
  while (first < panel->n_series) first = next_line(p, panel, lines++, first).last;
  return lines > 0 ? lines : 1;
}

static int title_height(const report_chart *chart)
{
  return chart->title && *chart->title ? TITLE_ROW : 4;
}

static int foot_height(const report_chart *chart)
{
  return LABEL_ROW + (chart->x_label && *chart->x_label ? NAME_ROW : 0) + PAD / 2;
}

/* Heads, gaps and all that is not a plot. */
static int fixed_height(plotter *p)
{
  const report_chart *chart = p->chart;
  int height = PAD + title_height(chart) + foot_height(chart) + GAP * (chart->n_panels - 1);
  for (int i = 0; i < chart->n_panels; i++) height += HEAD_ROW * head_lines(p, &chart->panels[i]) + 4;
  return height;
}

static void place_panels(plotter *p, double plot_height)
{
  const report_chart *chart = p->chart;
  double y = PAD + title_height(chart), label = 0;
  for (int i = 0; i < chart->n_panels; i++) {
    panel_place *place = &p->place[i];
    place->head = y;
    place->y = y + HEAD_ROW * head_lines(p, &chart->panels[i]) + 4;
    place->height = plot_height;
    y = place->y + plot_height + GAP;
    y_limits(&chart->panels[i], &place->axis);
    axis_ticks(&place->axis, (int)(plot_height / TICK_EVERY));
    label = fmax(label, widest_label(&p->paper, &place->axis));
  }
  for (int i = 0; i < chart->n_panels; i++) {
    p->place[i].x = PAD + (int)label + 8;
    p->place[i].width = chart->width - p->place[i].x - PAD - 8;
  }
}

/* ---- a panel's frame ------------------------------------------------------------------------- */

static void hairline(canvas *c, uint32_t rgb, double x0, double y0, double x1, double y1)
{
  canvas_colour(c, rgb, 1);
  cairo_set_line_width(c->cr, 1);
  cairo_move_to(c->cr, floor(x0) + 0.5, floor(y0) + 0.5);
  cairo_line_to(c->cr, floor(x1) + 0.5, floor(y1) + 0.5);
  cairo_stroke(c->cr);
}

static double x_px(const plotter *p, const panel_place *place, double x)
{
  return place->x + axis_place(&p->x_axis, x) * place->width;
}

/* Far outside is far enough: Cairo counts in 24 bits. */
static double y_px(const panel_place *place, double y)
{
  double share = axis_place(&place->axis, y);
  return place->y + place->height * (1 - fmax(-20, fmin(20, share)));
}

static void draw_grid(plotter *p, const panel_place *place)
{
  canvas *c = &p->paper;
  double bottom = place->y + place->height, right = place->x + place->width;
  for (int i = 0; i < p->x_axis.n; i++) {
    double x = x_px(p, place, p->x_axis.at[i]);
    hairline(c, COLOUR_GRID, x, place->y, x, bottom);
  }
  for (int i = 0; i < place->axis.n; i++) {
    double y = y_px(place, place->axis.at[i]);
    hairline(c, COLOUR_GRID, place->x, y, right, y);
    canvas_text(c, place->x - 7, y + 4, PAD + place->x, TEXT_RIGHT, small_size, COLOUR_QUIET, place->axis.label[i]);
  }
  hairline(c, COLOUR_AXIS, place->x, place->y, place->x, bottom);
  hairline(c, COLOUR_AXIS, place->x, bottom, right, bottom);
}

static void draw_x_labels(plotter *p)
{
  canvas *c = &p->paper;
  const panel_place *last = &p->place[p->chart->n_panels - 1];
  double bottom = last->y + last->height, right = p->chart->width - 2;
  for (int i = 0; i < p->x_axis.n; i++) {
    double x = x_px(p, last, p->x_axis.at[i]);
    double half = canvas_text_width(c, small_size, p->x_axis.label[i]) / 2;
    hairline(c, COLOUR_AXIS, x, bottom, x, bottom + 4);
    canvas_text(c, fmin(x, right - half), bottom + 17, 200, TEXT_CENTRE, small_size, COLOUR_QUIET, p->x_axis.label[i]);
  }
  canvas_text(c, last->x + last->width / 2, bottom + LABEL_ROW + 15, last->width, TEXT_CENTRE, text_size, COLOUR_TEXT,
              p->chart->x_label);
}

/* ---- moments that matter in all panels --------------------------------------------------------- */

enum { LINE_ROWS = 3, LINE_ROW = 15 }; /* labels of neighbours stand below each other */

static void draw_line_label(plotter *p, int i, double x)
{
  const panel_place *top = &p->place[0];
  const char *label = p->chart->lines[i].label;
  double right = top->x + top->width, y = top->y + 13 + i % LINE_ROWS * LINE_ROW;
  double width = label ? canvas_text_width(&p->paper, small_size, label) : 0;
  bool left = x + 5 + width > right;
  if (label) canvas_fill(&p->paper, COLOUR_PAPER, left ? x - 7 - width : x + 3, y - 11, width + 4, LINE_ROW);
  canvas_text(&p->paper, left ? x - 5 : x + 5, y, left ? x - top->x : right - x, left ? TEXT_RIGHT : TEXT_LEFT,
              small_size, COLOUR_QUIET, label);
}

static void draw_moments(plotter *p)
{
  static const double dashes[] = {4, 3};
  for (int i = 0; i < p->chart->n_lines; i++) {
    double x = 0;
    for (int k = 0; k < p->chart->n_panels; k++) {
      const panel_place *place = &p->place[k];
      x = x_px(p, place, p->chart->lines[i].x);
      cairo_set_dash(p->paper.cr, dashes, 2, 0);
      hairline(&p->paper, COLOUR_QUIET, x, place->y, x, place->y + place->height);
    }
    cairo_set_dash(p->paper.cr, dashes, 0, 0);
    draw_line_label(p, i, x);
  }
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Colour and dashes of the k-th series of a panel. */
static void set_style(canvas *c, int k, double width, double opacity)
{
  static const double dashes[] = {6, 3}, dots[] = {1.5, 3};
  canvas_colour(c, colours[k % COLOURS], opacity);
  cairo_set_line_width(c->cr, width);
  cairo_set_line_join(c->cr, CAIRO_LINE_JOIN_ROUND);
  cairo_set_dash(c->cr, k / COLOURS == 1 ? dashes : dots, k < COLOURS ? 0 : 2, 0);
}

typedef struct {
  double x, y;
} point;

/* A line being drawn. Of all points in one column of pixels only the first, lowest, highest and last are drawn: the
** eye sees the same, and 100,000 points cost what the paper is wide. */
typedef struct {
  cairo_t *cr;
  bool down;               /* the line has begun */
  int drawn;               /* points since it began */
  int n;                   /* points in the column */
  point first, low, high, last;
  bool low_before_high;
} pen;

static void pen_point(pen *pen, point p)
{
  if (pen->down) cairo_line_to(pen->cr, p.x, p.y);
  else cairo_move_to(pen->cr, p.x, p.y);
  pen->down = true;
  if (++pen->drawn % CHUNK) return;
  cairo_stroke(pen->cr);
  cairo_move_to(pen->cr, p.x, p.y);
}

static void pen_column(pen *pen)
{
  if (pen->n == 0) return;
  pen_point(pen, pen->first);
  if (pen->n > 2) {
    pen_point(pen, pen->low_before_high ? pen->low : pen->high);
    pen_point(pen, pen->low_before_high ? pen->high : pen->low);
  }
  if (pen->n > 1) pen_point(pen, pen->last);
  pen->n = 0;
}

static void pen_to(pen *pen, point p)
{
  if (pen->n > 0 && floor(p.x) != floor(pen->first.x)) pen_column(pen);
  if (pen->n++ == 0) pen->first = pen->low = pen->high = p;
  if (p.y < pen->high.y) pen->high = p, pen->low_before_high = true;
  if (p.y > pen->low.y) pen->low = p, pen->low_before_high = false;
  pen->last = p;
}

/* Ends the line; a point with gaps on both sides becomes a dot of the given radius. */
static void pen_up(pen *pen, double radius)
{
  pen_column(pen);
  if (pen->drawn == 1) {
    cairo_new_path(pen->cr);
    cairo_arc(pen->cr, pen->last.x, pen->last.y, radius, 0, 2 * 3.14159265358979);
    cairo_fill(pen->cr);
  } else {
    cairo_stroke(pen->cr);
  }
  pen->down = false;
  pen->drawn = 0;
}

static void draw_line(plotter *p, int panel, const report_series *s, const double *y)
{
  const panel_place *place = &p->place[panel];
  pen pen = {.cr = p->paper.cr};
  cairo_new_path(p->paper.cr);
  for (int64_t i = 0; i < s->n; i++) {
    if (panel_shows(&p->chart->panels[panel], y[i])) pen_to(&pen, (point){x_px(p, place, s->x[i]), y_px(place, y[i])});
    else pen_up(&pen, 2.5);
  }
  pen_up(&pen, 2.5);
}

static void draw_dots(plotter *p, int panel, const report_series *s)
{
  cairo_new_path(p->paper.cr);
  const panel_place *place = &p->place[panel];
  for (int64_t i = 0; i < s->n; i++) {
    if (!panel_shows(&p->chart->panels[panel], s->y[i])) continue;
    cairo_arc(p->paper.cr, x_px(p, place, s->x[i]), y_px(place, s->y[i]), 2.5, 0, 2 * 3.14159265358979);
    cairo_fill(p->paper.cr);
  }
}

static bool is_smooth(const report_series *s)
{
  return s->smooth > 0 && s->n > 2 && !s->dots;
}

/* The values themselves, pale where a smooth line will lie over them. */
static void draw_values(plotter *p, int panel, int k)
{
  const report_series *s = &p->chart->panels[panel].series[k];
  set_style(&p->paper, k, is_smooth(s) ? 1 : 1.6, is_smooth(s) ? 0.3 : s->dots && s->n > FEW_DOTS ? 0.4 : 1);
  if (s->dots) {
    draw_dots(p, panel, s);
    return;
  }
  draw_line(p, panel, s, s->y);
  if (!is_smooth(s) && s->n <= FEW_POINTS) draw_dots(p, panel, s);
}

static capl_status draw_smooth(plotter *p, int panel, int k)
{
  const report_series *s = &p->chart->panels[panel].series[k];
  if (!is_smooth(s)) return CAPL_OK;
  double *means = smooth_line(&p->chart->panels[panel], s);
  if (!means) return CAPL_FAIL(CAPL_ENOMEM, "no memory to smooth %lld values", (long long)s->n);
  set_style(&p->paper, k, 1.8, 1);
  draw_line(p, panel, s, means);
  free(means);
  return CAPL_OK;
}

/* The first series matters most: it lies over the others, and smooth lines over all that is not. */
static capl_status draw_all_series(plotter *p, int panel)
{
  int n = p->chart->panels[panel].n_series;
  for (int k = n; k-- > 0;) draw_values(p, panel, k);
  for (int k = n; k-- > 0;) CAPL_TRY(draw_smooth(p, panel, k));
  return CAPL_OK;
}

/* ---- heads ----------------------------------------------------------------------------------- */

static double draw_entry(plotter *p, int panel, int k, double x, double y)
{
  canvas *c = &p->paper;
  const report_series *s = &p->chart->panels[panel].series[k];
  set_style(c, k, 2.2, 1);
  if (s->dots) {
    cairo_arc(c->cr, x + SAMPLE / 2.0, y - 4, 3, 0, 2 * 3.14159265358979);
    cairo_fill(c->cr);
  } else {
    cairo_move_to(c->cr, x, y - 4);
    cairo_line_to(c->cr, x + SAMPLE, y - 4);
    cairo_stroke(c->cr);
  }
  canvas_text(c, x + SAMPLE + 6, y, p->chart->width / 2.0, TEXT_LEFT, small_size, COLOUR_TEXT, s->name);
  return x + entry_width(p, s);
}

static void draw_head(plotter *p, int panel)
{
  const report_panel *what = &p->chart->panels[panel];
  double y = p->place[panel].head + 14;
  canvas_text(&p->paper, PAD, y, p->chart->width - 2 * PAD, TEXT_LEFT, text_size, COLOUR_TEXT, what->y_label);
  for (int first = 0, n = 0; first < what->n_series; n++, y += HEAD_ROW) {
    legend_line line = next_line(p, what, n, first);
    double x = p->chart->width - PAD - 8 - line.width + 18;
    for (int k = line.first; k < line.last; k++)
      if (has_name(&what->series[k])) x = draw_entry(p, panel, k, x, y);
    first = line.last;
  }
  cairo_set_dash(p->paper.cr, NULL, 0, 0);
}

/* ---- charts ---------------------------------------------------------------------------------- */

static bool is_empty(const report_panel *panel)
{
  for (int k = 0; k < panel->n_series; k++)
    for (int64_t i = 0; i < panel->series[k].n; i++)
      if (panel_shows(panel, panel->series[k].y[i])) return false;
  return true;
}

static capl_status draw_panel(plotter *p, int panel)
{
  const panel_place *place = &p->place[panel];
  draw_head(p, panel);
  draw_grid(p, place);
  if (is_empty(&p->chart->panels[panel]))
    canvas_text(&p->paper, place->x + place->width / 2, place->y + place->height / 2 + 5, place->width, TEXT_CENTRE,
                text_size, COLOUR_AXIS, "no data");
  cairo_save(p->paper.cr);
  cairo_rectangle(p->paper.cr, place->x - 3, place->y - 3, place->width + 6, place->height + 6);
  cairo_clip(p->paper.cr);
  capl_status status = draw_all_series(p, panel);
  cairo_restore(p->paper.cr);
  return status;
}

static capl_status draw_chart(plotter *p, int height)
{
  double room = (double)(height - fixed_height(p)) / p->chart->n_panels;
  if (room < LEAST_PLOT)
    return CAPL_FAIL(CAPL_EVALUE, "a height of %d px is too little for %d panels; at least %d", height,
                     p->chart->n_panels, fixed_height(p) + LEAST_PLOT * p->chart->n_panels);
  x_limits(p->chart, &p->x_axis);
  place_panels(p, floor(room));
  fit_x_ticks(p, p->place[0].width);
  canvas_text(&p->paper, PAD, PAD + 14, p->chart->width - 2 * PAD, TEXT_LEFT, title_size, COLOUR_TEXT, p->chart->title);
  for (int i = 0; i < p->chart->n_panels; i++) CAPL_TRY(draw_panel(p, i));
  draw_moments(p);
  draw_x_labels(p);
  return CAPL_OK;
}

/* The height follows from the number of lines in the heads, which needs the font to be measured. */
static capl_status natural_height(plotter *p, int *height)
{
  CAPL_TRY(canvas_begin(&p->paper, p->chart->font, p->chart->width, 1));
  *height = fixed_height(p) + PANEL_HEIGHT * p->chart->n_panels;
  return canvas_end(&p->paper, CAPL_OK, NULL);
}

capl_status draw_lines(const report_chart *chart, report_picture *out)
{
  plotter p = {.chart = chart};
  int height = chart->height;
  *out = (report_picture){0};
  CAPL_TRY(check_chart(chart));
  if (height == 0) CAPL_TRY(natural_height(&p, &height));
  CAPL_TRY(canvas_begin(&p.paper, chart->font, chart->width, height));
  return canvas_end(&p.paper, draw_chart(&p, height), out);
}
