/* layer_norm.h -- kernels of layer norm, RMS norm and group norm: sets of elements, each normalized by itself.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_LAYER_NORM_H
#define CAPL_CUDA_KERNELS_LAYER_NORM_H

#include "backend/cuda/kernels/team.h"

/* Set s begins at s / period * outer + s % period * inner_sets. It is made of runs of `run` neighbours, one every
** `step`: element i lies at i / run * step + i % run from there. Its parameters are number
** s % period * params + i % run / spread. */
typedef struct {
  int64_t sets, count, run, step, spread;
  int64_t period, outer, inner_sets, params;
} layer_norm_sets;

typedef struct {
  cu_team team; /* one set each; width 1 */
  layer_norm_sets s;
  const void *x;
  const float *weight, *bias; /* NULL: 1 and 0 */
  void *y;
  float *mean, *invstd; /* mean: NULL for RMS norm */
  float eps;
} layer_norm_args;

typedef struct {
  cu_team team;
  layer_norm_sets s;
  const void *x, *dy;
  const float *weight, *mean, *invstd;
  void *dx;
} layer_norm_grad_args;

/* Sums for parameter k over rows = batches * pixels: element (b, q, k) lies at b * batch_step + q * pixel_step + k *
** k_step and belongs to set b * period + k / params. A block has LAYER_NORM_COLUMNS parameters and a chunk of the
** rows. */
typedef struct {
  int64_t rows, pixels, columns, chunk;
  int64_t batch_step, pixel_step, k_step, period, params;
  const void *x, *dy;
  const float *mean, *invstd;
  float *partial; /* [chunks][2][columns] */
} layer_norm_sums_args;

typedef struct {
  int64_t columns, chunks;
  const float *partial;
  float *dweight, *dbias; /* dbias: NULL for RMS norm */
} layer_norm_totals_args;

enum { LAYER_NORM_COLUMNS = 32, LAYER_NORM_LANES = CU_TEAM_THREADS / LAYER_NORM_COLUMNS };

/* Each + cu_type; the last one is single. */
enum { LAYER_NORM = 0, LAYER_NORM_GRAD = 3, LAYER_NORM_SUMS = 6, LAYER_NORM_TOTALS = 9 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_layer_norm_table[];
#ifdef __cplusplus
}
#endif

#endif
