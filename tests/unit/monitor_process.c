/* monitor_process.c -- tests of processor and memory figures, on this machine and on trees that tests make.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "monitor/monitor.h"

static monitor_reading look(monitor_process *p)
{
  monitor_reading r = {.energy_j = NAN};
  for (int f = 0; f < MONITOR_COUNT; f++) r.value[f] = NAN;
  monitor_process_read(p, &r);
  return r;
}

static void burn(double seconds)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  double until = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + seconds;
  do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  while ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec < until);
}

static void this_process_is_busy_while_it_works(void **state)
{
  (void)state;
  monitor_process *p;
  assert_ok(monitor_process_open(0, "", &p));
  monitor_reading r = look(p);
  assert_true(isnan(r.value[MONITOR_cpu]) && isnan(r.value[MONITOR_cpu_machine])); /* of no time yet */
  burn(0.05);
  r = look(p);
  assert_true(r.value[MONITOR_cpu] > 0 && r.value[MONITOR_cpu] <= 1);
  assert_true(r.value[MONITOR_cpu_machine] > 0 && r.value[MONITOR_cpu_machine] <= 1);
  assert_true(r.value[MONITOR_rss] > 1e5 && r.value[MONITOR_rss] < r.value[MONITOR_ram_total]);
  assert_true(r.value[MONITOR_load] >= 0 && !r.ended);
  monitor_process_close(p);
}

static void another_process_is_seen_until_it_ends(void **state)
{
  (void)state;
  monitor_process *p;
  pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  assert_ok(monitor_process_open(child, "", &p));
  look(p);
  burn(0.02);
  monitor_reading r = look(p);
  assert_false(r.ended);
  assert_true(r.value[MONITOR_cpu] < 0.5); /* it sleeps while this one works */
  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
  assert_true(look(p).ended); /* not yet collected */
  waitpid(child, NULL, 0);
  assert_true(look(p).ended);
  monitor_process_close(p);
  assert_fails(monitor_process_open(0x3fffffff, "", &p), CAPL_EVALUE, "there is no process 1073741823");
  assert_null(p);
}

/* ---- made-up machines ------------------------------------------------------------------------- */

static char root[64];

static int drop(const char *path, const struct stat *info, int kind, struct FTW *where)
{
  (void)info, (void)kind, (void)where;
  return remove(path);
}

static int make_root(void **state)
{
  (void)state;
  snprintf(root, sizeof root, "/tmp/capl-monitor-XXXXXX");
  return mkdtemp(root) ? 0 : 1;
}

static int remove_root(void **state)
{
  (void)state;
  return nftw(root, drop, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *path, const char *text)
{
  char full[512];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
    *at = '\0';
    mkdir(full, 0777);
    *at = '/';
  }
  FILE *f = fopen(full, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void sensors_and_shares_are_read_from_the_files_of_the_system(void **state)
{
  (void)state;
  monitor_process *p;
  put("/proc/stat", "cpu 100 0 100 800 0 0 0 0 7 7\ncpu0 …\n");
  put("/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 400 kB\n");
  put("/proc/loadavg", "1.25 0.5 0.1 1/100 42\n");
  put("/sys/class/hwmon/hwmon0/name", "nvme\n");
  put("/sys/class/hwmon/hwmon0/temp1_input", "11000\n");
  put("/sys/class/hwmon/hwmon1/name", "k10temp\n");
  put("/sys/class/hwmon/hwmon1/temp1_input", "71500\n");
  put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000\n");
  put("/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2000000\n");
  put("/sys/class/powercap/intel-rapl:0/energy_uj", "900000\n");
  put("/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "1000000\n");
  assert_ok(monitor_process_open(0, root, &p));
  monitor_reading r = look(p);
  assert_float_equal(r.value[MONITOR_ram_total], 1024000, 0);
  assert_float_equal(r.value[MONITOR_ram_used], 600 * 1024, 0);
  assert_float_equal(r.value[MONITOR_load], 1.25, 0);
  assert_float_equal(r.value[MONITOR_cpu_temperature_c], 71.5, 1e-9);
  assert_float_equal(r.value[MONITOR_cpu_mhz], 2500, 1e-9);
  assert_true(isnan(r.value[MONITOR_cpu_power_w]) && isnan(r.value[MONITOR_rss]));
  put("/proc/stat", "cpu 130 10 110 850 50 0 0 0 7 7\n"); /* 50 of 150 ticks, waiting for disks is idle */
  put("/sys/class/powercap/intel-rapl:0/energy_uj", "100000\n"); /* past the end of the counter */
  burn(0.01);
  r = look(p);
  assert_float_equal(r.value[MONITOR_cpu_machine], 1.0 / 3, 1e-9);
  assert_true(r.value[MONITOR_cpu_power_w] > 0 && r.value[MONITOR_cpu_power_w] <= 0.2 / 0.01);
  monitor_process_close(p);
}

static void a_container_s_limit_goes_before_the_machine_s_memory(void **state)
{
  (void)state;
  monitor_process *p;
  char path[64];
  put("/proc/self/cgroup", "0::/job\n");
  put("/sys/fs/cgroup/job/memory.max", "524288\n");
  put("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n");
  snprintf(path, sizeof path, "/proc/%d/statm", (int)getpid());
  put(path, "900 17 3 4 5 6 7\n");
  assert_ok(monitor_process_open(0, root, &p));
  monitor_reading r = look(p);
  assert_float_equal(r.value[MONITOR_ram_total], 524288, 0);
  assert_float_equal(r.value[MONITOR_ram_used], 17.0 * (double)sysconf(_SC_PAGESIZE), 0);
  monitor_process_close(p);
}

static void full_memory_is_told_once_per_rise(void **state)
{
  (void)state;
  static const struct { const char *available; bool told; } steps[] = {
    {"50", false}, {"49", true}, {"10", false}, {"60", false}, {"40", false}, {"100", false}, {"20", true}};
  char text[256], file[128];
  monitor_options o = {0};
  monitor *m;
  put("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n");
  assert_ok(monitor_process_open(0, root, &o.process));
  assert_ok(monitor_open(&o, &m));
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    snprintf(file, sizeof file, "MemTotal: 1000 kB\nMemAvailable: %s kB\n", steps[i].available);
    put("/proc/meminfo", file);
    monitor_sample(m, NULL);
    assert_int_equal(monitor_event(m, text, sizeof text), steps[i].told);
  }
  assert_string_equal(text, "memory is full to 98 % of 0.0 GB: the system may end this run");
  monitor_close(m);
}

static void a_machine_without_any_of_it_leaves_all_unknown(void **state)
{
  (void)state;
  monitor_process *p;
  put("/proc/stat", "garbage\n");
  put("/proc/meminfo", "");
  assert_ok(monitor_process_open(0, root, &p));
  look(p);
  burn(0.005);
  monitor_reading r = look(p);
  for (int f = 0; f < MONITOR_COUNT; f++)
    if (f != MONITOR_cpu && !isnan(r.value[f])) fail_msg("%s is %g", monitor_name((monitor_metric)f), r.value[f]);
  monitor_process_close(p);
}

int main(void)
{
#define MADE(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(this_process_is_busy_while_it_works),
    cmocka_unit_test(another_process_is_seen_until_it_ends),
    MADE(sensors_and_shares_are_read_from_the_files_of_the_system),
    MADE(a_container_s_limit_goes_before_the_machine_s_memory),
    MADE(full_memory_is_told_once_per_rise),
    MADE(a_machine_without_any_of_it_leaves_all_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
