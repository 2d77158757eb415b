/* data_augment_draws.c -- tests that what the augmentation draws lies in its range and is spread as it should be.
**
** 100,000 draws of each op with a fixed seed: Kolmogorov and Smirnov's distance to the distribution that it claims; a
** distance of 0.0062 is met by chance once in a thousand.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "data/augment.h"

enum { DRAWS = 100000, W = 1000, H = 1000 };

static const double distance_most = 0.0075;

static double value[DRAWS];

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Distance of value[0..n) from the uniform distribution on lo..hi; all must lie in it, but for rounding. */
static double distance(int n, double lo, double hi)
{
  double most = 0, slack = 1e-4 * (hi - lo);
  qsort(value, (size_t)n, sizeof *value, compare);
  if (value[0] < lo - slack || value[n - 1] > hi + slack)
    fail_msg("%g to %g is drawn of %g to %g", value[0], value[n - 1], lo, hi);
  for (int i = 0; i < n; i++) {
    double expected = (value[i] - lo) / (hi - lo);
    most = fmax(most, fmax(fabs(expected - (double)i / n), fabs(expected - (double)(i + 1) / n)));
  }
  return most;
}

static capl_augment_draw roll(const capl_augment_options *options, int sample)
{
  return capl_augment_roll(options, 20, 3, (uint32_t)sample, H, W, 100);
}

static double degrees(double radians)
{
  return radians * 180 / acos(-1);
}

/* What an op drew, from what it does alone. */
static double drawn_rotate(const capl_augment_draw *d) { return degrees(atan2(d->map[3], d->map[4])); }
static double drawn_scale(const capl_augment_draw *d) { return 1 / d->map[0]; }
static double drawn_x(const capl_augment_draw *d) { return -d->map[2] / W; }
static double drawn_y(const capl_augment_draw *d) { return -d->map[5] / H; }
static double drawn_shear(const capl_augment_draw *d) { return degrees(atan(-d->map[1])); }
static double drawn_gain(const capl_augment_draw *d) { return (double)d->gain; }
static double drawn_noise(const capl_augment_draw *d) { return (double)d->noise; }
static double drawn_area(const capl_augment_draw *d) { return d->map[0] * d->map[4]; }
static double drawn_aspect(const capl_augment_draw *d) { return log(d->map[0] / d->map[4]); }
static double drawn_left(const capl_augment_draw *d) { return (d->map[2] + 0.5 - 0.5 * d->map[0])
                                                      / (W * (1 - d->map[0])); }
static double drawn_elastic(const capl_augment_draw *d) { return (double)d->elastic; }
static double drawn_place(const capl_augment_draw *d) { return (double)d->lattice[1][17]; }
static double drawn_gamma(const capl_augment_draw *d) { return (double)d->gamma; }
/* Of green seen in red: (1 - s) of its share in luma. */
static double drawn_saturation(const capl_augment_draw *d) { return 1 - (double)d->colour[1] / 0.587; }
static double drawn_key(const capl_augment_draw *d) { return d->noise_key / 4294967296.0; }
static double drawn_share(const capl_augment_draw *d) { return (double)d->mix; }
static double drawn_erased(const capl_augment_draw *d) { return (d->erased.x1 - d->erased.x0)
                                                        * (double)(d->erased.y1 - d->erased.y0) / (W * H); }

/* Grays stay; red's chroma vector turns: its angle in the plane of I and Q. */
static double drawn_hue(const capl_augment_draw *d)
{
  const float *m = d->colour;
  double r = (double)m[0], g = (double)m[3], b = (double)m[6];
  double I = 0.595716 * r - 0.274453 * g - 0.321263 * b, Q = 0.211456 * r - 0.522591 * g + 0.311135 * b;
  return (atan2(0.211456, 0.595716) - atan2(Q, I)) / (2 * acos(-1));
}

/* How far the upper left corner moved in x, of the 200 px that it may at most. */
static double drawn_corner(const capl_augment_draw *d)
{
  const double *a = d->map, *b = a + 3, *c = d->horizon, x = -0.5, y = -0.5;
  double m[9] = {b[1] * c[2] - b[2] * c[1], a[2] * c[1] - a[1] * c[2], a[1] * b[2] - a[2] * b[1],
                 b[2] * c[0] - b[0] * c[2], a[0] * c[2] - a[2] * c[0], a[2] * b[0] - a[0] * b[2],
                 b[0] * c[1] - b[1] * c[0], a[1] * c[0] - a[0] * c[1], a[0] * b[1] - a[1] * b[0]};
  return ((m[0] * x + m[1] * y + m[2]) / (m[6] * x + m[7] * y + m[8]) + 0.5) / 200;
}

