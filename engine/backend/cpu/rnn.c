/* rnn.c -- lstm and gru along time, forward; and what their gradients (rnn_grad.c) share with them.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/rnn.h"

#include <string.h>

#include "backend/cpu/dnnl.h"
#include "backend/cpu/product.h"
#include "base/float16.h"

/* ---- dividing the work ---- */

capl_status rnn_plan_set(rnn_plan *p, const capl_call *call, const capl_tensor *seq, const capl_tensor *w, int parts,
                         int kept, const capl_tensor *lengths)
{
  *p = (rnn_plan){.s = rnn_sizes_of(call, seq, w, parts), .parts = parts, .kept = kept, .real = seq->dtype,
                  .low = seq->dtype == CAPL_BF16 && dn_bf16_is_fast(), .lengths = lengths};
  CAPL_TRY(rnn_check_lengths(&p->s, lengths));
  p->chunks = (cpu_threads() + p->s.D - 1) / p->s.D;
  if (p->chunks > p->s.N) p->chunks = p->s.N;
  if (p->chunks < 1) p->chunks = 1;
  return CAPL_OK;
}

int64_t rnn_tasks(const rnn_plan *p)
{
  return p->s.D * p->chunks;
}

/* A product of 32 terms costs about as much as an element of other ops. */
int64_t rnn_grain(const rnn_plan *p)
{
  int64_t work = p->s.T * p->s.N * p->parts * p->s.H * p->s.H / (32 * p->chunks);
  return CPU_GRAIN / (work + 1) + 1;
}

rnn_task rnn_task_of(const rnn_plan *p, int64_t index)
{
  int64_t chunk = index % p->chunks;
  rnn_task t = {index / p->chunks, p->s.N * chunk / p->chunks, p->s.N * (chunk + 1) / p->chunks, 0};
  for (int64_t n = t.first; n < t.end; n++) {
    int64_t length = rnn_length(&p->s, p->lengths, n);
    if (length > t.longest) t.longest = length;
  }
  return t;
}

/* ---- weights ---- */

rnn_panels rnn_panels_of(const rnn_plan *p, int64_t terms, int64_t columns)
{
  int64_t lanes = cpu_now->lanes, length = p->low ? (terms + 1) / 2 : terms;
  return (rnn_panels){terms, length, columns, (columns + lanes - 1) / lanes * lanes, length * 2 * lanes};
}

int64_t rnn_packed(const rnn_panels *m)
{
  int64_t width = 2 * cpu_now->lanes;
  return (m->padded + width - 1) / width * m->panel;
}

typedef struct {
  const capl_tensor *w;
  rnn_panels m;
  bool turned, low;
  float *out;
} pack_job;

static float pair_of(uint16_t first, uint16_t second)
{
  uint32_t both = first | (uint32_t)second << 16;
  float bits;
  memcpy(&bits, &both, sizeof bits);
  return bits;
}

/* A column of the product that lies in w as a row, from element `at` on; its values are `width` apart in out. */
static void pack_turned(const pack_job *job, int64_t at, float *out, int64_t width)
{
  int64_t terms = job->m.terms;
  const float *f = capl_tensor_data(job->w);
  const uint16_t *low = capl_tensor_data(job->w);
  f += at, low += at;
  if (job->low) {
    for (int64_t l = 0; l < terms / 2; l++) out[l * width] = pair_of(low[2 * l], low[2 * l + 1]);
    if (terms % 2) out[terms / 2 * width] = pair_of(low[terms - 1], 0);
  } else if (job->w->dtype == CAPL_F32) for (int64_t l = 0; l < terms; l++) out[l * width] = f[l];
  else for (int64_t l = 0; l < terms; l++) out[l * width] = capl_bf16_to_float(low[l]);
}

/* n columns of row l, which lie in w side by side, from element `at` on; pairs: of rows 2l and 2l + 1. */
static void pack_row(const pack_job *job, int64_t l, int64_t at, int64_t n, float *out)
{
  const float *f = capl_tensor_data(job->w);
  const uint16_t *low = capl_tensor_data(job->w);
  int64_t along = job->m.columns, from = at + (job->low ? 2 * l : l) * along;
  if (job->low) {
    bool both = 2 * l + 1 < job->m.terms;
    for (int64_t k = 0; k < n; k++) out[k] = pair_of(low[from + k], both ? low[from + along + k] : 0);
  } else if (job->w->dtype == CAPL_F32) memcpy(out, f + from, (size_t)n * sizeof *out);
  else cpu_now->to_f32(n, low + from, out);
}

