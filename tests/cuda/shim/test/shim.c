/* shim.c -- the shim finds what a GPU would make of wrong kernels and wrong orders, and runs right ones right.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/float16.h"
#include "device.h"

/* ---- kernels --------------------------------------------------------------------------------- */

static void every_thread_of_a_grid_runs_once(void **state)
{
  (void)state;
  static const int sizes[] = {1, 31, 33, 255, 257, 65537};
  for (int order = 0; order < 2; order++) {
    begin_with_tensors(order ? "ORDER=rev" : "ORDER=fwd");
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
      run(SCALE, (sizes[k] + 255) / 256, 256, 0, sizes[k]);
      fetch(sizes[k]);
      for (int i = 0; i < sizes[k]; i++) assert_true(out[i] == 2 * in[i]);
    }
    OK(launch(GRID, (dim3){3, 2, 4}, (dim3){5, 3, 1}, 0, 0));
    OK(cudaStreamSynchronize(stream));
    fetch(24);
    for (int k = 0; k < 24; k++) assert_true(out[k] == (float)(100 * (k / 6) + 10 * (k / 3 % 2) + k % 3));
  }
}

static void fresh_memory_is_not_a_number(void **state)
{
  (void)state;
  begin_with_tensors("");
  fetch(MOST);
  for (int i = 0; i < MOST; i++) assert_true(isnan(out[i]));
}

static void barriers_hold_in_both_orders(void **state)
{
  (void)state;
  for (int order = 0; order < 2; order++) {
    begin_with_tensors(order ? "ORDER=rev" : "ORDER=fwd");
    run(REVERSE, 5, 256, 0, 0);
    fetch(5 * 256);
    for (int i = 0; i < 5 * 256; i++) assert_true(out[i] == in[i / 256 * 256 + 255 - i % 256]);
    run(SUM, 3, 128, 0, 300);
    fetch(3);
    for (int b = 0; b < 3; b++) {
      float s = 0;
      for (int i = 128 * b; i < 128 * b + 128 && i < 300; i++) s += in[i];
      assert_true(out[b] == s); /* small whole numbers: exact in any order */
    }
  }
}

static void a_missing_barrier_gives_wrong_values(void **state)
{
  (void)state;
  int wrong = 0;
  for (int order = 0; order < 2; order++) {
    begin_with_tensors(order ? "ORDER=rev" : "ORDER=fwd");
    run(REVERSE_RACE, 1, 256, 0, 0);
    fetch(256);
    for (int i = 0; i < 256; i++) wrong += out[i] != in[255 - i];
  }
  assert_in_range(wrong, 1, 512);
}

static void warps_exchange_values(void **state)
{
  (void)state;
  enum { N = 40 }; /* the second warp has 8 lanes */
  begin_with_tensors("");
  run(SHUFFLE, 1, N, 0, N);
  fetch(7 * N);
  for (int i = 0; i < 32; i++) {
    assert_true(out[i] == in[3]);
    assert_true(out[N + i] == in[i ^ 1]);
    assert_true(out[2 * N + i] == in[i < 31 ? i + 1 : i]);
    assert_true(out[3 * N + i] == in[i > 0 ? i - 1 : i]);
    assert_true(out[4 * N + i] == in[i / 8 * 8 + 1]);
    assert_true(out[5 * N + i] == 16);
    assert_true(out[6 * N + i] == 3);
  }
  for (int i = 32; i < N; i++) {
    assert_true(out[i] == in[35]);
    assert_true(out[5 * N + i] == 4);
    assert_true(out[6 * N + i] == 0);
  }
  run(HALF_WARPS, 1, 64, 0, 0);
  fetch(64);
  for (int i = 0; i < 64; i++) {
    float s = 0;
    for (int k = 0; k < 16; k++) s += in[i / 16 * 16 + k];
    assert_true(out[i] == s);
  }
}

static void shared_memory_begins_as_garbage(void **state)
{
  (void)state;
  begin_with_tensors("");
  run(DYNAMIC, 3, 4, 4 * sizeof(float), 0);
  fetch(24);
  float garbage = capl_bits_to_float(0xCBCBCBCBu);
  for (int i = 0; i < 24; i++) assert_true(out[i] == garbage);
}

static void threads_may_return_before_a_barrier(void **state)
{
  (void)state;
  begin_with_tensors("");
  run(LEAVE_EARLY, 1, 64, 0, 0);
  fetch(32);
  for (int i = 0; i < 32; i++) assert_true(out[i] == 7);
}

