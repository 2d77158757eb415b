/* team.h -- threads that work on one result together: how a block is divided, and how a team folds its values.
**
** A block of CU_TEAM_THREADS is cut into groups (teams) of width * depth threads, all three powers of 2. In a team,
** x in [0, width) is the column, y in [0, depth) shares the work on it; lanes of a warp go along x first. Sums are
** taken in an order that depends on nothing but the sizes.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_TEAM_H
#define CAPL_CUDA_KERNELS_TEAM_H

#include "backend/cuda/kernels/types.h"

enum { CU_TEAM_THREADS = 256, CU_TEAM_WIDTH = 32 }; /* width is at most that */

typedef struct {
  int width, depth;
} cu_team;

/* The smallest power of 2 that is not below n, at most `most`. */
static inline int cu_power_of_2(int64_t n, int most)
{
  int power = 1;
  while (power < n && power < most) power *= 2;
  return power;
}

#ifdef __cplusplus

/* This thread's place. */
struct team_place {
  int x, y, group, groups;
};

static __device__ __forceinline__ team_place team_find(cu_team team)
{
  int size = team.width * team.depth, within = threadIdx.x % size;
  team_place place = {within % team.width, within / team.width, (int)threadIdx.x / size, CU_TEAM_THREADS / size};
  return place;
}

static __device__ __forceinline__ float team_swap(float v, int step) { return __shfl_xor_sync(0xffffffffu, v, step); }
static __device__ __forceinline__ int32_t team_swap(int32_t v, int step) { return __shfl_xor_sync(0xffffffffu, v, step);
    }
static __device__ __forceinline__ int64_t team_swap(int64_t v, int step)
{
  return (int64_t)__shfl_xor_sync(0xffffffffu, (long long)v, step);
}

/* fold over the values of all y of a column, in every thread of it. fold must not mind the order of its two arguments.
** room: CU_TEAM_THREADS values of shared memory. All threads of the block take part. */
template <class V, class F> static __device__ __forceinline__ V team_fold(cu_team team, V v, V *room, F fold)
{
  int size = team.width * team.depth, in_warp = size < 32 ? size : 32;
  for (int step = team.width; step < in_warp; step *= 2) v = fold(v, team_swap(v, step));
  if (size <= 32) return v;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = size / 32, first = warp / warps * warps;
  __syncthreads(); /* the room may still be read for an earlier fold */
  if (lane < team.width) room[warp * team.width + lane] = v;
  __syncthreads();
  int x = lane % team.width;
  v = room[first * team.width + x];
  for (int w = 1; w < warps; w++) v = fold(v, room[(first + w) * team.width + x]);
  return v;
}

#endif
#endif
