/* scenes.c -- generated scenes for Lua: slider captchas and faces as sources. lua/capl/data/scenes.lua is on top.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/synth.h"

#include <string.h>

static const double LIMIT_32 = 4294967295.0;

/* Names of synth.h, until NULL. */
#define X(name, text, share) text,
static const char *const shapes[] = {CAPL_SLIDER_SHAPE_MAP(X) NULL};
static const char *const confusions[] = {CAPL_SLIDER_CONFUSION_MAP(X) NULL};
#undef X
#define X(name, text) text,
static const char *const classes[] = {CAPL_FACE_CLASS_MAP(X) NULL};
#undef X
#define X(left, right) {CAPL_FACE_##left, CAPL_FACE_##right},
static const int swaps[][2] = {CAPL_FACE_SWAP_MAP(X)};
#undef X

static capl_scene_set option_set(lua_State *L, int i)
{
  return (capl_scene_set){.seed = (uint64_t)data_option_whole(L, i, "seed", 42, 0, 9007199254740992.0),
                          .count = (uint32_t)data_option_whole(L, i, "count", 0, 0, LIMIT_32),
                          .fixed = data_option_bool(L, i, "fixed", false),
                          .channels = (int)data_option_whole(L, i, "channels", 3, 1, 3)};
}

/* shapes = {"circle", …} as bits; 0 = not given. */
static uint32_t option_shapes(lua_State *L, int i)
{
  uint32_t bits = 0;
  if (bind_option(L, i, "shapes")) {
    luaL_checktype(L, -1, LUA_TTABLE);
    for (int k = 1, n = (int)lua_objlen(L, -1); k <= n; k++) {
      lua_rawgeti(L, -1, k);
      const char *wanted = lua_tostring(L, -1);
      int shape = 0;
      while (shapes[shape] && (!wanted || strcmp(shapes[shape], wanted) != 0)) shape++;
      if (!shapes[shape]) bind_arg_error(L, i, "no shape '%s'", wanted ? wanted : bind_typename(L, -1));
      bits |= 1u << shape;
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  return bits;
}

/* data.slider_source{seed, count, fixed, channels, width, height, mixed, background_first, background_count, size_lo,
** size_hi, shapes} */
static int data_slider_source(lua_State *L)
{
  static const char *const names[] = {"seed",  "count", "fixed", "channels", "width", "height", "mixed", "background_first",
                                      "background_count", "size_lo", "size_hi", "shapes", NULL};
  bind_check_options(L, 1, names);
  capl_slider_options o = {.width = (int)data_option_whole(L, 1, "width", 0, 0, 65535),
                           .height = (int)data_option_whole(L, 1, "height", 0, 0, 65535),
                           .mixed = data_option_bool(L, 1, "mixed", false),
                           .background_first = (uint32_t)data_option_whole(L, 1, "background_first", 0, 0, LIMIT_32),
                           .background_count = (uint32_t)data_option_whole(L, 1, "background_count", 0, 0, LIMIT_32),
                           .size_lo = (int)data_option_whole(L, 1, "size_lo", 0, 0, 65535),
                           .size_hi = (int)data_option_whole(L, 1, "size_hi", 0, 0, 65535),
                           .shapes = option_shapes(L, 1)};
  capl_scene_set set = option_set(L, 1);
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, data_synth(L)->source_slider_new(&o, &set, (capl_source **)box), NULL);
  return 1;
}

/* data.faces_source{seed, count, fixed, channels, size} */
static int data_faces_source(lua_State *L)
{
  static const char *const names[] = {"seed", "count", "fixed", "channels", "size", NULL};
  bind_check_options(L, 1, names);
  int size = (int)data_option_whole(L, 1, "size", 0, 0, 65535);
  capl_scene_set set = option_set(L, 1);
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, data_synth(L)->source_faces_new(size, &set, (capl_source **)box), NULL);
  return 1;
}

/* data.scene_save(source, dir, n[, threads]) */
static int data_scene_save(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  const char *dir = bind_check_path(L, 2, CAPL_MAY_WRITE);
  int64_t n = bind_check_int(L, 3), threads = lua_isnoneornil(L, 4) ? 0 : bind_check_int(L, 4);
  if (n < 0 || n > INT32_MAX) return bind_arg_error(L, 3, "0 to 2^31-1 pictures, got %lld", (long long)n);
  if (threads < 0 || threads > 1024) return bind_arg_error(L, 4, "0 to 1024 threads, got %lld", (long long)threads);
  bind_check(L, data_synth(L)->scene_save(source, (uint32_t)n, dir, (int)threads), NULL);
  return 0;
}

/* Sets the table's key to the list of names. */
static void set_names(lua_State *L, const char *key, const char *const *names)
{
  lua_newtable(L);
  for (int i = 0; names[i]; i++) {
    lua_pushstring(L, names[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, key);
}

static void set_swaps(lua_State *L)
{
  lua_newtable(L);
  for (int i = 0; i < (int)(sizeof swaps / sizeof swaps[0]); i++) {
    lua_newtable(L);
    for (int k = 0; k < 2; k++) {
      lua_pushinteger(L, swaps[i][k]);
      lua_rawseti(L, -2, k + 1);
    }
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "face_swaps");
}

/* Adds the scenes' functions and lists to the table on top. */
void bind_open_scenes(lua_State *L)
{
  static const luaL_Reg functions[] = {{"slider_source", data_slider_source},
                                       {"faces_source", data_faces_source},
                                       {"scene_save", data_scene_save},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  set_names(L, "slider_shapes", shapes);
  set_names(L, "slider_confusions", confusions);
  set_names(L, "face_classes", classes);
  set_swaps(L);
}
