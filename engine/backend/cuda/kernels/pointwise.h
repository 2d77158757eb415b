/* pointwise.h -- what a generated pointwise kernel is given; the same text in C and in the generated source.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_POINTWISE_H
#define CAPL_CUDA_KERNELS_POINTWISE_H

#include "backend/cuda/kernels/types.h"

/* y has n elements without gaps; they are counted in memory order, through dims of the given sizes, slowest first.
** stride[k][d]: elements of x[k] from one index of dim d to the next; 0 where x[k] is broadcast. 8 is
** PROGRAM_INPUTS. */
#define POINTWISE_ARGS                             \
  typedef struct {                                 \
    void *y;                                       \
    const void *x[8];                              \
    int64_t n, size[6], stride[8][6];              \
  } pointwise_args;

POINTWISE_ARGS

#endif
