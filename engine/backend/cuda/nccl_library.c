/* nccl_library.c -- loads libnccl.so.2 when ranks on GPUs want it, and says what to install where there is none.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/nccl_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const file_name = "libnccl.so.2";

static struct {
  void *handle;
  nccl_library functions;
} loaded;

const char *nccl_number_text(int version, char *buf, size_t len)
{
  snprintf(buf, len, "%d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
  return buf;
}

static int version_of(void *handle)
{
  nccl_result (*get)(int *);
  int version = 0;
  *(void **)&get = dlsym(handle, "ncclGetVersion");
  return get && get(&version) == NCCL_SUCCESS ? version : 0;
}

/* NULL, or the name of the first function that the library lacks. */
static const char *find_functions(void *handle, nccl_library *to)
{
#define X(name, arguments)                               \
  *(void **)&to->name = dlsym(handle, "nccl" #name);      \
  if (!to->name) return "nccl" #name;
  NCCL_FUNCTIONS(X)
  X(GetErrorString, )
  X(GetLastError, )
#undef X
  return NULL;
}

static capl_status hint_install(void)
{
  int cuda = CUDART_VERSION / 1000;
  capl_error_hint("pip install nvidia-nccl-cu%d (or NVIDIA's package: apt install libnccl2), then "
                  "export LD_LIBRARY_PATH=$(scripts/nvidia-libs)", cuda);
  return CAPL_EUNSUPPORTED;
}

static capl_status take(void *handle)
{
  char has[24];
  nccl_library found = {.version = version_of(handle)};
  const char *missing = find_functions(handle, &found);
  if (found.version < NCCL_OLDEST || missing) {
    CAPL_FAIL(CAPL_EUNSUPPORTED, "ranks on GPUs need NCCL 2.14 or newer; %s is version %s%s%s", file_name,
              nccl_number_text(found.version, has, sizeof has), missing ? " and has no " : "", missing ? missing : "");
    return hint_install();
  }
  loaded.functions = found;
  loaded.handle = handle;
  return CAPL_OK;
}

static capl_status load(void)
{
  void *handle = dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    CAPL_FAIL(CAPL_EUNSUPPORTED, "ranks on GPUs talk through NCCL, which cannot be loaded: %s", why ? why : file_name);
    return hint_install();
  }
  capl_status status = take(handle);
  if (status != CAPL_OK) dlclose(handle);
  return status;
}

capl_status nccl_load(const nccl_library **out)
{
  if (!loaded.handle) CAPL_TRY(load());
  *out = &loaded.functions;
  return CAPL_OK;
}

const char *nccl_version_text(char *buf, size_t len)
{
  if (loaded.handle) return nccl_number_text(loaded.functions.version, buf, len);
  void *handle = dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    snprintf(buf, len, "not found (several GPUs need libnccl.so.2: pip install nvidia-nccl-cu%d)",
             CUDART_VERSION / 1000);
    return buf;
  }
  int version = version_of(handle);
  nccl_number_text(version, buf, len);
  if (version < NCCL_OLDEST) snprintf(buf + strlen(buf), len - strlen(buf), ", too old: several GPUs need 2.14");
  dlclose(handle);
  return buf;
}
