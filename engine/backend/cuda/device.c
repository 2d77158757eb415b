/* device.c -- looks for a driver and a GPU that this build has code for; names what is missing.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"

/* Compute capabilities this build has machine code for, ascending; newer cards run the PTX of the last. */
#ifndef CAPL_CUDA_ARCHS
#define CAPL_CUDA_ARCHS 75, 80, 86, 89, 90
#endif
static const int built_for[] = {CAPL_CUDA_ARCHS};
enum { BUILT_FOR = sizeof built_for / sizeof *built_for };

/* ---- is there a GPU? ------------------------------------------------------------------------- */

/* 12040 -> "12.4" */
static const char *version_text(int version, char *buf, size_t len)
{
  snprintf(buf, len, "%d.%d", version / 1000, version % 1000 / 10);
  return buf;
}

/* One number for all of a major version, by NVIDIA's guide "CUDA Compatibility", table 1 of minor version
** compatibility. What 12.8 has of its own needs its own driver, 570; capl uses none of that but PTX for cards newer
** than its machine code. */
int device_least_driver(int runtime)
{
  return runtime / 1000 == 13 ? 580 : runtime / 1000 == 12 ? 525 : 0;
}

static void hint_at_driver(int runtime)
{
  int least = device_least_driver(runtime);
  if (least == 0) capl_error_hint("install a newer NVIDIA driver");
  else if (runtime / 1000 == 12) capl_error_hint("install NVIDIA driver %d or newer", least);
  else capl_error_hint("install NVIDIA driver %d or newer, or take a build of capl with the toolkit of CUDA 12.8, "
                       "for which %d is "
                       "enough", least, device_least_driver(12080));
}

static capl_status driver_trouble(void)
{
  int driver = 0, runtime = 0;
  char has[16], needs[16];
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  cudaGetLastError();
  if (driver == 0) return CAPL_FAIL(CAPL_EUNSUPPORTED, "device cuda is not available: no NVIDIA driver is installed");
  CAPL_FAIL(CAPL_EUNSUPPORTED, "device cuda is not available: the NVIDIA driver is for CUDA %s, this build needs "
                               "CUDA %s",
            version_text(driver, has, sizeof has), version_text(runtime, needs, sizeof needs));
  hint_at_driver(runtime);
  return CAPL_EUNSUPPORTED;
}

static capl_status none_visible(void)
{
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (!visible)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "device cuda is not available: the NVIDIA driver sees no GPU on this machine");
  CAPL_FAIL(CAPL_EUNSUPPORTED, "device cuda is not available: CUDA_VISIBLE_DEVICES=\"%s\" leaves no GPU visible",
            visible);
  capl_error_hint("unset CUDA_VISIBLE_DEVICES, or name a GPU that nvidia-smi lists");
  return CAPL_EUNSUPPORTED;
}

capl_status device_count(int *count)
{
  *count = 0; /* on failure the runtime leaves it untouched */
  cudaError_t error = cudaGetDeviceCount(count);
  if (error == cudaSuccess && *count > 0) return CAPL_OK;
  cudaGetLastError();
  *count = 0;
  if (error == cudaErrorInsufficientDriver) return driver_trouble();
  if (error == cudaSuccess || error == cudaErrorNoDevice) return none_visible();
  return CAPL_FAIL(CAPL_EUNSUPPORTED, "device cuda is not available: %s (CUDA error %d)", cudaGetErrorString(error),
                   (int)error);
}

/* ---- one GPU --------------------------------------------------------------------------------- */

capl_status device_facts_get(int index, device_facts *out)
{
  struct cudaDeviceProp properties;
  memset(out, 0, sizeof *out);
  CU_TRY(cudaGetDeviceProperties(&properties, index), "asking about the GPU");
  snprintf(out->name, sizeof out->name, "%.127s", properties.name);
  out->capability = 10 * properties.major + properties.minor;
  out->multiprocessors = properties.multiProcessorCount;
  out->l2_bytes = properties.l2CacheSize;
  out->memory = properties.totalGlobalMem;
  if (cudaDeviceGetPCIBusId(out->bus, (int)sizeof out->bus, index) != cudaSuccess) cudaGetLastError();
  return CAPL_OK;
}

/* Machine code runs on cards of the same major version and the same or a higher minor one; PTX on all newer ones. */
static bool has_code_for(int capability)
{
  for (int k = 0; k < BUILT_FOR; k++)
    if (built_for[k] / 10 == capability / 10 && built_for[k] <= capability) return true;
  return built_for[BUILT_FOR - 1] <= capability;
}

static capl_status no_code_for(const device_facts *facts, int index)
{
  char list[128] = "";
  size_t used = 0;
  for (int k = 0; k < BUILT_FOR && used < sizeof list; k++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%d.%d", k ? ", " : "", built_for[k] / 10,
                             built_for[k] % 10);
  CAPL_FAIL(CAPL_EUNSUPPORTED,
            "device cuda:%d is not available: %s has compute capability %d.%d; this build has code for %s and newer",
            index, facts->name, facts->capability / 10, facts->capability % 10, list);
  capl_error_hint("build with -DCAPL_CUDA_ARCHS=%d where the toolkit still supports it, or use --device=cpu",
                  facts->capability);
  return CAPL_EUNSUPPORTED;
}

capl_status device_choose(int index, device_facts *out)
{
  int count;
  CAPL_TRY(device_count(&count));
  if (index >= count)
    return CAPL_FAIL(CAPL_EUNSUPPORTED,
                     "device cuda:%d is not available: this process sees %d GPU%s, the last is cuda:%d", index, count,
                     count == 1 ? "" : "s", count - 1);
  CAPL_TRY(device_facts_get(index, out));
  if (!has_code_for(out->capability)) return no_code_for(out, index);
  CU_TRY(cudaSetDevice(index), "choosing the GPU");
  CU_TRY(cudaFree(NULL), "starting the GPU");
  return CAPL_OK;
}

/* ---- words ----------------------------------------------------------------------------------- */

void device_describe(const device_facts *facts, char *text, size_t len)
{
  snprintf(text, len, "%s, compute capability %d.%d, %d SMs, %.1f GB", facts->name, facts->capability / 10,
           facts->capability % 10, facts->multiprocessors, (double)facts->memory / 1e9);
}
