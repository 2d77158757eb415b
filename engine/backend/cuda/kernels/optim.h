/* optim.h -- what optim.c and optim.cu share: tables of tensors, the numbers of a step, argument structs.
**
** A step works on all tensors of a model, most of them small. Their addresses travel inside the argument struct, at
** most 4 KB of it, so one launch serves up to OPTIM_TENSORS parameters, and a block works on OPTIM_CHUNK elements of
** one. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_OPTIM_H
#define CAPL_CUDA_OPTIM_H

#include <math.h>
#include <stdint.h>

#include "backend/cuda/kernels/types.h"

#ifdef __cplusplus
extern "C" {
#define OPTIM_BOTH static __host__ __device__ inline
#else
#define OPTIM_BOTH static inline
#endif

enum { OPTIM_TENSORS = 64, OPTIM_GROUPS = 5, OPTIM_THREADS = 256, OPTIM_CHUNK = 2048 };
/* The groups that every method has; states follow. */
enum { OPTIM_PARAM, OPTIM_GRAD };

/* All of f32 without gaps, each parameter's members in one memory order. */
typedef struct {
  int count;
  int first_block[OPTIM_TENSORS + 1];        /* tensor i has the blocks from first_block[i] to first_block[i + 1] */
  int64_t size[OPTIM_TENSORS];               /* elements */
  float *at[OPTIM_TENSORS][OPTIM_GROUPS];    /* NULL: a state that these settings do not have */
  uint16_t *shadow[OPTIM_TENSORS];           /* the parameter in 16 bits, written along with it; NULL = none */
  bool shadow_f16[OPTIM_TENSORS];            /* false: bf16 */
} optim_table;

/* The settings of a method that stay the same from step to step; each reads its own. */
typedef struct {
  float decay; /* added to the gradient */
  float momentum, dampening;
  int nesterov;
  float beta1, beta2, alpha, eps;
  int centered;
} optim_rule;

/* The numbers of one step. */
typedef struct {
  float grad_scale;
  float rate;         /* lr; Adam: lr / (1 - beta1^step) */
  float root_correct; /* Adam: 1 / sqrt(1 - beta2^step) */
  float keep_weight;  /* Adam with decoupled decay: 1 - lr * weight_decay */
  int first_step;
  int skip; /* nothing is written */
} optim_numbers;

/* What the numbers follow from. beta1 and beta2 are 0 for methods without them. */
typedef struct {
  double lr, step, grad_scale;
  double beta1, beta2, decoupled_decay;
  int skip;
} optim_sources;

OPTIM_BOTH optim_numbers optim_numbers_of(const optim_sources *s)
{
  optim_numbers n;
  n.grad_scale = (float)s->grad_scale;
  n.rate = (float)(s->beta1 > 0 ? s->lr / (1 - pow(s->beta1, s->step)) : s->lr);
  n.root_correct = (float)(s->beta2 > 0 ? 1 / sqrt(1 - pow(s->beta2, s->step)) : 1);
  n.keep_weight = (float)(1 - s->lr * s->decoupled_decay);
  n.first_step = s->step <= 1;
  n.skip = s->skip;
  return n;
}

/* OPTIM_SGD, OPTIM_ADAM, OPTIM_AMSGRAD, OPTIM_RMSPROP: one step of the tensors of a table. */
typedef struct {
  optim_table table;
  optim_rule rule;
  optim_numbers numbers;
  const optim_numbers *live; /* in device memory, used instead of numbers when not NULL */
} optim_step_args;

/* OPTIM_NUMBERS: the numbers of a step from the control. sources: lr, step and skip are ignored, grad_scale is a
** factor. */
typedef struct {
  const float *control;
  optim_numbers *out;
  optim_sources sources;
  int group;
  int64_t behind;
} optim_numbers_args;

/* OPTIM_WIDEN + cu_type: group 0 := group 1, which is of that type, or 0 where there is none. OPTIM_NARROW: shadow :=
** group 0. */
typedef struct {
  optim_table table;
} optim_copy_args;

/* OPTIM_SQUARES: each block leaves the sum of the squares of its chunk of group 0. */
typedef struct {
  optim_table table;
  double *partial; /* one per block */
} optim_squares_args;

/* OPTIM_NORM: norm := the root of the sum of count partial sums, by one block. */
typedef struct {
  const double *partial;
  int64_t count;
  float *norm;
} optim_norm_args;

/* OPTIM_CONTROL: step_control, by one thread. norm and common may be NULL. */
typedef struct {
  float *state;
  const float *norm, *common;
  double max_norm;
  float growth_factor, backoff_factor, growth_interval;
  int scaling;
} optim_control_args;

enum {
  OPTIM_SGD,
  OPTIM_ADAM,
  OPTIM_AMSGRAD,
  OPTIM_RMSPROP,
  OPTIM_NUMBERS,
  OPTIM_SQUARES,
  OPTIM_NORM,
  OPTIM_CONTROL,
  OPTIM_NARROW,
  OPTIM_WIDEN
};
extern const cu_entry cu_optim_table[];

#ifdef __cplusplus
}
#endif
#endif
