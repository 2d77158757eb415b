/* l_state.c -- states, environments, and loading: the library from its embedded text, recipes as text only.
**
** Registry: "capl.core" the private table of C functions, "capl.library" the environment of library chunks,
** "capl.loaded" values of library modules by name, "capl.recipe" the environment of recipes. None of them
** holds io, os, debug, package, jit or ffi, whatever the surrounding state has open.
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
#define LIBRARY "capl.library"
#define LOADED "capl.loaded"
#define RECIPE "capl.recipe"
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
  lua_getfield(L, LUA_REGISTRYINDEX, LIBRARY);
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

static int library_require(lua_State *L)
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

/* ---- functions of the recipe environment ----------------------------------------------------- */

/* print: control bytes are shown as \xNN, so that no text can steer the terminal. */
static int safe_print(lua_State *L)
{
  int n = lua_gettop(L);
  capl_sys_bar_clear();
  for (int i = 1; i <= n; i++) {
    size_t len;
    const char *s;
    if (luaL_callmeta(L, i, "__tostring"))
      s = lua_tolstring(L, -1, &len);
    else if (lua_isstring(L, i))
      lua_pushvalue(L, i), s = lua_tolstring(L, -1, &len);
    else if (lua_isboolean(L, i))
      s = lua_toboolean(L, i) ? "true" : "false", len = strlen(s), lua_pushnil(L);
    else if (lua_isnil(L, i))
      s = "nil", len = 3, lua_pushnil(L);
    else
      s = lua_pushfstring(L, "%s: %p", luaL_typename(L, i), lua_topointer(L, i)), len = strlen(s);
    if (!s) return bind_fail(L, CAPL_EVALUE, "print", NULL, "__tostring must return a string");
    if (i > 1) putchar('\t');
    for (size_t j = 0; j < len; j++) {
      unsigned char c = (unsigned char)s[j];
      if ((c < 32 && c != '\n' && c != '\t') || c == 127)
        printf("\\x%02x", c);
      else
        putchar(c);
    }
    lua_pop(L, 1);
  }
  putchar('\n');
  return 0;
}

/* load(text[, name[, mode[, env]]]): text only, into the recipe's environment unless one is given */
static int safe_load(lua_State *L)
{
  size_t n;
  if (lua_type(L, 1) != LUA_TSTRING) return bind_type_error(L, 1, "string of Lua text");
  lua_settop(L, 4);
  const char *text = lua_tolstring(L, 1, &n),
             *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "=(load)";
  if (strncmp(name, "@capl:", 6) == 0) name = "=(load)"; /* frames of the library are not forged */
  if (luaL_loadbufferx(L, text, n, name, "t") != 0) {
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  if (lua_istable(L, 4))
    lua_pushvalue(L, 4);
  else
    capl_bind_environment(L);
  lua_setfenv(L, -2);
  return 1;
}

/* getmetatable of tables alone, honouring __metatable: those of strings and tensors are ours */
static int safe_getmetatable(lua_State *L)
{
  if (!lua_istable(L, 1) || !lua_getmetatable(L, 1)) return lua_pushnil(L), 1;
  lua_getfield(L, -1, "__metatable");
  if (lua_isnil(L, -1)) lua_pop(L, 1);
  return 1;
}

/* rawset for tables that do not protect themselves: it would write past what makes library tables and settings
** read-only */
static int safe_rawset(lua_State *L)
{
  bind_check_table(L, 1);
  luaL_checkany(L, 3);
  if (luaL_getmetafield(L, 1, "__metatable"))
    return bind_fail(L, CAPL_EVALUE, "rawset", NULL, "the table is read-only: its metatable is protected");
  bool number = lua_type(L, 2) == LUA_TNUMBER;
  if (lua_isnil(L, 2) || (number && lua_tonumber(L, 2) != lua_tonumber(L, 2)))
    return bind_arg_error(L, 2, "a key cannot be %s", number ? "NaN" : "nil");
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 1;
}

/* xpcall whose handler runs after unwinding: it cannot hang where no hook reaches it */
static int safe_xpcall(lua_State *L)
{
  bind_check_function(L, 1);
  bind_check_function(L, 2);
  int n = lua_gettop(L);
  lua_pushvalue(L, 2);
  lua_remove(L, 2);
  lua_insert(L, 1); /* handler, f, arguments */
  if (lua_pcall(L, n - 2, LUA_MULTRET, 0) == 0) {
    lua_pushboolean(L, 1);
    lua_replace(L, 1);
    return lua_gettop(L);
  }
  lua_call(L, 1, 1); /* handler(error) */
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

static int safe_collectgarbage(lua_State *L)
{
  const char *what = lua_isnoneornil(L, 1) ? "collect" : bind_check_string(L, 1);
  if (strcmp(what, "collect") == 0) {
    lua_gc(L, LUA_GCCOLLECT, 0);
    lua_pushinteger(L, 0);
  } else if (strcmp(what, "count") == 0) {
    lua_pushnumber(L, lua_gc(L, LUA_GCCOUNT, 0) + lua_gc(L, LUA_GCCOUNTB, 0) / 1024.0);
  } else {
    return bind_arg_error(L, 1, "'collect' or 'count' expected, got '%s'", what);
  }
  return 1;
}

/* ---- environments ---------------------------------------------------------------------------- */

static const char *const harmless[] = {
    "assert", "error",    "ipairs",   "next", "pairs",  "pcall",        "rawequal", "rawget", "rawset",
    "select", "tonumber", "tostring", "type", "unpack", "setmetatable", "_VERSION", NULL};
static const char *const libraries[] = {"table", "string", "math", "bit", "coroutine", NULL};

static void copy_table(lua_State *L, const char *name, const char *without)
{
  lua_newtable(L);
  lua_getglobal(L, name);
  for (lua_pushnil(L); lua_istable(L, -2) && lua_next(L, -2);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -5);
  }
  lua_pop(L, 1);
  if (!without) return;
  lua_pushnil(L);
  lua_setfield(L, -2, without);
}

/* A new table on top with the harmless functions and copies of the harmless libraries. */
static void push_harmless(lua_State *L)
{
  lua_newtable(L);
  for (int i = 0; harmless[i]; i++) {
    lua_getglobal(L, harmless[i]);
    lua_setfield(L, -2, harmless[i]);
  }
  for (int i = 0; libraries[i]; i++) {
    copy_table(L, libraries[i], strcmp(libraries[i], "string") == 0 ? "dump" : NULL);
    lua_setfield(L, -2, libraries[i]);
  }
}

static int refuse_write(lua_State *L)
{
  const char *hint = "keep your own values in local variables or tables of your own";
  return bind_fail(L, CAPL_EVALUE, NULL, hint, "library tables are read-only: '%s' cannot be set",
                   lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2));
}

