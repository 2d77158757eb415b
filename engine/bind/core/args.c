/* args.c -- argument checks of the binding; their errors name argument, function, and what was given.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/names.h"
#include "base/text.h"

const char *bind_typename(lua_State *L, int i)
{
  if (bind_peek_handle(L, i)) return "tensor";
  return lua_isnoneornil(L, i) ? "nil" : luaL_typename(L, i);
}

capl_tensor *bind_check_tensor(lua_State *L, int i)
{
  capl_handle *h = bind_to_handle(L, i);
  if (!h) bind_type_error(L, i, "tensor");
  if (!h->t)
    bind_fail(L, CAPL_ESTATE, NULL,
              "its capl.scope ended or :free() was called; return it from the scope or :keep() it",
              "tensor was released");
  return h->t;
}

int64_t bind_check_int(lua_State *L, int i)
{
  if (lua_type(L, i) != LUA_TNUMBER) bind_type_error(L, i, "whole number");
  double x = lua_tonumber(L, i);
  /* 2^53: above it doubles skip whole numbers */
  if (!(x >= -9007199254740992.0 && x <= 9007199254740992.0) || x != (double)(int64_t)x)
    bind_arg_error(L, i, "whole number expected, got %g", x);
  return (int64_t)x;
}

double bind_check_number(lua_State *L, int i)
{
  if (lua_type(L, i) != LUA_TNUMBER) bind_type_error(L, i, "number");
  return lua_tonumber(L, i);
}

bool bind_check_bool(lua_State *L, int i)
{
  if (!lua_isboolean(L, i)) bind_type_error(L, i, "boolean");
  return lua_toboolean(L, i);
}

const char *bind_check_string(lua_State *L, int i)
{
  if (lua_type(L, i) != LUA_TSTRING) bind_type_error(L, i, "string");
  size_t n;
  const char *s = lua_tolstring(L, i, &n);
  if (strlen(s) != n) bind_arg_error(L, i, "string without zero bytes expected");
  return s;
}

/* Files that a recipe makes: whoever lists them later does so in a terminal. And each takes room on the disk, an empty
** one too. */
static void check_made(lua_State *L, int i, const char *path)
{
  enum { ROOM = 4096 };
  char shown[16];
  size_t n;
  for (const char *p = path; *p; p += n)
    if ((size_t)capl_text_show_char(p, false, shown, &n) != n || memcmp(p, shown, n) != 0)
      bind_arg_error(L, i, "a recipe cannot make files whose names have control characters, or are no UTF-8: %s", path);
  struct stat st;
  bind_count_output(lstat(path, &st) == 0 ? 0 : ROOM);
}

const char *bind_check_path(lua_State *L, int i, int rights)
{
  const char *path = bind_check_string(L, i);
  if (!*path) bind_arg_error(L, i, "a path expected, got an empty text");
  bind_check(L, capl_policy_check(path, rights), NULL);
  if (rights & CAPL_MAY_WRITE && capl_policy_is_closed()) check_made(L, i, path);
  if (rights & CAPL_MAY_READ) bind_used_path(L, path);
  return path;
}

/* Names that nobody runs or obeys: a shell, a build tool, a browser and Python each look for some of their own. */
static bool is_plain_name(const char *path)
{
  static const char *const ends[] = {".capl", ".safetensors", ".png"};
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t n = strlen(name);
  for (size_t k = 0; *name != '.' && k < sizeof ends / sizeof *ends; k++)
    if (n > strlen(ends[k]) && strcmp(name + n - strlen(ends[k]), ends[k]) == 0) return true;
  return false;
}

const char *bind_check_product(lua_State *L, int i)
{
  const char *path = bind_check_path(L, i, CAPL_MAY_WRITE);
  if (capl_policy_is_closed() && !is_plain_name(path))
    bind_arg_error(L, i, "a recipe saves files NAME.capl, NAME.safetensors and NAME.png: others would be run, or "
                         "believed; got %s", path);
  return path;
}

void bind_check_table(lua_State *L, int i)
{
  if (!lua_istable(L, i)) bind_type_error(L, i, "table");
}

bool bind_is_callable(lua_State *L, int i)
{
  if (lua_isfunction(L, i)) return true;
  if (!lua_istable(L, i) || !luaL_getmetafield(L, i, "__call")) return false;
  lua_pop(L, 1);
  return true;
}

void bind_check_function(lua_State *L, int i)
{
  if (!bind_is_callable(L, i)) bind_type_error(L, i, "function");
}

capl_dtype bind_check_dtype(lua_State *L, int i)
{
  capl_dtype dtype;
  bind_check(L, capl_dtype_parse(bind_check_string(L, i), &dtype), NULL);
  return dtype;
}

static int64_t check_size(lua_State *L, int i, int argument)
{
  double x = lua_type(L, i) == LUA_TNUMBER ? lua_tonumber(L, i) : -1;
  if (lua_type(L, i) != LUA_TNUMBER)
    bind_arg_error(L, argument, "sizes are whole numbers, got %s", bind_typename(L, i));
  if (x < 0 || x > 9007199254740992.0 || x != (double)(int64_t)x)
    bind_arg_error(L, argument, "sizes are whole numbers from 0 on, got %g", x);
  return (int64_t)x;
}

void bind_refuse_names(lua_State *L, int i, const char *hint)
{
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING)
      bind_fail(L, CAPL_EVALUE, NULL, hint, "'%s' is a key among the entries of a list", lua_tostring(L, -2));
}

int bind_check_sizes(lua_State *L, int first, int64_t *size, int *next)
{
  int n = 0;
  bool table = lua_istable(L, first);
  if (table) bind_refuse_names(L, first, "options are passed in a separate table after the sizes");
  for (;; n++) {
    if (table)
      lua_rawgeti(L, first, n + 1);
    else
      lua_pushvalue(L, first + n);
    bool end = table ? lua_isnil(L, -1) : lua_type(L, -1) != LUA_TNUMBER;
    if (!end && n == CAPL_MAX_NDIM) bind_arg_error(L, first, "at most %d dims, got more", CAPL_MAX_NDIM);
    if (!end) size[n] = check_size(L, -1, table ? first : first + n);
    lua_pop(L, 1);
    if (end) break;
  }
  *next = table ? first + 1 : first + n;
  return n;
}
