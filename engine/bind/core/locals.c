/* locals.c -- the local names of a recipe's functions: copied when they end or fail, read and set while they wait.
**
** Nothing of this costs a run that nobody looks at: frames are kept only after frames_keep, and then copied only where
** an error is raised, once, and where the main chunk returns, by a hook that is taken away there.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/locals.h"

#include <luajit.h>
#include <stdio.h>
#include <string.h>

#include "bind/core/core.h"

#define KEPT "capl.frames" /* {error =, interrupt =, [1] = frame, …}, the innermost first */

enum { MOST_FRAMES = 100, MOST_NAMES = 250, DEPTH = 3, WIDTH = 200 };

static bool keeping;

/* ---- which frames ---------------------------------------------------------------------------- */

static bool is_of_recipe(const lua_Debug *ar)
{
  return *ar->what != 'C' && strncmp(ar->source, "@capl:", 6) != 0 && strcmp(ar->source, "=prompt") != 0 &&
         strcmp(ar->source, "=stdin") != 0;
}

/* Sets where, name and line of the frame table on top. */
static void describe(lua_State *L, const lua_Debug *ar)
{
  const char *file = *ar->source == '@' ? ar->source + 1 : ar->short_src;
  lua_pushfstring(L, "%s:%d", file, ar->currentline);
  lua_setfield(L, -2, "where");
  if (strcmp(ar->what, "main") == 0)
    lua_pushliteral(L, "main chunk");
  else if (ar->name)
    lua_pushstring(L, ar->name);
  else
    lua_pushfstring(L, "function <%s:%d>", file, ar->linedefined);
  lua_setfield(L, -2, "name");
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Takes the tensors in the value on top out of their scopes, whose end would release them. */
static void keep_tensors(lua_State *L, int depth)
{
  capl_handle *h = bind_peek_handle(L, -1);
  if (h) bind_handle_keep(h);
  if (!lua_istable(L, -1) || depth == DEPTH) return;
  luaL_checkstack(L, 4, "frames");
  int n = 0;
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (++n > WIDTH) return lua_pop(L, 2);
    keep_tensors(L, depth + 1);
  }
}

/* Moves the value on top into values, behind it on the stack, as number n + 1, and its name into names. */
static void add_name(lua_State *L, const char *name, int *n)
{
  keep_tensors(L, 0);
  lua_rawseti(L, -2, ++*n);
  lua_pushstring(L, name);
  lua_rawseti(L, -3, *n);
}

/* Pushes {where, name, names = list, values = list, n}: locals in their order, then what the function has from
** outside. */
static void push_copy(lua_State *L, lua_Debug *ar)
{
  int n = 0;
  const char *name;
  lua_newtable(L);
  describe(L, ar);
  lua_newtable(L);
  lua_newtable(L);
  lua_getinfo(L, "f", ar);
  lua_insert(L, -4); /* function, frame, names, values */
  for (int i = 1; n < MOST_NAMES && (name = lua_getupvalue(L, -4, i)); i++) add_name(L, name, &n);
  for (int i = 1; n < MOST_NAMES && (name = lua_getlocal(L, ar, i)); i++) {
    if (*name == '(') lua_pop(L, 1);
    else add_name(L, name, &n);
  }
  lua_setfield(L, -3, "values");
  lua_setfield(L, -2, "names");
  lua_pushinteger(L, n);
  lua_setfield(L, -2, "n");
  lua_remove(L, -2);
}

/* Pushes the list of copies of all frames of the recipe. */
static void push_copies(lua_State *L)
{
  lua_Debug ar;
  int n = 0;
  luaL_checkstack(L, 16, "frames");
  lua_newtable(L);
  for (int level = 0; n < MOST_FRAMES && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sln", &ar);
    if (!is_of_recipe(&ar)) continue;
    push_copy(L, &ar);
    lua_rawseti(L, -2, ++n);
  }
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Whether the error on top needs no copies: it has them, or holds memory that is about to be needed, or comes after
** Ctrl-C, on the way to the end. */
static bool is_noted(lua_State *L)
{
  int top = lua_gettop(L);
  if (strcmp(capl_bind_error_code(L, top), "nomem") == 0) return true;
  lua_getfield(L, LUA_REGISTRYINDEX, KEPT);
  bool noted = false;
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "interrupt");
    lua_getfield(L, -2, "error");
    noted = lua_rawequal(L, -1, top) || lua_toboolean(L, -2);
  }
  lua_settop(L, top);
  return noted;
}

