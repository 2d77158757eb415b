/* nvml.c -- a stand-in for NVIDIA's management library: two GPUs whose every figure and failure is set by tests.
**
** Built twice: as a driver of today, and with OLD_DRIVER as one that lacks what came later. Programs are told by
** CAPL_FAKE_NVML="function:code[:calls before it fails],…", and power_w=, temperature=, … of GPU 1.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, LOST = 15, HANGS = -1 };

typedef struct {
  unsigned long long power_mw, limit_mw, gpu, memory, used, total, temperature, sm, mem_clock, throttle, energy_mj;
} figures;

typedef struct nvml_device {
  const char *bus, *name, *uuid;
  figures f;
  int mig;
} *device;

static struct nvml_device gpus[2] = {
  {"00000000:02:00.0", "Fake 100", "GPU-00000000", {60000, 500000, 3, 1, 1 << 20, 1 << 30, 35, 300, 400, 1, 1000}, 0},
  {"00000000:01:00.0", "Fake 200", "GPU-00000001", {250000, 700000, 80, 40, 5 << 20, 8 << 20, 60, 1500, 2600, 0, 5000},
   0},
};
/* A part of the second GPU. */
static struct nvml_device part = {"00000000:01:00.0", "Fake 200 MIG", "MIG-01020304-0506-0708-090a-0b0c0d0e0f10", {0},
                                  0};

enum { MAX_FAULTS = 16 };
static struct {
  char function[64];
  int code, after;
} faults[MAX_FAULTS];
static int n_faults, calls;

/* ---- for tests -------------------------------------------------------------------------------- */

API void fake_reset(void);
API void fake_fail(const char *function, int code, int after);
API figures *fake_figures(int index);
API void fake_mig(int on);
API int fake_calls(void);

static figures before[2];

void fake_reset(void)
{
  n_faults = calls = 0;
  for (int i = 0; i < 2; i++) {
    if (before[i].power_mw) gpus[i].f = before[i];
    before[i] = gpus[i].f;
    gpus[i].mig = 0;
  }
}

void fake_fail(const char *function, int code, int after)
{
  snprintf(faults[n_faults].function, sizeof faults->function, "%s", function);
  faults[n_faults].code = code;
  faults[n_faults++].after = after;
}

figures *fake_figures(int index) { return &gpus[index].f; }
void fake_mig(int on) { gpus[1].mig = on; }
int fake_calls(void) { return calls; }

/* ---- the environment -------------------------------------------------------------------------- */

static void read_word(const char *word)
{
  char function[64];
  int code = 0, after = 0;
  unsigned long long n = 0;
  if (sscanf(word, "%63[a-zA-Z0-9_]:%d:%d", function, &code, &after) >= 2) fake_fail(function, code, after);
  else if (sscanf(word, "temperature=%llu", &n) == 1) gpus[1].f.temperature = n;
  else if (sscanf(word, "power_w=%llu", &n) == 1) gpus[1].f.power_mw = n * 1000;
  else if (strcmp(word, "mig") == 0) gpus[1].mig = 1;
}

__attribute__((constructor)) static void read_environment(void)
{
  char text[512];
  snprintf(text, sizeof text, "%s", getenv("CAPL_FAKE_NVML") ? getenv("CAPL_FAKE_NVML") : "");
  fake_reset();
  for (char *rest = NULL, *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) read_word(word);
}

/* The code with which this call of a function ends: OK unless it was told to fail. */
static int result(const char *function)
{
  calls++;
  for (int i = 0; i < n_faults; i++)
    if (strcmp(faults[i].function, function) == 0 && faults[i].after-- <= 0) {
      if (faults[i].code == HANGS) sleep(60);
      return faults[i].code;
    }
  return OK;
}
#define CALL                               \
  do {                                     \
    int code_ = result(__func__);          \
    if (code_ != OK) return code_;         \
  } while (0)

/* ---- the library ------------------------------------------------------------------------------ */

#define ENTRY(name, ...) \
  API int name(__VA_ARGS__); \
  int name(__VA_ARGS__)

API const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : code == 18
                                       ? "Driver/library version mismatch" : "Fake error"; }

ENTRY(nvmlInit_v2, void) { CALL; return OK; }

ENTRY(nvmlDeviceGetCount_v2, unsigned *n) { CALL; return *n = 2, OK; }

ENTRY(nvmlDeviceGetHandleByIndex_v2, unsigned i, device *out)
{
  CALL;
  return i < 2 ? (*out = &gpus[i], OK) : INVALID;
}

ENTRY(nvmlDeviceGetHandleByPciBusId_v2, const char *bus, device *out)
{
  unsigned domain, b, d, f;
  CALL;
  if (sscanf(bus, "%x:%x:%x.%x", &domain, &b, &d, &f) != 4) return INVALID;
  for (int i = 0; i < 2; i++) {
    unsigned own[4];
    sscanf(gpus[i].bus, "%x:%x:%x.%x", own, own + 1, own + 2, own + 3);
    if (own[0] == domain && own[1] == b && own[2] == d && own[3] == f) return *out = &gpus[i], OK;
  }
  return NOT_FOUND;
}

ENTRY(nvmlDeviceGetName, device g, char *name, unsigned len) { CALL; return snprintf(name, len, "%s", g->name), OK; }

#define VALUE(name, type, expression) \
  ENTRY(name, device g, type *out) { CALL; return g == &part ? NOT_SUPPORTED : (*out = (type)(expression), OK); }

VALUE(nvmlDeviceGetPowerUsage, unsigned, g->f.power_mw)

ENTRY(nvmlDeviceGetUtilizationRates, device g, unsigned *out)
{
  CALL;
  if (g == &part || g->mig) return NOT_SUPPORTED;
  out[0] = (unsigned)g->f.gpu;
  out[1] = (unsigned)g->f.memory;
  return OK;
}

ENTRY(nvmlDeviceGetMemoryInfo, device g, unsigned long long *out)
{
  CALL;
  out[0] = g == &part ? 1 << 20 : g->f.total;
  out[2] = g == &part ? 12345 : g->f.used;
  out[1] = out[0] - out[2];
  return OK;
}

ENTRY(nvmlDeviceGetTemperature, device g, unsigned which, unsigned *out)
{
  CALL;
  return which == 0 && g != &part ? (*out = (unsigned)g->f.temperature, OK) : NOT_SUPPORTED;
}

ENTRY(nvmlDeviceGetClockInfo, device g, unsigned which, unsigned *out)
{
  CALL;
  return *out = (unsigned)(which == 1 ? g->f.sm : g->f.mem_clock), OK;
}

#ifndef OLD_DRIVER
VALUE(nvmlDeviceGetEnforcedPowerLimit, unsigned, g->f.limit_mw)
VALUE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, g->f.energy_mj)
VALUE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, g->f.throttle)

ENTRY(nvmlDeviceGetMigMode, device g, unsigned *current, unsigned *pending)
{
  CALL;
  return *current = *pending = (unsigned)g->mig, OK;
}

ENTRY(nvmlDeviceGetHandleByUUID, const char *uuid, device *out)
{
  CALL;
  return strcmp(uuid, part.uuid) == 0 ? (*out = &part, OK) : NOT_FOUND;
}
#endif
