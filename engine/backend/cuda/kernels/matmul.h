/* matmul.h -- kernels of matrix products that cuBLASLt does not take.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_MATMUL_H
#define CAPL_CUDA_KERNELS_MATMUL_H

#include "backend/cuda/kernels/types.h"

/* Where element (row, column) of matrix number i lies: p[i * batch + row * rows + column * columns]. */
typedef struct {
  const void *p;
  int64_t rows, columns, batch;
} matmul_operand;

/* y (M,N) = a (M,K) * b (K,N) + bias (N) for each matrix of a batch; rows of y have no gaps. One block makes one tile
** of one matrix. */
typedef struct {
  matmul_operand a, b;
  void *y;
  int64_t y_batch; /* elements from one y to the next */
  const void *bias; /* of the dtype of y, or NULL */
  bool relu;
  int64_t M, N, K;
} matmul_args;

enum { MATMUL_TILE = 64, MATMUL_THREADS = 256 };

/* y (rows, columns) := y + bias (columns), then relu if asked for; both of one dtype. bias may be NULL. */
typedef struct {
  void *y;
  const void *bias;
  int64_t n, columns; /* n: elements of y */
  bool relu;
} finish_args;

/* Each kernel of the three types in the order of cu_type. */
enum {
  MATMUL = 0,             /* y of the dtype of a and b */
  MATMUL_TO_F32 = 3,      /* y f32 */
  FINISH = 6,
};

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_matmul_table[];
#ifdef __cplusplus
}
#endif

#endif
