/* csv.h -- tables of text: CSV as of RFC 4180, and lists separated by tabs or semicolons.
**
** The whole file is held in memory and cut up in place, so a record costs no allocation and its fields are plain
** NUL-ended strings, good until csv_fini. Lines end with LF, CR LF or CR; blank ones are skipped, a UTF-8 byte order
** mark too. A field in quotes may hold separators, line ends and doubled quotes; quotes inside other fields stand for
** themselves. Refused, with the line: NUL bytes, quotes that are not closed, text after a closing quote, fields above
** CSV_FIELD_MAX, more than CSV_FIELDS_MAX fields, records with other than the header's number of fields.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_CSV_H
#define CAPL_DATA_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

enum { CSV_FIELD_MAX = 1 << 20 /* bytes */, CSV_FIELDS_MAX = 4096 };

typedef struct {
  char separator; /* 0 = ','; any byte but a quote or a line end */
  bool plain;     /* quotes are characters like others: for lists separated by tabs */
} csv_style;

typedef struct {
  char *name;     /* stands for the file in messages */
  char **column;  /* the header's names without blanks around them; NULL before csv_header */
  int n_columns;
  char **field;   /* of the record at hand */
  int n_fields;
  uint32_t line;  /* on which that record begins, from 1 */
  /* private */
  csv_style style;
  char *bytes, *at, *end;
  uint32_t next_line;
  int capacity;
} csv; /* start from {0} */

/* Reads a whole file, or copies bytes that name stands for. csv_fini is due whatever comes back.
** EIO: cannot be read, is no file; EFORMAT: holds NUL bytes or is UTF-16; EVALUE: above 2 GiB; ENOMEM. */
CAPL_API capl_status csv_open(csv *table, const char *path, csv_style style);
CAPL_API capl_status csv_from(csv *table, const void *bytes, size_t size, const char *name, csv_style style);
CAPL_API void csv_fini(csv *table);

/* Takes the first record as names of the columns; each later one must have as many fields.
** EFORMAT: there is none, a name occurs twice (empty ones may). */
CAPL_API capl_status csv_header(csv *table);
/* The next record; *more is false after the last. EFORMAT naming file and line. */
CAPL_API capl_status csv_next(csv *table, bool *more);

/* Number of the column of that name, -1 = there is none. */
CAPL_API int csv_column(const csv *table, const char *name);
/* EFORMAT: there is none of that name, with those that there are; option: of data.list, which names it. */
capl_status csv_no_column(const csv *table, const char *name, const char *option);
/* Field i of the record at hand as a number, in any language's locale with a decimal point; blanks around it are
** fine. *missing: it is empty, NA, NaN, null or a hyphen, and *value is 0. EFORMAT naming file, line and column. */
CAPL_API capl_status csv_number(const csv *table, int i, double *value, bool *missing);

#endif
