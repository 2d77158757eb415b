/* conv_depthwise.h -- convolutions in which every channel has its own kernels: groups = input channels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_CONV_DEPTHWISE_H
#define CAPL_CPU_CONV_DEPTHWISE_H

#include "capl/backend.h"

/* weight: size (O,1,kh,kw). */
bool conv_depthwise_fits(const capl_call *call, const int64_t *weight);
capl_status conv_depthwise(const capl_call *call);
capl_status conv_depthwise_grad_x(const capl_call *call);
capl_status conv_depthwise_grad_w(const capl_call *call);

#endif
