/* backend.c -- opens devices, loads backends that live in their own library, finds kernels.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/capl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/registry.h"
#include "base/assume.h"
#include "base/library.h"
#include "capl/dist.h"
#include "tensor/storage.h"

/* Backends a build may have, in the order they are listed in. library == NULL: linked in. */
static const struct {
  capl_backend_facts is;
  const capl_backend *builtin;
  const char *library, *entry;
} backends[] = {
  {{.name = "cpu", .chosen = true}, NULL, "libcapl_cpu.so", "capl_backend_cpu_entry"},
  {{.name = "cuda", .gpu = true, .chosen = true}, NULL, "libcapl_cuda.so", "capl_backend_cuda_entry"},
  {{.name = "ref"}, &capl_backend_ref, NULL, NULL},
  {{.name = "meta"}, &capl_backend_meta, NULL, NULL},
};
enum { BACKENDS = sizeof backends / sizeof *backends };

static const capl_backend *loaded[BACKENDS];
static capl_device *devices[BACKENDS]; /* one of each: a process uses one GPU */
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

/* why: dlopen's words, "FILE: cannot open shared object file: No such file or directory" when FILE is missing. */
static capl_status not_loaded(int which, const char *why)
{
  char absent[128];
  snprintf(absent, sizeof absent, "%s: cannot open shared object file: No such file", backends[which].library);
  if (backends[which].is.gpu && strstr(why, absent))
    return CAPL_FAIL(CAPL_EUNSUPPORTED,
                     "device %s is not available: this build has no %s (it was made without the CUDA toolkit)",
                     backends[which].is.name, backends[which].library);
  CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s is not available: %s", backends[which].is.name, why);
  if (backends[which].is.gpu)
    capl_error_hint("NVIDIA's libraries may be elsewhere: export LD_LIBRARY_PATH=$(scripts/nvidia-libs)");
  return CAPL_EUNSUPPORTED;
}

static bool no_gpu_assumed(void) { return capl_assumed(CAPL_ASSUME_GPU, &(int64_t){0}); }

static capl_status load_library(int which, const capl_backend **out)
{
  if (backends[which].is.gpu && no_gpu_assumed())
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s is not available: CAPL_ASSUME has gpu=none",
                     backends[which].is.name);
  /* Spinning barriers make a step six times slower beside one busy process; 1000 spins cost nothing
  ** on an idle machine. libgomp reads this when it is loaded, which happens just below. */
  setenv("GOMP_SPINCOUNT", "1000", 0);
  char why[1024] = "";
  void *library = library_open(backends[which].library, why, sizeof why);
  if (!library) return not_loaded(which, why);
  const capl_backend *(*entry)(void);
  library_find(library, backends[which].entry, &entry);
  if (!entry)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s is not available: %s has no %s", backends[which].is.name,
                     backends[which].library, backends[which].entry);
  *out = entry();
  if ((*out)->abi != CAPL_BACKEND_ABI)
    return CAPL_FAIL(CAPL_EUNSUPPORTED,
                     "device %s is not available: its %s is of another build of capl; build both anew",
                     backends[which].is.name, backends[which].library);
  return CAPL_OK;
}

/* Called locked. */
static capl_status load_backend(int which, const capl_backend **out)
{
  *out = backends[which].builtin ? backends[which].builtin : loaded[which];
  if (*out) return CAPL_OK;
  CAPL_TRY(load_library(which, out));
  loaded[which] = *out;
  return CAPL_OK;
}

static void index_kernels(capl_device *device)
{
  for (const capl_kernel *const *family = device->backend->families; *family; family++)
    for (const capl_kernel *k = *family; k->run; k++) device->kernels[k->op] = k;
}

