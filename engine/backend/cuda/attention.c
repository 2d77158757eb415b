/* attention.c -- scaled dot product attention: describes the tensors, of any strides, to kernels/attention.cu.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/attention_products.h"
#include "ops/attention.h"

static attention_operand operand_of(const capl_tensor *t, const capl_tensor *q)
{
  attention_operand o = {.p = NULL};
  if (!t) return o;
  o.p = capl_tensor_data(t);
  o.row = attention_row(t, q);
  o.column = attention_column(t, q);
  for (int d = 0; d < q->ndim - 2; d++) o.batch[d] = attention_step(t, q, d);
  return o;
}

static attention_call call_of(const capl_call *call, const capl_tensor *mask)
{
  const capl_tensor *q = call->in[ATTENTION_Q];
  attention_sizes s = attention_sizes_of(call);
  double p = call->attr[ATTENTION_DROPOUT].f;
  attention_call c = {.batch = s.batch, .L = s.L, .S = s.S, .E = s.E, .Ev = s.Ev, .q = operand_of(q, q),
                      .k = operand_of(call->in[ATTENTION_K], q), .v = operand_of(call->in[ATTENTION_V], q),
                      .mask = operand_of(mask, q), .mask_dtype = mask ? (int)mask->dtype : 0, .scale = (float)s.scale,
                      .causal = call->attr[ATTENTION_CAUSAL].i, .seed = (uint64_t)call->attr[ATTENTION_SEED].i,
                      .offset = (uint64_t)call->attr[ATTENTION_OFFSET].i, .delta = cu.rng_delta,
                      .limit = (uint64_t)ceil(p * 0x1p32), .keep = (float)(1 / (1 - p))};
  /* dims that are not there come last, of size 1 */
  for (int d = 0; d < ATTENTION_DIMS; d++) c.size[d] = d < q->ndim - 2 ? q->size[d] : 1;
  return c;
}

static int64_t tiles_of(int64_t n, int64_t by)
{
  return (n + by - 1) / by;
}

static capl_status launch(int kernel, const capl_tensor *q, int64_t matrices, int64_t rows, int64_t columns,
                          const void *args)
{
  return cu_launch_2d(cu_attention_table[kernel + (int)cu_type_of(q->dtype)], matrices * tiles_of(rows, ATTENTION_TILE),
                      tiles_of(columns, ATTENTION_COLUMNS), ATTENTION_THREADS, 0, args);
}

/* At least one block: lse is written also where y has no columns. */
static int64_t at_least_one(int64_t columns)
{
  return columns > 0 ? columns : 1;
}

/* ---- by products of the library --------------------------------------------------------------------- */

/* A call whose matrices have their elements next to each other: what has not is copied. */
typedef struct {
  capl_call call;
  capl_tensor *in[ATTENTION_GRAD_MASK + 1], *out[3];
} row_call;

static capl_status row_of(capl_tensor *t, bool filled, capl_tensor **out)
{
  bool fits = !t || t->size[t->ndim - 1] <= 1 || t->stride[t->ndim - 1] == 1;
  *out = fits ? capl_tensor_ref(t) : NULL;
  if (fits) return CAPL_OK;
  CAPL_TRY(capl_tensor_new(t->device, t->dtype, t->ndim, t->size, CAPL_ROW, out));
  return filled ? cu_copy_tensor(*out, t) : CAPL_OK;
}

/* matrices: of the inputs, so many are matrices; results: so many outputs. */
static capl_status row_call_begin(row_call *r, const capl_call *call, int matrices, int results)
{
  *r = (row_call){.call = *call};
  r->call.in = r->in;
  r->call.out = r->out;
  for (int i = 0; i < call->n_in; i++)
    if (i < matrices && i != ATTENTION_GRAD_LSE) CAPL_TRY(row_of(call->in[i], true, &r->in[i]));
    else r->in[i] = capl_tensor_ref(call->in[i]);
  for (int i = 0; i < results; i++) CAPL_TRY(row_of(call->out[i], false, &r->out[i]));
  return CAPL_OK;
}

static capl_status row_call_end(row_call *r, const capl_call *call, bool done)
{
  capl_status status = CAPL_OK;
  for (int i = 0; i < 3; i++)
    if (done && status == CAPL_OK && r->out[i] && r->out[i] != call->out[i])
      status = cu_copy_tensor(call->out[i], r->out[i]);
  for (int i = 0; i < 3; i++) capl_tensor_unref(r->out[i]);
  for (int i = 0; i < call->n_in; i++) capl_tensor_unref(r->in[i]);
  return status;
}

