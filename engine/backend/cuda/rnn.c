/* rnn.c -- lstm and gru along time: per step one product of all sequences and directions, and one kernel for their
** cells.
**
** The last state's outputs hold the state on the way, and so do the first state's gradients. The gradient of the
** weights is one product over all steps at the end. Lengths are read on the GPU only; a step that a sequence has not
** costs as much as one that it has.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/rnn.h"

#include "backend/cuda/blas.h"
#include "backend/cuda/kernels/rnn.h"

static rnn_shape shape_of(const rnn_sizes *s, const capl_tensor *lengths)
{
  return (rnn_shape){.T = s->T,
                     .N = s->N,
                     .D = s->D,
                     .H = s->H,
                     .row_t = s->batch_first ? 1 : s->N,
                     .row_n = s->batch_first ? s->T : 1,
                     .lengths = lengths ? capl_tensor_data(lengths) : NULL,
                     .lengths_64 = lengths && lengths->dtype == CAPL_I64,
                     .models = s->models};
}

static bool is_empty(const rnn_sizes *s)
{
  return s->T == 0 || s->N == 0;
}

/* state := given, or 0. */
static capl_status begin_state(capl_tensor *state, const capl_tensor *given)
{
  return given ? cu_copy_tensor(state, given) : cu_fill_tensor(state, 0);
}

/* *out: a new reference to given in dtype, NULL for none. */
static capl_status in_dtype(capl_tensor *given, capl_dtype dtype, capl_tensor **out)
{
  *out = capl_tensor_ref(given);
  if (!given || given->dtype == dtype) return CAPL_OK;
  capl_tensor_unref(*out);
  CAPL_TRY(capl_tensor_new(given->device, dtype, given->ndim, given->size, CAPL_ROW, out));
  capl_status status = cu_copy_tensor(*out, given);
  if (status == CAPL_OK) return CAPL_OK;
  capl_tensor_unref(*out);
  *out = NULL;
  return status;
}

static void *data_or_null(const capl_tensor *t)
{
  return t ? capl_tensor_data(t) : NULL;
}

static capl_status launch(int kernel, const rnn_shape *s, const void *args)
{
  return cu_launch(cu_rnn_table[kernel], cu_blocks(s->D * s->N * s->H, CU_THREADS), CU_THREADS, 0, args);
}

/* ---- forward ---- */

typedef struct {
  int step_kernel, parts;
  const capl_tensor *x, *w, *h0, *c0, *lengths;
  capl_tensor *b, *y, *h_n, *c_n, *gates, *cells; /* b in any float type; c_n and cells: lstm only */
} forward_call;

/* u (N, gates) = h (N, H) * w' (H, gates), for each direction. */
static blas_record state_product(const forward_call *f, const rnn_sizes *s)
{
  int64_t gates = f->parts * s->H;
  blas_record r = blas_begin(f->x->dtype, s->N, gates, s->H, false, true);
  r.batch = s->D;
  r.a.batch_step = s->N * s->H;
  r.b.batch_step = gates * s->H;
  r.y.batch_step = s->N * gates;
  r.y.dtype = CAPL_F32;
  return r;
}

static capl_status run_steps(const forward_call *f, const rnn_sizes *s, const capl_tensor *bias, float *u)
{
  blas_record product = state_product(f, s);
  blas_pointers p = {capl_tensor_data(f->h_n), capl_tensor_data(f->w), u, NULL};
  rnn_args a = {.s = shape_of(s, f->lengths), .x = capl_tensor_data(f->x), .u = u, .bias = data_or_null(bias),
                .gates = capl_tensor_data(f->gates), .y = capl_tensor_data(f->y), .h = capl_tensor_data(f->h_n),
                .c = data_or_null(f->c_n), .cells = data_or_null(f->cells)};
  for (a.step = 0; a.step < s->T; a.step++) {
    CAPL_TRY(cu_product(&product, &p));
    CAPL_TRY(launch(f->step_kernel + (int)cu_type_of(f->x->dtype), &a.s, &a));
  }
  return CAPL_OK;
}

static capl_status run_forward(const capl_call *call, const forward_call *f)
{
  rnn_sizes s = rnn_sizes_of(call, f->x, f->w, f->parts);
  capl_tensor *bias;
  void *u;
  CAPL_TRY(begin_state(f->h_n, f->h0));
  if (f->c_n) CAPL_TRY(begin_state(f->c_n, f->c0));
  if (is_empty(&s)) return CAPL_OK;
  CAPL_TRY(in_dtype(f->b, CAPL_F32, &bias));
  capl_status status = capl_scratch_get(call->device, (size_t)(s.D * s.N * f->parts * s.H) * sizeof(float), &u);
  if (status == CAPL_OK) {
    status = run_steps(f, &s, bias, u);
    capl_scratch_put(call->device, u);
  }
  capl_tensor_unref(bias);
  return status;
}

