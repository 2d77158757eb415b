/* byte_store.c -- bytes that are only ever appended: in memory, or in a temporary file without a name.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/byte_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

void byte_store_fini(byte_store *s)
{
  if (s->mapped) munmap(s->at, s->size);
  else free(s->at);
  if (s->in_file) close(s->file);
  *s = (byte_store){0};
}

static uint64_t fair_share(void)
{
  int64_t bytes = capl_memory_total();
  return bytes > 0 ? (uint64_t)bytes / 4 : 1u << 30;
}

/* ---- the file -------------------------------------------------------------------------------- */

static const char *temporary_folder(void)
{
  /* below it, for a process that may not write all of it */
  const char *folder = getenv("TMPDIR"), *own = getenv("CAPL_TEMPORARY");
  if (own && *own) return own;
  return folder && *folder ? folder : "/var/tmp";
}

static capl_status file_error(const char *verb)
{
  CAPL_FAIL(CAPL_EIO, "%s: the temporary file for data larger than memory cannot be %s: %s", temporary_folder(), verb,
            capl_errno_text(errno));
  capl_error_hint("TMPDIR names the folder; it needs as much room as the data");
  return CAPL_EIO;
}

static capl_status open_file(byte_store *s)
{
  char path[4096];
  s->file = open(temporary_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  s->in_file = s->file >= 0;
  if (s->in_file) return CAPL_OK;
  /* of file systems that know no files without names */
  snprintf(path, sizeof path, "%s/capl-XXXXXX", temporary_folder());
  s->file = mkostemp(path, O_CLOEXEC);
  if (s->file < 0) return file_error("made");
  s->in_file = true;
  unlink(path);
  return CAPL_OK;
}

static capl_status write_out(byte_store *s, const void *bytes, size_t size)
{
  for (const uint8_t *p = bytes; size > 0;) {
    ssize_t n = write(s->file, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error("written");
    p += n;
    size -= (size_t)n;
    s->size += (uint64_t)n;
  }
  return CAPL_OK;
}

/* What is in memory moves to the file. */
static capl_status spill(byte_store *s)
{
  uint64_t held = s->size;
  CAPL_TRY(open_file(s));
  s->size = 0;
  CAPL_TRY(write_out(s, s->at, held));
  free(s->at);
  s->at = NULL;
  s->capacity = 0;
  return CAPL_OK;
}

/* ---- appending ------------------------------------------------------------------------------- */

static capl_status reserve(byte_store *s, size_t more)
{
  if (s->capacity - s->size >= more) return CAPL_OK;
  size_t capacity = s->capacity + s->capacity / 2 + more + 65536;
  uint8_t *grown = realloc(s->at, capacity);
  if (!grown) return CAPL_FAIL(CAPL_ENOMEM, "no memory for %zu bytes of images", capacity);
  s->at = grown;
  s->capacity = capacity;
  return CAPL_OK;
}

capl_status byte_store_append(byte_store *s, const void *bytes, size_t size)
{
  if (!s->limit) s->limit = fair_share();
  if (!s->in_file && s->size + size > s->limit) CAPL_TRY(spill(s));
  if (s->in_file) return write_out(s, bytes, size);
  CAPL_TRY(reserve(s, size));
  memcpy(s->at + s->size, bytes, size);
  s->size += size;
  return CAPL_OK;
}

capl_status byte_store_seal(byte_store *s)
{
  if (!s->in_file) {
    uint8_t *fitted = s->size ? realloc(s->at, s->size) : NULL;
    if (fitted) s->at = fitted, s->capacity = s->size;
    return CAPL_OK;
  }
  void *at = mmap(NULL, s->size, PROT_READ, MAP_PRIVATE, s->file, 0);
  if (at == MAP_FAILED) return file_error("mapped");
  s->at = at;
  s->mapped = true;
  return CAPL_OK;
}
