/* monitor_gpu.c -- tests of GPU figures against a stand-in for NVIDIA's library (fake/nvml.c).
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "monitor/monitor.h"

typedef struct {
  unsigned long long power_mw, limit_mw, gpu, memory, used, total, temperature, sm, mem_clock, throttle, energy_mj;
} figures;

static struct {
  void (*reset)(void);
  void (*fault)(const char *function, int code, int after);
  figures *(*figures)(int index);
  void (*mig)(int on);
  int (*calls)(void);
} fake;

enum { HANGS = -1, NOT_SUPPORTED = 3, LOST = 15, UNKNOWN = 999, MIG_BYTES = 12345 };
static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const char bus[] = "0000:01:00.0"; /* as CUDA writes it; NVML counts this GPU second */

static int setup(void **state)
{
  (void)state;
  fake.reset();
  return 0;
}

static monitor_reading nothing(void)
{
  monitor_reading r = {.energy_j = NAN};
  for (int f = 0; f < MONITOR_COUNT; f++) r.value[f] = NAN;
  return r;
}

static monitor_reading look(monitor_gpu *gpu)
{
  monitor_reading r = nothing();
  monitor_gpu_read(gpu, &r);
  return r;
}

static void a_gpu_is_found_by_its_bus_and_tells_every_figure(void **state)
{
  (void)state;
  monitor_gpu *gpu;
  assert_ok(monitor_gpu_open(bus, uuid, &gpu));
  assert_string_equal(monitor_gpu_name(gpu), "Fake 200");
  monitor_reading r = look(gpu);
  static const struct { monitor_metric figure; double value; } expected[] = {
    {MONITOR_power_w, 250}, {MONITOR_power_limit_w, 700}, {MONITOR_utilization, 0.8}, {MONITOR_memory_utilization, 0.4},
    {MONITOR_memory_used, 5 << 20}, {MONITOR_memory_total, 8 << 20}, {MONITOR_temperature_c, 60},
    {MONITOR_sm_mhz, 1500}, {MONITOR_memory_mhz, 2600}, {MONITOR_throttled, 0}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    assert_float_equal(r.value[expected[i].figure], expected[i].value, 1e-9);
  assert_float_equal(r.energy_j, 5, 1e-9);
  assert_true(isnan(r.value[MONITOR_cpu]));
  monitor_gpu_close(gpu);
}

/* Which figures a failing function takes away. */
static const struct {
  const char *function;
  uint64_t figures;
} functions[] = {
#define F(name) (1ULL << MONITOR_##name)
  {"nvmlDeviceGetPowerUsage", F(power_w)},
  {"nvmlDeviceGetEnforcedPowerLimit", F(power_limit_w)},
  {"nvmlDeviceGetTotalEnergyConsumption", 0},
  {"nvmlDeviceGetUtilizationRates", F(utilization) | F(memory_utilization)},
  {"nvmlDeviceGetMemoryInfo", F(memory_used) | F(memory_total)},
  {"nvmlDeviceGetTemperature", F(temperature_c)},
  {"nvmlDeviceGetClockInfo", F(sm_mhz) | F(memory_mhz)},
  {"nvmlDeviceGetCurrentClocksThrottleReasons", F(throttled)},
#undef F
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions, GPU_FIGURES = MONITOR_throttled + 1 };

static void check_known(const monitor_reading *r, uint64_t missing)
{
  for (int f = 0; f < GPU_FIGURES; f++)
    if (!isnan(r->value[f]) == !!(missing >> f & 1)) fail_msg("%s is %g", monitor_name((monitor_metric)f), r->value[f]);
}

static void a_function_that_fails_costs_its_own_figures_only(void **state)
{
  (void)state;
  for (int i = 0; i < N_FUNCTIONS; i++) {
    monitor_gpu *gpu;
    fake.reset();
    fake.fault(functions[i].function, UNKNOWN, 0);
    assert_ok(monitor_gpu_open(bus, uuid, &gpu));
    monitor_reading r = look(gpu);
    check_known(&r, functions[i].figures);
    assert_int_equal(isnan(r.energy_j), strstr(functions[i].function, "Energy") != NULL);
    fake.reset(); /* it works again */
    r = look(gpu);
    check_known(&r, 0);
    monitor_gpu_close(gpu);
  }
}

static void what_is_not_supported_is_not_asked_again(void **state)
{
  (void)state;
  monitor_gpu *gpu;
  assert_ok(monitor_gpu_open(bus, uuid, &gpu));
  for (int i = 0; i < N_FUNCTIONS; i++) fake.fault(functions[i].function, NOT_SUPPORTED, 0);
  monitor_reading r = look(gpu);
  check_known(&r, ~0ULL);
  assert_false(r.lost);
  int calls = fake.calls();
  look(gpu);
  assert_int_equal(fake.calls(), calls);
  monitor_gpu_close(gpu);
}

static void a_lost_gpu_is_told_once_and_left_alone(void **state)
{
  (void)state;
  char text[256];
  monitor_options o = {0};
  monitor *m;
  assert_ok(monitor_gpu_open(bus, uuid, &o.gpu));
  assert_ok(monitor_open(&o, &m));
  fake.fault("nvmlDeviceGetTemperature", LOST, 1);
  monitor_reading r;
  monitor_sample(m, &r);
  assert_false(r.lost);
  monitor_sample(m, &r);
  assert_true(r.lost && isnan(r.value[MONITOR_temperature_c]) && isnan(r.value[MONITOR_sm_mhz]));
  int calls = fake.calls();
  monitor_sample(m, &r);
  assert_int_equal(fake.calls(), calls);
  check_known(&r, ~0ULL);
  assert_true(monitor_event(m, text, sizeof text));
  assert_string_equal(text, "the driver has lost the GPU: its metrics end here");
  assert_false(monitor_event(m, text, sizeof text));
  monitor_close(m);
}

static void opening_tells_why_there_is_no_gpu(void **state)
{
  (void)state;
  monitor_gpu *gpu;
  assert_fails(monitor_gpu_open("0000:09:00.0", NULL, &gpu), CAPL_EUNSUPPORTED,
               "the driver does not report the GPU at 0000:09:00.0: Fake error");
  assert_null(gpu);
  fake.fault("nvmlDeviceGetHandleByPciBusId_v2", LOST, 0);
  assert_fails(monitor_gpu_open(bus, NULL, &gpu), CAPL_EUNSUPPORTED,
               "the GPU at 0000:01:00.0 has fallen off its bus; only a reboot brings it back");
  assert_fails(monitor_gpu_at(2, &gpu), CAPL_EUNSUPPORTED, "the driver does not report GPU 2: Fake error");
  assert_int_equal(monitor_gpu_count(NULL), 2);
}

static void a_part_of_a_gpu_has_memory_of_its_own_and_no_utilization(void **state)
{
  (void)state;
  monitor_gpu *gpu;
  fake.mig(1);
  assert_ok(monitor_gpu_open(bus, uuid, &gpu));
  assert_string_equal(monitor_gpu_name(gpu), "Fake 200 (MIG)");
  monitor_reading r = look(gpu);
  assert_float_equal(r.value[MONITOR_memory_used], MIG_BYTES, 0);
  assert_float_equal(r.value[MONITOR_power_w], 250, 0);
  assert_true(isnan(r.value[MONITOR_utilization]));
  monitor_gpu_close(gpu);
}

static void heat_is_told_once_per_rise(void **state)
{
  (void)state;
  static const struct { unsigned long long degrees; bool told; } steps[] = {
    {85, false}, {86, true}, {90, false}, {84, false}, {88, false}, {80, false}, {87, true}, {87, false}};
  char text[256];
  monitor_options o = {0};
  monitor *m;
  assert_ok(monitor_gpu_open(bus, uuid, &o.gpu));
  assert_ok(monitor_open(&o, &m));
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    fake.figures(1)->temperature = steps[i].degrees;
    monitor_sample(m, NULL);
    assert_int_equal(monitor_event(m, text, sizeof text), steps[i].told);
  }
  assert_string_equal(text, "the GPU is at 87 C, above 85 C: it will throttle or age; check its cooling");
  monitor_close(m);
}

