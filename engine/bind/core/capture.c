/* capture.c -- watching and capturing steps, and fetching numbers later, for lua/capl/capture.lua and the trainer.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <stdio.h>

#include "capl/capture.h"
#include "capl/fetch.h"
#include "capl/tape.h"

#define WATCH_TYPE "capl.watch"
#define CAPTURE_TYPE "capl.captured"
#define FETCH_TYPE "capl.fetch"

enum { MOST_ARGS = 64 };

/* ---- watch ----------------------------------------------------------------------------------- */

static capl_watch **watch_box(lua_State *L) { return luaL_checkudata(L, 1, WATCH_TYPE); }

/* core.watch(device name) -> watch */
static int core_watch(lua_State *L)
{
  capl_device *device = bind_opt_device(L, 1);
  capl_watch **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  luaL_setmetatable(L, WATCH_TYPE);
  bind_check(L, capl_watch_new(device, box), "capture");
  return 1;
}

static int watch_gc(lua_State *L)
{
  capl_watch **box = watch_box(L);
  capl_watch_free(*box);
  *box = NULL;
  return 0;
}

/* watch:begin(list of argument tensors, strict) */
static int watch_begin(lua_State *L)
{
  capl_watch *w = *watch_box(L);
  capl_tensor *args[MOST_ARGS];
  int n = 0;
  bind_check_table(L, 2);
  for (size_t k = 1; k <= lua_objlen(L, 2); k++) {
    if (n == MOST_ARGS) return bind_fail(L, CAPL_EVALUE, "capture", NULL, "a step takes at most %d tensors", MOST_ARGS);
    lua_rawgeti(L, 2, (int)k);
    args[n++] = bind_check_tensor(L, -1);
    lua_pop(L, 1);
  }
  bind_use(L);
  bind_settle(L, NULL);
  bind_check(L, capl_watch_begin(w, args, n, bind_current.streams, bind_check_bool(L, 3)), "capture");
  return 0;
}

/* watch:finish() -> number of like steps in a row, this one included */
static int watch_finish(lua_State *L)
{
  capl_watch *w = *watch_box(L);
  bind_use(L);
  bind_settle(L, NULL);
  bind_check(L, capl_watch_end(w), "capture");
  lua_pushinteger(L, capl_watch_alike(w));
  return 1;
}

/* watch:pause(on): what is done meanwhile is not part of the step */
static int watch_pause(lua_State *L)
{
  capl_watch_pause(*watch_box(L), bind_check_bool(L, 2));
  return 0;
}

/* watch:cancel(): the step failed; what was watched is forgotten */
static int watch_cancel(lua_State *L)
{
  capl_watch_cancel(*watch_box(L));
  return 0;
}

/* watch:state() -> {steps, alike, calls, refused, differs, stale, difference or nil} */
static int watch_state(lua_State *L)
{
  const capl_watch *w = *watch_box(L);
  lua_createtable(L, 0, 7);
  lua_pushinteger(L, capl_watch_steps(w)), lua_setfield(L, -2, "steps");
  lua_pushinteger(L, capl_watch_alike(w)), lua_setfield(L, -2, "alike");
  lua_pushinteger(L, (lua_Integer)capl_watch_calls(w)), lua_setfield(L, -2, "calls");
  lua_pushboolean(L, capl_watch_refused(w)), lua_setfield(L, -2, "refused");
  lua_pushboolean(L, capl_watch_differs(w)), lua_setfield(L, -2, "differs");
  lua_pushboolean(L, capl_watch_stale(w)), lua_setfield(L, -2, "stale");
  if (*capl_watch_difference(w)) lua_pushstring(L, capl_watch_difference(w)), lua_setfield(L, -2, "difference");
  return 1;
}

static int watch_stale(lua_State *L)
{
  lua_pushboolean(L, capl_watch_stale(*watch_box(L)));
  return 1;
}

/* ---- capture --------------------------------------------------------------------------------- */

static capl_capture **capture_box(lua_State *L)
{
  capl_capture **box = luaL_checkudata(L, 1, CAPTURE_TYPE);
  if (!*box) bind_fail(L, CAPL_ESTATE, "capture", NULL, "the captured step was freed");
  return box;
}

/* nil and why: a device that refuses is no error of the recipe's. */
static int push_refusal(lua_State *L)
{
  lua_pushnil(L);
  lua_pushstring(L, capl_error_last()->message);
  return 2;
}

/* core.can_capture(device name) */
static int core_can_capture(lua_State *L)
{
  lua_pushboolean(L, capl_capture_possible(bind_opt_device(L, 1)));
  return 1;
}

/* core.capture_begin(device name) -> recording, or nil and why */
static int core_capture_begin(lua_State *L)
{
  capl_device *device = bind_opt_device(L, 1);
  bind_settle(L, NULL); /* what waits belongs to what was before */
  capl_capture **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  luaL_setmetatable(L, CAPTURE_TYPE);
  lua_gc(L, LUA_GCCOLLECT, 0); /* what old garbage does when it goes, such as waiting for the device, would void a
                               ** recording */
  lua_gc(L, LUA_GCCOLLECT, 0);
  return capl_capture_begin(device, box) == CAPL_OK ? 1 : push_refusal(L);
}

/* recording:finish() -> true, or nil and why */
static int capture_finish(lua_State *L)
{
  bind_settle(L, NULL);
  if (capl_capture_end(*capture_box(L)) != CAPL_OK) return push_refusal(L);
  lua_pushboolean(L, true);
  return 1;
}

