/* rnn.c -- ref kernels of lstm and gru: sequence by sequence, step by step, number by number.
**
** The outputs for the last state, and the gradients of the first, hold the state on the way.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/rnn.h"

#include <math.h>

#include "backend/ref/ref.h"

/* One direction of one sequence. */
typedef struct {
  const capl_call *call;
  rnn_sizes s;
  const capl_tensor *lengths;
  int64_t d, n, length;
} lane;

/* One step of it: the row of this time step, and of the step before, -1 for none. */
typedef struct {
  int64_t row, before;
} place;

static place place_of(const lane *l, int64_t step)
{
  int64_t before = step > 0 ? rnn_row(&l->s, rnn_time(&l->s, l->d, step - 1, l->length), l->n) : -1;
  return (place){rnn_row(&l->s, rnn_time(&l->s, l->d, step, l->length), l->n), before};
}

/* Element j of part k of a row, in a tensor that has `parts` parts per direction. */
static int64_t at(const lane *l, int64_t row, int parts, int k, int64_t j)
{
  return ((row * l->s.D + l->d) * parts + k) * l->s.H + j;
}

static int64_t state_at(const lane *l, int64_t j)
{
  return (l->d * l->s.N + l->n) * l->s.H + j;
}

static double sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

/* Element j of the state before a step: of h in y, of c in cells. first: the state to begin with, or NULL. */
static double state_before(const lane *l, const capl_tensor *rows, const capl_tensor *first, place p, int64_t j)
{
  if (p.before >= 0) return ref_get(rows, at(l, p.before, 1, 0, j));
  return first ? ref_get(first, state_at(l, j)) : 0;
}

/* Row number of w_hh that belongs to element j of part k. */
static int64_t weight_row(const lane *l, int parts, int k, int64_t j)
{
  return (l->d * parts + k) * l->s.H + j;
}

static void start_state(const lane *l, capl_tensor *state, const capl_tensor *first)
{
  for (int64_t j = 0; j < l->s.H; j++) ref_set(state, state_at(l, j), first ? ref_get(first, state_at(l, j)) : 0);
}

static void zero_rows(const lane *l, capl_tensor *rows, int parts)
{
  for (int64_t t = l->length; t < l->s.T; t++)
    for (int k = 0; k < parts; k++)
      for (int64_t j = 0; j < l->s.H; j++) ref_set(rows, at(l, rnn_row(&l->s, t, l->n), parts, k, j), 0);
}

/* Calls f for both directions of all sequences. */
static capl_status each_lane(lane l, void (*f)(lane *l))
{
  CAPL_TRY(rnn_check_lengths(&l.s, l.lengths));
  for (l.d = 0; l.d < l.s.D; l.d++)
    for (l.n = 0; l.n < l.s.N; l.n++) {
      l.length = rnn_length(&l.s, l.lengths, l.n);
      f(&l);
    }
  return CAPL_OK;
}

/* Sum over i of w_hh[row of (k, j), i] * h[i]. */
static double recurrent(const lane *l, const capl_tensor *w, const capl_tensor *h, int parts, int k, int64_t j)
{
  double sum = 0;
  int64_t row = weight_row(l, parts, k, j) * l->s.H;
  for (int64_t i = 0; i < l->s.H; i++) sum += ref_get(w, row + i) * ref_get(h, state_at(l, i));
  return sum;
}

/* dw[row of (k, j), i] := sum over sequences and steps of slope(k, j) * h before the step; db its sum of slopes. */
static void weight_gradient(lane l, int parts, double (*slope)(const lane *l, int64_t row, int k, int64_t j), int y,
                            int h0, capl_tensor *dw, capl_tensor *db)
{
  const capl_tensor *first = call_input(l.call, h0);
  for (int64_t kj = 0; kj < parts * l.s.H; kj++)
    for (int64_t i = 0; i < l.s.H; i++) {
      double sum = 0, total = 0;
      for (l.n = 0; l.n < l.s.N; l.n++) {
        l.length = rnn_length(&l.s, l.lengths, l.n);
        for (int64_t step = 0; step < l.length; step++) {
          place p = place_of(&l, step);
          double v = slope(&l, p.row, (int)(kj / l.s.H), kj % l.s.H);
          sum += v * state_before(&l, l.call->in[y], first, p, i);
          total += v;
        }
      }
      int64_t row = l.d * parts * l.s.H + kj;
      ref_set(dw, row * l.s.H + i, sum);
      if (db) ref_set(db, row, total);
    }
}