/* Panels [begin, end) of all blocks; w is read in the order it lies in. */
static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const pack_job *job = arg;
  const rnn_panels *m = &job->m;
  int64_t width = 2 * cpu_now->lanes, count = rnn_packed(m) / m->panel;
  for (int64_t i = begin; i < end; i++) {
    int64_t block = i / count * m->terms * m->columns, first = i % count * width;
    int64_t n = m->columns - first < width ? m->columns - first : width;
    float *out = job->out + i * m->panel;
    if (n < width) memset(out, 0, (size_t)m->panel * sizeof *out);
    if (job->turned) for (int64_t k = 0; k < n; k++) pack_turned(job, block + (first + k) * m->terms, out + k, width);
    else for (int64_t l = 0; l < m->length; l++) pack_row(job, l, block + first, n, out + l * width);
  }
}

void rnn_pack(const rnn_plan *p, const capl_tensor *w, bool turned, float *out)
{
  int64_t gates = p->parts * p->s.H;
  pack_job job = {w, turned ? rnn_panels_of(p, p->s.H, gates) : rnn_panels_of(p, gates, p->s.H), turned, p->low,
                  out};
  cpu_parallel(p->s.D * (rnn_packed(&job.m) / job.m.panel), CPU_GRAIN / job.m.panel + 1, pack_part, &job);
}

/* ---- rows ---- */

const float *rnn_floats(const capl_tensor *t, int64_t at, int64_t n, float *room)
{
  if (t->dtype == CAPL_F32) return (const float *)capl_tensor_data(t) + at;
  cpu_now->to_f32(n, (const uint16_t *)capl_tensor_data(t) + at, room);
  return room;
}

static void put_floats(capl_tensor *t, int64_t at, int64_t n, const float *from)
{
  if (t->dtype == CAPL_F32) memcpy((float *)capl_tensor_data(t) + at, from, (size_t)n * sizeof *from);
  else cpu_now->to_bf16(n, from, (uint16_t *)capl_tensor_data(t) + at);
}

/* NULL of a tensor that is not there. */
static void *at_row(const capl_tensor *t, int64_t row, int64_t d, int64_t directions, int64_t width)
{
  if (!t) return NULL;
  return cpu_at(capl_tensor_data(t), t->dtype, (row * directions + d) * width);
}

bool rnn_supports(const capl_call *call)
{
  if (capl_tensor_numel(call->in[0]) == 0 || capl_tensor_numel(call->in[1]) == 0) return false;
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i] && capl_dtype_is_float(call->in[i]->dtype) && !cpu_real(call->in[i])) return false;
  return true;
}

/* ---- forward ---- */

typedef struct {
  rnn_plan plan;
  const capl_tensor *x, *h0, *c0;
  capl_tensor *y, *h_n, *c_n, *gates, *cells; /* c_n and cells: lstm only; gates, cells: NULL where nobody reads them */
  void (*cell)(const vec_rnn *p);
  rnn_panels m;
  const float *packed, *bias; /* D blocks each; bias may be NULL */
  float *room;
  int64_t room_each;
} forward_job;

/* States of a task's sequences: h in its room, c in c_n. */
static void start(const forward_job *job, const rnn_task *t, float *h)
{
  const rnn_plan *p = &job->plan;
  int64_t H = p->s.H, n = (t->end - t->first) * H, at = (t->d * p->s.N + t->first) * H;
  memset(h, 0, (size_t)n * sizeof *h);
  if (job->h0) memmove(h, rnn_floats(job->h0, at, n, h), (size_t)n * sizeof *h);
  if (!job->c_n) return;
  float *c = (float *)capl_tensor_data(job->c_n) + at;
  memset(c, 0, (size_t)n * sizeof *c);
  if (job->c0) memmove(c, rnn_floats(job->c0, at, n, c), (size_t)n * sizeof *c);
}

