/* policy.h -- what files this process may use, and how much of the machine: the recipe's side of the sandbox.
**
** One policy per process. At first everything is allowed: the prompt, -e and commands that load no recipe are the
** user's own. A worker that is about to load a recipe grants folders and files, then closes the policy: from then on
** only what was granted. Every path that a recipe hands over is checked against it (bind_check_path); the system's
** layer (sandbox.h) is built from the same list.
**
** Grants and checks are for the thread that runs Lua.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SANDBOX_POLICY_H
#define CAPL_SANDBOX_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

/* For the system's layer only: BESIDE, of a file: temporary files may be made beside it, from which it is renamed;
** REMOVE: what lies in a folder. QUIETLY: messages do not count it up. */
enum { CAPL_MAY_READ = 1, CAPL_MAY_WRITE = 2, CAPL_MAY_BESIDE = 4, CAPL_MAY_REMOVE = 8, CAPL_MAY_QUIETLY = 16 };
enum { CAPL_POLICY_PATH = 4096 };

/* Limits on what a recipe takes; 0 = none. */
typedef struct {
  uint64_t lua_bytes;    /* Lua's heap: what it collects for, then an error; twice of it ends the process */
  uint64_t tensor_bytes; /* tensors of the cpu device */
  double seconds;        /* the run is stopped after these */
  uint64_t output_bytes; /* written to files */
} capl_limits;

/* What holds for a recipe that asks for nothing. tensor_bytes: what is free on this machine or in its control group. */
enum { CAPL_LIMIT_DAYS = 7, CAPL_LIMIT_LUA_GB = 2, CAPL_LIMIT_OUTPUT_GB = 20 };

/* Adds a file or a folder with all below it. Links are followed now: what counts is where they lead. Of what does not
** exist yet its place is granted. EVALUE: too many, or to write where a folder is
** protected; ESTATE: the policy is closed. */
CAPL_API capl_status capl_policy_grant(const char *path, int rights);

/* The same of a path that capl_policy_resolve has given: a link that has come to lie there since is not followed. */
CAPL_API capl_status capl_policy_grant_resolved(const char *real, int rights);

/* A folder whose files capl itself believes: from now on a grant to write in it, above it or beside it is an EVALUE.
** what: what it holds, a text that stays. */
CAPL_API capl_status capl_policy_protect(const char *folder, const char *what);

/* Whether a resolved folder holds the home of the user, by $HOME or by the system's list of users, or what everybody
** puts down for a while: such a folder is never granted as a whole because one of its files is needed. */
CAPL_API bool capl_policy_is_too_wide(const char *real);

/* From here on only what was granted. There is no way back. */
CAPL_API void capl_policy_close(void);
CAPL_API bool capl_policy_is_closed(void);

/* CAPL_OK, or EIO: what was wanted, what is allowed, and what to write. */
CAPL_API capl_status capl_policy_check(const char *path, int rights);

/* What open() has just given for path, errno and all: CAPL_OK, or EIO when it lies, by whatever link, where the policy
** does not allow to read. Then nothing must be taken from it. For readers, of any thread, whose paths stand in files,
** or below a folder that was checked. */
CAPL_API capl_status capl_policy_opened(int fd, const char *path);

/* Set before the policy is closed; all zero until then. */
CAPL_API void capl_policy_set_limits(const capl_limits *limits);
CAPL_API const capl_limits *capl_policy_limits(void);

/* Counts what is printed and written, by any thread; EIO when it is more than the limit of a closed policy. */
CAPL_API capl_status capl_policy_wrote(uint64_t bytes);
CAPL_API bool capl_policy_output_over(void);

/* Whether a resolved path is granted, closed or not. */
CAPL_API bool capl_policy_would_allow(const char *real, int rights);

/* Calls f with every grant, for the system's layer and for tests. */
CAPL_API void capl_policy_each(void (*f)(void *user, const char *path, int rights), void *user);

/* Whether a resolved path is a folder, or lies in it. */
CAPL_API bool capl_policy_is_below(const char *path, const char *folder);

/* Where path leads: absolute, without links, "." and ".."; what does not exist is kept as it is said.
** EVALUE: too long; EIO: more links than anybody follows. to: CAPL_POLICY_PATH bytes. */
CAPL_API capl_status capl_policy_resolve(const char *path, char *to);

#endif
