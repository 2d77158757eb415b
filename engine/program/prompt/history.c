/* history.c -- lines typed at prompts, in a file that several of them may write at once.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "program/prompt/history.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/user_dirs.h"
#include "base/write.h"

enum { ENTRIES = 5000, SPARE = 1000, MOST_BYTES = 16 << 20, LONGEST_PATH = 4096 };
static const char head[] = "_HiStOrY_V2_\n";

/* ---- the path -------------------------------------------------------------------------------- */

/* NULL = nowhere */
static char *default_path(void)
{
  const char *own = getenv("CAPL_HISTORY");
  char path[LONGEST_PATH];
  if (own) return *own ? strdup(own) : NULL;
  if (!capl_user_path("XDG_STATE_HOME", ".local/state", "history", path, sizeof path)) return NULL;
  capl_make_parent_dirs(path);
  return strdup(path);
}

/* ---- entries as lines ------------------------------------------------------------------------ */

static bool is_odd(unsigned char c) { return c < 32 || c == 127 || c == '\\'; }

/* malloc'ed, with a line break at its end */
static char *encode(const char *text)
{
  char *line = malloc(4 * strlen(text) + 2), *to = line;
  if (!line) return NULL;
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (is_odd(c)) to += sprintf(to, "\\%03o", c);
    else *to++ = (char)c;
  }
  strcpy(to, "\n");
  return line;
}

static bool is_octal(const char *p)
{
  for (int i = 0; i < 3; i++)
    if (p[i] < '0' || p[i] > (i ? '7' : '3')) return false;
  return true;
}

/* In place; "\\" stands for itself in files of older kinds. */
static void decode(char *line)
{
  char *to = line;
  for (const char *p = line; *p;) {
    if (*p != '\\') *to++ = *p++;
    else if (is_octal(p + 1)) *to++ = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0')), p += 4;
    else if (p[1]) *to++ = p[1], p += 2;
    else p++;
  }
  *to = '\0';
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Under a lock that goes when it is closed; -1 = it cannot be opened. Only regular files: a pipe would hold us up. */
static int open_locked(const char *path)
{
  struct stat info;
  int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
  if (fd < 0) fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* old lines at least */
  if (fd < 0) return -1;
  bool fine = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (fine) flock(fd, LOCK_EX); /* where a file system knows no locks, nothing is lost but order */
  if (fine && (info.st_mode & 077) != 0 && info.st_uid == geteuid() && fchmod(fd, 0600) != 0) errno = 0;
  if (!fine) close(fd), fd = -1;
  return fd;
}

static char *read_all(int fd)
{
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_size > MOST_BYTES) return NULL;
  char *text = malloc((size_t)info.st_size + 1);
  ssize_t n = text ? pread(fd, text, (size_t)info.st_size, 0) : -1;
  if (n < 0) return free(text), NULL;
  text[n] = '\0';
  return text;
}

static bool write_all(int fd, const char *text) { return base_write(fd, text, strlen(text)); }

/* Under the lock, in the same file: other prompts hold it open by its name. */
static void write_anew(int fd, char **entry, size_t n)
{
  if (ftruncate(fd, 0) != 0) return;
  FILE *file = fdopen(dup(fd), "a");
  if (!file) return;
  fputs(head, file);
  for (size_t i = 0; i < n; i++) {
    char *line = encode(entry[i]);
    if (line) fputs(line, file);
    free(line);
  }
  fclose(file);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Entries of text, which they point into; *n of them. NULL = no memory. */
static char **split(char *text, size_t *n)
{
  size_t lines = 1;
  for (const char *p = text; *p; p++) lines += *p == '\n';
  char **entry = malloc(lines * sizeof *entry);
  *n = 0;
  for (char *line = text, *next; entry && line && *line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = '\0';
    if (line == text && strncmp(line, head, sizeof head - 2) == 0) continue;
    decode(line);
    if (*line) entry[(*n)++] = line;
  }
  return entry;
}

typedef struct {
  char *text;
  size_t place;
} placed;

static int by_text(const void *a, const void *b)
{
  const placed *x = a, *y = b;
  int order = strcmp(x->text, y->text);
  return order ? order : (x->place > y->place) - (x->place < y->place);
}

/* Keeps the last of equal entries, and of those the last ENTRIES. Returns how many are left. */
static size_t drop_doubles(char **entry, size_t n)
{
  placed *sorted = malloc((n + 1) * sizeof *sorted);
  if (!sorted) return n;
  for (size_t i = 0; i < n; i++) sorted[i] = (placed){entry[i], i};
  qsort(sorted, n, sizeof *sorted, by_text);
  for (size_t i = 0; i + 1 < n; i++)
    if (strcmp(sorted[i].text, sorted[i + 1].text) == 0) entry[sorted[i].place] = NULL;
  free(sorted);
  size_t kept = 0;
  for (size_t i = 0; i < n; i++)
    if (entry[i]) entry[kept++] = entry[i];
  size_t over = kept > ENTRIES ? kept - ENTRIES : 0;
  memmove(entry, entry + over, (kept - over) * sizeof *entry);
  return kept - over;
}

static void load(capl_history *h, int fd)
{
  HistEvent event;
  size_t n = 0;
  char *text = read_all(fd), **entry = text ? split(text, &n) : NULL;
  size_t kept = entry ? drop_doubles(entry, n) : 0;
  for (size_t i = 0; i < kept; i++) history(h->list, &event, H_ENTER, entry[i]);
  if (n > kept + SPARE) write_anew(fd, entry, kept);
  free(entry);
  free(text);
}

/* ---- the list -------------------------------------------------------------------------------- */

int capl_history_open(capl_history *h)
{
  HistEvent event;
  *h = (capl_history){history_init(), default_path()};
  if (!h->list) return free(h->path), 0;
  history(h->list, &event, H_SETSIZE, ENTRIES + SPARE);
  history(h->list, &event, H_SETUNIQUE, 1);
  int fd = h->path ? open_locked(h->path) : -1;
  if (fd >= 0) load(h, fd), close(fd);
  return 1;
}

/* Appends one entry; the first one in a file comes behind libedit's mark of its kind. */
static void append(const char *path, const char *text)
{
  struct stat info;
  char *line = encode(text);
  int fd = line ? open_locked(path) : -1;
  if (fd >= 0) {
    bool fine = fstat(fd, &info) == 0 && (info.st_size > 0 || write_all(fd, head)) && write_all(fd, line);
    if (!fine) errno = 0; /* a full disk does not stop anybody from typing */
    close(fd);
  }
  free(line);
}

/* An older entry like this one goes: it was moved, not doubled. */
static void forget(History *list, const char *text)
{
  HistEvent event;
  for (int more = history(list, &event, H_FIRST); more >= 0; more = history(list, &event, H_NEXT)) {
    if (strcmp(event.str, text) != 0) continue;
    history(list, &event, H_DEL, event.num);
    return;
  }
}

void capl_history_add(capl_history *h, const char *text)
{
  HistEvent event;
  char *entry = strdup(text);
  if (!entry) return;
  size_t n = strlen(entry);
  while (n > 0 && isspace((unsigned char)entry[n - 1])) entry[--n] = '\0';
  if (n > 0) {
    forget(h->list, entry);
    history(h->list, &event, H_ENTER, entry);
    if (h->path) append(h->path, entry);
  }
  free(entry);
}

void capl_history_close(capl_history *h)
{
  if (h->list) history_end(h->list);
  free(h->path);
}
