/* l_data.c -- the data engine for Lua: captcha generator, PNG, sources, loader; batches become tensors.
**
** Sample numbers are 0-based values, as class labels are. What users call is lua/capl/data on top of this.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/l_bind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/data.h"

#define CAPTCHA_TYPE "capl.captcha"
#define SOURCE_TYPE "capl.source"
#define LOADER_TYPE "capl.loader"

/* ---- boxes: userdata holding one pointer ----------------------------------------------------- */

static void **new_box(lua_State *L, const char *type)
{
  void **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  luaL_setmetatable(L, type);
  return box;
}

static void *check_box(lua_State *L, int i, const char *type)
{
  void **box = luaL_testudata(L, i, type);
  if (!box) bind_type_error(L, i, type + strlen("capl."));
  if (!*box) bind_fail(L, CAPL_ESTATE, NULL, NULL, "%s was released", type + strlen("capl."));
  return *box;
}

static void open_type(lua_State *L, const char *type, const luaL_Reg *methods, lua_CFunction release)
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

/* ---- options --------------------------------------------------------------------------------- */

static double option_number(lua_State *L, int i, const char *key, double otherwise, double min, double max)
{
  double x = otherwise;
  if (bind_option(L, i, key)) {
    if (lua_type(L, -1) != LUA_TNUMBER)
      bind_arg_error(L, i, "%s is a number, got %s", key, bind_typename(L, -1));
    x = lua_tonumber(L, -1);
    if (!(x >= min && x <= max)) bind_arg_error(L, i, "%s is in %g..%g, got %g", key, min, max, x);
  }
  lua_pop(L, 1);
  return x;
}

static double option_whole(lua_State *L, int i, const char *key, double otherwise, double min, double max)
{
  double x = option_number(L, i, key, otherwise, min, max);
  if (x != (double)(int64_t)x) bind_arg_error(L, i, "%s is a whole number, got %g", key, x);
  return x;
}

static bool option_bool(lua_State *L, int i, const char *key, bool otherwise)
{
  bool x = otherwise;
  if (bind_option(L, i, key)) {
    if (!lua_isboolean(L, -1)) bind_arg_error(L, i, "%s is true or false, got %s", key, bind_typename(L, -1));
    x = lua_toboolean(L, -1);
  }
  lua_pop(L, 1);
  return x;
}

/* Borrowed from the options table. */
static const char *option_string(lua_State *L, int i, const char *key)
{
  const char *s = NULL;
  if (bind_option(L, i, key)) {
    if (lua_type(L, -1) != LUA_TSTRING)
      bind_arg_error(L, i, "%s is a string, got %s", key, bind_typename(L, -1));
    s = lua_tostring(L, -1);
  }
  lua_pop(L, 1);
  return s;
}

static int option_word(lua_State *L, int i, const char *key, const char *const *words, int otherwise)
{
  const char *s = option_string(L, i, key);
  if (!s) return otherwise;
  for (int k = 0; words[k]; k++)
    if (strcmp(words[k], s) == 0) return k;
  return bind_arg_error(L, i, "%s cannot be '%s'; it is '%s' or another word of its list", key, s, words[0]);
}

/* ---- images ---------------------------------------------------------------------------------- */

static const double LIMIT_32 = 4294967295.0;

/* A fresh (N,C,H,W) tensor, N,H,W,C in memory, on the default device; *data NULL where it has no memory. */
static void new_images(lua_State *L, capl_dtype dtype, int n, int c, int h, int w, capl_tensor **out,
                       void **data)
{
  capl_device *device = bind_opt_device(L, 0);
  int64_t size[4] = {n, c, h, w};
  bind_check(L, capl_tensor_new(device, dtype, 4, size, CAPL_AUTO, out), "data");
  *data = device->backend->arithmetic ? capl_tensor_data(*out) : NULL;
}

static void push_owned(lua_State *L, capl_tensor **t)
{
  capl_tensor *given = *t;
  *t = NULL;
  bind_push_tensor(L, given);
}

