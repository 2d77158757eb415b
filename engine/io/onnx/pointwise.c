/* pointwise.c -- elementwise ops, activations, casts, and programs of them.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "io/onnx/write.h"
#include "ops/program.h"

/* ---- one input --------------------------------------------------------------------------------- */

/* Ops that ONNX has, by the same formula. */
static const struct {
  capl_op_id op;
  const char *type;
} same[] = {
  {CAPL_OP_exp, "Exp"}, {CAPL_OP_log, "Log"}, {CAPL_OP_sqrt, "Sqrt"}, {CAPL_OP_abs, "Abs"}, {CAPL_OP_erf, "Erf"},
  {CAPL_OP_sigmoid, "Sigmoid"}, {CAPL_OP_tanh, "Tanh"}, {CAPL_OP_sin, "Sin"}, {CAPL_OP_cos, "Cos"},
  {CAPL_OP_sign, "Sign"}, {CAPL_OP_floor, "Floor"}, {CAPL_OP_round, "Round"}, {CAPL_OP_power, "Pow"},
  {CAPL_OP_hardswish, "HardSwish"}, {CAPL_OP_relu, "Relu"}, {CAPL_OP_add, "Add"},
  {CAPL_OP_sub, "Sub"}, {CAPL_OP_mul, "Mul"}, {CAPL_OP_div, "Div"}, {CAPL_OP_maximum, "Max"},
  {CAPL_OP_minimum, "Min"}, {CAPL_OP_eq, "Equal"}, {CAPL_OP_ne, "Equal"}, {CAPL_OP_lt, "Less"},
  {CAPL_OP_le, "LessOrEqual"}, {CAPL_OP_gt, "Greater"}, {CAPL_OP_ge, "GreaterOrEqual"},
};

static const char *type_of(capl_op_id op)
{
  for (size_t k = 0; k < sizeof same / sizeof *same; k++)
    if (same[k].op == op) return same[k].type;
  return "";
}

static void write_unary(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, type_of(c->op), onnx_in_as_out(b, c, 0));
}

/* ONNX Runtime has no Relu of 64-bit integers. */
static void write_relu(onnx_build *b, const onnx_call *c)
{
  onnx_type type = onnx_out_type(c);
  c->out[0].name = type == ONNX_F32 || type == ONNX_F64 ? ONNX(b, "Relu", onnx_in(c, 0))
                                                        : onnx_with(b, "Max", onnx_in(c, 0), type, 0);
}

static void write_log1p(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "Log", onnx_with(b, "Add", onnx_in_as_out(b, c, 0), onnx_out_type(c), 1));
}

static const char *silu(onnx_build *b, const char *x) { return ONNX(b, "Mul", x, ONNX(b, "Sigmoid", x)); }

const char *onnx_activate(onnx_build *b, capl_op_id op, const char *x)
{
  return op == CAPL_OP_silu ? silu(b, x) : ONNX(b, "Relu", x);
}

static void write_silu(onnx_build *b, const onnx_call *c) { c->out[0].name = silu(b, onnx_in(c, 0)); }

static void write_gelu(onnx_build *b, const onnx_call *c)
{
  onnx_type type = onnx_out_type(c);
  const char *x = onnx_in(c, 0), *inner;
  if (c->attr[AT(gelu, approximate)].i) {
    const char *cube = ONNX(b, "Mul", ONNX(b, "Mul", x, x), x);
    inner = ONNX(b, "Add", x, onnx_with(b, "Mul", cube, type, 0.044715));
    inner = ONNX(b, "Tanh", onnx_with(b, "Mul", inner, type, sqrt(2 / M_PI)));
  } else inner = ONNX(b, "Erf", onnx_with(b, "Mul", x, type, M_SQRT1_2));
  c->out[0].name = onnx_with(b, "Mul", ONNX(b, "Mul", x, onnx_with(b, "Add", inner, type, 1)), type, 0.5);
}

/* Above the threshold x itself. */
static void write_softplus(onnx_build *b, const onnx_call *c)
{
  onnx_type type = onnx_out_type(c);
  double beta = c->attr[AT(softplus, beta)].f;
  const char *x = onnx_in(c, 0), *scaled = onnx_with(b, "Mul", x, type, beta);
  const char *far = onnx_with(b, "Greater", scaled, type, c->attr[AT(softplus, threshold)].f);
  const char *soft = onnx_with(b, "Div", ONNX(b, "Softplus", scaled), type, beta);
  c->out[0].name = ONNX(b, "Where", far, x, soft);
}

