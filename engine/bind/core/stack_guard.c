/* stack_guard.c -- calls of Lua through C that nest without end: the stack of the system ends before Lua's own limits.
**
** LuaJIT counts its own stack, not the system's: functions called by gsub, sort or coroutines within each other use
** that up first. So the worker takes more of it than programs get, and where that ends too the process ends with a
** sentence. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include "bind/bind.h"
#include "bind/core/sys.h"

enum { STACK_BYTES = 100 << 20, NEAR = 1 << 16 }; /* systems leave 128 MB below a stack free of anything else */

static uintptr_t stack_pointer(const void *context)
{
  const ucontext_t *c = context;
#if defined(__x86_64__)
  return (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
  return (uintptr_t)c->uc_mcontext.sp;
#else
  return (void)c, 0;
#endif
}

/* What is touched just beside the stack pointer is the stack's end; anything else is a crash, as without this. */
static void on_fault(int number, siginfo_t *info, void *context)
{
  static const char text[] = "capl: functions call each other too deep, through C: the stack of the system is used up\n"
                             "  hint: check for recursion through string.gsub, table.sort, tostring or a coroutine\n";
  uintptr_t at = (uintptr_t)info->si_addr, sp = stack_pointer(context);
  if (at + NEAR > sp && at < sp + NEAR) {
    capl_sys_bar_leave();
    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 1 : 1);
  }
  signal(number, SIG_DFL);
}

void capl_stack_guard(void)
{
  struct rlimit limit;
  struct sigaction former, action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | CAPL_INTERRUPT_FLAGS};
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < STACK_BYTES) {
    limit.rlim_cur = limit.rlim_max < STACK_BYTES ? limit.rlim_max : STACK_BYTES;
    setrlimit(RLIMIT_STACK, &limit);
  }
  bool taken = sigaction(SIGSEGV, NULL, &former) != 0 || former.sa_handler != SIG_DFL; /* by a sanitizer, say */
  if (!taken) sigaction(SIGSEGV, &action, NULL), sigaction(SIGBUS, &action, NULL);
}
