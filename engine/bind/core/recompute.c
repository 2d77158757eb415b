/* recompute.c -- gradient checkpointing for Lua: a function whose intermediate results are not kept for the backward
** pass, which calls it again.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/locals.h"
#include "bind/core/core.h"

#include <stdlib.h>
#include <string.h>

#include "capl/tape.h"

enum { MAX_ARGS = 31 };

/* A call to be made again. */
typedef struct {
  int ref;          /* in the registry: list of runner, fn and arguments; false where a tensor goes */
  int n_args;
  uint64_t streams; /* random streams opened before it */
  bool is_tensor[MAX_ARGS];
  struct {
    int ndim;
    int64_t size[CAPL_MAX_NDIM];
    capl_dtype dtype;
  } result[CAPL_MAX_OUT]; /* what the first call gave */
} call_again;

static void drop_call(void *user)
{
  call_again *c = user;
  if (bind_current.L) luaL_unref(bind_current.L, LUA_REGISTRYINDEX, c->ref);
  free(c);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Takes references of the tensors from stack place first on; drops what it has on failure. */
static capl_status take_results(lua_State *L, int first, capl_tensor **out, int n)
{
  for (int k = 0; k < n; k++) {
    capl_handle *h = bind_to_handle(L, first + k);
    if (h && h->t) {
      out[k] = capl_tensor_ref(h->t);
      continue;
    }
    while (k-- > 0) capl_tensor_unref(out[k]), out[k] = NULL;
    return CAPL_FAIL(CAPL_EVALUE, "checkpoint: its function returns tensors alone, got %s",
                     bind_typename(L, first + k + 1));
  }
  return CAPL_OK;
}

static void note_results(call_again *c, capl_tensor *const *out, int n)
{
  for (int k = 0; k < n; k++) {
    c->result[k].ndim = out[k]->ndim;
    c->result[k].dtype = out[k]->dtype;
    memcpy(c->result[k].size, out[k]->size, sizeof c->result[k].size);
  }
}

/* Gradients belong to results of the first call; others of the second one would get them wrongly. */
static capl_status check_results(const call_again *c, capl_tensor *const *out, int n)
{
  for (int k = 0; k < n; k++) {
    bool same = c->result[k].ndim == out[k]->ndim && c->result[k].dtype == out[k]->dtype;
    for (int d = 0; same && d < out[k]->ndim; d++) same = c->result[k].size[d] == out[k]->size[d];
    if (!same)
      return CAPL_FAIL(CAPL_ESTATE,
                       "checkpoint: result %d of its function has another shape or dtype when it is called again",
                       k + 1);
  }
  return CAPL_OK;
}

/* ---- the second run -------------------------------------------------------------------------- */

static capl_status status_of(const char *code)
{
  for (int s = CAPL_OK; s <= CAPL_EINTERNAL; s++)
    if (strcmp(capl_status_name((capl_status)s), code) == 0) return (capl_status)s;
  return CAPL_EVALUE;
}

/* The error on top as one of the engine's; pops it. */
static capl_status take_error(lua_State *L)
{
  capl_status status = status_of(capl_bind_error_code(L, -1));
  if (lua_istable(L, -1)) lua_getfield(L, -1, "message"), lua_remove(L, -2);
  const char *message = lua_isstring(L, -1) ? lua_tostring(L, -1) : "the function of a checkpoint failed";
  status = CAPL_FAIL(status == CAPL_OK ? CAPL_EVALUE : status, "%s", message);
  lua_pop(L, 1);
  return status;
}

/* Pushes runner, true, fn and the arguments -> how many come after the runner. */
static int push_call(lua_State *L, const call_again *c, capl_tensor *const *in)
{
  int next = 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, c->ref);
  int list = lua_gettop(L);
  lua_rawgeti(L, list, 1);
  lua_pushboolean(L, true);
  lua_rawgeti(L, list, 2);
  for (int i = 0; i < c->n_args; i++) {
    if (c->is_tensor[i]) bind_push_tensor(L, capl_tensor_ref(in[next++]));
    else lua_rawgeti(L, list, i + 3);
  }
  lua_remove(L, list);
  return 2 + c->n_args;
}

static capl_status call_now(void *user, capl_tensor *const *in, int n_in, capl_tensor **out, int n_out)
{
  lua_State *L = bind_current.L;
  call_again *c = user;
  (void)n_in;
  int top = lua_gettop(L), scope;
  if (!lua_checkstack(L, MAX_ARGS + 8)) return CAPL_FAIL(CAPL_ENOMEM, "no room on Lua's stack for a checkpoint");
  if (!bind_scope_begin(&scope)) return CAPL_FAIL(CAPL_ESTATE, "checkpoints and scopes are nested too deep");
  uint64_t streams = bind_current.streams;
  bind_current.streams = c->streams;
  int failed = bind_pcall(L, push_call(L, c, in), LUA_MULTRET);
  bind_current.streams = streams;
  capl_status status;
  if (failed)
    status = take_error(L);
  else if (lua_gettop(L) - top != n_out)
    status = CAPL_FAIL(CAPL_ESTATE, "checkpoint: its function gave %d results, then %d", n_out, lua_gettop(L) - top);
  else
    status = take_results(L, top + 1, out, n_out);
  if (status == CAPL_OK && (status = check_results(c, out, n_out)) != CAPL_OK)
    for (int k = 0; k < n_out; k++) capl_tensor_unref(out[k]), out[k] = NULL;
  lua_settop(L, top);
  bind_scope_end(scope);
  return status;
}

