/* conv.h -- kernels of convolutions that cuDNN does not take, and what surrounds those that it takes.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_CONV_H
#define CAPL_CUDA_KERNELS_CONV_H

#include "backend/cuda/kernels/types.h"

/* One convolution, its sizes the same for all three kernels. Images are N,H,W,C in memory, weights O,kH,kW,C/groups. */
typedef struct {
  int64_t N, C, H, W;      /* of x */
  int64_t O, out_H, out_W; /* of y */
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t groups;
} conv_sizes;

/* y = x * w + bias. */
typedef struct {
  conv_sizes s;
  const void *x, *w;
  const void *bias;  /* NULL: none */
  bool bias_f32;     /* else of the dtype of x */
  void *y;
} conv_args;

/* dx from dy and w. */
typedef struct {
  conv_sizes s;
  const void *dy, *w;
  void *dx;
} conv_grad_x_args;

/* dw f32 from x and dy: one block for each weight. */
typedef struct {
  conv_sizes s;
  const void *x, *dy;
  float *dw;
} conv_grad_w_args;

/* to[i] := from[i], i < n. */
typedef struct {
  const void *from;
  float *to;
  int64_t n;
} conv_widen_args;

/* to[i] := from[i] rounded, i < n. */
typedef struct {
  const float *from;
  void *to;
  int64_t n;
} conv_narrow_args;

/* Each kernel of the three types in the order of cu_type. */
enum { CONV = 0, CONV_GRAD_X = 3, CONV_GRAD_W = 6, CONV_WIDEN = 9, CONV_NARROW = 12 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_conv_table[];
#ifdef __cplusplus
}
#endif

#endif
