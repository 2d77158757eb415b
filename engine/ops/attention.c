/* attention.c -- descriptors of scaled dot product attention and its gradient.
**
** Saved for the backward pass: the inputs, y, and one number per query, the logarithm of its sum of exponentials. No
** matrix of L x S is kept.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/attention.h"

#include <inttypes.h>
#include <string.h>

#include "ops/rules.h"

enum { TEXT = 96 };

static capl_dtype sums_dtype(const capl_tensor *q)
{
  return q->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32;
}

/* ---- shape rules ------------------------------------------------------------------------------ */

static capl_status need_matrices(const capl_tensor *t, const char *name)
{
  char text[TEXT];
  CAPL_TRY(need_float(t, name));
  if (t->ndim >= 2) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "%s is %s, (…,length,features) is needed", name,
                   capl_shape_describe(t->ndim, t->size, text, sizeof text));
}

static capl_status fail_pair(const capl_tensor *a, const char *a_name, const capl_tensor *b, const char *b_name,
                             const char *what)
{
  char left[TEXT], right[TEXT];
  return CAPL_FAIL(CAPL_ESHAPE, "%s is %s, %s is %s: %s", a_name,
                   capl_shape_describe(a->ndim, a->size, left, sizeof left), b_name,
                   capl_shape_describe(b->ndim, b->size, right, sizeof right), what);
}

static bool same_batch(const capl_tensor *a, const capl_tensor *b)
{
  return a->ndim == b->ndim && memcmp(a->size, b->size, (size_t)(a->ndim - 2) * sizeof *a->size) == 0;
}

static capl_status need_qkv(const capl_tensor *q, const capl_tensor *k, const capl_tensor *v)
{
  CAPL_TRY(need_matrices(q, "q"));
  CAPL_TRY(need_matrices(k, "k"));
  CAPL_TRY(need_matrices(v, "v"));
  CAPL_TRY(need_same_dtype(q, "q", k, "k"));
  CAPL_TRY(need_same_dtype(q, "q", v, "v"));
  if (!same_batch(q, k)) return fail_pair(q, "q", k, "k", "all dims before the last two must be the same");
  if (!same_batch(q, v)) return fail_pair(q, "q", v, "v", "all dims before the last two must be the same");
  if (q->size[q->ndim - 1] != k->size[k->ndim - 1]) return fail_pair(q, "q", k, "k", "the last dims must be the same");
  if (k->size[k->ndim - 2] != v->size[v->ndim - 2])
    return fail_pair(k, "k", v, "v", "they must have equally many rows");
  return CAPL_OK;
}

/* mask is bool or floating and can be broadcast to (...,L,S). */
static capl_status need_mask(const capl_tensor *mask, const capl_tensor *q, const capl_tensor *k)
{
  char given[TEXT], wanted[TEXT];
  int64_t size[CAPL_MAX_NDIM];
  if (!mask) return CAPL_OK;
  if (mask->dtype != CAPL_BOOL && !capl_dtype_is_float(mask->dtype))
    return CAPL_FAIL(CAPL_EDTYPE, "attn_mask is %s: it is bool (true = takes part) or floating (added to the scores)",
                     capl_dtype_name(mask->dtype));
  memcpy(size, q->size, (size_t)q->ndim * sizeof *size);
  size[q->ndim - 1] = k->size[k->ndim - 2];
  bool fits = mask->ndim <= q->ndim;
  for (int d = 1; fits && d <= mask->ndim; d++) {
    int64_t own = mask->size[mask->ndim - d];
    fits = own == 1 || own == size[q->ndim - d];
  }
  if (fits) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "attn_mask is %s, the scores are %s: every dim must be equal or 1, from the last on",
                   capl_shape_describe(mask->ndim, mask->size, given, sizeof given),
                   capl_shape_describe(q->ndim, size, wanted, sizeof wanted));
}

static capl_status need_one_mask(const capl_call *call, const capl_tensor *mask)
{
  if (!mask || !call->attr[ATTENTION_CAUSAL].i) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "is_causal and attn_mask are both given");
  capl_error_hint("leave is_causal out and put it into the mask");
  return CAPL_EVALUE;
}

static capl_status attention_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *q = call->in[ATTENTION_Q], *k = call->in[ATTENTION_K], *v = call->in[ATTENTION_V];
  const capl_tensor *mask = call->n_in > ATTENTION_MASK ? call->in[ATTENTION_MASK] : NULL;
  CAPL_TRY(need_qkv(q, k, v));
  CAPL_TRY(need_mask(mask, q, k));
  CAPL_TRY(need_one_mask(call, mask));
  spec_set(&out[0], q->dtype, q->ndim, q->size);
  out[0].size[q->ndim - 1] = v->size[v->ndim - 1];
  out[0].format = CAPL_ROW;
  out[0].like = q;
  spec_set(&out[1], sums_dtype(q), q->ndim - 1, q->size);
  out[1].format = CAPL_ROW;
  return CAPL_OK;
}

