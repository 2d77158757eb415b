/* gallery.c -- samples in rows, each what it is and what becomes of it, with masks, points and boxes drawn over them.
**
** From top to bottom: the title; for each section its title, its note, the heads of the columns, then its rows.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/drawing.h"

enum {
  PAD = 18,         /* px around everything */
  GAP = 10,         /* between columns */
  APART = 22,       /* more of it behind the first ones */
  ROW_GAP = 12,
  TITLE_ROW = 38,
  SECTION_ROW = 26,
  NOTE_ROW = 20,
  HEAD_ROW = 20,
  SECTION_GAP = 14,
  CAPTION_ROW = 20,
  NATURAL_WIDTH = 1240,
  LEAST_CELL = 64,
  LARGE_CELL = 240, /* images are enlarged up to this width, and shrunk down to it */
  TEXT_CELL = 160,  /* cells of small images are up to so wide if their captions are that long */
  MAX_ZOOM = 32,
  KEY_ROW = 20,     /* of the legend */
  KEY = 11,         /* px of its colours */
  KEY_GAP = 16,
  FRAME = 1,
};

static const double title_size = 18, section_size = 15, note_size = 12, caption_size = 14;

typedef struct {
  canvas paper;
  const report_gallery *gallery;
  double zoom;         /* one for all images */
  int cell_w, image_h; /* px of the largest image as drawn, with its frame */
  int width, y;        /* of the picture; where the next thing begins */
  bool captions;
} layout;

/* ---- what is to be drawn --------------------------------------------------------------------- */

static pixel_image image_of(const report_view *view)
{
  return (pixel_image){view->pixels, view->width, view->height, view->channels};
}

static capl_status check_gallery(const report_gallery *g)
{
  int n = 0;
  if (g->columns < 1 || g->columns > 64)
    return CAPL_FAIL(CAPL_EVALUE, "a gallery has 1 to 64 columns, not %d", g->columns);
  for (int i = 0; i < g->n_sections; i++) {
    n += g->sections[i].n_views;
    for (int k = 0; k < g->sections[i].n_views; k++) {
      char what[48];
      snprintf(what, sizeof what, "section %d, view %d", i + 1, k + 1);
      CAPL_TRY(check_view(&g->sections[i].views[k], what));
    }
  }
  if (n >= 1 && n <= REPORT_MAX_CELLS) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "a gallery shows 1 to %d views, not %d", REPORT_MAX_CELLS, n);
}

/* ---- layout ---------------------------------------------------------------------------------- */

static bool is_text(const char *text)
{
  return text && *text;
}

static double zoom_for(int width, int columns)
{
  int room = (NATURAL_WIDTH - 2 * PAD - APART) / columns - GAP;
  int most = room < LARGE_CELL ? room : LARGE_CELL;
  if (most < LEAST_CELL) most = LEAST_CELL;
  if (width > most) return (double)most / width;
  return fmin(most / width, MAX_ZOOM);
}

static int zoomed(const layout *l, int px)
{
  int size = (int)(px * l->zoom + 0.5);
  return size < 1 ? 1 : size;
}

static int together(const report_gallery *g)
{
  return g->together > 0 ? g->together : 1;
}

/* Wider cells where images are smaller than what is said of them. */
static void fit_captions(layout *l)
{
  int room = (NATURAL_WIDTH - 2 * PAD - APART) / l->gallery->columns - GAP, most = room < TEXT_CELL ? room : TEXT_CELL;
  for (int i = 0; i < l->gallery->n_sections; i++)
    for (int k = 0; k < l->gallery->sections[i].n_views && l->cell_w < most; k++) {
      const char *caption = l->gallery->sections[i].views[k].caption;
      int width = is_text(caption) ? (int)canvas_text_width(&l->paper, caption_size, caption) + 1 : 0;
      if (width > l->cell_w) l->cell_w = width < most ? width : most;
    }
}

