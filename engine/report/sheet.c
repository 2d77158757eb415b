/* sheet.c -- contact sheets: images in rows, each with its caption, framed by whether it is right or wrong.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/drawing.h"

enum {
  PAD = 18,           /* px around everything */
  GAP = 16,           /* between columns */
  ROW_GAP = 14,
  TITLE_ROW = 36,
  HEADING_ROW = 30,
  FRAME = 3,          /* thickness */
  CAPTION_ROW = 20,
  NATURAL_WIDTH = 1120,
  LEAST_CELL = 72,    /* px for texts below small images; up to the second number if there is that much text */
  TEXT_CELL = 160,
  HEADING_WIDTH = 420,
  SMALL_IMAGE = 160,  /* images are enlarged up to this width or height */
  LARGE_IMAGE = 480,  /* and shrunk down to this width */
  MAX_ZOOM = 12,
};

static const double title_size = 17, heading_size = 14, caption_size = 15, note_size = 12;

/* The order of the sections on paper. */
static const struct {
  report_mark mark;
  const char *name;
  uint32_t colour;
} sections[] = {
  {REPORT_BAD, "wrong", COLOUR_RED}, {REPORT_GOOD, "right", COLOUR_GREEN}, {REPORT_UNMARKED, "unmarked", COLOUR_GRID}};
enum { SECTIONS = sizeof sections / sizeof *sections };

typedef struct {
  canvas paper;
  const report_sheet *sheet;
  double zoom;             /* one for all images */
  int cell_w, image_h;     /* px of the largest image as drawn, with its frame */
  int columns, width;      /* width: px of the sheet */
  bool texts, notes_below; /* any text at all; notes have a line of their own */
  int n[SECTIONS];         /* cells of each section */
  bool truths[SECTIONS];   /* which sections show the truth below what was read */
  int y;                   /* where the next row begins */
} layout;

/* ---- what is to be drawn --------------------------------------------------------------------- */

static pixel_image image_of(const report_cell *cell)
{
  return (pixel_image){cell->pixels, cell->width, cell->height, cell->channels};
}

static capl_status check_sheet(const report_sheet *sheet)
{
  if (sheet->n_cells < 1 || sheet->n_cells > REPORT_MAX_CELLS)
    return CAPL_FAIL(CAPL_EVALUE, "a sheet has 1 to %d cells, not %d", REPORT_MAX_CELLS, sheet->n_cells);
  if (sheet->columns < 0 || sheet->columns > 200)
    return CAPL_FAIL(CAPL_EVALUE, "a sheet has 1 to 200 columns, not %d", sheet->columns);
  for (int i = 0; i < sheet->n_cells; i++) {
    char what[32];
    pixel_image image = image_of(&sheet->cells[i]);
    snprintf(what, sizeof what, "cell %d", i + 1);
    CAPL_TRY(check_pixels(&image, what));
  }
  return CAPL_OK;
}

static bool is_misread(const report_cell *cell)
{
  return cell->truth && strcmp(cell->truth, cell->caption ? cell->caption : "") != 0;
}

/* ---- layout ---------------------------------------------------------------------------------- */

/* Small images are enlarged by a whole factor, so that pixels stay pixels. */
static double choose_zoom(int width, int height)
{
  int zoom = SMALL_IMAGE / (width > height ? width : height);
  if (zoom > 1) return zoom < MAX_ZOOM ? zoom : MAX_ZOOM;
  double shrink = fmin((double)LARGE_IMAGE / width, (double)LARGE_IMAGE / height);
  return shrink < 1 ? shrink : 1;
}

static int zoomed(const layout *l, int px)
{
  int size = (int)(px * l->zoom + 0.5);
  return size < 1 ? 1 : size;
}

static double text_or_nothing(canvas *c, double size, const char *text)
{
  return text && *text ? canvas_text_width(c, size, text) : 0;
}

static void measure_images(layout *l)
{
  int width = 1, height = 1;
  for (int i = 0; i < l->sheet->n_cells; i++) {
    const report_cell *cell = &l->sheet->cells[i];
    if (cell->width > width) width = cell->width;
    if (cell->height > height) height = cell->height;
  }
  l->zoom = choose_zoom(width, height);
  l->cell_w = zoomed(l, width) + 2 * FRAME;
  l->image_h = zoomed(l, height) + 2 * FRAME;
  if (l->cell_w < LEAST_CELL) l->cell_w = LEAST_CELL;
}

