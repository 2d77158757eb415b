/* data_scenes.c -- tests of generated scenes: the same bytes everywhere, labels that fit the pixels, shares of dice.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

#include <math.h>

#include "capl/synth.h"

enum { POINTS, BOXES, ANGLE, FACTS };

typedef struct {
  uint8_t pixels[512 * 512 * 3], mask[512 * 512];
  float points[12], boxes[20], angle[1], facts[4];
} sample;

static sample one, other; /* too large for the stack */

static capl_sample slider_room(sample *s, bool pixels)
{
  return (capl_sample){.pixels = pixels ? s->pixels : NULL, .field = {s->points, s->boxes, s->angle, s->facts}};
}

static capl_source *sliders(const capl_slider_options *options, uint64_t seed)
{
  capl_source *source;
  assert_ok(capl_source_slider_new(options, &(capl_scene_set){.seed = seed}, &source));
  return source;
}

static capl_source *faces_in(int size, capl_face_style style, uint64_t seed)
{
  capl_source *source;
  assert_ok(capl_source_faces_new(size, style, &(capl_scene_set){.seed = seed}, &source));
  return source;
}

static capl_source *faces(int size, uint64_t seed)
{
  return faces_in(size, CAPL_FACE_PAINTED, seed);
}

/* ---- the same bytes everywhere --------------------------------------------------------------- */

/* Frozen: what a seed shows must never change, neither with the machine nor with the compiler. */
static void a_seed_shows_the_same_captchas_for_ever(void **state)
{
  (void)state;
  static const uint64_t expected[] = {0x5a3725315f1577aa, 0xdb6c2b802754886b, 0x719c963dfd3aa6af, 0x7487b1b78422cc73,
                                      0x9030b18627c29654, 0x09212d33f3727875, 0x98808c296a80ee18, 0xfdb87c65c2c2be3c,
                                      0x346e511b42700c34, 0xa01d6a979519355b};
  static const capl_slider_options mixed = {.mixed = true}, outline = {.style = CAPL_SLIDER_OUTLINE};
  for (int i = 0; i < 10; i++) {
    bool large = i >= 3 && i < 6;
    capl_source *source = sliders(large ? &mixed : i < 3 ? NULL : &outline, 42);
    capl_sample to = slider_room(&one, true);
    assert_ok(capl_source_read(source, 1, (uint32_t)i, &to));
    size_t bytes = large ? 512 * 256 * 3 : 320 * 160 * 3;
    uint64_t h = hash_bytes(hash_bytes(hash_bytes(1, one.pixels, bytes), one.points, sizeof one.points), one.boxes,
                            sizeof one.boxes);
    if (h != expected[i]) fail_msg("captcha %d has hash 0x%016llx", i, (unsigned long long)h);
    capl_source_unref(source);
  }
}

static void a_seed_shows_the_same_faces_for_ever(void **state)
{
  (void)state;
  static const uint64_t expected[] = {0x46b37df8fc38a352, 0x6449fd3de692e4c8, 0x8133a2d63eec1363, 0x16a11810590257e7,
                                      0xf61381292ac8f767};
  static const int size[] = {512, 256, 64, 256, 64};
  for (int i = 0; i < 5; i++) {
    capl_source *source = faces_in(size[i], i < 3 ? CAPL_FACE_PAINTED : CAPL_FACE_DRAWING, 42);
    size_t area = (size_t)size[i] * (size_t)size[i];
    assert_ok(capl_source_read(source, 1, (uint32_t)i, &(capl_sample){.pixels = one.pixels, .field = {one.mask}}));
    uint64_t h = hash_bytes(hash_bytes(1, one.pixels, 3 * area), one.mask, area);
    if (h != expected[i]) fail_msg("face %d has hash 0x%016llx", i, (unsigned long long)h);
    capl_source_unref(source);
  }
}

