/* hold.h -- time that a process does not count, because a person holds it at a prompt.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_ATTACH_HOLD_H
#define CAPL_ATTACH_HOLD_H

#include <stdatomic.h>

/* Written by the process, read by its supervisor. */
typedef struct time_hold {
  atomic_llong before_ms; /* of all times that are over */
  atomic_llong since_ms;  /* on the monotonic clock, when this one began; 0 = it is not held */
} time_hold;

#endif
