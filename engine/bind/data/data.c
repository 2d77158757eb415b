/* data.c -- the data engine for Lua: PNG, sources. The captcha generator is in captcha.c, the loader in loader.c.
**
** Sample numbers are 0-based values, as class labels are. What users call is lua/capl/data on top of this.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/data.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- boxes: userdata holding one pointer ----------------------------------------------------- */

void **data_new_box(lua_State *L, const char *type)
{
  void **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  luaL_setmetatable(L, type);
  return box;
}

void *data_check_box(lua_State *L, int i, const char *type)
{
  void **box = luaL_testudata(L, i, type);
  if (!box) bind_type_error(L, i, type + strlen("capl."));
  if (!*box) bind_fail(L, CAPL_ESTATE, NULL, NULL, "%s was released", type + strlen("capl."));
  return *box;
}

void data_open_type(lua_State *L, const char *type, const luaL_Reg *methods, lua_CFunction release)
{
  luaL_newmetatable(L, type);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_pushcfunction(L, release);
  lua_setfield(L, -2, "free");
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, release);
  lua_setfield(L, -2, "__gc");
  lua_pushstring(L, type + strlen("capl."));
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

/* ---- images ---------------------------------------------------------------------------------- */

static const double LIMIT_32 = 4294967295.0;

/* Memory for the values of t that the host can write; NULL if t has none. */
static void *room_for(lua_State *L, const capl_tensor *t)
{
  const capl_backend *backend = t->device->backend;
  if (!backend->arithmetic) return NULL;
  return backend->host_memory ? capl_tensor_data(t) : lua_newuserdata(L, capl_tensor_bytes(t) + 1);
}

void data_new_images(lua_State *L, capl_dtype dtype, int n, int c, int h, int w, capl_tensor **out,
                     void **data)
{
  int64_t size[4] = {n, c, h, w};
  bind_check(L, capl_tensor_new(bind_opt_device(L, 0), dtype, 4, size, CAPL_AUTO, out), "data");
  *data = room_for(L, *out);
}

void data_sent(lua_State *L, capl_tensor *t, const void *data)
{
  if (!data || t->device->backend->host_memory) return;
  bind_check(L, t->device->backend->copy_in(capl_tensor_data(t), data, capl_tensor_bytes(t)), "data");
}

void data_push_owned(lua_State *L, capl_tensor **t)
{
  capl_tensor *given = *t;
  *t = NULL;
  bind_push_tensor(L, given);
}

typedef capl_status image_reader(const char *path, int channels, capl_image *image);

static int read_image(lua_State *L, image_reader *read)
{
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  int64_t channels = lua_isnoneornil(L, 2) ? 0 : bind_check_int(L, 2);
  __attribute__((cleanup(capl_image_fini))) capl_image image = {0};
  OWNED *t = NULL;
  void *data;
  bind_check(L, read(path, (int)channels, &image), NULL);
  data_new_images(L, CAPL_U8, 1, image.channels, image.height, image.width, &t, &data);
  if (data) memcpy(data, image.pixels, (size_t)image.channels * (size_t)image.height * (size_t)image.width);
  data_sent(L, t, data);
  data_push_owned(L, &t);
  return 1;
}

/* data.png_read(path[, channels]), data.image_read(…) -> (1,C,H,W) u8 of a PNG file; of a PNG or JPEG file */
static int data_png_read(lua_State *L) { return read_image(L, capl_png_read); }
static int data_image_read(lua_State *L) { return read_image(L, capl_image_read); }

