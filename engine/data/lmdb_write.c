/* lmdb_write.c -- writes LMDB databases in the text-recognition convention.
**
** The database grows under a temporary name beside its own and is put in place when it is complete and on disk. liblmdb
** works here on files that it alone has written.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "data/image_set.h"
#include "data/lmdb_stream.h"
#include "data/source.h"
#include "sandbox/policy.h"

enum { PATH_ROOM = 4096, PAGE = 4096 };
static const size_t COMMIT_BYTES = 32 << 20; /* of a transaction: its pages lie in memory until then */

struct capl_lmdb_writer {
  char *dir, *temporary;
  MDB_env *env;
  MDB_txn *txn;
  MDB_dbi records;
  size_t room, used, in_txn; /* bytes: of the map, at the last commit, written since (at most) */
  uint32_t count;
  bool made, committed; /* the temporary folder is ours; dir is in place */
  bool has[4];          /* records have texts, masks, fields, target images */
};

static capl_status failed(const capl_lmdb_writer *w, int status)
{
  return CAPL_FAIL(status == ENOMEM ? CAPL_ENOMEM : CAPL_EIO, "%s: cannot be written: %s", w->dir,
                   status > 0 ? capl_errno_text(status) : mdb_strerror(status));
}

#define LMDB_TRY(writer, call)                                \
  do {                                                        \
    int lmdb_status_ = (call);                                \
    if (lmdb_status_) return failed((writer), lmdb_status_);  \
  } while (0)

/* ---- transactions ---------------------------------------------------------------------------- */

static capl_status begin(capl_lmdb_writer *w)
{
  LMDB_TRY(w, mdb_txn_begin(w->env, NULL, 0, &w->txn));
  LMDB_TRY(w, mdb_dbi_open(w->txn, NULL, 0, &w->records));
  w->in_txn = 0;
  return CAPL_OK;
}

static capl_status end(capl_lmdb_writer *w)
{
  MDB_txn *txn = w->txn;
  MDB_envinfo info;
  w->txn = NULL;
  LMDB_TRY(w, mdb_txn_commit(txn));
  mdb_env_info(w->env, &info);
  w->used = (info.me_last_pgno + 1) * PAGE;
  return CAPL_OK;
}

/* The map, which bounds the file, can only be changed between transactions. It doubles: readers take over its size. */
static capl_status grow(capl_lmdb_writer *w, size_t wanted)
{
  while (w->room < w->used + wanted) w->room *= 2;
  LMDB_TRY(w, mdb_env_set_mapsize(w->env, w->room));
  return CAPL_OK;
}

/* Room for a record of so many bytes: what it may take at most, with the pages of the tree that are copied for it. */
static capl_status reserve(capl_lmdb_writer *w, size_t bytes)
{
  size_t cost = bytes + 16 * PAGE, spare = COMMIT_BYTES + 2 * LMDB_IMAGE_MAX;
  if (w->in_txn + cost > COMMIT_BYTES && w->in_txn > 0) {
    CAPL_TRY(end(w));
    CAPL_TRY(grow(w, 2 * spare));
    CAPL_TRY(begin(w));
  }
  w->in_txn += bytes + PAGE;
  return CAPL_OK;
}

static capl_status put(capl_lmdb_writer *w, const char *key, const void *bytes, size_t size)
{
  MDB_val k = {strlen(key), (void *)key}, value = {size, (void *)bytes};
  CAPL_TRY(capl_policy_wrote(k.mv_size + value.mv_size));
  LMDB_TRY(w, mdb_put(w->txn, w->records, &k, &value, 0));
  return CAPL_OK;
}

static capl_status put_numbered(capl_lmdb_writer *w, const char *prefix, const void *bytes, size_t size)
{
  char key[32];
  snprintf(key, sizeof key, "%s-%09u", prefix, w->count + 1);
  return put(w, key, bytes, size);
}

/* ---- writing --------------------------------------------------------------------------------- */

static capl_status set_paths(capl_lmdb_writer *w, const char *dir)
{
  size_t length = strlen(dir);
  while (length > 1 && dir[length - 1] == '/') length--;
  w->dir = strndup(dir, length);
  if (!w->dir || asprintf(&w->temporary, "%s.tmp%d", w->dir, (int)getpid()) < 0) {
    w->temporary = NULL;
    return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to write it", dir);
  }
  return CAPL_OK;
}

