/* ctc.h -- one call of ctc_loss or its gradient: sizes, attributes, and how a sample's labels and lengths are read.
**
** Shape rules and the kernels that run on the host share these functions, so they cannot disagree about a sample.
** Kernels of a GPU share the numbers alone.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_CTC_H
#define CAPL_OPS_CTC_H

#include "ops/attrs.h"

/* Inputs of ctc_loss; its gradient has three more ... */
enum { CTC_LOG_PROBS, CTC_TARGETS, CTC_INPUT_LENGTHS, CTC_TARGET_LENGTHS, CTC_SAVED_INFEASIBLE, CTC_SAVED_ALPHA,
      CTC_DLOSS };
/* ... outputs, attributes of both, and the choices of reduction. */
enum { CTC_LOSS, CTC_INFEASIBLE, CTC_ALPHA };
enum {
  CTC_BLANK = AT(ctc_loss, blank),
  CTC_REDUCTION = AT(ctc_loss, reduction),
  CTC_ZERO_INFINITY = AT(ctc_loss, zero_infinity),
};
enum { CTC_MEAN, CTC_SUM, CTC_NONE };

/* What output infeasible says of a sample. */
enum {
  CTC_FEASIBLE,
  CTC_TOO_SHORT,  /* fewer time steps than labels and the blanks between equal ones */
  CTC_IMPOSSIBLE, /* the steps would do, but every path meets a log probability of -inf */
  CTC_INVALID,    /* a length or label outside its range, on devices whose values the host cannot check */
};

#ifndef __cplusplus

typedef struct {
  const capl_tensor *log_probs, *targets, *input_lengths, *target_lengths;
  int64_t T, N, K, S; /* S: columns of targets */
  int64_t states;     /* columns of alpha: 2 * S + 1 */
  int64_t blank, reduction;
  bool zero_infinity;
} ctc_problem;

static inline ctc_problem ctc_of(const capl_call *call)
{
  const capl_tensor *x = call->in[CTC_LOG_PROBS], *targets = call->in[CTC_TARGETS];
  return (ctc_problem){
    .log_probs = x,
    .targets = targets,
    .input_lengths = call->in[CTC_INPUT_LENGTHS],
    .target_lengths = call->in[CTC_TARGET_LENGTHS],
    .T = x->size[0], .N = x->size[1], .K = x->size[2],
    .S = targets->size[1],
    .states = 2 * targets->size[1] + 1,
    .blank = call->attr[CTC_BLANK].i,
    .reduction = call->attr[CTC_REDUCTION].i,
    .zero_infinity = call->attr[CTC_ZERO_INFINITY].i != 0,
  };
}

/* Element i of an i32 or i64 tensor that the host can read; strides already multiplied in. */
static inline int64_t ctc_whole(const capl_tensor *t, int64_t i)
{
  const void *p = capl_tensor_data(t);
  return t->dtype == CAPL_I64 ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

static inline int64_t ctc_label(const ctc_problem *p, int64_t n, int64_t s)
{
  return ctc_whole(p->targets, n * p->targets->stride[0] + s * p->targets->stride[1]);
}

static inline int64_t ctc_input_length(const ctc_problem *p, int64_t n)
{
  return ctc_whole(p->input_lengths, n * p->input_lengths->stride[0]);
}

static inline int64_t ctc_target_length(const ctc_problem *p, int64_t n)
{
  return ctc_whole(p->target_lengths, n * p->target_lengths->stride[0]);
}

/* Time steps that sample n needs: its labels, and a blank between two equal ones. */
static inline int64_t ctc_needs(const ctc_problem *p, int64_t n)
{
  int64_t length = ctc_target_length(p, n), needs = length;
  for (int64_t s = 1; s < length; s++) needs += ctc_label(p, n, s) == ctc_label(p, n, s - 1);
  return needs;
}

/* Why the loss of sample n is infinite. */
static inline int ctc_reason(const ctc_problem *p, int64_t n)
{
  return ctc_input_length(p, n) < ctc_needs(p, n) ? CTC_TOO_SHORT : CTC_IMPOSSIBLE;
}

/* The loss of sample n as it counts, before it is summed. */
static inline double ctc_counted(const ctc_problem *p, int64_t n, double loss, bool infeasible)
{
  int64_t length = ctc_target_length(p, n);
  if (infeasible && p->zero_infinity) return 0;
  return p->reduction == CTC_MEAN && length > 1 ? loss / (double)length : loss;
}

/* What dloss is multiplied by on its way to sample n. */
static inline double ctc_share(const ctc_problem *p, int64_t n)
{
  int64_t length = ctc_target_length(p, n);
  return p->reduction == CTC_MEAN ? 1 / ((double)p->N * (double)(length > 1 ? length : 1)) : 1;
}

/* EVALUE, naming the sample, unless all lengths and labels are in range. Reads the values: not for devices. */
CAPL_API capl_status ctc_check_values(const ctc_problem *p);

#endif

#endif
