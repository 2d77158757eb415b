/* series.c -- a sorted table split by time, filled, scaled, and cut into windows; each part as a source.
**
** Order matters: the split comes first, and what is learnt of the numbers (means, deviations) is learnt of train alone,
** so nothing of val or test is ever seen by train.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "data/series/table.h"
#include "data/source.h"

typedef struct {
  uint32_t from, to;    /* rows */
  uint32_t *start;      /* first rows of windows whose target is known */
  uint32_t n_windows;
} part;

struct capl_series {
  atomic_int refs;
  series_table table;  /* only features, then the targets; emptied of numbers once they are scaled */
  int n_features, n_targets, window, horizon;
  double *mean, *deviation; /* (n_columns) of train */
  float *x;            /* (rows, n_features), scaled */
  float *y;            /* (rows, n_targets), scaled */
  bool *given;          /* (rows): the targets were in the file */
  part part[CAPL_SERIES_PARTS];
  capl_series_facts facts;
};

static const char *const part_names[] = {"train", "val", "test"};

/* ---- split ----------------------------------------------------------------------------------- */

static capl_status check_options(const capl_series_options *o)
{
  if (o->n_targets < 1) return CAPL_FAIL(CAPL_EVALUE, "a series needs a target column");
  for (int i = 1; i < o->n_targets; i++)
    for (int k = 0; k < i; k++)
      if (strcmp(o->targets[i], o->targets[k]) == 0)
        return CAPL_FAIL(CAPL_EVALUE, "%s is a target twice", o->targets[i]);
  if (o->window < 0 || o->window > 65536)
    return CAPL_FAIL(CAPL_EVALUE, "window is %d rows; it must be 1..65536", o->window);
  if (o->horizon < 0 || o->horizon > 65536)
    return CAPL_FAIL(CAPL_EVALUE, "horizon is %d rows; it must be 1..65536", o->horizon);
  if (o->train >= 0 && o->train <= 1 && o->val >= 0 && o->val <= 1 && o->train + o->val <= 1 + 1e-9
      && (o->train > 0 || o->val == 0))
    return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE,
                   "shares of train and val are %g and %g; train is above 0, and together they are at most 1", o->train,
                   o->val);
}

/* Rows of each part by time. A hundredth of a row more makes 0.7 of 10 rows seven, whatever 0.7 is in binary. */
static void split(capl_series *s, const capl_series_options *o)
{
  double train = o->train > 0 ? o->train : 0.7, val = o->train > 0 ? o->val : 0.15, n = s->table.n_rows;
  uint32_t a = (uint32_t)(n * train + 0.01), b = (uint32_t)(n * (train + val) + 0.01);
  if (b > s->table.n_rows) b = s->table.n_rows;
  s->part[CAPL_SERIES_TRAIN] = (part){.from = 0, .to = a};
  s->part[CAPL_SERIES_VAL] = (part){.from = a, .to = b};
  s->part[CAPL_SERIES_TEST] = (part){.from = b, .to = s->table.n_rows};
}

/* A part that is wanted has room for a window. */
static capl_status check_lengths(const capl_series *s)
{
  int needed = s->window + s->horizon;
  for (int k = 0; k < CAPL_SERIES_PARTS; k++) {
    const part *p = &s->part[k];
    if (p->to - p->from >= (uint32_t)needed || (p->to == p->from && k != CAPL_SERIES_TRAIN)) continue;
    return CAPL_FAIL(CAPL_EVALUE, "%s: the %s part has %u of %u rows; a window of %d and a target %d later need %d",
                     s->table.name, part_names[k], p->to - p->from, s->table.n_rows, s->window, s->horizon, needed);
  }
  return CAPL_OK;
}

/* ---- filling and scaling --------------------------------------------------------------------- */

static double *cell(const capl_series *s, uint32_t row, int column)
{
  return &s->table.value[(size_t)row * (size_t)s->table.n_columns + (size_t)column];
}

/* Mean of what train has of a column. */
static capl_status train_mean(const capl_series *s, int column, double *mean)
{
  double sum = 0, n = 0;
  for (uint32_t row = 0; row < s->part[0].to; row++)
    if (!isnan(*cell(s, row, column))) sum += *cell(s, row, column), n++;
  if (n == 0)
    return CAPL_FAIL(CAPL_EVALUE, "%s: %s has no number in the %u rows of train", s->table.name,
                     s->table.column[column], s->part[0].to);
  *mean = sum / n;
  return CAPL_OK;
}

