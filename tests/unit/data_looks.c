/* data_looks.c -- tests of how captchas of the presets look, in numbers: contrast, texture, places, hashes of images.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "capl/synth.h"
#include "data_files.h"
#include "data_presets.h"

#include <math.h>

#include <ft2build.h>
#include FT_FREETYPE_H

enum { SIDE_MAX = 1024 };

static uint8_t image[SIDE_MAX * SIDE_MAX * 3];

static int level_at(const uint8_t *gray, size_t n, double share)
{
  size_t count[256] = {0}, seen = 0;
  int level = 0;
  for (size_t i = 0; i < n; i++) count[gray[i]]++;
  while ((seen += count[level]) <= (size_t)(share * (double)n)) level++;
  return level;
}

static int by_value(const void *a, const void *b)
{
  return *(const int *)a - *(const int *)b;
}

enum { CONTRASTS = 400 };

/* Median less 3rd percentile of an image's luma, sorted over many images. */
static void contrasts(const char *preset, int contrast[CONTRASTS])
{
  capl_captcha *gen = make_preset(preset, NULL);
  int32_t labels[CAPL_LABEL_MAX];
  for (int i = 0; i < CONTRASTS; i++) {
    assert_ok(capl_captcha_draw(gen, 1, (uint64_t)i, 1, image, labels));
    contrast[i] = level_at(image, preset_area(gen), 0.5) - level_at(image, preset_area(gen), 0.03);
  }
  qsort(contrast, CONTRASTS, sizeof *contrast, by_value);
  capl_captcha_unref(gen);
}

/* Measured on images of the original program: 195, 211, 228. */
static void seed_custom_has_the_contrast_of_the_original(void **state)
{
  (void)state;
  int contrast[CONTRASTS];
  contrasts("seed-custom", contrast);
  assert_in_range(contrast[CONTRASTS / 20], 189, 201);
  assert_in_range(contrast[CONTRASTS / 2], 206, 218);
  assert_in_range(contrast[CONTRASTS * 19 / 20], 222, 238);
}

typedef struct {
  double ink, dx, dy; /* share of pixels; mean difference to the left and upper neighbour, levels */
} texture;

static texture measure(const char *preset, int n)
{
  capl_captcha *gen = make_preset(preset, NULL);
  int w = capl_captcha_width(gen), h = capl_captcha_height(gen);
  texture t = {0};
  for (int k = 0; k < n; k++) {
    int32_t labels[CAPL_LABEL_MAX];
    assert_ok(capl_captcha_draw(gen, 1, (uint64_t)k, 1, image, labels));
    for (int i = 0; i < w * h; i++) {
      t.ink += image[i] < 240;
      t.dx += i % w ? abs(image[i] - image[i - 1]) : 0;
      t.dy += i >= w ? abs(image[i] - image[i - w]) : 0;
    }
  }
  capl_captcha_unref(gen);
  double pixels = (double)n * w * h;
  return (texture){t.ink / pixels, t.dx / pixels, t.dy / pixels};
}

/* Measured on 600 images drawn by the style's rules with Pillow. */
static void seed_custom_has_the_texture_of_the_original(void **state)
{
  (void)state;
  texture t = measure("seed-custom", 600);
  if (fabs(t.ink - 0.2127) > 0.006 || fabs(t.dx - 16.96) > 0.6 || fabs(t.dy - 21.35) > 0.7)
    fail_msg("ink %g, dx %g, dy %g", t.ink, t.dx, t.dy);
}

/* Measured on the set of 1040 images: 209..214 from the 1st to the 95th percentile. */
static void gradient_curve_has_the_contrast_of_the_original(void **state)
{
  (void)state;
  int contrast[CONTRASTS];
  contrasts("gradient-curve", contrast);
  assert_in_range(contrast[CONTRASTS / 100], 206, 212);
  assert_in_range(contrast[CONTRASTS * 19 / 20], 210, 218);
}

/* Its background is the same in every image: 192 at the top left, 205 at x = 60, 227 at 120, 254 at the bottom right;
** and its text begins near x = 28. */
static void gradient_curve_has_the_ground_of_the_original(void **state)
{
  (void)state;
  capl_captcha *gen = make_preset("gradient-curve", NULL);
  int32_t labels[CAPL_LABEL_MAX];
  for (uint64_t index = 0; index < 30; index++) {
    assert_ok(capl_captcha_draw_at(gen, 1, index, &(capl_difficulty){0, 0, 1, 0, 1}, 1, image, labels));
    assert_in_range(image[0], 191, 193);
    assert_in_range(image[60], 202, 208);
    assert_in_range(image[120], 223, 230);
    assert_in_range(image[50 * 200 - 1], 253, 255);
    int first = 200;
    for (int i = 0; i < 200 * 50; i++) {
      if (image[i] < 60 && i % 200 < first) first = i % 200;
    }
    assert_in_range(first, 26, 32);
  }
  capl_captcha_unref(gen);
}

