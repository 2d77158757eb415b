/* fuse.c -- capl.fuse: what a Lua function does to its tensors, noted as a pointwise program.
**
** The function runs once on tensors of meta, which have shapes and no values, while op_call (op.c) notes every op.
** Whatever cannot be in a program raises at the op itself, so that the error names the recipe's line: another op, or a
** tensor that neither is an argument nor comes from one. Numbers become constants (lua/capl/tensor.lua registers them).
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/locals.h"
#include "bind/core/core.h"

#include <stdio.h>
#include <string.h>

#include "ops/attrs.h"
#include "ops/program.h"

/* One more input is needed for the gradient of the result, and many more steps for that of a long program. */
enum { MOST_ARGUMENTS = PROGRAM_INPUTS - 1, MOST_STEPS = PROGRAM_STEPS / 8, MOST_KNOWN = PROGRAM_VALUES };

static struct {
  bool active;
  program_draft draft;
  int n;
  struct {
    capl_tensor *t; /* a reference, so that no address is used twice during the trace */
    int value;
  } known[MOST_KNOWN];
} trace;

/* ---- tensors and the values they stand for ---------------------------------------------------- */

static int value_of(const capl_tensor *t)
{
  for (int k = 0; k < trace.n; k++)
    if (trace.known[k].t == t) return trace.known[k].value;
  return -1;
}

static void know(lua_State *L, capl_tensor *t, int value)
{
  if (trace.n == MOST_KNOWN)
    bind_fail(L, CAPL_EVALUE, "fuse", NULL, "the function makes more than %d tensors", MOST_KNOWN);
  trace.known[trace.n].t = capl_tensor_ref(t);
  trace.known[trace.n++].value = value;
}

static void forget_all(void)
{
  for (int k = 0; k < trace.n; k++) capl_tensor_unref(trace.known[k].t);
  memset(&trace, 0, sizeof trace);
}

static int need_known(lua_State *L, const char *op, const capl_tensor *t)
{
  int value = value_of(t);
  if (value < 0)
    bind_fail(L, CAPL_EVALUE, op, "give it to the fused function as an argument; a number may be written as a number",
              "a fused function reads a tensor that is not among its arguments and does not come from them");
  return value;
}

/* ---- notes of op_call -------------------------------------------------------------------------- */

void bind_fuse_check(lua_State *L, const capl_op *op, capl_tensor *const *in, int n)
{
  int tensors, numbers;
  if (!trace.active) return;
  if (!program_takes(capl_op_id_of(op), &tensors, &numbers))
    bind_fail(L, CAPL_EVALUE, op->name, "fuse what comes before it and what comes after it",
              "a fused function may only have elementwise ops");
  for (int i = 0; i < n; i++)
    if (in[i]) need_known(L, op->name, in[i]);
}

void bind_fuse_note(lua_State *L, capl_op_id id, capl_tensor *const *in, const capl_attr *attr, capl_tensor *out)
{
  int tensors, numbers, value;
  if (!trace.active || !program_takes(id, &tensors, &numbers)) return;
  program_step step = {.op = (int)id, .dtype = CAPL_F32};
  for (int i = 0; i < tensors; i++) step.arg[i] = value_of(in[i]);
  for (int i = 0; i < numbers; i++) step.number[i] = program_number(id, attr, i);
  if (id == CAPL_OP_cast) step.dtype = (capl_dtype)attr[AT(cast, dtype)].i;
  bind_check(L, program_add(&trace.draft, &step, &value), "fuse");
  know(L, out, value);
}

/* core.fuse_constant(scalar, number) -> scalar: a number that became a tensor. */
static int core_fuse_constant(lua_State *L)
{
  if (trace.active) {
    capl_tensor *t = bind_check_tensor(L, 1);
    program_step step = {.op = PROGRAM_CONST, .number = {bind_check_number(L, 2)}};
    int value, like = 0;
    while (like < trace.n && trace.known[like].t->dtype != t->dtype) like++;
    if (like == trace.n)
      return bind_fail(L, CAPL_EVALUE, "fuse", "convert it: x:float()", "a number beside tensors of no floating type");
    step.arg[0] = trace.known[like].value;
    bind_check(L, program_add(&trace.draft, &step, &value), "fuse");
    know(L, t, value);
  }
  lua_settop(L, 1);
  return 1;
}

void bind_fuse_refuse(lua_State *L)
{
  if (trace.active) bind_fail(L, CAPL_EVALUE, "fuse", NULL, "a fused function may not write into tensors");
}

