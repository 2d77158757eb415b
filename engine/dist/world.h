/* world.h -- what the files of engine/dist share: the world as it is inside, and the calls of joining and of
** collectives to the control channel and the watchdog.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DIST_WORLD_H
#define CAPL_DIST_WORLD_H

#include "capl/capl.h"
#include "capl/dist.h"

typedef struct control control;   /* control.h */
typedef struct watchdog watchdog; /* watchdog.h */

enum { WORLD_WORKS = 64 };

struct capl_work {
  capl_world *world;
  int64_t ticket;
  uint64_t number;       /* of this collective, from 1 */
  capl_tensor *held[2];  /* whose memory is in use until it is done */
  struct capl_work *next_free;
};

typedef struct {
  const capl_collectives *table;
  void *state;
} world_library;

struct capl_world {
  capl_place place;
  capl_device *device;
  double watchdog_s;
  char (*hosts)[CAPL_HOST_NAME];
  /* What moves the device's tensors; without a table in a world of one, and on devices that compute nothing. mpi: where
  ** mpirun has started the ranks, on GPUs too. */
  world_library collectives, mpi;
  control *control;   /* NULL in a world of one */
  watchdog *watchdog; /* likewise */
  /* Of the thread that makes the calls. */
  uint64_t calls, bytes;
  double waited;
  int64_t last_ticket;
  capl_work works[WORLD_WORKS], *free_works; /* so that a step allocates none; more come from the heap */
};

/* Opens the control channel of this launch and fills hosts (connect.c). */
capl_status world_connect(capl_world *world);

/* ---- the watchdog's part (hooks.c), called by collectives.c on the thread that makes the calls ------ */

/* This rank has begun collective number n, "all_reduce" of so many bytes, and may compute meanwhile. peer: the one
** other rank that takes part, -1 = all. */
void watchdog_begin(capl_world *world, const char *name, uint64_t number, uint64_t bytes, int peer);
/* The library's ticket of this collective, for queries of completion. */
void watchdog_ticket(capl_world *world, uint64_t number, int64_t ticket);
void watchdog_end(capl_world *world, uint64_t number);
/* From here on the library may be queried, or no longer. */
void watchdog_library(capl_world *world, bool open);

#endif
