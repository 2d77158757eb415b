/* schedule.c -- stages for Lua: lists of them for a new loader, and what a loader says of its own.
**
** What users call is augment.schedule (lua/capl/augment/schedule.lua), which has checked names and types and filled in
** what a stage leaves as it was. Stages are counted from 1 here.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/data.h"
#include "capl/schedule.h"

#include <string.h>

/* ---- to C ------------------------------------------------------------------------------------ */

#define STEPS_MOST 0x1p53

static void read_difficulty(lua_State *L, int i, capl_difficulty *d)
{
  static const bind_option_spec options[] =
  {{"length_lo", BIND_WHOLE(capl_difficulty, length_lo), .max = CAPL_LABEL_MAX},
                                             {"length_hi", BIND_WHOLE(capl_difficulty, length_hi),
                                              .max = CAPL_LABEL_MAX},
                                             {"charset", BIND_NUMBER(capl_difficulty, charset_share), .max = 1},
                                             {"noise", BIND_NUMBER(capl_difficulty, noise), .max = 1},
                                             {"warp", BIND_NUMBER(capl_difficulty, warp), .max = 1},
                                             BIND_END};
  *d = (capl_difficulty){.charset_share = 1, .noise = 1, .warp = 1};
  bind_read_options(L, "data.loader", i, options, d);
}

/* The table at i: {from = "epoch"|"step"|"metric", at =, ramp =, ramp_in_epochs =, shape =, augment =, difficulty =} */
static void read_stage(lua_State *L, int i, capl_stage *stage)
{
  static const char *const froms[] = {"epoch", "step", "metric", NULL}; /* ORDER capl_stage_from */
  static const char *const shapes[] = {"linear", "cosine", NULL};       /* ORDER capl_ramp_shape */
  _Static_assert(CAPL_FROM_METRIC == 2 && CAPL_RAMP_COSINE == 1, "orders match schedule.h");
  static const bind_option_spec options[] = {{"from", BIND_WORD(capl_stage, from), .words = froms},
                                             {"at", BIND_NUMBER(capl_stage, at), .max = STEPS_MOST},
                                             {"ramp", BIND_NUMBER(capl_stage, ramp), .max = STEPS_MOST},
                                             {"ramp_in_epochs", BIND_BOOL(capl_stage, ramp_in_epochs)},
                                             {"shape", BIND_WORD(capl_stage, shape), .words = shapes},
                                             {"augment", BIND_OTHER},
                                             {"difficulty", BIND_OTHER},
                                             BIND_END};
  *stage = (capl_stage){.at = 1};
  bind_read_options(L, "data.loader", i, options, stage);
  stage->augments = bind_option(L, i, "augment");
  if (stage->augments) stage->augment = data_read_augment(L, lua_gettop(L));
  stage->eases = bind_option(L, i, "difficulty");
  if (stage->eases) read_difficulty(L, lua_gettop(L), &stage->difficulty);
  lua_pop(L, 2);
}

const capl_stage *data_option_stages(lua_State *L, int i, const char *key, int *n)
{
  *n = 0;
  if (!bind_option(L, i, key)) return NULL;
  int list = lua_gettop(L);
  bind_check_table(L, list);
  *n = (int)lua_objlen(L, list);
  capl_stage *stages = lua_newuserdata(L, ((size_t)*n + 1) * sizeof *stages);
  for (int k = 0; k < *n; k++) {
    lua_rawgeti(L, list, k + 1);
    read_stage(L, lua_gettop(L), &stages[k]);
    lua_pop(L, 1);
  }
  return stages;
}

