/* rtc.h -- kernels from source text, compiled while the program runs.
**
** Source is CUDA C++ that needs no header: a prelude gives it int64_t and so on, cu_f16, cu_bf16, cu_float and cu_as of
** kernels/kernel.h, and RTC_KERNEL in the place of `extern "C" __global__`. A kernel takes one struct by value. What
** was compiled is kept on disk (plan_cache.h), by source, architecture and compiler. The tests-only build has rtc.c of
** its own, which asks the system's C++ compiler; only rtc.c here knows NVRTC, which is loaded when the first kernel
** wants it. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_RTC_H
#define CAPL_CUDA_RTC_H

#include "backend/cuda/cuda.h"

/* Whether kernels can be compiled for this GPU. The reason why not is logged once. */
bool rtc_available(void);

/* The kernel `name` of source, ready for cu_launch as long as the process lives. Takes some 50 ms, or a few where the
** disk has it; keep what it gives. ESTATE while cu.capturing; EINTERNAL with the compiler's words and the line they are
** about. */
capl_status rtc_kernel(const char *name, const char *source, cu_entry *out);

#endif
