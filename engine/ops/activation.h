/* activation.h -- the activations: the one list of them, for descriptors, kernels of every backend, and programs.
**
** Each op NAME of the list goes with NAME_grad (x, dy -> dx), which has the same numbers as attributes: the gradient
** needs nothing but the input, in one pass. Functions have gradients in terms of ordinary ops. The gradients of what
** saturates, sigmoid and tanh, need nothing but the result.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_ACTIVATION_H
#define CAPL_OPS_ACTIVATION_H

#include <math.h>

#include "capl/op.h"

/* F(X, name, numbers): X is passed on. */
#define ACTIVATION_MAP(F, X)                                                                              \
  F(X, silu, 0) F(X, gelu, 1) F(X, softplus, 2) F(X, leaky_relu, 1) F(X, elu, 1) F(X, hardsigmoid, 0)     \
  F(X, hardswish, 0) F(X, log_sigmoid, 0) F(X, clamp, 2)
#define FUNCTION_MAP(F, X) F(X, erf, 0) F(X, sin, 0) F(X, cos, 0)
/* Gradient ops by the result: y, dy -> dx. */
#define SATURATING_MAP(F, X) F(X, sigmoid, 0) F(X, tanh, 0)

/* No bounds: the defaults of clamp. Not infinity, which files of text cannot hold. */
#define ACTIVATION_FAR 1e308

/* Number k of a call: a real attribute, or the position of a choice. */
static inline double activation_number(const capl_call *call, int k)
{
  const capl_attr_spec *spec = &call->op->attrs[k];
  double v = !spec->name ? 0 : spec->kind == CAPL_ATTR_ENUM ? (double)call->attr[k].i : call->attr[k].f;
  return v >= ACTIVATION_FAR ? INFINITY : v <= -ACTIVATION_FAR ? -INFINITY : v;
}

#endif
