/* model.c -- trained recognizers for Lua: opening, reading files, replaying golden pairs; and what saving one needs.
** SPDX-License-Identifier: Apache-2.0
*/
#include <sha256.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bind/data/data.h"
#include "bind/model/reading.h"

#define FILES_TYPE "capl.model_files"

/* ---- models ------------------------------------------------------------------------------------ */

/* model_open(path, {device, precision, plain}) -> model */
static int core_model_open(lua_State *L)
{
  static const bind_option_spec options[] = {{"device", BIND_TEXT(capl_model_options, device)},
                                             {"precision", BIND_TEXT(capl_model_options, precision)},
                                             {"plain", BIND_BOOL(capl_model_options, plain)},
                                             BIND_END};
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  capl_model_options o = {0};
  bind_read_options(L, "model.open", 2, options, &o);
  void **box = data_new_box(L, MODEL_TYPE);
  bind_check(L, capl_model_open(path, &o, (capl_model **)box), NULL);
  return 1;
}

/* {name, kind, numbers, names = {name, …} of classes, points or numbers, charset of texts} */
static void push_field(lua_State *L, const capl_model_field *f)
{
  lua_createtable(L, 0, 4);
  bind_set_text(L, "name", f->name);
  bind_set_text(L, "kind", f->kind);
  bind_set_number(L, "numbers", (double)f->numbers);
  if (capl_vocab_is_symbols(f->vocab)) bind_set_text(L, "charset", capl_vocab_text(f->vocab));
  else if (f->vocab) data_push_names(L, f->vocab), lua_setfield(L, -2, "names");
}

static void set_fields(lua_State *L, const char *key, const capl_model_field *list, int n)
{
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) push_field(L, &list[i]), lua_rawseti(L, -2, i + 1);
  lua_setfield(L, -2, key);
}

/* model:info() -> {width, height, channels = of images or 0, widths = list or nil, inputs, outputs = lists of fields,
** precision, meta = the text of meta.json} */
static int model_info(lua_State *L)
{
  capl_model_info info;
  capl_model_info_get(data_check_box(L, 1, MODEL_TYPE), &info);
  lua_newtable(L);
  bind_set_number(L, "width", info.width);
  bind_set_number(L, "height", info.height);
  bind_set_number(L, "channels", info.channels);
  if (info.n_widths > 0) {
    lua_createtable(L, info.n_widths, 0);
    for (int w = 0; w < info.n_widths; w++) lua_pushinteger(L, info.widths[w]), lua_rawseti(L, -2, w + 1);
    lua_setfield(L, -2, "widths");
  }
  set_fields(L, "inputs", info.inputs, info.n_inputs);
  set_fields(L, "outputs", info.outputs, info.n_outputs);
  bind_set_text(L, "precision", info.precision);
  bind_set_text(L, "meta", info.meta);
  return 1;
}

static void push_verdict(lua_State *L, const capl_model_verdict *v)
{
  lua_newtable(L);
  bind_set_number(L, "n", v->n);
  bind_set_number(L, "difference", v->difference);
  bind_set_number(L, "largest", v->largest);
  bind_set_number(L, "tolerance", v->tolerance);
  bind_set_flag(L, "ok", v->ok);
}

/* model:verify() -> {n, difference, largest, same_texts, tolerance, ok} */
static int model_verify(lua_State *L)
{
  capl_model_verdict v;
  bind_check(L, capl_model_verify(data_check_box(L, 1, MODEL_TYPE), &v), NULL);
  push_verdict(L, &v);
  bind_set_number(L, "same_texts", v.same_texts);
  return 1;
}

/* model_verify_tensors(path, device) -> {n, difference, largest, tolerance, ok}; nil where golden pairs are images */
static int core_model_verify_tensors(lua_State *L)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ), *device = bind_check_string(L, 2);
  const char *inputs = lua_pushfstring(L, "%s/golden/inputs.safetensors", path);
  if (access(inputs, F_OK) != 0) return 0;
  capl_model_verdict v;
  bind_check(L, capl_model_verify_tensors(path, device, &v), NULL);
  push_verdict(L, &v);
  return 1;
}

/* model:decoding({beam, characters, length_min, length_max}) */
static int model_set_decoding(lua_State *L)
{
  static const bind_option_spec options[] = {{"beam", BIND_WHOLE(capl_text_decoding, beam), .max = 1 << 20},
                                             {"characters", BIND_TEXT(capl_text_decoding, characters)},
                                             {"length_min", BIND_WHOLE(capl_text_decoding, length_min),
                                              .max = 1 << 20},
                                             {"length_max", BIND_WHOLE(capl_text_decoding, length_max),
                                              .max = 1 << 20},
                                             BIND_END};
  capl_text_decoding o = {0};
  bind_read_options(L, "model:decoding", 2, options, &o);
  bind_check(L, capl_model_decoding_set(data_check_box(L, 1, MODEL_TYPE), &o), NULL);
  return 0;
}