static capl_status cu_lstm(const capl_call *call)
{
  capl_tensor **out = call->out;
  forward_call f = {.step_kernel = LSTM_STEP, .parts = LSTM_PARTS, .x = call->in[LSTM_X], .w = call->in[LSTM_W],
                    .h0 = call_input(call, LSTM_H0), .c0 = call_input(call, LSTM_C0),
                    .lengths = call_input(call, LSTM_LENGTHS), .y = out[LSTM_Y], .h_n = out[LSTM_H_N],
                    .c_n = out[LSTM_C_N], .gates = out[LSTM_GATES], .cells = out[LSTM_CELLS]};
  return run_forward(call, &f);
}

static capl_status cu_gru(const capl_call *call)
{
  capl_tensor **out = call->out;
  forward_call f = {.step_kernel = GRU_STEP, .parts = GRU_PARTS, .x = call->in[GRU_X], .w = call->in[GRU_W],
                    .b = call_input(call, GRU_B), .h0 = call_input(call, GRU_H0),
                    .lengths = call_input(call, GRU_LENGTHS), .y = out[GRU_Y], .h_n = out[GRU_H_N],
                    .gates = out[GRU_GATES]};
  return run_forward(call, &f);
}

/* ---- back ---- */

typedef struct {
  int step_kernel, parts;
  const capl_tensor *w, *y, *gates, *cells, *lengths, *dh_n, *dc_n;
  capl_tensor *h0, *c0, *dy; /* in any float type */
  capl_tensor *dx, *dw, *db, *dh0, *dc0; /* db: gru; cells, c0, dc_n, dc0: lstm */
} backward_call;

/* Scratch memory of a call. */
typedef struct {
  float *back;       /* (D,N,H) */
  void *du, *before; /* (D,T,N,gates*H), (D,T,N,H) in the dtype of y */
} backward_room;

/* back (N, H) = du (N, gates) * w (gates, H), for each direction. */
static blas_record step_product(const backward_call *b, const rnn_sizes *s)
{
  int64_t gates = b->parts * s->H;
  blas_record r = blas_begin(b->y->dtype, s->N, s->H, gates, false, false);
  r.batch = s->D;
  r.a.batch_step = s->T * s->N * gates;
  r.b.batch_step = gates * s->H;
  r.y.batch_step = s->N * s->H;
  r.y.dtype = CAPL_F32;
  return r;
}

/* dw (gates, H) = du' (gates, T*N) * before (T*N, H), for each direction. */
static capl_status weight_product(const backward_call *b, const rnn_sizes *s, const backward_room *room)
{
  int64_t gates = b->parts * s->H, rows = s->T * s->N;
  blas_record r = blas_begin(b->y->dtype, gates, s->H, rows, true, false);
  r.batch = s->D;
  r.a.batch_step = rows * gates;
  r.b.batch_step = rows * s->H;
  r.y.batch_step = gates * s->H;
  r.y.dtype = CAPL_F32;
  blas_pointers p = {room->du, room->before, capl_tensor_data(b->dw), NULL};
  CAPL_TRY(cu_product(&r, &p));
  for (int64_t d = 0; b->db && d < s->D; d++) {
    const char *du = (const char *)room->du + d * rows * gates * (int64_t)capl_dtype_size(b->y->dtype);
    CAPL_TRY(cu_column_sums(b->y->device, b->y->dtype, du, rows, gates, (float *)capl_tensor_data(b->db) + d * gates));
  }
  return CAPL_OK;
}

/* h0, c0 and dy in the types that the kernels take. */
static capl_status run_back(const backward_call *b, const rnn_sizes *s, const backward_room *room,
                            const capl_tensor *h0, const capl_tensor *c0, const capl_tensor *dy)
{
  int64_t step_size = s->N * b->parts * s->H * (int64_t)capl_dtype_size(b->y->dtype);
  blas_record product = step_product(b, s);
  rnn_grad_args a = {.s = shape_of(s, b->lengths), .y = capl_tensor_data(b->y), .gates = capl_tensor_data(b->gates),
                     .h0 = data_or_null(h0), .dy = data_or_null(dy), .cells = data_or_null(b->cells),
                     .c0 = data_or_null(c0), .back = room->back, .dh = capl_tensor_data(b->dh0),
                     .dc = data_or_null(b->dc0), .dx = capl_tensor_data(b->dx), .du = room->du, .before = room->before};
  for (a.step = s->T - 1; a.step >= 0; a.step--) {
    blas_pointers p = {(const char *)room->du + a.step * step_size, capl_tensor_data(b->w), room->back, NULL};
    CAPL_TRY(launch(b->step_kernel + (int)cu_type_of(b->y->dtype), &a.s, &a));
    CAPL_TRY(cu_product(&product, &p));
  }
  rnn_end_args end = {a.s, room->back, a.dh};
  CAPL_TRY(launch(RNN_END, &a.s, &end));
  return weight_product(b, s, room);
}