static void every_range_is_met_and_drawn_from_evenly(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    capl_augment_options options;
    double (*drawn)(const capl_augment_draw *d);
    double lo, hi;
  } cases[] = {
    {"rotate", {.rotate = {-170, 120}}, drawn_rotate, -170, 120},
    {"scale", {.scale = {0.5f, 2}}, drawn_scale, 0.5, 2},
    {"translate_x", {.translate_x = {-0.3f, 0.5f}}, drawn_x, -0.3, 0.5},
    {"translate_y", {.translate_y = {-1, 0.25f}}, drawn_y, -1, 0.25},
    {"shear", {.shear = {-30, 40}}, drawn_shear, -30, 40},
    {"contrast", {.contrast = {0.25f, 1.75f}}, drawn_gain, 0.25, 1.75},
    {"brightness", {.brightness = {0.5f, 3}}, drawn_gain, 0.5, 3},
    {"noise", {.noise = {2, 30}}, drawn_noise, 2, 30},
    {"the noise's key", {.noise = {2, 30}}, drawn_key, 0, 1},
    {"crop's area", {.crop = {0.2f, 0.5f}}, drawn_area, 0.2, 0.5},
    {"crop's aspect", {.crop = {0.2f, 0.5f}, .crop_aspect = {0.5f, 2}}, drawn_aspect, -0.693147, 0.693147},
    {"crop's place", {.crop = {0.2f, 0.5f}}, drawn_left, 0, 1},
    {"a corner of perspective", {.perspective = {0.4f, 0.4f}}, drawn_corner, 0, 1},
    {"elastic", {.elastic = {1, 9}}, drawn_elastic, 1, 9},
    {"a place of elastic", {.elastic = {1, 9}}, drawn_place, -1, 1},
    {"gamma", {.gamma = {0.5f, 2}}, drawn_gamma, 0.5, 2},
    {"saturation", {.saturation = {0, 2}}, drawn_saturation, 0, 2},
    {"hue", {.hue = {-0.25f, 0.125f}}, drawn_hue, -0.25, 0.125},
    {"mixup", {.mixup = {1, 1}}, drawn_share, 0, 1},
    {"erase", {.erase = {0.1f, 0.3f}}, drawn_erased, 0.0996, 0.3004}, /* whole px */
  };
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    for (int i = 0; i < DRAWS; i++) {
      capl_augment_draw d = roll(&cases[k].options, i);
      value[i] = cases[k].drawn(&d);
    }
    double off = distance(DRAWS, cases[k].lo, cases[k].hi);
    if (off > distance_most) fail_msg("%s is %g from even", cases[k].name, off);
  }
}

/* The outermost weight grows with the deviation, so a quantile of one is one of the other. */
static void blur_is_drawn_evenly_too(void **state)
{
  (void)state;
  static const capl_augment_options options = {.blur = {0.5f, 2.5f}, .blur_size = 7};
  for (int quarter = 1; quarter <= 3; quarter++) {
    float sigma = 0.5f + 0.5f * (float)quarter;
    capl_augment_draw at = roll(&(capl_augment_options){.blur = {sigma, sigma}, .blur_size = 7}, 1);
    int narrower = 0, same = 0;
    for (int i = 0; i < DRAWS; i++) {
      capl_augment_draw d = roll(&options, i);
      narrower += d.blur_weight[3] < at.blur_weight[3];
      same += d.blur_weight[3] == at.blur_weight[3];
    }
    assert_true(narrower < DRAWS * quarter / 4 + 700 && narrower + same > DRAWS * quarter / 4 - 700);
  }
}

/* Five standard deviations of a count. */
static void assert_share(int count, double p)
{
  double expected = p * DRAWS, most = 5 * sqrt(p * (1 - p) * DRAWS);
  if (fabs(count - expected) > most) fail_msg("%d of %d draws; expected %g", count, DRAWS, expected);
}

static void probabilities_are_met(void **state)
{
  (void)state;
  int inverted = 0, flipped = 0, upside_down = 0, turned = 0, mixed = 0, cut = 0, both = 0;
  capl_augment_options o = {.invert = 0.3f, .flip = 0.5f, .flip_vertical = 0.2f, .noise = {1, 2},
                            .mixup = {0.5f, 0.15f}, .cutmix = {1, 0.25f}};
  o.skip[CAPL_AUGMENT_NOISE] = 0.4f;
  for (int i = 0; i < DRAWS; i++) {
    capl_augment_draw d = roll(&o, i);
    inverted += d.gain < 0;
    flipped += d.map[0] < 0;
    upside_down += d.map[4] < 0;
    both += d.map[0] < 0 && d.map[4] < 0;
    turned += d.noise > 0;
    mixed += d.mixing == CAPL_MIXUP;
    cut += d.mixing == CAPL_CUTMIX;
  }
  assert_share(inverted, 0.3);
  assert_share(flipped, 0.5);
  assert_share(upside_down, 0.2);
  assert_share(both, 0.1);
  assert_share(turned, 0.6);
  assert_share(mixed, 0.15);
  assert_share(cut, 0.25);
}

