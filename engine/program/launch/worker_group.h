/* worker_group.h -- processes that are started and watched together, and what becomes of their output.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_WORKER_GROUP_H
#define CAPL_LAUNCH_WORKER_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "program/attach/hold.h"
#include "program/launch/tag.h"

enum { EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_LOST = 75, EXIT_TIME = 124 };

typedef enum {
  OUTPUT_OWN,    /* they print themselves */
  OUTPUT_TAGGED, /* what they print goes through this process, as lines by rank */
  OUTPUT_FRAMES, /* likewise, to another capl that has started mpirun */
  OUTPUT_MPIRUN, /* the process is mpirun, whose ranks send frames */
} worker_output;

typedef struct {
  int count;                         /* processes */
  int (*run)(void *user, int index); /* what process index does; returns its exit status */
  void (*started)(void *user);       /* called here when all have been forked; may be NULL */
  void *user;
  int first, ranks;   /* rank of process 0; ranks of the whole job, 1 = no names in messages */
  const char *host;   /* for the names of lines when there are several hosts; NULL = one */
  worker_output output;
  bool apart;         /* in a process group of their own, where the terminal's signals do not reach them */
  bool reported_elsewhere; /* another process reports signals and limits to the user */
  double limit;       /* seconds, 0 = none */
  double pace;         /* how much sooner than usual its end goes on, 0 = as usual; for tests */
  void (*request)(int fd); /* called when a process asks for something at descriptor requests; NULL = none does */
  int requests;
  time_hold *hold;     /* of the process that the limit is for; NULL = it is never held */
  char *run_folder;    /* of the job, where its supervisor learns it; NULL = nobody asks */
  bool *lost;          /* set when the job ends because a process was lost; NULL = nobody asks */
  atomic_bool *saving; /* one per process: it was asked to end and saves; NULL = nobody knows */
} worker_group;

#endif
