/* report_axis.c -- limits, ticks and labels of axes.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/axis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

/* All labels, separated by blanks. */
static const char *labels(const axis *a)
{
  static char text[AXIS_TICKS * 25];
  text[0] = '\0';
  for (int i = 0; i < a->n; i++) {
    if (i > 0) strcat(text, " ");
    strcat(text, a->label[i]);
  }
  return text;
}

static const char *linear(double lo, double hi, int most)
{
  static axis a;
  a = (axis){.lo = lo, .hi = hi};
  axis_ticks(&a, most);
  return labels(&a);
}

static void steps_are_one_two_or_five(void **state)
{
  (void)state;
  assert_string_equal(linear(0, 1, 5), "0 0.2 0.4 0.6 0.8 1.0");
  assert_string_equal(linear(0, 10, 4), "0 5 10");
  assert_string_equal(linear(0.3, 7.2, 10), "1 2 3 4 5 6 7");
  assert_string_equal(linear(-1, 1, 4), "-1.0 -0.5 0 0.5 1.0");
  assert_string_equal(linear(0.0, 0.0062, 4), "0 0.002 0.004 0.006");
  assert_string_equal(linear(96.85, 97.4, 6), "96.9 97.0 97.1 97.2 97.3 97.4");
}

static void large_and_small_numbers_stay_short(void **state)
{
  (void)state;
  assert_string_equal(linear(1, 3750, 8), "500 1,000 1,500 2,000 2,500 3,000 3,500");
  assert_string_equal(linear(0, 100000, 5), "0 20k 40k 60k 80k 100k");
  assert_string_equal(linear(-20000, 20000, 4), "-20k -10k 0 10k 20k");
  assert_string_equal(linear(0, 12500, 5), "0 5k 10k");
  assert_string_equal(linear(0, 2.5e6, 5), "0 0.5M 1.0M 1.5M 2.0M 2.5M");
  assert_string_equal(linear(0, 3e9, 3), "0 1G 2G 3G");
  assert_string_equal(linear(10000.1, 10000.5, 4), "10,000.1 10,000.2 10,000.3 10,000.4 10,000.5");
  assert_string_equal(linear(0, 6e-5, 3), "0 2e-5 4e-5 6e-5");
  assert_string_equal(linear(0, 1e299, 2), "0 5e298 1e299");
}

static void shares_are_shown_in_percent(void **state)
{
  (void)state;
  axis a = {.lo = 0.95, .hi = 1, .percent = true};
  axis_ticks(&a, 5);
  assert_string_equal(labels(&a), "95 % 96 % 97 % 98 % 99 % 100 %");
  a = (axis){.lo = 0.97, .hi = 0.98, .percent = true};
  axis_ticks(&a, 2);
  assert_string_equal(labels(&a), "97.0 % 97.5 % 98.0 %");
}

static void whole_numbers_get_no_ticks_between(void **state)
{
  (void)state;
  axis a = {.lo = 1, .hi = 3, .whole = true};
  axis_ticks(&a, 12);
  assert_string_equal(labels(&a), "1 2 3");
}

static void a_log_axis_has_decades(void **state)
{
  (void)state;
  axis a = {.lo = 1e-6, .hi = 1, .log = true};
  axis_ticks(&a, 10);
  assert_string_equal(labels(&a), "1e-6 1e-5 0.0001 0.001 0.01 0.1 1");
  axis_ticks(&a, 3);
  assert_string_equal(labels(&a), "1e-6 0.001 1");
  a = (axis){.lo = 0.35, .hi = 3.7, .log = true};
  axis_ticks(&a, 5);
  assert_string_equal(labels(&a), "0.5 1 2");
  a = (axis){.lo = 0.39, .hi = 0.45, .log = true};
  axis_ticks(&a, 5);
  assert_string_equal(labels(&a), "0.40 0.42 0.44");
  a = (axis){.lo = 1.1, .hi = 3.8, .log = true};
  axis_ticks(&a, 5);
  assert_string_equal(labels(&a), "2 3");
  axis_ticks(&a, 6);
  assert_string_equal(labels(&a), "1.5 2.0 2.5 3.0 3.5");
  a = (axis){.lo = 1e-300, .hi = 1e300, .log = true};
  axis_ticks(&a, 5);
  assert_true(a.n >= 2 && a.n <= 6);
}

