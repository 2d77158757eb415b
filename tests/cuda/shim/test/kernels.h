/* kernels.h -- kernels for testing the shim itself; some are wrong on purpose.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_TEST_KERNELS_H
#define SHIM_TEST_KERNELS_H

#include <stdint.h>

#include "backend/cuda/kernels/types.h"

/* ORDER of shim_test_table. */
enum {
  SCALE,          /* y[i] = 2 x[i], one thread each */
  COUNT,          /* y[0] += 1 */
  SUM,            /* y[block] = sum of the block's x */
  REVERSE,        /* y = x backwards in each block, through shared memory */
  REVERSE_RACE,   /* the same without a barrier */
  SHUFFLE,        /* y[k * n + i]: what each kind of shuffle gives thread i */
  HALF_WARPS,     /* y[i] = sum over the thread's half warp, the halves at different times */
  DYNAMIC,        /* y[i] = what is in shared memory when a block begins, static and dynamic */
  WAIT_APART,     /* odd threads wait for their warp, even ones for the block */
  TWO_BARRIERS,   /* odd threads wait at another barrier */
  LEAVE_EARLY,    /* the upper half returns before the barrier */
  OVERRUN,        /* writes x[n] */
  OVERRUN_SHARED, /* writes one float behind the dynamic shared memory */
  HALVES,         /* y[i] = f16(x[i]), y[n+i] = bf16(x[i]) */
  GRID,           /* y[block number] = 100 z + 10 y + x of the block, by its last thread */
  BOUNDED,        /* nothing, with at most 96 threads; a template */
};
#ifndef __cplusplus
extern const cu_entry shim_test_table[];
#endif

typedef struct {
  float *y;
  const float *x;
  int n;
} test_args;

#endif
