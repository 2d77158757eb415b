/* plot.c -- pictures for Lua: charts and sheets as tables become the structs of report.h, are drawn and written.
**
** lua/capl/plot has checked names and types before; what is checked here is what only C knows. All memory is in
** userdata on the Lua stack, so that an error anywhere leaks nothing.
** SPDX-License-Identifier: Apache-2.0
*/
#include "bind/core/core.h"

#include <math.h>
#include <string.h>

#include "capl/data.h"
#include "report/report.h"

/* ---- fields of the table on top -------------------------------------------------------------- */

/* Borrowed from the table. NULL = not there. */
static const char *text_field(lua_State *L, const char *key)
{
  lua_getfield(L, -1, key);
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  lua_pop(L, 1);
  return text;
}

/* The file of the font, which may be read; NULL = the usual one. */
static const char *font_field(lua_State *L)
{
  const char *font = text_field(L, "font");
  if (!font || !*font) return NULL;
  lua_getfield(L, -1, "font");
  bind_check_path(L, -1, CAPL_MAY_READ);
  lua_pop(L, 1);
  return font;
}

static double number_field(lua_State *L, const char *key, double otherwise)
{
  lua_getfield(L, -1, key);
  double value = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : otherwise;
  lua_pop(L, 1);
  return value;
}

/* Sizes in px; what no int holds is out of every limit anyway. */
static int size_field(lua_State *L, const char *key)
{
  double value = number_field(L, key, 0);
  return value > 1e9 ? 1000000000 : value < -1 ? -1 : (int)value;
}

static bool flag_field(lua_State *L, const char *key)
{
  lua_getfield(L, -1, key);
  bool value = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}

/* Memory that C keeps while it reads the tables, below the top of the stack: it hangs in the table `keep` at index
** 3. */
static void keep_userdata(lua_State *L)
{
  lua_pushvalue(L, -2);
  lua_rawseti(L, 3, (int)lua_objlen(L, 3) + 1);
}

/* Puts an entry of a list, which is on top, into its place in C. number: from 1 */
typedef void list_reader(lua_State *L, void *entry, int number);

