/* data_augment_isa.c -- tests that every instruction set augments and converts to the same bytes.
**
** Run once more under each instruction set, because the set that converts is chosen once per process.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "data/augment.h"

enum { MOST = 80, PIXELS = MOST * MOST };

static const char *const sets[] = {"portable", "avx2", "avx512"};
enum { SETS = sizeof sets / sizeof *sets };

static uint32_t random_state = 12345;

static uint32_t dice(void)
{
  random_state = random_state * 1664525u + 1013904223u;
  return random_state >> 8;
}

static float between(float lo, float hi)
{
  return lo + (hi - lo) * (float)(dice() % 65536) / 65536;
}

static capl_range some(float lo, float hi)
{
  float a = between(lo, hi), b = between(lo, hi);
  return dice() % 2 ? (capl_range){0, 0} : (capl_range){fminf(a, b), fmaxf(a, b)};
}

/* Every third asks for the utmost. */
static capl_augment_options some_options(int k)
{
  bool wild = k % 3 == 0;
  capl_augment_options o = {
    .rotate = some(wild ? -360 : -30, wild ? 360 : 30), .scale = some(wild ? 0.05f : 0.7f, wild ? 20 : 1.5f),
    .translate_x = some(wild ? -1 : -0.2f, wild ? 1 : 0.2f), .translate_y = some(wild ? -1 : -0.2f, wild ? 1 : 0.2f),
    .shear = some(wild ? -80 : -15, wild ? 80 : 15), .crop = some(0.01f, 1),
    .perspective = some(0, wild ? 0.95f : 0.3f), .elastic = some(0, wild ? 1000 : 5),
    .contrast = some(0, wild ? 100 : 2), .brightness = some(0, wild ? 100 : 2), .saturation = some(0, wild ? 100 : 2),
    .hue = some(-0.5f, 0.5f), .gamma = some(0.05f, 3), .blur = some(0.05f, 10), .noise = some(0, wild ? 255 : 20),
    .erase = some(0, 1), .invert = 0.3f, .flip = 0.5f, .flip_vertical = 0.5f, .fill = dice() % 2,
    .fill_value = (uint8_t)dice(), .mask_fill = (uint8_t)dice(), .erase_value = (uint8_t)dice(),
  };
  if (k % 4 == 1) o.mixup = (capl_mix){1, 1};
  if (k % 4 == 2) o.cutmix = (capl_mix){1, 1};
  if (k % 5 < 3) o.perspective = o.elastic = (capl_range){0, 0};
  return o;
}

typedef struct {
  uint8_t pixels[PIXELS * 3], mask[PIXELS];
} images;

static images source, partner, made[SETS];

/* false: this processor lacks the set. */
static bool augment(const char *set, const capl_augment_options *o, int k, int height, int width, int channels,
                    images *to)
{
  const capl_field mask = {.name = "mask", .kind = CAPL_FIELD_MASK, .ndim = 2, .size = {height, width}};
  capl_augment_layout layout = {width, height, channels, 1, &mask};
  capl_augment_scratch scratch;
  capl_sample in = {.pixels = source.pixels, .field = {source.mask}},
      other = {.pixels = partner.pixels, .field = {partner.mask}};
  capl_sample out = {.pixels = to->pixels, .field = {to->mask}};
  assume_isa(set);
  capl_status status = capl_augment_scratch_init(&scratch, height, width, channels);
  if (status == CAPL_OK)
    capl_augment_sample(o, &(capl_augment_case){(uint64_t)k, 1, (uint32_t)k}, &layout, &in, &other, 7, NULL, &scratch,
                        &out);
  else assert_int_equal(status, CAPL_EUNSUPPORTED);
  capl_augment_scratch_fini(&scratch);
  return status == CAPL_OK;
}

static void every_set_augments_to_the_same_bytes(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof source.pixels; i++)
    source.pixels[i] = (uint8_t)dice(), partner.pixels[i] = (uint8_t)dice();
  for (int i = 0; i < PIXELS; i++) source.mask[i] = (uint8_t)dice(), partner.mask[i] = (uint8_t)dice();
  for (int k = 0; k < 600; k++) {
    int width = 1 + (int)(dice() % MOST), height = 1 + (int)(dice() % MOST), channels = dice() % 2 ? 3 : 1;
    size_t pixels = (size_t)width * (size_t)height, bytes = pixels * (size_t)channels;
    capl_augment_options o = some_options(k);
    assert_ok(capl_augment_check(&o));
    for (int set = 0; set < SETS; set++) {
      memset(&made[set], 0xaa, sizeof made[set]);
      if (!augment(sets[set], &o, k, height, width, channels, &made[set])) continue;
      if (memcmp(made[set].pixels, made[0].pixels, bytes) || memcmp(made[set].mask, made[0].mask, pixels))
        fail_msg("%s makes other bytes of case %d, %d x %d of %d channels", sets[set], k, width, height, channels);
      for (size_t i = bytes; i < sizeof made[set].pixels; i++) assert_int_equal(made[set].pixels[i], 0xaa);
    }
  }
  unsetenv("CAPL_ASSUME");
}