static capl_status attention_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *q = call->in[ATTENTION_Q], *k = call->in[ATTENTION_K], *v = call->in[ATTENTION_V];
  const capl_tensor *y = call->in[ATTENTION_GRAD_Y], *lse = call->in[ATTENTION_GRAD_LSE],
      *dy = call->in[ATTENTION_GRAD_DY];
  const capl_tensor *mask = call->n_in > ATTENTION_GRAD_MASK ? call->in[ATTENTION_GRAD_MASK] : NULL;
  CAPL_TRY(need_qkv(q, k, v));
  CAPL_TRY(need_mask(mask, q, k));
  CAPL_TRY(need_one_mask(call, mask));
  CAPL_TRY(need_same_shape(y, "y", dy, "dy"));
  CAPL_TRY(need_same_dtype(q, "q", y, "y"));
  CAPL_TRY(need_same_dtype(y, "y", dy, "dy"));
  if (!same_batch(q, y) || y->size[y->ndim - 2] != q->size[q->ndim - 2] || y->size[y->ndim - 1] != v->size[v->ndim - 1])
    return fail_pair(q, "q", y, "y", "y must have q's rows and v's columns");
  if (lse->ndim != q->ndim - 1 || memcmp(lse->size, q->size, (size_t)lse->ndim * sizeof *q->size) != 0)
    return fail_pair(q, "q", lse, "lse", "lse has one number per row of q");
  CAPL_TRY(need_dtype(lse, "lse", sums_dtype(q)));
  for (int i = 0; i < 3; i++) {
    spec_set(&out[i], call->in[i]->dtype, call->in[i]->ndim, call->in[i]->size);
    out[i].format = CAPL_ROW;
    out[i].like = call->in[i];
  }
  return CAPL_OK;
}

/* ---- gradient rule ---------------------------------------------------------------------------- */

static capl_status attention_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_tensor *mask = node->n_in > ATTENTION_MASK ? node->in[ATTENTION_MASK] : NULL, *got[3];
  if (mask && node->needs[ATTENTION_MASK]) {
    CAPL_FAIL(CAPL_EUNSUPPORTED, "the gradient of attn_mask would need all scores, which are not kept");
    capl_error_hint("use nn.scaled_dot_product_attention, which takes the long way for such a mask, or "
                    "attn_mask:detach()");
    return CAPL_EUNSUPPORTED;
  }
  if (!dy[0]) return CAPL_OK;
  CAPL_TRY(GRAD_CALL(CAPL_OP_scaled_dot_product_attention_grad, node->attr, got, node->in[0], node->in[1], node->in[2],
                     node->out[0], node->out[1], dy[0], mask));
  for (int i = 0; i < 3; i++) {
    if (node->needs[i]) dx[i] = got[i];
    else capl_tensor_unref(got[i]);
  }
  return CAPL_OK;
}

static double attention_macs(const capl_call *call)
{
  attention_sizes s = attention_sizes_of(call);
  return (double)s.batch * (double)s.L * (double)s.S * (double)(s.E + s.Ev);
}

/* Scores again, dV, dP, dQ, dK. */
static double attention_grad_macs(const capl_call *call)
{
  attention_sizes s = attention_sizes_of(call);
  return (double)s.batch * (double)s.L * (double)s.S * (double)(3 * s.E + 2 * s.Ev);
}

/* ---- descriptors ------------------------------------------------------------------------------ */

#define BIT(i) (1u << (i))
#define ATTENTION_DOC \
  "attn_mask: can be broadcast to (...,L,S); bool: true = takes part; floating: added to the scores. A query\n" \
  "without any key gives 0. is_causal: query i sees the keys 0..i. scale: of the scores; 0 = 1 / sqrt(E).\n" \
  "dropout_p: share of the weights set to 0, the others divided by 1 - dropout_p; which ones: as dropout of\n" \
  "(...,L,S) with seed and offset.\n"

const capl_op capl_op_scaled_dot_product_attention = {
    NAME_AND_ATTRS(scaled_dot_product_attention),
    .ins = "q, k, v, attn_mask?",
    OUTS(y, lse),
    .amp = CAPL_AMP_LOW,
    .low_in = BIT(ATTENTION_Q) | BIT(ATTENTION_K) | BIT(ATTENTION_V),
    .save_in = BIT(ATTENTION_Q) | BIT(ATTENTION_K) | BIT(ATTENTION_V) | BIT(ATTENTION_MASK),
    .save_out = BIT(0) | BIT(1),
    .index_outs = BIT(1),
    .shape = attention_shape,
    .grad = attention_rule,
    .macs = attention_macs,
    .doc = "Attention: y = softmax(q * k' * scale + mask) * v, without a matrix of all scores in memory.\n"
           "q (...,L,E), k (...,S,E), v (...,S,Ev) of one floating dtype -> y (...,L,Ev) of that dtype; lse (...,L):\n"
           "logarithm of each query's sum of exponentials, f32 or wider.\n" ATTENTION_DOC
           "Errors: shape if sizes do not fit; dtype; value if attn_mask and is_causal are both given.\n"
           "Source: A. Vaswani et al., \"Attention is all you need\", NeurIPS 2017; T. Dao et al., "
           "\"FlashAttention\",\n"
           "NeurIPS 2022.",
};

const capl_op capl_op_scaled_dot_product_attention_grad = {
    NAME_AND_ATTRS(scaled_dot_product_attention_grad),
    .ins = "q, k, v, y, lse, dy, attn_mask?",
    OUTS(dq, dk, dv),
    .shape = attention_grad_shape,
    .macs = attention_grad_macs,
    .doc = "Gradients of scaled_dot_product_attention; the scores are computed again. Not differentiable.\n"
           "q, k, v, attn_mask, y, lse: as given to and returned by the op; dy like y -> dq, dk, dv like q, k, v.\n"
           ATTENTION_DOC "Errors: as scaled_dot_product_attention.",
};
