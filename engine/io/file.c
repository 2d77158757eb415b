/* file.c -- whole files: read with limits, written atomically.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/user_dirs.h"
#include "base/text.h"
#include "sandbox/policy.h"

static capl_status io_fail(const char *what, const char *path)
{
  return CAPL_FAIL(CAPL_EIO, "cannot %s %s: %s", what, path, capl_errno_text(errno));
}

static capl_status read_all(int fd, const char *path, char *data, size_t len)
{
  for (size_t done = 0; done < len;) {
    ssize_t n = read(fd, data + done, len - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_fail("read", path);
    if (n == 0) return CAPL_FAIL(CAPL_EIO, "cannot read %s: it shrank while being read", path);
    done += (size_t)n;
  }
  data[len] = '\0';
  return CAPL_OK;
}

/* head: as much of it as limit lets in; else the whole file or an error. */
static capl_status read_open(int fd, const char *path, size_t limit, bool head, char **data, size_t *len,
                             uint64_t *size)
{
  struct stat st;
  if (fstat(fd, &st) != 0) return io_fail("read", path);
  if (!S_ISREG(st.st_mode)) return CAPL_FAIL(CAPL_EIO, "cannot read %s: it is no regular file", path);
  *size = (uint64_t)st.st_size;
  if (*size > limit && !head)
    return CAPL_FAIL(CAPL_EFORMAT, "%s has %lld bytes, more than the %zu that make sense here", path,
                     (long long)st.st_size, limit);
  *len = *size < limit ? (size_t)*size : limit;
  *data = malloc(*len + 1);
  if (!*data) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the %zu bytes of %s", *len, path);
  capl_status status = read_all(fd, path, *data, *len);
  if (status != CAPL_OK) free(*data), *data = NULL;
  return status;
}

static capl_status read_path(const char *path, size_t limit, bool head, char **data, size_t *len, uint64_t *size)
{
  *data = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
  capl_status status = capl_policy_opened(fd, path);
  if (fd < 0) return status ? status : io_fail("open", path);
  if (status == CAPL_OK) status = read_open(fd, path, limit, head, data, len, size);
  close(fd);
  return status;
}

capl_status file_read(const char *path, size_t limit, char **data, size_t *len)
{
  uint64_t size;
  return read_path(path, limit, false, data, len, &size);
}

capl_status file_read_head(const char *path, size_t limit, char **data, size_t *len, uint64_t *size)
{
  return read_path(path, limit, true, data, len, size);
}

capl_status file_begin(file_writer *w, const char *path)
{
  w->fd = -1;
  w->digest = NULL;
  if (snprintf(w->path, sizeof w->path, "%s", path) >= (int)sizeof w->path)
    return CAPL_FAIL(CAPL_EIO, "the path %.40s… is too long", path);
  snprintf(w->temporary, sizeof w->temporary, "%s.tmp%ld", path, (long)getpid());
  w->fd = capl_file_create_new(w->temporary);
  return w->fd < 0 ? io_fail("write", w->temporary) : CAPL_OK;
}

enum { PIECE = 1 << 20 }; /* bytes that are written, then hashed while the disk has them */

/* The disk begins with what was written while the next piece is hashed; a mere hint. */
static void hash_piece(file_writer *w, const char *data, size_t len)
{
  if (!w->digest) return;
  if (len == PIECE) sync_file_range(w->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
  SHA256Update(w->digest, (const uint8_t *)data, len);
}

capl_status file_append(file_writer *w, const void *data, size_t len)
{
  for (size_t done = 0; done < len;) {
    const char *piece = (const char *)data + done;
    ssize_t n = write(w->fd, piece, len - done < PIECE || !w->digest ? len - done : PIECE);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_fail("write", w->temporary);
    CAPL_TRY(capl_policy_wrote((uint64_t)n));
    hash_piece(w, piece, (size_t)n);
    done += (size_t)n;
  }
  return CAPL_OK;
}

void file_abandon(file_writer *w)
{
  if (w->fd < 0) return;
  close(w->fd);
  w->fd = -1;
  unlink(w->temporary);
}

/* The new name of a file lives in its folder. Some file systems cannot do that, and then need not. */
static capl_status sync_folder(const char *path)
{
  char folder[4096];
  const char *slash = strrchr(path, '/');
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1, slash ? path : ".");
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return io_fail("open", folder);
  capl_status status = fsync(fd) == 0 || errno == EINVAL ? CAPL_OK : io_fail("write", folder);
  close(fd);
  return status;
}

capl_status file_commit(file_writer *w)
{
  if (fsync(w->fd) != 0) {
    capl_status status = io_fail("write", w->temporary);
    file_abandon(w);
    return status;
  }
  close(w->fd);
  w->fd = -1;
  if (rename(w->temporary, w->path) == 0) return sync_folder(w->path);
  capl_status status = io_fail("rename to", w->path);
  unlink(w->temporary);
  return status;
}

capl_status file_write(const char *path, const void *data, size_t len)
{
  file_writer w;
  CAPL_TRY(file_begin(&w, path));
  capl_status status = file_append(&w, data, len);
  if (status == CAPL_OK) return file_commit(&w);
  file_abandon(&w);
  return status;
}