/* What another loader makes at a step, or when a stage of it has come in: {loader =, step = | stage =, plain = true:
** without its augmentation}. */
bool data_option_like(lua_State *L, int i, const char *key, capl_stage *stage)
{
  typedef struct {
    uint64_t step;
    int stage;
    bool plain;
  } given;
  static const bind_option_spec options[] = {{"loader", BIND_OTHER},
                                             {"step", BIND_WHOLE(given, step), .max = STEPS_MOST},
                                             {"stage", BIND_WHOLE(given, stage), .max = CAPL_STAGES_MAX},
                                             {"plain", BIND_BOOL(given, plain)},
                                             BIND_END};
  if (!bind_option(L, i, key)) return lua_pop(L, 1), false;
  int at = lua_gettop(L);
  capl_stage_values v;
  given o = {0};
  bind_read_options(L, "data.loader", at, options, &o);
  lua_getfield(L, at, "loader");
  const capl_loader *loader = data_check_box(L, lua_gettop(L), LOADER_TYPE);
  if (o.stage > 0) bind_check(L, capl_loader_stage_values(loader, o.stage - 1, &v), NULL);
  else bind_check(L, capl_loader_stage_at(loader, o.step, &v), NULL);
  *stage = (capl_stage){.from = CAPL_FROM_EPOCH, .at = 1, .augments = v.augments && !o.plain, .augment = v.augment,
                        .eases = v.eases, .difficulty = v.difficulty};
  lua_pop(L, 2);
  return true;
}

/* ---- from C ---------------------------------------------------------------------------------- */

static void push_pair(lua_State *L, double lo, double hi)
{
  lua_createtable(L, 2, 0);
  lua_pushnumber(L, lo);
  lua_rawseti(L, -2, 1);
  lua_pushnumber(L, hi);
  lua_rawseti(L, -2, 2);
}

static void set_pair(lua_State *L, const char *key, double lo, double hi)
{
  push_pair(L, lo, hi);
  lua_setfield(L, -2, key);
}

/* {NAME = {lo, hi, probability}} of the ranges that are on, lo = hi for a single number. */
static void push_augment(lua_State *L, const capl_augment_options *a)
{
  lua_newtable(L);
  capl_knob knob;
  for (int i = 0; capl_augment_knob(i, &knob); i++) {
    const char *at = (const char *)a + knob.offset;
    capl_range r = {.lo = *(const float *)at, .hi = *(const float *)at};
    if (knob.kind == CAPL_KNOB_RANGE) r = *(const capl_range *)at;
    if (r.lo == 0 && r.hi == 0) continue;
    push_pair(L, (double)r.lo, (double)r.hi);
    lua_pushnumber(L, knob.op < 0 ? 1 : 1 - (double)a->skip[knob.op]);
    lua_rawseti(L, -2, 3);
    lua_setfield(L, -2, knob.name);
  }
}

static void push_difficulty(lua_State *L, const capl_difficulty *d)
{
  lua_newtable(L);
  set_pair(L, "length", d->length_lo, d->length_hi);
  set_pair(L, "charset", (double)d->charset_share, (double)d->charset_share);
  set_pair(L, "noise", (double)d->noise, (double)d->noise);
  set_pair(L, "warp", (double)d->warp, (double)d->warp);
}

/* {stage =, share = of its ramp, augment = {NAME = {lo, hi, p}}, difficulty = {NAME = {lo, hi}} if any stage has
** one} */
static void push_values(lua_State *L, const capl_stage_values *v)
{
  static const capl_augment_options none = {0};
  lua_createtable(L, 0, 4);
  lua_pushinteger(L, v->stage + 1);
  lua_setfield(L, -2, "stage");
  lua_pushnumber(L, v->share);
  lua_setfield(L, -2, "share");
  push_augment(L, v->augments ? &v->augment : &none);
  lua_setfield(L, -2, "augment");
  if (!v->eases) return;
  push_difficulty(L, &v->difficulty);
  lua_setfield(L, -2, "difficulty");
}

/* loader:stage_at(step) -> what the batch after so many steps is made of */
static int loader_stage_at(lua_State *L)
{
  const capl_loader *loader = data_check_box(L, 1, LOADER_TYPE);
  int64_t step = bind_check_int(L, 2);
  capl_stage_values v;
  if (step < 0) return bind_arg_error(L, 2, "a step from 0 on, got %lld", (long long)step);
  bind_check(L, capl_loader_stage_at(loader, (uint64_t)step, &v), NULL);
  push_values(L, &v);
  return 1;
}

