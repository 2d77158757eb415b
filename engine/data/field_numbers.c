/* field_numbers.c -- points, boxes and numbers of samples, read from tables and from JSON.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/field_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAX = 5, DEEP = 3 };

/* How a row of each kind is written: this many columns, or one more. ORDER capl_field_kind */
static const struct {
  int least, width;
  const char *what, *how;
} kinds[] = {
  {0, 0, "", ""},
  {2, 3, "points", "\"x y\", or \"x y visible\" with 1 or 0"},
  {4, 5, "boxes", "\"left top right bottom\", or with a class after them"},
  {1, 1, "numbers", "names of columns"},
};

static bool is_places(const field_numbers *f) { return f->of.kind != CAPL_FIELD_VALUES; }

/* In one piece of memory: the list, then the names. */
static capl_status copy_columns(field_numbers *f, const capl_number_columns *of)
{
  size_t list = (size_t)of->n_columns * sizeof(char *), bytes = list;
  for (int k = 0; k < of->n_columns; k++) bytes += strlen(of->column[k]) + 1;
  char **column = malloc(bytes), *at = (char *)column + list;
  if (!column) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for its columns", of->name);
  for (int k = 0; k < of->n_columns; k++) {
    column[k] = strcpy(at, of->column[k]);
    at += strlen(at) + 1;
  }
  f->of.column = (const char *const *)column;
  f->of_key = calloc((size_t)of->n_columns, sizeof *f->of_key);
  return f->of_key ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for its columns", of->name);
}

capl_status field_numbers_begin(field_numbers *f, const capl_number_columns *of)
{
  int least = kinds[of->kind].least, width = kinds[of->kind].width;
  bool whole = of->per_row > 0 && of->n_columns > 0 && of->n_columns % of->per_row == 0;
  *f = (field_numbers){.of = *of, .width = width};
  f->of.column = NULL;
  if (whole && (of->per_row == 1 || of->per_row == least || of->per_row == width)) return copy_columns(f, of);
  return CAPL_FAIL(CAPL_EVALUE, "%s: %d columns of %d to a row; a row is %s", of->name, of->n_columns, of->per_row,
                   kinds[of->kind].how);
}

void field_numbers_fini(field_numbers *f)
{
  free((void *)f->of.column);
  free(f->of_key);
  free(f->at);
  free(f->end);
  *f = (field_numbers){0};
}

/* ---- rows ------------------------------------------------------------------------------------ */

static capl_status no_memory(const char *where)
{
  return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for its numbers", where);
}

static capl_status room_for_row(field_numbers *f, const char *where)
{
  if (f->rows < f->room) return CAPL_OK;
  size_t room = f->room + f->room / 2 + 256;
  float *grown = realloc(f->at, room * (size_t)f->width * sizeof *grown);
  if (!grown) return no_memory(where);
  f->at = grown;
  f->room = room;
  return CAPL_OK;
}

/* x[0..n): numbers of a row, NaN = missing. n: `least` or `width` of its kind. */
static capl_status add_row(field_numbers *f, const char *where, const double *x, int n)
{
  int least = kinds[f->of.kind].least;
  bool missing = false;
  for (int k = 0; k < least; k++) missing = missing || isnan(x[k]);
  if (missing && f->of.kind == CAPL_FIELD_BOXES) return CAPL_OK;
  CAPL_TRY(room_for_row(f, where));
  float *row = f->at + f->rows++ * (size_t)f->width;
  for (int k = 0; k < f->width; k++) row[k] = missing ? 0.0f : k < n && !isnan(x[k]) ? (float)x[k] : 0.0f;
  if (f->of.kind == CAPL_FIELD_POINTS && !missing) row[2] = n < 3 || isnan(x[2]) || x[2] > 0;
  return CAPL_OK;
}

/* Of a sample's numbers there are as many as of the first's. */
static capl_status end_sample(field_numbers *f, const char *where)
{
  size_t rows = f->rows - (f->samples ? f->end[f->samples - 1] : 0);
  if (!is_places(f) && (rows == 0 || (f->samples && rows != f->end[0])))
    return CAPL_FAIL(CAPL_EFORMAT, "%s: %s has %zu numbers; %s", where, f->of.name, rows,
                     rows ? "the samples before have another count" : "at least one is needed");
  if (f->samples == f->places) {
    uint32_t places = f->places + f->places / 2 + 256;
    size_t *grown = realloc(f->end, places * sizeof *grown);
    if (!grown) return no_memory(where);
    f->end = grown;
    f->places = places;
  }
  f->end[f->samples++] = f->rows;
  return CAPL_OK;
}

