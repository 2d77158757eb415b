/* dnn_execute.h -- running a finished plan on a record's tensors.
**
** Whatever a plan is given is aligned to 16 bytes, since all plans are made for that; what is not (views of images,
** slices of lists) is copied to scratch memory and back.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_DNN_EXECUTE_H
#define CAPL_CUDA_DNN_EXECUTE_H

#include "backend/cuda/dnn_plan.h"

/* One tensor, or a number on the host (bytes 0). */
typedef struct {
  int64_t uid;
  void *origin, *at; /* the caller's memory; what the plan gets, scratch where that differs */
  size_t bytes;
  bool read, written;
  bool copied; /* even if aligned */
} dnn_slot;

enum { DNN_SLOTS = DNN_ROLES + 4 };

typedef struct {
  capl_device *device;
  cudnnHandle_t handle;
  dnn_slot list[DNN_SLOTS];
  int count;
} dnn_slots;

/* The record's tensors, in scratch memory where need be. What is staged must be unstaged or released. */
capl_status dnn_stage(dnn_slots *s, capl_device *device, cudnnHandle_t handle, const dnn_record *record,
                      const dnn_pointers *p);
/* Results to where they were asked for, scratch memory back. */
capl_status dnn_unstage(dnn_slots *s);
/* Scratch memory back, results lost. */
void dnn_release(dnn_slots *s);

/* Queues the plan on cu.stream. EUNSUPPORTED where its engine refuses after all. */
capl_status dnn_execute(const dnn_plan *plan, const dnn_slots *s);

#endif
