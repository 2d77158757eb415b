/* library.h -- readers that are written in Lua: a state with the library, and one function of Lua that is called with each input.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FUZZ_LIBRARY_H
#define CAPL_FUZZ_LIBRARY_H

#include <lauxlib.h>

#include "bind/bind.h"
#include "fuzz.h"

/* What Lua's objects hold would count as lost: LeakSanitizer does not look into LuaJIT's memory. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }

/* The function that a text of Lua returns, which gets the core table and the library's require. */
static inline int library_require(lua_State *L) { return capl_bind_require(L, luaL_checkstring(L, 1)), 1; }

static inline int library_load(lua_State *L)
{
  if (luaL_loadstring(L, lua_tostring(L, 1)) != 0) return lua_error(L);
  capl_bind_core(L);
  lua_pushcfunction(L, library_require);
  lua_call(L, 2, 1);
  return 1;
}

static inline lua_State *library_open(const char *text)
{
  lua_State *L;
  FUZZ_CHECK(capl_state_new(NULL, &L) == CAPL_OK);
  lua_pushcfunction(L, library_load);
  lua_pushstring(L, text);
  if (capl_bind_call(L, 1, 1) != 0) fuzz_die(capl_bind_error_text(L, -1, true));
  return L;
}

/* The same, with the folder's path where the text says FOLDER. */
static inline lua_State *library_open_in(const char *text, const char *folder)
{
  const char *place = strstr(text, "FOLDER");
  size_t room = strlen(text) + strlen(folder);
  char *whole = malloc(room);
  FUZZ_CHECK(whole && place);
  snprintf(whole, room, "%.*s'%s'%s", (int)(place - text), text, folder, place + 6);
  lua_State *L = library_open(whole);
  free(whole);
  return L;
}

/* Calls the function with the input. An error is one that somebody thought of: it has a code, and no context in the library. */
static inline void library_call(lua_State *L, const uint8_t *data, size_t size)
{
  lua_pushvalue(L, 1);
  lua_pushlstring(L, (const char *)data, size);
  if (capl_bind_call(L, 1, 0) != 0) {
    const char *text = capl_bind_error_text(L, -1, true), *code = capl_bind_error_code(L, -2);
    if (!lua_istable(L, -2) || !code) fuzz_die(text);
    lua_getfield(L, -2, "context");
    if (lua_isstring(L, -1) && strstr(lua_tostring(L, -1), "in the library")) fuzz_die(text);
  }
  lua_settop(L, 1);
}

#endif
