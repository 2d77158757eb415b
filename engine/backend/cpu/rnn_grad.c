/* rnn_grad.c -- gradients of lstm and gru: back through time, the gradient of the weights summed on the way.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cpu/product.h"
#include "backend/cpu/rnn.h"

typedef struct {
  rnn_plan plan;
  const capl_tensor *y, *gates, *cells, *h0, *c0, *dy, *dh_n, *dc_n; /* cells, c0, dc_n: lstm only */
  capl_tensor *dx, *dw, *db, *dh0, *dc0;                             /* db: gru; dc0: lstm */
  void (*cell)(const vec_rnn_grad *p);
  rnn_panels back, sums; /* du * packed = dh; du' * h = dw */
  const float *packed;
  float *room;
  int64_t room_each, sums_each; /* sums: dw and db of a task, at the end of its room */
} backward_job;

/* What a task has to itself. Rows of du, h and dh belong to its sequences, with a row of zeros behind du's and h's;
** line holds two rows on the way to f32. As pairs of bf16, if the products are of such: rows of du, and the columns of
** du and of h. */
typedef struct {
  rnn_task t;
  float *du, *h, *dh, *line, *dw, *db;
  uint32_t *du_rows, *du_columns, *h_columns;
} task_room;

static int64_t gates_of(const backward_job *job)
{
  return job->plan.parts * job->plan.s.H;
}

static task_room room_of(const backward_job *job, int64_t index)
{
  const rnn_plan *p = &job->plan;
  task_room r = {.t = rnn_task_of(p, index), .dw = job->room + index * job->room_each};
  int64_t rows = r.t.end - r.t.first;
  r.db = r.dw + gates_of(job) * job->sums.padded;
  r.du = r.dw + job->sums_each;
  r.h = r.du + (rows + 1) * gates_of(job);
  r.dh = r.h + (rows + 1) * job->sums.padded;
  r.line = r.dh + rows * job->back.padded;
  r.du_rows = (uint32_t *)(r.line + 2 * p->s.H);
  r.du_columns = r.du_rows + rows * job->back.length;
  r.h_columns = r.du_columns + (rows + 1) / 2 * gates_of(job);
  memset(r.dw, 0, (size_t)job->room_each * sizeof *r.dw);
  return r;
}

static int64_t room_size(const backward_job *job, int64_t rows)
{
  int64_t pair = gates_of(job) + job->sums.padded, row = pair + job->back.padded;
  int64_t low = job->plan.low ? rows * job->back.length + (rows + 1) / 2 * pair : 0;
  return (job->sums_each + rows * row + pair + 2 * job->plan.s.H + low + 15) / 16 * 16;
}

static void *at_row(const capl_tensor *t, int64_t row, int64_t d, int64_t directions, int64_t width)
{
  return cpu_at(capl_tensor_data(t), t->dtype, (row * directions + d) * width);
}

/* Row (t, n) of a state in rows (y or cells); before the first step that of `first`, NULL for zeros. */
static const float *state_before(const backward_job *job, const task_room *r, const capl_tensor *rows,
                                 const capl_tensor *first, int64_t n, int64_t step, int64_t length, float *room)
{
  const rnn_sizes *s = &job->plan.s;
  if (step > 0)
    return rnn_floats(rows, (rnn_row(s, rnn_time(s, r->t.d, step - 1, length), n) * s->D + r->t.d) * s->H, s->H, room);
  return first ? rnn_floats(first, (r->t.d * s->N + n) * s->H, s->H, room) : NULL;
}

/* h before the step, where the products find it. */
static void fetch_state(const backward_job *job, const task_room *r, int64_t n, int64_t step, int64_t length)
{
  float *h = r->h + (n - r->t.first) * job->sums.padded;
  size_t bytes = (size_t)job->plan.s.H * sizeof *h;
  const float *from = state_before(job, r, job->y, job->h0, n, step, length, h);
  if (!from) memset(h, 0, bytes);
  else if (from != h) memcpy(h, from, bytes);
}

/* At the last step of a sequence the gradient of h behind it is that of h_n. */
static void begin_sequence(const backward_job *job, const task_room *r, int64_t n)
{
  const rnn_sizes *s = &job->plan.s;
  float *dh = r->dh + (n - r->t.first) * job->back.padded;
  if (!job->dh_n) memset(dh, 0, (size_t)s->H * sizeof *dh);
  else memmove(dh, rnn_floats(job->dh_n, (r->t.d * s->N + n) * s->H, s->H, dh), (size_t)s->H * sizeof *dh);
}