/* What a 32-bit float holds, and its square a double, with room to spare. */
static capl_status check_sizes(const capl_series *s, int column)
{
  for (uint32_t row = 0; row < s->table.n_rows; row++)
    if (fabs(*cell(s, row, column)) > 1e30)
      return CAPL_FAIL(CAPL_EFORMAT, "%s:%u: %s is %g; numbers here are at most 1e30", s->table.name,
                       s->table.line[row], s->table.column[column], *cell(s, row, column));
  return CAPL_OK;
}

/* The last number before; at the beginning, where there is none, train's mean. Returns how many were missing. */
static uint32_t fill(capl_series *s, int column, double mean)
{
  double last = mean;
  uint32_t filled = 0;
  for (uint32_t row = 0; row < s->table.n_rows; row++) {
    double *x = cell(s, row, column);
    if (!isnan(*x)) last = *x;
    else *x = last, filled++;
  }
  return filled;
}

static bool is_feature(const capl_series *s, const char *name)
{
  for (int i = 0; i < s->n_features; i++)
    if (strcmp(s->table.column[i], name) == 0) return true;
  return false;
}

/* Mean and deviation over train (by n, not n - 1); a column that never changes is only moved. */
static void measure(capl_series *s, int column)
{
  double sum = 0, squares = 0, n = s->part[0].to;
  for (uint32_t row = 0; row < s->part[0].to; row++) sum += *cell(s, row, column);
  s->mean[column] = sum / n;
  for (uint32_t row = 0; row < s->part[0].to; row++) {
    double away = *cell(s, row, column) - s->mean[column];
    squares += away * away;
  }
  double deviation = sqrt(squares / n), scale = fabs(s->mean[column]) > 1 ? fabs(s->mean[column]) : 1;
  s->deviation[column] = deviation > 1e-12 * scale ? deviation : 1;
}

static bool has_targets(const capl_series *s, uint32_t row)
{
  bool has = true;
  for (int i = 0; i < s->n_targets; i++) has = has && !isnan(*cell(s, row, s->n_features + i));
  return has;
}

static capl_status prepare(capl_series *s, bool unscaled)
{
  for (uint32_t row = 0; row < s->table.n_rows; row++) s->given[row] = has_targets(s, row);
  for (int column = 0; column < s->table.n_columns; column++) {
    double mean;
    CAPL_TRY(check_sizes(s, column));
    CAPL_TRY(train_mean(s, column, &mean));
    uint32_t filled = fill(s, column, mean);
    if (column < s->n_features || !is_feature(s, s->table.column[column])) s->facts.filled += filled;
    s->deviation[column] = 1;
    if (!unscaled) measure(s, column);
  }
  return CAPL_OK;
}

static void scale(capl_series *s)
{
  float *x = s->x, *y = s->y;
  for (uint32_t row = 0; row < s->table.n_rows; row++)
    for (int i = 0; i < s->table.n_columns; i++) {
      float scaled = (float)((*cell(s, row, i) - s->mean[i]) / s->deviation[i]);
      if (i < s->n_features) *x++ = scaled;
      else *y++ = scaled;
    }
  free(s->table.value);
  s->table.value = NULL;
}

/* ---- windows --------------------------------------------------------------------------------- */

static capl_status cut(capl_series *s)
{
  for (int k = 0; k < CAPL_SERIES_PARTS; k++) {
    part *p = &s->part[k];
    uint32_t reach = (uint32_t)(s->window - 1 + s->horizon);
    p->start = malloc(((size_t)(p->to - p->from) + 1) * sizeof *p->start);
    if (!p->start) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the windows of a series");
    for (uint32_t row = p->from; row + reach < p->to; row++) {
      if (s->given[row + reach]) p->start[p->n_windows++] = row;
      else s->facts.untold++;
    }
    s->facts.windows[k] = p->n_windows;
    s->facts.part_rows[k] = p->to - p->from;
  }
  return CAPL_OK;
}

static void find_holes(const series_table *t, capl_series_facts *facts)
{
  double shortest = INFINITY;
  for (uint32_t i = 1; i < t->n_rows; i++) shortest = fmin(shortest, t->at[i] - t->at[i - 1]);
  for (uint32_t i = 1; i < t->n_rows; i++) {
    double step = t->at[i] - t->at[i - 1];
    facts->irregular += step > 1.001 * shortest;
    if (step > 1.5 * shortest && facts->holes++ == 0) facts->hole_line = t->line[i];
  }
}

