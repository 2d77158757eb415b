/* rnn.h -- recurrent ops: positions of inputs and outputs, and how the rows of a sequence lie in memory.
**
** Sequences are row-major: (T,N,width), or (N,T,width) with batch_first. A row holds one time step of one sequence,
** both directions side by side, each direction gate by gate. The reverse direction visits the time steps from the last
** valid one to the first. With `models` there are as many networks side by side in place of directions, all of which
** go forward.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_RNN_H
#define CAPL_OPS_RNN_H

#include "ops/attrs.h"

enum { RNN_BATCH_FIRST = AT(lstm, batch_first), RNN_MODELS = AT(lstm, models) };
SAME_PLACE(lstm, gru, batch_first);
SAME_PLACE(lstm, gru, models);

enum { LSTM_X, LSTM_W, LSTM_H0, LSTM_C0, LSTM_LENGTHS };
enum { LSTM_Y, LSTM_H_N, LSTM_C_N, LSTM_GATES, LSTM_CELLS };
enum { GRU_X, GRU_W, GRU_B, GRU_H0, GRU_LENGTHS };
enum { GRU_Y, GRU_H_N, GRU_GATES };

/* Gradients: what was given and computed, then the gradients of the outputs. */
enum { LSTM_GRAD_W, LSTM_GRAD_Y, LSTM_GRAD_GATES, LSTM_GRAD_CELLS, LSTM_GRAD_H0, LSTM_GRAD_C0, LSTM_GRAD_LENGTHS,
      LSTM_GRAD_DY,
       LSTM_GRAD_DH_N, LSTM_GRAD_DC_N, LSTM_GRAD_INPUTS };
enum { LSTM_DX, LSTM_DW, LSTM_DH0, LSTM_DC0 };
enum { GRU_GRAD_W, GRU_GRAD_Y, GRU_GRAD_GATES, GRU_GRAD_H0, GRU_GRAD_LENGTHS, GRU_GRAD_DY, GRU_GRAD_DH_N,
      GRU_GRAD_INPUTS };
enum { GRU_DX, GRU_DW, GRU_DB, GRU_DH0 };

/* Gates in the order of memory. gru keeps a fourth number: what r is multiplied with. */
enum { LSTM_I, LSTM_F, LSTM_G, LSTM_O, LSTM_PARTS };
enum { GRU_R, GRU_Z, GRU_N, GRU_HN, GRU_PARTS = GRU_HN, GRU_KEPT };

typedef struct {
  int64_t T, N, D, H; /* time steps, sequences, directions or models, hidden size */
  bool batch_first, models;
} rnn_sizes;

/* seq: (T,N,...) or (N,T,...); w_hh (D*parts*H, H). */
static inline rnn_sizes rnn_sizes_of(const capl_call *call, const capl_tensor *seq, const capl_tensor *w_hh, int parts)
{
  bool batch_first = call->attr[RNN_BATCH_FIRST].i != 0;
  return (rnn_sizes){.T = seq->size[batch_first ? 1 : 0],
                     .N = seq->size[batch_first ? 0 : 1],
                     .D = w_hh->size[0] / (parts * w_hh->size[1]),
                     .H = w_hh->size[1],
                     .batch_first = batch_first,
                     .models = call->attr[RNN_MODELS].i != 0};
}

/* Number of the row of time step t of sequence n. */
static inline int64_t rnn_row(const rnn_sizes *s, int64_t t, int64_t n)
{
  return s->batch_first ? n * s->T + t : t * s->N + n;
}

/* Time step that direction d visits as its `step`th, of a sequence of `length`. */
static inline int64_t rnn_time(const rnn_sizes *s, int64_t d, int64_t step, int64_t length)
{
  return d == 0 || s->models ? step : length - 1 - step;
}

/* How many steps of sequence n count; lengths may be NULL. For memory that the host can read. */
static inline int64_t rnn_length(const rnn_sizes *s, const capl_tensor *lengths, int64_t n)
{
  if (!lengths) return s->T;
  const void *p = capl_tensor_data(lengths);
  return lengths->dtype == CAPL_I64 ? ((const int64_t *)p)[n] : ((const int32_t *)p)[n];
}

/* EVALUE names the sequence whose length is not in 0..T. For memory that the host can read. */
static inline capl_status rnn_check_lengths(const rnn_sizes *s, const capl_tensor *lengths)
{
  for (int64_t n = 0; lengths && n < s->N; n++) {
    int64_t length = rnn_length(s, lengths, n);
    if (length < 0 || length > s->T)
      return CAPL_FAIL(CAPL_EVALUE, "lengths[%lld] is %lld, x has %lld time steps", (long long)n, (long long)length,
                       (long long)s->T);
  }
  return CAPL_OK;
}

#endif
