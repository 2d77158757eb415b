/* attention.c -- scaled dot product attention in tiles: QUERIES rows of scores against KEYS keys at a time.
**
** A thread lays out the keys and values of one matrix of the batch for its products, then goes through the queries: a
** tile of scores, its exponentials with the largest score so far taken off, their products with the values added up;
** when a larger score comes, what was summed is scaled down. The backward pass computes the scores again, with the sums
** that the forward pass left.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/attention.h"

#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/float16.h"

enum { QUERIES = 96, KEYS = 256, PAD = 16 };

/* One operand: where matrix b is, and its steps. */
typedef struct {
  const capl_tensor *t; /* NULL: none */
  int64_t row, column;
} operand;

typedef struct {
  attention_sizes s;
  capl_dtype real;
  const capl_tensor *shape; /* q, whose leading dims count the matrices */
  bool causal;
  operand q, k, v, mask, y, dy, dq, dk, dv;
  float *lse;
  double dropout_p;
  vec_dropout dropout;
  int64_t tile, tiles;   /* queries at a time, and how often */
  int64_t Ep, Evp, Sp;   /* sizes rounded up to whole vectors */
  char *room;
  size_t room_bytes;     /* per thread */
} attention;

/* ---- jobs ---- */

static int64_t padded(int64_t n)
{
  return (n + PAD - 1) / PAD * PAD;
}

static operand operand_of(const capl_tensor *t, const capl_tensor *q)
{
  return t ? (operand){t, attention_row(t, q), attention_column(t, q)} : (operand){NULL, 0, 0};
}

static void *matrix_at(const attention *a, const operand *o, int64_t b)
{
  return cpu_at(capl_tensor_data(o->t), o->t->dtype, attention_at(o->t, a->shape, b));
}

static void set_dropout(const capl_attr *attr, attention *a)
{
  uint64_t seed = (uint64_t)attr[ATTENTION_SEED].i, offset = (uint64_t)attr[ATTENTION_OFFSET].i;
  a->dropout_p = attr[ATTENTION_DROPOUT].f;
  double threshold = ceil(a->dropout_p * 0x1p32);
  a->dropout = (vec_dropout){{(uint32_t)seed, (uint32_t)(seed >> 32)}, (uint32_t)offset, (uint32_t)(offset >> 32),
                             threshold > 4294967295.0 ? 4294967295u : (uint32_t)threshold,
                             (float)(1 / (1 - a->dropout_p))};
}

static attention attention_of(const capl_call *call, const capl_tensor *mask)
{
  const capl_tensor *q = call->in[ATTENTION_Q];
  attention a = {.s = attention_sizes_of(call), .real = q->dtype, .shape = q, .causal = call->attr[ATTENTION_CAUSAL].i,
                 .q = operand_of(q, q), .k = operand_of(call->in[ATTENTION_K], q),
                 .v = operand_of(call->in[ATTENTION_V], q), .mask = operand_of(mask, q)};
  set_dropout(call->attr, &a);
  a.tiles = (a.s.L + QUERIES - 1) / QUERIES;
  a.tile = (a.s.L + a.tiles - 1) / a.tiles;
  a.Ep = padded(a.s.E);
  a.Evp = padded(a.s.Ev);
  a.Sp = padded(a.s.S);
  return a;
}

/* Takes n floats from *p, whole cache lines of them. */
static float *take(float **p, int64_t n)
{
  float *got = *p;
  *p += padded(n);
  return got;
}

static float *room_of(const attention *a, int thread)
{
  return (float *)(a->room + (size_t)thread * a->room_bytes);
}

/* ---- tiles of scores ---- */

/* y (rows, columns) = or += a * b; b row-major. */
static void product(int64_t rows, int64_t columns, int64_t length, const float *a, int64_t a_row, int64_t a_step,
                    const float *b, int64_t b_row, float *y, int64_t y_row, bool add)
{
  vec_product p = {.rows = rows, .columns = columns, .segments = 1, .length = length, .a_row = a_row, .a_step = a_step,
                   .b_row = b_row, .b_panel = 2 * cpu_now->lanes, .y_row = y_row, .add = add};
  if (rows > 0) cpu_now->product(&p, a, b, NULL, y);
}

