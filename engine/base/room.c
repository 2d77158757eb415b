/* room.c -- memory in pieces that are freed together.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/room.h"

#include <stdlib.h>

struct base_room {
  base_room *next;
  max_align_t bytes[];
};

void *room_alloc(base_room **room, size_t n)
{
  base_room *piece = calloc(1, sizeof *piece + n);
  if (!piece) return NULL;
  piece->next = *room;
  *room = piece;
  return piece->bytes;
}

void room_free(base_room *room)
{
  while (room) {
    base_room *next = room->next;
    free(room);
    room = next;
  }
}
