/* data_augment_fields.c -- tests of masks, points and boxes that move with their image.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "data/augment.h"
#include "data/source.h"

enum { W = 120, H = 90, POINTS = 3, BOXES = 2 };

static const capl_field fields[3] = {
  {.name = "mask", .kind = CAPL_FIELD_MASK, .ndim = 2, .size = {H, W}},
  {.name = "points", .kind = CAPL_FIELD_POINTS, .ndim = 2, .size = {POINTS, 3}},
  {.name = "boxes", .kind = CAPL_FIELD_BOXES, .ndim = 2, .size = {BOXES, 5}},
};

typedef struct {
  uint8_t pixels[W * H], mask[W * H];
  float points[POINTS][3], boxes[BOXES][5];
} sample;

static sample in, out, other;

static capl_sample view(sample *s)
{
  return (capl_sample){.pixels = s->pixels, .field = {s->mask, s->points, s->boxes}};
}

/* Three discs, of class k + 1 and level 60 (k + 1), each with its point; a box around the first and one far outside. */
static void draw_discs(sample *s)
{
  static const float centre[POINTS][2] = {{40, 35}, {75.5f, 40.25f}, {60, 62}};
  memset(s, 0, sizeof *s);
  for (int k = 0; k < POINTS; k++) {
    s->points[k][0] = centre[k][0], s->points[k][1] = centre[k][1], s->points[k][2] = 1;
    for (int i = 0; i < W * H; i++) {
      if (hypot(i % W + 0.5 - centre[k][0], i / W + 0.5 - centre[k][1]) >= 9) continue;
      s->mask[i] = (uint8_t)(k + 1);
      s->pixels[i] = (uint8_t)(60 * (k + 1));
    }
  }
  memcpy(s->boxes[0], (float[]){31, 26, 49, 44, 1}, sizeof s->boxes[0]);
  memcpy(s->boxes[1], (float[]){0, 0, 10, 10, -1}, sizeof s->boxes[1]);
}

static capl_augment_result run(const capl_augment_options *options, uint32_t id, bool mixes)
{
  capl_augment_layout layout = {W, H, 1, 3, fields};
  capl_sample from = view(&in), to = view(&out), partner = view(&other);
  capl_augment_scratch scratch;
  assert_ok(capl_augment_check(options));
  assert_ok(capl_augment_scratch_init(&scratch, H, W, 1));
  capl_augment_result r = capl_augment_sample(options, &(capl_augment_case){5, 1, id}, &layout, &from,
                                              mixes ? &partner : NULL, 77, NULL, &scratch, &to);
  capl_augment_scratch_fini(&scratch);
  return r;
}

typedef struct {
  double n, x, y, left, top, right, bottom;
} blob;

static blob find(int class)
{
  blob b = {0, 0, 0, W, H, 0, 0};
  for (int i = 0; i < W * H; i++) {
    if (out.mask[i] != class) continue;
    b.n++;
    b.x += i % W + 0.5, b.y += i / W + 0.5;
    b.left = fmin(b.left, i % W), b.top = fmin(b.top, i / W);
    b.right = fmax(b.right, i % W + 1), b.bottom = fmax(b.bottom, i / W + 1);
  }
  b.x /= b.n, b.y /= b.n;
  return b;
}

/* A whole disc's centre is its point, and its box holds it. far: px, for maps that bend within a disc. */
static void check_discs(double far)
{
  for (int k = 0; k < POINTS; k++) {
    const float *p = out.points[k];
    blob b = find(k + 1);
    bool inside = p[0] >= 0 && p[0] < W && p[1] >= 0 && p[1] < H;
    assert_int_equal(p[2] != 0, inside);
    if (b.n == 0 || b.left <= 0 || b.top <= 0 || b.right >= W || b.bottom >= H) continue; /* cut off */
    if (hypot(b.x - (double)p[0], b.y - (double)p[1]) > far)
      fail_msg("disc %d lies at %g, %g and its point at %g, %g", k, b.x, b.y, (double)p[0], (double)p[1]);
    if (k > 0) continue;
    const float *box = out.boxes[0];
    assert_true(box[4] == 1);
    assert_true((double)box[0] <= b.left + 1 + far && (double)box[1] <= b.top + 1 + far
                && (double)box[2] >= b.right - 1 - far && (double)box[3] >= b.bottom - 1 - far);
    assert_true(box[0] >= 0 && box[1] >= 0 && box[2] <= W && box[3] <= H);
  }
  assert_true(out.boxes[1][4] == -1);
}

/* The image shows a disc's level where the mask has its class, but for a pixel at its rim. */
static void check_mask_fits_image(void)
{
  int wrong = 0;
  for (int i = 0; i < W * H; i++) wrong += abs(out.pixels[i] - 60 * out.mask[i]) > 30;
  assert_in_range(wrong, 0, 300); /* of some 1900 that are no background */
}

