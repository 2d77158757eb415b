/* isa.c -- asks the processor what it can do, and the environment what it may.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/isa.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"portable", "avx2", "avx512"};
enum { N_ISA = sizeof names / sizeof names[0] };

const char *capl_isa_name(capl_isa isa)
{
  return names[isa];
}

#if defined(__x86_64__)

static capl_isa best(void)
{
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CAPL_ISA_PORTABLE;
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return wide ? CAPL_ISA_AVX512 : CAPL_ISA_AVX2;
}

bool capl_isa_has_vbmi(void)
{
  return best() == CAPL_ISA_AVX512 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
}

bool capl_isa_has_bf16(void)
{
  return best() == CAPL_ISA_AVX512 && __builtin_cpu_supports("avx512bf16");
}

#else

static capl_isa best(void)
{
  return CAPL_ISA_PORTABLE;
}

bool capl_isa_has_vbmi(void)
{
  return false;
}

bool capl_isa_has_bf16(void)
{
  return false;
}

#endif

/* An unset or empty CAPL_ISA leaves the choice to the processor. */
capl_status capl_isa_choose(capl_isa *isa)
{
  const char *asked = getenv("CAPL_ISA");
  *isa = best();
  if (!asked || !*asked) return CAPL_OK;
  int found = 0;
  while (found < N_ISA && strcmp(asked, names[found])) found++;
  if (found <= (int)best()) {
    *isa = (capl_isa)found;
    return CAPL_OK;
  }
  capl_status status =
    found < N_ISA ? CAPL_FAIL(CAPL_EUNSUPPORTED, "CAPL_ISA is %s, this processor has %s only", asked, names[best()])
                  : CAPL_FAIL(CAPL_EVALUE, "CAPL_ISA is \"%s\"; avx512, avx2 or portable (here up to %s) are known", asked,
                              names[best()]);
  capl_error_hint("leave CAPL_ISA unset for the best this processor has");
  return status;
}
