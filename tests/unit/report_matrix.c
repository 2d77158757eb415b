/* report_matrix.c -- confusion matrices: right is blue, wrong is red, by their share of a row; what makes no matrix.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/report.h"

#include <stdlib.h>

#include "unit.h"

enum { CELL = 44, PAD = 18 };

static const report_drawing *drawing;
static const char *const labels[] = {"0", "O", "1"};

static int open_drawing(void **state)
{
  (void)state;
  return report_open(&drawing) == CAPL_OK ? 0 : -1;
}

static report_picture draw(const report_matrix *matrix)
{
  report_picture picture;
  assert_ok(drawing->matrix(matrix, &picture));
  return picture;
}

/* How many pixels of the picture are rather red (sign 1) or rather blue (sign -1). */
static int tinted(const report_picture *p, int sign)
{
  int n = 0;
  for (int i = 0; i < p->width * p->height; i++) n += sign * (p->pixels[3 * i] - p->pixels[3 * i + 2]) > 20;
  return n;
}

static void right_cells_are_blue_and_wrong_ones_red(void **state)
{
  (void)state;
  const double right[] = {9, 0, 0, 0, 9, 0, 0, 0, 9}, wrong[] = {0, 9, 0, 9, 0, 0, 0, 0, 0};
  report_picture p = draw(&(report_matrix){.labels = labels, .n = 3, .counts = right});
  assert_true(tinted(&p, -1) > 3 * CELL * CELL / 2 && tinted(&p, 1) == 0);
  report_picture_fini(&p);
  p = draw(&(report_matrix){.labels = labels, .n = 3, .counts = wrong});
  assert_true(tinted(&p, 1) > CELL * CELL && tinted(&p, -1) == 0);
  report_picture_fini(&p);
}

static void a_count_is_as_strong_as_its_share_of_the_row(void **state)
{
  (void)state;
  const double few[] = {99, 1, 0, 0, 1, 0, 0, 0, 1}, many[] = {1, 99, 0, 0, 1, 0, 0, 0, 1};
  const double more[] = {5, 495, 0, 0, 1, 0, 0, 0, 1};
  int64_t sum[3] = {0, 0, 0};
  const double *const counts[] = {few, many, more};
  for (int k = 0; k < 3; k++) {
    report_picture p = draw(&(report_matrix){.labels = labels, .n = 3, .counts = counts[k]});
    for (int i = 0; i < p.width * p.height; i++) {
      int red = p.pixels[3 * i] - p.pixels[3 * i + 2];
      if (red > 20) sum[k] += red;
    }
    report_picture_fini(&p);
  }
  assert_true(sum[0] > 0);           /* one in a hundred is seen */
  assert_true(sum[1] > 2 * sum[0]);
  assert_true(sum[2] > sum[1] * 3 / 4 && sum[2] < sum[1] * 5 / 4);
}

static void samples_stand_beside_the_matrix(void **state)
{
  (void)state;
  static uint8_t red[20 * 10 * 3];
  for (size_t i = 0; i < sizeof red; i += 3) red[i] = 255;
  const double counts[] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  const report_cell cell = {.pixels = red, .width = 20, .height = 10, .channels = 3}, cells[] = {cell, cell};
  const report_group group = {.title = "0 read as O: 2", .cells = cells, .n_cells = 2};
  report_picture alone = draw(&(report_matrix){.labels = labels, .n = 3, .counts = counts});
  report_picture p = draw(&(report_matrix){.labels = labels, .n = 3, .counts = counts, .groups = &group,
                                           .n_groups = 1});
  assert_true(p.width > alone.width && tinted(&alone, 1) == 0);
  assert_int_equal(tinted(&p, 1), 2 * (20 * 4) * (10 * 4)); /* enlarged by a whole factor into 128 x 48 px */
  report_picture_fini(&alone);
  report_picture_fini(&p);
}

static void every_size_is_drawn_long_labels_and_large_counts_too(void **state)
{
  (void)state;
  enum { MOST = REPORT_MAX_LABELS };
  static double counts[MOST * MOST];
  static const char *names[MOST];
  for (int i = 0; i < MOST; i++)
    names[i] = i % 7 ? "x" : "a label that is far too long to be shown whole, and \xff is no UTF-8";
  for (int i = 0; i < MOST * MOST; i++) counts[i] = i % 3 == 0 ? 1e12 / (1 + i) : 0;
  for (int n = 1; n <= MOST; n = 2 * n + 1) {
    report_picture p = draw(&(report_matrix){
      .title = "all", .row_label = "meant", .column_label = "read", .labels = names, .n = n, .counts = counts});
    assert_true(p.width >= n * 5 && p.height >= n * 5);
    report_picture_fini(&p);
  }
}

/* Whether one of the next pixels at a side is blue. */
static bool is_blue_beside(const uint8_t *rgb, int side)
{
  for (int d = 1; d < 6; d++)
    if (rgb[2 + 3 * side * d] - rgb[3 * side * d] > 60) return true;
  return false;
}

/* Rows from the first to the last with a light pixel between blue ones: the height of a number in a blue cell. */
static int number_height(const report_picture *p)
{
  int first = -1, last = -1;
  for (int y = 0; y < p->height; y++)
    for (int x = 6; x + 6 < p->width; x++) {
      const uint8_t *rgb = p->pixels + 3 * ((size_t)y * (size_t)p->width + (size_t)x);
      if (rgb[0] < 150 || !is_blue_beside(rgb, -1) || !is_blue_beside(rgb, 1)) continue;
      last = y, first = first < 0 ? y : first;
    }
  return last - first + 1;
}

static void numbers_of_a_large_charset_can_be_read(void **state)
{
  (void)state;
  enum { N = 36 };
  const char *names[N];
  static double counts[N * N];
  for (int i = 0; i < N; i++) names[i] = labels[i % 3];
  counts[5 * N + 5] = 888;
  report_picture p = draw(&(report_matrix){.labels = names, .n = N, .counts = counts});
  assert_in_range(number_height(&p), 8, 12);
  report_picture_fini(&p);
}

static void what_is_no_matrix_is_refused(void **state)
{
  (void)state;
  const double counts[] = {1, -1, 0, 0};
  report_picture p;
  report_matrix matrix = {.labels = labels, .counts = counts};
  assert_fails(drawing->matrix(&matrix, &p), CAPL_EVALUE, "a matrix has 1 to 200 labels, not 0");
  matrix.n = 2;
  assert_fails(drawing->matrix(&matrix, &p), CAPL_EVALUE, "count 2 of the matrix is -1; counts are from 0 on");
  const report_cell none = {.width = 3, .height = 3, .channels = 1};
  const report_group group = {.cells = &none, .n_cells = 1};
  matrix = (report_matrix){.labels = labels, .n = 1, .counts = counts, .groups = &group, .n_groups = 1};
  assert_fails(drawing->matrix(&matrix, &p), CAPL_EVALUE, "group 1, sample 1: an image of 3 x 3 px without pixels");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(right_cells_are_blue_and_wrong_ones_red),
    cmocka_unit_test(a_count_is_as_strong_as_its_share_of_the_row),
    cmocka_unit_test(samples_stand_beside_the_matrix),
    cmocka_unit_test(every_size_is_drawn_long_labels_and_large_counts_too),
    cmocka_unit_test(numbers_of_a_large_charset_can_be_read),
    cmocka_unit_test(what_is_no_matrix_is_refused),
  };
  return cmocka_run_group_tests(tests, open_drawing, NULL);
}
