/* conv_small_channels.h -- weight gradient of convolutions with few input channels, without oneDNN.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_CONV_SMALL_CHANNELS_H
#define CAPL_CPU_CONV_SMALL_CHANNELS_H

#include "capl/backend.h"

/* Whether a conv2d_grad_w call is one for conv_small_channels_grad_w. */
bool conv_small_channels_fits(const capl_call *call);
capl_status conv_small_channels_grad_w(const capl_call *call);

#endif
