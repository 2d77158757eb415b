/* pool.h -- blocks of device memory that belong to one captured step.
**
** A graph's kernels have their addresses written into them, so a block that a capture used is never given to anybody
** else while the graph lives. Within the capture it is freed and reused like any other.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_TENSOR_POOL_H
#define CAPL_TENSOR_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "capl/error.h"

typedef struct capl_pool capl_pool;
typedef struct capl_device capl_device;

/* ---- of storage.c: a device's pools ---------------------------------------------------------- */

/* From here on this thread's blocks of device come from a fresh pool, and it takes what it lacks from the device's
** cached blocks; the driver is asked last. */
capl_status capl_pool_begin(capl_device *device, capl_pool **out);
/* This thread allocates as before; the pool keeps its blocks. */
void capl_pool_end(capl_pool *pool);
/* Its free blocks return to the device's cache; those still held do so when they are freed. Implies capl_pool_end. */
void capl_pool_free(capl_device *device, capl_pool *pool);

/* ---- of pool.c: the set of blocks ------------------------------------------------------------ */

struct capl_pool {
  capl_pool *next; /* of the device's pools */
  struct pool_block *blocks; /* open addressing by address */
  size_t count, room;
};

/* A free block of a size class, now in use; NULL = none. */
void *pool_take(capl_pool *pool, int class);
/* Whether there is one. */
bool pool_has(const capl_pool *pool, int class);
/* p belongs to pool from now on, in use. ENOMEM. */
capl_status pool_adopt(capl_pool *pool, void *p, int class);
/* p is free again, if it belongs to pool: returns whether. */
bool pool_put(capl_pool *pool, void *p);
/* Calls give for each free block, forgets all, and frees the set. */
void pool_drain(capl_pool *pool, void (*give)(void *user, void *p, int class), void *user);

#endif
