/* ranks.h -- how many processes a job has, and who starts them.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_LAUNCH_RANKS_H
#define CAPL_LAUNCH_RANKS_H

#include <stdbool.h>
#include <stddef.h>

#include "capl/dist.h"

enum { RANKS_UNSAID = -1, RANKS_GPUS = 0, RANKS_MOST = 4096, RANKS_WHY = 256 };

/* Takes name=VALUE, or name VALUE, out of the words: *value, left alone when there is none. values: examples for the
** error. EVALUE: it has no value, or stands there twice. */
capl_status ranks_take_word(int *argc, char **argv, const char *name, const char *values, const char **value);
/* Takes --ranks=N or --ranks=gpus out of the words. *ranks: as in ranks_wish; left alone when there is none. EVALUE. */
capl_status ranks_take(int *argc, char **argv, int *ranks);

/* The word of --device among the words, else $CAPL_DEVICE; NULL when the machine chooses. */
const char *ranks_device(int argc, char *const *argv);
/* EVALUE: more ranks than GPUs. */
capl_status ranks_too_many(int ranks, int gpus);

typedef struct {
  int asked, header;  /* RANKS_UNSAID, RANKS_GPUS or a number */
  const char *device; /* NULL = a GPU where there is one */
} ranks_wish;

typedef enum {
  LAUNCH_ALONE,
  LAUNCH_PLAN,   /* one process that says what it would do: there is no GPU for it */
  LAUNCH_FORK,   /* a process per GPU of this machine, started here */
  LAUNCH_MPIRUN, /* processes on CPUs */
  LAUNCH_RANK,   /* this is one rank of a launcher's */
} launch_how;

typedef struct {
  launch_how how;
  int ranks;
  char why[RANKS_WHY]; /* LAUNCH_PLAN: why there is no GPU */
} ranks_decision;

/* gpus: counts them, and says why there is none. Errors name both sides that contradict each other. */
capl_status ranks_settle(const ranks_wish *wish, const capl_place *place, int (*gpus)(char *why, size_t room),
                         ranks_decision *out);

#endif
