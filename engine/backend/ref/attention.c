/* attention.c -- reference kernels of scaled dot product attention.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/attention.h"

#include "backend/ref/ref.h"
#include "capl/rng.h"

/* One matrix of a batch: element (r, c) of t. */
typedef struct {
  const capl_tensor *t;
  int64_t at, row, column;
} matrix;

static matrix matrix_of(const capl_tensor *t, const capl_tensor *q, int64_t b)
{
  return (matrix){t, attention_at(t, q, b), attention_row(t, q), attention_column(t, q)};
}

static double get(const matrix *m, int64_t r, int64_t c)
{
  return ref_get(m->t, m->at + r * m->row + c * m->column);
}

static void set(const matrix *m, int64_t r, int64_t c, double v)
{
  ref_set((capl_tensor *)m->t, m->at + r * m->row + c * m->column, v);
}

/* What the weights of one matrix follow from. */
typedef struct {
  attention_sizes s;
  const capl_attr *attr;
  int64_t b;
  matrix q, k, v, mask; /* mask.t: NULL for none */
} attention;

static attention attention_of(const capl_call *call, const capl_tensor *mask, int64_t b)
{
  const capl_tensor *q = call->in[ATTENTION_Q];
  attention a = {.s = attention_sizes_of(call), .attr = call->attr, .b = b, .q = matrix_of(q, q, b),
                 .k = matrix_of(call->in[ATTENTION_K], q, b), .v = matrix_of(call->in[ATTENTION_V], q, b)};
  if (mask) a.mask = matrix_of(mask, q, b);
  return a;
}

static double score(const attention *a, int64_t l, int64_t s)
{
  double dot = 0;
  if (a->attr[ATTENTION_CAUSAL].i && s > l) return -INFINITY;
  for (int64_t e = 0; e < a->s.E; e++) dot += get(&a->q, l, e) * get(&a->k, s, e);
  dot *= a->s.scale;
  if (!a->mask.t) return dot;
  double mask = get(&a->mask, l, s);
  return a->mask.t->dtype == CAPL_BOOL ? (mask != 0 ? dot : -INFINITY) : dot + mask;
}

/* The factor of weight (l, s): 0 where it is dropped. The random word is that of dropout (ops.def). */
static double dropout_factor(const attention *a, int64_t l, int64_t s)
{
  double p = a->attr[ATTENTION_DROPOUT].f;
  uint64_t seed = (uint64_t)a->attr[ATTENTION_SEED].i, offset = (uint64_t)a->attr[ATTENTION_OFFSET].i;
  int64_t i = (a->b * a->s.L + l) * a->s.S + s;
  if (p == 0) return 1;
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, block[4];
  uint32_t counter[4] = {(uint32_t)(i / 4), (uint32_t)offset, (uint32_t)(offset >> 32), 0xD20};
  capl_philox(key, counter, block);
  return block[i % 4] >= p * 0x1p32 ? 1 / (1 - p) : 0;
}

/* weights[s] := softmax of query l's scores; gives the logarithm of the sum. */
static double weigh(const attention *a, int64_t l, double *weights)
{
  double max = -INFINITY, sum = 0;
  for (int64_t s = 0; s < a->s.S; s++) {
    weights[s] = score(a, l, s);
    /* a score that is none is not taken for a masked one */
    if (!(weights[s] <= max)) max = isnan(max) ? max : weights[s];
  }
  if (max == -INFINITY) {
    for (int64_t s = 0; s < a->s.S; s++) weights[s] = 0;
    return -INFINITY;
  }
  for (int64_t s = 0; s < a->s.S; s++) sum += weights[s] = exp(weights[s] - max);
  for (int64_t s = 0; s < a->s.S; s++) weights[s] /= sum;
  return max + log(sum);
}

