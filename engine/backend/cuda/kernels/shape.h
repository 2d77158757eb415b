/* shape.h -- kernels that copy elements as bits into another order, or fill memory with one element.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_SHAPE_H
#define CAPL_CUDA_KERNELS_SHAPE_H

#include "backend/cuda/kernels/loop.h"

/* y[...] := x[...] in units of 1 to 16 bytes, in which the loop's strides count. Operands: y, x. */
typedef struct {
  cu_loop loop;
  void *y;
  const void *x;
} copy_args;

/* y := the same unit everywhere; bits: an element, repeated to fill 16 bytes. */
typedef struct {
  cu_loop loop;
  void *y;
  uint64_t bits[2];
} fill_args;

/* y and x are matrices in each other's order; a tile at a time passes through shared memory, so that both sides move
** whole lines. Operands of the loop: y and x, over all dims but the two of the tile. */
typedef struct {
  cu_loop loop;
  void *y;
  const void *x;
  int64_t rows, columns; /* y[r * y_row + c], x[r + c * x_column] */
  int64_t y_row, x_column;
  uint32_t tiles_r, tiles_c, tiles; /* tiles: of all planes */
} transpose_args;

enum { TRANSPOSE_TILE = 64, TRANSPOSE_THREADS = 256 };

/* Each + log2 of the unit's bytes; transposes know no 16. */
enum { COPY = 0, FILL = 5, TRANSPOSE = 10 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_shape_table[];
#ifdef __cplusplus
}
#endif

#endif
