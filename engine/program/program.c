/* program.c -- what the program is, for its own Lua library: its commands, the recipes beside it, what it was built
** with. SPDX-License-Identifier: Apache-2.0
*/
#include "program/program.h"

#include <lauxlib.h>
#include <luajit.h>
#include <string.h>

#include "program/commands.h"
#include "program/header.h"
#include "program/shipped.h"

static void push_command(lua_State *L, const capl_command *c)
{
  const struct {
    const char *key, *value;
  } texts[] = {{"name", c->name}, {"group", c->group}, {"usage", c->usage}, {"help", c->help}};
  lua_createtable(L, 0, 6);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    lua_pushstring(L, texts[i].value);
    lua_setfield(L, -2, texts[i].key);
  }
  lua_pushboolean(L, c->recipe != RECIPE_NONE);
  lua_setfield(L, -2, "recipe");
  lua_pushboolean(L, c->ranks != RANKS_NO);
  lua_setfield(L, -2, "ranks");
}

/* commands() -> {{name, group, usage, help, recipe, ranks}}, in the order of the list */
static int sys_commands(lua_State *L)
{
  int n;
  const capl_command *list = capl_commands(&n);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    push_command(L, &list[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* globals() -> {{name, value, help}}: options before the command */
static int sys_globals(lua_State *L)
{
  int n;
  const capl_global *list = capl_globals(&n);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_createtable(L, 0, 3);
    lua_pushstring(L, list[i].name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, list[i].value);
    lua_setfield(L, -2, "value");
    lua_pushstring(L, list[i].help);
    lua_setfield(L, -2, "help");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* gone(word) -> what took the place of a command or an option ("--key") of earlier versions, or nil */
static int sys_gone(lua_State *L)
{
  lua_pushstring(L, capl_gone(luaL_checkstring(L, 1)));
  return 1;
}

/* recipes() -> folder of the recipes that come with the program, nil when there is none */
static int sys_recipes(lua_State *L)
{
  char path[4096];
  if (!shipped_folder(path, sizeof path)) return 0;
  lua_pushstring(L, path);
  return 1;
}

/* models() -> folder of the installed models, nil when there is none */
static int sys_models(lua_State *L)
{
  char path[4096];
  if (!shipped_models(path, sizeof path)) return 0;
  lua_pushstring(L, path);
  return 1;
}

/* built() -> {compiler, type, luajit, recipe_version, libraries = {"libpng 1.6.39", …}}: what this program was built
** with */
static int sys_built(lua_State *L)
{
  static const char *const libraries[] = {CAPL_LIBRARIES NULL};
  lua_newtable(L);
  lua_pushstring(L, LUAJIT_VERSION);
  lua_setfield(L, -2, "luajit");
  lua_pushstring(L, CAPL_BUILD_TYPE);
  lua_setfield(L, -2, "type");
  lua_pushinteger(L, CAPL_RECIPE_VERSION);
  lua_setfield(L, -2, "recipe_version");
#ifdef __clang__
  lua_pushstring(L, __VERSION__);
#else
  lua_pushfstring(L, "GCC %s", __VERSION__);
#endif
  lua_setfield(L, -2, "compiler");
  lua_newtable(L);
  for (int i = 0; libraries[i]; i++) {
    lua_pushstring(L, libraries[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "libraries");
  return 1;
}

void capl_program_add(lua_State *L)
{
  static const luaL_Reg functions[] = {{"commands", sys_commands}, {"globals", sys_globals}, {"recipes", sys_recipes},
    {"models", sys_models}, {"built", sys_built}, {"gone", sys_gone}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
