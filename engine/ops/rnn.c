/* rnn.c -- descriptors of recurrent layers: what happens along time, all sequences and both directions in one op.
**
** The product of the inputs with their weights does not depend on time, so it is an ordinary linear op of all time
** steps before these ones (nn.LSTM, nn.GRU); its gradients follow from that op. What is left to do step by step is in
** here. SPDX-License-Identifier: Apache-2.0
*/
#include "ops/rnn.h"

#include <inttypes.h>
#include <string.h>

#include "ops/rules.h"

/* ---- shapes ----------------------------------------------------------------------------------- */

enum { TEXT = 96 };

/* w_hh (D*parts*H, H) with D 1 or 2; any number of models. */
static capl_status need_weights(const capl_call *call, const capl_tensor *w, int parts)
{
  char shape[TEXT];
  CAPL_TRY(need_float(w, "w_hh"));
  CAPL_TRY(need_ndim(w, "w_hh", 2));
  int64_t hidden = w->size[1], rows = w->size[0];
  if (hidden >= 1 && (rows == parts * hidden || rows == 2 * parts * hidden)) return CAPL_OK;
  if (call->attr[RNN_MODELS].i) {
    if (hidden >= 1 && rows > 0 && rows % (parts * hidden) == 0) return CAPL_OK;
    return CAPL_FAIL(CAPL_ESHAPE, "w_hh must be (M*%d*H,H) for M models, with H the hidden size; it is %s", parts,
                     capl_shape_describe(w->ndim, w->size, shape, sizeof shape));
  }
  return CAPL_FAIL(CAPL_ESHAPE,
                   "w_hh must be (%d*H,H) for one direction or (%d*H,H) for two, with H the hidden size; it is %s",
                   parts, 2 * parts, capl_shape_describe(w->ndim, w->size, shape, sizeof shape));
}

/* What the input projection gives: one row per time step and sequence, as wide as w_hh has rows. */
static capl_status need_projected(const capl_tensor *x, const capl_tensor *w)
{
  CAPL_TRY(need_float(x, "x"));
  CAPL_TRY(need_ndim(x, "x", 3));
  CAPL_TRY(need_same_dtype(x, "x", w, "w_hh"));
  if (x->size[2] == w->size[0]) return CAPL_OK;
  CAPL_FAIL(CAPL_ESHAPE, "x has %" PRId64 " values per time step, w_hh has %" PRId64 " rows: they must be equal",
            x->size[2], w->size[0]);
  capl_error_hint("x is the input times w_ih, all gates of all directions side by side; nn.LSTM and nn.GRU make it");
  return CAPL_ESHAPE;
}

static capl_status need_state(const capl_tensor *t, const char *name, const rnn_sizes *s)
{
  char shape[TEXT];
  if (!t) return CAPL_OK;
  CAPL_TRY(need_float(t, name));
  if (t->ndim == 3 && t->size[0] == s->D && t->size[1] == s->N && t->size[2] == s->H) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE,
                   "%s must be (%" PRId64 ",%" PRId64 ",%" PRId64 "): directions, sequences, hidden size; it is %s",
                   name, s->D, s->N, s->H, capl_shape_describe(t->ndim, t->size, shape, sizeof shape));
}

static capl_status need_lengths(const capl_tensor *t, const rnn_sizes *s)
{
  if (!t) return CAPL_OK;
  CAPL_TRY(need_vector(t, "lengths", s->N, "sequence"));
  if (t->dtype == CAPL_I32 || t->dtype == CAPL_I64) return CAPL_OK;
  return CAPL_FAIL(CAPL_EDTYPE, "lengths must be i32 or i64, it is %s", capl_dtype_name(t->dtype));
}

/* Sums over many terms, and states that live through all steps, have 32 bits at least. */
static capl_dtype wide(const capl_tensor *t)
{
  return t->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32;
}

static void spec_rows(capl_out_spec *out, capl_dtype dtype, const capl_tensor *seq, int64_t width)
{
  int64_t size[3] = {seq->size[0], seq->size[1], width};
  spec_set(out, dtype, 3, size);
  out->format = CAPL_ROW;
}

static void spec_state(capl_out_spec *out, capl_dtype dtype, const rnn_sizes *s)
{
  int64_t size[3] = {s->D, s->N, s->H};
  spec_set(out, dtype, 3, size);
  out->format = CAPL_ROW;
}

