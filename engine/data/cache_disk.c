/* cache_disk.c -- samples kept in one file, for this run and later ones.
**
** The file: a header that says whose samples they are; a hash for each sample, 0 = not there yet; the records. It has
** its full size from the beginning, so that a full disk is met before anything relies on it. Records are written by
** pwrite and read through a mapping; the hash goes in after its record, and a record counts only while its hash fits.
** So a process may be killed at any time, several may fill the same file with the same bytes, and damage costs one more
** reading. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/user_dirs.h"
#include "base/text.h"
#include "data/cache.h"
#include "data/hash64.h"

enum { HEADER = 4096, PATH_ROOM = PATH_MAX };

/* Version 1 of the file; a later one gets another name here. */
static const char magic[8] = "capl-u8\1";

typedef struct {
  char magic[8];
  uint64_t content; /* of the source's identity */
  uint64_t record_bytes, count;
  int64_t size; /* of the whole file */
} cache_header;

/* Whether a sample of the file is to be trusted, as far as this process knows. */
enum { UNKNOWN, ABSENT, KEPT };

typedef struct {
  capl_source base;
  capl_source *of, *root; /* samples are kept under their numbers in root, which subsets of it share */
  cache_record record;
  char path[PATH_ROOM];
  int fd;
  uint8_t *file; /* mapped, read only */
  cache_header header;
  size_t records_at;
  atomic_uchar *state; /* [root->count] */
  atomic_bool full;    /* nothing can be written any more */
} disk_cache;

/* ---- samples --------------------------------------------------------------------------------- */

static uint32_t number_in_root(const disk_cache *c, uint32_t id)
{
  if (c->of->ops->root) c->of->ops->root(c->of, &id);
  return id;
}

static const uint8_t *record_at(const disk_cache *c, uint32_t in_root)
{
  return c->file + c->records_at + in_root * c->record.bytes;
}

static off_t hash_offset(uint32_t in_root)
{
  return (off_t)(HEADER + in_root * sizeof(uint64_t));
}

/* A sample narrower than others leaves the rest of its record as it is. */
static size_t pixels_bytes(const disk_cache *c, uint32_t in_root)
{
  return c->record.pixels_bytes ? capl_source_pixels_bytes(c->root, in_root) : 0;
}

static size_t field_bytes(const disk_cache *c, uint32_t in_root, int i)
{
  return source_field_bytes(c->root, i, capl_source_width_of(c->root, in_root));
}

/* Of the parts that are kept; never 0. */
static uint64_t hash_of(const disk_cache *c, uint32_t in_root, const capl_sample *parts)
{
  const cache_record *r = &c->record;
  uint64_t h = hash64_bytes(c->header.content ^ in_root, parts->pixels, pixels_bytes(c, in_root));
  h = hash64_bytes(h, parts->labels, r->labels_bytes);
  for (int i = 0; i < c->base.n_fields; i++) h = hash64_bytes(h, parts->field[i], field_bytes(c, in_root, i));
  return h ? h : 1;
}

/* Looks at a record for the first time: written by an earlier run, by another process, or not at all. */
static bool is_sound(const disk_cache *c, uint32_t in_root)
{
  uint64_t expected = __atomic_load_n((const uint64_t *)(c->file + hash_offset(in_root)), __ATOMIC_ACQUIRE);
  if (expected == 0) return false;
  capl_sample parts = cache_record_parts(&c->record, (uint8_t *)(uintptr_t)record_at(c, in_root));
  return hash_of(c, in_root, &parts) == expected;
}

static bool is_kept(disk_cache *c, uint32_t in_root)
{
  atomic_uchar *state = &c->state[in_root];
  unsigned char seen = atomic_load_explicit(state, memory_order_acquire);
  if (seen != UNKNOWN) return seen == KEPT;
  bool sound = is_sound(c, in_root);
  atomic_store_explicit(state, sound ? KEPT : ABSENT, memory_order_release);
  return sound;
}

static bool write_at(int fd, const void *bytes, size_t size, off_t at)
{
  for (size_t done = 0; done < size;) {
    ssize_t n = pwrite(fd, (const char *)bytes + done, size - done, at + (off_t)done);
    if (n == 0 || (n < 0 && errno != EINTR)) return false;
    if (n > 0) done += (size_t)n;
  }
  return true;
}

static bool write_record(const disk_cache *c, uint32_t in_root, const capl_sample *s)
{
  const cache_record *r = &c->record;
  off_t at = (off_t)(c->records_at + in_root * r->bytes);
  bool fine = write_at(c->fd, s->pixels, pixels_bytes(c, in_root), at);
  if (fine) fine = write_at(c->fd, s->labels, r->labels_bytes, at + (off_t)r->labels_at);
  for (int i = 0; fine && i < c->base.n_fields; i++)
    fine = write_at(c->fd, s->field[i], field_bytes(c, in_root, i), at + (off_t)r->field_at[i]);
  return fine;
}

