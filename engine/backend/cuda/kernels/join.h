/* join.h -- the last block of a launch joins what all of its blocks left in memory: no second kernel has to.
**
** Each block leaves a row of numbers. The last of CU_JOIN_BLOCKS neighbours joins their rows into the first one, while
** other blocks still run; the last of those joins what they made. Which rows are joined in which order depends on the
** blocks' numbers alone, so results do not depend on who comes last. Blocks with different blockIdx.y have nothing to
** do with each other. Counters are 0 before a launch and after it, so that a recorded one can be played again; one
** launch after the other uses them, on the one stream of arithmetic (cuda.h).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_JOIN_H
#define CAPL_CUDA_KERNELS_JOIN_H

#include <stdint.h>

enum { CU_JOIN_BLOCKS = 24 }; /* about the root of what runs at once, so that both steps read as many rows */

/* How many rows the last block finds, of a launch with so many blocks in x. */
static inline int64_t cu_join_rows(int64_t blocks)
{
  return (blocks + CU_JOIN_BLOCKS - 1) / CU_JOIN_BLOCKS;
}

/* Counters that such a launch uses, for each blockIdx.y. */
static inline int64_t cu_join_counters(int64_t blocks)
{
  return cu_join_rows(blocks) + 1;
}

#ifdef __cplusplus

#include "backend/cuda/kernels/kernel.h"

/* Whether this block is the last of `blocks` to come here, in all of its threads: those see then what the threads of
** the others have written. */
static __device__ __forceinline__ bool cu_is_last(unsigned *counter, unsigned blocks)
{
  __shared__ bool last;
  __syncthreads();
  if (blocks == 1) return true;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(counter, blocks - 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

/* Some rows of those that blocks left: first, first + step, ... */
struct cu_rows {
  int first, count, step;
  bool all; /* they are what all blocks left */
};

/* Runs join(rows) in all threads of the blocks whose turn it is; unless rows.all, it puts the result into row
** rows.first. All threads of the block take part. */
template <class Join> static __device__ __forceinline__ void cu_join(unsigned *counters, Join join)
{
  const int blocks = (int)gridDim.x, groups = (blocks + CU_JOIN_BLOCKS - 1) / CU_JOIN_BLOCKS;
  const int group = (int)blockIdx.x / CU_JOIN_BLOCKS, left = blocks - group * CU_JOIN_BLOCKS;
  unsigned *own = counters + (int64_t)blockIdx.y * (groups + 1);
  cu_rows rows = {group * CU_JOIN_BLOCKS, left < CU_JOIN_BLOCKS ? left : CU_JOIN_BLOCKS, 1, groups == 1};
  if (!cu_is_last(own + 1 + group, (unsigned)rows.count)) return;
#pragma unroll 1
  for (;;) {
    join(rows);
    if (rows.all || !cu_is_last(own, (unsigned)groups)) return;
    rows = {0, groups, CU_JOIN_BLOCKS, true};
  }
}

#endif
#endif