/* The list at key of the table on top as an array of entries of so many bytes, kept for C; an empty one where there is
** none. */
static void *read_list(lua_State *L, const char *key, size_t size, list_reader *read, int *n)
{
  luaL_checkstack(L, 16, "plot");
  lua_getfield(L, -1, key);
  *n = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0;
  char *entries = lua_newuserdata(L, ((size_t)*n + 1) * size);
  memset(entries, 0, ((size_t)*n + 1) * size);
  lua_insert(L, -2);
  keep_userdata(L);
  for (int i = 0; i < *n; i++) {
    lua_rawgeti(L, -1, i + 1);
    read(L, entries + (size_t)i * size, i + 1);
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
  return entries;
}

static void read_number(lua_State *L, void *entry, int number)
{
  (void)number;
  *(double *)entry = lua_tonumber(L, -1);
}

/* Borrowed from the list. */
static void read_text(lua_State *L, void *entry, int number)
{
  (void)number;
  *(const char **)entry = lua_tostring(L, -1);
}

/* ---- charts ---------------------------------------------------------------------------------- */

static void read_series(lua_State *L, void *entry, int number)
{
  report_series *s = entry;
  int n_x, n_y;
  (void)number;
  s->name = text_field(L, "name");
  s->smooth = number_field(L, "smooth", 0);
  s->dots = flag_field(L, "dots");
  s->x = read_list(L, "x", sizeof *s->x, read_number, &n_x);
  s->y = read_list(L, "y", sizeof *s->y, read_number, &n_y);
  s->n = n_y;
  if (n_x != n_y) bind_fail(L, CAPL_EVALUE, "plot.lines", NULL, "a series has %d values in x and %d in y", n_x, n_y);
}

static void read_panel(lua_State *L, void *entry, int number)
{
  report_panel *panel = entry;
  (void)number;
  panel->y_label = text_field(L, "y_label");
  panel->percent = flag_field(L, "percent");
  panel->log = flag_field(L, "log");
  panel->min = number_field(L, "min", NAN);
  panel->max = number_field(L, "max", NAN);
  panel->series = read_list(L, "series", sizeof *panel->series, read_series, &panel->n_series);
}

static void read_line(lua_State *L, void *entry, int number)
{
  (void)number;
  *(report_line *)entry = (report_line){.x = number_field(L, "x", 0), .label = text_field(L, "label")};
}

static void read_chart(lua_State *L, report_chart *chart)
{
  lua_pushvalue(L, 2);
  *chart = (report_chart){.title = text_field(L, "title"), .x_label = text_field(L, "x_label"),
                          .log_x = flag_field(L, "log_x"), .font = font_field(L), .width = size_field(L, "width"),
                          .height = size_field(L, "height")};
  chart->lines = read_list(L, "lines", sizeof *chart->lines, read_line, &chart->n_lines);
  chart->panels = read_list(L, "panels", sizeof *chart->panels, read_panel, &chart->n_panels);
  lua_pop(L, 1);
}

/* ---- sheets ---------------------------------------------------------------------------------- */

/* Which image it is, for messages. */
typedef struct {
  const char *op, *list;
  int number; /* in the list, from 1 */
} place;

/* Where the dims of an image are: (H,W), (C,H,W), (1,C,H,W) or (H,W,C). stride in elements; channels 1 for (H,W). */
typedef struct {
  int64_t height, width, channels;
  int64_t row, column, channel;
} image_view;

static bool is_colours(int64_t size) { return size == 1 || size == 3; }

static bool view_image(const capl_tensor *t, image_view *v)
{
  int lead = t->ndim == 4 && t->size[0] == 1 ? 1 : 0;
  const int64_t *size = t->size + lead, *stride = t->stride + lead;
  int ndim = t->ndim - lead;
  if (ndim == 2) *v = (image_view){size[0], size[1], 1, stride[0], stride[1], 0};
  else if (ndim == 3 && is_colours(size[0]))
    *v = (image_view){size[1], size[2], size[0], stride[1], stride[2], stride[0]};
  else if (ndim == 3 && is_colours(size[2]))
    *v = (image_view){size[0], size[1], size[2], stride[0], stride[1], stride[2]};
  else return false;
  return v->height >= 1 && v->width >= 1 && v->height <= REPORT_MAX_SIDE && v->width <= REPORT_MAX_SIDE;
}

static void copy_levels(const uint8_t *from, const image_view *v, uint8_t *to)
{
  for (int64_t y = 0; y < v->height; y++)
    for (int64_t x = 0; x < v->width; x++)
      for (int64_t c = 0; c < v->channels; c++) *to++ = from[y * v->row + x * v->column + c * v->channel];
}

/* Pushes the pixels of an image. Images of f32 and so on are normalized ones: their least value becomes
** black, the greatest white. */
static uint8_t *push_pixels(lua_State *L, capl_tensor *t, const place *at, image_view *v)
{
  char text[160];
  if (!view_image(t, v) || !(t->dtype == CAPL_U8 || capl_dtype_is_float(t->dtype)))
    bind_fail(L, CAPL_ESHAPE, at->op, NULL,
              "%s[%d].image: one image (H,W), (C,H,W) or (H,W,C) with C = 1 or 3, u8 or floating, of at most %d px per "
              "side expected, got %s", at->list, at->number, REPORT_MAX_SIDE,
                  capl_tensor_describe(t, text, sizeof text));
  if (!capl_tensor_data(t))
    bind_fail(L, CAPL_ESTATE, at->op, NULL, "%s[%d].image is on device meta and has no pixels", at->list, at->number);
  uint8_t *pixels = lua_newuserdata(L, (size_t)capl_tensor_numel(t));
  if (t->dtype == CAPL_U8) copy_levels(capl_tensor_data(t), v, pixels);
  return pixels;
}

/* Reads a floating image as levels. values: scratch for its numbers, logical row-major order. */
static void stretch_levels(lua_State *L, const capl_tensor *t, const place *at, double *values, uint8_t *levels)
{
  int64_t n = capl_tensor_numel(t);
  double lo = INFINITY, hi = -INFINITY;
  bind_check(L, capl_tensor_to_doubles(t, values), at->op);
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(values[i]))
      bind_fail(L, CAPL_EVALUE, at->op, NULL, "%s[%d].image holds values that are not finite", at->list, at->number);
    lo = fmin(lo, values[i]);
    hi = fmax(hi, values[i]);
  }
  double scale = hi > lo ? 255 / (hi - lo) : 0;
  for (int64_t i = 0; i < n; i++) levels[i] = (uint8_t)((values[i] - lo) * scale + 0.5);
}

