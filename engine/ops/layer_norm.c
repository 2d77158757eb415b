/* layer_norm.c -- descriptors of the normalizations within a sample: layer norm, RMS norm, group norm.
**
** Unlike batch norm they are the same in training and evaluation, so there is nothing but x, what was found in it
** (mean, invstd), and the parameters.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ops/attrs.h"
#include "ops/rules.h"

enum { TEXT = 96 };

/* Parameters and statistics are f32, or f64 beside an x in f64. */
static capl_dtype statistics_dtype(const capl_tensor *x)
{
  return x->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32;
}

static bool ends_with(const capl_tensor *t, int n, const int64_t *size)
{
  return n <= t->ndim && memcmp(t->size + t->ndim - n, size, (size_t)n * sizeof *size) == 0;
}

/* ---- layer norm and RMS norm: shapes ---------------------------------------------------------- */

static capl_status need_normalized(const capl_tensor *x, const capl_attr *shape)
{
  char wanted[TEXT], given[TEXT];
  CAPL_TRY(need_float(x, "x"));
  if (shape->n == 0)
    return CAPL_FAIL(CAPL_EVALUE, "normalized_shape is empty, it lists the sizes of the last dims of x");
  if (ends_with(x, shape->n, shape->v)) return CAPL_OK;
  CAPL_FAIL(CAPL_ESHAPE, "normalized_shape is %s, x is %s: x must end with it",
            capl_shape_describe(shape->n, shape->v, wanted, sizeof wanted),
            capl_shape_describe(x->ndim, x->size, given, sizeof given));
  if (x->ndim == 4 && shape->n == 1 && x->size[1] == shape->v[0])
    capl_error_hint("for the channels of images: x:permute(1, 3, 4, 2), or nn.GroupNorm(1, %" PRId64 ")", shape->v[0]);
  return CAPL_ESHAPE;
}

/* weight, bias and their gradients have the normalized shape. */
static capl_status need_parameter(const capl_tensor *t, const char *name, const capl_tensor *x, const capl_attr *shape)
{
  char wanted[TEXT], given[TEXT];
  if (!t) return CAPL_OK;
  if (t->ndim != shape->n || !ends_with(t, shape->n, shape->v))
    return CAPL_FAIL(CAPL_ESHAPE, "%s is %s, normalized_shape is %s: they must be the same", name,
                     capl_shape_describe(t->ndim, t->size, given, sizeof given),
                     capl_shape_describe(shape->n, shape->v, wanted, sizeof wanted));
  return need_dtype(t, name, statistics_dtype(x));
}

/* One number per row: the dims of x before the normalized ones. */
static void rows_spec(capl_out_spec *out, const capl_tensor *x, const capl_attr *shape)
{
  spec_set(out, statistics_dtype(x), x->ndim - shape->n, x->size);
}

static void row_spec(capl_out_spec *out, capl_dtype dtype, int ndim, const int64_t *size)
{
  spec_set(out, dtype, ndim, size);
  out->format = CAPL_ROW;
}

static capl_status need_rows(const capl_tensor *t, const char *name, const capl_tensor *x, const capl_attr *shape)
{
  char wanted[TEXT], given[TEXT];
  int rows = x->ndim - shape->n;
  if (t->ndim == rows && memcmp(t->size, x->size, (size_t)rows * sizeof *t->size) == 0)
    return need_dtype(t, name, statistics_dtype(x));
  return CAPL_FAIL(CAPL_ESHAPE, "%s is %s, x has rows %s", name,
                   capl_shape_describe(t->ndim, t->size, given, sizeof given),
                   capl_shape_describe(rows, x->size, wanted, sizeof wanted));
}

static capl_status layer_norm_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  const capl_attr *shape = &call->attr[LAYER_NORM_SHAPE];
  CAPL_TRY(need_normalized(x, shape));
  CAPL_TRY(need_parameter(call_input(call, 1), "weight", x, shape));
  CAPL_TRY(need_parameter(call_input(call, 2), "bias", x, shape));
  row_spec(&out[0], x->dtype, x->ndim, x->size);
  rows_spec(&out[1], x, shape);
  rows_spec(&out[2], x, shape);
  return CAPL_OK;
}

