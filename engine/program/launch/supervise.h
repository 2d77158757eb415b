/* supervise.h -- starts processes and watches them until the last has ended.
**
** Passes SIGINT, SIGTERM and SIGHUP on, ends the processes when their time is over, and when one has failed and the
** others do not end by themselves. None of them outlives this process, however it ends.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_SUPERVISE_H
#define CAPL_LAUNCH_SUPERVISE_H

#include "program/launch/worker_group.h"

/* Runs the worker group and returns the exit status of the job: of the first process that failed; 124 out of time. */
int supervise(const worker_group *c);

#endif
