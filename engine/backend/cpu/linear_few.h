/* linear_few.h -- linear layers of few rows and many weights.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_LINEAR_FEW_H
#define CAPL_CPU_LINEAR_FEW_H

#include "capl/backend.h"

/* Whether the call (linear, linear_act, linear_grad_w) is faster here than by oneDNN. */
bool linear_few_fits(const capl_call *call);
/* The op itself. ENOMEM. */
capl_status linear_few(const capl_call *call, bool relu);
capl_status linear_few_grad_w(const capl_call *call);

#endif
