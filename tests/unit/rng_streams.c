/* rng_streams.c -- tests of Philox and the streams drawn from it.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>

#include "capl/rng.h"

static void philox_gives_the_published_answers(void **state)
{
  (void)state;
  /* Random123's known-answer vectors for philox4x32, 10 rounds: key, counter, output. */
  static const struct {
    uint32_t key[2], counter[4], out[4];
  } known[] = {
    {{0, 0}, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0xa4093822, 0x299f31d0},
     {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    uint32_t out[4];
    capl_philox(known[i].key, known[i].counter, out);
    assert_memory_equal(out, known[i].out, sizeof out);
  }
}

static void a_stream_is_philox_blocks_in_order(void **state)
{
  (void)state;
  capl_rng rng;
  capl_rng_init(&rng, 0x1122334455667788u, 1, 2, 3);
  for (uint32_t block = 0; block < 3; block++) {
    uint32_t out[4];
    capl_philox((uint32_t[]){0x55667788, 0x11223344}, (uint32_t[]){block, 1, 2, 3}, out);
    for (int i = 0; i < 4; i++) assert_int_equal(capl_rng_u32(&rng), out[i]);
  }
}

static void every_name_part_makes_another_stream(void **state)
{
  (void)state;
  static const uint64_t names[][4] = {
    {1, 0, 0, 0}, {1ull << 32, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {0, 0, 0, 0},
  };
  enum { COUNT = sizeof names / sizeof names[0] };
  uint32_t first[COUNT];
  for (int i = 0; i < COUNT; i++) {
    capl_rng rng;
    capl_rng_init(&rng, names[i][0], (uint32_t)names[i][1], (uint32_t)names[i][2], (uint32_t)names[i][3]);
    first[i] = capl_rng_u32(&rng);
    for (int j = 0; j < i; j++) assert_int_not_equal(first[i], first[j]);
  }
}

static void floats_are_uniform_in_the_half_open_unit_interval(void **state)
{
  (void)state;
  enum { DRAWS = 100000 };
  capl_rng rng;
  capl_rng_init(&rng, 5, 0, 0, 0);
  double sum = 0, squares = 0;
  for (int i = 0; i < DRAWS; i++) {
    float u = capl_rng_float(&rng);
    assert_true(u >= 0.0f && u < 1.0f);
    sum += u;
    squares += (double)u * u;
  }
  /* Standard errors: 0.0009 of the mean, 0.0009 of the mean square. Five of them. */
  assert_true(fabs(sum / DRAWS - 0.5) < 0.005);
  assert_true(fabs(squares / DRAWS - 1.0 / 3) < 0.005);
}

static void below_covers_its_range_evenly(void **state)
{
  (void)state;
  enum { N = 7, DRAWS = 70000 };
  int count[N] = {0};
  capl_rng rng;
  capl_rng_init(&rng, 6, 0, 0, 0);
  for (int i = 0; i < DRAWS; i++) {
    uint32_t k = capl_rng_below(&rng, N);
    assert_in_range(k, 0, N - 1);
    count[k]++;
  }
  for (int k = 0; k < N; k++) assert_in_range(count[k], 9500, 10500); /* 10000 +- 93, five sigma */
  assert_int_equal(capl_rng_below(&rng, 1), 0);
}

static void normals_have_mean_zero_and_deviation_one(void **state)
{
  (void)state;
  enum { DRAWS = 100000 };
  capl_rng rng;
  capl_rng_init(&rng, 7, 0, 0, 0);
  double sum = 0, squares = 0, beyond = 0;
  for (int i = 0; i < DRAWS; i++) {
    double z = capl_rng_normal(&rng);
    assert_true(isfinite(z));
    sum += z;
    squares += z * z;
    beyond += fabs(z) > 2;
  }
  assert_true(fabs(sum / DRAWS) < 0.016);
  assert_true(fabs(squares / DRAWS - 1) < 0.023);
  assert_true(fabs(beyond / DRAWS - 0.0455) < 0.0034);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(philox_gives_the_published_answers),
    cmocka_unit_test(a_stream_is_philox_blocks_in_order),
    cmocka_unit_test(every_name_part_makes_another_stream),
    cmocka_unit_test(floats_are_uniform_in_the_half_open_unit_interval),
    cmocka_unit_test(below_covers_its_range_evenly),
    cmocka_unit_test(normals_have_mean_zero_and_deviation_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
