/* field_numbers.h -- points, boxes and numbers of samples as files give them: columns of a table, keys of JSON.
**
** Points become x, y, 1 = visible or 0 = not; boxes left, top, right, bottom, class. A point of which a coordinate is
** missing is not visible, a box of which one is missing does not exist; a number may not be missing.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_FIELD_NUMBERS_H
#define CAPL_DATA_FIELD_NUMBERS_H

#include "base/json.h"
#include "capl/source.h"
#include "data/csv.h"

/* Rows of all samples, one after another: sample i has those up to end[i]. */
typedef struct {
  capl_number_columns of; /* columns are owned */
  int width;              /* numbers of a row: 3 of points, 5 of boxes, 1 of others */
  float *at;
  size_t rows, room;
  size_t *end; /* [samples] */
  uint32_t samples, places;
  int *of_key;  /* [n_columns] rows that each key of the first sample's object gave */
  bool keyed, uneven; /* they come from objects; another sample's gave others */
} field_numbers;

/* From a list of columns. EVALUE: no column, a row of another number of columns than its kind has; ENOMEM. */
CAPL_API capl_status field_numbers_begin(field_numbers *f, const capl_number_columns *of);
void field_numbers_fini(field_numbers *f);

/* The numbers of the columns in the header: column[n_columns]. EFORMAT naming one that is not there. */
capl_status field_numbers_find(const field_numbers *f, const csv *table, int *column);
/* The next sample, from the record at hand. EFORMAT, with file, line and column; ENOMEM. */
capl_status field_numbers_add_record(field_numbers *f, const csv *table, const int *column);
/* The same from an object; where = "a.json" or "list.jsonl:7" in messages. */
CAPL_API capl_status field_numbers_add_object(field_numbers *f, const char *where, const cJSON *object);

/* Rows of sample i. */
CAPL_API const float *field_numbers_of(const field_numbers *f, uint32_t i, int *rows);
/* Rows of the sample that has most. */
int field_numbers_most(const field_numbers *f);
/* The numbers of sample i as members of a JSON object, "x": 1, "y": 2, which field_numbers_add_object reads as the same
** rows. */
void field_numbers_write(const field_numbers *f, uint32_t i, FILE *out);

#endif