/* Two threads that keep the same sample write the same bytes. */
static void keep(disk_cache *c, uint32_t in_root, const capl_sample *s)
{
  if (atomic_load(&c->full)) return;
  uint64_t hash = hash_of(c, in_root, s);
  bool fine = write_record(c, in_root, s) && write_at(c->fd, &hash, sizeof hash, hash_offset(in_root));
  if (fine) atomic_store_explicit(&c->state[in_root], KEPT, memory_order_release);
  else atomic_store(&c->full, true);
}

static bool is_whole(const disk_cache *c, const capl_sample *s)
{
  bool whole = (s->pixels || !c->record.pixels_bytes) && (s->labels || !c->record.labels_bytes);
  for (int i = 0; i < c->base.n_fields; i++) whole = whole && s->field[i];
  return whole;
}

static capl_status disk_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  disk_cache *c = (disk_cache *)source;
  uint32_t in_root = number_in_root(c, what->id);
  /* another sample than the one that is kept */
  if (what->difficulty) return capl_source_read_with(c->of, what, scratch, to);
  if (is_kept(c, in_root)) return cache_record_copy(&c->record, c->of, what->id, record_at(c, in_root), to);
  CAPL_TRY(capl_source_read_with(c->of, what, scratch, to));
  if (is_whole(c, to)) keep(c, in_root, to);
  return CAPL_OK;
}

static capl_status disk_borrow(capl_source *source, const capl_read *what, capl_image *scratch, capl_sample *at,
                               bool *lent)
{
  (void)scratch;
  disk_cache *c = (disk_cache *)source;
  uint32_t in_root = number_in_root(c, what->id);
  *lent = !what->difficulty && is_kept(c, in_root);
  if (!*lent) return CAPL_OK;
  int32_t *labels = at->labels;
  *at = cache_record_parts(&c->record, (uint8_t *)(uintptr_t)record_at(c, in_root));
  at->labels = labels;
  return cache_record_copy(&c->record, c->of, what->id, record_at(c, in_root), at);
}

static const char *disk_name(const capl_source *source, uint32_t i)
{
  return capl_source_name(((const disk_cache *)source)->of, i);
}

static void disk_close(capl_source *source)
{
  disk_cache *c = (disk_cache *)source;
  if (c->file) munmap(c->file, (size_t)c->header.size);
  if (c->fd >= 0) close(c->fd);
  free(c->state);
  capl_source_unref(c->of);
  free(c);
}

const char *cache_disk_path(const capl_source *source)
{
  return ((const disk_cache *)source)->path;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* "cannot be made: No space left on device" */
static bool refuse(const char *path, const char *what, int error, char *why, size_t room)
{
  char shown[256];
  capl_text_show(shown, sizeof shown, path, false);
  snprintf(why, room, "%s: %s: %s", shown, what, strerror(error));
  return false;
}

static bool folder_of(const char *dir, char *path, char *why, size_t room)
{
  enum { ROOM = PATH_ROOM - 64 }; /* the file's name follows */
  if (dir ? snprintf(path, ROOM, "%s", dir) < ROOM : capl_user_path("XDG_CACHE_HOME", ".cache", "data", path, ROOM))
    return true;
  snprintf(why, room, "neither cache_dir, $XDG_CACHE_HOME nor $HOME names a folder for it");
  return false;
}

/* A file of another identity, size or kind is none of ours. */
static bool open_existing(disk_cache *c)
{
  cache_header found;
  struct stat st;
  c->fd = open(c->path, O_RDWR | O_CLOEXEC);
  if (c->fd < 0) return false;
  bool ours = pread(c->fd, &found, sizeof found, 0) == (ssize_t)sizeof found
      && memcmp(&found, &c->header, sizeof found) == 0 &&
              fstat(c->fd, &st) == 0 && st.st_size == c->header.size;
  if (ours) return true;
  close(c->fd);
  c->fd = -1;
  return false;
}

static int make_whole(disk_cache *c)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
      && limit.rlim_cur < (rlim_t)c->header.size)
    return EFBIG;
  int error = posix_fallocate(c->fd, 0, c->header.size);
  if (error) return error;
  return write_at(c->fd, &c->header, sizeof c->header, 0) ? 0 : errno;
}

