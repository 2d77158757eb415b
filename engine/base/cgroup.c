/* cgroup.c -- walks the control groups that a process is in.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/cgroup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool cgroup_numbers(const char *folder, const char *file, int64_t *first, int64_t *second)
{
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) return false;
  FILE *f = fopen(path, "re");
  if (!f) return false;
  int n = second ? fscanf(f, "%" SCNd64 " %" SCNd64, first, second) : fscanf(f, "%" SCNd64, first);
  fclose(f);
  return n == (second ? 2 : 1);
}

/* The least that a group and those above it grant. A container may see its own group at the top of the mount and
** its path as the host sees it: folders that are not there set no limit. */
static int64_t least_of_path(const char *mount, const char *group, int64_t (*grant)(const char *folder))
{
  char folder[4096];
  int64_t least = grant(mount);
  if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder) return least;
  for (char *end = folder + strlen(folder); end > folder + strlen(mount); *end = '\0') {
    int64_t n = grant(folder);
    if (n < least) least = n;
    end = strrchr(folder, '/');
  }
  return least;
}

/* Whether a list "a,b,c" has a word. */
static bool lists(const char *list, const char *word)
{
  size_t length = strlen(word);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
  }
  return false;
}

/* line: ID:CONTROLLERS:GROUP of /proc/self/cgroup. Version 2 names no controllers. */
static int64_t least_of_line(const char *root, char *line, const char *controller, int64_t (*grant)(const char *folder))
{
  char mount[4096], *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return CGROUP_NO_LIMIT;
  *group++ = '\0';
  controllers++;
  group[strcspn(group, "\n")] = '\0';
  bool version2 = *controllers == '\0';
  if (!version2 && !lists(controllers, controller)) return CGROUP_NO_LIMIT;
  snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, version2 ? "" : "/", controllers);
  return least_of_path(mount, group, grant);
}

int64_t cgroup_least(const char *root, const char *controller, int64_t (*grant)(const char *folder))
{
  char path[4096], line[4096];
  int64_t least = CGROUP_NO_LIMIT;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *f = fopen(path, "re");
  if (!f) return least;
  while (fgets(line, sizeof line, f)) {
    int64_t n = least_of_line(root, line, controller, grant);
    if (n < least) least = n;
  }
  fclose(f);
  return least;
}