static void ops_share_a_coin_or_have_their_own(void **state)
{
  (void)state;
  int both = 0, nested = 0, own = 0;
  capl_augment_options o = {.noise = {1, 2}, .brightness = {2, 3}, .gamma = {2, 3}, .rotate = {10, 20}};
  o.skip[CAPL_AUGMENT_NOISE] = o.skip[CAPL_AUGMENT_BRIGHTNESS] = 0.5f;
  o.skip[CAPL_AUGMENT_GAMMA] = 0.75f;
  o.skip[CAPL_AUGMENT_ROTATE] = 0.5f;
  o.coin[CAPL_AUGMENT_NOISE] = o.coin[CAPL_AUGMENT_BRIGHTNESS] = o.coin[CAPL_AUGMENT_GAMMA] = 3;
  for (int i = 0; i < DRAWS; i++) {
    capl_augment_draw d = roll(&o, i);
    assert_int_equal(d.noise > 0, d.gain != 1);
    if (d.gamma != 1) assert_true(d.noise > 0); /* the less likely one only where the others are */
    both += d.noise > 0;
    nested += d.gamma != 1;
    own += d.moves && d.noise > 0;
  }
  assert_share(both, 0.5);
  assert_share(nested, 0.25);
  assert_share(own, 0.25);
}

static void switching_ops_on_shifts_no_other(void **state)
{
  (void)state;
  capl_augment_options few = {.contrast = {0.5f, 1.5f}, .noise = {1, 9}}, many = few;
  many.flip = 0.5f, many.crop = (capl_range){0.5f, 1}, many.elastic = (capl_range){1, 2},
      many.hue = (capl_range){-0.1f, 0.1f};
  many.erase = (capl_range){0.1f, 0.2f}, many.blur = (capl_range){1, 2}, many.gamma = (capl_range){0.5f, 2},
      many.mixup = (capl_mix){1, 0.5f};
  for (int i = 0; i < 1000; i++) {
    capl_augment_draw a = roll(&few, i), b = roll(&many, i);
    assert_true(a.gain == b.gain && a.lift == b.lift && a.noise == b.noise && a.noise_key == b.noise_key);
  }
}

static void small_alphas_mix_little(void **state)
{
  (void)state;
  static const float alphas[] = {0.05f, 0.2f, 0.5f, 1, 2, 4};
  for (size_t k = 0; k < sizeof alphas / sizeof *alphas; k++) {
    double sum = 0, squares = 0, variance = 1 / (4 * (2 * (double)alphas[k] + 1)); /* of Beta(a, a) */
    for (int i = 0; i < DRAWS; i++) {
      capl_augment_draw d = roll(&(capl_augment_options){.mixup = {alphas[k], 1}}, i);
      sum += (double)d.mix - 0.5;
      squares += ((double)d.mix - 0.5) * ((double)d.mix - 0.5);
    }
    assert_true(fabs(sum / DRAWS) < 0.005);
    assert_true(fabs(squares / DRAWS / variance - 1) < 0.02);
  }
}

static void a_cut_has_the_share_of_the_other_sample(void **state)
{
  (void)state;
  double whole = 0;
  for (int i = 0; i < DRAWS; i++) {
    capl_augment_draw d = roll(&(capl_augment_options){.cutmix = {1, 1}}, i);
    capl_area c = d.cut;
    assert_true(c.x0 >= 0 && c.x0 <= c.x1 && c.x1 <= W && c.y0 >= 0 && c.y0 <= c.y1 && c.y1 <= H);
    assert_true(fabs((double)d.mix - (1 - (c.x1 - c.x0) * (double)(c.y1 - c.y0) / (W * H))) < 1e-6);
    whole += (double)d.mix;
  }
  assert_in_range((int)(1000 * whole / DRAWS), 640, 700); /* half before what lies outside is cut off: s - s s / 4,
                                                          ** squared */
}

static void partners_are_any_sample_of_the_source(void **state)
{
  (void)state;
  enum { COUNT = 50 };
  capl_augment_options o = {.mixup = {1, 0.5f}};
  int met[COUNT] = {0}, found = 0;
  for (int i = 0; i < DRAWS; i++) {
    uint32_t id;
    bool any = capl_augment_partner(&o, &(capl_augment_case){20, 3, (uint32_t)i}, COUNT, &id);
    assert_int_equal(any, roll(&o, i).mixing != CAPL_MIX_NONE);
    if (!any) continue;
    assert_true(id < COUNT);
    met[id]++;
    found++;
  }
  double chi = 0;
  for (int i = 0; i < COUNT; i++) chi += (met[i] - found / 50.0) * (met[i] - found / 50.0) / (found / 50.0);
  assert_true(chi > 20 && chi < 95); /* 49 degrees of freedom: one in ten thousand */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_range_is_met_and_drawn_from_evenly),
    cmocka_unit_test(blur_is_drawn_evenly_too),
    cmocka_unit_test(probabilities_are_met),
    cmocka_unit_test(ops_share_a_coin_or_have_their_own),
    cmocka_unit_test(switching_ops_on_shifts_no_other),
    cmocka_unit_test(small_alphas_mix_little),
    cmocka_unit_test(a_cut_has_the_share_of_the_other_sample),
    cmocka_unit_test(partners_are_any_sample_of_the_source),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
