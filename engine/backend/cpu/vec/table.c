/* table.c -- collects the vector kernels of one instruction set.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/simd.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

extern const cpu_vec VEC_JOIN(cpu_vec, VEC_ISA);
const cpu_vec VEC_JOIN(cpu_vec, VEC_ISA) = {
  .isa = TEXT(VEC_ISA),
  .lanes = VN,
#define X(result, name, args) .name = VEC(name),
  CPU_VEC_MAP(X)
#undef X
};
