/* activation.c -- activations and their gradients, in one pass each; erf, sine and cosine.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/activation.h"

#include "backend/cuda/loop.h"

/* operands: out, x, and dy in gradients */
static capl_status activate(const capl_call *call, activation_kind kind, int kernel, int operands)
{
  const capl_tensor *t[] = {call->out[0], call->in[0], operands > 2 ? call->in[1] : NULL};
  activation_args a = {.out = capl_tensor_data(t[0]), .x = capl_tensor_data(t[1]),
                       .dy = t[2] ? capl_tensor_data(t[2]) : NULL, .kind = (int)kind,
                       .p = (float)activation_number(call, 0), .q = (float)activation_number(call, 1)};
  loop_init(&a.loop, operands, t);
  bool wide = loop_widen(&a.loop, operands, t, 16 / (int)capl_dtype_size(t[0]->dtype), &a.tail);
  kernel += (wide ? CU_TYPES : 0) + (int)cu_type_of(t[0]->dtype);
  return cu_launch(cu_activation_table[kernel], loop_blocks(&a.loop, a.tail), CU_THREADS, 0, &a);
}

/* supports(): floats of one dtype; autocast has made a gradient's inputs so. */
static bool supports_reals(const capl_call *call)
{
  for (int i = 0; i < call->n_in; i++)
    if (cu_type_of(call->in[i]->dtype) == CU_TYPES || call->in[i]->dtype != call->in[0]->dtype) return false;
  return true;
}

#define FUNCTION(X, op, numbers) \
  static capl_status cu_##op(const capl_call *call) { return activate(call, KIND_##op, ACTIVATION_FORWARD, 2); }
#define ACTIVATION(X, op, numbers) \
  FUNCTION(X, op, numbers)         \
  static capl_status cu_##op##_grad(const capl_call *call) { return activate(call, KIND_##op, ACTIVATION_BACKWARD, 3); }
#define SATURATING(X, op, numbers) \
  static capl_status cu_##op##_grad(const capl_call *call) { return activate(call, KIND_##op, ACTIVATION_BACKWARD, 3); }
FUNCTION_MAP(FUNCTION, )
ACTIVATION_MAP(ACTIVATION, )
SATURATING_MAP(SATURATING, )

#define FUNCTION_ROW(X, op, numbers) {CAPL_OP_##op, cu_##op, supports_reals, CU_REAL},
#define ACTIVATION_ROW(X, op, numbers) \
  FUNCTION_ROW(X, op, numbers) {CAPL_OP_##op##_grad, cu_##op##_grad, supports_reals, CU_REAL},
#define SATURATING_ROW(X, op, numbers) {CAPL_OP_##op##_grad, cu_##op##_grad, supports_reals, CU_REAL},
const capl_kernel cu_activation_kernels[] = {FUNCTION_MAP(FUNCTION_ROW, ) ACTIVATION_MAP(ACTIVATION_ROW, )
                                               SATURATING_MAP(SATURATING_ROW, ){0}};