/* The state goes on as y has it. */
static void take_state(const lane *l, const capl_tensor *y, place p, capl_tensor *h)
{
  for (int64_t j = 0; j < l->s.H; j++) ref_set(h, state_at(l, j), ref_get(y, at(l, p.row, 1, 0, j)));
}

/* ---- lstm ------------------------------------------------------------------------------------- */

static void lstm_step(const lane *l, place p)
{
  capl_tensor *const *in = l->call->in, *const *out = l->call->out;
  const capl_tensor *x = in[LSTM_X];
  for (int64_t j = 0; j < l->s.H; j++) {
    double gate[LSTM_PARTS];
    for (int k = 0; k < LSTM_PARTS; k++) {
      double z = ref_get(x, at(l, p.row, LSTM_PARTS, k, j)) + recurrent(l, in[LSTM_W], out[LSTM_H_N], LSTM_PARTS, k, j);
      gate[k] = k == LSTM_G ? tanh(z) : sigmoid(z);
      ref_set(out[LSTM_GATES], at(l, p.row, LSTM_PARTS, k, j), gate[k]);
    }
    double c = gate[LSTM_F] * ref_get(out[LSTM_C_N], state_at(l, j)) + gate[LSTM_I] * gate[LSTM_G];
    ref_set(out[LSTM_C_N], state_at(l, j), c);
    ref_set(out[LSTM_CELLS], at(l, p.row, 1, 0, j), c);
    ref_set(out[LSTM_Y], at(l, p.row, 1, 0, j), gate[LSTM_O] * tanh(c));
  }
  take_state(l, out[LSTM_Y], p, out[LSTM_H_N]);
}

static void lstm_lane(lane *l)
{
  capl_tensor *const *out = l->call->out;
  start_state(l, out[LSTM_H_N], call_input(l->call, LSTM_H0));
  start_state(l, out[LSTM_C_N], call_input(l->call, LSTM_C0));
  for (int64_t step = 0; step < l->length; step++) lstm_step(l, place_of(l, step));
  zero_rows(l, out[LSTM_Y], 1);
  zero_rows(l, out[LSTM_CELLS], 1);
  zero_rows(l, out[LSTM_GATES], LSTM_PARTS);
}

static capl_status ref_lstm(const capl_call *call)
{
  lane l = {.call = call, .s = rnn_sizes_of(call, call->in[LSTM_X], call->in[LSTM_W], LSTM_PARTS),
            .lengths = call_input(call, LSTM_LENGTHS)};
  return each_lane(l, lstm_lane);
}

/* dx of a step from the gradients of h and c behind it, which become those of c before it. */
static void lstm_step_back(const lane *l, place p)
{
  capl_tensor *const *in = l->call->in, *const *out = l->call->out;
  const capl_tensor *dy = call_input(l->call, LSTM_GRAD_DY), *gates = in[LSTM_GRAD_GATES],
      *c0 = call_input(l->call, LSTM_GRAD_C0);
  for (int64_t j = 0; j < l->s.H; j++) {
    double gate[LSTM_PARTS], slope[LSTM_PARTS];
    for (int k = 0; k < LSTM_PARTS; k++) gate[k] = ref_get(gates, at(l, p.row, LSTM_PARTS, k, j));
    double i = gate[LSTM_I], f = gate[LSTM_F], g = gate[LSTM_G], o = gate[LSTM_O];
    double c = tanh(ref_get(in[LSTM_GRAD_CELLS], at(l, p.row, 1, 0, j)));
    double before = state_before(l, in[LSTM_GRAD_CELLS], c0, p, j);
    double dh = ref_get(out[LSTM_DH0], state_at(l, j)) + (dy ? ref_get(dy, at(l, p.row, 1, 0, j)) : 0);
    double dc = ref_get(out[LSTM_DC0], state_at(l, j)) + dh * o * (1 - c * c);
    slope[LSTM_I] = dc * g * i * (1 - i);
    slope[LSTM_F] = dc * before * f * (1 - f);
    slope[LSTM_G] = dc * i * (1 - g * g);
    slope[LSTM_O] = dh * c * o * (1 - o);
    for (int k = 0; k < LSTM_PARTS; k++) ref_set(out[LSTM_DX], at(l, p.row, LSTM_PARTS, k, j), slope[k]);
    ref_set(out[LSTM_DC0], state_at(l, j), dc * f);
  }
}

