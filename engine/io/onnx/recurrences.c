/* recurrences.c -- LSTM and GRU.
**
** The ops of capl begin behind the product of the inputs with w_ih; ONNX's contain it. Where that product is a linear
** op of its own, its input and weights are given to ONNX, else a matrix of ones in the diagonal is. Gates change their
** order: i,f,g,o becomes i,o,f,g, and r,z,n becomes z,r,n. SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/write.h"
#include "ops/rnn.h"

typedef struct {
  int parts;            /* gates */
  int64_t order[4];     /* ONNX's gate k is ours of this number */
  int64_t D, H;
} layout;

/* (D*parts*H, cols…) -> (D, parts*H, cols…), gates in ONNX's order. cols: 0 = a vector */
static const char *arrange(onnx_build *b, const layout *l, const char *w, bool matrix)
{
  const char *split = matrix ? ONNX_LIST(b, l->D, l->parts, l->H, -1) : ONNX_LIST(b, l->D, l->parts, l->H);
  const char *parts = ONNX(b, "Reshape", w, split), *order = onnx_list(b, l->parts, l->order);
  const char *chosen = ONNX(b, "Gather", parts, order);
  onnx_int(b, "axis", 1);
  int64_t rows = l->parts * l->H;
  return ONNX(b, "Reshape", chosen, matrix ? ONNX_LIST(b, l->D, rows, -1) : ONNX_LIST(b, l->D, rows));
}

/* (n,n) with ones in the diagonal */
static const char *diagonal(onnx_build *b, int64_t n)
{
  const char *zeros = ONNX(b, "Expand", onnx_number(b, ONNX_F32, 0), ONNX_LIST(b, n, n));
  return ONNX(b, "EyeLike", zeros);
}

static const char *bias_of(onnx_build *b, const layout *l, const char *bias)
{
  if (*bias) return arrange(b, l, bias, false);
  return ONNX(b, "Expand", onnx_number(b, ONNX_F32, 0), ONNX_LIST(b, l->D, l->parts * l->H));
}

/* Input, its weights and biases as ONNX wants them; state_bias: ONNX_NONE = zeros. */
static void inputs_of(onnx_build *b, const onnx_call *c, const layout *l, const char *state_bias, const char **in)
{
  const onnx_value *values = c->x->values;
  int maker = c->in[0]->maker;
  const graph_node *linear = maker >= 0 ? &c->x->graph->nodes[maker] : NULL;
  const char *x = onnx_in(c, 0), *weight, *bias = ONNX_NONE;
  if (linear && linear->op == CAPL_OP_linear) {
    x = values[linear->in[0]].name;
    weight = values[linear->in[1]].name;
    if (linear->n_in > 2 && linear->in[2] >= 0) bias = values[linear->in[2]].name;
  } else weight = diagonal(b, l->D * l->parts * l->H);
  in[0] = c->attr[RNN_BATCH_FIRST].i ? ONNX_PERMUTE(b, x, 1, 0, 2) : x;
  in[1] = arrange(b, l, weight, true);
  in[2] = arrange(b, l, onnx_in(c, LSTM_W), true);
  const char *first = bias_of(b, l, bias), *second = bias_of(b, l, state_bias);
  in[3] = ONNX(b, "Concat", first, second);
  onnx_int(b, "axis", 1);
}

static layout layout_of(onnx_build *b, const onnx_call *c, int parts)
{
  const int64_t *size = c->in[LSTM_W]->size;
  if (c->attr[RNN_MODELS].i) onnx_fail(b, c, "it is of several models at once (models = true)");
  layout l = {.parts = parts, .D = size[0] / (parts * size[1]), .H = size[1]};
  return l;
}

static const char *lengths_of(onnx_build *b, const onnx_call *c, int i)
{
  return *onnx_in(c, i) ? onnx_cast(b, onnx_in(c, i), ONNX_I32) : ONNX_NONE;
}

/* (T,D,N,H) -> (T,N,D*H) or (N,T,D*H) */
static const char *sequence(onnx_build *b, const onnx_call *c, const layout *l, const char *y)
{
  const char *turned = c->attr[RNN_BATCH_FIRST].i ? ONNX_PERMUTE(b, y, 2, 0, 1, 3) : ONNX_PERMUTE(b, y, 0, 2, 1, 3);
  return ONNX(b, "Reshape", turned, ONNX_LIST(b, 0, 0, l->D * l->H));
}

static void add_directions(onnx_build *b, const layout *l)
{
  onnx_int(b, "hidden_size", l->H);
  onnx_word(b, "direction", l->D == 2 ? "bidirectional" : "forward");
}

static void write_lstm(onnx_build *b, const onnx_call *c)
{
  layout l = layout_of(b, c, LSTM_PARTS);
  const char *in[4];
  l.order[0] = LSTM_I, l.order[1] = LSTM_O, l.order[2] = LSTM_F, l.order[3] = LSTM_G;
  inputs_of(b, c, &l, ONNX_NONE, in);
  const char *lengths = lengths_of(b, c, LSTM_LENGTHS);
  const char *y = ONNX(b, "LSTM", in[0], in[1], in[2], in[3], lengths, onnx_in(c, LSTM_H0), onnx_in(c, LSTM_C0));
  add_directions(b, &l);
  c->out[LSTM_H_N].name = onnx_also(b);
  c->out[LSTM_C_N].name = onnx_also(b);
  c->out[LSTM_Y].name = sequence(b, c, &l, y);
}

static void write_gru(onnx_build *b, const onnx_call *c)
{
  layout l = layout_of(b, c, GRU_PARTS);
  const char *in[4];
  l.order[0] = GRU_Z, l.order[1] = GRU_R, l.order[2] = GRU_N;
  inputs_of(b, c, &l, onnx_in(c, GRU_B), in);
  const char *lengths = lengths_of(b, c, GRU_LENGTHS);
  const char *y = ONNX(b, "GRU", in[0], in[1], in[2], in[3], lengths, onnx_in(c, GRU_H0));
  add_directions(b, &l);
  onnx_int(b, "linear_before_reset", 1);
  c->out[GRU_H_N].name = onnx_also(b);
  c->out[GRU_Y].name = sequence(b, c, &l, y);
}

const onnx_row onnx_recurrences[] = {{CAPL_OP_lstm, write_lstm}, {CAPL_OP_gru, write_gru}, {0, NULL}};
