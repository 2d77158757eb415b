/* show.c -- a tensor's values as Lua values and as text.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <math.h>
#include <stdio.h>

enum { CORNER = 6 }; /* rows and columns printed */

/* Pushes a buffer with all values of t in logical order. */
static double *push_values(lua_State *L, const capl_tensor *t, const char *op)
{
  double *values = lua_newuserdata(L, (size_t)capl_tensor_numel(t) * sizeof *values + 1);
  bind_check(L, capl_tensor_to_doubles(t, values), op);
  return values;
}

static int tensor_item(lua_State *L)
{
  double value;
  bind_check(L, capl_tensor_item(bind_check_tensor(L, 1), &value), "item");
  lua_pushnumber(L, value);
  return 1;
}

static void push_nested(lua_State *L, int ndim, const int64_t *size, const double **values)
{
  if (ndim == 0) {
    lua_pushnumber(L, *(*values)++);
    return;
  }
  luaL_checkstack(L, 2, "tolist");
  lua_createtable(L, (int)size[0], 0);
  for (int64_t i = 1; i <= size[0]; i++) {
    push_nested(L, ndim - 1, size + 1, values);
    lua_rawseti(L, -2, (int)i);
  }
}

/* x:tolist() -> nested tables of numbers; a number for a scalar */
static int tensor_tolist(lua_State *L)
{
  const capl_tensor *t = bind_check_tensor(L, 1);
  const double *values = push_values(L, t, "tolist");
  push_nested(L, t->ndim, t->size, &values);
  return 1;
}

/* x:stride([dim]) in elements, as a table or one number */
static int tensor_stride(lua_State *L)
{
  const capl_tensor *t = bind_check_tensor(L, 1);
  if (!lua_isnoneornil(L, 2)) {
    int64_t d = bind_check_int(L, 2);
    if (d == 0 || d > t->ndim || d < -t->ndim)
      return bind_arg_error(L, 2, "dim %lld is outside 1..%d", (long long)d, t->ndim);
    lua_pushnumber(L, (lua_Number)t->stride[d > 0 ? d - 1 : d + t->ndim]);
    return 1;
  }
  lua_createtable(L, t->ndim, 0);
  for (int i = 0; i < t->ndim; i++) {
    lua_pushnumber(L, (lua_Number)t->stride[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int tensor_numel(lua_State *L)
{
  lua_pushnumber(L, (lua_Number)capl_tensor_numel(bind_check_tensor(L, 1)));
  return 1;
}

static int tensor_is_contiguous(lua_State *L)
{
  lua_pushboolean(L, capl_tensor_is_row(bind_check_tensor(L, 1)));
  return 1;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The first CORNER entries along each of the last two dims, the first along the others. */
static void corner_alias(lua_State *L, capl_tensor *t, capl_tensor **out)
{
  int ndim = t->ndim < 2 ? t->ndim : 2, lead = t->ndim - ndim;
  int64_t size[2];
  for (int i = 0; i < ndim; i++) size[i] = t->size[lead + i] < CORNER ? t->size[lead + i] : CORNER;
  bind_check(L, capl_tensor_alias(t, ndim, size, t->stride + lead, t->offset, out), NULL);
}

static void add_number(luaL_Buffer *b, double x, bool real)
{
  char text[32];
  snprintf(text, sizeof text,
           real && isfinite(x) ? (fabs(x) >= 1e5 || (x != 0 && fabs(x) < 1e-3) ? " %10.3e" : " %10.4f")
                               : " %10.0f",
           x);
  luaL_addstring(b, text);
}

static void add_corner(luaL_Buffer *b, const capl_tensor *t, const capl_tensor *corner, const double *values)
{
  int64_t rows = corner->ndim == 2 ? corner->size[0] : 1,
          columns = corner->ndim ? corner->size[corner->ndim - 1] : 1;
  for (int64_t i = 0; i < rows; i++) {
    luaL_addstring(b, "\n");
    for (int64_t j = 0; j < columns; j++)
      add_number(b, values[i * columns + j], capl_dtype_is_float(t->dtype));
    if (t->ndim && columns < t->size[t->ndim - 1]) luaL_addstring(b, "  …");
  }
  if (t->ndim >= 2 && rows < t->size[t->ndim - 2]) luaL_addstring(b, "\n          …");
}

static int tensor_tostring(lua_State *L)
{
  capl_handle *h = bind_to_handle(L, 1);
  if (!h) return bind_type_error(L, 1, "tensor");
  if (!h->t) return lua_pushliteral(L, "tensor (released)"), 1;
  char head[160];
  OWNED *corner = NULL;
  const double *values = NULL;
  capl_tensor_describe(h->t, head, sizeof head);
  if (h->t->device->backend->arithmetic &&
      capl_tensor_numel(h->t) > 0) {
    corner_alias(L, h->t, &corner);
    values = push_values(L, corner, "tostring");
  }
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, "tensor ");
  luaL_addstring(&b, head);
  if (values) add_corner(&b, h->t, corner, values);
  luaL_pushresult(&b);
  return 1;
}

void bind_open_show(lua_State *L)
{
  static const luaL_Reg methods[] = {{"item", tensor_item},
                                     {"tolist", tensor_tolist},
                                     {"stride", tensor_stride},
                                     {"numel", tensor_numel},
                                     {"is_contiguous", tensor_is_contiguous},
                                     {NULL, NULL}};
  lua_getfield(L, -1, "tensor_methods");
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
  lua_getfield(L, -1, "tensor_meta");
  lua_pushcfunction(L, tensor_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}
