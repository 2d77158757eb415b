/* listing.c -- folders that sources look through: opened under the sandbox's policy.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/text.h"
#include "sandbox/policy.h"

static capl_status cannot_list(const char *path)
{
  bool missing = errno == ENOENT;
  CAPL_FAIL(CAPL_EIO, "%s: cannot be listed: %s", path, capl_errno_text(errno));
  if (missing && *path != '/') capl_error_hint("the path starts at the folder in which capl was started");
  return CAPL_EIO;
}

capl_status listing_open(const char *path, DIR **dir)
{
  *dir = opendir(path);
  capl_status status = capl_policy_opened(*dir ? dirfd(*dir) : -1, path);
  if (!*dir) return status ? status : cannot_list(path);
  if (status != CAPL_OK) closedir(*dir);
  return status;
}

bool listing_is_folder(DIR *dir, const struct dirent *entry)
{
  struct stat st;
  if (entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
  return fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}
