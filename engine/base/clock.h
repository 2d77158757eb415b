/* clock.h -- the time in seconds, for everything that measures or waits.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_CLOCK_H
#define CAPL_BASE_CLOCK_H

#include <time.h>

/* Seconds on a clock of the system, such as CLOCK_REALTIME or CLOCK_THREAD_CPUTIME_ID. May be called in a signal
** handler. */
static inline double clock_read(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds since some fixed moment; never goes back. */
static inline double clock_now(void) { return clock_read(CLOCK_MONOTONIC); }

/* So many seconds, 0 or more, as the system takes them. */
static inline struct timespec clock_time(double seconds)
{
  time_t whole = (time_t)seconds;
  return (struct timespec){whole, (long)((seconds - (double)whole) * 1e9)};
}

/* The moment so many seconds from now on a clock: what timed waits take. */
static inline struct timespec clock_after(clockid_t clock,
                                          double seconds) { return clock_time(clock_read(clock) + seconds); }

#endif
