/* norm.c -- descriptors of batch normalization, alone and fused with relu or silu and 2x2 max pooling.
**
** The fused ops are defined by their .expand; a backend that has no kernel for them runs that.
** SPDX-License-Identifier: Apache-2.0
*/
#include <inttypes.h>
#include <string.h>

#include "ops/attrs.h"
#include "ops/rules.h"
#include "ops/window.h"


/* ---- shape rules ------------------------------------------------------------------------------ */

/* Parameters and statistics are f32, or f64 beside an x in f64. */
static capl_dtype statistics_dtype(const capl_tensor *x)
{
  return x->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32;
}

static capl_status need_norm_input(const capl_tensor *x)
{
  CAPL_TRY(need_float(x, "x"));
  if (x->ndim == 2 || x->ndim == 4) return CAPL_OK;
  char text[96];
  return CAPL_FAIL(CAPL_ESHAPE, "x is %s, (N,C) or (N,C,H,W) is needed",
                   capl_shape_describe(x->ndim, x->size, text, sizeof text));
}

/* One number per channel of x. */
static capl_status need_channel_vector(const capl_tensor *t, const char *name, const capl_tensor *x)
{
  CAPL_TRY(need_vector(t, name, x->size[1], "channel of x"));
  return need_dtype(t, name, statistics_dtype(x));
}

/* Running statistics are written in place, so a strided view of them will not do. */
static capl_status need_running(const capl_tensor *t, const char *name, const capl_tensor *x)
{
  CAPL_TRY(need_channel_vector(t, name, x));
  if (capl_tensor_is_row(t)) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s is a view with gaps (stride %" PRId64 "), it must be contiguous", name,
                   t->stride[0]);
}

static capl_status need_running_pair(const capl_call *call, bool training)
{
  const capl_tensor *mean = call_input(call, NORM_RUNNING_MEAN), *var = call_input(call, NORM_RUNNING_VAR);
  if (mean) CAPL_TRY(need_running(mean, "running_mean", call->in[NORM_X]));
  if (var) CAPL_TRY(need_running(var, "running_var", call->in[NORM_X]));
  if (!mean != !var)
    return CAPL_FAIL(CAPL_EVALUE, "%s is given without %s", mean ? "running_mean" : "running_var",
                     mean ? "running_var" : "running_mean");
  if (mean || training) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "training = false uses running_mean and running_var, which are not given");
}

/* Batch statistics of one value would make every output zero. */
static capl_status need_batch(const capl_tensor *x)
{
  int64_t count = x->size[0];
  for (int dim = 2; dim < x->ndim; dim++) count *= x->size[dim];
  if (count > 1) return CAPL_OK;
  char text[96];
  capl_status status =
      CAPL_FAIL(CAPL_EVALUE, "training needs more than 1 value per channel, x %s has %" PRId64,
                capl_shape_describe(x->ndim, x->size, text, sizeof text), count);
  capl_error_hint("use larger batches (drop_last = true drops a rest of one image), or model:eval()");
  return status;
}

static capl_status batch_norm_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[NORM_X];
  bool training = call->attr[NORM_TRAINING].i;
  CAPL_TRY(need_norm_input(x));
  CAPL_TRY(need_channel_vector(call->in[NORM_WEIGHT], "weight", x));
  CAPL_TRY(need_channel_vector(call->in[NORM_BIAS], "bias", x));
  CAPL_TRY(need_running_pair(call, training));
  if (training) CAPL_TRY(need_batch(x));
  spec_set(&out[NORM_Y], x->dtype, x->ndim, x->size);
  spec_set(&out[NORM_MEAN], statistics_dtype(x), 1, &x->size[1]);
  spec_set(&out[NORM_INVSTD], statistics_dtype(x), 1, &x->size[1]);
  return CAPL_OK;
}

/* (N,C,floor(H/2),floor(W/2)) */
static capl_status pooled_size(const capl_tensor *x, int64_t *size)
{
  CAPL_TRY(need_ndim(x, "x", 4));
  if (x->size[2] < 2 || x->size[3] < 2)
    return CAPL_FAIL(CAPL_ESHAPE, "x is %" PRId64 "x%" PRId64 ", the 2x2 pooling window does not fit",
                     x->size[2], x->size[3]);
  memcpy(size, x->size, 2 * sizeof *size);
  size[2] = x->size[2] / 2;
  size[3] = x->size[3] / 2;
  return CAPL_OK;
}

