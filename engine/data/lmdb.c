/* lmdb.c -- a source made of an LMDB database in the text-recognition convention: num-samples, image-%09d, label-%09d.
** Beside these it may have mask-%09d, a PNG, target-%09d, an image, and fields-%09d, a JSON object of numbers.
**
** The database is read once, by the program capl-lmdb, whose death is an error like any other (lmdb_reader.c). What it
** says is kept: records are later found in our own memory, by our own offsets.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/library.h"
#include "base/text.h"
#include "data/image_set.h"
#include "sandbox/policy.h"
#include "sandbox/spawner.h"

enum { SILENCE_MS = 60000, SLICE_MS = 100, CHUNK = 1 << 18, PATH_ROOM = 4096 };

/* ---- is it one at all ------------------------------------------------------------------------ */

static capl_status no_database(const char *where, const char *why)
{
  CAPL_FAIL(CAPL_EFORMAT, "%s: is no LMDB database: %s", where, why);
  return CAPL_EFORMAT;
}

/* The first page begins with 16 bytes of its own, then a magic number and a version. */
static capl_status check_head(const char *where, int fd)
{
  uint32_t head[6];
  ssize_t n = read(fd, head, sizeof head);
  if (n < 0) return CAPL_FAIL(CAPL_EIO, "%s: cannot be read: %s", where, capl_errno_text(errno));
  if (n == 0) return no_database(where, "the file is empty");
  if (n < (ssize_t)sizeof head || head[4] != 0xbeefc0de)
    return no_database(where, "its header is invalid, or it was written on another kind of machine");
  if (head[5] != 1) return CAPL_FAIL(CAPL_EFORMAT, "%s: LMDB of version %u; version 1 is read", where, head[5]);
  return CAPL_OK;
}

static capl_status check_file(const char *where)
{
  struct stat st;
  char path[PATH_ROOM];
  if (stat(where, &st) != 0) return CAPL_FAIL(CAPL_EIO, "%s: cannot be opened: %s", where, capl_errno_text(errno));
  bool folder = S_ISDIR(st.st_mode);
  if (snprintf(path, sizeof path, "%s%s", where, folder ? "/data.mdb" : "") >= (int)sizeof path)
    return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", where);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && folder && errno == ENOENT) {
    no_database(where, "the folder has no file data.mdb");
    capl_error_hint("data.folder reads folders of image files, data.list those that a list names");
    return CAPL_EFORMAT;
  }
  capl_status status = capl_policy_opened(fd, path);
  if (fd < 0) return status ? status : CAPL_FAIL(CAPL_EIO, "%s: cannot be opened: %s", path, capl_errno_text(errno));
  bool file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  if (status == CAPL_OK) status = file ? check_head(where, fd) : no_database(where, "data.mdb is no file");
  close(fd);
  return status;
}

/* ---- the child ------------------------------------------------------------------------------- */

static capl_status start(const char *where, int *from, spawned *child)
{
  char program[PATH_ROOM];
  int ends[2];
  if (!library_program("capl-lmdb", program, sizeof program)) {
    CAPL_FAIL(CAPL_EUNSUPPORTED, "%s: the program capl-lmdb, which reads LMDB files, is not beside libcapl or in its "
                                 "folder capl", where);
    capl_error_hint("install capl anew; CAPL_BACKEND_PATH names the folder of its parts");
    return CAPL_EUNSUPPORTED;
  }
  if (pipe2(ends, O_CLOEXEC) != 0) return CAPL_FAIL(CAPL_EIO, "%s: no pipe: %s", where, capl_errno_text(errno));
  capl_status status = spawner_start(program, where, ends[1], child);
  close(ends[1]);
  *from = ends[0];
  if (status != CAPL_OK) close(ends[0]);
  return status;
}

/* ---- listening ------------------------------------------------------------------------------- */

static capl_status silent(const lmdb_stream *s, int ms)
{
  return CAPL_FAIL(CAPL_EIO, "%s: the LMDB reader process did not respond for %d seconds, after record %u", s->where,
                   ms / 1000, s->count);
}

/* Until there is something to read, or the other end is closed. */
static capl_status wait_for_bytes(const lmdb_stream *s, int from, int silence_ms, bool (*stop)(void))
{
  for (int waited = 0;; waited += SLICE_MS) {
    struct pollfd p = {.fd = from, .events = POLLIN};
    int ready = poll(&p, 1, SLICE_MS);
    if (ready > 0) return CAPL_OK;
    if (ready < 0 && errno != EINTR) return CAPL_FAIL(CAPL_EIO, "%s: %s", s->where, capl_errno_text(errno));
    if (stop && stop()) return CAPL_FAIL(CAPL_EINTERRUPT, "%s: interrupted", s->where);
    if (waited >= silence_ms) return silent(s, silence_ms);
  }
}