static double lstm_slope(const lane *l, int64_t row, int k, int64_t j)
{
  return ref_get(l->call->out[LSTM_DX], at(l, row, LSTM_PARTS, k, j));
}

static void lstm_lane_back(lane *l)
{
  capl_tensor *const *in = l->call->in, *const *out = l->call->out;
  start_state(l, out[LSTM_DH0], call_input(l->call, LSTM_GRAD_DH_N));
  start_state(l, out[LSTM_DC0], call_input(l->call, LSTM_GRAD_DC_N));
  for (int64_t step = l->length - 1; step >= 0; step--) {
    place p = place_of(l, step);
    lstm_step_back(l, p);
    for (int64_t i = 0; i < l->s.H; i++) {
      double sum = 0;
      for (int k = 0; k < LSTM_PARTS; k++)
        for (int64_t j = 0; j < l->s.H; j++)
          sum += lstm_slope(l, p.row, k, j) * ref_get(in[LSTM_GRAD_W], weight_row(l, LSTM_PARTS, k, j) * l->s.H + i);
      ref_set(out[LSTM_DH0], state_at(l, i), sum);
    }
  }
  zero_rows(l, out[LSTM_DX], LSTM_PARTS);
}

static capl_status ref_lstm_grad(const capl_call *call)
{
  lane l = {.call = call, .s = rnn_sizes_of(call, call->in[LSTM_GRAD_Y], call->in[LSTM_GRAD_W], LSTM_PARTS),
            .lengths = call_input(call, LSTM_GRAD_LENGTHS)};
  CAPL_TRY(each_lane(l, lstm_lane_back));
  for (l.d = 0; l.d < l.s.D; l.d++)
    weight_gradient(l, LSTM_PARTS, lstm_slope, LSTM_GRAD_Y, LSTM_GRAD_H0, call->out[LSTM_DW], NULL);
  return CAPL_OK;
}

/* ---- gru -------------------------------------------------------------------------------------- */

static void gru_step(const lane *l, place p)
{
  capl_tensor *const *in = l->call->in, *const *out = l->call->out;
  const capl_tensor *x = in[GRU_X], *b = call_input(l->call, GRU_B);
  capl_tensor *gates = out[GRU_GATES];
  for (int64_t j = 0; j < l->s.H; j++) {
    double u[GRU_PARTS], v[GRU_PARTS];
    for (int k = 0; k < GRU_PARTS; k++) {
      u[k] = recurrent(l, in[GRU_W], out[GRU_H_N], GRU_PARTS, k, j)
      + (b ? ref_get(b, weight_row(l, GRU_PARTS, k, j)) : 0);
      v[k] = ref_get(x, at(l, p.row, GRU_PARTS, k, j));
    }
    double r = sigmoid(v[GRU_R] + u[GRU_R]), z = sigmoid(v[GRU_Z] + u[GRU_Z]), n = tanh(v[GRU_N] + r * u[GRU_N]);
    const double kept[GRU_KEPT] = {r, z, n, u[GRU_N]};
    for (int k = 0; k < GRU_KEPT; k++) ref_set(gates, at(l, p.row, GRU_KEPT, k, j), kept[k]);
    ref_set(out[GRU_Y], at(l, p.row, 1, 0, j), (1 - z) * n + z * ref_get(out[GRU_H_N], state_at(l, j)));
  }
  take_state(l, out[GRU_Y], p, out[GRU_H_N]);
}

static void gru_lane(lane *l)
{
  capl_tensor *const *out = l->call->out;
  start_state(l, out[GRU_H_N], call_input(l->call, GRU_H0));
  for (int64_t step = 0; step < l->length; step++) gru_step(l, place_of(l, step));
  zero_rows(l, out[GRU_Y], 1);
  zero_rows(l, out[GRU_GATES], GRU_KEPT);
}

