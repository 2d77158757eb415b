/* files.c -- images in files for Lua: folders, lists, databases, single files, and facts about their sources.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/data/data.h"
#include "data/source.h"
#include "data/widths.h"

#include <stdlib.h>
#include <string.h>

/* ---- sources --------------------------------------------------------------------------------- */

int data_option_widths(lua_State *L, const char *op, int i, int widths[CAPL_WIDTHS_MAX])
{
  bool given = bind_option(L, i, "widths");
  if (given && (!lua_istable(L, -1) || lua_objlen(L, -1) == 0 || lua_objlen(L, -1) > CAPL_WIDTHS_MAX))
    bind_fail(L, CAPL_EVALUE, op, NULL, "widths is a list of 1 to %d widths in px", CAPL_WIDTHS_MAX);
  int n = given ? (int)lua_objlen(L, -1) : 0;
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, -1, k + 1);
    double px = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
    widths[k] = px == (double)(int)px ? (int)px : 0;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return n;
}

/* letterbox = {top_left = bool, fill = {level, …}}, as lua/capl/data/resize.lua has checked it. */
static void option_letterbox(lua_State *L, const char *op, int i, capl_letterbox *how)
{
  static const bind_option_spec options[] = {{"top_left", BIND_BOOL(capl_letterbox, top_left)},
                                             {"fill", BIND_OTHER}, BIND_END};
  int top = lua_gettop(L);
  how->on = bind_option(L, i, "letterbox");
  if (how->on) {
    bind_read_options(L, op, top + 1, options, how);
    lua_getfield(L, top + 1, "fill");
    luaL_checktype(L, -1, LUA_TTABLE);
    for (int c = 0; c < 3; c++) {
      lua_rawgeti(L, top + 2, c + 1);
      how->fill[c] = (uint8_t)lua_tointeger(L, -1);
      lua_pop(L, 1);
    }
  }
  lua_settop(L, top);
}

static const char *const cases[] = {"keep", "upper", "lower", NULL}; /* ORDER capl_case */

/* of capl_folder_options, which are those of other sources too: m is what stands before their members there */
#define IMAGE_OPTIONS(T, m)                                       \
  {"width", BIND_WHOLE(T, m width), .max = 65535},                \
  {"height", BIND_WHOLE(T, m height), .max = 65535},              \
  {"channels", BIND_WHOLE(T, m channels), .max = 3},              \
  {"charset", BIND_TEXT(T, m charset)},                           \
  {"length", BIND_WHOLE(T, m length), .max = CAPL_LABEL_MAX},     \
  {"length_min", BIND_WHOLE(T, m length_min), .max = CAPL_LABEL_MAX}, \
  {"variable", BIND_BOOL(T, m variable)},                         \
  {"case", BIND_WORD(T, m folding.letters), .words = cases},      \
  {"fold_width", BIND_BOOL(T, m folding.width)},                  \
  {"resize", BIND_BOOL(T, m resize)},                             \
  {"letterbox", BIND_OTHER},                                      \
  {"several", BIND_OTHER},                                        \
  {"widths", BIND_OTHER},                                         \
  {"classes", BIND_OTHER},                                        \
  {"fields", BIND_OTHER},                                         \
  {"width_step", BIND_WHOLE(T, m width_step), .max = 1024}

static void release_vocab(capl_vocab **vocab) { capl_vocab_unref(*vocab); }

/* Of a list of names on top of the stack. Caller unrefs. */
static capl_vocab *check_classes(lua_State *L, const char *op)
{
  capl_vocab *vocab = NULL;
  if (!lua_istable(L, -1)) bind_fail(L, CAPL_EVALUE, op, NULL, "classes is a list of names");
  int n = (int)lua_objlen(L, -1), list = lua_gettop(L);
  const char **names = lua_newuserdata(L, ((size_t)n + 1) * sizeof *names);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, list, k + 1);
    if (lua_type(L, -1) != LUA_TSTRING)
      bind_fail(L, CAPL_EVALUE, op, NULL, "classes is a list of names; name %d is a %s", k + 1, luaL_typename(L, -1));
    names[k] = lua_tostring(L, -1); /* the list keeps it alive */
    lua_pop(L, 1);
  }
  bind_check(L, capl_vocab_names(names, n, &vocab), op);
  lua_pop(L, 1);
  return vocab;
}

