/* matmul.c -- reference kernels of fully connected layers and of batched matrix products.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/attrs.h"

#include "backend/ref/ref.h"

/* How a matrix lies in memory: sizes, and elements from one row or column to the next. */
typedef struct {
  int64_t rows, columns, row_step, column_step;
} matrix;

/* ---- linear: tensors are row-major, so (...,I) is a matrix of rows ------------------------------ */

static matrix rows_of(const capl_tensor *t)
{
  int64_t columns = t->size[t->ndim - 1];
  int64_t rows = 1;
  for (int dim = 0; dim < t->ndim - 1; dim++) rows *= t->size[dim];
  return (matrix){rows, columns, columns, 1};
}

static int64_t at(matrix m, int64_t row, int64_t column) { return row * m.row_step + column * m.column_step; }

static matrix flipped(matrix m) { return (matrix){m.columns, m.rows, m.column_step, m.row_step}; }

/* Sum over k of a[row,k] * b[k,column], the matrices starting at the given offsets. */
static double product(const capl_tensor *a, int64_t a_start, matrix ma, const capl_tensor *b, int64_t b_start,
                      matrix mb, int64_t row, int64_t column)
{
  double sum = 0;
  for (int64_t k = 0; k < ma.columns; k++)
    sum += ref_get(a, a_start + at(ma, row, k)) * ref_get(b, b_start + at(mb, k, column));
  return sum;
}

static capl_status ref_linear(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *weight = call->in[1], *bias = call_input(call, 2);
  capl_tensor *y = call->out[0];
  matrix my = rows_of(y), mx = rows_of(x), mw = flipped(rows_of(weight));
  for (int64_t row = 0; row < my.rows; row++)
    for (int64_t o = 0; o < my.columns; o++) {
      double start = bias ? ref_get(bias, o) : 0;
      ref_set(y, at(my, row, o), start + product(x, 0, mx, weight, 0, mw, row, o));
    }
  return CAPL_OK;
}

static capl_status ref_linear_grad_x(const capl_call *call)
{
  const capl_tensor *dy = call->in[0], *weight = call->in[1];
  capl_tensor *dx = call->out[0];
  matrix mx = rows_of(dx), my = rows_of(dy), mw = rows_of(weight);
  for (int64_t row = 0; row < mx.rows; row++)
    for (int64_t i = 0; i < mx.columns; i++)
      ref_set(dx, at(mx, row, i), product(dy, 0, my, weight, 0, mw, row, i));
  return CAPL_OK;
}

static capl_status ref_linear_grad_w(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  capl_tensor *dw = call->out[0], *db = call->out[1];
  matrix mw = rows_of(dw), mx = rows_of(x), my = rows_of(dy);
  for (int64_t o = 0; o < mw.rows; o++) {
    double sum = 0;
    for (int64_t row = 0; row < my.rows; row++) sum += ref_get(dy, at(my, row, o));
    ref_set(db, o, sum);
    for (int64_t i = 0; i < mw.columns; i++)
      ref_set(dw, at(mw, o, i), product(dy, 0, flipped(my), x, 0, mx, o, i));
  }
  return CAPL_OK;
}

/* ---- matmul ------------------------------------------------------------------------------------ */

/* The last two dims of t, after the asked transposition. */
static matrix last_two(const capl_tensor *t, bool transposed)
{
  int row = t->ndim - 2, column = t->ndim - 1;
  matrix m = {t->size[row], t->size[column], t->stride[row], t->stride[column]};
  return transposed ? flipped(m) : m;
}

/* Offset of t's matrix that belongs to matrix number `batch` of y; t's leading dims are broadcast. */
static int64_t matrix_start(const capl_tensor *t, const capl_tensor *y, int64_t batch)
{
  int64_t start = 0;
  int shift = y->ndim - t->ndim;
  for (int dim = y->ndim - 3; dim >= 0; dim--) {
    int64_t index = batch % y->size[dim];
    batch /= y->size[dim];
    if (dim >= shift && t->size[dim - shift] > 1) start += index * t->stride[dim - shift];
  }
  return start;
}

static capl_status ref_matmul(const capl_call *call)
{
  const capl_tensor *a = call->in[0], *b = call->in[1];
  capl_tensor *y = call->out[0];
  matrix ma = last_two(a, call->attr[MATMUL_TRANSPOSE_A].i),
         mb = last_two(b, call->attr[MATMUL_TRANSPOSE_B].i);
  matrix my = last_two(y, false);
  int64_t batches = 1;
  for (int dim = 0; dim < y->ndim - 2; dim++) batches *= y->size[dim];
  for (int64_t batch = 0; batch < batches; batch++) {
    int64_t in_a = matrix_start(a, y, batch), in_b = matrix_start(b, y, batch),
            in_y = matrix_start(y, y, batch);
    for (int64_t row = 0; row < my.rows; row++)
      for (int64_t column = 0; column < my.columns; column++)
        ref_set(y, in_y + at(my, row, column), product(a, in_a, ma, b, in_b, mb, row, column));
  }
  return CAPL_OK;
}

const capl_kernel ref_matmul_kernels[] = {
    {CAPL_OP_linear, ref_linear, ref_supports_any, 0},
    {CAPL_OP_linear_grad_x, ref_linear_grad_x, ref_supports_any, 0},
    {CAPL_OP_linear_grad_w, ref_linear_grad_w, ref_supports_any, 0},
    {CAPL_OP_matmul, ref_matmul, ref_supports_any, 0},
    {0},
};
