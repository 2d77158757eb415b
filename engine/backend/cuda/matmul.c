/* matmul.c -- fully connected layers and batched matrix products: as records for cuBLASLt, else by an own kernel.
**
** Tensors come row-major, so everything before the last dim of a layer's x is one dim of rows. Products without terms
** (an inner size of 0) never reach the library; those without results are no work.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cuda/blas.h"
#include "backend/cuda/kernels/matmul.h"
#include "backend/cuda/native_count.h"
#include "base/log.h"
#include "ops/attrs.h"

/* ---- one product ------------------------------------------------------------------------------ */

static int64_t ceil_div(int64_t n, int64_t by)
{
  return (n + by - 1) / by;
}

/* A stored matrix by the steps of its two directions. */
static matmul_operand operand_of(const blas_matrix *m, const void *p)
{
  return (matmul_operand){.p = p,
                          .rows = m->turned ? 1 : m->row_step,
                          .columns = m->turned ? m->row_step : 1,
                          .batch = m->batch_step};
}

static bool has_relu(const blas_record *r)
{
  return r->epilogue == BLAS_RELU || r->epilogue == BLAS_BIAS_RELU;
}

/* The record by the own kernel, all but row_sums; y is dense. */
static capl_status run_native(const blas_record *r, const blas_pointers *p)
{
  matmul_args args = {.a = operand_of(&r->a, p->a),
                      .b = operand_of(&r->b, p->b),
                      .y = p->y,
                      .y_batch = r->y.batch_step,
                      .bias = r->epilogue == BLAS_BIAS || r->epilogue == BLAS_BIAS_RELU ? p->vector : NULL,
                      .relu = has_relu(r),
                      .M = r->M,
                      .N = r->N,
                      .K = r->K};
  int64_t tiles = ceil_div(r->M, MATMUL_TILE) * ceil_div(r->N, MATMUL_TILE) * r->batch;
  int kernel = (r->y.dtype == r->a.dtype ? MATMUL : MATMUL_TO_F32) + (int)cu_type_of(r->a.dtype);
  return cu_launch(cu_matmul_table[kernel], tiles, MATMUL_THREADS, 0, &args);
}

/* The hash's bits are spread: native_count.c has a table for all kinds. */
static void note(const blas_record *r, bool own)
{
  native_count_note("matmul", blas_hash(r) * UINT64_C(0x9E3779B97F4A7C15), own);
}

capl_status cu_library_product(blas_record *r, const blas_pointers *p, bool *done)
{
  blas_align(r, p);
  CAPL_TRY(blas_supports(r, done));
  if (!*done) return CAPL_OK;
  capl_status status = blas_run(r, p);
  *done = status == CAPL_OK;
  if (status == CAPL_EUNSUPPORTED) return CAPL_OK;
  if (*done) blas_count(r), note(r, false);
  return status;
}

/* Logged once: native kernels are many times slower than the library's. */
static void log_native(const blas_record *r)
{
  static bool logged;
  char text[BLAS_TEXT];
  if (!logged) capl_log("cuBLASLt has no algorithm for %s: a plain kernel runs", blas_describe(r, text, sizeof text));
  logged = true;
}

/* What the epilogue does with each element of y, in a pass of its own. */
static capl_status finish(const blas_record *r, const blas_pointers *p)
{
  finish_args args = {.y = p->y, .bias = p->vector, .n = r->M * r->N, .columns = r->N, .relu = has_relu(r)};
  return cu_launch(cu_matmul_table[FINISH + (int)cu_type_of(r->y.dtype)], cu_blocks(args.n, CU_THREADS), CU_THREADS, 0,
                   &args);
}

capl_status cu_product(blas_record *r, const blas_pointers *p)
{
  bool done;
  CAPL_TRY(cu_library_product(r, p, &done));
  if (done) return CAPL_OK;
  if (r->epilogue != BLAS_PLAIN) {
    blas_record plain = *r;
    plain.epilogue = BLAS_PLAIN;
    CAPL_TRY(cu_library_product(&plain, &(blas_pointers){p->a, p->b, p->y, NULL}, &done));
    if (done) return finish(r, p);
  }
  log_native(r);
  note(r, true);
  CAPL_TRY(run_native(r, p));
  r->tf32 = false;
  blas_count(r);
  return CAPL_OK;
}

/* ---- linear ----------------------------------------------------------------------------------- */

static int64_t last_size(const capl_tensor *t)
{
  return t->size[t->ndim - 1];
}

/* How many rows the dims before the last make; a row may be empty. */
static int64_t rows_of(const capl_tensor *t)
{
  int64_t rows = 1;
  for (int d = 0; d < t->ndim - 1; d++) rows *= t->size[d];
  return rows;
}

