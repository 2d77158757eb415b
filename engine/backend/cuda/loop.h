/* loop.h -- prepares strided operands for kernels (kernels/loop.h).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_LOOP_H
#define CAPL_CUDA_LOOP_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/loop.h"

/* All elements of t[0]; the other operands, at most CU_LOOP_OPERANDS in all, are broadcast to its shape. Dims are
** sorted by the memory order of t[0] and joined where all operands allow it. Tensors may be borrowed views of any
** strides. */
void loop_init(cu_loop *loop, int operands, const capl_tensor *const *t);

/* Total, factors and the like, after sizes and strides were set by hand. */
void loop_finish(cu_loop *loop);

/* Walks in steps of `width` neighbours, where memory allows: each operand must run along the innermost dim by steps of
** 1, aligned to `width` of its elements, or stay (steps of 0). Elements beyond the last full step of a one-dimensional
** loop become *tail. False: nothing was changed. */
bool loop_widen(cu_loop *loop, int operands, const capl_tensor *const *t, int width, int64_t *tail);

/* Blocks of CU_THREADS for a kernel whose threads take one step each and then one element of the tail. */
int64_t loop_blocks(const cu_loop *loop, int64_t tail);

/* dst := src in another dtype, any strides (elementwise.c). */
capl_status cu_cast_tensor(capl_tensor *dst, const capl_tensor *src);

#endif