/* ---- making ---------------------------------------------------------------------------------- */

static capl_status allocate(capl_series *s)
{
  size_t rows = s->table.n_rows, columns = (size_t)s->table.n_columns;
  s->mean = calloc(columns, sizeof *s->mean);
  s->deviation = calloc(columns, sizeof *s->deviation);
  s->x = malloc((rows * (size_t)s->n_features + 1) * sizeof *s->x);
  s->y = malloc((rows * (size_t)s->n_targets + 1) * sizeof *s->y);
  s->given = malloc(rows + 1);
  if (s->mean && s->deviation && s->x && s->y && s->given) return CAPL_OK;
  return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for %u rows of %d features", s->table.name, s->table.n_rows,
                   s->n_features);
}

static capl_status build(capl_series *s, const capl_series_options *o, const char *key)
{
  CAPL_TRY(table_sort(&s->table, key));
  split(s, o);
  CAPL_TRY(check_lengths(s));
  CAPL_TRY(allocate(s));
  CAPL_TRY(prepare(s, o->unscaled));
  scale(s);
  CAPL_TRY(cut(s));
  s->facts.rows = s->table.n_rows;
  find_holes(&s->table, &s->facts);
  s->facts.n_features = s->n_features;
  s->facts.n_targets = s->n_targets;
  return CAPL_OK;
}

/* Moves a column behind all others. */
static capl_status put_last(capl_series *s, const char *target)
{
  series_table *t = &s->table;
  int at, last = t->n_columns - 1;
  CAPL_TRY(table_column(t, target, &at));
  char *name = t->column[at];
  memmove(t->column + at, t->column + at + 1, (size_t)(last - at) * sizeof *t->column);
  t->column[last] = name;
  for (uint32_t row = 0; row < t->n_rows; row++) {
    double *value = t->value + (size_t)row * (size_t)t->n_columns, x = value[at];
    memmove(value + at, value + at + 1, (size_t)(last - at) * sizeof *value);
    value[last] = x;
  }
  return CAPL_OK;
}

/* Features first, the targets last. Of a table's columns without a choice, the targets are put there by name. */
static capl_status put_targets_last(capl_series *s, const capl_series_options *o)
{
  for (int i = 0; i < o->n_targets; i++) CAPL_TRY(put_last(s, o->targets[i]));
  if (s->table.n_columns > o->n_targets) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s has no column beside its key and %s; features = {\"%s\"} foretells it from itself",
                   s->table.name, o->targets[0], o->targets[0]);
}

static capl_status make(const char *path, const capl_series_table *given, const capl_series_options *o,
                        const char **wanted, capl_series *s)
{
  const char *key = o->key ? o->key : "date";
  int n = o->features ? o->n_features + o->n_targets : 0;
  for (int i = 0; i < o->n_features; i++) {
    if (strcmp(o->features[i], key) == 0) return CAPL_FAIL(CAPL_EVALUE, "%s is the key; it cannot be a feature", key);
    wanted[i] = o->features[i];
  }
  for (int i = 0; i < o->n_targets; i++) {
    if (strcmp(o->targets[i], key) == 0) return CAPL_FAIL(CAPL_EVALUE, "%s is the key; it cannot be the target", key);
    wanted[o->n_features + i] = o->targets[i];
  }
  const char *const *choice = n ? wanted : NULL;
  CAPL_TRY(path ? table_read(&s->table, path, key, choice, n) : table_copy(&s->table, given, key, choice, n));
  s->window = o->window ? o->window : 7;
  s->horizon = o->horizon ? o->horizon : 1;
  if (!n) CAPL_TRY(put_targets_last(s, o));
  s->n_targets = o->n_targets;
  s->n_features = s->table.n_columns - o->n_targets;
  return build(s, o, key);
}

static capl_status new_series(const char *path, const capl_series_table *given, const capl_series_options *o,
                              capl_series **series)
{
  CAPL_TRY(check_options(o));
  capl_series *s = calloc(1, sizeof *s);
  const char **wanted = malloc((size_t)(o->n_features + o->n_targets) * sizeof *wanted);
  capl_status status = CAPL_OK;
  if (!s || !wanted) {
    free(s);
    s = NULL;
    status = CAPL_FAIL(CAPL_ENOMEM, "no memory for a series");
  } else {
    s->refs = 1;
    status = make(path, given, o, wanted, s);
  }
  free(wanted);
  if (status != CAPL_OK) capl_series_unref(s);
  else *series = s;
  return status;
}