static capl_status bn_act_pool_shape(const capl_call *call, capl_out_spec *out)
{
  int64_t size[4];
  CAPL_TRY(batch_norm_shape(call, out));
  CAPL_TRY(pooled_size(call->in[NORM_X], size));
  spec_set(&out[NORM_Y], call->in[NORM_X]->dtype, 4, size);
  spec_set(&out[NORM_RESERVE], CAPL_U8, 4, size); /* a backend may have another dtype */
  return CAPL_OK;
}

/* dx, dweight, dbias from x and the per-channel inputs named in vectors (in[2] and on). */
static capl_status norm_grad_shape(const capl_call *call, const char *const *vectors, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  CAPL_TRY(need_norm_input(x));
  CAPL_TRY(need_same_dtype(x, "x", call->in[1], "dy"));
  for (int i = 0; vectors[i]; i++) CAPL_TRY(need_channel_vector(call->in[2 + i], vectors[i], x));
  spec_set(&out[0], x->dtype, x->ndim, x->size);
  spec_set(&out[1], statistics_dtype(x), 1, &x->size[1]);
  spec_set(&out[2], statistics_dtype(x), 1, &x->size[1]);
  return CAPL_OK;
}

static capl_status batch_norm_grad_shape(const capl_call *call, capl_out_spec *out)
{
  static const char *const vectors[] = {"weight", "mean", "invstd", NULL};
  CAPL_TRY(norm_grad_shape(call, vectors, out));
  return need_same_shape(call->in[0], "x", call->in[1], "dy");
}

static const char *const fused_vectors[] = {"weight", "bias", "mean", "invstd", NULL};

static capl_status bn_act_grad_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(norm_grad_shape(call, fused_vectors, out));
  return need_same_shape(call->in[0], "x", call->in[1], "dy");
}

static capl_status bn_act_pool_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *dy = call->in[1], *reserve = call->in[6];
  int64_t size[4];
  CAPL_TRY(norm_grad_shape(call, fused_vectors, out));
  CAPL_TRY(pooled_size(call->in[0], size));
  CAPL_TRY(window_need_size(dy, "dy", 4, size, "pooling x gives"));
  if (reserve->dtype != dy->dtype) CAPL_TRY(need_dtype(reserve, "reserve", CAPL_U8));
  return need_same_shape(dy, "dy", reserve, "reserve");
}

/* ---- gradient rules --------------------------------------------------------------------------- */

/* Hands over the gradients of x, weight and bias that are wanted and drops the others. Adding the same to a whole
** channel of x changes nothing that its own mean is taken from: dx sums to 0 there, but for rounding. */
static void keep_needed(const capl_node *node, capl_tensor **got, capl_tensor **dx)
{
  for (int i = NORM_X; i <= NORM_BIAS; i++) {
    if (node->needs[i])
      dx[i] = got[i];
    else
      capl_tensor_unref(got[i]);
  }
  if (dx[NORM_X]) dx[NORM_X]->zero_sums = node->attr[NORM_TRAINING].i;
}

static capl_status batch_norm_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (!dy[NORM_Y]) return CAPL_OK;
  capl_attr attr[CAPL_MAX_ATTR] = {[NORM_GRAD_TRAINING] = node->attr[NORM_TRAINING]};
  capl_tensor *got[3];
  CAPL_TRY(GRAD_CALL(CAPL_OP_batch_norm_grad, attr, got, node->in[NORM_X], dy[NORM_Y], node->in[NORM_WEIGHT],
                     node->out[NORM_MEAN], node->out[NORM_INVSTD]));
  keep_needed(node, got, dx);
  return CAPL_OK;
}

static capl_status bn_act_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (!dy[NORM_Y]) return CAPL_OK;
  capl_attr attr[CAPL_MAX_ATTR] = {
      [NORM_GRAD_TRAINING] = node->attr[NORM_TRAINING], [NORM_GRAD_ACT] = node->attr[NORM_ACT]};
  capl_tensor *got[3];
  CAPL_TRY(GRAD_CALL(CAPL_OP_bn_act_grad, attr, got, node->in[NORM_X], dy[NORM_Y], node->in[NORM_WEIGHT],
                     node->in[NORM_BIAS], node->out[NORM_MEAN], node->out[NORM_INVSTD]));
  keep_needed(node, got, dx);
  return CAPL_OK;
}