static void read_image(lua_State *L, report_cell *cell, const place *at)
{
  lua_getfield(L, -1, "image");
  capl_tensor *t = bind_on_host(L, lua_gettop(L));
  image_view v;
  uint8_t *pixels = push_pixels(L, t, at, &v);
  if (t->dtype != CAPL_U8) {
    int64_t n = capl_tensor_numel(t);
    double *values = lua_newuserdata(L, (size_t)n * (sizeof *values + 1));
    uint8_t *levels = (uint8_t *)(values + n);
    stretch_levels(L, t, at, values, levels);
    int64_t stride[CAPL_MAX_NDIM]; /* levels are in logical row-major order, whatever the tensor's own is */
    capl_tensor row = *t;
    capl_strides_row(t->ndim, t->size, stride);
    memcpy(row.stride, stride, sizeof row.stride);
    view_image(&row, &v);
    copy_levels(levels, &v, pixels);
    lua_pop(L, 1);
  }
  cell->pixels = pixels;
  cell->width = (int)v.width;
  cell->height = (int)v.height;
  cell->channels = (int)v.channels;
  lua_insert(L, -2);
  keep_userdata(L);
  lua_pop(L, 2);
}

static report_mark mark_field(lua_State *L)
{
  lua_getfield(L, -1, "good");
  report_mark mark = lua_isnil(L, -1) ? REPORT_UNMARKED : lua_toboolean(L, -1) ? REPORT_GOOD : REPORT_BAD;
  lua_pop(L, 1);
  return mark;
}

static void read_cell(lua_State *L, void *entry, int number)
{
  report_cell *cell = entry;
  cell->caption = text_field(L, "caption");
  cell->truth = text_field(L, "truth");
  cell->note = text_field(L, "note");
  cell->mark = mark_field(L);
  read_image(L, cell, &(place){"plot.sheet", "cells", number});
}

static void read_sheet(lua_State *L, report_sheet *sheet)
{
  lua_pushvalue(L, 2);
  *sheet = (report_sheet){.title = text_field(L, "title"), .font = font_field(L), .columns = size_field(L, "columns")};
  sheet->cells = read_list(L, "cells", sizeof *sheet->cells, read_cell, &sheet->n_cells);
  lua_pop(L, 1);
}

/* ---- galleries ------------------------------------------------------------------------------- */

/* The tensor at key of the table on top as contiguous values of dtype in memory kept for C; NULL = not there.
** *rows: its first size. */
static const void *values_field(lua_State *L, const char *key, capl_dtype dtype, int *rows)
{
  *rows = 0;
  lua_getfield(L, -1, key);
  if (lua_isnil(L, -1)) return lua_pop(L, 1), NULL;
  capl_tensor *t = bind_on_host(L, lua_gettop(L));
  int64_t n = capl_tensor_numel(t);
  double *values = lua_newuserdata(L, (size_t)(n + 1) * sizeof *values);
  bind_check(L, capl_tensor_to_doubles(t, values), "plot.gallery");
  void *out = lua_newuserdata(L, (size_t)(n + 1) * (dtype == CAPL_U8 ? 1 : sizeof(float)));
  for (int64_t i = 0; i < n; i++) {
    if (dtype == CAPL_U8) ((uint8_t *)out)[i] = (uint8_t)values[i];
    else ((float *)out)[i] = (float)values[i];
  }
  *rows = (int)t->size[0];
  lua_remove(L, -2); /* the doubles */
  lua_insert(L, -2);
  keep_userdata(L);
  lua_pop(L, 2);
  return out;
}

static void read_colour(lua_State *L, void *entry, int number)
{
  (void)number;
  *(uint32_t *)entry = (uint32_t)lua_tonumber(L, -1);
}

/* A list of n texts or false for none; NULL = not there. */
static const char *const *names_field(lua_State *L, const char *key, int n)
{
  int n_names;
  const char *const *names = read_list(L, key, sizeof *names, read_text, &n_names);
  return n > 0 && n_names == n ? names : NULL;
}