static void note(lua_State *L, bool interrupt)
{
  if (!keeping || !lua_checkstack(L, 32) || is_noted(L)) return;
  push_copies(L);
  if (lua_objlen(L, -1) == 0) return lua_pop(L, 1); /* of the library's own: there is nothing to see */
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "error");
  lua_pushboolean(L, interrupt);
  lua_setfield(L, -2, "interrupt");
  lua_setfield(L, LUA_REGISTRYINDEX, KEPT);
}

void bind_locals_note(lua_State *L) { note(L, capl_interrupt_pending()); }

void bind_locals_stop(lua_State *L)
{
  lua_pushnil(L);
  note(L, true);
  lua_pop(L, 1);
}

void bind_locals_rename(lua_State *L)
{
  if (!keeping) return;
  lua_getfield(L, LUA_REGISTRYINDEX, KEPT);
  if (lua_istable(L, -1)) {
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "error");
  }
  lua_pop(L, 1);
}

static int on_raise(lua_State *L)
{
  bind_locals_note(L);
  return 1;
}

int bind_pcall(lua_State *L, int nargs, int nresults)
{
  if (!keeping) return lua_pcall(L, nargs, nresults, 0);
  int base = lua_gettop(L) - nargs;
  lua_pushcfunction(L, on_raise);
  lua_insert(L, base);
  int status = lua_pcall(L, nargs, nresults, base);
  lua_remove(L, base);
  return status;
}

/* pcall of the library where frames are kept: what it catches it often raises again. */
static int noting_pcall(lua_State *L)
{
  luaL_checkany(L, 1);
  int status = bind_pcall(L, lua_gettop(L) - 1, LUA_MULTRET);
  lua_pushboolean(L, status == 0);
  lua_insert(L, 1);
  return lua_gettop(L);
}

/* ---- the main chunk's return ----------------------------------------------------------------- */

static const void *main_chunk;

static void on_return(lua_State *L, lua_Debug *ar)
{
  lua_getinfo(L, "f", ar);
  bool is_main = lua_topointer(L, -1) == main_chunk;
  lua_pop(L, 1);
  if (!is_main) return;
  lua_sethook(L, NULL, 0, 0);
  lua_getinfo(L, "Sln", ar);
  luaL_checkstack(L, 16, "frames");
  lua_newtable(L);
  push_copy(L, ar);
  lua_rawseti(L, -2, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, KEPT);
}

/* frames_keep(f): keeps those of every error from now on, and that of f, the main chunk about to be called, at its
** return. */
static int frames_keep(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TFUNCTION);
  keeping = true;
  main_chunk = lua_topointer(L, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, "capl.library");
  lua_pushcfunction(L, noting_pcall);
  lua_setfield(L, -2, "pcall");
  lua_sethook(L, on_return, LUA_MASKRET, 0);
  return 0;
}

/* frames_kept() -> list of {where, name, names, values, n}, the innermost first, with error and interrupt; nil: none.
** No more are kept from now on. */
static int frames_kept(lua_State *L)
{
  keeping = false;
  lua_getfield(L, LUA_REGISTRYINDEX, KEPT);
  return 1;
}

/* ---- live frames ----------------------------------------------------------------------------- */

static int depth_of(lua_State *L)
{
  lua_Debug ar;
  int n = 0;
  while (lua_getstack(L, n, &ar)) n++;
  return n;
}

/* frames_live() -> list of {where, name, depth} of the thread that calls, innermost first. depth counts from its
** bottom, so that it stays the same while others call and return above. */
static int frames_live(lua_State *L)
{
  lua_Debug ar;
  int n = 0, all = depth_of(L);
  lua_newtable(L);
  for (int level = 0; n < MOST_FRAMES && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sln", &ar);
    if (!is_of_recipe(&ar)) continue;
    lua_newtable(L);
    describe(L, &ar);
    lua_pushinteger(L, all - level);
    lua_setfield(L, -2, "depth");
    lua_rawseti(L, -2, ++n);
  }
  lua_pushthread(L);
  lua_setfield(L, -2, "thread");
  return 1;
}

