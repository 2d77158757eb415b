/* ctc.c -- the CTC loss and its gradient.
**
** Lengths and labels stay on the device and are never looked at here: a sample with one that is out of range, which ref
** and cpu refuse, is infeasible (ops/ctc.h).
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/ctc.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/ctc.h"

static ctc_whole_list list_of(const capl_tensor *t)
{
  return (ctc_whole_list){capl_tensor_data(t), (int)t->dtype, t->stride[0], t->ndim > 1 ? t->stride[1] : 0};
}

static ctc_inputs inputs_of(const capl_call *call)
{
  ctc_problem p = ctc_of(call);
  const capl_tensor *x = p.log_probs;
  return (ctc_inputs){
    .T = p.T, .N = p.N, .K = p.K, .S = p.S, .states = p.states, .blank = p.blank,
    .log_probs = capl_tensor_data(x), .step = x->stride[0], .sample = x->stride[1], .column = x->stride[2],
    .targets = list_of(p.targets), .input_lengths = list_of(p.input_lengths),
    .target_lengths = list_of(p.target_lengths), .mean = p.reduction == CTC_MEAN, .zero_infinity = p.zero_infinity,
  };
}

/* Threads of a block: one for each state, in whole warps. */
static int threads_for(int64_t states)
{
  return states < CTC_MOST_THREADS ? (int)(states + 31) / 32 * 32 : CTC_MOST_THREADS;
}

static capl_status launch(const capl_call *call, int kernel, int64_t blocks, const void *args)
{
  int64_t states = ctc_of(call).states;
  return cu_launch(cu_ctc_table[kernel + (int)cu_type_of(call->in[0]->dtype)], blocks, threads_for(states), 0, args);
}

static capl_status total(const capl_call *call, const ctc_forward_args *args)
{
  ctc_total_args sum = {args->losses, args->p.N, args->p.mean ? 1.0f / (float)args->p.N : 1.0f,
                        capl_tensor_data(call->out[CTC_LOSS])};
  return cu_launch(cu_ctc_table[CTC_TOTAL], 1, CTC_MOST_THREADS, 0, &sum);
}

static capl_status cu_ctc_loss(const capl_call *call)
{
  ctc_forward_args args = {.p = inputs_of(call), .alpha = capl_tensor_data(call->out[CTC_ALPHA]),
                           .infeasible = capl_tensor_data(call->out[CTC_INFEASIBLE])};
  args.losses = capl_tensor_data(call->out[CTC_LOSS]);
  if (call->attr[CTC_REDUCTION].i == CTC_NONE) return launch(call, CTC_FORWARD, args.p.N, &args);
  void *losses;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(args.p.N + 1) * sizeof(float), &losses));
  args.losses = losses;
  capl_status status = launch(call, CTC_FORWARD, args.p.N, &args);
  if (status == CAPL_OK) status = total(call, &args);
  capl_scratch_put(call->device, losses);
  return status;
}

static ctc_gradient_args gradient_of(const capl_call *call, const float *beta)
{
  const capl_tensor *infeasible = call->in[CTC_SAVED_INFEASIBLE], *dloss = call->in[CTC_DLOSS], *dx = call->out[0];
  return (ctc_gradient_args){
    .p = inputs_of(call),
    .infeasible = capl_tensor_data(infeasible), .infeasible_step = infeasible->stride[0],
    .alpha = capl_tensor_data(call->in[CTC_SAVED_ALPHA]), .beta = beta,
    .dloss = capl_tensor_data(dloss), .dloss_dtype = (int)dloss->dtype,
    .dloss_step = dloss->ndim ? dloss->stride[0] : 0, .dx = capl_tensor_data(dx), .dx_step = dx->stride[0],
    .dx_sample = dx->stride[1], .dx_column = dx->stride[2],
  };
}

static capl_status cu_ctc_loss_grad(const capl_call *call)
{
  ctc_problem p = ctc_of(call);
  void *beta;
  if (capl_tensor_numel(call->out[0]) == 0) return CAPL_OK;
  CAPL_TRY(capl_scratch_get(call->device, (size_t)(p.N * p.T * p.states) * sizeof(float), &beta));
  ctc_gradient_args args = gradient_of(call, beta);
  ctc_backward_args before = {args.p, args.infeasible, args.infeasible_step, beta};
  capl_status status = launch(call, CTC_BACKWARD, p.N, &before);
  int64_t rows = p.N * p.T, most = (int64_t)1 << 20;
  if (status == CAPL_OK) status = launch(call, CTC_GRADIENT, rows < most ? rows : most, &args);
  capl_scratch_put(call->device, beta);
  return status;
}

static bool supports_ctc(const capl_call *call)
{
  return cu_type_of(call->in[CTC_LOG_PROBS]->dtype) != CU_TYPES;
}

static bool supports_ctc_grad(const capl_call *call)
{
  return supports_ctc(call) && capl_tensor_is_row(call->in[CTC_SAVED_ALPHA]);
}

const capl_kernel cu_ctc_kernels[] = {
  {CAPL_OP_ctc_loss, cu_ctc_loss, supports_ctc, CU_REAL},
  {CAPL_OP_ctc_loss_grad, cu_ctc_loss_grad, supports_ctc_grad, CU_REAL},
  {0},
};