/* A device with room for its name behind it. */
static capl_device *device_new(int which, int index, const capl_backend *backend)
{
  enum { NAME = 16 };
  capl_device *device = calloc(1, sizeof *device + NAME);
  if (!device) return NULL;
  char *name = (char *)(device + 1);
  snprintf(name, NAME, backends[which].is.gpu ? "%s:%d" : "%s", backends[which].is.name, index);
  device->name = name;
  device->index = index;
  device->backend = backend;
  return device;
}

static capl_status open_device(int which, int index, capl_device **out)
{
  const capl_backend *backend;
  CAPL_TRY(load_backend(which, &backend));
  if (backend->open) CAPL_TRY(backend->open(index));
  capl_device *device = device_new(which, index, backend);
  if (!device) return CAPL_FAIL(CAPL_ENOMEM, "no memory for device %s", backend->name);
  capl_status status = capl_allocator_new(&device->allocator);
  if (status != CAPL_OK) {
    free(device);
    return status;
  }
  index_kernels(device);
  *out = device;
  return CAPL_OK;
}

/* Number of the backend in "cpu" or "cuda:1" and, in *index, that of the device, UNNUMBERED if none is given; -1 when
** there is none of the name. */
enum { UNNUMBERED = -1 };
static int find_backend(const char *name, int *index)
{
  size_t len = strcspn(name, ":");
  *index = UNNUMBERED;
  for (int k = 0; k < BACKENDS; k++) {
    if (strlen(backends[k].is.name) != len || memcmp(backends[k].is.name, name, len) != 0) continue;
    if (!name[len]) return k;
    char *end;
    long number = strtol(name + len + 1, &end, 10);
    if (!backends[k].is.gpu || !name[len + 1] || *end || number < 0 || number > 1023) return -1;
    *index = (int)number;
    return k;
  }
  return -1;
}

/* One GPU for each rank of this host. A process that sees a single one was given it by its launcher. Called locked. */
static capl_status own_index(int which, int *index)
{
  const capl_backend *backend;
  capl_place place;
  int count = 0;
  *index = 0;
  CAPL_TRY(capl_place_detect(&place));
  if (!backends[which].is.gpu || place.local_size <= 1) return CAPL_OK;
  CAPL_TRY(load_backend(which, &backend));
  if (backend->count) CAPL_TRY(backend->count(&count));
  if (count <= 1) return CAPL_OK;
  *index = place.local_rank;
  if (place.local_rank < count) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "rank %d has no GPU: %d ranks are on host %s, which has %d GPUs", place.rank, place.local_size,
            place.host, count);
  capl_error_hint("one rank per GPU: --ranks=gpus, or --ranks=%d", count);
  return CAPL_EVALUE;
}

static capl_status unknown_device(const char *name)
{
  char known[128] = "auto";
  size_t used = strlen(known);
  for (int k = 0; k < BACKENDS; k++)
    used += (size_t)snprintf(known + used, sizeof known - used, backends[k].is.gpu ? ", %s, %s:1 ..." : ", %s",
                             backends[k].is.name, backends[k].is.name);
  CAPL_FAIL(CAPL_EUNSUPPORTED, "unknown device '%s'", name);
  capl_error_hint("devices: %s", known);
  return CAPL_EUNSUPPORTED;
}

static capl_status open_named(const char *name, capl_device **out)
{
  int index, k = find_backend(name, &index);
  if (k < 0) {
    return unknown_device(name);
  }
  pthread_mutex_lock(&lock);
  capl_status status = CAPL_OK;
  if (index == UNNUMBERED && devices[k]) index = devices[k]->index;
  if (index == UNNUMBERED) status = own_index(k, &index);
  if (status == CAPL_OK && !devices[k]) status = open_device(k, index, &devices[k]);
  *out = devices[k];
  pthread_mutex_unlock(&lock);
  if (status != CAPL_OK || (*out)->index == index) return status;
  CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s: this process uses %s already, and a process uses one GPU", name,
            (*out)->name);
  capl_error_hint("one process per GPU: set the device once, or CUDA_VISIBLE_DEVICES");
  return CAPL_EUNSUPPORTED;
}

