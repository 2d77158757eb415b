/* user_dirs.c -- finds and makes the user's folders.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "base/user_dirs.h"

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *capl_home_named(void)
{
  const char *home = getenv("HOME");
  return home && *home == '/' ? home : NULL;
}

const char *capl_home_listed(void)
{
  static char home[PATH_MAX];
  static bool asked;
  const struct passwd *user = asked ? NULL : getpwuid(geteuid());
  if (user && user->pw_dir && *user->pw_dir == '/' && strlen(user->pw_dir) < sizeof home) strcpy(home, user->pw_dir);
  asked = true;
  return *home ? home : NULL;
}

const char *capl_home(void)
{
  const char *home = capl_home_named();
  return home ? home : capl_home_listed();
}

bool capl_user_path(const char *variable, const char *otherwise, const char *name, char *path, size_t room)
{
  const char *named = getenv(variable), *home = capl_home(), *slash = *name ? "/" : "";
  int n = -1;
  if (named && *named == '/') n = snprintf(path, room, "%s/capl%s%s", named, slash, name);
  else if (home) n = snprintf(path, room, "%s/%s/capl%s%s", home, otherwise, slash, name);
  return n > 0 && (size_t)n < room;
}

void capl_make_parent_dirs(const char *path)
{
  char part[PATH_MAX];
  for (const char *slash = strchr(path + 1, '/'); slash && slash - path < PATH_MAX; slash = strchr(slash + 1, '/')) {
    size_t n = (size_t)(slash - path);
    memcpy(part, path, n);
    part[n] = '\0';
    mkdir(part, 0700);
  }
}

int capl_file_create_new(const char *path)
{
  unlink(path);
  return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}