/* ---- forward --------------------------------------------------------------------------------------- */

static attention_args args_of(const capl_call *call, void *lse)
{
  return (attention_args){.c = call_of(call, call->n_in > ATTENTION_MASK ? call->in[ATTENTION_MASK] : NULL),
                          .y = operand_of(call->out[0], call->in[ATTENTION_Q]), .lse = lse};
}

static capl_status forward_by_products(const capl_call *call, void *lse, bool *done)
{
  row_call r;
  capl_status status = row_call_begin(&r, call, ATTENTION_V + 1, 1);
  if (status == CAPL_OK) {
    attention_args a = args_of(&r.call, lse);
    status = attention_by_products(call->device, r.in[ATTENTION_Q]->dtype, &a, done);
  }
  capl_status ended = row_call_end(&r, call, status == CAPL_OK && *done);
  return status == CAPL_OK ? ended : status;
}

static capl_status cu_attention(const capl_call *call)
{
  const capl_tensor *q = call->in[ATTENTION_Q];
  attention_args a = args_of(call, capl_tensor_data(call->out[1]));
  bool done = false;
  if (attention_is_for_products(&a.c, q->dtype, false)) CAPL_TRY(forward_by_products(call, a.lse, &done));
  return done ? CAPL_OK : launch(ATTENTION, q, a.c.batch, a.c.L, at_least_one(a.c.Ev), &a);
}

/* ---- backward -------------------------------------------------------------------------------------- */

static attention_grad_args grad_args_of(const capl_call *call, float *dot)
{
  const capl_tensor *q = call->in[ATTENTION_Q];
  return (attention_grad_args){
    .c = call_of(call, call->n_in > ATTENTION_GRAD_MASK ? call->in[ATTENTION_GRAD_MASK] : NULL),
    .y = operand_of(call->in[ATTENTION_GRAD_Y], q), .dy = operand_of(call->in[ATTENTION_GRAD_DY], q),
    .dq = operand_of(call->out[0], q), .dk = operand_of(call->out[1], q), .dv = operand_of(call->out[2], q),
    .lse = capl_tensor_data(call->in[ATTENTION_GRAD_LSE]), .dot = dot};
}

static capl_status backward_by_products(const capl_call *call, float *dot, bool *done)
{
  row_call r;
  capl_status status = row_call_begin(&r, call, ATTENTION_GRAD_DY + 1, 3);
  if (status == CAPL_OK) {
    attention_grad_args a = grad_args_of(&r.call, dot);
    status = attention_grad_by_products(call->device, r.in[ATTENTION_Q]->dtype, &a, done);
  }
  capl_status ended = row_call_end(&r, call, status == CAPL_OK && *done);
  return status == CAPL_OK ? ended : status;
}

static capl_status gradients(const capl_call *call, const attention_grad_args *a)
{
  const capl_tensor *q = call->in[ATTENTION_Q];
  const attention_call *c = &a->c;
  bool done = false;
  CAPL_TRY(cu_launch(cu_attention_table[ATTENTION_DOT + (int)cu_type_of(q->dtype)],
                     cu_blocks(c->batch * c->L * 32, ATTENTION_THREADS), ATTENTION_THREADS, 0, a));
  if (attention_is_for_products(c, q->dtype, true)) CAPL_TRY(backward_by_products(call, a->dot, &done));
  if (done) return CAPL_OK;
  CAPL_TRY(launch(ATTENTION_QUERIES_GRAD, q, c->batch, c->L, c->E, a));
  return launch(ATTENTION_KEYS_GRAD, q, c->batch, c->S, c->E > c->Ev ? c->E : c->Ev, a);
}

static capl_status cu_attention_grad(const capl_call *call)
{
  void *dot;
  attention_grad_args a = grad_args_of(call, NULL);
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(a.c.batch * a.c.L) * sizeof(float) + 1, &dot));
  a.dot = dot;
  capl_status status = gradients(call, &a);
  capl_scratch_put(call->device, dot);
  return status;
}

/* lse is the op's own output, row-major. */
static bool supports_grad(const capl_call *call)
{
  return capl_tensor_is_row(call->in[ATTENTION_GRAD_LSE]);
}

const capl_kernel cu_attention_kernels[] = {
  {CAPL_OP_scaled_dot_product_attention, cu_attention, NULL, CU_REAL},
  {CAPL_OP_scaled_dot_product_attention_grad, cu_attention_grad, supports_grad, CU_REAL},
  {0},
};
