/* cgroup.h -- what the control groups of this process grant it.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_CGROUP_H
#define CAPL_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define CGROUP_NO_LIMIT INT64_MAX

/* The first number of a file of a group's folder, or the first two; false when it has none. second may be NULL. */
bool cgroup_numbers(const char *folder, const char *file, int64_t *first, int64_t *second);

/* The least that the groups of this process grant, versions 1 and 2, and all groups above them. controller: "cpu",
** "memory" …; grant: what one folder grants, CGROUP_NO_LIMIT for no limit. root: where /proc and /sys are looked for,
** "" outside tests. */
int64_t cgroup_least(const char *root, const char *controller, int64_t (*grant)(const char *folder));

#endif
