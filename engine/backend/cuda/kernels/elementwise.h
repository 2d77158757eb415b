/* elementwise.h -- kernels that treat every element alike: what they compute, their arguments, their numbers.
**
** The fast ones take floats of one dtype; each exists for vectors of 16 bytes and for single elements of any strides.
** The _any ones take every mixture of dtypes.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_ELEMENTWISE_H
#define CAPL_CUDA_KERNELS_ELEMENTWISE_H

#include "backend/cuda/kernels/loop.h"

/* Each op once: enums, cases, launchers and the rows of elementwise.c are made of these lists. */
#define PLAIN_MAP(X) X(relu) X(abs) X(sign) X(exp) X(log) X(sqrt) X(sigmoid) X(tanh) \
  X(log1p) X(floor) X(round)
#define UNARY_MAP(X) PLAIN_MAP(X) X(affine) X(pow) /* with attributes */
/* X(op, inputs): every = any dtypes; real = f32, f16 or bf16, integers are for simpler ops */
#define BINARY_MAP(X) \
  X(add, every) X(sub, every) X(mul, every) X(div, every) X(maximum, every) X(minimum, every) X(relu_grad, every) \
  X(power, real) X(remainder, every)
#define COMPARE_MAP(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)

#define X(op) UNARY_##op,
typedef enum { UNARY_MAP(X) UNARY_COUNT } unary_op;
#undef X
#define X(op, inputs) BINARY_##op,
typedef enum { BINARY_MAP(X) BINARY_COUNT } binary_op;
#undef X
#define X(op) COMPARE_##op,
typedef enum { COMPARE_MAP(X) COMPARE_COUNT } compare_op;
#undef X

/* Operands of the loop: y, then the inputs in order. The tail follows the loop's last step, see loop_widen. */
typedef struct {
  cu_loop loop;
  int64_t tail;
  void *y;
  const void *x;
  unary_op op;
  double scale, shift; /* of affine; scale is also the exponent of pow */
  int to, from;        /* capl_dtype, for unary_any */
} unary_args;

/* Also of comparisons. */
typedef struct {
  cu_loop loop;
  int64_t tail;
  void *y;
  const void *a, *b;
  int op;          /* binary_op or compare_op */
  int to, da, db;  /* capl_dtype of y, a, b, for the _any kernels */
} binary_args;

typedef struct {
  cu_loop loop;
  int64_t tail;
  void *y;
  const void *condition; /* bool */
  const void *a, *b;
  int to, da, db;
} where_args;

/* y := x in another dtype. */
typedef struct {
  cu_loop loop;
  int64_t tail;
  void *y;
  const void *x;
  int to, from; /* capl_dtype, for move_any */
} cast_args;

/* Operands of the loop: y, x, and the logical number of the element. */
typedef struct {
  cu_loop loop;
  int64_t tail;
  void *y;
  const void *x;
  uint64_t seed, offset;
  const int64_t *delta; /* device memory, added to offset */
  uint64_t limit;       /* kept where the random word is not below */
  float scale;
} dropout_args;

/* In the order of cu_type, each for single elements first. */
enum { CAST_VECTOR = 4, DROPOUT_VECTOR = 4 };
enum {
  UNARY = 0,             /* + cu_type; + 3 for vectors */
  BINARY = 6,
  COMPARE = 12,
  DROPOUT = 18,
  UNARY_ANY = 24,
  BINARY_ANY,
  COMPARE_ANY,
  WHERE_ANY,
  MOVE_ANY,
  WHERE,                 /* elements of 1, 2, 4, 8 bytes; + 4 for vectors */
  CAST = WHERE + 8,      /* vectors only: to f32, f16, bf16 (rows) from f32, f16, bf16, u8, i32, i64 (columns) */
  CASTS_FROM = 6,
};

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_elementwise_table[];
#ifdef __cplusplus
}
#endif

#endif