static capl_status listen_to(lmdb_stream *s, int from, int silence_ms, bool (*stop)(void))
{
  char *bytes = malloc(CHUNK);
  if (!bytes) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to read it", s->where);
  capl_status status = CAPL_OK;
  for (ssize_t n = 1; status == CAPL_OK && n != 0;) {
    status = wait_for_bytes(s, from, silence_ms, stop);
    if (status != CAPL_OK) break;
    n = read(from, bytes, CHUNK);
    if (n > 0) status = lmdb_stream_feed(s, bytes, (size_t)n);
    if (n < 0 && errno != EINTR)
      status = CAPL_FAIL(CAPL_EIO, "%s: cannot be read: %s", s->where, capl_errno_text(errno));
  }
  free(bytes);
  return status;
}

/* The child has gone without having said the last word. */
static capl_status cut_off(const lmdb_stream *s, int how)
{
  char cause[64];
  if (how == -1) snprintf(cause, sizeof cause, "ended");
  else if (WIFSIGNALED(how))
    snprintf(cause, sizeof cause, "ended by signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
  else snprintf(cause, sizeof cause, "ended with status %d", WEXITSTATUS(how));
  CAPL_FAIL(CAPL_EFORMAT, "%s: the reader of LMDB files %s at record %u: the file is damaged or cut short", s->where,
            cause, s->count + 1);
  capl_error_hint("copy it anew; 'mdb_dump -n' of lmdb-utils may save what is left of it");
  return CAPL_EFORMAT;
}

capl_status lmdb_receive(lmdb_stream *s, int silence_ms, bool (*stop)(void))
{
  int from;
  spawned child;
  CAPL_TRY(check_file(s->where));
  CAPL_TRY(start(s->where, &from, &child));
  capl_status status = listen_to(s, from, silence_ms, stop);
  close(from);
  int how = spawner_end(&child, status != CAPL_OK);
  return status == CAPL_OK && !s->ended ? cut_off(s, how) : status;
}

/* ---- the source ------------------------------------------------------------------------------ */

typedef struct {
  image_set set;
  byte_store bytes;
  uint64_t *at; /* as lmdb_stream has them */
} lmdb_source;

static void lmdb_title(const image_set *set, uint32_t i, char *out, size_t room)
{
  snprintf(out, room, "%s: %s", set->where, texts_get(&set->name, i));
}

/* Part k of a record: image, mask, target image. */
static encoded_bytes part_of(const image_set *set, uint32_t i, int k)
{
  const lmdb_source *s = (const lmdb_source *)set;
  const uint64_t *at = s->at + LMDB_KEPT * (size_t)i + k;
  return (encoded_bytes){.at = s->bytes.at + at[0], .size = at[1] - at[0]};
}

static capl_status lmdb_encoded(const image_set *set, uint32_t i, const char *title, encoded_bytes *bytes)
{
  (void)title;
  *bytes = part_of(set, i, 0);
  return CAPL_OK;
}

static void lmdb_mask(const image_set *set, uint32_t i, char *title, size_t room, encoded_bytes *bytes)
{
  snprintf(title, room, "%s: mask-%09u", set->where, i + 1);
  *bytes = part_of(set, i, 1);
}

static void lmdb_target(const image_set *set, uint32_t i, char *title, size_t room, encoded_bytes *bytes)
{
  snprintf(title, room, "%s: target-%09u", set->where, i + 1);
  *bytes = part_of(set, i, 2);
}

static void lmdb_fini(image_set *set)
{
  lmdb_source *s = (lmdb_source *)set;
  byte_store_fini(&s->bytes);
  free(s->at);
}

static capl_status name_records(image_set *set, uint32_t count)
{
  char name[32];
  for (uint32_t i = 1; i <= count; i++) {
    snprintf(name, sizeof name, "image-%09u", i);
    CAPL_TRY(texts_add(&set->name, name));
  }
  return CAPL_OK;
}

static capl_status open_database(lmdb_source *s, const capl_lmdb_options *options)
{
  lmdb_stream stream = {.where = s->set.where, .wanted = &s->set.fields};
  stream.bytes.limit = options->memory;
  capl_status status = lmdb_receive(&stream, SILENCE_MS, options->stop);
  if (status == CAPL_OK) status = byte_store_seal(&stream.bytes);
  s->bytes = stream.bytes; /* all that has arrived is the source's now */
  s->at = stream.at;
  s->set.label = stream.label;
  free(stream.json);
  if (status == CAPL_OK) status = name_records(&s->set, stream.count);
  return status == CAPL_OK ? image_set_settle(&s->set) : status;
}

capl_status capl_source_lmdb_new(const char *path, const capl_lmdb_options *options, capl_source **source)
{
  static const image_set_kind kind = {
    .ops = IMAGE_SET_OPS, .opener = "data.lmdb", .title = lmdb_title, .encoded = lmdb_encoded, .mask = lmdb_mask,
    .target = lmdb_target, .fini = lmdb_fini};
  static const capl_lmdb_options defaults;
  image_set *set;
  if (!options) options = &defaults;
  CAPL_TRY(image_set_new(&kind, sizeof(lmdb_source), path, &options->images, &set));
  capl_status status = open_database((lmdb_source *)set, options);
  if (status == CAPL_OK) *source = &set->base;
  else capl_source_unref(&set->base);
  return status;
}
