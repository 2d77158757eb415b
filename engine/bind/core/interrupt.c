/* interrupt.c -- Ctrl-C for a state whose loops may run as machine code.
**
** A hook set from a signal handler is not seen by compiled loops. LuaJIT's own low-overhead profiler makes
** every trace check for its signal, though: it is started with its timer switched off, so no tick comes,
** and a request raises SIGPROF and starts the ticks; the traces exit and meet the hook. The hook stays until the
** outermost capl_bind_call returns, so a recipe's pcall cannot swallow the interrupt. Measured on Debian's
** LuaJIT: no cost in compiled code, stops within 0.5 ms. Code inside one C call (a long string.rep, a
** kernel) is not stopped; ops ask capl_interrupt_pending between each other, long fills of tensors ask base/stop.h.
**
** Handlers have a stack of their own: oneDNN's generated sgemm kernels keep their stack pointer in a small buffer of
** the heap, and a signal's frame, which the kernel of the system writes below the stack pointer, would fall on what
** lies there. SPDX-License-Identifier: Apache-2.0
*/
#include "base/stop.h"
#include "bind/core/core.h"

#include <luajit.h>
#include <signal.h>
#include <sys/time.h>

static lua_State *installed;
static volatile sig_atomic_t requested;
static volatile sig_atomic_t by_signal; /* somebody wants the end, whatever else stands or falls */
static bool (*stands)(lua_State *L);

/* Who asks may find that there is no reason any more. */
static bool still_wanted(lua_State *L)
{
  if (stands && stands(L)) return true;
  stands = NULL;
  if (by_signal) return CAPL_FAIL(CAPL_EINTERRUPT, "interrupted"), true;
  capl_interrupt_clear();
  return false;
}

bool capl_interrupt_reported(lua_State *L) { return requested && still_wanted(L); }

static void stop_here(lua_State *L, lua_Debug *ar)
{
  (void)ar;
  if (requested && still_wanted(L)) bind_raise(L, NULL);
}

static void set_hook(lua_State *L)
{
  lua_sethook(L, stop_here, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

/* Ticks come only while a request waits: a signal may have met the VM while it was changing its own hooks. */
static void on_tick(void *user, lua_State *L, int samples, int vmstate)
{
  (void)user, (void)samples, (void)vmstate;
  if (requested) set_hook(L);
}

static void tick_every(long microseconds)
{
  struct itimerval timer = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

static void make_stack(void)
{
  enum { BYTES = 64 * 1024 }; /* a frame with all AVX-512 registers takes 4 KiB, one with AMX tiles 12 */
  static _Alignas(64) char memory[BYTES];
  stack_t former;
  if (sigaltstack(NULL, &former) == 0 && !(former.ss_flags & SS_DISABLE)) return; /* a sanitizer's, say */
  sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = BYTES}, NULL);
}

static void move_ticks_to_stack(void)
{
  struct sigaction action;
  if (sigaction(SIGPROF, NULL, &action) != 0) return;
  action.sa_flags |= CAPL_INTERRUPT_FLAGS;
  sigaction(SIGPROF, &action, NULL);
}

/* "l": traces check at lines; with "f" most compiled loops would not stop. */
void capl_interrupt_install(lua_State *L)
{
  signal(SIGPROF, SIG_IGN); /* what LuaJIT's profiler puts back when it ends: a late tick must not end the process */
  installed = L;
  requested = by_signal = 0;
  capl_stop_when(capl_interrupt_pending);
  luaJIT_profile_start(L, "li10", on_tick, NULL);
  tick_every(0);
  make_stack();
  move_ticks_to_stack();
}

void capl_interrupt_remove(void)
{
  lua_State *L = installed;
  installed = NULL; /* first: from here on a signal finds nothing to stop */
  requested = by_signal = 0;
  capl_stop_when(NULL);
  if (!L) return;
  tick_every(0);
  luaJIT_profile_stop(L);
}

static void request(void)
{
  if (!installed) return;
  requested = 1;
  set_hook(installed);
  raise(SIGPROF);
  tick_every(10000);
}

void capl_interrupt_request(void)
{
  by_signal = 1;
  request();
}

void capl_interrupt_because(bool (*reason)(lua_State *L))
{
  stands = reason;
  request();
}

bool capl_interrupt_pending(void) { return requested != 0; }

void capl_interrupt_clear(void)
{
  if (!installed || !requested) return;
  requested = by_signal = 0;
  if (stands) stands(NULL);
  stands = NULL;
  tick_every(0);
  lua_sethook(installed, NULL, 0, 0);
}
