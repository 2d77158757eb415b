/* shape.c -- copies that change the order of elements: contiguous, concat, narrow_grad, and copies between tensors.
**
** Bits are moved in units as large as sizes, strides and addresses of both sides allow, up to 16 bytes. Where one side
** runs along another dim than the other, tiles pass through shared memory.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/shape.h"

#include <string.h>

#include "backend/cuda/loop.h"
#include "base/float16.h"
#include "ops/rules.h"

/* ---- transposed copies ----------------------------------------------------------------------- */

enum { SHORTEST_SIDE = 8 }; /* tiles of shorter matrices would be mostly empty; 2^31 tiles then are 2^37 elements */

/* The dim in which x is contiguous although y is not, -1 = none. */
static int transposed_dim(const cu_loop *loop)
{
  int last = loop->ndim - 1;
  if (loop->stride[0][last] != 1 || loop->stride[1][last] <= 1 || loop->size[last] < SHORTEST_SIDE) return -1;
  for (int d = 0; d < last; d++)
    if (loop->stride[1][d] == 1 && loop->size[d] >= SHORTEST_SIDE) return d;
  return -1;
}

/* Takes dim d out of the loop. */
static void drop_dim(cu_loop *loop, int d)
{
  for (int e = d; e + 1 < loop->ndim; e++) {
    loop->size[e] = loop->size[e + 1];
    for (int k = 0; k < 2; k++) loop->stride[k][e] = loop->stride[k][e + 1];
  }
  loop->ndim--;
}

static int64_t tiles_of(int64_t size)
{
  return (size + TRANSPOSE_TILE - 1) / TRANSPOSE_TILE;
}

