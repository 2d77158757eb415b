/* races.h -- kernels with races and, next to each, the same without.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_TEST_RACES_H
#define SHIM_TEST_RACES_H

#include <stdint.h>

#include "backend/cuda/kernels/types.h"

/* ORDER of shim_race_table: what is right, then the same with a race. */
enum {
  BARRIER, BARRIER_MISSING,   /* a thread reads from shared memory what another wrote */
  REUSE, REUSE_TOO_EARLY,     /* shared memory is written again while others may still read it */
  DYNAMIC_RIGHT, DYNAMIC_RACE, /* dynamic shared memory */
  APART, SAME_PLACE,          /* blocks write to device memory */
  OWN, OTHERS,                /* a block reads what itself or another wrote */
  IN_BLOCK, IN_BLOCK_RACE,    /* threads of a block exchange values through device memory, after a barrier or without */
  BYTES, SAME_VALUE,          /* each thread writes its byte; all write the same value to one */
  ATOMICS, ATOMIC_AND_READ,   /* all add to one number; and read it, too */
  WARP_BARRIER, WARP_SHUFFLE, /* lanes exchange values through shared memory after __syncwarp; after a shuffle */
  ONE_WARP, TWO_WARPS,        /* the same across warps */
  VECTORS, VECTORS_OVERLAP,   /* 8 bytes are written; the second half by another thread, too */
  MIXED, MIXED_RACE,          /* numbers are written whole and read byte by byte, and the other way round */
  RETURNED, RETURNED_RACE,    /* threads that have returned wrote before the others' barrier; or there is none */
  LAST, NO_RELEASE,           /* the last block reads what the others wrote before a fence and an atomic; there is no
                              ** fence */
  LAST_2, NO_ACQUIRE,         /* ... nor one behind the atomic */
  LAST_3, FENCE_BEFORE_BARRIER, /* ... or the thread's fence comes before what others write */
  LAST_4, WRITTEN_LATER,      /* ... or it writes behind it */
  LAST_5, ALL_READ,           /* ... or blocks that are not the last read, too */
  LAST_6, NO_BARRIER,         /* ... or threads go on without the one that asked */
  LAST_THREAD, THREAD_LATER,  /* the same with a thread of each block; which writes behind its fence */
  READ_BEFORE, READ_LATER,    /* it overwrites what the others have read; who read again */
  TWO_READERS, THIRD_READER,  /* the last of two blocks overwrites what both read; another thread of one of them
                              ** reads, too */
  TWO_READERS_2, FOURTH_READER, /* ... or of one of three */
  LAST_OF_LAST, NOT_ASKED,    /* what one block learned from another is known to the third; which did not ask */
  COUNTED, COUNTED_APART,     /* two blocks use one atomic; each has its own */
  RACES
};
enum { RACE_NUMBERS = 4 };
#ifndef __cplusplus
extern const cu_entry shim_race_table[];
#endif

typedef struct {
  float *y;
  const float *x;
  unsigned *number; /* RACE_NUMBERS, 0 */
  uint8_t *bytes;
} race_args;

#endif
