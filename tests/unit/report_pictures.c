/* report_pictures.c -- charts and sheets: what is drawn is where it belongs, and nothing odd breaks them.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/report.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

enum { RED = 0xd55e00, GREEN = 0x009e73, AXIS = 0x8a8a8a, WHITE = 0xffffff };

static const report_drawing *drawing;

static int open_drawing(void **state)
{
  (void)state;
  return report_open(&drawing) == CAPL_OK ? 0 : -1;
}

static uint32_t pixel(const report_picture *p, int x, int y)
{
  const uint8_t *at = p->pixels + 3 * ((size_t)y * (size_t)p->width + (size_t)x);
  return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

/* Pixels of a colour, and the box around them. */
typedef struct {
  int n, x0, y0, x1, y1;
} spots;

static void add_spot(spots *s, int x, int y)
{
  s->n++;
  if (x < s->x0) s->x0 = x;
  if (x > s->x1) s->x1 = x;
  if (y < s->y0) s->y0 = y;
  if (y > s->y1) s->y1 = y;
}

static spots find(const report_picture *p, uint32_t colour, int x0, int x1)
{
  spots s = {0, p->width, p->height, -1, -1};
  for (int y = 0; y < p->height; y++)
    for (int x = x0; x < x1 && x < p->width; x++)
      if (pixel(p, x, y) == colour) add_spot(&s, x, y);
  return s;
}

/* The first line, paler where it lies between two pixels: nothing else is blue. */
static spots find_line(const report_picture *p, int x0, int x1)
{
  spots s = {0, p->width, p->height, -1, -1};
  for (int y = 0; y < p->height; y++)
    for (int x = x0; x < x1 && x < p->width; x++) {
      uint32_t rgb = pixel(p, x, y);
      if ((int)(rgb & 255) - (int)(rgb >> 16) > 60) add_spot(&s, x, y);
    }
  return s;
}

/* The corners of the only panel: its axes are the longest lines of their colour. */
static spots find_axes(const report_picture *p)
{
  int *columns = calloc((size_t)p->width, sizeof(int)), *rows = calloc((size_t)p->height, sizeof(int)), left = 0,
  bottom = 0;
  for (int y = 0; y < p->height; y++)
    for (int x = 0; x < p->width; x++)
      if (pixel(p, x, y) == AXIS) columns[x]++, rows[y]++;
  for (int x = 0; x < p->width; x++) left = columns[x] > columns[left] ? x : left;
  for (int y = 0; y < p->height; y++) bottom = rows[y] > rows[bottom] ? y : bottom;
  spots axes = {1, left, bottom, left, bottom};
  for (int y = bottom; y >= 0; y--) axes.y0 = pixel(p, left, y) == AXIS ? y : axes.y0;
  for (int x = left; x < p->width; x++) axes.x1 = pixel(p, x, bottom) == AXIS ? x : axes.x1;
  free(columns);
  free(rows);
  return axes;
}

/* ---- charts ---------------------------------------------------------------------------------- */

