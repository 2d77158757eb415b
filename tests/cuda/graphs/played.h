/* played.h -- cuDNN and CUDA for tests of dnn_run.c and dnn_tune.c: played.c takes their place.
**
** A plan here is a number, its candidate. Running one checks that every tensor is aligned and writes the number into
** each byte of what the record writes, so that results show which plan ran and where they went. Time is what `played`
** says. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TESTS_PLAYED_H
#define CAPL_TESTS_PLAYED_H

#include "unit.h"

#include "backend/cuda/dnn_plan.h"

enum { CANDIDATES_MAX = 40, OWN = 0 };

/* What the stand-ins are told, and what they saw. Lists by candidate, from 1; OWN is the own kernels' place. */
typedef struct {
  size_t version;
  int candidates;                     /* offered by the heuristics */
  int number[CANDIDATES_MAX + 1];     /* its engine's; 0: the candidate's own */
  float ms[CANDIDATES_MAX + 1];       /* how long each takes */
  int64_t workspace[CANDIDATES_MAX + 1];
  bool compiled[CANDIDATES_MAX + 1], broken[CANDIDATES_MAX + 1]; /* broken: no plan can be made */
  bool text_refused;                  /* saved plans are not read */
  int failing;                        /* executions from here on that fail */
  size_t free, total;                 /* memory of the GPU */
  int graphs, plans_made, plans_live, loaded, executed, waited;
  int runs[CANDIDATES_MAX + 1];       /* executions of each */
  int engine;                         /* the candidate of the last execution */
  double pause;                       /* seconds that an execution really takes */
  float now;                          /* ms, by what was executed */
  const dnn_record *record;           /* being run */
  float eps, momentum;
} played_state;

extern played_state played;
extern int lines; /* of the log */
extern char last_line[1024];
extern const char conv[], norm[];

/* Memory of every role, `off` bytes beside an address of 64. */
enum { ROOM = 4096 };
extern unsigned char memory[DNN_ROLES][ROOM];

/* The record of a text and its tensors, filled; p is what they are given to. */
const dnn_record *prepare(const char *text, int off, dnn_pointers *p);
/* Runs it. */
capl_status run(const char *text, int off);
/* Exactly the tensor was written, by the plan of this candidate. */
void need_written(dnn_role role, int off, int engine);
void *pointer_of(int64_t uid); /* what the last execution was given */
/* As after the process's end: what was kept in memory is gone. */
void restart(void);
/* A cache of its own for each test. */
int begin(void **state);
int end(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