static void labels_alone_are_those_with_pixels(void **state)
{
  (void)state;
  capl_source *source = sliders(NULL, 5);
  for (uint32_t id = 0; id < 20; id++) {
    memset(&one, 1, sizeof one), memset(&other, 2, sizeof other);
    capl_sample with = slider_room(&one, true), without = slider_room(&other, false);
    assert_ok(capl_source_read(source, 0, id, &with));
    assert_ok(capl_source_read(source, 0, id, &without));
    assert_memory_equal(one.points, other.points, sizeof one.points);
    assert_memory_equal(one.boxes, other.boxes, sizeof one.boxes);
    assert_memory_equal(one.facts, other.facts, sizeof one.facts);
    assert_true(one.angle[0] == other.angle[0]);
  }
  capl_source_unref(source);
  source = faces(128, 5);
  assert_ok(capl_source_read(source, 0, 3, &(capl_sample){.pixels = one.pixels, .field = {one.mask}}));
  assert_ok(capl_source_read(source, 0, 3, &(capl_sample){.field = {other.mask}}));
  assert_ok(capl_source_read(source, 0, 3, &(capl_sample){.pixels = other.pixels}));
  assert_memory_equal(one.mask, other.mask, 128 * 128);
  assert_memory_equal(one.pixels, other.pixels, 128 * 128 * 3);
  capl_source_unref(source);
}

static void a_fixed_set_is_the_same_each_epoch_and_no_fresh_one(void **state)
{
  (void)state;
  capl_source *fixed, *fresh = sliders(NULL, 9);
  assert_ok(capl_source_slider_new(NULL, &(capl_scene_set){.seed = 9, .fixed = true, .count = 10}, &fixed));
  assert_int_equal(capl_source_count(fixed), 10);
  capl_sample a = slider_room(&one, true), b = slider_room(&other, true);
  assert_ok(capl_source_read(fixed, 1, 4, &a));
  assert_ok(capl_source_read(fixed, 2, 4, &b));
  assert_memory_equal(one.pixels, other.pixels, 320 * 160 * 3);
  assert_ok(capl_source_read(fresh, 1, 4, &b));
  assert_memory_not_equal(one.points, other.points, sizeof one.points);
  assert_ok(capl_source_read(fresh, 2, 4, &a));
  assert_memory_not_equal(one.points, other.points, sizeof one.points);
  capl_source_unref(fixed);
  capl_source_unref(fresh);
}

/* ---- slider captchas: labels and pixels ------------------------------------------------------ */

/* The gap alone: the difference to the same captcha under an other seed of effects is not at hand, so the background is
** taken from a captcha of the same number whose gap lies elsewhere. */
static void points_lie_in_the_middle_of_what_is_dark(void **state)
{
  (void)state;
  static const capl_slider_options still = {.background_first = 77, .background_count = 1};
  capl_source *source = sliders(&still, 3);
  int seen = 0;
  for (uint32_t id = 0; id < 60; id++) {
    capl_sample a = slider_room(&one, true), b = slider_room(&other, true);
    assert_ok(capl_source_read(source, 0, id, &a));
    if (one.facts[3] != 0 && one.facts[3] != 1 << CAPL_CONFUSION_ROTATION) continue;
    uint32_t next = id + 1;
    const float *box = one.boxes;
    do assert_ok(capl_source_read(source, 0, next++, &b)); /* one with nothing where this one has its gap */
    while (!(other.boxes[2] + 2 < box[0] || other.boxes[0] - 2 > box[2]) || other.points[8] > 0
           || other.boxes[7] + 2 > box[0])
      ;
    double x = 0, y = 0, n = 0;
    for (int row = (int)box[1] - 1; row <= (int)box[3] + 1; row++)
      for (int column = (int)box[0] - 1; column <= (int)box[2] + 1; column++) {
        size_t at = 3 * ((size_t)row * 320 + (size_t)column);
        int less = other.pixels[at] + other.pixels[at + 1] + other.pixels[at + 2] - one.pixels[at] - one.pixels[at + 1]
            - one.pixels[at + 2];
        if (less < 60) continue;
        x += column + 0.5, y += row + 0.5, n++;
      }
    assert_true(n > 400);
    assert_true(fabs(x / n - (double)one.points[0]) < 0.7 && fabs(y / n - (double)one.points[1]) < 0.7);
    seen++;
  }
  assert_in_range(seen, 10, 60);
  capl_source_unref(source);
}

