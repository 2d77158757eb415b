/* data_sheet.c -- tests of drawing on a sheet: what each step covers, and that the bytes are the same everywhere.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

#include <math.h>

#include "synth/sheet.h"

enum { W = 61, H = 37 };

static uint8_t rgb[W * H * 3];
static const captcha_sheet sheet = {W, H, rgb};
static const captcha_colour white = {{255, 255, 255}}, black = {{0, 0, 0}};

static int level(int x, int y)
{
  return rgb[(y * W + x) * 3];
}

static double ink(void)
{
  double sum = 0;
  for (int i = 0; i < W * H; i++) sum += (255 - rgb[i * 3]) / 255.0;
  return sum;
}

static void the_sine_is_one(void **state)
{
  (void)state;
  for (int degrees = -1000; degrees <= 1000; degrees++) {
    double expected = sin(degrees * 3.14159265358979 / 180);
    if (fabs((double)captcha_sine((float)degrees) - expected) > 2e-7) fail_msg("sine of %d", degrees);
  }
}

static void a_line_goes_through_both_ends_and_leaves_no_gap(void **state)
{
  (void)state;
  static const int ends[][4] = {{3, 4, 50, 30}, {50, 30, 3, 4}, {10, 30, 14, 2}, {5, 5, 5, 5}, {40, 3, 2, 33},
                                {0, 9, 60, 9}};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    const int *e = ends[i];
    captcha_sheet_fill(&sheet, white);
    captcha_sheet_line(&sheet, e[0], e[1], e[2], e[3], black);
    assert_int_equal(level(e[0], e[1]), 0);
    assert_int_equal(level(e[2], e[3]), 0);
    int across = abs(e[2] - e[0]), down = abs(e[3] - e[1]);
    assert_int_equal((int)ink(), (across > down ? across : down) + 1);
  }
}

static void a_stroke_covers_its_length_times_its_width(void **state)
{
  (void)state;
  for (int degrees = 0; degrees < 180; degrees += 7) {
    float c = captcha_sine((float)degrees + 90), s = captcha_sine((float)degrees), width0 = 2, width1 = 4;
    captcha_sheet_fill(&sheet, white);
    captcha_sheet_stroke(&sheet, (captcha_spot){30 - 14 * c, 18 - 14 * s}, (captcha_spot){30 + 14 * c, 18 + 14 * s},
                         width0, width1, true, black);
    double expected = 28 * 3 + 3.14159 / 2 * (1 + 4); /* and two round ends */
    if (fabs(ink() - expected) > 2.5) fail_msg("at %d degrees a stroke covers %g px, not %g", degrees, ink(), expected);
  }
}

static void things_outside_the_sheet_are_not_drawn(void **state)
{
  (void)state;
  captcha_letter letter = {.width = 3, .height = 3, .coverage = (uint8_t[25]){[6] = 255, [12] = 255}};
  captcha_pose pose = {.centre = {-30, 90}, .degrees = 20, .squeeze = 0.5f};
  captcha_sheet_fill(&sheet, white);
  captcha_sheet_line(&sheet, -20, -5, -1, 300, black);
  captcha_sheet_ellipse(&sheet, 30, 18, 300, 200, black);
  captcha_sheet_stroke(&sheet, (captcha_spot){-90, -90}, (captcha_spot){-5, 400}, 3, 3, true, black);
  captcha_sheet_letter(&sheet, &letter, -9, 4, black);
  captcha_sheet_letter(&sheet, &letter, 4, 900, black);
  captcha_sheet_posed(&sheet, &letter, &pose, black);
  captcha_sheet_box(&sheet, 70, 0, 90, 90, black);
  captcha_sheet_dot(&sheet, W, 0, black);
  assert_true(ink() == 0);
}

/* A block of ink, posed every way, keeps its area; squeezed, that share of it. */
static void a_posed_letter_keeps_its_ink(void **state)
{
  (void)state;
  enum { SIDE = 14 };
  uint8_t coverage[(SIDE + 2) * (SIDE + 2)] = {0};
  for (int y = 1; y <= SIDE; y++) memset(coverage + y * (SIDE + 2) + 1, 255, SIDE);
  captcha_letter letter = {.width = SIDE, .height = SIDE, .coverage = coverage};
  for (int degrees = -180; degrees <= 180; degrees += 11) {
    captcha_pose pose = {.centre = {30.3f, 18.6f}, .degrees = (float)degrees, .squeeze = degrees < 0 ? 0.6f : 1};
    captcha_sheet_fill(&sheet, white);
    captcha_sheet_posed(&sheet, &letter, &pose, black);
    double expected = SIDE * SIDE * (double)pose.squeeze;
    if (fabs(ink() - expected) > 0.02 * expected)
      fail_msg("at %d degrees %g px of ink, not %g", degrees, ink(), expected);
  }
}

