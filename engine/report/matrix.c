/* matrix.c -- a confusion matrix: how often each thing was taken for each, beside it samples of the worst of it.
**
** Right ones are blue, wrong ones red, each by its share of the row; the colour of a small share is stretched, as one
** in a hundred has to be seen. Left the matrix, right the groups of samples.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/drawing.h"

enum {
  PAD = 18,           /* px around everything */
  TITLE_ROW = 36,
  HEAD_ROW = 20,      /* what rows and columns are */
  MATRIX_SIDE = 900,  /* cells are as large as fits, from LEAST to MOST */
  LEAST_CELL = 5,
  MOST_CELL = 44,
  NUMBER_CELL = 24,   /* smaller ones hold no number */
  GAP = 30,           /* between matrix and groups */
  GROUP_ROW = 20,
  GROUP_GAP = 8,
  SAMPLE_GAP = 8,
  SAMPLE_WIDTH = 128, /* of a sample at most */
  SAMPLE_HEIGHT = 48,
  LEAST_GROUP = 240,
  LABEL_ROOM = 140,   /* px of the longest label that is shown whole */
};

static const double title_size = 17, head_size = 12, most_label = 13, number_share = 0.46;

typedef struct {
  canvas paper;
  const report_matrix *matrix;
  int cell;           /* px */
  double label_size;  /* of the font */
  int label_w;        /* px of the longest label */
  int label_h;        /* px above the columns: labels of one character stand, longer ones lie */
  bool upright;
  int left, top;      /* of the first cell */
  int groups_x;
} layout;

/* ---- layout ---------------------------------------------------------------------------------- */

static bool is_text(const char *text)
{
  return text && *text;
}

static pixel_image image_of(const report_cell *cell)
{
  return (pixel_image){cell->pixels, cell->width, cell->height, cell->channels};
}

static capl_status check_group(const report_group *group, int number)
{
  for (int i = 0; i < group->n_cells; i++) {
    char what[48];
    pixel_image image = image_of(&group->cells[i]);
    snprintf(what, sizeof what, "group %d, sample %d", number, i + 1);
    CAPL_TRY(check_pixels(&image, what));
  }
  return CAPL_OK;
}

static capl_status check_matrix(const report_matrix *m)
{
  if (m->n < 1 || m->n > REPORT_MAX_LABELS)
    return CAPL_FAIL(CAPL_EVALUE, "a matrix has 1 to %d labels, not %d", REPORT_MAX_LABELS, m->n);
  if (m->n_groups > REPORT_MAX_GROUPS)
    return CAPL_FAIL(CAPL_EVALUE, "at most %d groups of samples are shown, not %d", REPORT_MAX_GROUPS, m->n_groups);
  for (int64_t i = 0; i < (int64_t)m->n * m->n; i++)
    if (!(m->counts[i] >= 0 && m->counts[i] < 1e300))
      return CAPL_FAIL(CAPL_EVALUE, "count %lld of the matrix is %g; counts are from 0 on", (long long)i + 1,
                       m->counts[i]);
  for (int i = 0; i < m->n_groups; i++) CAPL_TRY(check_group(&m->groups[i], i + 1));
  return CAPL_OK;
}

static void measure_labels(layout *l)
{
  double widest = 0;
  l->cell = MATRIX_SIDE / l->matrix->n;
  if (l->cell < LEAST_CELL) l->cell = LEAST_CELL;
  if (l->cell > MOST_CELL) l->cell = MOST_CELL;
  l->label_size = fmin(most_label, l->cell * 0.8);
  for (int i = 0; i < l->matrix->n; i++)
    if (is_text(l->matrix->labels[i]))
      widest = fmax(widest, canvas_text_width(&l->paper, l->label_size, l->matrix->labels[i]));
  l->label_w = (int)fmin(widest, LABEL_ROOM) + 8;
  l->upright = widest > l->cell - 1;
  l->label_h = l->upright ? l->label_w : (int)l->label_size + 6;
}

static int group_width(const layout *l)
{
  int most = 0;
  for (int i = 0; i < l->matrix->n_groups; i++)
    if (l->matrix->groups[i].n_cells > most) most = l->matrix->groups[i].n_cells;
  int width = most * (SAMPLE_WIDTH + SAMPLE_GAP) - SAMPLE_GAP;
  return width > LEAST_GROUP ? width : LEAST_GROUP;
}

