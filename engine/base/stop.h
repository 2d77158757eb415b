/* stop.h -- whether somebody wants the end: asked by loops that may take seconds.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_STOP_H
#define CAPL_BASE_STOP_H

#include <stdbool.h>

#include "capl/error.h"

/* asked: what capl_stop_check asks from now on, on any thread; NULL: nothing stops. */
CAPL_API void capl_stop_when(bool (*asked)(void));

/* EINTERRUPT: "interrupted". The loop ends, gives back what it holds, and returns this. */
capl_status capl_stop_check(void);

#endif