/* data.png_read(path[, channels]) -> (1,C,H,W) u8 */
static int data_png_read(lua_State *L)
{
  const char *path = bind_check_string(L, 1);
  int64_t channels = lua_isnoneornil(L, 2) ? 0 : bind_check_int(L, 2);
  __attribute__((cleanup(capl_image_fini))) capl_image image = {0};
  OWNED *t = NULL;
  void *data;
  bind_check(L, capl_png_read(path, (int)channels, &image), NULL);
  new_images(L, CAPL_U8, 1, image.channels, image.height, image.width, &t, &data);
  if (data) memcpy(data, image.pixels, (size_t)image.channels * (size_t)image.height * (size_t)image.width);
  push_owned(L, &t);
  return 1;
}

/* data.png_write(path, image): image (C,H,W) or (1,C,H,W), u8 levels 0..255, C 1 or 3 */
static int data_png_write(lua_State *L)
{
  const char *path = bind_check_string(L, 1);
  capl_tensor *t = bind_check_tensor(L, 2);
  int lead = t->ndim - 3;
  if (t->dtype != CAPL_U8 || lead < 0 || lead > 1 || (lead == 1 && t->size[0] != 1)) {
    char text[160];
    return bind_arg_error(L, 2, "one u8 image (C,H,W) expected, got %s",
                          capl_tensor_describe(t, text, sizeof text));
  }
  const int64_t *size = t->size + lead, *stride = t->stride + lead;
  const uint8_t *from = capl_tensor_data(t);
  uint8_t *pixels = lua_newuserdata(L, (size_t)capl_tensor_numel(t) + 1), *to = pixels;
  for (int64_t y = 0; y < size[1]; y++)
    for (int64_t x = 0; x < size[2]; x++)
      for (int64_t c = 0; c < size[0]; c++) *to++ = from[c * stride[0] + y * stride[1] + x * stride[2]];
  bind_check(L, capl_png_write(path, pixels, (int)size[2], (int)size[1], (int)size[0]), NULL);
  return 0;
}

/* data.one_hot(labels (N,T), K) -> (N,T*K) f32: 1 at t*K + label; labels below 0 mark nothing */
static int data_one_hot(lua_State *L)
{
  capl_tensor *labels = bind_check_tensor(L, 1);
  int64_t K = bind_check_int(L, 2);
  if (labels->ndim != 2 || labels->dtype != CAPL_I32) {
    char text[160];
    return bind_arg_error(L, 1, "labels (N,T) i32 expected, got %s",
                          capl_tensor_describe(labels, text, sizeof text));
  }
  if (K < 1) return bind_arg_error(L, 2, "at least one class, got %lld", (long long)K);
  int64_t N = labels->size[0], T = labels->size[1], size[2] = {N, T * K};
  OWNED *out = NULL;
  bind_check(L, capl_tensor_new(labels->device, CAPL_F32, 2, size, CAPL_ROW, &out), "one_hot");
  bind_check(L, capl_tensor_fill(out, 0), "one_hot");
  const int32_t *from = capl_tensor_data(labels);
  float *to = capl_tensor_data(out);
  for (int64_t n = 0; from && to && n < N; n++)
    for (int64_t t = 0; t < T; t++) {
      int32_t k = from[n * labels->stride[0] + t * labels->stride[1]];
      if (k >= K)
        return bind_fail(L, CAPL_EVALUE, "one_hot", NULL, "label %d is outside 0..%lld", k, (long long)K - 1);
      if (k >= 0) to[n * T * K + t * K + k] = 1;
    }
  push_owned(L, &out);
  return 1;
}

/* data.charset(spec) -> expanded: "0-9A-F" -> "0123456789ABCDEF" */
static int data_charset(lua_State *L)
{
  char expanded[CAPL_CHARSET_MAX + 1];
  bind_check(L, capl_charset_expand(bind_check_string(L, 1), expanded), NULL);
  lua_pushstring(L, expanded);
  return 1;
}

/* ---- captcha generator ----------------------------------------------------------------------- */

/* data.captcha(preset[, {charset, length, width, height, font}]) */
static int data_captcha(lua_State *L)
{
  static const char *const names[] = {"charset", "length", "width", "height", "font", NULL};
  const char *preset = bind_check_string(L, 1);
  bind_check_options(L, 2, names);
  capl_captcha_options o = {.charset = option_string(L, 2, "charset"),
                            .length = (int)option_whole(L, 2, "length", 0, 0, CAPL_LABEL_MAX),
                            .width = (int)option_whole(L, 2, "width", 0, 0, 65535),
                            .height = (int)option_whole(L, 2, "height", 0, 0, 65535),
                            .font = option_string(L, 2, "font")};
  void **box = new_box(L, CAPTCHA_TYPE);
  bind_check(L, capl_captcha_new(preset, &o, (capl_captcha **)box), NULL);
  return 1;
}

