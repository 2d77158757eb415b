/* command.h -- `capl serve` for Lua.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SERVE_COMMAND_H
#define CAPL_SERVE_COMMAND_H

#include <lua.h>

/* Adds serve() and base64_png() to the table on the stack, which is core.sys. */
void capl_serve_add(lua_State *L);

#endif