/* A tile: queries [l, l + rows) against keys [s, s + keys). */
typedef struct {
  int64_t b, l, rows, s, keys;
} place;

static float mask_value(const attention *a, const void *mask, int64_t i)
{
  return a->mask.t->dtype == CAPL_F32 ? ((const float *)mask)[i] : capl_bf16_to_float(((const uint16_t *)mask)[i]);
}

static void mask_row(const attention *a, const place *p, int64_t r, float *scores)
{
  int64_t step = a->mask.column, at = (p->l + r) * a->mask.row + p->s * step;
  const char *mask = matrix_at(a, &a->mask, p->b);
  if (a->mask.t->dtype != CAPL_BOOL)
    for (int64_t i = 0; i < p->keys; i++) scores[i] += mask_value(a, mask, at + i * step);
  else if (step == 1) cpu_now->attend_bool(p->keys, (const uint8_t *)mask + at, scores);
  else
    for (int64_t i = 0; i < p->keys; i++)
      if (!((const uint8_t *)mask)[at + i * step]) scores[i] = -INFINITY;
}

/* scores: q times keys, masked; what is behind the last key of a row never counts. */
static void score_tile(const attention *a, const place *p, const float *q, const float *turned_k, float *scores)
{
  int64_t columns = padded(p->keys);
  product(p->rows, columns, a->s.E, q, a->Ep, 1, turned_k + p->s, a->Sp, scores, KEYS, false);
  for (int64_t r = 0; r < p->rows; r++) {
    float *row = scores + r * KEYS;
    int64_t seen = a->causal && p->l + r + 1 - p->s < p->keys ? p->l + r + 1 - p->s : p->keys;
    if (a->mask.t) mask_row(a, p, r, row);
    for (int64_t i = seen < 0 ? 0 : seen; i < columns; i++) row[i] = -INFINITY;
  }
}

static void drop_row(const attention *a, const place *p, int64_t r, float *x)
{
  int64_t first = (p->b * a->s.L + p->l + r) * a->s.S + p->s;
  cpu_now->dropout(&a->dropout, CAPL_F32, first, p->keys, x, x);
}

/* Keys that queries [0, last) look at. */
static int64_t keys_for(const attention *a, int64_t last)
{
  return a->causal && last < a->s.S ? last : a->s.S;
}

/* ---- forward ---- */

typedef struct {
  float *turned_k, *v, *q, *scores, *y, *max, *sum;
} forward_room;

static int64_t forward_take(const attention *a, float *p, forward_room *r)
{
  float *begin = p;
  r->turned_k = take(&p, a->s.E * a->Sp);
  r->v = take(&p, a->s.S * a->Evp);
  r->q = take(&p, a->tile * a->Ep);
  r->scores = take(&p, a->tile * KEYS);
  r->y = take(&p, a->tile * a->Evp);
  r->max = take(&p, a->tile);
  r->sum = take(&p, a->tile);
  return p - begin;
}

static void weigh_row(const attention *a, const place *p, const forward_room *m, int64_t r)
{
  float former = m->max[r], *row = m->scores + r * KEYS;
  float sum = cpu_now->attend_row(padded(p->keys), row, &m->max[r]);
  if (p->s > 0 && m->max[r] > former) {
    float factor = former == -INFINITY ? 0 : expf(former - m->max[r]);
    m->sum[r] *= factor;
    cpu_now->attend_scale(a->Evp, m->y + r * a->Evp, factor);
  }
  m->sum[r] += sum;
  if (a->dropout_p > 0) drop_row(a, p, r, row);
}