/* Of option classes = {name, …} at i; NULL without it. Caller unrefs. */
static capl_vocab *option_classes(lua_State *L, const char *op, int i)
{
  capl_vocab *vocab = bind_option(L, i, "classes") ? check_classes(L, op) : NULL;
  lua_pop(L, 1);
  return vocab;
}

/* Of option several = "|" at i; 0 without it. */
static char option_several(lua_State *L, const char *op, int i)
{
  const char *text = bind_option(L, i, "several") ? lua_tostring(L, -1) : "";
  if (!text || strlen(text) > 1) bind_fail(L, CAPL_EVALUE, op, NULL, "several is one character");
  lua_pop(L, 1);
  return *text;
}

/* data.folder_source(dir, {width, height, channels, charset, length, length_min, variable, case, fold_width,
** resize, classes = {name, …}, fields = {…}}) */
static int data_folder_source(lua_State *L)
{
  static const bind_option_spec options[] = {IMAGE_OPTIONS(capl_folder_options, ), BIND_END};
  const char *dir = bind_check_path(L, 1, CAPL_MAY_READ);
  capl_folder_options o = {.stop = capl_interrupt_pending};
  bind_read_options(L, "data.folder", 2, options, &o);
  o.n_widths = data_option_widths(L, "data.folder", 2, o.widths);
  option_letterbox(L, "data.folder", 2, &o.letterbox);
  __attribute__((cleanup(release_vocab))) capl_vocab *classes = option_classes(L, "data.folder", 2);
  o.classes = classes;
  o.several = option_several(L, "data.folder", 2);
  data_option_fields(L, "data.folder", 2, &o.fields);
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, capl_source_folder_new(dir, &o, (capl_source **)box), NULL);
  return 1;
}

/* data.choose_widths({px, …}, step) -> ascending widths for images that are so wide */
static int data_choose_widths(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  int64_t step = bind_check_int(L, 2);
  size_t n = lua_objlen(L, 1);
  int widths[CAPL_WIDTHS_MAX], *px = lua_newuserdata(L, (n + 1) * sizeof *px);
  if (step < 1 || step > 1024) return bind_arg_error(L, 2, "a step of 1..1024 px, got %lld", (long long)step);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 1, (int)i + 1);
    px[i] = (int)lua_tonumber(L, -1);
    if (px[i] < 1) return bind_arg_error(L, 1, "widths are from 1 px on");
    lua_pop(L, 1);
  }
  int found = widths_choose(px, (uint32_t)n, (int)step, widths);
  lua_createtable(L, found, 0);
  for (int k = 0; k < found; k++) {
    lua_pushinteger(L, widths[k]);
    lua_rawseti(L, -2, k + 1);
  }
  return 1;
}

static char check_separator(lua_State *L, const char *text)
{
  if (text && (strlen(text) != 1 || strchr("\"\r\n", *text)))
    bind_fail(L, CAPL_EVALUE, "data.list", NULL, "separator is one character, such as ';', got '%s'", text);
  return text ? *text : '\0';
}

