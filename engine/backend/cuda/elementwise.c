/* elementwise.c -- arithmetic element by element, dtype conversion, dropout.
**
** Floats of one dtype have fast kernels: vectors of 16 bytes where every operand is dense along the innermost dim, else
** single elements. Integers and mixed dtypes go element by element through kernels that know dtypes at run time.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/elementwise.h"

#include <math.h>

#include "backend/cuda/loop.h"

/* Elements in a vector of 16 bytes. */
static int vector_of(capl_dtype dtype)
{
  return 16 / (int)capl_dtype_size(dtype);
}

static bool is_real(const capl_tensor *t)
{
  return cu_type_of(t->dtype) != CU_TYPES;
}

static capl_status launch(int kernel, const cu_loop *loop, int64_t tail, const void *args)
{
  return cu_launch(cu_elementwise_table[kernel], loop_blocks(loop, tail), CU_THREADS, 0, args);
}

/* supports(): no f64, which is moved and converted but not computed with. */
static bool supports_all(const capl_call *call)
{
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i]->dtype == CAPL_F64) return false;
  return true;
}

/* ---- one operand ----------------------------------------------------------------------------- */

static capl_status unary_with(const capl_call *call, unary_op op, double scale, double shift)
{
  const capl_tensor *t[] = {call->out[0], call->in[0]};
  unary_args a = {.y = capl_tensor_data(t[0]), .x = capl_tensor_data(t[1]), .op = op, .scale = scale, .shift = shift,
                  .to = t[0]->dtype, .from = t[1]->dtype};
  loop_init(&a.loop, 2, t);
  if (!is_real(t[1])) return launch(UNARY_ANY, &a.loop, 0, &a);
  bool wide = loop_widen(&a.loop, 2, t, vector_of(t[0]->dtype), &a.tail);
  return launch(UNARY + (wide ? CU_TYPES : 0) + cu_type_of(t[0]->dtype), &a.loop, a.tail, &a);
}

#define UNARY_KERNEL(op) \
  static capl_status cu_##op(const capl_call *call) { return unary_with(call, UNARY_##op, 0, 0); }
PLAIN_MAP(UNARY_KERNEL)

static capl_status cu_affine(const capl_call *call)
{
  return unary_with(call, UNARY_affine, call->attr[AT(affine, scale)].f, call->attr[AT(affine, shift)].f);
}

static capl_status cu_pow(const capl_call *call)
{
  return unary_with(call, UNARY_pow, call->attr[AT(pow, exponent)].f, 0);
}

/* ---- two operands ---------------------------------------------------------------------------- */

static capl_status binary_with(const capl_call *call, int kernel, int any, int op)
{
  const capl_tensor *t[] = {call->out[0], call->in[0], call->in[1]};
  binary_args g = {.y = capl_tensor_data(t[0]), .a = capl_tensor_data(t[1]), .b = capl_tensor_data(t[2]), .op = op,
                   .to = t[0]->dtype, .da = t[1]->dtype, .db = t[2]->dtype};
  loop_init(&g.loop, 3, t);
  if (!is_real(t[1]) || t[1]->dtype != t[2]->dtype) return launch(any, &g.loop, 0, &g);
  bool wide = loop_widen(&g.loop, 3, t, vector_of(t[1]->dtype), &g.tail);
  return launch(kernel + (wide ? CU_TYPES : 0) + cu_type_of(t[1]->dtype), &g.loop, g.tail, &g);
}

#define BINARY_KERNEL(op, inputs) \
  static capl_status cu_##op(const capl_call *call) { return binary_with(call, BINARY, BINARY_ANY, BINARY_##op); }
BINARY_MAP(BINARY_KERNEL)

#define COMPARE_KERNEL(op) \
  static capl_status cu_##op(const capl_call *call) { return binary_with(call, COMPARE, COMPARE_ANY, COMPARE_##op); }
COMPARE_MAP(COMPARE_KERNEL)

/* ---- where ----------------------------------------------------------------------------------- */