/* y (rows, O) = x (rows, I) * weight' (I, O) + bias, then relu if asked for. cuBLASLt adds a bias of y's dtype only. */
static capl_status linear(const capl_call *call, bool relu)
{
  const capl_tensor *x = call->in[0], *weight = call->in[1];
  capl_tensor *given = call_input(call, 2), *y = call->out[0], *bias;
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  CAPL_TRY(cu_alike(given, y->dtype, &bias));
  blas_record record = blas_begin(x->dtype, rows_of(x), last_size(y), last_size(x), false, true);
  blas_pointers p = {capl_tensor_data(x), capl_tensor_data(weight), capl_tensor_data(y), NULL};
  record.epilogue = bias ? (relu ? BLAS_BIAS_RELU : BLAS_BIAS) : (relu ? BLAS_RELU : BLAS_PLAIN);
  if (bias) p.vector = capl_tensor_data(bias);
  capl_status status = last_size(x) ? cu_product(&record, &p) : run_native(&record, &p); /* no terms: bias only */
  capl_tensor_unref(bias);
  return status;
}

static capl_status cu_linear(const capl_call *call) { return linear(call, false); }
static capl_status cu_linear_act(const capl_call *call) { return linear(call, true); }

/* dx (rows, I) = dy (rows, O) * weight (O, I) */
static capl_status cu_linear_grad_x(const capl_call *call)
{
  const capl_tensor *dy = call->in[0], *weight = call->in[1];
  capl_tensor *dx = call->out[0];
  if (capl_tensor_numel(dx) == 0) return CAPL_OK;
  if (last_size(dy) == 0) return cu_fill_tensor(dx, 0);
  blas_record record = blas_begin(dy->dtype, rows_of(dy), last_size(dx), last_size(dy), false, false);
  blas_pointers p = {capl_tensor_data(dy), capl_tensor_data(weight), capl_tensor_data(dx), NULL};
  return cu_product(&record, &p);
}

/* dw with db in the same pass over dy; where the library refuses that, before it runs or when it does, in two. */
static capl_status grad_w_and_sums(capl_device *device, blas_record *r, blas_pointers *p)
{
  bool done;
  r->epilogue = BLAS_ROW_SUMS;
  CAPL_TRY(cu_library_product(r, p, &done));
  if (done) return CAPL_OK;
  CAPL_TRY(cu_column_sums(device, r->a.dtype, p->a, r->K, r->M, p->vector));
  r->epilogue = BLAS_PLAIN;
  p->vector = NULL;
  return cu_product(r, p);
}

/* dw (O, I) = dy' (O, rows) * x (rows, I), f32 from any type; db (O) = sums of dy over rows, in the same pass over dy
** where the library can. */
static capl_status cu_linear_grad_w(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  capl_tensor *dw = call->out[0], *db = call->out[1];
  int64_t rows = rows_of(x), inputs = last_size(x), outputs = last_size(dy);
  if (outputs == 0) return CAPL_OK;
  if (rows == 0) {
    CAPL_TRY(cu_fill_tensor(dw, 0));
    return cu_fill_tensor(db, 0);
  }
  if (inputs == 0)
    return cu_column_sums(dy->device, dy->dtype, capl_tensor_data(dy), rows, outputs, capl_tensor_data(db));
  blas_record record = blas_begin(x->dtype, outputs, inputs, rows, true, false);
  record.y.dtype = CAPL_F32;
  blas_pointers p = {capl_tensor_data(dy), capl_tensor_data(x), capl_tensor_data(dw), capl_tensor_data(db)};
  return grad_w_and_sums(dy->device, &record, &p);
}

/* ---- matmul ----------------------------------------------------------------------------------- */

/* The dims before the last two, joined where both operands allow it: count matrices, and the elements from one to the
** next in a, b and y; a step of 0 repeats a matrix. Slowest first, at least one. */
typedef struct {
  int n;
  struct {
    int64_t count, a, b, y;
  } dim[CAPL_MAX_NDIM];
} batches;

/* Step of t, row-major with `elements` in what follows, along dim d of y; *elements grows by the dim. */
static int64_t batch_step(const capl_tensor *t, const capl_tensor *y, int d, int64_t *elements)
{
  int own = d - (y->ndim - t->ndim);
  if (own < 0 || t->size[own] == 1) return 0;
  int64_t step = *elements;
  *elements *= t->size[own];
  return step;
}

