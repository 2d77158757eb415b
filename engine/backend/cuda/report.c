/* report.c -- what `capl info` prints of CUDA: driver, libraries, and what each GPU can do.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/cuda/blas.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/device.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/nccl_library.h"

typedef struct {
  char *at;
  size_t room;
} text_out;

static void line(text_out *out, const char *name, const char *format, ...) CAPL_PRINTF(3, 4);

static void line(text_out *out, const char *name, const char *format, ...)
{
  char value[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(value, sizeof value, format, arguments);
  va_end(arguments);
  int used = snprintf(out->at, out->room, "%-9s %s\n", name, value);
  size_t step = used < 0 ? 0 : (size_t)used < out->room ? (size_t)used : out->room - 1;
  out->at += step;
  out->room -= step;
}

/* ---- driver and libraries -------------------------------------------------------------------- */

/* "580.65.06" out of the kernel module's own page; "" where there is none. */
static void kernel_module(char *version, size_t len)
{
  version[0] = '\0';
  FILE *file = fopen("/proc/driver/nvidia/version", "r");
  if (!file) return;
  char first[256] = "";
  if (fgets(first, sizeof first, file))
    for (char *word = strtok(first, " \t\n"); word && !version[0]; word = strtok(NULL, " \t\n"))
      if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.')) snprintf(version, len, "%s", word);
  fclose(file);
}

static void driver_line(text_out *out)
{
  int driver = 0;
  char module[32];
  if (cudaDriverGetVersion(&driver) != cudaSuccess) cudaGetLastError();
  kernel_module(module, sizeof module);
  if (driver == 0) line(out, "driver", "none");
  else line(out, "driver", "%s%sfor CUDA %d.%d", module, module[0] ? ", " : "", driver / 1000, driver % 1000 / 10);
}

static void library_lines(text_out *out)
{
  int runtime = 0;
  char nccl[96], driver[48] = "";
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) cudaGetLastError();
  int least = device_least_driver(runtime);
  if (least) snprintf(driver, sizeof driver, ", needs NVIDIA driver %d or newer", least);
  line(out, "CUDA", "%d.%d%s", runtime / 1000, runtime % 1000 / 10, driver);
  line(out, "cuDNN", "%s", dnn_version());
  line(out, "cuBLASLt", "%s", blas_version());
  line(out, "NCCL", "%s", nccl_version_text(nccl, sizeof nccl));
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* Images per step to begin with, by memory alone: a table, not a measurement. */
static int recommended_batch(size_t memory)
{
  static const struct {
    double gigabytes;
    int batch;
  } table[] = {{70, 1024}, {36, 512}, {22, 256}, {11, 128}, {0, 64}};
  int k = 0;
  while ((double)memory / 1e9 < table[k].gigabytes) k++;
  return table[k].batch;
}

static void gpu_lines(text_out *out, int index, const device_facts *facts)
{
  char name[16], text[256];
  snprintf(name, sizeof name, "cuda:%d", index);
  device_describe(facts, text, sizeof text);
  line(out, name, "%s", text);
  line(out, "", "tf32 %s, bf16 %s, fp16 %s, %.0f MB L2, bus %s; recommended batch %d",
       facts->capability >= 80 ? "yes" : "no", facts->capability >= 80 ? "yes" : "no",
       facts->capability >= 70 ? "yes" : "no", (double)facts->l2_bytes / 1e6, facts->bus,
       recommended_batch(facts->memory));
}

capl_status device_report(char *text, size_t len)
{
  text_out out = {text, len};
  int count;
  text[0] = '\0';
  if (device_count(&count) != CAPL_OK || dnn_check() != CAPL_OK) line(&out, "off", "%s", capl_error_last()->message);
  driver_line(&out);
  library_lines(&out);
  for (int k = 0; k < count; k++) {
    device_facts facts;
    if (device_facts_get(k, &facts) == CAPL_OK) gpu_lines(&out, k, &facts);
    else line(&out, "cuda", "number %d: %s", k, capl_error_last()->message);
  }
  return CAPL_OK;
}
