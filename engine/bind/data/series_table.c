/* series_table.c -- a CSV file for Lua as data.series reads it: keys, numbers and lines, in the order of the file.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/data.h"
#include "data/series/table.h"

static void release_table(series_table *t) { table_fini(t); }

/* The names in the list at i, in memory that lives on the stack; NULL = there is no list. */
static const char **check_names(lua_State *L, int i, int *n)
{
  if (lua_isnoneornil(L, i)) return NULL;
  luaL_checktype(L, i, LUA_TTABLE);
  *n = (int)lua_objlen(L, i);
  const char **name = lua_newuserdata(L, ((size_t)*n + 1) * sizeof *name);
  for (int k = 0; k < *n; k++) {
    lua_rawgeti(L, i, k + 1);
    name[k] = bind_check_string(L, -1); /* the list keeps it alive */
    lua_pop(L, 1);
  }
  return name;
}

static void push_column(lua_State *L, const series_table *t, int column)
{
  lua_createtable(L, (int)t->n_rows, 0);
  for (uint32_t row = 0; row < t->n_rows; row++) {
    lua_pushnumber(L, t->value[(size_t)row * (size_t)t->n_columns + (size_t)column]);
    lua_rawseti(L, -2, (int)row + 1);
  }
}

/* The texts of the keys, what they sort by, the lines: lists of the table on top. */
static void set_rows(lua_State *L, const series_table *t)
{
  static const char *const lists[] = {"key", "at", "line"};
  for (int k = 0; k < 3; k++) {
    lua_createtable(L, (int)t->n_rows, 0);
    for (uint32_t row = 0; row < t->n_rows; row++) {
      if (k == 0) lua_pushstring(L, t->key[row]);
      else lua_pushnumber(L, k == 1 ? t->at[row] : t->line[row]);
      lua_rawseti(L, -2, (int)row + 1);
    }
    lua_setfield(L, -2, lists[k]);
  }
}

/* data.series_table(path, key[, columns]) -> {key = {texts}, at = {numbers or seconds}, line = {…}, columns = {names},
** values = {{numbers, NaN = missing}, …}} */
static int data_series_table(lua_State *L)
{
  __attribute__((cleanup(release_table))) series_table t = {0};
  int n = 0;
  lua_settop(L, 3);
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ), *key = bind_check_string(L, 2);
  const char **wanted = check_names(L, 3, &n);
  bind_check(L, table_read(&t, path, key, wanted, n), NULL);
  lua_newtable(L);
  set_rows(L, &t);
  lua_newtable(L), lua_newtable(L);
  for (int k = 0; k < t.n_columns; k++) {
    lua_pushstring(L, t.column[k]);
    lua_rawseti(L, -3, k + 1);
    push_column(L, &t, k);
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -3, "values");
  lua_setfield(L, -2, "columns");
  return 1;
}

void bind_open_series_table(lua_State *L)
{
  lua_pushcfunction(L, data_series_table);
  lua_setfield(L, -2, "series_table");
}