/* ---- auto ------------------------------------------------------------------------------------ */

static char auto_why[1024] = "nothing was asked for yet";

/* Looks for a driver's device file before anything of CUDA is loaded, which takes a fifth of a second. */
bool capl_gpu_possible(const char **why)
{
  bool assumed = no_gpu_assumed();
  *why = assumed ? "CAPL_ASSUME has gpu=none" : "no NVIDIA driver on this machine";
  return !assumed && (access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0
                      || getenv("CAPL_BACKEND_PATH"));
}

static capl_status open_auto(capl_device **out)
{
  const char *wish = getenv("CAPL_DEVICE"), *why;
  if (wish && *wish && strcmp(wish, "auto") != 0) {
    snprintf(auto_why, sizeof auto_why, "CAPL_DEVICE=%s", wish);
    return open_named(wish, out);
  }
  if (!capl_gpu_possible(&why)) {
    snprintf(auto_why, sizeof auto_why, "%s", why);
  } else if (open_named("cuda", out) == CAPL_OK) {
    snprintf(auto_why, sizeof auto_why, "a GPU that works");
    return CAPL_OK;
  } else if (capl_error_last()->code == CAPL_EVALUE) {
    return CAPL_EVALUE; /* the other ranks have GPUs: this one cannot work beside them on a processor */
  } else {
    snprintf(auto_why, sizeof auto_why, "%s", capl_error_last()->message);
  }
  return open_named("cpu", out);
}

const char *capl_device_auto_why(void)
{
  return auto_why;
}

capl_status capl_device_open(const char *name, capl_device **out)
{
  return strcmp(name, "auto") == 0 ? open_auto(out) : open_named(name, out);
}

/* ---- the registry ---------------------------------------------------------------------------- */

const capl_backend_facts *capl_backend_at(int i)
{
  return i >= 0 && i < BACKENDS ? &backends[i].is : NULL;
}

capl_status capl_backend_find(const char *name, const capl_backend **out)
{
  int index, k = find_backend(name, &index);
  if (k < 0) return unknown_device(name);
  pthread_mutex_lock(&lock);
  capl_status status = load_backend(k, out);
  pthread_mutex_unlock(&lock);
  return status;
}

const capl_kernel *capl_backend_kernel(const capl_backend *backend, capl_op_id op)
{
  for (const capl_kernel *const *family = backend->families; *family; family++)
    for (const capl_kernel *k = *family; k->run; k++)
      if (k->op == op) return k;
  return NULL;
}

/* ---- what devices say ------------------------------------------------------------------------ */

capl_status capl_device_report(const char *backend, char *text, size_t len)
{
  int index, k = find_backend(backend, &index);
  const capl_backend *found;
  CAPL_TRY(capl_backend_find(backend, &found));
  snprintf(text, len, "%s", found->describe && devices[k] ? found->describe() : "");
  return found->report ? found->report(text, len) : CAPL_OK;
}

capl_status capl_device_switch(capl_device *device, const char *name, bool on)
{
  if (device->backend->set_switch) return device->backend->set_switch(name, on);
  return CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s has no switch '%s'", device->name, name);
}

void capl_device_own_kernels(const capl_device *device, capl_own_fn fn, void *user)
{
  if (device->backend->own_kernels) device->backend->own_kernels(fn, user);
}

void capl_device_algorithms(const capl_device *device, capl_algorithm_fn fn, void *user)
{
  if (device->backend->algorithms) device->backend->algorithms(fn, user);
}

capl_status capl_device_algorithm_use(const capl_device *device, const char *call, const char *algorithm)
{
  if (device->backend->algorithm_use) return device->backend->algorithm_use(call, algorithm);
  return CAPL_FAIL(CAPL_EUNSUPPORTED, "device %s has no choice of algorithms", device->name);
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
