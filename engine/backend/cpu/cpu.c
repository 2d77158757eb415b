/* cpu.c -- libcapl_cpu's entry: chooses the instruction set, opens oneDNN and the thread pool, hands
** out memory.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/conv_tune.h"
#include "backend/cpu/conv_winograd_table.h"
#include "backend/cpu/dnnl.h"
#include "base/assume.h"
#include "base/isa.h"

const cpu_vec *cpu_now = &cpu_vec_portable;

static const capl_kernel *const families[] = {
  cpu_take_kernels,   cpu_sample_kernels,
  cpu_conv_kernels,   cpu_matmul_kernels,  cpu_norm_kernels, cpu_pool_kernels,  cpu_elementwise_kernels,
  cpu_activation_kernels, cpu_shape_kernels,  cpu_reduce_kernels,  cpu_softmax_kernels, cpu_loss_kernels,
  cpu_region_kernels, cpu_optim_kernels, cpu_muon_kernels, cpu_ctc_kernels,
  cpu_layer_norm_kernels,
  cpu_group_norm_kernels,
  cpu_rnn_kernels,    cpu_rnn_grad_kernels,
  cpu_attention_kernels,
  NULL,
};

/* ---- instruction set ---- */

static const cpu_vec *kernels_of(capl_isa isa)
{
#if defined(__x86_64__)
  if (isa == CAPL_ISA_AVX512) return capl_isa_has_bf16() ? &cpu_vec_avx512bf16 : &cpu_vec_avx512;
  if (isa == CAPL_ISA_AVX2) return &cpu_vec_avx2;
#else
  (void)isa;
#endif
  return &cpu_vec_portable;
}

/* ---- memory ---- */

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

/* Huge pages: faulting in 4 KB pages costs a step of large tensors up to a third of its time. */
static capl_status cpu_mem_alloc(size_t bytes, void **out)
{
  bool huge = bytes >= HUGE_PAGE;
  if (posix_memalign(out, huge ? HUGE_PAGE : LINE, bytes ? bytes : LINE))
    return CAPL_FAIL(CAPL_ENOMEM, "the system has no %zu bytes left", bytes);
#if defined(MADV_HUGEPAGE)
  if (huge) madvise(*out, bytes, MADV_HUGEPAGE); /* a wish; the memory is good without it */
#endif
  return CAPL_OK;
}

static void cpu_mem_free(void *p, size_t bytes)
{
  (void)bytes;
  free(p);
}

static capl_status cpu_mem_fill(void *p, int byte, size_t bytes)
{
  memset(p, byte, bytes);
  return CAPL_OK;
}

/* ---- the backend ---- */

static capl_status cpu_open(int index)
{
  (void)index;
  capl_isa isa;
  CAPL_TRY(capl_isa_choose(&isa));
  cpu_now = kernels_of(isa);
  CAPL_TRY(cpu_parallel_open());
  return dn_open(capl_isa_name(isa));
}

static const char *bf16_text(void)
{
  if (!dn_has_bf16()) return "through f32";
  if (!dn_bf16_is_fast()) return "yes, large convolutions in f32, which is faster here";
  return conv_winograd_bf16_is_on() ? "yes, large 3x3 convolutions by Winograd" : "yes";
}

static const char *cpu_describe(void)
{
  static char text[160];
  snprintf(text, sizeof text, "oneDNN %s, %s kernels, %d thread%s, bf16 %s", dn_version(), cpu_now->isa, cpu_threads(),
           cpu_threads() == 1 ? "" : "s", bf16_text());
  return text;
}

static capl_dtype cpu_auto_precision(const char **why)
{
  bool low = dn_bf16_is_fast();
  int64_t native;
  *why = capl_assumed(CAPL_ASSUME_BF16, &native) ? (low ? "CAPL_ASSUME has bf16=native" : "CAPL_ASSUME has bf16=slow")
         : low             ? "this processor multiplies bf16 at twice the rate of f32"
         : dn_has_bf16() ? "bf16 is no faster than f32 on this processor"
                         : "no bf16 unit in use here";
  return low ? CAPL_BF16 : CAPL_F32;
}

static uint32_t cpu_precisions(void)
{
  return CAPL_BIT(CAPL_PRECISION_bf16) | CAPL_BIT(CAPL_PRECISION_fp32);
}

/* tf32: products of f32 are always exact here. */
static capl_status cpu_set_switch(const char *name, bool on)
{
  if (!strcmp(name, "tf32")) return CAPL_OK;
  if (!strcmp(name, "autotune")) return conv_tune_switch(on), CAPL_OK;
  if (strcmp(name, "one_thread") != 0)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "cpu has no switch '%s'; it has autotune, one_thread", name);
  if (!on) return CAPL_FAIL(CAPL_EUNSUPPORTED, "one_thread is for the rest of the process");
  if (cpu_threads() == 1) return CAPL_OK;
  dn_plans_forget(); /* they were made for more */
  cpu_threads_set(1);
  return CAPL_OK;
}

static const capl_backend backend = {
  .abi = CAPL_BACKEND_ABI,
  .name = "cpu",
  .host_memory = true,
  .arithmetic = true,
  .families = families,
  .fallback = "ref",
  .open = cpu_open,
  .mem_alloc = cpu_mem_alloc,
  .mem_free = cpu_mem_free,
  .mem_fill = cpu_mem_fill,
  .describe = cpu_describe,
  .auto_precision = cpu_auto_precision,
  .precisions = cpu_precisions,
  .set_switch = cpu_set_switch,
  .algorithms = conv_tune_list,
  .algorithm_use = conv_tune_use,
  .alone = cpu_alone_set,
  .threads = cpu_threads,
  .for_each = cpu_for_each,
};

CAPL_API const capl_backend *capl_backend_cpu_entry(void);

CAPL_API const capl_backend *capl_backend_cpu_entry(void)
{
  return &backend;
}
