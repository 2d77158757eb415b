/* reduce.h -- kernels of sums, means, extremes and where they are.
**
** Every element of y is a fold over steps of x. The steps may be cut into splits, whose results (parts) a second kernel
** folds: that keeps the whole GPU busy when y is small, in an order that never changes.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_REDUCE_H
#define CAPL_CUDA_KERNELS_REDUCE_H

#include "backend/cuda/kernels/loop.h"
#include "backend/cuda/kernels/team.h"

typedef enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX } reduce_op;

typedef struct {
  cu_loop kept; /* operands x, y: elements of y; of reduce_columns all its dims but the innermost */
  cu_loop over; /* operand x: what is folded */
  cu_team team;
  reduce_op op;
  const void *x;
  void *y;
  void *parts; /* room for every output's splits in turn, used if there is more than one */
  int64_t splits, chunk; /* split s folds steps s * chunk ... of over */
  int64_t count;   /* elements in a mean */
  int from, to;    /* capl_dtype of x and y */
  int64_t columns, x_column, y_column, tiles; /* reduce_columns: the innermost kept dim, in tiles of the team's width */
} reduce_args;

/* Bytes that a part takes at most; blocks per multiprocessor that all run at once with 64 registers a thread (of 8
** columns side by side: 3, with 80). */
enum { REDUCE_PART = 16, REDUCE_BLOCKS = 4 };

/* Of floats: + cu_type, single elements first, then + 3 for vectors of 16 bytes. WHOLE: integers of any dtype. */
enum {
  SUM_ROWS = 0,     /* outputs take a team each, which runs along the folded dims */
  SUM_COLUMNS = 6,  /* neighbouring outputs take a team, which runs along them and across the folded dims */
  MAX_ROWS = 12,
  MAX_COLUMNS = 18,
  ARGMAX_ROWS = 24, /* likewise, without vectors */
  ARGMAX_COLUMNS = 27,
  SUM_ROWS_WHOLE = 30,
  SUM_COLUMNS_WHOLE,
  MAX_ROWS_WHOLE,
  MAX_COLUMNS_WHOLE,
  ARGMAX_ROWS_WHOLE,
  ARGMAX_COLUMNS_WHOLE,
  SUM_PARTS,        /* the second kernel: of floats, of integers; */
  SUM_PARTS_WHOLE,
  MAX_PARTS,
  MAX_PARTS_WHOLE,
  ARGMAX_PARTS,
  ARGMAX_PARTS_WHOLE,
};

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_reduce_table[];
#ifdef __cplusplus
}
#endif

#endif