static capl_status rms_norm_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  const capl_attr *shape = &call->attr[LAYER_NORM_SHAPE];
  CAPL_TRY(need_normalized(x, shape));
  CAPL_TRY(need_parameter(call_input(call, 1), "weight", x, shape));
  row_spec(&out[0], x->dtype, x->ndim, x->size);
  rows_spec(&out[1], x, shape);
  return CAPL_OK;
}

static capl_status grad_inputs(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  CAPL_TRY(need_normalized(x, &call->attr[LAYER_NORM_SHAPE]));
  CAPL_TRY(need_same_shape(x, "x", dy, "dy"));
  CAPL_TRY(need_same_dtype(x, "x", dy, "dy"));
  return need_parameter(call->in[2], "weight", x, &call->attr[LAYER_NORM_SHAPE]);
}

static capl_status layer_norm_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  const capl_attr *shape = &call->attr[LAYER_NORM_SHAPE];
  CAPL_TRY(grad_inputs(call));
  CAPL_TRY(need_rows(call->in[3], "mean", x, shape));
  CAPL_TRY(need_rows(call->in[4], "invstd", x, shape));
  row_spec(&out[0], x->dtype, x->ndim, x->size);
  for (int i = 1; i < 3; i++) row_spec(&out[i], statistics_dtype(x), shape->n, shape->v);
  return CAPL_OK;
}

static capl_status rms_norm_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  const capl_attr *shape = &call->attr[LAYER_NORM_SHAPE];
  CAPL_TRY(grad_inputs(call));
  CAPL_TRY(need_rows(call->in[3], "invstd", x, shape));
  row_spec(&out[0], x->dtype, x->ndim, x->size);
  row_spec(&out[1], statistics_dtype(x), shape->n, shape->v);
  return CAPL_OK;
}

/* ---- group norm: shapes ----------------------------------------------------------------------- */

static capl_status need_channels(const capl_tensor *x, int64_t groups)
{
  char text[TEXT];
  CAPL_TRY(need_float(x, "x"));
  if (x->ndim < 2)
    return CAPL_FAIL(CAPL_ESHAPE, "x is %s, (N,C,…) is needed",
                     capl_shape_describe(x->ndim, x->size, text, sizeof text));
  if (x->size[1] % groups == 0) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "num_groups is %" PRId64 ", x has %" PRId64 " channels: groups must be of equal size",
                   groups, x->size[1]);
}

static capl_status need_channel_vector(const capl_tensor *t, const char *name, const capl_tensor *x)
{
  if (!t) return CAPL_OK;
  CAPL_TRY(need_vector(t, name, x->size[1], "channel of x"));
  return need_dtype(t, name, statistics_dtype(x));
}

/* mean and invstd: (N, num_groups) */
static void groups_spec(capl_out_spec *out, const capl_tensor *x, int64_t groups)
{
  row_spec(out, statistics_dtype(x), 2, (int64_t[]){x->size[0], groups});
}

static capl_status need_groups(const capl_tensor *t, const char *name, const capl_tensor *x, int64_t groups)
{
  char text[TEXT];
  if (t->ndim == 2 && t->size[0] == x->size[0] && t->size[1] == groups) return need_dtype(t, name, statistics_dtype(x));
  return CAPL_FAIL(CAPL_ESHAPE, "%s is %s, it must be (%" PRId64 ",%" PRId64 "): one per image and group", name,
                   capl_shape_describe(t->ndim, t->size, text, sizeof text), x->size[0], groups);
}

static capl_status group_norm_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  int64_t groups = call->attr[GROUP_NORM_GROUPS].i;
  CAPL_TRY(need_channels(x, groups));
  CAPL_TRY(need_channel_vector(call_input(call, 1), "weight", x));
  CAPL_TRY(need_channel_vector(call_input(call, 2), "bias", x));
  spec_set(&out[0], x->dtype, x->ndim, x->size);
  groups_spec(&out[1], x, groups);
  groups_spec(&out[2], x, groups);
  return CAPL_OK;
}

