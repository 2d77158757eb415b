/* misc.c -- settings and metrics of the process: device, seed, memory, counters, clock, profiler.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/locals.h"
#include "bind/core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/clock.h"

bind_settings bind_current = {.seed = 42};

void bind_use(lua_State *L)
{
  static char anchor; /* its address: the key in the registry */
  if (bind_current.L == L) return;
  lua_pushlightuserdata(L, &anchor);
  lua_pushthread(L);
  lua_rawset(L, LUA_REGISTRYINDEX);
  bind_current.L = L;
}

/* core.defined(function) -> module of the library and line where it begins; nil for functions of C and of recipes */
static int core_defined(lua_State *L)
{
  lua_Debug ar;
  if (!lua_isfunction(L, 1)) return 0;
  lua_pushvalue(L, 1);
  if (!lua_getinfo(L, ">S", &ar) || strncmp(ar.source, "@capl:", 6) != 0) return 0;
  size_t n = strlen(ar.source + 6);
  const char *file = ar.source + 6;
  if (n > 4 && !strcmp(file + n - 4, ".lua")) n -= 4;
  if (n > 5 && !strncmp(file + n - 5, "/init", 5)) n -= 5;
  lua_pushlstring(L, file, n);
  luaL_gsub(L, lua_tostring(L, -1), "/", ".");
  lua_pushinteger(L, ar.linedefined);
  return 2;
}

/* ---- devices --------------------------------------------------------------------------------- */

/* The CPU backend's libraries take some milliseconds to load, so the default is opened at first use. */
static capl_device *default_device(lua_State *L)
{
  if (!bind_current.device) bind_check(L, capl_device_open("auto", &bind_current.device), NULL);
  return bind_current.device;
}

capl_device *bind_opt_device(lua_State *L, int i)
{
  capl_device *device;
  bind_use(L); /* an allocation follows: this is the thread that may collect */
  if (i == 0 || lua_isnoneornil(L, i)) return default_device(L);
  if (lua_type(L, i) != LUA_TSTRING)
    bind_fail(L, CAPL_EVALUE, NULL, NULL, "a device is named by a string, got %s", bind_typename(L, i));
  bind_check(L, capl_device_open(lua_tostring(L, i), &device), NULL);
  return device;
}

/* core.device([name]) -> name of the default device, set first if given; why "auto" is what it is here */
static int core_device(lua_State *L)
{
  bind_current.device = bind_opt_device(L, 1);
  lua_pushstring(L, bind_current.device->name);
  lua_pushstring(L, capl_device_auto_why());
  return 2;
}

/* core.device_report(backend) -> text, what it finds on this machine; or nil, why not */
static int core_device_report(lua_State *L)
{
  char text[8192] = "";
  if (capl_device_report(bind_check_string(L, 1), text, sizeof text) == CAPL_OK) return lua_pushstring(L, text), 1;
  lua_pushnil(L);
  lua_pushstring(L, capl_error_last()->message);
  return 2;
}

/* core.device_switch(name, on) of the default device: "tf32", "deterministic", "autotune" */
static int core_device_switch(lua_State *L)
{
  bind_check(L, capl_device_switch(default_device(L), bind_check_string(L, 1), bind_check_bool(L, 2)), NULL);
  return 0;
}

/* core.one_thread(): the processor computes with one thread from now on: results then depend on no number of threads */
static int core_one_thread(lua_State *L)
{
  capl_device *device = default_device(L);
  setenv("CAPL_THREADS", "1", 1); /* for a backend that is opened later, and whoever asks */
  if (!strcmp(device->backend->name, "cpu")) bind_check(L, capl_device_switch(device, "one_thread", true), NULL);
  return 0;
}

