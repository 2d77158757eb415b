/* fields.h -- masks, points, boxes and numbers for the fuzz targets whose files hold some.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_FUZZ_FIELDS_H
#define CAPL_FUZZ_FIELDS_H

#include "fuzz.h"

#include "data/file_fields.h"

static inline void fuzz_fields(file_fields *fields)
{
  static const char *const places[] = {"p"}, *const corners[] = {"x", "y", "r", "b"};
  static const capl_file_fields of = {
    .mask = {.column = "mask"},
    .target = {.column = "target"},
    .n_numbers = 2, /* a sample has CAPL_FIELDS_MAX at most */
    .numbers = {{"points", CAPL_FIELD_POINTS, places, 1, 1}, {"boxes", CAPL_FIELD_BOXES, corners, 4, 4}}};
  FUZZ_CHECK(file_fields_begin(fields, &of, "fuzz") == CAPL_OK);
}

/* What was written of sample i reads as the same rows. */
static inline void fuzz_read_back(const file_fields *fields, uint32_t i)
{
  char *json;
  size_t size;
  file_fields again = {0};
  JSON_OWNED *object = NULL;
  FILE *out = open_memstream(&json, &size);
  FUZZ_CHECK(file_fields_write(fields, i, out) == CAPL_OK && fclose(out) == 0);
  FUZZ_CHECK(json_read(NULL, json, size, &object) == CAPL_OK);
  fuzz_fields(&again);
  for (int k = 0; k < fields->n_numbers; k++) {
    int rows, rows_again, width = fields->numbers[k].width;
    FUZZ_CHECK(field_numbers_add_object(&again.numbers[k], "again", object) == CAPL_OK);
    const float *x = field_numbers_of(&fields->numbers[k], i, &rows);
    const float *y = field_numbers_of(&again.numbers[k], 0, &rows_again);
    FUZZ_CHECK(rows == rows_again && (!rows || memcmp(x, y, (size_t)(rows * width) * sizeof *x) == 0));
  }
  file_fields_fini(&again);
  free(json);
}

static inline void fuzz_check_fields(const file_fields *fields, uint32_t samples)
{
  for (int k = 0; k < fields->n_numbers; k++) {
    const field_numbers *f = &fields->numbers[k];
    FUZZ_CHECK(f->samples == samples);
    for (size_t i = 0; i < f->rows * (size_t)f->width; i++) FUZZ_CHECK(f->at[i] - f->at[i] == 0);
  }
  for (uint32_t i = 0; i < samples; i++) fuzz_read_back(fields, i);
}

#endif
