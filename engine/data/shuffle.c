/* shuffle.c -- the order of an epoch: a keyed permutation with random access.
**
** A six-round Feistel network permutes the smallest even-sized power of two that holds n; numbers that
** fall outside [0, n) are sent round again (cycle walking), which keeps it a bijection. No index array exists, so
** any place of any epoch is known at once: resuming and sharding cost nothing.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/data.h"
#include "capl/rng.h"
#include "data/streams.h"

enum { ROUNDS = 6 };

static uint32_t mix(uint32_t x, uint32_t key)
{
  x ^= key;
  x *= 0x9E3779B1u;
  x ^= x >> 15;
  x *= 0x85EBCA77u;
  return x ^ x >> 13;
}

uint32_t capl_shuffle(uint64_t seed, uint64_t epoch, uint32_t n, uint32_t position)
{
  uint32_t key[ROUNDS];
  capl_rng rng;
  capl_rng_init(&rng, seed, (uint32_t)epoch, (uint32_t)(epoch >> 32), CAPL_STREAM_SHUFFLE);
  for (int round = 0; round < ROUNDS; round++) key[round] = capl_rng_u32(&rng);

  int half = 1;
  while (half < 16 && (uint64_t)1 << (2 * half) < n) half++;
  uint32_t mask = (uint32_t)(((uint64_t)1 << half) - 1);
  uint32_t at = position;
  do {
    uint32_t left = at >> half & mask, right = at & mask;
    for (int round = 0; round < ROUNDS; round++) {
      uint32_t next = left ^ (mix(right, key[round]) & mask);
      left = right;
      right = next;
    }
    at = left << half | right;
  } while (at >= n);
  return at;
}
