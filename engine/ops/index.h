/* index.h -- where gather, scatter, index_select, embedding and their gradients find their elements.
**
** All of them move values between a large tensor and a tensor of values of the index's (or the rows') shape: value i
** belongs to element base(i) + index(i) * step of the large one. Shape rules and kernels share these functions, so that
** they cannot disagree. The views made here are borrowed: they own nothing and are never seen outside a call.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_INDEX_H
#define CAPL_OPS_INDEX_H

#include "ops/attrs.h"

typedef struct {
  capl_tensor index; /* in the shape of the values: stride 0 where one index stands for many */
  capl_tensor base;  /* the large tensor in the shape of the values: stride 0 along the dim of the indices */
  capl_tensor order; /* the shape of the values with row-major strides: fixes the order of sums, has no elements */
  int64_t n, step;   /* index i, 0 <= i < n, lies i * step elements further */
  int64_t skip;      /* this index takes part in nothing; -1 = none */
  const capl_tensor *given; /* the index as the caller gave it, for messages */
} index_position;

/* gather, scatter: index has as many dims as the large tensor. */
CAPL_API void index_position_each(const capl_tensor *large, const capl_tensor *index, int dim, index_position *out);
/* index_select: index (k), one for each slice of dim. */
CAPL_API void index_position_slices(const capl_tensor *large, const capl_tensor *index, int dim, index_position *out);
/* embedding: index of any shape, one for each row of large (V,D). */
CAPL_API void index_position_rows(const capl_tensor *large, const capl_tensor *index, int64_t skip,
                                  index_position *out);

/* EVALUE with the place of the first index that is outside 0..n-1; for memory the host can read. */
CAPL_API capl_status index_need_range(const index_position *p);

/* Attributes. dim is 0-based, from the end where negative. */
enum { TAKE_DIM = AT(gather, dim), TAKE_SIZE = AT(gather_grad, size), TAKE_VALUE = AT(scatter, value) };
SAME_PLACE(gather, gather_grad, dim);
SAME_PLACE(gather, scatter, dim);
SAME_PLACE(gather, scatter_add, dim);
SAME_PLACE(gather, index_select, dim);
SAME_PLACE(gather, index_select_grad, dim);
SAME_PLACE(gather_grad, index_select_grad, size);
enum { EMBEDDING_PADDING = AT(embedding, padding_idx) };
enum { EMBEDDING_GRAD_ROWS = AT(embedding_grad, rows), EMBEDDING_GRAD_PADDING = AT(embedding_grad, padding_idx) };

#endif