/* data.presets() -> list of names */
static int data_presets(lua_State *L)
{
  lua_newtable(L);
  for (int i = 0; capl_captcha_preset_name(i); i++) {
    lua_pushstring(L, capl_captcha_preset_name(i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int captcha_width(lua_State *L)
{
  return lua_pushinteger(L, capl_captcha_width(check_box(L, 1, CAPTCHA_TYPE))), 1;
}

static int captcha_height(lua_State *L)
{
  return lua_pushinteger(L, capl_captcha_height(check_box(L, 1, CAPTCHA_TYPE))), 1;
}

static int captcha_length(lua_State *L)
{
  return lua_pushinteger(L, capl_captcha_length(check_box(L, 1, CAPTCHA_TYPE))), 1;
}

static int captcha_charset(lua_State *L)
{
  return lua_pushstring(L, capl_captcha_charset(check_box(L, 1, CAPTCHA_TYPE))), 1;
}

static int captcha_font(lua_State *L)
{
  return lua_pushstring(L, capl_captcha_font(check_box(L, 1, CAPTCHA_TYPE))), 1;
}

/* gen:draw(seed, index[, channels]) -> (1,C,H,W) u8, text */
static int captcha_draw(lua_State *L)
{
  const capl_captcha *gen = check_box(L, 1, CAPTCHA_TYPE);
  uint64_t seed = (uint64_t)bind_check_int(L, 2), index = (uint64_t)bind_check_int(L, 3);
  int64_t channels = lua_isnoneornil(L, 4) ? 1 : bind_check_int(L, 4);
  if (channels != 1 && channels != 3)
    return bind_arg_error(L, 4, "1 or 3 channels, got %lld", (long long)channels);
  uint8_t labels[CAPL_LABEL_MAX];
  char text[CAPL_LABEL_MAX];
  OWNED *t = NULL;
  void *data;
  new_images(L, CAPL_U8, 1, (int)channels, capl_captcha_height(gen), capl_captcha_width(gen), &t, &data);
  if (data) bind_check(L, capl_captcha_draw(gen, seed, index, (int)channels, data, labels), NULL);
  for (int i = 0; data && i < capl_captcha_length(gen); i++) text[i] = capl_captcha_charset(gen)[labels[i]];
  push_owned(L, &t);
  lua_pushlstring(L, text, data ? (size_t)capl_captcha_length(gen) : 0);
  return 2;
}

/* gen:save(dir, n, seed[, threads]) writes dir/TEXT_INDEX.png */
static int captcha_save(lua_State *L)
{
  const capl_captcha *gen = check_box(L, 1, CAPTCHA_TYPE);
  const char *dir = bind_check_string(L, 2);
  int64_t n = bind_check_int(L, 3), seed = bind_check_int(L, 4);
  int64_t threads = lua_isnoneornil(L, 5) ? 0 : bind_check_int(L, 5);
  if (n < 0 || n > (int64_t)LIMIT_32)
    return bind_arg_error(L, 3, "0 to 2^32-1 images, got %lld", (long long)n);
  if (threads < 0 || threads > 1024)
    return bind_arg_error(L, 5, "0 to 1024 threads, got %lld", (long long)threads);
  bind_check(L, capl_captcha_save(gen, (uint64_t)seed, (uint32_t)n, dir, (int)threads), NULL);
  return 0;
}

static int captcha_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, CAPTCHA_TYPE);
  if (box) capl_captcha_unref(*box), *box = NULL;
  return 0;
}

/* ---- sources --------------------------------------------------------------------------------- */

/* data.captcha_source(gen, {seed, channels, count, fixed}) */
static int data_captcha_source(lua_State *L)
{
  static const char *const names[] = {"seed", "channels", "count", "fixed", NULL};
  capl_captcha *gen = check_box(L, 1, CAPTCHA_TYPE);
  bind_check_options(L, 2, names);
  uint64_t seed = (uint64_t)option_whole(L, 2, "seed", 42, 0, 9007199254740992.0);
  int channels = (int)option_whole(L, 2, "channels", 1, 1, 3);
  uint32_t count = (uint32_t)option_whole(L, 2, "count", 0, 0, LIMIT_32);
  bool fixed = option_bool(L, 2, "fixed", false);
  void **box = new_box(L, SOURCE_TYPE);
  bind_check(L, capl_source_captcha_new(gen, seed, channels, count, fixed, (capl_source **)box), NULL);
  return 1;
}

/* data.folder_source(dir, {width, height, channels, charset, length, variable}) */
static int data_folder_source(lua_State *L)
{
  static const char *const names[] = {"width", "height", "channels", "charset", "length", "variable", NULL};
  const char *dir = bind_check_string(L, 1);
  bind_check_options(L, 2, names);
  capl_folder_options o = {.width = (int)option_whole(L, 2, "width", 0, 0, 65535),
                           .height = (int)option_whole(L, 2, "height", 0, 0, 65535),
                           .channels = (int)option_whole(L, 2, "channels", 0, 0, 3),
                           .charset = option_string(L, 2, "charset"),
                           .length = (int)option_whole(L, 2, "length", 0, 0, CAPL_LABEL_MAX),
                           .variable = option_bool(L, 2, "variable", false)};
  void **box = new_box(L, SOURCE_TYPE);
  bind_check(L, capl_source_folder_new(dir, &o, (capl_source **)box), NULL);
  return 1;
}

static int source_count(lua_State *L)
{
  return lua_pushnumber(L, capl_source_count(check_box(L, 1, SOURCE_TYPE))), 1;
}

static int source_width(lua_State *L)
{
  return lua_pushinteger(L, capl_source_width(check_box(L, 1, SOURCE_TYPE))), 1;
}

static int source_height(lua_State *L)
{
  return lua_pushinteger(L, capl_source_height(check_box(L, 1, SOURCE_TYPE))), 1;
}

static int source_channels(lua_State *L)
{
  return lua_pushinteger(L, capl_source_channels(check_box(L, 1, SOURCE_TYPE))), 1;
}

static int source_length(lua_State *L)
{
  return lua_pushinteger(L, capl_source_length(check_box(L, 1, SOURCE_TYPE))), 1;
}

static int source_charset(lua_State *L)
{
  return lua_pushstring(L, capl_source_charset(check_box(L, 1, SOURCE_TYPE))), 1;
}

static uint32_t check_sample(lua_State *L, int i, const capl_source *source)
{
  int64_t id = bind_check_int(L, i), count = capl_source_count(source);
  if (id < 0 || id >= count)
    bind_arg_error(L, i, "sample %lld is outside 0..%lld", (long long)id, (long long)count - 1);
  return (uint32_t)id;
}

/* source:name(id) -> path below the folder, or nil for sources without files */
static int source_name(lua_State *L)
{
  const capl_source *source = check_box(L, 1, SOURCE_TYPE);
  lua_pushstring(L, capl_source_name(source, check_sample(L, 2, source)));
  return 1;
}

/* source:set_label(id, text) -> true, or false and what is wrong: the loader's on_error decides then */
static int source_set_label(lua_State *L)
{
  capl_source *source = check_box(L, 1, SOURCE_TYPE);
  bool good = capl_source_set_label(source, check_sample(L, 2, source), bind_check_string(L, 3)) == CAPL_OK;
  lua_pushboolean(L, good);
  if (good) return 1;
  lua_pushstring(L, capl_error_last()->message);
  return 2;
}

static void push_labels(lua_State *L, const int32_t *labels, int n, int T)
{
  capl_device *device = bind_opt_device(L, 0);
  int64_t size[2] = {n, T};
  OWNED *t = NULL;
  bind_check(L, capl_tensor_new(device, CAPL_I32, 2, size, CAPL_ROW, &t), "data");
  if (device->backend->arithmetic)
    memcpy(capl_tensor_data(t), labels, (size_t)n * (size_t)T * sizeof *labels);
  push_owned(L, &t);
}

/* source:read(epoch, id) -> (1,C,H,W) u8, labels (1,T) i32 or nil */
static int source_read(lua_State *L)
{
  capl_source *source = check_box(L, 1, SOURCE_TYPE);
  int64_t epoch = bind_check_int(L, 2);
  uint32_t id = check_sample(L, 3, source);
  int32_t labels[CAPL_LABEL_MAX];
  OWNED *t = NULL;
  void *data;
  if (epoch < 0 || epoch > (int64_t)LIMIT_32)
    return bind_arg_error(L, 2, "epoch from 0 on, got %lld", (long long)epoch);
  new_images(L, CAPL_U8, 1, capl_source_channels(source), capl_source_height(source),
             capl_source_width(source), &t, &data);
  if (data) bind_check(L, capl_source_read(source, (uint32_t)epoch, id, data, labels), NULL);
  push_owned(L, &t);
  if (!data || capl_source_length(source) == 0) return 1;
  push_labels(L, labels, 1, capl_source_length(source));
  return 2;
}

static int source_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, SOURCE_TYPE);
  if (box) capl_source_unref(*box), *box = NULL;
  return 0;
}

