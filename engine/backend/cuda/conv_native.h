/* conv_native.h -- convolutions that cuDNN has no engine for, by own kernels: which of them, and their launches.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_CONV_NATIVE_H
#define CAPL_CUDA_CONV_NATIVE_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/conv.h"

/* One product of images of dtype; fields that a kernel's launch decides (lanes, partial, chunk) are unused. No result
** is empty. Sums are taken in an order that depends on the sizes and the GPU alone. */
capl_status conv_native_forward(capl_dtype dtype, const conv_args *args);
capl_status conv_native_grad_x(capl_dtype dtype, const conv_grad_x_args *args);
/* dw f32 (O, kH, kW, C/groups). device: gives scratch memory for some copies of it. */
capl_status conv_native_grad_w(capl_device *device, capl_dtype dtype, const conv_grad_w_args *args, float *dw);

#endif
