/* room.h -- memory in pieces that are freed together.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BASE_ROOM_H
#define CAPL_BASE_ROOM_H

#include <stddef.h>

#include "capl/error.h"

typedef struct base_room base_room;

/* n zero bytes that live until room_free(*room); *room is NULL at first. NULL: no memory. */
CAPL_API void *room_alloc(base_room **room, size_t n);
CAPL_API void room_free(base_room *room); /* NULL is fine */

#endif
