/* rtc_nvrtc.h -- the compiler itself: from source to machine code. Needs neither a GPU nor a driver.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_RTC_NVRTC_H
#define CAPL_CUDA_RTC_NVRTC_H

#include <stddef.h>

#include "capl/error.h"

/* Machine code (a cubin, to be freed) of source behind the prelude for compute capability 75, 80, 90 ... EUNSUPPORTED
** without NVRTC, EINTERNAL with the compiler's words where the source is wrong. */
capl_status rtc_compile(const char *source, int capability, void **code, size_t *bytes);

/* "NVRTC 13.0", or why there is none. */
const char *rtc_version(void);

#endif