static void measure(layout *l)
{
  int width = 1, height = 1;
  const report_gallery *g = l->gallery;
  for (int i = 0; i < g->n_sections; i++)
    for (int k = 0; k < g->sections[i].n_views; k++) {
      const report_view *v = &g->sections[i].views[k];
      if (v->width > width) width = v->width;
      if (v->height > height) height = v->height;
      l->captions = l->captions || is_text(v->caption);
    }
  l->zoom = zoom_for(width, g->columns);
  l->cell_w = zoomed(l, width) + 2 * FRAME;
  if (l->cell_w < LEAST_CELL) l->cell_w = LEAST_CELL;
  l->image_h = zoomed(l, height) + 2 * FRAME;
  fit_captions(l);
  l->width = 2 * PAD + g->columns * (l->cell_w + GAP) - GAP + (g->columns > together(g) ? APART : 0);
  if (l->width < 480) l->width = 480;
}

static int row_height(const layout *l)
{
  return l->image_h + (l->captions ? CAPTION_ROW : 0) + ROW_GAP;
}

/* How much of a note goes on one line: up to a space, if there is one that fits. */
static size_t line_of(layout *l, const char *text)
{
  char line[512];
  size_t fits = 0;
  for (size_t n = 1; n < sizeof line; n++) {
    if (text[n - 1] != ' ' && text[n - 1]) continue;
    memcpy(line, text, n - 1);
    line[n - 1] = 0;
    if (fits > 0 && canvas_text_width(&l->paper, note_size, line) > l->width - 2 * PAD) break;
    fits = n;
    if (!text[n - 1]) return n - 1;
  }
  return fits > 0 ? fits : strlen(text);
}

static int note_lines(layout *l, const char *note)
{
  int lines = 0;
  for (const char *at = note; is_text(at); at += line_of(l, at)) lines++;
  return lines;
}

static int64_t section_height(layout *l, const report_section *s)
{
  bool heads = is_text(l->gallery->first) || is_text(l->gallery->rest);
  int64_t rows = (s->n_views + l->gallery->columns - 1) / l->gallery->columns;
  return (is_text(s->title) ? SECTION_ROW : 0) + note_lines(l, s->note) * NOTE_ROW + (heads ? HEAD_ROW : 0) +
         rows * row_height(l) + SECTION_GAP;
}

static void draw_key(layout *l, const report_key *key, int x, int y, double room)
{
  uint32_t colour = key->class > 0 ? report_class_colour(key->class) : COLOUR_PAPER;
  canvas_fill(&l->paper, key->class > 0 ? COLOUR_TEXT : COLOUR_AXIS, x, y, KEY, KEY);
  canvas_fill(&l->paper, colour, x + 1, y + 1, KEY - 2, KEY - 2);
  canvas_text(&l->paper, x + KEY + 5, y + KEY - 1, room, TEXT_LEFT, note_size, COLOUR_TEXT, key->name);
}

/* Places the legend from l->y on, and draws it if asked to. Returns its height. */
static int walk_legend(layout *l, bool draw)
{
  int x = PAD, y = 0;
  double room = l->width / 3.0;
  for (int i = 0; i < l->gallery->n_legend; i++) {
    const report_key *key = &l->gallery->legend[i];
    int width = KEY + 5 + (int)fmin(room, is_text(key->name) ? canvas_text_width(&l->paper, note_size, key->name) : 0);
    if (x > PAD && x + width > l->width - PAD) x = PAD, y += KEY_ROW;
    if (draw) draw_key(l, key, x, l->y + y, room);
    x += width + KEY_GAP;
  }
  return l->gallery->n_legend > 0 ? y + KEY_ROW + 6 : 0;
}

