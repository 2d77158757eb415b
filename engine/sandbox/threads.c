/* threads.c -- makes every thread of this process do something now.
**
** Landlock binds the thread that asks for it and those it makes later; devices and communicators have threads by then.
** They are interrupted by the signal that the C library keeps for itself, for setuid() has the same task: no thread can
** block it. The handler is set behind the library's back, which would refuse the number, and taken back at once.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "sandbox/seccomp.h"

enum { RESERVED_SIGNAL = 33, MOST_THREADS = 8192, PATIENCE_MS = 5000, SIGNAL_SET = 8 };

/* The kernel's struct sigaction, which the C library hides. */
typedef struct {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)(void);
  unsigned long mask;
} action;

static bool (*task)(void);
static atomic_int answered, failed;
static _Atomic(int) who[MOST_THREADS]; /* have answered */

static void on_signal(int number)
{
  int saved = errno;
  (void)number;
  if (!task()) atomic_store(&failed, errno ? errno : EPERM);
  int at = atomic_fetch_add(&answered, 1);
  if (at < MOST_THREADS) atomic_store(&who[at], (int)syscall(SYS_gettid));
  errno = saved;
}

static long raw_action(int number, const action *new, action *old)
{
  return syscall(SYS_rt_sigaction, number, new, old, SIGNAL_SET);
}

/* How a handler returns to what it interrupted is known to the C library alone: seen in a handler that it sets. */
static bool make_action(action *out)
{
  struct sigaction mine = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
  if (sigaction(SIGURG, &mine, &before) != 0) return false;
  bool seen = raw_action(SIGURG, NULL, out) == 0;
  sigaction(SIGURG, &before, NULL);
  out->mask = ~0ul;
  return seen;
}

static bool has_answered(int tid)
{
  int n = atomic_load(&answered);
  for (int i = 0; i < n && i < MOST_THREADS; i++)
    if (atomic_load(&who[i]) == tid) return true;
  return false;
}

static bool is_there(int tid) { return syscall(SYS_tgkill, getpid(), tid, 0) == 0; }

/* Asks a thread and waits for its answer. -> false: it is there and says nothing. */
static bool ask(int tid)
{
  if (syscall(SYS_tgkill, getpid(), tid, RESERVED_SIGNAL) != 0) return errno == ESRCH;
  for (int waited_us = 0; waited_us < PATIENCE_MS * 1000; waited_us += 50) {
    if (has_answered(tid) || !is_there(tid)) return true;
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
  return false;
}

/* One look at the list of threads. -> how many were asked, -1: it cannot be read, -2: one does not answer. */
static int ask_new_ones(void)
{
  int self = (int)syscall(SYS_gettid), asked = 0;
  DIR *list = opendir("/proc/self/task");
  if (!list) return -1;
  for (struct dirent *e; asked >= 0 && (e = readdir(list));) {
    int tid = atoi(e->d_name);
    if (tid <= 0 || tid == self || has_answered(tid)) continue;
    asked = ask(tid) ? asked + 1 : -2;
  }
  closedir(list);
  return asked;
}

capl_status run_on_other_threads(bool (*f)(void))
{
  action mine, before;
  task = f;
  atomic_store(&answered, 0);
  atomic_store(&failed, 0);
  if (!make_action(&mine) || raw_action(RESERVED_SIGNAL, &mine, &before) != 0)
    return CAPL_FAIL(CAPL_EIO, "no signal reaches the threads of this process: %s", capl_errno_text(errno));
  int asked;
  do asked = ask_new_ones();
  while (asked > 0 && atomic_load(&answered) < MOST_THREADS);
  raw_action(RESERVED_SIGNAL, &before, NULL);
  if (atomic_load(&failed))
    return CAPL_FAIL(CAPL_EIO, "a thread cannot be confined: %s", capl_errno_text(atomic_load(&failed)));
  if (asked == -1) return CAPL_FAIL(CAPL_EIO, "the threads of this process are not listed: %s", capl_errno_text(errno));
  if (asked != 0) return CAPL_FAIL(CAPL_EDEVICE, "a thread of this process does not answer");
  return CAPL_OK;
}