static void step_of(const forward_job *job, const rnn_task *t, int64_t n, int64_t time, float *h, const float *u)
{
  const rnn_sizes *s = &job->plan.s;
  int64_t row = rnn_row(s, time, n), H = s->H;
  vec_rnn v = {.real = job->plan.real,
               .hidden = H,
               .x = at_row(job->x, row, t->d, s->D, job->plan.parts * H),
               .u = u,
               .gates = at_row(job->gates, row, t->d, s->D, job->plan.kept * H),
               .y = at_row(job->y, row, t->d, s->D, H),
               .h = h};
  if (job->c_n) {
    v.c = (float *)capl_tensor_data(job->c_n) + (t->d * s->N + n) * H;
    v.cells = at_row(job->cells, row, t->d, s->D, H);
  }
  job->cell(&v);
}

/* The rows of a step lie far apart: they come from memory while the product is computed. */
static void fetch_rows(const forward_job *job, const rnn_task *t, int64_t step)
{
  enum { LINE = 64 };
  const rnn_plan *p = &job->plan;
  int64_t width = p->parts * p->s.H, bytes = width * (int64_t)capl_dtype_size(p->real);
  for (int64_t n = t->first; n < t->end; n++) {
    int64_t length = rnn_length(&p->s, p->lengths, n);
    if (step >= length) continue;
    int64_t row = rnn_row(&p->s, rnn_time(&p->s, t->d, step, length), n);
    const char *x = at_row(job->x, row, t->d, p->s.D, width);
    for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch(x + i);
  }
}

static void zero_part(const forward_job *job, const rnn_task *t, capl_tensor *rows, int64_t row, int64_t width)
{
  if (rows) memset(at_row(rows, row, t->d, job->plan.s.D, width), 0, (size_t)width * capl_dtype_size(rows->dtype));
}

/* Behind the end of each sequence. */
static void zero_rest(const forward_job *job, const rnn_task *t)
{
  const rnn_plan *p = &job->plan;
  for (int64_t n = t->first; n < t->end; n++)
    for (int64_t time = rnn_length(&p->s, p->lengths, n); time < p->s.T; time++) {
      int64_t row = rnn_row(&p->s, time, n);
      zero_part(job, t, job->y, row, p->s.H);
      zero_part(job, t, job->cells, row, p->s.H);
      zero_part(job, t, job->gates, row, p->kept * p->s.H);
    }
}

/* u = h * w_hh; pairs: room for h as pairs of bf16. */
static void multiply(const forward_job *job, const rnn_task *t, const float *h, uint32_t *pairs, float *u)
{
  const rnn_plan *p = &job->plan;
  int64_t H = p->s.H, length = job->m.length, rows = t->end - t->first;
  const float *w = job->packed + t->d * rnn_packed(&job->m);
  const float *bias = job->bias ? job->bias + t->d * job->m.padded : NULL;
  vec_product product = {.rows = rows, .columns = job->m.padded, .segments = 1, .length = length, .a_row = length,
                         .a_step = 1, .b_row = 2 * cpu_now->lanes, .b_panel = job->m.panel, .y_row = job->m.padded};
  for (int64_t i = 0; p->low && i < rows; i++) {
    pairs[(i + 1) * length - 1] = 0; /* the last one may be half a pair */
    cpu_now->to_bf16(H, h + i * H, (uint16_t *)(pairs + i * length));
  }
  if (p->low) cpu_now->product_pairs(&product, pairs, w, bias, u);
  else cpu_now->product(&product, h, w, bias, u);
}

static void forward_task(const forward_job *job, int64_t index)
{
  const rnn_plan *p = &job->plan;
  rnn_task t = rnn_task_of(p, index);
  int64_t rows = t.end - t.first, H = p->s.H;
  float *h = job->room + index * job->room_each, *u = h + rows * H, *pairs = u + rows * job->m.padded;
  start(job, &t, h);
  for (int64_t step = 0; step < t.longest; step++) {
    fetch_rows(job, &t, step);
    multiply(job, &t, h, (uint32_t *)pairs, u);
    for (int64_t n = t.first; n < t.end; n++) {
      int64_t length = rnn_length(&p->s, p->lengths, n), i = n - t.first;
      if (step < length) step_of(job, &t, n, rnn_time(&p->s, t.d, step, length), h + i * H, u + i * job->m.padded);
    }
  }
  if (p->lengths) zero_rest(job, &t);
  put_floats(job->h_n, (t.d * p->s.N + t.first) * H, rows * H, h);
}

