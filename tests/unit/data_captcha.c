/* data_captcha.c -- tests of the captcha generator.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "capl/synth.h"
#include "data_files.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

enum { W = 160, H = 60, AREA = W * H };

static capl_captcha *make(const char *preset)
{
  capl_captcha *gen;
  assert_ok(capl_captcha_new(preset, NULL, &gen));
  return gen;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void an_unknown_preset_lists_the_known_ones(void **state)
{
  (void)state;
  capl_captcha *gen;
  assert_fails(capl_captcha_new("lepture2", NULL, &gen), CAPL_EVALUE,
               "no captcha preset \"lepture2\"; there are: lepture, lepture-0.7.1, gd-security, seed-custom, mixed, "
               "gradient-curve, free, varied, icons, zh-word");
}

static void a_missing_font_names_its_path_and_the_package(void **state)
{
  (void)state;
  capl_captcha *gen;
  assert_fails(capl_captcha_new("lepture", &(capl_captcha_options){.fonts = {"/no/font.ttf"}}, &gen), CAPL_EIO,
               "cannot open the captcha font /no/font.ttf: No such file or directory");
  assert_non_null(strstr(capl_error_last()->hint, "install the Debian package fonts-noto-mono"));
  setenv("CAPL_FONT", "/no/other.ttf", 1);
  assert_fails(capl_captcha_new("lepture", NULL, &gen), CAPL_EIO,
               "cannot open the captcha font /no/other.ttf: No such file or directory");
  unsetenv("CAPL_FONT");
}

static void a_file_that_is_no_font_is_refused(void **state)
{
  (void)state;
  capl_captcha *gen;
  assert_fails(capl_captcha_new("lepture", &(capl_captcha_options){.fonts = {"/etc/passwd"}}, &gen), CAPL_EFORMAT,
               "/etc/passwd is not a font FreeType can read");
}

static void options_out_of_range_are_refused(void **state)
{
  (void)state;
  capl_captcha *gen;
  assert_fails(capl_captcha_new("lepture", &(capl_captcha_options){.length = 33}, &gen), CAPL_EVALUE,
               "captcha length is 33; it must be 1..32");
  assert_fails(capl_captcha_new("lepture", &(capl_captcha_options){.width = 5000}, &gen), CAPL_EVALUE,
               "captcha size is 5000 x 60 px; each side must be 16..1024");
  assert_fails(capl_captcha_new("lepture", &(capl_captcha_options){.often = "0o"}, &gen), CAPL_EVALUE,
               "captcha often holds 'o', which is not in the charset "
               "\"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ\"");
  assert_fails(capl_captcha_new("lepture", &(capl_captcha_options){.often = "O", .times = 101}, &gen), CAPL_EVALUE,
               "captcha times is 101; it must be 1..100");
  gen = make("lepture");
  uint8_t pixels[1];
  int32_t labels[4];
  assert_fails(capl_captcha_draw(gen, 1, 1, 2, pixels, labels), CAPL_EVALUE, "a captcha has 1 or 3 channels, not 2");
  capl_captcha_unref(gen);
}

/* ---- images ---------------------------------------------------------------------------------- */

static void an_image_is_a_function_of_seed_and_index(void **state)
{
  (void)state;
  capl_captcha *gen = make("lepture"), *again = make("lepture");
  static uint8_t a[AREA], b[AREA];
  int32_t la[4], lb[4];
  for (uint64_t index = 0; index < 50; index++) {
    assert_ok(capl_captcha_draw(gen, 7, index, 1, a, la));
    assert_ok(capl_captcha_draw(again, 7, index, 1, b, lb));
    assert_memory_equal(a, b, AREA);
    assert_memory_equal(la, lb, sizeof la);
  }
  capl_captcha_draw(gen, 8, 49, 1, b, lb);
  assert_memory_not_equal(a, b, AREA);
  capl_captcha_draw(gen, 7, 49 + (1ull << 32), 1, b, lb);
  assert_memory_not_equal(a, b, AREA);
  capl_captcha_unref(gen);
  capl_captcha_unref(again);
}

static void the_gray_image_is_the_luma_of_the_colour_one(void **state)
{
  (void)state;
  capl_captcha *gen = make("lepture");
  static uint8_t gray[AREA], rgb[3 * AREA];
  int32_t lg[4], lc[4];
  for (uint64_t index = 0; index < 300; index++) {
    assert_ok(capl_captcha_draw(gen, 3, index, 1, gray, lg));
    assert_ok(capl_captcha_draw(gen, 3, index, 3, rgb, lc));
    assert_memory_equal(lg, lc, sizeof lg);
    for (int i = 0; i < AREA; i++) {
      float luma = 0.299f * rgb[3 * i] + 0.587f * rgb[3 * i + 1] + 0.114f * rgb[3 * i + 2];
      if (fabsf(luma - gray[i]) > 1.001f) fail_msg("image %d pixel %d: luma %g, gray %d", (int)index, i, luma, gray[i]);
    }
  }
  capl_captcha_unref(gen);
}