static capl_status group_norm_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0], *dy = call->in[1];
  int64_t groups = call->attr[GROUP_NORM_GROUPS].i;
  CAPL_TRY(need_channels(x, groups));
  CAPL_TRY(need_same_shape(x, "x", dy, "dy"));
  CAPL_TRY(need_same_dtype(x, "x", dy, "dy"));
  CAPL_TRY(need_channel_vector(call->in[2], "weight", x));
  CAPL_TRY(need_groups(call->in[3], "mean", x, groups));
  CAPL_TRY(need_groups(call->in[4], "invstd", x, groups));
  spec_set(&out[0], x->dtype, x->ndim, x->size);
  for (int i = 1; i < 3; i++) spec_set(&out[i], statistics_dtype(x), 1, &x->size[1]);
  return CAPL_OK;
}

/* ---- gradient rules --------------------------------------------------------------------------- */

/* Hands over what is wanted of the gradients of x, weight, bias; drops the others. */
static void keep_needed(const capl_node *node, int n, capl_tensor **got, capl_tensor **dx)
{
  for (int i = 0; i < n; i++) {
    if (i < node->n_in && node->needs[i]) dx[i] = got[i];
    else capl_tensor_unref(got[i]);
  }
}

static capl_tensor *weight_of(const capl_node *node)
{
  return node->n_in > 1 ? node->in[1] : NULL;
}

/* The statistics are the outputs 1 and 2; the attributes but eps are those of the op. */
static capl_status centred_rule(const capl_node *node, capl_op_id grad, capl_tensor *const *dy, capl_tensor **dx)
{
  if (!dy[0]) return CAPL_OK;
  capl_attr attr[CAPL_MAX_ATTR] = {[LAYER_NORM_SHAPE] = node->attr[LAYER_NORM_SHAPE]};
  capl_tensor *got[3];
  CAPL_TRY(GRAD_CALL(grad, attr, got, node->in[0], dy[0], weight_of(node), node->out[1], node->out[2]));
  keep_needed(node, 3, got, dx);
  return CAPL_OK;
}

static capl_status layer_norm_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return centred_rule(node, CAPL_OP_layer_norm_grad, dy, dx);
}

static capl_status group_norm_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  return centred_rule(node, CAPL_OP_group_norm_grad, dy, dx);
}

static capl_status rms_norm_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (!dy[0]) return CAPL_OK;
  capl_attr attr[CAPL_MAX_ATTR] = {[LAYER_NORM_SHAPE] = node->attr[LAYER_NORM_SHAPE]};
  capl_tensor *got[2];
  CAPL_TRY(GRAD_CALL(CAPL_OP_rms_norm_grad, attr, got, node->in[0], dy[0], weight_of(node), node->out[1]));
  keep_needed(node, 2, got, dx);
  return CAPL_OK;
}

/* ---- descriptors ------------------------------------------------------------------------------ */

#define BIT(i) (1u << (i))
#define SHAPE_DOC "normalized_shape: the sizes of the last dims of x, those that are normalized together.\n"
#define PARAMETERS_DOC "f32, or f64 when x is f64; left out: 1 and 0. eps: added to the variance.\n"

const capl_op capl_op_layer_norm = {
    NAME_AND_ATTRS(layer_norm),
    .ins = "x, weight?, bias?",
    OUTS(y, mean, invstd),
    .layout = CAPL_LAYOUT_ROW,
    .save_in = BIT(0) | BIT(1),
    .save_out = BIT(1) | BIT(2),
    .index_outs = BIT(1) | BIT(2),
    .shape = layer_norm_shape,
    .grad = layer_norm_rule,
    .doc = "Layer normalization: y = (x - mean) / sqrt(var + eps) * weight + bias over the last dims of x.\n"
           "x (...,normalized_shape) floating -> y of the same shape and dtype; mean, invstd (...): what was found in\n"
           "each row, biased variance, computed in f32 or wider also for 16-bit x. weight, bias (normalized_shape):\n"
           PARAMETERS_DOC SHAPE_DOC
           "Errors: shape if x does not end with normalized_shape, or weight or bias is not of it; dtype.\n"
           "Source: J. L. Ba, J. R. Kiros, G. E. Hinton, \"Layer normalization\", 2016.",
};

