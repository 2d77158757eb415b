/* buckets.c -- gradients that ranks average, for lua/capl/dist/parallel.lua: core.buckets, core.tensor_hash.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind/core/core.h"
#include "capl/dist.h"

#define BUCKETS_TYPE "capl.buckets"

/* Those of a list of tensors that require a gradient; borrowed, in a userdata that is pushed. */
static capl_tensor **check_leaves(lua_State *L, int list, int *n)
{
  bind_check_table(L, list);
  size_t all = lua_objlen(L, list);
  capl_tensor **leaves = lua_newuserdata(L, (all + 1) * sizeof *leaves);
  *n = 0;
  for (size_t i = 1; i <= all; i++) {
    lua_rawgeti(L, list, (int)i);
    capl_tensor *t = bind_check_tensor(L, -1);
    if (t->requires_grad) leaves[(*n)++] = t;
    lua_pop(L, 1);
  }
  return leaves;
}

static capl_buckets *check_buckets(lua_State *L)
{
  capl_buckets **box = luaL_checkudata(L, 1, BUCKETS_TYPE);
  if (!*box) bind_fail(L, CAPL_ESTATE, NULL, NULL, "these buckets were freed");
  return *box;
}

/* core.buckets(list of tensors, bytes of the first piece, bytes of the others) -> buckets of those that are trained */
static int core_buckets(lua_State *L)
{
  int n;
  capl_tensor **leaves = check_leaves(L, 1, &n);
  capl_buckets_options options = {.first_bytes = (size_t)bind_check_number(L, 2),
                                  .bytes = (size_t)bind_check_number(L, 3)};
  capl_world *world = capl_world_get();
  if (!world)
    return bind_fail(L, CAPL_ESTATE, NULL, "capl.distributed() joins them", "this process has not joined its ranks");
  capl_buckets **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  luaL_setmetatable(L, BUCKETS_TYPE);
  bind_use(L);
  bind_check(L, capl_buckets_new(world, leaves, n, &options, box), NULL);
  return 1;
}

static int buckets_free(lua_State *L)
{
  capl_buckets **box = luaL_checkudata(L, 1, BUCKETS_TYPE);
  capl_buckets_free(*box);
  *box = NULL;
  return 0;
}

/* buckets:fit(list of tensors) -> whether they are of those that are trained now */
static int buckets_fit(lua_State *L)
{
  int n;
  capl_buckets *b = check_buckets(L);
  capl_tensor **leaves = check_leaves(L, 2, &n);
  lua_pushboolean(L, capl_buckets_fit(b, leaves, n));
  return 1;
}

/* buckets:begin(): the next backward pass is the last one before the step */
static int buckets_begin(lua_State *L)
{
  bind_check(L, capl_buckets_begin(check_buckets(L)), "backward_step");
  return 0;
}

/* buckets:finish() -> how many parameters had no gradient here: then buckets:settle is next */
static int buckets_finish(lua_State *L)
{
  capl_buckets *b = check_buckets(L);
  bind_use(L);
  bind_check(L, capl_buckets_finish(b), NULL);
  lua_pushinteger(L, capl_buckets_absent(b));
  return 1;
}

/* buckets:settle(look) */
static int buckets_settle(lua_State *L)
{
  bind_check(L, capl_buckets_settle(check_buckets(L), bind_check_bool(L, 2)), NULL);
  return 0;
}

static int buckets_fresh(lua_State *L)
{
  lua_pushboolean(L, capl_buckets_fresh(check_buckets(L)));
  return 1;
}

/* buckets:figures() -> {pieces, leaves, bytes, sent, early, order = positions from 1} */
static int buckets_figures(lua_State *L)
{
  capl_buckets_stats f = capl_buckets_stats_get(check_buckets(L));
  lua_createtable(L, 0, 6);
  lua_pushinteger(L, f.pieces), lua_setfield(L, -2, "pieces");
  lua_pushinteger(L, f.leaves), lua_setfield(L, -2, "leaves");
  lua_pushnumber(L, (lua_Number)f.bytes), lua_setfield(L, -2, "bytes");
  lua_pushnumber(L, (lua_Number)f.sent), lua_setfield(L, -2, "sent");
  lua_pushnumber(L, (lua_Number)f.early), lua_setfield(L, -2, "early");
  lua_createtable(L, f.n_order, 0);
  for (int i = 0; i < f.n_order; i++) {
    lua_pushinteger(L, f.order[i] + 1);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "order");
  return 1;
}

/* ---- hashes ------------------------------------------------------------------------------------ */

static uint64_t mixed(uint64_t h, uint64_t word)
{
  h = (h ^ word) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

static uint64_t hash_bytes(const unsigned char *p, size_t n)
{
  uint64_t h = n, word;
  for (; n >= sizeof word; n -= sizeof word, p += sizeof word) {
    memcpy(&word, p, sizeof word);
    h = mixed(h, word);
  }
  word = 0;
  if (n) memcpy(&word, p, n);
  return mixed(h, word);
}

/* core.tensor_hash(dense tensor) -> 16 hex digits that show whether two tensors of one layout hold the same bits */
static int core_tensor_hash(lua_State *L)
{
  capl_tensor *t = bind_on_host(L, 1);
  char text[17];
  if (!capl_tensor_is_dense(t)) return bind_arg_error(L, 1, "a tensor without gaps expected");
  const void *data = capl_tensor_data(t);
  snprintf(text, sizeof text, "%016llx", (unsigned long long)(data ? hash_bytes(data, capl_tensor_bytes(t)) : 0));
  lua_pushstring(L, text);
  return 1;
}

void bind_open_buckets(lua_State *L)
{
  static const luaL_Reg methods[] = {{"free", buckets_free},     {"fit", buckets_fit},       {"begin", buckets_begin},
                                     {"finish", buckets_finish}, {"settle", buckets_settle}, {"fresh", buckets_fresh},
                                     {"figures", buckets_figures}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"buckets", core_buckets}, {"tensor_hash", core_tensor_hash}, {NULL, NULL}};
  luaL_newmetatable(L, BUCKETS_TYPE);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, buckets_free);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "buckets");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
