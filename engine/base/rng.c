/* rng.c -- Philox4x32-10 and the stream drawn from it.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/rng.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 10 };

static uint32_t mul_hi(uint32_t a, uint32_t b, uint32_t *lo)
{
  uint64_t product = (uint64_t)a * b;
  *lo = (uint32_t)product;
  return (uint32_t)(product >> 32);
}

void capl_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
  uint32_t k0 = key[0], k1 = key[1];
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  for (int round = 0; round < ROUNDS; round++) {
    uint32_t lo0, lo1;
    uint32_t hi0 = mul_hi(0xD2511F53u, c0, &lo0);
    uint32_t hi1 = mul_hi(0xCD9E8D57u, c2, &lo1);
    c0 = hi1 ^ c1 ^ k0;
    c1 = lo1;
    c2 = hi0 ^ c3 ^ k1;
    c3 = lo0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

void capl_rng_init(capl_rng *rng, uint64_t seed, uint32_t a, uint32_t b, uint32_t c)
{
  *rng = (capl_rng){
    .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
    .counter = {0, a, b, c},
    .used = 4,
  };
}

uint32_t capl_rng_u32(capl_rng *rng)
{
  if (rng->used == 4) {
    capl_philox(rng->key, rng->counter, rng->block);
    rng->counter[0]++;
    rng->used = 0;
  }
  return rng->block[rng->used++];
}

float capl_rng_float(capl_rng *rng)
{
  return (float)(capl_rng_u32(rng) >> 8) * 0x1p-24f;
}

uint32_t capl_rng_below(capl_rng *rng, uint32_t n)
{
  return (uint32_t)(((uint64_t)capl_rng_u32(rng) * n) >> 32);
}

float capl_rng_normal(capl_rng *rng)
{
  float u = 1.0f - capl_rng_float(rng); /* (0,1]: log is finite */
  float v = capl_rng_float(rng);
  return sqrtf(-2.0f * logf(u)) * cosf(6.28318530718f * v);
}
