/* weights.c -- weights that were written outside of a captured step are cast to 16 bits in few launches before it.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>

#include "capl/backend.h"
#include "capl/capl.h"
#include "capl/capture.h"
#include "shim.h"

enum { WEIGHTS = 70, AT_ONCE = 64, MOST = 5003 };

static capl_device *cuda;
static capl_tensor *x, *weights[WEIGHTS];

/* Half of them bf16; of sizes around what a thread and a block take. */
static capl_dtype dtype_of(int i)
{
  return i % 2 ? CAPL_F16 : CAPL_BF16;
}

static capl_tensor *weight(int i)
{
  static const int64_t sizes[] = {1, 3, 4, 5, 2047, 2048, 2049, MOST, 0};
  capl_tensor *t;
  assert_ok(capl_tensor_new(cuda, CAPL_F32, 1, &sizes[i % 9], CAPL_AUTO, &t));
  t->requires_grad = true;
  return t;
}

static void write_weights(int seed)
{
  for (int i = 0; i < WEIGHTS; i++) {
    assert_ok(capl_tensor_fill_normal(weights[i], 0, 1e-3, (uint64_t)seed, (uint32_t)i, 0, 0));
    if (i % 3 == 0 && capl_tensor_numel(weights[i]) > 0) assert_ok(capl_tensor_fill(weights[i], i % 2 ? NAN : 1e-41));
  }
}

static capl_tensor *kept(int i)
{
  capl_tensor *low;
  assert_ok(capl_shadow_get(weights[i], dtype_of(i), &low));
  assert_non_null(low);
  return low;
}

/* A step that reads all of them. */
static capl_capture *record(void)
{
  capl_capture *c;
  capl_tensor *y;
  for (int k = 0; k < 2; k++) { /* kernels are loaded before */
    if (k) assert_ok(capl_capture_begin(cuda, &c));
    for (int i = 0; i < WEIGHTS; i++) capl_tensor_unref(kept(i));
    assert_ok(capl_run(CAPL_OP_relu, &x, 1, NULL, &y));
    capl_tensor_unref(y);
  }
  assert_ok(capl_capture_end(c));
  return c;
}

/* Kernels that a launch of the step runs, those of the graph too. */
static int launches_of(capl_capture *c)
{
  shim_counts before, after;
  assert_ok(cuda->backend->sync()); /* what is queued before does not count */
  shim_counts_get(&before);
  assert_ok(capl_capture_launch(c, 0));
  assert_ok(cuda->backend->sync());
  shim_counts_get(&after);
  return (int)(after.launches - before.launches);
}

static void check_bits(int i)
{
  uint16_t got[MOST], want[MOST];
  capl_tensor *low = kept(i), *cast;
  int64_t n = capl_tensor_numel(low);
  assert_ok(capl_run(CAPL_OP_cast, &weights[i], 1, dtype_of(i) == CAPL_F16 ? "dtype=f16" : "dtype=bf16", &cast));
  if (n > 0) {
    assert_ok(cuda->backend->copy_out(got, capl_tensor_data(low), (size_t)n * 2));
    assert_ok(cuda->backend->copy_out(want, capl_tensor_data(cast), (size_t)n * 2));
    assert_memory_equal(got, want, (size_t)n * 2);
  }
  capl_tensor_unref(low);
  capl_tensor_unref(cast);
}

static void they_are_cast_in_few_launches(void **state)
{
  (void)state;
  capl_capture *c = record();
  int fresh = launches_of(c);
  for (int round = 1; round < 4; round++) {
    uint64_t casts = capl_counter_get("weight_casts");
    write_weights(round);
    assert_int_equal(launches_of(c), fresh + (WEIGHTS + AT_ONCE - 1) / AT_ONCE);
    assert_int_equal(capl_counter_get("weight_casts") - casts, WEIGHTS);
    for (int i = 0; i < WEIGHTS; i++) check_bits(i);
    assert_int_equal(capl_counter_get("weight_casts") - casts, WEIGHTS);
  }
  capl_capture_free(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(they_are_cast_in_few_launches)};
  double one = 1;
  int64_t size = 1;
  if (capl_device_open("cuda", &cuda) != CAPL_OK) return printf("%s\n", capl_error_last()->message), 1;
  if (capl_tensor_from_doubles(cuda, CAPL_F32, 1, &size, &one, &x) != CAPL_OK) return 1;
  for (int i = 0; i < WEIGHTS; i++) weights[i] = weight(i);
  write_weights(0);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  for (int i = 0; i < WEIGHTS; i++) capl_tensor_unref(weights[i]);
  capl_tensor_unref(x);
  return failed;
}