capl_status capl_series_read(const char *path, const capl_series_options *options, capl_series **series)
{
  return new_series(path, NULL, options, series);
}

capl_status capl_series_from(const capl_series_table *table, const capl_series_options *options, capl_series **series)
{
  return new_series(NULL, table, options, series);
}

capl_series *capl_series_ref(capl_series *s)
{
  atomic_fetch_add(&s->refs, 1);
  return s;
}

void capl_series_unref(capl_series *s)
{
  if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
  for (int k = 0; k < CAPL_SERIES_PARTS; k++) free(s->part[k].start);
  table_fini(&s->table);
  free(s->mean);
  free(s->deviation);
  free(s->x);
  free(s->y);
  free(s->given);
  free(s);
}

void capl_series_facts_get(const capl_series *s, capl_series_facts *facts)
{
  *facts = s->facts;
}

static const char *column_of(const capl_series *s, int i, double *mean, double *deviation)
{
  *mean = s->mean[i];
  *deviation = s->deviation[i];
  return s->table.column[i];
}

const char *capl_series_feature(const capl_series *s, int i, double *mean, double *deviation)
{
  return i >= 0 && i < s->n_features ? column_of(s, i, mean, deviation) : NULL;
}

const char *capl_series_target(const capl_series *s, int i, double *mean, double *deviation)
{
  return i >= 0 && i < s->n_targets ? column_of(s, s->n_features + i, mean, deviation) : NULL;
}

/* ---- a part as a source ---------------------------------------------------------------------- */

typedef struct {
  capl_source base;
  capl_series *series;
  const part *part;
} series_source;

/* A window lies in one piece already, and its targets too. */
static capl_status series_borrow(capl_source *source, const capl_read *what, capl_image *scratch, capl_sample *at,
                                 bool *lent)
{
  (void)scratch;
  const series_source *self = (const series_source *)source;
  const capl_series *s = self->series;
  size_t row = self->part->start[what->id];
  at->field[0] = s->x + row * (size_t)s->n_features;
  at->field[1] = s->y + (row + (size_t)(s->window - 1 + s->horizon)) * (size_t)s->n_targets;
  *lent = true;
  return CAPL_OK;
}

static capl_status series_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  capl_sample at = {0};
  bool lent;
  CAPL_TRY(series_borrow(source, what, scratch, &at, &lent));
  for (int i = 0; i < 2; i++)
    if (to->field[i]) memcpy(to->field[i], at.field[i], capl_field_bytes(&source->field[i]));
  return CAPL_OK;
}

static const char *series_name(const capl_source *source, uint32_t i)
{
  const series_source *self = (const series_source *)source;
  return self->series->table.key[self->part->start[i] + (uint32_t)(self->series->window - 1 + self->series->horizon)];
}

static void series_close(capl_source *source)
{
  capl_series_unref(((series_source *)source)->series);
  free(source);
}

static void add_field(capl_source *s, const char *name, int ndim, int size0, int size1)
{
  capl_field *field = &s->field[s->n_fields++];
  *field = (capl_field){.kind = CAPL_FIELD_VALUES, .ndim = ndim, .size = {size0, size1}};
  strncpy(field->name, name, sizeof field->name - 1);
}

capl_status capl_source_series_new(capl_series *series, capl_series_part which, capl_source **source)
{
  static const capl_source_ops ops = {.read = series_read, .borrow = series_borrow, .close = series_close,
                                      .name = series_name};
  const part *p = &series->part[which];
  if (p->n_windows == 0)
    return CAPL_FAIL(CAPL_EVALUE, "%s: the %s part has %u rows and no window whose target is known", series->table.name,
                     part_names[which], p->to - p->from);
  series_source *self = calloc(1, sizeof *self);
  if (!self) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a part of a series");
  self->base = (capl_source){.ops = &ops, .refs = 1, .count = p->n_windows, .fixed = true};
  self->series = capl_series_ref(series);
  self->part = p;
  add_field(&self->base, "input", 2, series->window, series->n_features);
  add_field(&self->base, "value", 1, series->n_targets, 0);
  *source = &self->base;
  return CAPL_OK;
}
