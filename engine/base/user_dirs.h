/* user_dirs.h -- the user's folders for what programs keep: caches, histories, answers.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_USER_DIRS_H
#define CAPL_BASE_USER_DIRS_H

#include <stdbool.h>
#include <stddef.h>

#include "capl/error.h"

/* The user's home by $HOME; NULL where that is no absolute path. */
CAPL_API const char *capl_home_named(void);
/* The same by the system's list of users, whatever $HOME says; NULL where that is not known. Asked once: in the sandbox
** the list cannot be read. */
CAPL_API const char *capl_home_listed(void);
/* $HOME, else what the list says, else NULL. */
CAPL_API const char *capl_home(void);

/* $variable/capl/name, as of "XDG_CACHE_HOME"; where the variable names no folder, HOME/otherwise/capl/name, as of
** ".cache". A relative path is no place, says the XDG specification. name "": the folder of capl itself. -> false:
** there is no place, or its path has room or more bytes. */
CAPL_API bool capl_user_path(const char *variable, const char *otherwise, const char *name, char *path, size_t room);

/* Makes the folders in which path lies, for this user alone; most are there as a rule. What cannot be made is found out
** by whoever uses it. */
CAPL_API void capl_make_parent_dirs(const char *path);

/* Makes a file anew for writing: what has that name goes, and where it is a link nobody follows it. -> a descriptor; -1
** and errno. */
CAPL_API int capl_file_create_new(const char *path);

#endif
