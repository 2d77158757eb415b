/* error_record.c -- tests of the thread's last error record.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <pthread.h>
#include <string.h>

static void a_failure_is_recorded_with_its_place(void **state)
{
  (void)state;
  capl_status status = CAPL_FAIL(CAPL_ESHAPE, "weight expects %d input channels, x has %d", 1, 3);
  int line = __LINE__ - 1;
  const capl_error *error = capl_error_last();
  assert_int_equal(status, CAPL_ESHAPE);
  assert_int_equal(error->code, CAPL_ESHAPE);
  assert_string_equal(error->message, "weight expects 1 input channels, x has 3");
  assert_string_equal(error->context, "");
  assert_string_equal(error->hint, "");
  assert_non_null(strstr(error->file, "error_record.c"));
  assert_int_equal(error->line, line);
}

static capl_status passes_on(capl_status status, int *reached)
{
  CAPL_TRY(status);
  *reached = 1;
  return CAPL_OK;
}

static void try_returns_failures_and_passes_ok(void **state)
{
  (void)state;
  int reached = 0;
  assert_int_equal(passes_on(CAPL_EIO, &reached), CAPL_EIO);
  assert_int_equal(reached, 0);
  assert_int_equal(passes_on(CAPL_OK, &reached), CAPL_OK);
  assert_int_equal(reached, 1);
}

static void layers_add_context_lines_and_one_hint(void **state)
{
  (void)state;
  (void)CAPL_FAIL(CAPL_EVALUE, "p is 2");
  capl_error_context("in %s", "dropout");
  capl_error_context("at step %d", 4);
  capl_error_hint("p is a probability");
  capl_error_hint("a later, less specific hint");
  assert_string_equal(capl_error_last()->context, "in dropout\nat step 4");
  assert_string_equal(capl_error_last()->hint, "p is a probability");
  (void)CAPL_FAIL(CAPL_EVALUE, "another");
  assert_string_equal(capl_error_last()->context, "");
  assert_string_equal(capl_error_last()->hint, "");
}

static void a_message_may_quote_the_record_it_replaces(void **state)
{
  (void)state;
  (void)CAPL_FAIL(CAPL_EIO, "disk full");
  (void)CAPL_FAIL(CAPL_EIO, "cannot save: %s", capl_error_last()->message);
  assert_string_equal(capl_error_last()->message, "cannot save: disk full");
}

static void long_texts_are_cut_not_overrun(void **state)
{
  (void)state;
  char text[4000];
  memset(text, 'a', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  (void)CAPL_FAIL(CAPL_EIO, "%s", text);
  for (int i = 0; i < 3; i++) capl_error_context("%s", text);
  capl_error_hint("%s", text);
  const capl_error *error = capl_error_last();
  assert_int_equal(strlen(error->message), sizeof error->message - 1);
  assert_int_equal(strlen(error->context), sizeof error->context - 1);
  assert_int_equal(strlen(error->hint), sizeof error->hint - 1);
}

static void *fail_elsewhere(void *copy)
{
  (void)CAPL_FAIL(CAPL_ENOMEM, "of the worker");
  *(capl_error *)copy = *capl_error_last();
  return NULL;
}

static void records_belong_to_threads_and_can_be_carried_over(void **state)
{
  (void)state;
  (void)CAPL_FAIL(CAPL_EIO, "of the main thread");
  static capl_error carried;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &carried), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_string_equal(capl_error_last()->message, "of the main thread");
  capl_error_restore(&carried);
  assert_string_equal(capl_error_last()->message, "of the worker");
  assert_int_equal(capl_error_last()->code, CAPL_ENOMEM);
  capl_error_restore(capl_error_last());
  assert_string_equal(capl_error_last()->message, "of the worker");
}

static void every_status_has_its_own_name(void **state)
{
  (void)state;
  for (int i = 0; i < CAPL_STATUS_COUNT; i++)
    for (int j = 0; j < i; j++)
      assert_string_not_equal(capl_status_name((capl_status)i), capl_status_name((capl_status)j));
  assert_string_equal(capl_status_name(CAPL_ESHAPE), "shape");
  assert_string_equal(capl_status_name(CAPL_STATUS_COUNT), "unknown");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_failure_is_recorded_with_its_place),
    cmocka_unit_test(try_returns_failures_and_passes_ok),
    cmocka_unit_test(layers_add_context_lines_and_one_hint),
    cmocka_unit_test(a_message_may_quote_the_record_it_replaces),
    cmocka_unit_test(long_texts_are_cut_not_overrun),
    cmocka_unit_test(records_belong_to_threads_and_can_be_carried_over),
    cmocka_unit_test(every_status_has_its_own_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
