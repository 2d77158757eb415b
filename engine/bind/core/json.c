/* json.c -- JSON for Lua: values from texts, texts from values; and texts made UTF-8.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "bind/core/core.h"

/* Of what strangers wrote: manifests are small, flat, and every key is there once. */
enum { STRANGE_BYTES = 1 << 20, STRANGE_DEPTH = 12, STRANGE_VALUES = 20000, DEEPEST = 200 };

/* ---- reading --------------------------------------------------------------------------------- */

static void push_json(lua_State *L, const cJSON *item)
{
  luaL_checkstack(L, 4, "JSON nested too deeply");
  if (cJSON_IsString(item)) lua_pushstring(L, item->valuestring);
  else if (cJSON_IsNumber(item)) lua_pushnumber(L, item->valuedouble);
  else if (cJSON_IsBool(item)) lua_pushboolean(L, cJSON_IsTrue(item));
  else if (cJSON_IsArray(item) || cJSON_IsObject(item)) {
    const cJSON *child;
    int k = 0;
    lua_newtable(L);
    cJSON_ArrayForEach(child, item)
    {
      push_json(L, child);
      if (cJSON_IsArray(item)) lua_rawseti(L, -2, ++k);
      else lua_setfield(L, -2, child->string);
    }
  } else {
    lua_pushnil(L);
  }
}

/* json_decode(text[, name]) -> value; null becomes nil. name: of a file that strangers wrote, which is an object, small
** and flat; of two equal keys one would win silently, and two readers disagree about what it says: there anything odd
** is refused. */
static int core_json_decode(lua_State *L)
{
  const char *text = bind_check_string(L, 1), *name = lua_isnoneornil(L, 2) ? NULL : bind_check_string(L, 2);
  const json_rules rules = {.name = name, .most_bytes = STRANGE_BYTES, .most_depth = STRANGE_DEPTH,
                            .most_values = STRANGE_VALUES,
    .unique = true, .no_null = true};
  JSON_OWNED *root = NULL;
  bind_check(L, json_read(name ? &rules : NULL, text, strlen(text), &root), NULL);
  if (name && !cJSON_IsObject(root)) return bind_fail(L, CAPL_EFORMAT, NULL, NULL, "%s is no JSON object", name);
  push_json(L, root);
  return 1;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct {
  lua_State *L;
  FILE *out;
  char *text;
  size_t len;
  int digits; /* of numbers, 0 = as many as it takes */
} writer;

static void writer_release(writer *w)
{
  if (w->out) fclose(w->out);
  free(w->text);
}

static void write_value(writer *w, int i, int indent, int depth);

static void write_list(writer *w, int i, int indent, int depth)
{
  int n = (int)lua_objlen(w->L, i);
  fputc('[', w->out);
  for (int k = 1; k <= n; k++) {
    if (k > 1) fputs(", ", w->out);
    lua_rawgeti(w->L, i, k);
    write_value(w, lua_gettop(w->L), indent, depth + 1);
    lua_pop(w->L, 1);
  }
  fputc(']', w->out);
}

typedef struct {
  const char *text;
  size_t len;
} name;

static int by_name(const void *a, const void *b)
{
  const name *x = a, *y = b;
  int order = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
  return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* The keys of the table at i in order, in a userdata that is pushed. */
static const name *keys_of(lua_State *L, int i, int *n)
{
  *n = 0;
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1), ++*n)
    if (lua_type(L, -2) != LUA_TSTRING)
      bind_fail(L, CAPL_EVALUE, NULL, NULL, "JSON keys are strings, not %s", bind_typename(L, lua_gettop(L) - 1));
  name *names = lua_newuserdata(L, ((size_t)*n + 1) * sizeof *names), *to = names;
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1), to++) to->text = lua_tolstring(L, -2, &to->len);
  qsort(names, (size_t)*n, sizeof *names, by_name);
  return names;
}

