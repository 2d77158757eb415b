/* program.h -- pointwise programs: a few elementwise ops of ops.def, one after the other, run as one op (pointwise.c).
**
** A program is a list of steps over up to eight inputs, a to h; step number k makes the value tk, and the last step's
** value is the result. Its text says the same, one step after the other: SiLU is "sigmoid a; mul a t0". A step is an
** op's name, its arguments, and its numbers: "affine t1 2 -1" is 2 * t1 - 1, "pow a 3", "cast a bf16"; "const 0 a" is
** the number 0 in the dtype of a. Equal texts are one program; programs live as long as the process and never change.
** The gradient of a program with respect to an input is a program again.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_PROGRAM_H
#define CAPL_OPS_PROGRAM_H

#include "capl/op.h"
#include "ops/activation.h"

/* What may be in a program: op, tensors, numbers. */
#define POINTWISE_MAP(X)                                                                                          \
  X(relu, 1, 0) X(relu_grad, 2, 0) X(add, 2, 0) X(sub, 2, 0) X(mul, 2, 0) X(div, 2, 0) X(maximum, 2, 0)            \
  X(minimum, 2, 0) X(affine, 1, 2) X(pow, 1, 1) X(exp, 1, 0) X(log, 1, 0) X(sqrt, 1, 0) X(abs, 1, 0)               \
  X(sigmoid, 1, 0) X(tanh, 1, 0) X(sign, 1, 0) X(eq, 2, 0) X(ne, 2, 0) X(lt, 2, 0) X(le, 2, 0) X(gt, 2, 0)         \
  X(ge, 2, 0) X(where, 3, 0) X(cast, 1, 0)                                                                          \
  FUNCTION_MAP(POINTWISE_FUNCTION, X) ACTIVATION_MAP(POINTWISE_ACTIVATION, X)
#define POINTWISE_FUNCTION(X, name, numbers) X(name, 1, numbers)
#define POINTWISE_ACTIVATION(X, name, numbers) X(name, 1, numbers) X(name##_grad, 2, numbers)

enum {
  PROGRAM_INPUTS = 8,
  PROGRAM_STEPS = 512, /* a program that is to have gradients should have at most an eighth of it */
  PROGRAM_VALUES = PROGRAM_INPUTS + PROGRAM_STEPS, /* inputs come first, used or not */
  PROGRAM_CONST = CAPL_OP_COUNT                    /* a step's op: number[0], of the dtype of value arg[0] */
};

typedef struct {
  int op;           /* a capl_op_id, or PROGRAM_CONST */
  int arg[3];       /* values: input i is i, step k is PROGRAM_INPUTS + k */
  double number[2]; /* the op's attributes in order, a choice by its position; const: the value */
  capl_dtype dtype; /* cast */
} program_step;

typedef struct {
  int id;
  int inputs; /* inputs that are used: a to this one */
  int n;      /* steps, at least 1 */
  const program_step *step;
  const char *text;
} program;

/* A program being written. */
typedef struct {
  int n;
  program_step step[PROGRAM_STEPS];
} program_draft;

/* ---- making programs (program.c) -------------------------------------------------------------- */

/* Whether an op may be in a program; how many tensors and numbers it takes. */
CAPL_API bool program_takes(capl_op_id op, int *tensors, int *numbers);
/* The value of a step, which is added unless it is there already. EVALUE when there is no room for another one. */
CAPL_API capl_status program_add(program_draft *draft, const program_step *step, int *value);
/* The program whose result is value, a step's; steps that it does not need are left out. */
CAPL_API capl_status program_intern(const program_draft *draft, int value, const program **out);
/* From text. EVALUE names the word that is wrong. */
CAPL_API capl_status program_parse(const char *text, const program **out);
/* By number, as it is in the attribute of pointwise; NULL if there is none. */
CAPL_API const program *program_get(int64_t id);

/* Result's shape and dtype from the inputs' (in[i] may be shells), by the ops' own rules. dtypes: NULL, or room for the
** dtype of each of PROGRAM_VALUES values that is used. ESHAPE, EDTYPE as the ops say; EVALUE for too few inputs. */
CAPL_API capl_status program_infer(const program *p, capl_tensor *const *in, int n_in, capl_out_spec *out,
                                   capl_dtype *dtypes);

/* Whether every value is a float or a bool, for kernels that know no integers. */
CAPL_API bool program_is_real(const program *p, capl_tensor *const *in, int n_in);

/* The attributes of a step's op call, and number k of a step from those of a call. */
CAPL_API void program_attributes(const program_step *step, capl_attr *attr);
CAPL_API double program_number(capl_op_id op, const capl_attr *attr, int k);

/* ---- derivatives (program_grad.c) ------------------------------------------------------------- */

typedef enum {
  GRADIENT_NONE, /* the result does not follow the input */
  GRADIENT_DY,   /* dy itself */
  GRADIENT_PROGRAM
} gradient_kind;

/* The gradient of p with respect to input i as a program of p's n_in inputs and then dy. */
CAPL_API capl_status program_gradient(const program *p, int n_in, int i, gradient_kind *kind, const program **out);

#endif