static void forward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  for (int64_t i = begin; i < end; i++) forward_task(arg, i);
}

/* b_hh with each direction's part padded as the packed weights are. */
static void pad_bias(const forward_job *job, const capl_tensor *b, float *out)
{
  memset(out, 0, (size_t)(job->plan.s.D * job->m.padded) * sizeof *out);
  for (int64_t d = 0; d < job->plan.s.D; d++) {
    float *part = out + d * job->m.padded;
    const float *from = rnn_floats(b, d * job->m.columns, job->m.columns, part);
    memmove(part, from, (size_t)job->m.columns * sizeof *out);
  }
}

static capl_status run_forward(forward_job *job, const capl_call *call, const capl_tensor *b)
{
  const rnn_plan *p = &job->plan;
  job->m = rnn_panels_of(p, p->s.H, p->parts * p->s.H);
  int64_t rows = (p->s.N + p->chunks - 1) / p->chunks, packed = p->s.D * rnn_packed(&job->m),
      bias = p->s.D * job->m.padded;
  job->room_each = (rows * (p->s.H + job->m.padded + (p->low ? job->m.length : 0)) + 15) / 16 * 16;
  void *scratch, *kept;
  bool fresh;
  cpu_count_product(call);
  CAPL_TRY(cpu_weight_form(call->in[1], p->s.N * p->s.T, CPU_FORM_RNN, (size_t)packed * sizeof(float), &kept, &fresh));
  if (kept) packed = 0;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(packed + bias + rnn_tasks(p) * job->room_each) * sizeof(float),
                            &scratch));
  float *weights = kept ? kept : scratch;
  job->packed = weights;
  job->room = (float *)scratch + packed + bias;
  if (fresh) rnn_pack(p, call->in[1], true, weights);
  if (kept && fresh) capl_weight_form_filled(call->in[1], CPU_FORM_RNN);
  if (b) pad_bias(job, b, (float *)scratch + packed);
  job->bias = b ? (float *)scratch + packed : NULL;
  cpu_parallel(rnn_tasks(p), rnn_grain(p), forward_part, job);
  capl_scratch_put(call->device, scratch);
  return CAPL_OK;
}

/* NULL where nobody reads it: storing them took two threads about 3 % of reading 64 captchas. */
static capl_tensor *kept_output(const capl_call *call, int o)
{
  return call->unread >> o & 1u ? NULL : call->out[o];
}

static capl_status cpu_lstm(const capl_call *call)
{
  capl_tensor **out = call->out;
  forward_job job = {.x = call->in[LSTM_X], .h0 = call_input(call, LSTM_H0), .c0 = call_input(call, LSTM_C0),
                     .y = out[LSTM_Y], .h_n = out[LSTM_H_N], .c_n = out[LSTM_C_N],
                     .gates = kept_output(call, LSTM_GATES), .cells = kept_output(call, LSTM_CELLS),
                     .cell = cpu_now->lstm_cell};
  CAPL_TRY(rnn_plan_set(&job.plan, call, job.x, call->in[LSTM_W], LSTM_PARTS, LSTM_PARTS,
                        call_input(call, LSTM_LENGTHS)));
  return run_forward(&job, call, NULL);
}

static capl_status cpu_gru(const capl_call *call)
{
  capl_tensor **out = call->out;
  forward_job job = {.x = call->in[GRU_X], .h0 = call_input(call, GRU_H0), .y = out[GRU_Y], .h_n = out[GRU_H_N],
                     .gates = kept_output(call, GRU_GATES), .cell = cpu_now->gru_cell};
  CAPL_TRY(rnn_plan_set(&job.plan, call, job.x, call->in[GRU_W], GRU_PARTS, GRU_KEPT, call_input(call, GRU_LENGTHS)));
  return run_forward(&job, call, call_input(call, GRU_B));
}

const capl_kernel cpu_rnn_kernels[] = {
  {CAPL_OP_lstm, cpu_lstm, rnn_supports, CPU_REAL},
  {CAPL_OP_gru, cpu_gru, rnn_supports, CPU_REAL},
  {0},
};
