/* optim.h -- what the optimizer steps of the cpu backend share.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_OPTIM_H
#define CAPL_CPU_OPTIM_H

#include "capl/op.h"

/* The numbers that change from step to step. */
typedef struct {
  double lr, step, grad_scale;
  bool skip;
} step_numbers;

/* From the control after the groups, or from the attributes. scale: position of grad_scale. step: number of the step
** as the attributes say it. */
step_numbers cpu_step_numbers(const capl_call *call, int n_groups, int scale, double step);

/* supports(): everything f32 without gaps, in one order per parameter. */
bool cpu_supports_steps(const capl_call *call, int n_groups);

/* f32 to 16 bits, with the bits of the cast op. */
void cpu_narrow(int64_t n, const float *x, capl_dtype dtype, uint16_t *y);

#endif
