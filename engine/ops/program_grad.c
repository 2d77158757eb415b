/* program_grad.c -- derivatives of pointwise programs, which are programs again.
**
** The rules are those of the ops (elementwise.c), written as steps. Values of the forward pass that a rule reads are
** computed anew from the inputs: cheaper, in one pass over memory, than to keep them.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "ops/program.h"

enum { NO_VALUE = -1, KEPT = 256 };

/* The program being written, and per value of p: where it is, its gradient so far, and whether it follows the input. */
typedef struct {
  program_draft draft;
  int place[PROGRAM_VALUES], gradient[PROGRAM_VALUES];
  bool follows[PROGRAM_VALUES];
  capl_status status; /* of the first step that failed; those after it do nothing */
} chain;

/* ---- writing steps ---------------------------------------------------------------------------- */

static int add_step(chain *c, program_step step)
{
  int value = 0;
  if (c->status == CAPL_OK) c->status = program_add(&c->draft, &step, &value);
  return value;
}

static int two(chain *c, capl_op_id op, int a, int b)
{
  return add_step(c, (program_step){.op = (int)op, .arg = {a, b}});
}

static int one(chain *c, capl_op_id op, int a)
{
  return add_step(c, (program_step){.op = (int)op, .arg = {a}});
}

static int scaled(chain *c, int a, double scale, double shift)
{
  return add_step(c, (program_step){.op = CAPL_OP_affine, .arg = {a}, .number = {scale, shift}});
}

/* condition ? a : 0 */
static int where_else_zero(chain *c, int condition, int a)
{
  int zero = add_step(c, (program_step){.op = PROGRAM_CONST, .arg = {a}, .number = {0}});
  return add_step(c, (program_step){.op = CAPL_OP_where, .arg = {condition, a, zero}});
}

/* ---- rules: dy is the gradient of y = op(a, b, ...) ------------------------------------------- */

/* The winner of a maximum or minimum gets dy; of equals each gets half. */
static int pick(chain *c, capl_op_id wins, int self, int other, int dy)
{
  int rest = where_else_zero(c, two(c, CAPL_OP_eq, self, other), scaled(c, dy, 0.5, 0));
  return add_step(c, (program_step){.op = CAPL_OP_where, .arg = {two(c, wins, self, other), dy, rest}});
}

static int power(chain *c, int a, double exponent, int dy)
{
  if (exponent == 0) return NO_VALUE;
  int slope = add_step(c, (program_step){.op = CAPL_OP_pow, .arg = {a}, .number = {exponent - 1}});
  return two(c, CAPL_OP_mul, dy, scaled(c, slope, exponent, 0));
}

/* dy * (1 - y) * y, or * (1 + y) */
static int saturating(chain *c, int y, bool tangent, int dy)
{
  int below = scaled(c, y, -1, 1), other = tangent ? scaled(c, y, 1, 1) : y;
  return two(c, CAPL_OP_mul, dy, two(c, CAPL_OP_mul, other, below));
}

/* dy times the slope of an activation, which has the numbers of the step. */
static int activation(chain *c, const program_step *step, capl_op_id gradient, int a, int dy)
{
  return add_step(c, (program_step){.op = (int)gradient, .arg = {a, dy}, .number = {step->number[0], step->number[1]}});
}

/* dy * 2 / sqrt(pi) * exp(-a^2) */
static int error_slope(chain *c, int a, int dy)
{
  int bell = one(c, CAPL_OP_exp, scaled(c, two(c, CAPL_OP_mul, a, a), -1, 0));
  return two(c, CAPL_OP_mul, dy, scaled(c, bell, 1.1283791670955126, 0));
}

/* The gradient of a step with respect to its argument number `which`; NO_VALUE where none passes. arg and y: places. */
static int rule(chain *c, const program_step *step, const int *arg, int y, int dy, int which)
{
  int a = arg[0], b = arg[1], self = arg[which], other = arg[which == 0];
  switch (step->op) {
  case CAPL_OP_add: return dy;
  case CAPL_OP_sub: return which == 0 ? dy : scaled(c, dy, -1, 0);
  case CAPL_OP_mul: return two(c, CAPL_OP_mul, dy, other);
  case CAPL_OP_div: {
    int da = two(c, CAPL_OP_div, dy, b);
    return which == 0 ? da : scaled(c, two(c, CAPL_OP_mul, da, y), -1, 0);
  }
  case CAPL_OP_maximum: return pick(c, CAPL_OP_gt, self, other, dy);
  case CAPL_OP_minimum: return pick(c, CAPL_OP_lt, self, other, dy);
  case CAPL_OP_where:
    if (which == 0) return NO_VALUE;
    if (which == 1) return where_else_zero(c, a, dy);
    return add_step(c, (program_step){.op = CAPL_OP_where,
                                      .arg = {a, add_step(c, (program_step){.op = PROGRAM_CONST, .arg = {dy}}), dy}});
  case CAPL_OP_affine: return scaled(c, dy, step->number[0], 0);
  case CAPL_OP_pow: return power(c, a, step->number[0], dy);
  case CAPL_OP_exp: return two(c, CAPL_OP_mul, dy, y);
  case CAPL_OP_log: return two(c, CAPL_OP_div, dy, a);
  case CAPL_OP_sqrt: return two(c, CAPL_OP_div, dy, scaled(c, y, 2, 0));
  case CAPL_OP_abs: return two(c, CAPL_OP_mul, dy, one(c, CAPL_OP_sign, a));
  case CAPL_OP_sigmoid: return saturating(c, y, false, dy);
  case CAPL_OP_tanh: return saturating(c, y, true, dy);
  case CAPL_OP_relu: return two(c, CAPL_OP_relu_grad, y, dy);
  case CAPL_OP_erf: return error_slope(c, a, dy);
  case CAPL_OP_sin: return two(c, CAPL_OP_mul, dy, one(c, CAPL_OP_cos, a));
  case CAPL_OP_cos: return two(c, CAPL_OP_mul, dy, scaled(c, one(c, CAPL_OP_sin, a), -1, 0));
#define ACTIVATION(X, name, numbers) \
  case CAPL_OP_##name: return activation(c, step, CAPL_OP_##name##_grad, a, dy);
  ACTIVATION_MAP(ACTIVATION, )
#undef ACTIVATION
  case CAPL_OP_cast: return capl_dtype_is_float(step->dtype) ? dy : NO_VALUE;
  default: return NO_VALUE; /* comparisons, sign, relu_grad and constants: nothing passes */
  }
}

