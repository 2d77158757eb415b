/* poison.c -- CAPL_POISON=1: work that uses a block after it was freed computes NaN, also in a recorded step.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>

#include "capl/backend.h"
#include "capl/capl.h"
#include "capl/capture.h"
#include "tensor/storage.h"

enum { N = 1000 };
static capl_device *cuda;
static capl_tensor *result;

static capl_tensor *filled(double value)
{
  int64_t n = N;
  capl_tensor *t;
  assert_ok(capl_tensor_new(cuda, CAPL_F32, 1, &n, CAPL_AUTO, &t));
  assert_ok(cuda->backend->fill(t, value));
  return t;
}

/* result := what is in memory at data, which may be nobody's. */
static void copy_from(void *data)
{
  int64_t n = N;
  capl_tensor *t;
  assert_ok(capl_tensor_new(cuda, CAPL_F32, 1, &n, CAPL_AUTO, &t));
  void *own = t->storage->data;
  t->storage->data = data;
  assert_ok(cuda->backend->copy(result, t));
  t->storage->data = own;
  capl_tensor_unref(t);
}

static float first(const capl_tensor *t)
{
  float values[N];
  assert_ok(cuda->backend->copy_out(values, t->storage->data, sizeof values));
  for (int i = 1; i < N; i++) assert_true(values[i] == values[0] || (isnan(values[i]) && isnan(values[0])));
  return values[0];
}

static void a_block_that_was_freed_is_not_a_number(void **state)
{
  (void)state;
  capl_tensor *t = filled(3);
  void *data = t->storage->data;
  copy_from(data);
  assert_true(first(result) == 3);
  assert_ok(cuda->backend->copy(result, t)); /* queued before it is freed */
  capl_tensor_unref(t);
  assert_true(first(result) == 3);
  copy_from(data);
  assert_true(isnan(first(result)));
}

static void so_is_one_in_a_recording(void **state)
{
  (void)state;
  capl_capture *c;
  for (int wrong = 0; wrong < 2; wrong++) {
    assert_ok(capl_capture_begin(cuda, &c));
    capl_tensor *t = filled(3);
    void *data = t->storage->data;
    if (wrong) capl_tensor_unref(t);
    copy_from(data);
    if (!wrong) capl_tensor_unref(t);
    assert_ok(capl_capture_end(c));
    for (int k = 0; k < 2; k++) {
      assert_ok(capl_capture_launch(c, 0));
      assert_true(wrong ? isnan(first(result)) : first(result) == 3);
    }
    capl_capture_free(c);
  }
}

/* The block has another owner when the recording is launched. */
static void a_recording_fills_no_blocks_of_others(void **state)
{
  (void)state;
  capl_capture *c;
  capl_tensor *t = filled(3);
  void *data = t->storage->data;
  assert_ok(capl_capture_begin(cuda, &c));
  copy_from(data);
  capl_tensor_unref(t);
  assert_ok(capl_capture_end(c));
  t = filled(6);
  assert_ptr_equal(t->storage->data, data);
  assert_ok(capl_capture_launch(c, 0));
  assert_true(first(t) == 6);
  capl_tensor_unref(t);
  capl_capture_free(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_block_that_was_freed_is_not_a_number),
    cmocka_unit_test(so_is_one_in_a_recording),
    cmocka_unit_test(a_recording_fills_no_blocks_of_others),
  };
  if (capl_device_open("cuda", &cuda) != CAPL_OK) return printf("%s\n", capl_error_last()->message), 1;
  result = filled(0);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  capl_tensor_unref(result);
  return failed;
}
