/* norms.c -- normalization as in eval mode.
** SPDX-License-Identifier: Apache-2.0
*/
#include "io/onnx/write.h"

static const char *batch_norm(onnx_build *b, const onnx_call *c)
{
  if (c->attr[NORM_TRAINING].i) onnx_fail(b, c, "it computes statistics of the batch (training = true)");
  const char *y = ONNX(b, "BatchNormalization", onnx_in(c, NORM_X), onnx_in(c, NORM_WEIGHT), onnx_in(c, NORM_BIAS),
                       onnx_in(c, NORM_RUNNING_MEAN), onnx_in(c, NORM_RUNNING_VAR));
  onnx_real(b, "epsilon", c->attr[NORM_EPS].f);
  return y;
}

static const char *bn_act(onnx_build *b, const onnx_call *c)
{
  bool silu = c->op == CAPL_OP_bn_act && c->attr[NORM_ACT].i == NORM_SILU;
  return onnx_activate(b, silu ? CAPL_OP_silu : CAPL_OP_relu, batch_norm(b, c));
}

static void write_batch_norm(onnx_build *b, const onnx_call *c) { c->out[0].name = batch_norm(b, c); }
static void write_bn_act(onnx_build *b, const onnx_call *c) { c->out[0].name = bn_act(b, c); }

static void write_bn_act_pool(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "MaxPool", bn_act(b, c));
  ONNX_INTS(b, "kernel_shape", 2, 2);
  ONNX_INTS(b, "strides", 2, 2);
}

/* Ones of the sizes in attribute LAYER_NORM_SHAPE, for a layer without a weight. */
static const char *ones(onnx_build *b, const onnx_call *c)
{
  const char *shape = onnx_sizes(b, c, LAYER_NORM_SHAPE);
  return ONNX(b, "Expand", onnx_number(b, onnx_out_type(c), 1), shape);
}

static void write_layer_norm(onnx_build *b, const onnx_call *c)
{
  const char *weight = onnx_in(c, 1);
  if (!*weight) weight = ones(b, c);
  c->out[0].name = ONNX(b, "LayerNormalization", onnx_in(c, 0), weight, onnx_in(c, 2));
  onnx_int(b, "axis", -c->attr[LAYER_NORM_SHAPE].n);
  onnx_real(b, "epsilon", c->attr[LAYER_NORM_EPS].f);
}

/* x / sqrt(mean(x²) + eps) * weight, over the last dims. */
static void write_rms_norm(onnx_build *b, const onnx_call *c)
{
  onnx_type type = onnx_out_type(c);
  int64_t dims[CAPL_MAX_NDIM];
  int n = c->attr[LAYER_NORM_SHAPE].n;
  for (int d = 0; d < n; d++) dims[d] = d - n;
  const char *x = onnx_in(c, 0), *mean = ONNX(b, "ReduceMean", ONNX(b, "Mul", x, x));
  onnx_ints(b, "axes", n, dims);
  const char *root = ONNX(b, "Sqrt", onnx_with(b, "Add", mean, type, c->attr[LAYER_NORM_EPS].f));
  const char *y = ONNX(b, "Div", x, root);
  c->out[0].name = *onnx_in(c, 1) ? ONNX(b, "Mul", y, onnx_in(c, 1)) : y;
}

/* (C) -> (C,1,…) beside x of so many dims */
static const char *by_channel(onnx_build *b, const char *v, int ndim)
{
  int64_t size[CAPL_MAX_NDIM] = {-1, 1, 1, 1, 1, 1};
  return ONNX(b, "Reshape", v, onnx_list(b, ndim - 1, size));
}

/* Each group is a channel of (N,G,…), which InstanceNormalization normalizes; GroupNormalization came later. */
static void write_group_norm(onnx_build *b, const onnx_call *c)
{
  int64_t G = c->attr[GROUP_NORM_GROUPS].i;
  int ndim = c->in[0]->ndim;
  const char *x = onnx_in(c, 0), *groups = ONNX(b, "Reshape", x, ONNX_LIST(b, 0, G, -1));
  const char *one = ONNX(b, "Expand", onnx_number(b, ONNX_F32, 1), ONNX_LIST(b, G));
  const char *zero = ONNX(b, "Expand", onnx_number(b, ONNX_F32, 0), ONNX_LIST(b, G));
  const char *normal = ONNX(b, "InstanceNormalization", groups, one, zero);
  onnx_real(b, "epsilon", c->attr[GROUP_NORM_EPS].f);
  const char *y = ONNX(b, "Reshape", normal, ONNX(b, "Shape", x));
  if (*onnx_in(c, 1)) y = ONNX(b, "Mul", y, by_channel(b, onnx_in(c, 1), ndim));
  if (*onnx_in(c, 2)) y = ONNX(b, "Add", y, by_channel(b, onnx_in(c, 2), ndim));
  c->out[0].name = y;
}

const onnx_row onnx_norms[] = {
  {CAPL_OP_batch_norm, write_batch_norm}, {CAPL_OP_bn_act, write_bn_act}, {CAPL_OP_bn_act_pool, write_bn_act_pool},
  {CAPL_OP_layer_norm, write_layer_norm}, {CAPL_OP_rms_norm, write_rms_norm}, {CAPL_OP_group_norm, write_group_norm},
  {0, NULL},
};
