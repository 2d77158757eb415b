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

/* Pushes the list at key of the table on top, and then a userdata for its entries below it: the list stays on top.
** Returns the userdata, zeroed. */
static void *push_list(lua_State *L, const char *key, size_t entry, int *n)
{
  luaL_checkstack(L, 16, "plot");
  lua_getfield(L, -1, key);
  *n = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0;
  void *memory = lua_newuserdata(L, ((size_t)*n + 1) * entry);
  memset(memory, 0, ((size_t)*n + 1) * entry);
  lua_insert(L, -2);
  return memory;
}

/* ---- charts ---------------------------------------------------------------------------------- */

/* Memory that C keeps while it reads the tables: it hangs in the table `keep` at index 3. */
static void keep_userdata(lua_State *L)
{
  lua_pushvalue(L, -2);
  lua_rawseti(L, 3, (int)lua_objlen(L, 3) + 1);
}

static const double *read_values(lua_State *L, const char *key, int64_t *n)
{
  int count;
  double *values = push_list(L, key, sizeof *values, &count);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, -1, i + 1);
    values[i] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  keep_userdata(L);
  lua_pop(L, 2);
  *n = count;
  return values;
}

static void read_series(lua_State *L, report_series *s)
{
  int64_t n_x;
  s->name = text_field(L, "name");
  s->smooth = number_field(L, "smooth", 0);
  s->x = read_values(L, "x", &n_x);
  s->y = read_values(L, "y", &s->n);
  if (n_x != s->n)
    bind_fail(L, CAPL_EVALUE, "plot.lines", NULL, "a series has %lld values in x and %lld in y", (long long)n_x,
              (long long)s->n);
}

static void read_panel(lua_State *L, report_panel *panel)
{
  panel->y_label = text_field(L, "y_label");
  panel->percent = flag_field(L, "percent");
  panel->log = flag_field(L, "log");
  panel->min = number_field(L, "min", NAN);
  panel->max = number_field(L, "max", NAN);
  report_series *series = push_list(L, "series", sizeof *series, &panel->n_series);
  panel->series = series;
  for (int i = 0; i < panel->n_series; i++) {
    lua_rawgeti(L, -1, i + 1);
    read_series(L, &series[i]);
    lua_pop(L, 1);
  }
  keep_userdata(L);
  lua_pop(L, 2);
}

static void read_lines(lua_State *L, report_chart *chart)
{
  report_line *lines = push_list(L, "lines", sizeof *lines, &chart->n_lines);
  chart->lines = lines;
  for (int i = 0; i < chart->n_lines; i++) {
    lua_rawgeti(L, -1, i + 1);
    lines[i] = (report_line){.x = number_field(L, "x", 0), .label = text_field(L, "label")};
    lua_pop(L, 1);
  }
  keep_userdata(L);
  lua_pop(L, 2);
}

static void read_chart(lua_State *L, report_chart *chart)
{
  lua_pushvalue(L, 2);
  *chart = (report_chart){.title = text_field(L, "title"), .x_label = text_field(L, "x_label"), .log_x = flag_field(L, "log_x"),
                          .font = font_field(L), .width = size_field(L, "width"), .height = size_field(L, "height")};
  read_lines(L, chart);
  report_panel *panels = push_list(L, "panels", sizeof *panels, &chart->n_panels);
  chart->panels = panels;
  for (int i = 0; i < chart->n_panels; i++) {
    lua_rawgeti(L, -1, i + 1);
    read_panel(L, &panels[i]);
    lua_pop(L, 1);
  }
  keep_userdata(L);
  lua_pop(L, 3);
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
  else if (ndim == 3 && is_colours(size[0])) *v = (image_view){size[1], size[2], size[0], stride[1], stride[2], stride[0]};
  else if (ndim == 3 && is_colours(size[2])) *v = (image_view){size[0], size[1], size[2], stride[0], stride[1], stride[2]};
  else return false;
  return v->height >= 1 && v->width >= 1 && v->height <= REPORT_MAX_SIDE && v->width <= REPORT_MAX_SIDE;
}

static void copy_levels(const uint8_t *from, const image_view *v, uint8_t *to)
{
  for (int64_t y = 0; y < v->height; y++)
    for (int64_t x = 0; x < v->width; x++)
      for (int64_t c = 0; c < v->channels; c++) *to++ = from[y * v->row + x * v->column + c * v->channel];
}

