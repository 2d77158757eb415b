/* op.c -- every op of ops.def as a Lua function, made from its descriptor; and what ops there are.
**
** capl.op.conv2d(x, weight, bias, {stride = 2}): inputs in the descriptor's order, nil for optional ones
** left out, attributes in one named table. Attributes that count dims or elements count from 1 in Lua.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"

enum { FEW = 16 };

/* ---- attributes ------------------------------------------------------------------------------ */

/* A Lua dim or index (1-based, negative from the end) as the engine counts. */
static double from_one(lua_State *L, const capl_op *op, const capl_attr_spec *spec, double value, const capl_tensor *x)
{
  if (value == 0) bind_fail(L, CAPL_EVALUE, op->name, NULL, "%s counts from 1, got 0", spec->name);
  if (spec->dim && x && (value > x->ndim || value < -x->ndim))
    bind_fail(L, CAPL_EVALUE, op->name, NULL, "dim %g is outside 1..%d", value, x->ndim);
  return value > 0 ? value - 1 : value;
}

static int unknown_attribute(lua_State *L, const capl_op *op, const char *name)
{
  capl_suggestion s = {.wanted = name};
  char known[256] = "none";
  size_t used = 0;
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++) {
    capl_suggest(&s, op->attrs[k].name);
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", op->attrs[k].name);
  }
  if (s.nearest)
    return bind_fail(L, CAPL_EVALUE, op->name, NULL, "unknown attribute '%s'; did you mean '%s'?", name,
                     s.nearest);
  return bind_fail(L, CAPL_EVALUE, op->name, NULL, "unknown attribute '%s'; known: %s", name, known);
}

/* The numbers of the value on top: one number, a boolean, or a list. */
static int read_numbers(lua_State *L, const capl_op *op, const char *name, double *values)
{
  int n = 0;
  if (lua_isboolean(L, -1)) return values[0] = lua_toboolean(L, -1), 1;
  if (lua_type(L, -1) == LUA_TNUMBER) return values[0] = lua_tonumber(L, -1), 1;
  if (!lua_istable(L, -1))
    return bind_fail(L, CAPL_EVALUE, op->name, NULL, "%s cannot be a %s", name, bind_typename(L, -1));
  for (;; n++) {
    lua_rawgeti(L, -1, n + 1);
    if (lua_isnil(L, -1)) break;
    if (n == CAPL_MAX_NDIM || lua_type(L, -1) != LUA_TNUMBER)
      return bind_fail(L, CAPL_EVALUE, op->name, NULL, "%s is a list of at most %d numbers", name,
                       CAPL_MAX_NDIM);
    values[n] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return n;
}

static void set_attribute(lua_State *L, const capl_op *op, capl_attr *attr, const capl_attr_spec *spec,
                          const capl_tensor *x)
{
  const char *name = spec->name;
  double values[CAPL_MAX_NDIM];
  if (lua_type(L, -1) == LUA_TSTRING) {
    bind_check(L, capl_attr_set_word(op, attr, name, lua_tostring(L, -1)), op->name);
    return;
  }
  int n = read_numbers(L, op, name, values);
  for (int i = 0; (spec->dim || spec->index) && i < n; i++) values[i] = from_one(L, op, spec, values[i], x);
  bind_check(L, capl_attr_set(op, attr, name, n, values), op->name);
}

/* Reads the options table at i (or none) into attr. x: first input, whose dims are counted. */
static void read_attributes(lua_State *L, const capl_op *op, int i, const capl_tensor *x, capl_attr *attr)
{
  bool given[CAPL_MAX_ATTR] = {false};
  capl_attr_defaults(op, attr);
  if (i > 0 && lua_istable(L, i)) {
    lua_pushnil(L);
    while (lua_next(L, i)) {
      if (lua_type(L, -2) != LUA_TSTRING)
        bind_fail(L, CAPL_EVALUE, op->name, NULL, "attributes are given by name");
      const char *name = lua_tostring(L, -2);
      int k = capl_attr_index(op, name);
      if (k < 0) unknown_attribute(L, op, name);
      given[k] = true;
      set_attribute(L, op, attr, &op->attrs[k], x);
      lua_pop(L, 1);
    }
  }
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++)
    if (op->attrs[k].required && !given[k])
      bind_fail(L, CAPL_EVALUE, op->name, NULL, "attribute '%s' is needed", op->attrs[k].name);
}

/* ---- calling --------------------------------------------------------------------------------- */

/* Name of input i in "x, weight, bias?". */
static void input_name(const capl_op *op, int i, char *name, size_t len)
{
  const char *p = op->ins;
  while (i-- > 0 && strchr(p, ',')) p = strchr(p, ',') + 2;
  snprintf(name, len, "%.*s", (int)strcspn(p, ",?."), p);
}

