/* loss.c -- losses: from predictions and targets to a number to make small.
**
** Losses are f32 (f64 for f64 input), whatever the predictions are, and computed so: kernels that read 16-bit
** predictions (.kernel_casts) convert them. Attribute reduction, as in PyTorch: mean, sum, or none, which keeps one
** loss per row or element.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "ops/rules.h"

enum { MEAN, SUM, NONE };
#define REDUCTION_DOC "reduction: mean (default), sum, none."

static capl_dtype loss_dtype(const capl_tensor *x)
{
  return x->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32;
}

/* One loss per entry of size, or a single one. */
static void spec_loss(const capl_tensor *x, int64_t reduction, int ndim, const int64_t *size, capl_out_spec *out)
{
  spec_set(out, loss_dtype(x), reduction == NONE ? ndim : 0, size);
}

/* dloss has the shape of the loss: one number, or as many as size says for reduction none. */
static capl_status need_dloss(const capl_call *call, int64_t reduction, int ndim, const int64_t *size)
{
  const capl_tensor *dloss = call->in[2];
  char have[96], want[96];
  if (reduction != NONE) ndim = 0;
  if (dloss->ndim == ndim && memcmp(dloss->size, size, (size_t)ndim * sizeof *size) == 0) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "dloss is %s, the loss is %s: they must have the same shape",
                   capl_shape_describe(dloss->ndim, dloss->size, have, sizeof have),
                   capl_shape_describe(ndim, size, want, sizeof want));
}

/* cross_entropy */


static capl_status check_logits(const capl_tensor *logits, const capl_tensor *labels)
{
  CAPL_TRY(need_float(logits, "logits"));
  if (need_ndim(logits, "logits", 2) != CAPL_OK) {
    capl_error_hint("give one row of classes per label, e.g. logits:reshape(-1, K) and labels:reshape(-1)");
    return CAPL_ESHAPE;
  }
  if (labels->dtype != CAPL_I32 && labels->dtype != CAPL_I64)
    return CAPL_FAIL(CAPL_EDTYPE, "labels must be i32 or i64, they are %s", capl_dtype_name(labels->dtype));
  return need_vector(labels, "labels", logits->size[0], "row of logits");
}

/* weight: one per class, or left out. */
static capl_status check_weight(const capl_call *call, int i)
{
  const capl_tensor *weight = i < call->n_in ? call->in[i] : NULL;
  double gamma = call->attr[AT(cross_entropy, gamma)].f, smoothing = call->attr[AT(cross_entropy, label_smoothing)].f;
  if (gamma > 0 && smoothing > 0)
    return CAPL_FAIL(CAPL_EVALUE, "gamma is %g and label_smoothing %g: one of them must be 0", gamma, smoothing);
  if (!weight) return CAPL_OK;
  CAPL_TRY(need_float(weight, "weight"));
  return need_vector(weight, "weight", call->in[0]->size[1], "class");
}

static capl_status cross_entropy_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *logits = call->in[0], *labels = call->in[1];
  CAPL_TRY(check_logits(logits, labels));
  CAPL_TRY(check_weight(call, 2));
  spec_loss(logits, call->attr[AT(cross_entropy, reduction)].i, 1, labels->size, out);
  return CAPL_OK;
}

static capl_status cross_entropy_grad_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(check_logits(call->in[0], call->in[1]));
  CAPL_TRY(check_weight(call, 3));
  CAPL_TRY(need_dloss(call, call->attr[AT(cross_entropy, reduction)].i, 1, call->in[0]->size));
  return rule_like_first(call, out);
}

/* An input that asks for a gradient and would silently get none. */
static capl_status no_gradient(const char *name)
{
  CAPL_FAIL(CAPL_EUNSUPPORTED, "%s requires a gradient, which this loss does not have", name);
  capl_error_hint("give it without its history: %s:detach()", name);
  return CAPL_EUNSUPPORTED;
}

static capl_status cross_entropy_grad_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_tensor *weight = node->n_in > 2 ? node->in[2] : NULL;
  if (weight && node->needs[2]) return no_gradient("weight");
  if (!node->needs[0]) return CAPL_OK;
  return GRAD_CALL(CAPL_OP_cross_entropy_grad, node->attr, &dx[0], node->in[0], node->in[1], dy[0], weight);
}