/* Pushes the table in which the entries of the one at i are: library tables that recipes only read have theirs behind
** them. */
static void push_entries(lua_State *L, int i)
{
  if (luaL_getmetafield(L, i, "__metatable")) {
    lua_pop(L, 1);
    if (luaL_getmetafield(L, i, "__index") && lua_istable(L, -1)) return;
  }
  lua_pushvalue(L, i);
}

static void write_object(writer *w, int i, int indent, int depth)
{
  int n, inner = indent < 0 ? indent : indent + 2, top = lua_gettop(w->L);
  push_entries(w->L, i);
  int entries = lua_gettop(w->L);
  const name *names = keys_of(w->L, entries, &n);
  for (int k = 0; k < n; k++) {
    fputs(k == 0 ? "{" : indent < 0 ? ", " : ",", w->out);
    if (indent >= 0) fprintf(w->out, "\n%*s", inner, "");
    json_put_text(w->out, names[k].text, names[k].len);
    fputs(": ", w->out);
    lua_pushlstring(w->L, names[k].text, names[k].len);
    lua_rawget(w->L, entries);
    write_value(w, lua_gettop(w->L), inner, depth + 1);
    lua_pop(w->L, 1);
  }
  if (n > 0 && indent >= 0) fprintf(w->out, "\n%*s", indent, "");
  fputs(n > 0 ? "}" : "{}", w->out);
  lua_settop(w->L, top);
}

static void write_value(writer *w, int i, int indent, int depth)
{
  lua_State *L = w->L;
  size_t len;
  luaL_checkstack(L, 8, "JSON nested too deeply");
  if (depth > DEEPEST)
    bind_fail(L, CAPL_EVALUE, NULL, "does a table hold itself?", "JSON holds at most %d tables within each other",
              DEEPEST);
  switch (lua_type(L, i)) {
  case LUA_TSTRING: json_put_text(w->out, lua_tolstring(L, i, &len), lua_objlen(L, i)); break;
  case LUA_TNUMBER: json_put_number(w->out, lua_tonumber(L, i), w->digits); break;
  case LUA_TBOOLEAN: fputs(lua_toboolean(L, i) ? "true" : "false", w->out); break;
  case LUA_TNONE:
  case LUA_TNIL: fputs("null", w->out); break;
  case LUA_TTABLE: (lua_objlen(L, i) > 0 ? write_list : write_object)(w, i, indent, depth); break;
  default: bind_fail(L, CAPL_EVALUE, NULL, NULL, "JSON cannot hold a %s", bind_typename(L, i));
  }
}

/* json_encode(value[, lines[, digits]]) -> text. Tables with a first element are lists, others objects, with their keys
** in order: equal values give equal texts. lines: a line for each key; digits: of each number, as many as it takes
** unless said. */
static int core_json_encode(lua_State *L)
{
  __attribute__((cleanup(writer_release))) writer w = {.L = L, .digits = (int)luaL_optinteger(L, 3, 0)};
  bool lines = lua_toboolean(L, 2);
  lua_settop(L, 1);
  w.out = open_memstream(&w.text, &w.len);
  if (!w.out) return bind_fail(L, CAPL_ENOMEM, NULL, NULL, "no memory for JSON");
  write_value(&w, 1, lines ? 0 : -1, 0);
  if (fflush(w.out) != 0) return bind_fail(L, CAPL_ENOMEM, NULL, NULL, "no memory for JSON");
  lua_pushlstring(L, w.text, w.len);
  return 1;
}

/* ---- UTF-8 ------------------------------------------------------------------------------------- */

/* utf8(text) -> the same with U+FFFD for each byte that is no UTF-8 */
static int core_utf8(lua_State *L)
{
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  for (const char *p = text; p < text + len;) {
    int n = capl_text_char(p);
    luaL_addlstring(&out, n ? p : "\xef\xbf\xbd", n ? (size_t)n : 3);
    p += n ? n : 1;
  }
  luaL_pushresult(&out);
  return 1;
}

void bind_open_json(lua_State *L)
{
  static const luaL_Reg functions[] = {
    {"json_decode", core_json_decode}, {"json_encode", core_json_encode}, {"utf8", core_utf8}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
