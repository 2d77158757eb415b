/* random.h -- random numbers in ranges, both ends included.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_RANDOM_H
#define CAPL_DATA_RANDOM_H

#include <stdbool.h>

#include "capl/rng.h"

/* Uniform integer in [lo, hi]. */
static inline int random_between(capl_rng *rng, int lo, int hi)
{
  return lo + (int)capl_rng_below(rng, (uint32_t)(hi - lo + 1));
}

/* Uniform in [lo, hi). */
static inline float random_uniform(capl_rng *rng, float lo, float hi)
{
  return lo + (hi - lo) * capl_rng_float(rng);
}

static inline bool random_chance(capl_rng *rng, float probability)
{
  return capl_rng_float(rng) < probability;
}

#endif
