/* file_fields.c -- masks, points, boxes and numbers in files for Lua: which they are, and what they hold.
**
** What a recipe writes is checked and brought to one form by lua/capl/data/file_fields.lua.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/data.h"

#include <stdio.h>
#include <string.h>

static void read_values(lua_State *L, const char *op, capl_mask_files *mask)
{
  bool given = bind_option(L, lua_gettop(L), "values");
  if (given && (!lua_istable(L, -1) || lua_objlen(L, -1) > 256))
    bind_fail(L, CAPL_EVALUE, op, NULL, "values of mask is a list of levels");
  mask->n_values = given ? (int)lua_objlen(L, -1) : 0;
  for (int k = 0; k < mask->n_values; k++) {
    lua_rawgeti(L, -1, k + 1);
    double level = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    if (!(level >= 0 && level <= 255 && level == (double)(int)level))
      bind_fail(L, CAPL_EVALUE, op, NULL, "value %d of mask is no level, a whole number in 0..255", k + 1);
    mask->value[k] = (uint8_t)level;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* parts = {"skin", …} of the table on top, which then holds the list. */
static void read_parts(lua_State *L, const char *op, capl_mask_files *mask)
{
  int table = lua_gettop(L);
  if (bind_option(L, table, "parts")) {
    luaL_checktype(L, -1, LUA_TTABLE);
    int n = (int)lua_objlen(L, -1);
    const char **parts = lua_newuserdata(L, ((size_t)n + 1) * sizeof *parts);
    lua_setfield(L, table, "parts_kept");
    for (int k = 0; k < n; k++) {
      lua_rawgeti(L, -1, k + 1);
      if (lua_type(L, -1) != LUA_TSTRING) bind_fail(L, CAPL_EVALUE, op, NULL, "parts of mask are texts");
      parts[k] = lua_tostring(L, -1); /* the list keeps it alive */
      lua_pop(L, 1);
    }
    mask->part = parts, mask->n_parts = n;
  }
  lua_pop(L, 1);
}

/* Of the table on top, which stays there: its texts are borrowed. */
static void read_mask(lua_State *L, const char *op, capl_mask_files *mask)
{
  static const bind_option_spec options[] = {{"ending", BIND_TEXT(capl_mask_files, ending)},
                                             {"column", BIND_TEXT(capl_mask_files, column)},
                                             {"root", BIND_PATH(capl_mask_files, root), .rights = CAPL_MAY_READ},
                                             {"classes", BIND_WHOLE(capl_mask_files, classes), .max = 256},
                                             {"values", BIND_OTHER},
                                             {"parts", BIND_OTHER},
                                             BIND_END};
  bind_read_options(L, op, lua_gettop(L), options, mask);
  read_values(L, op, mask);
  read_parts(L, op, mask);
}

/* Of the table on top, likewise. */
static void read_target(lua_State *L, const char *op, capl_target_files *target)
{
  static const bind_option_spec options[] = {{"ending", BIND_TEXT(capl_target_files, ending)},
                                             {"column", BIND_TEXT(capl_target_files, column)},
                                             {"root", BIND_PATH(capl_target_files, root), .rights = CAPL_MAY_READ},
                                             {"channels", BIND_WHOLE(capl_target_files, channels), .max = 3},
                                             BIND_END};
  bind_read_options(L, op, lua_gettop(L), options, target);
}

static const char *const kinds[] = {"mask", "points", "boxes", "values", NULL}; /* ORDER capl_field_kind */

