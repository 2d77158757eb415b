/* dnnl_open.c -- opens oneDNN, knows what this processor computes in bf16, and writes specifications.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <string.h>

#include "backend/cpu/dnnl_api.h"
#include "base/assume.h"

dnnl_engine_t dn_engine;
dnnl_stream_t dn_stream;

void dn_spec_init(dn_spec *spec, dn_kind kind)
{
  memset(spec, 0, sizeof *spec);
  spec->kind = (int32_t)kind;
  for (int i = 0; i < 2; i++) spec->stride[i] = 1;
}

void dn_layout_set(dn_layout *layout, capl_dtype dtype, int ndim, const int64_t *size, const int *order)
{
  layout->dtype = (int32_t)dtype;
  layout->ndim = ndim;
  int64_t step = 1;
  for (int i = ndim - 1; i >= 0; i--) {
    int dim = order ? order[i] : i;
    layout->size[dim] = size[dim];
    layout->stride[dim] = step;
    step *= size[dim];
  }
}

const char *dn_plan_name(const dn_plan *plan)
{
  return plan->name;
}

/* ---- opening ---- */

static bool has_bf16, has_amx, bf16_is_fast;

/* dnnl_get_effective_cpu_isa does not report emulated bf16; any AVX-512 runs it. */
static void ask_bf16(void)
{
#if defined(__x86_64__)
  has_bf16 = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
#else
  has_bf16 = false;
#endif
}

/* A processor that is assumed to be fast takes bf16 where such a one would, and multiplies as well as it can. */
static void ask_bf16_speed(void)
{
  int64_t native;
#if defined(__x86_64__)
  enum { AMX_BITS = dnnl_cpu_isa_avx512_core_amx & ~dnnl_cpu_isa_avx512_core_bf16 };
  __builtin_cpu_init();
  has_amx = (dnnl_get_effective_cpu_isa() & AMX_BITS) == AMX_BITS;
  bf16_is_fast = has_bf16 && (__builtin_cpu_is("amd") || has_amx);
#else
  bf16_is_fast = has_bf16;
#endif
  if (capl_assumed(CAPL_ASSUME_BF16, &native)) bf16_is_fast = native != 0;
}

capl_status dn_open(const char *isa)
{
#if defined(__x86_64__)
  if (!strcmp(isa, "avx2")) DNNL_TRY(dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2));
  if (!strcmp(isa, "portable")) DNNL_TRY(dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41));
#else
  (void)isa;
#endif
  DNNL_TRY(dnnl_set_primitive_cache_capacity(0)); /* it would keep what is dropped here */
  DNNL_TRY(dnnl_engine_create(&dn_engine, dnnl_cpu, 0));
  DNNL_TRY(dnnl_stream_create(&dn_stream, dn_engine, dnnl_stream_default_flags));
  ask_bf16();
  ask_bf16_speed();
  return CAPL_OK;
}

const char *dn_version(void)
{
  static char text[32];
  const dnnl_version_t *v = dnnl_version();
  snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
  return text;
}

bool dn_has_bf16(void)
{
  return has_bf16;
}

bool dn_bf16_is_fast(void)
{
  return bf16_is_fast;
}

bool dn_has_amx(void)
{
  return has_amx;
}
