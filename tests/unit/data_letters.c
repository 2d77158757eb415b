/* data_letters.c -- tests of letters that are rendered at their first use: of charsets above 256 symbols.
**
** The same sources as in libcapl_synth, whose insides are not seen from outside, are linked in once more.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "capl/synth.h"
#include "data_files.h"
#include "data_presets.h"

#include <pthread.h>

#include "synth/glyphs.h"
#include "synth/renderer.h"

#define LATIN "!-~À-ɏ" /* 494 symbols, all in every DejaVu font */

enum { SMALL = 94, LARGE = 494, MUCH = 1 << 28 };

static const int sizes_px[] = {24, 42, 50}, upright[] = {0, 30};
static captcha_font fonts[2];

static int find_fonts(void **state)
{
  (void)state;
  static const char usual[] = "DejaVuSans.ttf";
  assert_ok(captcha_font_find(usual, usual, &fonts[0]));
  assert_ok(captcha_font_find("DejaVuSerif.ttf", usual, &fonts[1]));
  return 0;
}

static int free_fonts(void **state)
{
  (void)state;
  captcha_font_free(&fonts[0]);
  captcha_font_free(&fonts[1]);
  return 0;
}

static capl_vocab *charset(const char *spec)
{
  capl_vocab *vocab;
  assert_ok(capl_vocab_charset(spec, &vocab));
  return vocab;
}

/* ---- one letter ------------------------------------------------------------------------------- */

static captcha_letters letters_of(const capl_vocab *symbols, captcha_renderer *r, size_t most)
{
  captcha_letters l = {.n_fonts = 2, .n_sizes = 2, .size = {{20, 20}, {14, 30}}, .n_turns = 2, .degrees = upright};
  assert_ok(captcha_letters_init(&l, r, symbols, most));
  return l;
}

static capl_glyphs glyphs_of(const capl_vocab *symbols, captcha_renderer *r, size_t most)
{
  capl_glyphs g = {.n_fonts = 2, .n_sizes = 3, .size_px = sizes_px};
  assert_ok(capl_glyphs_init(&g, r, symbols, most));
  return g;
}

static void assert_same_letter(const captcha_letter *a, const captcha_letter *b)
{
  assert_int_equal(a->width, b->width);
  assert_int_equal(a->height, b->height);
  assert_int_equal(a->left, b->left);
  assert_int_equal(a->top, b->top);
  assert_int_equal(a->advance, b->advance);
  assert_memory_equal(a->coverage, b->coverage, (size_t)(a->width + 2) * (size_t)(a->height + 2));
}

static void a_letter_rendered_at_its_first_use_is_that_of_a_small_charset(void **state)
{
  (void)state;
  capl_vocab *small = charset("!-~"), *large = charset(LATIN);
  captcha_renderer r;
  captcha_renderer_init(&r, fonts);
  captcha_letters eager = letters_of(small, &r, MUCH), late = letters_of(large, &r, MUCH);
  assert_int_equal(eager.store->n, 2 * 2 * 2 * SMALL);
  assert_int_equal(late.store->n, 2 * 2 * 2 * LARGE);
  for (size_t i = 0; i < eager.store->n; i++) assert_non_null(letter_store_get(eager.store, i));
  for (size_t row = 8; row-- > 0;) { /* the other way round */
    for (size_t id = 0; id < SMALL; id += 3) {
      const captcha_letter *letter;
      assert_null(letter_store_get(late.store, row * LARGE + id));
      assert_ok(captcha_letters_render(&late, &r, row * LARGE + id, &letter));
      assert_ptr_equal(letter_store_get(late.store, row * LARGE + id), letter);
      assert_same_letter(letter, letter_store_get(eager.store, row * SMALL + id));
    }
  }
  captcha_letters_fini(&eager);
  captcha_letters_fini(&late);
  captcha_renderer_fini(&r);
  capl_vocab_unref(small);
  capl_vocab_unref(large);
}

