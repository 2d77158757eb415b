/* thread.c -- worker threads that never see a signal.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
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

/* Whole processors granted by the cgroup's cpu.max, 0 = no limit known. */
static int cgroup_cpus(void)
{
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (!f) return 0;
  long quota = 0, period = 0;
  int n = fscanf(f, "%ld %ld", &quota, &period);
  fclose(f);
  return n == 2 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

int capl_cpu_count(void)
{
  cpu_set_t set;
  int n = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
  int limit = cgroup_cpus();
  if (limit > 0 && limit < n) n = limit;
  return n > 0 ? n : 1;
}