static void limits_leave_room_and_keep_zero_near(void **state)
{
  (void)state;
  axis a = {0};
  axis_limits(&a, 10, 20, true);
  assert_true(a.lo == 9.5 && a.hi == 20.5);
  axis_limits(&a, 0.4, 3.6, true); /* the loss of a run */
  assert_true(a.lo == 0);
  axis_limits(&a, 1, 3750, false);
  assert_true(a.lo == 1 && a.hi == 3750);
  a.percent = true;
  axis_limits(&a, 0.5, 0.999, true);
  assert_true(a.lo > 0.45 && a.lo < 0.5 && a.hi == 1);
}

static void empty_ranges_are_widened(void **state)
{
  (void)state;
  static const double values[] = {0, 5, -3, 1e300, -1e300, 1e-300, 1e-9};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    for (int padded = 0; padded < 2; padded++) {
      axis a = {0};
      axis_limits(&a, values[i], values[i], padded);
      if (!(a.lo < a.hi && a.lo <= values[i] && values[i] <= a.hi && isfinite(a.hi - a.lo)))
        fail_msg("%g alone gives %g to %g", values[i], a.lo, a.hi);
    }
  axis none = {0}, log_none = {.log = true};
  axis_limits(&none, INFINITY, -INFINITY, true);
  axis_limits(&log_none, INFINITY, -INFINITY, true);
  assert_true(none.lo < none.hi && log_none.lo > 0 && log_none.lo < log_none.hi);
  axis all = {.log = true};
  axis_limits(&all, 1e-300, 1e300, true);
  assert_true(all.lo > 0 && isfinite(all.hi) && axis_place(&all, 1) > 0.49 && axis_place(&all, 1) < 0.51);
}

/* Whatever the range: at most so many ticks, inside, rising, with labels that differ. */
static void check_ticks(axis *a, int most)
{
  axis_ticks(a, most);
  double slack = 1e-6 * (a->hi - a->lo);
  for (int i = 0; i < a->n; i++) {
    bool inside = a->at[i] >= a->lo - slack && a->at[i] <= a->hi + slack;
    bool rising = i == 0 || (a->at[i] > a->at[i - 1] && strcmp(a->label[i], a->label[i - 1]) != 0);
    if (!inside || !rising || !a->label[i][0])
      fail_msg("%.17g to %.17g, log %d, percent %d: tick %d at %.17g is '%s'", a->lo, a->hi, a->log, a->percent, i,
               a->at[i], a->label[i]);
  }
  if (a->n > most + 1) fail_msg("%g to %g: %d ticks, not at most %d", a->lo, a->hi, a->n, most + 1);
}

static double dice(void)
{
  return rand() / (RAND_MAX + 1.0);
}

static void any_range_gets_ticks_that_differ(void **state)
{
  (void)state;
  srand(7);
  for (int i = 0; i < 20000; i++) {
    axis a = {.log = i % 3 == 0, .percent = i % 5 == 0, .whole = i % 7 == 1 && i % 3};
    double size = pow(10, dice() * 24 - 12), middle = (dice() - 0.5) * size * pow(10, dice() * 7);
    double lo = a.log ? size : middle - size, hi = a.log ? size * pow(10, dice() * 20) : middle + size;
    if (a.whole) lo = floor(lo), hi = ceil(hi);
    axis_limits(&a, lo, hi, i % 2);
    check_ticks(&a, 1 + rand() % 20);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(steps_are_one_two_or_five),
    cmocka_unit_test(large_and_small_numbers_stay_short),
    cmocka_unit_test(shares_are_shown_in_percent),
    cmocka_unit_test(whole_numbers_get_no_ticks_between),
    cmocka_unit_test(a_log_axis_has_decades),
    cmocka_unit_test(limits_leave_room_and_keep_zero_near),
    cmocka_unit_test(empty_ranges_are_widened),
    cmocka_unit_test(any_range_gets_ticks_that_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
