/* pinned.c -- modules of a recipe that was asked for by its hash.
**
** Each must be named by its own hash somewhere in the recipe's text: else a file that nobody has checked would run under a
** hash that says everything was. Registry: "capl.pinned" the text of such a recipe.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "bind/core/core.h"

#include <sha256.h>
#include <stdio.h>
#include <string.h>

#define PINNED "capl.pinned"

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

void bind_check_pinned(lua_State *L, const char *file, const char *text, size_t size)
{
  char digest[SHA256_DIGEST_STRING_LENGTH];
  SHA256Data((const uint8_t *)text, size, digest);
  if (is_named(L, digest)) return;
  char hint[200];
  snprintf(hint, sizeof hint, "a comment in the recipe is enough:  -- sha256 %s\n  or run the recipe without #sha256=", digest);
  bind_fail(L, CAPL_EVALUE, "require", hint, "the recipe was asked for by its hash, and %s is not named by its own in it", file);
}
