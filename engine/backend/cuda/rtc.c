/* rtc.c -- kernels from source text on the card: compiled once, kept on disk, loaded into the process.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/rtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/plan_cache.h"
#include "backend/cuda/rtc_nvrtc.h"
#include "backend/cuda/rtc_prelude.h"
#include "base/log.h"

/* ---- whether ---------------------------------------------------------------------------------- */

/* One empty kernel shows whether the library is there and supports this GPU. */
static bool try_compiler(void)
{
  void *code;
  size_t bytes;
  if (rtc_compile("RTC_KERNEL void nothing(int a) {}", cu.capability, &code, &bytes) == CAPL_OK) {
    free(code);
    return true;
  }
  capl_log("no kernels are fused: %s", capl_error_last()->message);
  return false;
}

bool rtc_available(void)
{
  static int known; /* 1 yes, -1 no */
  if (known == 0) known = try_compiler() ? 1 : -1;
  return known > 0;
}

/* ---- the disk --------------------------------------------------------------------------------- */

/* Cubins depend on the prelude, the architecture and the compiler besides their source. */
static void scope_of(char *text, size_t len)
{
  uint64_t hash = 14695981039346656037u;
  for (const char *p = RTC_PRELUDE; *p; p++) hash = (hash ^ (unsigned char)*p) * 1099511628211u;
  snprintf(text, len, "sm_%d %s prelude %016llx", cu.capability, rtc_version(), (unsigned long long)hash);
}

/* Keys are texts without line breaks. */
static char *key_of(const char *source)
{
  char *key = strdup(source);
  for (char *p = key; p && *p; p++)
    if (*p == '\n') *p = ' ';
  return key;
}

static capl_status load_code(const char *name, const void *code, cu_entry *out)
{
  cudaLibrary_t library;
  cudaKernel_t kernel;
  CU_TRY(cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0), "loading a compiled kernel");
  cudaError_t error = cudaLibraryGetKernel(&kernel, library, name);
  if (error != cudaSuccess) cudaLibraryUnload(library);
  CU_TRY(error, "finding a compiled kernel");
  out->kernel = (const void *)kernel; /* the library stays: the kernel is used as long as the process lives */
  return CAPL_OK;
}

static capl_status compile_and_keep(const char *name, const char *source, const char *scope, const char *key,
                                    cu_entry *out)
{
  void *code;
  size_t bytes;
  CAPL_TRY(rtc_compile(source, cu.capability, &code, &bytes));
  capl_status status = load_code(name, code, out);
  if (status == CAPL_OK) plan_cache_write("kernel", scope, key, code, bytes);
  free(code);
  return status;
}

/* ---- kernels ---------------------------------------------------------------------------------- */

capl_status rtc_kernel(const char *name, const char *source, cu_entry *out)
{
  if (cu.capturing)
    return CAPL_FAIL(CAPL_ESTATE, "a captured step has a fused kernel that the steps before it had not");
  char scope[160];
  size_t bytes;
  char *key = key_of(source);
  if (!key) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the key of a kernel");
  scope_of(scope, sizeof scope);
  char *kept = plan_cache_read("kernel", scope, key, &bytes);
  capl_status status = CAPL_EIO;
  if (kept) {
    status = load_code(name, kept, out);
    if (status != CAPL_OK) plan_cache_drop("kernel", scope, key, "the driver does not take it");
  }
  free(kept);
  if (status != CAPL_OK) status = compile_and_keep(name, source, scope, key, out);
  free(key);
  return status;
}