static void halves_round_as_the_engine_does(void **state)
{
  (void)state;
  begin_with_tensors("");
  for (int i = 0; i < 30000; i++) in[i] = ldexpf((float)(i * 7919 % 65536 - 32768), i % 40 - 30);
  OK(cudaMemcpy(x, in, sizeof in, cudaMemcpyHostToDevice));
  run(HALVES, 200, 256, 0, 30000);
  fetch(60000);
  for (int i = 0; i < 30000; i++) {
    assert_true(out[i] == capl_f16_to_float(capl_f16_from_float(in[i])));
    assert_true(out[30000 + i] == capl_bf16_to_float(capl_bf16_from_float(in[i])));
  }
}

static void waiting_for_ever_is_reported(void **state)
{
  (void)state;
  begin_with_tensors("");
  OK(launch(WAIT_APART, (dim3){2, 1, 1}, (dim3){64, 1, 1}, 0, 0));
  assert_int_equal(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  assert_non_null(strstr(shim_fault(), "deadlock in wait_apart(test_args), block (0,0,0)"));
  assert_non_null(strstr(shim_fault(), "32 threads at __syncthreads, 32 at a warp function, 0 returned"));
  assert_int_equal(cudaMalloc((void **)&x, 1), cudaErrorLaunchFailure); /* lost for good */
  begin_with_tensors("ORDER=rev");
  OK(launch(TWO_BARRIERS, (dim3){1, 1, 1}, (dim3){64, 1, 1}, 0, 0));
  assert_int_equal(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  assert_non_null(strstr(shim_fault(), "different barriers"));
  begin_with_tensors(""); /* and after that all is well */
  run(REVERSE, 1, 256, 0, 0);
}

static void launch_bounds_are_known(void **state)
{
  (void)state;
  static const struct { int kernel, threads; } known[] = {{SUM, 256}, {BOUNDED, 96}, {SCALE, 1024}};
  struct cudaFuncAttributes attributes;
  int blocks;
  begin("");
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    OK(cudaFuncGetAttributes(&attributes, shim_test_table[known[k].kernel].kernel));
    assert_int_equal(attributes.maxThreadsPerBlock, known[k].threads);
  }
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, shim_test_table[BOUNDED].kernel, 97, 0));
  assert_int_equal(blocks, 0);
}

