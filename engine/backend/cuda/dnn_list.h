/* dnn_list.h -- a line of JSON for each engine that was timed: $CAPL_DNN_ENGINES=FILE, format in dnn.h. Knows no cuDNN.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_DNN_LIST_H
#define CAPL_CUDA_DNN_LIST_H

#include "backend/cuda/dnn.h"

enum { DNN_OWN = -1 }; /* in place of an engine's number: capl's own kernels */

typedef struct {
  const dnn_record *record;
  int64_t engine, workspace; /* bytes */
  int candidate;             /* its place among what cuDNN proposes, from 0 */
  float ms;                  /* negative: it did not run */
  uint32_t numerical;        /* bit per cudnnBackendNumericalNote_t */
  bool compiled;             /* at run time, by NVRTC */
  bool chosen;
  const char *why; /* it did not run */
} dnn_row;

/* The file, NULL where none is asked for: then every candidate is timed to the end. */
const char *dnn_list_path(void);
/* Appends a line. A file that cannot be written is said once. */
void dnn_list_row(const dnn_row *row);

/* Appends to $CAPL_DNN_PLANS what runs a record from now on; nothing where that is not set. engine: DNN_OWN for own
** kernels; how: "tuned", "loaded" and so on (dnn.h). */
void dnn_list_plan(const dnn_record *record, int64_t engine, int64_t workspace, const char *how);

#endif
