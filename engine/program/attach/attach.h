/* attach.h -- both sides of `capl attach` for Lua: the run that lets somebody in, and the terminal that comes in.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_ATTACH_H
#define CAPL_BIND_ATTACH_H

#include <lua.h>
#include <stdbool.h>

/* Adds attach_… (the run's side) and client_… (the terminal's) to the table on the stack. */
void capl_attach_add(lua_State *L);

struct time_hold;

/* Where the supervisor sees that this process is held by somebody at a prompt, so that the time does not count; NULL =
** nowhere. */
void capl_attach_hold(struct time_hold *place);
/* It is held from now on, or no longer. */
void capl_attach_held(bool on);

/* Async-signal-safe: ends the line of a client, if one runs. */
void capl_attach_stop_line(void);

/* Opens this process's socket, before the sandbox forbids it. */
void capl_attach_open(void);

#endif