static capl_status bn_act_pool_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (!dy[NORM_Y]) return CAPL_OK;
  capl_attr attr[CAPL_MAX_ATTR] = {
      [NORM_GRAD_TRAINING] = node->attr[NORM_TRAINING], [NORM_GRAD_ACT] = node->attr[NORM_ACT]};
  capl_tensor *got[3];
  CAPL_TRY(GRAD_CALL(CAPL_OP_bn_act_pool_grad, attr, got, node->in[NORM_X], dy[NORM_Y], node->in[NORM_WEIGHT],
                     node->in[NORM_BIAS], node->out[NORM_MEAN], node->out[NORM_INVSTD],
                     node->out[NORM_RESERVE]));
  keep_needed(node, got, dx);
  return CAPL_OK;
}

/* ---- expansions of the fused ops -------------------------------------------------------------- */

static void unref_all(capl_tensor **tensors, int n)
{
  for (int i = 0; i < n; i++) capl_tensor_unref(tensors[i]);
}

/* batch_norm, then the activation: y, mean, invstd. The attributes of batch_norm come first in all three ops.
** Expansions touch call->out only when nothing can fail any more: the dispatcher drops what it finds there.
*/
static capl_status norm_act(const capl_call *call, capl_tensor **out)
{
  CAPL_TRY(capl_op_call(CAPL_OP_batch_norm, call->in, call->n_in, call->attr, out));
  capl_tensor *normalized = out[NORM_Y];
  capl_op_id act = call->attr[NORM_ACT].i == NORM_SILU ? CAPL_OP_silu : CAPL_OP_relu;
  capl_status status = GRAD_CALL(act, NULL, &out[NORM_Y], normalized);
  capl_tensor_unref(normalized);
  if (status != CAPL_OK) unref_all(&out[NORM_MEAN], 2);
  return status;
}

static capl_status bn_act_expand(const capl_call *call)
{
  capl_tensor *out[3];
  CAPL_TRY(norm_act(call, out));
  memcpy(call->out, out, sizeof out);
  return CAPL_OK;
}

/* The pooling that bn_act_pool fuses: 2x2, stride 2, floor; size only for the gradient. */
static void pool_attrs(capl_attr *attr, int64_t height, int64_t width)
{
  memset(attr, 0, sizeof *attr * CAPL_MAX_ATTR);
  attr[POOL_KERNEL] = attr[POOL_STRIDE] = CAPL_A_INTS2(2, 2);
  attr[POOL_PADDING] = CAPL_A_INTS2(0, 0);
  attr[MAX_POOL_DILATION] = CAPL_A_INTS2(1, 1);
  attr[MAX_POOL_SIZE] = CAPL_A_INTS2(height, width);
}

static capl_status bn_act_pool_expand(const capl_call *call)
{
  capl_tensor *active[3], *pooled[2];
  capl_attr attr[CAPL_MAX_ATTR];
  CAPL_TRY(norm_act(call, active));
  pool_attrs(attr, 0, 0);
  capl_status status = GRAD_CALL(CAPL_OP_max_pool2d, attr, pooled, active[NORM_Y]);
  capl_tensor_unref(active[NORM_Y]);
  if (status != CAPL_OK) {
    unref_all(&active[NORM_MEAN], 2);
    return status;
  }
  call->out[NORM_Y] = pooled[0];
  call->out[NORM_MEAN] = active[NORM_MEAN];
  call->out[NORM_INVSTD] = active[NORM_INVSTD];
  call->out[NORM_RESERVE] = pooled[1];
  return CAPL_OK;
}

/* One more op in a chain: *value := op(*value, operand). */
static capl_status chain(capl_op_id id, capl_tensor **value, capl_tensor *operand)
{
  capl_tensor *next;
  CAPL_TRY(GRAD_CALL(id, NULL, &next, *value, operand));
  capl_tensor_unref(*value);
  *value = next;
  return CAPL_OK;
}

/* A vector over the channels as (1,C) or (1,C,1,1), to be broadcast over x. */
static capl_status channel_view(capl_tensor *vector, int ndim, capl_tensor **out)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(reshape, size)] = {.n = ndim, .v = {1, vector->size[0], 1, 1}}};
  return GRAD_CALL(CAPL_OP_reshape, attr, out, vector);
}

/* What batch_norm gave for x, in x's dtype: (x - mean) * invstd * weight + bias. */
static capl_status renormalize(const capl_call *call, capl_tensor **out)
{
  static const struct {
    capl_op_id op;
    int input; /* of bn_act_grad */
  } steps[] = {{CAPL_OP_sub, 4}, {CAPL_OP_mul, 5}, {CAPL_OP_mul, 2}, {CAPL_OP_add, 3}};
  capl_tensor *x = call->in[0], *value = capl_tensor_ref(x);
  capl_status status = CAPL_OK;
  for (size_t i = 0; status == CAPL_OK && i < sizeof steps / sizeof steps[0]; i++) {
    capl_tensor *vector;
    status = channel_view(call->in[steps[i].input], x->ndim, &vector);
    if (status != CAPL_OK) break;
    status = chain(steps[i].op, &value, vector);
    capl_tensor_unref(vector);
  }
  if (status == CAPL_OK) {
    capl_attr attr[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(x->dtype)};
    status = GRAD_CALL(CAPL_OP_cast, attr, out, value);
  }
  capl_tensor_unref(value);
  return status;
}

