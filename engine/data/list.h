/* list.h -- a source made of named image files, or of those of another source, which reports what became of each.
**
** Reading never fails: a file that cannot be read gives black pixels and a note, so that one bad file does not stop
** the thousands after it. Images of another size are fitted, and the note has the size they had.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_LIST_H
#define CAPL_DATA_LIST_H

#include "capl/data.h"

/* What images are fitted to: width x height as letterbox says, or of n_widths widths (resize.h), of which width is the
** greatest. An image of a narrower one lies at the beginning of its pixels, and nothing is said of what is behind
** it. */
typedef struct {
  int width, height, channels;
  int n_widths;
  const int *widths; /* borrowed as long as the source lives */
  capl_letterbox letterbox;
} list_size;

typedef struct {
  int width, height;  /* px as found */
  int w;              /* number of the width that it was put into; 0 where there is one */
  capl_status status; /* CAPL_OK: it was read */
  char *message;      /* what is wrong with it, the path first; NULL: nothing */
} list_note;

/* n paths, copied. ENOMEM. */
capl_status list_source_new(const char *const *paths, uint32_t n, const list_size *size, capl_source **out);
/* The files of a source of files, which it keeps. ESTATE: it has none; ENOMEM. */
capl_status list_source_of(capl_source *of, const list_size *size, capl_source **out);
/* Of sample i, once the loader has handed it out. Borrowed. */
const list_note *list_source_note(const capl_source *source, uint32_t i);

#endif
