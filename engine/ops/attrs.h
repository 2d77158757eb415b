/* attrs.h -- positions of attributes in capl_call.attr, as ops.def lists them.
**
** Each op of ops.def becomes a struct of its attributes: the compiler counts their positions and knows their names.
** call->attr[AT(affine, scale)].f, or ATTRS(call, affine)->scale.f where a kernel reads many. An attribute that ops
** share has one name below; that it is at the same place in all of them is asserted.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_ATTRS_H
#define CAPL_OPS_ATTRS_H

#include <assert.h>
#include <stddef.h>

#include "capl/op.h"

/* struct attrs_conv2d { capl_attr stride; capl_attr padding; ... }; each OP ends the struct before it. */
struct attrs_of_no_op {
#define OP(op) }; struct attrs_##op {
#define ATTR(kind, name, ...) capl_attr name;
#include "capl/ops.def"
};

/* The specs of an op's attributes; those behind the last have no name (op.c). */
#define OP(op) extern const capl_attr_spec capl_attrs_##op[CAPL_MAX_ATTR + 1];
#include "capl/ops.def"

/* Position of an attribute: AT(conv2d, stride). */
#define AT(op, attribute) ((int)(offsetof(struct attrs_##op, attribute) / sizeof(capl_attr)))
/* All attributes of a call of op by name. */
#define ATTRS(call, op) ((const struct attrs_##op *)(call)->attr)
/* One kernel serves ops a and b: the attribute is at the same place in both. */
#define SAME_PLACE(a, b, attribute) static_assert(AT(a, attribute) == AT(b, attribute), #a " and " #b)

/* conv2d and its gradients. The gradients add one pair: H,W of x, or kh,kw. */
enum {
  CONV_STRIDE = AT(conv2d, stride),
  CONV_PADDING = AT(conv2d, padding),
  CONV_DILATION = AT(conv2d, dilation),
  CONV_GROUPS = AT(conv2d, groups),
  CONV_SIZE = AT(conv2d_grad_x, size),
  CONV_KERNEL = AT(conv2d_grad_w, kernel),
  CONV_NO_BIAS = AT(conv2d_grad_w, no_bias),
};
SAME_PLACE(conv2d, conv2d_act, groups);
SAME_PLACE(conv2d, conv2d_grad_x, groups);
SAME_PLACE(conv2d, conv2d_grad_w, groups);
SAME_PLACE(conv2d, conv_transpose2d, groups);
/* conv_transpose2d has one more pair, too. */
enum { CONV_OUTPUT_PADDING = AT(conv_transpose2d, output_padding) };

/* matmul */
enum { MATMUL_TRANSPOSE_A = AT(matmul, transpose_a), MATMUL_TRANSPOSE_B = AT(matmul, transpose_b) };

/* batch_norm; bn_act and bn_act_pool add the activation. */
enum {
  NORM_EPS = AT(batch_norm, eps),
  NORM_MOMENTUM = AT(batch_norm, momentum),
  NORM_TRAINING = AT(batch_norm, training),
  NORM_ACT = AT(bn_act, act),
};
SAME_PLACE(batch_norm, bn_act, training);
SAME_PLACE(batch_norm, bn_act_pool, training);
/* What act of bn_act, bn_act_grad and conv2d_act may be; the other two have relu alone. */
enum { NORM_RELU, NORM_SILU };
/* Their gradients. */
enum { NORM_GRAD_TRAINING = AT(batch_norm_grad, training), NORM_GRAD_ACT = AT(bn_act_grad, act) };

/* Inputs of batch_norm, bn_act and bn_act_pool ... */
enum { NORM_X, NORM_WEIGHT, NORM_BIAS, NORM_RUNNING_MEAN, NORM_RUNNING_VAR };
/* ... and their outputs. */
enum { NORM_Y, NORM_MEAN, NORM_INVSTD, NORM_RESERVE };

/* layer_norm, rms_norm; group_norm. Their gradients have the first attribute only. */
enum { LAYER_NORM_SHAPE = AT(layer_norm, normalized_shape), LAYER_NORM_EPS = AT(layer_norm, eps) };
enum { GROUP_NORM_GROUPS = AT(group_norm, num_groups), GROUP_NORM_EPS = AT(group_norm, eps) };

/* max_pool2d, avg_pool2d; the gradients end with H,W of x. A stride of 0 means the kernel's size. */
enum {
  POOL_KERNEL = AT(max_pool2d, kernel),
  POOL_STRIDE = AT(max_pool2d, stride),
  POOL_PADDING = AT(max_pool2d, padding),
  POOL_CEIL_MODE = AT(max_pool2d, ceil_mode),
  MAX_POOL_DILATION = AT(max_pool2d, dilation),
  MAX_POOL_SIZE = AT(max_pool2d_grad, size),
  AVG_POOL_COUNT_PAD = AT(avg_pool2d, count_include_pad),
  AVG_POOL_SIZE = AT(avg_pool2d_grad, size),
};
SAME_PLACE(max_pool2d, max_pool2d_grad, ceil_mode);
SAME_PLACE(max_pool2d, max_pool2d_grad, dilation);
SAME_PLACE(max_pool2d, avg_pool2d, ceil_mode);
SAME_PLACE(max_pool2d, avg_pool2d_grad, ceil_mode);

/* adaptive pools: output h,w; their gradients: H,W of x. */
enum { ADAPTIVE_SIZE = AT(adaptive_avg_pool2d, output) };

/* dice_sums: attributes, and what is summed. */
enum { REGION_ACTIVATION = AT(dice_sums, activation), REGION_IGNORE = AT(dice_sums, ignore_index) };
enum { REGION_SHARED, REGION_PREDICTED, REGION_LABELLED, REGION_SUMS };

/* Losses by element; smooth_l1 and sigmoid_focal have numbers beside the reduction. */
enum {
  LOSS_REDUCTION = AT(bce_with_logits, reduction),
  LOSS_FIRST = AT(sigmoid_focal, alpha),
  LOSS_SECOND = AT(sigmoid_focal, gamma),
};
SAME_PLACE(bce_with_logits, multilabel_soft_margin, reduction);
SAME_PLACE(bce_with_logits, mse, reduction);
SAME_PLACE(bce_with_logits, smooth_l1, reduction);
SAME_PLACE(bce_with_logits, sigmoid_focal, reduction);
static_assert(AT(smooth_l1, beta) == LOSS_FIRST, "beta of smooth_l1");

/* An optional input, NULL if it was left out by NULL or by a shorter list. */
static inline capl_tensor *call_input(const capl_call *call, int i)
{
  return i < call->n_in ? call->in[i] : NULL;
}

#endif