/* The activation's gradient at batch_norm's value, then batch_norm's own gradient. relu's wants its result, whose sign
** the value has. */
static capl_status bn_act_grad_expand(const capl_call *call)
{
  capl_tensor *normalized, *masked;
  CAPL_TRY(renormalize(call, &normalized));
  capl_op_id act = call->attr[NORM_GRAD_ACT].i == NORM_SILU ? CAPL_OP_silu_grad : CAPL_OP_relu_grad;
  capl_status status = GRAD_CALL(act, NULL, &masked, normalized, call->in[1]);
  capl_tensor_unref(normalized);
  CAPL_TRY(status);
  status = GRAD_CALL(CAPL_OP_batch_norm_grad, call->attr, call->out, call->in[0], masked, call->in[2],
                     call->in[4], call->in[5]);
  capl_tensor_unref(masked);
  return status;
}

/* dy goes to the positions in reserve; where the maximum was 0 the mask of bn_act_grad stops it. */
static capl_status bn_act_pool_grad_expand(const capl_call *call)
{
  capl_tensor *x = call->in[0], *reserve = call->in[6], *scattered;
  capl_attr attr[CAPL_MAX_ATTR];
  if (reserve->dtype != CAPL_U8)
    return CAPL_FAIL(CAPL_EDTYPE, "reserve is %s: bn_act_pool on another device made it",
                     capl_dtype_name(reserve->dtype));
  pool_attrs(attr, x->size[2], x->size[3]);
  CAPL_TRY(GRAD_CALL(CAPL_OP_max_pool2d_grad, attr, &scattered, call->in[1], reserve));
  capl_status status = GRAD_CALL(CAPL_OP_bn_act_grad, call->attr, call->out, x, scattered, call->in[2],
                                 call->in[3], call->in[4], call->in[5]);
  capl_tensor_unref(scattered);
  return status;
}

/* ---- descriptors ------------------------------------------------------------------------------ */

#define NORM_INPUTS "x, weight, bias, running_mean?, running_var?"
#define BIT(i) (1u << (i))
#define NORM_MUTATES (BIT(NORM_RUNNING_MEAN) | BIT(NORM_RUNNING_VAR))
#define NORM_STATISTICS (BIT(NORM_MEAN) | BIT(NORM_INVSTD))
#define NORM_DOC_PARAMETERS                                                                                \
  "weight, bias, running_mean, running_var (C): f32, or f64 when x is f64. mean, invstd (C): what was\n"   \
  "used. eps: added to the variance. momentum: share of the batch in the running statistics. training:\n"  \
  "true uses the batch's mean and biased variance and updates the running ones, if given, in place with\n" \
  "the unbiased variance; false uses the running ones.\n"
#define NORM_DOC_ERRORS                                                                                \
  "Errors: shape if a vector is not (C); value if training sees fewer than 2 values per channel, or\n" \
  "running statistics are missing otherwise; dtype.\n"                                                 \
  "Source: S. Ioffe, C. Szegedy, \"Batch normalization\", ICML 2015."

const capl_op capl_op_batch_norm = {
    NAME_AND_ATTRS(batch_norm),
    .ins = NORM_INPUTS,
    OUTS(y, mean, invstd),
    .layout = CAPL_LAYOUT_IMAGE,
    .mutates = NORM_MUTATES,
    .save_in = BIT(NORM_X) | BIT(NORM_WEIGHT),
    .save_out = NORM_STATISTICS,
    .index_outs = NORM_STATISTICS,
    .shape = batch_norm_shape,
    .grad = batch_norm_rule,
    .doc = "Batch normalization: y = (x - mean) / sqrt(var + eps) * weight + bias, per channel.\n"
           "x (N,C) or (N,C,H,W) floating -> y of the same shape and dtype.\n" NORM_DOC_PARAMETERS
               NORM_DOC_ERRORS,
};

