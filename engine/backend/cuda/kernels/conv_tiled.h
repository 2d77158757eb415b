/* conv_tiled.h -- convolution and its gradients as tiled matrix products (kernels/conv_tiled.cu).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_CONV_TILED_H
#define CAPL_CUDA_KERNELS_CONV_TILED_H

#include "backend/cuda/kernels/conv.h"

/* A block has CONV_TILE x CONV_TILE results. Blocks: tiles of columns, then of rows, then groups, then parts. */
enum { CONV_TILE = 64, CONV_TILE_DEPTH = 16, CONV_TILE_THREADS = 256 };

/* Of conv_args, conv_grad_x_args and conv_grad_w_args; each of the three types. */
enum { CONV_TILED = 0, CONV_TILED_GRAD_X = 3, CONV_TILED_GRAD_W = 6 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_conv_tiled_table[];
#ifdef __cplusplus
}
#endif

#endif
