/* pointwise.c -- ref kernel of pointwise programs: step by step in double precision, rounded once at the end.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/ref/ref.h"
#include "ops/program.h"

/* Room for a step's value, as large as the result: floats as f64, except that a cast really rounds. */
static capl_status value_new(const capl_call *call, const program_step *step, capl_dtype dtype, capl_tensor **out)
{
  const capl_tensor *y = call->out[0];
  bool exact = capl_dtype_is_float(dtype) && step->op != CAPL_OP_cast;
  return capl_tensor_new(call->device, exact ? CAPL_F64 : dtype, y->ndim, y->size, CAPL_AUTO, out);
}

static capl_status run_step(const capl_call *call, const program_step *step, capl_tensor **values, capl_tensor *out)
{
  capl_attr attr[CAPL_MAX_ATTR];
  capl_tensor *in[3];
  int tensors, numbers;
  if (step->op == PROGRAM_CONST) return capl_tensor_fill(out, step->number[0]);
  program_takes((capl_op_id)step->op, &tensors, &numbers);
  for (int k = 0; k < tensors; k++) in[k] = values[step->arg[k]];
  program_attributes(step, attr);
  capl_call one = {.op = capl_op_get((capl_op_id)step->op), .in = in, .n_in = tensors, .out = &out, .attr = attr,
                   .id = (capl_op_id)step->op, .device = call->device};
  return call->device->kernels[step->op]->run(&one);
}

static capl_status run_steps(const capl_call *call, const program *p, const capl_dtype *dtypes, capl_tensor **values)
{
  for (int k = 0; k < p->n; k++) {
    int v = PROGRAM_INPUTS + k;
    CAPL_TRY(value_new(call, &p->step[k], dtypes[v], &values[v]));
    CAPL_TRY(run_step(call, &p->step[k], values, values[v]));
  }
  return capl_tensor_copy(call->out[0], values[PROGRAM_INPUTS + p->n - 1]);
}

static capl_status ref_pointwise(const capl_call *call)
{
  const program *p = program_get(call->attr[AT(pointwise, program)].i);
  capl_tensor *values[PROGRAM_VALUES] = {NULL};
  capl_dtype dtypes[PROGRAM_VALUES];
  capl_out_spec spec = {0};
  CAPL_TRY(program_infer(p, call->in, call->n_in, &spec, dtypes));
  for (int i = 0; i < call->n_in; i++) values[i] = call->in[i];
  capl_status status = run_steps(call, p, dtypes, values);
  for (int k = 0; k < p->n; k++) capl_tensor_unref(values[PROGRAM_INPUTS + k]);
  return status;
}

/* Integers keep their own rules: those programs run op by op. */
static bool supports_pointwise(const capl_call *call)
{
  return program_is_real(program_get(call->attr[AT(pointwise, program)].i), call->in, call->n_in);
}

const capl_kernel ref_pointwise_kernels[] = {
  {CAPL_OP_pointwise, ref_pointwise, supports_pointwise, 0},
  {0},
};
