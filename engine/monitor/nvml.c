/* nvml.c -- GPUs as NVIDIA's management library (NVML) reports them.
**
** The library comes with the driver; it is loaded when a GPU is first asked for, and the few functions of it that are
** used are declared here. Drivers of any age and GPUs of any kind lack some of them: a metric that is not supported is
** not asked for again, one that failed for another reason is. Only a lost GPU is never asked again.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "monitor/monitor.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library ------------------------------------------------------------------------------ */

enum {
  NVML_OK = 0, NVML_NOT_SUPPORTED = 3, NVML_NO_PERMISSION = 4, NVML_NOT_FOUND = 6, NVML_NO_DRIVER = 9,
  NVML_NO_FUNCTION = 13, NVML_LOST = 15, NVML_MISMATCH = 18,
};
enum { TEMPERATURE_GPU = 0, CLOCK_SM = 1, CLOCK_MEMORY = 2, TEXT = 96 };

typedef struct nvml_device *nvml_device;
typedef struct {
  unsigned gpu, memory; /* percent */
} nvml_utilization;
typedef struct {
  unsigned long long total, free, used;
} nvml_memory;

/* name here, name there, arguments. Without those of the first group nothing works; any of the others may be
** missing. */
#define NEEDED_MAP(X)                                                     \
  X(init, "nvmlInit_v2", (void))                                          \
  X(count, "nvmlDeviceGetCount_v2", (unsigned *))                         \
  X(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *)) \
  X(by_bus, "nvmlDeviceGetHandleByPciBusId_v2", (const char *, nvml_device *))
#define OTHERS_MAP(X)                                                                        \
  X(by_uuid, "nvmlDeviceGetHandleByUUID", (const char *, nvml_device *))                     \
  X(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))                              \
  X(mig_mode, "nvmlDeviceGetMigMode", (nvml_device, unsigned *, unsigned *))                 \
  X(power, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned *))                             \
  X(power_limit, "nvmlDeviceGetEnforcedPowerLimit", (nvml_device, unsigned *))               \
  X(energy, "nvmlDeviceGetTotalEnergyConsumption", (nvml_device, unsigned long long *))      \
  X(rates, "nvmlDeviceGetUtilizationRates", (nvml_device, nvml_utilization *))               \
  X(memory, "nvmlDeviceGetMemoryInfo", (nvml_device, nvml_memory *))                         \
  X(temperature, "nvmlDeviceGetTemperature", (nvml_device, unsigned, unsigned *))            \
  X(clock, "nvmlDeviceGetClockInfo", (nvml_device, unsigned, unsigned *))                    \
  X(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons", (nvml_device, unsigned long long *)) \
  X(events, "nvmlDeviceGetCurrentClocksEventReasons", (nvml_device, unsigned long long *))

static struct {
#define X(name, symbol, arguments) int(*name) arguments;
  NEEDED_MAP(X) OTHERS_MAP(X)
#undef X
  const char *(*error_text)(int);
  char why[256]; /* it cannot be used; "" if it can */
} lib;

static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static void *open_library(void)
{
  static const char *const names[] = {"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (handle) return handle;
  }
  return NULL;
}

static void find(void *handle, const char *symbol, void *out) { *(void **)out = dlsym(handle, symbol); }

static const char *error_text(int code)
{
  const char *text = lib.error_text ? lib.error_text(code) : NULL;
  return text ? text : "unknown error";
}

static void start_library(void)
{
  int code = lib.init();
  if (code == NVML_OK) return;
  if (code == NVML_MISMATCH)
    snprintf(lib.why, sizeof lib.why,
             "NVIDIA's library and the loaded driver are of different versions; reboot, or reload the driver");
  else
    snprintf(lib.why, sizeof lib.why, "NVIDIA's management library does not start: %s", error_text(code));
}

/* The library stays loaded and started until the process ends. */
static void load(void)
{
  void *handle = open_library();
  if (!handle) {
    snprintf(lib.why, sizeof lib.why, "there is no libnvidia-ml.so.1, which comes with NVIDIA's driver (into a "
                                      "container with its capability 'utility')");
    return;
  }
#define X(name, symbol, arguments) find(handle, symbol, &lib.name);
  NEEDED_MAP(X) OTHERS_MAP(X)
#undef X
  find(handle, "nvmlErrorString", &lib.error_text);
#define X(name, symbol, arguments)                                                                                 \
  if (!lib.name && !*lib.why) snprintf(lib.why, sizeof lib.why, "NVIDIA's driver is too old: it has no %s", symbol);
  NEEDED_MAP(X)
#undef X
  if (!*lib.why) start_library();
}

static capl_status need_library(void)
{
  pthread_once(&loaded, load);
  return *lib.why ? CAPL_FAIL(CAPL_EUNSUPPORTED, "%s", lib.why) : CAPL_OK;
}

int monitor_gpu_count(const char **why)
{
  unsigned count = 0;
  pthread_once(&loaded, load);
  if (why) *why = *lib.why ? lib.why : "the driver knows no GPU";
  return !*lib.why && lib.count(&count) == NVML_OK ? (int)count : 0;
}

/* ---- one GPU ---------------------------------------------------------------------------------- */

/* What may be asked of it; a bit falls when it is not supported. */
enum {
  ASK_POWER = 1, ASK_LIMIT = 2, ASK_RATES = 4, ASK_MEMORY = 8, ASK_TEMPERATURE = 16, ASK_SM = 32, ASK_MEMORY_CLOCK = 64,
  ASK_THROTTLE = 128, ASK_ENERGY = 256, ASK_EVENTS = 512, ASK_ALL = 1023,
};

struct monitor_gpu {
  nvml_device whole, part; /* part: the MIG device whose memory counts, else the same */
  unsigned ask;
  bool lost, mig;
  char name[TEXT + 8];
};

static capl_status opened(int code, nvml_device device, const char *what, monitor_gpu **out)
{
  if (code == NVML_LOST)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "%s has fallen off its bus; only a reboot brings it back", what);
  if (code != NVML_OK) return CAPL_FAIL(CAPL_EUNSUPPORTED, "the driver does not report %s: %s", what, error_text(code));
  monitor_gpu *gpu = calloc(1, sizeof *gpu);
  if (!gpu) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a monitor");
  gpu->whole = gpu->part = device;
  gpu->ask = ASK_ALL;
  if (!lib.name || lib.name(device, gpu->name, TEXT) != NVML_OK) snprintf(gpu->name, sizeof gpu->name, "GPU");
  *out = gpu;
  return CAPL_OK;
}