const capl_op capl_op_cross_entropy = {
  NAME_AND_ATTRS(cross_entropy),
  .ins = "logits, labels, weight?",
  OUTS(loss),
  .amp = CAPL_AMP_F32,
  .kernel_casts = 1u,
  .layout = CAPL_LAYOUT_ROW,
  .save_in = 7u,
  .shape = cross_entropy_shape,
  .grad = cross_entropy_grad_rule,
  .doc = "Cross-entropy between softmax(logits) and integer labels.\n"
         "logits (N,K); labels (N) i32|i64 in 0..K-1; weight (K) of the classes -> loss, a scalar, or (N) for "
         "reduction none.\n"
         "weight multiplies what each class costs; a mean is then by the weights of the labels. gamma g: rows count\n"
         "(1 - p)^g of their label's probability p, as in focal loss. Differentiable in logits only.\n"
         "label_smoothing e: the target is 1 - e at the label plus e/K everywhere. Rows labelled ignore_index count\n"
         "nothing, also not in the mean; the mean of no rows is NaN. " REDUCTION_DOC "\n"
         "Errors: shape; dtype, for other labels; value, naming the row, for a label outside 0..K-1. A GPU cannot\n"
         "raise that: there the loss and the gradient of such a row are NaN.",
};

const capl_op capl_op_cross_entropy_grad = {
  NAME_AND_ATTRS(cross_entropy_grad),
  .ins = "logits, labels, dloss, weight?",
  OUTS(dlogits),
  .layout = CAPL_LAYOUT_ROW,
  .shape = cross_entropy_grad_shape,
  .doc = "dlogits = (softmax(logits) - target) * dloss, by the counted rows for reduction mean.\n"
         "logits (N,K), labels (N), dloss a scalar, or (N) for reduction none, weight (K) -> dlogits (N,K).\n"
         "Not differentiable.",
};

/* bce_with_logits */

static capl_status bce_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  CAPL_TRY(need_float(x, "x"));
  CAPL_TRY(need_same_shape(x, "x", call->in[1], "target"));
  spec_loss(x, call->attr[LOSS_REDUCTION].i, x->ndim, x->size, out);
  if (call->attr[LOSS_REDUCTION].i == NONE) out->like = x;
  return CAPL_OK;
}

static capl_status bce_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  CAPL_TRY(need_float(x, "x"));
  CAPL_TRY(need_same_shape(x, "x", call->in[1], "target"));
  CAPL_TRY(need_dloss(call, call->attr[LOSS_REDUCTION].i, x->ndim, x->size));
  return rule_like_first(call, out);
}

/* The slope of the loss by target is -x: dtarget = -x * dloss * share. */
static capl_status bce_target_grad(const capl_node *node, capl_tensor *dloss, double share, capl_tensor **out)
{
  TEMP capl_tensor *product = NULL, *slope = NULL;
  capl_attr dtype[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(node->in[1]->dtype)};
  CAPL_TRY(GRAD_CALL(CAPL_OP_mul, NULL, &product, node->in[0], dloss));
  CAPL_TRY(grad_affine(product, -share, 0, &slope));
  return GRAD_CALL(CAPL_OP_cast, dtype, out, slope);
}

static double mean_share(const capl_node *node)
{
  int64_t n = capl_tensor_numel(node->in[0]);
  return node->attr[LOSS_REDUCTION].i == MEAN && n > 0 ? 1 / (double)n : 1;
}

static capl_status bce_grad_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (node->needs[0])
    CAPL_TRY(GRAD_CALL(CAPL_OP_bce_with_logits_grad, node->attr, &dx[0], node->in[0], node->in[1], dy[0]));
  return node->needs[1] ? bce_target_grad(node, dy[0], mean_share(node), &dx[1]) : CAPL_OK;
}

const capl_op capl_op_bce_with_logits = {
  NAME_AND_ATTRS(bce_with_logits),
  .ins = "x, target",
  OUTS(loss),
  .amp = CAPL_AMP_F32,
  .kernel_casts = 1u,
  .layout = CAPL_LAYOUT_DENSE,
  .save_in = 3u,
  .shape = bce_shape,
  .grad = bce_grad_rule,
  .doc = "Binary cross-entropy between sigmoid(x) and target, element by element.\n"
         "x: any shape; target: the same, any dtype, 0..1 -> loss, a scalar, or of x's shape for reduction none.\n"
         "Differentiable in both. " REDUCTION_DOC "\n"
         "Errors: shape, if x and target differ; dtype, if x is no float.",
};

const capl_op capl_op_bce_with_logits_grad = {
  NAME_AND_ATTRS(bce_with_logits_grad),
  .ins = "x, target, dloss",
  OUTS(dx),
  .layout = CAPL_LAYOUT_DENSE,
  .shape = bce_grad_shape,
  .doc = "dx = (sigmoid(x) - target) * dloss, by the number of elements for reduction mean.\n"
         "x, target: the same shape; dloss a scalar, or of that shape for reduction none -> dx like x.\n"
         "Not differentiable.",
};

/* smooth_l1, sigmoid_focal: reduction, then the loss's own numbers */