typedef struct {
  double ink, dx, dy, deviation;
} statistics;

static int median_level(const uint8_t *image)
{
  int count[256] = {0}, seen = 0, level = 0;
  for (int i = 0; i < AREA; i++) count[image[i]]++;
  while ((seen += count[level]) <= AREA / 2) level++;
  return level;
}

static void add_image(const uint8_t *image, statistics *s)
{
  int background = median_level(image);
  double sum = 0, squares = 0;
  for (int i = 0; i < AREA; i++) {
    s->ink += background - image[i] > 15;
    sum += image[i];
    squares += (double)image[i] * image[i];
    if (i % W) s->dx += abs(image[i] - image[i - 1]) / (double)((W - 1) * H) * AREA;
    if (i >= W) s->dy += abs(image[i] - image[i - W]) / (double)(W * (H - 1)) * AREA;
  }
  double mean = sum / AREA;
  s->deviation += sqrt(squares / AREA - mean * mean) * AREA;
}

static statistics measure(const char *preset)
{
  enum { N = 4000 };
  capl_captcha *gen = make(preset);
  static uint8_t image[AREA];
  int32_t labels[4];
  statistics s = {0};
  for (uint64_t index = 0; index < N; index++) {
    assert_ok(capl_captcha_draw(gen, 1, index, 1, image, labels));
    add_image(image, &s);
  }
  capl_captcha_unref(gen);
  double n = (double)N * AREA;
  return (statistics){s.ink / n, s.dx / n, s.dy / n, s.deviation / n};
}

static void assert_near(const char *name, double value, double expected, double tolerance)
{
  if (fabs(value - expected) > tolerance) fail_msg("%s is %g; expected %g +- %g", name, value, expected, tolerance);
}

/* Expected: 1500 images of the original (captcha 0.7.0, in 2026) with the font it brings along. */
static void images_have_the_statistics_of_the_original(void **state)
{
  (void)state;
  statistics s = measure("lepture");
  assert_near("share of ink", s.ink, 0.3276, 0.004);
  assert_near("mean |dx|", s.dx, 7.553, 0.09);
  assert_near("mean |dy|", s.dy, 6.325, 0.09);
  assert_near("deviation", s.deviation, 40.65, 0.6);
}

static void the_0_7_1_preset_is_flatter(void **state)
{
  (void)state;
  statistics classic = measure("lepture"), newer = measure("lepture-0.7.1");
  assert_near("drop of mean |dy|", classic.dy - newer.dy, 0.53, 0.15);
}

static void every_class_is_drawn_equally_often(void **state)
{
  (void)state;
  enum { N = 3600 };
  capl_captcha *gen = make("lepture");
  static uint8_t image[AREA];
  int count[4][36] = {{0}};
  for (uint64_t index = 0; index < N; index++) {
    int32_t labels[4];
    assert_ok(capl_captcha_draw(gen, 5, index, 1, image, labels));
    for (int t = 0; t < 4; t++) count[t][labels[t]]++;
  }
  for (int t = 0; t < 4; t++) {
    for (int k = 0; k < 36; k++) assert_in_range(count[t][k], 60, 145); /* 100 expected, +- 4.5 sigma */
  }
  capl_captcha_unref(gen);
}

static void characters_asked_for_often_come_so_many_times_as_often(void **state)
{
  (void)state;
  enum { N = 3800 };
  capl_captcha *gen;
  assert_ok(capl_captcha_new("lepture", &(capl_captcha_options){.often = "0O", .times = 2}, &gen));
  static uint8_t image[AREA];
  int zeros = 0, ones = 0, ohs = 0;
  for (uint64_t index = 0; index < N; index++) {
    int32_t labels[4];
    assert_ok(capl_captcha_draw(gen, 5, index, 1, image, labels));
    for (int t = 0; t < 4; t++) {
      zeros += labels[t] == 0;
      ones += labels[t] == 1;
      ohs += labels[t] == 24;
    }
  }
  assert_in_range(zeros, 680, 920); /* 4 N 2/38 = 800 expected, +- 4.4 sigma */
  assert_in_range(ohs, 680, 920);
  assert_in_range(ones, 310, 490);
  capl_captcha_unref(gen);
}

static void other_sizes_lengths_and_charsets_draw_too(void **state)
{
  (void)state;
  static const capl_captcha_options options[] = {
    {.charset = "!-~", .length = 1, .width = 16, .height = 16},
    {.charset = "|ijW@", .length = 32, .width = 1024, .height = 1024},
    {.charset = "0-9a-z", .length = 32, .width = 20, .height = 200},
    {.length = 6, .width = 200, .height = 80},
  };
  static uint8_t image[1024 * 1024 * 3];
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    capl_captcha *gen;
    int32_t labels[CAPL_LABEL_MAX];
    assert_ok(capl_captcha_new("lepture", &options[i], &gen));
    for (uint64_t index = 0; index < 20; index++) assert_ok(capl_captcha_draw(gen, 1, index, 3, image, labels));
    capl_captcha_unref(gen);
  }
}