static void strips_made_of_a_glyphs_ink_are_those_that_a_small_charset_has(void **state)
{
  (void)state;
  capl_vocab *small = charset("!-~"), *large = charset(LATIN);
  captcha_renderer r;
  captcha_renderer_init(&r, fonts);
  capl_glyphs eager = glyphs_of(small, &r, MUCH), late = glyphs_of(large, &r, MUCH);
  int8_t *strips = malloc(glyph_strips_room(128));
  assert_true(eager.whole);
  assert_false(late.whole);
  for (int sized = 0; sized < 6; sized++) {
    assert_int_equal(eager.space_w[sized], late.space_w[sized]);
    for (int id = 0; id < SMALL; id++) {
      const capl_glyph *glyph, *other = letter_store_get(eager.store, capl_glyphs_place(&eager, sized, id));
      assert_ok(capl_glyphs_render(&late, &r, capl_glyphs_place(&late, sized, id), &glyph));
      assert_null(glyph->strips);
      assert_int_equal(glyph->ink_w, other->ink_w);
      assert_int_equal(glyph->cell_h, other->cell_h);
      assert_int_equal(glyph->strip_bytes, other->strip_bytes);
      glyph_strips(glyph, strips);
      assert_memory_equal(strips, other->strips, (size_t)((glyph->ink_w + 2) / 2 + 1) * (size_t)glyph->strip_bytes);
    }
  }
  free(strips);
  capl_glyphs_fini(&eager);
  capl_glyphs_fini(&late);
  captcha_renderer_fini(&r);
  capl_vocab_unref(small);
  capl_vocab_unref(large);
}

static void a_full_store_keeps_no_more_and_its_letters_are_the_same(void **state)
{
  (void)state;
  enum { MOST = 20000 };
  capl_vocab *large = charset(LATIN);
  captcha_renderer r;
  captcha_renderer_init(&r, fonts);
  captcha_letters all = letters_of(large, &r, MUCH), few = letters_of(large, &r, MOST);
  int loose = 0;
  for (size_t i = 0; i < LARGE; i++) {
    const captcha_letter *letter, *other;
    assert_ok(captcha_letters_render(&all, &r, i, &letter));
    assert_ok(captcha_letters_render(&few, &r, i, &other));
    assert_same_letter(letter, other);
    loose += r.n_loose;
    captcha_renderer_drop(&r);
  }
  assert_in_range(few.store->used, MOST / 2, MOST);
  assert_in_range(loose, LARGE / 2, LARGE - 10);
  assert_int_equal(letter_store_bytes(few.store), few.store->used + few.store->n * sizeof(void *));
  captcha_letters_fini(&all);
  captcha_letters_fini(&few);
  captcha_renderer_fini(&r);
  capl_vocab_unref(large);
}

static void a_symbol_that_a_font_lacks_is_named_with_how_many_it_lacks(void **state)
{
  (void)state;
  capl_captcha *gen;
  capl_captcha_options o = {.charset = "a-z一-三", .fonts = {"DejaVuSans.ttf"}};
  assert_fails(capl_captcha_new("lepture", &o, &gen), CAPL_EFORMAT,
               "font /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf has no glyph for '一' (U+4E00); it lacks 10 of the "
               "36 characters of the charset");
  assert_string_equal(capl_error_last()->hint,
                      "name a font that has them: the Debian package fonts-wqy-microhei provides wqy-microhei.ttc, "
                      "fonts-noto-cjk NotoSansCJK-Regular.ttc");
  o = (capl_captcha_options){.charset = "a-zა", .fonts = {"DejaVuSans.ttf", "NotoMono-Regular.ttf"}};
  assert_fails(capl_captcha_new("free", &o, &gen), CAPL_EFORMAT,
               "font /usr/share/fonts/truetype/noto/NotoMono-Regular.ttf has no glyph for 'ა' (U+10D0); it lacks 1 of "
               "the 27 characters of the charset");
  assert_string_equal(capl_error_last()->hint,
                      "name a font that has them: the Debian package fonts-dejavu-core provides DejaVuSans.ttf, "
                      "fonts-noto-core one for each script");
}

