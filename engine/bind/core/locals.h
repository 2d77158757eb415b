/* locals.h -- the local names of a recipe's functions, for people who look at a run.
**
** Two kinds. Kept frames are copies: of the main chunk when it returns, of all functions of the recipe when an error is
** raised. Live frames are those of functions that wait for the prompt to end: what is set there holds when they go on.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_FRAMES_H
#define CAPL_BIND_FRAMES_H

#include <lua.h>

/* Adds frames_keep, frames_kept, frames_live, frames_get and frames_set to the table on the stack. */
void capl_locals_add(lua_State *L);

/* lua_pcall of the engine's own functions that put something back after an error and raise it again: where frames are
** kept, those of the error are, before they are gone. */
int bind_pcall(lua_State *L, int nargs, int nresults);

/* In a handler of errors, with the error on top: keeps the frames, unless they are those of the same error already. */
void bind_locals_note(lua_State *L);
/* Before a stop is raised with the interrupt pending, which ends handlers, too. */
void bind_locals_stop(lua_State *L);
/* The error that was noted last is now the one on top: a text has become a table. */
void bind_locals_rename(lua_State *L);

#endif
