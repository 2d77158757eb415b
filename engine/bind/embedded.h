/* embedded.h -- the Lua library as part of the binary; the table is written by embed.cmake.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_EMBEDDED_H
#define CAPL_BIND_EMBEDDED_H

#include <stddef.h>

typedef struct {
  const char *path; /* below lua/capl: "nn/conv2d.lua" */
  const char *text;
  size_t length;
} capl_embedded_file;

/* Ends with path == NULL. */
extern const capl_embedded_file capl_embedded[];

#endif
