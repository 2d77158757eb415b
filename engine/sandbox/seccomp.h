/* seccomp.h -- the filter of system calls, and what has to be done on every thread; for sandbox.c.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SANDBOX_SECCOMP_H
#define CAPL_SANDBOX_SECCOMP_H

#include <stdbool.h>
#include <stddef.h>

#include "capl/error.h"

/* Whether kernel and processor can filter at all; why: 80 bytes. */
CAPL_API bool seccomp_possible(char *why, size_t room);

/* Filters the calls of all threads of this process, from now on and of those it makes. EIO, EUNSUPPORTED. */
CAPL_API capl_status seccomp_enable(void);

/* Runs f once on every thread but this one, whatever they do, and on those they make meanwhile. f may do nothing but
** system calls, and says whether it worked. Not from two threads at a time. EIO: f failed; EDEVICE: a thread does not
** answer. */
CAPL_API capl_status run_on_other_threads(bool (*f)(void));

#endif
