/* schedule.h -- the stages of one loader, with positions turned into steps: what row_stage a batch is made by.
**
** A pure function of what is in the struct and of a step; nothing in it changes while batches are made but `since` of a
** stage that waits for a metric, and that only for steps no batch has been made of.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_SCHEDULE_H
#define CAPL_DATA_SCHEDULE_H

#include "capl/schedule.h"
#include "data/source.h"

typedef struct {
  int n;                 /* 0 = there is none */
  capl_stage *stage;     /* [n], owned; lengths of difficulties are characters, as far as the source has them */
  uint64_t *since;       /* [n] step at which it begins; SCHEDULE_NEVER while it waits for its metric */
  uint64_t batches;      /* of an epoch */
} schedule;

#define SCHEDULE_NEVER UINT64_MAX

/* Copies the stages, whose augmentations have been checked. batches: of an epoch. EVALUE naming the stage (from 1) that
** contradicts another one, the source or itself; ENOMEM. schedule_fini frees, also what a failed init left. */
capl_status schedule_init(schedule *s, const capl_stage *stages, int n, uint64_t batches, const capl_source *source);
void schedule_fini(schedule *s);

/* Steps made before batch number `batch` of an epoch. */
uint64_t schedule_step(const schedule *s, uint64_t epoch, uint64_t batch);
/* What the batch after so many steps is made of. */
void schedule_at(const schedule *s, uint64_t step, capl_stage_values *values);
/* What a stage is when it has come in fully. */
void schedule_target(const schedule *s, int stage, capl_stage_values *values);
/* The stage begins at a step to come. EVALUE. */
capl_status schedule_reached(schedule *s, int stage, uint64_t step);
/* Puts back what `since` was. EVALUE. */
capl_status schedule_restore(schedule *s, const uint64_t *since);

#endif
