/* races.cu -- kernels with races and without (races.h).
** SPDX-License-Identifier: Apache-2.0
*/
#include "races.h"

#include "backend/cuda/kernels/kernel.h"

enum { THREADS = 64 };

static __device__ int own_index()
{
  return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

template <bool RACE> __global__ void barrier(race_args a)
{
  __shared__ float tile[THREADS];
  tile[threadIdx.x] = a.x[own_index()];
  if (!RACE) __syncthreads();
  a.y[own_index()] = tile[THREADS - 1 - threadIdx.x];
}

template <bool RACE> __global__ void reuse(race_args a)
{
  __shared__ float room[1];
  float sum = 0;
  for (int k = 0; k < 3; k++) {
    if ((int)threadIdx.x == k) room[0] = a.x[k];
    __syncthreads();
    sum += room[0];
    if (!RACE) __syncthreads();
  }
  a.y[own_index()] = sum;
}

template <bool RACE> __global__ void dynamic(race_args a)
{
  CU_SHARED(float, room);
  room[threadIdx.x] = 1;
  if (!RACE) __syncthreads();
  a.y[own_index()] = room[threadIdx.x ^ 1];
}

template <bool RACE> __global__ void writes(race_args a)
{
  if (threadIdx.x == 0) a.y[RACE ? 0 : blockIdx.x] = (float)blockIdx.x;
}

template <bool RACE> __global__ void reads(race_args a)
{
  int other = RACE ? (blockIdx.x + 1) % gridDim.x : blockIdx.x;
  if (threadIdx.x == 0) a.y[blockIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 1) a.y[gridDim.x + blockIdx.x] = a.y[other];
}

template <bool RACE> __global__ void in_block(race_args a)
{
  a.y[own_index()] = 1;
  if (!RACE) __syncthreads();
  float v = a.y[own_index() ^ 1];
  __syncthreads();
  a.y[own_index()] = v;
}

template <bool RACE> __global__ void bytes(race_args a)
{
  a.bytes[RACE ? 0 : own_index()] = 1;
}

template <bool RACE> __global__ void atomics(race_args a)
{
  atomicAdd(a.number, 1u);
  if (RACE && own_index() == 5) a.y[0] = (float)*a.number;
}

template <bool RACE> __global__ void warp(race_args a)
{
  __shared__ float room[THREADS];
  float v = 1;
  room[threadIdx.x] = 2;
  if (RACE) v = __shfl_sync(0xffffffffu, v, 0);
  else __syncwarp();
  a.y[own_index()] = v + room[threadIdx.x ^ 1];
}

template <bool RACE> __global__ void warps(race_args a)
{
  __shared__ float room[THREADS];
  room[threadIdx.x] = 2;
  __syncwarp();
  a.y[own_index()] = room[threadIdx.x ^ (RACE ? 32 : 1)];
}

template <bool RACE> __global__ void vectors(race_args a)
{
  int i = own_index();
  if (i % 2 == 0) *(float2 *)(a.y + i) = {1, 2};
  else if (RACE && i == 7) a.y[i] = 3;
}

template <bool RACE> __global__ void mixed(race_args a)
{
  __shared__ float room[THREADS];
  const uint8_t *byte = (const uint8_t *)&room[threadIdx.x ^ 1];
  room[threadIdx.x] = 1;
  if (!RACE) __syncthreads();
  a.bytes[own_index()] = byte[2];
  if (!RACE) __syncthreads();
  a.y[own_index()] = (float)*(const uint32_t *)(a.bytes + own_index() / 4 * 4);
}

template <bool RACE> __global__ void returned(race_args a)
{
  __shared__ float room[THREADS];
  room[threadIdx.x] = 1;
  if (threadIdx.x >= THREADS / 2) return;
  if (!RACE) __syncthreads();
  a.y[own_index()] = room[threadIdx.x + THREADS / 2];
}

/* What is left out, or done at the wrong time. */
enum fault { NOTHING, RELEASE, ACQUIRE, FENCE_EARLY, WRITE_LATE, ORDER, BARRIER_LEFT };

/* Whether this block is the last of `blocks`. */
template <int FAULT> static __device__ bool is_last(unsigned *counter, unsigned blocks)
{
  __shared__ bool last;
  if (FAULT == FENCE_EARLY) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    if (FAULT != RELEASE && FAULT != FENCE_EARLY) __threadfence();
    last = atomicInc(counter, blocks - 1) == blocks - 1;
    if (FAULT != ACQUIRE) __threadfence();
  }
  if (FAULT != BARRIER_LEFT) __syncthreads();
  return last;
}