/* ---- augmentation ---------------------------------------------------------------------------- */

static const char *const augment_names[] = {"rotate", "scale",    "translate_x", "translate_y",
                                            "shear",  "contrast", "brightness",  "noise",
                                            "invert", "fill",     NULL};

/* {lo, hi}, or one number m for -m..m (about: 1-m..1+m, from_zero: 0..m). */
static capl_range option_range(lua_State *L, int i, const char *key, int kind)
{
  capl_range r = {0, 0};
  if (bind_option(L, i, key)) {
    if (lua_istable(L, -1)) {
      lua_rawgeti(L, -1, 1), lua_rawgeti(L, -2, 2);
      if (lua_type(L, -1) != LUA_TNUMBER || lua_type(L, -2) != LUA_TNUMBER)
        bind_fail(L, CAPL_EVALUE, "augment", NULL, "%s is {lo, hi} or one number", key);
      r = (capl_range){(float)lua_tonumber(L, -2), (float)lua_tonumber(L, -1)};
      lua_pop(L, 2);
    } else if (lua_type(L, -1) == LUA_TNUMBER) {
      float m = (float)lua_tonumber(L, -1);
      r = kind == '1' ? (capl_range){1 - m, 1 + m} : kind == '0' ? (capl_range){0, m} : (capl_range){-m, m};
    } else {
      bind_fail(L, CAPL_EVALUE, "augment", NULL, "%s is {lo, hi} or one number, got %s", key,
                bind_typename(L, -1));
    }
  }
  lua_pop(L, 1);
  return r;
}

