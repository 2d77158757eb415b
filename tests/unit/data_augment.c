/* data_augment.c -- tests of the fused augmentation against arithmetic done the plain way.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "capl/data.h"

enum { W = 40, H = 30, AREA = W * H };

static uint8_t source[AREA * 3], out[AREA * 3], other[AREA * 3];

/* A smooth picture with a different course in each channel. */
static int make_picture(void **state)
{
  (void)state;
  for (int i = 0; i < AREA; i++) {
    for (int c = 0; c < 3; c++) source[3 * i + c] = (uint8_t)(128 + 100 * sin(0.2 * (i % W) + c) * cos(0.15 * (i / W)));
  }
  return 0;
}

static bool run(const capl_augment_options *options, uint32_t sample, int channels, uint8_t *to)
{
  bool changed;
  assert_ok(capl_augment_image(options, 9, 1, sample, source, H, W, channels, to, &changed));
  return changed;
}

static void without_ranges_nothing_changes(void **state)
{
  (void)state;
  assert_false(run(&(capl_augment_options){0}, 1, 3, out));
  assert_memory_equal(out, source, sizeof source);
}

static void what_is_drawn_depends_on_sample_epoch_and_seed_alone(void **state)
{
  (void)state;
  capl_augment_options options = {.rotate = {-20, 20}, .noise = {2, 9}};
  assert_true(run(&options, 1, 3, out));
  run(&options, 1, 3, other);
  assert_memory_equal(out, other, sizeof out);
  run(&options, 2, 3, other);
  assert_memory_not_equal(out, other, sizeof out);
  assert_ok(capl_augment_image(&options, 9, 2, 1, source, H, W, 3, other, NULL));
  assert_memory_not_equal(out, other, sizeof out);
  assert_ok(capl_augment_image(&options, 8, 1, 1, source, H, W, 3, other, NULL));
  assert_memory_not_equal(out, other, sizeof out);
}

static double pixel(double x, double y, int c)
{
  int ix = (int)fmin(fmax(x, 0), W - 1), iy = (int)fmin(fmax(y, 0), H - 1);
  return source[3 * (iy * W + ix) + c];
}

static double bilinear(double x, double y, int c)
{
  double fx = x - floor(x), fy = y - floor(y);
  x = floor(x);
  y = floor(y);
  return (1 - fy) * ((1 - fx) * pixel(x, y, c) + fx * pixel(x + 1, y, c)) +
         fy * ((1 - fx) * pixel(x, y + 1, c) + fx * pixel(x + 1, y + 1, c));
}

/* Output pixel -> where it came from, for one fixed geometry: the forward map undone step by step. */
static void came_from(double degrees, double scale, double shift_x, double shift_y, double shear, double *x, double *y)
{
  double angle = degrees * acos(-1) / 180, cx = (W - 1) / 2.0, cy = (H - 1) / 2.0;
  double u = *x - cx - shift_x * W, v = *y - cy - shift_y * H;
  double turned_x = cos(angle) * u - sin(angle) * v, turned_y = sin(angle) * u + cos(angle) * v;
  turned_x /= scale;
  turned_y /= scale;
  *x = turned_x - tan(shear * acos(-1) / 180) * turned_y + cx;
  *y = turned_y + cy;
}

static void geometry_is_one_bilinear_sampling(void **state)
{
  (void)state;
  static const double cases[][5] = {{90, 1, 0, 0, 0}, {17, 1, 0, 0, 0}, {0, 1.3, 0, 0, 0},   {0, 1, 0.25, -0.1, 0},
                                    {0, 1, 0, 0, 20}, {-33, 0.8, 0.1, 0.05, 10}, {180, 5, 1, 1, -60}};
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    const double *g = cases[k];
    float v[5];
    for (int i = 0; i < 5; i++) v[i] = (float)g[i];
    capl_augment_options options = {.rotate = {v[0], v[0]}, .scale = {v[1], v[1]}, .translate_x = {v[2], v[2]},
                                    .translate_y = {v[3], v[3]}, .shear = {v[4], v[4]}};
    run(&options, 1, 3, out);
    for (int i = 0; i < AREA * 3; i++) {
      double x = i / 3 % W, y = i / 3 / W;
      came_from(g[0], g[1], g[2], g[3], g[4], &x, &y);
      double expected = bilinear(x, y, i % 3);
      if (fabs(out[i] - expected) > 1.2) fail_msg("case %zu value %d is %d; expected %g", k, i, out[i], expected);
    }
  }
}

static void positive_angles_turn_counter_clockwise(void **state)
{
  (void)state;
  uint8_t small[9] = {0, 0, 0, 0, 0, 200, 0, 0, 0}, turned[9];
  capl_augment_options options = {.rotate = {90, 90}};
  assert_ok(capl_augment_image(&options, 1, 1, 1, small, 3, 3, 1, turned, NULL));
  static const uint8_t expected[9] = {0, 200, 0, 0, 0, 0, 0, 0, 0};
  assert_memory_equal(turned, expected, 9);
}

