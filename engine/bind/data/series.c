/* series.c -- time series for Lua. What users call is lua/capl/data/series.lua on top of this.
**
** A table of columns is {columns = {"date", "pm25", …}, date = {…}, pm25 = {…}, …}: the lists that columns names, all
** as long as the first of them; numbers, NaN where one is missing, or texts.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/series.h"

#include <math.h>
#include <string.h>

#include "bind/data/synth.h"
#include "data/csv.h"

#define SERIES_TYPE "capl.series"

/* ---- tables of columns ----------------------------------------------------------------------- */

/* The texts of the list at index i, numbers as texts too if they may be, in memory that lives on the stack; pushes two
** values, a list that keeps the texts and the memory. */
static const char **list_of_texts(lua_State *L, int i, const char *what, bool numbers, int *n)
{
  luaL_checktype(L, i, LUA_TTABLE);
  *n = (int)lua_objlen(L, i);
  lua_createtable(L, *n, 0);
  const char **text = lua_newuserdata(L, ((size_t)*n + 1) * sizeof *text);
  for (int k = 0; k < *n; k++) {
    lua_rawgeti(L, i, k + 1);
    if (lua_type(L, -1) != LUA_TSTRING && !(numbers && lua_type(L, -1) == LUA_TNUMBER))
      bind_fail(L, CAPL_EVALUE, NULL, NULL, "%s %d is a %s, not a text", what, k + 1, bind_typename(L, -1));
    text[k] = lua_tostring(L, -1);
    lua_rawseti(L, -3, k + 1);
  }
  return text;
}

/* The column of that name of the table at i; pushes it. */
static void push_column(lua_State *L, int i, const char *name)
{
  lua_getfield(L, i, name);
  if (!lua_istable(L, -1)) bind_fail(L, CAPL_EVALUE, NULL, NULL, "the table has no list %s", name);
}

