/* process.c -- processors and memory of a process, its container and the machine, from /proc and /sys.
**
** Files stay open and are read again at their start, which costs a third of opening them each time.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "monitor/monitor.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/thread.h"

enum { CLOCKS = 8 }; /* processors whose clock is looked at */

struct monitor_process {
  pid_t pid; /* 0: this one */
  char root[PATH_MAX];
  int stat, statm, machine, meminfo, load, energy; /* -1: there is no such file */
  int temperature, clock[CLOCKS];
  double processors;            /* that the process may use */
  double ram_limit;             /* of its container; infinite without */
  double cpu_s, at_s;           /* the last reading's, NaN before the first */
  double busy, total;           /* likewise, of the machine, in ticks */
  double energy_uj, energy_wrap; /* likewise, of the processors' own counter */
  unsigned long long started;   /* of the process, in ticks: a number may be given to another one later */
};

/* ---- files ------------------------------------------------------------------------------------ */

static int open_file(const char *root, const char *path)
{
  char full[2 * PATH_MAX];
  snprintf(full, sizeof full, "%s%s", root, path);
  return open(full, O_RDONLY | O_CLOEXEC);
}

/* The file's beginning as a text; false when it cannot be read. */
static bool read_text(int file, char *text, size_t len)
{
  ssize_t n = file < 0 ? -1 : pread(file, text, len - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  return n > 0;
}

static double read_number(int file)
{
  char text[64];
  return read_text(file, text, sizeof text) ? strtod(text, NULL) : NAN;
}

static bool file_is(const char *root, const char *path, const char *start)
{
  char text[64];
  int file = open_file(root, path);
  bool is = read_text(file, text, sizeof text) && strncmp(text, start, strlen(start)) == 0;
  if (file >= 0) close(file);
  return is;
}

/* ---- opening ---------------------------------------------------------------------------------- */

/* The sensor inside the processor. Machines have dozens of others, and virtual ones none. */
static int open_temperature(const char *root)
{
  static const char *const drivers[] = {"coretemp", "k10temp", "zenpower"};
  char path[128];
  for (int i = 0; i < 32; i++) {
    for (size_t d = 0; d < sizeof drivers / sizeof *drivers; d++) {
      snprintf(path, sizeof path, "/sys/class/hwmon/hwmon%d/name", i);
      if (!file_is(root, path, drivers[d])) continue;
      snprintf(path, sizeof path, "/sys/class/hwmon/hwmon%d/temp1_input", i);
      return open_file(root, path);
    }
    snprintf(path, sizeof path, "/sys/class/thermal/thermal_zone%d/type", i);
    if (!file_is(root, path, "x86_pkg_temp") && !file_is(root, path, "cpu")) continue;
    snprintf(path, sizeof path, "/sys/class/thermal/thermal_zone%d/temp", i);
    return open_file(root, path);
  }
  return -1;
}

static void open_machine(monitor_process *p)
{
  char path[128];
  p->machine = open_file(p->root, "/proc/stat");
  p->meminfo = open_file(p->root, "/proc/meminfo");
  p->load = open_file(p->root, "/proc/loadavg");
  p->temperature = open_temperature(p->root);
  p->energy = open_file(p->root, "/sys/class/powercap/intel-rapl:0/energy_uj");
  int wrap = open_file(p->root, "/sys/class/powercap/intel-rapl:0/max_energy_range_uj");
  p->energy_wrap = read_number(wrap);
  if (wrap >= 0) close(wrap);
  for (int i = 0; i < CLOCKS; i++) {
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i);
    p->clock[i] = open_file(p->root, path);
  }
}

static int64_t folder_memory(const char *folder)
{
  int64_t bytes;
  bool found = cgroup_numbers(folder, "memory.max", &bytes, NULL)
      || cgroup_numbers(folder, "memory.limit_in_bytes", &bytes, NULL);
  /* version 1 writes "none" as a huge number */
  return found && bytes > 0 && bytes < INT64_MAX / 4096 * 2048 ? bytes : CGROUP_NO_LIMIT;
}

/* Limits of containers are those of this process, which an own child shares. */
static void find_limits(monitor_process *p)
{
  cpu_set_t set;
  int n = capl_cpu_count();
  if (p->pid != 0 && sched_getaffinity(p->pid, sizeof set, &set) == 0) n = CPU_COUNT(&set);
  p->processors = n;
  int64_t least = p->pid == 0 ? cgroup_least(p->root, "memory", folder_memory) : CGROUP_NO_LIMIT;
  p->ram_limit = least == CGROUP_NO_LIMIT ? INFINITY : (double)least;
}

/* Of /proc/PID/stat: processor seconds, and when it began. Its name may hold spaces and brackets. */
static bool read_stat(const monitor_process *p, double *cpu_s, unsigned long long *started)
{
  char text[1024];
  unsigned long long user, system;
  if (!read_text(p->stat, text, sizeof text)) return false;
  const char *at = strrchr(text, ')');
  if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu",
                    &user, &system, started) != 3)
    return false;
  *cpu_s = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
  return at[2] != 'Z'; /* one that has ended and waits to be noticed */
}

