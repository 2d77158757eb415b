/* float16_bits.c -- tests of the 16-bit float conversions, over every bit pattern there is.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>

#include "base/float16.h"

/* Value of a float format with e exponent and m mantissa bits, straight from the definition. */
static double value_of(uint32_t bits, int e, int m)
{
  int exponent = (int)(bits >> m) & ((1 << e) - 1);
  double mantissa = bits & ((1u << m) - 1), sign = bits >> (e + m) ? -1 : 1;
  int bias = (1 << (e - 1)) - 1;
  if (exponent == (1 << e) - 1) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - m);
  return sign * ldexp(1 + ldexp(mantissa, -m), exponent - bias);
}

static void every_f16_reads_as_defined(void **state)
{
  (void)state;
  for (uint32_t h = 0; h < 65536; h++) {
    double expected = value_of(h, 5, 10), got = capl_f16_to_float((uint16_t)h);
    if (isnan(expected)) assert_true(isnan(got));
    else if (got != expected || signbit(got) != signbit(expected))
      fail_msg("f16 %04x: %a, expected %a", h, got, expected);
  }
}

static void every_bf16_reads_as_defined(void **state)
{
  (void)state;
  for (uint32_t h = 0; h < 65536; h++) {
    double expected = value_of(h, 8, 7), got = capl_bf16_to_float((uint16_t)h);
    if (isnan(expected)) assert_true(isnan(got));
    else if (got != expected || signbit(got) != signbit(expected))
      fail_msg("bf16 %04x: %a, expected %a", h, got, expected);
  }
}

/* Between neighbours a < b lies one float that is exactly halfway; it goes to the even one, and the floats
** beside it to the nearer one. */
static void check_rounding(uint16_t lower, float (*read)(uint16_t), uint16_t (*round)(float))
{
  float a = read(lower), b = read((uint16_t)(lower + 1)), middle = a + (b - a) / 2;
  uint16_t even = lower & 1 ? (uint16_t)(lower + 1) : lower;
  if (isinf(b)) return;
  assert_int_equal(round(a), lower);
  assert_int_equal(round(middle), even);
  assert_int_equal(round(nextafterf(middle, a)), lower);
  assert_int_equal(round(nextafterf(middle, b)), lower + 1);
}

static void f16_rounds_to_nearest_even(void **state)
{
  (void)state;
  for (uint32_t h = 0; h < 0x7C00; h++) check_rounding((uint16_t)h, capl_f16_to_float, capl_f16_from_float);
  for (uint32_t h = 0x8000; h < 0xFC00; h++) check_rounding((uint16_t)h, capl_f16_to_float, capl_f16_from_float);
}

static void bf16_rounds_to_nearest_even(void **state)
{
  (void)state;
  /* Below the smallest normal number the halfway points are floats too, so all patterns can be asked for. */
  for (uint32_t h = 0; h < 0x7F80; h++) check_rounding((uint16_t)h, capl_bf16_to_float, capl_bf16_from_float);
  for (uint32_t h = 0x8000; h < 0xFF80; h++) check_rounding((uint16_t)h, capl_bf16_to_float, capl_bf16_from_float);
}

static void what_is_too_large_becomes_infinite_and_nan_stays_nan(void **state)
{
  (void)state;
  assert_int_equal(capl_f16_from_float(65519.996f), 0x7BFF);
  assert_int_equal(capl_f16_from_float(65520.0f), 0x7C00);
  assert_int_equal(capl_f16_from_float(-1e30f), 0xFC00);
  assert_int_equal(capl_bf16_from_float(3.4e38f), 0x7F80);
  assert_int_equal(capl_bf16_from_float(-INFINITY), 0xFF80);
  assert_true(isnan(capl_f16_to_float(capl_f16_from_float(NAN))));
  assert_true(isnan(capl_bf16_to_float(capl_bf16_from_float(NAN))));
  /* A NaN whose payload lies only in the bits that are cut off. */
  assert_true(isnan(capl_bf16_to_float(capl_bf16_from_float(capl_bits_to_float(0x7F800001u)))));
  assert_true(isnan(capl_f16_to_float(capl_f16_from_float(capl_bits_to_float(0xFF800001u)))));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_f16_reads_as_defined),
    cmocka_unit_test(every_bf16_reads_as_defined),
    cmocka_unit_test(f16_rounds_to_nearest_even),
    cmocka_unit_test(bf16_rounds_to_nearest_even),
    cmocka_unit_test(what_is_too_large_becomes_infinite_and_nan_stays_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