static int model_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, MODEL_TYPE);
  if (box) capl_model_close(*box), *box = NULL;
  return 0;
}

/* ---- files ------------------------------------------------------------------------------------- */

/* model:files({path, ...} or source[, workers]) -> files; the model must be kept while they are read */
static int model_files(lua_State *L)
{
  capl_model *model = data_check_box(L, 1, MODEL_TYPE);
  int64_t workers = lua_isnoneornil(L, 3) ? -1 : bind_check_int(L, 3);
  if (workers < -1 || workers > 256) return bind_arg_error(L, 3, "0 to 256 threads, got %lld", (long long)workers);
  if (lua_isuserdata(L, 2)) {
    void **box = data_new_box(L, FILES_TYPE);
    bind_check(L, capl_model_source_begin(model, data_check_box(L, 2, SOURCE_TYPE), (int)workers,
                                          (capl_model_files **)box), NULL);
    return 1;
  }
  bind_check_table(L, 2);
  size_t n = lua_objlen(L, 2);
  const char **paths = lua_newuserdata(L, (n + 1) * sizeof *paths);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (int)i + 1);
    if (lua_type(L, -1) != LUA_TSTRING) return bind_arg_error(L, 2, "a list of paths expected");
    paths[i] = lua_tostring(L, -1); /* the table keeps it alive */
    lua_pop(L, 1);
  }
  void **box = data_new_box(L, FILES_TYPE);
  bind_check(L, capl_model_files_begin(model, paths, (uint32_t)n, (int)workers, (capl_model_files **)box), NULL);
  return 1;
}

/* files:next() -> list of readings (reading.c); nil at the end */
static int files_next(lua_State *L)
{
  const capl_reading *readings;
  int n;
  bind_check(L, capl_model_files_next(data_check_box(L, 1, FILES_TYPE), &readings, &n), NULL);
  return n == 0 ? (lua_pushnil(L), 1) : bind_push_readings(L, readings, n);
}

static int files_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, FILES_TYPE);
  if (box) capl_model_files_end(*box), *box = NULL;
  return 0;
}

/* ---- saving ------------------------------------------------------------------------------------ */

/* The levels of u8 images (N,C,H,W) as (N,H,W,C); lives in a userdata pushed on the stack. */
const uint8_t *bind_push_levels(lua_State *L, const capl_tensor *t)
{
  const int64_t *size = t->size, *stride = t->stride;
  const uint8_t *from = capl_tensor_data(t);
  uint8_t *levels = lua_newuserdata(L, (size_t)capl_tensor_numel(t) + 1), *to = levels;
  for (int64_t n = 0; n < size[0]; n++)
    for (int64_t y = 0; y < size[2]; y++)
      for (int64_t x = 0; x < size[3]; x++)
        for (int64_t c = 0; c < size[1]; c++)
          *to++ = from[n * stride[0] + c * stride[1] + y * stride[2] + x * stride[3]];
  return levels;
}

capl_tensor *bind_check_images(lua_State *L, int i)
{
  capl_tensor *t = bind_on_host(L, i);
  char text[160];
  if (t->dtype != CAPL_U8 || t->ndim != 4 || t->size[0] < 1)
    bind_arg_error(L, i, "u8 images (N,C,H,W) expected, got %s", capl_tensor_describe(t, text, sizeof text));
  return t;
}

/* model_input(meta json, images u8 (N,C,H,W)) -> (N,C,H,W) f32, as a model with that meta data would see them */
static int core_model_input(lua_State *L)
{
  const char *meta = bind_check_string(L, 1);
  capl_tensor *images = bind_check_images(L, 2);
  const int64_t *size = images->size;
  const uint8_t *levels = bind_push_levels(L, images);
  capl_device *device = bind_opt_device(L, 0), *host = device;
  bool apart = device->backend->arithmetic && !device->backend->host_memory;
  if (apart) bind_check(L, capl_device_open("ref", &host), NULL);
  OWNED *t = NULL, *there = NULL;
  bind_check(L, capl_tensor_new(host, CAPL_F32, 4, size, CAPL_AUTO, &t), "model_input");
  void *data = capl_tensor_data(t);
  if (data)
    bind_check(L, capl_model_prepare(meta, levels, (int)size[0], (int)size[3], (int)size[2], (int)size[1], data), NULL);
  if (host != device) bind_check(L, capl_tensor_to(t, device, &there), "model_input");
  data_push_owned(L, there ? &there : &t);
  return 1;
}

