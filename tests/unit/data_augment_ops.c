/* data_augment_ops.c -- tests of every op of the augmentation against the same arithmetic in f64, done the plain way.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "data/augment.h"

enum { W = 83, H = 61, AREA = W * H };

static uint8_t colours[AREA * 3], gray[AREA], other_colours[AREA * 3], out[AREA * 3];

static int make_pictures(void **state)
{
  (void)state;
  for (int i = 0; i < AREA; i++) {
    int x = i % W, y = i / W;
    for (int c = 0; c < 3; c++) {
      colours[3 * i + c] = (uint8_t)(128 + 100 * sin(0.1 * x + c) * cos(0.08 * y));
      other_colours[3 * i + c] = (uint8_t)(128 + 90 * cos(0.07 * x - c) * sin(0.11 * y + c));
    }
    gray[i] = (uint8_t)(128 + 90 * sin(0.09 * x) + 30 * cos(0.12 * y));
  }
  return 0;
}

/* ---- the plain way --------------------------------------------------------------------------- */

typedef struct {
  int channels;
  double v[AREA * 3];
} picture;

static double clip(double v, double most)
{
  return v < 0 ? 0 : v > most ? most : v;
}

static double at(const picture *p, int fill, int x, int y, int c)
{
  if (fill >= 0 && (x < 0 || x >= W || y < 0 || y >= H)) return fill;
  return p->v[((int)clip(y, H - 1) * W + (int)clip(x, W - 1)) * p->channels + c];
}

static void load(const uint8_t *in, int channels, double gamma, picture *p)
{
  p->channels = channels;
  for (int i = 0; i < AREA * channels; i++) p->v[i] = 255 * pow(in[i] / 255.0, gamma);
}

static void blur(const picture *in, double sigma, int radius, picture *p)
{
  *p = *in;
  double sum = 0;
  for (int k = -radius; k <= radius; k++) sum += exp(-0.5 * k * k / (sigma * sigma));
  for (int i = 0; i < AREA; i++) {
    for (int c = 0; c < in->channels; c++) {
      double total = 0;
      for (int dy = -radius; dy <= radius; dy++) {
        for (int dx = -radius; dx <= radius; dx++)
          total += exp(-0.5 * (dx * dx + dy * dy) / (sigma * sigma)) * at(in, -1, i % W + dx, i / W + dy, c);
      }
      p->v[i * in->channels + c] = total / (sum * sum);
    }
  }
}

static void source_of(const capl_augment_draw *d, double x, double y, double *u, double *v)
{
  const double *m = d->map, *h = d->horizon;
  double z = h[0] * x + h[1] * y + h[2], by_x = 0, by_y = 0;
  if (d->elastic > 0) capl_augment_bent_by(d, H, W, x, y, &by_x, &by_y);
  *u = (m[0] * x + m[1] * y + m[2]) / z + by_x;
  *v = (m[3] * x + m[4] * y + m[5]) / z + by_y;
}

static void warp(const picture *in, const capl_augment_draw *d, int fill, picture *p)
{
  p->channels = in->channels;
  for (int i = 0; i < AREA; i++) {
    double u, v;
    source_of(d, i % W, i / W, &u, &v);
    u = clip(u + 1, W + 1) - 1;
    v = clip(v + 1, H + 1) - 1;
    int x = (int)floor(u), y = (int)floor(v);
    double fx = u - x, fy = v - y;
    for (int c = 0; c < in->channels; c++) {
      p->v[i * in->channels + c] = (1 - fy) * ((1 - fx) * at(in, fill, x, y, c) + fx * at(in, fill, x + 1, y, c)) +
                                   fy * ((1 - fx) * at(in, fill, x, y + 1, c) + fx * at(in, fill, x + 1, y + 1, c));
    }
  }
}

static const capl_augment_case first = {77, 2, 5};

static capl_augment_draw roll(const capl_augment_options *options)
{
  return capl_augment_roll(options, first.seed, first.epoch, first.sample, H, W, 0);
}

