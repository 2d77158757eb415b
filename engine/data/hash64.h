/* hash64.h -- a fast 64-bit hash of bytes, for telling damage and change; no secret is safe with it.
**
** Four lanes of 8 bytes are multiplied and rotated, then folded; each call takes the last one's result, so that parts
** add up. The values are kept in files of this machine only.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_HASH64_H
#define CAPL_DATA_HASH64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t hash64_rotate(uint64_t x, int by)
{
  return x << by | x >> (64 - by);
}

static inline uint64_t hash64_lane(uint64_t lane, const uint8_t *at)
{
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return hash64_rotate(lane ^ word * 0xbf58476d1ce4e5b9u, 29) * 0x9e3779b97f4a7c15u;
}

static inline uint64_t hash64_fold(uint64_t h)
{
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
  h = (h ^ h >> 27) * 0x94d049bb133111ebu;
  return h ^ h >> 31;
}

/* h: 0, or the hash of what comes before. */
static inline uint64_t hash64_bytes(uint64_t h, const void *bytes, size_t size)
{
  const uint8_t *at = bytes;
  uint64_t lane[4] = {h ^ 1, h ^ 2, h ^ 3, h ^ 4};
  uint8_t last[32] = {0};
  size_t n = size;
  for (; n >= 32; n -= 32, at += 32) {
    for (int i = 0; i < 4; i++) lane[i] = hash64_lane(lane[i], at + 8 * i);
  }
  if (n > 0) memcpy(last, at, n); /* the size distinguishes 0 bytes from none */
  for (int i = 0; i < 4; i++) lane[i] = hash64_lane(lane[i], last + 8 * i);
  h = hash64_fold(lane[0] ^ (uint64_t)size);
  for (int i = 1; i < 4; i++) h = hash64_fold(h ^ lane[i]);
  return h;
}

static inline uint64_t hash64_text(uint64_t h, const char *text)
{
  return hash64_bytes(h, text, strlen(text) + 1);
}

#endif
