/* log.h -- messages the engine wants a person to see, through one callback.
**
** The engine itself never prints: the program decides where messages go. Without a callback they
** are dropped.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_LOG_H
#define CAPL_BASE_LOG_H

#include "capl/error.h"

typedef void (*capl_log_fn)(void *user, const char *line);

CAPL_API void capl_log_set(capl_log_fn callback, void *user);
CAPL_API void capl_log(const char *fmt, ...) CAPL_PRINTF(1, 2);

#endif