static capl_tensor *input_at(lua_State *L, const capl_op *op, int stack, int i)
{
  capl_handle *h = bind_to_handle(L, stack);
  if (h && h->t) return h->t;
  if (h) bind_check_tensor(L, stack); /* raises */
  if (lua_isnil(L, stack) || (lua_isboolean(L, stack) && !lua_toboolean(L, stack)))
    return NULL; /* false: a hole in a list */
  char name[64];
  input_name(op, i, name, sizeof name);
  bind_fail(L, CAPL_EVALUE, op->name, NULL, "%s must be a tensor, got %s", name, bind_typename(L, stack));
  return NULL;
}

/* Inputs from the stack (arguments 1..n) or from the list that is argument 1. */
static void read_inputs(lua_State *L, const capl_op *op, bool list, int n, capl_tensor **in)
{
  for (int i = 0; i < n; i++) {
    if (list) lua_rawgeti(L, 1, i + 1);
    in[i] = input_at(L, op, list ? -1 : i + 1, i);
    if (list) lua_pop(L, 1);
  }
}

/* capl.op.NAME. Upvalues: op id, whether it takes any number of inputs. */
static int op_call(lua_State *L)
{
  capl_op_id id = (capl_op_id)lua_tointeger(L, lua_upvalueindex(1));
  bool variadic = lua_toboolean(L, lua_upvalueindex(2));
  const capl_op *op = capl_op_get(id);
  if (bind_peephole(L, id)) return 1;
  int top = lua_gettop(L);
  bool list = variadic && lua_istable(L, 1);
  bool options = top > (list ? 1 : 0) && lua_istable(L, top); /* 0 is no index: there an old value may lie */
  int n = list ? (int)lua_objlen(L, 1) : top - options;
  capl_tensor *few[FEW], **in = n <= FEW ? few : lua_newuserdata(L, (size_t)n * sizeof *in);
  capl_tensor *out[CAPL_MAX_OUT] = {NULL};
  capl_attr attr[CAPL_MAX_ATTR];
  read_inputs(L, op, list, n, in);
  read_attributes(L, op, options ? top : 0, n > 0 ? in[0] : NULL, attr);
  if (capl_interrupt_pending()) {
    CAPL_FAIL(CAPL_EINTERRUPT, "interrupted");
    return bind_raise(L, NULL);
  }
  bind_use(L);
  bind_fuse_check(L, op, in, n);
  bind_check(L, capl_op_call(id, in, n, attr, out), op->name);
  luaL_checkstack(L, CAPL_MAX_OUT + 4, "op");
  for (int k = 0; k < op->n_out; k++) {
    if (out[k])
      bind_push_tensor(L, out[k]);
    else
      lua_pushnil(L);
  }
  if (op->n_out == 1) bind_fuse_note(L, id, in, attr, out[0]); /* out[0] is Lua's now, should it raise */
  return op->n_out;
}

/* ---- what there is --------------------------------------------------------------------------- */

