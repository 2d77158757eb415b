/* data_draw.c -- tests that every instruction set draws the same captchas, kernel by kernel and image by image.
**
** The kernels are linked in once more, among them a build that uses no vector instructions ("plain"), which no x86-64
** processor gets from the library.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "capl/synth.h"
#include "data_files.h"

#include <math.h>
#include <pthread.h>

#include "base/isa.h"
#include "synth/draw/draw.h"

extern const draw_kernels draw_kernels_plain;

enum { SIDE = 128, TAPS = 24 };

/* The sets this processor has, plain first. */
static int list_sets(const draw_kernels **set)
{
  capl_isa best;
  int n = 0;
  assert_ok(capl_isa_choose(&best));
  set[n++] = &draw_kernels_plain;
  set[n++] = &draw_kernels_portable;
#if defined(__x86_64__)
  if (best >= CAPL_ISA_AVX2) set[n++] = &draw_kernels_avx2;
  if (capl_isa_has_vbmi()) set[n++] = &draw_kernels_avx512;
#endif
  return n;
}

static uint32_t next_random(void)
{
  static uint32_t state = 12345;
  state = state * 1664525 + 1013904223;
  return state >> 8;
}

static int between(int lo, int hi)
{
  return lo + (int)(next_random() % (uint32_t)(hi - lo + 1));
}

