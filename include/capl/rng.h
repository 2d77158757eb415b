/* rng.h -- counter-based random numbers (Philox4x32-10; Salmon et al., "Parallel random numbers:
** as easy as 1, 2, 3", SC 2011).
**
** A number is a pure function of (key, counter), so results never depend on the number of threads
** and nothing has to be saved but the counter. A stream is opened for one purpose with
** capl_rng_init(seed, a, b, c): a, b, c are e.g. sample, epoch and op; streams never overlap unless
** all four are equal. The same functions give the same numbers on every backend.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_RNG_H
#define CAPL_RNG_H

#include <stdint.h>

#include "capl/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One Philox4x32-10 block: out = f(key, counter). */
CAPL_API void capl_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

typedef struct {
  uint32_t key[2];
  uint32_t counter[4]; /* [0] counts blocks; [1..3] name the stream */
  uint32_t block[4];
  int used; /* numbers of block already given out, 4 = none left */
} capl_rng;

/* a: 32 bits, b: 32 bits, c: 32 bits. 2^34 numbers per stream. */
CAPL_API void capl_rng_init(capl_rng *rng, uint64_t seed, uint32_t a, uint32_t b, uint32_t c);
CAPL_API uint32_t capl_rng_u32(capl_rng *rng);
/* Uniform in [0,1), 24 bits. */
CAPL_API float capl_rng_float(capl_rng *rng);
/* Uniform integer in [0,n), n > 0. Lemire's multiply; bias below n / 2^32. */
CAPL_API uint32_t capl_rng_below(capl_rng *rng, uint32_t n);
/* Standard normal (Box-Muller). */
CAPL_API float capl_rng_normal(capl_rng *rng);

#ifdef __cplusplus
}
#endif
#endif