static int group_height(const report_group *group)
{
  return GROUP_ROW + (group->n_cells > 0 ? SAMPLE_HEIGHT + GROUP_GAP : 0);
}

static void place_all(layout *l, int *width, int *height)
{
  const report_matrix *m = l->matrix;
  int groups = 0, titled = is_text(m->title) ? TITLE_ROW : 0;
  for (int i = 0; i < m->n_groups; i++) groups += group_height(&m->groups[i]);
  l->left = PAD + (is_text(m->row_label) ? HEAD_ROW : 0) + l->label_w;
  l->top = PAD + titled + (is_text(m->column_label) ? HEAD_ROW : 0) + l->label_h;
  l->groups_x = l->left + m->n * l->cell + GAP;
  *width = m->n_groups > 0 ? l->groups_x + group_width(l) + PAD : l->left + m->n * l->cell + PAD;
  if (*width < 360) *width = 360;
  *height = l->top + m->n * l->cell + PAD;
  if (*height < PAD + titled + groups + PAD) *height = PAD + titled + groups + PAD;
}

/* ---- the matrix ------------------------------------------------------------------------------ */

/* "41", "1.2k", "37M": at most four characters. */
static void short_number(double count, char text[16])
{
  static const char *const units[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  while (count >= 999.5 && unit < 4) count /= 1000, unit++;
  bool decimal = unit > 0 && count < 9.95;
  snprintf(text, 16, decimal ? "%.1f%s" : "%.0f%s", count, units[unit]);
}

static void draw_cell(layout *l, int row, int column, double row_sum)
{
  char text[16];
  double count = l->matrix->counts[(size_t)row * (size_t)l->matrix->n + (size_t)column];
  double x = l->left + column * l->cell, y = l->top + row * l->cell;
  if (count <= 0) return;
  double share = row_sum > 0 ? count / row_sum : 0,
      strength = row == column ? 0.15 + 0.7 * share : 0.12 + 0.88 * sqrt(share);
  canvas_colour(&l->paper, row == column ? COLOUR_BLUE : COLOUR_RED, strength);
  cairo_rectangle(l->paper.cr, x + 0.5, y + 0.5, l->cell - 1, l->cell - 1);
  cairo_fill(l->paper.cr);
  if (l->cell < NUMBER_CELL) return;
  short_number(count, text);
  double size = fmin(12, l->cell * number_share), width = canvas_text_width(&l->paper, size, text);
  if (width > l->cell - 2) size *= (l->cell - 2) / width;
  canvas_text(&l->paper, x + l->cell / 2.0, y + l->cell / 2.0 + size * 0.36, l->cell + 4, TEXT_CENTRE, size,
              strength > (row == column ? 0.6 : 0.8) ? COLOUR_PAPER : COLOUR_TEXT, text);
}

static void draw_grid(layout *l)
{
  int side = l->matrix->n * l->cell;
  canvas_fill(&l->paper, 0xf6f6f6, l->left, l->top, side, side);
  if (l->cell < 8) return;
  for (int i = 0; i <= l->matrix->n; i++) {
    canvas_fill(&l->paper, COLOUR_GRID, l->left, l->top + i * l->cell, side, 1);
    canvas_fill(&l->paper, COLOUR_GRID, l->left + i * l->cell, l->top, 1, side);
  }
}

/* Labels that would overlap are left out, every second one or more. */
static int label_step(const layout *l)
{
  int step = (int)ceil(7.0 / l->cell);
  return step < 1 ? 1 : step;
}

static void draw_column_label(layout *l, int column)
{
  const char *label = l->matrix->labels[column];
  double x = l->left + (column + 0.5) * l->cell, y = l->top - 5;
  if (!l->upright) {
    canvas_text(&l->paper, x, y, l->cell + 6, TEXT_CENTRE, l->label_size, COLOUR_TEXT, label);
    return;
  }
  cairo_save(l->paper.cr);
  cairo_translate(l->paper.cr, x + l->label_size * 0.36, y);
  cairo_rotate(l->paper.cr, -1.57079632679489662);
  canvas_text(&l->paper, 0, 0, LABEL_ROOM, TEXT_LEFT, l->label_size, COLOUR_TEXT, label);
  cairo_restore(l->paper.cr);
}

static void draw_labels(layout *l)
{
  for (int i = 0; i < l->matrix->n; i += label_step(l)) {
    double y = l->top + (i + 0.5) * l->cell + l->label_size * 0.36;
    canvas_text(&l->paper, l->left - 6, y, LABEL_ROOM, TEXT_RIGHT, l->label_size, COLOUR_TEXT, l->matrix->labels[i]);
    draw_column_label(l, i);
  }
}

static void draw_heads(layout *l)
{
  const report_matrix *m = l->matrix;
  if (is_text(m->column_label))
    canvas_text(&l->paper, l->left, l->top - l->label_h - 4, m->n * l->cell + GAP, TEXT_LEFT, head_size, COLOUR_QUIET,
                m->column_label);
  if (!is_text(m->row_label)) return;
  cairo_save(l->paper.cr);
  cairo_translate(l->paper.cr, PAD + 10, l->top + m->n * l->cell);
  cairo_rotate(l->paper.cr, -1.57079632679489662);
  canvas_text(&l->paper, 0, 0, m->n * l->cell + l->label_h, TEXT_LEFT, head_size, COLOUR_QUIET, m->row_label);
  cairo_restore(l->paper.cr);
}

static void draw_cells(layout *l)
{
  int n = l->matrix->n;
  for (int row = 0; row < n; row++) {
    double sum = 0;
    for (int column = 0; column < n; column++) sum += l->matrix->counts[(size_t)row * (size_t)n + (size_t)column];
    for (int column = 0; column < n; column++) draw_cell(l, row, column, sum);
  }
}

/* ---- groups of samples ----------------------------------------------------------------------- */

static capl_status draw_sample(layout *l, const report_cell *cell, int x, int y)
{
  pixel_image image = image_of(cell);
  double zoom = fmin((double)SAMPLE_WIDTH / cell->width, (double)SAMPLE_HEIGHT / cell->height);
  if (zoom > 1) zoom = floor(zoom); /* pixels stay pixels */
  double width = fmax(1, floor(cell->width * zoom)), height = fmax(1, floor(cell->height * zoom));
  canvas_fill(&l->paper, COLOUR_GRID, x - 1, y - 1, width + 2, height + 2);
  return draw_pixels(&l->paper, &image, x, y, width, height);
}

static capl_status draw_groups(layout *l, int y)
{
  const report_matrix *m = l->matrix;
  for (int i = 0; i < m->n_groups; i++) {
    const report_group *group = &m->groups[i];
    canvas_text(&l->paper, l->groups_x, y + 13, group_width(l), TEXT_LEFT, most_label, COLOUR_TEXT, group->title);
    for (int k = 0; k < group->n_cells; k++)
      CAPL_TRY(draw_sample(l, &group->cells[k], l->groups_x + k * (SAMPLE_WIDTH + SAMPLE_GAP), y + GROUP_ROW));
    y += group_height(group);
  }
  return CAPL_OK;
}

static capl_status draw_all(layout *l, int width)
{
  int y = PAD;
  if (is_text(l->matrix->title)) {
    canvas_text(&l->paper, PAD, PAD + 16, width - 2 * PAD, TEXT_LEFT, title_size, COLOUR_TEXT, l->matrix->title);
    y += TITLE_ROW;
  }
  draw_grid(l);
  draw_cells(l);
  draw_labels(l);
  draw_heads(l);
  return draw_groups(l, y);
}

capl_status draw_matrix(const report_matrix *matrix, report_picture *out)
{
  layout l = {.matrix = matrix};
  int width, height;
  *out = (report_picture){0};
  CAPL_TRY(check_matrix(matrix));
  CAPL_TRY(canvas_begin(&l.paper, matrix->font, 1, 1)); /* labels are measured before there is paper for them */
  measure_labels(&l);
  CAPL_TRY(canvas_end(&l.paper, CAPL_OK, NULL));
  place_all(&l, &width, &height);
  CAPL_TRY(canvas_begin(&l.paper, matrix->font, width, height));
  return canvas_end(&l.paper, draw_all(&l, width), out);
}
