/* thread.h -- worker threads that never see a signal.
**
** Signals belong to the thread that runs Lua (Ctrl-C must reach it), so every thread the engine
** starts blocks them all. Compute threads are libgomp's; this header is for loaders and services.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_THREAD_H
#define CAPL_BASE_THREAD_H

#include <pthread.h>

#include "capl/error.h"

/* Starts run(arg) in a thread named name (at most 15 characters shown) with all signals blocked. */
CAPL_API capl_status capl_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);

/* Processors this process may run on (affinity mask and cgroup quota respected; or what CAPL_ASSUME has), at least
** 1. */
CAPL_API int capl_cpu_count(void);

/* The quota alone: processors granted by the cgroups (version 1 and 2) of the calling process, rounded up to whole
** ones; 0 = no limit. root: where /proc and /sys are looked for, "" outside tests. */
CAPL_API int capl_cgroup_cpus(const char *root);

#endif