static bool run(const capl_augment_options *options, const uint8_t *in, int channels)
{
  bool changed;
  assert_ok(capl_augment_image(options, first.seed, first.epoch, first.sample, in, H, W, channels, out, &changed));
  return changed;
}

/* most: levels; away: how many values may be further off, where a map has a kink between two nodes. */
static void assert_near(const picture *expected, double most, int away)
{
  int n = 0;
  double worst = 0;
  for (int i = 0; i < AREA * expected->channels; i++) {
    double difference = fabs(out[i] - clip(expected->v[i], 255));
    worst = fmax(worst, difference);
    n += difference > most;
  }
  if (n > away) fail_msg("%d values are more than %g levels off, one by %g", n, most, worst);
}

/* ---- geometry -------------------------------------------------------------------------------- */

static void check_geometry(const capl_augment_options *options, double most, int away)
{
  static picture source, expected;
  capl_augment_draw d = roll(options);
  int fill = options->fill ? options->fill_value : -1;
  assert_true(d.moves);
  for (int channels = 1; channels <= 3; channels += 2) {
    const uint8_t *in = channels == 3 ? colours : gray;
    load(in, channels, 1, &source);
    warp(&source, &d, fill, &expected);
    assert_true(run(options, in, channels));
    assert_near(&expected, most, away);
  }
}

static void a_flip_exchanges_columns_or_rows(void **state)
{
  (void)state;
  assert_true(run(&(capl_augment_options){.flip = 1}, gray, 1));
  for (int i = 0; i < AREA; i++) assert_int_equal(out[i], gray[i / W * W + W - 1 - i % W]);
  assert_true(run(&(capl_augment_options){.flip_vertical = 1}, gray, 1));
  for (int i = 0; i < AREA; i++) assert_int_equal(out[i], gray[(H - 1 - i / W) * W + i % W]);
  assert_true(run(&(capl_augment_options){.flip = 1, .flip_vertical = 1}, gray, 1));
  for (int i = 0; i < AREA; i++) assert_int_equal(out[i], gray[AREA - 1 - i]);
}

static void a_crop_stretches_a_part_of_the_image(void **state)
{
  (void)state;
  capl_augment_options options = {.crop = {0.36f, 0.36f}, .crop_aspect = {1, 1}};
  capl_augment_draw d = roll(&options);
  assert_true(fabs(d.map[0] - 0.6) < 1e-6 && fabs(d.map[4] - 0.6) < 1e-6);
  for (int edge = 0; edge < 2; edge++) { /* the image's edges lie within the source's */
    double u = d.map[0] * (edge * W - 0.5) + d.map[2], v = d.map[4] * (edge * H - 0.5) + d.map[5];
    assert_true(u > -0.501 && u < W - 0.499 && v > -0.501 && v < H - 0.499);
  }
  check_geometry(&options, 1.2, 0);
}

static void perspective_moves_corners_inwards(void **state)
{
  (void)state;
  capl_augment_options options = {.perspective = {0.4f, 0.4f}, .fill = true, .fill_value = 128};
  check_geometry(&options, 2.5, 40); /* 8 px are straight where the map is not; the border is sharp */
  for (uint32_t sample = 0; sample < 100; sample++) {
    capl_augment_draw d = capl_augment_roll(&options, 3, 1, sample, H, W, 0);
    for (int k = 0; k < 4; k++) { /* near the image's corners is the outside, a fifth further inside is not */
      double x = k % 2, y = k / 2, in_x = 0.2 + 0.6 * x, in_y = 0.2 + 0.6 * y, u, v;
      source_of(&d, x * W - 0.5, y * H - 0.5, &u, &v);
      assert_true(u < 0 || u > W - 1 || v < 0 || v > H - 1);
      source_of(&d, in_x * W - 0.5, in_y * H - 0.5, &u, &v);
      assert_true(u > -0.51 && u < W - 0.49 && v > -0.51 && v < H - 0.49);
    }
  }
}