/* ---- the first run --------------------------------------------------------------------------- */

/* The call at stack places 1 (runner), 2 (fn), 3 … n_args + 2, to be made again. NULL without memory. */
static call_again *remember(lua_State *L, int n_args, uint64_t streams, capl_tensor **in, int *n_in)
{
  call_again *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->n_args = n_args;
  c->streams = streams;
  lua_createtable(L, n_args + 2, 0);
  for (int i = 1; i <= n_args + 2; i++) {
    capl_handle *h = bind_to_handle(L, i);
    if (h) c->is_tensor[i - 3] = true, in[(*n_in)++] = h->t, lua_pushboolean(L, false);
    else lua_pushvalue(L, i);
    lua_rawseti(L, -2, i);
  }
  c->ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return c;
}

/* f, … -> f(…). A batch norm among the results that waits for its activation runs now: whether it wants gradients is
** asked next. */
static int call_and_settle(lua_State *L)
{
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  for (int i = 1; i <= lua_gettop(L); i++) bind_to_handle(L, i);
  return lua_gettop(L);
}

/* Calls runner(false, fn, …), whose copies lie on top, without recording -> pcall's status; *wanted: something in it
** wants a gradient. */
static int run_first(lua_State *L, int n_args, bool *wanted)
{
  bool outer = capl_grad_note(true);
  capl_grad_set_enabled(false);
  lua_pushcfunction(L, call_and_settle);
  lua_insert(L, -(n_args + 4));
  int status = bind_pcall(L, n_args + 3, LUA_MULTRET);
  capl_grad_set_enabled(true);
  *wanted = capl_grad_note(false);
  (void)outer;
  return status;
}

static void drop_all(capl_tensor **list, int n)
{
  for (int k = 0; k < n; k++) capl_tensor_unref(list[k]);
}

/* Records the call whose results out are; makes them the tape's. */
static capl_status record(lua_State *L, int n_args, uint64_t streams, capl_tensor **out, int n_out)
{
  capl_tensor *in[MAX_ARGS + 2], *fresh[CAPL_MAX_OUT] = {NULL};
  int n_in = 0;
  capl_status status = CAPL_OK;
  for (int k = 0; k < n_out && status == CAPL_OK; k++) status = capl_tensor_detach(out[k], &fresh[k]);
  call_again *c = status == CAPL_OK ? remember(L, n_args, streams, in, &n_in) : NULL;
  if (status == CAPL_OK && !c) status = CAPL_FAIL(CAPL_ENOMEM, "no memory for a checkpoint");
  if (c) note_results(c, fresh, n_out);
  if (status == CAPL_OK) status = capl_segment_record(in, n_in, fresh, n_out, call_now, c, drop_call);
  if (status != CAPL_OK) return drop_all(fresh, n_out), status;
  drop_all(out, n_out);
  memcpy(out, fresh, (size_t)n_out * sizeof *out);
  return CAPL_OK;
}

static void check_arguments(lua_State *L, int n_args)
{
  if (n_args > MAX_ARGS)
    bind_fail(L, CAPL_EVALUE, "checkpoint", NULL, "at most %d arguments, got %d", MAX_ARGS, n_args);
  for (int i = 3; i <= n_args + 2; i++)
    if (bind_to_handle(L, i)) bind_check_tensor(L, i);
}

/* core.recompute(runner, fn, …) -> what runner(false, fn, …) gives, tensors alone. In the backward pass runner(true,
** fn, …) is called with the same arguments, random streams and autocast. Plain where nothing is recorded. */
static int core_recompute(lua_State *L)
{
  bind_check_function(L, 1);
  bind_check_function(L, 2);
  int n_args = lua_gettop(L) - 2, base = n_args + 2, scope;
  check_arguments(L, n_args);
  bind_use(L);
  luaL_checkstack(L, n_args + 16, "checkpoint");
  lua_pushvalue(L, 1);
  lua_pushboolean(L, false);
  for (int i = 2; i <= base; i++) lua_pushvalue(L, i);
  if (!capl_grad_enabled()) return lua_call(L, n_args + 2, LUA_MULTRET), lua_gettop(L) - base;
  uint64_t streams = bind_current.streams;
  capl_tensor *out[CAPL_MAX_OUT] = {NULL};
  bool wanted;
  if (!bind_scope_begin(&scope))
    return bind_fail(L, CAPL_ESTATE, "checkpoint", NULL, "checkpoints and scopes are nested too deep");
  if (run_first(L, n_args, &wanted) != 0) return bind_scope_end(scope), lua_error(L);
  int n_out = lua_gettop(L) - base;
  capl_status status = n_out >= 1 && n_out <= CAPL_MAX_OUT
    ? take_results(L, base + 1, out, n_out)
    : CAPL_FAIL(CAPL_EVALUE, "checkpoint: its function returns 1 to %d tensors, got %d values", CAPL_MAX_OUT, n_out);
  bind_scope_end(scope);
  if (status == CAPL_OK && wanted && (status = record(L, n_args, streams, out, n_out)) != CAPL_OK) drop_all(out, n_out);
  bind_check(L, status, "checkpoint");
  for (int k = 0; k < n_out; k++) bind_push_tensor(L, out[k]);
  return n_out;
}

void bind_open_recompute(lua_State *L)
{
  lua_pushcfunction(L, core_recompute);
  lua_setfield(L, -2, "recompute");
}
