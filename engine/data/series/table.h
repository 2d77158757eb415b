/* table.h -- rows of a time series, sorted by their key.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SERIES_TABLE_H
#define CAPL_DATA_SERIES_TABLE_H

#include "capl/series.h"

/* ---- keys (key.c) ---------------------------------------------------------------------------- */

typedef enum { KEY_NONE, KEY_NUMBER, KEY_DATE } key_kind;

/* What a key sorts by: the number, or seconds of a date with or without a time of day. KEY_NONE = it is neither. */
CAPL_API key_kind series_key(const char *text, double *at);

/* ---- tables (table.c) ------------------------------------------------------------------------ */

typedef struct {
  char *name;            /* of the file, for messages */
  const char *line_word; /* "line" or "row" */
  char **column;         /* names */
  int n_columns;
  uint32_t n_rows, capacity;
  double *at;      /* (n_rows) */
  char **key;      /* (n_rows) */
  uint32_t *line;  /* (n_rows) of the file, or number of the row, from 1 */
  double *value;   /* (n_rows, n_columns); NaN = missing */
} series_table;

/* Reads the key and the columns wanted, all but the key if wanted is NULL. table_fini is due whatever comes back. */
CAPL_API capl_status table_read(series_table *t, const char *path, const char *key, const char *const *wanted,
                                int n_wanted);
capl_status table_copy(series_table *t, const capl_series_table *from, const char *key, const char *const *wanted,
                       int n_wanted);
CAPL_API void table_fini(series_table *t);
/* By key, the rows' own order being forgotten. EFORMAT: a key occurs twice. */
capl_status table_sort(series_table *t, const char *key);
/* Number of the column; EVALUE with the nearest name. */
capl_status table_column(const series_table *t, const char *name, int *column);

#endif