/* Puts a dim outside of those that are there, joined with the slowest if its steps go on from that one's. */
static void add_outer(batches *all, int64_t count, int64_t a, int64_t b, int64_t y)
{
  if (all->n > 0) {
    int64_t inner = all->dim[0].count;
    if (a == inner * all->dim[0].a && b == inner * all->dim[0].b && y == inner * all->dim[0].y) {
      all->dim[0].count *= count;
      return;
    }
    memmove(&all->dim[1], &all->dim[0], (size_t)all->n * sizeof all->dim[0]);
  }
  all->n++;
  all->dim[0].count = count;
  all->dim[0].a = a;
  all->dim[0].b = b;
  all->dim[0].y = y;
}

static batches batches_of(const capl_tensor *a, const capl_tensor *b, const capl_tensor *y, const blas_record *r)
{
  batches all = {0};
  int64_t in_a = r->M * r->K, in_b = r->K * r->N, in_y = r->M * r->N;
  for (int d = y->ndim - 3; d >= 0; d--) {
    if (y->size[d] == 1) continue;
    int64_t step_a = batch_step(a, y, d, &in_a), step_b = batch_step(b, y, d, &in_b);
    add_outer(&all, y->size[d], step_a, step_b, in_y);
    in_y *= y->size[d];
  }
  if (all.n == 0) add_outer(&all, 1, 0, 0, 0);
  return all;
}

/* Gives the record the batch dim with the most matrices and takes it off the list. One b for all, and a's rows one
** after the other, is a single larger product. */
static void take_batch(batches *all, blas_record *r)
{
  int best = 0;
  for (int d = 1; d < all->n; d++)
    if (all->dim[d].count > all->dim[best].count) best = d;
  int64_t count = all->dim[best].count, a = all->dim[best].a, b = all->dim[best].b, y = all->dim[best].y;
  all->n--;
  memmove(&all->dim[best], &all->dim[best + 1], (size_t)(all->n - best) * sizeof all->dim[0]);
  if (count == 1) return;
  if (b == 0 && !r->a.turned && a == r->M * r->K && y == r->M * r->N) {
    r->M *= count;
    return;
  }
  r->batch = count;
  r->a.batch_step = a;
  r->b.batch_step = b;
  r->y.batch_step = y;
}

static void *advance(const void *p, capl_dtype dtype, int64_t elements)
{
  return (char *)p + elements * (int64_t)capl_dtype_size(dtype);
}

/* One product, or one per index of the batch dims that are left. */
static capl_status run_batches(const batches *all, int dim, const blas_record *r, blas_pointers p)
{
  blas_record one = *r;
  if (dim == all->n) return cu_product(&one, &p);
  for (int64_t i = 0; i < all->dim[dim].count; i++) {
    blas_pointers at = {.a = advance(p.a, r->a.dtype, i * all->dim[dim].a),
                        .b = advance(p.b, r->b.dtype, i * all->dim[dim].b),
                        .y = advance(p.y, r->y.dtype, i * all->dim[dim].y)};
    CAPL_TRY(run_batches(all, dim + 1, r, at));
  }
  return CAPL_OK;
}

static capl_status cu_matmul(const capl_call *call)
{
  const capl_tensor *a = call->in[0], *b = call->in[1];
  capl_tensor *y = call->out[0];
  bool a_turned = call->attr[MATMUL_TRANSPOSE_A].i, b_turned = call->attr[MATMUL_TRANSPOSE_B].i;
  int64_t M = y->size[y->ndim - 2], N = y->size[y->ndim - 1], K = a->size[a->ndim - (a_turned ? 2 : 1)];
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  if (K == 0) return cu_fill_tensor(y, 0);
  blas_record record = blas_begin(y->dtype, M, N, K, a_turned, b_turned);
  batches all = batches_of(a, b, y, &record);
  take_batch(&all, &record);
  return run_batches(&all, 0, &record,
                     (blas_pointers){capl_tensor_data(a), capl_tensor_data(b), capl_tensor_data(y), NULL});
}

/* ---- rows ------------------------------------------------------------------------------------- */

static bool supports_product(const capl_call *call)
{
  const capl_tensor *a = call->in[0], *b = call->in[1], *bias = call_input(call, 2);
  return cu_type_of(a->dtype) != CU_TYPES && b->dtype == a->dtype && (!bias || cu_type_of(bias->dtype) != CU_TYPES);
}

const capl_kernel cu_matmul_kernels[] = {
  {CAPL_OP_linear, cu_linear, supports_product, CU_REAL},
  {CAPL_OP_linear_act, cu_linear_act, supports_product, CU_REAL},
  {CAPL_OP_linear_grad_x, cu_linear_grad_x, supports_product, CU_REAL},
  {CAPL_OP_linear_grad_w, cu_linear_grad_w, supports_product, CU_REAL},
  {CAPL_OP_matmul, cu_matmul, supports_product, CU_REAL},
  {0},
};
