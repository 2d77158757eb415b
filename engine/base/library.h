/* library.h -- parts of capl in libraries of their own, loaded when first used.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_LIBRARY_H
#define CAPL_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Looks for the file name in $CAPL_BACKEND_PATH, beside libcapl, then in its folder capl/. -> dlopen's handle, or
** NULL and the reason in why. */
void *library_open(const char *name, char *why, size_t len);

/* The path of a program among capl's parts, looked for in the same places. false: it is in none of them. */
bool library_program(const char *name, char *path, size_t len);

/* The function entry of the library as *(void **)out; NULL if there is none. */
void library_find(void *library, const char *entry, void *out);

#endif