static capl_status check_free(const capl_lmdb_writer *w)
{
  if (!*w->dir) return CAPL_FAIL(CAPL_EVALUE, "the name of the database to write is empty");
  if (access(w->dir, F_OK) != 0) return CAPL_OK;
  CAPL_FAIL(CAPL_EIO, "%s: is there already; a database is only written anew", w->dir);
  capl_error_hint("remove it first, or take another name");
  return CAPL_EIO;
}

static capl_status open_database(capl_lmdb_writer *w, const char *dir)
{
  CAPL_TRY(set_paths(w, dir));
  CAPL_TRY(check_free(w));
  if (mkdir(w->temporary, 0777) != 0)
    return CAPL_FAIL(CAPL_EIO, "%s: cannot be made: %s", w->temporary, capl_errno_text(errno));
  w->made = true;
  LMDB_TRY(w, mdb_env_create(&w->env));
  w->room = 256 << 20;
  LMDB_TRY(w, mdb_env_set_mapsize(w->env, w->room));
  LMDB_TRY(w, mdb_env_open(w->env, w->temporary, MDB_NOLOCK | MDB_NOSYNC, 0666));
  return begin(w);
}

capl_status capl_lmdb_create(const char *dir, capl_lmdb_writer **writer)
{
  capl_lmdb_writer *w = calloc(1, sizeof *w);
  if (!w) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to write it", dir);
  capl_status status = open_database(w, dir);
  if (status == CAPL_OK) *writer = w;
  else capl_lmdb_free(w);
  return status;
}

static size_t bytes_of(const char *text) { return text ? strlen(text) : 0; }

/* All records have a part, or none. */
static capl_status check_all_have(const capl_lmdb_writer *w, int part, const char *what, bool there)
{
  if (w->count == 0 || w->has[part] == there) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s: record %u has %s%s, the records before it have %s", w->dir, w->count + 1,
                   there ? "a " : "no ", what, there ? "none" : "one");
}

static capl_status check_record(const capl_lmdb_writer *w, const capl_lmdb_record *r)
{
  unsigned number = w->count + 1;
  if (r->image_bytes < 1 || r->image_bytes > LMDB_IMAGE_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "%s: record %u: an image has 1 byte to 64 MiB, not %zu bytes", w->dir, number,
                     r->image_bytes);
  if (bytes_of(r->text) > LMDB_LABEL_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "%s: record %u: the label is longer than %d bytes", w->dir, number, LMDB_LABEL_MAX);
  if (r->mask && (r->mask_bytes < 1 || r->mask_bytes > LMDB_IMAGE_MAX))
    return CAPL_FAIL(CAPL_EVALUE, "%s: record %u: a mask has 1 byte to 64 MiB, not %zu bytes", w->dir, number,
                     r->mask_bytes);
  if (r->target && (r->target_bytes < 1 || r->target_bytes > LMDB_IMAGE_MAX))
    return CAPL_FAIL(CAPL_EVALUE, "%s: record %u: a target image has 1 byte to 64 MiB, not %zu bytes", w->dir, number,
                     r->target_bytes);
  if (bytes_of(r->fields) > LMDB_FIELDS_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "%s: record %u: its numbers have more than 1 MiB", w->dir, number);
  CAPL_TRY(check_all_have(w, 0, "label", r->text));
  CAPL_TRY(check_all_have(w, 1, "mask", r->mask));
  CAPL_TRY(check_all_have(w, 2, "JSON object of numbers", r->fields));
  CAPL_TRY(check_all_have(w, 3, "target image", r->target));
  if (w->count >= LMDB_COUNT_MAX) return CAPL_FAIL(CAPL_EVALUE, "%s: more than %d records", w->dir, LMDB_COUNT_MAX);
  return CAPL_OK;
}

