/* state.c -- states, and loading: the library from its embedded bytecode, recipes as text only.
**
** With CAPL_LUA_PATH the library is read from text too, and where another LuaJIT runs than the one of the build.
** Registry: "capl.core" the private table of C functions, "capl.loaded" values of library modules by name. The
** environments of the library and of recipes are environment.c's. Neither holds io, os, debug, package, jit or ffi,
** whatever the surrounding state has open.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <luajit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/count.h"
#include "bind/core/embedded.h"
#include "bind/core/sys.h"

#define CORE "capl.core"
#define LOADED "capl.loaded"
#define OBSERVER "observer" /* the module that makes it */
#define PATH "capl.path"
#define BYTECODE "capl.bytecode"

enum { MAX_FILE = 1 << 20 };

/* ---- while the library is loaded ------------------------------------------------------------- */

/* Of the program's state; one that capl.so was loaded into is another's to set. */
static struct {
  bool own, compiles, loading;
} state;

lua_State *bind_begin_loading(lua_State *L)
{
  if (!state.own || state.loading) return NULL;
  state.loading = true;
  lua_gc(L, LUA_GCSTOP, 0);
  if (state.compiles) luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  return L;
}

void bind_end_loading(lua_State **L)
{
  if (!*L) return;
  state.loading = false;
  lua_gc(*L, LUA_GCRESTART, -1); /* the next round begins at twice of what there is now */
  if (state.compiles) luaJIT_setmode(*L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_ON);
}

void capl_bind_stop_compiler(lua_State *L)
{
  state.compiles = false;
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_FLUSH); /* a call of its own: with this flag it does nothing
                                                                ** else */
}

/* ---- library modules ------------------------------------------------------------------------- */

/* Reads folder/capl/file into a new string on the stack; false if there is no such file. */
static bool push_file(lua_State *L, const char *folder, const char *file)
{
  char path[1024];
  if (snprintf(path, sizeof path, "%s/capl/%s", folder, file) >= (int)sizeof path) return false;
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  char *text = lua_newuserdata(L, MAX_FILE);
  size_t n = fread(text, 1, MAX_FILE, f);
  fclose(f);
  lua_pushlstring(L, text, n);
  lua_remove(L, -2);
  return true;
}

static int compare_path(const void *file, const void *e) { return strcmp(file, ((const capl_embedded_file *)e)->path); }

static const capl_embedded_file *find_embedded(const char *file)
{
  return bsearch(file, capl_embedded, (size_t)capl_embedded_count, sizeof *capl_embedded, compare_path);
}

/* A module that was found: its file, and where it is embedded; else its text is on the stack. */
typedef struct {
  char file[256];
  const capl_embedded_file *embedded;
} found_module;

/* Pushes the text of a library file from the tree of CAPL_LUA_PATH, or anything when it is in the binary. */
static bool find_file(lua_State *L, found_module *m)
{
  lua_getfield(L, LUA_REGISTRYINDEX, PATH);
  const char *folder = lua_tostring(L, -1);
  m->embedded = folder ? NULL : find_embedded(m->file);
  if (!folder) return m->embedded || (lua_pop(L, 1), false);
  bool found = push_file(L, folder, m->file);
  if (found) lua_remove(L, -2);
  else if (strncmp(m->file, "fields/", 7) == 0) m->embedded = find_embedded(m->file); /* kinds lie beside their C */
  if (!found && !m->embedded) lua_pop(L, 1);
  return found || m->embedded;
}

/* "nn.conv2d" is nn/conv2d.lua or nn/conv2d/init.lua; "init" is init.lua. Pushes as find_file does. */
static bool find_module(lua_State *L, const char *module, found_module *m)
{
  static const char *const forms[] = {"%s.lua", "%s/init.lua"};
  char path[200];
  snprintf(path, sizeof path, "%s", module);
  for (char *p = path; *p; p++)
    if (*p == '.') *p = '/';
  for (int i = 0; i < 2; i++) {
    snprintf(m->file, sizeof m->file, forms[i], path);
    if (find_file(L, m)) return true;
  }
  return false;
}

/* Replaces what find_module has pushed by the module's text. */
static const char *push_text(lua_State *L, const found_module *m, size_t *n)
{
  if (m->embedded) lua_pop(L, 1), lua_pushlstring(L, m->embedded->text, m->embedded->length);
  return lua_tolstring(L, -1, n);
}

static bool reads_bytecode(lua_State *L)
{
  lua_getfield(L, LUA_REGISTRYINDEX, BYTECODE);
  bool reads = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return reads;
}