static bool overlap(const float *a, const float *b)
{
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}

static void check_layout(const sample *s, int width, int height)
{
  const float *gap = s->boxes, *piece = s->boxes + 5;
  assert_true(gap[4] == 0 && piece[4] == 1 && s->points[2] == 1 && s->points[5] == 1);
  assert_true(gap[0] - piece[2] >= 8); /* 10 px but for what a turn adds */
  for (int i = 0; i < 4; i++) {
    const float *box = s->boxes + 5 * i, *point = s->points + 3 * i;
    assert_true((box[4] >= 0) == (point[2] == 1));
    if (box[4] < 0) continue;
    assert_true(box[0] >= -0.01f && box[1] >= 0 && box[2] <= (float)width && box[3] <= (float)height);
    assert_true(point[0] > box[0] && point[0] < box[2] && point[1] > box[1] && point[1] < box[3]);
    for (int k = 0; k < i; k++) assert_false(overlap(box, s->boxes + 5 * k));
  }
}

static void gap_piece_and_decoys_lie_apart_inside_the_picture(void **state)
{
  (void)state;
  static const capl_slider_options all[] = {{0}, {.mixed = true},
                                            {.width = 240, .height = 120, .size_lo = 96, .size_hi = 96},
                                            {.style = CAPL_SLIDER_OUTLINE}};
  for (int k = 0; k < 4; k++) {
    capl_source *source = sliders(&all[k], 11);
    for (uint32_t id = 0; id < 3000; id++) {
      capl_sample to = slider_room(&one, false);
      assert_ok(capl_source_read(source, 0, id, &to));
      check_layout(&one, capl_source_width(source), capl_source_height(source));
    }
    capl_source_unref(source);
  }
}

/* ---- slider captchas: dice ------------------------------------------------------------------- */

/* Share of n that had it lies within four standard deviations. */
static void assert_share(const char *what, int had, int n, double share)
{
  double expected = n * share, bound = 4 * sqrt(n * share * (1 - share)) + 1;
  if (fabs(had - expected) > bound) fail_msg("%s: %d of %d, not about %.0f", what, had, n, expected);
}

static void confusions_come_as_often_as_their_list_says(void **state)
{
  (void)state;
  enum { N = 10000 };
#define X(name, text, share) share,
  static const int shares[] = {CAPL_SLIDER_CONFUSION_MAP(X)};
#undef X
  int alone[CAPL_SLIDER_CONFUSIONS] = {0}, plain = 0, several = 0, without = 0;
  capl_source *source = sliders(NULL, 21);
  for (uint32_t id = 0; id < N; id++) {
    capl_sample to = slider_room(&one, false);
    assert_ok(capl_source_read(source, 0, id, &to));
    unsigned bits = (unsigned)one.facts[3];
    int n = __builtin_popcount(bits);
    plain += n == 0, several += n > 1;
    if (n == 1) alone[__builtin_ctz(bits)]++;
    assert_int_equal((bits >> CAPL_CONFUSION_ROTATION & 1) != 0, one.angle[0] != 0);
    if (one.angle[0] != 0) assert_true(fabsf(one.angle[0]) >= 0.499f && fabsf(one.angle[0]) <= 1.501f);
    if (!(bits >> CAPL_CONFUSION_DECOY & 1)) assert_true(one.points[8] == 0);
    else without += one.points[8] == 0;
  }
  assert_share("plain", plain, N, CAPL_SLIDER_PLAIN / 100.0);
  assert_share("combined", several, N, CAPL_SLIDER_COMBINED / 100.0);
  for (int i = 0; i < CAPL_SLIDER_CONFUSIONS; i++)
    assert_share(capl_slider_confusion_name(i), alone[i], N, shares[i] / 100.0);
  assert_int_equal(without, 0); /* a decoy that was wanted found its place */
  capl_source_unref(source);
}

