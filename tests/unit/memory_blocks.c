/* memory_blocks.c -- tests of the caching allocator behind every device.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "capl/backend.h"

static capl_device *ref;

static int open_ref(void **state)
{
  (void)state;
  assert_ok(capl_device_open("ref", &ref));
  return 0;
}

static int nothing_is_left(void **state)
{
  (void)state;
  capl_memory_stats s;
  capl_memory_limit_set(ref, 0);
  capl_memory_pressure_set(NULL, NULL);
  capl_memory_stats_get(ref, &s);
  assert_int_equal(s.live, 0);
  capl_memory_trim(ref);
  return 0;
}

static capl_tensor *bytes(int64_t n)
{
  capl_tensor *t;
  assert_ok(capl_tensor_new(ref, CAPL_U8, 1, &n, CAPL_AUTO, &t));
  return t;
}

static capl_memory_stats stats(void)
{
  capl_memory_stats s;
  capl_memory_stats_get(ref, &s);
  return s;
}

static void a_freed_block_is_handed_out_again(void **state)
{
  (void)state;
  capl_memory_stats before = stats();
  for (int i = 0; i < 5; i++) {
    capl_tensor *t = bytes(100000);
    memset(capl_tensor_data(t), i, 100000);
    capl_tensor_unref(t);
  }
  assert_int_equal(stats().allocations - before.allocations, 1);
  assert_int_equal(stats().reuses - before.reuses, 4);
}

static void blocks_are_aligned_and_big_enough_at_every_size(void **state)
{
  (void)state;
  for (int64_t n = 1; n < 5000; n += n < 300 ? 1 : 37) {
    capl_tensor *t = bytes(n);
    unsigned char *p = capl_tensor_data(t);
    assert_int_equal((uintptr_t)p % 64, 0);
    memset(p, 0xAB, (size_t)n); /* ASan objects if the block is too small */
    assert_true(stats().live >= (size_t)n);
    if (n > 512) assert_true(stats().live <= (size_t)n + (size_t)n / 8 + 64);
    capl_tensor_unref(t);
  }
}

static void live_peak_and_cached_follow_the_tensors(void **state)
{
  (void)state;
  capl_memory_trim(ref);
  capl_memory_peak_reset(ref);
  capl_tensor *a = bytes(1 << 20), *b = bytes(1 << 20);
  assert_int_equal(stats().live, 2 << 20);
  capl_tensor_unref(a);
  assert_int_equal(stats().live, 1 << 20);
  assert_int_equal(stats().cached, 1 << 20);
  assert_int_equal(stats().peak, 2 << 20);
  capl_tensor_unref(b);
  capl_memory_trim(ref);
  assert_int_equal(stats().cached, 0);
  capl_memory_peak_reset(ref);
  assert_int_equal(stats().peak, 0);
}

static void above_the_limit_the_error_names_request_and_use(void **state)
{
  (void)state;
  int64_t n = 3 << 20;
  capl_tensor *a = bytes(2 << 20), *t = NULL;
  capl_memory_limit_set(ref, 4 << 20);
  assert_int_equal(capl_tensor_new(ref, CAPL_U8, 1, &n, CAPL_AUTO, &t), CAPL_ENOMEM);
  assert_non_null(strstr(capl_error_last()->message, "ref is out of memory: asked for 3.1 MB, 2.1 MB in use"));
  assert_string_not_equal(capl_error_last()->hint, "");
  capl_tensor_unref(a);
  t = bytes(n); /* there is room again */
  capl_tensor_unref(t);
}

static bool drop_one(void *user)
{
  capl_tensor **held = user;
  capl_tensor_unref(*held);
  *held = NULL;
  return true;
}

static void under_pressure_the_program_may_free_and_try_again(void **state)
{
  (void)state;
  capl_tensor *held = bytes(3 << 20);
  capl_memory_limit_set(ref, 4 << 20);
  capl_memory_pressure_set(drop_one, &held);
  capl_tensor *t = bytes(2 << 20);
  assert_null(held);
  capl_tensor_unref(t);
}

static void a_request_beyond_all_memory_fails_cleanly(void **state)
{
  (void)state;
  int64_t n = (int64_t)1 << 50;
  capl_tensor *t;
  assert_int_equal(capl_tensor_new(ref, CAPL_U8, 1, &n, CAPL_AUTO, &t), CAPL_ENOMEM);
}

#ifdef __SANITIZE_ADDRESS__
/* Whether AddressSanitizer ends a child that touches this byte. */
static bool touching_is_fatal(volatile unsigned char *p)
{
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    close(STDERR_FILENO); /* the report is expected */
    *p = 1;
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status != 0;
}

