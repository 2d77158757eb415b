/* names_nearest.c -- tests of "did you mean".
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include "base/names.h"

static const char *nearest(const char *wanted, const char *const *candidates)
{
  capl_suggestion s = {.wanted = wanted};
  for (; *candidates; candidates++) capl_suggest(&s, *candidates);
  return s.nearest;
}

static void edits_count_two_and_letter_case_one(void **state)
{
  (void)state;
  assert_int_equal(capl_name_distance("relu", "relu"), 0);
  assert_int_equal(capl_name_distance("relu", "ReLU"), 3);
  assert_int_equal(capl_name_distance("relu", "rel"), 2);
  assert_int_equal(capl_name_distance("rel", "relu"), 2);
  assert_int_equal(capl_name_distance("relu", "rely"), 2);
  assert_int_equal(capl_name_distance("", "abc"), 6);
  assert_int_equal(capl_name_distance("kitten", "sitting"), 6);
  assert_int_equal(capl_name_distance("chekc", "check"), 2);
  assert_int_equal(capl_name_distance("ab", "ba"), 2);
  assert_int_equal(capl_name_distance("rnus", "run"), 4);
}

static void a_slip_of_the_pen_finds_its_name(void **state)
{
  (void)state;
  static const char *const names[] = {"epochs", "batch", "lr", "warmup", "precision", NULL};
  assert_string_equal(nearest("epoch", names), "epochs");
  assert_string_equal(nearest("Batch", names), "batch");
  assert_string_equal(nearest("precison", names), "precision");
  assert_string_equal(nearest("LR", names), "lr");
  assert_string_equal(nearest("rl", names), "lr");
  assert_string_equal(nearest("bacth", names), "batch");
}

static void nonsense_finds_nothing(void **state)
{
  (void)state;
  static const char *const names[] = {"epochs", "batch", "lr", NULL};
  assert_null(nearest("zzzzzz", names));
  assert_null(nearest("", names));
}

static void the_first_of_equals_wins(void **state)
{
  (void)state;
  static const char *const names[] = {"stride_a", "stride_b", NULL};
  assert_string_equal(nearest("stride_c", names), "stride_a");
}

static void very_long_names_are_compared_whole_or_not_at_all(void **state)
{
  (void)state;
  char a[200], b[200];
  memset(a, 'a', sizeof a - 1);
  a[sizeof a - 1] = '\0';
  memcpy(b, a, sizeof b);
  assert_int_equal(capl_name_distance(a, b), 0);
  b[150] = 'b';
  assert_true(capl_name_distance(a, b) > 8);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(edits_count_two_and_letter_case_one),
    cmocka_unit_test(a_slip_of_the_pen_finds_its_name),
    cmocka_unit_test(nonsense_finds_nothing),
    cmocka_unit_test(the_first_of_equals_wins),
    cmocka_unit_test(very_long_names_are_compared_whole_or_not_at_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