static void mask_points_and_boxes_go_where_the_image_goes(void **state)
{
  (void)state;
  static const struct {
    capl_augment_options options;
    double far;
  } cases[] = {
    {{.rotate = {-180, 180}}, 0.5},
    {{.scale = {0.7f, 1.6f}, .translate_x = {-0.3f, 0.3f}, .translate_y = {-0.3f, 0.3f}}, 0.5},
    {{.shear = {-25, 25}, .rotate = {-20, 20}}, 0.5},
    {{.flip = 0.5f, .flip_vertical = 0.5f, .crop = {0.4f, 0.9f}}, 0.6},
    {{.perspective = {0.3f, 0.3f}}, 0.9},
    {{.elastic = {1, 4}}, 2},
    {{.rotate = {-20, 20}, .perspective = {0.2f, 0.2f}, .elastic = {2, 2}, .flip = 0.5f}, 1.6},
  };
  draw_discs(&in);
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    for (uint32_t id = 0; id < 30; id++) {
      capl_augment_options options = cases[k].options;
      options.fill = true;
      run(&options, id, false);
      check_discs(cases[k].far);
      check_mask_fits_image();
    }
  }
}

/* The way back, which images go, leads from where a point is to where it was. */
static void points_go_the_way_back_backwards(void **state)
{
  (void)state;
  capl_augment_options options = {.rotate = {-90, 90}, .scale = {0.8f, 1.3f}, .perspective = {0.4f, 0.4f},
                                  .elastic = {1, 3}, .crop = {0.5f, 1}};
  draw_discs(&in);
  for (uint32_t id = 0; id < 300; id++) {
    capl_augment_draw d = capl_augment_roll(&options, 5, 1, id, H, W, 0);
    run(&options, id, false);
    for (int k = 0; k < POINTS; k++) {
      double x = (double)out.points[k][0] - 0.5, y = (double)out.points[k][1] - 0.5, by_x, by_y;
      double z = d.horizon[0] * x + d.horizon[1] * y + d.horizon[2];
      capl_augment_bent_by(&d, H, W, x, y, &by_x, &by_y);
      double u = (d.map[0] * x + d.map[1] * y + d.map[2]) / z + by_x,
          v = (d.map[3] * x + d.map[4] * y + d.map[5]) / z + by_y;
      double off = hypot(u + 0.5 - (double)in.points[k][0], v + 0.5 - (double)in.points[k][1]);
      if (out.points[k][2] != 0 && off > 0.02) fail_msg("point %d of sample %u is %g px from where it was", k, id, off);
    }
  }
}

static void colour_leaves_all_but_the_image_alone(void **state)
{
  (void)state;
  draw_discs(&in);
  assert_true(run(&(capl_augment_options){.brightness = {0.5f, 0.6f}, .noise = {5, 5}, .blur = {1, 1}, .gamma = {2, 2}},
                  1, false).changed);
  assert_memory_equal(out.mask, in.mask, sizeof in.mask);
  assert_memory_equal(out.points, in.points, sizeof in.points);
  assert_memory_equal(out.boxes[0], in.boxes[0], sizeof in.boxes[0]);
  assert_memory_not_equal(out.pixels, in.pixels, sizeof in.pixels);
}

static void a_mirrored_sample_exchanges_declared_classes_and_points(void **state)
{
  (void)state;
  capl_augment_options options = {.flip = 1, .class_swaps = {true, 1, {{1, 2}}}, .point_swaps = {true, 1, {{0, 1}}}};
  draw_discs(&in);
  run(&options, 1, false);
  assert_true(fabsf(out.points[1][0] - (W - 40)) < 0.01f && fabsf(out.points[0][0] - (W - 75.5f)) < 0.01f);
  assert_int_equal(out.mask[35 * W + W - 1 - 40], 2);
  assert_true(out.boxes[0][4] == 2);
  assert_true(fabsf(out.boxes[0][0] - (W - 49)) < 0.01f && fabsf(out.boxes[0][2] - (W - 31)) < 0.01f);
  options.flip_vertical = 1; /* turned by 180 degrees: left is still the left of what is shown */
  run(&options, 1, false);
  assert_int_equal(out.mask[(H - 1 - 35) * W + W - 1 - 40], 1);
  assert_true(fabsf(out.points[0][0] - (W - 40)) < 0.01f);
}

static void outside_a_mask_is_its_own_fill_or_its_edge(void **state)
{
  (void)state;
  memset(&in, 0, sizeof in);
  memset(in.mask, 3, sizeof in.mask);
  capl_augment_options options = {.translate_x = {0.5f, 0.5f}};
  run(&options, 1, false);
  for (int i = 0; i < W * H; i++) assert_int_equal(out.mask[i], 3);
  options.fill = true;
  options.mask_fill = 9;
  run(&options, 1, false);
  for (int i = 0; i < W * H; i++) assert_int_equal(out.mask[i], i % W < W / 2 ? 9 : 3);
}

static void an_erased_point_is_not_visible(void **state)
{
  (void)state;
  capl_augment_options options = {.erase = {0.3f, 0.3f}};
  int hidden = 0;
  draw_discs(&in);
  for (uint32_t id = 0; id < 50; id++) {
    capl_augment_draw d = capl_augment_roll(&options, 5, 1, id, H, W, 0);
    run(&options, id, false);
    for (int k = 0; k < POINTS; k++) {
      float x = out.points[k][0], y = out.points[k][1];
      bool erased = x >= (float)d.erased.x0 && x < (float)d.erased.x1 && y >= (float)d.erased.y0
          && y < (float)d.erased.y1;
      assert_int_equal(out.points[k][2] == 0, erased);
      hidden += erased;
    }
  }
  assert_in_range(hidden, 20, 100);
}

