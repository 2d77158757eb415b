/* launch.h -- runs a job in as many processes as it asks for.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_H
#define CAPL_LAUNCH_H

#include "program/job.h"

typedef struct {
  capl_job job;
  double seconds;  /* limit, 0 = none */
  int asked;       /* --ranks: RANKS_UNSAID, RANKS_GPUS or a number */
  int restarts;    /* --restart: how often it may be started again after the loss of a process */
  bool lost;       /* of the last start: it lost a process */
  bool starts;     /* the command starts ranks: run, bench */
  bool plans;      /* it only has to know how many there would be: check */
  int (*flush)(int status); /* what a worker does with its exit status before it ends */
} launch;

/* argc, argv: the whole call, for ranks that mpirun starts. Returns the exit status of the program, after saying what
** went wrong. */
int launch_job(launch *l, int argc, char **argv);

#endif