static capl_status with_inputs(const backward_call *b, const rnn_sizes *s, const backward_room *room)
{
  capl_tensor *h0 = NULL, *c0 = NULL, *dy = NULL;
  capl_status status = in_dtype(b->h0, b->y->dtype, &h0);
  if (status == CAPL_OK) status = in_dtype(b->c0, CAPL_F32, &c0);
  if (status == CAPL_OK) status = in_dtype(b->dy, b->y->dtype, &dy);
  if (status == CAPL_OK) status = run_back(b, s, room, h0, c0, dy);
  capl_tensor_unref(h0);
  capl_tensor_unref(c0);
  capl_tensor_unref(dy);
  return status;
}

static size_t whole(size_t bytes)
{
  return (bytes + 255) / 256 * 256;
}

static capl_status run_backward(const capl_call *call, const backward_call *b)
{
  rnn_sizes s = rnn_sizes_of(call, b->y, b->w, b->parts);
  CAPL_TRY(begin_state(b->dh0, b->dh_n));
  if (b->dc0) CAPL_TRY(begin_state(b->dc0, b->dc_n));
  if (is_empty(&s)) {
    if (b->db) CAPL_TRY(cu_fill_tensor(b->db, 0));
    return cu_fill_tensor(b->dw, 0);
  }
  size_t states = (size_t)(s.D * s.N * s.H), element = capl_dtype_size(b->y->dtype),
      back = whole(states * sizeof(float)),
         du = whole(states * (size_t)(s.T * b->parts) * element);
  char *scratch;
  CAPL_TRY(capl_scratch_get(call->device, back + du + states * (size_t)s.T * element, (void **)&scratch));
  backward_room room = {(float *)scratch, scratch + back, scratch + back + du};
  capl_status status = with_inputs(b, &s, &room);
  capl_scratch_put(call->device, scratch);
  return status;
}

static capl_status cu_lstm_grad(const capl_call *call)
{
  capl_tensor *const *in = call->in, **out = call->out;
  backward_call b = {.step_kernel = LSTM_STEP_BACK, .parts = LSTM_PARTS, .w = in[LSTM_GRAD_W], .y = in[LSTM_GRAD_Y],
                     .gates = in[LSTM_GRAD_GATES], .cells = in[LSTM_GRAD_CELLS], .h0 = call_input(call, LSTM_GRAD_H0),
                     .c0 = call_input(call, LSTM_GRAD_C0), .lengths = call_input(call, LSTM_GRAD_LENGTHS),
                     .dy = call_input(call, LSTM_GRAD_DY), .dh_n = call_input(call, LSTM_GRAD_DH_N),
                     .dc_n = call_input(call, LSTM_GRAD_DC_N), .dx = out[LSTM_DX], .dw = out[LSTM_DW],
                     .dh0 = out[LSTM_DH0], .dc0 = out[LSTM_DC0]};
  return run_backward(call, &b);
}

static capl_status cu_gru_grad(const capl_call *call)
{
  capl_tensor *const *in = call->in, **out = call->out;
  backward_call b = {.step_kernel = GRU_STEP_BACK, .parts = GRU_PARTS, .w = in[GRU_GRAD_W], .y = in[GRU_GRAD_Y],
                     .gates = in[GRU_GRAD_GATES], .h0 = call_input(call, GRU_GRAD_H0),
                     .lengths = call_input(call, GRU_GRAD_LENGTHS), .dy = call_input(call, GRU_GRAD_DY),
                     .dh_n = call_input(call, GRU_GRAD_DH_N), .dx = out[GRU_DX], .dw = out[GRU_DW], .db = out[GRU_DB],
                     .dh0 = out[GRU_DH0]};
  return run_backward(call, &b);
}

const capl_kernel cu_rnn_kernels[] = {
  {CAPL_OP_lstm, cu_lstm, NULL, CU_REAL},
  {CAPL_OP_lstm_grad, cu_lstm_grad, NULL, CU_REAL},
  {CAPL_OP_gru, cu_gru, NULL, CU_REAL},
  {CAPL_OP_gru_grad, cu_gru_grad, NULL, CU_REAL},
  {0},
};