/* The levels of an image (C,H,W) or (1,C,H,W) at i, as (H,W,C) in a userdata pushed on the stack. */
static const uint8_t *check_picture(lua_State *L, int i, int *width, int *height, int *channels)
{
  capl_tensor *t = bind_on_host(L, i);
  int lead = t->ndim - 3;
  if (t->dtype != CAPL_U8 || lead < 0 || lead > 1 || (lead == 1 && t->size[0] != 1)) {
    char text[160];
    bind_arg_error(L, i, "one u8 image (C,H,W) expected, got %s", capl_tensor_describe(t, text, sizeof text));
  }
  const int64_t *size = t->size + lead, *stride = t->stride + lead;
  const uint8_t *from = capl_tensor_data(t);
  uint8_t *pixels = lua_newuserdata(L, (size_t)capl_tensor_numel(t) + 1), *to = pixels;
  for (int64_t y = 0; y < size[1]; y++)
    for (int64_t x = 0; x < size[2]; x++)
      for (int64_t c = 0; c < size[0]; c++) *to++ = from[c * stride[0] + y * stride[1] + x * stride[2]];
  *width = (int)size[2], *height = (int)size[1], *channels = (int)size[0];
  return pixels;
}

/* data.png_write(path, image): image (C,H,W) or (1,C,H,W), u8 levels 0..255, C 1 or 3 */
static int data_png_write(lua_State *L)
{
  int width, height, channels;
  const char *path = bind_check_product(L, 1);
  const uint8_t *pixels = check_picture(L, 2, &width, &height, &channels);
  bind_check(L, capl_png_write(path, pixels, width, height, channels), NULL);
  return 0;
}

void data_png_encode(lua_State *L, int i, uint8_t **bytes, size_t *size)
{
  int width, height, channels;
  const uint8_t *pixels = check_picture(L, i, &width, &height, &channels);
  bind_check(L, capl_png_encode(pixels, width, height, channels, bytes, size), NULL);
}

/* Ones into zeros, on devices whose memory the host writes. Returns a label that is none of the classes, else 0. */
static int32_t write_ones(const capl_tensor *labels, int64_t K, float *to)
{
  const int32_t *from = capl_tensor_data(labels);
  int64_t N = labels->size[0], T = labels->ndim == 2 ? labels->size[1] : 1,
      step = labels->ndim == 2 ? labels->stride[1] : 0;
  for (int64_t n = 0; n < N; n++)
    for (int64_t t = 0; t < T; t++) {
      int32_t k = from[n * labels->stride[0] + t * step];
      if (k >= K) return k;
      if (k >= 0) to[n * T * K + t * K + k] = 1;
    }
  return 0;
}

/* Queued on the device, which cannot report labels outside the classes: a loader's labels never are. */
static void queue_ones(lua_State *L, const capl_tensor *labels, int64_t K, capl_tensor *out)
{
  const capl_feed_ops *feed = labels->device->backend->feed;
  if (!feed || !capl_tensor_is_row(labels))
    bind_fail(L, CAPL_EUNSUPPORTED, "one_hot", NULL, "labels on %s that are not in one piece", labels->device->name);
  bind_check(L, feed->one_hot(capl_tensor_data(labels), labels->size[0], labels->ndim == 2 ? labels->size[1] : 1, K,
                              capl_tensor_data(out)),
             "one_hot");
}

/* data.one_hot(labels (N,T) or (N), K) -> (N,T*K) f32: 1 at t*K + label; labels below 0 mark nothing */
static int data_one_hot(lua_State *L)
{
  capl_tensor *labels = bind_check_tensor(L, 1);
  int64_t K = bind_check_int(L, 2);
  if (labels->ndim < 1 || labels->ndim > 2 || labels->dtype != CAPL_I32) {
    char text[160];
    return bind_arg_error(L, 1, "labels (N,T) or (N) i32 expected, got %s",
                          capl_tensor_describe(labels, text, sizeof text));
  }
  if (K < 1) return bind_arg_error(L, 2, "at least one class, got %lld", (long long)K);
  int64_t size[2] = {labels->size[0], (labels->ndim == 2 ? labels->size[1] : 1) * K};
  const capl_backend *backend = labels->device->backend;
  OWNED *out = NULL;
  bind_check(L, capl_tensor_new(labels->device, CAPL_F32, 2, size, CAPL_ROW, &out), "one_hot");
  if (backend->arithmetic && !backend->host_memory) {
    queue_ones(L, labels, K, out);
  } else if (backend->arithmetic) {
    bind_check(L, capl_tensor_fill(out, 0), "one_hot");
    int32_t wrong = write_ones(labels, K, capl_tensor_data(out));
    if (wrong)
      return bind_fail(L, CAPL_EVALUE, "one_hot", NULL, "label %d is outside 0..%lld", wrong, (long long)K - 1);
  }
  data_push_owned(L, &out);
  return 1;
}

