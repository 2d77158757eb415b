/* gather.h -- kernels that pick labels for a batch, and write them as ones among zeros.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_GATHER_H
#define CAPL_CUDA_KERNELS_GATHER_H

#include "backend/cuda/kernels/types.h"
#include "capl/feed.h"

/* out[n,:] = labels[rows[n].image,:] */
typedef struct {
  const capl_feed_row *rows;
  const int32_t *labels;
  int32_t *out;
  int64_t count; /* N * T */
  int length;    /* T */
} gather_labels_args;

/* out[n,t*K+k] = labels[n,t] == k */
typedef struct {
  const int32_t *labels;
  float *out;
  int64_t count; /* N * T * K */
  int64_t classes;
} one_hot_args;

typedef enum { GATHER_LABELS, GATHER_ONE_HOT } gather_kernel;
#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_gather_table[];
#ifdef __cplusplus
}
#endif

#endif
