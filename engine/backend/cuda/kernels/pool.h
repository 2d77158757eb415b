/* pool.h -- what pool.c and pool.cu share: arguments and numbers of the pooling kernels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_POOL_H
#define CAPL_CUDA_KERNELS_POOL_H

#include "backend/cuda/kernels/pixels.h"
#include "backend/cuda/kernels/types.h"

/* Windows along one axis; kernel == 0: adaptive, `out` windows that cover `in` evenly (ops/window.h). */
typedef struct {
  int in, out;
  int kernel, stride, padding, dilation; /* dilation 1: averages and adaptive pools */
} pool_axis;

typedef struct {
  pool_axis h, w;
  bool count_pad; /* averages divide by the window's size in the padded image */
} pool_shape;

/* Forward: p counts the pixels of y. */
typedef struct {
  cu_pixels p;
  pool_shape s;
  const void *x;
  void *y;
  void *index; /* u8: position in the window; adaptive i32: position in the image */
} pool_args;

/* Backward: p counts the pixels of dx. */
typedef struct {
  cu_pixels p;
  pool_shape s;
  const void *dy, *index;
  void *dx;
} pool_grad_args;

/* Kernels of the table, all with CU_WIDE instances. The LARGE ones have a block per window. */
enum { POOL_MAX, POOL_AVERAGE, POOL_MAX_LARGE, POOL_AVERAGE_LARGE, POOL_MAX_GRAD, POOL_AVERAGE_GRAD };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_pool_table[];
#ifdef __cplusplus
}
#endif

#endif
