/* reading.c -- what a model says of samples, for Lua.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/model/reading.h"

#include <stdlib.h>
#include <string.h>

void bind_set_text(lua_State *L, const char *key, const char *value)
{
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

void bind_set_number(lua_State *L, const char *key, double value)
{
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

void bind_set_flag(lua_State *L, const char *key, bool value)
{
  lua_pushboolean(L, value);
  lua_setfield(L, -2, key);
}

/* ---- outputs ----------------------------------------------------------------------------------- */

static void set_sure(lua_State *L, const capl_output *o)
{
  if (!o->sure) return;
  lua_createtable(L, o->length, 0);
  for (int i = 0; i < o->length; i++) lua_pushnumber(L, (double)o->sure[i]), lua_rawseti(L, -2, i + 1);
  lua_setfield(L, -2, "sure");
}

static void set_top(lua_State *L, const capl_output *o)
{
  if (!o->top) return;
  lua_createtable(L, o->n_top, 0);
  for (int i = 0; i < o->n_top; i++) {
    lua_createtable(L, 0, 3);
    bind_set_number(L, "class", o->top[i].id);
    bind_set_text(L, "name", o->top[i].name);
    bind_set_number(L, "probability", (double)o->top[i].probability);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "top");
}

static void set_values(lua_State *L, const capl_output *o)
{
  if (!o->values) return;
  lua_createtable(L, o->n_values, 0);
  for (int i = 0; i < o->n_values; i++) lua_pushnumber(L, o->values[i]), lua_rawseti(L, -2, i + 1);
  lua_setfield(L, -2, "values");
  bind_set_number(L, "per_row", o->per_row);
}

static void set_levels(lua_State *L, const capl_output *o)
{
  if (!o->levels) return;
  capl_device *host;
  OWNED *t = NULL;
  bind_check(L, capl_device_open("cpu", &host), NULL);
  int ndim = o->channels > 1 ? 3 : 2;
  bind_check(L, capl_tensor_new(host, CAPL_U8, ndim, (int64_t[]){o->height, o->width, o->channels}, CAPL_AUTO, &t),
             "model:read");
  memcpy(capl_tensor_data(t), o->levels, (size_t)capl_tensor_numel(t));
  data_push_owned(L, &t);
  lua_setfield(L, -2, "levels");
}

static void push_output(lua_State *L, const capl_output *o)
{
  lua_createtable(L, 0, 6);
  bind_set_text(L, "text", o->text);
  bind_set_number(L, "confidence", o->confidence);
  set_sure(L, o);
  set_top(L, o);
  set_values(L, o);
  set_levels(L, o);
}

static void push_reading(lua_State *L, const capl_reading *r)
{
  lua_createtable(L, 0, 4);
  lua_createtable(L, r->n_outputs, 0);
  for (int o = 0; o < r->n_outputs; o++) push_output(L, &r->outputs[o]), lua_rawseti(L, -2, o + 1);
  lua_setfield(L, -2, "outputs");
  bind_set_number(L, "width", r->width);
  bind_set_number(L, "height", r->height);
  if (r->status != CAPL_OK) bind_set_text(L, "error", r->error);
}

int bind_push_readings(lua_State *L, const capl_reading *readings, int n)
{
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) push_reading(L, &readings[i]), lua_rawseti(L, -2, i + 1);
  return 1;
}

/* ---- reading tensors --------------------------------------------------------------------------- */

enum { MOST = 64 };

/* The rows of an input beside the image, of n samples (0 = any number): the value named so in the table at 3. */
static const float *check_rows(lua_State *L, const capl_model_field *f, int64_t *n)
{
  char text[160];
  lua_getfield(L, 3, f->name);
  if (lua_isnil(L, -1)) bind_arg_error(L, 3, "the model takes the input '%s'", f->name);
  capl_tensor *t = bind_on_host(L, lua_gettop(L));
  if (*n == 0 && t->ndim > 0) *n = t->size[0];
  if (t->dtype != CAPL_F32 || t->ndim < 1 || t->size[0] != *n || *n < 1 || *n > MOST ||
      capl_tensor_numel(t) != *n * (int64_t)f->numbers)
    bind_arg_error(L, 3, "f32 of 1 to %d samples of %zu numbers each expected as '%s', got %s", MOST, f->numbers, f->name,
                   capl_tensor_describe(t, text, sizeof text));
  size_t all = (size_t)*n * f->numbers;
  double *wide = lua_newuserdata(L, all * sizeof *wide);
  float *rows = lua_newuserdata(L, all * sizeof *rows);
  bind_check(L, capl_tensor_to_doubles(t, wide), "model:read");
  for (size_t i = 0; i < all; i++) rows[i] = (float)wide[i];
  return rows;
}

/* Pointers to each sample's rows, in userdata pushed on the stack. */
static void set_values_of(lua_State *L, const capl_model_info *info, int64_t *n, capl_model_sample *list)
{
  const float *rows[CAPL_MODEL_FIELDS_MAX];
  size_t each[CAPL_MODEL_FIELDS_MAX];
  int count = 0;
  luaL_checkstack(L, 4 * info->n_inputs + 4, "too many inputs");
  for (int i = 0; i < info->n_inputs; i++) {
    if (capl_field_kind_is_pixels(info->inputs[i].kind)) continue;
    if (count == 0) bind_check_table(L, 3);
    each[count] = info->inputs[i].numbers;
    rows[count] = check_rows(L, &info->inputs[i], n);
    count++;
  }
  if (count == 0) return;
  const float **at = lua_newuserdata(L, (size_t)(*n * count) * sizeof *at);
  for (int64_t s = 0; s < *n; s++) {
    list[s].values = at + s * count;
    for (int k = 0; k < count; k++) at[s * count + k] = rows[k] + (size_t)s * each[k];
  }
}

static int64_t set_images(lua_State *L, capl_model_sample *list)
{
  capl_tensor *images = bind_check_images(L, 2);
  const int64_t *size = images->size;
  if (size[0] > MOST) bind_arg_error(L, 2, "at most %d images expected, got %lld", MOST, (long long)size[0]);
  const uint8_t *levels = bind_push_levels(L, images);
  for (int64_t i = 0; i < size[0]; i++)
    list[i] = (capl_model_sample){.pixels = levels + (size_t)(i * size[1] * size[2] * size[3]), .width = (int)size[3],
                                  .height = (int)size[2], .channels = (int)size[1]};
  return size[0];
}

/* Readings in userdata whose memory goes with it: pushing them may raise. */
static int release_readings(lua_State *L)
{
  capl_reading *readings = lua_touserdata(L, 1);
  return capl_readings_free(readings, (int)(lua_objlen(L, 1) / sizeof *readings)), 0;
}

capl_reading *bind_new_readings(lua_State *L, int64_t n)
{
  capl_reading *readings = lua_newuserdata(L, (size_t)n * sizeof *readings);
  memset(readings, 0, (size_t)n * sizeof *readings);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, release_readings);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  return readings;
}

int bind_model_read(lua_State *L)
{
  capl_model *model = data_check_box(L, 1, MODEL_TYPE);
  capl_model_sample list[MOST] = {{0}};
  capl_model_info info;
  lua_settop(L, 3);
  capl_model_info_get(model, &info);
  int64_t n = info.width > 0 ? set_images(L, list) : 0;
  set_values_of(L, &info, &n, list);
  capl_reading *readings = bind_new_readings(L, n);
  bind_check(L, capl_model_run(model, list, (int)n, readings), NULL);
  bind_push_readings(L, readings, (int)n);
  capl_readings_free(readings, (int)n);
  return 1;
}