static void throttling_is_named_and_idleness_is_none(void **state)
{
  (void)state;
  char text[160];
  assert_false(monitor_is_throttled(0x01 | 0x02 | 0x100));
  assert_true(monitor_is_throttled(0x01 | 0x04));
  monitor_throttle_text(0x01 | 0x04 | 0x20, text, sizeof text);
  assert_string_equal(text, "power limit, heat");
  monitor_throttle_text(0xffff, text, 8);
  assert_string_equal(text, "power l");
  monitor_throttle_text(1, text, sizeof text);
  assert_string_equal(text, "");
}

static void clocks_held_down_by_heat_are_told_once(void **state)
{
  (void)state;
  static const struct { unsigned long long bits; const char *told; } steps[] = {
    {0x05, NULL}, {0x24, "heat"}, {0x01, NULL}, {0x20, NULL}, {0xa4, "power brake"}};
  char text[256], expected[256];
  monitor_options o = {0};
  monitor_figures f;
  monitor *m;
  assert_ok(monitor_gpu_open(bus, uuid, &o.gpu));
  assert_ok(monitor_open(&o, &m));
  int w = monitor_window(m);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    fake.figures(1)->throttle = steps[i].bits;
    monitor_sample(m, NULL);
    assert_int_equal(monitor_event(m, text, sizeof text), steps[i].told != NULL);
    if (!steps[i].told) continue;
    snprintf(expected, sizeof expected, "the GPU runs slower than it could: held down by %s", steps[i].told);
    assert_string_equal(text, expected);
  }
  monitor_take(m, w, true, &f);
  assert_int_equal(f.throttle, 0xa5);
  monitor_close(m);
}

