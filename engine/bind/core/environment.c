/* environment.c -- what Lua a recipe can reach: harmless functions of its own, and the library's tables to read.
**
** Registry: "capl.library" the environment of library chunks, "capl.recipe" that of recipes. Functions that could leave
** the list, or wait where no hook reaches, are replaced by the ones here; what protects the library's tables is
** lua/capl/readonly.lua; `require` is require.c.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "bind/core/sys.h"

#define LIBRARY "capl.library"
#define RECIPE "capl.recipe"

/* ---- functions of the recipe environment ----------------------------------------------------- */

/* print: control bytes are shown as \xNN, so that no text can steer the terminal. */
static int safe_print(lua_State *L)
{
  int n = lua_gettop(L);
  char piece[16];
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
    bind_count_output(len + 1);
    for (size_t j = 0, shown; j < len; fwrite(piece, 1, shown, stdout))
      j += (size_t)capl_text_show_char(s + j, true, piece, &shown);
    lua_pop(L, 1);
  }
  putchar('\n');
  return 0;
}

/* What a reader function gives, piece by piece, as one string in its place: only a whole text can be distinguished from
** bytecode. */
static void gather_pieces(lua_State *L)
{
  enum { MOST_PIECES = 100000 };
  lua_newtable(L);
  int pieces = lua_gettop(L), n = 0;
  for (;; n++) {
    lua_pushvalue(L, 1);
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1) || (lua_type(L, -1) == LUA_TSTRING && lua_objlen(L, -1) == 0)) break;
    if (lua_type(L, -1) != LUA_TSTRING)
      bind_fail(L, CAPL_EVALUE, "load", NULL, "the reader must return texts, got a %s", bind_typename(L, -1));
    if (n == MOST_PIECES) bind_fail(L, CAPL_EVALUE, "load", NULL, "more than %d pieces of text", MOST_PIECES);
    lua_rawseti(L, pieces, n + 1);
  }
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  for (int i = 1; i <= n; i++) lua_rawgeti(L, pieces, i), luaL_addvalue(&text);
  luaL_pushresult(&text);
  lua_replace(L, 1);
}

