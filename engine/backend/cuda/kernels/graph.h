/* graph.h -- the kernel around a replayed step, and its argument.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_GRAPH_H
#define CAPL_CUDA_KERNELS_GRAPH_H

#include "backend/cuda/kernels/types.h"

typedef struct {
  int64_t *at;
  int64_t value;
} set_number_args;

enum { GRAPH_SET_NUMBER };

#ifndef __cplusplus
extern const cu_entry cu_graph_kernels_table[];
#endif

#endif