static void write_leaky_relu(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "LeakyRelu", onnx_in(c, 0));
  onnx_real(b, "alpha", c->attr[AT(leaky_relu, negative_slope)].f);
}

static void write_elu(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "Elu", onnx_in(c, 0));
  onnx_real(b, "alpha", c->attr[AT(elu, alpha)].f);
}

static void write_hardsigmoid(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "HardSigmoid", onnx_in(c, 0));
  onnx_real(b, "alpha", 1.0 / 6);
  onnx_real(b, "beta", 0.5);
}

static void write_log_sigmoid(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = ONNX(b, "Neg", ONNX(b, "Softplus", ONNX(b, "Neg", onnx_in(c, 0))));
}

static void write_clamp(onnx_build *b, const onnx_call *c)
{
  onnx_type type = onnx_out_type(c);
  double min = c->attr[AT(clamp, min)].f, max = c->attr[AT(clamp, max)].f;
  const char *low = min > -ACTIVATION_FAR ? onnx_number(b, type, min) : ONNX_NONE;
  const char *high = max < ACTIVATION_FAR ? onnx_number(b, type, max) : ONNX_NONE;
  c->out[0].name = ONNX(b, "Clip", onnx_in(c, 0), low, high);
}

static void write_pow(onnx_build *b, const onnx_call *c)
{
  c->out[0].name = onnx_with(b, "Pow", onnx_in_as_out(b, c, 0), onnx_out_type(c), c->attr[AT(pow, exponent)].f);
}

static void write_affine(onnx_build *b, const onnx_call *c)
{
  onnx_type type = onnx_out_type(c);
  double scale = c->attr[AT(affine, scale)].f, shift = c->attr[AT(affine, shift)].f;
  const char *y = onnx_in_as_out(b, c, 0);
  if (scale != 1) y = onnx_with(b, "Mul", y, type, scale);
  c->out[0].name = shift != 0 ? onnx_with(b, "Add", y, type, shift) : y;
}

/* Types of 16 bits are f32 in the file, so casts between floats fall away. */
static void write_cast(onnx_build *b, const onnx_call *c) { c->out[0].name = onnx_in_as_out(b, c, 0); }

/* ---- several inputs ---------------------------------------------------------------------------- */

/* What ONNX Runtime computes in: small integers in i32. */
static onnx_type computed(onnx_type type) { return type == ONNX_U8 || type == ONNX_BOOL ? ONNX_I32 : type; }

static const char *as(onnx_build *b, const onnx_call *c, int i, onnx_type type)
{
  return onnx_type_of(c->in[i]->dtype) == type ? onnx_in(c, i) : onnx_cast(b, onnx_in(c, i), type);
}

static void write_binary(onnx_build *b, const onnx_call *c)
{
  onnx_type out = onnx_out_type(c), type = computed(out);
  const char *y = ONNX(b, type_of(c->op), as(b, c, 0, type), as(b, c, 1, type));
  c->out[0].name = type == out ? y : onnx_cast(b, y, out);
}

static onnx_type wider(onnx_type a, onnx_type b)
{
  static const onnx_type order[] = {ONNX_F64, ONNX_F32, ONNX_I64};
  for (size_t k = 0; k < sizeof order / sizeof *order; k++)
    if (a == order[k] || b == order[k]) return order[k];
  return ONNX_I32;
}

static void write_compare(onnx_build *b, const onnx_call *c)
{
  onnx_type type = wider(onnx_type_of(c->in[0]->dtype), onnx_type_of(c->in[1]->dtype));
  const char *y = ONNX(b, type_of(c->op), as(b, c, 0, type), as(b, c, 1, type));
  c->out[0].name = c->op == CAPL_OP_ne ? ONNX(b, "Not", y) : y;
}

static void write_where(onnx_build *b, const onnx_call *c)
{
  onnx_type out = onnx_out_type(c), type = computed(out);
  const char *y = ONNX(b, "Where", onnx_in(c, 0), as(b, c, 1, type), as(b, c, 2, type));
  c->out[0].name = type == out ? y : onnx_cast(b, y, out);
}

/* ---- programs ---------------------------------------------------------------------------------- */