capl_status monitor_process_open(pid_t pid, const char *root, monitor_process **out)
{
  char path[64];
  double cpu_s;
  monitor_process *p = *out = calloc(1, sizeof *p);
  if (!p) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a monitor");
  p->pid = pid;
  snprintf(p->root, sizeof p->root, "%s", root);
  p->cpu_s = p->at_s = p->busy = p->total = p->energy_uj = NAN;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)(pid ? pid : getpid()));
  p->stat = open_file(root, path);
  snprintf(path, sizeof path, "/proc/%d/statm", (int)(pid ? pid : getpid()));
  p->statm = open_file(root, path);
  open_machine(p);
  find_limits(p);
  if (pid == 0 || read_stat(p, &cpu_s, &p->started)) return CAPL_OK;
  monitor_process_close(p);
  *out = NULL;
  return CAPL_FAIL(CAPL_EVALUE, "there is no process %d", (int)pid);
}

void monitor_process_close(monitor_process *p)
{
  if (!p) return;
  const int files[] = {p->stat, p->statm, p->machine, p->meminfo, p->load, p->energy, p->temperature};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (files[i] >= 0) close(files[i]);
  for (int i = 0; i < CLOCKS; i++)
    if (p->clock[i] >= 0) close(p->clock[i]);
  free(p);
}

/* ---- readings --------------------------------------------------------------------------------- */

/* a / b, at most 1; NaN where there was nothing to divide by. */
static double share(double a, double b) { return b > 0 ? fmin(fmax(a / b, 0), 1) : NAN; }

static bool read_own(monitor_process *p, double now, monitor_reading *r)
{
  char text[128];
  double cpu_s = p->pid ? NAN : clock_read(CLOCK_PROCESS_CPUTIME_ID);
  unsigned long long pages, started;
  if (p->pid && !(read_stat(p, &cpu_s, &started) && started == p->started)) return false;
  if (now > p->at_s) r->value[MONITOR_cpu] = share(cpu_s - p->cpu_s, (now - p->at_s) * p->processors);
  p->cpu_s = cpu_s;
  /* One that is ending holds nothing any more: that is no metric of it. */
  if (read_text(p->statm, text, sizeof text) && sscanf(text, "%*u %llu", &pages) == 1 && pages > 0)
    r->value[MONITOR_rss] = (double)pages * (double)sysconf(_SC_PAGESIZE);
  return true;
}

/* The first line of /proc/stat: user nice system idle iowait irq softirq steal, in ticks of all processors. */
static void read_machine(monitor_process *p, monitor_reading *r)
{
  char text[256];
  unsigned long long t[8] = {0};
  if (!read_text(p->machine, text, sizeof text)) return;
  if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", t, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6, t + 7)
      < 4)
    return;
  double total = 0, busy;
  for (int i = 0; i < 8; i++) total += (double)t[i];
  busy = total - (double)(t[3] + t[4]);
  if (total > p->total) r->value[MONITOR_cpu_machine] = share(busy - p->busy, total - p->total);
  p->busy = busy;
  p->total = total;
}

static double line_bytes(const char *text, const char *name)
{
  const char *at = strstr(text, name);
  return at ? 1024 * strtod(at + strlen(name), NULL) : NAN;
}

/* A container is asked for its own limit; what it holds is nearly all this process's. */
static void read_memory(monitor_process *p, monitor_reading *r)
{
  char text[512];
  if (!read_text(p->meminfo, text, sizeof text)) return;
  double total = line_bytes(text, "MemTotal:"), available = line_bytes(text, "MemAvailable:");
  bool limited = p->ram_limit < total;
  r->value[MONITOR_ram_total] = limited ? p->ram_limit : total;
  r->value[MONITOR_ram_used] = limited ? r->value[MONITOR_rss] : total - available;
}

static void read_heat(monitor_process *p, double now, monitor_reading *r)
{
  double sum = 0, uj = read_number(p->energy);
  int n = 0;
  r->value[MONITOR_cpu_temperature_c] = read_number(p->temperature) / 1e3;
  for (int i = 0; i < CLOCKS && p->clock[i] >= 0; i++) {
    double khz = read_number(p->clock[i]);
    if (!isnan(khz)) sum += khz, n++;
  }
  if (n) r->value[MONITOR_cpu_mhz] = sum / n / 1e3;
  double used = uj - p->energy_uj;
  if (used < 0) used += p->energy_wrap;
  if (used >= 0 && now > p->at_s) r->value[MONITOR_cpu_power_w] = used / 1e6 / (now - p->at_s);
  p->energy_uj = uj;
}

void monitor_process_read(monitor_process *p, monitor_reading *r)
{
  char text[64];
  double now = clock_now();
  r->ended = !read_own(p, now, r);
  read_machine(p, r);
  read_memory(p, r);
  if (read_text(p->load, text, sizeof text)) r->value[MONITOR_load] = strtod(text, NULL);
  read_heat(p, now, r);
  p->at_s = now;
}
