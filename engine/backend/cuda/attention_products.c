/* attention_products.c -- attention by products of cuBLASLt, on tensor cores where there are some.
**
** All scores are in memory, as f32; weights and the gradient of scores have the dtype of q. The dims in front of the
** matrices are joined where all operands allow it; over the largest one that is left goes a product, over the others a
** loop. SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/attention_products.h"

#include "backend/cuda/blas.h"
#include "backend/cuda/device.h"

enum { LEAST = 32, CALLS_MAX = 64, STACKS = 8 };

/* Matrices with elements next to each other: step[d] from one to the next along dim d in front. */
typedef struct {
  capl_dtype dtype;
  char *p;
  int64_t row, step[ATTENTION_DIMS];
} stack;

typedef struct {
  int64_t size[ATTENTION_DIMS];
  int inner; /* the dim that a product goes over */
  stack of[STACKS];
  bool fits;
} stacks;

enum { Q, K, V, SCORES, WEIGHTS, Y };   /* forward */
enum { DY = Y, SLOPES = 6, DS = 7 };    /* backward; last_products puts a result where nothing is read any more */

static void put(stacks *s, int at, capl_dtype dtype, const attention_operand *o, int64_t columns)
{
  stack *t = &s->of[at];
  *t = (stack){dtype, (char *)o->p, o->row, {0}};
  for (int d = 0; d < ATTENTION_DIMS; d++) t->step[d] = o->batch[d];
  if ((columns > 1 && o->column != 1) || o->row < columns) s->fits = false;
}

/* (batch, L, S) in row-major memory. */
static void put_scores(stacks *s, int at, capl_dtype dtype, void *p, const attention_call *c)
{
  attention_operand o = {.p = p, .row = c->S, .column = 1};
  int64_t step = c->L * c->S;
  for (int d = ATTENTION_DIMS - 1; d >= 0; d--) {
    o.batch[d] = step;
    step *= c->size[d];
  }
  put(s, at, dtype, &o, c->S);
}

static bool joins(const stacks *s, int n, int d)
{
  if (s->size[d] == 1 || s->size[d - 1] == 1) return true;
  for (int i = 0; i < n; i++)
    if (s->of[i].step[d - 1] != s->of[i].step[d] * s->size[d]) return false;
  return true;
}

static void join(stacks *s, int n)
{
  for (int d = ATTENTION_DIMS - 1; d > 0; d--) {
    if (!joins(s, n, d)) continue;
    for (int i = 0; s->size[d] > 1 && i < n; i++) s->of[i].step[d - 1] = s->of[i].step[d];
    s->size[d - 1] *= s->size[d];
    s->size[d] = 1;
  }
  for (int d = 0; d < ATTENTION_DIMS; d++)
    if (s->size[d] > s->size[s->inner]) s->inner = d;
}

static int64_t calls_of(const stacks *s)
{
  int64_t calls = 1;
  for (int d = 0; d < ATTENTION_DIMS; d++) calls *= d == s->inner ? 1 : s->size[d];
  return calls;
}

static stacks begin(const attention_call *c)
{
  stacks s = {.fits = true};
  for (int d = 0; d < ATTENTION_DIMS; d++) s.size[d] = c->size[d];
  return s;
}

/* Matrix i of those that are looped over. */
static char *matrix_of(const stacks *s, const stack *t, int64_t i)
{
  int64_t at = 0;
  for (int d = ATTENTION_DIMS - 1; d >= 0; d--) {
    if (d == s->inner) continue;
    at += i % s->size[d] * t->step[d];
    i /= s->size[d];
  }
  return t->p + at * (int64_t)capl_dtype_size(t->dtype);
}

/* y (M,N) := a (M,K) * b (K,N), for all matrices. */
typedef struct {
  int a, b, y;
  bool a_turned, b_turned;
  int64_t M, N, K;
} product;

static capl_status multiply(const stacks *s, product m, bool *done)
{
  const stack *a = &s->of[m.a], *b = &s->of[m.b], *y = &s->of[m.y];
  blas_record r = blas_begin(a->dtype, m.M, m.N, m.K, m.a_turned, m.b_turned);
  r.batch = s->size[s->inner];
  r.a.row_step = a->row, r.a.batch_step = a->step[s->inner];
  r.b.row_step = b->row, r.b.batch_step = b->step[s->inner];
  r.y.row_step = y->row, r.y.batch_step = y->step[s->inner];
  r.y.dtype = y->dtype;
  int64_t calls = calls_of(s);
  for (int64_t i = 0; i < calls && *done; i++) {
    blas_record own = r;
    blas_pointers p = {matrix_of(s, a, i), matrix_of(s, b, i), matrix_of(s, y, i), NULL};
    CAPL_TRY(cu_library_product(&own, &p, done));
  }
  return CAPL_OK;
}

/* ---- whether it is for these sizes ----------------------------------------------------------------- */

/* What may be taken for scores: as much as a workspace of cuDNN. */
static int64_t room_max(void)
{
  static int64_t max;
  device_facts facts;
  if (max == 0) max = device_facts_get(cu.index, &facts) == CAPL_OK ? (int64_t)(facts.memory / 8) : 1;
  return max;
}

bool attention_is_for_products(const attention_call *c, capl_dtype dtype, bool backward)
{
  int64_t bytes = (int64_t)(sizeof(float) + capl_dtype_size(dtype)) * (backward ? 2 : 1);
  return c->L >= LEAST && c->S >= LEAST && c->E > 0 && c->Ev > 0 && c->batch > 0 &&
         c->batch * c->L * c->S <= room_max() / bytes;
}

