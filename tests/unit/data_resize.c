/* data_resize.c -- tests of resizing: the numbers of Pillow's Image.resize(BICUBIC), channels, limits.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdlib.h>

#include "data/resize.h"

/* Any levels will do; these have edges and slopes. */
static void fill(uint8_t *levels, int width, int height, int channels)
{
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < channels; c++) *levels++ = (uint8_t)(x * 37 + y * 61 + c * 17 + x * y * 5);
}

/* Expected levels: Pillow 13.0. Its fixed-point weights may differ from ours by one level. */
static void resizing_agrees_with_pillow_within_one_level(void **state)
{
  (void)state;
  static const struct {
    int in_width, in_height, channels, width, height;
    uint8_t expected[64];
  } cases[] = {
    {5, 3, 1, 8, 4, {0, 10, 36, 58, 82, 105, 131, 147, 32, 47, 76, 100, 131, 168, 198, 214, 85, 103, 135, 170, 164, 126,
                     150, 172, 122, 141, 175, 225, 161, 5, 15, 48}},
    {9, 7, 1, 4, 3, {80, 135, 124, 107, 159, 107, 130, 142, 129, 155, 105, 116}},
    {4, 4, 3, 3, 6, {3, 20, 37, 52, 69, 86, 99, 116, 133, 33, 50, 67, 83, 100, 117, 146, 163, 180, 79, 96, 114, 138,
                     155, 174, 169, 186, 203, 120, 137, 158, 197, 214, 239, 76, 93, 109, 175, 192, 168, 170, 187, 132,
                     52, 69, 94, 213, 230, 164, 128, 145, 16, 58, 75, 108}},
    {12, 2, 1, 12, 1, {31, 70, 110, 149, 189, 100, 140, 51, 91, 130, 170, 81}},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    uint8_t in[256], out[64];
    int n = cases[k].width * cases[k].height * cases[k].channels, off = 0;
    fill(in, cases[k].in_width, cases[k].in_height, cases[k].channels);
    assert_ok(resize_image(in, cases[k].in_width, cases[k].in_height, cases[k].channels, cases[k].width,
                           cases[k].height, out));
    for (int i = 0; i < n; i++) {
      assert_in_range(out[i] + 1 - cases[k].expected[i], 0, 2);
      off += out[i] != cases[k].expected[i];
    }
    assert_true(off <= n / 8);
  }
}

static void the_same_size_is_a_copy_and_one_level_stays_one(void **state)
{
  (void)state;
  uint8_t in[60], out[60], wide[7 * 9];
  fill(in, 5, 4, 3);
  assert_ok(resize_image(in, 5, 4, 3, 5, 4, out));
  assert_memory_equal(in, out, sizeof in);
  memset(in, 93, sizeof in);
  assert_ok(resize_image(in, 10, 6, 1, 7, 9, wide));
  for (size_t i = 0; i < sizeof wide; i++) assert_int_equal(wide[i], 93);
}

static void a_letterbox_keeps_proportions(void **state)
{
  (void)state;
  static const struct {
    bool top_left;
    int in_width, in_height, width, height;
    resize_area area;
  } cases[] = {
    {false, 5, 3, 16, 8, {1, 0, 13, 8}}, {true, 5, 3, 16, 8, {0, 0, 13, 8}}, {false, 4, 1, 16, 8, {0, 2, 16, 4}},
    {false, 480, 240, 256, 128, {0, 0, 256, 128}}, {false, 1000, 1, 16, 8, {0, 3, 16, 1}},
    {false, 16, 8, 16, 8, {0, 0, 16, 8}}, {true, 1, 1, 7, 9, {0, 0, 7, 7}}, {false, 33, 100, 10, 10, {3, 0, 3, 10}},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    capl_letterbox how = {true, cases[k].top_left, {0}};
    resize_area a = resize_place(&how, cases[k].in_width, cases[k].in_height, cases[k].width, cases[k].height);
    assert_memory_equal(&a, &cases[k].area, sizeof a);
    how.on = false;
    a = resize_place(&how, cases[k].in_width, cases[k].in_height, cases[k].width, cases[k].height);
    assert_true(a.left == 0 && a.top == 0 && a.width == cases[k].width && a.height == cases[k].height);
  }
}

/* The image is what resize_image makes of it, the rest has the levels asked for. */
static void a_letterbox_holds_the_resized_image(void **state)
{
  (void)state;
  uint8_t in[5 * 3 * 3], inside[13 * 8 * 3], out[16 * 11 * 3];
  fill(in, 5, 3, 3);
  assert_ok(resize_image(in, 5, 3, 3, 13, 8, inside));
  for (int top_left = 0; top_left < 2; top_left++) {
    capl_letterbox how = {true, top_left, {200, 100, 50}};
    resize_area a = {top_left ? 0 : 1, top_left ? 0 : 1, 13, 8};
    assert_ok(resize_image(in, 5, 3, 3, 13, 8, out));
    resize_surround(&how, &a, 3, 16, 11, out);
    for (int y = 0; y < 11; y++)
      for (int x = 0; x < 16; x++) {
        bool within = x >= a.left && x < a.left + 13 && y >= a.top && y < a.top + 8;
        const uint8_t *wanted = within ? inside + ((y - a.top) * 13 + x - a.left) * 3 : how.fill;
        assert_memory_equal(out + (y * 16 + x) * 3, wanted, 3);
      }
  }
  capl_letterbox how = {true, false, {7, 7, 7}};
  assert_ok(resize_fit(&how, in, 5, 3, 3, 13, 8, out));
  assert_memory_equal(out, inside, sizeof inside);
}

static void absurd_shrinking_is_refused(void **state)
{
  (void)state;
  uint8_t *in = calloc(1, 1 << 16), out[16];
  assert_fails(resize_image(in, 1, 1 << 16, 1, 4, 4, out), CAPL_EVALUE,
               "the image is 1 x 65536 px, more than 64 times the 4 x 4 px to fit it to");
  assert_ok(resize_image(in, 256, 256, 1, 4, 4, out));
  free(in);
}

static void channels_become_what_is_wanted(void **state)
{
  (void)state;
  uint8_t rgb[] = {255, 0, 0, 0, 255, 0, 10, 10, 10}, gray[3], back[9];
  resize_channels(rgb, 3, 3, 1, gray);
  assert_int_equal(gray[0], 76);
  assert_int_equal(gray[1], 150);
  assert_int_equal(gray[2], 10);
  resize_channels(gray, 3, 1, 3, back);
  assert_int_equal(back[0], 76);
  assert_int_equal(back[5], 150);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(resizing_agrees_with_pillow_within_one_level),
    cmocka_unit_test(the_same_size_is_a_copy_and_one_level_stays_one),
    cmocka_unit_test(a_letterbox_keeps_proportions),
    cmocka_unit_test(a_letterbox_holds_the_resized_image),
    cmocka_unit_test(absurd_shrinking_is_refused),
    cmocka_unit_test(channels_become_what_is_wanted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