static void step_back(const backward_job *job, const task_room *r, int64_t n, int64_t step, int64_t length)
{
  const rnn_sizes *s = &job->plan.s;
  int64_t H = s->H, i = n - r->t.first, row = rnn_row(s, rnn_time(s, r->t.d, step, length), n);
  float *line = r->line;
  vec_rnn_grad v = {.real = job->plan.real,
                    .hidden = H,
                    .gates = at_row(job->gates, row, r->t.d, s->D, job->plan.kept * H),
                    .before = r->h + i * job->sums.padded,
                    .dh = r->dh + i * job->back.padded,
                    .du = r->du + i * gates_of(job),
                    .dx = at_row(job->dx, row, r->t.d, s->D, gates_of(job))};
  fetch_state(job, r, n, step, length);
  if (step == length - 1) begin_sequence(job, r, n);
  if (job->dy) v.dy = rnn_floats(job->dy, (row * s->D + r->t.d) * H, H, line);
  if (job->cells) {
    v.cells = at_row(job->cells, row, r->t.d, s->D, H);
    v.dc = (float *)capl_tensor_data(job->dc0) + (r->t.d * s->N + n) * H;
    v.before = state_before(job, r, job->cells, job->c0, n, step, length, line + H);
  }
  job->cell(&v);
}

/* A sequence without this step adds nothing. */
static void skip(const backward_job *job, const task_room *r, int64_t n)
{
  int64_t i = n - r->t.first;
  memset(r->du + i * gates_of(job), 0, (size_t)gates_of(job) * sizeof(float));
  if (!job->cells) memset(r->dh + i * job->back.padded, 0, (size_t)job->plan.s.H * sizeof(float));
}

static void zero_rest(const backward_job *job, const task_room *r)
{
  const rnn_plan *p = &job->plan;
  size_t bytes = (size_t)gates_of(job) * capl_dtype_size(p->real);
  for (int64_t n = r->t.first; n < r->t.end; n++)
    for (int64_t time = rnn_length(&p->s, p->lengths, n); time < p->s.T; time++)
      memset(at_row(job->dx, rnn_row(&p->s, time, n), r->t.d, p->s.D, gates_of(job)), 0, bytes);
}

/* dh of all sequences -> dh0; those without steps pass what came. */
static void finish(const backward_job *job, const task_room *r)
{
  const rnn_plan *p = &job->plan;
  for (int64_t n = r->t.first; n < r->t.end; n++) {
    if (rnn_length(&p->s, p->lengths, n) == 0) begin_sequence(job, r, n);
    memcpy((float *)capl_tensor_data(job->dh0) + (r->t.d * p->s.N + n) * p->s.H,
           r->dh + (n - r->t.first) * job->back.padded, (size_t)p->s.H * sizeof(float));
  }
}

static void start_cells(const backward_job *job, const task_room *r)
{
  int64_t H = job->plan.s.H, n = (r->t.end - r->t.first) * H, at = (r->t.d * job->plan.s.N + r->t.first) * H;
  float *dc = (float *)capl_tensor_data(job->dc0) + at;
  if (job->dc_n) memmove(dc, rnn_floats(job->dc_n, at, n, dc), (size_t)n * sizeof *dc);
  else memset(dc, 0, (size_t)n * sizeof *dc);
}

static void add_bias(const backward_job *job, const task_room *r)
{
  for (int64_t i = 0; job->db && i < r->t.end - r->t.first; i++)
    cpu_now->binary(VEC_add, CAPL_F32, gates_of(job), r->db, 1, r->du + i * gates_of(job), 1, r->db);
}

/* du and h as pairs, for both products. */
static void pair(const backward_job *job, const task_room *r)
{
  int64_t rows = r->t.end - r->t.first, gates = gates_of(job), H = job->sums.padded, length = job->back.length;
  for (int64_t i = 0; i < rows; i++) cpu_now->to_bf16(gates, r->du + i * gates, (uint16_t *)(r->du_rows + i * length));
  for (int64_t i = 0; i < rows; i += 2) {
    cpu_now->pair_bf16(gates, r->du + i * gates, r->du + (i + 1) * gates, r->du_columns + i / 2 * gates);
    cpu_now->pair_bf16(H, r->h + i * H, r->h + (i + 1) * H, r->h_columns + i / 2 * H);
  }
}

/* dh = du * w_hh, or on top of it; dw += du' * h. */
static void multiply(const backward_job *job, const task_room *r)
{
  bool low = job->plan.low;
  int64_t rows = r->t.end - r->t.first, gates = gates_of(job), width = 2 * cpu_now->lanes, length = job->back.length;
  const float *w = job->packed + r->t.d * rnn_packed(&job->back);
  vec_product states = {.rows = rows, .columns = job->back.padded, .segments = 1, .length = length, .a_row = length,
                        .a_step = 1, .b_row = width, .b_panel = job->back.panel, .y_row = job->back.padded,
                        .add = !job->cells};
  vec_product weights = {.rows = gates, .columns = job->sums.padded, .segments = 1,
                         .length = low ? (rows + 1) / 2 : rows, .a_row = 1, .a_step = gates,
                         .b_row = job->sums.padded, .b_panel = width,
                         .y_row = job->sums.padded, .add = true};
  if (low) {
    pair(job, r);
    cpu_now->product_pairs(&states, r->du_rows, w, NULL, r->dh);
    cpu_now->product_pairs(&weights, r->du_columns, r->h_columns, NULL, r->dw);
  } else {
    cpu_now->product(&states, r->du, w, NULL, r->dh);
    cpu_now->product(&weights, r->du, r->h, NULL, r->dw);
  }
}

