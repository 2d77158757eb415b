/* names.h -- "did you mean": the nearest of a list of names.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_NAMES_H
#define CAPL_BASE_NAMES_H

#include "capl/error.h"

/* Edits between two short names, in halves: a letter more, less or other and two swapped ones are an edit, its case
** half of one. */
CAPL_API int capl_name_distance(const char *a, const char *b);

/* Keeps the nearest candidate seen so far. Start with {.wanted = name}. */
typedef struct {
  const char *wanted;
  const char *nearest; /* NULL until a candidate is near enough to be a slip of the pen */
  int distance;
} capl_suggestion;

CAPL_API void capl_suggest(capl_suggestion *s, const char *candidate);

#endif