/* loader:stage_values(stage) -> likewise, of a stage that has come in fully */
static int loader_stage_values(lua_State *L)
{
  capl_stage_values v;
  bind_check(L, capl_loader_stage_values(data_check_box(L, 1, LOADER_TYPE), (int)bind_check_int(L, 2) - 1, &v), NULL);
  push_values(L, &v);
  return 1;
}

/* loader:step() -> steps before the batch that comes next, the stage (from 1) of the one before it */
static int loader_step(lua_State *L)
{
  const capl_loader *loader = data_check_box(L, 1, LOADER_TYPE);
  uint64_t step = capl_loader_step(loader);
  capl_stage_values v;
  lua_pushnumber(L, (lua_Number)step);
  if (capl_loader_stages(loader) == 0) return 1;
  bind_check(L, capl_loader_stage_at(loader, step ? step - 1 : 0, &v), NULL);
  lua_pushinteger(L, v.stage + 1);
  return 2;
}

/* loader:reached(stage) -> step at which it begins */
static int loader_reached(lua_State *L)
{
  capl_loader *loader = data_check_box(L, 1, LOADER_TYPE);
  uint64_t step;
  bind_check(L, capl_loader_reached(loader, (int)bind_check_int(L, 2) - 1, &step), NULL);
  return lua_pushnumber(L, (lua_Number)step), 1;
}

/* loader:since() -> list of the steps at which the stages begin, false for one that waits; loader:set_since(list) */
static int loader_since(lua_State *L)
{
  const capl_loader *loader = data_check_box(L, 1, LOADER_TYPE);
  uint64_t since[CAPL_STAGES_MAX];
  capl_loader_since(loader, since);
  lua_newtable(L);
  for (int i = 0; i < capl_loader_stages(loader); i++) {
    if (since[i] == UINT64_MAX) lua_pushboolean(L, false);
    else lua_pushnumber(L, (lua_Number)since[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int loader_set_since(lua_State *L)
{
  capl_loader *loader = data_check_box(L, 1, LOADER_TYPE);
  uint64_t since[CAPL_STAGES_MAX];
  bind_check_table(L, 2);
  int n = capl_loader_stages(loader);
  if ((int)lua_objlen(L, 2) != n)
    return bind_arg_error(L, 2, "a place for each of %d stages, got %d", n, (int)lua_objlen(L, 2));
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    double at = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    if (lua_type(L, -1) == LUA_TNUMBER && !(at >= 0 && at <= STEPS_MOST))
      return bind_arg_error(L, 2, "steps from 0 on, got %g", at);
    since[i] = at < 0 ? UINT64_MAX : (uint64_t)at;
    lua_pop(L, 1);
  }
  bind_check(L, capl_loader_since_set(loader, since), NULL);
  return 0;
}

/* data.knobs() -> list of {name =, idle = {lo, hi} where it changes nothing} */
static int data_knobs(lua_State *L)
{
  capl_knob knob;
  lua_newtable(L);
  for (int i = 0; capl_augment_knob(i, &knob); i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, knob.name);
    lua_setfield(L, -2, "name");
    set_pair(L, "idle", (double)knob.idle.lo, (double)knob.idle.hi);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* data.check_augment(options) raises what a loader would */
static int data_check_augment(lua_State *L)
{
  bind_check_table(L, 1);
  lua_settop(L, 1);
  data_read_augment(L, 1);
  return 0;
}

void bind_open_schedule(lua_State *L)
{
  static const luaL_Reg methods[] = {{"stage_at", loader_stage_at}, {"stage_values", loader_stage_values},
                                     {"step", loader_step}, {"reached", loader_reached},   {"since", loader_since},
                                     {"set_since", loader_set_since}, {NULL, NULL}};
  lua_pushcfunction(L, data_knobs);
  lua_setfield(L, -2, "knobs");
  lua_pushcfunction(L, data_check_augment);
  lua_setfield(L, -2, "check_augment");
  luaL_getmetatable(L, LOADER_TYPE);
  lua_getfield(L, -1, "__index");
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 2);
}