static void a_box_that_hardly_stays_is_gone(void **state)
{
  (void)state;
  draw_discs(&in);
  run(&(capl_augment_options){.translate_x = {-0.39f, -0.39f}}, 1, false); /* 49 - 46.8 px of 18 are left */
  assert_true(out.boxes[0][4] == 1 && out.boxes[0][0] == 0);
  run(&(capl_augment_options){.translate_x = {-0.4f, -0.4f}}, 1, false); /* one of 18 */
  assert_true(out.boxes[0][4] == -1);
}

static void mixed_masks_stay_one_mask(void **state)
{
  (void)state;
  memset(&in, 0, sizeof in), memset(&other, 0, sizeof other);
  memset(in.mask, 1, sizeof in.mask), memset(other.mask, 2, sizeof other.mask);
  int own = 0;
  for (uint32_t id = 0; id < 40; id++) {
    float mix = run(&(capl_augment_options){.mixup = {0.5f, 1}}, id, true).mix;
    for (int i = 0; i < W * H; i++) assert_int_equal(out.mask[i], mix >= 0.5f ? 1 : 2);
    own += mix >= 0.5f;
    mix = run(&(capl_augment_options){.cutmix = {1, 1}}, id, true).mix;
    int n = 0;
    for (int i = 0; i < W * H; i++) n += out.mask[i] == 1;
    assert_true(fabs((double)mix - n / (double)(W * H)) < 1e-5);
  }
  assert_in_range(own, 8, 32);
}

/* ---- what a source must say ------------------------------------------------------------------ */

static void flips_and_mixing_need_a_source_that_can_tell(void **state)
{
  (void)state;
  capl_source text = {.width = W, .height = H, .channels = 1, .length = 4};
  assert_ok(capl_vocab_charset("0-9", &text.vocab));
  capl_source masks = {.width = W, .height = H, .channels = 1, .n_fields = 1, .field = {fields[0]}};
  capl_source points = {.width = W, .height = H, .channels = 1, .n_fields = 1, .field = {fields[1]}};
  capl_source bare = {.width = W, .height = H, .channels = 1}, wide = {.width = 16001, .height = H, .channels = 1},
      numbers = {0};
  capl_augment_options flip = {.flip = 0.5f},
      none = {.flip = 0.5f, .class_swaps = {.declared = true}, .point_swaps = {.declared = true}};
  capl_augment_options mix = {.mixup = {0.2f, 0.5f}}, elastic = {.elastic = {1, 2}};
  assert_fails(capl_augment_check_source(&flip, &text), CAPL_EVALUE,
               "augment: a flip mirrors the image, and a mirrored text is no longer its label");
  flip.flip_text = true;
  assert_ok(capl_augment_check_source(&flip, &text));
  assert_fails(capl_augment_check_source(&flip, &masks), CAPL_EVALUE,
               "augment: a flip mirrors the image, but it is not declared which classes of mask are exchanged");
  assert_fails(capl_augment_check_source(&flip, &points), CAPL_EVALUE,
               "augment: a flip mirrors the image, but it is not declared which points of points are exchanged");
  assert_ok(capl_augment_check_source(&none, &masks));
  assert_ok(capl_augment_check_source(&none, &points));
  assert_ok(capl_augment_check_source(&flip, &bare));
  assert_ok(capl_augment_check_source(&mix, &text));
  assert_ok(capl_augment_check_source(&mix, &masks));
  assert_fails(capl_augment_check_source(&mix, &points), CAPL_EVALUE,
               "augment: mixup and cutmix show two samples in one image, and points has room for those of one");
  assert_fails(capl_augment_check_source(&mix, &bare), CAPL_EVALUE,
               "augment: mixup and cutmix mix labels or masks, and the source has neither");
  assert_fails(capl_augment_check_source(&elastic, &wide), CAPL_EVALUE,
               "augment: perspective and elastic work on images of up to 16000 px; these have 16001 x 90");
  assert_fails(capl_augment_check_source(&elastic, &numbers), CAPL_EVALUE,
               "augment changes images, and the source has none");
  capl_vocab_unref(text.vocab);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(mask_points_and_boxes_go_where_the_image_goes),
    cmocka_unit_test(points_go_the_way_back_backwards),
    cmocka_unit_test(colour_leaves_all_but_the_image_alone),
    cmocka_unit_test(a_mirrored_sample_exchanges_declared_classes_and_points),
    cmocka_unit_test(outside_a_mask_is_its_own_fill_or_its_edge),
    cmocka_unit_test(an_erased_point_is_not_visible),
    cmocka_unit_test(a_box_that_hardly_stays_is_gone),
    cmocka_unit_test(mixed_masks_stay_one_mask),
    cmocka_unit_test(flips_and_mixing_need_a_source_that_can_tell),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
