/* sys.h -- files, clock and terminal for capl's own Lua library. Recipes never see this table.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_SYS_H
#define CAPL_BIND_SYS_H

#include <lua.h>

/* Pushes the table of functions documented in sys.c. */
int capl_sys_push(lua_State *L);

/* Adds processes and what they share (process.c) to the table on the stack. */
void capl_sys_add_processes(lua_State *L);

/* Adds hashes of files (hash.c), and what files a recipe has used (used.c). */
void capl_sys_add_hashes(lua_State *L);
void capl_sys_add_used(lua_State *L);

/* Takes a progress bar off the terminal; called before anything else is printed. */
void capl_sys_bar_clear(void);

/* Output goes to a terminal elsewhere, so many columns wide; 0: it does not. -> what was said before */
int capl_sys_columns(int columns);

/* Leaves the bar where it is and begins a new line; for a signal handler that ends the process. */
void capl_sys_bar_leave(void);

#endif