/* Cells are as wide as their texts if those are short. A note stands right of its caption if that fits in all cells. */
static void measure_texts(layout *l)
{
  for (int i = 0; i < l->sheet->n_cells; i++) {
    double caption = text_or_nothing(&l->paper, caption_size, l->sheet->cells[i].caption);
    if (caption > l->cell_w && l->cell_w < TEXT_CELL) l->cell_w = caption < TEXT_CELL ? (int)caption + 1 : TEXT_CELL;
  }
  for (int i = 0; i < l->sheet->n_cells; i++) {
    const report_cell *cell = &l->sheet->cells[i];
    double caption = text_or_nothing(&l->paper, caption_size, cell->caption);
    double note = text_or_nothing(&l->paper, note_size, cell->note);
    l->texts = l->texts || caption > 0 || note > 0 || cell->truth;
    if (caption > 0 && note > 0 && caption + 10 + note > l->cell_w) l->notes_below = true;
  }
}

static void count_sections(layout *l)
{
  for (int i = 0; i < l->sheet->n_cells; i++)
    for (int k = 0; k < SECTIONS; k++) {
      if (l->sheet->cells[i].mark != sections[k].mark) continue;
      l->n[k]++;
      l->truths[k] = l->truths[k] || is_misread(&l->sheet->cells[i]);
    }
}

static void choose_columns(layout *l)
{
  int fitting = (NATURAL_WIDTH - 2 * PAD + GAP) / (l->cell_w + GAP);
  l->columns = l->sheet->columns ? l->sheet->columns : fitting < 1 ? 1 : fitting;
  if (l->columns > l->sheet->n_cells) l->columns = l->sheet->n_cells;
}

static bool has_headings(const layout *l)
{
  int kinds = 0;
  for (int k = 0; k < SECTIONS; k++) kinds += l->n[k] > 0;
  return kinds > 1;
}

static int row_height(const layout *l, int section)
{
  int lines = l->texts + l->truths[section] + l->notes_below;
  return l->image_h + lines * CAPTION_ROW + (lines ? 4 : 0) + ROW_GAP;
}

static bool has_title(const report_sheet *sheet)
{
  return sheet->title && *sheet->title;
}