static capl_status lstm_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[LSTM_X], *w = call->in[LSTM_W];
  CAPL_TRY(need_weights(call, w, LSTM_PARTS));
  CAPL_TRY(need_projected(x, w));
  rnn_sizes s = rnn_sizes_of(call, x, w, LSTM_PARTS);
  CAPL_TRY(need_state(call_input(call, LSTM_H0), "h0", &s));
  CAPL_TRY(need_state(call_input(call, LSTM_C0), "c0", &s));
  CAPL_TRY(need_lengths(call_input(call, LSTM_LENGTHS), &s));
  spec_rows(&out[LSTM_Y], x->dtype, x, s.D * s.H);
  spec_state(&out[LSTM_H_N], x->dtype, &s);
  spec_state(&out[LSTM_C_N], wide(x), &s);
  spec_rows(&out[LSTM_GATES], x->dtype, x, x->size[2]);
  spec_rows(&out[LSTM_CELLS], wide(x), x, s.D * s.H);
  return CAPL_OK;
}

static capl_status gru_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[GRU_X], *w = call->in[GRU_W], *b = call_input(call, GRU_B);
  CAPL_TRY(need_weights(call, w, GRU_PARTS));
  CAPL_TRY(need_projected(x, w));
  rnn_sizes s = rnn_sizes_of(call, x, w, GRU_PARTS);
  if (b) {
    CAPL_TRY(need_vector(b, "b_hh", w->size[0], "row of w_hh"));
    CAPL_TRY(need_bias_dtype(x, b));
  }
  CAPL_TRY(need_state(call_input(call, GRU_H0), "h0", &s));
  CAPL_TRY(need_lengths(call_input(call, GRU_LENGTHS), &s));
  spec_rows(&out[GRU_Y], x->dtype, x, s.D * s.H);
  spec_state(&out[GRU_H_N], x->dtype, &s);
  spec_rows(&out[GRU_GATES], x->dtype, x, s.D * s.H * GRU_KEPT);
  return CAPL_OK;
}

/* t, which may be left out, has the shape (first two sizes of seq, width). */
static capl_status need_rows(const capl_tensor *t, const char *name, const capl_tensor *seq, int64_t width)
{
  char is[TEXT], wanted[TEXT];
  int64_t size[3] = {seq->size[0], seq->size[1], width};
  if (!t || (t->ndim == 3 && memcmp(t->size, size, sizeof size) == 0)) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "%s must be %s, it is %s", name, capl_shape_describe(3, size, wanted, sizeof wanted),
                   capl_shape_describe(t->ndim, t->size, is, sizeof is));
}

/* What both gradients begin with: y (T,N,D*H) that fits w_hh, and gates beside it. */
static capl_status grad_sizes(const capl_call *call, int parts, int kept, rnn_sizes *s)
{
  const capl_tensor *w = call->in[0], *y = call->in[1], *gates = call->in[2];
  CAPL_TRY(need_weights(call, w, parts));
  CAPL_TRY(need_ndim(y, "y", 3));
  CAPL_TRY(need_same_dtype(y, "y", w, "w_hh"));
  CAPL_TRY(need_same_dtype(y, "y", gates, "gates"));
  *s = rnn_sizes_of(call, y, w, parts);
  CAPL_TRY(need_rows(y, "y", y, s->D * s->H));
  return need_rows(gates, "gates", y, s->D * s->H * kept);
}

static capl_status lstm_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *y = call->in[LSTM_GRAD_Y], *w = call->in[LSTM_GRAD_W];
  rnn_sizes s;
  CAPL_TRY(grad_sizes(call, LSTM_PARTS, LSTM_PARTS, &s));
  CAPL_TRY(need_rows(call->in[LSTM_GRAD_CELLS], "cells", y, s.D * s.H));
  CAPL_TRY(need_state(call_input(call, LSTM_GRAD_H0), "h0", &s));
  CAPL_TRY(need_state(call_input(call, LSTM_GRAD_C0), "c0", &s));
  CAPL_TRY(need_lengths(call_input(call, LSTM_GRAD_LENGTHS), &s));
  CAPL_TRY(need_rows(call_input(call, LSTM_GRAD_DY), "dy", y, s.D * s.H));
  CAPL_TRY(need_state(call_input(call, LSTM_GRAD_DH_N), "dh_n", &s));
  CAPL_TRY(need_state(call_input(call, LSTM_GRAD_DC_N), "dc_n", &s));
  spec_rows(&out[LSTM_DX], y->dtype, y, s.D * s.H * LSTM_PARTS);
  spec_set(&out[LSTM_DW], wide(y), 2, w->size);
  spec_state(&out[LSTM_DH0], wide(y), &s);
  spec_state(&out[LSTM_DC0], wide(y), &s);
  return CAPL_OK;
}

