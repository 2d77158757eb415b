/* ctc.c -- connectionist temporal classification: the loss of a text under class scores per time step.
**
** A text is spelled by every path of classes that gives it once runs of a class are joined and blanks dropped; its
** probability is the sum over those paths. Source: Graves, Fernandez, Gomez, Schmidhuber: Connectionist Temporal
** Classification, ICML 2006. The 2S+1 states of a text are its labels with a blank before, between and behind them.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/ctc.h"

#include <inttypes.h>
#include <string.h>

#include "ops/rules.h"


static capl_status need_whole(const capl_tensor *t, const char *name)
{
  if (t->dtype == CAPL_I32 || t->dtype == CAPL_I64) return CAPL_OK;
  CAPL_FAIL(CAPL_EDTYPE, "%s must be i32 or i64, it is %s", name, capl_dtype_name(t->dtype));
  capl_error_hint("convert it first, e.g. %s:to(\"i32\")", name);
  return CAPL_EDTYPE;
}

static capl_status need_targets(const capl_tensor *targets, int64_t N)
{
  char shape[96];
  CAPL_TRY(need_whole(targets, "targets"));
  if (targets->ndim == 2 && targets->size[0] == N) return CAPL_OK;
  CAPL_FAIL(CAPL_ESHAPE, "targets must be (N,S) with N = %lld as in log_probs (T,N,K); it is %s", (long long)N,
            capl_shape_describe(targets->ndim, targets->size, shape, sizeof shape));
  if (targets->ndim == 1)
    capl_error_hint("give each sample a row of its own; what lies behind its length may be anything, e.g. -1");
  else capl_error_hint("scores that are batch first, (N,T,K), become (T,N,K) by scores:permute(2, 1, 3)");
  return CAPL_ESHAPE;
}

static capl_status need_blank(int64_t blank, int64_t K)
{
  if (blank >= 0 && blank < K) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "blank is class %lld, log_probs has %lld classes: 0 to %lld", (long long)blank, (long long)K,
            (long long)K - 1);
  capl_error_hint("the network needs one class more than the charset; often the blank is the last one");
  return CAPL_EVALUE;
}

static capl_status check_inputs(const capl_call *call)
{
  const capl_tensor *x = call->in[CTC_LOG_PROBS];
  CAPL_TRY(need_float(x, "log_probs"));
  if (need_ndim(x, "log_probs", 3) != CAPL_OK) {
    capl_error_hint("log_probs is (T,N,K): time steps, samples, classes");
    return CAPL_ESHAPE;
  }
  CAPL_TRY(need_targets(call->in[CTC_TARGETS], x->size[1]));
  CAPL_TRY(need_whole(call->in[CTC_INPUT_LENGTHS], "input_lengths"));
  CAPL_TRY(need_vector(call->in[CTC_INPUT_LENGTHS], "input_lengths", x->size[1], "sample"));
  CAPL_TRY(need_whole(call->in[CTC_TARGET_LENGTHS], "target_lengths"));
  CAPL_TRY(need_vector(call->in[CTC_TARGET_LENGTHS], "target_lengths", x->size[1], "sample"));
  return need_blank(call->attr[CTC_BLANK].i, x->size[2]);
}

/* f64 for f64 scores, else f32. */
static capl_dtype sum_dtype(const capl_tensor *log_probs)
{
  return log_probs->dtype == CAPL_F64 ? CAPL_F64 : CAPL_F32;
}

static capl_status ctc_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(check_inputs(call));
  ctc_problem p = ctc_of(call);
  capl_dtype sums = sum_dtype(p.log_probs);
  spec_set(&out[CTC_LOSS], sums, p.reduction == CTC_NONE ? 1 : 0, &p.N);
  spec_set(&out[CTC_INFEASIBLE], CAPL_U8, 1, &p.N);
  spec_set(&out[CTC_ALPHA], sums, 3, (int64_t[]){p.N, p.T, p.states});
  return CAPL_OK;
}

static capl_status need_saved(const capl_call *call, const ctc_problem *p)
{
  const capl_tensor *alpha = call->in[CTC_SAVED_ALPHA];
  char shape[96];
  CAPL_TRY(need_vector(call->in[CTC_SAVED_INFEASIBLE], "infeasible", p->N, "sample"));
  CAPL_TRY(need_dtype(call->in[CTC_SAVED_INFEASIBLE], "infeasible", CAPL_U8));
  CAPL_TRY(need_dtype(alpha, "alpha", sum_dtype(p->log_probs)));
  if (alpha->ndim == 3 && alpha->size[0] == p->N && alpha->size[1] == p->T && alpha->size[2] == p->states)
    return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "alpha is %s, that of ctc_loss is (%lld,%lld,%lld)",
                   capl_shape_describe(alpha->ndim, alpha->size, shape, sizeof shape), (long long)p->N, (long long)p->T,
                   (long long)p->states);
}