static capl_status smooth_l1_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *slope = NULL, *negative = NULL;
  capl_attr dtype[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(node->in[1]->dtype)};
  CAPL_TRY(GRAD_CALL(CAPL_OP_smooth_l1_grad, node->attr, &slope, node->in[0], node->in[1], dy[0]));
  if (node->needs[0]) dx[0] = capl_tensor_ref(slope);
  if (!node->needs[1]) return CAPL_OK;
  CAPL_TRY(grad_affine(slope, -1, 0, &negative));
  return GRAD_CALL(CAPL_OP_cast, dtype, &dx[1], negative);
}

static capl_status sigmoid_focal_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (node->needs[1]) return no_gradient("target");
  if (!node->needs[0]) return CAPL_OK;
  return GRAD_CALL(CAPL_OP_sigmoid_focal_grad, node->attr, &dx[0], node->in[0], node->in[1], dy[0]);
}

#define ELEMENT_LOSS(op, text, slope)                                                                                  \
  const capl_op capl_op_##op = {NAME_AND_ATTRS(op), .ins = "x, target", OUTS(loss),                                    \
                                .amp = CAPL_AMP_F32, .layout = CAPL_LAYOUT_DENSE, .save_in = 3u, .shape = bce_shape,   \
                                .grad = op##_rule,                                                                     \
                                .doc = text "\n"                                                                       \
                                       "x: any shape; target: the same, any dtype -> loss, a scalar, or of x's shape " \
                                       "for reduction none.\n" REDUCTION_DOC "\n"                                      \
                                       "Errors: shape, if x and target differ; dtype, if x is no float."};             \
  const capl_op capl_op_##op##_grad = {NAME_AND_ATTRS(op##_grad), .ins = "x, target, dloss", OUTS(dx),                 \
                                       .layout = CAPL_LAYOUT_DENSE, .shape = bce_grad_shape,                           \
                                       .doc = slope "\n"                                                               \
                                              "x, target: the same shape; dloss a scalar, or of that shape for "       \
                                              "reduction none -> dx like x.\nNot differentiable."};

ELEMENT_LOSS(smooth_l1,
             "Absolute error, squared where it is small: d = |x - target|; d^2 / (2 beta) where d < beta, else d - "
             "beta / 2.\n"
             "beta 0: the absolute error itself. Differentiable in both.",
             "dx = clamp((x - target) / beta, -1, 1) * dloss, by the number of elements for reduction mean.")

ELEMENT_LOSS(sigmoid_focal,
             "Focal loss: bce_with_logits times (1 - p)^gamma of the probability p that x gives to target, 0..1.\n"
             "alpha: weight of target 1, with 1 - alpha for 0; below 0: none. Differentiable in x only.",
             "dx = the slope of sigmoid_focal * dloss, by the number of elements for reduction mean.")

/* multilabel_soft_margin */

static capl_status margin_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  CAPL_TRY(need_float(x, "x"));
  CAPL_TRY(need_ndim(x, "x", 2));
  CAPL_TRY(need_same_shape(x, "x", call->in[1], "target"));
  spec_loss(x, call->attr[LOSS_REDUCTION].i, 1, x->size, out);
  return CAPL_OK;
}

/* x in at least f32: an expanded loss is as exact as the fused one. */
static capl_status widened(capl_tensor *x, capl_tensor **out)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(loss_dtype(x))};
  if (x->dtype != loss_dtype(x)) return GRAD_CALL(CAPL_OP_cast, attr, out, x);
  *out = capl_tensor_ref(x);
  return CAPL_OK;
}

/* The mean over K of every row, then the reduction over N. */
static capl_status margin_expand(const capl_call *call)
{
  TEMP capl_tensor *x = NULL, *each = NULL, *rows = NULL;
  capl_attr none[CAPL_MAX_ATTR] = {[LOSS_REDUCTION] = CAPL_A_INT(NONE)};
  capl_attr over_classes[CAPL_MAX_ATTR] = {[AT(mean, dims)] = {.n = 1, .v = {1}}};
  capl_attr over_all[CAPL_MAX_ATTR] = {[AT(mean, dims)] = {.n = 0}};
  int64_t reduction = call->attr[LOSS_REDUCTION].i;
  CAPL_TRY(widened(call->in[0], &x));
  CAPL_TRY(GRAD_CALL(CAPL_OP_bce_with_logits, none, &each, x, call->in[1]));
  if (reduction == NONE) return GRAD_CALL(CAPL_OP_mean, over_classes, &call->out[0], each);
  CAPL_TRY(GRAD_CALL(CAPL_OP_mean, over_classes, &rows, each));
  return GRAD_CALL(reduction == SUM ? CAPL_OP_sum : CAPL_OP_mean, over_all, &call->out[0], rows);
}