const capl_op capl_op_layer_norm_grad = {
    NAME_AND_ATTRS(layer_norm_grad),
    .ins = "x, dy, weight?, mean, invstd",
    OUTS(dx, dweight, dbias),
    .layout = CAPL_LAYOUT_ROW,
    .shape = layer_norm_grad_shape,
    .doc = "Gradients of layer_norm. Not differentiable.\n"
           "x, dy of one shape and floating dtype -> dx like x; dweight, dbias (normalized_shape) f32 (f64 when x is\n"
           "f64). weight, mean, invstd: as given to and returned by layer_norm.\n" SHAPE_DOC "Errors: as layer_norm.",
};

const capl_op capl_op_rms_norm = {
    NAME_AND_ATTRS(rms_norm),
    .ins = "x, weight?",
    OUTS(y, invstd),
    .layout = CAPL_LAYOUT_ROW,
    .save_in = BIT(0) | BIT(1),
    .save_out = BIT(1),
    .index_outs = BIT(1),
    .shape = rms_norm_shape,
    .grad = rms_norm_rule,
    .doc = "Root mean square normalization: y = x / sqrt(mean of x^2 + eps) * weight over the last dims of x.\n"
           "x (...,normalized_shape) floating -> y of the same shape and dtype; invstd (...): the factor of each row.\n"
           "weight (normalized_shape): f32, or f64 when x is f64; left out: 1. eps: added to the mean.\n" SHAPE_DOC
           "Errors: as layer_norm.\n"
           "Source: B. Zhang, R. Sennrich, \"Root mean square layer normalization\", NeurIPS 2019.",
};

const capl_op capl_op_rms_norm_grad = {
    NAME_AND_ATTRS(rms_norm_grad),
    .ins = "x, dy, weight?, invstd",
    OUTS(dx, dweight),
    .layout = CAPL_LAYOUT_ROW,
    .shape = rms_norm_grad_shape,
    .doc = "Gradients of rms_norm. Not differentiable.\n"
           "x, dy of one shape and floating dtype -> dx like x; dweight (normalized_shape) f32 (f64 when x is f64).\n"
           "weight, invstd: as given to and returned by rms_norm.\n" SHAPE_DOC "Errors: as layer_norm.",
};

const capl_op capl_op_group_norm = {
    NAME_AND_ATTRS(group_norm),
    .ins = "x, weight?, bias?",
    OUTS(y, mean, invstd),
    .layout = CAPL_LAYOUT_IMAGE,
    .save_in = BIT(0) | BIT(1),
    .save_out = BIT(1) | BIT(2),
    .index_outs = BIT(1) | BIT(2),
    .shape = group_norm_shape,
    .grad = group_norm_rule,
    .doc = "Group normalization: y = (x - mean) / sqrt(var + eps) * weight + bias, per image and group of channels.\n"
           "x (N,C,...) floating -> y of the same shape and dtype; mean, invstd (N,num_groups): what was found, "
           "biased\n"
           "variance, computed in f32 or wider. weight, bias (C): " PARAMETERS_DOC
           "num_groups: C is divided into so many groups of neighbours; C groups are instance normalization.\n"
           "Errors: shape if C is no multiple of num_groups, or weight or bias is not (C); dtype.\n"
           "Source: Y. Wu, K. He, \"Group normalization\", ECCV 2018.",
};

const capl_op capl_op_group_norm_grad = {
    NAME_AND_ATTRS(group_norm_grad),
    .ins = "x, dy, weight?, mean, invstd",
    OUTS(dx, dweight, dbias),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = group_norm_grad_shape,
    .doc = "Gradients of group_norm. Not differentiable.\n"
           "x, dy of one shape and floating dtype -> dx like x; dweight, dbias (C) f32 (f64 when x is f64). weight,\n"
           "mean, invstd: as given to and returned by group_norm. Errors: as group_norm.",
};