static capl_status ctc_grad_shape(const capl_call *call, capl_out_spec *out)
{
  CAPL_TRY(check_inputs(call));
  ctc_problem p = ctc_of(call);
  const capl_tensor *dloss = call->in[CTC_DLOSS];
  char shape[96];
  CAPL_TRY(need_saved(call, &p));
  CAPL_TRY(need_float(dloss, "dloss"));
  if (p.reduction == CTC_NONE) CAPL_TRY(need_vector(dloss, "dloss", p.N, "sample"));
  else if (dloss->ndim != 0)
    return CAPL_FAIL(CAPL_ESHAPE, "dloss is %s, the loss is one number: they must have the same shape",
                     capl_shape_describe(dloss->ndim, dloss->size, shape, sizeof shape));
  return rule_like_first(call, out);
}

static capl_status ctc_grad_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  if (!dy[CTC_LOSS]) return CAPL_OK;
  return GRAD_CALL(CAPL_OP_ctc_loss_grad, node->attr, &dx[0], node->in[0], node->in[1], node->in[2], node->in[3],
                   node->out[CTC_INFEASIBLE], node->out[CTC_ALPHA], dy[CTC_LOSS]);
}

capl_status ctc_check_values(const ctc_problem *p)
{
  for (int64_t n = 0; n < p->N; n++) {
    int64_t steps = ctc_input_length(p, n), length = ctc_target_length(p, n);
    if (steps < 0 || steps > p->T)
      return CAPL_FAIL(CAPL_EVALUE, "input_lengths[%" PRId64 "] is %" PRId64 ", log_probs has %" PRId64 " time steps",
                       capl_counted(n), steps, p->T);
    if (length < 0 || length > p->S)
      return CAPL_FAIL(CAPL_EVALUE,
                       "target_lengths[%" PRId64 "] is %" PRId64 ", a row of targets has %" PRId64 " labels",
                       capl_counted(n), length, p->S);
    for (int64_t s = 0; s < length; s++) {
      int64_t label = ctc_label(p, n, s);
      if (label < 0 || label >= p->K)
        return CAPL_FAIL(CAPL_EVALUE, "targets[%" PRId64 "][%" PRId64 "] is %" PRId64 ", classes are 0 to %" PRId64,
                         capl_counted(n), capl_counted(s), label, p->K - 1);
      if (label != p->blank) continue;
      CAPL_FAIL(CAPL_EVALUE, "targets[%" PRId64 "][%" PRId64 "] is %" PRId64 ", which is the blank", capl_counted(n),
                capl_counted(s), label);
      capl_error_hint("labels are the other classes; a shorter text is said by target_lengths, not filled up with "
                      "blanks");
      return CAPL_EVALUE;
    }
  }
  return CAPL_OK;
}

const capl_op capl_op_ctc_loss = {
  NAME_AND_ATTRS(ctc_loss),
  .ins = "log_probs, targets, input_lengths, target_lengths",
  OUTS(loss, infeasible, alpha),
  .amp = CAPL_AMP_F32,
  .save_in = 15u,
  .save_out = 1u << CTC_INFEASIBLE | 1u << CTC_ALPHA,
  .index_outs = 1u << CTC_INFEASIBLE | 1u << CTC_ALPHA,
  .shape = ctc_shape,
  .grad = ctc_grad_rule,
  .doc = "Connectionist temporal classification: minus the log probability that the time steps spell the text.\n"
         "log_probs (T,N,K), any strides: logarithms of probabilities (log_softmax); targets (N,S) i32|i64, anything\n"
         "behind a sample's length; input_lengths, target_lengths (N) i32|i64 -> loss, a scalar, or (N) for reduction\n"
         "none; infeasible (N) u8; alpha (N,T,2S+1), kept for the gradient: log forward variables less the largest of\n"
         "their time step. blank: its class. reduction: mean (default; each loss by its text's length, then over N), "
         "sum,\n"
         "none. A text that no path spells has an infinite loss: infeasible is 1 if it has too few time steps "
         "(labels,\n"
         "and a blank between equal ones), 2 if its paths have probability 0, else 0. zero_infinity (default, unlike\n"
         "PyTorch, where one such sample makes the whole batch infinite): its loss counts 0. Its gradient is 0 "
         "always.\n"
         "The gradient is that of the loss as a function of log_probs, as if they need not sum to 1; PyTorch's own "
         "adds\n"
         "exp(log_probs), which log_softmax takes away again: those of the scores are the same.\n"
         "Errors: shape; dtype; value, naming the sample, for a length or label out of range. A GPU cannot raise "
         "that:\n"
         "there such a sample is infeasible 3, and counts 0 or infinity likewise.\n"
         "Graves, Fernandez, Gomez, Schmidhuber: Connectionist Temporal Classification, ICML 2006.",
};

const capl_op capl_op_ctc_loss_grad = {
  NAME_AND_ATTRS(ctc_loss_grad),
  .ins = "log_probs, targets, input_lengths, target_lengths, infeasible, alpha, dloss",
  OUTS(dlog_probs),
  .shape = ctc_grad_shape,
  .doc = "dlog_probs = -dloss * the probability of being at this class at this time, given the text.\n"
         "Inputs and outputs of ctc_loss, dloss like the loss -> dlog_probs (T,N,K); 0 for infeasible samples and "
         "behind\n"
         "input_lengths. Not differentiable.",
};
