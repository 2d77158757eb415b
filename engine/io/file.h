/* file.h -- whole files: read with limits, written atomically.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_FILE_H
#define CAPL_IO_FILE_H

#include <stddef.h>
#include <sha2.h>
#include <stdint.h>

#include "capl/error.h"

/* Reads a regular file of at most limit bytes; *data is NUL-ended, caller frees. */
capl_status file_read(const char *path, size_t limit, char **data, size_t *len);

/* The first bytes of it, at most limit; *size: bytes of the whole file. */
capl_status file_read_head(const char *path, size_t limit, char **data, size_t *len, uint64_t *size);

/* A file being written under a temporary name beside its final one. */
typedef struct {
  int fd;
  SHA2_CTX *digest; /* takes in all that is appended; NULL = nobody asks */
  char path[4096], temporary[4096 + 32];
} file_writer;

capl_status file_begin(file_writer *w, const char *path);
capl_status file_append(file_writer *w, const void *data, size_t len);
/* fsync, close, rename, fsync of the folder: from then on a power cut leaves the new file. On failure the temporary
** file is removed. */
capl_status file_commit(file_writer *w);
/* Removes what was written so far; NULL-safe after commit. */
void file_abandon(file_writer *w);

/* All of it in one call. */
capl_status file_write(const char *path, const void *data, size_t len);

#endif
