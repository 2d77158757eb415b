/* norm.h -- what norm.c and norm.cu share: arguments and numbers of the batch norm kernels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_NORM_H
#define CAPL_CUDA_KERNELS_NORM_H

#include "backend/cuda/kernels/pixels.h"
#include "backend/cuda/kernels/types.h"

/* Each block leaves what it finds in its pixels, per channel: mean and sum of squared distances from it. The last one
** makes the statistics of that (join.h). */
typedef struct {
  cu_pixels p;
  const void *x;
  float *partial; /* [blocks][2][C] */
  unsigned *counters;
  float *mean, *invstd;
  float *running_mean, *running_var; /* NULL: none to update */
  float eps, momentum;
} norm_moments_args;

/* Statistics from the running ones. */
typedef struct {
  int64_t channels;
  const float *running_mean, *running_var;
  float *mean, *invstd;
  float eps;
} norm_running_args;

/* What normalizes a channel: z = (x - mean) * invstd * weight + bias. bias == NULL: not needed (backward
** without an activation). */
typedef struct {
  const float *weight, *bias, *mean, *invstd;
} norm_channels;

/* How an offset moves: by step from one of a thread's windows to its next, by wrap_w and wrap_h more where a row and an
** image of windows end on the way. In elements. */
typedef struct {
  int64_t step, wrap_w, wrap_h;
} norm_moves;

/* p counts the pixels of y in the forward kernel; in the backward ones, the windows of x, the cut ones at the edges
** too. */
typedef struct {
  int H, W;                 /* of x */
  int windows_h, windows_w; /* windows of an image */
  int step_h, step_w;       /* rows and columns between a thread's windows, beside whole images */
  int64_t row, column;      /* elements of x from a pixel to the one below, to the one beside */
  norm_moves x, y;          /* of a window's first pixel, of its value in y */
} norm_windows;

/* Windows of an image in rows of `width`, `image` rows an image, where a window takes `size` of them in both
** directions. */
static inline norm_moves norm_moves_of(const norm_windows *w, int64_t images, int64_t image, int64_t width, int size,
                                       int64_t channels)
{
  return (norm_moves){((images * image + (int64_t)size * w->step_h) * width + (int64_t)size * w->step_w) * channels,
                      size * (width - w->windows_w) * channels,
                      (image - (int64_t)size * w->windows_h) * width * channels};
}

/* The 2x2 windows of H x W pixels, walked by threads that have every p->height-th window. */
static inline norm_windows norm_windows_of(int64_t H, int64_t W, bool cut_ones_too, const cu_pixels *p)
{
  int more = cut_ones_too ? 1 : 0;
  norm_windows w = {(int)H, (int)W, (int)((H + more) / 2), (int)((W + more) / 2), 0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}};
  w.step_w = p->height % w.windows_w;
  w.step_h = p->height / w.windows_w % w.windows_h;
  int64_t images = p->height / w.windows_w / w.windows_h;
  w.row = W * p->channels;
  w.column = p->channels;
  w.x = norm_moves_of(&w, images, H, W, 2, p->channels);
  w.y = norm_moves_of(&w, images, H / 2, W / 2, 1, p->channels);
  return w;
}

typedef struct {
  cu_pixels p;
  norm_channels c;
  const void *x;
  void *y;
} norm_apply_args;

typedef struct {
  cu_pixels p;
  norm_channels c;
  norm_windows w;
  const void *x;
  void *y, *winner;
} norm_pool_args;

/* x, dy: of pixels, or winners and dy of windows. NORM_POOL_GRAD_APPLY: x of pixels, dy of windows.
** NORM_GRAD_SUMS: each block leaves its sums of dz and of dz * (x - mean), the last one makes dbias and dweight of
** them. */
typedef struct {
  cu_pixels p;
  norm_channels c;
  norm_windows w; /* NORM_POOL_GRAD_APPLY only */
  const void *x, *dy;
  float *partial; /* [blocks][2][C] */
  unsigned *counters;
  void *dx;
  float *dweight, *dbias;
  float share;   /* 1 / pixels of x */
  bool training; /* dx has parts of dweight and dbias: statistics are no constants */
} norm_grad_args;

/* What follows the norm in the same kernel. */
typedef enum { NORM_THEN_NOTHING, NORM_THEN_RELU, NORM_THEN_SILU, NORM_ACTS } norm_act;

/* Kernels of the table; those before NORM_SINGLE have CU_VECTORS instances, from NORM_APPLY on for each norm_act. */
enum {
  NORM_MOMENTS,
  NORM_POOL,
  NORM_POOL_GRAD_APPLY,
  NORM_APPLY,
  NORM_GRAD_SUMS = NORM_APPLY + NORM_ACTS,
  NORM_GRAD_APPLY = NORM_GRAD_SUMS + NORM_ACTS,
  NORM_SINGLE = NORM_GRAD_APPLY + NORM_ACTS,
};

enum { NORM_RUNNING_ENTRY = 3 * CU_TYPES * NORM_SINGLE }; /* after those */

/* Blocks of the gradient kernels per multiprocessor that all run at once, by values of a load: 8 take up to 128
** registers a thread for the numbers of their channels, fewer 80. */
#define NORM_GRAD_BLOCKS(vector) ((vector) == 8 ? 2 : CU_WINDOW_BLOCKS)

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_norm_table[];
#ifdef __cplusplus
}
#endif

#endif