static const double ten[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

static report_panel panel_of(const report_series *series, int n)
{
  return (report_panel){.y_label = "value", .min = NAN, .max = NAN, .series = series, .n_series = n};
}

static report_chart chart_of(const report_panel *panels, int n)
{
  return (report_chart){.title = "title", .x_label = "x", .width = 400, .panels = panels, .n_panels = n};
}

/* Draws one series of ten values in a panel from 0 to 10; *plot gets the corners of the axes. */
static void draw_ten(const double *y, report_picture *out, spots *plot)
{
  report_series series = {.x = ten, .y = y, .n = 10};
  report_panel panel = panel_of(&series, 1);
  panel.min = 0, panel.max = 10;
  report_chart chart = chart_of(&panel, 1);
  assert_ok(drawing->lines(&chart, out));
  *plot = find_axes(out);
}

static void a_line_is_where_its_values_say(void **state)
{
  (void)state;
  static const double half[] = {5, 5, 5, 5, 5, 5, 5, 5, 5, 5};
  report_picture p;
  spots plot;
  draw_ten(half, &p, &plot);
  assert_int_equal(p.width, 400);
  int middle = (plot.y0 + plot.y1) / 2;
  spots line = find_line(&p, plot.x0 + 5, plot.x0 + 20); /* between two dots */
  assert_true(line.n >= 15 && line.y0 >= middle - 1 && line.y1 <= middle + 1);
  spots whole = find_line(&p, 0, p.width);
  assert_true(whole.x0 <= plot.x0 + 1 && whole.x1 >= plot.x1 - 1);
  report_picture_fini(&p);
}

static void a_rising_line_rises(void **state)
{
  (void)state;
  report_picture p;
  spots plot;
  draw_ten(ten, &p, &plot);
  for (int k = 0; k < 10; k++) { /* y == x == k: a dot at k ninths of the width and k tenths of the height */
    int x = plot.x0 + (plot.x1 - plot.x0) * k / 9, y = plot.y1 - (plot.y1 - plot.y0) * k / 10;
    spots near = find_line(&p, x - 1, x + 2);
    if (near.n == 0 || near.y0 > y + 1 || near.y1 < y - 1)
      fail_msg("value %d is drawn at %d..%d, not %d", k, near.y0, near.y1, y);
  }
  report_picture_fini(&p);
}

static void gaps_stay_white_and_single_points_are_dots(void **state)
{
  (void)state;
  static const double gaps[] = {5, 5, NAN, INFINITY, -1e301, 5, NAN, NAN, 5, 5};
  report_picture p;
  spots plot;
  draw_ten(gaps, &p, &plot);
  int step = (plot.x1 - plot.x0) / 9, x0 = plot.x0;
  assert_int_equal(find_line(&p, x0 + step + 5, x0 + 5 * step - 5).n, 0);
  spots dot = find_line(&p, x0 + 5 * step - 5, x0 + 5 * step + 10);
  assert_true(dot.n >= 9 && dot.x1 - dot.x0 <= 6 && dot.y1 - dot.y0 <= 6);
  report_picture_fini(&p);
}

static void values_outside_the_limits_are_cut_off(void **state)
{
  (void)state;
  static const double wild[] = {5, 5, 1e299, 5, -1e299, 5, 5, 5, 5, 5};
  report_picture p;
  spots plot;
  draw_ten(wild, &p, &plot);
  spots line = find_line(&p, 0, p.width);
  if (line.n == 0 || line.y0 < plot.y0 - 4 || line.y1 > plot.y1 + 4)
    fail_msg("the line reaches from %d to %d, its axis from %d to %d", line.y0, line.y1, plot.y0, plot.y1);
  report_picture_fini(&p);
}

static void a_smooth_line_lies_among_its_values(void **state)
{
  (void)state;
  static const double zigzag[] = {3, 7, 3, 7, 3, 7, 3, 7, 3, 7};
  report_series series = {.x = ten, .y = zigzag, .n = 10, .smooth = 0.9};
  report_panel panel = panel_of(&series, 1);
  panel.min = 0, panel.max = 10;
  report_chart chart = chart_of(&panel, 1);
  report_picture p;
  assert_ok(drawing->lines(&chart, &p));
  spots plot = find_axes(&p), line = find_line(&p, plot.x0 + 60, plot.x1 - 60);
  int height = plot.y1 - plot.y0;
  assert_true(line.n > 0 && line.y0 > plot.y0 + height * 4 / 10 && line.y1 < plot.y0 + height * 6 / 10);
  report_picture_fini(&p);
}

static void a_smooth_line_keeps_to_a_straight_one(void **state)
{
  (void)state;
  report_series series = {.x = ten, .y = ten, .n = 10, .smooth = 0.8};
  report_panel panel = panel_of(&series, 1);
  panel.min = 0, panel.max = 10;
  report_chart chart = chart_of(&panel, 1);
  report_picture p;
  assert_ok(drawing->lines(&chart, &p));
  spots plot = find_axes(&p);
  for (int k = 0; k < 10; k++) { /* at the ends too, where all neighbours are on one side */
    int x = plot.x0 + (plot.x1 - plot.x0) * k / 9, y = plot.y1 - (plot.y1 - plot.y0) * k / 10;
    spots near = find_line(&p, x - 1, x + 2);
    if (near.n == 0 || near.y0 < y - 4 || near.y1 > y + 4)
      fail_msg("value %d is drawn at %d..%d, not %d", k, near.y0, near.y1, y);
  }
  report_picture_fini(&p);
}

static void a_series_without_values_or_a_panel_without_series_is_drawn(void **state)
{
  (void)state;
  report_series series[] = {{.name = "none"}, {.name = "one", .x = ten, .y = ten + 5, .n = 1}};
  report_panel panels[] = {panel_of(series, 1), panel_of(series, 2), panel_of(NULL, 0)};
  report_chart chart = chart_of(panels, 3);
  report_picture p;
  assert_ok(drawing->lines(&chart, &p));
  assert_true(find(&p, RED, 0, p.width).n > 9); /* the dot, and its line in the legend */
  report_picture_fini(&p);
}

static void drawing_again_gives_the_same_pixels(void **state)
{
  (void)state;
  report_picture a, b;
  spots plot;
  draw_ten(ten, &a, &plot);
  draw_ten(ten, &b, &plot);
  assert_int_equal(a.height, b.height);
  assert_memory_equal(a.pixels, b.pixels, (size_t)a.width * (size_t)a.height * 3);
  report_picture_fini(&a);
  report_picture_fini(&b);
}

static capl_status lines_with(void (*change)(report_chart *, report_panel *, report_series *))
{
  static const double more[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  static const double broken[] = {0, 1, NAN};
  report_series series = {.name = "s", .x = ten, .y = more, .n = 10};
  report_panel panel = panel_of(&series, 1);
  report_chart chart = chart_of(&panel, 1);
  report_picture p;
  if (change) change(&chart, &panel, &series);
  else series.x = broken, series.n = 3;
  capl_status status = drawing->lines(&chart, &p);
  if (status == CAPL_OK) report_picture_fini(&p);
  return status;
}

#define CHANGE(name, what)                                                        \
  static void name(report_chart *chart, report_panel *panel, report_series *series) \
  {                                                                               \
    (void)chart, (void)panel, (void)series;                                       \
    what;                                                                         \
  }
CHANGE(no_panels, chart->n_panels = 0)
CHANGE(narrow, chart->width = 100)
CHANGE(wide, chart->width = 20000)
CHANGE(tall, chart->height = 20000)
CHANGE(flat, chart->height = 60)
CHANGE(limits_swapped, (panel->min = 2, panel->max = 1))
CHANGE(limits_infinite, panel->max = INFINITY)
CHANGE(limits_log, (panel->log = true, panel->min = 0))
CHANGE(many_series, panel->n_series = 22)
CHANGE(no_values, series->y = NULL)
CHANGE(smooth_one, series->smooth = 1)
CHANGE(font_missing, chart->font = "/no/such.ttf")
CHANGE(font_no_font, chart->font = "/etc/passwd")

static void wrong_charts_are_refused_by_name(void **state)
{
  (void)state;
  assert_fails(lines_with(no_panels), CAPL_EVALUE, "a chart has 1 to 32 panels, not 0");
  assert_fails(lines_with(narrow), CAPL_EVALUE, "the width of a chart is 240 to 16384 px, not 100");
  assert_fails(lines_with(wide), CAPL_EVALUE, "the width of a chart is 240 to 16384 px, not 20000");
  assert_fails(lines_with(tall), CAPL_EVALUE,
               "a picture of 400 x 20000 px; the limit is 16384 px per side and 64 megapixels");
  assert_fails(lines_with(flat), CAPL_EVALUE, "a height of 60 px is too little for 1 panels; at least 164");
  assert_fails(lines_with(limits_swapped), CAPL_EVALUE, "panel 1: min = 2 is not below max = 1");
  assert_fails(lines_with(limits_infinite), CAPL_EVALUE, "panel 1: min and max are finite numbers up to 1e+300");
  assert_fails(lines_with(limits_log), CAPL_EVALUE, "panel 1: limits of a log axis are above 0, not 0");
  assert_fails(lines_with(many_series), CAPL_EVALUE, "panel 1 has 22 series; at most 21 can be distinguished");
  assert_fails(lines_with(no_values), CAPL_EVALUE, "panel 1, series 1 has no values");
  assert_fails(lines_with(smooth_one), CAPL_EVALUE, "panel 1, series 1: smooth is at least 0 and less than 1, not 1");
  assert_fails(lines_with(NULL), CAPL_EVALUE, "panel 1, series 1: x[3] is no finite number; only y may have gaps");
}

static void a_missing_font_names_its_package(void **state)
{
  (void)state;
  assert_fails(lines_with(font_missing), CAPL_EIO, "cannot open the font /no/such.ttf: No such file or directory");
  assert_non_null(strstr(capl_error_last()->hint, "install the Debian package fonts-noto-mono"));
  assert_fails(lines_with(font_no_font), CAPL_EFORMAT, "/etc/passwd is not a font FreeType can read");
}

/* ---- sheets ---------------------------------------------------------------------------------- */

static const uint8_t checks[] = {0, 200, 200, 0}; /* 2 x 2 */

static report_cell cell_of(report_mark mark)
{
  return (report_cell){.pixels = checks, .width = 2, .height = 2, .channels = 1, .caption = "7K0Q", .mark = mark};
}

static void draw_cells(const report_cell *cells, int n, report_picture *out)
{
  report_sheet sheet = {.cells = cells, .n_cells = n};
  assert_ok(drawing->sheet(&sheet, out));
}

static void small_images_are_enlarged_to_sharp_squares_in_a_frame(void **state)
{
  (void)state;
  report_cell cell = cell_of(REPORT_GOOD);
  report_picture p;
  draw_cells(&cell, 1, &p);
  spots frame = find(&p, GREEN, 0, p.width);
  assert_int_equal(frame.x1 - frame.x0 + 1, 2 * 12 + 6); /* twelvefold, and 3 px on each side */
  assert_int_equal(frame.y1 - frame.y0 + 1, 2 * 12 + 6);
  assert_int_equal(frame.n, 30 * 30 - 24 * 24);
  for (int y = 0; y < 24; y++)
    for (int x = 0; x < 24; x++) {
      uint32_t level = checks[y / 12 * 2 + x / 12];
      assert_int_equal(pixel(&p, frame.x0 + 3 + x, frame.y0 + 3 + y), level * 0x10101);
    }
  report_picture_fini(&p);
}

static void colours_of_images_are_kept(void **state)
{
  (void)state;
  uint8_t pixels[200 * 3 * 3];
  for (int i = 0; i < 200 * 3 * 3; i++) pixels[i] = (uint8_t)(i % 3 == 0 ? 10 : i % 3 == 1 ? 150 : 240);
  report_cell cell = {.pixels = pixels, .width = 200, .height = 3, .channels = 3};
  report_picture p;
  draw_cells(&cell, 1, &p);
  assert_int_equal(find(&p, 0x0a96f0, 0, p.width).n, 600);
  report_picture_fini(&p);
}

static void large_images_are_shrunk(void **state)
{
  (void)state;
  uint8_t *pixels = calloc(2000, 3000);
  report_cell cell = {.pixels = pixels, .width = 2000, .height = 3000, .channels = 1};
  report_picture p;
  draw_cells(&cell, 1, &p);
  spots black = find(&p, 0, 0, p.width);
  assert_int_equal(black.x1 - black.x0 + 1, 320);
  assert_int_equal(black.y1 - black.y0 + 1, 480);
  report_picture_fini(&p);
  free(pixels);
}

static void wrong_characters_are_red(void **state)
{
  (void)state;
  report_cell cell = cell_of(REPORT_UNMARKED);
  report_picture right, wrong;
  cell.truth = "7K0Q";
  draw_cells(&cell, 1, &right);
  assert_int_equal(find(&right, RED, 0, right.width).n, 0);
  cell.truth = "7KOQ";
  draw_cells(&cell, 1, &wrong);
  spots red = find(&wrong, RED, 0, wrong.width);
  assert_true(red.n > 10 && red.x0 >= 18 + 2 * 9 && red.x1 < 18 + 3 * 9); /* the third of four, 9 px each */
  assert_int_equal(wrong.height, right.height + 20); /* the truth has a line of its own */
  report_picture_fini(&right);
  report_picture_fini(&wrong);
}

static void bad_ones_come_first_under_a_heading(void **state)
{
  (void)state;
  report_cell cells[] = {cell_of(REPORT_GOOD), cell_of(REPORT_BAD), cell_of(REPORT_GOOD)};
  report_picture p, same;
  draw_cells(cells, 3, &p);
  spots red = find(&p, RED, 0, p.width), green = find(&p, GREEN, 0, p.width);
  assert_true(red.n > 300 && green.n > 2 * 300 && red.y1 < green.y0);
  draw_cells(cells, 1, &same);
  assert_int_equal(find(&same, GREEN, 0, same.width).n, 30 * 30 - 24 * 24); /* no heading's square */
  report_picture_fini(&p);
  report_picture_fini(&same);
}

/* Whether any font of East Asia is there: canvas.c lists them. */
static bool has_east_asian_font(void)
{
  static const char *const paths[] = {
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc", "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc", "/usr/share/fonts/truetype/arphic/uming.ttc"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (access(paths[i], R_OK) == 0) return true;
  return false;
}

static void draw_caption(const char *caption, report_picture *out)
{
  report_cell cell = cell_of(REPORT_UNMARKED);
  cell.caption = caption;
  draw_cells(&cell, 1, out);
}

/* A font that lacks letters draws the same box for each of them. */
static void letters_that_the_font_lacks_come_from_another(void **state)
{
  (void)state;
  report_picture p, q;
  if (!has_east_asian_font()) {
    fprintf(stderr, "######## NO FONT OF EAST ASIA HERE: its letters in pictures are not checked ########\n");
    skip();
  }
  draw_caption("A中é", &p);
  draw_caption("A国é", &q);
  assert_int_equal(p.width, q.width);
  assert_int_equal(p.height, q.height);
  assert_memory_not_equal(p.pixels, q.pixels, 3 * (size_t)p.width * (size_t)p.height);
  report_picture_fini(&p);
  report_picture_fini(&q);
}

static capl_status sheet_with(report_cell cell, int n, int columns)
{
  report_cell cells[4] = {cell, cell, cell, cell};
  report_sheet sheet = {.cells = cells, .n_cells = n, .columns = columns};
  report_picture p;
  capl_status status = drawing->sheet(&sheet, &p);
  if (status == CAPL_OK) report_picture_fini(&p);
  return status;
}

static void wrong_sheets_are_refused_by_name(void **state)
{
  (void)state;
  report_cell cell = cell_of(REPORT_GOOD), two = cell, none = cell, vast = cell, blank = cell;
  two.channels = 2;
  none.width = 0;
  vast.height = 20000;
  blank.pixels = NULL;
  assert_ok(sheet_with(cell, 4, 200));
  assert_fails(sheet_with(cell, 0, 0), CAPL_EVALUE, "a sheet has 1 to 10000 cells, not 0");
  assert_fails(sheet_with(cell, 10001, 0), CAPL_EVALUE, "a sheet has 1 to 10000 cells, not 10001");
  assert_fails(sheet_with(cell, 4, -1), CAPL_EVALUE, "a sheet has 1 to 200 columns, not -1");
  assert_fails(sheet_with(two, 4, 0), CAPL_EVALUE, "cell 1: an image of 2 channels, not 1 or 3");
  assert_fails(sheet_with(none, 4, 0), CAPL_EVALUE, "cell 1: an image of 0 x 2 px");
  assert_fails(sheet_with(blank, 4, 0), CAPL_EVALUE, "cell 1: an image of 2 x 2 px without pixels");
  assert_fails(sheet_with(vast, 4, 0), CAPL_EVALUE, "cell 1: an image of 2 x 20000 px; the limit is 16384 px per side");
}

static void a_sheet_too_long_is_refused(void **state)
{
  (void)state;
  static report_cell cells[1000];
  for (int i = 0; i < 1000; i++) cells[i] = cell_of(REPORT_GOOD);
  report_sheet sheet = {.cells = cells, .n_cells = 1000, .columns = 1};
  report_picture p;
  assert_fails(drawing->sheet(&sheet, &p), CAPL_EVALUE,
               "1000 cells in 1 columns make a picture of 108 x 68022 px; the limit is 16384 px per side");
}

/* ---- odd input ------------------------------------------------------------------------------- */

static const char *const odd_texts[] = {
  NULL, "", " ", "x", "Gr\xc3\xbc\xc3\x9f" "e", "\xd0\x9f\xd1\x80\xd0\xb8", "\xe9\xaa\x8c\xe8\xaf\x81\xe7\xa0\x81",
  "\x1b[31m\n\r\t\x01", "\xff\xfe\xc3", "\xef\xbf\xbf \xef\xb7\x90", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "%s%n%d",
  "e\xcc\x81\xcc\x81\xcc\x81",
};
enum { ODD_TEXTS = sizeof odd_texts / sizeof *odd_texts };
static const double odd_values[] = {0, 1, -1, 1e308, -1e308, 1e300, 1e-308, 5e-324, NAN, INFINITY, -INFINITY, 0.5, 100,
                                    3e38};
enum { ODD_VALUES = sizeof odd_values / sizeof *odd_values };

static char long_text[5000];

static const char *odd_text(void)
{
  int k = rand() % (ODD_TEXTS + 1);
  return k == ODD_TEXTS ? long_text : odd_texts[k];
}

static double odd_value(void)
{
  return rand() % 2 ? odd_values[rand() % ODD_VALUES] : rand() % 1000 / 7.0;
}

/* Drawn, or refused with a reason. */
static void check_outcome(capl_status status, report_picture *p)
{
  if (status == CAPL_OK) assert_true(p->width > 0 && p->height > 0 && pixel(p, 0, 0) == WHITE);
  else if (status == CAPL_EINTERNAL || status == CAPL_ENOMEM) fail_msg("%s", capl_error_last()->message);
  report_picture_fini(p);
}

static void odd_charts_are_drawn_or_refused(void **state)
{
  (void)state;
  double x[50], y[50];
  srand(11);
  for (int round = 0; round < 150; round++) {
    for (int i = 0; i < 50; i++) x[i] = rand() % 10 ? i : odd_value(), y[i] = odd_value();
    report_series series[3];
    report_panel panels[2];
    for (int k = 0; k < 3; k++)
      series[k] = (report_series){.name = odd_text(), .x = rand() % 3 ? ten : x, .y = y + k, .n = rand() % 11,
                                  .smooth = rand() % 2 ? 0 : rand() % 10 / 9.0};
    for (int k = 0; k < 2; k++)
      panels[k] = (report_panel){.y_label = odd_text(), .percent = rand() % 2, .log = rand() % 2, .series = series,
                                 .n_series = rand() % 4, .min = rand() % 2 ? NAN : odd_value(),
                                 .max = rand() % 2 ? NAN : odd_value()};
    report_chart chart = {.title = odd_text(), .x_label = odd_text(), .width = 240 + rand() % 500,
                          .height = rand() % 2 ? 0 : rand() % 700, .panels = panels, .n_panels = 1 + rand() % 2};
    report_picture p = {0};
    check_outcome(drawing->lines(&chart, &p), &p);
  }
}

static void odd_sheets_are_drawn_or_refused(void **state)
{
  (void)state;
  static uint8_t pixels[100 * 100 * 3];
  srand(12);
  for (int round = 0; round < 80; round++) {
    report_cell cells[8];
    for (int k = 0; k < 8; k++)
      cells[k] = (report_cell){.pixels = pixels, .width = 1 + rand() % 100, .height = 1 + rand() % 100,
                               .channels = rand() % 2 ? 1 : 3, .caption = odd_text(), .truth = odd_text(),
                               .note = odd_text(), .mark = (report_mark)(rand() % 3)};
    report_sheet sheet = {.title = odd_text(), .columns = rand() % 10, .cells = cells, .n_cells = 1 + rand() % 8};
    report_picture p = {0};
    check_outcome(drawing->sheet(&sheet, &p), &p);
  }
}

static void dots_have_no_line_between_them(void **state)
{
  (void)state;
  const double x[] = {0, 10, 5}, y[] = {1, 1, 3};
  report_series series = {.x = x, .y = y, .n = 3, .dots = true};
  const report_panel panel = {.min = NAN, .max = NAN, .series = &series, .n_series = 1};
  report_chart chart = {.width = 400, .height = 300, .panels = &panel, .n_panels = 1};
  report_picture p;
  assert_ok(drawing->lines(&chart, &p));
  spots dots = find_line(&p, 0, 400);
  assert_true(dots.n >= 3 * 12 && dots.n < 3 * 40);
  report_picture_fini(&p);
  series.dots = false;
  assert_ok(drawing->lines(&chart, &p));
  assert_true(find_line(&p, 0, 400).n > 200);
  report_picture_fini(&p);
}

static void a_hundred_thousand_points_are_drawn(void **state)
{
  (void)state;
  enum { N = 100000 };
  double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
  srand(13);
  for (int i = 0; i < N; i++) x[i] = rand() % N, y[i] = rand() % 1000; /* x in no order: nothing can be left out */
  report_series series = {.x = x, .y = y, .n = N};
  report_panel panel = panel_of(&series, 1);
  report_chart chart = chart_of(&panel, 1);
  report_picture p = {0};
  check_outcome(drawing->lines(&chart, &p), &p);
  free(x);
  free(y);
}

static void *draw_many(void *arg)
{
  report_cell cell = cell_of(REPORT_GOOD);
  (void)arg;
  for (int i = 0; i < 20; i++) {
    report_sheet sheet = {.cells = &cell, .n_cells = 1};
    report_picture p = {0};
    if (drawing->sheet(&sheet, &p) != CAPL_OK) return "failed";
    report_picture_fini(&p);
  }
  return NULL;
}

static void threads_may_draw_at_once(void **state)
{
  (void)state;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, draw_many, NULL), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
}

int main(void)
{
  memset(long_text, 'W', sizeof long_text - 1);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_line_is_where_its_values_say),
    cmocka_unit_test(a_rising_line_rises),
    cmocka_unit_test(gaps_stay_white_and_single_points_are_dots),
    cmocka_unit_test(values_outside_the_limits_are_cut_off),
    cmocka_unit_test(a_smooth_line_lies_among_its_values),
    cmocka_unit_test(a_smooth_line_keeps_to_a_straight_one),
    cmocka_unit_test(a_series_without_values_or_a_panel_without_series_is_drawn),
    cmocka_unit_test(drawing_again_gives_the_same_pixels),
    cmocka_unit_test(wrong_charts_are_refused_by_name),
    cmocka_unit_test(a_missing_font_names_its_package),
    cmocka_unit_test(small_images_are_enlarged_to_sharp_squares_in_a_frame),
    cmocka_unit_test(colours_of_images_are_kept),
    cmocka_unit_test(large_images_are_shrunk),
    cmocka_unit_test(wrong_characters_are_red),
    cmocka_unit_test(bad_ones_come_first_under_a_heading),
    cmocka_unit_test(letters_that_the_font_lacks_come_from_another),
    cmocka_unit_test(wrong_sheets_are_refused_by_name),
    cmocka_unit_test(a_sheet_too_long_is_refused),
    cmocka_unit_test(odd_charts_are_drawn_or_refused),
    cmocka_unit_test(odd_sheets_are_drawn_or_refused),
    cmocka_unit_test(dots_have_no_line_between_them),
    cmocka_unit_test(a_hundred_thousand_points_are_drawn),
    cmocka_unit_test(threads_may_draw_at_once),
  };
  return cmocka_run_group_tests(tests, open_drawing, NULL);
}