/* ---- the walk --------------------------------------------------------------------------------- */

static int tensors_of(const program_step *step)
{
  int tensors, numbers;
  if (step->op == PROGRAM_CONST) return 0; /* its argument gives a dtype, not a value */
  program_takes((capl_op_id)step->op, &tensors, &numbers);
  return tensors;
}

/* Writes p's own steps and notes which values follow input i. */
static void copy_forward(chain *c, const program *p, int i)
{
  for (int v = 0; v < PROGRAM_VALUES; v++) {
    c->place[v] = v;
    c->gradient[v] = NO_VALUE;
    c->follows[v] = v == i;
  }
  for (int k = 0; k < p->n; k++) {
    program_step step = p->step[k];
    int tensors = tensors_of(&step), v = PROGRAM_INPUTS + k;
    for (int n = 0; n < 3; n++) {
      if (n < tensors && c->follows[step.arg[n]]) c->follows[v] = true;
      step.arg[n] = c->place[step.arg[n]];
    }
    c->place[v] = add_step(c, step);
  }
}

/* Passes the gradient of value v on to the arguments of its step. */
static void walk_back(chain *c, const program_step *step, int v)
{
  int arg[3];
  for (int n = 0; n < 3; n++) arg[n] = c->place[step->arg[n]];
  for (int n = 0; n < tensors_of(step); n++) {
    int to = step->arg[n];
    if (!c->follows[to]) continue;
    int part = rule(c, step, arg, c->place[v], c->gradient[v], n);
    if (part == NO_VALUE) continue;
    c->gradient[to] = c->gradient[to] == NO_VALUE ? part : two(c, CAPL_OP_add, c->gradient[to], part);
  }
}

static capl_status derive(const program *p, int n_in, int i, gradient_kind *kind, const program **out)
{
  chain c = {.status = CAPL_OK};
  if (n_in >= PROGRAM_INPUTS)
    return CAPL_FAIL(CAPL_EVALUE, "a pointwise program with a gradient has at most %d inputs", PROGRAM_INPUTS - 1);
  copy_forward(&c, p, i);
  int last = PROGRAM_INPUTS + p->n - 1, dy = n_in;
  if (c.follows[last]) c.gradient[last] = dy;
  for (int k = p->n - 1; k >= 0; k--)
    if (c.gradient[PROGRAM_INPUTS + k] != NO_VALUE) walk_back(&c, &p->step[k], PROGRAM_INPUTS + k);
  CAPL_TRY(c.status);
  int gradient = c.gradient[i];
  *out = NULL;
  *kind = gradient == NO_VALUE ? GRADIENT_NONE : gradient == dy ? GRADIENT_DY : GRADIENT_PROGRAM;
  return *kind == GRADIENT_PROGRAM ? program_intern(&c.draft, gradient, out) : CAPL_OK;
}

/* Every step of a training asks for the same derivatives. */
capl_status program_gradient(const program *p, int n_in, int i, gradient_kind *kind, const program **out)
{
  static _Thread_local struct {
    const program *p, *gradient;
    int n_in, i;
    gradient_kind kind;
  } kept[KEPT];
  int slot = (p->id * PROGRAM_INPUTS + i) % KEPT;
  if (kept[slot].p != p || kept[slot].n_in != n_in || kept[slot].i != i) {
    kept[slot].p = NULL;
    CAPL_TRY(derive(p, n_in, i, &kept[slot].kind, &kept[slot].gradient));
    kept[slot].n_in = n_in;
    kept[slot].i = i;
    kept[slot].p = p;
  }
  *kind = kept[slot].kind;
  *out = kept[slot].gradient;
  return CAPL_OK;
}
