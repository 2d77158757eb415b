/* series.h -- time series: tables with a key that only grows, cut into windows, and one that is made up.
**
** A series is sorted by its key, checked, split by time into train, val and test, filled where numbers are missing, and
** scaled by what train alone says. Each part is a source (data.h) without images: field "input" (T,F) holds the
** features of T rows, field "value" (D) the targets `horizon` rows after the last of them. No window reaches over the
** border of its part, so a part of n rows has n - T - horizon + 1 of them at most.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SERIES_H
#define CAPL_SERIES_H

#include "capl/data.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char *key;               /* column that orders the rows: dates, times or numbers, each once; NULL = "date" */
  const char *const *targets;    /* [n_targets] columns to foretell, 1 or more, each once */
  int n_targets;
  const char *const *features;   /* columns; NULL = all but key and targets. A target may be one of them */
  int n_features;
  int window;                    /* T, rows; 0 = 7 */
  int horizon;                   /* rows from a window's last to its target; 0 = 1 */
  double train, val;             /* shares of the rows; 0, 0 = 0.7, 0.15. What is left is test */
  bool unscaled;                 /* numbers stay as they are */
} capl_series_options;

/* A table in memory. */
typedef struct {
  const char *name; /* stands for the file in messages */
  const char *const *column;
  int n_columns;    /* without the key's */
  const char *const *key; /* (n_rows) texts */
  const double *value;    /* (n_rows, n_columns); NaN = missing */
  uint32_t n_rows;
} capl_series_table;

typedef struct capl_series capl_series; /* immutable once made */

typedef enum { CAPL_SERIES_TRAIN, CAPL_SERIES_VAL, CAPL_SERIES_TEST, CAPL_SERIES_PARTS } capl_series_part;

/* From a CSV file, or from a table. *series: caller unrefs.
** EIO; EFORMAT naming file and line: no CSV, a key that is no date or number, one that occurs twice, a number that is
** none or above 1e30;
** EVALUE: no such column (the nearest is named), shares outside 0..1, a part too short for a window, a column without
** any number in train; ENOMEM. */
CAPL_API capl_status capl_series_read(const char *path, const capl_series_options *options, capl_series **series);
CAPL_API capl_status capl_series_from(const capl_series_table *table, const capl_series_options *options,
                                      capl_series **series);
CAPL_API capl_series *capl_series_ref(capl_series *series);
CAPL_API void capl_series_unref(capl_series *series); /* NULL is fine */

/* The windows of one part in the order of time; capl_source_name of sample i is the key of its targets' row. Holds a
** reference. EVALUE if the part has none. */
CAPL_API capl_status capl_source_series_new(capl_series *series, capl_series_part part, capl_source **source);

typedef struct {
  uint32_t rows, windows[CAPL_SERIES_PARTS], part_rows[CAPL_SERIES_PARTS];
  uint32_t filled;    /* numbers that were missing: the last one before, else train's mean */
  uint32_t untold;    /* windows left out because a target is missing */
  uint32_t irregular; /* steps of the key that are longer than its shortest */
  uint32_t holes, hole_line; /* steps that are half as long again, months being equal; line, or row, after the first */
  int n_features, n_targets;
} capl_series_facts;

CAPL_API void capl_series_facts_get(const capl_series *series, capl_series_facts *facts);
/* Name of feature i and how it was scaled; NULL past the last. Borrowed. */
CAPL_API const char *capl_series_feature(const capl_series *series, int i, double *mean, double *deviation);
/* The same of target i: value = (x - mean) / deviation of train; 0, 1 when unscaled. */
CAPL_API const char *capl_series_target(const capl_series *series, int i, double *mean, double *deviation);

#ifdef __cplusplus
}
#endif
#endif
