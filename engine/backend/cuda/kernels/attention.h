/* attention.h -- kernels of scaled dot product attention and its gradient.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_ATTENTION_H
#define CAPL_CUDA_KERNELS_ATTENTION_H

#include "backend/cuda/kernels/types.h"

enum { ATTENTION_DIMS = 4 }; /* in front of the last two */

/* Matrix b of an operand begins at the sum of its index in dim d times batch[d]; element (r, c) is r * row + c * column
** further. p == NULL: none. */
typedef struct {
  const void *p;
  int64_t batch[ATTENTION_DIMS], row, column;
} attention_operand;

typedef struct {
  int64_t size[ATTENTION_DIMS]; /* of the dims in front, 1 where there are fewer */
  int64_t batch, L, S, E, Ev;
  attention_operand q, k, v, mask;
  int mask_dtype; /* capl_dtype */
  float scale;
  bool causal;
  uint64_t seed, offset;
  const int64_t *delta;  /* what a replayed step adds to the offset */
  uint64_t limit;        /* a weight stays when its word >= limit; 0: no dropout */
  float keep;            /* factor of what stays */
} attention_call;

typedef struct {
  attention_call c;
  attention_operand y;
  float *lse;
} attention_args;

typedef struct {
  attention_call c;
  attention_operand y, dy, dq, dk, dv;
  const float *lse;
  float *dot; /* (batch, L): sum of y * dy, written by ATTENTION_DOT, read by the others */
} attention_grad_args;

/* By products of the library: scores and slopes (batch, L, S) lie in memory, row-major. */
typedef struct {
  attention_call c;
  const float *scores; /* q * k' */
  void *weights;       /* of the dtype of q: exp(scores - lse) after scale and mask, times dropout */
  float *lse;          /* (batch, L): written */
} attention_weights_args;

typedef struct {
  attention_call c;
  const float *scores, *slopes; /* q * k', dy * v' */
  const float *lse, *dot;       /* (batch, L) */
  void *weights, *ds;           /* of the dtype of q; ds: gradient of q * k' */
} attention_slopes_args;

/* Each + cu_type. A block of ATTENTION_THREADS has a tile of ATTENTION_TILE queries (ATTENTION_KEYS_GRAD: keys) and
** ATTENTION_COLUMNS columns of the results; ATTENTION_DOT, _WEIGHTS and _SLOPES: a warp per query. */
enum { ATTENTION = 0, ATTENTION_DOT = 3, ATTENTION_QUERIES_GRAD = 6, ATTENTION_KEYS_GRAD = 9, ATTENTION_WEIGHTS = 12,
       ATTENTION_SLOPES = 15 };
enum { ATTENTION_TILE = 32, ATTENTION_COLUMNS = 64, ATTENTION_THREADS = 256 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_attention_table[];
#ifdef __cplusplus
}
#endif

#endif