static void backward_task(const backward_job *job, int64_t index)
{
  const rnn_plan *p = &job->plan;
  task_room r = room_of(job, index);
  if (job->cells) start_cells(job, &r);
  for (int64_t step = r.t.longest - 1; step >= 0; step--) {
    for (int64_t n = r.t.first; n < r.t.end; n++) {
      int64_t length = rnn_length(&p->s, p->lengths, n);
      if (step < length) step_back(job, &r, n, step, length);
      else skip(job, &r, n);
    }
    multiply(job, &r);
    add_bias(job, &r);
  }
  if (p->lengths) zero_rest(job, &r);
  finish(job, &r);
}

static void backward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  for (int64_t i = begin; i < end; i++) backward_task(arg, i);
}

/* Row `begin` to `end` of dw: the sums of a direction's tasks, in their order. */
static void collect_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const backward_job *job = arg;
  int64_t H = job->plan.s.H, gates = gates_of(job), chunks = job->plan.chunks;
  float *dw = capl_tensor_data(job->dw), *db = job->db ? capl_tensor_data(job->db) : NULL;
  for (int64_t row = begin; row < end; row++)
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      const float *sums = job->room + (row / gates * chunks + chunk) * job->room_each,
      *total = sums + gates * job->sums.padded;
      const float *from = sums + row % gates * job->sums.padded;
      if (chunk == 0) memcpy(dw + row * H, from, (size_t)H * sizeof *dw);
      else cpu_now->binary(VEC_add, CAPL_F32, H, dw + row * H, 1, from, 1, dw + row * H);
      if (db) db[row] = (chunk ? db[row] : 0) + total[row % gates];
    }
}

static capl_status run_backward(backward_job *job, const capl_call *call)
{
  const rnn_plan *p = &job->plan;
  int64_t gates = gates_of(job);
  job->back = rnn_panels_of(p, gates, p->s.H);
  job->sums = job->back;
  job->sums_each = gates * job->sums.padded + gates;
  job->room_each = room_size(job, (p->s.N + p->chunks - 1) / p->chunks);
  int64_t packed = p->s.D * rnn_packed(&job->back);
  void *scratch;
  cpu_count_product(call);
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(packed + rnn_tasks(p) * job->room_each) * sizeof(float), &scratch));
  job->packed = scratch;
  job->room = (float *)scratch + packed;
  rnn_pack(p, call->in[0], false, scratch);
  cpu_parallel(rnn_tasks(p), rnn_grain(p), backward_part, job);
  cpu_parallel(p->s.D * gates, CPU_GRAIN / p->s.H + 1, collect_part, job);
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

static capl_status cpu_lstm_grad(const capl_call *call)
{
  capl_tensor *const *in = call->in, **out = call->out;
  backward_job job = {.y = in[LSTM_GRAD_Y], .gates = in[LSTM_GRAD_GATES], .cells = in[LSTM_GRAD_CELLS],
                      .h0 = call_input(call, LSTM_GRAD_H0), .c0 = call_input(call, LSTM_GRAD_C0),
                      .dy = call_input(call, LSTM_GRAD_DY), .dh_n = call_input(call, LSTM_GRAD_DH_N),
                      .dc_n = call_input(call, LSTM_GRAD_DC_N), .dx = out[LSTM_DX], .dw = out[LSTM_DW],
                      .dh0 = out[LSTM_DH0], .dc0 = out[LSTM_DC0], .cell = cpu_now->lstm_cell_grad};
  CAPL_TRY(rnn_plan_set(&job.plan, call, job.y, in[LSTM_GRAD_W], LSTM_PARTS, LSTM_PARTS,
                        call_input(call, LSTM_GRAD_LENGTHS)));
  return run_backward(&job, call);
}

static capl_status cpu_gru_grad(const capl_call *call)
{
  capl_tensor *const *in = call->in, **out = call->out;
  backward_job job = {.y = in[GRU_GRAD_Y], .gates = in[GRU_GRAD_GATES], .h0 = call_input(call, GRU_GRAD_H0),
                      .dy = call_input(call, GRU_GRAD_DY), .dh_n = call_input(call, GRU_GRAD_DH_N), .dx = out[GRU_DX],
                      .dw = out[GRU_DW], .db = out[GRU_DB], .dh0 = out[GRU_DH0], .cell = cpu_now->gru_cell_grad};
  CAPL_TRY(rnn_plan_set(&job.plan, call, job.y, in[GRU_GRAD_W], GRU_PARTS, GRU_KEPT,
                        call_input(call, GRU_GRAD_LENGTHS)));
  return run_backward(&job, call);
}

const capl_kernel cpu_rnn_grad_kernels[] = {
  {CAPL_OP_lstm_grad, cpu_lstm_grad, rnn_supports, CPU_REAL},
  {CAPL_OP_gru_grad, cpu_gru_grad, rnn_supports, CPU_REAL},
  {0},
};