static void launches_that_a_gpu_refuses_are_refused(void **state)
{
  (void)state;
  begin_with_tensors("");
  dim3 one = {1, 1, 1};
  assert_int_equal(launch(SCALE, one, (dim3){1025, 1, 1}, 0, 1), cudaErrorInvalidConfiguration);
  OK(launch(SUM, one, (dim3){256, 1, 1}, 0, 1));
  assert_int_equal(launch(SUM, one, (dim3){257, 1, 1}, 0, 1), cudaErrorInvalidConfiguration); /* its launch bounds */
  assert_int_equal(launch(BOUNDED, one, (dim3){97, 1, 1}, 0, 1), cudaErrorInvalidConfiguration);
  OK(launch(BOUNDED, one, (dim3){8, 4, 3}, 0, 1));
  assert_int_equal(launch(SCALE, (dim3){0, 1, 1}, one, 0, 1), cudaErrorInvalidConfiguration);
  assert_int_equal(launch(SCALE, (dim3){1, 65536, 1}, one, 0, 1), cudaErrorInvalidConfiguration);
  assert_int_equal(launch(SCALE, (dim3){1, 1, 65536}, one, 0, 1), cudaErrorInvalidConfiguration);
  assert_int_equal(launch(DYNAMIC, one, one, 48 << 10, 1), cudaErrorInvalidValue); /* 16 bytes are its own */
  OK(launch(DYNAMIC, one, one, (48 << 10) - 16, 1));
  OK(cudaFuncSetAttribute(shim_test_table[DYNAMIC].kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  OK(launch(DYNAMIC, one, one, 100 << 10, 1));
  OK(cudaStreamSynchronize(stream));
}

/* ---- what only a crash shows ----------------------------------------------------------------- */

static void touch(void)
{
  *(volatile float *)y = 1;
}

static void overrun(void)
{
  run(OVERRUN, 1, 32, 0, MOST);
}

static void overrun_shared(void)
{
  run(OVERRUN_SHARED, 1, 1, 16, 4);
}

/* Whether a child process that does this ends badly. */
static bool dies(void (*what)(void))
{
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL); /* cmocka has its own */
    signal(SIGABRT, SIG_DFL);
    if (!freopen("/dev/null", "w", stderr)) _exit(0);
    what();
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void the_host_cannot_touch_device_memory(void **state)
{
  (void)state;
  begin_with_tensors("");
  assert_true(dies(touch));
}

static void overruns_are_found_by_address_sanitizer(void **state)
{
  (void)state;
#ifndef __SANITIZE_ADDRESS__
  skip();
#endif
  begin_with_tensors("");
  assert_true(dies(overrun));
  assert_true(dies(overrun_shared));
}

/* ---- the order of work ----------------------------------------------------------------------- */

static void work_waits_until_somebody_needs_it(void **state)
{
  (void)state;
  float *pinned;
  begin_with_tensors("");
  OK(cudaMallocHost((void **)&pinned, 4 * sizeof *pinned));
  pinned[0] = -1;
  OK(launch(SCALE, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 0, 4));
  OK(cudaMemcpyAsync(pinned, y, 4 * sizeof *pinned, cudaMemcpyDeviceToHost, stream));
  assert_true(pinned[0] == -1);
  OK(cudaStreamSynchronize(stream));
  assert_true(pinned[0] == 2 * in[0] && pinned[3] == 2 * in[3]);
  /* What is sent from ordinary memory is taken at once, from page-locked memory when its turn comes. */
  float one = 1;
  pinned[0] = 1;
  OK(cudaMemcpyAsync(y, &one, sizeof one, cudaMemcpyHostToDevice, stream));
  OK(cudaMemcpyAsync(y + 1, pinned, sizeof one, cudaMemcpyHostToDevice, stream));
  one = pinned[0] = 2;
  fetch(2); /* the legacy stream knows nothing of ours */
  assert_true(out[0] != 1);
  OK(cudaStreamSynchronize(stream));
  fetch(2);
  assert_true(out[0] == 1 && out[1] == 2);
  begin_with_tensors("ASYNC=0");
  OK(launch(SCALE, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 0, 4));
  fetch(4);
  assert_true(out[3] == 2 * in[3]);
}

/* y := 5 on another stream, then y := 2 x on ours, ordered by an event or not. -> what y is in the end */
static float two_streams(bool ordered, bool other_reads_first)
{
  cudaStream_t other;
  cudaEvent_t event;
  float *pinned, result;
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaMallocHost((void **)&pinned, sizeof *pinned));
  *pinned = 5;
  cudaStream_t from = other_reads_first ? stream : other, to = other_reads_first ? other : stream;
  if (from == other) {
    OK(cudaMemcpyAsync(y, pinned, sizeof *pinned, cudaMemcpyHostToDevice, other));
  } else {
    OK(launch(SCALE, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 0, 1));
  }
  OK(cudaEventRecord(event, from));
  if (ordered) OK(cudaStreamWaitEvent(to, event, 0));
  if (from == other) {
    OK(launch(SCALE, (dim3){1, 1, 1}, (dim3){32, 1, 1}, 0, 1));
  } else {
    OK(cudaMemcpyAsync(y, pinned, sizeof *pinned, cudaMemcpyHostToDevice, other));
  }
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamSynchronize(other));
  OK(cudaMemcpy(&result, y, sizeof result, cudaMemcpyDeviceToHost));
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(other));
  return result;
}

static void a_missing_event_shows_in_one_of_the_orders(void **state)
{
  (void)state;
  for (int late = 1; late <= 2; late++) {
    for (int first = 0; first < 2; first++) {
      begin_with_tensors(late == 1 ? "ASYNC=1" : "ASYNC=2");
      assert_true(two_streams(true, first) == (first ? 5 : 2 * in[0]));
    }
  }
  begin_with_tensors("ASYNC=1");
  assert_true(two_streams(false, false) == 5); /* the copy came too late */
  begin_with_tensors("ASYNC=2");
  assert_true(two_streams(false, true) == 2 * in[0]); /* the copy came too early */
}

static void events_say_whether_they_were_reached(void **state)
{
  (void)state;
  cudaEvent_t a, b;
  float ms = -1;
  begin_with_tensors("");
  OK(cudaEventCreate(&a));
  OK(cudaEventCreate(&b));
  OK(cudaEventQuery(a)); /* never recorded: nothing to wait for */
  OK(cudaEventRecord(a, stream));
  OK(launch(SCALE, (dim3){200, 1, 1}, (dim3){256, 1, 1}, 0, MOST));
  OK(cudaEventRecord(b, stream));
  assert_int_equal(cudaEventElapsedTime(&ms, a, b), cudaErrorNotReady);
  assert_int_equal(cudaEventQuery(b), cudaErrorNotReady);
  OK(cudaEventQuery(b));
  OK(cudaEventElapsedTime(&ms, a, b));
  assert_true(ms >= 0 && ms < 60000);
  OK(cudaEventDestroy(a));
  OK(cudaEventDestroy(b));
}

/* ---- trouble --------------------------------------------------------------------------------- */

