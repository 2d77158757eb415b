/* race.c -- races are found whatever the order of threads, and nothing else is taken for one.
** SPDX-License-Identifier: Apache-2.0
*/
#include "device.h"
#include "races.h"

static cudaError_t run_race(int kernel, const char *environment)
{
  begin_with_tensors(environment);
  race_args a = {y, x, (unsigned *)y + 1000, (uint8_t *)(y + 2000)};
  void *list[] = {&a};
  OK(cudaMemsetAsync(a.number, 0, RACE_NUMBERS * sizeof *a.number, stream));
  OK(cudaLaunchKernel(shim_race_table[kernel].kernel, (dim3){3, 1, 1}, (dim3){64, 1, 1}, list, 256, stream));
  return cudaStreamSynchronize(stream);
}

static const char *const orders[] = {"ORDER=fwd", "ORDER=rev"};

static void what_is_ordered_does_not_race(void **state)
{
  (void)state;
  for (int kernel = 0; kernel < RACES; kernel += 2)
    for (int k = 0; k < 2; k++) {
      cudaError_t error = run_race(kernel, orders[k]);
      if (error != cudaSuccess) print_error("kernel %d, %s: %s\n", kernel, orders[k], shim_fault());
      OK(error);
    }
}

static void what_is_not_ordered_races(void **state)
{
  (void)state;
  for (int kernel = 1; kernel < RACES; kernel += 2)
    for (int k = 0; k < 2; k++) {
      cudaError_t error = run_race(kernel, orders[k]);
      if (error != cudaErrorLaunchFailure) print_error("kernel %d, %s: no race was found\n", kernel, orders[k]);
      assert_int_equal(error, cudaErrorLaunchFailure);
      assert_non_null(strstr(shim_fault(), "race in "));
    }
}

/* Both accesses are named. */
static void a_race_says_who_and_where(void **state)
{
  (void)state;
  run_race(BARRIER_MISSING, "");
  assert_non_null(strstr(shim_fault(), "race in void barrier<true>(race_args) on tile+"));
  assert_non_null(strstr(shim_fault(), " of block (0,0,0) reads it at races.cu:"));
  assert_non_null(strstr(shim_fault(), " of block (0,0,0) writes it at races.cu:"));
  run_race(SAME_PLACE, "");
  assert_non_null(strstr(shim_fault(),
                         "on byte 0 of 280000 that were allocated: thread 0 of block (0,0,0) writes it at races.cu:"));
  assert_non_null(strstr(shim_fault(), "thread 0 of block (1,0,0) writes it at races.cu:"));
  run_race(DYNAMIC_RACE, "");
  assert_non_null(strstr(shim_fault(), "on dynamic shared memory+"));
}

/* Two launches on one stream are ordered. */
static void launches_do_not_race(void **state)
{
  (void)state;
  begin_with_tensors("");
  race_args a = {y, x, (unsigned *)y + 1000, (uint8_t *)(y + 2000)};
  void *list[] = {&a};
  for (int k = 0; k < 2; k++)
    for (int threads = 64; threads > 0; threads -= 32)
      OK(cudaLaunchKernel(shim_race_table[BYTES].kernel, (dim3){3, 1, 1}, (dim3){(unsigned)threads, 1, 1}, list, 0,
                          stream));
  OK(cudaStreamSynchronize(stream));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_ordered_does_not_race),
    cmocka_unit_test(what_is_not_ordered_races),
    cmocka_unit_test(a_race_says_who_and_where),
    cmocka_unit_test(launches_do_not_race),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
