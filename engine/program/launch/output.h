/* output.h -- what the processes of a worker group print: collected, named by rank, handed on.
**
** Every call takes NULL for a worker_group that prints itself.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_OUTPUT_H
#define CAPL_LAUNCH_OUTPUT_H

#include "program/launch/worker_group.h"

typedef struct output output;
struct pollfd;

/* NULL without memory. */
output *output_new(const worker_group *c);
void output_free(output *o);

/* Around the fork of process index: makes its pipes; takes its ends, in the new process and in this one. */
bool output_open(output *o, int index);
void output_enter(output *o, int index);
void output_started(output *o, int index);

/* What to wait for: so many descriptors, with room for two more behind them. */
struct pollfd *output_polled(output *o);
int output_count(const output *o);
/* Reads what has come, after a poll. */
void output_read(output *o);
/* Whether anything may still come. */
bool output_left(const output *o);
/* All processes have ended, the job of this rank with that status. */
void output_finish(output *o, int status);

/* What is said when not all that was printed has arrived. */
const char *output_lost(void);
/* Whether something could not be written to standard output. */
bool output_failed(const output *o);
/* A line of this process itself, to standard error. */
void output_tell(output *o, const char *line, size_t len);
/* From now on mpirun's own words are left out: it is being ended, at which it complains. */
void output_mute(output *o);
/* Tells the capl that started mpirun whether this rank saves. */
void output_state(output *o, bool saving);
/* Sends it the folder of the run, once it is known. */
void output_folder(output *o);
/* Reports of ranks behind mpirun: that one saves; the status of the first that failed, -1 = none. */
bool output_saving(const output *o);
int output_status(const output *o);

#endif
