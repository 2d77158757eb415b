/* l_state.c -- states, and loading: the library from its embedded text, recipes as text only.
**
** Registry: "capl.core" the private table of C functions, "capl.loaded" values of library modules by name. The
** environments of the library and of recipes are l_environment.c's. Neither holds io, os, debug, package, jit or ffi,
** whatever the surrounding state has open.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/l_bind.h"

#include <luajit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind/embedded.h"
#include "bind/sys.h"

#define CORE "capl.core"
#define LOADED "capl.loaded"
#define PATH "capl.path"

enum { MAX_FILE = 1 << 20 };

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

static bool push_embedded(lua_State *L, const char *file)
{
  for (const capl_embedded_file *e = capl_embedded; e->path; e++)
    if (strcmp(e->path, file) == 0) {
      lua_pushlstring(L, e->text, e->length);
      return true;
    }
  return false;
}

/* Pushes the text of a library file from the tree given by --lua-path, else from the binary. */
static bool push_source(lua_State *L, const char *file)
{
  lua_getfield(L, LUA_REGISTRYINDEX, PATH);
  const char *folder = lua_tostring(L, -1);
  bool found = folder ? push_file(L, folder, file) : push_embedded(L, file);
  lua_remove(L, found ? -2 : -1);
  return found;
}

/* Pushes text and sets file: "nn.conv2d" is nn/conv2d.lua or nn/conv2d/init.lua; "init" is init.lua. */
static bool find_module(lua_State *L, const char *module, char *file, size_t len)
{
  static const char *const forms[] = {"%s.lua", "%s/init.lua"};
  char path[200];
  snprintf(path, sizeof path, "%s", module);
  for (char *p = path; *p; p++)
    if (*p == '.') *p = '/';
  for (int i = 0; i < 2; i++) {
    snprintf(file, len, forms[i], path);
    if (push_source(L, file)) return true;
  }
  return false;
}

/* Loads the text on top as chunk "@capl:file" in the library's environment, calls it with core and the
** module's name, and pushes what it returns. */
static void run_module(lua_State *L, const char *module, const char *file)
{
  char chunk[288];
  size_t n;
  const char *text = lua_tolstring(L, -1, &n);
  snprintf(chunk, sizeof chunk, "@capl:%s", file);
  if (luaL_loadbufferx(L, text, n, chunk, "t") != 0) lua_error(L);
  lua_remove(L, -2);
  bind_push_library(L);
  lua_setfenv(L, -2);
  capl_bind_core(L);
  lua_pushstring(L, module);
  lua_call(L, 2, 1);
}

void capl_bind_require(lua_State *L, const char *module)
{
  char file[256];
  luaL_checkstack(L, 8, "require");
  lua_getfield(L, LUA_REGISTRYINDEX, LOADED);
  lua_getfield(L, -1, module);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    if (!find_module(L, module, file, sizeof file))
      bind_fail(L, CAPL_EINTERNAL, NULL, NULL, "capl's library has no module '%s'", module);
    run_module(L, module, file);
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
  char file[256];
  lua_pushboolean(L, find_module(L, bind_check_string(L, 1), file, sizeof file));
  return 1;
}

/* core.source(module) -> the module's text, for docstrings; nil if there is none */
static int core_source(lua_State *L)
{
  char file[256];
  if (!find_module(L, bind_check_string(L, 1), file, sizeof file)) lua_pushnil(L);
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
      {"set_metatable", core_set_metatable}, {"has_module", core_has_module}, {"source", core_source}, {"modules", core_modules}, {NULL, NULL}};
  lua_newtable(L);
  luaL_setfuncs(L, own, 0);
  bind_open_errors(L);
  bind_open_tensors(L);
  bind_open_create(L);
  bind_open_show(L);
  bind_open_ops(L);
  bind_open_fuse(L);
  bind_open_scopes(L);
  bind_open_misc(L);
  bind_open_finite(L);
  bind_open_text(L);
  bind_open_recompute(L);
  bind_open_data(L);
  capl_sys_push(L);
  lua_setfield(L, -2, "sys");
  bind_open_io(L);
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

/* Opens what recipes may reach; luaopen_jit is needed to start the compiler, its table goes again. */
static int open_state(lua_State *L)
{
  const capl_state_options *options = lua_touserdata(L, 1);
  open_standard(L, luaopen_base, "");
  open_standard(L, luaopen_table, "table");
  open_standard(L, luaopen_string, "string");
  open_standard(L, luaopen_math, "math");
  open_standard(L, luaopen_bit, "bit");
  open_standard(L, luaopen_jit, "jit");
  if (options && !options->jit) luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
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

capl_status capl_state_new(const capl_state_options *options, lua_State **out)
{
  lua_State *L = luaL_newstate();
  if (!L) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a Lua state");
  set_path(L, options ? options->lua_path : NULL);
  if (lua_cpcall(L, open_state, (void *)options) != 0) {
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
  bind_open_environments(L);
  lua_newtable(L);
  lua_setfield(L, LUA_REGISTRYINDEX, LOADED);
  open_core(L);
  capl_bind_require(L, "init");
  return 1;
}