static int64_t natural_height(layout *l)
{
  int64_t height = 2 * PAD - ROW_GAP - SECTION_GAP + (is_text(l->gallery->title) ? TITLE_ROW : 0);
  height += walk_legend(l, false);
  for (int i = 0; i < l->gallery->n_sections; i++) height += section_height(l, &l->gallery->sections[i]);
  return height;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int column_x(const layout *l, int column)
{
  return PAD + column * (l->cell_w + GAP) + (column >= together(l->gallery) ? APART : 0);
}

static capl_status draw_view(layout *l, const report_view *v, int x, int y)
{
  pixel_image image = image_of(v);
  int width = zoomed(l, v->width), height = zoomed(l, v->height);
  canvas_fill(&l->paper, COLOUR_GRID, x, y, width + 2 * FRAME, height + 2 * FRAME);
  CAPL_TRY(draw_pixels(&l->paper, &image, x + FRAME, y + FRAME, width, height));
  CAPL_TRY(draw_over(&l->paper, v, x + FRAME, y + FRAME, l->zoom, 1));
  canvas_text(&l->paper, x, y + l->image_h + 15, l->cell_w, TEXT_LEFT, caption_size, COLOUR_TEXT, v->caption);
  return CAPL_OK;
}

static void draw_line(layout *l, int row, int below, double size, uint32_t rgb, const char *text)
{
  if (!is_text(text)) return;
  canvas_text(&l->paper, PAD, l->y + below, l->width - 2 * PAD, TEXT_LEFT, size, rgb, text);
  l->y += row;
}

static void draw_note(layout *l, const char *note)
{
  char line[512];
  for (const char *at = note; is_text(at);) {
    size_t n = line_of(l, at), shown = n < sizeof line ? n : sizeof line - 1;
    if (shown > 0 && at[shown - 1] == ' ') shown--;
    memcpy(line, at, shown);
    line[shown] = 0;
    draw_line(l, NOTE_ROW, 12, note_size, COLOUR_QUIET, line);
    at += n;
  }
}

static void draw_heads(layout *l)
{
  const report_gallery *g = l->gallery;
  if (!is_text(g->first) && !is_text(g->rest)) return;
  canvas_text(&l->paper, column_x(l, 0), l->y + 13, l->cell_w, TEXT_LEFT, note_size, COLOUR_QUIET, g->first);
  if (g->columns > 1)
    canvas_text(&l->paper, column_x(l, 1), l->y + 13, l->width, TEXT_LEFT, note_size, COLOUR_QUIET, g->rest);
  l->y += HEAD_ROW;
}

static capl_status draw_section(layout *l, const report_section *s)
{
  draw_line(l, SECTION_ROW, 16, section_size, COLOUR_TEXT, s->title);
  draw_note(l, s->note);
  draw_heads(l);
  for (int i = 0; i < s->n_views; i++) {
    int column = i % l->gallery->columns;
    if (column == 0 && i > 0) l->y += row_height(l);
    CAPL_TRY(draw_view(l, &s->views[i], column_x(l, column), l->y));
  }
  l->y += row_height(l) + SECTION_GAP;
  return CAPL_OK;
}

static capl_status draw_sections(layout *l)
{
  l->y = PAD;
  draw_line(l, TITLE_ROW, 16, title_size, COLOUR_TEXT, l->gallery->title);
  l->y += walk_legend(l, true);
  for (int i = 0; i < l->gallery->n_sections; i++) CAPL_TRY(draw_section(l, &l->gallery->sections[i]));
  return CAPL_OK;
}

capl_status draw_gallery(const report_gallery *gallery, report_picture *out)
{
  layout l = {.gallery = gallery};
  *out = (report_picture){0};
  CAPL_TRY(check_gallery(gallery));
  CAPL_TRY(canvas_begin(&l.paper, gallery->font, 1, 1)); /* texts are measured before there is paper for them */
  measure(&l);
  int64_t height = natural_height(&l);
  CAPL_TRY(canvas_end(&l.paper, CAPL_OK, NULL));
  if (height > REPORT_MAX_SIDE || l.width > REPORT_MAX_SIDE) {
    CAPL_FAIL(CAPL_EVALUE, "the views make a picture of %d x %lld px; the limit is %d px per side", l.width,
              (long long)height, REPORT_MAX_SIDE);
    capl_error_hint("show fewer samples");
    return CAPL_EVALUE;
  }
  CAPL_TRY(canvas_begin(&l.paper, gallery->font, l.width, (int)height));
  return canvas_end(&l.paper, draw_sections(&l), out);
}