static void outside_is_the_edge_or_the_fill_value(void **state)
{
  (void)state;
  uint8_t row[4] = {10, 20, 30, 40}, moved[4];
  capl_augment_options options = {.translate_x = {0.5f, 0.5f}};
  assert_ok(capl_augment_image(&options, 1, 1, 1, row, 1, 4, 1, moved, NULL));
  assert_memory_equal(moved, ((uint8_t[]){10, 10, 10, 20}), 4);
  options.fill = true;
  options.fill_value = 99;
  assert_ok(capl_augment_image(&options, 1, 1, 1, row, 1, 4, 1, moved, NULL));
  assert_memory_equal(moved, ((uint8_t[]){99, 99, 10, 20}), 4);
}

static void colour_is_contrast_then_brightness_then_inversion(void **state)
{
  (void)state;
  capl_augment_options options = {.contrast = {1.5f, 1.5f}, .brightness = {0.8f, 0.8f}, .invert = 1};
  run(&options, 1, 1, out);
  double mean = 0;
  for (int i = 0; i < AREA; i++) mean += source[i] / (double)AREA;
  for (int i = 0; i < AREA; i++) {
    double expected = 255 - 0.8 * ((source[i] - mean) * 1.5 + mean);
    expected = fmin(fmax(expected, 0), 255);
    if (fabs(out[i] - expected) > 0.51) fail_msg("value %d is %d; expected %g", i, out[i], expected);
  }
}

static void noise_has_the_deviation_asked_for(void **state)
{
  (void)state;
  enum { SIDE = 200 };
  static uint8_t flat[SIDE * SIDE], noisy[SIDE * SIDE];
  memset(flat, 128, sizeof flat);
  capl_augment_options options = {.noise = {12, 12}};
  assert_ok(capl_augment_image(&options, 1, 1, 1, flat, SIDE, SIDE, 1, noisy, NULL));
  double sum = 0, squares = 0, product = 0;
  for (int i = 0; i < SIDE * SIDE; i++) {
    double d = noisy[i] - 128.0;
    sum += d;
    squares += d * d;
    if (i) product += d * (noisy[i - 1] - 128.0);
  }
  double n = SIDE * SIDE;
  assert_true(fabs(sum / n) < 0.3);
  assert_true(fabs(sqrt(squares / n) - 12) < 0.3);
  assert_true(fabs(product / squares) < 0.03); /* neighbours are independent */
}

static void switching_an_op_on_does_not_shift_the_others(void **state)
{
  (void)state;
  capl_augment_options plain = {.brightness = {0.5f, 0.9f}}, more = plain;
  more.invert = 1;
  run(&plain, 3, 1, out);
  run(&more, 3, 1, other);
  for (int i = 0; i < AREA; i++) assert_in_range(out[i] + other[i], 254, 256);
}

static void a_probability_is_met(void **state)
{
  (void)state;
  int inverted = 0;
  for (uint32_t sample = 0; sample < 1000; sample++)
    inverted += run(&(capl_augment_options){.invert = 0.3f}, sample, 1, out);
  assert_in_range(inverted, 240, 360);
}

static void bad_ranges_are_named(void **state)
{
  (void)state;
  static const struct {
    capl_augment_options options;
    const char *message;
  } cases[] = {
    {{.rotate = {5, -5}}, "augment: rotate runs backwards: 5 to -5"},
    {{.scale = {0, 1.5f}}, "augment: scale is 0 to 1.5; it must lie within 0.05 to 20"},
    {{.noise = {-1, 3}}, "augment: noise is -1 to 3; it must lie within 0 to 255"},
    {{.shear = {NAN, 3}}, "augment: shear is not a finite range"},
    {{.invert = 2}, "augment: invert is 2; a probability is 0 to 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_fails(capl_augment_check(&cases[i].options), CAPL_EVALUE, cases[i].message);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_ranges_nothing_changes),
    cmocka_unit_test(what_is_drawn_depends_on_sample_epoch_and_seed_alone),
    cmocka_unit_test(geometry_is_one_bilinear_sampling),
    cmocka_unit_test(positive_angles_turn_counter_clockwise),
    cmocka_unit_test(outside_is_the_edge_or_the_fill_value),
    cmocka_unit_test(colour_is_contrast_then_brightness_then_inversion),
    cmocka_unit_test(noise_has_the_deviation_asked_for),
    cmocka_unit_test(switching_an_op_on_does_not_shift_the_others),
    cmocka_unit_test(a_probability_is_met),
    cmocka_unit_test(bad_ranges_are_named),
  };
  return cmocka_run_group_tests(tests, make_picture, NULL);
}
