/* pointwise_source.h -- the source text of a kernel that runs a pointwise program. Knows no vendor library.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_POINTWISE_SOURCE_H
#define CAPL_CUDA_POINTWISE_SOURCE_H

#include "ops/program.h"

/* How an input lies in memory beside y. */
typedef enum {
  POINTWISE_UNUSED,  /* the program does not read it */
  POINTWISE_ALIKE,   /* element i belongs to y's element i */
  POINTWISE_ONE,     /* one element for all */
  POINTWISE_STRIDED, /* by the strides in pointwise_args */
} pointwise_place;

/* What a kernel is made for, beside the program. Compared byte by byte: all members are as wide as an int. */
typedef struct {
  int inputs;
  capl_dtype x[PROGRAM_INPUTS], y; /* f32, f16, bf16, bool */
  pointwise_place place[PROGRAM_INPUTS];
  int ndim;  /* of the loop, where an input is strided */
  int width; /* neighbours that one thread moves at once: 1 or 4; 1 where an input is strided */
  int wide;  /* more elements than 32 bits can count */
} pointwise_form;

/* The source of kernel `pointwise` with its one argument struct (kernels/pointwise.h), to be freed; NULL without
** memory. */
char *pointwise_source(const program *p, const pointwise_form *form);

#endif
