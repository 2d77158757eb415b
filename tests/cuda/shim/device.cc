/* device.cc -- the GPUs that the environment asks for, errors, and calls made to fail.
** SPDX-License-Identifier: Apache-2.0
*/
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block.h"
#include "runtime.h"

enum { NEEDS_DRIVER = 13000, OLD_DRIVER = 12000 };

shim_settings settings;
shim_counts counts;

static std::recursive_mutex &lock = *new std::recursive_mutex;
static cudaError_t lost = cudaSuccess;
static thread_local cudaError_t last_error = cudaSuccess;
static uint64_t asked, asked_for_memory; /* calls that can fail, and those that can with code 2 */
static uint64_t fail_from;               /* of these calls, when failures are counted from here */
static thread_local int chosen; /* each thread has its own, GPU 0 to begin with */
static int first_chosen = -1;   /* the first that this process chose */
static char fault[1024]; /* the last that was found in a kernel or a launch */
static int report_to = -1; /* opened early: a recipe's sandbox may forbid it later */

/* ---- settings -------------------------------------------------------------------------------- */

static const char *env(const char *name, const char *otherwise)
{
  const char *value = getenv(name);
  return value && *value ? value : otherwise;
}

/* "CODE:N" or "CODE:N+". */
static void read_failure(const char *text)
{
  char plus = 0;
  unsigned long long at = 0;
  int n = sscanf(text, "%d:%llu%c", &settings.fail_code, &at, &plus);
  if (n < 2) settings.fail_code = 0;
  settings.fail_at = at;
  settings.fail_on = n == 3 && plus == '+';
}

static void read_settings()
{
  settings = {};
  settings.async = (shim_async)atoi(env("CAPL_SHIM_ASYNC", "1"));
  settings.backwards = strcmp(env("CAPL_SHIM_ORDER", "fwd"), "rev") == 0;
  settings.devices = atoi(env("CAPL_SHIM_DEVICES", "1"));
  const char *driver = env("CAPL_SHIM_DRIVER", "");
  settings.driver = !strcmp(driver, "none") ? 0 : !strcmp(driver, "old") ? OLD_DRIVER : NEEDS_DRIVER;
  settings.capability = atoi(env("CAPL_SHIM_CAPABILITY", "90"));
  settings.multiprocessors = atoi(env("CAPL_SHIM_MULTIPROCESSORS", "4"));
  settings.refuses_capture = strcmp(env("CAPL_SHIM_CAPTURE", "1"), "0") == 0;
  settings.launch_us = atof(env("CAPL_SHIM_LAUNCH_US", "0"));
  settings.memory = strtoull(env("CAPL_SHIM_MEMORY", "17179869184"), nullptr, 0);
  read_failure(env("CAPL_SHIM_FAIL", ""));
  settings.race_goes_on = strcmp(env("CAPL_SHIM_RACE", "fail"), "report") == 0;
  settings.eager = strcmp(env("CUDA_MODULE_LOADING", "LAZY"), "EAGER") == 0;
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible && (!*visible || !strcmp(visible, "-1"))) settings.devices = 0;
}