static void places_shapes_and_sizes_are_spread_evenly(void **state)
{
  (void)state;
  enum { N = 10000 };
#define X(name, text, share, other) share,
  static const int shares[] = {CAPL_SLIDER_SHAPE_MAP(X)};
#undef X
  int shape[CAPL_SLIDER_SHAPES] = {0}, size[10] = {0}, fraction[10] = {0}, high[10] = {0};
  capl_source *source = sliders(NULL, 22);
  for (uint32_t id = 0; id < N; id++) {
    capl_sample to = slider_room(&one, false);
    assert_ok(capl_source_read(source, 0, id, &to));
    shape[(int)one.facts[1]]++;
    size[((int)one.facts[2] - 46) / 2]++;
    float middle = 0.5f * (one.boxes[0] + one.boxes[2]), tall = one.facts[2] + 20;
    fraction[(int)(10 * (middle - floorf(middle)))]++;
    if (one.facts[1] == CAPL_SLIDER_CIRCLE) high[(int)(10 * (one.points[1] - tall / 2) / (160 - tall))]++;
  }
  for (int i = 0; i < CAPL_SLIDER_SHAPES; i++) assert_share(capl_slider_shape_name(i), shape[i], N, shares[i] / 13.0);
  for (int i = 0; i < 10; i++) {
    assert_share("size", size[i], N, 0.1);
    assert_share("fraction of a pixel", fraction[i], N, 0.1);
    assert_share("height", high[i], shape[CAPL_SLIDER_CIRCLE], 0.1);
  }
  capl_source_unref(source);
}

static void backgrounds_and_shapes_are_those_asked_for(void **state)
{
  (void)state;
  static const capl_slider_options o = {.background_first = 1800, .background_count = 200,
                                        .shapes = 1u << CAPL_SLIDER_JIGSAW | 1u << CAPL_SLIDER_CIRCLE, .size_lo = 50,
                                        .size_hi = 51};
  int lowest = 9999, highest = 0, circles = 0;
  capl_source *source = sliders(&o, 23);
  for (uint32_t id = 0; id < 3000; id++) {
    capl_sample to = slider_room(&one, false);
    assert_ok(capl_source_read(source, 0, id, &to));
    int background = (int)one.facts[0];
    lowest = background < lowest ? background : lowest;
    highest = background > highest ? background : highest;
    assert_true(one.facts[1] == CAPL_SLIDER_JIGSAW || one.facts[1] == CAPL_SLIDER_CIRCLE);
    assert_true(one.facts[2] == 50);
    circles += one.facts[1] == CAPL_SLIDER_CIRCLE;
  }
  assert_int_equal(lowest * 10000 + highest, 18001999);
  assert_share("circles", circles, 3000, 1 / 7.0);
  capl_source_unref(source);
}

/* Of a bright gap on one background: the middle of what is brighter than in a picture whose gap lies elsewhere. */
static void places_of_the_other_shapes_are_their_middles(void **state)
{
  (void)state;
  for (int shape = CAPL_SLIDER_STAR; shape <= CAPL_SLIDER_MOON; shape++) {
    const capl_slider_options o = {.background_first = 77, .background_count = 1, .style = CAPL_SLIDER_OUTLINE,
                                   .shapes = 1u << shape};
    capl_source *source = sliders(&o, 3);
    int seen = 0;
    for (uint32_t id = 0; id < 200 && seen < 4; id++) {
      capl_sample a = slider_room(&one, true), b = slider_room(&other, true);
      assert_ok(capl_source_read(source, 0, id, &a));
      assert_int_equal((int)one.facts[1], shape);
      if (one.facts[3] != 1 << CAPL_CONFUSION_HIGHLIGHT) continue;
      const float *box = one.boxes;
      uint32_t next = id + 1;
      do assert_ok(capl_source_read(source, 0, next++, &b));
      while (!(other.boxes[2] + 2 < box[0] || other.boxes[0] - 2 > box[2]) || other.points[8] > 0
             || other.boxes[7] + 14 > box[0]);
      double x = 0, y = 0, n = 0;
      for (int row = (int)box[1] - 1; row <= (int)box[3] + 1; row++)
        for (int column = (int)box[0] - 1; column <= (int)box[2] + 1; column++) {
          size_t at = 3 * ((size_t)row * 320 + (size_t)column);
          int more = 0;
          for (int k = 0; k < 3; k++) more += abs(one.pixels[at + (size_t)k] - other.pixels[at + (size_t)k]);
          if (more < 40) continue;
          x += column + 0.5, y += row + 0.5, n++;
        }
      if (fabs(x / n - (double)one.points[0]) > 1 || fabs(y / n - (double)one.points[1]) > 1)
        fail_msg("%s %u: (%.1f, %.1f), not (%.1f, %.1f)", capl_slider_shape_name(shape), id, (double)one.points[0],
                 (double)one.points[1], x / n, y / n);
      seen++;
    }
    assert_int_equal(seen, 4);
    capl_source_unref(source);
  }
}

