/* count.h -- from which number messages count dims and places: 0 for callers in C, 1 for those of the Lua binding.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_COUNT_H
#define CAPL_BASE_COUNT_H

#include <stdint.h>

#include "capl/error.h"

/* first: 0 or 1, from now on, on every thread. */
CAPL_API void capl_count_from(int first);

/* The number of a dim or place in a message. Negative ones count from the end: they stay. */
CAPL_API int64_t capl_counted(int64_t place);

#endif