/* recording:launch(offset): offset is added to the dropout offsets that were recorded */
static int capture_launch(lua_State *L)
{
  bind_use(L);
  bind_check(L, capl_capture_launch(*capture_box(L), bind_check_int(L, 2)), "capture");
  return 0;
}

/* recording:free(), also of one not finished */
static int capture_free(lua_State *L)
{
  capl_capture **box = luaL_checkudata(L, 1, CAPTURE_TYPE);
  capl_capture_free(*box);
  *box = NULL;
  return 0;
}

/* core.modes() -> "bf16 grad": what autocast computes in, and whether calls are recorded for gradients */
static int core_modes(lua_State *L)
{
  lua_pushfstring(L, "%s%s", capl_dtype_name(capl_autocast_get()), capl_grad_enabled() ? " grad" : "");
  return 1;
}

/* core.set_grad(x, gradient or nil): as it was before */
static int core_set_grad(lua_State *L)
{
  capl_tensor *t = bind_check_tensor(L, 1), *former = t->grad;
  t->grad = lua_isnoneornil(L, 2) ? NULL : capl_tensor_ref(bind_check_tensor(L, 2));
  capl_tensor_unref(former);
  return 0;
}

/* core.structure([changed]) -> how often parameters were exchanged or frozen so far; true: now again */
static int core_structure(lua_State *L)
{
  if (lua_toboolean(L, 1)) bind_current.structure++;
  lua_pushnumber(L, (lua_Number)bind_current.structure);
  return 1;
}

/* core.settle(): a batch norm that waits for an activation runs now */
static int core_settle(lua_State *L)
{
  bind_settle(L, NULL);
  return 0;
}

/* core.collect(): garbage goes, and free blocks of the default device with it */
static int core_collect(lua_State *L)
{
  lua_gc(L, LUA_GCCOLLECT, 0);
  lua_gc(L, LUA_GCCOLLECT, 0);
  capl_memory_trim(bind_opt_device(L, 0));
  return 0;
}

#define PRESSURE_KEY "capl.on_pressure"

/* core.on_pressure(fn): fn() lets go what it can when memory runs out, and returns whether it did */
static int core_on_pressure(lua_State *L)
{
  bind_check_function(L, 1);
  lua_settop(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, PRESSURE_KEY);
  return 0;
}

bool bind_release_captures(lua_State *L)
{
  if (!lua_checkstack(L, 4)) return false;
  int top = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, PRESSURE_KEY);
  bool any = lua_isfunction(L, -1) && lua_pcall(L, 0, 1, 0) == 0 && lua_toboolean(L, -1);
  lua_settop(L, top);
  return any;
}

/* ---- fetch ----------------------------------------------------------------------------------- */

static capl_fetch *fetch_box(lua_State *L) { return luaL_checkudata(L, 1, FETCH_TYPE); }

/* core.fetch(scalar tensor) -> fetch: its value can be asked for later without waiting now */
static int core_fetch(lua_State *L)
{
  capl_tensor *t = bind_check_tensor(L, 1);
  capl_fetch *fetch = lua_newuserdata(L, sizeof *fetch);
  *fetch = (capl_fetch){0};
  luaL_setmetatable(L, FETCH_TYPE);
  bind_check(L, capl_fetch_begin(t, fetch), "fetch");
  return 1;
}

/* fetch:ready() */
static int fetch_ready(lua_State *L)
{
  bool done;
  bind_check(L, capl_fetch_done(fetch_box(L), &done), "fetch");
  lua_pushboolean(L, done);
  return 1;
}

/* fetch:value() -> number; waits for it */
static int fetch_value(lua_State *L)
{
  double value;
  bind_check(L, capl_fetch_value(fetch_box(L), &value), "fetch");
  lua_pushnumber(L, value);
  return 1;
}

static int fetch_gc(lua_State *L)
{
  capl_fetch_drop(fetch_box(L));
  return 0;
}

/* core.pace(ahead[, device name]): waits until the device is at most that many calls of this behind */
static int core_pace(lua_State *L)
{
  bind_check(L, capl_pace(bind_opt_device(L, 2), (int)bind_check_int(L, 1)), NULL);
  return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void where(char *buf, size_t len)
{
  if (bind_current.L) bind_where(bind_current.L, buf, len);
}

static void make_type(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction gc)
{
  luaL_newmetatable(L, name);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, gc);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "captured step");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

void bind_open_capture(lua_State *L)
{
  static const luaL_Reg of_watch[] = {{"begin", watch_begin}, {"finish", watch_finish}, {"cancel", watch_cancel},
                                      {"pause", watch_pause}, {"state", watch_state}, {"stale", watch_stale},
                                      {NULL, NULL}};
  static const luaL_Reg of_capture[] = {
      {"finish", capture_finish}, {"launch", capture_launch}, {"free", capture_free}, {NULL, NULL}};
  static const luaL_Reg of_fetch[] = {{"ready", fetch_ready}, {"value", fetch_value}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"watch", core_watch}, {"can_capture", core_can_capture},
                                       {"capture_begin", core_capture_begin}, {"modes", core_modes},
                                       {"structure", core_structure}, {"set_grad", core_set_grad},
                                       {"on_pressure", core_on_pressure}, {"collect", core_collect},
                                       {"settle", core_settle}, {"fetch", core_fetch},
                                       {"pace", core_pace}, {NULL, NULL}};
  make_type(L, WATCH_TYPE, of_watch, watch_gc);
  make_type(L, CAPTURE_TYPE, of_capture, capture_free);
  make_type(L, FETCH_TYPE, of_fetch, fetch_gc);
  luaL_setfuncs(L, functions, 0);
  capl_watch_where_set(where);
}