/* ---- whole images, many threads --------------------------------------------------------------- */

enum { IMAGES = 96, THREADS = 4 };

typedef struct {
  capl_captcha *gen;
  int first, step;
  uint64_t hash[IMAGES];
} drawing;

static uint64_t hash_of(const uint8_t *bytes, size_t n)
{
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 1099511628211u;
  return h;
}

/* All images, each thread in an order of its own. */
static void *draw_all(void *context)
{
  drawing *d = context;
  int32_t labels[CAPL_LABEL_MAX];
  size_t bytes = (size_t)capl_captcha_width(d->gen) * (size_t)capl_captcha_height(d->gen) * 3;
  uint8_t *pixels = malloc(bytes);
  for (int i = 0, k = d->first; i < IMAGES; i++, k = (k + d->step) % IMAGES) {
    capl_status status = capl_captcha_draw(d->gen, 7, (uint64_t)k, 3, pixels, labels);
    d->hash[k] = status == CAPL_OK ? hash_of(pixels, bytes) ^ (uint64_t)labels[0] : 0;
  }
  free(pixels);
  return NULL;
}

static capl_captcha *latin(const char *preset)
{
  capl_captcha *gen;
  capl_captcha_options o = {.charset = LATIN, .length = 6,
                            .fonts = {"DejaVuSans.ttf", "DejaVuSerif.ttf", "DejaVuSans-Bold.ttf"}};
  assert_ok(capl_captcha_new(preset, &o, &gen));
  return gen;
}

