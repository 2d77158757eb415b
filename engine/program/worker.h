/* worker.h -- the process that runs Lua: recipes, commands and the prompt.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_PROGRAM_WORKER_H
#define CAPL_PROGRAM_WORKER_H

#include "program/job.h"

/* Does the job and returns the exit status of the process: 0, 1 after an error, 130 after Ctrl-C. */
int capl_worker_run(const capl_job *job);

#endif