static void sleep_s(double s)
{
  struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
  nanosleep(&t, NULL);
}

static double seconds_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Takes a sample, and tells the time right before and after it. */
static void sample_between(monitor *m, double *before, double *after)
{
  *before = seconds_now();
  monitor_sample(m, NULL);
  *after = seconds_now();
}

static double weighted(double a, double a_seconds, double b, double b_seconds)
{
  return (a * a_seconds + b * b_seconds) / (a_seconds + b_seconds);
}

static void windows_hold_means_over_time_and_begin_anew(void **state)
{
  (void)state;
  monitor_options o = {0};
  monitor_figures f;
  monitor *m;
  assert_ok(monitor_gpu_open(bus, uuid, &o.gpu));
  assert_ok(monitor_open(&o, &m));
  int run = monitor_window(m), interval = monitor_window(m);
  monitor_take(m, interval, true, &f);
  assert_int_equal(f.samples, 0);
  assert_true(isnan(f.mean[MONITOR_power_w]) && isnan(f.energy_j));
  double before[3], after[3];
  sample_between(m, &before[0], &after[0]); /* 250 W, of no time */
  fake.figures(1)->power_mw = 100000;
  sleep_s(0.01);
  sample_between(m, &before[1], &after[1]); /* 100 W for 10 ms, more on a busy machine */
  fake.figures(1)->power_mw = 400000;
  fake.figures(1)->energy_mj = 9000;
  sleep_s(0.02);
  sample_between(m, &before[2], &after[2]); /* 400 W for 20 ms */
  monitor_take(m, interval, true, &f);
  assert_int_equal(f.samples, 3);
  assert_true(f.seconds >= 0.03);
  assert_true(f.mean[MONITOR_power_w] >= weighted(100, after[1] - before[0], 400, before[2] - after[1]) - 1e-6);
  assert_true(f.mean[MONITOR_power_w] <= weighted(100, before[1] - after[0], 400, after[2] - before[1]) + 1e-6);
  assert_float_equal(f.least[MONITOR_power_w], 100, 0);
  assert_float_equal(f.most[MONITOR_power_w], 400, 0);
  assert_true(f.energy_counted);
  assert_float_equal(f.energy_j, 4, 1e-9);
  monitor_sample(m, NULL);
  monitor_take(m, interval, true, &f);
  assert_int_equal(f.samples, 1);
  assert_float_equal(f.mean[MONITOR_power_w], 400, 1e-9);
  assert_float_equal(f.energy_j, 0, 0);
  monitor_take(m, run, false, &f);
  assert_int_equal(f.samples, 4);
  assert_float_equal(f.energy_j, 4, 1e-9);
  for (int i = 2; i < MONITOR_WINDOWS; i++) assert_int_equal(monitor_window(m), i);
  assert_int_equal(monitor_window(m), -1);
  monitor_close(m);
}

