/* softmax.c -- softmax and its logarithm along one dim of classes.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/rules.h"

static capl_status softmax_shape(const capl_call *call, capl_out_spec *out)
{
  int dim;
  CAPL_TRY(need_float(call->in[0], "x"));
  CAPL_TRY(normalize_dim(call->attr[AT(softmax, dim)].i, call->in[0]->ndim, &dim));
  return rule_like_first(call, out);
}

static capl_status softmax_grad_shape(const capl_call *call, capl_out_spec *out)
{
  int dim;
  CAPL_TRY(need_same_shape(call->in[0], "y", call->in[1], "dy"));
  CAPL_TRY(normalize_dim(call->attr[AT(softmax, dim)].i, call->in[0]->ndim, &dim));
  return rule_like_first(call, out);
}

static capl_status softmax_grad_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return GRAD_CALL(CAPL_OP_softmax_grad, node->attr, &dx[0], node->out[0], dy[0]);
}

static capl_status log_softmax_grad_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return GRAD_CALL(CAPL_OP_log_softmax_grad, node->attr, &dx[0], node->out[0], dy[0]);
}

#define SOFTMAX_DOC                                                                      \
  "x: any shape, floating point -> y alike. dim: the class dim; -1 = last.\n" \
  "Errors: dtype, if x is no float; value, if dim does not exist."
#define GRAD_DOC "y, dy: the same shape -> dx. Not differentiable."

const capl_op capl_op_softmax = {
  NAME_AND_ATTRS(softmax),
  .ins = "x",
  OUTS(y),
  .amp = CAPL_AMP_F32,
  .layout = CAPL_LAYOUT_DENSE,
  .save_out = 1u,
  .shape = softmax_shape,
  .grad = softmax_grad_rule,
  .doc = "y = exp(x) / sum of exp(x) along dim: probabilities that sum to 1.\n" SOFTMAX_DOC,
};

const capl_op capl_op_softmax_grad = {
  NAME_AND_ATTRS(softmax_grad),
  .ins = "y, dy",
  OUTS(dx),
  .layout = CAPL_LAYOUT_DENSE,
  .shape = softmax_grad_shape,
  .doc = "dx = y * (dy - sum of y * dy along dim): the gradient of softmax.\n" GRAD_DOC,
};

const capl_op capl_op_log_softmax = {
  NAME_AND_ATTRS(log_softmax),
  .ins = "x",
  OUTS(y),
  .amp = CAPL_AMP_F32,
  .layout = CAPL_LAYOUT_DENSE,
  .save_out = 1u,
  .shape = softmax_shape,
  .grad = log_softmax_grad_rule,
  .doc = "y = x - log of sum of exp(x) along dim: logarithms of probabilities.\n" SOFTMAX_DOC,
};

const capl_op capl_op_log_softmax_grad = {
  NAME_AND_ATTRS(log_softmax_grad),
  .ins = "y, dy",
  OUTS(dx),
  .layout = CAPL_LAYOUT_DENSE,
  .shape = softmax_grad_shape,
  .doc = "dx = dy - exp(y) * sum of dy along dim: the gradient of log_softmax.\n" GRAD_DOC,
};
