/* table.c -- rows of a time series, from a file or from memory, sorted by their key.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/series/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "data/csv.h"

/* ---- rows ------------------------------------------------------------------------------------ */

static capl_status no_memory(const series_table *t)
{
  return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for %u rows of %d columns", t->name ? t->name : "a series", t->capacity,
                   t->n_columns);
}

static bool grow(void **array, size_t count, size_t size)
{
  void *grown = realloc(*array, (count ? count : 1) * size);
  if (grown) *array = grown;
  return grown != NULL;
}

static capl_status reserve(series_table *t, uint32_t rows)
{
  if (rows <= t->capacity) return CAPL_OK;
  t->capacity = rows > 2 * t->capacity ? rows : 2 * t->capacity;
  size_t n = t->capacity;
  bool fine = grow((void **)&t->at, n, sizeof *t->at) && grow((void **)&t->key, n, sizeof *t->key) &&
              grow((void **)&t->line, n, sizeof *t->line)
              && grow((void **)&t->value, n * (size_t)t->n_columns, sizeof *t->value);
  return fine ? CAPL_OK : no_memory(t);
}

/* A key that cannot be sorted, or not with those before it. */
static capl_status bad_key(const series_table *t, uint32_t line, const char *column, const char *text, key_kind kind)
{
  char shown[120];
  capl_text_show(shown, sizeof shown, text, false);
  if (kind == KEY_NONE)
    CAPL_FAIL(CAPL_EFORMAT, "%s:%u: %s: '%s' is no date and no number", t->name, line, column, shown);
  else CAPL_FAIL(CAPL_EFORMAT, "%s:%u: %s: '%s' is a %s, the rows before have a %s", t->name, line, column, shown,
                 kind == KEY_DATE ? "date" : "number", kind == KEY_DATE ? "number" : "date");
  capl_error_hint("write dates as 2015-02-28 or 2015-02-28 13:45");
  return CAPL_EFORMAT;
}

