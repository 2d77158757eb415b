/* arrays.c -- data.arrays for Lua: tensors as a source of samples. What its parts must look like is checked in Lua.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/data.h"

#include <string.h>

/* Values in row-major order of the dims as listed in order, on the Lua stack. */
static void *gathered(lua_State *L, int i, const int *order)
{
  const capl_tensor *t = bind_on_host(L, i);
  size_t size = capl_dtype_size(t->dtype), n = (size_t)capl_tensor_numel(t);
  uint8_t *room = lua_newuserdata(L, n * size + 1), *to = room;
  const uint8_t *from = capl_tensor_data(t);
  int64_t at[CAPL_MAX_NDIM] = {0}, offset = 0;
  for (size_t k = 0; k < n; k++, to += size) {
    memcpy(to, from + (size_t)offset * size, size);
    for (int d = t->ndim - 1; d >= 0; d--) {
      int dim = order ? order[d] : d;
      offset += t->stride[dim];
      if (++at[d] < t->size[dim]) break;
      offset -= t->stride[dim] * at[d];
      at[d] = 0;
    }
  }
  return room;
}

/* The tensor of a key of the options; its index on the stack, 0 = it is not there. */
static int part(lua_State *L, const char *key)
{
  lua_getfield(L, 1, key);
  if (!lua_isnil(L, -1)) return lua_gettop(L);
  lua_pop(L, 1);
  return 0;
}

static void add_images(lua_State *L, capl_arrays *a)
{
  static const int order[] = {0, 2, 3, 1};
  int i = part(L, "image");
  if (!i) return;
  const capl_tensor *t = bind_check_tensor(L, i);
  a->channels = (int)t->size[1], a->height = (int)t->size[2], a->width = (int)t->size[3];
  a->images = gathered(L, i, order);
}

static void add_labels(lua_State *L, capl_arrays *a)
{
  int i = part(L, "target");
  if (!i) return;
  const capl_tensor *t = bind_check_tensor(L, i);
  a->length = t->ndim == 2 ? (int)t->size[1] : 1;
  a->labels = gathered(L, i, NULL);
}

/* fields: list of {name, kind, tensor} */
static void add_fields(lua_State *L, capl_arrays *a)
{
  static const char *const kinds[] = {"mask", "points", "boxes", "values", NULL}; /* ORDER capl_field_kind */
  lua_getfield(L, 1, "fields");
  int list = lua_gettop(L);
  a->n_fields = (int)lua_objlen(L, list);
  for (int i = 0; i < a->n_fields && i < CAPL_FIELDS_MAX; i++) {
    lua_rawgeti(L, list, i + 1);
    int row = lua_gettop(L);
    capl_field *field = &a->field[i];
    const char *name = "";
    bind_read_option(L, "data.tensors", row, &(bind_option_spec){"kind", BIND_WORD(capl_field, kind), .words = kinds},
                     field);
    bind_read_option(L, "data.tensors", row, &(bind_option_spec){"name", .kind = OPTION_TEXT}, &name);
    strncpy(field->name, name, CAPL_FIELD_NAME - 1);
    lua_getfield(L, row, "tensor");
    const capl_tensor *t = bind_check_tensor(L, -1);
    field->ndim = t->ndim - 1;
    for (int d = 1; d < t->ndim; d++) field->size[d - 1] = (int)t->size[d];
    a->values[i] = gathered(L, lua_gettop(L), NULL);
  }
}

/* data.arrays{image = (N,C,H,W) u8, target = (N,T) i32, charset =, classes =, fields = {{name =, kind =, tensor =}, …},
** count = N} */
static int data_arrays(lua_State *L)
{
  static const bind_option_spec options[] = {{"image", BIND_OTHER}, {"target", BIND_OTHER}, {"fields", BIND_OTHER},
                                             {"charset", BIND_TEXT(capl_arrays, charset)},
                                             {"classes", BIND_WHOLE(capl_arrays, classes), .max = 1 << 24},
                                             {"count", BIND_WHOLE(capl_arrays, count), .max = UINT32_MAX},
                                             BIND_END};
  capl_arrays a = {0};
  bind_check_table(L, 1);
  luaL_checkstack(L, 32, NULL);
  bind_read_options(L, "data.tensors", 1, options, &a);
  add_images(L, &a);
  add_labels(L, &a);
  add_fields(L, &a);
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, capl_source_arrays_new(&a, (capl_source **)box), "data.tensors");
  return 1;
}

void bind_open_arrays(lua_State *L)
{
  lua_pushcfunction(L, data_arrays);
  lua_setfield(L, -2, "arrays");
}