/* core.device_info(name) -> {name, arithmetic, description, precision, why} or nil, why not.
** precision: the name of what "auto" means on it, why: the reason */
static int core_device_info(lua_State *L)
{
  capl_device *device;
  if (capl_device_open(bind_check_string(L, 1), &device) != CAPL_OK) {
    lua_pushnil(L);
    lua_pushstring(L, capl_error_last()->message);
    return 2;
  }
  lua_newtable(L);
  lua_pushstring(L, device->name), lua_setfield(L, -2, "name");
  lua_pushboolean(L, device->backend->arithmetic), lua_setfield(L, -2, "arithmetic");
  capl_precision best;
  bind_check(L, capl_precision_read(device, "auto", &best), NULL);
  lua_pushstring(L, best.name), lua_setfield(L, -2, "precision");
  lua_pushstring(L, best.why), lua_setfield(L, -2, "why");
  if (device->backend->describe)
    lua_pushstring(L, device->backend->describe()), lua_setfield(L, -2, "description");
  return 1;
}

/* core.precision(given[, device]) -> name, dtype of autocast, reason of "auto" or nil; of the default device if none is
** given. device false: only whether there is such a name. */
static int core_precision(lua_State *L)
{
  capl_device *device = default_device(L);
  capl_precision p;
  if (lua_isboolean(L, 2)) {
    bind_check(L, capl_precision_read(NULL, bind_check_string(L, 1), &p), NULL);
    return 0;
  }
  if (!lua_isnoneornil(L, 2)) bind_check(L, capl_device_open(bind_check_string(L, 2), &device), NULL);
  bind_check(L, capl_precision_read(device, bind_check_string(L, 1), &p), NULL);
  lua_pushstring(L, p.name);
  lua_pushstring(L, capl_dtype_name(p.low));
  lua_pushstring(L, p.why);
  return 3;
}

/* ---- the device's time ----------------------------------------------------------------------- */

static int check_mark(lua_State *L, int i)
{
  int64_t slot = bind_check_int(L, i);
  if (slot < 0 || slot >= CAPL_MARKS)
    bind_arg_error(L, i, "a slot from 0 to %d expected, got %lld", CAPL_MARKS - 1, (long long)slot);
  return (int)slot;
}

static double host_marks[CAPL_MARKS];

/* core.mark(slot): notes the moment that the default device's queued work reaches; the host's clock where the device
** has none, after waiting for the work. */
static int core_mark(lua_State *L)
{
  const capl_backend *backend = default_device(L)->backend;
  int slot = check_mark(L, 1);
  if (backend->mark) return bind_check(L, backend->mark(slot), NULL), 0;
  if (backend->sync) bind_check(L, backend->sync(), NULL);
  host_marks[slot] = clock_now();
  return 0;
}

/* core.between(from, to) -> seconds from one mark to another */
static int core_between(lua_State *L)
{
  const capl_backend *backend = default_device(L)->backend;
  int from = check_mark(L, 1), to = check_mark(L, 2);
  double seconds = host_marks[to] - host_marks[from];
  if (backend->between) bind_check(L, backend->between(from, to, &seconds), NULL);
  lua_pushnumber(L, seconds);
  return 1;
}

