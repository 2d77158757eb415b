/* softmax.h -- kernels of softmax and log_softmax over one dim of dense tensors, and their gradients.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_SOFTMAX_H
#define CAPL_CUDA_KERNELS_SOFTMAX_H

#include "backend/cuda/kernels/team.h"

/* Memory is [outer][classes][inner]; a team takes a row of classes for each of its columns in inner. */
typedef struct {
  cu_team team;
  int64_t outer, classes, inner, tiles; /* inner in tiles of the team's width */
  void *out;
  const void *x;  /* the input; of gradients y */
  const void *dy; /* of gradients */
  bool log;
} softmax_args;

/* Each + cu_type. */
enum { SOFTMAX = 0, SOFTMAX_GRAD = 3 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_softmax_table[];
#ifdef __cplusplus
}
#endif

#endif
