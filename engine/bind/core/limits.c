/* limits.c -- what of the machine a recipe may take: the heap of Lua, and the bytes it prints and writes.
**
** Whoever passes a limit is stopped like by Ctrl-C, at the next instruction and through every pcall, with an error that
** names the limit. The heap has two: beyond the first, garbage is collected, and what is left decides; beyond twice of
** it no memory is given, and who asks again and again ends the process: LuaJIT does not survive running out of memory
** for long. SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <stdio.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bind/core/sys.h"
#include "capl/backend.h"

enum { REFUSALS = 16, RESERVE = 8 << 20 };
static const double MB = 1e6, GB = 1e9;

/* ---- the heap of Lua ------------------------------------------------------------------------- */

static struct {
  lua_State *L;
  lua_Alloc f; /* LuaJIT's own */
  void *ud;
  size_t used, soft, hard;
  bool asked, stopping; /* a stop is asked for; it has begun */
  int refused;
  void *reserve; /* RESERVE bytes of the machine, given up when it has no more; NULL = they are */
} heap;

/* "2 GB", "200 MB": as a header says it. */
static const char *size_text(double bytes, char text[32])
{
  snprintf(text, 32, bytes >= GB ? "%.3g GB" : "%.3g MB", bytes / (bytes >= GB ? GB : MB));
  return text;
}

static void heap_error(void)
{
  char limit[32];
  CAPL_FAIL(CAPL_ENOMEM, "the recipe's own tables and texts take more than %s", size_text((double)heap.soft, limit));
  capl_error_hint("numbers in bulk belong into tensors; --- needs: memory=SIZE in the recipe's header asks for more");
}

/* At the stop: whether there is too much when all garbage has gone. Once there was, the stop goes on to its end, though
** what it leaves behind becomes garbage. */
static bool heap_stands(lua_State *L)
{
  if (!L) return heap.asked = heap.stopping = false;
  if (!heap.stopping) lua_gc(L, LUA_GCCOLLECT, 0);
  heap.asked = heap.stopping = heap.stopping || heap.used > heap.soft - heap.soft / 8;
  if (heap.stopping) heap_error();
  return heap.stopping;
}

/* Beyond the second limit. Lua makes an error of it; the stop, which is asked for, follows. */
static void *refuse(void)
{
  static const char text[] = "\ncapl: the recipe's own tables and texts take more than it may have, and it does not "
                             "stop\n";
  if (++heap.refused < REFUSALS) return NULL;
  capl_sys_bar_leave();
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(1);
  _exit(1);
}

static bool shortage_stands(lua_State *L)
{
  if (!L) return false;
  CAPL_FAIL(CAPL_ENOMEM, "not enough memory");
  capl_error_hint("the recipe's own tables and texts, or the machine, are out of memory");
  return true;
}

/* The machine has no more. Code that LuaJIT has compiled crashes where it gets none: it gets the reserve, and a stop is
** asked for. When that is used up, the process ends. */
static void *take_reserve(void *at, size_t had, size_t wanted)
{
  static const char text[] = "\ncapl: not enough memory\n  hint: the machine is out of memory, or ulimit -v is too low\n";
  if (heap.reserve) {
    munmap(heap.reserve, RESERVE);
    heap.reserve = NULL;
    capl_interrupt_because(shortage_stands);
  }
  void *p = heap.f(heap.ud, at, had, wanted);
  if (p) return p;
  capl_sys_bar_leave();
  _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 1 : 1);
}

static void *allocate(void *ud, void *at, size_t had, size_t wanted)
{
  (void)ud;
  size_t used = heap.used - had + wanted;
  if (wanted > had && used > heap.soft && !heap.asked) {
    heap.asked = true;
    capl_interrupt_because(heap_stands);
  }
  if (wanted > had && used > heap.hard) return refuse();
  void *p = heap.f(heap.ud, at, had, wanted);
  if (!p && wanted) p = take_reserve(at, had, wanted);
  heap.used = used;
  return p;
}

void capl_bind_reserve(lua_State *L)
{
  heap.f = lua_getallocf(L, &heap.ud);
  heap.L = L;
  heap.used = (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024;
  heap.soft = heap.hard = SIZE_MAX;
  heap.reserve = mmap(NULL, RESERVE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (heap.reserve == MAP_FAILED) heap.reserve = NULL;
  lua_setallocf(L, allocate, NULL);
}

static void limit_heap(uint64_t bytes)
{
  heap.soft = bytes;
  heap.hard = 2 * heap.soft;
  heap.refused = 0;
}

/* ---- what is printed and written ------------------------------------------------------------- */

/* Once is enough: what still writes then is the library, which ends the run. */
static bool output_told;

static bool output_stands(lua_State *L)
{
  (void)L;
  capl_policy_wrote(0); /* repeats the error of the passed limit */
  return output_told = true;
}

void bind_count_output(size_t bytes)
{
  capl_policy_wrote(bytes);
  if (capl_policy_output_over() && !output_told) capl_interrupt_because(output_stands);
}

/* ---- tensors --------------------------------------------------------------------------------- */

uint64_t bind_tensor_limit(const capl_device *device)
{
  return capl_policy_is_closed() && device->backend->host_memory ? capl_policy_limits()->tensor_bytes : 0;
}

/* The devices whose tensors are in the machine's memory. A lower limit that stands already is kept. */
static void limit_tensors(void)
{
  const capl_backend_facts *is;
  for (int i = 0; (is = capl_backend_at(i)); i++) {
    capl_device *device;
    if (is->gpu || capl_device_open(is->name, &device) != CAPL_OK) continue;
    uint64_t wanted = bind_tensor_limit(device), now = capl_memory_limit_get(device);
    if (wanted && (!now || now > wanted)) capl_memory_limit_set(device, wanted);
  }
}

/* ---- the state ------------------------------------------------------------------------------- */

void capl_bind_limit(lua_State *L)
{
  const capl_limits *limits = capl_policy_limits();
  if (limits->lua_bytes && heap.L == L) limit_heap(limits->lua_bytes);
  if (limits->tensor_bytes) limit_tensors();
}

/* LuaJIT frees its heap as a whole, and only through its own functions. */
void bind_unlimit(lua_State *L)
{
  if (heap.L != L) return;
  if (heap.reserve) munmap(heap.reserve, RESERVE);
  lua_setallocf(L, heap.f, heap.ud);
  heap.L = NULL;
}
