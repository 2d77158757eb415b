/* io_events.c -- records of TensorBoard files: their frame, known bytes, histograms.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capl/capl.h"
#include "unit.h"

static uint8_t *encode(const events_record *record, size_t *len)
{
  uint8_t *bytes;
  assert_ok(events_encode(record, &bytes, len));
  return bytes;
}

static void a_file_begins_with_its_version(void **state)
{
  (void)state;
  /* length 24, its masked CRC-32C, wall_time = 1.0, file_version: what TensorBoard's own files begin with */
  static const uint8_t wanted[] = "\x18\0\0\0\0\0\0\0\xa3\x7fK\"\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0d" "brain.Event:2";
  size_t len;
  uint8_t *bytes = encode(&(events_record){.time = 1, .version = "brain.Event:2"}, &len);
  assert_int_equal(len, 12 + 24 + 4);
  assert_memory_equal(bytes, wanted, 12 + 24);
  free(bytes);
}

static void a_scalar_is_a_float_under_its_tag(void **state)
{
  (void)state;
  static const uint8_t wanted[] = "\x09\0\0\0\0\0\0\0\x40\x10\x96\x01\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\x20\x40";
  events_value value = {.kind = EVENTS_SCALAR, .tag = "loss", .number = 2.5};
  size_t len;
  uint8_t *bytes = encode(&(events_record){.time = 2, .step = 150, .values = &value, .n = 1}, &len);
  assert_int_equal(len, 12 + sizeof wanted - 1 + 4);
  assert_memory_equal(bytes + 12, wanted, sizeof wanted - 1);
  free(bytes);
}

static capl_tensor *tensor_of(const float *values, int64_t n)
{
  capl_device *cpu;
  capl_tensor *t;
  assert_ok(capl_device_open("cpu", &cpu));
  assert_ok(capl_tensor_new(cpu, CAPL_F32, 1, &n, CAPL_ROW, &t));
  if (n > 0) memcpy(capl_tensor_data(t), values, (size_t)n * sizeof *values);
  return t;
}

static void a_histogram_counts_each_finite_value_once(void **state)
{
  (void)state;
  const float values[] = {-1, 0, 0.5f, 1, 3, NAN, INFINITY};
  capl_tensor *t = tensor_of(values, 7);
  events_histogram h;
  assert_ok(events_histogram_of(t, 2, &h));
  double sum = 0;
  for (size_t i = 0; i < h.n; i++) {
    sum += h.bucket[i];
    if (i > 0) assert_true(h.limit[i] > h.limit[i - 1]);
  }
  assert_true(sum == 5 && h.count == 5);
  assert_true(h.min == -2 && h.max == 6 && h.sum == 7 && h.sum_squares == 4 + 0 + 1 + 4 + 36);
  assert_true(h.bucket[0] == 1 && h.bucket[h.n - 1] == 1 && h.limit[h.n - 1] == 6);
  events_histogram_fini(&h);
  capl_tensor_unref(t);
}

static void equal_and_missing_values_have_a_histogram_too(void **state)
{
  (void)state;
  const float values[] = {3, 3, 3};
  events_histogram h;
  capl_tensor *t = tensor_of(values, 3);
  assert_ok(events_histogram_of(t, 1, &h));
  assert_true(h.n == 1 && h.bucket[0] == 3 && h.limit[0] == 3);
  events_histogram_fini(&h);
  capl_tensor_unref(t);
  t = tensor_of(values, 0);
  assert_ok(events_histogram_of(t, 1, &h));
  assert_true(h.n == 0 && h.count == 0);
  events_histogram_fini(&h);
  capl_tensor_unref(t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_file_begins_with_its_version),
    cmocka_unit_test(a_scalar_is_a_float_under_its_tag),
    cmocka_unit_test(a_histogram_counts_each_finite_value_once),
    cmocka_unit_test(equal_and_missing_values_have_a_histogram_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