static void set_string(lua_State *L, const char *key, const char *value)
{
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

static void set_bool(lua_State *L, const char *key, bool value)
{
  lua_pushboolean(L, value);
  lua_setfield(L, -2, key);
}

static void push_default(lua_State *L, const capl_attr_spec *spec)
{
  if (spec->kind == CAPL_ATTR_BOOL)
    lua_pushboolean(L, spec->def != 0);
  else if (spec->kind == CAPL_ATTR_DTYPE)
    lua_pushstring(L, capl_dtype_name((capl_dtype)spec->def));
  else if (spec->kind == CAPL_ATTR_ENUM) {
    const char *word = spec->choices;
    for (int k = (int)spec->def; k > 0; k--) word = strchr(word, '|') + 1;
    lua_pushlstring(L, word, strcspn(word, "|"));
  } else
    lua_pushnumber(L, spec->def);
}

static void push_attributes(lua_State *L, const capl_op *op)
{
  static const char *const kinds[] = {"int", "real", "bool", "enum", "ints", "dtype", "program"};
  lua_newtable(L);
  for (int k = 0; k < CAPL_MAX_ATTR && op->attrs[k].name; k++) {
    const capl_attr_spec *spec = &op->attrs[k];
    lua_newtable(L);
    set_string(L, "name", spec->name);
    set_string(L, "kind", kinds[spec->kind]);
    if (spec->choices) set_string(L, "choices", spec->choices);
    set_bool(L, "required", spec->required);
    if (!spec->required) push_default(L, spec), lua_setfield(L, -2, "default");
    if (spec->min < spec->max) {
      lua_pushnumber(L, spec->min), lua_setfield(L, -2, "min");
      lua_pushnumber(L, spec->max), lua_setfield(L, -2, "max");
    }
    lua_rawseti(L, -2, k + 1);
  }
}

/* "f32 bf16", "every": the dtypes of a kernel. */
static void push_dtypes(lua_State *L, uint32_t dtypes)
{
  luaL_Buffer words;
  luaL_buffinit(L, &words);
  for (int d = 0, n = 0; d < CAPL_DTYPE_COUNT; d++) {
    if (!(dtypes & CAPL_BIT(d))) continue;
    if (n++) luaL_addchar(&words, ' ');
    luaL_addstring(&words, capl_dtype_name((capl_dtype)d));
  }
  if (!dtypes) luaL_addstring(&words, "every");
  luaL_pushresult(&words);
}

/* has = {ref = true, cpu = true}: who has a kernel of its own; views need none. GPUs are not asked: core.kernels
** does. */
static void push_backends(lua_State *L, const capl_op *op, capl_op_id id)
{
  const capl_backend_facts *is;
  const capl_backend *backend;
  lua_newtable(L);
  for (int i = 0; (is = capl_backend_at(i)); i++)
    if (!is->gpu && capl_backend_find(is->name, &backend) == CAPL_OK && backend->arithmetic)
      set_bool(L, is->name, op->view || capl_backend_kernel(backend, id));
}

/* core.backends() -> list of {name, gpu, chosen} in the order of the registry (capl_backend_facts) */
static int core_backends(lua_State *L)
{
  const capl_backend_facts *is;
  lua_newtable(L);
  for (int i = 0; (is = capl_backend_at(i)); i++) {
    lua_newtable(L);
    set_string(L, "name", is->name);
    set_bool(L, "gpu", is->gpu);
    set_bool(L, "chosen", is->chosen);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* core.kernels(backend) -> {op = "f32 bf16"}: its own kernels and the dtypes they compute in, nil for a backend that
** only knows shapes. nil and a sentence when it cannot be loaded. No device is opened. */
static int core_kernels(lua_State *L)
{
  const capl_backend *backend;
  if (capl_backend_find(bind_check_string(L, 1), &backend) != CAPL_OK) {
    lua_pushnil(L);
    lua_pushstring(L, capl_error_last()->message);
    return 2;
  }
  if (!backend->arithmetic) return 0;
  lua_newtable(L);
  for (int id = 0; id < CAPL_OP_COUNT; id++) {
    const capl_kernel *kernel = capl_backend_kernel(backend, (capl_op_id)id);
    if (!kernel) continue;
    push_dtypes(L, kernel->dtypes);
    lua_setfield(L, -2, capl_op_get((capl_op_id)id)->name);
  }
  return 1;
}

static void push_op(lua_State *L, capl_op_id id)
{
  static const char *const amp[] = {"keep", "low", "f32", "widest"};
  const capl_op *op = capl_op_get(id);
  lua_newtable(L);
  set_string(L, "name", op->name);
  set_string(L, "ins", op->ins);
  set_string(L, "outs", op->outs);
  set_string(L, "doc", op->doc);
  set_string(L, "amp", amp[op->amp]);
  set_bool(L, "fused", op->expand != NULL);
  set_bool(L, "differentiable", op->grad != NULL);
  set_bool(L, "view", op->view != NULL);
  push_attributes(L, op);
  lua_setfield(L, -2, "attrs");
  push_backends(L, op, id);
  lua_setfield(L, -2, "has");
}

/* core.ops() -> list of descriptors as tables, in the order of ops.def */
static int core_ops(lua_State *L)
{
  lua_createtable(L, CAPL_OP_COUNT, 0);
  for (int id = 0; id < CAPL_OP_COUNT; id++) {
    push_op(L, (capl_op_id)id);
    lua_rawseti(L, -2, id + 1);
  }
  return 1;
}

void bind_open_ops(lua_State *L)
{
  lua_createtable(L, 0, CAPL_OP_COUNT);
  for (int id = 0; id < CAPL_OP_COUNT; id++) {
    const capl_op *op = capl_op_get((capl_op_id)id);
    lua_pushinteger(L, id);
    lua_pushboolean(L, strstr(op->ins, "...") != NULL);
    lua_pushcclosure(L, op_call, 2);
    lua_setfield(L, -2, op->name);
  }
  lua_setfield(L, -2, "op");
  luaL_register(L, NULL, (const luaL_Reg[]){{"ops", core_ops}, {"backends", core_backends}, {"kernels", core_kernels},
                                            {NULL, NULL}});
}
