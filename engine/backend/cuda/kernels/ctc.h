/* ctc.h -- what ctc.c and ctc.cu share: arguments and numbers of the CTC loss's kernels.
**
** A block works on a sample, its threads on the states of the text, one time step after the other. The gradient's last
** part has a block for each sample and time step.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_CTC_H
#define CAPL_CUDA_KERNELS_CTC_H

#include "backend/cuda/kernels/types.h"

/* Whole numbers of either dtype, and how far they are apart. */
typedef struct {
  const void *data;
  int dtype; /* capl_dtype: i32 or i64 */
  int64_t step, column;
} ctc_whole_list;

/* The inputs of both directions. */
typedef struct {
  int64_t T, N, K, S, states, blank;
  const void *log_probs;
  int64_t step, sample, column; /* strides of log_probs along T, N and K */
  ctc_whole_list targets, input_lengths, target_lengths;
  bool mean, zero_infinity;
} ctc_inputs;

typedef struct {
  ctc_inputs p;
  float *alpha;        /* [N][T][states] */
  uint8_t *infeasible; /* [N] */
  float *losses;       /* [N], as they count */
} ctc_forward_args;

typedef struct {
  ctc_inputs p;
  const uint8_t *infeasible;
  int64_t infeasible_step;
  float *beta; /* [N][T][states]: log of the paths to the end, this time step's own probability left out */
} ctc_backward_args;

typedef struct {
  ctc_inputs p;
  const uint8_t *infeasible;
  int64_t infeasible_step;
  const float *alpha, *beta;
  const void *dloss;
  int dloss_dtype;
  int64_t dloss_step; /* 0: one for all */
  void *dx;
  int64_t dx_step, dx_sample, dx_column;
} ctc_gradient_args;

typedef struct {
  const float *losses;
  int64_t n;
  float share; /* 1, or 1 / n */
  float *loss;
} ctc_total_args;

/* Kernels of the table: three types each, then the last. */
enum { CTC_FORWARD = 0, CTC_BACKWARD = CU_TYPES, CTC_GRADIENT = 2 * CU_TYPES, CTC_TOTAL = 3 * CU_TYPES };

enum { CTC_MOST_THREADS = 256 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_ctc_table[];
#ifdef __cplusplus
}
#endif

#endif