/* data.charset(spec) -> expanded: "0-9A-F" -> "0123456789ABCDEF" */
static int data_charset(lua_State *L)
{
  capl_vocab *vocab;
  bind_check(L, capl_vocab_charset(bind_check_string(L, 1), &vocab), NULL);
  lua_pushstring(L, capl_vocab_text(vocab));
  capl_vocab_unref(vocab);
  return 1;
}

/* data.lookalikes(charset) -> list of sets of its symbols that fonts draw alike: {"0O"} */
static int data_lookalikes(lua_State *L)
{
  const char *symbols = bind_check_string(L, 1);
  char set[CAPL_LOOKALIKES_ROOM];
  lua_newtable(L);
  for (int next = 0, n = 1; capl_text_lookalikes(symbols, &next, set); n++) {
    lua_pushstring(L, set);
    lua_rawseti(L, -2, n);
  }
  return 1;
}

static void release_text(char **text)
{
  free(*text);
}

/* data.fold(text[, "keep" | "upper" | "lower"[, fold_width]]) -> in normal form C, folded as labels are */
static int data_fold(lua_State *L)
{
  static const char *const cases[] = {"keep", "upper", "lower", NULL}; /* ORDER capl_case */
  capl_folding folding = {(capl_case)luaL_checkoption(L, 2, "keep", cases), lua_toboolean(L, 3)};
  __attribute__((cleanup(release_text))) char *folded = NULL;
  bind_check(L, capl_text_normalize(bind_check_string(L, 1), &folding, &folded), NULL);
  lua_pushstring(L, folded);
  return 1;
}

/* ---- sources --------------------------------------------------------------------------------- */

static int source_count(lua_State *L)
{
  return lua_pushnumber(L, capl_source_count(data_check_box(L, 1, SOURCE_TYPE))), 1;
}

static int source_width(lua_State *L)
{
  return lua_pushinteger(L, capl_source_width(data_check_box(L, 1, SOURCE_TYPE))), 1;
}

static int source_height(lua_State *L)
{
  return lua_pushinteger(L, capl_source_height(data_check_box(L, 1, SOURCE_TYPE))), 1;
}

static int source_channels(lua_State *L)
{
  return lua_pushinteger(L, capl_source_channels(data_check_box(L, 1, SOURCE_TYPE))), 1;
}

static int source_length(lua_State *L)
{
  return lua_pushinteger(L, capl_source_length(data_check_box(L, 1, SOURCE_TYPE))), 1;
}

static int source_length_min(lua_State *L)
{
  return lua_pushinteger(L, capl_source_length_min(data_check_box(L, 1, SOURCE_TYPE))), 1;
}

/* source:widths() -> ascending px that its images may have; nil: all are as wide */
static int source_widths(lua_State *L)
{
  int n;
  const int *widths = capl_source_widths(data_check_box(L, 1, SOURCE_TYPE), &n);
  if (n == 0) return lua_pushnil(L), 1;
  lua_createtable(L, n, 0);
  for (int k = 0; k < n; k++) {
    lua_pushinteger(L, widths[k]);
    lua_rawseti(L, -2, k + 1);
  }
  return 1;
}

