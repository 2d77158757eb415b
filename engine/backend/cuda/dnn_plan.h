/* dnn_plan.h -- from an operation graph to plans: which of cuDNN's engines may run it, finished plans, plans as text.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_DNN_PLAN_H
#define CAPL_CUDA_DNN_PLAN_H

#include "backend/cuda/dnn_graph.h"

/* Whom plans are made for: this process's GPU by handle, or any GPU by description (then handle is NULL). */
typedef struct {
  cudnnHandle_t handle;
  cudnnBackendDescriptor_t device;
} dnn_target;

/* A GPU described in cuDNN's own JSON. For machines without one. */
capl_status dnn_target_describe(const char *json, dnn_target *out);
/* GPU number index of this process, described likewise. */
capl_status dnn_target_of_gpu(int index, dnn_target *out);
/* The description as text, NUL-ended, to be freed by the caller. */
capl_status dnn_target_text(const dnn_target *target, char **json);
void dnn_target_free(dnn_target *target);

/* One engine with its settings, as cuDNN's heuristics propose it. */
typedef struct {
  cudnnBackendDescriptor_t config;
  int64_t engine;     /* cuDNN's number of it */
  uint32_t numerical; /* bit per cudnnBackendNumericalNote_t */
  uint32_t behavior;  /* bit per cudnnBackendBehaviorNote_t */
} dnn_candidate;

enum { DNN_CANDIDATES = 64 };

typedef struct {
  dnn_candidate list[DNN_CANDIDATES]; /* best first */
  int count;
  int refused; /* engines that the record's switches do not allow */
} dnn_candidates;

/* Asks heuristics mode A, then the fallback list, and keeps what the record's switches allow. An empty list is no
** error. */
capl_status dnn_candidates_get(const dnn_record *record, const dnn_graph *g, const dnn_target *target,
                               dnn_candidates *out);
void dnn_candidates_free(dnn_candidates *list);

/* Whether the record's switches allow an engine with these notes. */
bool dnn_allows(const dnn_record *record, uint32_t numerical);

typedef struct {
  cudnnBackendDescriptor_t plan;
  int64_t workspace; /* bytes */
  int64_t engine;
  uint32_t numerical;
} dnn_plan;

/* EUNSUPPORTED where the engine turns out not to take the graph. Runtime-compiled engines take up to a second. */
capl_status dnn_plan_make(const dnn_candidate *candidate, const dnn_target *target, dnn_plan *out);
void dnn_plan_free(dnn_plan *plan);

/* A plan as text, NUL-ended, to be freed by the caller; and back. Both texts start with the engine and its notes. */
capl_status dnn_plan_save(const dnn_plan *plan, char **text);
capl_status dnn_plan_load(const char *text, const dnn_target *target, dnn_plan *out);

bool dnn_uses_tensor_cores(uint32_t numerical);

#endif
