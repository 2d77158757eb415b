/* rtc_nvrtc.c -- NVRTC, loaded when first wanted: from source text to machine code; the only file that includes its
** header. SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/rtc_nvrtc.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <dlfcn.h>
#include <nvrtc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/rtc_prelude.h"

#define FUNCTIONS(X)                                                                                              \
  X(nvrtcVersion) X(nvrtcCreateProgram) X(nvrtcCompileProgram) X(nvrtcDestroyProgram) X(nvrtcGetCUBINSize)         \
  X(nvrtcGetCUBIN) X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog) X(nvrtcGetErrorString)

static struct {
  bool tried;
  void *library;
  char text[128]; /* version, or why there is none */
#define X(name) __typeof__(&name) name;
  FUNCTIONS(X)
#undef X
} lib;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the library ------------------------------------------------------------------------------ */

static bool find_functions(void)
{
#define X(name)                                                \
  *(void **)&lib.name = dlsym(lib.library, #name);              \
  if (!lib.name) return false;
  FUNCTIONS(X)
#undef X
  return true;
}

/* That of this build's toolkit, or an older one: what a newer one compiles, a driver that is new enough for this build
** may not load. */
static void *open_library(void)
{
  enum { OWN = CUDART_VERSION / 1000, OLDEST = 12 };
  void *library = NULL;
  for (int major = OWN; major >= OLDEST && !library; major--) {
    char name[32];
    snprintf(name, sizeof name, "libnvrtc.so.%d", major);
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  return library ? library : dlopen("libnvrtc.so", RTLD_NOW | RTLD_LOCAL);
}

/* Under lock. */
static void load(void)
{
  lib.tried = true;
  lib.library = open_library();
  int major = 0, minor = 0;
  if (!lib.library) {
    snprintf(lib.text, sizeof lib.text, "none: libnvrtc.so.%d was not found", CUDART_VERSION / 1000);
  } else if (!find_functions() || lib.nvrtcVersion(&major, &minor) != NVRTC_SUCCESS) {
    lib.library = NULL;
    snprintf(lib.text, sizeof lib.text, "none: the libnvrtc found is not usable");
  } else {
    snprintf(lib.text, sizeof lib.text, "NVRTC %d.%d", major, minor);
  }
}

static bool loaded(void)
{
  pthread_mutex_lock(&lock);
  if (!lib.tried) load();
  pthread_mutex_unlock(&lock);
  return lib.library != NULL;
}

const char *rtc_version(void)
{
  loaded();
  return lib.text;
}

/* ---- compiling -------------------------------------------------------------------------------- */

/* The first lines of what the compiler said. */
static capl_status fail_compile(nvrtcProgram program, nvrtcResult result)
{
  char *log = NULL;
  size_t n = 0;
  if (lib.nvrtcGetProgramLogSize(program, &n) == NVRTC_SUCCESS && n > 1) log = malloc(n);
  if (log && lib.nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS) log[0] = 0;
  capl_status status = CAPL_FAIL(CAPL_EINTERNAL, "%s cannot compile a generated kernel (%s): %.600s", lib.text,
                                 lib.nvrtcGetErrorString(result), log ? log : "");
  free(log);
  return status;
}

static capl_status take_code(nvrtcProgram program, void **code, size_t *bytes)
{
  nvrtcResult result = lib.nvrtcGetCUBINSize(program, bytes);
  if (result == NVRTC_SUCCESS && *bytes == 0)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "%s makes no machine code for this GPU", lib.text);
  *code = malloc(*bytes + 1);
  if (!*code) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a compiled kernel");
  if (result == NVRTC_SUCCESS) result = lib.nvrtcGetCUBIN(program, *code);
  if (result == NVRTC_SUCCESS) return CAPL_OK;
  free(*code);
  return CAPL_FAIL(CAPL_EINTERNAL, "%s gives no machine code: %s", lib.text, lib.nvrtcGetErrorString(result));
}

static capl_status compile(const char *text, int capability, void **code, size_t *bytes)
{
  char arch[40];
  nvrtcProgram program;
  snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d", capability);
  const char *options[] = {arch, "--std=c++17"};
  nvrtcResult result = lib.nvrtcCreateProgram(&program, text, "kernel.cu", 0, NULL, NULL);
  if (result != NVRTC_SUCCESS)
    return CAPL_FAIL(CAPL_EINTERNAL, "%s takes no program: %s", lib.text, lib.nvrtcGetErrorString(result));
  result = lib.nvrtcCompileProgram(program, (int)(sizeof options / sizeof *options), options);
  capl_status status = result == NVRTC_SUCCESS ? take_code(program, code, bytes) : fail_compile(program, result);
  lib.nvrtcDestroyProgram(&program);
  return status;
}

capl_status rtc_compile(const char *source, int capability, void **code, size_t *bytes)
{
  if (!loaded()) return CAPL_FAIL(CAPL_EUNSUPPORTED, "kernels cannot be compiled: NVRTC: %s", lib.text);
  char *text;
  if (asprintf(&text, "%s%s", RTC_PRELUDE, source) < 0)
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for the text of a kernel");
  capl_status status = compile(text, capability, code, bytes);
  free(text);
  return status;
}