static void forward_tile(const attention *a, int64_t b, int64_t l, int64_t rows, const forward_room *m)
{
  const char *q = matrix_at(a, &a->q, b);
  char *y = matrix_at(a, &a->y, b);
  int64_t last = keys_for(a, l + rows);
  cpu_now->attend_pack(a->real, rows, a->s.E, a->Ep, (float)a->s.scale, cpu_at(q, a->real, l * a->q.row), a->q.row,
                       a->q.column, m->q);
  for (int64_t r = 0; r < rows; r++) m->max[r] = -INFINITY, m->sum[r] = 0;
  for (int64_t s = 0; s < last; s += KEYS) {
    place p = {b, l, rows, s, last - s < KEYS ? last - s : KEYS};
    score_tile(a, &p, m->q, m->turned_k, m->scores);
    for (int64_t r = 0; r < rows; r++) weigh_row(a, &p, m, r);
    product(rows, a->Evp, p.keys, m->scores, KEYS, 1, m->v + s * a->Evp, a->Evp, m->y, a->Evp, s > 0);
  }
  for (int64_t r = 0; r < rows; r++) {
    float sum = m->sum[r];
    a->lse[b * a->s.L + l + r] = m->max[r] == -INFINITY ? -INFINITY : m->max[r] + logf(sum);
    cpu_now->attend_store(a->real, a->s.Ev, sum > 0 ? 1 / sum : 0, m->y + r * a->Evp,
                          cpu_at(y, a->real, (l + r) * a->y.row), a->y.column);
  }
}

/* Units are the tiles of all matrices; keys and values are laid out when the matrix changes. */
static void forward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const attention *a = arg;
  forward_room m;
  forward_take(a, room_of(a, thread), &m);
  for (int64_t u = begin, before = -1; u < end; u++) {
    int64_t b = u / a->tiles, l = u % a->tiles * a->tile;
    if (b != before) {
      cpu_now->attend_turn(a->real, a->s.S, a->s.E, a->Sp, matrix_at(a, &a->k, b), a->k.row, a->k.column, m.turned_k);
      cpu_now->attend_pack(a->real, a->s.S, a->s.Ev, a->Evp, 1, matrix_at(a, &a->v, b), a->v.row, a->v.column, m.v);
      before = b;
    }
    forward_tile(a, b, l, a->s.L - l < a->tile ? a->s.L - l : a->tile, &m);
  }
}

/* Units a thread should get at least: a product costs less than a tenth of a nanosecond. */
static int64_t grain(const attention *a, int64_t queries)
{
  double each = 0.05 * (double)queries * (double)a->s.S * (double)(a->s.E + a->s.Ev + 8);
  return (int64_t)(CPU_GRAIN / (each + 1)) + 1;
}

static capl_status run(const capl_call *call, attention *a, int64_t floats, int64_t units, int64_t at_least,
                       cpu_task task)
{
  void *room;
  a->room_bytes = (size_t)floats * sizeof(float);
  CAPL_TRY(capl_scratch_get(call->device, a->room_bytes * (size_t)cpu_threads(), &room));
  a->room = room;
  cpu_parallel(units, at_least, task, a);
  capl_scratch_put(call->device, room);
  capl_counter_add(a->real == CAPL_BF16 ? CAPL_COUNT_bf16_kernels : CAPL_COUNT_fp32_kernels);
  return CAPL_OK;
}

static capl_status cpu_attention(const capl_call *call)
{
  attention a = attention_of(call, call->n_in > ATTENTION_MASK ? call->in[ATTENTION_MASK] : NULL);
  forward_room m;
  a.y = operand_of(call->out[0], a.shape);
  a.lse = capl_tensor_data(call->out[1]);
  return run(call, &a, forward_take(&a, NULL, &m), a.s.batch * a.tiles, grain(&a, a.tile), forward_part);
}

/* ---- backward ---- */

typedef struct {
  float *turned_k, *turned_v, *k, *dk, *dv;                       /* of one matrix */
  float *q, *dy, *dq, *weights, *dropped, *dw, *less, *dot;       /* of one tile of queries */
} backward_room;

