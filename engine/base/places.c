/* places.c -- finds and makes the user's folders.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "base/places.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool capl_place(const char *variable, const char *otherwise, const char *name, char *path, size_t room)
{
  const char *named = getenv(variable), *home = getenv("HOME"), *slash = *name ? "/" : "";
  int n = -1;
  if (named && *named == '/') n = snprintf(path, room, "%s/capl%s%s", named, slash, name);
  else if (home && *home == '/') n = snprintf(path, room, "%s/%s/capl%s%s", home, otherwise, slash, name);
  return n > 0 && (size_t)n < room;
}

void capl_place_make_above(const char *path)
{
  char part[PATH_MAX];
  for (const char *slash = strchr(path + 1, '/'); slash && slash - path < PATH_MAX; slash = strchr(slash + 1, '/')) {
    size_t n = (size_t)(slash - path);
    memcpy(part, path, n);
    part[n] = '\0';
    mkdir(part, 0700);
  }
}
