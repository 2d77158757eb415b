/* isa.c -- chooses the instruction set: the best of this processor, or what CAPL_ASSUME has.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/isa.h"

#include "base/assume.h"

static const char *const names[] = {"portable", "avx2", "avx512"};

const char *capl_isa_name(capl_isa isa)
{
  return names[isa];
}

/* What is assumed and lacks here was refused. */
static capl_isa chosen(void)
{
  int64_t assumed;
  capl_isa here = capl_isa_of_processor();
  return capl_assumed(CAPL_ASSUME_ISA, &assumed) && assumed < (int64_t)here ? (capl_isa)assumed : here;
}

#if defined(__x86_64__)

bool capl_isa_has_vbmi(void)
{
  return chosen() == CAPL_ISA_AVX512 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
}

bool capl_isa_has_bf16(void)
{
  return chosen() == CAPL_ISA_AVX512 && __builtin_cpu_supports("avx512bf16");
}

#else

bool capl_isa_has_vbmi(void)
{
  return false;
}

bool capl_isa_has_bf16(void)
{
  return false;
}

#endif

capl_status capl_isa_choose(capl_isa *isa)
{
  CAPL_TRY(capl_assume_check());
  *isa = chosen();
  return CAPL_OK;
}
