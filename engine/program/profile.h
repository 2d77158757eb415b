/* profile.h -- time, bytes and arithmetic per op and layer, for `capl bench --ops`.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BIND_PROFILE_H
#define CAPL_BIND_PROFILE_H

#include <lua.h>

/* Pushes {start, stop}, documented in profile.c. */
void capl_profile_push(lua_State *L);

#endif
