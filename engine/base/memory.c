/* memory.c -- how much memory this machine has, and this process may still take.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assume.h"
#include "base/cgroup.h"

/* The number behind a word at the beginning of a line; 0 when there is none. */
static int64_t number_of(const char *path, const char *word)
{
  char line[256];
  int64_t found = 0;
  size_t length = strlen(word);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  while (fgets(line, sizeof line, f)) {
    if (strncmp(line, word, length) == 0 && sscanf(line + length, "%" SCNd64, &found) == 1) break;
  }
  fclose(f);
  return found;
}

/* What a group's limit leaves; a limit above all memory there can be is how version 1 says none. */
static int64_t folder_leaves(const char *folder)
{
  char stat[4200];
  int64_t limit, used;
  bool version2 = cgroup_numbers(folder, "memory.max", &limit, NULL);
  bool found = version2 ? cgroup_numbers(folder, "memory.current", &used, NULL)
                        : cgroup_numbers(folder, "memory.limit_in_bytes", &limit, NULL) &&
                            cgroup_numbers(folder, "memory.usage_in_bytes", &used, NULL);
  if (!found || limit >= INT64_MAX / 2) return CGROUP_NO_LIMIT;
  snprintf(stat, sizeof stat, "%s/memory.stat", folder);
  int64_t left = limit - used + number_of(stat, version2 ? "inactive_file " : "total_inactive_file ");
  return left > 0 ? left : 0;
}

int64_t capl_memory_total(void)
{
  int64_t assumed;
  return capl_assumed(CAPL_ASSUME_MEMORY, &assumed) ? assumed : 1024 * number_of("/proc/meminfo", "MemTotal:");
}

int64_t capl_memory_available(const char *root)
{
  char path[4096];
  int64_t assumed;
  if (!*root && capl_assumed(CAPL_ASSUME_MEMORY, &assumed)) return assumed;
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  int64_t of_machine = 1024 * number_of(path, "MemAvailable:");
  int64_t of_groups = cgroup_least(root, "memory", folder_leaves);
  if (of_machine == 0) return of_groups == CGROUP_NO_LIMIT ? 0 : of_groups;
  return of_groups < of_machine ? of_groups : of_machine;
}
