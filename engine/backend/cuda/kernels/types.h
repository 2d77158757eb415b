/* types.h -- what C and the kernels share: table entries, element types by number.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_TYPES_H
#define CAPL_CUDA_TYPES_H

#include <stdbool.h>
#include <stdint.h>

/* What cudaLaunchKernel takes for a kernel. */
typedef struct {
  const void *kernel;
} cu_entry;

/* Floating types in the order of CU_FLOATS; the value of cu_type_of(dtype) on the C side. */
typedef enum { CU_F32, CU_F16, CU_BF16, CU_TYPES } cu_type;

#endif
