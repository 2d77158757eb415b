/* plan_cache.c -- entries as files: name, checksum, reading, writing.
**
** File: "capl cache 1 CHECKSUM LENGTH\n", then LENGTH bytes: scope, line break, key, line break, value. The checksum is
** over those bytes, so that a change of any one of them shows.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/plan_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/user_dirs.h"
#include "base/text.h"
#include "base/write.h"

enum { PATH_LEN = 4096, HEAD_LEN = 64, ENTRY_MAX = 64 << 20 };

static const char magic[] = "capl cache 1";

/* FNV-1a, 64 bits. */
static uint64_t checksum(uint64_t hash, const void *data, size_t len)
{
  const unsigned char *p = data;
  for (size_t i = 0; i < len; i++) hash = (hash ^ p[i]) * 0x100000001B3u;
  return hash;
}

static const uint64_t CHECKSUM_START = 0xCBF29CE484222325u;

/* ---- places -------------------------------------------------------------------------------------------- */

static bool path_of(const char *kind, const char *scope, const char *key, char *path)
{
  if (!capl_user_path("XDG_CACHE_HOME", ".cache", "", path, PATH_LEN - HEAD_LEN)) return false;
  uint64_t name = checksum(CHECKSUM_START, scope, strlen(scope) + 1);
  name = checksum(name, key, strlen(key));
  size_t used = strlen(path);
  int n = snprintf(path + used, PATH_LEN - used, "/%s-%016" PRIx64, kind, name);
  return n > 0 && (size_t)n < PATH_LEN - used;
}

/* One line about the file at path; its name may hold anything. */
static void log_cache(const char *path, const char *what, const char *why)
{
  char shown[512];
  capl_text_show(shown, sizeof shown, path, false);
  capl_log("%s %s: %s", shown, what, why);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* The whole of a file with a NUL behind it; NULL if there is none. */
static char *read_all(const char *path, size_t *len)
{
  struct stat about;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return NULL;
  char *text = NULL;
  size_t got = 0;
  if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size <= ENTRY_MAX)
    text = malloc((size_t)about.st_size + 1);
  while (text && got < (size_t)about.st_size) {
    ssize_t n = read(file, text + got, (size_t)about.st_size - got);
    if (n <= 0) break;
    got += (size_t)n;
  }
  close(file);
  if (text) text[got] = '\0';
  *len = got;
  return text;
}

/* Where the value starts in a file's text; NULL and why. */
static const char *check(const char *text, size_t len, const char *scope, const char *key, const char **why)
{
  uint64_t sum;
  size_t body_len, scope_len = strlen(scope), key_len = strlen(key);
  const char *body = memchr(text, '\n', len < HEAD_LEN ? len : HEAD_LEN);
  char head[HEAD_LEN];
  *why = "is damaged";
  if (!body || sscanf(text, "capl cache 1 %16" SCNx64 " %zu", &sum, &body_len) != 2) return NULL;
  /* sscanf forgives spaces and signs, the text as it is written does not. */
  int head_len = snprintf(head, sizeof head, "%s %016" PRIx64 " %zu\n", magic, sum, body_len);
  if (head_len != ++body - text || memcmp(text, head, (size_t)head_len) != 0) return NULL;
  if (body_len != len - (size_t)head_len || checksum(CHECKSUM_START, body, body_len) != sum) return NULL;
  *why = "was made for another GPU or another version";
  if (body_len < scope_len + key_len + 2 || memcmp(body, scope, scope_len) != 0 || body[scope_len] != '\n') return NULL;
  const char *second = body + scope_len + 1;
  return memcmp(second, key, key_len) == 0 && second[key_len] == '\n' ? second + key_len + 1 : NULL;
}

char *plan_cache_read(const char *kind, const char *scope, const char *key, size_t *len)
{
  char path[PATH_LEN];
  size_t all;
  if (!path_of(kind, scope, key, path)) return NULL;
  char *text = read_all(path, &all);
  if (!text) return NULL;
  const char *why, *value = check(text, all, scope, key, &why);
  if (!value) {
    log_cache(path, why, "it is made again");
    free(text);
    return NULL;
  }
  *len = all - (size_t)(value - text);
  memmove(text, value, *len + 1);
  return text;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static bool write_entry(int file, const char *scope, const char *key, const void *value, size_t len)
{
  char head[HEAD_LEN];
  const struct {
    const void *p;
    size_t len;
  } parts[] = {{scope, strlen(scope)}, {"\n", 1}, {key, strlen(key)}, {"\n", 1}, {value, len}};
  enum { PARTS = sizeof parts / sizeof *parts };
  uint64_t sum = CHECKSUM_START;
  size_t total = 0;
  for (int i = 0; i < PARTS; i++) {
    sum = checksum(sum, parts[i].p, parts[i].len);
    total += parts[i].len;
  }
  snprintf(head, sizeof head, "%s %016" PRIx64 " %zu\n", magic, sum, total);
  bool ok = base_write(file, head, strlen(head));
  for (int i = 0; i < PARTS && ok; i++) ok = base_write(file, parts[i].p, parts[i].len);
  return ok;
}

/* Into a new file beside path, then renamed: readers see the old entry or the new one. */
static bool replace(const char *path, const char *scope, const char *key, const void *value, size_t len)
{
  char new_path[PATH_LEN + 32];
  snprintf(new_path, sizeof new_path, "%s.%ld", path, (long)getpid());
  unlink(new_path); /* left by a process of that number that was killed */
  int file = open(new_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  bool ok = write_entry(file, scope, key, value, len);
  int err = errno;
  if (close(file) != 0 && ok) ok = false, err = errno;
  if (ok && rename(new_path, path) == 0) return true;
  if (ok) err = errno;
  unlink(new_path);
  errno = err;
  return false;
}

void plan_cache_write(const char *kind, const char *scope, const char *key, const void *value, size_t len)
{
  static bool logged;
  char path[PATH_LEN];
  if (!path_of(kind, scope, key, path)) return;
  if (replace(path, scope, key, value, len)) return;
  if (errno == ENOENT) {
    capl_make_parent_dirs(path);
    if (replace(path, scope, key, value, len)) return;
  }
  if (logged) return;
  logged = true;
  log_cache(path, "cannot be written, so that the next start takes as long as this one", capl_errno_text(errno));
}

void plan_cache_drop(const char *kind, const char *scope, const char *key, const char *why)
{
  char path[PATH_LEN];
  if (!path_of(kind, scope, key, path)) return;
  log_cache(path, "is of no use and is made again", why);
  unlink(path);
}
