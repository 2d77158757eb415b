/* dice.c -- areas of predicted and labelled regions and of what they share, in one pass: what dice losses are made
** of. SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "ops/attrs.h"
#include "ops/rules.h"

static capl_dtype sums_dtype(const capl_tensor *x)
{
  return x->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32;
}

static capl_status check_regions(const capl_tensor *x, const capl_tensor *labels)
{
  char have[96], want[96];
  CAPL_TRY(need_float(x, "x"));
  CAPL_TRY(need_ndim(x, "x", 3));
  if (labels->dtype != CAPL_I32 && labels->dtype != CAPL_I64)
    return CAPL_FAIL(CAPL_EDTYPE, "labels must be i32 or i64, they are %s", capl_dtype_name(labels->dtype));
  if (labels->ndim == 2 && labels->size[0] == x->size[0] && labels->size[1] == x->size[1]) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "labels are %s, x is %s: one label is needed for each row of classes",
                   capl_shape_describe(labels->ndim, labels->size, have, sizeof have),
                   capl_shape_describe(x->ndim, x->size, want, sizeof want));
}

static capl_status dice_sums_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  CAPL_TRY(check_regions(x, call->in[1]));
  spec_set(out, sums_dtype(x), 3, (int64_t[]){x->size[0], REGION_SUMS, x->size[2]});
  return CAPL_OK;
}

static capl_status dice_sums_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0], *dsums = call->in[2];
  char have[96];
  CAPL_TRY(check_regions(x, call->in[1]));
  if (dsums->ndim != 3 || dsums->size[0] != x->size[0] || dsums->size[1] != REGION_SUMS || dsums->size[2] != x->size[2])
    return CAPL_FAIL(CAPL_ESHAPE, "dsums is %s, the sums are (%lld,3,%lld)",
                     capl_shape_describe(dsums->ndim, dsums->size, have, sizeof have), (long long)x->size[0],
                     (long long)x->size[2]);
  return rule_like_first(call, out);
}

static capl_status dice_sums_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (!node->needs[0]) return CAPL_OK;
  return GRAD_CALL(CAPL_OP_dice_sums_grad, node->attr, &dx[0], node->in[0], node->in[1], dy[0]);
}


const capl_op capl_op_dice_sums = {
  NAME_AND_ATTRS(dice_sums),
  .ins = "x, labels",
  OUTS(sums),
  .amp = CAPL_AMP_F32,
  .layout = CAPL_LAYOUT_ROW,
  .save_in = 3u,
  .shape = dice_sums_shape,
  .grad = dice_sums_rule,
  .doc = "Areas of regions: per image and class what prediction and labels share, what is predicted, what is "
         "labelled.\n"
         "x (N,R,K): scores of K classes at R places; labels (N,R) i32|i64 in 0..K-1 -> sums (N,3,K) f32: of p where "
         "the\n"
         "label is the class, of p, of labels; p = softmax(x) over K, or x itself with activation none. Places "
         "labelled\n"
         "ignore_index count nothing. Differentiable in x only.\n"
         "Errors: shape; dtype; value, naming the place, for a label outside 0..K-1. A GPU cannot raise that: there "
         "the\n"
         "sums of such an image are NaN.",
};

const capl_op capl_op_dice_sums_grad = {
  NAME_AND_ATTRS(dice_sums_grad),
  .ins = "x, labels, dsums",
  OUTS(dx),
  .layout = CAPL_LAYOUT_ROW,
  .shape = dice_sums_grad_shape,
  .doc = "The gradient of dice_sums.\nx (N,R,K), labels (N,R), dsums (N,3,K) -> dx (N,R,K). Not differentiable.",
};