static int64_t backward_take(const attention *a, float *p, backward_room *r)
{
  float *begin = p;
  r->turned_k = take(&p, a->s.E * a->Sp);
  r->turned_v = take(&p, a->s.Ev * a->Sp);
  r->k = take(&p, a->s.S * a->Ep);
  r->dk = take(&p, a->s.S * a->Ep);
  r->dv = take(&p, a->s.S * a->Evp);
  r->q = take(&p, a->tile * a->Ep);
  r->dy = take(&p, a->tile * a->Evp);
  r->dq = take(&p, a->tile * a->Ep);
  r->weights = take(&p, a->tile * KEYS);
  r->dropped = a->dropout_p > 0 ? take(&p, a->tile * KEYS) : r->weights;
  r->dw = take(&p, a->tile * KEYS);
  r->less = take(&p, a->tile);
  r->dot = take(&p, a->tile);
  return p - begin;
}

/* weights := softmax of the tile's scores; dropped: the same after dropout. */
static void weights_again(const attention *a, const place *p, const backward_room *m)
{
  int64_t columns = padded(p->keys);
  score_tile(a, p, m->q, m->turned_k, m->weights);
  for (int64_t r = 0; r < p->rows; r++) {
    float *row = m->weights + r * KEYS;
    cpu_now->attend_exp(columns, row, m->less[r]);
    if (a->dropout_p == 0) continue;
    memcpy(m->dropped + r * KEYS, row, (size_t)columns * sizeof *row);
    drop_row(a, p, r, m->dropped + r * KEYS);
  }
}

/* dw := gradient of the tile's scores. */
static void scores_grad(const attention *a, const place *p, const backward_room *m)
{
  int64_t columns = padded(p->keys);
  product(p->rows, columns, a->s.Ev, m->dy, a->Evp, 1, m->turned_v + p->s, a->Sp, m->dw, KEYS, false);
  for (int64_t r = 0; r < p->rows; r++) {
    if (a->dropout_p > 0) drop_row(a, p, r, m->dw + r * KEYS);
    cpu_now->attend_grad(columns, m->weights + r * KEYS, m->dot[r], m->dw + r * KEYS);
  }
}

/* Lays out the tile's q and dy; dot: of dy and y, per query. */
static void begin_tile(const attention *a, int64_t b, int64_t l, int64_t rows, const backward_room *m)
{
  const char *q = matrix_at(a, &a->q, b), *y = matrix_at(a, &a->y, b), *dy = matrix_at(a, &a->dy, b);
  cpu_now->attend_pack(a->real, rows, a->s.E, a->Ep, (float)a->s.scale, cpu_at(q, a->real, l * a->q.row), a->q.row,
                       a->q.column, m->q);
  cpu_now->attend_pack(a->real, rows, a->s.Ev, a->Evp, 1, cpu_at(dy, a->real, l * a->dy.row), a->dy.row, a->dy.column,
                       m->dy);
  for (int64_t r = 0; r < rows; r++) {
    float lse = a->lse[b * a->s.L + l + r];
    m->less[r] = lse == -INFINITY ? INFINITY : lse; /* a query without keys has no weights */
    m->dot[r] = (float)cpu_now->attend_dot(a->real, a->s.Ev, cpu_at(y, a->real, (l + r) * a->y.row), a->y.column,
                                           m->dy + r * a->Evp);
  }
}

static void backward_tile(const attention *a, int64_t b, int64_t l, int64_t rows, const backward_room *m)
{
  int64_t last = keys_for(a, l + rows), Ep = a->Ep, Evp = a->Evp;
  char *dq = matrix_at(a, &a->dq, b);
  begin_tile(a, b, l, rows, m);
  for (int64_t s = 0; s < last; s += KEYS) {
    place p = {b, l, rows, s, last - s < KEYS ? last - s : KEYS};
    weights_again(a, &p, m);
    scores_grad(a, &p, m);
    product(p.keys, Evp, rows, m->dropped, 1, KEYS, m->dy, Evp, m->dv + s * Evp, Evp, true);
    product(p.keys, Ep, rows, m->dw, 1, KEYS, m->q, Ep, m->dk + s * Ep, Ep, true);
    product(rows, Ep, p.keys, m->dw, KEYS, 1, m->k + s * Ep, Ep, m->dq, Ep, s > 0);
  }
  for (int64_t r = 0; r < rows; r++)
    cpu_now->attend_store(a->real, a->s.E, (float)a->s.scale, m->dq + r * Ep, cpu_at(dq, a->real, (l + r) * a->dq.row),
                          a->dq.column);
}