/* The thread at 1 and its frame of the depth at 2. */
static lua_State *check_frame(lua_State *L, lua_Debug *ar)
{
  lua_State *thread = lua_tothread(L, 1);
  luaL_argcheck(L, thread, 1, "no thread");
  int level = depth_of(thread) - (int)luaL_checkinteger(L, 2);
  luaL_argcheck(L, level >= 0 && lua_getstack(thread, level, ar), 2, "no such frame");
  if (!lua_checkstack(thread, 4)) luaL_error(L, "too deep");
  return thread;
}

/* Number of the local called name that is in scope, 0 = none. */
static int find_local(lua_State *thread, lua_Debug *ar, const char *wanted)
{
  int found = 0;
  const char *name;
  for (int i = 1; (name = lua_getlocal(thread, ar, i)); i++) {
    lua_pop(thread, 1);
    if (strcmp(name, wanted) == 0) found = i;
  }
  return found;
}

/* Leaves the function of ar on its thread -> number of its value from outside called name, 0 = none. */
static int find_upvalue(lua_State *thread, lua_Debug *ar, const char *wanted)
{
  const char *name;
  lua_getinfo(thread, "f", ar);
  for (int i = 1; (name = lua_getupvalue(thread, -1, i)); i++) {
    lua_pop(thread, 1);
    if (strcmp(name, wanted) == 0) return i;
  }
  return 0;
}

static void move(lua_State *from, lua_State *to)
{
  if (from != to) lua_xmove(from, to, 1);
}

/* frames_get(thread, depth, name) -> whether there is such a name, its value */
static int frames_get(lua_State *L)
{
  lua_Debug ar;
  const char *name = luaL_checkstring(L, 3);
  lua_State *thread = check_frame(L, &ar);
  int top = lua_gettop(L), i = find_local(thread, &ar, name);
  if (i > 0) {
    lua_getlocal(thread, &ar, i);
  } else {
    i = find_upvalue(thread, &ar, name);
    if (i > 0) lua_getupvalue(thread, -1, i), lua_remove(thread, -2);
  }
  move(thread, L);
  lua_pushboolean(L, i > 0);
  if (i == 0) return 1; /* over the function */
  lua_insert(L, top + 1);
  return 2;
}

/* frames_set(thread, depth, name, value) -> whether there is such a name. Compiled code may hold the former value of
** what was never assigned, so it is compiled anew. */
static int frames_set(lua_State *L)
{
  lua_Debug ar;
  const char *name = luaL_checkstring(L, 3);
  luaL_checkany(L, 4);
  lua_settop(L, 4);
  lua_State *thread = check_frame(L, &ar);
  int local = find_local(thread, &ar, name), upvalue = 0;
  if (local == 0 && (upvalue = find_upvalue(thread, &ar, name)) == 0) lua_pop(thread, 1);
  if (local > 0 || upvalue > 0) {
    if (thread != L) lua_pushvalue(L, 4), lua_xmove(L, thread, 1);
    else lua_pushvalue(L, 4);
    if (local > 0) lua_setlocal(thread, &ar, local);
    else lua_setupvalue(thread, -2, upvalue), lua_pop(thread, 1);
    luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_FLUSH);
  }
  lua_pushboolean(L, local > 0 || upvalue > 0);
  return 1;
}

/* frames_names(thread, depth) -> list of all names in the frame, those of outside first */
static int frames_names(lua_State *L)
{
  lua_Debug ar;
  const char *name;
  int n = 0;
  lua_State *thread = check_frame(L, &ar);
  lua_newtable(L);
  lua_getinfo(thread, "f", &ar);
  move(thread, L);
  for (int i = 1; n < MOST_NAMES && (name = lua_getupvalue(L, -1, i)); i++) {
    lua_pop(L, 1);
    lua_pushstring(L, name);
    lua_rawseti(L, -3, ++n);
  }
  lua_pop(L, 1);
  for (int i = 1; n < MOST_NAMES && (name = lua_getlocal(thread, &ar, i)); i++) {
    lua_pop(thread, 1);
    if (*name == '(') continue;
    lua_pushstring(L, name);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

void capl_locals_add(lua_State *L)
{
  static const luaL_Reg functions[] = {{"frames_keep", frames_keep}, {"frames_kept", frames_kept},
                                       {"frames_live", frames_live}, {"frames_get", frames_get},
                                       {"frames_set", frames_set},   {"frames_names", frames_names}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
