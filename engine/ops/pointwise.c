/* pointwise.c -- the op that runs a pointwise program: its shape, its gradient, and the same op by op.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "ops/program.h"
#include "ops/rules.h"

/* ---- programs of calls ------------------------------------------------------------------------ */

static capl_status program_of(const capl_attr *attr, const program **out)
{
  *out = program_get(attr[AT(pointwise, program)].i);
  if (*out) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "there is no pointwise program number %lld", (long long)attr[AT(pointwise, program)].i);
}

static capl_status pointwise_shape(const capl_call *call, capl_out_spec *out)
{
  const program *p;
  CAPL_TRY(program_of(call->attr, &p));
  return program_infer(p, call->in, call->n_in, out, NULL);
}

/* ---- op by op --------------------------------------------------------------------------------- */

static capl_status constant_like(const capl_tensor *like, double value, capl_tensor **out)
{
  CAPL_TRY(capl_tensor_new(like->device, like->dtype, 0, NULL, CAPL_AUTO, out));
  return capl_tensor_fill(*out, value);
}

/* Calls the step's op on the values so far. */
static capl_status expand_step(const program_step *step, capl_tensor **values, capl_tensor **out)
{
  capl_attr attr[CAPL_MAX_ATTR];
  capl_tensor *in[3];
  int tensors, numbers;
  if (step->op == PROGRAM_CONST) return constant_like(values[step->arg[0]], step->number[0], out);
  program_takes((capl_op_id)step->op, &tensors, &numbers);
  for (int k = 0; k < tensors; k++) in[k] = values[step->arg[k]];
  program_attributes(step, attr);
  return capl_op_call((capl_op_id)step->op, in, tensors, attr, out);
}

static capl_status pointwise_expand(const capl_call *call)
{
  const program *p;
  capl_tensor *values[PROGRAM_VALUES] = {NULL};
  CAPL_TRY(program_of(call->attr, &p));
  for (int i = 0; i < call->n_in; i++) values[i] = call->in[i];
  capl_status status = CAPL_OK;
  for (int k = 0; k < p->n && status == CAPL_OK; k++)
    status = expand_step(&p->step[k], values, &values[PROGRAM_INPUTS + k]);
  int last = PROGRAM_INPUTS + p->n - 1;
  if (status == CAPL_OK) call->out[0] = capl_tensor_ref(values[last]);
  for (int v = PROGRAM_INPUTS; v <= last; v++) capl_tensor_unref(values[v]);
  return status;
}

/* ---- gradient --------------------------------------------------------------------------------- */

/* p with a last step that casts its result, unless that is of the dtype already. */
static capl_status cast_result(const program *p, capl_tensor *const *in, int n_in, capl_dtype dtype,
                               const program **out)
{
  capl_out_spec spec = {0};
  program_draft draft = {.n = p->n};
  int value;
  *out = p;
  CAPL_TRY(program_infer(p, in, n_in, &spec, NULL));
  if (spec.dtype == dtype) return CAPL_OK;
  memcpy(draft.step, p->step, (size_t)p->n * sizeof *p->step);
  program_step cast = {.op = CAPL_OP_cast, .arg = {PROGRAM_INPUTS + p->n - 1}, .dtype = dtype};
  CAPL_TRY(program_add(&draft, &cast, &value));
  return program_intern(&draft, value, out);
}

static capl_status cast_dy(capl_tensor *dy, capl_dtype dtype, capl_tensor **out)
{
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(cast, dtype)] = CAPL_A_INT(dtype)};
  if (dy->dtype == dtype) return *out = capl_tensor_ref(dy), CAPL_OK;
  return GRAD_CALL(CAPL_OP_cast, attr, out, dy);
}

/* The gradient of input i before it is summed over broadcast dims; NULL where there is none. in: the inputs, then
** dy. */
static capl_status wide_gradient(const program *p, capl_tensor *const *in, int n_in, int i, capl_tensor **out)
{
  gradient_kind kind;
  const program *gradient;
  CAPL_TRY(program_gradient(p, n_in, i, &kind, &gradient));
  if (kind == GRADIENT_NONE) return CAPL_OK;
  if (kind == GRADIENT_DY) return cast_dy(in[n_in], in[i]->dtype, out);
  CAPL_TRY(cast_result(gradient, in, n_in + 1, in[i]->dtype, &gradient));
  capl_attr attr[CAPL_MAX_ATTR] = {[AT(pointwise, program)] = CAPL_A_INT(gradient->id)};
  return capl_op_call(CAPL_OP_pointwise, in, n_in + 1, attr, out);
}

static capl_status pointwise_grad(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  const program *p;
  capl_tensor *in[PROGRAM_INPUTS + 1];
  if (!dy[0]) return CAPL_OK;
  CAPL_TRY(program_of(node->attr, &p));
  for (int i = 0; i < node->n_in; i++) in[i] = node->in[i];
  in[node->n_in] = dy[0];
  for (int i = 0; i < node->n_in; i++) {
    TEMP capl_tensor *wide = NULL;
    if (!node->needs[i]) continue;
    CAPL_TRY(wide_gradient(p, in, node->n_in, i, &wide));
    if (wide) CAPL_TRY(grad_unbroadcast(wide, node->in[i], &dx[i]));
  }
  return CAPL_OK;
}

const capl_op capl_op_pointwise = {
  NAME_AND_ATTRS(pointwise),
  .ins = "xs...",
  OUTS(y),
  .save_in = (1u << PROGRAM_INPUTS) - 1,
  .shape = pointwise_shape,
  .grad = pointwise_grad,
  .expand = pointwise_expand,
  .doc = "A few elementwise ops in one pass: what capl.fuse makes of a function.\n"
         "xs: up to 8 tensors (7 where a gradient is wanted) a, b, ... that broadcast -> y as the ops make it.\n"
         "program: the ops, one after the other, with the results t0, t1, ...: \"sigmoid a; mul a t0\" is SiLU;\n"
         "\"affine a 2 1\" is 2 * a + 1, \"pow a 3\", \"cast a bf16\"; \"const 0 a\" is 0 in a's dtype.\n"
         "Where a backend has no kernel the ops run one by one. Fused, they round once, at the end.\n"
         "Errors: value, if the program is none; shape and dtype as the ops in it.",
};