/* Replaces what find_module has pushed by the function of the chunk "@capl:file". */
static void load_module(lua_State *L, const found_module *m)
{
  char chunk[288];
  size_t n;
  snprintf(chunk, sizeof chunk, "@capl:%s", m->file);
  bool code = m->embedded && reads_bytecode(L);
  const char *text = code ? m->embedded->code : push_text(L, m, &n);
  if (luaL_loadbufferx(L, text, code ? m->embedded->code_length : n, chunk, code ? "b" : "t") != 0) lua_error(L);
  lua_remove(L, -2);
}

/* Calls the module in the library's environment with core and the state's observer, and pushes what it returns. */
static void run_module(lua_State *L, const char *module, const found_module *m)
{
  BIND_LOADING(L);
  load_module(L, m);
  bind_push_library(L);
  lua_setfenv(L, -2);
  capl_bind_core(L);
  if (strcmp(module, OBSERVER) == 0) lua_pushnil(L);
  else capl_bind_require(L, OBSERVER);
  lua_call(L, 2, 1);
}

void capl_bind_require(lua_State *L, const char *module)
{
  found_module m;
  luaL_checkstack(L, 8, "require");
  lua_getfield(L, LUA_REGISTRYINDEX, LOADED);
  lua_getfield(L, -1, module);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    if (!find_module(L, module, &m))
      bind_fail(L, CAPL_EINTERNAL, NULL, NULL, "capl's library has no module '%s'", module);
    run_module(L, module, &m);
    if (lua_isnil(L, -1)) lua_pop(L, 1), lua_pushboolean(L, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, module);
  }
  lua_remove(L, -2);
}

int bind_library_require(lua_State *L)
{
  capl_bind_require(L, bind_check_string(L, 1));
  return 1;
}

/* core.has_module(name) */
static int core_has_module(lua_State *L)
{
  found_module m;
  lua_pushboolean(L, find_module(L, bind_check_string(L, 1), &m));
  return 1;
}

/* core.source(module) -> the module's text, for docstrings; nil if there is none */
static int core_source(lua_State *L)
{
  found_module m;
  size_t n;
  if (!find_module(L, bind_check_string(L, 1), &m)) return lua_pushnil(L), 1;
  push_text(L, &m, &n);
  return 1;
}

