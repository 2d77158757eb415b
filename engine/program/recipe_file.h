/* recipe_file.h -- a recipe's text, read once: what is checked, asked about and run are the same bytes.
**
** A recipe is named by its path, or by path and hash: FILE#sha256=HEX. Then a file of any other bytes is refused. Only
** all 64 digits will do: a part of them could be met by another text that somebody has searched for. FILE#bytes=HEX is
** for the program's own children, which must run what their parent has read; it asks nothing of the files beside the
** recipe. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_RECIPE_FILE_H
#define CAPL_RECIPE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "capl/error.h"

typedef struct {
  const char *path;  /* without the hash; until the process ends */
  const char *text;  /* size bytes and a 0; likewise. NULL = not read */
  size_t size;
  char sha256[65];
  bool pinned;       /* #sha256= was given, and it is this one */
} capl_recipe_file;

/* Whether a word of the command line names a hash. */
bool capl_recipe_is_pinned(const char *word);
/* The path in a word: FILE of FILE#sha256=HEX, else the word itself. NULL = no memory. */
const char *capl_recipe_path(const char *word);

/* Reads the recipe that a word of the command line names. EIO: it cannot be read, with the reason; EVALUE: the hash is
** no hash, or that of another text, with both of them. */
capl_status capl_recipe_file_read(const char *word, capl_recipe_file *file);

#endif
