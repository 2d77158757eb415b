/* confine.h -- a worker with a foreign recipe: what is taken from it at its start, and the sandbox before the recipe's
** text. SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_PROGRAM_CONFINE_H
#define CAPL_PROGRAM_CONFINE_H

#include <lua.h>

#include "program/job.h"

/* At the start of the worker, before it has threads: the environment, descriptors of others, limits. */
void capl_confine_begin(const capl_job *job);

/* Adds confine(), walls() and run_folder() to the table on the stack, which is core.sys. */
void capl_confine_add(lua_State *L);

#endif
