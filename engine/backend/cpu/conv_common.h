/* conv_common.h -- what own convolutions share.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_CONV_COMMON_H
#define CAPL_CPU_CONV_COMMON_H

#include "capl/backend.h"

static inline int64_t conv_least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static inline int64_t conv_round_up(int64_t n, int64_t to)
{
  return (n + to - 1) / to * to;
}

/* to (rows, columns) := from (columns, rows), in parallel. */
void conv_flip(const float *from, float *to, int64_t rows, int64_t columns);

/* db (O) := sums of dy (pixels, O), O a multiple of lanes. room: conv_bias_room floats. */
int64_t conv_bias_room(int64_t O);
void conv_bias_grad(const float *dy, int64_t pixels, int64_t O, float *room, float *db);

/* The tensor's numbers in f32; bf16 ones are converted into room. */
const float *conv_in_f32(const capl_tensor *t, float *room);

/* Whether all inputs are f32. */
bool conv_all_f32(const capl_call *call);

#endif
