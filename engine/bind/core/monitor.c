/* monitor.c -- the machine's metrics for Lua: core.monitor. What users call is lua/capl/train/callbacks/monitor.lua on
** top of it.
**
** A monitor is a userdata with methods; closing it, or collecting it, ends its thread.
** SPDX-License-Identifier: Apache-2.0
*/
#include "monitor/monitor.h"

#include <math.h>
#include <stdio.h>

#include "bind/core/core.h"
#include "capl/backend.h"

#define MONITOR_TYPE "capl.monitor"

typedef struct {
  monitor *m; /* NULL once closed */
} monitor_box;

static monitor *check_monitor(lua_State *L)
{
  monitor_box *box = luaL_checkudata(L, 1, MONITOR_TYPE);
  if (!box->m) bind_fail(L, CAPL_ESTATE, NULL, NULL, "this monitor is closed");
  return box->m;
}

/* ---- opening ---------------------------------------------------------------------------------- */

/* The GPU of the default device: none for a device without one. */
static capl_status gpu_of_device(lua_State *L, monitor_gpu **out)
{
  char bus_id[64];
  uint8_t uuid[16] = {0};
  const capl_device *device = bind_opt_device(L, 0);
  if (!device->backend->identity) return CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s is no GPU", device->name);
  CAPL_TRY(device->backend->identity(bus_id, sizeof bus_id, uuid));
  return monitor_gpu_open(bus_id, uuid, out);
}

/* The value at i: false for none, a number as the driver counts from 0, nil for that of the default device. */
static capl_status find_gpu(lua_State *L, int i, monitor_gpu **out)
{
  *out = NULL;
  if (lua_isboolean(L, i)) return CAPL_FAIL(CAPL_EUNSUPPORTED, "no GPU was asked for");
  return lua_isnoneornil(L, i) ? gpu_of_device(L, out) : monitor_gpu_at((int)lua_tointeger(L, i), out);
}

static int nil_and_error(lua_State *L)
{
  lua_pushnil(L);
  lua_pushstring(L, capl_error_last()->message);
  return 2;
}

/* core.monitor.open(every[, gpu[, pid[, hot[, root]]]]) -> monitor, and if it has no GPU, why; or nil and why not.
** every: seconds between two readings of its thread, 0: only :sample() takes them. gpu: see find_gpu. pid: false for no
** process, nil for this one. hot: degrees Celsius of the GPU above which it warns. root: for tests */
static int open_monitor(lua_State *L)
{
  char why[1024] = "";
  lua_settop(L, 5); /* what is pushed below is no argument */
  monitor_options o = {.every = luaL_checknumber(L, 1), .hot_c = luaL_optnumber(L, 4, 0)};
  bool process = !lua_isboolean(L, 3);
  pid_t pid = process ? (pid_t)luaL_optinteger(L, 3, 0) : 0;
  const char *root = lua_isnoneornil(L, 5) || lua_objlen(L, 5) == 0 ? "" : bind_check_path(L, 5, CAPL_MAY_READ);
  monitor_box *box = lua_newuserdata(L, sizeof *box);
  box->m = NULL;
  luaL_getmetatable(L, MONITOR_TYPE);
  lua_setmetatable(L, -2);
  if (find_gpu(L, 2, &o.gpu) != CAPL_OK) snprintf(why, sizeof why, "%s", capl_error_last()->message);
  if (process && monitor_process_open(pid, root, &o.process) != CAPL_OK)
    return monitor_gpu_close(o.gpu), nil_and_error(L);
  if (monitor_open(&o, &box->m) != CAPL_OK) return nil_and_error(L);
  lua_pushstring(L, *why ? why : NULL);
  return 2;
}

static int close_monitor(lua_State *L)
{
  monitor_box *box = luaL_checkudata(L, 1, MONITOR_TYPE);
  monitor *m = box->m;
  box->m = NULL;
  monitor_close(m);
  return 0;
}

/* core.monitor.gpus() -> how many GPUs the driver knows; if none, why */
static int count_gpus(lua_State *L)
{
  const char *why = NULL;
  int n = monitor_gpu_count(&why);
  lua_pushinteger(L, n);
  lua_pushstring(L, n ? NULL : why);
  return 2;
}

/* ---- metrics ---------------------------------------------------------------------------------- */