/* load(text or reader[, name[, mode[, env]]]): text only, into the recipe's environment unless one is given */
static int safe_load(lua_State *L)
{
  size_t n;
  lua_settop(L, 4);
  if (lua_isfunction(L, 1)) gather_pieces(L), lua_settop(L, 4);
  if (lua_type(L, 1) != LUA_TSTRING) return bind_type_error(L, 1, "string of Lua text, or function that gives it,");
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

/* rawset for tables that do not protect themselves: it would write past what makes library tables and settings
** read-only */
static int safe_rawset(lua_State *L)
{
  bind_check_table(L, 1);
  luaL_checkany(L, 3);
  /* a table: an object of a class, whose fields are free */
  if (luaL_getmetafield(L, 1, "__metatable") && !lua_istable(L, -1))
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
    bind_use(L); /* and the coroutine that called last is garbage like any other */
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

void bind_push_library(lua_State *L) { lua_getfield(L, LUA_REGISTRYINDEX, LIBRARY); }

void bind_open_environments(lua_State *L)
{
  static const luaL_Reg own[] = {{"require", bind_library_require}, {"print", safe_print}, {NULL, NULL}};
  push_harmless(L);
  lua_getglobal(L, "getmetatable");
  lua_setfield(L, -2, "getmetatable");
  luaL_setfuncs(L, own, 0);
  lua_setfield(L, LUA_REGISTRYINDEX, LIBRARY);
}

/* Replaces pairs, next and table.foreach of the environment on top: see lua/capl/pairs.lua. */
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

/* The library's own setmetatable, which keeps its classes to itself: lua/capl/readonly.lua. */
static void set_metatables(lua_State *L)
{
  capl_bind_require(L, "readonly");
  lua_getfield(L, -1, "setmetatable");
  lua_setfield(L, -3, "setmetatable");
  lua_pop(L, 1);
}

void bind_set_iterators(lua_State *L)
{
  bind_push_library(L);
  set_iterators(L);
  set_metatables(L);
  lua_pop(L, 1);
}

/* Calls a function of lua/capl/readonly.lua with the value on top, which its result replaces. */
static void seal_with(lua_State *L, const char *function)
{
  capl_bind_require(L, "readonly");
  lua_getfield(L, -1, function);
  lua_replace(L, -2);
  lua_insert(L, -2);
  lua_call(L, 1, 1);
}

/* Sets env.key to the library's value of that name, which recipes may read. */
static void set_library(lua_State *L, const char *key)
{
  capl_bind_require(L, "init");
  if (strcmp(key, "capl") != 0) {
    lua_getfield(L, -1, key);
    lua_remove(L, -2);
  }
  if (lua_istable(L, -1)) seal_with(L, "public");
  lua_setfield(L, -2, key);
}

/* The functions of recipes that know sealed tables, in place of Lua's: into the environment on top, and its table
** library. */
static void set_seal_functions(lua_State *L)
{
  static const char *const in_table[] = {"insert", "remove", "sort", NULL};
  static const char *const global[] = {"setmetatable", "getmetatable", "rawget", NULL};
  capl_bind_require(L, "readonly");
  lua_getfield(L, -1, "functions");
  lua_replace(L, -2);
  for (int i = 0; global[i]; i++) lua_getfield(L, -1, global[i]), lua_setfield(L, -3, global[i]);
  lua_getfield(L, -2, "table");
  for (int i = 0; in_table[i]; i++) lua_getfield(L, -2, in_table[i]), lua_setfield(L, -2, in_table[i]);
  lua_pop(L, 2);
}

/* ---- parts that are loaded when first used --------------------------------------------------- */

static const char *const parts[] = {"nn", "optim", "data", "augment", "plot", "train", NULL};

/* __index of the environment. */
static int load_part(lua_State *L)
{
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  for (int i = 0; parts[i]; i++) {
    if (strcmp(parts[i], key) != 0) continue;
    lua_settop(L, 1);
    set_library(L, key);
    return lua_getfield(L, 1, key), 1;
  }
  return 0;
}

/* From here on the environment is a plain table. */
static int load_all_parts(lua_State *L)
{
  capl_bind_environment(L);
  if (!lua_getmetatable(L, -1)) return 0;
  lua_getfield(L, -1, "__index");
  bool own = lua_tocfunction(L, -1) == load_part;
  lua_pop(L, 2);
  if (!own) return 0;
  for (int i = 0; parts[i]; i++) lua_getfield(L, -1, parts[i]), lua_pop(L, 1);
  lua_pushnil(L);
  lua_setmetatable(L, -2);
  return 0;
}

void bind_whole_environment(lua_State *L)
{
  lua_pushcfunction(L, load_all_parts);
  lua_call(L, 0, 0);
  capl_bind_environment(L);
}

/* Recipes that look through their environment, on top, or set its metatable, find all parts in it:
** lua/capl/readonly.lua. */
static void begin_sealing(lua_State *L)
{
  capl_bind_require(L, "readonly");
  lua_getfield(L, -1, "begin");
  lua_pushvalue(L, -3);
  lua_pushcfunction(L, load_all_parts);
  lua_call(L, 2, 0);
  lua_pop(L, 1);
}

static void set_parts(lua_State *L)
{
  lua_newtable(L);
  lua_pushcfunction(L, load_part);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}

/* ---- the environment of recipes -------------------------------------------------------------- */

void capl_bind_environment(lua_State *L)
{
  static const luaL_Reg own[] = {{"print", safe_print},
                                 {"load", safe_load},
                                 {"loadstring", safe_load},
                                 {"require", bind_recipe_require},
                                 {"xpcall", safe_xpcall},
                                 {"rawset", safe_rawset},
                                 {"collectgarbage", safe_collectgarbage},
                                 {NULL, NULL}};
  lua_getfield(L, LUA_REGISTRYINDEX, RECIPE);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1);
  BIND_LOADING(L);
  push_harmless(L);
  set_iterators(L);
  set_seal_functions(L);
  begin_sealing(L);
  for (int i = 0; libraries[i]; i++) {
    lua_getfield(L, -1, libraries[i]);
    seal_with(L, "public");
    lua_setfield(L, -2, libraries[i]);
  }
  luaL_setfuncs(L, own, 0);
  set_library(L, "capl");
  set_parts(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "_G");
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, RECIPE);
}