/* What the model was given, at the top of the stack: images u8 (N,C,H,W), or {name = tensor (N,...)}. */
static capl_golden check_given(lua_State *L)
{
  capl_golden golden = {0};
  if (lua_istable(L, -1)) {
    golden.inputs = bind_check_named(L, lua_gettop(L), &golden.n_inputs);
    golden.n = golden.n_inputs > 0 && golden.inputs[0].tensor->ndim > 0 ? (int)golden.inputs[0].tensor->size[0] : 0;
    return golden;
  }
  capl_tensor *images = bind_check_images(L, lua_gettop(L));
  return (capl_golden){.n = (int)images->size[0], .width = (int)images->size[3], .height = (int)images->size[2],
                       .channels = (int)images->size[1], .images = bind_push_levels(L, images)};
}

/* Golden pairs of one width each, from lists of inputs and outputs (N,...) or {name = output} at i and i + 1. */
static int check_golden(lua_State *L, int i, capl_golden *golden)
{
  int n = (int)lua_objlen(L, i);
  luaL_checkstack(L, 4 * n, "too many golden pairs");
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    golden[k] = check_given(L);
    lua_rawgeti(L, i + 1, k + 1);
    if (lua_istable(L, -1)) golden[k].outputs = bind_check_named(L, lua_gettop(L), &golden[k].n_outputs);
    else golden[k].output = bind_check_tensor(L, -1);
    if (k > 0) golden[k - 1].next = &golden[k];
  }
  return n;
}

/* The levels of the image among named inputs, at i. */
static void add_levels(lua_State *L, int i, capl_golden *golden)
{
  capl_tensor *images = bind_check_images(L, i);
  if (images->size[0] != golden->n) bind_arg_error(L, i, "levels of %d images expected", golden->n);
  golden->width = (int)images->size[3], golden->height = (int)images->size[2];
  golden->channels = (int)images->size[1], golden->images = bind_push_levels(L, images);
}

/* model_save(path, graph, meta json[, {images u8 (N,C,H,W) or {name = input (N,...)}, …}, {output (N,...) or {name =
** output}, …}[, levels u8 (N,C,H,W)]]): a pair of them for each width; levels: of the image among named inputs */
int bind_model_save(lua_State *L, const capl_graph *graph)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_WRITE), *meta = bind_check_string(L, 3);
  capl_golden golden[CAPL_GOLDEN_MAX];
  if (lua_isnoneornil(L, 4)) return bind_check(L, capl_model_save(path, graph, meta, NULL), NULL), 0;
  bind_check_table(L, 4);
  bind_check_table(L, 5);
  if (lua_objlen(L, 4) > CAPL_GOLDEN_MAX) return bind_arg_error(L, 4, "at most %d widths expected", CAPL_GOLDEN_MAX);
  int n = check_golden(L, 4, golden);
  if (n == 1 && !lua_isnoneornil(L, 6)) add_levels(L, 6, golden);
  bind_check(L, capl_model_save(path, graph, meta, n > 0 ? golden : NULL), NULL);
  return 0;
}

/* sha256(text) -> 64 hexadecimal digits; a model names its recipe by it */
static int core_sha256(lua_State *L)
{
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  char digest[SHA256_DIGEST_STRING_LENGTH];
  SHA256Data((const uint8_t *)text, n, digest);
  lua_pushstring(L, digest);
  return 1;
}

/* field_kinds() -> names of the kinds of fields */
static int core_field_kinds(lua_State *L)
{
  const char *name;
  lua_newtable(L);
  for (int k = 0; (name = capl_field_kind_name(k)); k++) lua_pushstring(L, name), lua_rawseti(L, -2, k + 1);
  return 1;
}

void bind_open_model(lua_State *L)
{
  static const luaL_Reg model[] = {{"info", model_info}, {"verify", model_verify}, {"files", model_files},
                                   {"read", bind_model_read}, {"decoding", model_set_decoding}, {NULL, NULL}};
  static const luaL_Reg files[] = {{"next", files_next}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"model_open", core_model_open}, {"model_input", core_model_input},
                                       {"model_verify_tensors", core_model_verify_tensors},
                                       {"field_kinds", core_field_kinds}, {"sha256", core_sha256}, {NULL, NULL}};
  data_open_type(L, MODEL_TYPE, model, model_release);
  data_open_type(L, FILES_TYPE, files, files_release);
  luaL_setfuncs(L, functions, 0);
}
