/* native_count.c -- tests of native_count.c: each record counts once, as own from the first own kernel on.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include "backend/cuda/native_count.h"

static int own, total;

static void take(void *user, const char *kind, int n_own, int n_total)
{
  if (strcmp(kind, user) == 0) own = n_own, total = n_total;
}

static void need(const char *kind, int n_own, int n_total)
{
  own = total = -1;
  native_count_report(take, (void *)kind);
  assert_int_equal(own, n_own);
  assert_int_equal(total, n_total);
}

static const char conv[] = "conv2d_grad_w", product[] = "matmul";

static void records_count_once_by_kind(void **state)
{
  (void)state;
  for (int step = 0; step < 3; step++) {
    for (uint64_t r = 1; r <= 7; r++) native_count_note(conv, r << 20, r == 3);
    native_count_note(product, UINT64_C(99) << 20, false);
  }
  need(conv, 1, 7);
  need(product, 0, 1);
}

static void one_that_the_library_ran_before_counts_as_own_from_then_on(void **state)
{
  (void)state;
  native_count_note(conv, 5 << 20, true);
  native_count_note(conv, 5 << 20, false);
  need(conv, 2, 7);
}

static void hashes_that_meet_in_one_place_are_different_records(void **state)
{
  (void)state;
  native_count_note(product, (UINT64_C(1) << 40) | 400, false);
  native_count_note(product, (UINT64_C(2) << 40) | 400, true);
  need(product, 1, 3);
}

static void a_full_table_counts_no_more(void **state)
{
  (void)state;
  for (uint64_t r = 1; r <= 10000; r++) native_count_note(product, r * UINT64_C(0x9E3779B97F4A7C15), false);
  need(product, 1, 4096 - 7);
  native_count_note(product, (UINT64_C(2) << 40) | 400, true); /* known ones are found */
  need(product, 1, 4096 - 7);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(records_count_once_by_kind),
    cmocka_unit_test(one_that_the_library_ran_before_counts_as_own_from_then_on),
    cmocka_unit_test(hashes_that_meet_in_one_place_are_different_records),
    cmocka_unit_test(a_full_table_counts_no_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
