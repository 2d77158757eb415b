/* data_files.h -- what the data tests share: a scratch folder, small PNG files, and a hash of bytes.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TESTS_DATA_FILES_H
#define CAPL_TESTS_DATA_FILES_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capl/data.h"
#include "unit.h"

static char folder[256]; /* made by make_folder, without trailing slash */

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
  (void)st;
  (void)type;
  (void)where;
  return remove(path);
}

static inline int make_folder(void **state)
{
  (void)state;
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/capl-data-XXXXXX", base && *base ? base : "/tmp");
  return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
  (void)state;
  return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* folder/name; the buffer is reused by the fourth call after. */
static inline const char *in_folder(const char *name)
{
  static char path[4][512];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static inline void write_bytes(const char *path, const void *bytes, size_t size)
{
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, size, f), size);
  assert_int_equal(fclose(f), 0);
}

/* The first `keep` bytes of a file stay. */
static inline void cut_file(const char *path, long keep)
{
  assert_int_equal(truncate(path, keep), 0);
}

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
  const uint8_t *p = bytes;
  for (size_t i = 0; i < size; i++) hash = (hash ^ p[i]) * 1099511628211u;
  return hash;
}

#endif
