/* cpu_plans.c -- tests of the cpu backend's plans: how many are kept, which go first, and when.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include "backend/cpu/dnnl.h"
#include "backend/cpu/parallel.h"
#include "capl/capl.h"

enum { DEPTH = 3, COLUMNS = 2 };

/* y (rows, COLUMNS) = x (rows, DEPTH) * w (DEPTH, COLUMNS) */
static const dn_plan *plan_of(int64_t rows)
{
  dn_spec spec;
  const dn_plan *plan;
  dn_spec_init(&spec, DN_MATMUL);
  dn_layout_set(&spec.arg[DN_X], CAPL_F32, 2, (int64_t[]){rows, DEPTH}, NULL);
  dn_layout_set(&spec.arg[DN_W], CAPL_F32, 2, (int64_t[]){DEPTH, COLUMNS}, NULL);
  dn_layout_set(&spec.arg[DN_Y], CAPL_F32, 2, (int64_t[]){rows, COLUMNS}, NULL);
  assert_ok(dn_find(&spec, &plan));
  assert_non_null(plan);
  return plan;
}

static void use(int64_t rows)
{
  dn_hold();
  plan_of(rows);
  dn_release();
}

/* Whether the plan was there already. */
static bool kept(int64_t rows)
{
  uint64_t before = dn_plan_statistics_get().misses;
  use(rows);
  return dn_plan_statistics_get().misses == before;
}

/* No plan but one that no test asks for again. */
static int start(void **state)
{
  (void)state;
  dn_plan_limit_set(1);
  use(999);
  return 0;
}

static void never_more_plans_are_kept_than_the_limit(void **state)
{
  (void)state;
  dn_plan_limit_set(5);
  for (int64_t rows = 1; rows <= 40; rows++) {
    use(rows);
    assert_true(dn_plan_statistics_get().kept <= 5);
  }
  assert_int_equal(dn_plan_statistics_get().kept, 5);
  for (int64_t rows = 40; rows > 35; rows--) assert_true(kept(rows));
}

static void the_plan_that_was_not_used_for_longest_goes_first(void **state)
{
  (void)state;
  dn_plan_limit_set(3);
  for (int64_t rows = 1; rows <= 3; rows++) use(rows);
  use(1); /* 2 is the oldest now */
  use(4);
  assert_true(kept(1));
  assert_true(kept(3));
  assert_true(kept(4));
  assert_false(kept(2));
}

/* What is held would be freed memory otherwise, which AddressSanitizer sees, and the result shows as a rule. */
static void plans_in_use_stay_whatever_the_limit(void **state)
{
  (void)state;
  float x[2 * DEPTH] = {1, 2, 3, 4, 5, 6}, w[DEPTH * COLUMNS] = {1, 10, 100, 1000, 10000, 100000}, y[2 * COLUMNS] = {0};
  void *data[DN_ARGS] = {[DN_X] = x, [DN_W] = w, [DN_Y] = y};
  capl_device *device;
  assert_ok(capl_device_open("ref", &device));
  dn_plan_limit_set(2);
  dn_hold();
  const dn_plan *plan = plan_of(2);
  for (int64_t rows = 10; rows < 20; rows++) use(rows);
  assert_int_equal(dn_plan_statistics_get().kept, 12);
  assert_ok(dn_run(plan, device, data, NULL));
  dn_release();
  assert_int_equal(dn_plan_statistics_get().kept, 2);
  const float expected[2 * COLUMNS] = {30201, 302010, 60504, 605040};
  for (int i = 0; i < 2 * COLUMNS; i++) assert_float_equal(y[i], expected[i], 0.5);
}

static void a_lower_limit_holds_at_once(void **state)
{
  (void)state;
  dn_plan_limit_set(100);
  for (int64_t rows = 1; rows <= 30; rows++) use(rows);
  assert_int_equal(dn_plan_statistics_get().kept, 31);
  dn_plan_limit_set(4);
  assert_int_equal(dn_plan_statistics_get().kept, 4);
  dn_plan_limit_set(0); /* one at least: the call that made it is not over */
  assert_int_equal(dn_plan_statistics_get().kept, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(never_more_plans_are_kept_than_the_limit, start),
    cmocka_unit_test_setup(the_plan_that_was_not_used_for_longest_goes_first, start),
    cmocka_unit_test_setup(plans_in_use_stay_whatever_the_limit, start),
    cmocka_unit_test_setup(a_lower_limit_holds_at_once, start),
  };
  if (cpu_parallel_open() != CAPL_OK || dn_open("portable") != CAPL_OK) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
