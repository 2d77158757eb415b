/* memory.h -- how much memory this machine has, and this process may still take.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_MEMORY_H
#define CAPL_BASE_MEMORY_H

#include <stdint.h>

#include "capl/error.h"

/* Bytes of the machine, in use or not, or what CAPL_ASSUME has; 0 where nothing is known. */
CAPL_API int64_t capl_memory_total(void);

/* Bytes that can be taken without pushing others out: the kernel's MemAvailable, or what the control groups of this
** process leave of their limits, pages of files that can be dropped counted as free. 0 where nothing is known.
** root: where /proc and /sys are looked for, "" outside tests; there CAPL_ASSUME overrides them. */
CAPL_API int64_t capl_memory_available(const char *root);

#endif