static void write_step(onnx_build *b, const onnx_call *c, const program_step *step, onnx_value *values, int value)
{
  const onnx_value *in[3];
  capl_attr attr[CAPL_MAX_ATTR];
  int tensors = 1, numbers;
  if (step->op == PROGRAM_CONST) {
    values[value].name = onnx_number(b, onnx_type_of(values[value].dtype), step->number[0]);
    return;
  }
  program_takes((capl_op_id)step->op, &tensors, &numbers);
  for (int k = 0; k < tensors; k++) in[k] = &values[step->arg[k]];
  program_attributes(step, attr);
  onnx_call one = {.x = c->x, .op = (capl_op_id)step->op, .number = c->number, .attr = attr, .n_in = tensors, .in = in,
                   .out = &values[value]};
  onnx_writer *write = onnx_writer_of(one.op);
  if (write) write(b, &one);
  else onnx_fail(b, c, "its step %s has no form there", capl_op_get(one.op)->name);
}

/* The dtypes of a program's values, from shells of its inputs. */
static capl_status infer(const onnx_call *c, const program *p, capl_dtype *dtypes)
{
  capl_tensor shells[PROGRAM_INPUTS] = {{0}}, *in[PROGRAM_INPUTS];
  capl_out_spec out;
  for (int i = 0; i < c->n_in; i++) {
    shells[i].dtype = c->in[i]->dtype;
    shells[i].ndim = c->in[i]->ndim;
    for (int d = 0; d < shells[i].ndim; d++) shells[i].size[d] = 1;
    in[i] = &shells[i];
  }
  return program_infer(p, in, c->n_in, &out, dtypes);
}

static void write_program(onnx_build *b, const onnx_call *c)
{
  capl_dtype dtypes[PROGRAM_VALUES];
  const program *p = program_get(c->attr[AT(pointwise, program)].i);
  onnx_value *values = onnx_alloc(b, PROGRAM_VALUES * sizeof *values);
  if (!values || (b->status = infer(c, p, dtypes)) != CAPL_OK) return;
  for (int v = 0; v < PROGRAM_INPUTS + p->n; v++) values[v].dtype = dtypes[v];
  for (int i = 0; i < c->n_in; i++) values[i] = *c->in[i];
  for (int k = 0; k < p->n && b->status == CAPL_OK; k++)
    write_step(b, c, &p->step[k], values, PROGRAM_INPUTS + k);
  c->out[0].name = values[PROGRAM_INPUTS + p->n - 1].name;
}

const onnx_row onnx_pointwise[] = {
  {CAPL_OP_relu, write_relu}, {CAPL_OP_exp, write_unary}, {CAPL_OP_log, write_unary}, {CAPL_OP_sqrt, write_unary},
  {CAPL_OP_abs, write_unary}, {CAPL_OP_sigmoid, write_unary}, {CAPL_OP_tanh, write_unary}, {CAPL_OP_erf, write_unary},
  {CAPL_OP_sin, write_unary}, {CAPL_OP_cos, write_unary}, {CAPL_OP_sign, write_unary},
  {CAPL_OP_floor, write_unary}, {CAPL_OP_round, write_unary}, {CAPL_OP_log1p, write_log1p},
  {CAPL_OP_power, write_binary},
  {CAPL_OP_hardswish, write_unary}, {CAPL_OP_silu, write_silu}, {CAPL_OP_gelu, write_gelu},
  {CAPL_OP_softplus, write_softplus}, {CAPL_OP_leaky_relu, write_leaky_relu}, {CAPL_OP_elu, write_elu},
  {CAPL_OP_hardsigmoid, write_hardsigmoid}, {CAPL_OP_log_sigmoid, write_log_sigmoid}, {CAPL_OP_clamp, write_clamp},
  {CAPL_OP_pow, write_pow}, {CAPL_OP_affine, write_affine}, {CAPL_OP_cast, write_cast}, {CAPL_OP_add, write_binary},
  {CAPL_OP_sub, write_binary}, {CAPL_OP_mul, write_binary}, {CAPL_OP_div, write_binary},
  {CAPL_OP_maximum, write_binary}, {CAPL_OP_minimum, write_binary}, {CAPL_OP_eq, write_compare},
  {CAPL_OP_ne, write_compare}, {CAPL_OP_lt, write_compare}, {CAPL_OP_le, write_compare}, {CAPL_OP_gt, write_compare},
  {CAPL_OP_ge, write_compare}, {CAPL_OP_where, write_where}, {CAPL_OP_pointwise, write_program}, {0, NULL},
};