/* data.list_source(file, {width, …, root, format, path, label, separator}) */
static int data_list_source(lua_State *L)
{
  static const char *const formats[] = {"auto", "tsv", "jsonl", "csv", NULL}; /* ORDER capl_list_format */
  typedef struct {
    capl_list_options list;
    const char *separator;
  } given;
  static const bind_option_spec options[] = {IMAGE_OPTIONS(given, list.images.),
                                             {"root", BIND_PATH(given, list.root), .rights = CAPL_MAY_READ},
                                             {"format", BIND_WORD(given, list.format), .words = formats},
                                             {"path", BIND_TEXT(given, list.path_key)},
                                             {"label", BIND_TEXT(given, list.label_key)},
                                             {"separator", BIND_TEXT(given, separator)},
                                             BIND_END};
  const char *file = bind_check_path(L, 1, CAPL_MAY_READ);
  given o = {.list = {.images = {.stop = capl_interrupt_pending}}};
  bind_read_options(L, "data.list", 2, options, &o);
  o.list.separator = check_separator(L, o.separator);
  o.list.images.n_widths = data_option_widths(L, "data.list", 2, o.list.images.widths);
  option_letterbox(L, "data.list", 2, &o.list.images.letterbox);
  __attribute__((cleanup(release_vocab))) capl_vocab *classes = option_classes(L, "data.list", 2);
  o.list.images.classes = classes;
  o.list.images.several = option_several(L, "data.list", 2);
  data_option_fields(L, "data.list", 2, &o.list.images.fields);
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, capl_source_list_new(file, &o.list, (capl_source **)box), NULL);
  return 1;
}

/* data.lmdb_source(path, {width, height, channels, charset, length, length_min, variable, case, resize, fields}) */
static int data_lmdb_source(lua_State *L)
{
  static const bind_option_spec options[] = {IMAGE_OPTIONS(capl_lmdb_options, images.), BIND_END};
  const char *path = bind_check_path(L, 1, CAPL_MAY_READ);
  capl_lmdb_options o = {.images = {.stop = capl_interrupt_pending}, .stop = capl_interrupt_pending};
  bind_read_options(L, "data.lmdb", 2, options, &o);
  o.images.n_widths = data_option_widths(L, "data.lmdb", 2, o.images.widths);
  option_letterbox(L, "data.lmdb", 2, &o.images.letterbox);
  __attribute__((cleanup(release_vocab))) capl_vocab *classes = option_classes(L, "data.lmdb", 2);
  o.images.classes = classes;
  o.images.several = option_several(L, "data.lmdb", 2);
  data_option_fields(L, "data.lmdb", 2, &o.images.fields);
  void **box = data_new_box(L, SOURCE_TYPE);
  bind_check(L, capl_source_lmdb_new(path, &o, (capl_source **)box), NULL);
  return 1;
}

/* source:pack(dir): its files, as they are, as an LMDB database */
static int source_pack(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  bind_check(L, capl_lmdb_pack(source, bind_check_path(L, 2, CAPL_MAY_WRITE), capl_interrupt_pending), NULL);
  return 0;
}

static void release_text(char **text) { free(*text); }

/* ---- facts about a source of files ----------------------------------------------------------- */

/* source:text(id) -> the label as it was given, or nil */
static int source_text(lua_State *L)
{
  const capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  lua_pushstring(L, capl_source_text(source, data_check_sample(L, 2, source)));
  return 1;
}

/* source:title(id) -> where the sample lies, as messages begin with it: "list.tsv:12: set/a.png" */
static int source_title(lua_State *L)
{
  char title[4096];
  const capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  lua_pushstring(L, capl_source_title(source, data_check_sample(L, 2, source), title, sizeof title));
  return 1;
}

/* source:set_text(id, text): a label that is held against no charset */
static int source_set_text(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  bind_check(L, capl_source_set_text(source, data_check_sample(L, 2, source), bind_check_string(L, 3)), NULL);
  return 0;
}

/* source:label_beside(id, ending[, key]) -> the label in a file beside an image of a folder */
static int source_label_beside(lua_State *L)
{
  __attribute__((cleanup(release_text))) char *text = NULL;
  const capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  uint32_t i = data_check_sample(L, 2, source);
  const char *key = lua_isnoneornil(L, 4) ? NULL : bind_check_string(L, 4);
  bind_check(L, capl_source_label_beside(source, i, bind_check_string(L, 3), key, &text), NULL);
  return lua_pushstring(L, text), 1;
}

