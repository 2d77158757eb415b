/* used.c -- which files a recipe has used: what it required and the paths it read, for the manifest of `capl recipe
** pack`.
**
** Where the recipe was asked for by its hash, a module must be named by its own hash somewhere in the recipe's text:
** else a file that nobody has checked would run under a hash that says everything was. Registry: "capl.modules" {file =
** sha256}, "capl.read" {path = true}, "capl.pinned" the text of such a recipe.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "bind/core/core.h"

#include <sha256.h>
#include <stdio.h>
#include <string.h>

#include "bind/core/sys.h"
#include "sandbox/policy.h"

#define MODULES "capl.modules"
#define READ "capl.read"
#define PINNED "capl.pinned"

enum { PATHS_MOST = 10000 };

static int paths; /* in the registry's table */

static void push_table(lua_State *L, const char *name)
{
  lua_getfield(L, LUA_REGISTRYINDEX, name);
  if (lua_istable(L, -1)) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, name);
}

void bind_used_path(lua_State *L, const char *path)
{
  if (!capl_policy_is_closed() || paths >= PATHS_MOST) return;
  paths++;
  push_table(L, READ);
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, path);
  lua_pop(L, 1);
}

void capl_bind_pin(lua_State *L, const char *text, size_t size)
{
  lua_pushlstring(L, text, size);
  lua_setfield(L, LUA_REGISTRYINDEX, PINNED);
}

/* Whether the text of the recipe holds these digits. */
static bool is_named(lua_State *L, const char *digest)
{
  lua_getfield(L, LUA_REGISTRYINDEX, PINNED);
  size_t n;
  const char *text = lua_tolstring(L, -1, &n);
  bool fine = !text || memmem(text, n, digest, strlen(digest));
  lua_pop(L, 1);
  return fine;
}

void bind_used_module(lua_State *L, const char *file, const char *text, size_t size)
{
  char digest[SHA256_DIGEST_STRING_LENGTH];
  SHA256Data((const uint8_t *)text, size, digest);
  push_table(L, MODULES);
  lua_pushstring(L, digest);
  lua_setfield(L, -2, file);
  lua_pop(L, 1);
  if (is_named(L, digest)) return;
  char hint[200];
  snprintf(hint, sizeof hint, "a comment in the recipe is enough:  -- sha256 %s\n  or run the recipe without #sha256=",
           digest);
  bind_fail(L, CAPL_EVALUE, "require", hint,
            "the recipe was asked for by its hash, and %s is not named by its own in it", file);
}

/* used() -> {file = sha256} of modules, {path = true} of other files that were asked for */
static int sys_used(lua_State *L)
{
  push_table(L, MODULES);
  push_table(L, READ);
  return 2;
}

void capl_sys_add_used(lua_State *L)
{
  lua_pushcfunction(L, sys_used);
  lua_setfield(L, -2, "used");
}
