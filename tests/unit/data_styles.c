/* data_styles.c -- tests of all captcha presets: sizes, lengths, difficulty, options; data_looks.c has how images look.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "capl/synth.h"
#include "data_files.h"
#include "data_presets.h"

#include <math.h>

enum { SIDE_MAX = 1024 };

static uint8_t image[SIDE_MAX * SIDE_MAX * 3], other[SIDE_MAX * SIDE_MAX * 3];

/* ---- all presets ----------------------------------------------------------------------------- */

static void the_presets_come_in_this_order_with_these_usual_values(void **state)
{
  (void)state;
  static const struct {
    const char *name, *charset;
    int length, width, height;
  } expected[] = {
    {"lepture", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", 4, 160, 60},
    {"lepture-0.7.1", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", 4, 160, 60},
    {"gd-security", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", 6, 360, 110},
    {"seed-custom", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", 4, 160, 60},
    {"mixed", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", 4, 160, 60},
    {"gradient-curve", "2345678bcdefgmnpwxy", 5, 200, 50},
    {"free", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", 4, 160, 60},
    {"varied", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", 20, 780, 64}, /* of the longest text */
    {"icons", NULL, 1, 48, 48}, /* 100 symbols */
    {"zh-word", NULL, 4, 240, 64}, /* 500 characters: below */
  };
  size_t n = sizeof expected / sizeof expected[0];
  for (size_t i = 0; i < n; i++) {
    assert_string_equal(capl_captcha_preset_name((int)i), expected[i].name);
    if (!drawable_preset((int)i)) continue;
    capl_captcha *gen = make_preset(expected[i].name, NULL);
    if (expected[i].charset) assert_string_equal(capl_captcha_charset(gen), expected[i].charset);
    else assert_int_equal(capl_vocab_count(capl_captcha_vocab(gen)), expected[i].length == 1 ? 100 : 500);
    assert_int_equal(capl_captcha_length(gen), expected[i].length);
    assert_int_equal(capl_captcha_width(gen), expected[i].width);
    assert_int_equal(capl_captcha_height(gen), expected[i].height);
    capl_captcha_unref(gen);
  }
  assert_null(capl_captcha_preset_name((int)n));
  assert_null(capl_captcha_preset_name(-1));
}

static void draw_some(const char *preset, const capl_captcha_options *options)
{
  capl_captcha *gen = make_preset(preset, options);
  size_t bytes = preset_area(gen) * 3;
  int32_t labels[CAPL_LABEL_MAX];
  char text[CAPL_LABEL_MAX + 1];
  for (uint64_t index = 0; index < 12; index++) {
    memset(image + bytes, 0xa5, 64);
    assert_ok(capl_captcha_draw(gen, 1, index, 3, image, labels));
    for (int i = 0; i < 64; i++) assert_int_equal(image[bytes + (size_t)i], 0xa5);
    int n = capl_captcha_text(gen, labels, text);
    assert_in_range(n, capl_captcha_shortest(gen), capl_captcha_length(gen));
    assert_int_equal(strlen(text), n);
    assert_int_equal(strspn(text, capl_captcha_charset(gen)), n);
    for (int t = n; t < capl_captcha_length(gen); t++) assert_int_equal(labels[t], -1);
  }
  capl_captcha_unref(gen);
}

static void every_preset_draws_odd_sizes_lengths_and_charsets(void **state)
{
  (void)state;
  static const capl_captcha_options options[] = {
    {.charset = "!-~", .length = 1, .width = 16, .height = 16},
    {.charset = "|ijW@", .length = 32, .width = 1000, .height = 31},
    {.charset = "0-9a-z", .length = 2, .length_max = 32, .width = 33, .height = 200},
    {.charset = "7", .length = 3, .length_max = 5, .width = 129, .height = 67},
  };
  for (int p = 0; drawable_preset(p); p++) {
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) draw_some(capl_captcha_preset_name(p), &options[i]);
  }
}

static void every_preset_takes_one_font_or_several(void **state)
{
  (void)state;
  for (int p = 0; drawable_preset(p); p++) {
    const char *name = capl_captcha_preset_name(p);
    draw_some(name, &(capl_captcha_options){.charset = "A-Z", .fonts = {"DejaVuSansMono.ttf"}});
    capl_captcha_options several = {
      .charset = "A-Z", .length = 4, .fonts = {"DejaVuSans.ttf", "NotoMono-Regular.ttf", "DejaVuSans-Bold.ttf"}};
    draw_some(name, &several);
    capl_captcha_options single = {.charset = "A-Z", .length = 4, .fonts = {"DejaVuSans.ttf"}};
    capl_captcha *gen = make_preset(name, &several), *one = make_preset(name, &single);
    assert_string_equal(capl_captcha_font(gen, 1), "/usr/share/fonts/truetype/noto/NotoMono-Regular.ttf");
    assert_null(capl_captcha_font(gen, 3));
    assert_null(capl_captcha_font(gen, -1));
    int32_t labels[CAPL_LABEL_MAX];
    assert_ok(capl_captcha_draw(gen, 1, 1, 1, image, labels));
    assert_ok(capl_captcha_draw(one, 1, 1, 1, other, labels));
    assert_memory_not_equal(image, other, preset_area(gen));
    capl_captcha_unref(gen);
    capl_captcha_unref(one);
  }
}

static void a_gray_image_of_any_preset_is_the_luma_of_the_colour_one(void **state)
{
  (void)state;
  for (int p = 0; drawable_preset(p); p++) {
    capl_captcha *gen = make_preset(capl_captcha_preset_name(p), NULL);
    int32_t gray[CAPL_LABEL_MAX], colour[CAPL_LABEL_MAX];
    for (uint64_t index = 0; index < 20; index++) {
      assert_ok(capl_captcha_draw(gen, 3, index, 1, image, gray));
      assert_ok(capl_captcha_draw(gen, 3, index, 3, other, colour));
      assert_memory_equal(gray, colour, sizeof(int32_t) * (size_t)capl_captcha_length(gen));
      for (size_t i = 0; i < preset_area(gen); i++) {
        float luma = 0.299f * other[3 * i] + 0.587f * other[3 * i + 1] + 0.114f * other[3 * i + 2];
        if (fabsf(luma - image[i]) > 1.1f)
          fail_msg("%s: pixel %d: luma %g, gray %d", capl_captcha_preset_name(p), (int)i, (double)luma, image[i]);
      }
    }
    capl_captcha_unref(gen);
  }
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Of an I and an M, the image whose label says M has more ink. */
static void the_label_is_what_is_drawn(void **state)
{
  (void)state;
  static const char *const names[] = {"gd-security", "seed-custom", "gradient-curve", "free"};
  for (size_t p = 0; p < sizeof names / sizeof names[0]; p++) {
    capl_captcha *two = make_preset(names[p], &(capl_captcha_options){.charset = "IM", .length = 1});
    double ink[2] = {0}, n[2] = {0};
    for (uint64_t index = 0; index < 200; index++) {
      int32_t label;
      capl_difficulty calm = {0, 0, 1, 0, 0};
      assert_ok(capl_captcha_draw_at(two, 1, index, &calm, 1, image, &label));
      for (size_t i = 0; i < preset_area(two); i++) ink[label] += image[i] < 120;
      n[label]++;
    }
    if (!(n[0] > 60 && n[1] > 60)) fail_msg("%s: I %g times, M %g times", names[p], n[0], n[1]);
    double narrow = ink[0] / n[0], wide = ink[1] / n[1];
    if (!(wide > 1.4 * narrow)) fail_msg("%s: M has %g px of ink, I %g", names[p], wide, narrow);
    capl_captcha_unref(two);
  }
}

static void lengths_between_two_numbers_are_equally_frequent(void **state)
{
  (void)state;
  for (int p = 0; drawable_preset(p); p++) {
    capl_captcha *gen = make_preset(capl_captcha_preset_name(p),
                             &(capl_captcha_options){.length = 2, .length_max = 5, .width = 64, .height = 24});
    int count[CAPL_LABEL_MAX + 1] = {0};
    int32_t labels[CAPL_LABEL_MAX];
    char text[CAPL_LABEL_MAX + 1];
    for (uint64_t index = 0; index < 1200; index++) {
      assert_ok(capl_captcha_draw(gen, 9, index, 1, image, labels));
      count[capl_captcha_text(gen, labels, text)]++;
    }
    for (int n = 2; n <= 5; n++) assert_in_range(count[n], 235, 365); /* 300 expected, +- 4.3 sigma */
    capl_captcha_unref(gen);
  }
}

static void files_are_named_by_texts_of_their_own_length(void **state)
{
  (void)state;
  capl_captcha *gen = make_preset("gradient-curve", &(capl_captcha_options){.length = 2, .length_max = 5});
  assert_ok(capl_captcha_save(gen, 5, 10, in_folder("lengths"), 2, NULL));
  capl_image read = {0};
  for (uint32_t index = 0; index < 10; index++) {
    int32_t labels[CAPL_LABEL_MAX];
    char text[CAPL_LABEL_MAX + 1], name[64];
    assert_ok(capl_captcha_draw(gen, 5, index, 3, image, labels));
    capl_captcha_text(gen, labels, text);
    snprintf(name, sizeof name, "lengths/%s_%u.png", text, index);
    assert_ok(capl_png_read(in_folder(name), 3, &read));
    assert_memory_equal(read.pixels, image, preset_area(gen) * 3);
  }
  capl_image_fini(&read);
  capl_captcha_unref(gen);
}

static void folders_are_named_by_texts(void **state)
{
  (void)state;
  capl_captcha *gen = make_preset("icons", &(capl_captcha_options){.charset = "☀☂"});
  assert_ok(capl_captcha_save_folders(gen, 5, 12, in_folder("icons"), 2, NULL));
  capl_image read = {0};
  for (uint32_t index = 0; index < 12; index++) {
    int32_t labels[CAPL_LABEL_MAX];
    char text[CAPL_LABEL_ROOM], name[64];
    assert_ok(capl_captcha_draw(gen, 5, index, 3, image, labels));
    capl_captcha_text(gen, labels, text);
    snprintf(name, sizeof name, "icons/%s/%02u.png", text, index);
    assert_ok(capl_png_read(in_folder(name), 3, &read));
    assert_memory_equal(read.pixels, image, preset_area(gen) * 3);
  }
  capl_image_fini(&read);
  capl_captcha_unref(gen);
}

/* ---- difficulty ------------------------------------------------------------------------------ */

static void full_difficulty_is_no_difficulty(void **state)
{
  (void)state;
  static const capl_difficulty full = {0, 0, 1, 1, 1};
  for (int p = 0; drawable_preset(p); p++) {
    capl_captcha *gen = make_preset(capl_captcha_preset_name(p), NULL);
    int32_t a[CAPL_LABEL_MAX], b[CAPL_LABEL_MAX];
    for (uint64_t index = 0; index < 5; index++) {
      assert_ok(capl_captcha_draw(gen, 4, index, 3, image, a));
      assert_ok(capl_captcha_draw_at(gen, 4, index, &full, 3, other, b));
      assert_memory_equal(image, other, preset_area(gen) * 3);
    }
    capl_captcha_unref(gen);
  }
}

static double edges(const uint8_t *gray, int width, int height)
{
  double sum = 0;
  for (int y = 0; y < height; y++) {
    for (int x = 1; x < width; x++) sum += abs(gray[y * width + x] - gray[y * width + x - 1]);
  }
  return sum / (width * height);
}

static double mean_edges(const char *preset, const capl_difficulty *difficulty)
{
  capl_captcha *gen = make_preset(preset, NULL);
  int32_t labels[CAPL_LABEL_MAX];
  double sum = 0;
  for (uint64_t index = 0; index < 150; index++) {
    assert_ok(capl_captcha_draw_at(gen, 4, index, difficulty, 1, image, labels));
    sum += edges(image, capl_captcha_width(gen), capl_captcha_height(gen));
  }
  capl_captcha_unref(gen);
  return sum / 150;
}

static void less_noise_leaves_fewer_edges_in_every_preset(void **state)
{
  (void)state;
  for (int p = 0; drawable_preset(p); p++) {
    const char *name = capl_captcha_preset_name(p);
    double none = mean_edges(name, &(capl_difficulty){0, 0, 1, 0, 1}),
        half = mean_edges(name, &(capl_difficulty){0, 0, 1, 0.5f, 1});
    double full = mean_edges(name, NULL);
    if (!(none < half && half < full))
      fail_msg("%s: edges %g without noise, %g with half, %g with all", name, none, half, full);
  }
}

/* Without warp the letter itself is the same in every image; only its place and colour differ. */
static void without_warp_and_noise_letters_stand_upright(void **state)
{
  (void)state;
  capl_captcha *gen = make_preset("free",
                           &(capl_captcha_options){.charset = "H", .length = 1, .rise = {true, 0, 0},
                                                   .size = {true, 40, 40},
    .background = {true, {255, 255, 255}, {255, 255, 255}}, .ink = {true, {0, 0, 0}, {0, 0, 0}}});
  capl_difficulty calm = {0, 0, 1, 0, 0};
  for (uint64_t index = 0; index < 20; index++) {
    int32_t label;
    assert_ok(capl_captcha_draw_at(gen, 2, index, &calm, 1, image, &label));
    int rows = 0;
    for (int y = 0; y < 60; y++) {
      int dark = 0;
      for (int x = 0; x < 160; x++) dark += image[y * 160 + x] < 128;
      rows += dark > 0;
    }
    assert_in_range(rows, 28, 30); /* 0.73 em */
  }
  capl_captcha_unref(gen);
}

static int letters_seen(const capl_captcha *gen, uint64_t seed, float share, bool seen[94])
{
  int n = 0;
  memset(seen, 0, 94);
  for (uint64_t index = 0; index < 400; index++) {
    int32_t labels[CAPL_LABEL_MAX];
    assert_ok(capl_captcha_draw_at(gen, seed, index, &(capl_difficulty){0, 0, share, 1, 1}, 1, image, labels));
    for (int t = 0; t < capl_captcha_length(gen); t++) seen[labels[t]] = true;
  }
  for (int k = 0; k < 94; k++) n += seen[k];
  return n;
}

static void a_share_of_the_charset_is_part_of_every_larger_share(void **state)
{
  (void)state;
  capl_captcha *gen = make_preset("free", &(capl_captcha_options){.width = 40, .height = 20, .size = {true, 12, 12}});
  bool quarter[94], other_seed[94], half[94], all[94],
      one[94];
  assert_int_equal(letters_seen(gen, 1, 0, one), 1);
  assert_int_equal(letters_seen(gen, 1, 0.25f, quarter), 9);
  assert_int_equal(letters_seen(gen, 2, 0.25f, other_seed), 9);
  assert_int_equal(letters_seen(gen, 1, 0.5f, half), 18);
  assert_int_equal(letters_seen(gen, 1, 1, all), 36);
  for (int k = 0; k < 94; k++) {
    assert_true(!one[k] || quarter[k]);
    assert_true(!quarter[k] || half[k]);
    assert_int_equal(quarter[k], other_seed[k]);
  }
  capl_captcha_unref(gen);
}

static void a_difficulty_out_of_range_is_refused(void **state)
{
  (void)state;
  capl_captcha *gen = make_preset("free", &(capl_captcha_options){.length = 3, .length_max = 6});
  int32_t labels[CAPL_LABEL_MAX];
  assert_fails(capl_captcha_draw_at(gen, 1, 1, &(capl_difficulty){2, 4, 1, 1, 1}, 1, image, labels), CAPL_EVALUE,
               "difficulty: length is 2..4; the generator draws 3..6 characters");
  assert_fails(capl_captcha_draw_at(gen, 1, 1, &(capl_difficulty){5, 4, 1, 1, 1}, 1, image, labels), CAPL_EVALUE,
               "difficulty: length is 5..4; the generator draws 3..6 characters");
  assert_fails(capl_captcha_draw_at(gen, 1, 1, &(capl_difficulty){0, 0, 1.5f, 1, 1}, 1, image, labels), CAPL_EVALUE,
               "difficulty: charset_share is 1.5; it is a share, 0..1");
  assert_fails(capl_captcha_draw_at(gen, 1, 1, &(capl_difficulty){0, 0, 1, -1, 1}, 1, image, labels), CAPL_EVALUE,
               "difficulty: noise is -1; it is a share, 0..1");
  assert_fails(capl_captcha_draw_at(gen, 1, 1, &(capl_difficulty){0, 0, 1, 1, NAN}, 1, image, labels), CAPL_EVALUE,
               "difficulty: warp is nan; it is a share, 0..1");
  char text[CAPL_LABEL_MAX + 1];
  for (uint64_t index = 0; index < 50; index++) {
    assert_ok(capl_captcha_draw_at(gen, 1, index, &(capl_difficulty){4, 5, 1, 1, 1}, 1, image, labels));
    assert_in_range(capl_captcha_text(gen, labels, text), 4, 5);
    assert_ok(capl_captcha_draw_at(gen, 1, index, &(capl_difficulty){0, 3, 1, 1, 1}, 1, image, labels));
    assert_int_equal(capl_captcha_text(gen, labels, text), 3);
  }
  capl_captcha_unref(gen);
}

/* ---- options --------------------------------------------------------------------------------- */

static void an_option_that_a_preset_does_not_have_names_those_that_do(void **state)
{
  (void)state;
  capl_captcha *gen;
  assert_fails(capl_captcha_new("lepture", &(capl_captcha_options){.rotate = {true, 0, 5}}, &gen), CAPL_EVALUE,
               "captcha preset \"lepture\" has no option rotate; it is an option of: free, varied, icons");
  assert_fails(capl_captcha_new("gradient-curve", &(capl_captcha_options){.dots = {true, 0, 5}}, &gen), CAPL_EVALUE,
               "captcha preset \"gradient-curve\" has no option dots; it is an option of: gd-security, free, varied, "
               "icons");
  assert_fails(capl_captcha_new("free", &(capl_captcha_options){.style = "rect"}, &gen), CAPL_EVALUE,
               "captcha preset \"free\" has no option style; it is an option of: gd-security");
}

static void options_of_a_style_out_of_range_are_refused(void **state)
{
  (void)state;
  capl_captcha *gen;
  assert_fails(capl_captcha_new("free", &(capl_captcha_options){.rotate = {true, -200, 5}}, &gen), CAPL_EVALUE,
               "captcha rotate is -200..5; it must be within -180..180, the smaller number first");
  assert_fails(capl_captcha_new("free", &(capl_captcha_options){.size = {true, 40, 30}}, &gen), CAPL_EVALUE,
               "captcha size is 40..30; it must be within 6..512, the smaller number first");
  assert_fails(capl_captcha_new("free", &(capl_captcha_options){.lines = {true, 0, 2.5f}}, &gen), CAPL_EVALUE,
               "captcha lines is 0..2.5; these are whole numbers");
  assert_fails(capl_captcha_new("free", &(capl_captcha_options){.warp = {true, NAN, NAN}}, &gen), CAPL_EVALUE,
               "captcha warp is nan..nan; it must be within 0..0.5, the smaller number first");
  assert_fails(capl_captcha_new("free", &(capl_captcha_options){.ink = {true, {0, 9, 0}, {0, 8, 0}}}, &gen),
               CAPL_EVALUE, "captcha ink: green is 9..8; the darker level comes first");
  assert_fails(capl_captcha_new("gd-security", &(capl_captcha_options){.style = "round"}, &gen), CAPL_EVALUE,
               "captcha style cannot be \"round\"; there are: default, rect, circle, ellipse, ec, box, blank, any");
  assert_fails(capl_captcha_new("lepture", &(capl_captcha_options){.length = 6, .length_max = 5}, &gen), CAPL_EVALUE,
               "captcha length is 6..5; the second number must be 6..32");
}

static void fonts_that_are_not_there_are_named_with_their_package(void **state)
{
  (void)state;
  capl_captcha *gen;
  assert_fails(capl_captcha_new("free", &(capl_captcha_options){.fonts = {"NoSuch.ttf"}}, &gen), CAPL_EIO,
               "cannot find the captcha font NoSuch.ttf: it is neither in the working folder nor among the fonts "
               "installed in "
               "/usr/share/fonts");
  assert_non_null(strstr(capl_error_last()->hint, "install the Debian package fonts-dejavu-core (it provides "
                         "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf), or name another TrueType file with font "
                         "= PATH"));
  assert_fails(capl_captcha_new("seed-custom", &(capl_captcha_options){.fonts = {"DejaVuSans.ttf", "/etc/passwd"}},
                                &gen),
               CAPL_EFORMAT, "/etc/passwd is not a font FreeType can read");
}

static void capl_font_takes_the_place_of_noto_mono_alone(void **state)
{
  (void)state;
  static const char other_font[] = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf";
  setenv("CAPL_FONT", other_font, 1);
  capl_captcha *lepture = make_preset("lepture", NULL), *mixed = make_preset("mixed", NULL);
  capl_captcha *seed = make_preset("seed-custom", NULL);
  unsetenv("CAPL_FONT");
  assert_string_equal(capl_captcha_font(lepture, 0), other_font);
  assert_string_equal(capl_captcha_font(mixed, 0), other_font);
  assert_string_equal(capl_captcha_font(mixed, 1), "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf");
  assert_string_equal(capl_captcha_font(seed, 0), "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf");
  capl_captcha_unref(lepture);
  capl_captcha_unref(mixed);
  capl_captcha_unref(seed);
}

/* Each option of the list changes what its presets draw, and no option is without a preset. */
static void every_option_of_a_style_changes_its_images(void **state)
{
  (void)state;
  for (int k = 0; capl_style_option_at(k); k++) {
    const capl_style_option *option = capl_style_option_at(k);
    int used = 0;
    for (int p = 0; drawable_preset(p); p++) {
      if (!capl_captcha_preset_has(p, option)) continue;
      used++;
      capl_captcha_options changed = {.charset = "A-Z", .lines = {0}};
      char *field = (char *)&changed + option->offset;
      if (option->kind == CAPL_STYLE_WORD) {
        bool icons = strcmp(capl_captcha_preset_name(p), "icons") == 0 && strcmp(option->name, "backdrop") == 0;
        bool varied = strcmp(capl_captcha_preset_name(p), "varied") == 0 && strcmp(option->name, "ink_per") == 0;
        *(const char **)field = option->words[icons || varied ? 0 : 1]; /* not the usual one */
      } else if (option->kind == CAPL_STYLE_COLOUR) {
        *(capl_captcha_colours *)field = (capl_captcha_colours){true, {9, 90, 190}, {9, 90, 190}};
      } else {
        float value = option->most > 10 ? floorf(option->least + 11) : option->most;
        *(capl_captcha_range *)field = (capl_captcha_range){true, value, value};
      }
      capl_captcha *gen = make_preset(capl_captcha_preset_name(p), &changed);
      capl_captcha *usual = make_preset(capl_captcha_preset_name(p), &(capl_captcha_options){.charset = "A-Z"});
      int32_t labels[CAPL_LABEL_MAX];
      int same = 0;
      for (uint64_t index = 0; index < 8; index++) {
        assert_ok(capl_captcha_draw(gen, 6, index, 3, image, labels));
        assert_ok(capl_captcha_draw(usual, 6, index, 3, other, labels));
        same += memcmp(image, other, preset_area(gen) * 3) == 0;
      }
      if (same == 8) fail_msg("%s: %s changes nothing", capl_captcha_preset_name(p), option->name);
      capl_captcha_unref(gen);
      capl_captcha_unref(usual);
    }
    if (!used) fail_msg("no preset has %s", option->name);
  }
}

/* The largest difference of a letter's pixels from the background, over the channels. */
static int seen_contrast(const capl_captcha *gen, uint64_t index)
{
  int32_t label;
  int most = 0;
  assert_ok(capl_captcha_draw(gen, 7, index, 3, image, &label));
  for (size_t i = 0; i < preset_area(gen) * 3; i++) {
    int apart = abs(image[i] - image[i % 3]);
    if (apart > most) most = apart;
  }
  return most;
}

static void contrast_is_how_far_a_letter_is_from_its_background(void **state)
{
  (void)state;
  capl_captcha_options options = {.charset = "M", .length = 1, .lines = {true, 0, 0}, .arcs = {true, 0, 0},
    .curves = {true, 0, 0}, .dots = {true, 0, 0}, .contrast = {true, 9, 9}, .ink = {true, {0, 0, 0}, {255, 255, 255}}};
  capl_captcha *pale = make_preset("free", &options);
  options.contrast = (capl_captcha_range){true, 140, 140};
  capl_captcha *strong = make_preset("free", &options);
  for (uint64_t index = 0; index < 40; index++) {
    assert_in_range(seen_contrast(pale, index), 8, 10);
    assert_in_range(seen_contrast(strong, index), 139, 141); /* also where the ink is lighter: the other way has room */
  }
  capl_captcha_unref(pale);
  capl_captcha_unref(strong);
}

/* Black letters and white lines on gray: lines that are over the letters leave less of them. */
static double black_left(const char *line_place)
{
  capl_captcha *gen = make_preset("free", &(capl_captcha_options){
    .charset = "M", .length = 4, .lines = {true, 8, 8}, .arcs = {true, 0, 0}, .curves = {true, 0, 0},
    .dots = {true, 0, 0}, .line_width = {true, 3, 3}, .background = {true, {128, 128, 128}, {128, 128, 128}},
    .ink = {true, {0, 0, 0}, {0, 0, 0}}, .line_ink = {true, {255, 255, 255}, {255, 255, 255}},
    .line_place = line_place});
  int32_t labels[4];
  double black = 0;
  for (uint64_t index = 0; index < 40; index++) {
    assert_ok(capl_captcha_draw(gen, 8, index, 1, image, labels));
    for (size_t i = 0; i < preset_area(gen); i++) black += image[i] < 10;
  }
  capl_captcha_unref(gen);
  return black / 40;
}

static void lines_are_over_the_letters_or_under_them(void **state)
{
  (void)state;
  double over = black_left("over"), any = black_left("any"), under = black_left("under");
  if (!(over < 0.95 * any && any < 0.95 * under))
    fail_msg("%g px of black under lines, %g among them, %g over them", over, any, under);
}

static void each_character_widens_an_image_by_the_pitch(void **state)
{
  (void)state;
  static const int of_varied[] = {140, 180, 220, 260, 300, 340, 380, 420, 460, 500, 540, 580, 620, 660, 700, 740, 780};
  int widths[CAPL_LABEL_MAX];
  capl_captcha *gen = make_preset("varied", &(capl_captcha_options){.grows = true});
  assert_int_equal(capl_captcha_widths(gen, widths), 17);
  assert_memory_equal(widths, of_varied, sizeof of_varied);
  assert_int_equal(capl_captcha_shortest(gen), 4);
  capl_captcha_unref(gen);
  gen = make_preset("free", &(capl_captcha_options){.grows = true, .length = 3, .length_max = 5, .width = 100,
                                                     .pitch = 15});
  assert_int_equal(capl_captcha_widths(gen, widths), 3);
  for (int i = 0; i < 3; i++) assert_int_equal(widths[i], 85 + 15 * i); /* 4 characters: 100 */
  capl_captcha_unref(gen);
  gen = make_preset("varied", &(capl_captcha_options){.length = 6});
  assert_int_equal(capl_captcha_width(gen), 220);
  capl_captcha_unref(gen);
  gen = make_preset("varied", &(capl_captcha_options){.length = 6, .width = 200});
  assert_int_equal(capl_captcha_width(gen), 200);
  capl_captcha_unref(gen);
  assert_fails(capl_captcha_new("free", &(capl_captcha_options){.pitch = -1}, &gen), CAPL_EVALUE,
               "captcha pitch is -1 px; it is a positive number");
}

static void the_line_styles_of_gd_security_all_differ(void **state)
{
  (void)state;
  enum { STYLES = 7 };
  const capl_style_option *style = capl_style_option_at(0);
  for (int k = 0; strcmp(style->name, "style") != 0;) style = capl_style_option_at(++k);
  uint64_t hash[STYLES];
  for (int i = 0; i < STYLES; i++) {
    capl_captcha_options options = {.style = style->words[i], .lines = {true, 9, 9}};
    capl_captcha *gen = make_preset("gd-security", &options);
    int32_t labels[CAPL_LABEL_MAX];
    assert_ok(capl_captcha_draw(gen, 6, 1, 3, image, labels));
    hash[i] = hash_bytes(1, image, preset_area(gen) * 3);
    for (int k = 0; k < i; k++) assert_int_not_equal(hash[i], hash[k]);
    capl_captcha_unref(gen);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_presets_come_in_this_order_with_these_usual_values),
    cmocka_unit_test(every_preset_draws_odd_sizes_lengths_and_charsets),
    cmocka_unit_test(every_preset_takes_one_font_or_several),
    cmocka_unit_test(a_gray_image_of_any_preset_is_the_luma_of_the_colour_one),
    cmocka_unit_test(the_label_is_what_is_drawn),
    cmocka_unit_test(lengths_between_two_numbers_are_equally_frequent),
    cmocka_unit_test(files_are_named_by_texts_of_their_own_length),
    cmocka_unit_test(folders_are_named_by_texts),
    cmocka_unit_test(full_difficulty_is_no_difficulty),
    cmocka_unit_test(less_noise_leaves_fewer_edges_in_every_preset),
    cmocka_unit_test(without_warp_and_noise_letters_stand_upright),
    cmocka_unit_test(a_share_of_the_charset_is_part_of_every_larger_share),
    cmocka_unit_test(a_difficulty_out_of_range_is_refused),
    cmocka_unit_test(an_option_that_a_preset_does_not_have_names_those_that_do),
    cmocka_unit_test(options_of_a_style_out_of_range_are_refused),
    cmocka_unit_test(fonts_that_are_not_there_are_named_with_their_package),
    cmocka_unit_test(capl_font_takes_the_place_of_noto_mono_alone),
    cmocka_unit_test(every_option_of_a_style_changes_its_images),
    cmocka_unit_test(contrast_is_how_far_a_letter_is_from_its_background),
    cmocka_unit_test(lines_are_over_the_letters_or_under_them),
    cmocka_unit_test(each_character_widens_an_image_by_the_pitch),
    cmocka_unit_test(the_line_styles_of_gd_security_all_differ),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