/* source:bad_labels() -> {id, …} of the samples whose label is missing or does not fit */
static int source_bad_labels(lua_State *L)
{
  const capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  int bad = 0;
  lua_newtable(L);
  for (uint32_t i = 0; i < capl_source_count(source); i++) {
    if (i % 65536 == 0 && capl_interrupt_pending()) break;
    if (capl_source_check_label(source, i) == CAPL_OK) continue;
    lua_pushnumber(L, i);
    lua_rawseti(L, -2, ++bad);
  }
  return 1;
}

/* source:label_error(id) -> what is wrong with the label, or nil */
static int source_label_error(lua_State *L)
{
  const capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  bool good = capl_source_check_label(source, data_check_sample(L, 2, source)) == CAPL_OK;
  lua_pushstring(L, good ? NULL : capl_error_last()->message);
  return 1;
}

/* source:characters() -> every character of its labels, sorted by code point */
static int source_characters(lua_State *L)
{
  __attribute__((cleanup(release_text))) char *characters = NULL;
  bind_check(L, capl_source_characters(data_check_box(L, 1, SOURCE_TYPE), &characters), NULL);
  return lua_pushstring(L, characters), 1;
}

/* source:set_charset(charset, shortest, longest): labels of a source that was opened without one are held against it */
static int source_set_charset(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  int64_t lo = bind_check_int(L, 3), hi = bind_check_int(L, 4);
  if (lo < 1 || lo > hi || hi > CAPL_LABEL_MAX)
    return bind_arg_error(L, 3, "lengths 1 <= shortest <= longest <= %d", CAPL_LABEL_MAX);
  bind_check(L, capl_source_set_charset(source, bind_check_string(L, 2), (int)lo, (int)hi), NULL);
  return 0;
}

/* source:set_classes({name, …}): likewise, each label names one of these */
static int source_set_classes(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  lua_settop(L, 2);
  __attribute__((cleanup(release_vocab))) capl_vocab *classes = check_classes(L, "source:set_classes");
  bind_check(L, capl_source_set_classes(source, classes), NULL);
  return 0;
}

/* source:fit_length(): labels are as long as the good ones among them */
static int source_fit_length(lua_State *L)
{
  bind_check(L, capl_source_fit_length(data_check_box(L, 1, SOURCE_TYPE)), NULL);
  return 0;
}

/* source:share(id) -> number in [0, 1) that depends on the file's bytes alone */
static int source_share(lua_State *L)
{
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  double share = 0;
  bind_check(L, capl_source_share(source, data_check_sample(L, 2, source), &share), NULL);
  return lua_pushnumber(L, share), 1;
}

/* data.text_share(text) -> number in [0, 1) that depends on the text alone */
static int data_text_share(lua_State *L)
{
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  return lua_pushnumber(L, capl_share_of(text, size)), 1;
}

/* ---- looking at files ------------------------------------------------------------------------ */

#define SCAN_TYPE "capl.scan"

/* source:scan{pixels = false, threads = 0} -> what its files are; pixels: they are decoded too */
static int source_scan(lua_State *L)
{
  typedef struct {
    bool pixels;
    int threads;
  } given;
  static const bind_option_spec options[] = {
    {"pixels", BIND_BOOL(given, pixels)}, {"threads", BIND_WHOLE(given, threads), .max = CAPL_WORKERS_MAX}, BIND_END};
  capl_source *source = data_check_box(L, 1, SOURCE_TYPE);
  given o = {0};
  bind_read_options(L, "source:scan", 2, options, &o);
  void **box = data_new_box(L, SCAN_TYPE);
  bind_check(L, capl_scan_new(source, o.pixels, o.threads, capl_interrupt_pending, (capl_scan **)box), NULL);
  return 1;
}