static void fill_column(lua_State *L, int i, const char *name, int column, const capl_series_table *t, double *value)
{
  push_column(L, i, name);
  if (lua_objlen(L, -1) > t->n_rows)
    bind_fail(L, CAPL_EVALUE, NULL, NULL, "column %s has %d rows, the key %d", name, (int)lua_objlen(L, -1),
              (int)t->n_rows);
  for (uint32_t row = 0; row < t->n_rows; row++) {
    lua_rawgeti(L, -1, (int)row + 1);
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TNUMBER)
      bind_fail(L, CAPL_EVALUE, NULL, NULL, "row %d: %s is a %s, not a number", (int)row + 1, name,
                bind_typename(L, -1));
    value[(size_t)row * (size_t)t->n_columns + (size_t)column] = lua_isnil(L, -1) ? NAN : lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void check_room(lua_State *L)
{
  if (!lua_checkstack(L, 20)) bind_fail(L, CAPL_ENOMEM, NULL, NULL, "no room on Lua's stack");
}

/* The table at i; what it needs lives on the stack. wanted: the columns of interest, or NULL for all but the key. */
static capl_series_table read_table(lua_State *L, int i, const char *key, const char *const *wanted, int n_wanted)
{
  int n = 0, n_keys;
  check_room(L);
  push_column(L, i, "columns");
  lua_getfield(L, -1, "path"); /* of a table from a file */
  const char *path = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "the table";
  const char **given = list_of_texts(L, lua_gettop(L) - 1, "column", false, &n);
  const char **column = lua_newuserdata(L, ((size_t)n + (size_t)n_wanted + 1) * sizeof *column);
  capl_series_table t = {.name = path, .column = column};
  for (int k = 0; k < n; k++) {
    bool taken = !wanted;
    for (int w = 0; w < n_wanted; w++) taken = taken || strcmp(wanted[w], given[k]) == 0;
    if (taken && strcmp(given[k], key) != 0) column[t.n_columns++] = given[k];
  }
  push_column(L, i, key);
  t.key = list_of_texts(L, lua_gettop(L), "key", true, &n_keys);
  t.n_rows = (uint32_t)n_keys;
  double *value = lua_newuserdata(L, ((size_t)t.n_rows * (size_t)t.n_columns + 1) * sizeof *value);
  for (int k = 0; k < t.n_columns; k++) fill_column(L, i, column[k], k, &t, value);
  t.value = value;
  return t;
}

static void set_column(lua_State *L, int into, const char *name, int place)
{
  lua_pushvalue(L, -1);
  lua_setfield(L, into, name);
  lua_pop(L, 1);
  lua_getfield(L, into, "columns");
  lua_pushstring(L, name);
  lua_rawseti(L, -2, place);
  lua_pop(L, 1);
}

#define X(name, decimals) #name,
static const char *const columns[] = {CAPL_PM25_MAP(X)};
#undef X

/* data.pm25(seed, days) -> table of columns */
static int data_pm25(lua_State *L)
{
  int64_t seed = bind_check_int(L, 1), days = bind_check_int(L, 2);
  if (days < 1 || days > CAPL_PM25_DAYS_MAX)
    return bind_arg_error(L, 2, "1..%d days, got %lld", CAPL_PM25_DAYS_MAX, (long long)days);
  double *value = lua_newuserdata(L, (size_t)days * CAPL_PM25_COLUMNS * sizeof *value);
  char(*date)[11] = lua_newuserdata(L, (size_t)days * sizeof *date);
  bind_check(L, data_synth(L)->pm25_make((uint64_t)seed, (uint32_t)days, value, date), NULL);
  lua_newtable(L);
  int into = lua_gettop(L);
  lua_newtable(L);
  lua_setfield(L, into, "columns");
  for (int k = -1; k < CAPL_PM25_COLUMNS; k++) {
    lua_createtable(L, (int)days, 0);
    for (int64_t i = 0; i < days; i++) {
      if (k < 0) lua_pushstring(L, date[i]);
      else lua_pushnumber(L, value[i * CAPL_PM25_COLUMNS + k]);
      lua_rawseti(L, -2, (int)i + 1);
    }
    set_column(L, into, k < 0 ? "date" : columns[k], k + 2);
  }
  return 1;
}

/* ---- CSV files ------------------------------------------------------------------------------- */

static void release_csv(csv *table)
{
  csv_fini(table);
}

/* data.csv_read(path) -> table of columns, all of texts; columns.path, and columns.lines of the rows */
static int data_csv_read(lua_State *L)
{
  __attribute__((cleanup(release_csv))) csv file = {0};
  bool more = true;
  bind_check(L, csv_open(&file, bind_check_path(L, 1, CAPL_MAY_READ), (csv_style){0}), NULL);
  bind_check(L, csv_header(&file), NULL);
  lua_newtable(L);
  int lines = lua_gettop(L);
  lua_newtable(L);
  int into = lua_gettop(L);
  lua_newtable(L);
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, "path");
  lua_pushvalue(L, lines);
  lua_setfield(L, -2, "lines");
  lua_setfield(L, into, "columns");
  if (!lua_checkstack(L, file.n_columns + 20))
    return bind_fail(L, CAPL_EVALUE, NULL, NULL, "%d columns are too many", file.n_columns);
  for (int k = 0; k < file.n_columns; k++) lua_newtable(L);
  for (int row = 1;; row++) {
    bind_check(L, csv_next(&file, &more), NULL);
    if (!more) break;
    lua_pushinteger(L, (lua_Integer)file.line);
    lua_rawseti(L, lines, row);
    for (int k = 0; k < file.n_columns; k++) {
      lua_pushstring(L, file.field[k]);
      lua_rawseti(L, into + 1 + k, row);
    }
  }
  for (int k = file.n_columns - 1; k >= 0; k--) set_column(L, into, file.column[k], k + 1);
  return 1;
}

/* ---- series ---------------------------------------------------------------------------------- */

