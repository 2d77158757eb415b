/* captcha.c -- the captcha generator for Lua. What users call is lua/capl/data on top of this.
**
** Image numbers are 0-based values, as class labels are.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "bind/data/synth.h"

#define CAPTCHA_TYPE "capl.captcha"

static const double LIMIT_32 = 4294967295.0;

/* ---- making one ------------------------------------------------------------------------------ */


#define FAIL(L, ...) bind_fail(L, CAPL_EVALUE, "data.captcha", NULL, __VA_ARGS__)

static int wrong_option(lua_State *L, const char *name, const char *wanted)
{
  return FAIL(L, "%s is %s, got %s", name, wanted, bind_typename(L, -1));
}

/* The number at place i of the list on top, or the value itself when it is no list. */
static double pair_number(lua_State *L, const capl_style_option *option, int i, const char *wanted)
{
  bool list = lua_istable(L, -1);
  if (list) lua_rawgeti(L, -1, i);
  if (lua_type(L, -1) != LUA_TNUMBER) wrong_option(L, option->name, wanted);
  double x = lua_tonumber(L, -1);
  if (list) lua_pop(L, 1);
  return x;
}

/* number or {lo, hi} */
static void read_range(lua_State *L, const capl_style_option *option, capl_captcha_range *range)
{
  static const char wanted[] = "a number or {lo, hi}";
  *range = (capl_captcha_range){true, (float)pair_number(L, option, 1, wanted),
                                (float)pair_number(L, option, 2, wanted)};
}

static uint8_t read_level(lua_State *L, const capl_style_option *option, int i)
{
  double level = pair_number(L, option, i, "a gray level, {lo, hi} or {{r, g, b}, {r, g, b}}");
  if (!(level >= 0 && level <= 255)) FAIL(L, "%s has levels 0..255, got %g", option->name, level);
  return (uint8_t)level;
}

/* level, {lo, hi} or {{r, g, b}, {r, g, b}} */
static void read_colours(lua_State *L, const capl_style_option *option, capl_captcha_colours *colours)
{
  colours->given = true;
  for (int end = 0; end < 2; end++) {
    uint8_t *level = end ? colours->hi : colours->lo;
    bool list = lua_istable(L, -1);
    if (list) lua_rawgeti(L, -1, end + 1);
    for (int c = 0; c < 3; c++) level[c] = read_level(L, option, c + 1);
    if (list) lua_pop(L, 1);
  }
}

static void read_style_option(lua_State *L, const capl_style_option *option, capl_captcha_options *o)
{
  char *field = (char *)o + option->offset;
  if (!bind_option(L, 2, option->name)) {
    lua_pop(L, 1);
    return;
  }
  if (option->kind == CAPL_STYLE_COLOUR) {
    read_colours(L, option, (capl_captcha_colours *)field);
  } else if (option->kind != CAPL_STYLE_WORD) {
    read_range(L, option, (capl_captcha_range *)field);
  } else if (lua_type(L, -1) == LUA_TSTRING) {
    *(const char **)field = lua_tostring(L, -1);
  } else {
    wrong_option(L, option->name, "a string");
  }
  lua_pop(L, 1);
}

