/* bind.h -- what the program needs from the Lua binding: a state, running text in it, its errors.
**
** capl's own Lua library is embedded and runs without io, os, debug, ffi and package; what it may do comes
** from one private table of C functions, "core", which each library chunk gets as its first argument.
** Recipes run in an environment of their own: capl, nn, optim, data, plot and Lua's harmless functions.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_BIND_H
#define CAPL_BIND_BIND_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "capl/error.h"

typedef struct {
  bool jit;             /* compile Lua to machine code */
  const char *lua_path; /* folder that holds capl/init.lua; NULL = $CAPL_LUA_PATH, else the embedded library */
} capl_state_options;

/* A state with the harmless libraries, the core table and the recipe environment; the library itself is
** loaded when first asked for. options may be NULL (jit on). ENOMEM. */
capl_status capl_state_new(const capl_state_options *options, lua_State **out);
void capl_state_close(lua_State *L);

/* Pushes the core table: add C functions of a command's own to it before its Lua module runs. */
void capl_bind_core(lua_State *L);
/* Pushes the value of a library module: "cli.bench" is lua/capl/cli/bench.lua. Raises Lua errors: call it
** under capl_bind_call. */
void capl_bind_require(lua_State *L, const char *module);
/* Pushes the recipe environment, made at first use. Raises Lua errors likewise. */
void capl_bind_environment(lua_State *L);
/* Where `require` of recipes looks: the folder of the recipe's file. Unless said: the working folder. */
void capl_bind_recipe_folder(lua_State *L, const char *recipe);
/* Lua is compiled no more. */
void capl_bind_stop_compiler(lua_State *L);
/* The recipe was asked for by the hash of this text: modules must be named by theirs in it. */
void capl_bind_pin(lua_State *L, const char *text, size_t size);
/* Loads text (never bytecode) as a function in the recipe environment and pushes it. name: "@recipe.lua" for
** a file, "=-e" for others. Returns 0, or pushes the error instead. */
int capl_bind_load(lua_State *L, const char *text, size_t len, const char *name);

/* lua_pcall that turns whatever was raised into an error table with its traceback, and ends an interrupt.
** Returns 0, or leaves the error table on the stack. */
int capl_bind_call(lua_State *L, int nargs, int nresults);
/* Likewise for a library module's function: calls module.function with the nargs values on the stack. */
int capl_bind_call_module(lua_State *L, const char *module, const char *function, int nargs, int nresults);

/* The error at index as text in the house format, with the traceback if verbose; pushed and returned. */
const char *capl_bind_error_text(lua_State *L, int index, bool verbose);
/* Its code: "shape", "interrupt", …; "lua" for errors of Lua itself. Borrowed while the error lives. */
const char *capl_bind_error_code(lua_State *L, int index);

/* Holds L to the limits of the policy (sandbox/policy.h), once that is closed and capl_interrupt_install was called. */
void capl_bind_limit(lua_State *L);

/* Before any of that: memory kept back for the moment when the machine has no more, so that Lua ends in order. */
void capl_bind_reserve(lua_State *L);

/* ---- Ctrl-C (interrupt.c) -------------------------------------------------------------------- */

/* Makes JIT-compiled loops of L stoppable. One state per process. Call it after fork, on the thread that runs L: from
** then on that thread has a stack for signal handlers, and every handler of the process must be installed with these
** flags. Not deferred: a signal held back on that thread would go to a compute thread, which has no such stack. */
#define CAPL_INTERRUPT_FLAGS (SA_ONSTACK | SA_NODEFER)
void capl_interrupt_install(lua_State *L);
/* Behind it: more stack for C, and a sentence where that ends (stack_guard.c). */
void capl_stack_guard(void);
/* Undone before L is closed: later requests do nothing. */
void capl_interrupt_remove(void);
/* Async-signal-safe: stops L at its next instruction or op with an "interrupt" error that no pcall of the
** recipe can hold. In force until capl_bind_call returns. */
void capl_interrupt_request(void);
/* Likewise, from Lua's own thread, for a reason: where Lua is stopped, stands(L) says whether it still holds, with its
** error on record; if not, Lua goes on. It must not call Lua. stands(NULL): the stop is over. */
void capl_interrupt_because(bool (*stands)(lua_State *L));
bool capl_interrupt_pending(void);
/* Whether an interrupt is pending; if so, its error is in the thread's record. */
bool capl_interrupt_reported(lua_State *L);
void capl_interrupt_clear(void);

/* lua_CFunction of the module capl.so. */
CAPL_API int luaopen_capl(lua_State *L);

#endif