/* source:letterbox() -> as model files have it: {mode = "letterbox", position, fill = {level, …}}; nil: stretched */
static int source_letterbox(lua_State *L)
{
  const capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  const capl_letterbox *how = capl_source_letterbox(source);
  if (!how->on) return lua_pushnil(L), 1;
  lua_newtable(L);
  lua_pushliteral(L, "letterbox");
  lua_setfield(L, -2, "mode");
  lua_pushstring(L, how->top_left ? "top-left" : "center");
  lua_setfield(L, -2, "position");
  lua_newtable(L);
  for (int c = 0; c < capl_source_channels(source); c++) lua_pushinteger(L, how->fill[c]), lua_rawseti(L, -2, c + 1);
  lua_setfield(L, -2, "fill");
  return 1;
}

/* source:width_of(id) -> px of the batch that a sample is in */
static int source_width_of(lua_State *L)
{
  const capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  return lua_pushinteger(L, capl_source_width_of(source, data_check_sample(L, 2, source))), 1;
}

/* source:squeezed() -> images that are wider than the widest of widths, the number of the widest and its px */
static int source_squeezed(lua_State *L)
{
  uint32_t id = 0;
  int px = 0;
  lua_pushnumber(L, capl_source_squeezed(data_check_box(L, 1, SOURCE_TYPE), &id, &px));
  lua_pushnumber(L, id);
  lua_pushinteger(L, px);
  return 3;
}

static int source_fixed(lua_State *L)
{
  return lua_pushboolean(L, capl_source_fixed(data_check_box(L, 1, SOURCE_TYPE))), 1;
}

void data_push_names(lua_State *L, const capl_vocab *vocab)
{
  int32_t n = capl_vocab_count(vocab);
  lua_createtable(L, n, 0);
  for (int32_t id = 0; id < n; id++) lua_pushstring(L, capl_vocab_name(vocab, id)), lua_rawseti(L, -2, id + 1);
}

/* source:several() -> what separates the names of a label; nil: it is one name */
static int source_several(lua_State *L)
{
  const char text[] = {capl_source_several(data_check_box(L, 1, SOURCE_TYPE)), '\0'};
  return lua_pushstring(L, *text ? text : NULL), 1;
}

/* source:class_names() -> {name, …} of the classes that its labels are; nil: they are none */
static int source_class_names(lua_State *L)
{
  const capl_vocab *vocab = capl_source_vocab(data_check_box(L, 1, SOURCE_TYPE));
  if (!vocab || capl_vocab_is_symbols(vocab)) return lua_pushnil(L), 1;
  return data_push_names(L, vocab), 1;
}

static int source_charset(lua_State *L)
{
  return lua_pushstring(L, capl_source_charset(data_check_box(L, 1, SOURCE_TYPE))), 1;
}

uint32_t data_check_sample(lua_State *L, int i, const capl_source *source)
{
  int64_t id = bind_check_int(L, i), count = capl_source_count(source);
  if (id < 0 || id >= count)
    bind_arg_error(L, i, "sample %lld is outside 0..%lld", (long long)id, (long long)count - 1);
  return (uint32_t)id;
}

/* source:hash() -> 16 hexadecimal digits: what would change the samples */
static int source_hash(lua_State *L)
{
  char hash[CAPL_SOURCE_HASH_TEXT];
  bind_check(L, capl_source_hash(data_check_box(L, 1, SOURCE_TYPE), hash), NULL);
  return lua_pushstring(L, hash), 1;
}

/* source:content() -> {files, bytes, sha256} of names, texts and bytes of all its files */
static int source_content(lua_State *L)
{
  capl_content content;
  bind_check(L, capl_source_content(data_check_box(L, 1, SOURCE_TYPE), capl_interrupt_pending, &content), NULL);
  lua_createtable(L, 0, 3);
  lua_pushnumber(L, content.files);
  lua_setfield(L, -2, "files");
  lua_pushnumber(L, (double)content.bytes);
  lua_setfield(L, -2, "bytes");
  lua_pushstring(L, content.sha256);
  lua_setfield(L, -2, "sha256");
  return 1;
}