static capl_status gru_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *y = call->in[GRU_GRAD_Y], *w = call->in[GRU_GRAD_W];
  rnn_sizes s;
  CAPL_TRY(grad_sizes(call, GRU_PARTS, GRU_KEPT, &s));
  CAPL_TRY(need_state(call_input(call, GRU_GRAD_H0), "h0", &s));
  CAPL_TRY(need_lengths(call_input(call, GRU_GRAD_LENGTHS), &s));
  CAPL_TRY(need_rows(call_input(call, GRU_GRAD_DY), "dy", y, s.D * s.H));
  CAPL_TRY(need_state(call_input(call, GRU_GRAD_DH_N), "dh_n", &s));
  spec_rows(&out[GRU_DX], y->dtype, y, s.D * s.H * GRU_PARTS);
  spec_set(&out[GRU_DW], wide(y), 2, w->size);
  spec_set(&out[GRU_DB], wide(y), 1, w->size);
  spec_state(&out[GRU_DH0], wide(y), &s);
  return CAPL_OK;
}

/* ---- gradients -------------------------------------------------------------------------------- */

static capl_tensor *node_input(const capl_node *node, int i)
{
  return i < node->n_in ? node->in[i] : NULL;
}

static bool wants(const capl_node *node, int i)
{
  return i < node->n_in && node->needs[i];
}

/* Hands got[] over to the inputs it belongs to, and gives back what nobody wants. */
static void give(const capl_node *node, int n, capl_tensor **got, const int *to, capl_tensor **dx)
{
  for (int i = 0; i < n; i++) {
    if (wants(node, to[i])) dx[to[i]] = got[i];
    else capl_tensor_unref(got[i]);
  }
}

static capl_status lstm_grad_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  static const int to[] = {LSTM_X, LSTM_W, LSTM_H0, LSTM_C0};
  capl_tensor *got[4];
  if (!dy[LSTM_Y] && !dy[LSTM_H_N] && !dy[LSTM_C_N]) return CAPL_OK;
  CAPL_TRY(GRAD_CALL(CAPL_OP_lstm_grad, node->attr, got, node->in[LSTM_W], node->out[LSTM_Y], node->out[LSTM_GATES],
                     node->out[LSTM_CELLS], node_input(node, LSTM_H0), node_input(node, LSTM_C0),
                     node_input(node, LSTM_LENGTHS), dy[LSTM_Y], dy[LSTM_H_N], dy[LSTM_C_N]));
  give(node, 4, got, to, dx);
  return CAPL_OK;
}

static capl_status gru_grad_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  static const int to[] = {GRU_X, GRU_W, GRU_B, GRU_H0};
  capl_tensor *got[4];
  if (!dy[GRU_Y] && !dy[GRU_H_N]) return CAPL_OK;
  CAPL_TRY(GRAD_CALL(CAPL_OP_gru_grad, node->attr, got, node->in[GRU_W], node->out[GRU_Y], node->out[GRU_GATES],
                     node_input(node, GRU_H0), node_input(node, GRU_LENGTHS), dy[GRU_Y], dy[GRU_H_N]));
  give(node, 4, got, to, dx);
  return CAPL_OK;
}

/* Each row takes the state times all of w_hh's direction; gradients do it twice. */
static double macs_of(const capl_tensor *seq, const capl_tensor *w)
{
  return (double)(seq->size[0] * seq->size[1]) * (double)w->size[0] * (double)w->size[1];
}

static double forward_macs(const capl_call *call) { return macs_of(call->in[0], call->in[1]); }
static double grad_macs(const capl_call *call) { return 2 * macs_of(call->in[1], call->in[0]); }

/* ---- descriptors ------------------------------------------------------------------------------ */

#define BIT(i) (1u << (i))
#define SEQUENCE_DOC                                                                                              \
  "batch_first: sequences are (N,T,...) instead of (T,N,...). D is 1, or 2 for both directions: the second one\n" \
  "begins at the last time step. models: D networks that all go forward, any number, in place of directions.\n"   \
  "lengths (N) i32 or i64, 0 to T each: how many time steps of a sequence count. The state stops at its end, the\n" \
  "second direction begins there, y is 0 behind it; sequences need no order. On a GPU larger ones count as T.\n"
#define ERRORS_DOC "Errors: shape and dtype, naming the input; value, if a length is not in 0..T.\n"
#define GRAD_DOC                                                                                                      \
  "y, gates and the states: as given to and returned by the op. dy, dh_n, dc_n: gradients of its outputs; left out " \
  "=\n" \
  "0. dx has the dtype of y, the others are f32 (f64 when y is f64).\n"

