/* world.h -- what the files of engine/dist share: the world as it is inside, and what joining and collectives ask of
** the star and the watchdog.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DIST_WORLD_H
#define CAPL_DIST_WORLD_H

#include "capl/capl.h"
#include "capl/dist.h"

typedef struct star star;   /* control.h */
typedef struct watch watch; /* watchdog.h */

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
  double watchdog; /* seconds */
  char (*hosts)[CAPL_HOST_NAME];
  /* What moves the device's tensors; without a table in a world of one, and on devices that compute nothing. mpi: where
  ** mpirun has started the ranks, on GPUs too. */
  world_library collectives, mpi;
  star *star;   /* NULL in a world of one */
  watch *watch; /* likewise */
  /* Of the thread that makes the calls. */
  uint64_t calls, bytes;
  double waited;
  int64_t last_ticket;
  capl_work works[WORLD_WORKS], *free_works; /* so that a step allocates none; more come from the heap */
};

/* Opens the star of this launch and fills hosts (connect.c). */
capl_status world_connect(capl_world *world);

/* ---- the watchdog's part (hooks.c), called by collectives.c on the thread that makes the calls ------ */

/* This rank has begun collective number n, "all_reduce" of so many bytes; it may compute while that goes on. peer: the
** one rank it is done with, -1 = all. */
void watch_begin(capl_world *world, const char *name, uint64_t number, uint64_t bytes, int peer);
/* The library has given it a ticket, by which it is asked whether it is done. */
void watch_ticket(capl_world *world, uint64_t number, int64_t ticket);
void watch_end(capl_world *world, uint64_t number);
/* From here on the library may be asked, or not any more. */
void watch_library(capl_world *world, bool open);

#endif