/* The last block adds up what threads of all have written, over what the first one had. */
template <int FAULT> __global__ void last_block(race_args a)
{
  if (FAULT != WRITE_LATE || threadIdx.x > 0) a.y[own_index()] = 1;
  bool last = is_last<FAULT>(a.number, gridDim.x);
  if (FAULT == WRITE_LATE && threadIdx.x == 0) a.y[own_index()] = 1;
  if (FAULT != ORDER && !last) return;
  float sum = 0;
  for (unsigned b = 0; b < gridDim.x; b++) sum += a.y[b * blockDim.x + threadIdx.x];
  if (last) a.y[threadIdx.x] = sum;
}

/* Likewise, one thread of each block; nobody else has to come to a barrier. */
template <bool RACE> __global__ void last_thread(race_args a)
{
  if (threadIdx.x > 0) return;
  a.y[blockIdx.x] = 1;
  __threadfence();
  if (RACE) a.y[blockIdx.x] = 2;
  if (atomicInc(a.number, gridDim.x - 1) < gridDim.x - 1) return;
  __threadfence();
  for (unsigned b = 0; b < gridDim.x; b++) a.y[0] += a.y[b];
}

/* What the last thread overwrites the others have read before their fence, or also after it. */
template <bool RACE> __global__ void read_later(race_args a)
{
  if (threadIdx.x > 0) return;
  float sum = a.y[blockIdx.x];
  __threadfence();
  if (RACE) sum += a.y[blockIdx.x];
  if (atomicInc(a.number, gridDim.x - 1) < gridDim.x - 1) return;
  __threadfence();
  for (unsigned b = 0; b < gridDim.x; b++) a.y[b] = sum;
}

/* One thread of each of so many blocks reads what the last of them overwrites, and with MORE another one, of which that
** knows nothing. */
template <unsigned BLOCKS, bool MORE> __global__ void readers(race_args a)
{
  bool more = MORE && blockIdx.x == 0 && threadIdx.x == 32;
  if ((threadIdx.x > 0 && !more) || (BLOCKS == 2 && blockIdx.x == 1)) return;
  a.y[1 + own_index()] = a.y[0];
  if (more) return;
  __threadfence();
  if (atomicInc(a.number, BLOCKS - 1) < BLOCKS - 1) return;
  __threadfence();
  a.y[0] = 1;
}

/* The last of two blocks meets the third one: what the first of all wrote is known to it through the second. Or the
** third asks nobody. */
template <bool RACE> __global__ void last_of_last(race_args a)
{
  a.y[own_index()] = 1;
  if (blockIdx.x < gridDim.x - 1 && !is_last<NOTHING>(a.number + 1, gridDim.x - 1)) return;
  if (!is_last<NOTHING>(a.number + (RACE ? blockIdx.x + 1 : 0), RACE ? 1 : 2)) return;
  a.y[3 * THREADS + own_index()] = a.y[threadIdx.x];
}

/* Blocks count on a number of their own: nothing tells them of each other. */
template <bool RACE> __global__ void counted_apart(race_args a)
{
  a.y[own_index()] = 1;
  if (!is_last<NOTHING>(a.number + (RACE ? blockIdx.x : 0), RACE ? 1 : gridDim.x)) return;
  a.y[threadIdx.x] += a.y[(gridDim.x - 1) * blockDim.x + threadIdx.x];
}

#define BOTH(kernel) CU_ENTRY(kernel<false>), CU_ENTRY(kernel<true>)
#define LAST(fault) CU_ENTRY(last_block<NOTHING>), CU_ENTRY(last_block<fault>)
CU_TABLE(shim_race_table, BOTH(barrier), BOTH(reuse), BOTH(dynamic), BOTH(writes), BOTH(reads), BOTH(in_block),
         BOTH(bytes), BOTH(atomics), BOTH(warp), BOTH(warps), BOTH(vectors), BOTH(mixed),
         BOTH(returned), LAST(RELEASE), LAST(ACQUIRE), LAST(FENCE_EARLY), LAST(WRITE_LATE), LAST(ORDER),
         LAST(BARRIER_LEFT), BOTH(last_thread), BOTH(read_later), CU_ENTRY(readers<2, false>),
         CU_ENTRY(readers<2, true>), CU_ENTRY(readers<2, false>), CU_ENTRY(readers<3, true>), BOTH(last_of_last),
         BOTH(counted_apart))
