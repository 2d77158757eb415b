/* parallel.c -- the one place that starts compute threads.
**
** libgomp's own entry points are called instead of OpenMP pragmas: gcc and clang then share one pool
** with oneDNN, and no compiler flag is needed.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/parallel.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/thread.h"

extern void GOMP_parallel(void (*run)(void *), void *arg, unsigned threads, unsigned flags);
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);
extern int omp_in_parallel(void);
extern void omp_set_num_threads(int n);
extern void omp_set_dynamic(int on);

static int n_threads = 1;
static _Thread_local bool alone; /* this thread wakes no others */

typedef struct {
  cpu_task task;
  void *arg;
  int64_t n;
} range_job;

static void run_part(void *p)
{
  const range_job *job = p;
  int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
  int64_t begin = job->n * part / parts, end = job->n * (part + 1) / parts;
  if (begin < end) job->task(job->arg, begin, end, (int)part);
}

void cpu_parallel(int64_t n, int64_t grain, cpu_task task, void *arg)
{
  if (n <= 0) return;
  /* All threads or one: libgomp rebuilds its team whenever the size changes. */
  if (n_threads == 1 || alone || n < 2 * grain || n < 2 || omp_in_parallel()) {
    task(arg, 0, n, 0);
    return;
  }
  range_job job = {task, arg, n};
  GOMP_parallel(run_part, &job, (unsigned)n_threads, 0);
}

typedef struct {
  void (*task)(void *arg, int64_t i);
  void *arg;
} each_job;

static void each_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const each_job *job = arg;
  for (int64_t i = begin; i < end; i++) job->task(job->arg, i);
}

void cpu_for_each(int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
  each_job job = {task, arg};
  cpu_parallel(n, 1, each_part, &job);
}

static capl_status threads_from(const char *name, int *out)
{
  const char *text = getenv(name);
  if (!text || !*text) return CAPL_OK;
  char *end;
  long n = strtol(text, &end, 10);
  bool whole = *end == '\0' || *end == ','; /* OMP_NUM_THREADS may list one number per nesting level */
  if (!whole || n < 1 || n > CPU_MAX_THREADS)
    return CAPL_FAIL(CAPL_EVALUE, "%s is \"%s\", a number of threads is 1 to %d", name, text, CPU_MAX_THREADS);
  *out = (int)n;
  return CAPL_OK;
}

capl_status cpu_parallel_open(void)
{
  int n = capl_cpu_count();
  if (n > CPU_MAX_THREADS) n = CPU_MAX_THREADS;
  CAPL_TRY(threads_from("OMP_NUM_THREADS", &n));
  CAPL_TRY(threads_from("CAPL_THREADS", &n));
  omp_set_dynamic(0);
  cpu_threads_set(n);
  return CAPL_OK;
}

void cpu_threads_set(int n)
{
  n_threads = n;
  omp_set_num_threads(n);
}

int cpu_threads(void)
{
  return alone ? 1 : n_threads;
}

void cpu_parallel_alone(bool on)
{
  omp_set_num_threads(on || alone ? 1 : n_threads);
}

void cpu_alone_set(bool on)
{
  alone = on && n_threads > 1;
  cpu_parallel_alone(alone);
}

bool cpu_alone(void)
{
  return alone;
}