const capl_op capl_op_lstm = {
  NAME_AND_ATTRS(lstm),
  .ins = "x, w_hh, h0?, c0?, lengths?",
  OUTS(y, h_n, c_n, gates, cells),
  .amp = CAPL_AMP_LOW,
  .low_in = 3u,
  .layout = CAPL_LAYOUT_ROW,
  .save_in = BIT(LSTM_W) | BIT(LSTM_H0) | BIT(LSTM_C0) | BIT(LSTM_LENGTHS),
  .save_out = BIT(LSTM_Y) | BIT(LSTM_GATES) | BIT(LSTM_CELLS),
  .index_outs = BIT(LSTM_GATES) | BIT(LSTM_CELLS),
  .shape = lstm_shape,
  .grad = lstm_grad_rule,
  .macs = forward_macs,
  .doc = "Long short-term memory along time: c = f * c + i * g, h = o * tanh(c).\n"
         "(i, f, o) = sigmoid and g = tanh of x_t + w_hh * h. x (T,N,D*4H): the inputs times w_ih with all biases, "
         "gates\n"
         "in the order i, f, g, o, the first direction's before the second's (nn.LSTM makes it). w_hh (D*4H,H), of "
         "the\n"
         "dtype of x. h0, c0 (D,N,H): states to begin with; left out = 0.\n"
         "-> y (T,N,D*H): h after each step; h_n (D,N,H) the last one, c_n its c, at least f32. gates (as x) and "
         "cells (as\n"
         "y, at least f32) are kept for the backward pass.\n" SEQUENCE_DOC ERRORS_DOC
         "Source: S. Hochreiter, J. Schmidhuber, \"Long short-term memory\", Neural Computation 9(8), 1997; forget "
         "gate:\n"
         "F. Gers et al., Neural Computation 12(10), 2000.",
};

const capl_op capl_op_lstm_grad = {
  NAME_AND_ATTRS(lstm_grad),
  .ins = "w_hh, y, gates, cells, h0?, c0?, lengths?, dy?, dh_n?, dc_n?",
  OUTS(dx, dw_hh, dh0, dc0),
  .layout = CAPL_LAYOUT_ROW,
  .shape = lstm_grad_shape,
  .macs = grad_macs,
  .doc = "Gradients of lstm. Not differentiable.\n" GRAD_DOC ERRORS_DOC,
};

const capl_op capl_op_gru = {
  NAME_AND_ATTRS(gru),
  .ins = "x, w_hh, b_hh?, h0?, lengths?",
  OUTS(y, h_n, gates),
  .amp = CAPL_AMP_LOW,
  .low_in = 3u,
  .layout = CAPL_LAYOUT_ROW,
  .save_in = BIT(GRU_W) | BIT(GRU_H0) | BIT(GRU_LENGTHS),
  .save_out = BIT(GRU_Y) | BIT(GRU_GATES),
  .index_outs = BIT(GRU_GATES),
  .shape = gru_shape,
  .grad = gru_grad_rule,
  .macs = forward_macs,
  .doc = "Gated recurrent unit along time: h = (1 - z) * n + z * h.\n"
         "(r, z) = sigmoid(x_t + u), n = tanh(x_t + r * u), each with its part of u = w_hh * h + b_hh. x (T,N,D*3H): "
         "the\n"
         "inputs times w_ih with their bias, gates in the order r, z, n, the first direction's before the second's "
         "(nn.GRU\n"
         "makes it). w_hh (D*3H,H), of the dtype of x; b_hh (D*3H). h0 (D,N,H): the state to begin with; left out = "
         "0.\n"
         "-> y (T,N,D*H): h after each step; h_n (D,N,H) the last one. gates (T,N,D*4H): r, z, n and u's part in n, "
         "kept\n"
         "for the backward pass.\n" SEQUENCE_DOC ERRORS_DOC
         "Source: K. Cho et al., \"Learning phrase representations using RNN encoder-decoder\", EMNLP 2014; r behind "
         "the\n"
         "product, as cuDNN and PyTorch have it.",
};

const capl_op capl_op_gru_grad = {
  NAME_AND_ATTRS(gru_grad),
  .ins = "w_hh, y, gates, h0?, lengths?, dy?, dh_n?",
  OUTS(dx, dw_hh, db_hh, dh0),
  .layout = CAPL_LAYOUT_ROW,
  .shape = gru_grad_shape,
  .macs = grad_macs,
  .doc = "Gradients of gru. Not differentiable.\n" GRAD_DOC ERRORS_DOC,
};