static void read_overlays(lua_State *L, report_view *view)
{
  int rows;
  view->mask = values_field(L, "mask", CAPL_U8, &rows);
  view->tint = number_field(L, "tint", 0);
  const uint32_t *palette = read_list(L, "palette", sizeof *palette, read_colour, &view->n_palette);
  view->palette = view->n_palette > 0 ? palette : NULL;
  view->points = values_field(L, "points", CAPL_F32, &view->n_points);
  const float *truth = values_field(L, "truth", CAPL_F32, &rows);
  view->truth = rows == view->n_points ? truth : NULL;
  view->point_names = names_field(L, "point_names", view->n_points);
  view->boxes = values_field(L, "boxes", CAPL_F32, &view->n_boxes);
  view->box_names = names_field(L, "box_names", view->n_boxes);
  view->zoom = number_field(L, "zoom", 0);
}

static void read_view(lua_State *L, void *entry, int number)
{
  report_view *view = entry;
  report_cell cell = {0};
  view->caption = text_field(L, "caption");
  read_image(L, &cell, &(place){"plot.gallery", "views", number});
  view->pixels = cell.pixels;
  view->width = cell.width;
  view->height = cell.height;
  view->channels = cell.channels;
  read_overlays(L, view);
}

static void read_section(lua_State *L, void *entry, int number)
{
  report_section *section = entry;
  (void)number;
  *section = (report_section){.title = text_field(L, "title"), .note = text_field(L, "note")};
  section->views = read_list(L, "views", sizeof *section->views, read_view, &section->n_views);
}

static void read_key(lua_State *L, void *entry, int number)
{
  (void)number;
  *(report_key *)entry = (report_key){.name = text_field(L, "name"), .class = size_field(L, "class")};
}

static void read_gallery(lua_State *L, report_gallery *gallery)
{
  lua_pushvalue(L, 2);
  *gallery = (report_gallery){.title = text_field(L, "title"), .font = font_field(L), .first = text_field(L, "first"),
                              .rest = text_field(L, "rest"), .columns = size_field(L, "columns"),
                              .together = size_field(L, "together")};
  gallery->legend = read_list(L, "legend", sizeof *gallery->legend, read_key, &gallery->n_legend);
  gallery->sections = read_list(L, "sections", sizeof *gallery->sections, read_section, &gallery->n_sections);
  lua_pop(L, 1);
}

/* ---- matrices -------------------------------------------------------------------------------- */

static void read_confused(lua_State *L, void *entry, int number)
{
  read_image(L, entry, &(place){"plot.matrix", "cells", number});
}

static void read_group(lua_State *L, void *entry, int number)
{
  report_group *group = entry;
  (void)number;
  group->title = text_field(L, "title");
  group->cells = read_list(L, "cells", sizeof *group->cells, read_confused, &group->n_cells);
}

static void read_matrix(lua_State *L, report_matrix *matrix)
{
  int n;
  lua_pushvalue(L, 2);
  *matrix = (report_matrix){.title = text_field(L, "title"), .font = font_field(L),
                            .row_label = text_field(L, "row_label"), .column_label = text_field(L, "column_label")};
  matrix->labels = read_list(L, "labels", sizeof *matrix->labels, read_text, &matrix->n);
  matrix->counts = read_list(L, "counts", sizeof *matrix->counts, read_number, &n);
  if (n != (int64_t)matrix->n * matrix->n)
    bind_fail(L, CAPL_EVALUE, "plot.matrix", NULL, "%d labels have %lld counts, not %d", matrix->n,
              (long long)matrix->n * matrix->n, n);
  matrix->groups = read_list(L, "groups", sizeof *matrix->groups, read_group, &matrix->n_groups);
  lua_pop(L, 1);
}

/* ---- bars ------------------------------------------------------------------------------------ */

static void read_bars(lua_State *L, report_bars *bars)
{
  int n;
  lua_pushvalue(L, 2);
  *bars = (report_bars){.title = text_field(L, "title"), .x_label = text_field(L, "x_label"), .font = font_field(L),
                        .width = size_field(L, "width")};
  bars->labels = read_list(L, "labels", sizeof *bars->labels, read_text, &bars->n);
  bars->values = read_list(L, "values", sizeof *bars->values, read_number, &n);
  if (n != bars->n) bind_fail(L, CAPL_EVALUE, "plot.bars", NULL, "%d labels have %d values", bars->n, n);
  lua_pop(L, 1);
}