static capl_status per_query(int kernel, capl_dtype dtype, const attention_call *c, const void *args)
{
  return cu_launch(cu_attention_table[kernel + (int)cu_type_of(dtype)],
                   cu_blocks(c->batch * c->L * 32, ATTENTION_THREADS), ATTENTION_THREADS, 0, args);
}

/* Memory for n lists of scores, f32 ones first. */
static capl_status take(capl_device *device, const attention_call *c, int floats, int lows, capl_dtype dtype,
                        char **room)
{
  size_t each = sizeof(float) * (size_t)floats + capl_dtype_size(dtype) * (size_t)lows;
  return capl_scratch_get(device, (size_t)(c->batch * c->L * c->S) * each, (void **)room);
}

/* ---- forward --------------------------------------------------------------------------------------- */

static capl_status forward(capl_dtype dtype, const attention_args *a, char *room, bool *done)
{
  const attention_call *c = &a->c;
  stacks s = begin(c);
  char *weights = room + c->batch * c->L * c->S * (int64_t)sizeof(float);
  put(&s, Q, dtype, &c->q, c->E), put(&s, K, dtype, &c->k, c->E), put(&s, V, dtype, &c->v, c->Ev);
  put_scores(&s, SCORES, CAPL_F32, room, c), put_scores(&s, WEIGHTS, dtype, weights, c);
  put(&s, Y, dtype, &a->y, c->Ev);
  join(&s, Y + 1);
  *done = s.fits && calls_of(&s) <= CALLS_MAX;
  if (*done) CAPL_TRY(multiply(&s, (product){Q, K, SCORES, false, true, c->L, c->S, c->E}, done));
  if (!*done) return CAPL_OK;
  attention_weights_args w = {.c = *c, .scores = (float *)(void *)room, .weights = weights, .lse = a->lse};
  CAPL_TRY(per_query(ATTENTION_WEIGHTS, dtype, c, &w));
  return multiply(&s, (product){WEIGHTS, V, Y, false, false, c->L, c->Ev, c->S}, done);
}

capl_status attention_by_products(capl_device *device, capl_dtype dtype, const attention_args *a, bool *done)
{
  char *room;
  *done = false;
  CAPL_TRY(take(device, &a->c, 1, 1, dtype, &room));
  capl_status status = forward(dtype, a, room, done);
  capl_scratch_put(device, room);
  return status;
}

/* ---- backward -------------------------------------------------------------------------------------- */

/* The gradients of q, k and v, from stacks that hold what they are made of. */
static capl_status last_products(stacks *s, capl_dtype dtype, const attention_grad_args *a, bool *done)
{
  const attention_call *c = &a->c;
  const struct {
    const attention_operand *out;
    product m;
    int64_t columns;
  } list[] = {{&a->dv, {WEIGHTS, DY, V, true, false, c->S, c->Ev, c->L}, c->Ev},
              {&a->dq, {DS, K, SCORES, false, false, c->L, c->E, c->S}, c->E},
              {&a->dk, {DS, Q, SCORES, true, false, c->S, c->E, c->L}, c->E}};
  for (int i = 0; i < 3 && *done; i++) {
    stacks own = begin(c);
    for (int k = 0; k < STACKS; k++) own.of[k] = s->of[k];
    put(&own, list[i].m.y, dtype, list[i].out, list[i].columns);
    join(&own, STACKS);
    *done = own.fits && calls_of(&own) <= CALLS_MAX;
    if (*done) CAPL_TRY(multiply(&own, list[i].m, done));
  }
  return CAPL_OK;
}

static capl_status backward(capl_dtype dtype, const attention_grad_args *a, char *room, bool *done)
{
  const attention_call *c = &a->c;
  int64_t each = c->batch * c->L * c->S;
  char *slopes = room + each * (int64_t)sizeof(float), *weights = slopes + each * (int64_t)sizeof(float);
  char *ds = weights + each * (int64_t)capl_dtype_size(dtype);
  stacks s = begin(c);
  put(&s, Q, dtype, &c->q, c->E), put(&s, K, dtype, &c->k, c->E), put(&s, V, dtype, &c->v, c->Ev);
  put(&s, DY, dtype, &a->dy, c->Ev);
  put_scores(&s, SCORES, CAPL_F32, room, c), put_scores(&s, SLOPES, CAPL_F32, slopes, c);
  put_scores(&s, WEIGHTS, dtype, weights, c), put_scores(&s, DS, dtype, ds, c);
  stacks joined = s;
  join(&joined, STACKS);
  *done = s.fits && calls_of(&joined) <= CALLS_MAX;
  if (*done) CAPL_TRY(multiply(&joined, (product){Q, K, SCORES, false, true, c->L, c->S, c->E}, done));
  if (*done) CAPL_TRY(multiply(&joined, (product){DY, V, SLOPES, false, true, c->L, c->S, c->Ev}, done));
  if (!*done) return CAPL_OK;
  attention_slopes_args w = {.c = *c, .scores = (float *)(void *)room, .slopes = (float *)(void *)slopes,
                             .lse = a->lse, .dot = a->dot, .weights = weights, .ds = ds};
  CAPL_TRY(per_query(ATTENTION_SLOPES, dtype, c, &w));
  return last_products(&s, dtype, a, done);
}

capl_status attention_grad_by_products(capl_device *device, capl_dtype dtype, const attention_grad_args *a, bool *done)
{
  char *room;
  *done = false;
  CAPL_TRY(take(device, &a->c, 2, 2, dtype, &room));
  capl_status status = backward(dtype, a, room, done);
  capl_scratch_put(device, room);
  return status;
}
