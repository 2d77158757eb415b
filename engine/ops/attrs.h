/* attrs.h -- positions of the attributes of conv, matmul, norm and pool ops in capl_call.attr.
** One list for shape rules, gradient rules and every backend's kernels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_ATTRS_H
#define CAPL_OPS_ATTRS_H

#include "capl/op.h"

/* conv2d and its gradients. The gradients add one pair: H,W of x, or kh,kw. */
enum { CONV_STRIDE, CONV_PADDING, CONV_DILATION, CONV_GROUPS, CONV_SIZE, CONV_KERNEL = CONV_SIZE, CONV_NO_BIAS };
/* conv_transpose2d has one more pair, too. */
enum { CONV_OUTPUT_PADDING = CONV_SIZE };

/* matmul */
enum { MATMUL_TRANSPOSE_A, MATMUL_TRANSPOSE_B };

/* batch_norm; bn_act and bn_act_pool add the activation. */
enum { NORM_EPS, NORM_MOMENTUM, NORM_TRAINING, NORM_ACT };
/* Their gradients. */
enum { NORM_GRAD_TRAINING, NORM_GRAD_ACT };

/* Inputs of batch_norm, bn_act and bn_act_pool ... */
enum { NORM_X, NORM_WEIGHT, NORM_BIAS, NORM_RUNNING_MEAN, NORM_RUNNING_VAR };
/* ... and their outputs. */
enum { NORM_Y, NORM_MEAN, NORM_INVSTD, NORM_RESERVE };

/* layer_norm, rms_norm; group_norm. Their gradients have the first attribute only. */
enum { LAYER_NORM_SHAPE, LAYER_NORM_EPS };
enum { GROUP_NORM_GROUPS, GROUP_NORM_EPS };

/* max_pool2d, avg_pool2d; the gradients end with H,W of x. A stride of 0 means the kernel's size. */
enum { POOL_KERNEL, POOL_STRIDE, POOL_PADDING, POOL_CEIL_MODE };
enum { MAX_POOL_SIZE = POOL_CEIL_MODE + 1 };
enum { AVG_POOL_COUNT_PAD = POOL_CEIL_MODE + 1, AVG_POOL_SIZE };

/* adaptive pools: output h,w; their gradients: H,W of x. */
enum { ADAPTIVE_SIZE };

/* region_sums: attributes, and what is summed. */
enum { REGION_ACTIVATION, REGION_IGNORE };
enum { REGION_SHARED, REGION_PREDICTED, REGION_LABELLED, REGION_SUMS };

/* An optional input, NULL if it was left out by NULL or by a shorter list. */
static inline capl_tensor *call_input(const capl_call *call, int i)
{
  return i < call->n_in ? call->in[i] : NULL;
}

#endif
