/* norm.h -- what norm.c and norm.cu share: arguments and numbers of the batch norm kernels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_NORM_H
#define CAPL_CUDA_KERNELS_NORM_H

#include "backend/cuda/kernels/pixels.h"
#include "backend/cuda/kernels/types.h"

/* Sums of one block over its pixels, per channel: two rows of C floats per block.
** Forward: mean and sum of squared distances from it. Backward: sum of dz and of dz * (x - mean). */
typedef struct {
  cu_pixels p;
  const void *x;
  float *partial; /* [blocks][2][C] */
  float *origin;  /* [C] from where means are counted: the first pixel */
} norm_moments_args;

/* Several blocks' sums become the statistics. */
typedef struct {
  int64_t pixels, channels, chunk;
  const float *partial, *origin;
  float *mean, *invstd;
  float *running_mean, *running_var; /* NULL: none to update */
  float eps, momentum;
} norm_statistics_args;

/* Statistics from the running ones. */
typedef struct {
  int64_t channels;
  const float *running_mean, *running_var;
  float *mean, *invstd;
  float eps;
} norm_running_args;

/* What normalises a channel: z = (x - mean) * invstd * weight + bias. bias == NULL: not needed (no relu in backward). */
typedef struct {
  const float *weight, *bias, *mean, *invstd;
} norm_channels;

/* Heights and widths: p counts the pixels of y in the forward kernel; in the backward ones, the windows of x,
** the cut ones at the edges too. */
typedef struct {
  int H, W;             /* of x */
  int windows_h, windows_w;
} norm_windows;

typedef struct {
  cu_pixels p;
  norm_channels c;
  const void *x;
  void *y;
  bool relu;
} norm_apply_args;

typedef struct {
  cu_pixels p;
  norm_channels c;
  norm_windows w;
  const void *x;
  void *y;
  uint8_t *index;
} norm_pool_args;

typedef struct {
  cu_pixels p;
  norm_channels c;
  norm_windows w;
  const void *x, *dy;
  const uint8_t *index; /* pooled only */
  float *partial;
  void *dx;
  const float *dweight, *dbias; /* for dx; NULL when statistics are constants */
  float share;                  /* 1 / pixels of x */
  bool relu;
} norm_grad_args;

typedef struct {
  int64_t channels, blocks;
  const float *partial, *invstd;
  float *dweight, *dbias;
} norm_totals_args;

/* Kernels of the table; those before NORM_SINGLE have CU_WIDE instances. */
enum {
  NORM_MOMENTS,
  NORM_APPLY,
  NORM_POOL,
  NORM_GRAD_SUMS,
  NORM_GRAD_APPLY,
  NORM_POOL_GRAD_SUMS,
  NORM_POOL_GRAD_APPLY,
  NORM_SINGLE,
};

enum {
  NORM_STATISTICS_ENTRY = 2 * CU_TYPES * NORM_SINGLE, /* after those */
  NORM_RUNNING_ENTRY,
  NORM_TOTALS_ENTRY,
};

/* Threads of the two kernels that add up the blocks' sums: a block has NORM_TOTAL_CHANNELS channels, and for each a
** power of two of lanes, at most NORM_TOTAL_LANES. */
enum { NORM_TOTAL_CHANNELS = 8, NORM_TOTAL_LANES = 128 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_norm_table[];
#ifdef __cplusplus
}
#endif

#endif