static void address_sanitizer_sees_overruns_and_freed_blocks(void **state)
{
  (void)state;
  capl_tensor *t = bytes(1000);
  unsigned char *p = capl_tensor_data(t);
  assert_false(touching_is_fatal(p + 999));
  assert_true(touching_is_fatal(p + 1000));
  capl_tensor_unref(t);
  assert_true(touching_is_fatal(p));
  t = bytes(1010); /* the same block */
  assert_ptr_equal(capl_tensor_data(t), p);
  assert_false(touching_is_fatal(p + 1009));
  capl_tensor_unref(t);
}
#endif

static void scratch_is_memory_like_any_other(void **state)
{
  (void)state;
  for (size_t n = 1; n <= 100000; n *= 10) {
    void *p;
    assert_ok(capl_scratch_get(ref, n, &p));
    assert_int_equal((uintptr_t)p % 64, 0);
    memset(p, 1, n);
    assert_true(stats().live >= n);
    capl_scratch_put(ref, p);
    assert_int_equal(stats().live, 0);
  }
  capl_scratch_put(ref, NULL);
}

/* Calls of malloc, the engine's too: it finds this one first. AddressSanitizer has a malloc of its own. */
#ifndef __SANITIZE_ADDRESS__
#include <stdatomic.h>

void *__libc_malloc(size_t bytes);
static atomic_long mallocs;

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
  atomic_fetch_add(&mallocs, 1);
  return __libc_malloc(bytes);
}

static void two_scratch_blocks_at_a_time(void)
{
  void *a, *b;
  assert_ok(capl_scratch_get(ref, 1000, &a));
  assert_ok(capl_scratch_get(ref, 5000, &b));
  capl_scratch_put(ref, a);
  capl_scratch_put(ref, b);
}

static void scratch_of_a_device_that_the_host_cannot_write_costs_no_malloc_once_it_is_there(void **state)
{
  (void)state;
  const capl_backend *real = ref->backend;
  capl_backend far = *real;
  far.host_memory = false;
  ref->backend = &far;
  two_scratch_blocks_at_a_time();
  long before = mallocs;
  assert_true(before > 0);
  for (int i = 0; i < 100; i++) two_scratch_blocks_at_a_time();
  long during = mallocs - before;
  ref->backend = real;
  assert_int_equal(during, 0);
}
#endif

static void *allocate_often(void *seed)
{
  for (int i = 0; i < 2000; i++) {
    void *p;
    size_t n = 64 + (size_t)(i * 37 + *(int *)seed) % 4000;
    if (capl_scratch_get(ref, n, &p) != CAPL_OK) return "no memory";
    memset(p, *(int *)seed, n);
    capl_scratch_put(ref, p);
  }
  return NULL;
}

static void threads_may_allocate_at_the_same_time(void **state)
{
  (void)state;
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  int seed[THREADS];
  for (int i = 0; i < THREADS; i++) {
    seed[i] = i;
    assert_ok(capl_thread_start(&thread[i], "allocator", allocate_often, &seed[i]));
  }
  for (int i = 0; i < THREADS; i++) {
    void *failure;
    assert_int_equal(pthread_join(thread[i], &failure), 0);
    assert_null(failure);
  }
  assert_int_equal(stats().live, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_teardown(a_freed_block_is_handed_out_again, nothing_is_left),
    cmocka_unit_test_teardown(blocks_are_aligned_and_big_enough_at_every_size, nothing_is_left),
    cmocka_unit_test_teardown(live_peak_and_cached_follow_the_tensors, nothing_is_left),
    cmocka_unit_test_teardown(above_the_limit_the_error_names_request_and_use, nothing_is_left),
    cmocka_unit_test_teardown(under_pressure_the_program_may_free_and_try_again, nothing_is_left),
    cmocka_unit_test_teardown(a_request_beyond_all_memory_fails_cleanly, nothing_is_left),
#ifdef __SANITIZE_ADDRESS__
    cmocka_unit_test_teardown(address_sanitizer_sees_overruns_and_freed_blocks, nothing_is_left),
#endif
    cmocka_unit_test_teardown(scratch_is_memory_like_any_other, nothing_is_left),
#ifndef __SANITIZE_ADDRESS__
    cmocka_unit_test_teardown(scratch_of_a_device_that_the_host_cannot_write_costs_no_malloc_once_it_is_there,
                              nothing_is_left),
#endif
    cmocka_unit_test_teardown(threads_may_allocate_at_the_same_time, nothing_is_left),
  };
  return cmocka_run_group_tests(tests, open_ref, NULL);
}