static void store_matrix(const attention *a, const operand *o, int64_t b, int64_t columns, const float *x,
                         int64_t x_row)
{
  char *y = matrix_at(a, o, b);
  for (int64_t r = 0; r < a->s.S; r++)
    cpu_now->attend_store(a->real, columns, 1, x + r * x_row, cpu_at(y, a->real, r * o->row), o->column);
}

static void backward_part(void *arg, int64_t begin, int64_t end, int thread)
{
  const attention *a = arg;
  backward_room m;
  backward_take(a, room_of(a, thread), &m);
  for (int64_t b = begin; b < end; b++) {
    const void *k = matrix_at(a, &a->k, b), *v = matrix_at(a, &a->v, b);
    cpu_now->attend_turn(a->real, a->s.S, a->s.E, a->Sp, k, a->k.row, a->k.column, m.turned_k);
    cpu_now->attend_turn(a->real, a->s.S, a->s.Ev, a->Sp, v, a->v.row, a->v.column, m.turned_v);
    cpu_now->attend_pack(a->real, a->s.S, a->s.E, a->Ep, 1, k, a->k.row, a->k.column, m.k);
    memset(m.dk, 0, (size_t)(a->s.S * a->Ep) * sizeof(float));
    memset(m.dv, 0, (size_t)(a->s.S * a->Evp) * sizeof(float));
    for (int64_t l = 0; l < a->s.L; l += a->tile)
      backward_tile(a, b, l, a->s.L - l < a->tile ? a->s.L - l : a->tile, &m);
    store_matrix(a, &a->dk, b, a->s.E, m.dk, a->Ep);
    store_matrix(a, &a->dv, b, a->s.Ev, m.dv, a->Evp);
  }
}

static capl_status cpu_attention_grad(const capl_call *call)
{
  attention a = attention_of(call, call->n_in > ATTENTION_GRAD_MASK ? call->in[ATTENTION_GRAD_MASK] : NULL);
  backward_room m;
  a.y = operand_of(call->in[ATTENTION_GRAD_Y], a.shape);
  a.dy = operand_of(call->in[ATTENTION_GRAD_DY], a.shape);
  a.lse = capl_tensor_data(call->in[ATTENTION_GRAD_LSE]);
  a.dq = operand_of(call->out[0], a.shape);
  a.dk = operand_of(call->out[1], a.shape);
  a.dv = operand_of(call->out[2], a.shape);
  return run(call, &a, backward_take(&a, NULL, &m), a.s.batch, grain(&a, 3 * a.s.L), backward_part);
}

/* ---- rows ---- */

static bool plain_mask(const capl_tensor *mask)
{
  return !mask || mask->dtype == CAPL_BOOL || cpu_real(mask);
}

/* Nothing empty; lse is row-major. */
static bool supports_attention(const capl_call *call)
{
  const capl_tensor *mask = call->n_in > ATTENTION_MASK ? call->in[ATTENTION_MASK] : NULL;
  for (int i = 0; i < 3; i++)
    if (capl_tensor_numel(call->in[i]) == 0) return false;
  return plain_mask(mask);
}

static bool supports_attention_grad(const capl_call *call)
{
  const capl_tensor *mask = call->n_in > ATTENTION_GRAD_MASK ? call->in[ATTENTION_GRAD_MASK] : NULL;
  for (int i = 0; i < 3; i++)
    if (capl_tensor_numel(call->in[i]) == 0) return false;
  return plain_mask(mask) && capl_tensor_is_row(call->in[ATTENTION_GRAD_LSE]);
}

const capl_kernel cpu_attention_kernels[] = {
  {CAPL_OP_scaled_dot_product_attention, cpu_attention, supports_attention, CPU_REAL},
  {CAPL_OP_scaled_dot_product_attention_grad, cpu_attention_grad, supports_attention_grad, CPU_REAL},
  {0},
};