/* Pushes the pixels of an image. Images of f32 and so on are normalised ones: their least value becomes
** black, the greatest white. */
static uint8_t *push_pixels(lua_State *L, capl_tensor *t, const place *at, image_view *v)
{
  char text[160];
  if (!view_image(t, v) || !(t->dtype == CAPL_U8 || capl_dtype_is_float(t->dtype)))
    bind_fail(L, CAPL_ESHAPE, at->op, NULL,
              "%s[%d].image: one image (H,W), (C,H,W) or (H,W,C) with C = 1 or 3, u8 or floating, of at most %d px per "
              "side expected, got %s", at->list, at->number, REPORT_MAX_SIDE, capl_tensor_describe(t, text, sizeof text));
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

static void read_sheet(lua_State *L, report_sheet *sheet)
{
  lua_pushvalue(L, 2);
  *sheet = (report_sheet){.title = text_field(L, "title"), .font = font_field(L), .columns = size_field(L, "columns")};
  report_cell *cells = push_list(L, "cells", sizeof *cells, &sheet->n_cells);
  sheet->cells = cells;
  for (int i = 0; i < sheet->n_cells; i++) {
    lua_rawgeti(L, -1, i + 1);
    cells[i].caption = text_field(L, "caption");
    cells[i].truth = text_field(L, "truth");
    cells[i].note = text_field(L, "note");
    cells[i].mark = mark_field(L);
    read_image(L, &cells[i], &(place){"plot.sheet", "cells", i + 1});
    lua_pop(L, 1);
  }
  keep_userdata(L);
  lua_pop(L, 3);
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
  double *values = lua_newuserdata(L, (size_t)(n + 1) * 2 * sizeof *values);
  bind_check(L, capl_tensor_to_doubles(t, values), "plot.gallery");
  void *out = values + n;
  for (int64_t i = 0; i < n; i++) {
    if (dtype == CAPL_U8) ((uint8_t *)out)[i] = (uint8_t)values[i];
    else ((float *)out)[i] = (float)values[i];
  }
  *rows = (int)t->size[0];
  lua_insert(L, -2);
  keep_userdata(L);
  lua_pop(L, 2);
  return out;
}

static void read_view(lua_State *L, report_view *view, int number)
{
  report_cell cell = {0};
  int rows;
  view->caption = text_field(L, "caption");
  read_image(L, &cell, &(place){"plot.gallery", "views", number});
  view->pixels = cell.pixels;
  view->width = cell.width;
  view->height = cell.height;
  view->channels = cell.channels;
  view->mask = values_field(L, "mask", CAPL_U8, &rows);
  view->points = values_field(L, "points", CAPL_F32, &view->n_points);
  view->boxes = values_field(L, "boxes", CAPL_F32, &view->n_boxes);
}

static void read_section(lua_State *L, report_section *section)
{
  *section = (report_section){.title = text_field(L, "title"), .note = text_field(L, "note")};
  report_view *views = push_list(L, "views", sizeof *views, &section->n_views);
  section->views = views;
  for (int i = 0; i < section->n_views; i++) {
    lua_rawgeti(L, -1, i + 1);
    read_view(L, &views[i], i + 1);
    lua_pop(L, 1);
  }
  keep_userdata(L);
  lua_pop(L, 2);
}

static void read_gallery(lua_State *L, report_gallery *gallery)
{
  lua_pushvalue(L, 2);
  *gallery = (report_gallery){.title = text_field(L, "title"), .font = font_field(L), .first = text_field(L, "first"),
                              .rest = text_field(L, "rest"), .columns = size_field(L, "columns")};
  report_section *sections = push_list(L, "sections", sizeof *sections, &gallery->n_sections);
  gallery->sections = sections;
  for (int i = 0; i < gallery->n_sections; i++) {
    lua_rawgeti(L, -1, i + 1);
    read_section(L, &sections[i]);
    lua_pop(L, 1);
  }
  keep_userdata(L);
  lua_pop(L, 3);
}

/* ---- matrices -------------------------------------------------------------------------------- */

static void read_labels(lua_State *L, report_matrix *matrix)
{
  const char **labels = push_list(L, "labels", sizeof *labels, &matrix->n);
  for (int i = 0; i < matrix->n; i++) {
    lua_rawgeti(L, -1, i + 1);
    labels[i] = lua_tostring(L, -1); /* borrowed from the list */
    lua_pop(L, 1);
  }
  keep_userdata(L);
  lua_pop(L, 2);
  matrix->labels = labels;
}

static void read_group(lua_State *L, report_group *group)
{
  group->title = text_field(L, "title");
  report_cell *cells = push_list(L, "cells", sizeof *cells, &group->n_cells);
  group->cells = cells;
  for (int i = 0; i < group->n_cells; i++) {
    lua_rawgeti(L, -1, i + 1);
    read_image(L, &cells[i], &(place){"plot.matrix", "cells", i + 1});
    lua_pop(L, 1);
  }
  keep_userdata(L);
  lua_pop(L, 2);
}

static void read_matrix(lua_State *L, report_matrix *matrix)
{
  int64_t n;
  lua_pushvalue(L, 2);
  *matrix = (report_matrix){.title = text_field(L, "title"), .font = font_field(L),
                            .row_label = text_field(L, "row_label"), .column_label = text_field(L, "column_label")};
  read_labels(L, matrix);
  matrix->counts = read_values(L, "counts", &n);
  if (n != (int64_t)matrix->n * matrix->n)
    bind_fail(L, CAPL_EVALUE, "plot.matrix", NULL, "%d labels have %lld counts, not %lld", matrix->n,
              (long long)matrix->n * matrix->n, (long long)n);
  report_group *groups = push_list(L, "groups", sizeof *groups, &matrix->n_groups);
  matrix->groups = groups;
  for (int i = 0; i < matrix->n_groups; i++) {
    lua_rawgeti(L, -1, i + 1);
    read_group(L, &groups[i]);
    lua_pop(L, 1);
  }
  keep_userdata(L);
  lua_pop(L, 3);
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* Writes and frees the picture that drawing with status left. */
static capl_status write_picture(const char *path, capl_status status, report_picture *picture)
{
  if (status == CAPL_OK) status = capl_png_write(path, picture->pixels, picture->width, picture->height, 3);
  report_picture_fini(picture);
  return status;
}

/* What all begin with: (path, table) -> the path; a table at 3 keeps alive what is read. */
static const char *begin(lua_State *L, const char *name, const report_drawing **drawing)
{
  const char *path = bind_check_product(L, 1);
  bind_check_table(L, 2);
  lua_settop(L, 2);
  lua_newtable(L);
  bind_check(L, report_open(drawing), name);
  return path;
}

/* lines(path, chart): chart as plot.lines has checked it */
static int plot_lines(lua_State *L)
{
  const report_drawing *drawing;
  report_chart chart;
  report_picture picture = {0};
  const char *path = begin(L, "plot.lines", &drawing);
  read_chart(L, &chart);
  bind_check(L, write_picture(path, drawing->lines(&chart, &picture), &picture), "plot.lines");
  return 0;
}

/* sheet(path, sheet): likewise */
static int plot_sheet(lua_State *L)
{
  const report_drawing *drawing;
  report_sheet sheet;
  report_picture picture = {0};
  const char *path = begin(L, "plot.sheet", &drawing);
  read_sheet(L, &sheet);
  bind_check(L, write_picture(path, drawing->sheet(&sheet, &picture), &picture), "plot.sheet");
  return 0;
}

/* gallery(path, gallery): likewise */
static int plot_gallery(lua_State *L)
{
  const report_drawing *drawing;
  report_gallery gallery;
  report_picture picture = {0};
  const char *path = begin(L, "plot.gallery", &drawing);
  read_gallery(L, &gallery);
  bind_check(L, write_picture(path, drawing->gallery(&gallery, &picture), &picture), "plot.gallery");
  return 0;
}

/* matrix(path, matrix): likewise */
static int plot_matrix(lua_State *L)
{
  const report_drawing *drawing;
  report_matrix matrix;
  report_picture picture = {0};
  const char *path = begin(L, "plot.matrix", &drawing);
  read_matrix(L, &matrix);
  bind_check(L, write_picture(path, drawing->matrix(&matrix, &picture), &picture), "plot.matrix");
  return 0;
}

void bind_open_plot(lua_State *L)
{
  static const luaL_Reg functions[] = {
      {"lines", plot_lines}, {"sheet", plot_sheet}, {"gallery", plot_gallery}, {"matrix", plot_matrix}, {NULL, NULL}};
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  lua_setfield(L, -2, "plot");
}
