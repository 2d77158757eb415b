/* restart.h -- --restart=N: a job that has lost a process is started again and goes on from its last checkpoint.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_RESTART_H
#define CAPL_LAUNCH_RESTART_H

#include <stdbool.h>

#include "capl/error.h"

enum { RESTARTS_MOST = 1000 };

/* Takes --restart=N out of the words. *times: left alone when there is none. EVALUE. */
capl_status restart_take(int *argc, char **argv, int *times);

/* Whether a process was lost, by the exit status of a job that nobody has asked to end: it crashed, was killed, did not
** answer or lost its GPU. An error of the recipe would come again. */
bool restart_is_lost(int status);

/* How many ranks go on where `left` of `ranks` can: the most that share the images of a step evenly. */
int restart_ranks(int ranks, int left);

/* Whether the folder of a run, "" = not known, has a checkpoint. */
bool restart_has_checkpoint(const char *folder);

/* For the Lua of the ranks, as CAPL_RESTART: which start again this is, of how many, what the job ended with, how many
** ranks it was begun with, the folder to resume from or "". */
capl_status restart_announce(int number, int times, int status, int ranks, const char *folder);

/* Waits so many seconds. -> 0, or the signal that somebody has sent meanwhile to end the job. */
int restart_wait(double seconds);

#endif