static void read_fonts(lua_State *L, capl_captcha_options *o)
{
  static const char wanted[] = "font is the name of a font file or a list of at most %d of them, got %s";
  if (bind_option(L, 2, "font")) {
    bool list = lua_istable(L, -1);
    int n = list ? (int)lua_objlen(L, -1) : 1;
    if (n < 1 || n > CAPL_FONTS_MAX) FAIL(L, "font lists 1..%d font files, got %d", CAPL_FONTS_MAX, n);
    for (int i = 0; i < n; i++) {
      if (list) lua_rawgeti(L, -1, i + 1);
      if (lua_type(L, -1) != LUA_TSTRING) FAIL(L, wanted, CAPL_FONTS_MAX, bind_typename(L, -1));
      o->fonts[i] = lua_tostring(L, -1);
      if (list) lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

enum { OPTIONS_MAX = 64 };

static const bind_option_spec common[] = {
  {"charset", BIND_TEXT(capl_captcha_options, charset)},
  {"length", BIND_WHOLE(capl_captcha_options, length), .min = 1, .max = 65535},
  {"length_max", BIND_WHOLE(capl_captcha_options, length_max), .min = 1, .max = 65535},
  {"width", BIND_WHOLE(capl_captcha_options, width), .min = 1, .max = 65535},
  {"height", BIND_WHOLE(capl_captcha_options, height), .min = 1, .max = 65535},
  {"font", BIND_OTHER},
  {"often", BIND_TEXT(capl_captcha_options, often)},
  {"times", BIND_WHOLE(capl_captcha_options, times), .min = 1, .max = 65535},
  {"pitch", BIND_WHOLE(capl_captcha_options, pitch), .min = 1, .max = 65535},
  {"grows", BIND_BOOL(capl_captcha_options, grows)}};
enum { N_COMMON = sizeof common / sizeof common[0] };

/* All options, ended by BIND_END; those of the styles are read elsewhere. */
static void list_options(lua_State *L, bind_option_spec options[N_COMMON + OPTIONS_MAX])
{
  int n = N_COMMON;
  memcpy(options, common, sizeof common);
  for (int i = 0; i < OPTIONS_MAX - 1 && data_synth(L)->style_option_at(i); i++)
    options[n++] = (bind_option_spec){data_synth(L)->style_option_at(i)->name, BIND_OTHER};
  options[n] = (bind_option_spec)BIND_END;
}

/* data.captcha(preset[, {charset, length, length_max, width, height, font, often, times, pitch, grows, and the styles'
** own}]) */
static int data_captcha(lua_State *L)
{
  bind_option_spec options[N_COMMON + OPTIONS_MAX];
  const char *preset = bind_check_string(L, 1);
  capl_captcha_options o = {0};
  list_options(L, options);
  bind_read_options(L, "data.captcha", 2, options, &o);
  read_fonts(L, &o);
  for (int i = 0; data_synth(L)->style_option_at(i); i++) read_style_option(L, data_synth(L)->style_option_at(i), &o);
  void **box = data_new_box(L, CAPTCHA_TYPE);
  bind_check(L, data_synth(L)->captcha_new(preset, &o, (capl_captcha **)box), NULL);
  return 1;
}

/* data.style_options() -> list of {name, kind, doc, presets = {name, …}}: the options that only some presets have.
** kind: "range", "count", "colour" or "word" */
static int data_style_options(lua_State *L)
{
  static const char *const kinds[] = {
    [CAPL_STYLE_RANGE] = "range", [CAPL_STYLE_COUNT] = "count", [CAPL_STYLE_COLOUR] = "colour",
    [CAPL_STYLE_WORD] = "word",
  };
  lua_newtable(L);
  for (int i = 0; data_synth(L)->style_option_at(i); i++) {
    const capl_style_option *option = data_synth(L)->style_option_at(i);
    lua_newtable(L);
    lua_pushstring(L, option->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, kinds[option->kind]);
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, option->doc);
    lua_setfield(L, -2, "doc");
    lua_newtable(L);
    for (int p = 0, n = 0; data_synth(L)->captcha_preset_name(p); p++) {
      if (!data_synth(L)->captcha_preset_has(p, option)) continue;
      lua_pushstring(L, data_synth(L)->captcha_preset_name(p));
      lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "presets");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* data.presets() -> list of names */
static int data_presets(lua_State *L)
{
  lua_newtable(L);
  for (int i = 0; data_synth(L)->captcha_preset_name(i); i++) {
    lua_pushstring(L, data_synth(L)->captcha_preset_name(i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int captcha_width(lua_State *L)
{
  return lua_pushinteger(L, data_synth(L)->captcha_width(data_check_box(L, 1, CAPTCHA_TYPE))), 1;
}

/* gen:widths() -> ascending px of its images */
static int captcha_widths(lua_State *L)
{
  int widths[CAPL_LABEL_MAX], n = data_synth(L)->captcha_widths(data_check_box(L, 1, CAPTCHA_TYPE), widths);
  lua_createtable(L, n, 0);
  for (int k = 0; k < n; k++) {
    lua_pushinteger(L, widths[k]);
    lua_rawseti(L, -2, k + 1);
  }
  return 1;
}

static int captcha_height(lua_State *L)
{
  return lua_pushinteger(L, data_synth(L)->captcha_height(data_check_box(L, 1, CAPTCHA_TYPE))), 1;
}

static int captcha_length(lua_State *L)
{
  return lua_pushinteger(L, data_synth(L)->captcha_length(data_check_box(L, 1, CAPTCHA_TYPE))), 1;
}

static int captcha_charset(lua_State *L)
{
  return lua_pushstring(L, data_synth(L)->captcha_charset(data_check_box(L, 1, CAPTCHA_TYPE))), 1;
}

/* gen:fonts() -> list of the names of its font files */
static int captcha_fonts(lua_State *L)
{
  const capl_captcha *gen = data_check_box(L, 1, CAPTCHA_TYPE);
  const char *path;
  lua_newtable(L);
  for (int i = 0; (path = data_synth(L)->captcha_font(gen, i)); i++) {
    const char *slash = strrchr(path, '/');
    lua_pushstring(L, slash ? slash + 1 : path);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
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
  char text[CAPL_LABEL_ROOM] = "";
  OWNED *t = NULL;
  void *data;
  int width = data_synth(L)->captcha_width(data_synth(L)->captcha_member(gen, seed, index, NULL));
  data_new_images(L, CAPL_U8, 1, (int)channels, data_synth(L)->captcha_height(gen), width, &t, &data);
  if (data) bind_check(L, data_synth(L)->captcha_draw(gen, seed, index, (int)channels, data, labels), NULL);
  data_sent(L, t, data);
  if (data) data_synth(L)->captcha_text(gen, labels, text);
  data_push_owned(L, &t);
  lua_pushstring(L, text);
  return 2;
}

/* gen:save(dir, n, seed[, threads[, format]]) writes dir/TEXT_INDEX.png; with format "folders" dir/TEXT/INDEX.png, with
** "list" dir/INDEX.png and labels.jsonl, with "lmdb" a database */
static int captcha_save(lua_State *L)
{
  const capl_captcha *gen = data_check_box(L, 1, CAPTCHA_TYPE);
  const char *dir = bind_check_path(L, 2, CAPL_MAY_WRITE);
  int64_t n = bind_check_int(L, 3), seed = bind_check_int(L, 4);
  int64_t threads = lua_isnoneornil(L, 5) ? 0 : bind_check_int(L, 5);
  const char *format = lua_isnoneornil(L, 6) ? "png" : bind_check_string(L, 6);
  if (n < 0 || n > (int64_t)LIMIT_32)
    return bind_arg_error(L, 3, "0 to 2^32-1 images, got %lld", (long long)n);
  if (threads < 0 || threads > 1024)
    return bind_arg_error(L, 5, "0 to 1024 threads, got %lld", (long long)threads);
  const data_synth_functions *synth = data_synth(L);
  __typeof__(&capl_captcha_save) save = synth->captcha_save;
  if (strcmp(format, "lmdb") == 0) save = synth->captcha_pack;
  if (strcmp(format, "folders") == 0) save = synth->captcha_save_folders;
  if (strcmp(format, "list") == 0) save = synth->captcha_save_list;
  bind_check(L, save(gen, (uint64_t)seed, (uint32_t)n, dir, (int)threads, capl_interrupt_pending), NULL);
  return 0;
}

static int captcha_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, CAPTCHA_TYPE);
  if (box) data_synth(L)->captcha_unref(*box), *box = NULL;
  return 0;
}

/* data.captcha_source(gen, {seed, channels, count, fixed, widths}) */
static int data_captcha_source(lua_State *L)
{
  typedef struct {
    uint64_t seed;
    uint32_t count;
    int channels;
    bool fixed;
  } given;
  static const bind_option_spec options[] = {{"seed", BIND_WHOLE(given, seed), .max = 0x1p53},
                                             {"channels", BIND_WHOLE(given, channels), .min = 1, .max = 3},
                                             {"count", BIND_WHOLE(given, count), .max = UINT32_MAX},
                                             {"fixed", BIND_BOOL(given, fixed)},
                                             {"widths", BIND_OTHER},
                                             BIND_END};
  capl_captcha *gen = data_check_box(L, 1, CAPTCHA_TYPE);
  given o = {.seed = 42, .channels = 1};
  bind_read_options(L, "data.captcha", 2, options, &o);
  void **box = data_new_box(L, SOURCE_TYPE);
  int widths[CAPL_WIDTHS_MAX], n = data_option_widths(L, "data.captcha", 2, widths);
  bind_check(L, n ? data_synth(L)->source_captcha_widths_new(gen, o.seed, o.channels, o.count, o.fixed, widths, n,
      (capl_source **)box)
                  : data_synth(L)->source_captcha_new(gen, o.seed, o.channels, o.count, o.fixed, (capl_source **)box),
                      NULL);
  return 1;
}

/* Adds the generator's functions to the table on top. */
void bind_open_captcha(lua_State *L)
{
  static const luaL_Reg captcha[] = {{"draw", captcha_draw},     {"save", captcha_save},
                                     {"width", captcha_width},   {"widths", captcha_widths}, {"height", captcha_height},
                                     {"fonts", captcha_fonts},
                                     {"length", captcha_length}, {"charset", captcha_charset},
                                     {NULL, NULL}};
  static const luaL_Reg functions[] = {{"captcha", data_captcha},
                                       {"presets", data_presets},
                                       {"style_options", data_style_options},
                                       {"captcha_source", data_captcha_source},
                                       {NULL, NULL}};
  data_open_type(L, CAPTCHA_TYPE, captcha, captcha_release);
  luaL_setfuncs(L, functions, 0);
}
