/* tensor.c -- the Lua tensor: a handle on an engine tensor, its properties, and what works in place.
**
** A handle is a few words to Lua's collector, whatever its tensor weighs. So the binding watches the bytes:
** when they have grown by more than max(256 MB, half of what the last collection left), it collects. Without recording
** only Lua holds what a layer has read, so there it collects much earlier where that is cheap.
** Arithmetic and shape methods are written in Lua (lua/capl/tensor.lua) on top of the ops.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <string.h>

#include "base/names.h"

enum { COLLECT_FLOOR_MB = 256, STEP_SLACK_MB = 16, STEP_HEAP_KB = 16 << 10 };
enum { NO_GRAD_SLACK_MB = 16, PER_HEAP_BYTE = 16 };
static const size_t MB = (size_t)1 << 20;

/* ---- handles --------------------------------------------------------------------------------- */

capl_handle *bind_peek_handle(lua_State *L, int i) { return luaL_testudata(L, i, TENSOR_TYPE); }

capl_handle *bind_to_handle(lua_State *L, int i)
{
  capl_handle *h = bind_peek_handle(L, i);
  if (h && (h->later || bind_is_waiting())) bind_settle(L, h);
  return h;
}

void bind_handle_keep(capl_handle *h)
{
  if (h->previous) h->previous->next = h->next;
  if (h->next) h->next->previous = h->previous;
  h->previous = h->next = NULL;
}

void bind_handle_release(capl_handle *h)
{
  capl_tensor *t = h->t;
  h->t = NULL;
  bind_handle_keep(h);
  capl_tensor_unref(t);
  if (h->later) bind_later_drop(h);
}

void bind_push_tensor(lua_State *L, capl_tensor *t)
{
  OWNED *guard = t;
  capl_handle *h = lua_newuserdata(L, sizeof *h);
  *h = (capl_handle){0};
  luaL_setmetatable(L, TENSOR_TYPE);
  h->t = guard;
  guard = NULL;
  bind_scope_add(h);
  bind_collect_if_due(L);
}

/* ---- collecting ------------------------------------------------------------------------------ */

static size_t live_after_collect;

static size_t live_bytes(void)
{
  capl_memory_stats m;
  if (!bind_current.device || !bind_current.device->backend->arithmetic) return 0;
  capl_memory_stats_get(bind_current.device, &m);
  return m.live;
}

static void collect(lua_State *L)
{
  lua_gc(L, LUA_GCCOLLECT, 0);
  live_after_collect = live_bytes();
}

static size_t greater(size_t a, size_t b) { return a > b ? a : b; }

/* By how much the bytes may grow before Lua collects. A collection takes about 0.4 ms per MB of Lua's heap. On a CPU
** layers take 10 ms and more to put out 16 MB, so that 16 bytes per byte of the heap cost a few percent at most; a GPU
** is too fast for that. */
static size_t collect_slack(lua_State *L)
{
  size_t slack = greater(COLLECT_FLOOR_MB * MB, live_after_collect / 2);
  if (capl_grad_enabled() || !bind_current.device || !bind_current.device->backend->host_memory) return slack;
  size_t heap = (size_t)lua_gc(L, LUA_GCCOUNT, 0) << 10;
  size_t cheap = greater(NO_GRAD_SLACK_MB * MB, PER_HEAP_BYTE * heap);
  return cheap < slack ? cheap : slack;
}

void bind_collect_if_due(lua_State *L)
{
  size_t live = live_bytes();
  bind_use(L);
  if (live < live_after_collect && !capl_grad_enabled()) live_after_collect = live;
  if (live > live_after_collect + collect_slack(L)) collect(L);
}

/* core.step_end(): the graph of a step is gone; what is still large now may be held by garbage alone. */
static int core_step_end(lua_State *L)
{
  size_t live = live_bytes();
  if (live < live_after_collect) live_after_collect = live;
  if (live > live_after_collect + STEP_SLACK_MB * MB && lua_gc(L, LUA_GCCOUNT, 0) < STEP_HEAP_KB) collect(L);
  return 0;
}

/* The engine asks for this before it gives up on an allocation. */
static bool on_memory_pressure(void *user)
{
  (void)user;
  if (!bind_current.L) return false;
  size_t before = live_bytes();
  collect(bind_current.L);
  bool recordings = bind_release_captures(bind_current.L);
  return recordings || live_after_collect < before;
}

