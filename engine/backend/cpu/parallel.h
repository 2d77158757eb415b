/* parallel.h -- the compute threads: one static split of a range over libgomp's pool.
**
** oneDNN runs on the same pool, so there are never more compute threads than cpu_threads(). The split
** depends only on the range and the number of threads: results repeat exactly for a given number.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_PARALLEL_H
#define CAPL_CPU_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "capl/error.h"

enum { CPU_MAX_THREADS = 256 };

/* A part [begin, end) of the range; thread in [0, cpu_threads()). */
typedef void (*cpu_task)(void *arg, int64_t begin, int64_t end, int thread);

/* Runs task over [0, n) in parts of at least grain elements; waits. Small ranges run in the caller. */
void cpu_parallel(int64_t n, int64_t grain, cpu_task task, void *arg);

/* Runs task for each of 0 … n - 1, in the same way. */
void cpu_for_each(int64_t n, void (*task)(void *arg, int64_t i), void *arg);

/* Sets the number of threads: CAPL_THREADS, else OMP_NUM_THREADS, else the processors allowed.
** EVALUE if a variable is no number in 1..CPU_MAX_THREADS. */
capl_status cpu_parallel_open(void);
int cpu_threads(void);
/* From now on; whoever keeps what was made for another number lets it go. */
void cpu_threads_set(int n);
/* While on, oneDNN primitives made by this thread are made for one thread. */
void cpu_parallel_alone(bool on);
/* While on, calls of this thread wake no others: what is small is done before they are awake. cpu_threads() is 1. */
void cpu_alone_set(bool on);
bool cpu_alone(void);

#endif