static capl_augment_options read_augment(lua_State *L, int i)
{
  bind_check_options(L, i, augment_names);
  capl_augment_options a = {.rotate = option_range(L, i, "rotate", '-'),
                            .scale = option_range(L, i, "scale", '1'),
                            .translate_x = option_range(L, i, "translate_x", '-'),
                            .translate_y = option_range(L, i, "translate_y", '-'),
                            .shear = option_range(L, i, "shear", '-'),
                            .contrast = option_range(L, i, "contrast", '1'),
                            .brightness = option_range(L, i, "brightness", '1'),
                            .noise = option_range(L, i, "noise", '0'),
                            .invert = (float)option_number(L, i, "invert", 0, 0, 1)};
  double fill = option_whole(L, i, "fill", -1, -1, 255);
  a.fill = fill >= 0;
  a.fill_value = a.fill ? (uint8_t)fill : 0;
  bind_check(L, capl_augment_check(&a), "augment");
  return a;
}

/* ---- loader ---------------------------------------------------------------------------------- */

static const char *const loader_names[] = {"batch",     "workers", "prefetch", "seed",     "shuffle",
                                           "drop_last", "rank",    "world",    "on_error", "dtype",
                                           "norm",      "mean",    "std",      "augment",  NULL};

static void option_channels(lua_State *L, int i, const char *key, float *out, float otherwise)
{
  bool given = bind_option(L, i, key);
  if (given && !lua_istable(L, -1)) bind_arg_error(L, i, "%s is a list with one number per channel", key);
  for (int c = 0; c < 3; c++) {
    out[c] = otherwise;
    if (!given) continue;
    lua_rawgeti(L, -1, c + 1);
    if (lua_type(L, -1) == LUA_TNUMBER) out[c] = (float)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* data.loader(source, options): see lua/capl/data for what each means */
static int data_loader(lua_State *L)
{
  static const char *const types[] = {"f32", "bf16", "u8", NULL};               /* ORDER capl_pixel_type */
  static const char *const norms[] = {"standardise", "unit", "mean_std", NULL}; /* ORDER capl_norm */
  static const char *const on_errors[] = {"stop", "skip", NULL};                /* ORDER capl_on_error */
  _Static_assert(CAPL_PIXEL_U8 == 2 && CAPL_NORM_MEAN_STD == 2 && CAPL_ON_ERROR_SKIP == 1,
                 "orders match data.h");
  capl_source *source = check_box(L, 1, SOURCE_TYPE);
  capl_augment_options augment;
  bind_check_options(L, 2, loader_names);
  capl_loader_options o = {
      .batch = (int)option_whole(L, 2, "batch", 64, 1, 1 << 20),
      .workers = (int)option_whole(L, 2, "workers", 0, 0, 1024),
      .prefetch = (int)option_whole(L, 2, "prefetch", 0, 0, 64),
      .seed = (uint64_t)option_whole(L, 2, "seed", (double)bind_current.seed, 0, 9007199254740992.0),
      .shuffle = option_bool(L, 2, "shuffle", false),
      .drop_last = option_bool(L, 2, "drop_last", false),
      .rank = (int)option_whole(L, 2, "rank", 0, 0, 65535),
      .world = (int)option_whole(L, 2, "world", 0, 0, 65536),
      .on_error = (capl_on_error)option_word(L, 2, "on_error", on_errors, 0),
      .type = (capl_pixel_type)option_word(L, 2, "dtype", types, 0),
      .norm = (capl_norm)option_word(L, 2, "norm", norms, 0)};
  option_channels(L, 2, "mean", o.mean, 0);
  option_channels(L, 2, "std", o.std, 1);
  if (bind_option(L, 2, "augment")) {
    augment = read_augment(L, lua_gettop(L));
    o.augment = &augment;
  }
  void **box = new_box(L, LOADER_TYPE);
  bind_check(L, capl_loader_new(source, &o, (capl_loader **)box), NULL);
  return 1;
}

/* loader:epoch(number) begins it */
static int loader_epoch(lua_State *L)
{
  capl_loader *loader = check_box(L, 1, LOADER_TYPE);
  int64_t epoch = bind_check_int(L, 2);
  if (epoch < 0) return bind_arg_error(L, 2, "epoch from 0 on, got %lld", (long long)epoch);
  bind_check(L, capl_loader_epoch(loader, (uint64_t)epoch), NULL);
  return 0;
}

/* loader:next() -> images (N,C,H,W), labels (N,T) i32 or nil, rows repeated for equal ranks; nil at the end
 */
static int loader_next(lua_State *L)
{
  static const capl_dtype dtypes[] = {CAPL_F32, CAPL_BF16, CAPL_U8}; /* ORDER capl_pixel_type */
  capl_loader *loader = check_box(L, 1, LOADER_TYPE);
  const capl_source *source = capl_loader_source(loader);
  capl_batch batch;
  OWNED *t = NULL;
  void *data;
  bind_check(L, capl_loader_next(loader, &batch), NULL);
  if (batch.count == 0) return lua_pushnil(L), 1;
  capl_dtype dtype = dtypes[capl_loader_type(loader)];
  new_images(L, dtype, batch.count, capl_source_channels(source), capl_source_height(source),
             capl_source_width(source), &t, &data);
  if (data) memcpy(data, batch.images, capl_tensor_bytes(t));
  push_owned(L, &t);
  if (batch.labels)
    push_labels(L, batch.labels, batch.count, capl_source_length(source));
  else
    lua_pushnil(L);
  lua_pushinteger(L, batch.padded);
  return 3;
}

static int loader_samples(lua_State *L)
{
  return lua_pushnumber(L, (lua_Number)capl_loader_samples(check_box(L, 1, LOADER_TYPE))), 1;
}

static int loader_batches(lua_State *L)
{
  return lua_pushnumber(L, (lua_Number)capl_loader_batches(check_box(L, 1, LOADER_TYPE))), 1;
}

static void set_number(lua_State *L, const char *key, double value)
{
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

/* loader:state() -> {seed, epoch, position}; loader:set_state(state) continues there */
static int loader_state(lua_State *L)
{
  capl_loader_state s;
  capl_loader_state_get(check_box(L, 1, LOADER_TYPE), &s);
  lua_newtable(L);
  set_number(L, "seed", (double)s.seed);
  set_number(L, "epoch", (double)s.epoch);
  set_number(L, "position", (double)s.position);
  return 1;
}

static int loader_set_state(lua_State *L)
{
  static const char *const names[] = {"seed", "epoch", "position", NULL};
  capl_loader *loader = check_box(L, 1, LOADER_TYPE);
  bind_check_table(L, 2);
  bind_check_options(L, 2, names);
  const double most = 9007199254740992.0;
  capl_loader_state s = {.seed = (uint64_t)option_whole(L, 2, "seed", 0, 0, most),
                         .epoch = (uint64_t)option_whole(L, 2, "epoch", 0, 0, most),
                         .position = (uint64_t)option_whole(L, 2, "position", 0, 0, most)};
  bind_check(L, capl_loader_state_set(loader, &s), NULL);
  return 0;
}

/* loader:stats() -> {batches, samples, augmented, substituted, bad, wait_seconds} */
static int loader_stats(lua_State *L)
{
  capl_loader_stats s;
  capl_loader_stats_get(check_box(L, 1, LOADER_TYPE), &s);
  lua_newtable(L);
  set_number(L, "batches", (double)s.batches);
  set_number(L, "samples", (double)s.samples);
  set_number(L, "augmented", (double)s.augmented);
  set_number(L, "substituted", (double)s.substituted);
  set_number(L, "bad", (double)s.bad);
  set_number(L, "wait_seconds", s.wait_seconds);
  return 1;
}

/* loader:bad() -> list of {id, message} */
static int loader_bad(lua_State *L)
{
  capl_loader *loader = check_box(L, 1, LOADER_TYPE);
  uint32_t id;
  const char *message;
  lua_newtable(L);
  for (uint32_t i = 0; capl_loader_bad_get(loader, i, &id, &message); i++) {
    lua_newtable(L);
    set_number(L, "id", id);
    lua_pushstring(L, message);
    lua_setfield(L, -2, "message");
    lua_rawseti(L, -2, (int)i + 1);
  }
  return 1;
}

static int loader_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, LOADER_TYPE);
  if (box) capl_loader_free(*box), *box = NULL;
  return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

void bind_open_data(lua_State *L)
{
  static const luaL_Reg captcha[] = {{"draw", captcha_draw},     {"save", captcha_save},
                                     {"width", captcha_width},   {"height", captcha_height},
                                     {"length", captcha_length}, {"charset", captcha_charset},
                                     {"font", captcha_font},     {NULL, NULL}};
  static const luaL_Reg source[] = {{"count", source_count},   {"width", source_width},
                                    {"height", source_height}, {"channels", source_channels},
                                    {"length", source_length}, {"charset", source_charset},
                                    {"name", source_name},     {"set_label", source_set_label},
                                    {"read", source_read},     {NULL, NULL}};
  static const luaL_Reg loader[] = {
      {"epoch", loader_epoch},     {"next", loader_next},   {"samples", loader_samples},
      {"batches", loader_batches}, {"state", loader_state}, {"set_state", loader_set_state},
      {"stats", loader_stats},     {"bad", loader_bad},     {NULL, NULL}};
  static const luaL_Reg functions[] = {{"captcha", data_captcha},
                                       {"presets", data_presets},
                                       {"captcha_source", data_captcha_source},
                                       {"folder_source", data_folder_source},
                                       {"loader", data_loader},
                                       {"png_read", data_png_read},
                                       {"png_write", data_png_write},
                                       {"one_hot", data_one_hot},
                                       {"charset", data_charset},
                                       {NULL, NULL}};
  open_type(L, CAPTCHA_TYPE, captcha, captcha_release);
  open_type(L, SOURCE_TYPE, source, source_release);
  open_type(L, LOADER_TYPE, loader, loader_release);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  lua_setfield(L, -2, "data");
}
