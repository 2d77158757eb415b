/* take.h -- kernels that move elements by index: taking them, adding to them, writing over them.
**
** Value i belongs to element base + index * step (ops/index.h).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_TAKE_H
#define CAPL_CUDA_KERNELS_TAKE_H

#include "backend/cuda/kernels/fixed.h"

typedef struct {
  const void *index;
  bool wide; /* i64, else i32 */
  int64_t n, step;
} take_index;

/* y := x by index; nothing: bits of what an index out of range gives. Operands: y, index, base. */
typedef struct {
  cu_loop loop;
  take_index index;
  void *y;
  const void *x;
  uint64_t nothing;
} take_args;

/* Sums of src; skip: an index that adds nothing. Operands: src, index, base. */
typedef struct {
  cu_loop loop;
  take_index index;
  const void *src;
  int64_t skip;
  cu_fixed f;
} take_add_args;

/* Whole numbers are added to y at once. Operands: src, index, base. */
typedef struct {
  cu_loop loop;
  take_index index;
  const void *src;
  void *y;
} take_count_args;

/* Who writes: *last of a place := 1 + the row-major number of the last value for it. Operands: order, index, base. */
typedef struct {
  cu_loop loop;
  take_index index;
  unsigned long long *last; /* by element of y */
  unsigned *bad;            /* not 0: an index was out of range */
} take_last_args;

/* y := the last value for each place, else x. Operands of loop: y, x; of order, whose steps are the numbers: order,
** src. */
typedef struct {
  cu_loop loop, order;
  const unsigned long long *last;
  const unsigned *bad;
  void *y;
  const void *x, *src; /* src NULL: value */
  uint64_t value, nothing;
  bool real; /* after a bad index all of y is nothing */
} take_write_args;

/* y := places along a dim of n elements, in order. Operands: x; x and y at the dim's start; the place along the dim. */
typedef struct {
  cu_loop loop;
  const void *x;
  int32_t *y;
  int64_t n, step, step_y;
  int from; /* capl_dtype */
  bool descending;
} take_sort_args;

/* TAKE and TAKE_WRITE + log2 of an element's bytes, TAKE_ADD + cu_type, TAKE_COUNT + (i64). */
enum { TAKE = 0, TAKE_WRITE = 4, TAKE_ADD = 8, TAKE_COUNT = 11, TAKE_LAST = 13, TAKE_SORT = 14, TAKE_THREADS = 256 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_take_table[];
#ifdef __cplusplus
}
#endif

#endif