static capl_status cu_where(const capl_call *call)
{
  const capl_tensor *t[] = {call->out[0], call->in[0], call->in[1], call->in[2]};
  where_args g = {.y = capl_tensor_data(t[0]), .condition = capl_tensor_data(t[1]), .a = capl_tensor_data(t[2]),
                  .b = capl_tensor_data(t[3]), .to = t[0]->dtype, .da = t[2]->dtype, .db = t[3]->dtype};
  loop_init(&g.loop, 4, t);
  if (t[2]->dtype != t[3]->dtype) return launch(WHERE_ANY, &g.loop, 0, &g);
  int log2_bytes = __builtin_ctz((unsigned)capl_dtype_size(t[0]->dtype));
  bool wide = loop_widen(&g.loop, 4, t, vector_of(t[0]->dtype), &g.tail);
  return launch(WHERE + (wide ? 4 : 0) + log2_bytes, &g.loop, g.tail, &g);
}

/* ---- dtype conversion ------------------------------------------------------------------------ */

/* The column of the table of casts, -1 if there is no fast one. Integers go to f32 only: rounding f32 to 16 bits after
** i32 or i64 were rounded to f32 would round twice. */
static int cast_column(capl_dtype to, capl_dtype from)
{
  switch (from) {
  case CAPL_F32: return 0;
  case CAPL_F16: return 1;
  case CAPL_BF16: return 2;
  case CAPL_U8:
  case CAPL_BOOL: return 3;
  case CAPL_I32: return to == CAPL_F32 ? 4 : -1;
  case CAPL_I64: return to == CAPL_F32 ? 5 : -1;
  default: return -1;
  }
}

capl_status cu_cast_tensor(capl_tensor *dst, const capl_tensor *src)
{
  const capl_tensor *t[] = {dst, src};
  cast_args g = {.y = capl_tensor_data(dst), .x = capl_tensor_data(src), .to = dst->dtype, .from = src->dtype};
  int column = is_real(dst) ? cast_column(dst->dtype, src->dtype) : -1;
  loop_init(&g.loop, 2, t);
  if (column < 0 || !loop_widen(&g.loop, 2, t, CAST_VECTOR, &g.tail)) return launch(MOVE_ANY, &g.loop, 0, &g);
  return launch(CAST + cu_type_of(dst->dtype) * CASTS_FROM + column, &g.loop, g.tail, &g);
}

static capl_status cu_cast(const capl_call *call)
{
  return cu_copy_tensor(call->out[0], call->in[0]);
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* Element numbers count in logical row-major order: a third operand that is a tensor of that order gives them. */
static capl_status cu_dropout(const capl_call *call)
{
  capl_tensor logical = *call->out[0];
  const capl_tensor *t[] = {call->out[0], call->in[0], &logical};
  double p = call->attr[AT(dropout, p)].f;
  capl_strides_row(logical.ndim, logical.size, logical.stride);
  dropout_args a = {.y = capl_tensor_data(t[0]), .x = capl_tensor_data(t[1]),
                    .seed = (uint64_t)call->attr[AT(dropout, seed)].i,
                    .offset = (uint64_t)call->attr[AT(dropout, offset)].i, .delta = cu.rng_delta,
                    .limit = (uint64_t)ceil(p * 0x1p32), .scale = (float)(1 / (1 - p))};
  loop_init(&a.loop, 3, t);
  bool row = a.loop.ndim == 1 && a.loop.stride[1][0] == 1 && a.loop.stride[2][0] == 1 &&
             loop_widen(&a.loop, 2, t, DROPOUT_VECTOR, &a.tail);
  return launch(DROPOUT + (row ? CU_TYPES : 0) + cu_type_of(t[0]->dtype), &a.loop, a.tail, &a);
}

#define ROW_every(op) {CAPL_OP_##op, cu_##op, supports_all, 0},
#define ROW_real(op) {CAPL_OP_##op, cu_##op, supports_all, CU_REAL},
#define BINARY_ROW(op, inputs) ROW_##inputs(op)
const capl_kernel cu_elementwise_kernels[] = {
  UNARY_MAP(ROW_every)
  BINARY_MAP(BINARY_ROW)
  COMPARE_MAP(ROW_every)
  ROW_every(where)
  {CAPL_OP_cast, cu_cast, NULL, 0},
  {CAPL_OP_dropout, cu_dropout, supports_all, CU_REAL},
  {0},
};