const capl_op capl_op_batch_norm_grad = {
    NAME_AND_ATTRS(batch_norm_grad),
    .ins = "x, dy, weight, mean, invstd",
    OUTS(dx, dweight, dbias),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = batch_norm_grad_shape,
    .doc = "Gradients of batch_norm. Not differentiable.\n"
           "x, dy (N,C) or (N,C,H,W) of one floating dtype -> dx like x; dweight, dbias (C) f32 (f64 when x\n"
           "is f64). weight, mean, invstd (C): as given to and returned by batch_norm.\n"
           "training: true differentiates the batch's mean and variance too; false takes them as constants:\n"
           "dx = dy * weight * invstd.\n" NORM_DOC_ERRORS,
};

const capl_op capl_op_bn_act = {
    NAME_AND_ATTRS(bn_act),
    .ins = NORM_INPUTS,
    OUTS(y, mean, invstd),
    .layout = CAPL_LAYOUT_IMAGE,
    .mutates = NORM_MUTATES,
    .save_in = BIT(NORM_X) | BIT(NORM_WEIGHT) | BIT(NORM_BIAS),
    .save_out = NORM_STATISTICS,
    .index_outs = NORM_STATISTICS,
    .shape = batch_norm_shape,
    .grad = bn_act_rule,
    .expand = bn_act_expand,
    .doc = "Fused batch_norm and activation: y = max(0, batch_norm(x)), or z * sigmoid(z) of z = batch_norm(x).\n"
           "x (N,C) or (N,C,H,W) floating -> y of the same shape and dtype. act: the activation.\n"
           "Only x is kept for the backward pass.\n" NORM_DOC_PARAMETERS NORM_DOC_ERRORS,
};

const capl_op capl_op_bn_act_grad = {
    NAME_AND_ATTRS(bn_act_grad),
    .ins = "x, dy, weight, bias, mean, invstd",
    OUTS(dx, dweight, dbias),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = bn_act_grad_shape,
    .expand = bn_act_grad_expand,
    .doc = "Gradients of bn_act; batch_norm's value is computed again from x. Not differentiable.\n"
           "x, dy (N,C) or (N,C,H,W) of one floating dtype -> dx like x; dweight, dbias (C) f32 (f64 when x\n"
           "is f64). weight, bias, mean, invstd (C): as given to and returned by bn_act.\n"
           "training: as in batch_norm_grad.\n" NORM_DOC_ERRORS,
};

const capl_op capl_op_bn_act_pool = {
    NAME_AND_ATTRS(bn_act_pool),
    .ins = NORM_INPUTS,
    OUTS(y, mean, invstd, reserve),
    .layout = CAPL_LAYOUT_IMAGE,
    .mutates = NORM_MUTATES,
    .save_in = BIT(NORM_X) | BIT(NORM_WEIGHT) | BIT(NORM_BIAS),
    .save_out = NORM_STATISTICS | BIT(NORM_RESERVE),
    .index_outs = NORM_STATISTICS | BIT(NORM_RESERVE),
    .shape = bn_act_pool_shape,
    .grad = bn_act_pool_rule,
    .expand = bn_act_pool_expand,
    .doc = "Fused batch_norm, activation and max_pool2d of 2x2 windows with stride 2.\n"
           "x (N,C,H,W) floating, H and W at least 2 -> y, reserve (N,C,floor(H/2),floor(W/2)); y has x's\n"
           "dtype. reserve: what the backward pass needs beside x. On ref and cpu u8: which of the window's 4\n"
           "values won, row by row; the first of equal ones, on cpu any where y is 0. On cuda of x's dtype: the\n"
           "value of x that won.\n"
           "act: the activation. Only x and reserve are kept for the backward pass.\n" NORM_DOC_PARAMETERS
               NORM_DOC_ERRORS,
};

const capl_op capl_op_bn_act_pool_grad = {
    NAME_AND_ATTRS(bn_act_pool_grad),
    .ins = "x, dy, weight, bias, mean, invstd, reserve",
    OUTS(dx, dweight, dbias),
    .layout = CAPL_LAYOUT_IMAGE,
    .shape = bn_act_pool_grad_shape,
    .expand = bn_act_pool_grad_expand,
    .doc = "Gradients of bn_act_pool. Not differentiable.\n"
           "x (N,C,H,W), dy (N,C,floor(H/2),floor(W/2)) of one floating dtype -> dx like x; dweight,\n"
           "dbias (C) f32 (f64 when x is f64). weight, bias, mean, invstd (C), reserve: as given to and\n"
           "returned by bn_act_pool on this device; u8 is accepted on every device. A window whose maximum\n"
           "is 0 passes no gradient.\n"
           "training: as in batch_norm_grad.\n" NORM_DOC_ERRORS,
};