static capl_status ref_attention(const capl_call *call)
{
  const capl_tensor *q = call->in[ATTENTION_Q], *mask = call->n_in > ATTENTION_MASK ? call->in[ATTENTION_MASK] : NULL;
  attention_sizes s = attention_sizes_of(call);
  void *room;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)s.S * sizeof(double) + 1, &room));
  double *weights = room;
  for (int64_t b = 0; b < s.batch; b++) {
    attention a = attention_of(call, mask, b);
    matrix y = matrix_of(call->out[0], q, b);
    for (int64_t l = 0; l < s.L; l++) {
      ref_set(call->out[1], b * s.L + l, weigh(&a, l, weights));
      for (int64_t i = 0; i < s.S; i++) weights[i] *= dropout_factor(&a, l, i);
      for (int64_t e = 0; e < s.Ev; e++) {
        double sum = 0;
        for (int64_t i = 0; i < s.S; i++) sum += weights[i] * get(&a.v, i, e);
        set(&y, l, e, sum);
      }
    }
  }
  capl_scratch_put(call->device, room);
  return CAPL_OK;
}

/* out[r][c] := scale * sum over i of a(r, i) * m(i, c); a is L x S, or its transpose. */
static void product(const matrix *out, int64_t rows, int64_t columns, int64_t inner, const double *a, int64_t a_row,
                    int64_t a_step, const matrix *m, double scale)
{
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) {
      double sum = 0;
      for (int64_t i = 0; i < inner; i++) sum += a[r * a_row + i * a_step] * get(m, i, c);
      set(out, r, c, scale * sum);
    }
}

/* weights (L, S) with dropout, and ds: the gradient of the scores. */
static void weights_grad(const attention *a, const matrix *y, const matrix *dy, double *weights, double *ds)
{
  for (int64_t l = 0; l < a->s.L; l++) {
    double *w = weights + l * a->s.S, *d = ds + l * a->s.S, dot = 0;
    weigh(a, l, w);
    for (int64_t e = 0; e < a->s.Ev; e++) dot += get(dy, l, e) * get(y, l, e);
    for (int64_t s = 0; s < a->s.S; s++) {
      double dw = 0, factor = dropout_factor(a, l, s);
      for (int64_t e = 0; e < a->s.Ev; e++) dw += get(dy, l, e) * get(&a->v, s, e);
      d[s] = w[s] * (factor * dw - dot);
      w[s] *= factor;
    }
  }
}

static capl_status ref_attention_grad(const capl_call *call)
{
  const capl_tensor *q = call->in[ATTENTION_Q];
  const capl_tensor *mask = call->n_in > ATTENTION_GRAD_MASK ? call->in[ATTENTION_GRAD_MASK] : NULL;
  attention_sizes s = attention_sizes_of(call);
  void *room;
  CAPL_TRY(capl_scratch_get(call->device, 2 * (size_t)(s.L * s.S) * sizeof(double) + 1, &room));
  double *weights = room, *ds = weights + s.L * s.S;
  for (int64_t b = 0; b < s.batch; b++) {
    attention a = attention_of(call, mask, b);
    matrix y = matrix_of(call->in[ATTENTION_GRAD_Y], q, b), dy = matrix_of(call->in[ATTENTION_GRAD_DY], q, b);
    matrix dq = matrix_of(call->out[0], q, b), dk = matrix_of(call->out[1], q, b), dv = matrix_of(call->out[2], q, b);
    weights_grad(&a, &y, &dy, weights, ds);
    product(&dq, s.L, s.E, s.S, ds, s.S, 1, &a.k, s.scale);
    product(&dk, s.S, s.E, s.L, ds, 1, s.S, &a.q, s.scale);
    product(&dv, s.S, s.Ev, s.L, weights, 1, s.S, &dy, 1);
  }
  capl_scratch_put(call->device, room);
  return CAPL_OK;
}

const capl_kernel ref_attention_kernels[] = {
  {CAPL_OP_scaled_dot_product_attention, ref_attention, ref_supports_any, 0},
  {CAPL_OP_scaled_dot_product_attention_grad, ref_attention_grad, ref_supports_any, 0},
  {0},
};
