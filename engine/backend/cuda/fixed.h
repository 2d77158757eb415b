/* fixed.h -- sums of floats that give the same bits in any order (kernels/fixed.h), from the host's side.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_FIXED_H
#define CAPL_CUDA_FIXED_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/fixed.h"

/* Sums of zero for the dense tensor y, ready for elements of src, each times a factor of at most 1; count: how many may
** meet in one sum. Closed by fixed_close, also when a kernel in between failed. */
capl_status fixed_open(const capl_tensor *y, const capl_tensor *src, int64_t count, cu_fixed *out);
/* y := x + sums (x may be NULL), unless status is an earlier error, which is returned. */
capl_status fixed_close(capl_status status, cu_fixed *f, capl_tensor *y, const capl_tensor *x);

#endif