static double real_between(double lo, double hi)
{
  return lo + (hi - lo) * next_random() / (1 << 24);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static draw_taps room_for_taps(void)
{
  draw_taps taps;
  assert_ok(draw_taps_init(&taps, SIDE, (TAPS - 1) / 4.0f));
  return taps;
}

static void taps_of_a_line_sum_to_one_and_are_the_same_everywhere(void **state)
{
  (void)state;
  const draw_kernels *set[4];
  int n = list_sets(set);
  draw_taps expected = room_for_taps(), taps = room_for_taps();
  for (int round = 0; round < 200; round++) {
    int n_in = between(4, 300), n_out = between(n_in / 5 + 1, SIDE);
    set[0]->taps(&expected, n_in, n_out, 1 << 14);
    for (int i = 0; i < n_out; i++) {
      int sum = 0;
      for (int k = 0; k < expected.n_taps; k++) sum += expected.weight[k * expected.max_out + i];
      if (abs(sum - (1 << 14)) > 12) fail_msg("%d -> %d: line %d's taps sum to %d", n_in, n_out, i, sum);
    }
    for (int s = 1; s < n; s++) {
      set[s]->taps(&taps, n_in, n_out, 1 << 14);
      assert_int_equal(taps.n_taps, expected.n_taps);
      assert_memory_equal(taps.first, expected.first, (size_t)n_out * 2);
      for (int k = 0; k < taps.n_taps; k++) {
        size_t from = (size_t)(k * taps.max_out);
        assert_memory_equal(taps.weight + from, expected.weight + from, (size_t)n_out * 2);
      }
    }
  }
  draw_taps_fini(&taps);
  draw_taps_fini(&expected);
}

/* Ink of random levels, as glyphs.c lays it out. */
static draw_turn random_ink(int8_t *strips)
{
  draw_turn t = {.ink_w = between(1, 60), .ink_h = between(1, 70), .strips = strips, .opacity = between(0, 255)};
  t.strip_bytes = 8 * (t.ink_h + 10);
  int n = (t.ink_w + 2) / 2 + 1;
  static int8_t pixel[128][128];
  for (int y = 0; y < 128; y++) {
    for (int x = 0; x < 128; x++)
      pixel[y][x] = (int8_t)(between(0, 2) ? (between(0, 1) ? 127 : -128) : between(-128, 127));
  }
  for (int strip = 0; strip < n; strip++) {
    for (int y = 0; y < t.ink_h + 10; y++) {
      for (int x = 0; x < 8; x++) strips[strip * t.strip_bytes + 8 * y + x] = pixel[y][2 * strip + x];
    }
  }
  return t;
}

static void set_angle(draw_turn *t, double angle)
{
  t->cos = cos(angle);
  t->sin = sin(angle);
  t->width = (int)(t->ink_w * t->cos + t->ink_h * fabs(t->sin)) + 2;
  t->height = (int)(t->ink_h * t->cos + t->ink_w * fabs(t->sin)) + 2;
  double x = 0.5 - t->width / 2.0, y = 0.5 - t->height / 2.0;
  t->u = t->cos * x + t->sin * y + t->ink_w / 2.0;
  t->v = t->cos * y - t->sin * x + t->ink_h / 2.0;
}

/* Everything that happens to a letter, into dest of 64 columns of SIDE. */
static void draw_letter(const draw_kernels *set, const draw_turn *turn, draw_sheet sheet, draw_place place,
                        int16_t *dest)
{
  int16_t *plane = draw_room((SIDE + TAPS) * SIDE * 2), *other = draw_room((SIDE + TAPS) * SIDE * 2);
  draw_taps across = room_for_taps(), down = room_for_taps();
  sheet.alpha = draw_room(SIDE * SIDE + 128);
  place.dest = dest;
  set->turn(turn, plane, SIDE);
  set->taps(&across, turn->width, sheet.width, 1 << 14);
  set->taps(&down, turn->height, sheet.height, 1 << 14);
  set->stretch(&across, &down, turn->height, plane, other, SIDE, &sheet);
  set->place(&place, &sheet);
  draw_taps_fini(&across);
  draw_taps_fini(&down);
  free(plane);
  free(other);
  free(sheet.alpha);
}

static void a_letter_is_the_same_everywhere(void **state)
{
  (void)state;
  const draw_kernels *set[4];
  int n = list_sets(set);
  int8_t *strips = draw_room(64 * 8 * 90);
  int16_t cover[DRAW_ALPHAS], expected[64 * SIDE], dest[64 * SIDE];
  for (int round = 0; round < 150; round++) {
    draw_turn turn = random_ink(strips);
    set_angle(&turn, real_between(-0.6, 0.6));
    draw_sheet sheet = {.width = between(8, SIDE - 1), .height = between(8, SIDE - 1)};
    for (int a = 0; a < DRAW_ALPHAS; a++) cover[a] = (int16_t)(a ? between(-8000, 24576) : 0);
    double w = sheet.width, h = sheet.height;
    draw_place place = {.x1 = between(1, 64), .y0 = between(0, 5), .y1 = between(6, 100), .cover = cover,
                        .dest_step = SIDE};
    place.u = (draw_map){real_between(-5, 5), w / place.x1, real_between(-0.3, 0.3), real_between(-0.005, 0.005)};
    place.v = (draw_map){real_between(-5, 5), real_between(-0.3, 0.3), h / 100, real_between(-0.005, 0.005)};
    for (int i = 0; i < 64 * SIDE; i++) expected[i] = dest[i] = 0;
    draw_letter(set[0], &turn, sheet, place, expected);
    for (int s = 1; s < n; s++) {
      memset(dest, 0, sizeof dest);
      draw_letter(set[s], &turn, sheet, place, dest);
      if (memcmp(dest, expected, sizeof dest)) fail_msg("round %d: %s differs from plain", round, set[s]->isa);
    }
  }
  free(strips);
}

/* Squeeze, smoothing and colour of random coverage: pixels must hold 3 * 200 * 100 bytes. */
static void paint_plane(const draw_kernels *set, const int16_t *canvas, int from, int width, int height, int channels,
                        uint8_t *pixels)
{
  int16_t *planes = draw_room(2 * 220 * SIDE * 2), *plane = planes + 4 * SIDE, *smoothed = plane + 220 * SIDE;
  int16_t *rows = draw_room(DRAW_ROWS * DRAW_ROW_STEP * 2);
  uint8_t line[3 * (DRAW_WIDEST + DRAW_PAD)];
  draw_taps taps;
  assert_ok(draw_taps_init(&taps, width, (float)from / (float)width));
  set->taps(&taps, from, width, 1 << 15);
  set->squeeze(from > width ? &taps : NULL, width, canvas, plane, SIDE);
  set->smooth(plane, width, height, SIDE, smoothed);
  draw_colours colours = {{238, 246, 255}, {10, 105, 200}};
  set->colour(smoothed, width, height, SIDE, &colours, channels, rows, line, pixels);
  draw_taps_fini(&taps);
  free(planes);
  free(rows);
}

static void a_plane_is_the_same_everywhere(void **state)
{
  (void)state;
  enum { MOST = 300 };
  const draw_kernels *set[4];
  int n = list_sets(set);
  int16_t *canvas = draw_room((MOST + 80) * SIDE * 2);
  static uint8_t expected[3 * 200 * 100], pixels[3 * 200 * 100];
  for (int round = 0; round < 60; round++) {
    int width = between(16, 200), height = between(16, 100), channels = between(0, 1) ? 3 : 1;
    int from = between(0, 2) ? between(width, MOST) : width;
    for (int i = 0; i < from * SIDE; i++) canvas[i] = (int16_t)between(-2000, DRAW_INK + 2000);
    paint_plane(set[0], canvas, from, width, height, channels, expected);
    for (int s = 1; s < n; s++) {
      memset(pixels, 0, sizeof pixels);
      paint_plane(set[s], canvas, from, width, height, channels, pixels);
      if (memcmp(pixels, expected, (size_t)(width * height * channels)))
        fail_msg("round %d: %s differs from plain", round, set[s]->isa);
    }
  }
  free(canvas);
}

static void nothing_becomes_the_background_and_full_coverage_the_ink(void **state)
{
  (void)state;
  const draw_kernels *set[4];
  int n = list_sets(set);
  int16_t *canvas = draw_room(200 * SIDE * 2);
  static uint8_t pixels[3 * 200 * 100];
  for (int s = 0; s < n; s++) {
    for (int full = 0; full < 2; full++) {
      for (int i = 0; i < 200 * SIDE; i++) canvas[i] = full ? DRAW_INK : 0;
      paint_plane(set[s], canvas, 150, 100, 40, 3, pixels);
      static const uint8_t colour[2][3] = {{238, 246, 255}, {10, 105, 200}};
      for (int i = 0; i < 100 * 40 * 3; i++)
        assert_in_range(pixels[i] + 1, colour[full][i % 3], colour[full][i % 3] + 2);
    }
  }
  free(canvas);
}

/* ---- whole images ---------------------------------------------------------------------------- */

typedef struct {
  const char *preset;
  capl_captcha_options options;
  int n;
  uint64_t hash; /* with FreeType 2.12.1 and the default font */
} drawing;

static const drawing drawings[] = {
  {"lepture", {0}, 60, UINT64_C(0x72c8e549b723d620)},
  {"lepture-0.7.1", {0}, 30, UINT64_C(0xce85f58e402fe290)},
  {"lepture", {.charset = "!-~", .length = 1, .width = 16, .height = 16}, 30, UINT64_C(0xc0982ea0b470447b)},
  {"lepture", {.charset = "0-9a-z", .length = 32, .width = 20, .height = 200}, 10, UINT64_C(0xa4d14dff674abd7c)},
  {"lepture", {.length = 6, .width = 161, .height = 61}, 20, UINT64_C(0xad8969729393eee7)},
  {"lepture", {.charset = "|gjW@", .length = 7, .width = 333, .height = 17}, 20, UINT64_C(0xc75979a11325fb22)},
  {"lepture", {.length = 32, .width = 1024, .height = 1024}, 2, UINT64_C(0xeeb1dd144e9638b7)},
  {"lepture", {.length = 5, .width = 31, .height = 1023}, 4, UINT64_C(0x47c791f5a7053cf5)},
};
enum { N_DRAWINGS = sizeof drawings / sizeof drawings[0] };

static uint64_t hash_drawing(const drawing *d)
{
  static uint8_t pixels[1024 * 1024 * 3];
  capl_captcha *gen;
  uint64_t hash = 1;
  assert_ok(capl_captcha_new(d->preset, &d->options, &gen));
  size_t area = (size_t)capl_captcha_width(gen) * (size_t)capl_captcha_height(gen);
  for (int i = 0; i < d->n; i++) {
    int32_t labels[CAPL_LABEL_MAX];
    for (int channels = 1; channels <= 3; channels += 2) {
      assert_ok(capl_captcha_draw(gen, 9, (uint64_t)i, channels, pixels, labels));
      hash = hash_bytes(hash, pixels, area * (size_t)channels);
    }
  }
  capl_captcha_unref(gen);
  return hash;
}

/* Letters may differ with another FreeType; the hashes are those of one that is widespread, and of the default font. */
static void check_golden(int i, uint64_t hash)
{
  if (strcmp(capl_freetype_version(), "2.12.1") || getenv("CAPL_FONT")) return;
  if (hash != drawings[i].hash) fail_msg("drawing %d has the hash 0x%016llx", i, (unsigned long long)hash);
}

static void an_image_is_the_same_for_every_instruction_set_and_for_good(void **state)
{
  (void)state;
  capl_isa best;
  assert_ok(capl_isa_choose(&best));
  uint64_t expected[N_DRAWINGS];
  for (capl_isa isa = CAPL_ISA_PORTABLE; isa <= best; isa++) {
    assume_isa(capl_isa_name(isa));
    for (int i = 0; i < N_DRAWINGS; i++) {
      uint64_t hash = hash_drawing(&drawings[i]);
      if (isa == CAPL_ISA_PORTABLE) check_golden(i, expected[i] = hash);
      if (hash != expected[i]) fail_msg("drawing %d: %s differs from portable", i, capl_isa_name(isa));
    }
  }
  unsetenv("CAPL_ASSUME");
}

static void a_wrong_instruction_set_is_refused(void **state)
{
  (void)state;
  capl_captcha *gen;
  assume_isa("mmx");
  assert_int_equal(capl_captcha_new("lepture", NULL, &gen), CAPL_EVALUE);
  assert_non_null(strstr(capl_error_last()->message, "CAPL_ASSUME: isa is 'mmx'; it is avx512, avx2 or portable"));
  unsetenv("CAPL_ASSUME");
}

int main(void)
{
  unsetenv("CAPL_ASSUME");
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(taps_of_a_line_sum_to_one_and_are_the_same_everywhere),
    cmocka_unit_test(a_letter_is_the_same_everywhere),
    cmocka_unit_test(a_plane_is_the_same_everywhere),
    cmocka_unit_test(nothing_becomes_the_background_and_full_coverage_the_ink),
    cmocka_unit_test(an_image_is_the_same_for_every_instruction_set_and_for_good),
    cmocka_unit_test(a_wrong_instruction_set_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
