/* monitor_old.c -- tests of a driver without functions that came later, and of one that does not start (fake/nvml.c).
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/monitor.h"

static void an_old_driver_tells_what_it_can(void **state)
{
  (void)state;
  monitor_gpu *gpu;
  monitor_reading r = {.energy_j = NAN};
  for (int f = 0; f < MONITOR_COUNT; f++) r.value[f] = NAN;
  assert_ok(monitor_gpu_open("0000:01:00.0", (const uint8_t *)"0123456789abcdef", &gpu));
  monitor_gpu_read(gpu, &r);
  assert_float_equal(r.value[MONITOR_power_w], 250, 0);
  assert_float_equal(r.value[MONITOR_utilization], 0.8, 1e-9);
  assert_true(isnan(r.value[MONITOR_power_limit_w]) && isnan(r.value[MONITOR_throttled]) && isnan(r.energy_j));
  monitor_gpu_close(gpu);
}

static void a_library_that_does_not_start_is_told_with_its_reason(void **state)
{
  (void)state;
  monitor_gpu *gpu;
  const char *why;
  assert_fails(monitor_gpu_open("0000:01:00.0", NULL, &gpu), CAPL_EUNSUPPORTED,
               "NVIDIA's library and the loaded driver are of different versions; reboot, or reload the driver");
  assert_int_equal(monitor_gpu_count(&why), 0);
  assert_string_equal(why, capl_error_last()->message);
}

/* The library is started once per process, so each test has one of its own. */
int main(void)
{
  const char *faults = getenv("CAPL_FAKE_NVML");
  const struct CMUnitTest old[] = {cmocka_unit_test(an_old_driver_tells_what_it_can)};
  const struct CMUnitTest broken[] = {cmocka_unit_test(a_library_that_does_not_start_is_told_with_its_reason)};
  return faults && strstr(faults, "nvmlInit") ? cmocka_run_group_tests(broken, NULL, NULL)
      : cmocka_run_group_tests(old, NULL, NULL);
}