static int64_t natural_height(const layout *l)
{
  int64_t height = 2 * PAD - ROW_GAP + (has_title(l->sheet) ? TITLE_ROW : 0);
  for (int k = 0; k < SECTIONS; k++) {
    int64_t rows = (l->n[k] + l->columns - 1) / l->columns;
    if (rows > 0) height += (has_headings(l) ? HEADING_ROW : 0) + rows * row_height(l, k);
  }
  return height;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* One character of a reading, red and underlined if it is wrong. Returns its width. */
static double draw_character(layout *l, double x, double y, const char *character, bool wrong)
{
  double width = canvas_text(&l->paper, x, y, l->cell_w, TEXT_LEFT, caption_size, wrong ? COLOUR_RED : COLOUR_TEXT,
                             character);
  if (wrong) canvas_fill(&l->paper, COLOUR_RED, (int)(x + 1.5), y + 3, (int)width - 1, 2);
  return width;
}

/* The caption, whose characters are marked where truth has others; a dot stands for one that is missing. */
static void draw_reading(layout *l, const report_cell *cell, double x, double y)
{
  const char *caption = cell->caption ? cell->caption : "", *truth = cell->truth;
  char read[8], meant[8];
  double right = x + l->cell_w, width = canvas_text_width(&l->paper, caption_size, "0");
  for (;;) {
    bool has_read = text_next(&caption, read), has_meant = text_next(&truth, meant);
    if (!has_read && !has_meant) return;
    bool same = has_read && has_meant && strcmp(read, meant) == 0;
    if (x + 2 * width > right && (*caption || *truth)) { /* no room for this one and the next */
      draw_character(l, x, y, "\xe2\x80\xa6", strcmp(caption, truth) != 0 || !same);
      return;
    }
    x += draw_character(l, x, y, has_read ? read : "\xc2\xb7", !same);
  }
}

static void draw_texts(layout *l, const report_cell *cell, int section, int x, int y)
{
  canvas *c = &l->paper;
  double line = y + 16;
  if (cell->truth) draw_reading(l, cell, x, line);
  else canvas_text(c, x, line, l->cell_w, TEXT_LEFT, caption_size, COLOUR_TEXT, cell->caption);
  if (!l->notes_below) canvas_text(c, x + l->cell_w, line, l->cell_w, TEXT_RIGHT, note_size, COLOUR_QUIET, cell->note);
  if (l->truths[section]) line += CAPTION_ROW;
  if (is_misread(cell)) canvas_text(c, x, line, l->cell_w, TEXT_LEFT, caption_size, COLOUR_QUIET, cell->truth);
  if (l->notes_below)
    canvas_text(c, x, line + CAPTION_ROW - 1, l->cell_w, TEXT_LEFT, note_size, COLOUR_QUIET, cell->note);
}

/* Marked images have a frame, others a hairline. */
static capl_status draw_cell(layout *l, const report_cell *cell, int section, int x, int y)
{
  int width = zoomed(l, cell->width), height = zoomed(l, cell->height);
  int frame = cell->mark == REPORT_UNMARKED ? 1 : FRAME;
  canvas_fill(&l->paper, sections[section].colour, x, y, width + 2 * frame, height + 2 * frame);
  pixel_image image = image_of(cell);
  CAPL_TRY(draw_pixels(&l->paper, &image, x + frame, y + frame, width, height));
  draw_texts(l, cell, section, x, y + l->image_h);
  return CAPL_OK;
}

/* ---- sheets ---------------------------------------------------------------------------------- */

static void draw_heading(layout *l, int section)
{
  char text[80];
  snprintf(text, sizeof text, "%d %s", l->n[section], sections[section].name);
  canvas_fill(&l->paper, sections[section].colour, PAD, l->y + 4, 12, 12);
  double width = canvas_text(&l->paper, PAD + 20, l->y + 15, NATURAL_WIDTH, TEXT_LEFT, heading_size, COLOUR_TEXT, text);
  if (l->truths[section])
    canvas_text(&l->paper, PAD + 20 + width + 18, l->y + 15, NATURAL_WIDTH, TEXT_LEFT, note_size, COLOUR_QUIET,
                "what was read, and the truth below it");
  l->y += HEADING_ROW;
}

static capl_status draw_section(layout *l, int section)
{
  const report_sheet *sheet = l->sheet;
  int column = 0;
  if (l->n[section] == 0) return CAPL_OK;
  if (has_headings(l)) draw_heading(l, section);
  for (int i = 0; i < sheet->n_cells; i++) {
    if (sheet->cells[i].mark != sections[section].mark) continue;
    if (column == l->columns) column = 0, l->y += row_height(l, section);
    CAPL_TRY(draw_cell(l, &sheet->cells[i], section, PAD + column++ * (l->cell_w + GAP), l->y));
  }
  l->y += row_height(l, section);
  return CAPL_OK;
}

static capl_status draw_sections(layout *l)
{
  l->y = PAD;
  if (has_title(l->sheet)) {
    canvas_text(&l->paper, PAD, PAD + 16, cairo_image_surface_get_width(l->paper.surface) - 2 * PAD, TEXT_LEFT,
                title_size, COLOUR_TEXT, l->sheet->title);
    l->y += TITLE_ROW;
  }
  for (int k = 0; k < SECTIONS; k++) CAPL_TRY(draw_section(l, k));
  return CAPL_OK;
}

static int natural_width(layout *l)
{
  double width = 2 * PAD - GAP + l->columns * (l->cell_w + GAP);
  double title = 2 * PAD + text_or_nothing(&l->paper, title_size, l->sheet->title) + 1;
  if (has_headings(l)) width = fmax(width, HEADING_WIDTH);
  return (int)fmax(width, fmin(title, NATURAL_WIDTH));
}

/* Texts are measured on paper of one pixel: the size of the real one depends on them. */
static capl_status make_layout(layout *l)
{
  CAPL_TRY(canvas_begin(&l->paper, l->sheet->font, 1, 1));
  measure_images(l);
  measure_texts(l);
  count_sections(l);
  choose_columns(l);
  l->width = natural_width(l);
  return canvas_end(&l->paper, CAPL_OK, NULL);
}

capl_status draw_sheet(const report_sheet *sheet, report_picture *out)
{
  layout l = {.sheet = sheet};
  *out = (report_picture){0};
  CAPL_TRY(check_sheet(sheet));
  CAPL_TRY(make_layout(&l));
  int64_t height = natural_height(&l);
  if (height > REPORT_MAX_SIDE || l.width > REPORT_MAX_SIDE) {
    CAPL_FAIL(CAPL_EVALUE, "%d cells in %d columns make a picture of %d x %lld px; the limit is %d px per side",
              sheet->n_cells, l.columns, l.width, (long long)height, REPORT_MAX_SIDE);
    capl_error_hint("give fewer cells, or another number of columns");
    return CAPL_EVALUE;
  }
  CAPL_TRY(canvas_begin(&l.paper, sheet->font, l.width, (int)height));
  return canvas_end(&l.paper, draw_sections(&l), out);
}