/* Without a name, if the file system can, so that a process that is killed leaves nothing; else with one of its own. */
static int open_temporary(char *name, bool *named)
{
  char *slash = strrchr(name, '/');
  *named = false;
  *slash = '\0';
  int fd = open(name, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  *slash = '/';
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  *named = true;
  return mkostemp(name, O_CLOEXEC);
}

/* Gives the whole file its name; it replaces what was there. -> errno, 0 = done */
static int name_it(const disk_cache *c, char *temporary, bool *named)
{
  char self[64];
  snprintf(self, sizeof self, "/proc/self/fd/%d", c->fd);
  if (!*named) {
    snprintf(temporary + strlen(c->path), 32, ".%ld-%d", (long)getpid(), c->fd);
    unlink(temporary); /* of a process that had this number and was killed in the next line */
    if (linkat(AT_FDCWD, self, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW) != 0) return errno;
    *named = true;
  }
  return rename(temporary, c->path) == 0 ? 0 : errno;
}

/* Nobody meets half a file. */
static bool make_new(disk_cache *c, char *why, size_t room)
{
  char temporary[PATH_ROOM + 32];
  bool named;
  snprintf(temporary, sizeof temporary, "%s.XXXXXX", c->path);
  capl_make_parent_dirs(c->path);
  c->fd = open_temporary(temporary, &named);
  if (c->fd < 0) return refuse(c->path, "cannot be made", errno, why, room);
  int error = make_whole(c);
  if (!error) error = name_it(c, temporary, &named);
  if (!error) return true;
  if (named) unlink(temporary);
  return refuse(c->path, "cannot be made", error, why, room);
}

static bool map(disk_cache *c, char *why, size_t room)
{
  void *file = mmap(NULL, (size_t)c->header.size, PROT_READ, MAP_SHARED, c->fd, 0);
  if (file == MAP_FAILED) return refuse(c->path, "cannot be mapped", errno, why, room);
  c->file = file;
  return true;
}

static void lay_out(disk_cache *c, uint64_t content)
{
  size_t hashes = c->root->count * sizeof(uint64_t);
  c->record = cache_record_of(c->root);
  c->records_at = (HEADER + hashes + 4095) / 4096 * 4096;
  c->header = (cache_header){
    .content = content,
    .record_bytes = c->record.bytes,
    .count = c->root->count,
    /* for reading vectors past the end */
    .size = (int64_t)(c->records_at + (size_t)c->root->count * c->record.bytes + 4096),
  };
  memcpy(c->header.magic, magic, sizeof magic);
}

static capl_status open_file(disk_cache *c, const char *dir, bool *there, char *why, size_t room)
{
  uint64_t place, content;
  CAPL_TRY(c->root->ops->identity(c->root, &place, &content));
  lay_out(c, hash64_text(content, CAPL_VERSION)); /* another version may decode or resize in another way */
  *there = folder_of(dir, c->path, why, room);
  if (!*there) return CAPL_OK;
  size_t used = strlen(c->path);
  snprintf(c->path + used, sizeof c->path - used, "/%016" PRIx64 ".u8", place);
  *there = (open_existing(c) || make_new(c, why, room)) && map(c, why, room);
  return CAPL_OK;
}

static capl_status no_identity(void)
{
  CAPL_FAIL(CAPL_EUNSUPPORTED, "cache is disk, but nothing identifies these samples in another run");
  capl_error_hint("cache = \"ram\" keeps them in memory");
  return CAPL_EUNSUPPORTED;
}

static const capl_source_ops disk_ops = {.read = disk_read, .borrow = disk_borrow, .close = disk_close,
                                         .name = disk_name};

/* What is read through the mapping past the end of its file kills the process. */
void cache_disk_mend(capl_source *source)
{
  disk_cache *c = (disk_cache *)source;
  struct stat st;
  if (source->ops != &disk_ops || (fstat(c->fd, &st) == 0 && st.st_size >= c->header.size)) return;
  bool whole = make_whole(c) == 0;
  for (uint32_t i = 0; i < c->root->count; i++) atomic_store(&c->state[i], whole ? UNKNOWN : ABSENT);
  if (!whole) atomic_store(&c->full, true);
}

capl_status cache_disk_new(capl_source *of, const char *dir, capl_source **out, char *why, size_t room)
{
  uint32_t first = 0;
  capl_source *root = of->ops->root ? of->ops->root(of, &first) : of;
  *out = NULL;
  if (!root->ops->identity) return no_identity();
  disk_cache *c = calloc(1, sizeof *c);
  if (!c) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a cache");
  c->base = source_like(of);
  c->base.ops = &disk_ops;
  c->of = capl_source_ref(of);
  c->root = root;
  c->fd = -1;
  c->state = calloc(root->count, sizeof *c->state);
  bool there = false;
  capl_status status = c->state ? open_file(c, dir, &there, why, room)
      : CAPL_FAIL(CAPL_ENOMEM, "no memory for a cache");
  if (there) *out = &c->base;
  else capl_source_unref(&c->base);
  return status;
}