/* core.set_metatable(table, metatable) -> table: also over one that is protected */
static int core_set_metatable(lua_State *L)
{
  bind_check_table(L, 1);
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

/* core.modules() -> names of all embedded modules */
static int core_modules(lua_State *L)
{
  int n = 0;
  lua_newtable(L);
  for (const capl_embedded_file *e = capl_embedded; e->path; e++) {
    size_t len = strlen(e->path) - 4;
    if (len >= 5 && strncmp(e->path + len - 5, "/init", 5) == 0) len -= 5;
    lua_pushlstring(L, e->path, len);
    luaL_gsub(L, lua_tostring(L, -1), "/", ".");
    lua_remove(L, -2);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static void open_core(lua_State *L)
{
  static const luaL_Reg own[] = {
      {"set_metatable", core_set_metatable}, {"has_module", core_has_module}, {"source", core_source},
      {"modules", core_modules}, {NULL, NULL}};
  lua_newtable(L);
  luaL_setfuncs(L, own, 0);
  capl_count_from(1); /* dims and places, in every message */
  bind_open_errors(L);
  bind_open_tensors(L);
  bind_open_create(L);
  bind_open_show(L);
  bind_open_ops(L);
  bind_open_fuse(L);
  bind_open_peephole(L);
  bind_open_scopes(L);
  bind_open_misc(L);
  bind_open_finite(L);
  bind_open_range(L);
  bind_open_text(L);
  bind_open_recompute(L);
  bind_open_data(L);
  capl_sys_push(L);
  lua_setfield(L, -2, "sys");
  bind_open_io(L);
  bind_open_json(L);
  bind_open_checkpoint(L);
  bind_open_plot(L);
  bind_open_events(L);
  bind_open_model(L);
  bind_open_capture(L);
  bind_open_monitor(L);
  bind_open_dist(L);
  bind_open_buckets(L);
  bind_open_gradient(L);
  lua_setfield(L, LUA_REGISTRYINDEX, CORE);
  bind_set_iterators(L);
}

void capl_bind_core(lua_State *L) { lua_getfield(L, LUA_REGISTRYINDEX, CORE); }

/* ---- recipes --------------------------------------------------------------------------------- */

static int load_protected(lua_State *L)
{
  size_t n;
  const char *text = lua_tolstring(L, 1, &n);
  if (luaL_loadbufferx(L, text, n, lua_tostring(L, 2), "t") != 0) return lua_error(L);
  capl_bind_environment(L);
  lua_setfenv(L, -2);
  return 1;
}

int capl_bind_load(lua_State *L, const char *text, size_t len, const char *name)
{
  lua_pushcfunction(L, load_protected);
  lua_pushlstring(L, text, len);
  lua_pushstring(L, name);
  return capl_bind_call(L, 2, 1);
}

static int call_module_protected(lua_State *L)
{
  const char *module = lua_tostring(L, 1), *function = lua_tostring(L, 2);
  capl_bind_require(L, module);
  lua_getfield(L, -1, function);
  lua_remove(L, -2);
  lua_replace(L, 1);
  lua_remove(L, 2);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

int capl_bind_call_module(lua_State *L, const char *module, const char *function, int nargs, int nresults)
{
  int base = lua_gettop(L) - nargs + 1;
  lua_pushcfunction(L, call_module_protected);
  lua_insert(L, base);
  lua_pushstring(L, module);
  lua_insert(L, base + 1);
  lua_pushstring(L, function);
  lua_insert(L, base + 2);
  return capl_bind_call(L, nargs + 2, nresults);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void open_standard(lua_State *L, lua_CFunction open, const char *name)
{
  lua_pushcfunction(L, open);
  lua_pushstring(L, name);
  lua_call(L, 1, 0);
}

/* Notes whether the LuaJIT that runs is the one whose bytecode is embedded: it may have been replaced since the build,
** and capl.so is loaded by programs that have their own. */
static void set_bytecode(lua_State *L)
{
  lua_getglobal(L, "jit");
  if (lua_istable(L, -1)) lua_getfield(L, -1, "version");
  const char *version = lua_tostring(L, -1);
  lua_pushboolean(L, version && strcmp(version, capl_embedded_luajit) == 0);
  lua_setfield(L, LUA_REGISTRYINDEX, BYTECODE);
  lua_settop(L, 0);
}

/* Opens what recipes may reach; luaopen_jit is needed to start the compiler, its table goes again. */
static int open_state(lua_State *L)
{
  BIND_LOADING(L);
  open_standard(L, luaopen_base, "");
  open_standard(L, luaopen_table, "table");
  open_standard(L, luaopen_string, "string");
  open_standard(L, luaopen_math, "math");
  open_standard(L, luaopen_bit, "bit");
  open_standard(L, luaopen_jit, "jit");
  if (!state.compiles) luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  set_bytecode(L);
  lua_newtable(L);
  lua_setfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_newtable(L);
  lua_setfield(L, LUA_REGISTRYINDEX, "_PRELOAD");
  lua_getglobal(L, "string");
  lua_pushnil(L);
  lua_setfield(L, -2, "dump"); /* ("").dump finds this table */
  lua_pushliteral(L, "");
  lua_getmetatable(L, -1);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_settop(L, 0);
  bind_open_environments(L);
  lua_newtable(L);
  lua_setfield(L, LUA_REGISTRYINDEX, LOADED);
  open_core(L);
  return 0;
}

static void set_path(lua_State *L, const char *given)
{
  const char *path = given ? given : getenv("CAPL_LUA_PATH");
  if (!path || !*path) return;
  lua_pushstring(L, path);
  lua_setfield(L, LUA_REGISTRYINDEX, PATH);
}

/* An error that nothing catches, which is one of memory as a rule; Lua ends the process when this returns. */
static int panic(lua_State *L)
{
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error that nothing catches";
  fprintf(stderr, "capl: %s\n", text);
  if (strcmp(text, "not enough memory") == 0)
    fputs("  hint: the machine is out of memory, or ulimit -v is too low\n", stderr);
  return 0;
}

capl_status capl_state_new(const capl_state_options *options, lua_State **out)
{
  lua_State *L = luaL_newstate();
  if (!L) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a Lua state");
  lua_atpanic(L, panic);
  set_path(L, options ? options->lua_path : NULL);
  state.own = true;
  state.compiles = !options || options->jit;
  if (lua_cpcall(L, open_state, NULL) != 0) {
    CAPL_FAIL(CAPL_EINTERNAL, "Lua state: %s", lua_tostring(L, -1));
    lua_close(L);
    return CAPL_EINTERNAL;
  }
  *out = L;
  return CAPL_OK;
}

void capl_state_close(lua_State *L)
{
  if (bind_current.L) bind_current.L = NULL;
  bind_unlimit(L);
  lua_close(L);
}

/* require "capl" in any LuaJIT: the same library, in the same environment of its own. */
int luaopen_capl(lua_State *L)
{
  set_path(L, NULL);
  set_bytecode(L);
  bind_open_environments(L);
  lua_newtable(L);
  lua_setfield(L, LUA_REGISTRYINDEX, LOADED);
  open_core(L);
  capl_bind_require(L, "init");
  return 1;
}
