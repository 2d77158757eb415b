/* scope.c -- capl.scope, capl.no_grad, capl.autocast: run a function, put things back whatever happens.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/locals.h"
#include "bind/core/core.h"

enum { MAX_SCOPES = 64, MAX_RESULT_DEPTH = 8 };

/* heads[d] starts the list of handles made in scope d and not kept; scopes nest, 0 = none open. */
static capl_handle heads[MAX_SCOPES];
static int depth, base; /* base: those up to it wait, bind_scope_leave_all */

int bind_scope_leave_all(void)
{
  int former = base;
  base = depth;
  return former;
}

void bind_scope_return(int former) { base = former; }

void bind_scope_add(capl_handle *h)
{
  if (depth == base) return;
  capl_handle *head = &heads[depth];
  h->previous = head;
  h->next = head->next;
  if (h->next) h->next->previous = h;
  head->next = h;
}

/* Moves the tensors among the value at i, also inside tables, to the enclosing scope. */
static void keep_results(lua_State *L, int i, int level)
{
  capl_handle *h = bind_peek_handle(L, i);
  if (h && h->previous) {
    bind_handle_keep(h);
    bind_scope_add(h);
  }
  if (!lua_istable(L, i) || level == MAX_RESULT_DEPTH) return;
  luaL_checkstack(L, 4, "scope");
  lua_pushnil(L);
  while (lua_next(L, i)) {
    keep_results(L, lua_gettop(L), level + 1);
    lua_pop(L, 1);
  }
}

static void scope_end(int mine)
{
  while (heads[mine].next) bind_handle_release(heads[mine].next);
}

bool bind_scope_begin(int *mine)
{
  if (depth == MAX_SCOPES - 1) return false;
  *mine = ++depth;
  return true;
}

void bind_scope_end(int mine)
{
  depth = mine - 1;
  scope_end(mine);
}

/* core.scope(fn, …) -> fn's results; every other tensor made meanwhile is released, also on error. */
static int core_scope(lua_State *L)
{
  bind_check_function(L, 1);
  if (depth == MAX_SCOPES - 1)
    return bind_fail(L, CAPL_ESTATE, "scope", NULL, "scopes are nested %d deep", depth);
  int mine = ++depth;
  int status = bind_pcall(L, lua_gettop(L) - 1, LUA_MULTRET);
  depth = mine - 1;
  for (int i = 1; status == 0 && i <= lua_gettop(L); i++) keep_results(L, i, 0);
  scope_end(mine);
  return status ? lua_error(L) : lua_gettop(L);
}

/* core.no_grad(fn, …) -> fn's results, computed without recording */
static int core_no_grad(lua_State *L)
{
  bind_check_function(L, 1);
  bool former = capl_grad_set_enabled(false);
  int status = bind_pcall(L, lua_gettop(L) - 1, LUA_MULTRET);
  capl_grad_set_enabled(former);
  return status ? lua_error(L) : lua_gettop(L);
}

/* Whether f32 products of the default device may be rounded to TF32. Devices without that switch never do. */
static void set_tf32(lua_State *L, bool on)
{
  capl_device *device = bind_opt_device(L, 0);
  if (device->backend->set_switch) bind_check(L, capl_device_switch(device, "tf32", on), "autocast");
}

/* core.autocast(dtype, tf32, fn, …) -> fn's results; dtype: "bf16", "f16", or "f32" for off. tf32 holds on after fn,
** for its backward pass, until the next autocast; inside another autocast that one's comes back. */
static int core_autocast(lua_State *L)
{
  static int nested;
  static bool tf32_now;
  capl_dtype low = bind_check_dtype(L, 1);
  bool tf32 = bind_check_bool(L, 2), outer = tf32_now;
  bind_check_function(L, 3);
  set_tf32(L, tf32);
  tf32_now = tf32;
  capl_dtype former = capl_autocast_set(low);
  nested++;
  int status = bind_pcall(L, lua_gettop(L) - 3, LUA_MULTRET);
  nested--;
  capl_autocast_set(former);
  if (nested > 0) set_tf32(L, tf32_now = outer);
  return status ? lua_error(L) : lua_gettop(L) - 2;
}

void bind_open_scopes(lua_State *L)
{
  static const luaL_Reg functions[] = {
      {"scope", core_scope}, {"no_grad", core_no_grad}, {"autocast", core_autocast}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