static void calls_fail_when_asked_to(void **state)
{
  (void)state;
  void *p;
  begin("FAIL=700:3");
  make_stream();
  OK(cudaMalloc(&p, 4));
  assert_int_equal(cudaMemsetAsync(p, 0, 4, stream), cudaErrorIllegalAddress);
  assert_int_equal(cudaStreamSynchronize(stream), cudaErrorIllegalAddress); /* for good */
  assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
  assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
  begin("FAIL=2:2");
  make_stream();
  OK(cudaMalloc(&p, 4));
  OK(cudaStreamSynchronize(stream));
  assert_int_equal(cudaMalloc(&p, 4), cudaErrorMemoryAllocation);
  assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
  OK(cudaGetLastError());
  OK(cudaMalloc(&p, 4));
  begin("FAIL=2:1+");
  for (int k = 0; k < 3; k++) assert_int_equal(cudaMalloc(&p, 4), cudaErrorMemoryAllocation);
}

static void memory_ends(void **state)
{
  (void)state;
  void *p, *q;
  size_t left, all;
  begin("MEMORY=1000000");
  OK(cudaMalloc(&p, 600000));
  assert_int_equal(cudaMalloc(&q, 600000), cudaErrorMemoryAllocation);
  OK(cudaMemGetInfo(&left, &all));
  assert_int_equal(left, 400000);
  assert_int_equal(all, 1000000);
  OK(cudaFree(p));
  assert_int_equal(cudaFree(p), cudaErrorInvalidValue);
  OK(cudaMalloc(&q, 600000));
  OK(cudaFree(q));
}

static void copies_must_stay_inside_and_go_the_way_they_say(void **state)
{
  (void)state;
  begin_with_tensors("");
  assert_int_equal(cudaMemcpyAsync(x, in, sizeof in + 4, cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
  assert_int_equal(cudaMemcpyAsync(x, in, 4, cudaMemcpyDeviceToDevice, stream), cudaErrorInvalidValue);
  assert_int_equal(cudaMemcpyAsync(out, y, 4, cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
  assert_int_equal(cudaMemsetAsync(y + MOST, 0, 4, stream), cudaErrorInvalidValue);
  OK(cudaMemcpyAsync(x, in, 0, cudaMemcpyHostToDevice, stream));
  OK(cudaHostRegister(in, sizeof in, 0));
  assert_int_equal(cudaHostRegister(in + 1, 4, 0), cudaErrorHostMemoryAlreadyRegistered);
  OK(cudaHostUnregister(in));
  assert_int_equal(cudaHostUnregister(in), cudaErrorHostMemoryNotRegistered);
}

static void machines_without_a_gpu_say_so(void **state)
{
  (void)state;
  int count = 77, version;
  begin("DEVICES=0");
  assert_int_equal(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  begin("DRIVER=none");
  assert_int_equal(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  assert_int_equal(count, 77); /* left alone, as by CUDA */
  OK(cudaDriverGetVersion(&version));
  assert_int_equal(version, 0);
  begin("DRIVER=old");
  assert_int_equal(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  OK(cudaDriverGetVersion(&version));
  assert_in_range(version, 1, 12999);
  begin("DEVICES=2");
  OK(cudaGetDeviceCount(&count));
  assert_int_equal(count, 2);
  OK(cudaSetDevice(1));
  assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_thread_of_a_grid_runs_once),
    cmocka_unit_test(fresh_memory_is_not_a_number),
    cmocka_unit_test(barriers_hold_in_both_orders),
    cmocka_unit_test(a_missing_barrier_gives_wrong_values),
    cmocka_unit_test(warps_exchange_values),
    cmocka_unit_test(shared_memory_begins_as_garbage),
    cmocka_unit_test(threads_may_return_before_a_barrier),
    cmocka_unit_test(halves_round_as_the_engine_does),
    cmocka_unit_test(waiting_for_ever_is_reported),
    cmocka_unit_test(launch_bounds_are_known),
    cmocka_unit_test(launches_that_a_gpu_refuses_are_refused),
    cmocka_unit_test(the_host_cannot_touch_device_memory),
    cmocka_unit_test(overruns_are_found_by_address_sanitizer),
    cmocka_unit_test(work_waits_until_somebody_needs_it),
    cmocka_unit_test(a_missing_event_shows_in_one_of_the_orders),
    cmocka_unit_test(events_say_whether_they_were_reached),
    cmocka_unit_test(calls_fail_when_asked_to),
    cmocka_unit_test(memory_ends),
    cmocka_unit_test(copies_must_stay_inside_and_go_the_way_they_say),
    cmocka_unit_test(machines_without_a_gpu_say_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