/* source:name(id) -> path below the folder, or nil for sources without files */
static int source_name(lua_State *L)
{
  const capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  lua_pushstring(L, capl_source_name(source, data_check_sample(L, 2, source)));
  return 1;
}

/* source:left_out() -> images of kinds that are not read, the path of the first one or nil */
static int source_left_out(lua_State *L)
{
  const char *first;
  lua_pushnumber(L, capl_source_left_out(data_check_box(L, 1, SOURCE_TYPE), &first));
  lua_pushstring(L, first);
  return 2;
}

/* source:set_label(id, text) -> true, or false and what is wrong: the loader's on_error decides then */
static int source_set_label(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  bool good = capl_source_set_label(source, data_check_sample(L, 2, source), bind_check_string(L, 3)) == CAPL_OK;
  lua_pushboolean(L, good);
  if (good) return 1;
  lua_pushstring(L, capl_error_last()->message);
  return 2;
}

void data_push_copy(lua_State *L, capl_dtype dtype, int ndim, const int64_t *size, const void *data)
{
  OWNED *t = NULL;
  bind_check(L, capl_tensor_new(bind_opt_device(L, 0), dtype, ndim, size, CAPL_ROW, &t), "data");
  const capl_backend *backend = t->device->backend;
  if (backend->arithmetic && backend->host_memory) memcpy(capl_tensor_data(t), data, capl_tensor_bytes(t));
  else if (backend->arithmetic) data_sent(L, t, data);
  data_push_owned(L, &t);
}

int data_label_dims(const capl_source *source)
{
  const capl_vocab *vocab = capl_source_vocab(source);
  return vocab && !capl_vocab_is_symbols(vocab) && !capl_source_several(source) ? 1 : 2;
}

void data_push_labels(lua_State *L, const capl_source *source, const int32_t *labels, int n)
{
  int64_t size[2] = {n, capl_source_length(source)};
  data_push_copy(L, CAPL_I32, data_label_dims(source), size, labels);
}

void data_push_field(lua_State *L, const capl_field *field, int n, const void *data)
{
  int64_t size[4] = {n};
  for (int d = 0; d < field->ndim; d++) size[d + 1] = field->size[d];
  data_push_copy(L, field->kind == CAPL_FIELD_MASK ? CAPL_U8 : CAPL_F32, field->ndim + 1, size, data);
}

void data_push_source_field(lua_State *L, const capl_source *source, int i, int width, int n, const void *data)
{
  int several;
  capl_field field = *capl_source_field(source, i);
  capl_source_widths(source, &several);
  if (several && field.kind == CAPL_FIELD_MASK) field.size[1] = width;
  data_push_field(L, &field, n, data);
}