typedef struct {
  double x, y, spread, left, right; /* px: centre of the ink, its deviation downward, its ends */
} text_place;

static text_place place_of_text(const uint8_t *gray, int width, int height)
{
  text_place p = {.left = width};
  double n = 0, squares = 0;
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) {
      if (gray[y * width + x] >= 128) continue;
      n++;
      p.x += x;
      p.y += y;
      squares += y * y;
      p.left = x < p.left ? x : p.left;
      p.right = x > p.right ? x : p.right;
    }
  }
  p.x /= n;
  p.y /= n;
  p.spread = sqrt(squares / n - p.y * p.y);
  return p;
}

/* Measured on 300 images of GD::SecurityImage 1.75 with DejaVu Sans at 25 pt, 6 characters, scrambled, style blank. */
static void gd_security_places_its_text_as_the_original_does(void **state)
{
  (void)state;
  enum { N = 300 };
  capl_captcha *gen = make_preset("gd-security", &(capl_captcha_options){.style = "blank", .dots = {true, 0, 0},
    .background = {true, {255, 255, 255}, {255, 255, 255}}, .ink = {true, {0, 0, 0}, {0, 0, 0}},
    .line_ink = {true, {255, 255, 255}, {255, 255, 255}}});
  text_place sum = {0};
  for (uint64_t index = 0; index < N; index++) {
    int32_t labels[CAPL_LABEL_MAX];
    assert_ok(capl_captcha_draw(gen, 1, index, 1, image, labels));
    text_place p = place_of_text(image, 360, 110);
    sum = (text_place){sum.x + p.x / N, sum.y + p.y / N, sum.spread + p.spread / N, sum.left + p.left / N,
                       sum.right + p.right / N};
  }
  if (fabs(sum.x - 170.6) > 2 || fabs(sum.y - 47.0) > 1.2 || fabs(sum.spread - 11.0) > 0.6
      || fabs(sum.left - 48.7) > 3 ||
      fabs(sum.right - 291.6) > 3)
    fail_msg("centre %g, %g; spread %g; from %g to %g", sum.x, sum.y, sum.spread, sum.left, sum.right);
  capl_captcha_unref(gen);
}

static void mixed_images_are_half_of_one_style_half_of_the_other(void **state)
{
  (void)state;
  capl_captcha *gen = make_preset("mixed", NULL);
  int white = 0;
  for (uint64_t index = 0; index < 1000; index++) {
    int32_t labels[CAPL_LABEL_MAX];
    assert_ok(capl_captcha_draw(gen, 3, index, 1, image, labels));
    white += level_at(image, preset_area(gen), 0.5) == 255;
  }
  assert_in_range(white, 430, 570); /* 500 expected, +- 4.4 sigma */
  capl_captcha_unref(gen);
}

/* Letters come out differently from version to version of FreeType: the pictures below are version 2.12.1's. */
static bool same_freetype(void)
{
  FT_Library library;
  FT_Int major, minor, patch;
  assert_int_equal(FT_Init_FreeType(&library), 0);
  FT_Library_Version(library, &major, &minor, &patch);
  FT_Done_FreeType(library);
  return major == 2 && minor == 12 && patch == 1;
}

static void images_are_those_of_earlier_releases(void **state)
{
  (void)state;
  static const struct {
    const char *preset;
    uint64_t hash;
  } expected[] = {
    {"gd-security", UINT64_C(0x73b9d37b7c0fe116)},
    {"seed-custom", UINT64_C(0x0b9dc85ce6e58269)},
    {"gradient-curve", UINT64_C(0xfaac5d9bef09a5e9)},
    {"free", UINT64_C(0xa472d7b9bf93b159)},
  };
  if (!same_freetype()) skip();
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
    capl_captcha *gen = make_preset(expected[i].preset, &(capl_captcha_options){.length = 3, .length_max = 5});
    uint64_t hash = 1;
    for (uint64_t index = 0; index < 50; index++) {
      int32_t labels[CAPL_LABEL_MAX];
      assert_ok(capl_captcha_draw(gen, 11, index, 3, image, labels));
      hash = hash_bytes(hash_bytes(hash, image, preset_area(gen) * 3), labels,
                        sizeof(int32_t) * (size_t)capl_captcha_length(gen));
    }
    if (hash != expected[i].hash) fail_msg("%s: the hash is 0x%016llx", expected[i].preset, (unsigned long long)hash);
    capl_captcha_unref(gen);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(seed_custom_has_the_contrast_of_the_original),
    cmocka_unit_test(seed_custom_has_the_texture_of_the_original),
    cmocka_unit_test(gradient_curve_has_the_contrast_of_the_original),
    cmocka_unit_test(gradient_curve_has_the_ground_of_the_original),
    cmocka_unit_test(gd_security_places_its_text_as_the_original_does),
    cmocka_unit_test(mixed_images_are_half_of_one_style_half_of_the_other),
    cmocka_unit_test(images_are_those_of_earlier_releases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