static void elastic_follows_its_lattice(void **state)
{
  (void)state;
  capl_augment_options options = {.elastic = {4, 4}};
  check_geometry(&options, 2.5, 60);
  capl_augment_draw d = roll(&options);
  for (int k = 0; k < 64; k++) { /* 57 px: places of the lattice are nodes */
    double by_x, by_y;
    capl_augment_bent_by(&d, 57, 57, k % 8 * 8, k / 8 * 8, &by_x, &by_y);
    assert_true(fabs(by_x - 4 * d.lattice[0][k]) < 1e-4 && fabs(by_y - 4 * d.lattice[1][k]) < 1e-4);
  }
}

static void all_geometry_together_is_still_one_map(void **state)
{
  (void)state;
  capl_augment_options options = {.rotate = {-30, 30}, .scale = {0.8f, 1.3f}, .translate_x = {-0.1f, 0.1f},
                                  .shear = {-10, 10}, .flip = 1, .crop = {0.5f, 0.9f}, .perspective = {0.2f, 0.2f},
                                  .elastic = {2, 2}};
  check_geometry(&options, 2.5, 60);
  options.perspective = options.elastic = (capl_range){0, 0};
  check_geometry(&options, 1.5, 0);
}

/* ---- colour ---------------------------------------------------------------------------------- */

static void saturation_moves_colours_away_from_their_luma(void **state)
{
  (void)state;
  static picture p;
  load(colours, 3, 1, &p);
  for (int i = 0; i < AREA; i++) {
    double *v = p.v + 3 * i, luma = 0.299 * v[0] + 0.587 * v[1] + 0.114 * v[2];
    for (int c = 0; c < 3; c++) v[c] = luma + 0.4 * (v[c] - luma);
  }
  assert_true(run(&(capl_augment_options){.saturation = {0.4f, 0.4f}}, colours, 3));
  assert_near(&p, 0.6, 0);
  assert_true(run(&(capl_augment_options){.saturation = {0, 1e-6f}}, colours, 3));
  for (int i = 0; i < AREA; i++)
    assert_true(abs(out[3 * i] - out[3 * i + 1]) <= 1 && abs(out[3 * i] - out[3 * i + 2]) <= 1);
}

/* In YIQ, with the inverse found by elimination, not from a table. */
static void hue_turns_chroma(void **state)
{
  (void)state;
  static picture p;
  const double angle = 0.1 * 2 * acos(-1);
  load(colours, 3, 1, &p);
  for (int i = 0; i < AREA; i++) {
    double *v = p.v + 3 * i, luma = 0.299 * v[0] + 0.587 * v[1] + 0.114 * v[2];
    double I = 0.595716 * v[0] - 0.274453 * v[1] - 0.321263 * v[2],
        Q = 0.211456 * v[0] - 0.522591 * v[1] + 0.311135 * v[2];
    double turned_i = cos(angle) * I + sin(angle) * Q, turned_q = cos(angle) * Q - sin(angle) * I;
    /* r and b from luma, I and Q: two equations after g is put in terms of luma */
    double a11 = 0.595716 + 0.274453 * 0.299 / 0.587, a12 = -0.321263 + 0.274453 * 0.114 / 0.587,
        b1 = turned_i + 0.274453 * luma / 0.587;
    double a21 = 0.211456 + 0.522591 * 0.299 / 0.587, a22 = 0.311135 + 0.522591 * 0.114 / 0.587,
        b2 = turned_q + 0.522591 * luma / 0.587;
    double det = a11 * a22 - a12 * a21;
    v[0] = (b1 * a22 - b2 * a12) / det;
    v[2] = (a11 * b2 - a21 * b1) / det;
    v[1] = (luma - 0.299 * v[0] - 0.114 * v[2]) / 0.587;
  }
  assert_true(run(&(capl_augment_options){.hue = {0.1f, 0.1f}}, colours, 3));
  assert_near(&p, 0.8, 0);
  uint8_t red[3] = {200, 0, 0}, turned[3];
  assert_ok(capl_augment_image(&(capl_augment_options){.hue = {0.15f, 0.15f}}, 1, 1, 1, red, 1, 1, 3, turned, NULL));
  assert_true(turned[1] > turned[2]); /* towards yellow */
}