static void each_style_has_shapes_of_its_own(void **state)
{
  (void)state;
  for (int style = 0; style < CAPL_SLIDER_STYLES; style++) {
    capl_source *source = sliders(&(capl_slider_options){.style = (capl_slider_style)style}, 24);
    for (uint32_t id = 0; id < 1000; id++) {
      capl_sample to = slider_room(&one, false);
      assert_ok(capl_source_read(source, 0, id, &to));
      assert_int_equal(one.facts[1] >= CAPL_SLIDER_STAR, style == CAPL_SLIDER_OUTLINE);
    }
    capl_source_unref(source);
  }
}

static void bad_options_are_refused(void **state)
{
  (void)state;
  capl_source *source = NULL;
  const capl_scene_set set = {.seed = 1};
  assert_fails(capl_source_slider_new(&(capl_slider_options){.width = 200}, &set, &source), CAPL_EVALUE,
               "a slider captcha is 240..2048 px wide, not 200");
  assert_fails(capl_source_slider_new(&(capl_slider_options){.height = 3000}, &set, &source), CAPL_EVALUE,
               "a slider captcha is 120..2048 px high, not 3000");
  assert_fails(capl_source_slider_new(&(capl_slider_options){.size_lo = 51, .size_hi = 51}, &set, &source), CAPL_EVALUE,
               "the size of a piece is an even number of 51..51 px; there is none, or it is not within 32..96");
  assert_fails(capl_source_slider_new(&(capl_slider_options){.style = CAPL_SLIDER_STYLES}, &set, &source), CAPL_EVALUE,
               "there are 2 styles of slider captchas, not 3");
  assert_fails(capl_source_faces_new(64, CAPL_FACE_STYLES, &set, &source), CAPL_EVALUE,
               "there are 2 styles of faces, not 3");
  assert_fails(capl_source_faces_new(32, 0, &set, &source), CAPL_EVALUE, "a face is 64..1024 px wide and high, not 32");
  assert_fails(capl_source_faces_new(0, 0, &(capl_scene_set){.channels = 2}, &source), CAPL_EVALUE,
               "a picture has 1 or 3 channels, not 2");
  assert_null(source);
}

/* ---- faces ----------------------------------------------------------------------------------- */

/* Sums over one class of a mask. */
typedef struct {
  long n;
  double x, y;
} patch;

static patch find(const uint8_t *mask, int size, int class)
{
  patch p = {0};
  for (int i = 0; i < size * size; i++)
    if (mask[i] == class) p.n++, p.x += i % size, p.y += i / size;
  if (p.n) p.x /= (double)p.n, p.y /= (double)p.n;
  return p;
}

