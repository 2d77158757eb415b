/* generic_dtypes.h -- elementwise ops on dtypes that have no vector kernels: integers, bool, f16, f64, and mixtures.
**
** Integers are computed in 64 bits and wrap around, everything else in double and is rounded once: what ref does, in
** pieces, by all threads.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_GENERIC_DTYPES_H
#define CAPL_CPU_GENERIC_DTYPES_H

#include "backend/cpu/cpu.h"

/* kind: not VEC_relu_grad. */
capl_status cpu_generic_binary(const capl_call *call, vec_binary_kind kind);
capl_status cpu_generic_compare(const capl_call *call, vec_compare_kind kind);
capl_status cpu_generic_where(const capl_call *call);
capl_status cpu_generic_cast(const capl_call *call);

#endif