/* core.profiling() -> whether every kernel is timed now */
static int core_profiling(lua_State *L)
{
  lua_pushboolean(L, capl_profile_on());
  return 1;
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* core.rng([seed[, streams]]) -> seed and number of streams opened, set first if given */
static int core_rng(lua_State *L)
{
  if (!lua_isnoneornil(L, 1)) {
    int64_t seed = bind_check_int(L, 1), streams = lua_isnoneornil(L, 2) ? 0 : bind_check_int(L, 2);
    if (seed < 0)
      return bind_arg_error(L, 1, "a seed is a whole number from 0 on, got %lld", (long long)seed);
    if (streams < 0)
      return bind_arg_error(L, 2, "a number of streams is at least 0, got %lld", (long long)streams);
    bind_current.seed = (uint64_t)seed;
    bind_current.streams = (uint64_t)streams;
  }
  lua_pushnumber(L, (lua_Number)bind_current.seed);
  lua_pushnumber(L, (lua_Number)bind_current.streams);
  return 2;
}

/* core.next_stream() -> the number of a stream nobody has used */
static int core_next_stream(lua_State *L)
{
  lua_pushnumber(L, (lua_Number)bind_next_stream());
  return 1;
}

/* A million million streams of each owner, and Lua's numbers hold them all. */
enum { OWNER_BITS = 40, OWNERS = 8192 };

uint64_t bind_next_stream(void)
{
  return bind_current.stream_owner + bind_current.streams++;
}

/* core.stream_owner([number]) -> whose random streams are opened from now on: 0 before training, then a rank or
** shard */
static int core_stream_owner(lua_State *L)
{
  if (!lua_isnoneornil(L, 1)) {
    int64_t owner = bind_check_int(L, 1);
    if (owner < 0 || owner >= OWNERS)
      return bind_arg_error(L, 1, "an owner of streams is 0 to %d, got %lld", OWNERS - 1, (long long)owner);
    bind_current.stream_owner = (uint64_t)owner << OWNER_BITS;
  }
  lua_pushnumber(L, (lua_Number)(bind_current.stream_owner >> OWNER_BITS));
  return 1;
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void set_number(lua_State *L, const char *key, double value)
{
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

/* core.memory([device]) -> {live, peak, cached, captured, limit (0 = none), allocations, reuses; card_free, card_total
** where the device reports it} */
static int core_memory(lua_State *L)
{
  capl_memory_stats m;
  size_t card_free, total;
  capl_device *device = bind_opt_device(L, 1);
  capl_memory_stats_get(device, &m);
  lua_newtable(L);
  set_number(L, "live", (double)m.live);
  set_number(L, "peak", (double)m.peak);
  set_number(L, "cached", (double)m.cached);
  set_number(L, "captured", (double)m.captured);
  set_number(L, "limit", (double)capl_memory_limit_get(device));
  set_number(L, "allocations", (double)m.allocations);
  set_number(L, "reuses", (double)m.reuses);
  if (!device->backend->mem_info || device->backend->mem_info(&card_free, &total) != CAPL_OK) return 1;
  set_number(L, "card_free", (double)card_free);
  set_number(L, "card_total", (double)total);
  return 1;
}

/* core.memory_reset_peak([device]) */
static int core_memory_reset_peak(lua_State *L)
{
  capl_memory_peak_reset(bind_opt_device(L, 1));
  return 0;
}

/* core.memory_limit(bytes[, device]): 0 = none */
static int core_memory_limit(lua_State *L)
{
  int64_t bytes = bind_check_int(L, 1);
  capl_device *device = bind_opt_device(L, 2);
  int64_t most = (int64_t)bind_tensor_limit(device);
  if (bytes < 0) return bind_arg_error(L, 1, "bytes from 0 on, got %lld", (long long)bytes);
  if (most && bytes > most)
    return bind_arg_error(L, 1, "at most %lld bytes are this recipe's, got %lld", (long long)most, (long long)bytes);
  capl_memory_limit_set(device, (size_t)(bytes || !most ? bytes : most));
  return 0;
}

/* core.memory_trim([device]): gives free blocks back to the system */
static int core_memory_trim(lua_State *L)
{
  capl_memory_trim(bind_opt_device(L, 1));
  return 0;
}

/* core.counters() -> {name = count}: what was in effect */
static int core_counters(lua_State *L)
{
  lua_newtable(L);
#define X(name) set_number(L, #name, (double)capl_counter_get(#name));
  CAPL_COUNTER_MAP(X)
#undef X
  return 1;
}

/* capl_own_fn: adds {own = , total = } under its kind to the table on top. */
static void push_own(void *L, const char *kind, int own, int total)
{
  lua_createtable(L, 0, 2);
  set_number(L, "own", own);
  set_number(L, "total", total);
  lua_setfield(L, -2, kind);
}

/* core.own_kernels([device]) -> {conv2d_grad_w = {own = 1, total = 7}}: products a vendor's library should have run */
static int core_own_kernels(lua_State *L)
{
  capl_device *device = bind_opt_device(L, 1);
  lua_newtable(L);
  capl_device_own_kernels(device, push_own, L);
  return 1;
}

static void push_algorithm(void *user, const capl_algorithm *a)
{
  lua_State *L = user;
  lua_newtable(L);
  lua_pushstring(L, a->call), lua_setfield(L, -2, "call");
  lua_pushstring(L, a->algorithm), lua_setfield(L, -2, "algorithm");
  lua_pushstring(L, a->usual), lua_setfield(L, -2, "usual"); /* NULL is nil */
  lua_pushstring(L, a->times), lua_setfield(L, -2, "times");
  lua_pushboolean(L, a->in_use), lua_setfield(L, -2, "in_use");
  lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
}

/* core.algorithms() -> list of {call =, algorithm =, usual = or nil, times =, in_use =}: what autotune has chosen */
static int core_algorithms(lua_State *L)
{
  lua_newtable(L);
  capl_device_algorithms(default_device(L), push_algorithm, L);
  return 1;
}

/* core.algorithm_use(call, algorithm): texts of core.algorithms */
static int core_algorithm_use(lua_State *L)
{
  bind_check(L, capl_device_algorithm_use(default_device(L), bind_check_string(L, 1), bind_check_string(L, 2)), NULL);
  return 0;
}

static double held_seconds;

/* core.clock() -> seconds from some fixed moment, monotonic; without those for which the run was held */
static int core_clock(lua_State *L)
{
  lua_pushnumber(L, clock_now() - held_seconds);
  return 1;
}

/* core.clock_held(seconds): the run was held for so long, which does not count. */
static int core_clock_held(lua_State *L)
{
  held_seconds += bind_check_number(L, 1);
  return 0;
}

/* core.cpu_clock() -> processor seconds of this process, all threads */
static int core_cpu_clock(lua_State *L)
{
  lua_pushnumber(L, clock_read(CLOCK_PROCESS_CPUTIME_ID));
  return 1;
}

/* core.thread_clock() -> processor seconds of the calling thread alone */
static int core_thread_clock(lua_State *L)
{
  lua_pushnumber(L, clock_read(CLOCK_THREAD_CPUTIME_ID));
  return 1;
}

static int core_version(lua_State *L)
{
  lua_pushstring(L, capl_version());
  return 1;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* One op call as the profiler or the observer saw it. */
typedef struct {
  const capl_op *op;
  const char *backend; /* NULL for observed calls */
  char label[96];
  double seconds, bytes, macs;
  capl_dtype dtype;
  int ndim;
  int64_t size[CAPL_MAX_NDIM];
} event;

typedef struct {
  event *list;
  size_t count, capacity;
} event_log;

static void event_log_fini(event_log *log) { free(log->list); }

/* A fresh event at the end, NULL when memory is out: the profile then lacks it. */
static event *event_add(event_log *log, const capl_call *call, const char *label)
{
  if (log->count == log->capacity) {
    size_t capacity = log->capacity ? log->capacity * 2 : 256;
    event *grown = realloc(log->list, capacity * sizeof *grown);
    if (!grown) return NULL;
    log->list = grown;
    log->capacity = capacity;
  }
  event *e = &log->list[log->count++];
  *e = (event){.op = call->op};
  snprintf(e->label, sizeof e->label, "%s", label ? label : "");
  const capl_tensor *y = call->op->n_out ? call->out[0] : NULL;
  if (!y) return e;
  e->dtype = y->dtype;
  e->ndim = y->ndim;
  memcpy(e->size, y->size, sizeof e->size);
  return e;
}

static void on_profile(void *user, const capl_profile_event *p)
{
  event *e = event_add(user, p->call, p->label);
  if (!e) return;
  e->seconds = p->seconds;
  e->bytes = p->bytes;
  e->macs = p->macs;
  e->backend = p->backend;
}

static void on_call(void *user, const capl_call *call)
{
  event *e = event_add(user, call, capl_profile_label_get());
  if (e && call->op->macs) e->macs = call->op->macs(call);
}

static void push_event(lua_State *L, const event *e)
{
  lua_createtable(L, 0, 8);
  lua_pushstring(L, e->op->name), lua_setfield(L, -2, "op");
  lua_pushstring(L, e->label), lua_setfield(L, -2, "label");
  lua_pushstring(L, capl_dtype_name(e->dtype)), lua_setfield(L, -2, "dtype");
  if (e->backend) lua_pushstring(L, e->backend), lua_setfield(L, -2, "backend");
  set_number(L, "seconds", e->seconds);
  set_number(L, "bytes", e->bytes);
  set_number(L, "macs", e->macs);
  lua_createtable(L, e->ndim, 0);
  for (int d = 0; d < e->ndim; d++) lua_pushnumber(L, (lua_Number)e->size[d]), lua_rawseti(L, -2, d + 1);
  lua_setfield(L, -2, "shape");
}

static void push_events(lua_State *L, const event_log *log)
{
  luaL_checkstack(L, 6, "events");
  lua_createtable(L, (int)log->count, 0);
  for (size_t i = 0; i < log->count; i++) {
    push_event(L, &log->list[i]);
    lua_rawseti(L, -2, (int)i + 1);
  }
}

/* Runs fn(…) with a collector installed; leaves the event list before fn's results. */
static int with_events(lua_State *L, bool timed)
{
  bind_check_function(L, 1);
  __attribute__((cleanup(event_log_fini))) event_log log = {0};
  if (timed)
    capl_profile_set(on_profile, &log);
  else
    capl_observe_set(on_call, &log);
  int status = bind_pcall(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (timed)
    capl_profile_set(NULL, NULL);
  else
    capl_observe_set(NULL, NULL);
  if (status) return lua_error(L);
  push_events(L, &log);
  lua_insert(L, 1);
  return lua_gettop(L);
}

/* core.profile(fn, …) -> list of kernel runs {op, label, backend, seconds, bytes, macs, dtype, shape},
 * results */
static int core_profile(lua_State *L) { return with_events(L, true); }

/* core.trace(fn, …) -> list of op calls {op, label, macs, dtype, shape}, results; works on meta too */
static int core_trace(lua_State *L) { return with_events(L, false); }

/* core.label([text]) -> former text: the layer that profiler events carry. The engine borrows the text, so
** the registry holds it. */
static int core_label(lua_State *L)
{
  const char *former = capl_profile_label_get();
  lua_settop(L, 1);
  if (former)
    lua_pushstring(L, former);
  else
    lua_pushnil(L);
  capl_profile_label_set(lua_isnil(L, 1) ? NULL : bind_check_string(L, 1));
  lua_pushvalue(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, "capl.label");
  return 1;
}

void bind_open_misc(lua_State *L)
{
  static const luaL_Reg functions[] = {{"device", core_device},
                                       {"defined", core_defined},
                                       {"device_info", core_device_info},
                                       {"profiling", core_profiling},
                                       {"mark", core_mark},
                                       {"between", core_between},
                                       {"device_report", core_device_report},
                                       {"device_switch", core_device_switch},
                                       {"rng", core_rng},
                                       {"next_stream", core_next_stream},
                                       {"stream_owner", core_stream_owner},
                                       {"one_thread", core_one_thread},
                                       {"memory", core_memory},
                                       {"memory_reset_peak", core_memory_reset_peak},
                                       {"memory_limit", core_memory_limit},
                                       {"memory_trim", core_memory_trim},
                                       {"counters", core_counters},
                                       {"own_kernels", core_own_kernels},
                                       {"algorithms", core_algorithms},
                                       {"algorithm_use", core_algorithm_use},
                                       {"precision", core_precision},
                                       {"clock", core_clock}, {"clock_held", core_clock_held},
                                       {"cpu_clock", core_cpu_clock},
                                       {"thread_clock", core_thread_clock},
                                       {"version", core_version},
                                       {"profile", core_profile},
                                       {"trace", core_trace},
                                       {"label", core_label},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  bind_current.L = NULL;
  bind_use(L); /* now, when memory may run out: later the key is there */
}
