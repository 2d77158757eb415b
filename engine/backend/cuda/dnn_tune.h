/* dnn_tune.h -- which of cuDNN's engines runs a record: the first that takes it, or the fastest.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_DNN_TUNE_H
#define CAPL_CUDA_DNN_TUNE_H

#include "backend/cuda/dnn_execute.h"

/* One record that an engine is looked for. */
typedef struct {
  const dnn_record *record;
  const dnn_candidates *candidates;
  const dnn_target *target;
  const dnn_slots *slots; /* staged */
  int64_t workspace_max;  /* bytes; engines that want more are left out while there are others */
} dnn_trial;

/* The first engine that takes the record, one within workspace_max if there is any; out->plan is NULL where there is
** none. */
void dnn_first_plan(const dnn_trial *trial, dnn_plan *out);

/* The fastest of the candidates within workspace_max: one configuration of each engine first, then the others. An
** engine that fails is passed over; out->plan is NULL where none ran. Writes the list of dnn_list.h where that is asked
** for. */
void dnn_tune(const dnn_trial *trial, dnn_plan *out);

/* Milliseconds of one run of work on cu.stream, which is waited for. What takes over twice best_ms (0: there is none
** yet) in its first run after the one that loads it is not timed any longer. */
capl_status dnn_time(const dnn_work *work, float best_ms, float *ms);
/* The same of a plan. */
capl_status dnn_time_plan(const dnn_plan *plan, const dnn_slots *s, float best_ms, float *ms);

#endif
