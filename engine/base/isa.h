/* isa.h -- the instruction set that vector code uses.
**
** Code that exists once per instruction set is compiled in files of their own with their own flags, and chosen here
** at run time. CAPL_ASSUME=isa=avx512|avx2|portable (assume.h) forces one, so that all paths can be tested.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_ISA_H
#define CAPL_BASE_ISA_H

#include "base/processor.h"

/* The one to use: the best of this processor, or what CAPL_ASSUME has. Fails as capl_assume_check does. */
CAPL_API capl_status capl_isa_choose(capl_isa *isa);

CAPL_API const char *capl_isa_name(capl_isa isa);

/* What some processors with AVX-512 have in addition; false for all others, and where a lesser set is assumed. */
CAPL_API bool capl_isa_has_vbmi(void); /* byte permutes and dot products: F, BW, VL, VBMI, VNNI */
CAPL_API bool capl_isa_has_bf16(void); /* dot products of bf16 */

#endif