static void check_parts(capl_face_style style)
{
  enum { SIZE = 128 };
  capl_source *source = faces_in(SIZE, style, 31);
  for (uint32_t id = 0; id < 120; id++) {
    patch part[CAPL_FACE_CLASSES];
    assert_ok(capl_source_read(source, 0, id, &(capl_sample){.field = {one.mask}}));
    for (int k = 0; k < CAPL_FACE_CLASSES; k++) part[k] = find(one.mask, SIZE, k);
    const patch *eye = &part[CAPL_FACE_LEFT_EYE], *brow = &part[CAPL_FACE_LEFT_BROW], *nose = &part[CAPL_FACE_NOSE];
    assert_true(part[CAPL_FACE_SKIN].n > 500 && nose->n > 20 && part[CAPL_FACE_NECK].n > 50
                && part[CAPL_FACE_CLOTH].n > 20);
    if (part[CAPL_FACE_GLASSES].n == 0) {
      assert_true(eye[0].n > 8 && eye[1].n > 8);
      assert_true(eye[0].x < nose->x && nose->x < eye[1].x); /* left is the picture's left */
      assert_true(brow[0].y < eye[0].y && brow[1].y < eye[1].y && eye[0].y < nose->y && eye[1].y < nose->y);
    }
    assert_true(brow[0].x < brow[1].x);
    assert_true(nose->y < part[CAPL_FACE_UPPER_LIP].y && part[CAPL_FACE_UPPER_LIP].y < part[CAPL_FACE_LOWER_LIP].y);
    if (part[CAPL_FACE_MOUTH].n > 5)
      assert_true(part[CAPL_FACE_MOUTH].y > part[CAPL_FACE_UPPER_LIP].y
                  && part[CAPL_FACE_MOUTH].y < part[CAPL_FACE_LOWER_LIP].y);
    assert_true(part[CAPL_FACE_LOWER_LIP].y < part[CAPL_FACE_NECK].y);
    if (part[CAPL_FACE_LEFT_EAR].n > 0 && part[CAPL_FACE_RIGHT_EAR].n > 0)
      assert_true(part[CAPL_FACE_LEFT_EAR].x < nose->x && nose->x < part[CAPL_FACE_RIGHT_EAR].x);
  }
  capl_source_unref(source);
}

static void faces_have_their_parts_where_they_belong(void **state)
{
  (void)state;
  for (int style = 0; style < CAPL_FACE_STYLES; style++) check_parts((capl_face_style)style);
}

static void face_classes_are_as_uneven_as_in_photographs(void **state)
{
  (void)state;
  enum { SIZE = 64, N = 1000 };
  double area[CAPL_FACE_CLASSES] = {0};
  int has[CAPL_FACE_CLASSES] = {0};
  capl_source *source = faces(SIZE, 32);
  for (uint32_t id = 0; id < N; id++) {
    int found[CAPL_FACE_CLASSES] = {0};
    assert_ok(capl_source_read(source, 0, id, &(capl_sample){.field = {one.mask}}));
    for (int i = 0; i < SIZE * SIZE; i++) found[one.mask[i]]++;
    for (int k = 0; k < CAPL_FACE_CLASSES; k++) area[k] += found[k] / (double)(N * SIZE * SIZE), has[k] += found[k] > 0;
  }
  assert_true(area[CAPL_FACE_BACKGROUND] + area[CAPL_FACE_HAIR] + area[CAPL_FACE_SKIN] > 0.75);
  assert_true(area[CAPL_FACE_BACKGROUND] > area[CAPL_FACE_HAIR] && area[CAPL_FACE_HAIR] > area[CAPL_FACE_CLOTH]);
  assert_share("hats", has[CAPL_FACE_HAT], N, 0.05);
  assert_share("glasses", has[CAPL_FACE_GLASSES], N, 0.08);
  assert_in_range(has[CAPL_FACE_NECKLACE], N / 50, N * 6 / 100);
  assert_in_range(has[CAPL_FACE_EARRING], N * 8 / 100, N * 20 / 100); /* behind hair, some are not seen */
  for (int k = 0; k < CAPL_FACE_CLASSES; k++) assert_true(has[k] > 0);
  assert_true(area[CAPL_FACE_NECKLACE] < 0.001 && area[CAPL_FACE_EARRING] < 0.001);
  capl_source_unref(source);
}

/* Where the mask says lip, the picture is red; where it says eye, it is not skin: the two fit to the pixel. */
static void masks_fit_the_picture(void **state)
{
  (void)state;
  enum { SIZE = 256 };
  capl_source *source = faces(SIZE, 33);
  for (uint32_t id = 0; id < 15; id++) {
    double step = 0, inside = 0;
    long n_step = 0, n_inside = 0;
    assert_ok(capl_source_read(source, 0, id, &(capl_sample){.pixels = one.pixels, .field = {one.mask}}));
    for (int y = 0; y < SIZE; y++)
      for (int x = 1; x < SIZE - 1; x++) {
        const uint8_t *m = one.mask + y * SIZE + x, *p = one.pixels + 3 * (y * SIZE + x);
        double change = 0;
        for (int k = 0; k < 3; k++) change += abs(p[k + 3] - p[k - 3]);
        if (m[-1] == m[1]) inside += change, n_inside++;
        else step += change, n_step++;
      }
    assert_true(step / (double)n_step > 3 * inside / (double)n_inside);
  }
  capl_source_unref(source);
}