/* scan:facts(id) -> bytes, format, width, height, channels; or bytes, nil, what is wrong */
static int scan_facts(lua_State *L)
{
  const capl_file_facts *f = capl_scan_facts(data_check_box(L, 1, SCAN_TYPE), (uint32_t)bind_check_int(L, 2));
  if (!f) return bind_arg_error(L, 2, "no such sample");
  lua_pushnumber(L, (double)f->bytes);
  lua_pushstring(L, f->format);
  if (!f->format) return lua_pushstring(L, f->message ? f->message : "cannot be read"), 3;
  lua_pushinteger(L, f->width);
  lua_pushinteger(L, f->height);
  lua_pushinteger(L, f->channels);
  return 5;
}

/* scan:seen(id) -> darker, lighter, differ, faded: as capl_file_facts has them, of a scan of pixels */
static int scan_seen(lua_State *L)
{
  const capl_file_facts *f = capl_scan_facts(data_check_box(L, 1, SCAN_TYPE), (uint32_t)bind_check_int(L, 2));
  if (!f) return bind_arg_error(L, 2, "no such sample");
  lua_pushnumber(L, f->darker);
  lua_pushnumber(L, f->lighter);
  lua_pushnumber(L, f->differ);
  lua_pushnumber(L, f->faded);
  return 4;
}

static void release_pairs(capl_same **pairs) { free(*pairs); }

/* scan:same([other,] pixels) -> {id, first, id, first, …}: files of other (of scan itself) that scan has (earlier)
** too */
static int scan_same(lua_State *L)
{
  capl_scan *scan = data_check_box(L, 1, SCAN_TYPE);
  capl_scan *other = lua_isboolean(L, 2) ? NULL : data_check_box(L, 2, SCAN_TYPE);
  __attribute__((cleanup(release_pairs))) capl_same *pairs = NULL;
  uint32_t n = 0;
  bind_check(L, capl_scan_same(scan, other, lua_toboolean(L, other ? 3 : 2), &pairs, &n), NULL);
  lua_createtable(L, (int)(2 * n), 0);
  for (uint32_t i = 0; i < n; i++) {
    lua_pushnumber(L, pairs[i].id);
    lua_rawseti(L, -2, (int)(2 * i + 1));
    lua_pushnumber(L, pairs[i].first);
    lua_rawseti(L, -2, (int)(2 * i + 2));
  }
  return 1;
}

static int scan_release(lua_State *L)
{
  void **box = luaL_testudata(L, 1, SCAN_TYPE);
  if (box) capl_scan_free(*box), *box = NULL;
  return 0;
}

/* Adds functions to the table on top, and methods to sources. */
void bind_open_files(lua_State *L)
{
  static const luaL_Reg functions[] = {{"folder_source", data_folder_source}, {"list_source", data_list_source},
                                       {"lmdb_source", data_lmdb_source},     {"text_share", data_text_share},
                                       {"choose_widths", data_choose_widths},
                                       {NULL, NULL}};
  static const luaL_Reg source[] = {{"text", source_text},   {"title", source_title}, {"bad_labels", source_bad_labels},
                                    {"label_error", source_label_error},
                                    {"label_beside", source_label_beside}, {"share", source_share},
                                    {"set_text", source_set_text},     {"pack", source_pack}, {"scan", source_scan},
                                    {"characters", source_characters}, {"set_charset", source_set_charset},
                                    {"set_classes", source_set_classes},
                                    {"fit_length", source_fit_length}, {NULL, NULL}};
  static const luaL_Reg scan[] = {{"facts", scan_facts}, {"same", scan_same}, {"seen", scan_seen}, {NULL, NULL}};
  data_open_type(L, SCAN_TYPE, scan, scan_release);
  luaL_setfuncs(L, functions, 0);
  luaL_getmetatable(L, SOURCE_TYPE);
  lua_getfield(L, -1, "__index");
  luaL_setfuncs(L, source, 0);
  lua_pop(L, 2);
  bind_open_file_fields(L);
}