__attribute__((constructor)) static void begin()
{
  read_settings();
  const char *report = getenv("CAPL_SHIM_REPORT");
  if (report) report_to = open(report, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/* What the process did, for a sweep over its calls. Written anew every time: a process may end without a word. */
static void report()
{
  char line[64];
  int n = snprintf(line, sizeof line, "%llu %llu\n", (unsigned long long)asked, (unsigned long long)asked_for_memory);
  if (report_to >= 0 && pwrite(report_to, line, (size_t)n, 0) != n) report_to = -1;
}

void shim_reset(void)
{
  std::lock_guard<std::recursive_mutex> guard(lock);
  capture_reset();
  streams_reset();
  memory_reset();
  fault[0] = '\0';
  counts = {};
  asked = asked_for_memory = fail_from = 0;
  lost = last_error = cudaSuccess;
  chosen = 0;
  first_chosen = -1;
  read_settings();
}

void shim_counts_get(shim_counts *out)
{
  std::lock_guard<std::recursive_mutex> guard(lock);
  *out = counts;
}

uint64_t shim_calls(int code)
{
  return code == cudaErrorMemoryAllocation ? asked_for_memory : asked;
}

void shim_fail(int code, uint64_t at, int on)
{
  std::lock_guard<std::recursive_mutex> guard(lock);
  settings.fail_code = code;
  settings.fail_at = at;
  settings.fail_on = on;
  fail_from = shim_calls(code);
}

const char *shim_fault(void)
{
  return fault;
}

cudaError_t fault_set(cudaError_t error, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(fault, sizeof fault, format, arguments);
  va_end(arguments);
  fprintf(stderr, "cuda shim: %s\n", fault);
  return error;
}

/* ---- entering a call ------------------------------------------------------------------------- */

void become_lost(cudaError_t why)
{
  if (lost == cudaSuccess) lost = why;
}

bool is_lost()
{
  return lost != cudaSuccess;
}

/* Errors after which a real GPU answers nothing but that error. */
static bool is_final(int code)
{
  return code == cudaErrorECCUncorrectable || (code >= cudaErrorIllegalAddress && code < cudaErrorNotPermitted);
}

static cudaError_t injected(shim_call kind)
{
  asked++;
  asked_for_memory += kind == ALLOCATES;
  report();
  if (!settings.fail_code || (settings.fail_code == cudaErrorMemoryAllocation && kind != ALLOCATES)) return cudaSuccess;
  uint64_t now = shim_calls(settings.fail_code) - fail_from;
  if (now != settings.fail_at && !(settings.fail_on && now > settings.fail_at)) return cudaSuccess;
  cudaError_t code = (cudaError_t)settings.fail_code;
  if (is_final(code)) become_lost(code);
  return code;
}

static cudaError_t no_gpu()
{
  if (settings.driver < NEEDS_DRIVER) return cudaErrorInsufficientDriver;
  return settings.devices > 0 ? cudaSuccess : cudaErrorNoDevice;
}

/* On a real machine a thread that did not choose starts GPU 0: its memory fills with contexts of other ranks' threads. */
static void look_at_device()
{
  if (first_chosen < 0 || chosen == first_chosen) return;
  counts.strays++;
  shim_trace("stray %d", chosen);
}

call::call(shim_call kind) : guard(lock), error(no_gpu())
{
  counts.calls++;
  if (error == cudaSuccess) error = lost;
  if (error == cudaSuccess) error = injected(kind);
  if (error == cudaSuccess && kind != ASKS) look_at_device();
}

call::~call()
{
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
}

/* ---- errors ---------------------------------------------------------------------------------- */

cudaError_t cudaGetLastError(void)
{
  std::lock_guard<std::recursive_mutex> guard(lock);
  cudaError_t error = is_lost() ? lost : last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void)
{
  std::lock_guard<std::recursive_mutex> guard(lock);
  return is_lost() ? lost : last_error;
}

static const struct {
  cudaError_t code;
  const char *name, *text;
} errors[] = {
#define SHIM_ERROR(name, number, text) {name, #name, text},
#include "shim_errors.def"
#undef SHIM_ERROR
};

const char *cudaGetErrorString(cudaError_t error)
{
  for (auto &e : errors)
    if (e.code == error) return e.text;
  return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error)
{
  for (auto &e : errors)
    if (e.code == error) return e.name;
  return "unrecognized error code";
}

/* ---- devices --------------------------------------------------------------------------------- */

cudaError_t cudaDriverGetVersion(int *version)
{
  *version = settings.driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
  *version = atoi(env("CAPL_SHIM_RUNTIME", "0"));
  if (!*version) *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
  call c(ASKS);
  if (!c.refused()) *count = settings.devices;
  return c.result();
}

static bool exists(int index)
{
  return index >= 0 && index < settings.devices;
}

cudaError_t cudaSetDevice(int index)
{
  call c(ASKS);
  if (c.refused()) return c.result();
  if (!exists(index)) return c.leave(cudaErrorInvalidDevice);
  chosen = index;
  if (first_chosen < 0) first_chosen = index;
  return cudaSuccess;
}

int current_device()
{
  return chosen;
}

cudaError_t cudaGetDevice(int *index)
{
  call c(ASKS);
  if (!c.refused()) *index = chosen;
  return c.result();
}

/* An H100's figures, but for the memory. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int index)
{
  call c(ASKS);
  if (c.refused()) return c.result();
  if (!exists(index)) return c.leave(cudaErrorInvalidDevice);
  *out = {};
  snprintf(out->name, sizeof out->name, "Shim GPU %d", index);
  out->totalGlobalMem = settings.memory;
  out->sharedMemPerBlock = 48 << 10;
  out->sharedMemPerBlockOptin = MAX_SHARED;
  out->sharedMemPerMultiprocessor = 228 << 10;
  out->major = settings.capability / 10;
  out->minor = settings.capability % 10;
  out->multiProcessorCount = settings.multiprocessors;
  out->warpSize = 32;
  out->maxThreadsPerBlock = MAX_THREADS;
  out->maxThreadsPerMultiProcessor = 2048;
  out->maxBlocksPerMultiProcessor = 32;
  out->l2CacheSize = 50 << 20;
  out->memoryBusWidth = 5120;
  out->asyncEngineCount = 3;
  out->pciBusID = 1 + index;
  return cudaSuccess;
}

static int attribute(const cudaDeviceProp &p, enum cudaDeviceAttr which)
{
  switch (which) {
  case cudaDevAttrMaxThreadsPerBlock: return p.maxThreadsPerBlock;
  case cudaDevAttrMaxGridDimX: return 2147483647;
  case cudaDevAttrMaxGridDimY: return 65535;
  case cudaDevAttrMaxSharedMemoryPerBlock: return (int)p.sharedMemPerBlock;
  case cudaDevAttrWarpSize: return p.warpSize;
  case cudaDevAttrMaxRegistersPerBlock: return 65536;
  case cudaDevAttrClockRate: return 1700000;
  case cudaDevAttrMultiProcessorCount: return p.multiProcessorCount;
  case cudaDevAttrMemoryClockRate: return 2600000;
  case cudaDevAttrGlobalMemoryBusWidth: return p.memoryBusWidth;
  case cudaDevAttrL2CacheSize: return p.l2CacheSize;
  case cudaDevAttrMaxThreadsPerMultiProcessor: return p.maxThreadsPerMultiProcessor;
  case cudaDevAttrAsyncEngineCount: return p.asyncEngineCount;
  case cudaDevAttrComputeCapabilityMajor: return p.major;
  case cudaDevAttrComputeCapabilityMinor: return p.minor;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return (int)p.sharedMemPerMultiprocessor;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: return (int)p.sharedMemPerBlockOptin;
  case cudaDevAttrMaxBlocksPerMultiprocessor: return p.maxBlocksPerMultiProcessor;
  case cudaDevAttrIntegrated:
  case cudaDevAttrMemoryPoolsSupported: return 0;
  }
  return -1;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int index)
{
  cudaDeviceProp p;
  cudaError_t error = cudaGetDeviceProperties(&p, index);
  if (error != cudaSuccess) return error;
  int v = attribute(p, which);
  if (v < 0) return cudaErrorInvalidValue;
  *value = v;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
  call c;
  *least = 0;
  *greatest = -5;
  return c.result();
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int len, int index)
{
  call c(ASKS);
  if (c.refused()) return c.result();
  if (!exists(index) || len < 13) return c.leave(exists(index) ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
  snprintf(out, (size_t)len, "0000:%02X:00.0", 1 + index);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
  call c;
  if (c.refused()) return c.result();
  cudaError_t error = refuse_while_any_is_captured();
  counts.waits++;
  return c.leave(error == cudaSuccess ? run_everything() : error);
}
