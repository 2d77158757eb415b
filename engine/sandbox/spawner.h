/* spawner.h -- starts the reader of LMDB files, also for a process in the sandbox, which may start none.
**
** There the supervisor does it: it is asked through a socket made before the worker was forked, looks at the path
** with its own copy of the policy, and hands the reader the end of a pipe that came along.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SANDBOX_SPAWNER_H
#define CAPL_SANDBOX_SPAWNER_H

#include <stdbool.h>
#include <sys/types.h>

#include "capl/error.h"

/* Makes the socket; once, before the workers are forked. -> the supervisor's end, -1 = there is none. */
CAPL_API int capl_spawner_open(void);
/* In the worker: the other end is not this process's. */
CAPL_API void capl_spawner_enter(void);
/* In the supervisor, when something has come: one request. Logs nothing; the caller gets the error. */
CAPL_API void capl_spawner_serve(int socket);

typedef struct {
  pid_t pid;  /* of a child, or 0 */
  int answer; /* else where the supervisor says how it ended */
} spawned;

/* Starts `program path` with out as its standard output, nothing else of this process, and no signals blocked. program:
** one of capl's parts (library_program). EIO. */
capl_status spawner_start(const char *program, const char *path, int out, spawned *s);
/* Waits for its end. unwanted: it is ended now, or by the end of its pipe. -> a status as of waitpid; -1 = nobody
** knows. */
int spawner_end(spawned *s, bool unwanted);

#endif
