/* conv_thin.h -- convolutions of one input channel by own kernels (kernels/conv_thin.cu): which ones, and launching
** them. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_CONV_THIN_H
#define CAPL_CUDA_CONV_THIN_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/conv.h"

/* One input channel, 3x3, the same stride 1 or 2 along both axes, no dilation, no empty tensor. */
bool conv_is_thin(const conv_sizes *s);

/* y = x * w + bias. bias NULL: none; else f32, or of dtype. Pointers as an element is aligned. */
capl_status conv_thin_forward(capl_dtype dtype, const conv_args *args);
/* Both f32. db: NULL where it is not wanted. */
typedef struct {
  float *dw, *db;
} conv_thin_grads;

/* Both gradients, with dy read once; args->partial and chunk are unused. The order of the sums depends on the sizes and
** the GPU alone. device: gives scratch memory for 10 numbers an output and block. */
capl_status conv_thin_weights(capl_device *device, capl_dtype dtype, const conv_grad_w_args *args, conv_thin_grads to);

#endif
