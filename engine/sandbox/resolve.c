/* resolve.c -- where a path leads, links followed, also when its last parts do not exist yet.
**
** realpath() gives up at a part that is missing, and a link that leads to nothing is missing to it: a file made through
** one would appear where the link leads. So the parts are walked here.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/policy.h"

enum { MOST_LINKS = 40 };

typedef struct {
  const char *said;
  char *done;  /* what is settled, without a slash at its end; "" = the root */
  size_t used; /* bytes of it */
  char rest[2 * CAPL_POLICY_PATH]; /* what is still to be walked */
  int links;
} walk;

static capl_status too_long(const walk *w)
{
  return CAPL_FAIL(CAPL_EVALUE, "%.200s…: the path is too long", w->said);
}

static void step_up(walk *w)
{
  while (w->used > 0 && w->done[--w->used] != '/') continue;
  w->done[w->used] = '\0';
}

static capl_status step_down(walk *w, const char *name, size_t n)
{
  if (w->used + n + 2 > CAPL_POLICY_PATH) return too_long(w);
  w->done[w->used++] = '/';
  memcpy(w->done + w->used, name, n);
  w->used += n;
  w->done[w->used] = '\0';
  return CAPL_OK;
}

/* Takes n bytes of the rest, puts what stands in link in front of it. */
static capl_status put_in_front(walk *w, size_t n, const char *link, size_t len)
{
  size_t kept = strlen(w->rest + n);
  if (len + 1 + kept + 1 > sizeof w->rest) return too_long(w);
  memmove(w->rest + len + 1, w->rest + n, kept + 1);
  memcpy(w->rest, link, len);
  w->rest[len] = '/';
  return CAPL_OK;
}

/* The part just settled may be a link: goes back and where that leads. n: bytes of it in the rest. */
static capl_status follow(walk *w, size_t n)
{
  struct stat st;
  char link[CAPL_POLICY_PATH];
  ssize_t len = lstat(w->done, &st) == 0 && S_ISLNK(st.st_mode) ? readlink(w->done, link, sizeof link) : -1;
  if (len < 0) return put_in_front(w, n, "", 0);
  if (len == sizeof link) return too_long(w);
  if (++w->links > MOST_LINKS) return CAPL_FAIL(CAPL_EIO, "%s: too many links lead in a circle", w->said);
  step_up(w);
  if (link[0] == '/') w->done[w->used = 0] = '\0';
  return put_in_front(w, n, link, (size_t)len);
}

static capl_status take_part(walk *w)
{
  size_t blank = strspn(w->rest, "/"), n = strcspn(w->rest + blank, "/");
  const char *name = w->rest + blank;
  if (n == 0 || (n == 1 && name[0] == '.')) return put_in_front(w, blank + n, "", 0);
  if (n == 2 && name[0] == '.' && name[1] == '.') {
    step_up(w);
    return put_in_front(w, blank + n, "", 0);
  }
  CAPL_TRY(step_down(w, name, n));
  return follow(w, blank + n);
}

capl_status capl_policy_resolve(const char *path, char *to)
{
  walk w = {.said = path, .done = to};
  to[0] = '\0';
  if (!*path) return CAPL_FAIL(CAPL_EVALUE, "an empty path");
  if (strlen(path) >= CAPL_POLICY_PATH) return too_long(&w);
  strcpy(w.rest, path);
  if (path[0] != '/') {
    if (!getcwd(to, CAPL_POLICY_PATH))
      return CAPL_FAIL(CAPL_EIO, "%s: the working folder is gone: %s", path, strerror(errno));
    w.used = strcmp(to, "/") == 0 ? 0 : strlen(to);
    to[w.used] = '\0';
  }
  while (w.rest[strspn(w.rest, "/")]) CAPL_TRY(take_part(&w));
  if (w.used == 0) strcpy(to, "/");
  return CAPL_OK;
}
