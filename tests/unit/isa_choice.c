/* isa_choice.c -- tests of the choice of an instruction set (base/isa.h).
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/isa.h"

static capl_isa best(void)
{
  capl_isa isa;
  unsetenv("CAPL_ISA");
  assert_ok(capl_isa_choose(&isa));
  return isa;
}

static void an_empty_setting_leaves_the_choice_to_the_processor(void **state)
{
  (void)state;
  capl_isa isa, here = best();
  setenv("CAPL_ISA", "", 1);
  assert_ok(capl_isa_choose(&isa));
  assert_int_equal(isa, here);
}

static void each_set_the_processor_has_can_be_forced_and_others_cannot(void **state)
{
  (void)state;
  capl_isa here = best();
  for (capl_isa wanted = CAPL_ISA_PORTABLE; wanted <= CAPL_ISA_AVX512; wanted++) {
    capl_isa isa;
    setenv("CAPL_ISA", capl_isa_name(wanted), 1);
    if (wanted <= here) {
      assert_ok(capl_isa_choose(&isa));
      assert_int_equal(isa, wanted);
    } else {
      char expected[100];
      snprintf(expected, sizeof expected, "CAPL_ISA is %s, this processor has %s only", capl_isa_name(wanted), capl_isa_name(here));
      assert_fails(capl_isa_choose(&isa), CAPL_EUNSUPPORTED, expected);
    }
  }
}

static void an_unknown_name_lists_the_known_ones(void **state)
{
  (void)state;
  capl_isa isa, here = best();
  char expected[100];
  setenv("CAPL_ISA", "sse", 1);
  snprintf(expected, sizeof expected, "CAPL_ISA is \"sse\"; avx512, avx2 or portable (here up to %s) are known", capl_isa_name(here));
  assert_fails(capl_isa_choose(&isa), CAPL_EVALUE, expected);
  assert_string_equal(capl_error_last()->hint, "leave CAPL_ISA unset for the best this processor has");
}

static void what_only_some_have_comes_with_avx512_alone(void **state)
{
  (void)state;
  bool wide = best() == CAPL_ISA_AVX512;
  assert_true(wide || !capl_isa_has_vbmi());
  assert_true(wide || !capl_isa_has_bf16());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_empty_setting_leaves_the_choice_to_the_processor),
    cmocka_unit_test(each_set_the_processor_has_can_be_forced_and_others_cannot),
    cmocka_unit_test(an_unknown_name_lists_the_known_ones),
    cmocka_unit_test(what_only_some_have_comes_with_avx512_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