/* A new last row, its values still to be set. */
static capl_status add_row(series_table *t, const char *column, const char *text, uint32_t line, key_kind *expected)
{
  double at;
  key_kind kind = series_key(text, &at);
  if (kind == KEY_NONE || (*expected != KEY_NONE && kind != *expected)) return bad_key(t, line, column, text, kind);
  *expected = kind;
  CAPL_TRY(reserve(t, t->n_rows + 1));
  char *key = strdup(text);
  if (!key) return no_memory(t);
  t->at[t->n_rows] = at;
  t->line[t->n_rows] = line;
  t->key[t->n_rows++] = key;
  return CAPL_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

static capl_status no_column(const char *table, const char *name, const char *const *column, int n)
{
  char shown[300];
  capl_suggestion near = {.wanted = name};
  for (int i = 0; i < n; i++) capl_suggest(&near, column[i]);
  capl_text_show(shown, sizeof shown, name, false);
  if (near.nearest) return CAPL_FAIL(CAPL_EVALUE, "%s has no column %s; did you mean %s?", table, shown, near.nearest);
  char all[300] = "";
  for (int i = 0; i < n && strlen(all) + strlen(column[i]) + 3 < sizeof all; i++)
    strcat(strcat(all, i ? ", " : ""), column[i]);
  CAPL_FAIL(CAPL_EVALUE, "%s has no column %s", table, shown);
  capl_text_show(shown, sizeof shown, all, false);
  capl_error_hint("there are: %s", shown);
  return CAPL_EVALUE;
}

static int find(const char *name, const char *const *column, int n)
{
  for (int i = 0; i < n; i++)
    if (strcmp(column[i], name) == 0) return i;
  return -1;
}

/* Which columns of n to take, in the wanted order or all but the key; their names become the table's. from: room for as
** many places as there are columns or wanted ones. */
static capl_status choose(series_table *t, const char *const *column, int n, int key, const char *const *wanted,
                          int n_wanted, int *from)
{
  t->column = calloc((size_t)(n > n_wanted ? n : n_wanted) + 1, sizeof *t->column);
  if (!t->column) return no_memory(t);
  for (int i = 0; i < (wanted ? n_wanted : n); i++) {
    int at = wanted ? find(wanted[i], column, n) : i;
    if (at < 0) return no_column(t->name, wanted[i], column, n);
    if (at == key || !*column[at]) continue;
    from[t->n_columns] = at;
    t->column[t->n_columns] = strdup(column[at]);
    if (!t->column[t->n_columns++]) return no_memory(t);
  }
  return CAPL_OK;
}

capl_status table_column(const series_table *t, const char *name, int *column)
{
  *column = find(name, (const char *const *)t->column, t->n_columns);
  return *column >= 0 ? CAPL_OK : no_column(t->name, name, (const char *const *)t->column, t->n_columns);
}

/* ---- from a file ----------------------------------------------------------------------------- */

static capl_status read_row(series_table *t, csv *file, int key, const int *from, key_kind *kind)
{
  CAPL_TRY(add_row(t, file->column[key], file->field[key], file->line, kind));
  double *value = t->value + (size_t)(t->n_rows - 1) * (size_t)t->n_columns;
  for (int i = 0; i < t->n_columns; i++) {
    bool missing;
    CAPL_TRY(csv_number(file, from[i], &value[i], &missing));
    if (missing) value[i] = NAN;
  }
  return CAPL_OK;
}

static capl_status read_rows(series_table *t, csv *file, const char *key, const char *const *wanted, int n_wanted,
                             int *from)
{
  int at = csv_column(file, key);
  if (at < 0) return no_column(t->name, key, (const char *const *)file->column, file->n_columns);
  CAPL_TRY(choose(t, (const char *const *)file->column, file->n_columns, at, wanted, n_wanted, from));
  key_kind kind = KEY_NONE;
  for (bool more;;) {
    CAPL_TRY(csv_next(file, &more));
    if (!more) return CAPL_OK;
    capl_status status = read_row(t, file, at, from, &kind);
    if (status == CAPL_EFORMAT && !wanted) capl_error_hint("features = {…} names the columns that hold numbers");
    CAPL_TRY(status);
  }
}

capl_status table_read(series_table *t, const char *path, const char *key, const char *const *wanted, int n_wanted)
{
  csv file;
  *t = (series_table){.name = strdup(path), .line_word = "line"};
  if (!t->name) return no_memory(t);
  capl_status status = csv_open(&file, path, (csv_style){0});
  if (status == CAPL_OK) status = csv_header(&file);
  int *from = status == CAPL_OK ? calloc((size_t)file.n_columns + (size_t)n_wanted + 1, sizeof *from) : NULL;
  if (status == CAPL_OK) status = from ? read_rows(t, &file, key, wanted, n_wanted, from) : no_memory(t);
  free(from);
  csv_fini(&file);
  return status;
}

/* ---- from memory ----------------------------------------------------------------------------- */

static capl_status copy_rows(series_table *t, const capl_series_table *given, const char *key, const int *from)
{
  key_kind kind = KEY_NONE;
  for (uint32_t row = 0; row < given->n_rows; row++) {
    CAPL_TRY(add_row(t, key, given->key[row], row + 1, &kind));
    for (int i = 0; i < t->n_columns; i++) {
      double x = given->value[(size_t)row * (size_t)given->n_columns + (size_t)from[i]];
      if (isinf(x)) return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: %s is infinite", t->name, row + 1, t->column[i]);
      t->value[(size_t)row * (size_t)t->n_columns + (size_t)i] = x;
    }
  }
  return CAPL_OK;
}

capl_status table_copy(series_table *t, const capl_series_table *given, const char *key, const char *const *wanted,
                       int n_wanted)
{
  *t = (series_table){.name = strdup(given->name), .line_word = "row"};
  int *from = calloc((size_t)given->n_columns + (size_t)n_wanted + 1, sizeof *from);
  capl_status status = t->name && from ? choose(t, given->column, given->n_columns, -1, wanted, n_wanted, from)
      : no_memory(t);
  if (status == CAPL_OK) status = copy_rows(t, given, key, from);
  free(from);
  return status;
}

void table_fini(series_table *t)
{
  for (int i = 0; t->column && i < t->n_columns; i++) free(t->column[i]);
  for (uint32_t i = 0; i < t->n_rows; i++) free(t->key[i]);
  free(t->column);
  free(t->at);
  free(t->key);
  free(t->line);
  free(t->value);
  free(t->name);
  *t = (series_table){0};
}

/* ---- sorting --------------------------------------------------------------------------------- */

typedef struct {
  double at;
  uint32_t row, line;
} place;

static int compare(const void *a, const void *b)
{
  const place *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->line < y->line ? -1 : x->line > y->line;
}

static capl_status check_once(const series_table *t, const place *order, const char *key)
{
  char shown[120];
  for (uint32_t i = 1; i < t->n_rows; i++) {
    if (order[i].at != order[i - 1].at) continue;
    capl_text_show(shown, sizeof shown, t->key[order[i].row], false);
    return CAPL_FAIL(CAPL_EFORMAT, "%s: %ss %u and %u have the same %s, %s", t->name, t->line_word, order[i - 1].line,
                     order[i].line, key, shown);
  }
  return CAPL_OK;
}

/* Moves rows to their places in fresh memory. */
static capl_status rearrange(series_table *t, const place *order)
{
  size_t n = t->n_rows, width = (size_t)t->n_columns;
  double *at = malloc((n + 1) * sizeof *at), *value = malloc((n * width + 1) * sizeof *value);
  char **key = malloc((n + 1) * sizeof *key);
  uint32_t *line = malloc((n + 1) * sizeof *line);
  if (!at || !value || !key || !line) return free(at), free(value), free(key), free(line), no_memory(t);
  for (size_t i = 0; i < n; i++) {
    at[i] = order[i].at;
    line[i] = order[i].line;
    key[i] = t->key[order[i].row];
    memcpy(value + i * width, t->value + order[i].row * width, width * sizeof *value);
  }
  free(t->at), free(t->key), free(t->line), free(t->value);
  t->at = at, t->key = key, t->line = line, t->value = value;
  return CAPL_OK;
}

capl_status table_sort(series_table *t, const char *key)
{
  place *order = malloc(((size_t)t->n_rows + 1) * sizeof *order);
  if (!order) return no_memory(t);
  for (uint32_t i = 0; i < t->n_rows; i++) order[i] = (place){t->at[i], i, t->line[i]};
  qsort(order, t->n_rows, sizeof *order, compare);
  capl_status status = check_once(t, order, key);
  if (status == CAPL_OK) status = rearrange(t, order);
  free(order);
  return status;
}
