/* monitor.h -- power, load, memory, temperature and clocks of GPU and processor, sampled beside training.
**
** A monitor takes readings, by a thread of its own or when asked, and adds each to all of its windows. A window holds
** means over time, least and greatest of what came since it was last taken: one for each who looks (a log interval, the
** whole run, a live line). NaN is "not known": never 0, never an old value.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_MONITOR_MONITOR_H
#define CAPL_MONITOR_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capl/error.h"

/* name, which is also its key in files; what it is. Shares are from 0 to 1. */
#define MONITOR_GPU_MAP(X)                                                                        \
  X(power_w, "power of the GPU, W")                                                               \
  X(power_limit_w, "the most it may draw, W")                                                     \
  X(utilization, "share of the time in which it ran a kernel")                                    \
  X(memory_utilization, "share of the time in which its memory was read or written")              \
  X(memory_used, "bytes of its memory in use, by all programs")                                   \
  X(memory_total, "bytes of its memory")                                                          \
  X(temperature_c, "temperature of the GPU, degrees Celsius")                                     \
  X(sm_mhz, "clock of its multiprocessors, MHz")                                                  \
  X(memory_mhz, "clock of its memory, MHz")                                                       \
  X(throttled, "share of the time in which heat or power held its clocks down")
#define MONITOR_CPU_MAP(X)                                                                        \
  X(cpu, "CPU utilization of the process, of the processors available to it")                         \
  X(cpu_machine, "CPU utilization of the machine")                                \
  X(load, "processes that ran or waited for a processor, mean of a minute")                       \
  X(rss, "bytes of memory of the process")                                                        \
  X(ram_used, "bytes of memory in use: of the container if it is limited, else of the machine")   \
  X(ram_total, "bytes of memory it may use")                                                      \
  X(cpu_temperature_c, "temperature of the processor, degrees Celsius")                           \
  X(cpu_mhz, "clock of the processors, MHz")                                                      \
  X(cpu_power_w, "power of the processors, W")
#define MONITOR_MAP(X) MONITOR_GPU_MAP(X) MONITOR_CPU_MAP(X)

typedef enum {
#define X(name, text) MONITOR_##name,
  MONITOR_MAP(X)
#undef X
  MONITOR_COUNT
} monitor_metric;

CAPL_API const char *monitor_name(monitor_metric figure);

/* One look at the machine. */
typedef struct {
  double value[MONITOR_COUNT];
  double energy_j;   /* of the GPU, its own count since the driver was loaded; NaN where it keeps none */
  uint64_t throttle; /* why clocks are held down: bits for monitor_throttle_text */
  bool lost, ended;  /* the GPU is lost; the process has ended */
} monitor_reading;

/* ---- sources ---------------------------------------------------------------------------------- */

typedef struct monitor_gpu monitor_gpu; /* one GPU of NVML (nvml.c) */

/* The GPU with that PCI bus id ("00000000:3B:00.0"); never by number, which CUDA and NVML count differently. uuid: of
** the CUDA device, 16 bytes, or NULL: which part of a GPU that is cut into MIG devices. EUNSUPPORTED with the
** reason. */
CAPL_API capl_status monitor_gpu_open(const char *bus_id, const uint8_t *uuid, monitor_gpu **out);
/* The GPU that NVML counts as index; EUNSUPPORTED: there is none. */
CAPL_API capl_status monitor_gpu_at(int index, monitor_gpu **out);
/* GPUs on this machine, 0 without a driver; why then says so. */
CAPL_API int monitor_gpu_count(const char **why);
CAPL_API void monitor_gpu_close(monitor_gpu *gpu);
CAPL_API const char *monitor_gpu_name(const monitor_gpu *gpu);
/* Adds the GPU's metrics to r. */
CAPL_API void monitor_gpu_read(monitor_gpu *gpu, monitor_reading *r);
/* "power cap, heat" of a reading's bits into text; "" for none that matters. */
CAPL_API void monitor_throttle_text(uint64_t bits, char *text, size_t len);
/* Whether they are reasons that slow training down, and not idleness. */
CAPL_API bool monitor_is_throttled(uint64_t bits);

/* Bits of reasons that somebody should look after: heat, not a power limit that is reached. */
CAPL_API uint64_t monitor_trouble(void);

typedef struct monitor_process monitor_process; /* a process and its machine (process.c) */

/* pid 0: this process. root: where /proc and /sys are looked for, "" outside tests. ENOMEM; EVALUE: there is no such
** process. */
CAPL_API capl_status monitor_process_open(pid_t pid, const char *root, monitor_process **out);
CAPL_API void monitor_process_close(monitor_process *p);
/* Adds its metrics to r; shares of processors are those since the last call, so the first has none. */
CAPL_API void monitor_process_read(monitor_process *p, monitor_reading *r);

/* ---- the monitor ------------------------------------------------------------------------------ */

typedef struct monitor monitor;

typedef struct {
  double every;        /* seconds between two readings of its thread; 0: no thread, monitor_sample takes them */
  double hot_c;        /* a warning above it; 0 = 85 */
  monitor_gpu *gpu;    /* taken over, also on failure; may be NULL */
  monitor_process *process; /* likewise */
} monitor_options;

CAPL_API capl_status monitor_open(const monitor_options *options, monitor **out);
/* Ends the thread; one that hangs in the driver is left behind. m may be NULL. */
CAPL_API void monitor_close(monitor *m);
/* A reading of now: it may take milliseconds. Nothing is known when the thread's driver does not answer for a third of
** a second. out may be NULL. */
CAPL_API void monitor_sample(monitor *m, monitor_reading *out);

enum { MONITOR_WINDOWS = 8 };

/* What a window saw. */
typedef struct {
  int samples;
  double seconds; /* between the reading before its first one and its last */
  double mean[MONITOR_COUNT], least[MONITOR_COUNT], most[MONITOR_COUNT];
  double energy_j;    /* of the GPU in that time; NaN if not known */
  bool energy_counted; /* by the GPU itself; else power times time */
  uint64_t throttle;  /* all reasons that were seen */
} monitor_figures;

/* A window's number, below MONITOR_WINDOWS; -1: all are taken. */
CAPL_API int monitor_window(monitor *m);
/* Its metrics since it was opened or last taken with reset. Waits for no reading. */
CAPL_API void monitor_take(monitor *m, int window, bool reset, monitor_figures *out);
/* The next event to report (heat, slow clocks, full memory, a lost GPU) into text; false: nothing
** more. */
CAPL_API bool monitor_event(monitor *m, char *text, size_t len);
/* Processor seconds that its thread has used. */
CAPL_API double monitor_cost(const monitor *m);
CAPL_API const char *monitor_gpu_of(const monitor *m); /* its name, NULL without */

#endif