/* source:fields() -> list of {name, kind = "mask"|"points"|"boxes"|"values"} */
static int source_fields(lua_State *L)
{
  static const char *const kinds[] = {"mask", "points", "boxes", "values"}; /* ORDER capl_field_kind */
  _Static_assert(CAPL_FIELD_VALUES == 3, "order matches data.h");
  const capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  const capl_field *field;
  lua_newtable(L);
  for (int i = 0; (field = capl_source_field(source, i)); i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, field->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, kinds[field->kind]);
    lua_setfield(L, -2, "kind");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* Room for one sample's fields, which lives on the stack; pushes CAPL_FIELDS_MAX values. */
static void room_for_fields(lua_State *L, const capl_source *source, capl_sample *sample)
{
  for (int i = 0; i < CAPL_FIELDS_MAX; i++) {
    const capl_field *field = capl_source_field(source, i);
    sample->field[i] = lua_newuserdata(L, field ? capl_field_bytes(field) : 1);
  }
}

static void push_image(lua_State *L, const capl_source *source, uint32_t id, const uint8_t *pixels)
{
  OWNED *t = NULL;
  void *data;
  if (!pixels) {
    lua_pushnil(L);
    return;
  }
  int channels = capl_source_channels(source), height = capl_source_height(source),
      width = capl_source_width_of(source, id);
  data_new_images(L, CAPL_U8, 1, channels, height, width, &t, &data);
  if (data) memcpy(data, pixels, capl_tensor_bytes(t));
  data_sent(L, t, data);
  data_push_owned(L, &t);
}

/* source:read(epoch, id) -> (1,C,H,W) u8, labels (1,T) i32, (1) of classes, {name = (1,…) for each field}; nil for what
** it has not */
static int source_read(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  int64_t epoch = bind_check_int(L, 2);
  uint32_t id = data_check_sample(L, 3, source);
  int32_t labels[CAPL_LABEL_MAX];
  size_t bytes = capl_source_pixels_bytes(source, id);
  if (epoch < 0 || epoch > (int64_t)LIMIT_32)
    return bind_arg_error(L, 2, "epoch from 0 on, got %lld", (long long)epoch);
  capl_sample sample = {.pixels = bytes ? lua_newuserdata(L, bytes) : NULL, .labels = labels};
  room_for_fields(L, source, &sample);
  bind_check(L, capl_source_read(source, (uint32_t)epoch, id, &sample), NULL);
  push_image(L, source, id, sample.pixels);
  if (capl_source_length(source) > 0) data_push_labels(L, source, labels, 1);
  else lua_pushnil(L);
  if (capl_source_fields(source) == 0) return 2;
  lua_newtable(L);
  const capl_field *field;
  for (int i = 0; (field = capl_source_field(source, i)); i++) {
    data_push_source_field(L, source, i, capl_source_width_of(source, id), 1, sample.field[i]);
    lua_setfield(L, -2, field->name);
  }
  return 3;
}

/* source:subset({id, …}) -> source of these samples, ids from 0 */
static int source_subset(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  luaL_checktype(L, 2, LUA_TTABLE);
  size_t n = lua_objlen(L, 2);
  uint32_t *id = lua_newuserdata(L, (n ? n : 1) * sizeof *id);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (int)i + 1);
    id[i] = data_check_sample(L, -1, source);
    lua_pop(L, 1);
  }
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, capl_source_subset_new(source, id, (uint32_t)n, (capl_source **)box), NULL);
  return 1;
}

static int source_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, SOURCE_TYPE);
  if (box) capl_source_unref(*box), *box = NULL;
  return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

void bind_open_data(lua_State *L)
{
  static const luaL_Reg source[] = {{"count", source_count},   {"width", source_width},
                                    {"height", source_height}, {"channels", source_channels},
                                    {"fixed", source_fixed},     {"hash", source_hash}, {"content", source_content},
                                    {"length", source_length}, {"charset", source_charset},
                                    {"class_names", source_class_names}, {"several", source_several},
                                    {"length_min", source_length_min},
                                    {"widths", source_widths}, {"letterbox", source_letterbox},
                                    {"width_of", source_width_of},
                                    {"squeezed", source_squeezed}, {"name", source_name},
                                    {"set_label", source_set_label}, {"left_out", source_left_out},
                                    {"fields", source_fields}, {"read", source_read},     {"subset", source_subset},
                                    {NULL, NULL}};
  static const luaL_Reg functions[] = {{"png_read", data_png_read},
                                       {"image_read", data_image_read},
                                       {"png_write", data_png_write},
                                       {"one_hot", data_one_hot},
                                       {"charset", data_charset},
                                       {"lookalikes", data_lookalikes},
                                       {"fold", data_fold},
                                       {NULL, NULL}};
  data_open_type(L, SOURCE_TYPE, source, source_release);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  bind_open_files(L);
  bind_open_captcha(L);
  bind_open_loader(L);
  bind_open_arrays(L);
  bind_open_scenes(L);
  bind_open_series(L);
  bind_open_series_table(L);
  lua_setfield(L, -2, "data");
}