static capl_status check_number(const char *where, const char *column, double x)
{
  if (isfinite((float)x)) return CAPL_OK;
  CAPL_FAIL(CAPL_EFORMAT, "%s: %s is %g; numbers are finite", where, column, x);
  capl_error_hint("repair the number, or remove the sample");
  return CAPL_EFORMAT;
}

static capl_status is_missing(const char *where, const char *column)
{
  CAPL_FAIL(CAPL_EFORMAT, "%s: %s is missing or not a number", where, column);
  capl_error_hint("every sample needs all of its numbers: fill it in, or remove the sample");
  return CAPL_EFORMAT;
}

/* ---- tables ---------------------------------------------------------------------------------- */

capl_status field_numbers_find(const field_numbers *f, const csv *table, int *column)
{
  if (is_places(f) && f->of.per_row == 1) {
    CAPL_FAIL(CAPL_EVALUE, "%s: %s of a table are several columns each, not %s alone", table->name,
              kinds[f->of.kind].what, f->of.column[0]);
    capl_error_hint("write %s = {%s}", f->of.name, kinds[f->of.kind].how);
    return CAPL_EVALUE;
  }
  for (int k = 0; k < f->of.n_columns; k++) {
    column[k] = csv_column(table, f->of.column[k]);
    if (column[k] < 0) return csv_no_column(table, f->of.column[k], f->of.name);
  }
  return CAPL_OK;
}

static capl_status read_cell(const field_numbers *f, const char *where, const csv *table, int column, double *x)
{
  bool missing;
  CAPL_TRY(csv_number(table, column, x, &missing));
  if (!missing) return check_number(where, table->column[column], *x);
  *x = NAN;
  return is_places(f) ? CAPL_OK : is_missing(where, table->column[column]);
}

