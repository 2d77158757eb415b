/* texts.h -- many short texts in one piece of memory: names of files and their labels, a million of each.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_TEXTS_H
#define CAPL_DATA_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#include "capl/data.h"

/* Text number i begins at bytes[at[i]]. A replaced text stays in memory when the new one is longer. */
typedef struct {
  char *bytes;
  size_t used, room;
  size_t *at;
  uint32_t count, places;
} texts; /* start from {0} */

CAPL_API void texts_fini(texts *t);
/* Appends a copy; NULL = there is none at this number. ENOMEM, EVALUE above 2^32 - 2 texts. */
capl_status texts_add(texts *t, const char *text);
/* Numbers 0..count-1, which have no text yet. ENOMEM. */
capl_status texts_blank(texts *t, uint32_t count);
/* Puts a copy of text at i < count. ENOMEM. */
capl_status texts_set(texts *t, uint32_t i, const char *text);
/* Borrowed until the next text is added or set; NULL = there is none. */
CAPL_API const char *texts_get(const texts *t, uint32_t i);
/* Bytewise; all of them must be there. */
void texts_sort(texts *t);
/* Gives back memory that no text needs. */
void texts_fit(texts *t);

#endif
