/* optim.c -- optimizer steps over all tensors of a group in one call.
**
** The inputs are groups of equal length, one after the other: all params, all grads, all states of
** the first kind ... Everything but the gradients is written in place. A gradient that is absent
** (its parameter took no part in the loss) skips its parameter, states included, as in PyTorch.
** One tensor more, the last one, is the step control (control.h) that step_control has written.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/control.h"
#include "ops/rules.h"

static const char *const sgd_groups[] = {"params", "grads", "momentum_buffers"};
static const char *const adam_groups[] = {"params", "grads", "m", "v"};
static const char *const amsgrad_groups[] = {"params", "grads", "m", "v", "max_v"};
static const char *const rmsprop_groups[] = {"params", "grads", "square_avg", "momentum_buffer", "grad_avg"};
static const char *const muon_groups[] = {"params", "grads", "momentum_buffers"};
enum { PARAMS, GRADS };

static capl_status check_member(const capl_tensor *t, const capl_tensor *param, const char *group, int i)
{
  char have[96], want[96];
  if (!capl_tensor_same_shape(t, param))
    return CAPL_FAIL(CAPL_ESHAPE, "%s[%d] is %s, params[%d] is %s", group, i + 1,
                     capl_shape_describe(t->ndim, t->size, have, sizeof have), i + 1,
                     capl_shape_describe(param->ndim, param->size, want, sizeof want));
  if (!capl_dtype_is_float(t->dtype))
    return CAPL_FAIL(CAPL_EDTYPE, "%s[%d] must be floating point, it is %s", group, i + 1, capl_dtype_name(t->dtype));
  return CAPL_OK;
}

static capl_status check_control(const capl_tensor *control, const char *name)
{
  char have[96];
  if (!control) return CAPL_FAIL(CAPL_EVALUE, "%s is missing", name);
  bool fits = control->ndim == 1 && control->size[0] > CONTROL_LR && (control->size[0] == 1 || control->stride[0] == 1);
  if (!fits)
    return CAPL_FAIL(CAPL_ESHAPE, "%s is a row of at least %d numbers, this is %s", name, CONTROL_LR + 1,
                     capl_shape_describe(control->ndim, control->size, have, sizeof have));
  if (control->dtype != CAPL_F32 && control->dtype != CAPL_F64)
    return CAPL_FAIL(CAPL_EDTYPE, "%s must be f32, it is %s", name, capl_dtype_name(control->dtype));
  return CAPL_OK;
}

/* The step control after the groups, if there is one. */
static capl_status check_last(const capl_call *call, int n_groups, const capl_attr *shared)
{
  if (call->n_in % n_groups == 0) return CAPL_OK;
  if (call->n_in % n_groups != 1)
    return CAPL_FAIL(CAPL_EVALUE, "%d tensors cannot be cut into %d groups of equal length", call->n_in, n_groups);
  const capl_tensor *control = call->in[call->n_in - 1];
  CAPL_TRY(check_control(control, "control"));
  int64_t rates = control->size[0] - CONTROL_LR;
  if (shared[STEP_GROUP].i >= rates)
    return CAPL_FAIL(CAPL_EVALUE, "group is %lld, the control holds the rates of %lld groups",
                     (long long)shared[STEP_GROUP].i, (long long)rates);
  return CAPL_OK;
}

/* needed: bit g is set if group g must be there for every parameter that has a gradient. shared: grad_scale and what
** follows it. */
static capl_status check_groups(const capl_call *call, const char *const *names, int n_groups, unsigned needed,
                                const capl_attr *shared)
{
  int n = call->n_in / n_groups;
  CAPL_TRY(check_last(call, n_groups, shared));
  for (int i = 0; i < n; i++) {
    const capl_tensor *param = call->in[i];
    if (!param) return CAPL_FAIL(CAPL_EVALUE, "params[%d] is missing", i + 1);
    for (int g = 0; g < n_groups; g++) {
      const capl_tensor *t = call->in[g * n + i];
      if (t) CAPL_TRY(check_member(t, param, names[g], i));
      if (!t && g != GRADS && call->in[n + i] && (needed >> g & 1u))
        return CAPL_FAIL(CAPL_EVALUE, "%s[%d] is missing: these settings need it", names[g], i + 1);
    }
  }
  return CAPL_OK;
}

