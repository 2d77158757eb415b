/* dnn_state.h -- what the files that run records share: cuDNN's handle, and the table of records with their plans.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_DNN_STATE_H
#define CAPL_CUDA_DNN_STATE_H

#include "backend/cuda/dnn_tune.h"

typedef enum { NOT_CHOSEN, OWN_FASTER, DNN_FASTER } dnn_choice;

typedef struct {
  bool used;
  dnn_record record;
  bool planned;  /* a plan was looked for */
  dnn_plan plan; /* .plan NULL: there is no engine */
  bool loaded;   /* from disk, and has not run yet */
  dnn_choice choice;
  uint64_t ran;  /* dnn_state.clock of its last run */
  bool recorded; /* a captured step took it */
  unsigned age;  /* cu.graph_age then */
} dnn_entry;

/* Of the process; dnn_close resets it. */
extern struct dnn_state {
  cudnnHandle_t handle;
  char scope[256]; /* of plans on disk */
  uint64_t clock;
  int norms_timed;
  double timing_s; /* what timing engines took so far */
  bool untimed;    /* the last record got no trial for want of time */
  bool listing;    /* every record is tuned anew, for the list of engines */
  dnn_statistics statistics;
} dnn_state;

/* ---- the table (dnn_table.c) ---- */

/* The record's entry, NULL where there is none; it is valid until the next record gets one. */
dnn_entry *dnn_table_find(const dnn_record *record);
/* Likewise, a new one where there is none. ENOMEM. */
capl_status dnn_table_entry(const dnn_record *record, dnn_entry **out);
/* Gives the record its plan, which the table frees. */
capl_status dnn_table_keep(const dnn_record *record, const dnn_plan *plan, bool loaded);
void dnn_table_clear(void);

/* ---- plans (dnn_run.c) ---- */

/* Whether its engines are timed. */
bool dnn_tunes(const dnn_record *record);
bool dnn_is_norm(const dnn_record *record);
/* dnn_refusal, and what only newer GPUs have: asking costs a graph for each record. */
const char *dnn_refusal_here(const dnn_record *record);
/* Makes the record's plan. Only a failure of the GPU or of memory is an error: no engine is an answer. */
capl_status dnn_make(const dnn_record *record, const dnn_slots *s);

#endif
