/* backend.c -- opens devices, loads backends that live in their own library, finds kernels.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/capl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/library.h"
#include "tensor/storage.h"

/* Backends a build may have. library == NULL: linked in. */
static const struct {
  const char *name;
  const capl_backend *builtin;
  const char *library, *entry;
} backends[] = {
  {"ref", &capl_backend_ref, NULL, NULL},
  {"meta", &capl_backend_meta, NULL, NULL},
  {"cpu", NULL, "libcapl_cpu.so", "capl_backend_cpu_entry"},
};
enum { BACKENDS = sizeof backends / sizeof *backends };

static capl_device *devices[BACKENDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t counters[CAPL_COUNTER_COUNT]; /* of all threads */
static const char *const counter_names[CAPL_COUNTER_COUNT] = {
#define X(name) #name,
  CAPL_COUNTER_MAP(X)
#undef X
};

void capl_counter_add(capl_counter which)
{
  __atomic_fetch_add(&counters[which], 1, __ATOMIC_RELAXED);
}

uint64_t capl_counter_get(const char *name)
{
  for (int k = 0; k < CAPL_COUNTER_COUNT; k++)
    if (strcmp(counter_names[k], name) == 0) return __atomic_load_n(&counters[k], __ATOMIC_RELAXED);
  return 0;
}

static capl_status load_backend(int which, const capl_backend **out)
{
  *out = backends[which].builtin;
  if (*out) return CAPL_OK;
  /* Spinning barriers make a step six times slower beside one busy process; 1000 spins cost nothing
  ** on an idle machine. libgomp reads this when it is loaded, which happens just below. */
  setenv("GOMP_SPINCOUNT", "1000", 0);
  char why[1024] = "";
  void *library = library_open(backends[which].library, why, sizeof why);
  if (!library) return CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s is not available: %s", backends[which].name, why);
  const capl_backend *(*entry)(void);
  library_find(library, backends[which].entry, &entry);
  if (!entry)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s is not available: %s has no %s", backends[which].name,
                     backends[which].library, backends[which].entry);
  *out = entry();
  if ((*out)->abi != CAPL_BACKEND_ABI)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s is not available: its %s is of another build of capl; build both anew",
                     backends[which].name, backends[which].library);
  return CAPL_OK;
}

static void index_kernels(capl_device *device)
{
  for (const capl_kernel *const *family = device->backend->families; *family; family++)
    for (const capl_kernel *k = *family; k->run; k++) device->kernels[k->op] = k;
}

static capl_status open_device(int which, capl_device **out)
{
  const capl_backend *backend;
  CAPL_TRY(load_backend(which, &backend));
  if (backend->open) CAPL_TRY(backend->open(0));
  capl_device *device = calloc(1, sizeof *device);
  if (!device) return CAPL_FAIL(CAPL_ENOMEM, "no memory for device %s", backend->name);
  device->name = backend->name;
  device->backend = backend;
  capl_status status = capl_allocator_new(&device->allocator);
  if (status != CAPL_OK) {
    free(device);
    return status;
  }
  index_kernels(device);
  *out = device;
  return CAPL_OK;
}

capl_status capl_device_open(const char *name, capl_device **out)
{
  if (strcmp(name, "auto") == 0) name = "cpu";
  for (int k = 0; k < BACKENDS; k++) {
    if (strcmp(name, backends[k].name) != 0) continue;
    pthread_mutex_lock(&lock);
    capl_status status = devices[k] ? CAPL_OK : open_device(k, &devices[k]);
    *out = devices[k];
    pthread_mutex_unlock(&lock);
    return status;
  }
  if (strncmp(name, "cuda", 4) == 0)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s is not available: this build has no CUDA backend", name);
  CAPL_FAIL(CAPL_EUNSUPPORTED, "unknown device '%s'", name);
  capl_error_hint("devices of this build: auto, cpu, ref, meta");
  return CAPL_EUNSUPPORTED;
}

capl_device *device_fallback(const capl_device *device)
{
  capl_device *fallback = NULL;
  const char *name = device->backend->fallback;
  return name && capl_device_open(name, &fallback) == CAPL_OK ? fallback : NULL;
}

/* The dtype that decides who computes a call: of the first floating input, else of the first. */
static capl_dtype deciding_dtype(const capl_call *call)
{
  const capl_tensor *first = NULL;
  for (int i = 0; i < call->n_in; i++) {
    if (!call->in[i]) continue;
    if (capl_dtype_is_float(call->in[i]->dtype)) return call->in[i]->dtype;
    if (!first) first = call->in[i];
  }
  return first->dtype; /* the dispatcher refuses calls without any input */
}

const capl_kernel *device_kernel(const capl_device *device, const capl_call *call)
{
  const capl_kernel *k = device->kernels[call->id];
  if (!k || (k->dtypes && !(k->dtypes & CAPL_BIT(deciding_dtype(call))))) return NULL;
  return !k->supports || k->supports(call) ? k : NULL;
}

bool capl_device_has(const capl_device *device, capl_op_id op)
{
  return device->kernels[op] != NULL;
}

const char *capl_version(void)
{
  return CAPL_VERSION;
}
