/* dist.c -- the ranks that train together, for Lua: core.dist. What users call is lua/capl/dist/world.lua on top of it.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind/core/core.h"
#include "capl/dist.h"

#define WORK_TYPE "capl.work"

/* What a work has failed with that nobody waited for: the next call raises it, for the ranks do not hold the same any
** more. */
static struct {
  capl_status status;
  char message[1024], hint[512];
} unheard;

static void raise_unheard(lua_State *L)
{
  capl_status status = unheard.status;
  unheard.status = CAPL_OK;
  if (status == CAPL_OK) return;
  CAPL_FAIL(status, "%s", unheard.message);
  if (*unheard.hint) capl_error_hint("%s", unheard.hint);
  bind_check(L, status, NULL);
}

static capl_world *check_world(lua_State *L)
{
  capl_world *world = capl_world_get();
  raise_unheard(L);
  if (!world) bind_fail(L, CAPL_ESTATE, NULL, "capl.distributed() joins them", "this process has not joined its ranks");
  return world;
}

/* ---- joining ------------------------------------------------------------------------------------ */

static void set_integer(lua_State *L, const char *key, int value)
{
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

static void set_text(lua_State *L, const char *key, const char *value)
{
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

static const char *const launches[] = {"one", "local", "mpi", "torchrun"};

static void push_place(lua_State *L, const capl_place *place)
{
  lua_newtable(L);
  set_integer(L, "rank", place->rank);
  set_integer(L, "size", place->size);
  set_integer(L, "local_rank", place->local_rank);
  set_integer(L, "local_size", place->local_size);
  set_text(L, "host", place->host);
  set_text(L, "launch", launches[place->launch]);
}

/* dist.place() -> {rank, size, local_rank, local_size, host, launch} as the environment says */
static int dist_place(lua_State *L)
{
  capl_place place;
  bind_check(L, capl_place_detect(&place), NULL);
  push_place(L, &place);
  return 1;
}

/* dist.join(device, watchdog seconds or 0, recipe or nil) -> place, name of the backend, list of every rank's host */
/* A process alone has no use for a device here, and must not start a GPU that its recipe has not chosen yet. */
static capl_device *device_to_join(lua_State *L)
{
  capl_place place;
  bool named = !lua_isnoneornil(L, 1) || getenv("CAPL_COLLECTIVES");
  if (!named && capl_place_detect(&place) == CAPL_OK && place.size == 1) return NULL;
  return bind_opt_device(L, 1);
}

static int dist_join(lua_State *L)
{
  capl_world *world = capl_world_get();
  capl_world_options options = {.device = device_to_join(L), .watchdog = luaL_optnumber(L, 2, 0),
                                .recipe = luaL_optstring(L, 3, NULL)};
  if (!world) bind_check(L, capl_world_join(&options, &world), NULL);
  const capl_place *place = capl_world_place(world);
  push_place(L, place);
  lua_pushstring(L, capl_world_backend(world));
  lua_createtable(L, place->size, 0);
  for (int r = 0; r < place->size; r++) {
    lua_pushstring(L, capl_world_host(world, r));
    lua_rawseti(L, -2, r + 1);
  }
  return 3;
}

/* dist.mpi() -> what moves tensors between processors here; or nil, why there is nothing, and what to do */
static int dist_mpi(lua_State *L)
{
  const char *text;
  if (capl_world_mpi(&text) == CAPL_OK) return lua_pushstring(L, text), 1;
  lua_pushnil(L);
  lua_pushstring(L, capl_error_last()->message);
  lua_pushstring(L, capl_error_last()->hint);
  return 3;
}

static int dist_joined(lua_State *L)
{
  lua_pushboolean(L, capl_world_get() != NULL);
  return 1;
}

/* ---- works -------------------------------------------------------------------------------------- */

typedef struct {
  capl_work *work; /* NULL once waited for */
} work_box;

/* The value that stands for the result at index is given by work:wait(). */
static work_box *push_work(lua_State *L, int result)
{
  lua_pushvalue(L, result);
  work_box *box = lua_newuserdata(L, sizeof *box);
  box->work = NULL;
  luaL_setmetatable(L, WORK_TYPE);
  lua_insert(L, -2);
  lua_createtable(L, 1, 0);
  lua_insert(L, -2);
  lua_rawseti(L, -2, 1);
  lua_setfenv(L, -2);
  return box;
}

/* Works of a world that was left are not waited for: their ranks are gone. */
static capl_status finish(work_box *box)
{
  capl_work *work = box->work;
  box->work = NULL;
  return work && capl_world_get() ? capl_work_wait(work) : CAPL_OK;
}

/* work:wait() -> the tensor, once it is there */
static int work_wait(lua_State *L)
{
  bind_check(L, finish(luaL_checkudata(L, 1, WORK_TYPE)), NULL);
  lua_getfenv(L, 1);
  lua_rawgeti(L, -1, 1);
  return 1;
}

/* work:done() -> whether it is there, without waiting */
static int work_done(lua_State *L)
{
  bool done = true;
  work_box *box = luaL_checkudata(L, 1, WORK_TYPE);
  if (box->work && capl_world_get()) bind_check(L, capl_work_done(box->work, &done), NULL);
  lua_pushboolean(L, done);
  return 1;
}

static int work_gc(lua_State *L)
{
  capl_status status = finish(luaL_checkudata(L, 1, WORK_TYPE));
  if (status == CAPL_OK || unheard.status != CAPL_OK) return 0; /* an error here would be raised anywhere */
  unheard.status = status;
  snprintf(unheard.message, sizeof unheard.message, "%s", capl_error_last()->message);
  snprintf(unheard.hint, sizeof unheard.hint, "%s", capl_error_last()->hint);
  return 0;
}

/* ---- collectives -------------------------------------------------------------------------------- */

/* A tensor that is written into. */
static capl_tensor *check_target(lua_State *L, int i)
{
  capl_tensor *t = bind_check_tensor(L, i);
  bind_fuse_refuse(L);
  if (capl_grad_enabled() && (t->requires_grad || t->node))
    bind_fail(L, CAPL_ESTATE, NULL, "wrap it in capl.no_grad(function() … end), or give x:detach()",
              "a tensor that takes part in a gradient cannot be changed in place");
  return t;
}

static capl_reduction check_reduction(lua_State *L, int i)
{
  static const char *const names[] = {"sum", "mean", "max", NULL};
  return (capl_reduction)luaL_checkoption(L, i, "sum", names);
}

/* Each has what it gives on top of the stack, and async at i: gives that, or the work that will. */
#define RUN(L, i, call)                                           \
  do {                                                            \
    bool async = lua_toboolean(L, i);                             \
    work_box *box = async ? push_work(L, lua_gettop(L)) : NULL;   \
    capl_work **work = async ? &box->work : NULL;                 \
    bind_check(L, call, NULL);                                    \
    return 1;                                                     \
  } while (0)

/* dist.all_reduce(t, reduction, async) */
static int dist_all_reduce(lua_State *L)
{
  capl_world *world = check_world(L);
  capl_tensor *t = check_target(L, 1);
  capl_reduction reduction = check_reduction(L, 2);
  lua_settop(L, 3);
  lua_pushvalue(L, 1);
  RUN(L, 3, capl_all_reduce(world, t, reduction, work));
}

/* dist.broadcast(t, root, async) */
static int dist_broadcast(lua_State *L)
{
  capl_world *world = check_world(L);
  capl_tensor *t = check_target(L, 1);
  int root = (int)bind_check_int(L, 2);
  lua_settop(L, 3);
  lua_pushvalue(L, 1);
  RUN(L, 3, capl_broadcast(world, t, root, work));
}

/* A fresh tensor of ranks parts like part, each in its memory order, one behind the other. */
static capl_status new_whole(const capl_tensor *part, int64_t ranks, capl_tensor **out)
{
  int64_t size[CAPL_MAX_NDIM], stride[CAPL_MAX_NDIM], n = capl_tensor_numel(part), all = n * ranks;
  OWNED *flat = NULL;
  if (part->ndim == CAPL_MAX_NDIM)
    return CAPL_FAIL(CAPL_ESHAPE, "a tensor of %d dims has no room for one more, that of the ranks", CAPL_MAX_NDIM);
  size[0] = ranks, stride[0] = n;
  for (int d = 0; d < part->ndim; d++) size[d + 1] = part->size[d], stride[d + 1] = part->stride[d];
  CAPL_TRY(capl_tensor_new(part->device, part->dtype, 1, &all, CAPL_ROW, &flat));
  return capl_tensor_alias(flat, part->ndim + 1, size, stride, 0, out);
}

/* dist.all_gather(t, async) */
static int dist_all_gather(lua_State *L)
{
  capl_world *world = check_world(L);
  capl_tensor *t = bind_check_tensor(L, 1), *out;
  lua_settop(L, 2);
  bind_check(L, new_whole(t, capl_world_place(world)->size, &out), "all_gather");
  bind_push_tensor(L, out);
  RUN(L, 2, capl_all_gather(world, t, out, work));
}

/* A fresh tensor like one of whole's parts. */
static capl_status new_part(const capl_tensor *whole, capl_tensor **out)
{
  OWNED *flat = NULL;
  if (whole->ndim == 0) return CAPL_FAIL(CAPL_ESHAPE, "a scalar has no parts for ranks");
  int64_t n = whole->size[0] ? capl_tensor_numel(whole) / whole->size[0] : 0;
  CAPL_TRY(capl_tensor_new(whole->device, whole->dtype, 1, &n, CAPL_ROW, &flat));
  return capl_tensor_alias(flat, whole->ndim - 1, whole->size + 1, whole->stride + 1, 0, out);
}

/* dist.reduce_scatter(t, reduction, async) */
static int dist_reduce_scatter(lua_State *L)
{
  capl_world *world = check_world(L);
  capl_tensor *t = bind_check_tensor(L, 1), *out;
  capl_reduction reduction = check_reduction(L, 2);
  lua_settop(L, 3);
  bind_check(L, new_part(t, &out), "reduce_scatter");
  bind_push_tensor(L, out);
  RUN(L, 3, capl_reduce_scatter(world, t, out, reduction, work));
}

/* dist.exchange(t, peer, async) */
static int dist_exchange(lua_State *L)
{
  capl_world *world = check_world(L);
  capl_tensor *t = bind_check_tensor(L, 1), *out;
  int peer = (int)bind_check_int(L, 2);
  lua_settop(L, 3);
  bind_check(L, capl_tensor_new_like(t, &out), "exchange");
  bind_push_tensor(L, out);
  RUN(L, 3, capl_exchange(world, peer, t, out, work));
}

static int dist_barrier(lua_State *L)
{
  bind_check(L, capl_barrier(check_world(L)), NULL);
  return 0;
}

/* dist.traffic() -> calls, bytes, busy, waited */
static int dist_traffic(lua_State *L)
{
  capl_traffic t;
  bind_check(L, capl_world_traffic(check_world(L), &t), NULL);
  lua_pushnumber(L, (lua_Number)t.calls);
  lua_pushnumber(L, (lua_Number)t.bytes);
  lua_pushnumber(L, t.busy);
  lua_pushnumber(L, t.waited);
  return 4;
}

/* ---- messages ----------------------------------------------------------------------------------- */

static void free_messages(capl_messages *m) { capl_messages_free(m); }

/* dist.tell(text) -> list of every rank's text */
static int dist_tell(lua_State *L)
{
  capl_world *world = check_world(L);
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  __attribute__((cleanup(free_messages))) capl_messages all = {0};
  bind_check(L, capl_world_all_gather_bytes(world, text, n, &all), NULL);
  lua_createtable(L, all.count, 0);
  for (int r = 0; r < all.count; r++) {
    lua_pushlstring(L, all.data[r], all.len[r]);
    lua_rawseti(L, -2, r + 1);
  }
  return 1;
}

static int dist_step(lua_State *L)
{
  capl_world_step(check_world(L), bind_check_int(L, 1));
  return 0;
}

/* dist.watchdog(seconds) */
static int dist_watchdog(lua_State *L)
{
  capl_world_watchdog(check_world(L), luaL_checknumber(L, 1));
  return 0;
}

/* dist.hold(reason or nil) */
static int dist_hold(lua_State *L)
{
  capl_world_hold(check_world(L), luaL_optstring(L, 1, NULL));
  return 0;
}

/* ---- the table ---------------------------------------------------------------------------------- */

/* A state of the Lua module capl.so ends without anybody calling capl_world_leave; the program does so itself,
** before. */
static int leave_at_end(lua_State *L)
{
  (void)L;
  capl_world_leave(0);
  return 0;
}

static void watch_end_of_state(lua_State *L)
{
  lua_newuserdata(L, 1);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, leave_at_end);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, "capl.world");
}

void bind_open_dist(lua_State *L)
{
  static const luaL_Reg functions[] = {
      {"place", dist_place},           {"join", dist_join},         {"joined", dist_joined},         {"mpi", dist_mpi},
      {"all_reduce", dist_all_reduce}, {"broadcast", dist_broadcast}, {"all_gather", dist_all_gather},
      {"reduce_scatter", dist_reduce_scatter}, {"exchange", dist_exchange}, {"barrier", dist_barrier},
      {"traffic", dist_traffic},       {"tell", dist_tell},         {"step", dist_step},
      {"hold", dist_hold},             {"watchdog", dist_watchdog},             {NULL, NULL}};
  static const luaL_Reg methods[] = {{"wait", work_wait}, {"done", work_done}, {NULL, NULL}};
  luaL_newmetatable(L, WORK_TYPE);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, work_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "work");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
  watch_end_of_state(L);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  set_integer(L, "STEPS_OVER", CAPL_STEPS_OVER);
  lua_setfield(L, -2, "dist");
}
