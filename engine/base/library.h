/* library.h -- parts of capl in libraries of their own, loaded when first used.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_LIBRARY_H
#define CAPL_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "capl/error.h"

/* Looks for the file name in $CAPL_BACKEND_PATH, beside libcapl, then in its folder capl/. -> dlopen's handle, or
** NULL and the reason in why. */
CAPL_API void *library_open(const char *name, char *why, size_t len);

/* A part that gives a table of functions, whose first member is an int: its ABI. */
typedef struct {
  const char *file, *entry; /* the function that gives the table */
  int abi;
  const char *lost, *remedy; /* what cannot be done without it; a hint */
} library_part;

/* Its table, loaded at the first call. EUNSUPPORTED: it is missing, or of another build. By any thread. */
CAPL_API capl_status library_table(const library_part *part, const void **table);

/* The hint of an error made of library_open's reason: otherwise, unless descriptors or memory ran out. */
CAPL_API void library_hint(const char *why, const char *otherwise);

/* The path of a library or a program among capl's parts, looked for in the same places. false: it is in none of
** them. */
CAPL_API bool library_path(const char *name, char *path, size_t len);
bool library_program(const char *name, char *path, size_t len);

/* The function entry of the library as *(void **)out; NULL if there is none. */
CAPL_API void library_find(void *library, const char *entry, void *out);

#endif
