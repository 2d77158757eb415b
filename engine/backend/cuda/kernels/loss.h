/* loss.h -- what loss.c and loss.cu share: arguments and numbers of the loss kernels.
**
** A loss is taken in two steps: blocks add up what they see, two numbers each (the sum, and how many rows counted), and
** the last block adds those up (join.h). Losses are f32, predictions any float, targets anything.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_LOSS_H
#define CAPL_CUDA_KERNELS_LOSS_H

#include "backend/cuda/kernels/types.h"

/* Classes of rows; also of the gradient. */
typedef struct {
  int64_t rows, classes;
  const void *logits, *labels;
  int label_dtype; /* capl_dtype: i32 or i64 */
  float smoothing, gamma;
  int64_t ignore;
  const void *weight; /* of classes, or NULL */
  int weight_dtype;
} loss_rows;

/* One number of all. */
typedef struct {
  float *partial; /* [blocks][2] */
  unsigned *counter;
  bool by_count; /* the mean over the counted rows */
  float factor;  /* else */
  float *loss;
} loss_sum;

typedef struct {
  loss_rows r;
  float *each; /* reduction none: a loss per row; else NULL, and sum */
  loss_sum sum;
} cross_entropy_args;

/* partial: here [blocks] numbers of rows that are not ignored; or weights: the sums of what their labels weigh. */
typedef struct {
  loss_rows r;
  int64_t *partial;
  float *weights;
} count_labels_args;

typedef struct {
  loss_rows r;
  const void *dloss;
  int dloss_dtype;
  bool each;              /* dloss of every row */
  const int64_t *counted; /* reduction mean: to divide by, in parts; else NULL */
  const float *weights;   /* the same where classes have weights */
  int parts;
  void *dx;
} cross_entropy_grad_args;

typedef enum { LOSS_BCE, LOSS_SQUARED, LOSS_SMOOTH_L1, LOSS_FOCAL } loss_term;

/* x and target in the same order. */
typedef struct {
  int64_t n;
  loss_term term;
  const void *x, *target;
  int target_dtype;
  float p, q; /* the loss's numbers */
  float *each;  /* as in cross_entropy_args */
  loss_sum sum;
} elements_args;

/* The mean over every row's elements. */
typedef struct {
  int64_t rows, classes;
  const void *x, *target;
  int target_dtype;
  float *each;
} margin_args;

typedef struct {
  int64_t n;
  const void *x, *target, *dloss;
  int target_dtype, dloss_dtype;
  loss_term term;
  float p, q;
  bool each;   /* dloss of every element */
  float share; /* 1, or 1 / n */
  void *dx;
} element_grad_args;

/* Kernels of the table; those before LOSS_SINGLE have three types. */
enum { LOSS_CROSS_ENTROPY, LOSS_CROSS_ENTROPY_GRAD, LOSS_ELEMENTS, LOSS_MARGIN, LOSS_ELEMENT_GRAD, LOSS_SINGLE };
enum { LOSS_COUNT_LABELS_ENTRY = CU_TYPES * LOSS_SINGLE };

enum { LOSS_THREADS = 256, LOSS_COUNT_BLOCKS = 64 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_loss_table[];
#ifdef __cplusplus
}
#endif

#endif