static void *hash_images(void *gen)
{
  static _Thread_local uint8_t image[AREA];
  uint64_t hash = 1;
  for (uint64_t index = 0; index < 100; index++) {
    int32_t labels[4];
    if (capl_captcha_draw(gen, 2, index, 1, image, labels) != CAPL_OK) return NULL;
    hash = hash_bytes(hash, image, AREA);
  }
  return (void *)(uintptr_t)hash;
}

static void threads_that_draw_at_once_get_the_same_images(void **state)
{
  (void)state;
  capl_captcha *gen = make("lepture");
  pthread_t thread[3];
  void *expected = hash_images(gen), *hash;
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, hash_images, gen), 0);
  for (int i = 0; i < 3; i++) {
    pthread_join(thread[i], &hash);
    assert_ptr_equal(hash, expected);
  }
  capl_captcha_unref(gen);
}

/* ---- saving ---------------------------------------------------------------------------------- */

static void saved_files_carry_label_and_pixels(void **state)
{
  (void)state;
  capl_captcha *gen = make("lepture");
  assert_ok(capl_captcha_save(gen, 11, 12, in_folder("saved"), 2, NULL));
  static uint8_t rgb[3 * AREA];
  capl_image image = {0};
  for (uint32_t index = 0; index < 12; index++) {
    int32_t labels[4];
    char name[64] = "saved/";
    assert_ok(capl_captcha_draw(gen, 11, index, 3, rgb, labels));
    for (int t = 0; t < 4; t++) name[6 + t] = capl_captcha_charset(gen)[labels[t]];
    snprintf(name + 10, sizeof name - 10, "_%02u.png", index);
    assert_ok(capl_png_read(in_folder(name), 3, &image));
    assert_memory_equal(image.pixels, rgb, sizeof rgb);
  }
  capl_image_fini(&image);
  capl_captcha_unref(gen);
}

static void saving_leaves_no_temporary_files(void **state)
{
  (void)state;
  capl_captcha *gen = make("lepture");
  assert_ok(capl_captcha_save(gen, 1, 5, in_folder("clean"), 0, NULL));
  DIR *dir = opendir(in_folder("clean"));
  int files = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    if (e->d_name[0] == '.') continue;
    assert_non_null(strstr(e->d_name, ".png"));
    assert_null(strstr(e->d_name, ".tmp"));
    files++;
  }
  closedir(dir);
  assert_int_equal(files, 5);
  capl_captcha_unref(gen);
}

static atomic_int asked;
static bool stop_at_fourth(void) { return atomic_fetch_add(&asked, 1) >= 3; }

static void drawing_many_can_be_stopped(void **state)
{
  (void)state;
  capl_captcha *gen = make("lepture");
  assert_fails(capl_captcha_save(gen, 1, 1000000, in_folder("stopped"), 2, stop_at_fourth), CAPL_EINTERRUPT,
               "interrupted");
  asked = 0;
  assert_fails(capl_captcha_pack(gen, 1, 1000000, in_folder("stopped-db"), 0, stop_at_fourth), CAPL_EINTERRUPT,
               "interrupted");
  capl_captcha_unref(gen);
}

static void saving_names_what_it_cannot_do(void **state)
{
  (void)state;
  capl_captcha *gen;
  assert_ok(capl_captcha_new("lepture", &(capl_captcha_options){.charset = "ab_"}, &gen));
  assert_fails(capl_captcha_save(gen, 1, 5, folder, 0, NULL), CAPL_EVALUE,
               "charset ab_ holds '_', which a file name cannot carry in its label");
  capl_captcha_unref(gen);
  gen = make("lepture");
  assert_fails(capl_captcha_save(gen, 1, 5, "/no/where", 0, NULL), CAPL_EIO,
               "/no/where: cannot be made: No such file or directory");
  capl_captcha_unref(gen);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_unknown_preset_lists_the_known_ones),
    cmocka_unit_test(a_missing_font_names_its_path_and_the_package),
    cmocka_unit_test(a_file_that_is_no_font_is_refused),
    cmocka_unit_test(options_out_of_range_are_refused),
    cmocka_unit_test(an_image_is_a_function_of_seed_and_index),
    cmocka_unit_test(the_gray_image_is_the_luma_of_the_colour_one),
    cmocka_unit_test(images_have_the_statistics_of_the_original),
    cmocka_unit_test(the_0_7_1_preset_is_flatter),
    cmocka_unit_test(every_class_is_drawn_equally_often),
    cmocka_unit_test(characters_asked_for_often_come_so_many_times_as_often),
    cmocka_unit_test(other_sizes_lengths_and_charsets_draw_too),
    cmocka_unit_test(threads_that_draw_at_once_get_the_same_images),
    cmocka_unit_test(saved_files_carry_label_and_pixels),
    cmocka_unit_test(saving_leaves_no_temporary_files),
    cmocka_unit_test(drawing_many_can_be_stopped),
    cmocka_unit_test(saving_names_what_it_cannot_do),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