#define GROUP_COUNT(names) (int)(sizeof(names) / sizeof *(names))
#define GROUPS(names) names, GROUP_COUNT(names)
#define STEP_DOC                                                                                       \
  "All tensors f32 (f64 on ref), any shapes, alike across the groups; no outputs. A missing gradient skips its\n" \
  "parameter. grad_scale multiplies the gradients first: for clipping and loss scaling.\n"             \
  "One more tensor at the end is the control of step_control: lr is then that of group (from 0) in it, the number " \
  "of\n" \
  "this step is the control's less behind, grad_scale is multiplied by the control's; a skipped step changes " \
  "nothing.\n" \
  "Errors: value, for groups of unequal length or a missing state; shape, dtype."

static capl_status sgd_shape(const capl_call *call, capl_out_spec *out)
{
  (void)out;
  return check_groups(call, GROUPS(sgd_groups), call->attr[AT(sgd_step, momentum)].f != 0 ? 1u << 2 : 0,
                      &call->attr[AT(sgd_step, grad_scale)]);
}

const capl_op capl_op_sgd_step = {
  NAME_AND_ATTRS(sgd_step),
  .ins = "params_grads_momentum_buffers...",
  .outs = "",
  .step_groups = GROUP_COUNT(sgd_groups),
  .shape = sgd_shape,
  .doc = "One step of stochastic gradient descent with momentum, as in PyTorch.\n"
         "params, grads, momentum_buffers: g = grad + weight_decay * p; b = momentum * b + (1 - dampening) * g, or\n"
         "b = g on the first step; p -= lr * (nesterov: g + momentum * b, else b). Without momentum no buffers.\n" STEP_DOC,
};

static capl_status adam_shape(const capl_call *call, capl_out_spec *out)
{
  (void)out;
  return check_groups(call, GROUPS(adam_groups), 1u << 2 | 1u << 3, &call->attr[AT(adam_step, grad_scale)]);
}

const capl_op capl_op_adam_step = {
  NAME_AND_ATTRS(adam_step),
  .ins = "params_grads_m_v...",
  .outs = "",
  .step_groups = GROUP_COUNT(adam_groups),
  .shape = adam_shape,
  .doc = "One step of Adam, or of AdamW with decoupled = true, as in PyTorch.\n"
         "params, grads, m, v: weight decay goes into g (Adam) or p *= 1 - lr * weight_decay (AdamW);\n"
         "m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g * g;\n"
         "p -= lr / (1 - beta1^step) * m / (sqrt(v / (1 - beta2^step)) + eps). step counts from 1.\n" STEP_DOC,
};

static capl_status amsgrad_shape(const capl_call *call, capl_out_spec *out)
{
  (void)out;
  return check_groups(call, GROUPS(amsgrad_groups), 1u << 2 | 1u << 3 | 1u << 4,
                      &call->attr[AT(amsgrad_step, grad_scale)]);
}

const capl_op capl_op_amsgrad_step = {
  NAME_AND_ATTRS(amsgrad_step),
  .ins = "params_grads_m_v_max_v...",
  .outs = "",
  .step_groups = GROUP_COUNT(amsgrad_groups),
  .shape = amsgrad_shape,
  .doc = "One step of Adam or AdamW with amsgrad = true, as in PyTorch.\n"
         "params, grads, m, v, max_v: as adam_step, then max_v = the larger of max_v and v, whose root divides in place\n"
         "of v's.\n" STEP_DOC,
};

static capl_status rmsprop_shape(const capl_call *call, capl_out_spec *out)
{
  (void)out;
  unsigned needed = 1u << 2;
  if (call->attr[AT(rmsprop_step, momentum)].f != 0) needed |= 1u << 3;
  if (call->attr[AT(rmsprop_step, centered)].i) needed |= 1u << 4;
  return check_groups(call, GROUPS(rmsprop_groups), needed, &call->attr[AT(rmsprop_step, grad_scale)]);
}

const capl_op capl_op_rmsprop_step = {
  NAME_AND_ATTRS(rmsprop_step),
  .ins = "params_grads_square_avg_momentum_buffer_grad_avg...",
  .outs = "",
  .step_groups = GROUP_COUNT(rmsprop_groups),
  .shape = rmsprop_shape,
  .doc = "One step of RMSprop, as in PyTorch.\n"
         "params, grads, square_avg, momentum_buffer, grad_avg: g = grad + weight_decay * p;\n"
         "s = alpha * s + (1 - alpha) * g * g; centered: a = alpha * a + (1 - alpha) * g;\n"
         "u = g / (sqrt(s - a * a) + eps); momentum: b = momentum * b + u, u = b; p -= lr * u.\n"
         "Without momentum no momentum_buffer, uncentered no grad_avg: leave them out (NULL).\n" STEP_DOC,
};