capl_status capl_lmdb_append_record(capl_lmdb_writer *w, const capl_lmdb_record *r)
{
  if (!w->txn) return CAPL_FAIL(CAPL_ESTATE, "%s: is written already, or could not be", w->dir);
  CAPL_TRY(check_record(w, r));
  CAPL_TRY(reserve(w, r->image_bytes + bytes_of(r->text) + r->mask_bytes + r->target_bytes + bytes_of(r->fields)));
  CAPL_TRY(put_numbered(w, "image", r->image, r->image_bytes));
  if (r->text) CAPL_TRY(put_numbered(w, "label", r->text, strlen(r->text)));
  if (r->mask) CAPL_TRY(put_numbered(w, "mask", r->mask, r->mask_bytes));
  if (r->target) CAPL_TRY(put_numbered(w, "target", r->target, r->target_bytes));
  if (r->fields) CAPL_TRY(put_numbered(w, "fields", r->fields, strlen(r->fields)));
  w->has[0] = r->text, w->has[1] = r->mask, w->has[2] = r->fields, w->has[3] = r->target;
  w->count++;
  return CAPL_OK;
}

capl_status capl_lmdb_append(capl_lmdb_writer *w, const void *image, size_t size, const char *text)
{
  return capl_lmdb_append_record(w, &(capl_lmdb_record){.image = image, .image_bytes = size, .text = text});
}

/* The new name outlives a power cut. */
static void sync_parent(const char *dir)
{
  char parent[PATH_ROOM];
  snprintf(parent, sizeof parent, "%s", dir);
  char *slash = strrchr(parent, '/');
  if (slash) slash[slash == parent] = '\0';
  int fd = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

capl_status capl_lmdb_commit(capl_lmdb_writer *w)
{
  char count[16];
  if (!w->txn) return CAPL_FAIL(CAPL_ESTATE, "%s: is written already, or could not be", w->dir);
  if (w->count == 0) return CAPL_FAIL(CAPL_EVALUE, "%s: no record was written", w->dir);
  snprintf(count, sizeof count, "%u", w->count);
  CAPL_TRY(put(w, "num-samples", count, strlen(count)));
  CAPL_TRY(end(w));
  LMDB_TRY(w, mdb_env_sync(w->env, 1));
  mdb_env_close(w->env);
  w->env = NULL;
  if (rename(w->temporary, w->dir) != 0)
    return CAPL_FAIL(CAPL_EIO, "%s: cannot be put in place: %s", w->dir, capl_errno_text(errno));
  w->committed = true;
  sync_parent(w->dir);
  return CAPL_OK;
}

static void remove_temporary(const capl_lmdb_writer *w)
{
  char path[PATH_ROOM];
  if (snprintf(path, sizeof path, "%s/data.mdb", w->temporary) < (int)sizeof path) unlink(path);
  rmdir(w->temporary);
}

void capl_lmdb_free(capl_lmdb_writer *w)
{
  if (!w) return;
  if (w->txn) mdb_txn_abort(w->txn);
  if (w->env) mdb_env_close(w->env);
  if (w->made && !w->committed) remove_temporary(w);
  free(w->temporary);
  free(w->dir);
  free(w);
}

/* ---- packing --------------------------------------------------------------------------------- */

static capl_status pack_one(capl_source *source, uint32_t i, capl_lmdb_writer *w)
{
  encoded_bytes bytes, mask = {0}, target = {0};
  capl_image_info info;
  char title[PATH_ROOM], *fields = NULL;
  CAPL_TRY(capl_source_encoded(source, i, &bytes));
  capl_status status = capl_image_probe(bytes.at, bytes.size, capl_source_title(source, i, title, sizeof title), &info);
  if (status == CAPL_OK) status = image_set_parts(source, i, &mask, &target, &fields);
  if (status == CAPL_OK)
    status = capl_lmdb_append_record(w, &(capl_lmdb_record){
      .image = bytes.at, .image_bytes = bytes.size, .text = capl_source_text(source, i), .mask = mask.at,
      .mask_bytes = mask.size, .target = target.at, .target_bytes = target.size, .fields = fields});
  free(bytes.owned);
  free(mask.owned);
  free(target.owned);
  free(fields);
  return status;
}

capl_status capl_lmdb_pack(capl_source *source, const char *dir, bool (*stop)(void))
{
  capl_lmdb_writer *w;
  CAPL_TRY(capl_lmdb_create(dir, &w));
  capl_status status = CAPL_OK;
  for (uint32_t i = 0; status == CAPL_OK && i < capl_source_count(source); i++) {
    if (stop && stop()) status = CAPL_FAIL(CAPL_EINTERRUPT, "%s: interrupted", dir);
    else status = pack_one(source, i, w);
  }
  if (status == CAPL_OK) status = capl_lmdb_commit(w);
  capl_lmdb_free(w);
  return status;
}