static void a_wrong_set_is_an_error(void **state)
{
  (void)state;
  capl_augment_scratch scratch;
  assume_isa("mmx");
  assert_int_equal(capl_augment_scratch_init(&scratch, 4, 4, 1), CAPL_EVALUE);
  capl_augment_scratch_fini(&scratch);
  unsetenv("CAPL_ASSUME");
}

/* Odd places and lengths; large ones are written past the caches. */
static void levels_become_values_by_one_multiplication_and_one_addition(void **state)
{
  (void)state;
  enum { PIECES = 5 };
  static const size_t pixels[PIECES] = {1, 7, 100, 1001, 40000};
  static uint8_t level[3 * 40000];
  static float storage[3 * 40000 + 16];
  const capl_conversion to = {.type = CAPL_PIXEL_F32, .norm = CAPL_NORM_MEAN_STD, .mean = {0.4f, 0.5f, 0.6f},
                              .std = {0.2f, 0.3f, 0.25f}};
  for (size_t i = 0; i < sizeof level; i++) level[i] = (uint8_t)dice();
  for (int piece = 0; piece < PIECES; piece++) {
    for (int channels = 1; channels <= 3; channels += 2) {
      for (int shift = 0; shift < 3; shift++) {
        float *out = storage + shift * 5;
        capl_affine a = capl_conversion_affine(&to, 0, 0, 1);
        capl_convert(&to, level, pixels[piece], channels, out);
        for (size_t i = 0; i < pixels[piece] * (size_t)channels; i++) {
          volatile float product = (float)level[i] * a.scale[i % (size_t)channels]; /* rounded by itself */
          float expected = product + a.shift[i % (size_t)channels];
          if (memcmp(&out[i], &expected, sizeof expected))
            fail_msg("value %zu of %zu pixels is %a; expected %a", i, pixels[piece], (double)out[i], (double)expected);
        }
      }
    }
  }
}

static void bf16_is_the_nearest_to_the_f32(void **state)
{
  (void)state;
  enum { N = 1001 * 3 };
  static uint8_t level[N];
  static uint16_t out[N];
  static float value[N];
  capl_conversion to = {.type = CAPL_PIXEL_F32, .norm = CAPL_NORM_MEAN_STD, .mean = {0.4f, 0.5f, 0.6f},
                        .std = {0.2f, 0.3f, 0.25f}};
  for (int i = 0; i < N; i++) level[i] = (uint8_t)dice();
  capl_convert(&to, level, N / 3, 3, value);
  to.type = CAPL_PIXEL_BF16;
  capl_convert(&to, level, N / 3, 3, out);
  for (int i = 0; i < N; i++) {
    uint32_t bits, here = (uint32_t)out[i] << 16, above = here + 0x10000, below = here - 0x10000;
    float at, next, last;
    memcpy(&bits, &value[i], sizeof bits);
    memcpy(&at, &here, sizeof at), memcpy(&next, &above, sizeof next), memcpy(&last, &below, sizeof last);
    double off = fabs((double)at - (double)value[i]);
    if (value[i] != 0 && (off > fabs((double)next - (double)value[i]) || off > fabs((double)last - (double)value[i])))
      fail_msg("value %d, %a, became %a", i, (double)value[i], (double)at);
    if ((bits & 0xffff) == 0x8000) assert_int_equal(out[i] & 1, 0); /* half way: to even */
  }
}

/* Normalized band by band on the way, or afterwards: the same. */
static void an_image_may_be_normalized_on_the_way(void **state)
{
  (void)state;
  enum { N = 70 * 61 * 3 };
  static float direct[N], later[N];
  static uint8_t levels[N];
  capl_augment_options o = {.rotate = {-20, 20}, .noise = {3, 3}, .erase = {0.1f, 0.2f}, .mixup = {1, 1}};
  capl_augment_layout layout = {.width = 70, .height = 61, .channels = 3};
  capl_sample in = {.pixels = source.pixels}, other = {.pixels = partner.pixels};
  capl_augment_scratch scratch;
  assert_ok(capl_augment_scratch_init(&scratch, 61, 70, 3));
  for (int norm = CAPL_NORM_STANDARDIZE; norm <= CAPL_NORM_MEAN_STD; norm++) {
    capl_conversion to = {.type = CAPL_PIXEL_F32, .norm = (capl_norm)norm, .mean = {0.1f, 0.2f, 0.3f},
                          .std = {1, 2, 3}};
    capl_augment_case which = {4, 2, 9};
    capl_augment_sample(&o, &which, &layout, &in, &other, 3, NULL, &scratch, &(capl_sample){.pixels = levels});
    capl_convert(&to, levels, N / 3, 3, later);
    capl_augment_sample(&o, &which, &layout, &in, &other, 3, &to, &scratch,
                        &(capl_sample){.pixels = (uint8_t *)direct});
    assert_memory_equal(direct, later, sizeof later);
  }
  capl_augment_scratch_fini(&scratch);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(levels_become_values_by_one_multiplication_and_one_addition),
    cmocka_unit_test(bf16_is_the_nearest_to_the_f32),
    cmocka_unit_test(an_image_may_be_normalized_on_the_way),
    cmocka_unit_test(every_set_augments_to_the_same_bytes),
    cmocka_unit_test(a_wrong_set_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