static void names_and_swaps_are_listed(void **state)
{
  (void)state;
  int sum = 0;
  assert_string_equal(capl_face_class_name(18), "cloth");
  assert_null(capl_face_class_name(19));
  assert_string_equal(capl_slider_shape_name(7), "jigsaw");
  assert_null(capl_slider_shape_name(12));
  assert_string_equal(capl_slider_style_name(CAPL_SLIDER_OUTLINE), "outline");
  assert_string_equal(capl_face_style_name(CAPL_FACE_DRAWING), "drawing");
  assert_null(capl_slider_confusion_name(6));
#define X(left, right) sum = sum * 100 + CAPL_FACE_##left * 10 + CAPL_FACE_##right;
  CAPL_FACE_SWAP_MAP(X)
#undef X
  assert_int_equal(sum, 456789);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void scenes_are_saved_as_pictures_masks_and_lines(void **state)
{
  (void)state;
  capl_source *source = faces(64, 41);
  capl_image image = {0}, mask = {0};
  assert_ok(capl_scene_save(source, 11, in_folder("faces"), 3));
  assert_ok(capl_png_read(in_folder("faces/07.png"), 0, &image));
  assert_ok(capl_png_read(in_folder("faces/07_mask.png"), 1, &mask));
  assert_ok(capl_source_read(source, 0, 7, &(capl_sample){.pixels = one.pixels, .field = {one.mask}}));
  assert_memory_equal(image.pixels, one.pixels, 64 * 64 * 3);
  assert_memory_equal(mask.pixels, one.mask, 64 * 64);
  capl_source_unref(source);
  source = sliders(NULL, 41);
  char line[1000], start[200];
  assert_ok(capl_scene_save(source, 3, in_folder("sliders"), 0));
  assert_ok(capl_png_read(in_folder("sliders/2.png"), 0, &image));
  capl_sample to = slider_room(&one, true);
  assert_ok(capl_source_read(source, 0, 0, &to));
  FILE *f = fopen(in_folder("sliders/labels.jsonl"), "r");
  assert_true(f && fgets(line, sizeof line, f));
  snprintf(start, sizeof start, "{\"file\": \"0.png\", \"points\": [[%.9g, %.9g, 1], [", (double)one.points[0],
           (double)one.points[1]);
  assert_memory_equal(line, start, strlen(start));
  fclose(f);
  capl_source_unref(source);
  capl_image_fini(&image);
  capl_image_fini(&mask);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_seed_shows_the_same_captchas_for_ever),
    cmocka_unit_test(a_seed_shows_the_same_faces_for_ever),
    cmocka_unit_test(labels_alone_are_those_with_pixels),
    cmocka_unit_test(a_fixed_set_is_the_same_each_epoch_and_no_fresh_one),
    cmocka_unit_test(points_lie_in_the_middle_of_what_is_dark),
    cmocka_unit_test(gap_piece_and_decoys_lie_apart_inside_the_picture),
    cmocka_unit_test(confusions_come_as_often_as_their_list_says),
    cmocka_unit_test(places_shapes_and_sizes_are_spread_evenly),
    cmocka_unit_test(backgrounds_and_shapes_are_those_asked_for),
    cmocka_unit_test(places_of_the_other_shapes_are_their_middles),
    cmocka_unit_test(each_style_has_shapes_of_its_own),
    cmocka_unit_test(bad_options_are_refused),
    cmocka_unit_test(faces_have_their_parts_where_they_belong),
    cmocka_unit_test(face_classes_are_as_uneven_as_in_photographs),
    cmocka_unit_test(masks_fit_the_picture),
    cmocka_unit_test(names_and_swaps_are_listed),
    cmocka_unit_test(scenes_are_saved_as_pictures_masks_and_lines),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
