/* listing.h -- folders that sources look through.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_LISTING_H
#define CAPL_DATA_LISTING_H

#include <dirent.h>
#include <stdbool.h>

#include "capl/error.h"

/* *dir: closedir(). EIO: it cannot be listed; what the sandbox's policy refuses. */
capl_status listing_open(const char *path, DIR **dir);
/* Links to files are followed, links to folders are not: they may lead back up. */
bool listing_is_folder(DIR *dir, const struct dirent *entry);

#endif
