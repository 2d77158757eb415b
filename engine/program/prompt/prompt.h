/* prompt.h -- functions of C for the Lua side of the prompt: core.sys.prompt.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_PROMPT_H
#define CAPL_BIND_PROMPT_H

#include <lua.h>

/* Pushes the table of functions documented in prompt.c and picture.c. */
void capl_prompt_push(lua_State *L);

/* Adds those of picture.c to the table on top. */
void capl_prompt_add_pictures(lua_State *L);

#endif
