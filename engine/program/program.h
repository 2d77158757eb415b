/* program.h -- what the program is, for its own Lua library.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_PROGRAM_H
#define CAPL_BIND_PROGRAM_H

#include <lua.h>

/* Adds the functions documented in program.c to the table on the stack. */
void capl_program_add(lua_State *L);

#endif