static void a_letter_turns_counter_clockwise(void **state)
{
  (void)state;
  uint8_t coverage[4 * 12] = {0}; /* a bar of 2 x 10 */
  for (int y = 1; y <= 10; y++) coverage[y * 4 + 1] = coverage[y * 4 + 2] = 255;
  captcha_letter letter = {.width = 2, .height = 10, .coverage = coverage};
  captcha_sheet_fill(&sheet, white);
  captcha_sheet_posed(&sheet, &letter, &(captcha_pose){.centre = {30, 18}, .degrees = 45, .squeeze = 1}, black);
  assert_true(level(27, 15) < 60);  /* its upper end leans to the left */
  assert_true(level(32, 20) < 60);
  assert_int_equal(level(32, 15), 255);
}

static void grain_has_the_deviation_asked_for(void **state)
{
  (void)state;
  capl_rng rng;
  capl_rng_init(&rng, 1, 2, 3, 4);
  for (int deviation = 2; deviation <= 30; deviation += 7) {
    captcha_sheet_fill(&sheet, (captcha_colour){{128, 128, 128}});
    captcha_sheet_grain(&sheet, (float)deviation, &rng);
    double sum = 0, squares = 0;
    for (int i = 0; i < W * H; i++) sum += rgb[i * 3] - 128, squares += (rgb[i * 3] - 128) * (rgb[i * 3] - 128);
    double mean = sum / (W * H), measured = sqrt(squares / (W * H) - mean * mean);
    if (fabs(measured - deviation) > 0.06 * deviation || fabs(mean) > 0.8 + 0.07 * deviation)
      fail_msg("deviation %g, not %d; mean %g", measured, deviation, mean);
  }
}

static void smoothing_is_the_mean_it_says(void **state)
{
  (void)state;
  uint8_t before[W * H * 3], rows[2 * W * 3];
  for (int i = 0; i < W * H * 3; i++) before[i] = rgb[i] = (uint8_t)(i * 2654435761u >> 24);
  captcha_sheet_smooth(&sheet, rows);
  for (int y = 0; y < H; y++) {
    for (int x = 0; x < W; x++) {
      for (int c = 0; c < 3; c++) {
        int at = (y * W + x) * 3 + c, sum = 4 * before[at];
        if (x == 0 || y == 0 || x == W - 1 || y == H - 1) {
          assert_int_equal(rgb[at], before[at]);
          continue;
        }
        for (int v = -1; v <= 1; v++) {
          for (int u = -1; u <= 1; u++) sum += before[at + (v * W + u) * 3];
        }
        assert_int_equal(rgb[at], (sum + 6) / 13);
      }
    }
  }
}

/* Of everything above, drawn over each other: a number that no processor and no compiler changes. */
static void a_drawing_has_the_same_bytes_everywhere(void **state)
{
  (void)state;
  uint8_t coverage[12 * 12], rows[2 * W * 3];
  for (int i = 0; i < 144; i++) coverage[i] = i % 12 == 0 || i % 12 == 11 || i < 12 || i >= 132 ? 0 : (uint8_t)(i * 41);
  captcha_letter letter = {.width = 10, .height = 10, .left = 1, .top = 9, .coverage = coverage};
  captcha_stop stop[] = {{0, {{10, 200, 30}}}, {0.4f, {{250, 100, 90}}}, {1, {{0, 0, 255}}}};
  capl_rng rng;
  capl_rng_init(&rng, 5, 6, 7, 8);
  captcha_sheet_gradient(&sheet, stop, (captcha_spot){-0.3f, 0.8f});
  captcha_sheet_grain(&sheet, 9.5f, &rng);
  for (int i = 0; i < 40; i++) {
    float x = 61 * capl_rng_float(&rng), y = 37 * capl_rng_float(&rng);
    captcha_colour colour = {{(uint8_t)(i * 6), (uint8_t)(255 - i * 5), 77}};
    captcha_pose pose = {{y, x}, 360 * capl_rng_float(&rng), 0.3f + 0.7f * capl_rng_float(&rng),
                         {{1.5f, -2}, {0.3f, 1}, {-1, -1.7f}, {2, 0.1f}}};
    captcha_sheet_stroke(&sheet, (captcha_spot){x, y}, (captcha_spot){y, x}, 0.7f, 2.9f, i & 1, colour);
    captcha_sheet_posed(&sheet, &letter, &pose, colour);
    captcha_sheet_ellipse(&sheet, (int)y, (int)x, i, 40 - i, colour);
    captcha_sheet_letter(&sheet, &letter, (int)x, (int)y, colour);
  }
  captcha_sheet_smooth(&sheet, rows);
  uint64_t hash = hash_bytes(1, rgb, sizeof rgb);
  if (hash != UINT64_C(0x64f6fae50e08d878)) fail_msg("the hash is 0x%016llx", (unsigned long long)hash);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_sine_is_one),
    cmocka_unit_test(a_line_goes_through_both_ends_and_leaves_no_gap),
    cmocka_unit_test(a_stroke_covers_its_length_times_its_width),
    cmocka_unit_test(things_outside_the_sheet_are_not_drawn),
    cmocka_unit_test(a_posed_letter_keeps_its_ink),
    cmocka_unit_test(a_letter_turns_counter_clockwise),
    cmocka_unit_test(grain_has_the_deviation_asked_for),
    cmocka_unit_test(smoothing_is_the_mean_it_says),
    cmocka_unit_test(a_drawing_has_the_same_bytes_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
