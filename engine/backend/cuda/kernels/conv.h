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

/* dx from dy and w. lanes: threads of an element, a power of 2 up to 8; conv_tiled has no use for it. */
typedef struct {
  conv_sizes s;
  const void *dy, *w;
  void *dx;
  int lanes;
} conv_grad_x_args;

/* partial (parts, K, O), K = kH * kW * C/groups: the sums over `chunk` output pixels each. Blocks: tiles of outputs,
** then runs of taps, then parts. */
enum { CONV_GRAD_W_TAPS = 9, CONV_GRAD_W_OUTPUTS = 32, CONV_GRAD_W_THREADS = 256 };
typedef struct {
  conv_sizes s;
  const void *x, *dy;
  float *partial;
  int64_t chunk;
} conv_grad_w_args;

/* What parts of the pixels gave, partial (parts, K, O), added up: dw (O, K). Blocks of CONV_TOTAL_THREADS for
** CONV_TOTAL_COLUMNS numbers each. */
enum { CONV_TOTAL_THREADS = 256, CONV_TOTAL_COLUMNS = 8 };
typedef struct {
  const float *partial;
  int64_t parts, K, O;
  float *dw;
} conv_total_args;

/* Each kernel of the three types in the order of cu_type; CONV_TOTAL is one. */
enum { CONV = 0, CONV_GRAD_X = 3, CONV_GRAD_W = 6, CONV_TOTAL = 9 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_conv_table[];
#ifdef __cplusplus
}
#endif

#endif
