/* sample.h -- kernels of interpolate and grid_sample over channels-last images, and their gradients.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_SAMPLE_H
#define CAPL_CUDA_KERNELS_SAMPLE_H

#include "backend/cuda/kernels/fixed.h"
#include "backend/cuda/kernels/pixels.h"

/* One axis of interpolate (ops/sample.h). */
typedef struct {
  int in, out;
  float ratio; /* inputs per output */
  bool bilinear, align;
} sample_line;

/* from -> to: x -> y, or dy -> dx. p shares the pixels of `to`. */
typedef struct {
  cu_pixels p;
  sample_line h, w;
  const void *from;
  void *to;
} interpolate_args;

typedef struct {
  int64_t N, C, H, W, h, w; /* x (N,C,H,W), result (N,C,h,w) */
  const void *x, *grid;
  int64_t grid_stride[4];
  bool nearest, align;
  int padding; /* sample_padding */
} grid_shape;

typedef struct {
  grid_shape s;
  void *y;
} grid_args;

/* dy is dense NHWC. */
typedef struct {
  grid_shape s;
  const void *dy;
  cu_fixed dx;
  void *dgrid;
  int64_t dgrid_stride[4];
} grid_grad_args;

/* INTERPOLATE and INTERPOLATE_GRAD: kernel numbers of CU_WIDE rows; the others: rows, each + cu_type. */
enum { INTERPOLATE = 0, INTERPOLATE_GRAD = 1, GRID_SAMPLE = 12, GRID_DX = 15, GRID_DGRID = 18, GRID_THREADS = 256 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_sample_table[];
#ifdef __cplusplus
}
#endif

#endif