static void energy_without_a_counter_is_power_times_time(void **state)
{
  (void)state;
  monitor_options o = {0};
  monitor_figures f;
  monitor *m;
  fake.fault("nvmlDeviceGetTotalEnergyConsumption", NOT_SUPPORTED, 0);
  assert_ok(monitor_gpu_open(bus, uuid, &o.gpu));
  assert_ok(monitor_open(&o, &m));
  int w = monitor_window(m);
  monitor_sample(m, NULL);
  sleep_s(0.01);
  monitor_sample(m, NULL);
  monitor_take(m, w, true, &f);
  assert_false(f.energy_counted);
  assert_float_equal(f.energy_j, 250 * f.seconds, 1e-9);
  monitor_close(m);
}

static void a_thread_samples_by_itself_and_ends_at_once(void **state)
{
  (void)state;
  monitor_options o = {.every = 0.005};
  monitor_figures f;
  monitor *m;
  struct timespec before, after;
  assert_ok(monitor_gpu_open(bus, uuid, &o.gpu));
  assert_ok(monitor_process_open(0, "", &o.process));
  assert_ok(monitor_open(&o, &m));
  int w = monitor_window(m);
  for (int i = 0; i < 400; i++) {
    monitor_take(m, w, false, &f);
    if (f.samples >= 3) break;
    sleep_s(0.005);
  }
  assert_true(f.samples >= 3);
  assert_float_equal(f.mean[MONITOR_power_w], 250, 1e-6);
  assert_true(f.mean[MONITOR_rss] > 1e5);
  assert_true(monitor_cost(m) > 0);
  assert_string_equal(monitor_gpu_of(m), "Fake 200");
  monitor_close(m);
  o = (monitor_options){.every = 3600};
  assert_ok(monitor_open(&o, &m));
  clock_gettime(CLOCK_MONOTONIC, &before);
  monitor_close(m);
  clock_gettime(CLOCK_MONOTONIC, &after);
  assert_true(after.tv_sec - before.tv_sec < 2);
}

static double clock_s(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void a_driver_that_hangs_keeps_nobody(void **state)
{
  (void)state;
  monitor_options o = {.every = 0.01};
  monitor_reading r;
  monitor *m;
  fake.fault("nvmlDeviceGetPowerUsage", HANGS, 0);
  assert_ok(monitor_gpu_open(bus, uuid, &o.gpu));
  assert_ok(monitor_open(&o, &m));
  for (int i = 0; i < 400 && fake.calls() == 0; i++) sleep_s(0.005);
  double started = clock_s();
  monitor_sample(m, &r);
  check_known(&r, ~0ULL);
  monitor_close(m);
  assert_true(clock_s() - started < 10);
}

/* The engine finds the library as any program would: by LD_LIBRARY_PATH, which the test is started with. */
static int find_fake(void)
{
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  *(void **)&fake.reset = dlsym(library, "fake_reset");
  *(void **)&fake.fault = dlsym(library, "fake_fail");
  *(void **)&fake.figures = dlsym(library, "fake_figures");
  *(void **)&fake.mig = dlsym(library, "fake_mig");
  *(void **)&fake.calls = dlsym(library, "fake_calls");
  return fake.reset ? 0 : (fputs("this is NVIDIA's own library\n", stderr), 1);
}

int main(void)
{
  if (find_fake()) return 1;
#define T(f) cmocka_unit_test_setup(f, setup)
  const struct CMUnitTest tests[] = {
    T(a_gpu_is_found_by_its_bus_and_tells_every_figure),
    T(a_function_that_fails_costs_its_own_figures_only),
    T(what_is_not_supported_is_not_asked_again),
    T(a_lost_gpu_is_told_once_and_left_alone),
    T(opening_tells_why_there_is_no_gpu),
    T(a_part_of_a_gpu_has_memory_of_its_own_and_no_utilization),
    T(heat_is_told_once_per_rise),
    T(clocks_held_down_by_heat_are_told_once),
    T(throttling_is_named_and_idleness_is_none),
    T(windows_hold_means_over_time_and_begin_anew),
    T(energy_without_a_counter_is_power_times_time),
    T(a_thread_samples_by_itself_and_ends_at_once),
    T(a_driver_that_hangs_keeps_nobody), /* last: its thread stays */
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