/* A MIG GPU reports its load and power as a whole and the memory of each part. */
static void find_part(monitor_gpu *gpu, const uint8_t *u)
{
  unsigned current = 0, pending = 0;
  char id[64];
  gpu->mig = lib.mig_mode && lib.mig_mode(gpu->whole, &current, &pending) == NVML_OK && current == 1;
  if (!gpu->mig || !u || !lib.by_uuid) return;
  snprintf(id, sizeof id, "MIG-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2],
           u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
  if (lib.by_uuid(id, &gpu->part) != NVML_OK) gpu->part = gpu->whole;
  strncat(gpu->name, " (MIG)", sizeof gpu->name - strlen(gpu->name) - 1);
}

capl_status monitor_gpu_open(const char *bus_id, const uint8_t *uuid, monitor_gpu **out)
{
  nvml_device device = NULL;
  char what[64];
  *out = NULL;
  CAPL_TRY(need_library());
  snprintf(what, sizeof what, "the GPU at %.40s", bus_id);
  int code = lib.by_bus(bus_id, &device);
  CAPL_TRY(opened(code, device, what, out));
  find_part(*out, uuid);
  return CAPL_OK;
}

capl_status monitor_gpu_at(int index, monitor_gpu **out)
{
  nvml_device device = NULL;
  char what[64];
  *out = NULL;
  CAPL_TRY(need_library());
  snprintf(what, sizeof what, "GPU %d", index);
  int code = lib.by_index((unsigned)index, &device);
  CAPL_TRY(opened(code, device, what, out));
  find_part(*out, NULL);
  return CAPL_OK;
}

void monitor_gpu_close(monitor_gpu *gpu) { free(gpu); }

const char *monitor_gpu_name(const monitor_gpu *gpu) { return gpu->name; }

/* ---- readings --------------------------------------------------------------------------------- */

/* Whether a call brought a value; notes what need not be asked again. */
static bool got(monitor_gpu *gpu, unsigned bit, int code)
{
  if (code == NVML_OK) return true;
  if (code == NVML_NOT_SUPPORTED || code == NVML_NO_PERMISSION || code == NVML_NO_FUNCTION) gpu->ask &= ~bit;
  if (code == NVML_LOST) gpu->lost = true;
  return false;
}

/* Evaluates to whether metric `bit` is wanted, its function there, and its call with these arguments brought a
** value. */
#define ASK(gpu, bit, function, ...) \
  (((gpu)->ask & (bit)) && !(gpu)->lost && lib.function && got(gpu, bit, lib.function(__VA_ARGS__)))

static void read_power(monitor_gpu *gpu, monitor_reading *r)
{
  unsigned mw = 0;
  unsigned long long mj = 0;
  if (ASK(gpu, ASK_POWER, power, gpu->whole, &mw)) r->value[MONITOR_power_w] = mw / 1e3;
  if (ASK(gpu, ASK_LIMIT, power_limit, gpu->whole, &mw)) r->value[MONITOR_power_limit_w] = mw / 1e3;
  if (ASK(gpu, ASK_ENERGY, energy, gpu->whole, &mj)) r->energy_j = (double)mj / 1e3;
}

static void read_load(monitor_gpu *gpu, monitor_reading *r)
{
  nvml_utilization u = {0, 0};
  nvml_memory m = {0, 0, 0};
  if (ASK(gpu, ASK_RATES, rates, gpu->whole, &u)) {
    r->value[MONITOR_utilization] = u.gpu / 100.0;
    r->value[MONITOR_memory_utilization] = u.memory / 100.0;
  }
  if (ASK(gpu, ASK_MEMORY, memory, gpu->part, &m)) {
    r->value[MONITOR_memory_used] = (double)m.used;
    r->value[MONITOR_memory_total] = (double)m.total;
  }
}

static void read_clocks(monitor_gpu *gpu, monitor_reading *r)
{
  unsigned n = 0;
  unsigned long long bits = 0;
  if (ASK(gpu, ASK_TEMPERATURE, temperature, gpu->whole, TEMPERATURE_GPU, &n)) r->value[MONITOR_temperature_c] = n;
  if (ASK(gpu, ASK_SM, clock, gpu->whole, CLOCK_SM, &n)) r->value[MONITOR_sm_mhz] = n;
  if (ASK(gpu, ASK_MEMORY_CLOCK, clock, gpu->whole, CLOCK_MEMORY, &n)) r->value[MONITOR_memory_mhz] = n;
  /* The same under two names: new drivers have the second one. */
  bool known = ASK(gpu, ASK_THROTTLE, throttle, gpu->whole, &bits) || ASK(gpu, ASK_EVENTS, events, gpu->whole, &bits);
  if (!known) return;
  r->throttle = bits;
  r->value[MONITOR_throttled] = monitor_is_throttled(bits);
}

void monitor_gpu_read(monitor_gpu *gpu, monitor_reading *r)
{
  read_power(gpu, r);
  read_load(gpu, r);
  read_clocks(gpu, r);
  r->lost = gpu->lost;
}

/* ---- why clocks are held down ----------------------------------------------------------------- */

static const struct {
  uint64_t bit;
  bool trouble;
  const char *text;
} reasons[] = {
  {0x04, false, "power limit"}, {0x08, true, "hardware slowdown"}, {0x20, true, "heat"},
  {0x40, true, "heat, by hardware"}, {0x80, true, "power brake"},
};
enum { N_REASONS = sizeof reasons / sizeof *reasons };

bool monitor_is_throttled(uint64_t bits)
{
  for (int i = 0; i < N_REASONS; i++)
    if (bits & reasons[i].bit) return true;
  return false;
}

uint64_t monitor_trouble(void)
{
  uint64_t bits = 0;
  for (int i = 0; i < N_REASONS; i++)
    if (reasons[i].trouble) bits |= reasons[i].bit;
  return bits;
}

void monitor_throttle_text(uint64_t bits, char *text, size_t len)
{
  size_t used = 0;
  *text = '\0';
  for (int i = 0; i < N_REASONS && used < len; i++)
    if (bits & reasons[i].bit)
      used += (size_t)snprintf(text + used, len - used, "%s%s", used ? ", " : "", reasons[i].text);
}
