/* l_captcha.c -- the captcha generator for Lua. What users call is lua/capl/data on top of this.
**
** Image numbers are 0-based values, as class labels are.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/l_data.h"

#define CAPTCHA_TYPE "capl.captcha"

static const double LIMIT_32 = 4294967295.0;

/* ---- making one ------------------------------------------------------------------------------ */


/* data.captcha(preset[, {charset, length, width, height, font, often, times}]) */
static int data_captcha(lua_State *L)
{
  static const char *const names[] = {"charset", "length", "length_max", "width", "height", "font", "often", "times", NULL};
  const char *preset = bind_check_string(L, 1);
  bind_check_options(L, 2, names);
  capl_captcha_options o = {.charset = data_option_string(L, 2, "charset"),
                            .length = (int)data_option_whole(L, 2, "length", 0, 0, CAPL_LABEL_MAX),
                            .length_max = (int)data_option_whole(L, 2, "length_max", 0, 0, CAPL_LABEL_MAX),
                            .width = (int)data_option_whole(L, 2, "width", 0, 0, 65535),
                            .height = (int)data_option_whole(L, 2, "height", 0, 0, 65535),
                            .font = data_option_string(L, 2, "font"),
                            .often = data_option_string(L, 2, "often"),
                            .times = (int)data_option_whole(L, 2, "times", 0, 0, CAPL_OFTEN_MAX)};
  void **box = data_new_box(L, CAPTCHA_TYPE);
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
  return lua_pushinteger(L, capl_captcha_width(data_check_box(L, 1, CAPTCHA_TYPE))), 1;
}

static int captcha_height(lua_State *L)
{
  return lua_pushinteger(L, capl_captcha_height(data_check_box(L, 1, CAPTCHA_TYPE))), 1;
}

static int captcha_length(lua_State *L)
{
  return lua_pushinteger(L, capl_captcha_length(data_check_box(L, 1, CAPTCHA_TYPE))), 1;
}

static int captcha_charset(lua_State *L)
{
  return lua_pushstring(L, capl_captcha_charset(data_check_box(L, 1, CAPTCHA_TYPE))), 1;
}

static int captcha_font(lua_State *L)
{
  return lua_pushstring(L, capl_captcha_font(data_check_box(L, 1, CAPTCHA_TYPE))), 1;
}

/* gen:draw(seed, index[, channels]) -> (1,C,H,W) u8, text */
static int captcha_draw(lua_State *L)
{
  const capl_captcha *gen = data_check_box(L, 1, CAPTCHA_TYPE);
  uint64_t seed = (uint64_t)bind_check_int(L, 2), index = (uint64_t)bind_check_int(L, 3);
  int64_t channels = lua_isnoneornil(L, 4) ? 1 : bind_check_int(L, 4);
  if (channels != 1 && channels != 3)
    return bind_arg_error(L, 4, "1 or 3 channels, got %lld", (long long)channels);
  int32_t labels[CAPL_LABEL_MAX];
  char text[CAPL_LABEL_MAX + 1] = "";
  OWNED *t = NULL;
  void *data;
  data_new_images(L, CAPL_U8, 1, (int)channels, capl_captcha_height(gen), capl_captcha_width(gen), &t, &data);
  if (data) bind_check(L, capl_captcha_draw(gen, seed, index, (int)channels, data, labels), NULL);
  data_sent(L, t, data);
  if (data) capl_captcha_text(gen, labels, text);
  data_push_owned(L, &t);
  lua_pushstring(L, text);
  return 2;
}

/* gen:save(dir, n, seed[, threads]) writes dir/TEXT_INDEX.png */
static int captcha_save(lua_State *L)
{
  const capl_captcha *gen = data_check_box(L, 1, CAPTCHA_TYPE);
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

/* data.captcha_source(gen, {seed, channels, count, fixed}) */
static int data_captcha_source(lua_State *L)
{
  static const char *const names[] = {"seed", "channels", "count", "fixed", NULL};
  capl_captcha *gen = data_check_box(L, 1, CAPTCHA_TYPE);
  bind_check_options(L, 2, names);
  uint64_t seed = (uint64_t)data_option_whole(L, 2, "seed", 42, 0, 9007199254740992.0);
  int channels = (int)data_option_whole(L, 2, "channels", 1, 1, 3);
  uint32_t count = (uint32_t)data_option_whole(L, 2, "count", 0, 0, LIMIT_32);
  bool fixed = data_option_bool(L, 2, "fixed", false);
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, capl_source_captcha_new(gen, seed, channels, count, fixed, (capl_source **)box), NULL);
  return 1;
}

/* Adds the generator's functions to the table on top. */
void bind_open_captcha(lua_State *L)
{
  static const luaL_Reg captcha[] = {{"draw", captcha_draw},     {"save", captcha_save},
                                     {"width", captcha_width},   {"height", captcha_height},
                                     {"length", captcha_length}, {"charset", captcha_charset},
                                     {"font", captcha_font},     {NULL, NULL}};
  static const luaL_Reg functions[] = {{"captcha", data_captcha},
                                       {"presets", data_presets},
                                       {"captcha_source", data_captcha_source},
                                       {NULL, NULL}};
  data_open_type(L, CAPTCHA_TYPE, captcha, captcha_release);
  luaL_setfuncs(L, functions, 0);
}