capl_status field_numbers_add_record(field_numbers *f, const csv *table, const int *column)
{
  char where[512];
  double x[ROW_MAX];
  int n = f->of.per_row;
  snprintf(where, sizeof where, "%s:%u", table->name, table->line);
  for (int k = 0; k < f->of.n_columns; k++) {
    CAPL_TRY(read_cell(f, where, table, column[k], &x[k % n]));
    if (k % n == n - 1) CAPL_TRY(add_row(f, where, x, n));
  }
  return end_sample(f, where);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct {
  field_numbers *f;
  const char *where, *key;
} keyed;

static capl_status read_item(const keyed *k, const cJSON *item, double *x)
{
  *x = NAN;
  if (cJSON_IsNull(item) && is_places(k->f)) return CAPL_OK;
  if (cJSON_IsBool(item)) return *x = cJSON_IsTrue(item), CAPL_OK;
  if (!cJSON_IsNumber(item)) return is_missing(k->where, k->key);
  *x = item->valuedouble;
  return check_number(k->where, k->key, *x);
}

static capl_status add_numbers(const keyed *k, const cJSON *item, int deep)
{
  double x;
  if (cJSON_IsArray(item)) {
    if (deep == DEEP) return CAPL_FAIL(CAPL_EFORMAT, "%s: %s has lists within lists within lists", k->where, k->key);
    const cJSON *one;
    cJSON_ArrayForEach(one, item) CAPL_TRY(add_numbers(k, one, deep + 1));
    return CAPL_OK;
  }
  CAPL_TRY(read_item(k, item, &x));
  return add_row(k->f, k->where, &x, 1);
}

static capl_status not_places(const keyed *k)
{
  const field_numbers *f = k->f;
  CAPL_FAIL(CAPL_EFORMAT, "%s: %s holds no %s", k->where, k->key, kinds[f->of.kind].what);
  capl_error_hint("%s are lists of numbers, %s, or a list of such lists", kinds[f->of.kind].what, kinds[f->of.kind].how);
  return CAPL_EFORMAT;
}

/* [x, y], or a list of such lists. */
static capl_status add_places(const keyed *k, const cJSON *item, int deep)
{
  double x[ROW_MAX];
  int n = 0;
  if (!cJSON_IsArray(item)) return not_places(k);
  const cJSON *one;
  if (!item->child || cJSON_IsArray(item->child)) {
    if (deep) return not_places(k);
    cJSON_ArrayForEach(one, item) CAPL_TRY(add_places(k, one, 1));
    return CAPL_OK;
  }
  cJSON_ArrayForEach(one, item) {
    if (n == k->f->width) return not_places(k);
    CAPL_TRY(read_item(k, one, &x[n++]));
  }
  if (n != kinds[k->f->of.kind].least && n != k->f->width) return not_places(k);
  return add_row(k->f, k->where, x, n);
}

static capl_status find_key(const keyed *k, const cJSON *object, const cJSON **item)
{
  *item = cJSON_GetObjectItemCaseSensitive(object, k->key);
  if (*item) return CAPL_OK;
  CAPL_FAIL(CAPL_EFORMAT, "%s: has no key \"%s\"", k->where, k->key);
  capl_error_hint("the keys of %s are those of its option; null stands for a place that is not there", k->f->of.name);
  return CAPL_EFORMAT;
}

static void note_rows(field_numbers *f, int k, int rows)
{
  f->keyed = true;
  if (f->samples == 0) f->of_key[k] = rows;
  else f->uneven = f->uneven || f->of_key[k] != rows;
}

capl_status field_numbers_add_object(field_numbers *f, const char *where, const cJSON *object)
{
  double x[ROW_MAX];
  int n = f->of.per_row;
  if (!cJSON_IsObject(object)) return CAPL_FAIL(CAPL_EFORMAT, "%s: is no JSON object", where);
  for (int k = 0; k < f->of.n_columns; k++) {
    const cJSON *item;
    const keyed key = {f, where, f->of.column[k]};
    CAPL_TRY(find_key(&key, object, &item));
    size_t before = f->rows;
    if (n == 1) CAPL_TRY(is_places(f) ? add_places(&key, item, 0) : add_numbers(&key, item, 0));
    if (n == 1) note_rows(f, k, (int)(f->rows - before));
    else CAPL_TRY(read_item(&key, item, &x[k % n]));
    if (n > 1 && k % n == n - 1) CAPL_TRY(add_row(f, where, x, n));
  }
  return end_sample(f, where);
}

/* ---- what was read --------------------------------------------------------------------------- */

const float *field_numbers_of(const field_numbers *f, uint32_t i, int *rows)
{
  size_t first = i ? f->end[i - 1] : 0;
  *rows = (int)(f->end[i] - first);
  return f->at ? f->at + first * (size_t)f->width : NULL;
}

int field_numbers_most(const field_numbers *f)
{
  int most = 0, rows;
  for (uint32_t i = 0; i < f->samples; i++) {
    field_numbers_of(f, i, &rows);
    if (rows > most) most = rows;
  }
  return most;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

enum { DIGITS = 9 }; /* as many as tell one float from the next */

static void write_key(const field_numbers *f, int k, FILE *out)
{
  json_put_text(out, f->of.column[k], strlen(f->of.column[k]));
  fputs(": ", out);
}

/* n columns of one row each; rows that are not there are null. */
static void write_columns(const field_numbers *f, const float *x, int rows, FILE *out)
{
  int n = f->of.per_row;
  for (int k = 0; k < f->of.n_columns; k++) {
    const float *row = k / n < rows ? x + (size_t)(k / n) * (size_t)f->width : NULL;
    bool hidden = f->of.kind == CAPL_FIELD_POINTS && n == 2 && row && row[2] <= 0;
    write_key(f, k, out);
    json_put_number(out, row && !hidden ? (double)row[k % n] : NAN, DIGITS);
    if (k + 1 < f->of.n_columns) fputs(", ", out);
  }
}

static void write_row(const field_numbers *f, const float *x, FILE *out)
{
  if (f->width > 1) fputc('[', out);
  for (int i = 0; i < f->width; i++) {
    if (i) fputs(", ", out);
    json_put_number(out, (double)x[i], DIGITS);
  }
  if (f->width > 1) fputc(']', out);
}

/* A list of rows for each key. Where samples differ in how many a key has, all are the first one's: it makes no
** difference to the sample. */
static void write_lists(const field_numbers *f, const float *x, int rows, FILE *out)
{
  for (int k = 0; k < f->of.n_columns; k++) {
    int n = !f->uneven ? f->of_key[k] : k ? 0 : rows;
    if (k) fputs(", ", out);
    write_key(f, k, out);
    fputc('[', out);
    for (int i = 0; i < n; i++, x += f->width) {
      if (i) fputs(", ", out);
      write_row(f, x, out);
    }
    fputc(']', out);
  }
}

void field_numbers_write(const field_numbers *f, uint32_t i, FILE *out)
{
  int rows;
  const float *x = field_numbers_of(f, i, &rows);
  if (f->of.per_row > 1 || !f->keyed) write_columns(f, x, rows, out);
  else write_lists(f, x, rows, out);
}
