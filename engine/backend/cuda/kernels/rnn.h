/* rnn.h -- kernels of lstm and gru: one step of all sequences in both directions, and back.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_RNN_H
#define CAPL_CUDA_KERNELS_RNN_H

#include "backend/cuda/kernels/types.h"

/* Rows of a sequence: row_t apart from one time step to the next, row_n from one sequence to the next. lengths: N
** numbers of 32 or 64 bits, NULL when all sequences have T steps; what is outside of 0..T counts as the nearer end. */
typedef struct {
  int64_t T, N, D, H, row_t, row_n;
  const void *lengths;
  bool lengths_64, models; /* models: D of them, all forward, in place of directions */
} rnn_shape;

/* u (D,N,gates*H) f32: what the state before gives; bias (D,gates*H) f32 or NULL is added to it. h (D,N,H), of the
** dtype of x, and c f32 are replaced; rows of gates, y and cells are written. c and cells: lstm only. */
typedef struct {
  rnn_shape s;
  int64_t step;
  const void *x;
  const float *u, *bias;
  void *gates, *y, *h;
  float *c, *cells;
} rnn_args;

/* dh (D,N,H) f32: before the last step of a sequence the gradient of h_n, then what passes a step besides the product;
** back (D,N,H) f32: the product. du (D,T,N,gates*H) and before (D,T,N,H), of the dtype of y: gradient of u, and h
** before the step; dc as c. */
typedef struct {
  rnn_shape s;
  int64_t step;
  const void *y, *gates, *h0, *dy; /* h0, dy: of the dtype of y, or NULL */
  const float *cells, *c0, *back;  /* c0 may be NULL */
  float *dh, *dc;
  void *dx, *du, *before;
} rnn_grad_args;

/* dh += back for sequences that have steps. */
typedef struct {
  rnn_shape s;
  const float *back;
  float *dh;
} rnn_end_args;

/* Each + cu_type, but the last. */
enum { LSTM_STEP = 0, LSTM_STEP_BACK = 3, GRU_STEP = 6, GRU_STEP_BACK = 9, RNN_END = 12 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_rnn_table[];
#ifdef __cplusplus
}
#endif

#endif
