/* environment.h -- what a process with a foreign recipe in it knows of its surroundings.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SANDBOX_ENVIRONMENT_H
#define CAPL_SANDBOX_ENVIRONMENT_H

#include <stdbool.h>

#include "capl/error.h"

/* Whether a variable, "NAME=value", stays. */
CAPL_API bool capl_environment_keeps(const char *entry);

/* Takes away all variables but those that training needs, also from the memory that /proc/self/environ shows. Before
** any other thread is made. */
CAPL_API void capl_environment_clean(void);

#endif