/* ---- properties ------------------------------------------------------------------------------ */

static void push_shape(lua_State *L, const capl_tensor *t)
{
  lua_createtable(L, t->ndim, 0);
  for (int i = 0; i < t->ndim; i++) {
    lua_pushnumber(L, (lua_Number)t->size[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_dtype(lua_State *L, const capl_tensor *t) { lua_pushstring(L, capl_dtype_name(t->dtype)); }

static void push_device(lua_State *L, const capl_tensor *t) { lua_pushstring(L, t->device->name); }

static void push_ndim(lua_State *L, const capl_tensor *t) { lua_pushinteger(L, t->ndim); }

static void push_requires_grad(lua_State *L, const capl_tensor *t)
{
  lua_pushboolean(L, t->requires_grad || t->node);
}

static void push_is_leaf(lua_State *L, const capl_tensor *t) { lua_pushboolean(L, t->node == NULL); }

static void push_grad(lua_State *L, const capl_tensor *t)
{
  if (t->grad)
    bind_push_tensor(L, capl_tensor_ref(t->grad));
  else
    lua_pushnil(L);
}

static const struct {
  const char *name;
  void (*push)(lua_State *L, const capl_tensor *t);
} properties[] = {{"shape", push_shape},    {"dtype", push_dtype}, {"device", push_device},
                  {"ndim", push_ndim},      {"grad", push_grad},   {"requires_grad", push_requires_grad},
                  {"is_leaf", push_is_leaf}};
enum { N_PROPERTIES = sizeof properties / sizeof *properties };

/* What PyTorch's tensors have under these names, and the nearest way here. */
static const char *const instead[][2] = {
  {"cuda", "x:to(\"cuda\"), x:to(\"cpu\")"}, {"cpu", "x:to(\"cuda\"), x:to(\"cpu\")"},
  {"numpy", "x:tolist() gives Lua's tables"},
  {"repeat", "x:tile(…); repeat is a word of Lua"},
  {"einsum", "x:permute(…), x:matmul(y) and x:sum(dim)"},
  {"nonzero", "x:argmax(dim), or x:tolist() for places in Lua"},
  {"masked_select", "x:masked_fill(mask, 0), or x:index_select(dim, {…}): sizes do not depend on values"},
  {"unique", "x:tolist() and a table"},
  {"bincount", "x:one_hot(n):sum(1)"}, {"histc", "x:one_hot(n):sum(1) of class numbers"},
  {"median", "x:sort(dim), then the middle one"}, {"kthvalue", "x:sort(dim), then [k]"},
  {"quantile", "x:sort(dim), then a place"},
  {"cumprod", "x:log():cumsum(dim):exp() for x above 0"},
  {"diff", "x:narrow(dim, 2, n - 1) - x:narrow(dim, 1, n - 1)"},
  {"unfold", "x:narrow(…) for each place, capl.stack of them"},
  {"floor_divide", "(x / y):floor()"},
  {"atan2", "there are x:sin(), x:cos() and x:tanh(); a regression of angles takes sine and cosine"},
  {"addmm", "bias + x:matmul(y)"}, {"baddbmm", "bias + x:matmul(y)"},
  {"cdist", "(x:unsqueeze(2) - y:unsqueeze(1)):norm(2, 3)"},
  {"swapaxes", "x:transpose(a, b)"}, {"new_zeros", "capl.zeros(…, {dtype = x.dtype, device = x.device})"},
  {"data", "x:detach()"}, {"T", "x:t(), x:transpose(a, b)"}, {"mT", "x:transpose(-1, -2)"},
};

static const char *instead_of(const char *name)
{
  for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
    if (strcmp(name, instead[i][0]) == 0) return instead[i][1];
  return NULL;
}

static int unknown_member(lua_State *L, const char *name, int methods)
{
  const char *hint = instead_of(name);
  capl_suggestion s = {.wanted = name};
  for (int i = 0; i < N_PROPERTIES; i++) capl_suggest(&s, properties[i].name);
  lua_pushnil(L);
  while (lua_next(L, methods)) {
    if (lua_type(L, -2) == LUA_TSTRING) capl_suggest(&s, lua_tostring(L, -2));
    lua_pop(L, 1);
  }
  if (s.nearest && !hint)
    return bind_fail(L, CAPL_EVALUE, NULL, NULL, "a tensor has no '%s'; did you mean '%s'?", name, s.nearest);
  return bind_fail(L, CAPL_EVALUE, NULL, hint, "a tensor has no '%s'", name);
}

/* x.name: a method, else a property; x[i]: row i. Upvalue 1: the methods. */
static int tensor_index(lua_State *L)
{
  lua_settop(L, 2);
  if (lua_type(L, 2) == LUA_TNUMBER) {
    lua_getfield(L, lua_upvalueindex(1), "select");
    lua_pushvalue(L, 1);
    lua_pushinteger(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 3, 1);
    return 1;
  }
  if (lua_istable(L, 2)) {
    lua_getfield(L, lua_upvalueindex(1), "slice");
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 1);
    return 1;
  }
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  if (!lua_isnil(L, -1)) return 1;
  if (lua_type(L, 2) != LUA_TSTRING) return bind_type_error(L, 2, "name or row number");
  const char *name = lua_tostring(L, 2);
  for (int i = 0; i < N_PROPERTIES; i++)
    if (strcmp(name, properties[i].name) == 0) {
      properties[i].push(L, bind_check_tensor(L, 1));
      return 1;
    }
  lua_pushvalue(L, lua_upvalueindex(1));
  return unknown_member(L, name, lua_gettop(L));
}

static int tensor_newindex(lua_State *L)
{
  const char *hint = "write elements with x:set(i, j, …, value), whole tensors with x:copy_(y) or x:fill_(v), parts with "
                     "x[{{1, 3}, {}}]:copy_(y)";
  return bind_fail(L, CAPL_EVALUE, NULL, hint, "a tensor's fields cannot be assigned");
}

static int tensor_len(lua_State *L)
{
  capl_tensor *t = bind_check_tensor(L, 1);
  if (t->ndim == 0) return bind_fail(L, CAPL_ESHAPE, NULL, NULL, "a scalar tensor has no length");
  lua_pushnumber(L, (lua_Number)t->size[0]);
  return 1;
}

static int tensor_gc(lua_State *L)
{
  capl_handle *h = bind_peek_handle(L, 1);
  if (h) bind_handle_release(h);
  return 0;
}

/* ---- methods: life --------------------------------------------------------------------------- */

/* x:free() lets the memory go now; other tensors and the tape may still hold it. */
static int tensor_free(lua_State *L)
{
  capl_handle *h = bind_peek_handle(L, 1);
  if (!h) return bind_type_error(L, 1, "tensor");
  bind_handle_release(h);
  return 0;
}

/* x:keep() -> x: it outlives the capl.scope it was made in. */
static int tensor_keep(lua_State *L)
{
  bind_check_tensor(L, 1);
  bind_handle_keep(bind_to_handle(L, 1));
  lua_settop(L, 1);
  return 1;
}

static int tensor_is_released(lua_State *L)
{
  capl_handle *h = bind_peek_handle(L, 1);
  if (!h) return bind_type_error(L, 1, "tensor");
  lua_pushboolean(L, !h->t && !h->later);
  return 1;
}

/* ---- methods: autograd ----------------------------------------------------------------------- */

/* x:requires_grad_([false]) -> x */
static int tensor_requires_grad_(lua_State *L)
{
  capl_tensor *t = bind_check_tensor(L, 1);
  bool want = lua_isnoneornil(L, 2) || bind_check_bool(L, 2);
  if (want && !capl_dtype_is_float(t->dtype))
    return bind_fail(L, CAPL_EDTYPE, NULL, NULL,
                     "only floating tensors can require a gradient, this one is %s",
                     capl_dtype_name(t->dtype));
  if (t->node)
    return bind_fail(L, CAPL_ESTATE, NULL, "call it on x:detach()",
                     "requires_grad_ is for leaves, this tensor was computed");
  if (t->requires_grad != want) bind_current.structure++;
  if (t->requires_grad && !want) bind_check(L, capl_weight_mark(t), NULL); /* frozen */
  t->requires_grad = want;
  lua_settop(L, 1);
  return 1;
}

/* x:zero_grad(): forgets the gradient. */
static int tensor_zero_grad(lua_State *L)
{
  capl_tensor *t = bind_check_tensor(L, 1), *grad = t->grad;
  t->grad = NULL;
  capl_tensor_unref(grad);
  return 0;
}

/* loss:backward([seed]): seed is a number or a tensor of one */
static int tensor_backward(lua_State *L)
{
  capl_tensor *t = bind_check_tensor(L, 1);
  capl_handle *seed = bind_to_handle(L, 2);
  double number = seed || lua_isnoneornil(L, 2) ? 1 : bind_check_number(L, 2);
  capl_tensor *start = seed ? bind_check_tensor(L, 2) : NULL;
  bind_collect_if_due(L);
  bind_check(L, start ? capl_backward_from(t, start) : capl_backward(t, number), "backward");
  return 0;
}

/* core.history_has(tensor, dtype) -> whether a recorded call that led to it read or made a tensor of dtype */
static int core_history_has(lua_State *L)
{
  bool has;
  bind_check(L, capl_history_has(bind_check_tensor(L, 1), bind_check_dtype(L, 2), &has), "backward");
  lua_pushboolean(L, has);
  return 1;
}

static int tensor_detach(lua_State *L)
{
  capl_tensor *out;
  bind_check(L, capl_tensor_detach(bind_check_tensor(L, 1), &out), "detach");
  bind_push_tensor(L, out);
  return 1;
}

/* ---- methods: in place ----------------------------------------------------------------------- */

static capl_tensor *check_writable(lua_State *L, int i)
{
  capl_tensor *t = bind_check_tensor(L, i);
  bind_fuse_refuse(L);
  if (capl_grad_enabled() && (t->requires_grad || t->node))
    bind_fail(L, CAPL_ESTATE, NULL, "wrap it in capl.no_grad(function() … end)",
              "a tensor that takes part in a gradient cannot be changed in place");
  return t;
}

static int tensor_fill_(lua_State *L)
{
  bind_check(L, capl_tensor_fill(check_writable(L, 1), bind_check_number(L, 2)), "fill_");
  lua_settop(L, 1);
  return 1;
}

static int tensor_zero_(lua_State *L)
{
  bind_check(L, capl_tensor_fill(check_writable(L, 1), 0), "zero_");
  lua_settop(L, 1);
  return 1;
}

/* x:copy_(y) -> x: sizes equal, any dtypes and host devices */
static int tensor_copy_(lua_State *L)
{
  bind_check(L, capl_tensor_copy(check_writable(L, 1), bind_check_tensor(L, 2)), "copy_");
  lua_settop(L, 1);
  return 1;
}

/* A 0-d view of element (i, j, …) given from argument 2 on. */
static void element_at(lua_State *L, capl_tensor *t, capl_tensor **out)
{
  int64_t offset = t->offset;
  for (int d = 0; d < t->ndim; d++) {
    int64_t i = bind_check_int(L, d + 2), n = t->size[d];
    if (i == 0 || i > n || i < -n)
      bind_arg_error(L, d + 2, "index %lld is outside 1..%lld of dim %d", (long long)i, (long long)n, d + 1);
    offset += (i > 0 ? i - 1 : i + n) * t->stride[d];
  }
  bind_check(L, capl_tensor_alias(t, 0, NULL, NULL, offset, out), NULL);
}

/* x:get(i, j, …) -> number */
static int tensor_get(lua_State *L)
{
  capl_tensor *t = bind_check_tensor(L, 1);
  OWNED *element = NULL;
  double value;
  element_at(L, t, &element);
  bind_check(L, capl_tensor_item(element, &value), "get");
  lua_pushnumber(L, value);
  return 1;
}

/* x:set(i, j, …, value) -> x */
static int tensor_set(lua_State *L)
{
  capl_tensor *t = check_writable(L, 1);
  OWNED *element = NULL;
  double value = bind_check_number(L, t->ndim + 2);
  element_at(L, t, &element);
  bind_check(L, capl_tensor_fill(element, value), "set");
  lua_settop(L, 1);
  return 1;
}

/* ---- for the library ------------------------------------------------------------------------- */

/* core.copy_to(x, device) -> a copy outside the tape */
static int core_copy_to(lua_State *L)
{
  capl_tensor *t = bind_check_tensor(L, 1);
  OWNED *out = NULL;
  capl_format format = capl_tensor_is_row(t) ? CAPL_ROW : CAPL_AUTO;
  bind_check(L, capl_tensor_new(bind_opt_device(L, 2), t->dtype, t->ndim, t->size, format, &out), "to");
  if (out->device->backend->arithmetic) bind_check(L, capl_tensor_copy(out, t), "to");
  capl_tensor *given = out;
  out = NULL;
  bind_push_tensor(L, given);
  return 1;
}

capl_tensor *bind_on_host(lua_State *L, int i)
{
  capl_tensor *t = bind_check_tensor(L, i);
  if (t->device->backend->host_memory || !t->device->backend->arithmetic) return t;
  OWNED *host = NULL;
  bind_check(L, capl_tensor_on_host(t, &host), NULL);
  capl_tensor *given = host;
  host = NULL;
  bind_push_tensor(L, given);
  lua_replace(L, i);
  return given;
}

/* core.swap(x, y): the two handles change tensors; whoever holds x now sees y's values. */
static int core_swap(lua_State *L)
{
  bind_check_tensor(L, 1), bind_check_tensor(L, 2);
  capl_handle *a = bind_to_handle(L, 1), *b = bind_to_handle(L, 2);
  capl_tensor *t = a->t;
  a->t = b->t;
  b->t = t;
  bind_current.structure++;
  return 0;
}

/* core.is_tensor(value) */
static int core_is_tensor(lua_State *L)
{
  lua_pushboolean(L, lua_gettop(L) > 0 && bind_peek_handle(L, 1) != NULL);
  return 1;
}

/* core.is_callable(value) */
static int core_is_callable(lua_State *L)
{
  lua_settop(L, 1);
  lua_pushboolean(L, bind_is_callable(L, 1));
  return 1;
}

/* core.describe(x) -> "(32,1,60,160) f32 cpu" */
static int core_describe(lua_State *L)
{
  char text[160];
  lua_pushstring(L, capl_tensor_describe(bind_check_tensor(L, 1), text, sizeof text));
  return 1;
}

/* core.is_dtype(name) */
static int core_is_dtype(lua_State *L)
{
  capl_dtype dtype;
  lua_pushboolean(L, capl_dtype_parse(bind_check_string(L, 1), &dtype) == CAPL_OK);
  return 1;
}

/* core.typename(value) */
static int core_typename(lua_State *L)
{
  lua_settop(L, 1);
  lua_pushstring(L, bind_typename(L, 1));
  return 1;
}

void bind_open_tensors(lua_State *L)
{
  static const luaL_Reg methods[] = {{"free", tensor_free},
                                     {"keep", tensor_keep},
                                     {"is_released", tensor_is_released},
                                     {"requires_grad_", tensor_requires_grad_},
                                     {"zero_grad", tensor_zero_grad},
                                     {"backward", tensor_backward},
                                     {"detach", tensor_detach},
                                     {"fill_", tensor_fill_},
                                     {"zero_", tensor_zero_},
                                     {"copy_", tensor_copy_},
                                     {"get", tensor_get},
                                     {"set", tensor_set},
                                     {NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"copy_to", core_copy_to},   {"swap", core_swap},         {"is_tensor", core_is_tensor},
      {"typename", core_typename}, {"describe", core_describe}, {"is_callable", core_is_callable},
      {"is_dtype", core_is_dtype}, {"step_end", core_step_end}, {"history_has", core_history_has},
      {NULL, NULL}};
  luaL_newmetatable(L, TENSOR_TYPE);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -4, "tensor_methods");
  lua_pushcclosure(L, tensor_index, 1);
  lua_setfield(L, -2, "__index");
  static const luaL_Reg meta[] = {
      {"__newindex", tensor_newindex}, {"__len", tensor_len}, {"__gc", tensor_gc}, {NULL, NULL}};
  luaL_setfuncs(L, meta, 0);
  lua_pushliteral(L, "tensor");
  lua_setfield(L, -2, "__metatable");
  lua_setfield(L, -2, "tensor_meta");
  luaL_setfuncs(L, functions, 0);
  capl_memory_pressure_set(on_memory_pressure, NULL);
}
