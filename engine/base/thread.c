/* thread.c -- worker threads that never see a signal, and how many processors there are for them.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "base/thread.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

capl_status capl_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits the mask */
  int failed = pthread_create(thread, NULL, run, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return CAPL_FAIL(CAPL_ENOMEM, "cannot start thread %s: %s", name, strerror(failed));
  char shown[16];
  snprintf(shown, sizeof shown, "%s", name);
  pthread_setname_np(*thread, shown);
  return CAPL_OK;
}

/* ---- the cgroup's quota ----------------------------------------------------------------------
**
** A container has the host's processors in its affinity mask and a quota of their time. More threads than the quota
** pays for are stopped in the middle of a step, all together. */

static bool read_numbers(const char *folder, const char *file, long *first, long *second)
{
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) return false;
  FILE *f = fopen(path, "re");
  if (!f) return false;
  int n = second ? fscanf(f, "%ld %ld", first, second) : fscanf(f, "%ld", first);
  fclose(f);
  return n == (second ? 2 : 1);
}

/* Whole processors that one folder of a cgroup tree grants, rounded up; INT_MAX = it sets no limit. */
static int folder_cpus(const char *folder)
{
  long quota = 0, period = 0;
  bool found = read_numbers(folder, "cpu.max", &quota, &period); /* version 2; "max" is no number */
  if (!found) {
    found = read_numbers(folder, "cpu.cfs_quota_us", &quota, NULL) && read_numbers(folder, "cpu.cfs_period_us", &period, NULL);
  }
  if (!found || quota <= 0 || period <= 0 || quota / period >= INT_MAX) return INT_MAX;
  return (int)((quota + period - 1) / period);
}

/* The least that a group and those above it grant. A container may see its own group at the top of the mount and
** its path as the host sees it: folders that are not there set no limit. */
static int least_of_path(const char *mount, const char *group)
{
  char folder[4096];
  int least = folder_cpus(mount);
  if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder) return least;
  for (char *end = folder + strlen(folder); end > folder + strlen(mount); *end = '\0') {
    int n = folder_cpus(folder);
    if (n < least) least = n;
    end = strrchr(folder, '/');
  }
  return least;
}

/* line: ID:CONTROLLERS:GROUP of /proc/self/cgroup. Version 2 names no controllers. */
static int least_of_line(const char *root, char *line)
{
  char mount[4096], *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return INT_MAX;
  *group++ = '\0';
  controllers++;
  group[strcspn(group, "\n")] = '\0';
  bool version2 = *controllers == '\0';
  bool cpu = !strcmp(controllers, "cpu") || !strncmp(controllers, "cpu,", 4) || strstr(controllers, ",cpu,") ||
             (strlen(controllers) > 4 && !strcmp(controllers + strlen(controllers) - 4, ",cpu"));
  if (!version2 && !cpu) return INT_MAX;
  snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, version2 ? "" : "/", controllers);
  return least_of_path(mount, group);
}

int capl_cgroup_cpus(const char *root)
{
  char path[4096], line[4096];
  int least = INT_MAX;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  while (fgets(line, sizeof line, f)) {
    int n = least_of_line(root, line);
    if (n < least) least = n;
  }
  fclose(f);
  return least == INT_MAX ? 0 : least;
}

int capl_cpu_count(void)
{
  cpu_set_t set;
  int n = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
  int limit = capl_cgroup_cpus("");
  if (limit > 0 && limit < n) n = limit;
  return n > 0 ? n : 1;
}
