/* embedded.h -- the Lua library as part of the binary; the table is written by embed.c.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_EMBEDDED_H
#define CAPL_BIND_EMBEDDED_H

#include <stddef.h>

typedef struct {
  const char *path; /* below lua/capl: "nn/conv2d.lua" */
  const char *text; /* what docstrings are read from */
  size_t length;
  const char *code; /* its bytecode */
  size_t code_length;
} capl_embedded_file;

/* In the order of strcmp; ends with path == NULL. */
extern const capl_embedded_file capl_embedded[];
extern const int capl_embedded_count;
/* LUAJIT_VERSION of the bytecode, which another version may not read. */
extern const char capl_embedded_luajit[];

#endif
