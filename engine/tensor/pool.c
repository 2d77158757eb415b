/* pool.c -- the set of blocks that belong to one captured step.
** SPDX-License-Identifier: Apache-2.0
*/
#include "tensor/pool.h"

#include <stdint.h>
#include <stdlib.h>

typedef struct pool_block {
  void *p; /* NULL: no block here */
  int class;
  bool in_use;
} pool_block;

static size_t place_of(const pool_block *blocks, size_t room, const void *p)
{
  size_t at = ((uintptr_t)p >> 6) * (size_t)0x9E3779B97F4A7C15u;
  for (at &= room - 1; blocks[at].p && blocks[at].p != p;) at = (at + 1) & (room - 1);
  return at;
}

static bool grow(capl_pool *pool)
{
  size_t room = pool->room ? 2 * pool->room : 256;
  pool_block *blocks = calloc(room, sizeof *blocks);
  if (!blocks) return false;
  for (size_t k = 0; k < pool->room; k++)
    if (pool->blocks[k].p) blocks[place_of(blocks, room, pool->blocks[k].p)] = pool->blocks[k];
  free(pool->blocks);
  pool->blocks = blocks;
  pool->room = room;
  return true;
}

/* Only captures ask, and a capture is made once: a look at every block is good enough. */
static pool_block *find_free(const capl_pool *pool, int class)
{
  for (size_t k = 0; k < pool->room; k++) {
    pool_block *b = &pool->blocks[k];
    if (b->p && !b->in_use && b->class == class) return b;
  }
  return NULL;
}

bool pool_has(const capl_pool *pool, int class)
{
  return find_free(pool, class) != NULL;
}

void *pool_take(capl_pool *pool, int class)
{
  pool_block *b = find_free(pool, class);
  if (!b) return NULL;
  b->in_use = true;
  return b->p;
}

capl_status pool_adopt(capl_pool *pool, void *p, int class)
{
  if (2 * pool->count >= pool->room && !grow(pool))
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for the list of a captured step's blocks");
  pool->blocks[place_of(pool->blocks, pool->room, p)] = (pool_block){.p = p, .class = class, .in_use = true};
  pool->count++;
  return CAPL_OK;
}

bool pool_put(capl_pool *pool, void *p)
{
  if (pool->count == 0) return false;
  pool_block *b = &pool->blocks[place_of(pool->blocks, pool->room, p)];
  if (!b->p) return false;
  b->in_use = false;
  return true;
}

void pool_drain(capl_pool *pool, void (*give)(void *user, void *p, int class), void *user)
{
  for (size_t k = 0; k < pool->room; k++)
    if (pool->blocks[k].p && !pool->blocks[k].in_use) give(user, pool->blocks[k].p, pool->blocks[k].class);
  free(pool->blocks);
  free(pool);
}
