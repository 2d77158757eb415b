/* processor.h -- instruction sets, and the best that this processor has.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_PROCESSOR_H
#define CAPL_BASE_PROCESSOR_H

#include <stdbool.h>

#include "capl/error.h"

/* Each set holds those before it. avx2: with FMA; avx512: F, BW, VL and DQ. */
typedef enum { CAPL_ISA_PORTABLE, CAPL_ISA_AVX2, CAPL_ISA_AVX512 } capl_isa;

/* The best that this processor has, whatever is assumed. */
CAPL_API capl_isa capl_isa_of_processor(void);

#endif