static void gray_images_have_no_tint(void **state)
{
  (void)state;
  run(&(capl_augment_options){.hue = {0.1f, 0.1f}, .saturation = {2, 2}}, gray, 1);
  assert_memory_equal(out, gray, sizeof gray);
}

static void colour_ops_have_one_order(void **state)
{
  (void)state;
  static picture p;
  capl_augment_options options = {.saturation = {1.5f, 1.5f}, .contrast = {1.2f, 1.2f}, .brightness = {0.9f, 0.9f},
                                  .invert = 1};
  double mean = capl_augment_mean(colours, AREA, 3);
  load(colours, 3, 1, &p);
  for (int i = 0; i < AREA; i++) {
    double *v = p.v + 3 * i, luma = 0.299 * v[0] + 0.587 * v[1] + 0.114 * v[2];
    for (int c = 0; c < 3; c++) v[c] = 255 - 0.9 * ((luma + 1.5 * (v[c] - luma) - mean) * 1.2 + mean);
  }
  assert_true(run(&options, colours, 3));
  assert_near(&p, 0.6, 0);
}

/* ---- filters --------------------------------------------------------------------------------- */

static void gamma_bends_levels(void **state)
{
  (void)state;
  static picture p;
  load(colours, 3, 1.8f, &p);
  assert_true(run(&(capl_augment_options){.gamma = {1.8f, 1.8f}}, colours, 3));
  assert_near(&p, 0.51, 0);
}

static void blur_is_gaussian(void **state)
{
  (void)state;
  static const struct {
    float sigma;
    int size, radius;
  } cases[] = {{0.7f, 0, 1}, {1.2f, 0, 2}, {2, 0, 3}, {2, 3, 1}, {0.5f, 7, 3}, {10, 7, 3}};
  static picture source, p;
  uint8_t sharp[AREA];
  for (int i = 0; i < AREA; i++) sharp[i] = (uint8_t)(i * 2654435761u >> 24);
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    capl_augment_options options = {.blur = {cases[k].sigma, cases[k].sigma}, .blur_size = (uint8_t)cases[k].size};
    load(sharp, 1, 1, &source);
    blur(&source, cases[k].sigma, cases[k].radius, &p);
    assert_true(run(&options, sharp, 1));
    assert_near(&p, 2.2, 0); /* weights of 8 bits, rounded twice */
    load(colours, 3, 1, &source);
    blur(&source, cases[k].sigma, cases[k].radius, &p);
    assert_true(run(&options, colours, 3));
    assert_near(&p, 2.2, 0);
  }
}

static void gamma_comes_before_blur_before_geometry(void **state)
{
  (void)state;
  static picture source, soft, p;
  capl_augment_options options = {.gamma = {0.6f, 0.6f}, .blur = {1.2f, 1.2f}, .rotate = {20, 20}};
  capl_augment_draw d = roll(&options);
  load(colours, 3, 0.6f, &source);
  blur(&source, 1.2, 2, &soft);
  warp(&soft, &d, -1, &p);
  assert_true(run(&options, colours, 3));
  assert_near(&p, 2.5, 0);
}

/* ---- erase, mixing --------------------------------------------------------------------------- */

static void erase_fills_a_rectangle(void **state)
{
  (void)state;
  capl_augment_options options = {.erase = {0.2f, 0.2f}, .erase_value = 7};
  capl_augment_draw d = roll(&options);
  capl_area e = d.erased;
  assert_true(fabs((e.x1 - e.x0) * (e.y1 - e.y0) / (double)AREA - 0.2) < 0.02);
  assert_true(run(&options, colours, 3));
  for (int i = 0; i < AREA; i++) {
    bool inside = i % W >= e.x0 && i % W < e.x1 && i / W >= e.y0 && i / W < e.y1;
    for (int c = 0; c < 3; c++) assert_int_equal(out[3 * i + c], inside ? 7 : colours[3 * i + c]);
  }
}

