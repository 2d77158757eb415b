/* matmul.c -- fully connected layers and batched matrix products, through oneDNN on plain layouts.
**
** Weights in training are never reordered: the largest layer of a recognizer has 18M of them, and a reorder would
** cost more than the product. Rows of x are images, so everything before the last dim is one dim.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/linear_few.h"
#include "backend/cpu/product.h"
#include "ops/attrs.h"

static void layout_matrix(dn_layout *layout, capl_dtype dtype, int64_t rows, int64_t columns)
{
  dn_layout_set(layout, dtype, 2, (int64_t[]){rows, columns}, NULL);
}

static int64_t last_size(const capl_tensor *t)
{
  return t->size[t->ndim - 1];
}

static int64_t rows_of(const capl_tensor *t)
{
  return capl_tensor_numel(t) / last_size(t);
}

/* Of larger weights another copy would be much memory, and few rows only read them. The number of rows must not decide:
** an image alone and one of many are read with the same bits. */
enum { PACKED_WEIGHTS = 1 << 20 };

/* y (M,O) = x (M,I) * weight' (I,O) + bias */
static capl_status linear(const capl_call *call, dn_act act)
{
  const capl_tensor *x = call->in[0], *w = call->in[1], *bias = call_input(call, 2), *y = call->out[0];
  int64_t rows = rows_of(x), inputs = last_size(x), outputs = last_size(y);
  cpu_count_product(call);
  if (linear_few_fits(call)) return linear_few(call, act == DN_RELU);
  dn_spec spec;
  dn_spec_init(&spec, DN_LINEAR);
  spec.act = act;
  layout_matrix(&spec.arg[DN_X], x->dtype, rows, inputs);
  layout_matrix(&spec.arg[DN_W], w->dtype, outputs, inputs);
  layout_matrix(&spec.arg[DN_Y], y->dtype, rows, outputs);
  void *data[DN_ARGS] = {capl_tensor_data(x), capl_tensor_data(w), NULL, capl_tensor_data(y)};
  if (bias) {
    dn_layout_set(&spec.arg[DN_B], bias->dtype, 1, bias->size, NULL);
    data[DN_B] = capl_tensor_data(bias);
  }
  bool packed = capl_tensor_numel(w) <= PACKED_WEIGHTS && capl_weight_is_frozen(w);
  if (packed) spec.any = DN_BIT_W;
  return cpu_product(&spec, call->device, data, packed ? w : NULL);
}

static capl_status cpu_linear(const capl_call *call) { return linear(call, DN_NO_ACT); }
static capl_status cpu_linear_act(const capl_call *call) { return linear(call, DN_RELU); }

/* dx (M,I) = dy (M,O) * weight (O,I) */
static capl_status cpu_linear_grad_x(const capl_call *call)
{
  const capl_tensor *dy = call->in[0], *w = call->in[1], *dx = call->out[0];
  int64_t rows = rows_of(dy), inputs = last_size(dx), outputs = last_size(dy);
  cpu_count_product(call);
  dn_spec spec;
  dn_spec_init(&spec, DN_LINEAR_GRAD_X);
  layout_matrix(&spec.arg[DN_X], dx->dtype, rows, inputs);
  layout_matrix(&spec.arg[DN_W], w->dtype, outputs, inputs);
  layout_matrix(&spec.arg[DN_Y], dy->dtype, rows, outputs);
  void *data[DN_ARGS] = {capl_tensor_data(dx), capl_tensor_data(w), NULL, capl_tensor_data(dy)};
  return cpu_product(&spec, call->device, data, NULL);
}

/* dw (O,I) = dy' (O,M) * x (M,I), db (O) = sums of dy */
static capl_status cpu_linear_grad_w(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1], *dw = call->out[0], *db = call->out[1];
  int64_t rows = rows_of(x), inputs = last_size(x), outputs = last_size(dy);
  cpu_count_product(call);
  if (linear_few_fits(call)) return linear_few_grad_w(call);
  dn_spec spec;
  dn_spec_init(&spec, DN_LINEAR_GRAD_W);
  layout_matrix(&spec.arg[DN_X], x->dtype, rows, inputs);
  layout_matrix(&spec.arg[DN_W], dw->dtype, outputs, inputs);
  dn_layout_set(&spec.arg[DN_B], db->dtype, 1, db->size, NULL);
  layout_matrix(&spec.arg[DN_Y], dy->dtype, rows, outputs);
  void *data[DN_ARGS] = {capl_tensor_data(x), capl_tensor_data(dw), capl_tensor_data(db), capl_tensor_data(dy)};
  return cpu_product(&spec, call->device, data, NULL);
}

/* ---- batched products ---- */

/* t (...,rows,columns) or transposed, its batch dims broadcast to those of y; size-1 dims broadcast in oneDNN. */
static void layout_batch(dn_layout *layout, const capl_tensor *t, bool flip, int ndim)
{
  int64_t size[CAPL_MAX_NDIM];
  int order[CAPL_MAX_NDIM];
  for (int d = 0; d < ndim; d++) {
    int own = d - (ndim - t->ndim);
    size[d] = own < 0 ? 1 : t->size[own];
    order[d] = d;
  }
  if (flip) {
    int64_t rows = size[ndim - 2];
    size[ndim - 2] = size[ndim - 1];
    size[ndim - 1] = rows;
    order[ndim - 2] = ndim - 1;
    order[ndim - 1] = ndim - 2;
  }
  dn_layout_set(layout, t->dtype, ndim, size, order);
}

static capl_status cpu_matmul(const capl_call *call)
{
  const capl_tensor *a = call->in[0], *b = call->in[1], *y = call->out[0];
  cpu_count_product(call);
  dn_spec spec;
  dn_spec_init(&spec, DN_MATMUL);
  layout_batch(&spec.arg[DN_X], a, call->attr[MATMUL_TRANSPOSE_A].i, y->ndim);
  layout_batch(&spec.arg[DN_W], b, call->attr[MATMUL_TRANSPOSE_B].i, y->ndim);
  layout_batch(&spec.arg[DN_Y], y, false, y->ndim);
  void *data[DN_ARGS] = {capl_tensor_data(a), capl_tensor_data(b), NULL, capl_tensor_data(y)};
  return cpu_product(&spec, call->device, data, NULL);
}

static bool supports_product(const capl_call *call)
{
  const capl_tensor *bias = call_input(call, 2);
  return cpu_real(call->in[0]) && call->in[1]->dtype == call->in[0]->dtype && (!bias || cpu_real(bias)) &&
         capl_tensor_numel(call->in[0]) > 0 && capl_tensor_numel(call->in[1]) > 0;
}

const capl_kernel cpu_matmul_kernels[] = {
  {CAPL_OP_linear, cpu_linear, supports_product, CPU_REAL},
  {CAPL_OP_linear_act, cpu_linear_act, supports_product, CPU_REAL},
  {CAPL_OP_linear_grad_x, cpu_linear_grad_x, supports_product, CPU_REAL},
  {CAPL_OP_linear_grad_w, cpu_linear_grad_w, supports_product, CPU_REAL},
  {CAPL_OP_matmul, cpu_matmul, supports_product, CPU_REAL},
  {0},
};
