/* conv_weights.h -- weight gradients of convolutions with any kernel and stride, as products over pixels.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_CONV_WEIGHTS_H
#define CAPL_CPU_CONV_WEIGHTS_H

#include "capl/backend.h"

/* Whether the function below takes the call of conv2d_grad_w and is the fastest way for it. */
bool conv_weights_fits(const capl_call *call);

/* Runs conv2d_grad_w; ENOMEM if scratch memory is short. Sums are added thread by thread: they repeat for
** a given number of threads. */
capl_status conv_weights(const capl_call *call);

#endif