/* Sets table.key; what is not known stays absent. */
static void set_known(lua_State *L, const char *key, double value)
{
  if (isnan(value)) return;
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

static void set_metrics(lua_State *L, const double *value)
{
  for (int f = 0; f < MONITOR_COUNT; f++) set_known(L, monitor_name((monitor_metric)f), value[f]);
}

static void set_throttle(lua_State *L, uint64_t bits)
{
  char text[160];
  monitor_throttle_text(bits, text, sizeof text);
  if (!*text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, "throttle");
}

static void set_true(lua_State *L, const char *key, bool value)
{
  if (!value) return;
  lua_pushboolean(L, true);
  lua_setfield(L, -2, key);
}

/* monitor:sample() -> {power_w, …, throttle = reasons, lost, ended}, taken now */
static int sample(lua_State *L)
{
  monitor_reading r;
  monitor_sample(check_monitor(L), &r);
  lua_newtable(L);
  set_metrics(L, r.value);
  set_throttle(L, r.throttle);
  set_true(L, "lost", r.lost);
  set_true(L, "ended", r.ended);
  return 1;
}

/* monitor:window() -> number of a new window */
static int new_window(lua_State *L)
{
  int w = monitor_window(check_monitor(L));
  if (w < 0) return bind_fail(L, CAPL_ESTATE, NULL, NULL, "a monitor has %d windows at most", MONITOR_WINDOWS);
  lua_pushinteger(L, w);
  return 1;
}

/* monitor:take(window[, keep]) -> samples, {power_w = mean, …, energy_wh, energy_from, throttle}, {least}, {most},
** seconds. The window begins anew unless keep is true. */
static int take(lua_State *L)
{
  monitor_figures f;
  monitor *m = check_monitor(L);
  lua_Integer w = luaL_checkinteger(L, 2);
  luaL_argcheck(L, w >= 0 && w < MONITOR_WINDOWS, 2, "no window");
  monitor_take(m, (int)w, !lua_toboolean(L, 3), &f);
  lua_pushinteger(L, f.samples);
  lua_newtable(L);
  set_metrics(L, f.mean);
  set_throttle(L, f.throttle);
  set_known(L, "energy_wh", f.energy_j / 3600);
  if (!isnan(f.energy_j))
    lua_pushstring(L, f.energy_counted ? "counted" : "estimated"), lua_setfield(L, -2, "energy_from");
  lua_newtable(L), set_metrics(L, f.least);
  lua_newtable(L), set_metrics(L, f.most);
  lua_pushnumber(L, f.seconds);
  return 5;
}

/* monitor:event() -> the next event, or nil */
static int next_event(lua_State *L)
{
  char text[256];
  bool any = monitor_event(check_monitor(L), text, sizeof text);
  lua_pushstring(L, any ? text : NULL);
  return 1;
}

/* monitor:cost() -> processor seconds of its thread */
static int cost(lua_State *L)
{
  lua_pushnumber(L, monitor_cost(check_monitor(L)));
  return 1;
}

/* monitor:gpu() -> the GPU's name, nil without */
static int gpu(lua_State *L)
{
  lua_pushstring(L, monitor_gpu_of(check_monitor(L)));
  return 1;
}

/* core.monitor.figures -> {{name, what}} of all metrics, in order */
static void set_names(lua_State *L)
{
  static const char *const all[][2] = {
#define X(name, text) {#name, text},
    MONITOR_MAP(X)
#undef X
  };
  lua_createtable(L, MONITOR_COUNT, 0);
  for (int i = 0; i < MONITOR_COUNT; i++) {
    lua_createtable(L, 2, 0);
    for (int k = 0; k < 2; k++) lua_pushstring(L, all[i][k]), lua_rawseti(L, -2, k + 1);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "figures");
}

void bind_open_monitor(lua_State *L)
{
  static const luaL_Reg methods[] = {{"close", close_monitor}, {"sample", sample}, {"window", new_window},
                                     {"take", take}, {"event", next_event},    {"cost", cost},     {"gpu", gpu},
                                     {NULL, NULL}};
  static const luaL_Reg functions[] = {{"open", open_monitor}, {"gpus", count_gpus}, {NULL, NULL}};
  luaL_newmetatable(L, MONITOR_TYPE);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, close_monitor);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  set_names(L);
  lua_setfield(L, -2, "monitor");
}
