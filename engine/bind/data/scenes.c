/* scenes.c -- generated scenes for Lua: slider captchas and faces as sources. lua/capl/data/scenes.lua is on top.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/synth.h"

#include <string.h>

/* Names of synth.h, until NULL. */
#define X(name, text, shaded, outline) text,
static const char *const shapes[] = {CAPL_SLIDER_SHAPE_MAP(X) NULL};
#undef X
#define X(name, text, share) text,
static const char *const confusions[] = {CAPL_SLIDER_CONFUSION_MAP(X) NULL};
#undef X
#define X(name, text) text,
static const char *const classes[] = {CAPL_FACE_CLASS_MAP(X) NULL};
static const char *const slider_styles[] = {CAPL_SLIDER_STYLE_MAP(X) NULL};
static const char *const face_styles[] = {CAPL_FACE_STYLE_MAP(X) NULL};
#undef X
#define X(left, right) {CAPL_FACE_##left, CAPL_FACE_##right},
static const int swaps[][2] = {CAPL_FACE_SWAP_MAP(X)};
#undef X

#define SET_OPTIONS(T)                                           \
  {"seed", BIND_WHOLE(T, set.seed), .max = 0x1p53},              \
  {"count", BIND_WHOLE(T, set.count), .max = UINT32_MAX},        \
  {"fixed", BIND_BOOL(T, set.fixed)},                            \
  {"channels", BIND_WHOLE(T, set.channels), .min = 1, .max = 3}
#define SET_DEFAULTS {.seed = 42, .channels = 3}

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

/* style = NAME of names as its place; 0 = not given. */
static int option_style(lua_State *L, int i, const char *const *names)
{
  int style = 0;
  if (bind_option(L, i, "style")) {
    const char *wanted = luaL_checkstring(L, -1);
    while (names[style] && strcmp(names[style], wanted) != 0) style++;
    if (!names[style]) bind_arg_error(L, i, "no style '%s'", wanted);
  }
  lua_pop(L, 1);
  return style;
}

/* data.slider_source{seed, count, fixed, channels, width, height, mixed, background_first, background_count, size_lo,
** size_hi, shapes, style} */
static int data_slider_source(lua_State *L)
{
  typedef struct {
    capl_scene_set set;
    capl_slider_options slider;
  } given;
  static const bind_option_spec options[] = {SET_OPTIONS(given),
                                             {"width", BIND_WHOLE(given, slider.width), .max = 65535},
                                             {"height", BIND_WHOLE(given, slider.height), .max = 65535},
                                             {"mixed", BIND_BOOL(given, slider.mixed)},
                                             {"background_first", BIND_WHOLE(given, slider.background_first),
                                              .max = UINT32_MAX},
                                             {"background_count", BIND_WHOLE(given, slider.background_count),
                                              .max = UINT32_MAX},
                                             {"size_lo", BIND_WHOLE(given, slider.size_lo), .max = 65535},
                                             {"size_hi", BIND_WHOLE(given, slider.size_hi), .max = 65535},
                                             {"shapes", BIND_OTHER},
                                             {"style", BIND_OTHER},
                                             BIND_END};
  given o = {.set = SET_DEFAULTS};
  bind_read_options(L, "data.slider", 1, options, &o);
  o.slider.shapes = option_shapes(L, 1);
  o.slider.style = (capl_slider_style)option_style(L, 1, slider_styles);
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, data_synth(L)->source_slider_new(&o.slider, &o.set, (capl_source **)box), NULL);
  return 1;
}

/* data.faces_source{seed, count, fixed, channels, size, style} */
static int data_faces_source(lua_State *L)
{
  typedef struct {
    capl_scene_set set;
    int size;
  } given;
  static const bind_option_spec options[] = {SET_OPTIONS(given), {"size", BIND_WHOLE(given, size), .max = 65535},
                                             {"style", BIND_OTHER}, BIND_END};
  given o = {.set = SET_DEFAULTS};
  bind_read_options(L, "data.faces", 1, options, &o);
  capl_face_style style = (capl_face_style)option_style(L, 1, face_styles);
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, data_synth(L)->source_faces_new(o.size, style, &o.set, (capl_source **)box), NULL);
  return 1;
}

/* data.scene_save(source, dir, n[, threads[, database]]) */
static int data_scene_save(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  const char *dir = bind_check_path(L, 2, CAPL_MAY_WRITE);
  int64_t n = bind_check_int(L, 3), threads = lua_isnoneornil(L, 4) ? 0 : bind_check_int(L, 4);
  if (n < 0 || n > INT32_MAX) return bind_arg_error(L, 3, "0 to 2^31-1 pictures, got %lld", (long long)n);
  if (threads < 0 || threads > 1024) return bind_arg_error(L, 4, "0 to 1024 threads, got %lld", (long long)threads);
  const data_synth_functions *synth = data_synth(L);
  bind_check(L, lua_toboolean(L, 5) ? synth->scene_pack(source, (uint32_t)n, dir, (int)threads, capl_interrupt_pending)
                                    : synth->scene_save(source, (uint32_t)n, dir, (int)threads), NULL);
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
  set_names(L, "slider_styles", slider_styles);
  set_names(L, "face_styles", face_styles);
  set_names(L, "face_classes", classes);
  set_swaps(L);
}
