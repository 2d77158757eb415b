/* processor.c -- asks the processor what it can do.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/processor.h"

#if defined(__x86_64__)

capl_isa capl_isa_of_processor(void)
{
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CAPL_ISA_PORTABLE;
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return wide ? CAPL_ISA_AVX512 : CAPL_ISA_AVX2;
}

#else

capl_isa capl_isa_of_processor(void)
{
  return CAPL_ISA_PORTABLE;
}

#endif