static capl_status copy_transposed(const copy_args *g, int row, int log2_bytes)
{
  transpose_args a = {.loop = g->loop, .y = g->y, .x = g->x};
  int last = a.loop.ndim - 1;
  a.rows = a.loop.size[row];
  a.columns = a.loop.size[last];
  a.y_row = a.loop.stride[0][row];
  a.x_column = a.loop.stride[1][last];
  a.tiles_r = (uint32_t)tiles_of(a.rows);
  a.tiles_c = (uint32_t)tiles_of(a.columns);
  drop_dim(&a.loop, last);
  drop_dim(&a.loop, row);
  if (a.loop.ndim == 0) {
    a.loop.size[0] = a.loop.ndim = 1;
    a.loop.stride[0][0] = a.loop.stride[1][0] = 0;
  }
  loop_finish(&a.loop);
  a.tiles = (uint32_t)(a.loop.total * a.tiles_r * a.tiles_c);
  return cu_launch(cu_shape_table[TRANSPOSE + log2_bytes],
                   cu_blocks((int64_t)a.tiles * TRANSPOSE_THREADS, TRANSPOSE_THREADS), TRANSPOSE_THREADS, 0, &a);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Whether the loop can be walked in units twice as large as `bytes`. */
static bool doubles(const cu_loop *loop, int operands, const void *const *p, size_t bytes)
{
  int last = loop->ndim - 1;
  if (loop->size[last] % 2 != 0) return false;
  for (int k = 0; k < operands; k++) {
    if (loop->stride[k][last] != 1 || (uintptr_t)p[k] % (2 * bytes) != 0) return false;
    for (int d = 0; d < last; d++)
      if (loop->stride[k][d] % 2 != 0) return false;
  }
  return true;
}

/* Makes the units of the loop as large as they can be. Returns log2 of their bytes. */
static int enlarge_units(cu_loop *loop, int operands, const void *const *p, size_t bytes)
{
  int last = loop->ndim - 1;
  for (; bytes < 16 && doubles(loop, operands, p, bytes); bytes *= 2) {
    loop->size[last] /= 2;
    for (int k = 0; k < operands; k++)
      for (int d = 0; d < last; d++) loop->stride[k][d] /= 2;
  }
  loop_finish(loop);
  return __builtin_ctz((unsigned)bytes);
}

/* dst := src, of one dtype; src is broadcast to dst's shape. */
static capl_status copy_bits(const capl_tensor *dst, const capl_tensor *src)
{
  const capl_tensor *t[] = {dst, src};
  copy_args g = {.y = capl_tensor_data(dst), .x = capl_tensor_data(src)};
  const void *p[] = {g.y, g.x};
  size_t bytes = capl_dtype_size(dst->dtype);
  loop_init(&g.loop, 2, t);
  int row = transposed_dim(&g.loop);
  if (row >= 0) return copy_transposed(&g, row, __builtin_ctz((unsigned)bytes));
  int log2_unit = enlarge_units(&g.loop, 2, p, bytes);
  return cu_launch(cu_shape_table[COPY + log2_unit], loop_blocks(&g.loop, 0), CU_THREADS, 0, &g);
}

capl_status cu_copy_tensor(capl_tensor *dst, const capl_tensor *src)
{
  if (capl_tensor_numel(dst) == 0) return CAPL_OK;
  return dst->dtype == src->dtype ? copy_bits(dst, src) : cu_cast_tensor(dst, src);
}

capl_status cu_alike(capl_tensor *t, capl_dtype dtype, capl_tensor **out)
{
  *out = capl_tensor_ref(t);
  if (!t || t->dtype == dtype) return CAPL_OK;
  capl_tensor_unref(*out);
  CAPL_TRY(capl_shadow_get(t, dtype, out));
  if (*out) return CAPL_OK;
  CAPL_TRY(capl_tensor_new(t->device, dtype, t->ndim, t->size, CAPL_AUTO, out));
  capl_status status = cu_copy_tensor(*out, t);
  if (status == CAPL_OK) return CAPL_OK;
  capl_tensor_unref(*out);
  *out = NULL;
  return status;
}

/* ---- filling --------------------------------------------------------------------------------- */

static int64_t cut(double v, int64_t lo, int64_t hi)
{
  return v != v ? 0 : v <= (double)lo ? lo : v >= (double)hi ? hi : (int64_t)v;
}

/* The bits of value as an element of dtype. */
static uint64_t element_bits(capl_dtype dtype, double value)
{
  uint64_t bits = 0;
  switch (dtype) {
  case CAPL_F32: return capl_float_to_bits((float)value);
  case CAPL_F16: return capl_f16_from_float((float)value);
  case CAPL_BF16: return capl_bf16_from_float((float)value);
  case CAPL_U8: return (uint64_t)cut(value, 0, UINT8_MAX);
  case CAPL_BOOL: return value != 0;
  case CAPL_I32: return (uint32_t)cut(value, INT32_MIN, INT32_MAX);
  case CAPL_I64: return (uint64_t)cut(value, INT64_MIN, INT64_MAX);
  default: memcpy(&bits, &value, sizeof bits); return bits;
  }
}

capl_status cu_fill_tensor(capl_tensor *t, double value)
{
  const capl_tensor *list[] = {t};
  fill_args g = {.y = capl_tensor_data(t)};
  const void *p[] = {g.y};
  size_t bytes = capl_dtype_size(t->dtype);
  uint64_t bits = element_bits(t->dtype, value);
  if (capl_tensor_numel(t) == 0) return CAPL_OK;
  for (size_t i = 0; i < sizeof g.bits; i += bytes) memcpy((char *)g.bits + i, &bits, bytes);
  loop_init(&g.loop, 1, list);
  int log2_unit = enlarge_units(&g.loop, 1, p, bytes);
  return cu_launch(cu_shape_table[FILL + log2_unit], loop_blocks(&g.loop, 0), CU_THREADS, 0, &g);
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* The part of t with index start .. start + length - 1 in dim; a borrowed view. */
static capl_tensor slice(const capl_tensor *t, int dim, int64_t start, int64_t length)
{
  capl_tensor part = *t;
  part.size[dim] = length;
  part.offset += start * t->stride[dim];
  return part;
}

static capl_status cu_contiguous(const capl_call *call)
{
  return cu_copy_tensor(call->out[0], call->in[0]);
}

static capl_status cu_concat(const capl_call *call)
{
  int dim;
  int64_t start = 0;
  CAPL_TRY(normalize_dim(call->attr[AT(concat, dim)].i, call->in[0]->ndim, &dim));
  for (int i = 0; i < call->n_in; i++) {
    capl_tensor part = slice(call->out[0], dim, start, call->in[i]->size[dim]);
    CAPL_TRY(cu_copy_tensor(&part, call->in[i]));
    start += call->in[i]->size[dim];
  }
  return CAPL_OK;
}

static capl_status cu_narrow_grad(const capl_call *call)
{
  int dim;
  capl_tensor *dx = call->out[0];
  CAPL_TRY(normalize_dim(call->attr[AT(narrow_grad, dim)].i, call->in[0]->ndim, &dim));
  if (capl_tensor_numel(dx) == 0) return CAPL_OK;
  CU_TRY(cudaMemsetAsync(capl_tensor_data(dx), 0, capl_tensor_bytes(dx), cu.stream), "filling with zeros");
  capl_tensor part = slice(dx, dim, call->attr[AT(narrow_grad, start)].i, call->in[0]->size[dim]);
  return cu_copy_tensor(&part, call->in[0]);
}

const capl_kernel cu_shape_kernels[] = {
  {CAPL_OP_contiguous, cu_contiguous, NULL, 0},
  {CAPL_OP_concat, cu_concat, NULL, 0},
  {CAPL_OP_narrow_grad, cu_narrow_grad, NULL, 0},
  {0},
};