/* Of the table on top. Leaves the list of columns on the stack in its place. */
static void read_columns(lua_State *L, const char *op, capl_number_columns *numbers)
{
  typedef struct {
    const char *name;
    capl_field_kind kind;
    int per_row;
  } given;
  static const bind_option_spec options[] = {{"name", BIND_TEXT(given, name)},
                                             {"kind", BIND_WORD(given, kind), .words = kinds},
                                             {"per_row", BIND_WHOLE(given, per_row), .min = 1, .max = 5},
                                             {"columns", BIND_OTHER},
                                             BIND_END};
  int table = lua_gettop(L);
  given o = {0};
  bind_read_options(L, op, table, options, &o);
  lua_getfield(L, table, "columns");
  if (!o.name || o.kind == CAPL_FIELD_MASK || !lua_istable(L, -1))
    bind_fail(L, CAPL_EVALUE, op, NULL, "a field has a name, a kind and columns");
  int n = (int)lua_objlen(L, -1);
  const char **columns = lua_newuserdata(L, ((size_t)n + 1) * sizeof *columns);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, -2, k + 1);
    if (lua_type(L, -1) != LUA_TSTRING) bind_fail(L, CAPL_EVALUE, op, NULL, "names of columns are texts");
    columns[k] = lua_tostring(L, -1); /* the list keeps it alive */
    lua_pop(L, 1);
  }
  *numbers = (capl_number_columns){.kind = o.kind, .column = columns, .n_columns = n, .per_row = o.per_row};
  snprintf(numbers->name, sizeof numbers->name, "%s", o.name);
}

void data_option_fields(lua_State *L, const char *op, int i, capl_file_fields *fields)
{
  luaL_checkstack(L, 32, "too many fields");
  if (!bind_option(L, i, "fields")) return;
  luaL_checktype(L, -1, LUA_TTABLE);
  int table = lua_gettop(L);
  lua_getfield(L, table, "mask");
  if (lua_istable(L, -1)) read_mask(L, op, &fields->mask);
  lua_getfield(L, table, "target");
  if (lua_istable(L, -1)) read_target(L, op, &fields->target);
  lua_getfield(L, table, "numbers");
  int list = lua_gettop(L), n = lua_istable(L, list) ? (int)lua_objlen(L, list) : 0;
  if (n > CAPL_FIELDS_MAX)
    bind_fail(L, CAPL_EVALUE, op, NULL, "%d fields; a sample has at most %d beside image and label", n,
              CAPL_FIELDS_MAX);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, list, k + 1);
    read_columns(L, op, &fields->numbers[k]);
  }
  fields->n_numbers = n;
}

/* source:mask_counts(id) -> {[class] = pixels}; nil, what is wrong */
static int source_mask_counts(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  uint64_t count[256];
  if (capl_source_mask_counts(source, data_check_sample(L, 2, source), count) != CAPL_OK)
    return lua_pushnil(L), lua_pushstring(L, capl_error_last()->message), 2;
  lua_newtable(L);
  for (int k = 0; k < 256; k++) {
    if (count[k] == 0) continue;
    lua_pushnumber(L, (double)count[k]);
    lua_rawseti(L, -2, k);
  }
  return 1;
}

/* source:target_levels(id) -> least, greatest, mean; nil, what is wrong */
static int source_target_levels(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  double level[3];
  if (capl_source_target_levels(source, data_check_sample(L, 2, source), level) != CAPL_OK)
    return lua_pushnil(L), lua_pushstring(L, capl_error_last()->message), 2;
  for (int k = 0; k < 3; k++) lua_pushnumber(L, level[k]);
  return 3;
}

/* source:numbers(field from 0, id) -> list of them as the file has them, how many are a row; nil of other fields */
static int source_numbers(lua_State *L)
{
  const capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  int rows, width;
  const float *x = capl_source_numbers(source, (int)bind_check_int(L, 2), data_check_sample(L, 3, source), &rows,
                                       &width);
  if (!x) return lua_pushnil(L), 1;
  lua_createtable(L, rows * width, 0);
  for (int k = 0; k < rows * width; k++) {
    lua_pushnumber(L, (double)x[k]);
    lua_rawseti(L, -2, k + 1);
  }
  return lua_pushinteger(L, width), 2;
}

void bind_open_file_fields(lua_State *L)
{
  static const luaL_Reg source[] = {{"mask_counts", source_mask_counts}, {"target_levels", source_target_levels},
                                    {"numbers", source_numbers}, {NULL, NULL}};
  luaL_getmetatable(L, SOURCE_TYPE);
  lua_getfield(L, -1, "__index");
  luaL_setfuncs(L, source, 0);
  lua_pop(L, 2);
}
