/* options.c -- reads named options by a table of what a function takes.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"

bool bind_option(lua_State *L, int i, const char *key)
{
  if (lua_isnoneornil(L, i)) {
    lua_pushnil(L);
    return false;
  }
  bind_check_table(L, i);
  lua_pushstring(L, key);
  lua_rawget(L, i);
  return !lua_isnil(L, -1);
}

/* "data.loader: …", or without op what Lua says of an argument: "bad argument #3 to 'zeros' (…)". */
__attribute__((format(printf, 4, 5))) static int fail(lua_State *L, const char *op, int i, const char *fmt, ...)
{
  char what[800];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  return op ? bind_fail(L, CAPL_EVALUE, op, NULL, "%s", what) : bind_arg_error(L, i, "%s", what);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void unknown_option(lua_State *L, const char *op, int i, const char *key, const bind_option_spec *spec)
{
  capl_suggestion s = {.wanted = key};
  char known[512] = "";
  for (size_t used = 0; spec->name && used < sizeof known; spec++) {
    capl_suggest(&s, spec->name);
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", spec->name);
  }
  if (s.nearest) fail(L, op, i, "unknown option '%s'; did you mean '%s'?", key, s.nearest);
  fail(L, op, i, "unknown option '%s'; known: %s", key, known);
}

void bind_check_options(lua_State *L, const char *op, int i, const bind_option_spec *spec)
{
  if (lua_isnoneornil(L, i)) return;
  bind_check_table(L, i);
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
    const bind_option_spec *known = spec;
    if (lua_type(L, -2) != LUA_TSTRING) fail(L, op, i, "options are named, got an entry [%s]", luaL_typename(L, -2));
    while (known->name && strcmp(known->name, lua_tostring(L, -2)) != 0) known++;
    if (!known->name) unknown_option(L, op, i, lua_tostring(L, -2), spec);
  }
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct {
  char text[256];
} words;

typedef struct {
  char text[32];
} number;

/* 1048576, not 1.04858e+06 */
static number show_number(double x)
{
  number n;
  bool whole = x >= -0x1p53 && x <= 0x1p53 && x == (double)(int64_t)x;
  snprintf(n.text, sizeof n.text, whole ? "%.0f" : "%g", x);
  return n;
}

/* What an option may be. */
static words allowed(const bind_option_spec *spec)
{
  words w = {"true or false"};
  size_t used = 0;
  switch (spec->kind) {
  case OPTION_WHOLE:
  case OPTION_NUMBER:
    snprintf(w.text, sizeof w.text, "a %s from %s to %s", spec->kind == OPTION_WHOLE ? "whole number" : "number",
             show_number(spec->min).text, show_number(spec->max).text);
    break;
  case OPTION_TEXT:
  case OPTION_PATH: strcpy(w.text, "a string"); break;
  case OPTION_WORD:
    for (const char *const *word = spec->words; *word && used < sizeof w.text; word++)
      used += (size_t)snprintf(w.text + used, sizeof w.text - used, "%s\"%s\"", used ? ", " : "one of ", *word);
    break;
  default: break;
  }
  return w;
}

/* The value on top is not what it may be. */
static int refuse(lua_State *L, const char *op, int i, const bind_option_spec *spec)
{
  words got;
  if (lua_type(L, -1) == LUA_TNUMBER) snprintf(got.text, sizeof got.text, "%s", show_number(lua_tonumber(L, -1)).text);
  else if (lua_type(L, -1) == LUA_TSTRING && spec->kind == OPTION_WORD)
    snprintf(got.text, sizeof got.text, "\"%.100s\"", lua_tostring(L, -1));
  else snprintf(got.text, sizeof got.text, "%s", bind_typename(L, -1));
  return fail(L, op, i, "%s must be %s, got %s", spec->name, allowed(spec).text, got.text);
}

/* The value on top as a number in the option's range. */
static double check_number(lua_State *L, const char *op, int i, const bind_option_spec *spec)
{
  double x = lua_tonumber(L, -1);
  bool fits = lua_type(L, -1) == LUA_TNUMBER && x >= spec->min && x <= spec->max;
  if (!fits || (spec->kind == OPTION_WHOLE && x != (double)(int64_t)x)) refuse(L, op, i, spec);
  return x;
}

static int check_word(lua_State *L, const char *op, int i, const bind_option_spec *spec)
{
  for (int k = 0; lua_type(L, -1) == LUA_TSTRING && spec->words[k]; k++)
    if (strcmp(spec->words[k], lua_tostring(L, -1)) == 0) return k;
  return refuse(L, op, i, spec);
}

static const char *check_text(lua_State *L, const char *op, int i, const bind_option_spec *spec)
{
  if (lua_type(L, -1) != LUA_TSTRING) refuse(L, op, i, spec);
  return spec->kind == OPTION_PATH ? bind_check_path(L, lua_gettop(L), spec->rights) : lua_tostring(L, -1);
}

/* An integer of a member's size; processors here begin with the lowest byte. */
static void store(char *to, size_t size, int64_t value) { memcpy(to, &value, size); }

void bind_read_option(lua_State *L, const char *op, int i, const bind_option_spec *spec, void *out)
{
  char *to = (char *)out + spec->at;
  bool given = bind_option(L, i, spec->name);
  switch (given ? spec->kind : OPTION_OTHER) {
  case OPTION_OTHER: break;
  case OPTION_WHOLE: store(to, spec->size, (int64_t)check_number(L, op, i, spec)); break;
  case OPTION_NUMBER:
    if (spec->size == sizeof(float)) *(float *)to = (float)check_number(L, op, i, spec);
    else *(double *)to = check_number(L, op, i, spec);
    break;
  case OPTION_BOOL:
    if (!lua_isboolean(L, -1)) refuse(L, op, i, spec);
    *(bool *)to = lua_toboolean(L, -1);
    break;
  case OPTION_TEXT:
  case OPTION_PATH: *(const char **)to = check_text(L, op, i, spec); break;
  case OPTION_WORD: store(to, spec->size, check_word(L, op, i, spec)); break;
  }
  lua_pop(L, 1);
}

void bind_read_options(lua_State *L, const char *op, int i, const bind_option_spec *spec, void *out)
{
  bind_check_options(L, op, i, spec);
  for (; spec->name; spec++) bind_read_option(L, op, i, spec, out);
}
