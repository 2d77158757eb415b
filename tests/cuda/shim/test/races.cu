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

#define BOTH(kernel) CU_ENTRY(kernel<false>), CU_ENTRY(kernel<true>)
CU_TABLE(shim_race_table, BOTH(barrier), BOTH(reuse), BOTH(dynamic), BOTH(writes), BOTH(reads), BOTH(in_block), BOTH(bytes),
         BOTH(atomics), BOTH(warp), BOTH(warps), BOTH(vectors), BOTH(mixed),
         BOTH(returned))