static capl_status muon_shape(const capl_call *call, capl_out_spec *out)
{
  (void)out;
  char have[96];
  CAPL_TRY(check_groups(call, GROUPS(muon_groups), 1u << 2, &call->attr[AT(muon_step, grad_scale)]));
  for (int i = 0; i < call->n_in / GROUP_COUNT(muon_groups); i++)
    if (call->in[i]->ndim < 2)
      return CAPL_FAIL(CAPL_ESHAPE, "params[%d] is %s, muon_step is for matrices and convolutions", i + 1,
                       capl_shape_describe(call->in[i]->ndim, call->in[i]->size, have, sizeof have));
  return CAPL_OK;
}

const capl_op capl_op_muon_step = {
  NAME_AND_ATTRS(muon_step),
  .ins = "params_grads_momentum_buffers...",
  .outs = "",
  .step_groups = GROUP_COUNT(muon_groups),
  .shape = muon_shape,
  .doc = "One step of Muon: momentum whose matrices are made orthogonal (Jordan and others, 2024).\n"
         "params, grads, momentum_buffers: b = momentum * b + grad; m = b, or grad + momentum * b with nesterov; as a\n"
         "matrix of the first dim by all others, m divided by its norm, goes through ns_steps times\n"
         "3.4445 m - 4.7750 (m m') m + 2.0315 (m m')^2 m; p *= 1 - lr * weight_decay; p -= lr * m, which of more rows\n"
         "than columns is multiplied by the root of their ratio. Params of two dims or more.\n" STEP_DOC,
};

static capl_status grad_norm_shape(const capl_call *call, capl_out_spec *out)
{
  bool wide = true;
  for (int i = 0; i < call->n_in; i++) {
    if (!call->in[i]) continue;
    CAPL_TRY(need_float(call->in[i], "grad"));
    wide &= call->in[i]->dtype == CAPL_F64;
  }
  spec_set(out, wide ? CAPL_F64 : CAPL_F32, 0, NULL);
  return CAPL_OK;
}

const capl_op capl_op_grad_norm = {
  NAME_AND_ATTRS(grad_norm),
  .ins = "grads...",
  OUTS(norm),
  .shape = grad_norm_shape,
  .doc = "L2 norm over all elements of all tensors together, for clipping.\n"
         "grads: any shapes, floating point, missing ones are skipped -> norm, a scalar f32 (f64 if all are f64).\n"
         "Not differentiable.",
};

static capl_status step_control_shape(const capl_call *call, capl_out_spec *out)
{
  (void)out;
  const capl_tensor *state = call->in[0], *norm = call->n_in > 1 ? call->in[1] : NULL;
  const capl_tensor *common = call->n_in > 2 ? call->in[2] : NULL;
  CAPL_TRY(check_control(state, "state"));
  if (norm) {
    CAPL_TRY(need_same_dtype(state, "state", norm, "norm"));
    if (capl_tensor_numel(norm) != 1) return CAPL_FAIL(CAPL_ESHAPE, "norm is one number, as grad_norm gives it");
  }
  if (common) CAPL_TRY(check_control(common, "common"));
  bool needs_norm = call->attr[CONTROL_MAX_NORM].f > 0 || call->attr[CONTROL_SCALING].i;
  if (needs_norm && !norm) return CAPL_FAIL(CAPL_EVALUE, "max_norm and scaling need the norm of the gradients");
  if (call->attr[CONTROL_SCALING].i && common)
    return CAPL_FAIL(CAPL_EVALUE, "scaling: with a common control that one scales, not each of its parts");
  return CAPL_OK;
}

const capl_op capl_op_step_control = {
  NAME_AND_ATTRS(step_control),
  .ins = "state, norm?, common?",
  .outs = "",
  .mutates = 1u << 0,
  .shape = step_control_shape,
  .doc = "Decides about one step of an optimizer, on the device: are the gradients finite, what multiplies them.\n"
         "state f32 (8 + groups), written: loss scale, finite steps since it changed, steps made, steps skipped, "
         "multiplier\n"
         "of the gradients, whether this step is skipped, norm, growths of the scale, then the rate of each group, "
         "which\n"
         "are left alone. norm: of all gradients as grad_norm gives it, still with the scale in it. With scaling the\n"
         "multiplier is 1 / scale, and the scale changes as PyTorch's GradScaler changes it: times backoff_factor "
         "when the\n"
         "norm is not finite, times growth_factor after growth_interval finite steps in a row. With max_norm above 0 "
         "the\n"
         "multiplier also brings the norm to at most that. A step whose norm is not finite is skipped: it does not "
         "count.\n"
         "common: the control of several optimizers that step together; its skip and its multiplier hold here too.\n"
         "No outputs. Errors: value, shape, dtype.",
};
