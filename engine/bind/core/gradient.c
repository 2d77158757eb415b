/* gradient.c -- a gradient rule written in Lua, for layers whose ranks compute together: core.with_gradient.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/locals.h"
#include "bind/core/core.h"

#include <stdlib.h>

#include "capl/tape.h"

enum { MAX_INPUTS = 31 };

typedef struct {
  int ref; /* of the function in the registry */
} lua_rule;

static void drop_rule(void *user)
{
  lua_rule *rule = user;
  if (bind_current.L) luaL_unref(bind_current.L, LUA_REGISTRYINDEX, rule->ref);
  free(rule);
}

/* The error on top as one of the engine's; pops it. */
static capl_status take_error(lua_State *L)
{
  if (lua_istable(L, -1)) lua_getfield(L, -1, "message"), lua_remove(L, -2);
  const char *message = lua_isstring(L, -1) ? lua_tostring(L, -1) : "the gradient rule of a layer failed";
  CAPL_FAIL(CAPL_ESTATE, "%s", message);
  lua_pop(L, 1);
  return CAPL_ESTATE;
}

/* Results from stack place first on; nil = no gradient for that input. */
static capl_status take_gradients(lua_State *L, int first, capl_tensor **dx, int n)
{
  for (int k = 0; k < n; k++) {
    capl_handle *h = bind_to_handle(L, first + k);
    if (h && h->t) dx[k] = capl_tensor_ref(h->t);
    else if (!lua_isnoneornil(L, first + k))
      return CAPL_FAIL(CAPL_EVALUE, "a gradient rule gave a %s, not a tensor", bind_typename(L, first + k));
  }
  return CAPL_OK;
}

static capl_status call_rule(void *user, capl_tensor *const *dy, int n_dy, capl_tensor **dx, int n_dx)
{
  lua_State *L = bind_current.L;
  const lua_rule *rule = user;
  int top = lua_gettop(L), scope;
  if (!lua_checkstack(L, CAPL_MAX_OUT + MAX_INPUTS + 8))
    return CAPL_FAIL(CAPL_ENOMEM, "no room on Lua's stack for a gradient rule");
  if (!bind_scope_begin(&scope)) return CAPL_FAIL(CAPL_ESTATE, "scopes are nested too deep");
  lua_rawgeti(L, LUA_REGISTRYINDEX, rule->ref);
  for (int k = 0; k < n_dy; k++) {
    if (dy[k]) bind_push_tensor(L, capl_tensor_ref(dy[k]));
    else lua_pushnil(L);
  }
  capl_status status = bind_pcall(L, n_dy, n_dx) ? take_error(L) : take_gradients(L, top + 1, dx, n_dx);
  lua_settop(L, top);
  bind_scope_end(scope);
  for (int k = 0; status != CAPL_OK && k < n_dx; k++) capl_tensor_unref(dx[k]), dx[k] = NULL;
  return status;
}

/* The tensors of the list at i into out -> how many. */
static int read_list(lua_State *L, int i, capl_tensor **out, int most)
{
  bind_check_table(L, i);
  int n = (int)lua_objlen(L, i);
  if (n < 1 || n > most) return bind_arg_error(L, i, "1 to %d tensors expected, got %d", most, n);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    out[k] = bind_check_tensor(L, -1);
    lua_pop(L, 1);
  }
  return n;
}

/* core.with_gradient(inputs, outputs, rule): the outputs, made from the inputs under capl.no_grad, become results of a
** function whose gradients are rule(dy of each output, nil = none wanted) -> dx of each input, nil = none. Nothing is
** done where nothing is recorded. */
static int core_with_gradient(lua_State *L)
{
  capl_tensor *in[MAX_INPUTS], *out[CAPL_MAX_OUT];
  int n_in = read_list(L, 1, in, MAX_INPUTS), n_out = read_list(L, 2, out, CAPL_MAX_OUT);
  bind_check_function(L, 3);
  bool wanted = false;
  for (int i = 0; i < n_in; i++) wanted |= in[i]->requires_grad || in[i]->node;
  if (!wanted || !capl_grad_enabled()) return 0;
  lua_rule *rule = malloc(sizeof *rule);
  if (!rule) return bind_fail(L, CAPL_ENOMEM, NULL, NULL, "no memory for a gradient rule");
  lua_pushvalue(L, 3);
  rule->ref = luaL_ref(L, LUA_REGISTRYINDEX);
  bind_use(L);
  bind_check(L, capl_gradient_record(in, n_in, out, n_out, call_rule, rule, drop_rule), NULL);
  return 0;
}

void bind_open_gradient(lua_State *L)
{
  lua_pushcfunction(L, core_with_gradient);
  lua_setfield(L, -2, "with_gradient");
}