static capl_augment_result run_mixed(const capl_augment_options *options)
{
  capl_augment_scratch scratch;
  capl_augment_layout layout = {.width = W, .height = H, .channels = 3};
  capl_sample in = {.pixels = colours}, partner = {.pixels = other_colours}, to = {.pixels = out};
  assert_ok(capl_augment_scratch_init(&scratch, H, W, 3));
  capl_augment_result result = capl_augment_sample(options, &first, &layout, &in, &partner, 9, NULL, &scratch, &to);
  capl_augment_scratch_fini(&scratch);
  return result;
}

static void mixup_is_a_weighted_sum_of_two_augmented_samples(void **state)
{
  (void)state;
  static uint8_t one[AREA * 3], two[AREA * 3];
  capl_augment_options options = {.rotate = {-20, 20}, .contrast = {0.5f, 1.5f}}, alone = options;
  options.mixup = (capl_mix){1, 1};
  assert_ok(capl_augment_image(&alone, first.seed, first.epoch, first.sample, colours, H, W, 3, one, NULL));
  assert_ok(capl_augment_image(&alone, first.seed, first.epoch, 9, other_colours, H, W, 3, two, NULL));
  capl_augment_result result = run_mixed(&options);
  assert_true(result.changed && result.mix > 0 && result.mix < 1);
  for (int i = 0; i < AREA * 3; i++)
    assert_true(fabs(out[i] - (result.mix * one[i] + (1 - result.mix) * two[i])) < 0.51);
}

static void cutmix_takes_a_rectangle_from_the_other_sample(void **state)
{
  (void)state;
  capl_augment_options options = {.cutmix = {1, 1}};
  capl_augment_draw d = roll(&options);
  capl_area e = d.cut;
  int inside = 0;
  capl_augment_result result = run_mixed(&options);
  for (int i = 0; i < AREA; i++) {
    bool in = i % W >= e.x0 && i % W < e.x1 && i / W >= e.y0 && i / W < e.y1;
    inside += in;
    for (int c = 0; c < 3; c++) assert_int_equal(out[3 * i + c], in ? other_colours[3 * i + c] : colours[3 * i + c]);
  }
  assert_true(inside > 0 && fabs(result.mix - (1 - inside / (double)AREA)) < 1e-6);
}

static void without_a_partner_nothing_is_mixed(void **state)
{
  (void)state;
  assert_false(run(&(capl_augment_options){.mixup = {1, 1}}, colours, 3));
  assert_memory_equal(out, colours, sizeof out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_flip_exchanges_columns_or_rows),
    cmocka_unit_test(a_crop_stretches_a_part_of_the_image),
    cmocka_unit_test(perspective_moves_corners_inwards),
    cmocka_unit_test(elastic_follows_its_lattice),
    cmocka_unit_test(all_geometry_together_is_still_one_map),
    cmocka_unit_test(saturation_moves_colours_away_from_their_luma),
    cmocka_unit_test(hue_turns_chroma),
    cmocka_unit_test(gray_images_have_no_tint),
    cmocka_unit_test(colour_ops_have_one_order),
    cmocka_unit_test(gamma_bends_levels),
    cmocka_unit_test(blur_is_gaussian),
    cmocka_unit_test(gamma_comes_before_blur_before_geometry),
    cmocka_unit_test(erase_fills_a_rectangle),
    cmocka_unit_test(mixup_is_a_weighted_sum_of_two_augmented_samples),
    cmocka_unit_test(cutmix_takes_a_rectangle_from_the_other_sample),
    cmocka_unit_test(without_a_partner_nothing_is_mixed),
  };
  return cmocka_run_group_tests(tests, make_pictures, NULL);
}