/* ---- tracing ---------------------------------------------------------------------------------- */

/* core.fuse_tracing() -> whether a function is being traced */
static int core_fuse_tracing(lua_State *L)
{
  lua_pushboolean(L, trace.active);
  return 1;
}

/* core.fuse_signature(x, ...) -> dtypes and shapes as text: what a program was traced for */
static int core_fuse_signature(lua_State *L)
{
  int n = lua_gettop(L);
  luaL_Buffer b;
  if (n == 0 || n > MOST_ARGUMENTS)
    return bind_fail(L, CAPL_EVALUE, "fuse", NULL, "a fused function takes 1 to %d tensors, got %d arguments",
                     MOST_ARGUMENTS, n);
  for (int i = 1; i <= n; i++) {
    if (bind_to_handle(L, i)) bind_check_tensor(L, i); /* raises if it was released */
    else return bind_fail(L, CAPL_EVALUE, "fuse",
                          "numbers that do not change can be used inside the function as they are",
                          "argument %d of a fused function must be a tensor, got %s", i, bind_typename(L, i));
  }
  luaL_buffinit(L, &b);
  for (int i = 1; i <= n; i++) {
    char text[160];
    const capl_tensor *t = bind_to_handle(L, i)->t;
    size_t used = (size_t)snprintf(text, sizeof text, "%s", capl_dtype_name(t->dtype));
    for (int d = 0; d < t->ndim; d++)
      used += (size_t)snprintf(text + used, sizeof text - used, ",%lld", (long long)t->size[d]);
    luaL_addlstring(&b, text, used);
    luaL_addchar(&b, ';');
  }
  luaL_pushresult(&b);
  return 1;
}

/* Replaces argument i + 1 by a tensor of meta with its dtype and shape. */
static void push_shell(lua_State *L, int i, capl_device *meta)
{
  const capl_tensor *t = bind_check_tensor(L, i + 1);
  capl_tensor *shell = NULL;
  bind_check(L, capl_tensor_new(meta, t->dtype, t->ndim, t->size, CAPL_AUTO, &shell), "fuse");
  know(L, shell, i - 1);
  bind_push_tensor(L, shell);
  lua_replace(L, i + 1);
}

/* The program whose result the traced function returned, as text on the stack. */
static int push_program(lua_State *L, int results)
{
  const program *p;
  if (results != 1)
    return bind_fail(L, CAPL_EVALUE, "fuse", NULL, "a fused function returns one tensor, this one %d values", results);
  if (!bind_to_handle(L, -1))
    return bind_fail(L, CAPL_EVALUE, "fuse", NULL, "a fused function returns a tensor, this one a %s",
                     bind_typename(L, -1));
  bind_check(L, program_intern(&trace.draft, need_known(L, "fuse", bind_to_handle(L, -1)->t), &p), "fuse");
  if (p->n > MOST_STEPS)
    return bind_fail(L, CAPL_EVALUE, "fuse", "fuse it in two parts", "a fused function has at most %d ops, this one %d",
                     MOST_STEPS, p->n);
  lua_pushstring(L, p->text);
  return 1;
}

/* Runs with the trace on; its arguments: the function, then tensors. */
static int traced(lua_State *L)
{
  capl_device *meta;
  int n = lua_gettop(L) - 1;
  bind_check(L, capl_device_open("meta", &meta), "fuse");
  for (int i = 1; i <= n; i++) push_shell(L, i, meta);
  lua_call(L, n, LUA_MULTRET);
  return push_program(L, lua_gettop(L));
}

/* core.fuse_trace(fn, x, ...) -> the text of fn's program for arguments like these */
static int core_fuse_trace(lua_State *L)
{
  bind_check_function(L, 1);
  int n = lua_gettop(L) - 1;
  trace.active = true;
  bool recorded = capl_grad_set_enabled(false), paused = capl_observe_pause(true);
  lua_pushcfunction(L, traced);
  lua_insert(L, 1);
  int failed = bind_pcall(L, n + 1, 1);
  capl_grad_set_enabled(recorded);
  capl_observe_pause(paused);
  forget_all();
  return failed ? lua_error(L) : 1;
}

void bind_open_fuse(lua_State *L)
{
  static const luaL_Reg functions[] = {{"fuse_constant", core_fuse_constant}, {"fuse_tracing", core_fuse_tracing},
                                       {"fuse_signature", core_fuse_signature}, {"fuse_trace", core_fuse_trace},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