/* ---- one view -------------------------------------------------------------------------------- */

typedef struct {
  report_view view;
  const char *font;
} overlay;

static void read_overlay(lua_State *L, overlay *given)
{
  lua_pushvalue(L, 2);
  *given = (overlay){.font = font_field(L)};
  read_view(L, &given->view, 1);
  lua_pop(L, 1);
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* Writes and frees the picture that drawing with status left. */
static capl_status write_picture(const char *path, capl_status status, report_picture *picture)
{
  if (status == CAPL_OK) status = capl_png_write(path, picture->pixels, picture->width, picture->height, 3);
  report_picture_fini(picture);
  return status;
}

/* Pushes the picture that drawing with status left, (1,3,H,W) u8 on the CPU, and frees it. */
static capl_status push_picture(lua_State *L, capl_status status, report_picture *picture)
{
  int64_t size[] = {1, 3, picture->height, picture->width};
  capl_device *cpu;
  capl_tensor *t = NULL;
  if (status == CAPL_OK) status = capl_device_open("cpu", &cpu);
  if (status == CAPL_OK) status = capl_tensor_new(cpu, CAPL_U8, 4, size, CAPL_AUTO, &t); /* H,W,C in memory */
  if (status == CAPL_OK) memcpy(capl_tensor_data(t), picture->pixels, capl_tensor_bytes(t));
  report_picture_fini(picture);
  if (status == CAPL_OK) bind_push_tensor(L, t);
  return status;
}

/* What all begin with: (path or nil, table) -> the path; a table at 3 keeps alive what is read. */
static const char *begin(lua_State *L, const char *name, const report_drawing **drawing)
{
  const char *path = lua_isnil(L, 1) ? NULL : bind_check_product(L, 1);
  bind_check_table(L, 2);
  lua_settop(L, 2);
  lua_newtable(L);
  bind_check(L, report_open(drawing), name);
  return path;
}

/* Writes a picture, or gives it back where there is no path. */
static int end(lua_State *L, const char *name, const char *path, capl_status status, report_picture *picture)
{
  bind_check(L, path ? write_picture(path, status, picture) : push_picture(L, status, picture), name);
  return path ? 0 : 1;
}

/* lines(path, chart), sheet(path, sheet), gallery(path, gallery), matrix(path, matrix): tables as lua/capl/plot has
** checked them; without a path they return the picture */
#define PLOT(what, type, read)                                                                                  \
  static int plot_##what(lua_State *L)                                                                          \
  {                                                                                                             \
    const report_drawing *drawing;                                                                              \
    type given;                                                                                                 \
    report_picture picture = {0};                                                                               \
    const char *path = begin(L, "plot." #what, &drawing);                                                       \
    read(L, &given);                                                                                            \
    return end(L, "plot." #what, path, drawing->what(&given, &picture), &picture);                              \
  }

PLOT(lines, report_chart, read_chart)
PLOT(sheet, report_sheet, read_sheet)
PLOT(gallery, report_gallery, read_gallery)
PLOT(matrix, report_matrix, read_matrix)
PLOT(bars, report_bars, read_bars)

/* overlay(view) -> the image with what lies over it; as lua/capl/report/overlay.lua has checked it */
static int plot_overlay(lua_State *L)
{
  const report_drawing *drawing;
  overlay given;
  report_picture picture = {0};
  lua_settop(L, 1);
  lua_pushnil(L);
  lua_insert(L, 1);
  begin(L, "overlay", &drawing);
  read_overlay(L, &given);
  return end(L, "overlay", NULL, drawing->overlay(&given.view, given.font, &picture), &picture);
}

/* colour(class) -> 0xRRGGBB of a class from 1 on */
static int plot_colour(lua_State *L)
{
  lua_pushnumber(L, report_class_colour((int)bind_check_int(L, 1)));
  return 1;
}

void bind_open_plot(lua_State *L)
{
  static const luaL_Reg functions[] = {
      {"lines", plot_lines}, {"sheet", plot_sheet}, {"gallery", plot_gallery}, {"matrix", plot_matrix},
      {"overlay", plot_overlay}, {"bars", plot_bars}, {"colour", plot_colour}, {NULL, NULL}};
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  lua_setfield(L, -2, "plot");
}