static capl_status ref_gru(const capl_call *call)
{
  lane l = {.call = call, .s = rnn_sizes_of(call, call->in[GRU_X], call->in[GRU_W], GRU_PARTS),
            .lengths = call_input(call, GRU_LENGTHS)};
  return each_lane(l, gru_lane);
}

/* dx of a step from the gradient of h behind it, of which z lets a part pass. */
static void gru_step_back(const lane *l, place p)
{
  capl_tensor *const *in = l->call->in, *const *out = l->call->out;
  const capl_tensor *dy = call_input(l->call, GRU_GRAD_DY), *gates = in[GRU_GRAD_GATES],
      *h0 = call_input(l->call, GRU_GRAD_H0);
  for (int64_t j = 0; j < l->s.H; j++) {
    double gate[GRU_KEPT];
    for (int k = 0; k < GRU_KEPT; k++) gate[k] = ref_get(gates, at(l, p.row, GRU_KEPT, k, j));
    double r = gate[GRU_R], z = gate[GRU_Z], n = gate[GRU_N];
    double dh = ref_get(out[GRU_DH0], state_at(l, j)) + (dy ? ref_get(dy, at(l, p.row, 1, 0, j)) : 0);
    double dn = dh * (1 - z) * (1 - n * n);
    double dz = dh * (state_before(l, in[GRU_GRAD_Y], h0, p, j) - n) * z * (1 - z);
    ref_set(out[GRU_DX], at(l, p.row, GRU_PARTS, GRU_R, j), dn * gate[GRU_HN] * r * (1 - r));
    ref_set(out[GRU_DX], at(l, p.row, GRU_PARTS, GRU_Z, j), dz);
    ref_set(out[GRU_DX], at(l, p.row, GRU_PARTS, GRU_N, j), dn);
    ref_set(out[GRU_DH0], state_at(l, j), dh * z);
  }
}

/* Gradient of u: that of x, times r in the part of n. */
static double gru_slope(const lane *l, int64_t row, int k, int64_t j)
{
  double dx = ref_get(l->call->out[GRU_DX], at(l, row, GRU_PARTS, k, j));
  return k == GRU_N ? dx * ref_get(l->call->in[GRU_GRAD_GATES], at(l, row, GRU_KEPT, GRU_R, j)) : dx;
}

static void gru_lane_back(lane *l)
{
  capl_tensor *const *in = l->call->in, *const *out = l->call->out;
  start_state(l, out[GRU_DH0], call_input(l->call, GRU_GRAD_DH_N));
  for (int64_t step = l->length - 1; step >= 0; step--) {
    place p = place_of(l, step);
    gru_step_back(l, p);
    for (int64_t i = 0; i < l->s.H; i++) {
      double sum = ref_get(out[GRU_DH0], state_at(l, i));
      for (int k = 0; k < GRU_PARTS; k++)
        for (int64_t j = 0; j < l->s.H; j++)
          sum += gru_slope(l, p.row, k, j) * ref_get(in[GRU_GRAD_W], weight_row(l, GRU_PARTS, k, j) * l->s.H + i);
      ref_set(out[GRU_DH0], state_at(l, i), sum);
    }
  }
  zero_rows(l, out[GRU_DX], GRU_PARTS);
}

static capl_status ref_gru_grad(const capl_call *call)
{
  lane l = {.call = call, .s = rnn_sizes_of(call, call->in[GRU_GRAD_Y], call->in[GRU_GRAD_W], GRU_PARTS),
            .lengths = call_input(call, GRU_GRAD_LENGTHS)};
  CAPL_TRY(each_lane(l, gru_lane_back));
  for (l.d = 0; l.d < l.s.D; l.d++)
    weight_gradient(l, GRU_PARTS, gru_slope, GRU_GRAD_Y, GRU_GRAD_H0, call->out[GRU_DW], call->out[GRU_DB]);
  return CAPL_OK;
}

const capl_kernel ref_rnn_kernels[] = {
  {CAPL_OP_lstm, ref_lstm, ref_supports_any, 0},
  {CAPL_OP_lstm_grad, ref_lstm_grad, ref_supports_any, 0},
  {CAPL_OP_gru, ref_gru, ref_supports_any, 0},
  {CAPL_OP_gru_grad, ref_gru_grad, ref_supports_any, 0},
  {0},
};