/* Replaces the table on top by an empty one that reads from it and refuses writes. */
static void make_readonly(lua_State *L)
{
  lua_newtable(L);
  lua_newtable(L);
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, refuse_write);
  lua_setfield(L, -2, "__newindex");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  lua_remove(L, -2);
}

static void open_library_environment(lua_State *L)
{
  static const luaL_Reg own[] = {{"require", library_require}, {"print", safe_print}, {NULL, NULL}};
  push_harmless(L);
  lua_getglobal(L, "getmetatable");
  lua_setfield(L, -2, "getmetatable");
  luaL_setfuncs(L, own, 0);
  lua_setfield(L, LUA_REGISTRYINDEX, LIBRARY);
  lua_newtable(L);
  lua_setfield(L, LUA_REGISTRYINDEX, LOADED);
}

/* Replaces pairs, next and table.foreach of the environment on top: lua/capl/pairs.lua tells why. */
static void set_iterators(lua_State *L)
{
  capl_bind_require(L, "pairs");
  lua_getfield(L, -1, "next");
  lua_setfield(L, -3, "next");
  lua_getfield(L, -1, "pairs");
  lua_setfield(L, -3, "pairs");
  lua_getfield(L, -2, "table");
  lua_getfield(L, -2, "foreach");
  lua_setfield(L, -2, "foreach");
  lua_pop(L, 2);
}

static void open_core(lua_State *L)
{
  static const luaL_Reg own[] = {
      {"has_module", core_has_module}, {"source", core_source}, {"modules", core_modules}, {NULL, NULL}};
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
  lua_getfield(L, LUA_REGISTRYINDEX, LIBRARY);
  set_iterators(L);
  lua_pop(L, 1);
}

void capl_bind_core(lua_State *L) { lua_getfield(L, LUA_REGISTRYINDEX, CORE); }

/* Sets env.key to a read-only view of module's value, when the library has that module. */
static void set_library(lua_State *L, const char *key)
{
  capl_bind_require(L, "init");
  if (strcmp(key, "capl") != 0) {
    lua_getfield(L, -1, key);
    lua_remove(L, -2);
  }
  if (lua_istable(L, -1)) make_readonly(L);
  lua_setfield(L, -2, key);
}

void capl_bind_environment(lua_State *L)
{
  static const luaL_Reg own[] = {{"print", safe_print},
                                 {"load", safe_load},
                                 {"loadstring", safe_load},
                                 {"xpcall", safe_xpcall},
                                 {"getmetatable", safe_getmetatable},
                                 {"rawset", safe_rawset},
                                 {"collectgarbage", safe_collectgarbage},
                                 {NULL, NULL}};
  static const char *const names[] = {"capl", "nn", "optim", "data", "augment", "plot", "train", NULL};
  lua_getfield(L, LUA_REGISTRYINDEX, RECIPE);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1);
  push_harmless(L);
  set_iterators(L);
  for (int i = 0; libraries[i]; i++) {
    lua_getfield(L, -1, libraries[i]);
    make_readonly(L);
    lua_setfield(L, -2, libraries[i]);
  }
  luaL_setfuncs(L, own, 0);
  for (int i = 0; names[i]; i++) set_library(L, names[i]);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "_G");
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, RECIPE);
}

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
  open_library_environment(L);
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
  lua_close(L);
}

/* require "capl" in any LuaJIT: the same library, in the same environment of its own. */
int luaopen_capl(lua_State *L)
{
  set_path(L, NULL);
  open_library_environment(L);
  open_core(L);
  capl_bind_require(L, "init");
  return 1;
}
