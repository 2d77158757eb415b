/* assume.c -- tests of CAPL_ASSUME (base/assume.h) and of the instruction set that follows from it (base/isa.h).
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assume.h"
#include "base/isa.h"
#include "base/memory.h"
#include "base/thread.h"
#include "capl/backend.h"

static int nothing_is_assumed(void **state)
{
  (void)state;
  return unsetenv("CAPL_ASSUME");
}

static void assume(const char *text) { setenv("CAPL_ASSUME", text, 1); }

static void assert_assumed(const char *text, capl_assume_key key, int64_t expected)
{
  int64_t value = -1;
  assume(text);
  assert_ok(capl_assume_check());
  assert_true(capl_assumed(key, &value));
  assert_int_equal(value, expected);
}

static void assert_refused(const char *text, const char *message, const char *hint)
{
  assume(text);
  assert_fails(capl_assume_check(), CAPL_EVALUE, message);
  assert_string_equal(capl_error_last()->hint, hint);
}

static void each_key_has_its_values(void **state)
{
  (void)state;
  assert_assumed("bf16=native", CAPL_ASSUME_BF16, 1);
  assert_assumed("bf16=slow", CAPL_ASSUME_BF16, 0);
  assert_assumed("isa=portable", CAPL_ASSUME_ISA, CAPL_ISA_PORTABLE);
  assert_assumed("winograd=always", CAPL_ASSUME_WINOGRAD, 1);
  assert_assumed("winograd=never", CAPL_ASSUME_WINOGRAD, 0);
  assert_assumed("cores=1", CAPL_ASSUME_CORES, 1);
  assert_assumed("cores=1024", CAPL_ASSUME_CORES, 1024);
  assert_assumed("memory=2GB", CAPL_ASSUME_MEMORY, 2000000000);
  assert_assumed("memory=0.5TB", CAPL_ASSUME_MEMORY, 500000000000);
  assert_assumed("memory=300MB", CAPL_ASSUME_MEMORY, 300000000);
  assert_assumed("landlock=0", CAPL_ASSUME_LANDLOCK, 0);
  assert_assumed("landlock=7", CAPL_ASSUME_LANDLOCK, 7);
  assert_assumed("seccomp=none", CAPL_ASSUME_SECCOMP, 0);
  assert_assumed("gpu=none", CAPL_ASSUME_GPU, 0);
}

static void several_keys_stand_in_any_order(void **state)
{
  (void)state;
  int64_t value;
  assert_assumed(" cores=2, isa=portable,bf16=native,", CAPL_ASSUME_BF16, 1);
  assert_true(capl_assumed(CAPL_ASSUME_CORES, &value) && value == 2);
  assert_true(capl_assumed(CAPL_ASSUME_ISA, &value) && value == CAPL_ISA_PORTABLE);
  assert_false(capl_assumed(CAPL_ASSUME_GPU, &value));
  assert_string_equal(capl_assume_text(), " cores=2, isa=portable,bf16=native,");
}

static void an_unset_or_empty_variable_assumes_nothing(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    capl_isa isa;
    assert_ok(capl_assume_check());
    assert_null(capl_assume_text());
    for (int key = 0; key < CAPL_ASSUME_KEYS; key++) assert_false(capl_assumed((capl_assume_key)key, &(int64_t){0}));
    assert_ok(capl_isa_choose(&isa));
    assert_int_equal(isa, capl_isa_of_processor());
    assume("");
  }
}

static void an_unknown_key_gets_the_nearest_one_and_the_list(void **state)
{
  (void)state;
  const char *rest = "its keys are bf16, isa, winograd, cores, memory, landlock, seccomp, gpu";
  char expected[160];
  snprintf(expected, sizeof expected, "CAPL_ASSUME has no key 'core'; %s", rest);
  assert_refused("bf16=slow,core=2", expected, "did you mean cores=…?");
  snprintf(expected, sizeof expected, "CAPL_ASSUME has no key 'BF16'; %s", rest);
  assert_refused("BF16=native", expected, "did you mean bf16=…?");
  snprintf(expected, sizeof expected, "CAPL_ASSUME has no key 'processor_speed'; %s", rest);
  assert_refused("processor_speed=3", expected, "");
  assert_refused("=3", "CAPL_ASSUME has no key ''; its keys are bf16, isa, winograd, cores, memory, landlock, seccomp, gpu", "");
}

static void a_bad_value_gets_what_there_is(void **state)
{
  (void)state;
  assert_refused("bf16=nativ", "CAPL_ASSUME: bf16 is 'nativ'; it is native or slow", "did you mean native?");
  assert_refused("isa=avx", "CAPL_ASSUME: isa is 'avx'; it is avx512, avx2 or portable", "did you mean avx2?");
  assert_refused("isa", "CAPL_ASSUME: isa needs a value: isa=…, avx512, avx2 or portable", "");
  assert_refused("isa=", "CAPL_ASSUME: isa is ''; it is avx512, avx2 or portable", "");
  static const char *const cores[] = {"0", "1025", "-1", "2.5", "2x", "", "99999999999999999999"};
  for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
    char text[64], expected[128];
    snprintf(text, sizeof text, "cores=%s", cores[i]);
    snprintf(expected, sizeof expected, "CAPL_ASSUME: cores is '%s'; it is a whole number from 1 to 1024", cores[i]);
    assert_refused(text, expected, "");
  }
  static const char *const memory[] = {"2", "GB", "-2GB", "0GB", "2gb", "nanGB", "1e9TB", "infGB"};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
    char text[64], expected[128];
    snprintf(text, sizeof text, "memory=%s", memory[i]);
    snprintf(expected, sizeof expected, "CAPL_ASSUME: memory is '%s'; it is a number of MB, GB or TB, as 2GB",
             memory[i]);
    assert_refused(text, expected, "");
  }
  assert_refused("winograd=off", "CAPL_ASSUME: winograd is 'off'; it is always or never", "");
  assert_refused("landlock=8", "CAPL_ASSUME: landlock is '8'; it is a whole number from 0 to 7", "");
  assert_refused("seccomp=0", "CAPL_ASSUME: seccomp is '0'; it is none", "");
  assert_refused("gpu=nune", "CAPL_ASSUME: gpu is 'nune'; it is none", "did you mean none?");
  assert_refused("cores=2,cores=2", "CAPL_ASSUME sets cores twice", "");
}

static void an_instruction_set_the_processor_has_is_in_use_and_others_are_refused(void **state)
{
  (void)state;
  capl_isa here = capl_isa_of_processor();
  for (capl_isa wanted = CAPL_ISA_PORTABLE; wanted <= CAPL_ISA_AVX512; wanted++) {
    capl_isa isa;
    char expected[100];
    assume_isa(capl_isa_name(wanted));
    if (wanted <= here) {
      assert_ok(capl_isa_choose(&isa));
      assert_int_equal(isa, wanted);
      continue;
    }
    snprintf(expected, sizeof expected, "CAPL_ASSUME: isa is %s, this processor has %s only", capl_isa_name(wanted),
             capl_isa_name(here));
    assert_fails(capl_isa_choose(&isa), CAPL_EUNSUPPORTED, expected);
    assert_fails(capl_assume_check(), CAPL_EUNSUPPORTED, expected);
  }
}

static void what_only_some_have_comes_with_avx512_alone(void **state)
{
  (void)state;
  bool wide = capl_isa_of_processor() == CAPL_ISA_AVX512;
  assert_true(wide || !capl_isa_has_vbmi());
  assert_true(wide || !capl_isa_has_bf16());
  assume("isa=portable");
  assert_false(capl_isa_has_vbmi());
  assert_false(capl_isa_has_bf16());
}

static void facts_are_forced_where_they_are_found(void **state)
{
  (void)state;
  const char *why;
  capl_device *device;
  assume("cores=64,memory=3MB,gpu=none");
  assert_int_equal(capl_cpu_count(), 64);
  assert_int_equal(capl_memory_total(), 3000000);
  assert_int_equal(capl_memory_available(""), 3000000);
  assert_false(capl_gpu_possible(&why));
  assert_string_equal(why, "CAPL_ASSUME has gpu=none");
  assert_fails(capl_device_open("cuda", &device), CAPL_EUNSUPPORTED,
               "device cuda is not available: CAPL_ASSUME has gpu=none");
  assume("gpu=none");
  assert_true(capl_cpu_count() < 64 * 1024 && capl_memory_total() > 3000000);
  assert_in_range(capl_memory_available(""), 1, capl_memory_total());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, nothing_is_assumed, nothing_is_assumed)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(each_key_has_its_values),
    TEST(several_keys_stand_in_any_order),
    TEST(an_unset_or_empty_variable_assumes_nothing),
    TEST(an_unknown_key_gets_the_nearest_one_and_the_list),
    TEST(a_bad_value_gets_what_there_is),
    TEST(an_instruction_set_the_processor_has_is_in_use_and_others_are_refused),
    TEST(what_only_some_have_comes_with_avx512_alone),
    TEST(facts_are_forced_where_they_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
