/* region.h -- what region.c and region.cu share: areas of predicted and labelled regions.
**
** A block adds up some places of one image for 32 classes, a lane each; then one thread per sum adds the blocks' parts
** in order. All in f32.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_REGION_H
#define CAPL_CUDA_KERNELS_REGION_H

#include "backend/cuda/kernels/types.h"

typedef struct {
  int64_t images, places, classes;
  int64_t groups, parts; /* of 32 classes; blocks that share an image */
  const void *x, *labels;
  int label_dtype; /* capl_dtype: i32 or i64 */
  bool softmax;
  int64_t ignore;
} region_places;

typedef struct {
  region_places r;
  float *partial; /* [images][groups][parts][3][32] */
} dice_sums_args;

typedef struct {
  region_places r;
  const float *partial;
  float *sums;
} region_total_args;

typedef struct {
  region_places r;
  const void *dsums;
  int dsums_dtype;
  void *dx;
} region_grad_args;

/* Kernels of the table; the first two have three types. */
enum { REGION_SUM, REGION_GRAD, REGION_SINGLE };
enum { REGION_TOTAL_ENTRY = CU_TYPES * REGION_SINGLE };
enum { REGION_THREADS = 256, REGION_PARTS = 64 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_region_table[];
#ifdef __cplusplus
}
#endif

#endif
