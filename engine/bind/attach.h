/* attach.h -- both sides of `capl attach` for Lua: the run that lets somebody in, and the terminal that comes in.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_ATTACH_H
#define CAPL_BIND_ATTACH_H

#include <lua.h>

/* Adds door_… (the run's side) and visit_… (the terminal's) to the table on the stack. */
void capl_attach_add(lua_State *L);

/* Opens this process's door, before the walls stand that would forbid it. */
void capl_attach_open(void);

#endif