/* dloss of an element: shared by the K classes of its row, unless the mean has counted them already. */
static capl_status margin_dloss(const capl_node *node, capl_tensor *dloss, capl_tensor **out)
{
  TEMP capl_tensor *share = NULL;
  const capl_tensor *x = node->in[0];
  capl_attr classes = {.n = 1, .v = {1}};
  if (node->attr[LOSS_REDUCTION].i == MEAN) return *out = capl_tensor_ref(dloss), CAPL_OK;
  CAPL_TRY(grad_affine(dloss, x->size[1] ? 1.0 / (double)x->size[1] : 0, 0, &share));
  if (node->attr[LOSS_REDUCTION].i == NONE) return grad_expand_reduced(share, x, &classes, out);
  return *out = capl_tensor_ref(share), CAPL_OK;
}

/* Those of bce_with_logits. */
static capl_status margin_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *dloss = NULL;
  CAPL_TRY(margin_dloss(node, dy[0], &dloss));
  return bce_grad_rule(node, &dloss, dx);
}

const capl_op capl_op_multilabel_soft_margin = {
  NAME_AND_ATTRS(multilabel_soft_margin),
  .ins = "x, target",
  OUTS(loss),
  .amp = CAPL_AMP_F32,
  .kernel_casts = 1u,
  .layout = CAPL_LAYOUT_DENSE,
  .save_in = 3u,
  .shape = margin_shape,
  .grad = margin_grad,
  .expand = margin_expand,
  .doc = "Multi-label one-versus-all loss: the mean over the classes of bce_with_logits.\n"
         "x (N,K); target (N,K), any dtype, 0..1 -> loss, a scalar, or (N) for reduction none.\n"
         "Differentiable in both. " REDUCTION_DOC "\n"
         "Errors: shape, if x and target differ or are not 2-d; dtype, if x is no float.",
};

/* mse */

static capl_status mse_expand(const capl_call *call)
{
  TEMP capl_tensor *x = NULL, *error = NULL;
  capl_attr over_all[CAPL_MAX_ATTR] = {[AT(mean, dims)] = {.n = 0}};
  int64_t reduction = call->attr[LOSS_REDUCTION].i;
  CAPL_TRY(widened(call->in[0], &x));
  CAPL_TRY(GRAD_CALL(CAPL_OP_sub, NULL, &error, x, call->in[1]));
  if (reduction == NONE) return GRAD_CALL(CAPL_OP_mul, NULL, &call->out[0], error, error);
  TEMP capl_tensor *square = NULL;
  CAPL_TRY(GRAD_CALL(CAPL_OP_mul, NULL, &square, error, error));
  return GRAD_CALL(reduction == SUM ? CAPL_OP_sum : CAPL_OP_mean, over_all, &call->out[0], square);
}

/* dx = 2 * (x - target) * dloss, by the number of elements for the mean; dtarget = -dx */
static capl_status mse_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  TEMP capl_tensor *error = NULL, *scaled = NULL, *slope = NULL;
  capl_attr dtype[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(node->in[0]->dtype)};
  double count = node->attr[LOSS_REDUCTION].i == MEAN ? (double)capl_tensor_numel(node->in[0]) : 1;
  CAPL_TRY(GRAD_CALL(CAPL_OP_sub, NULL, &error, node->in[0], node->in[1]));
  CAPL_TRY(grad_affine(error, count > 0 ? 2 / count : 0, 0, &scaled));
  CAPL_TRY(GRAD_CALL(CAPL_OP_mul, NULL, &slope, scaled, dy[0]));
  if (node->needs[0]) CAPL_TRY(GRAD_CALL(CAPL_OP_cast, dtype, &dx[0], slope));
  if (!node->needs[1]) return CAPL_OK;
  TEMP capl_tensor *negative = NULL;
  CAPL_TRY(grad_affine(slope, -1, 0, &negative));
  dtype[0].i = node->in[1]->dtype;
  return GRAD_CALL(CAPL_OP_cast, dtype, &dx[1], negative);
}

const capl_op capl_op_mse = {
  NAME_AND_ATTRS(mse),
  .ins = "x, target",
  OUTS(loss),
  .amp = CAPL_AMP_F32,
  .layout = CAPL_LAYOUT_DENSE,
  .save_in = 3u,
  .shape = bce_shape,
  .grad = mse_grad,
  .expand = mse_expand,
  .doc = "Squared error (x - target)^2.\n"
         "x: any shape; target: the same -> loss, a scalar, or of x's shape for reduction none.\n"
         "Differentiable in both. " REDUCTION_DOC "\n"
         "Errors: shape, if x and target differ; dtype, if x is no float.",
};