/* data.series(path | table of columns, {key, targets, features, window, horizon, train, val, unscaled}) */
static int data_series(lua_State *L)
{
  static const bind_option_spec options[] = {{"key", BIND_TEXT(capl_series_options, key)},
                                             {"targets", BIND_OTHER},
                                             {"features", BIND_OTHER},
                                             {"window", BIND_WHOLE(capl_series_options, window), .max = 65536},
                                             {"horizon", BIND_WHOLE(capl_series_options, horizon), .max = 65536},
                                             {"train", BIND_NUMBER(capl_series_options, train), .max = 1},
                                             {"val", BIND_NUMBER(capl_series_options, val), .max = 1},
                                             {"unscaled", BIND_BOOL(capl_series_options, unscaled)},
                                             BIND_END};
  capl_series_options o = {0};
  bind_read_options(L, "data.series", 2, options, &o);
  if (bind_option(L, 2, "targets")) o.targets = list_of_texts(L, lua_gettop(L), "target", false, &o.n_targets);
  if (bind_option(L, 2, "features")) o.features = list_of_texts(L, lua_gettop(L), "feature", false, &o.n_features);
  void **box = data_new_box(L, SERIES_TYPE);
  int made = lua_gettop(L);
  if (lua_type(L, 1) == LUA_TSTRING) {
    bind_check(L, capl_series_read(lua_tostring(L, 1), &o, (capl_series **)box), NULL);
  } else {
    int n = o.n_features + o.n_targets;
    const char **wanted = lua_newuserdata(L, ((size_t)n + 1) * sizeof *wanted);
    for (int i = 0; i < n; i++) wanted[i] = i < o.n_features ? o.features[i] : o.targets[i - o.n_features];
    capl_series_table t = read_table(L, 1, o.key ? o.key : "date", o.features ? wanted : NULL, n);
    bind_check(L, capl_series_from(&t, &o, (capl_series **)box), NULL);
  }
  lua_pushvalue(L, made);
  return 1;
}

/* series:source("train" | "val" | "test") */
static int series_source(lua_State *L)
{
  static const char *const parts[] = {"train", "val", "test", NULL};
  capl_series *series = data_check_box(L, 1, SERIES_TYPE);
  int part = luaL_checkoption(L, 2, NULL, parts);
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, capl_source_series_new(series, (capl_series_part)part, (capl_source **)box), NULL);
  return 1;
}

static void set_number(lua_State *L, const char *key, double value)
{
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

/* {names, means, deviations} of columns, in this order, as key, key_mean and key_std of the table on top. */
static void set_columns(lua_State *L, const capl_series *series, const char *const keys[3], int n,
                        const char *(*of)(const capl_series *, int, double *, double *))
{
  for (int k = 0; k < 3; k++) {
    lua_newtable(L);
    for (int i = 0; i < n; i++) {
      double number[2];
      const char *name = of(series, i, &number[0], &number[1]);
      if (k == 0) lua_pushstring(L, name);
      else lua_pushnumber(L, number[k - 1]);
      lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, keys[k]);
  }
}

/* series:facts() -> {rows, filled, untold, irregular, holes, hole_line, windows = {train, val, test}, part_rows = {…},
** features = {…}, feature_mean = {…}, feature_std = {…}, targets = {…}, target_mean = {…}, target_std = {…}} */
static int series_facts(lua_State *L)
{
  static const char *const features[] = {"features", "feature_mean", "feature_std"};
  static const char *const targets[] = {"targets", "target_mean", "target_std"};
  const capl_series *series = data_check_box(L, 1, SERIES_TYPE);
  capl_series_facts f;
  capl_series_facts_get(series, &f);
  lua_newtable(L);
  set_number(L, "rows", f.rows), set_number(L, "filled", f.filled), set_number(L, "untold", f.untold);
  set_number(L, "irregular", f.irregular), set_number(L, "holes", f.holes);
  set_number(L, "hole_line", f.hole_line);
  lua_newtable(L), lua_newtable(L);
  for (int k = 0; k < CAPL_SERIES_PARTS; k++) {
    lua_pushnumber(L, f.windows[k]);
    lua_rawseti(L, -3, k + 1);
    lua_pushnumber(L, f.part_rows[k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -3, "part_rows");
  lua_setfield(L, -2, "windows");
  set_columns(L, series, features, f.n_features, capl_series_feature);
  set_columns(L, series, targets, f.n_targets, capl_series_target);
  return 1;
}

static int series_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, SERIES_TYPE);
  if (box) capl_series_unref(*box), *box = NULL;
  return 0;
}

/* Adds the functions to the table on top. */
void bind_open_series(lua_State *L)
{
  static const luaL_Reg series[] = {{"source", series_source}, {"facts", series_facts}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"pm25", data_pm25}, {"csv_read", data_csv_read}, {"series", data_series},
                                       {NULL, NULL}};
  data_open_type(L, SERIES_TYPE, series, series_release);
  luaL_setfuncs(L, functions, 0);
}
