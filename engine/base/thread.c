/* thread.c -- worker threads that never see a signal, and how many processors there are for them.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "base/thread.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assume.h"
#include "base/cgroup.h"

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

/* Whole processors that one folder of a cgroup tree grants, rounded up. */
static int64_t folder_cpus(const char *folder)
{
  int64_t quota = 0, period = 0;
  bool found = cgroup_numbers(folder, "cpu.max", &quota, &period); /* version 2; "max" is no number */
  if (!found) {
    found = cgroup_numbers(folder, "cpu.cfs_quota_us", &quota, NULL)
    && cgroup_numbers(folder, "cpu.cfs_period_us", &period, NULL);
  }
  if (!found || quota <= 0 || period <= 0 || quota / period >= INT_MAX) return CGROUP_NO_LIMIT;
  return (quota + period - 1) / period;
}

int capl_cgroup_cpus(const char *root)
{
  int64_t least = cgroup_least(root, "cpu", folder_cpus);
  return least == CGROUP_NO_LIMIT ? 0 : (int)least;
}

int capl_cpu_count(void)
{
  cpu_set_t set;
  int64_t assumed;
  int n = 1;
  if (capl_assumed(CAPL_ASSUME_CORES, &assumed)) return (int)assumed;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
  int limit = capl_cgroup_cpus("");
  if (limit > 0 && limit < n) n = limit;
  return n > 0 ? n : 1;
}
