/* conv_winograd.h -- 3x3 convolutions of stride 1 and their gradients, by Winograd's algorithm.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_CONV_WINOGRAD_H
#define CAPL_CPU_CONV_WINOGRAD_H

#include "capl/backend.h"

/* x (N,C,H,W), weight (O,C,kh,kw) as shapes only. Whether the functions below take the call. */
bool conv_winograd_can(const capl_call *call, const int64_t *x, const int64_t *weight);
/* Whether they also are the fastest way for it, by rule and table. */
bool conv_winograd_fits(const capl_call *call, const int64_t *x, const int64_t *weight);

/* Each runs the op of its name, the first one with relu behind it if wanted; ENOMEM if scratch memory is short. Sums of
** the weight gradient are added thread by thread: they repeat for a given number of threads. */
capl_status conv_winograd(const capl_call *call, bool relu);
capl_status conv_winograd_grad_x(const capl_call *call);
capl_status conv_winograd_grad_w(const capl_call *call);

#endif