static void threads_that_render_at_once_draw_what_one_draws(void **state)
{
  (void)state;
  static const int step[THREADS] = {1, 5, 35, 95}; /* have no factor in common with IMAGES */
  for (int p = 0; drawable_preset(p); p++) {
    drawing one = {.gen = latin(drawable_preset(p)), .step = 1}, many[THREADS];
    capl_captcha *shared = latin(drawable_preset(p));
    pthread_t thread[THREADS];
    size_t before = capl_captcha_letters_bytes(shared);
    draw_all(&one);
    for (int t = 0; t < THREADS; t++) {
      many[t] = (drawing){.gen = shared, .first = t * 7, .step = step[t]};
      assert_int_equal(pthread_create(&thread[t], NULL, draw_all, &many[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) pthread_join(thread[t], NULL);
    for (int t = 0; t < THREADS; t++) assert_memory_equal(many[t].hash, one.hash, sizeof one.hash);
    assert_int_not_equal(one.hash[0], 0);
    assert_int_equal(capl_captcha_letters_bytes(shared), capl_captcha_letters_bytes(one.gen));
    assert_true(capl_captcha_letters_bytes(shared) > before);
    capl_captcha_unref(one.gen);
    capl_captcha_unref(shared);
  }
}

static void a_small_charset_renders_nothing_while_drawing(void **state)
{
  (void)state;
  for (int p = 0; drawable_preset(p); p++) {
    drawing d = {.step = 1};
    assert_ok(capl_captcha_new(drawable_preset(p), &(capl_captcha_options){.charset = "0-9A-Z"}, &d.gen));
    size_t before = capl_captcha_letters_bytes(d.gen);
    draw_all(&d);
    assert_int_equal(capl_captcha_letters_bytes(d.gen), before);
    capl_captcha_unref(d.gen);
  }
}

/* ---- Chinese ---------------------------------------------------------------------------------- */

static void zh_word_takes_up_to_three_fonts_that_have_all_symbols(void **state)
{
  (void)state;
  capl_captcha *gen;
  if (!have_chinese()) skip();
  assert_ok(capl_captcha_new("zh-word", NULL, &gen));
  int n = 0;
  while (capl_captcha_font(gen, n)) n++;
  assert_in_range(n, 1, 3);
  assert_string_equal(capl_vocab_name(capl_captcha_vocab(gen), 0), "啊");
  assert_null(strstr(capl_captcha_charset(gen), "阿")); /* number 1 of all */
  capl_captcha_unref(gen);
  capl_captcha_options lacking = {.charset = "一-三ა"}; /* Georgian */
  if (capl_captcha_new("zh-word", &lacking, &gen) == CAPL_OK) capl_captcha_unref(gen);
  else assert_non_null(strstr(capl_error_last()->message, "has no glyph for 'ა' (U+10D0); it lacks 1 of the 11 characters"));
}

static void without_a_chinese_font_zh_word_says_which_packages_have_one(void **state)
{
  (void)state;
  static const char *const names[] = {"none-of.ttc", "these:2", NULL};
  assert_false(captcha_font_is_there(names[0]));
  assert_false(captcha_font_is_there(names[1]));
  assert_true(captcha_font_is_there("DejaVuSans.ttf:0"));
  assert_fails(captcha_fonts_missing(names), CAPL_EIO,
               "no font with Chinese characters is installed; looked for none-of.ttc, these:2");
  assert_string_equal(capl_error_last()->hint,
                      "run `apt install fonts-wqy-microhei fonts-arphic-ukai fonts-arphic-uming`, or name a font file "
                      "with font = PATH");
}

/* 20,902 symbols of three fonts at three sizes are 188,118 letters. */
static void twenty_thousand_symbols_are_drawn_at_once(void **state)
{
  (void)state;
  capl_captcha *gen;
  if (!have_chinese()) skip();
  assert_ok(capl_captcha_new("zh-word", &(capl_captcha_options){.charset = "一-龥"}, &gen));
  assert_int_equal(capl_vocab_count(capl_captcha_vocab(gen)), 20902);
  size_t table = capl_captcha_letters_bytes(gen);
  drawing d = {.gen = gen, .step = 1};
  draw_all(&d);
  size_t letters = capl_captcha_letters_bytes(gen) - table;
  assert_in_range(letters, IMAGES * 4 * 500, IMAGES * 4 * 8000);
  capl_captcha_unref(gen);
}

static void a_collection_has_a_font_for_each_number(void **state)
{
  (void)state;
  capl_captcha *gen;
  capl_captcha_options o = {.charset = "一-三", .fonts = {"wqy-microhei.ttc:1"}}, none = o;
  if (!captcha_font_is_there(o.fonts[0])) {
    printf("# skipped: wqy-microhei.ttc is not installed\n");
    skip();
  }
  assert_ok(capl_captcha_new("free", &o, &gen));
  assert_string_equal(strrchr(capl_captcha_font(gen, 0), '/'), "/wqy-microhei.ttc");
  capl_captcha_unref(gen);
  none.fonts[0] = "wqy-microhei.ttc:9";
  assert_int_equal(capl_captcha_new("free", &none, &gen), CAPL_EFORMAT);
  assert_non_null(strstr(capl_error_last()->message, "wqy-microhei.ttc has no font number 9 that FreeType can read"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_letter_rendered_at_its_first_use_is_that_of_a_small_charset),
    cmocka_unit_test(strips_made_of_a_glyphs_ink_are_those_that_a_small_charset_has),
    cmocka_unit_test(a_full_store_keeps_no_more_and_its_letters_are_the_same),
    cmocka_unit_test(a_symbol_that_a_font_lacks_is_named_with_how_many_it_lacks),
    cmocka_unit_test(threads_that_render_at_once_draw_what_one_draws),
    cmocka_unit_test(a_small_charset_renders_nothing_while_drawing),
    cmocka_unit_test(zh_word_takes_up_to_three_fonts_that_have_all_symbols),
    cmocka_unit_test(without_a_chinese_font_zh_word_says_which_packages_have_one),
    cmocka_unit_test(twenty_thousand_symbols_are_drawn_at_once),
    cmocka_unit_test(a_collection_has_a_font_for_each_number),
  };
  return cmocka_run_group_tests(tests, find_fonts, free_fonts);
}
