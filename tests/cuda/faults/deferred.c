/* deferred.c -- what Lua's collector lets go while a step is recorded: fetches and other recordings. A driver refuses
** to wait then, and the refusal ends the recording; so it is done later.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include "capl/backend.h"
#include "capl/capl.h"
#include "capl/capture.h"
#include "capl/fetch.h"

static capl_device *cuda;
static capl_tensor *x;

static void add_one(void)
{
  capl_tensor *y;
  assert_ok(capl_run(CAPL_OP_relu, &x, 1, NULL, &y));
  capl_tensor_unref(y);
}

static capl_capture *record(void)
{
  capl_capture *c;
  assert_ok(capl_capture_begin(cuda, &c));
  add_one();
  assert_ok(capl_capture_end(c));
  return c;
}

static void a_fetch_that_is_dropped(void **state)
{
  (void)state;
  capl_fetch fetch = {0};
  capl_capture *c;
  for (int i = 0; i < 100; i++) { /* more than there are places for */
    assert_ok(capl_fetch_begin(x, &fetch));
    assert_ok(capl_capture_begin(cuda, &c));
    add_one();
    capl_fetch_drop(&fetch);
    assert_ok(capl_capture_end(c));
    assert_ok(capl_capture_launch(c, 0));
    capl_capture_free(c);
  }
}

static void a_fetch_that_is_asked_for(void **state)
{
  (void)state;
  capl_fetch fetch = {0};
  capl_capture *c;
  bool done;
  double value;
  assert_ok(capl_fetch_begin(x, &fetch));
  assert_ok(capl_capture_begin(cuda, &c));
  add_one();
  assert_int_equal(capl_fetch_done(&fetch, &done), CAPL_ESTATE);
  assert_int_equal(capl_fetch_value(&fetch, &value), CAPL_ESTATE);
  assert_non_null(strstr(capl_error_last()->message, "inside a captured step"));
  assert_ok(capl_capture_end(c)); /* an error of the program, not the end of the recording */
  capl_capture_free(c);
  assert_ok(capl_fetch_value(&fetch, &value)); /* nor of the fetch */
  assert_true(value == 1);
}

static void another_recording(void **state)
{
  (void)state;
  capl_capture *old = record(), *older = record(), *c;
  assert_ok(capl_capture_launch(old, 0));
  assert_ok(capl_capture_begin(cuda, &c));
  add_one();
  capl_capture_free(old);
  capl_capture_free(older);
  assert_ok(capl_capture_end(c));
  assert_ok(capl_capture_launch(c, 0));
  capl_capture_free(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_fetch_that_is_dropped),
    cmocka_unit_test(a_fetch_that_is_asked_for),
    cmocka_unit_test(another_recording),
  };
  double one = 1;
  int64_t size = 1;
  if (capl_device_open("cuda", &cuda) != CAPL_OK) return printf("%s\n", capl_error_last()->message), 1;
  if (capl_tensor_from_doubles(cuda, CAPL_F32, 1, &size, &one, &x) != CAPL_OK) return 1;
  add_one(); /* kernels are loaded */
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  capl_tensor_unref(x);
  return failed;
}
