/* kernels.cu -- kernels for testing the shim itself (kernels.h).
** SPDX-License-Identifier: Apache-2.0
*/
#include "kernels.h"

#include "backend/cuda/kernels/kernel.h"

enum { BOUND = 32 };

static __device__ int own_index()
{
  return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void scale(test_args a)
{
  int i = own_index();
  if (i < a.n) a.y[i] = 2 * a.x[i];
}

__global__ void count(test_args a)
{
  if (own_index() == 0) a.y[0] += 1;
}

__global__ void __launch_bounds__(256) sum(test_args a)
{
  __shared__ float room[32];
  int i = own_index();
  float s = cu_block_sum(i < a.n ? a.x[i] : 0.0f, room);
  if (threadIdx.x == 0) a.y[blockIdx.x] = s;
}

template <bool RACE> __global__ void reverse(test_args a)
{
  __shared__ float tile[256];
  int i = own_index();
  tile[threadIdx.x] = a.x[i];
  if (!RACE) __syncthreads();
  a.y[i] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void shuffle(test_args a)
{
  int i = (int)threadIdx.x;
  float v = a.x[i];
  a.y[0 * a.n + i] = __shfl_sync(0xffffffffu, v, 3);
  a.y[1 * a.n + i] = __shfl_xor_sync(0xffffffffu, v, 1);
  a.y[2 * a.n + i] = __shfl_down_sync(0xffffffffu, v, 1);
  a.y[3 * a.n + i] = __shfl_up_sync(0xffffffffu, v, 1);
  a.y[4 * a.n + i] = __shfl_sync(0xffffffffu, v, 1, 8);
  a.y[5 * a.n + i] = (float)__popc(__ballot_sync(0xffffffffu, i % 2));
  a.y[6 * a.n + i] = (float)(__any_sync(0xffffffffu, i == 0) * 2 + __all_sync(0xffffffffu, i < 32));
}

__global__ void half_warps(test_args a)
{
  int i = (int)threadIdx.x;
  unsigned mask = i % 32 < 16 ? 0x0000ffffu : 0xffff0000u;
  float v = a.x[i];
  for (int step = 8; step > 0; step /= 2) {
    if (i % 32 >= 16 && step == 4) __syncwarp(mask);
    v += __shfl_xor_sync(mask, v, step);
  }
  a.y[i] = v;
}

__global__ void dynamic(test_args a)
{
  __shared__ float fixed[4];
  CU_SHARED(float, room);
  int i = own_index();
  a.y[2 * i] = fixed[threadIdx.x];
  a.y[2 * i + 1] = room[threadIdx.x];
  fixed[threadIdx.x] = room[threadIdx.x] = 1;
}

__global__ void wait_apart(test_args a)
{
  if (threadIdx.x % 2) a.y[threadIdx.x] = __shfl_sync(0xffffffffu, 1.0f, 0);
  else __syncthreads();
}

__global__ void two_barriers(test_args)
{
  if (threadIdx.x % 2) __syncthreads();
  else
    __syncthreads();
}

__global__ void leave_early(test_args a)
{
  if (threadIdx.x >= blockDim.x / 2) return;
  __shared__ float room[1];
  if (threadIdx.x == blockDim.x / 2 - 1) room[0] = 7;
  __syncthreads();
  a.y[threadIdx.x] = room[0];
}

__global__ void overrun(test_args a)
{
  if (own_index() == 0) ((float *)a.x)[a.n] = 1;
}

__global__ void overrun_shared(test_args a)
{
  CU_SHARED(float, room);
  room[a.n] = 1;
}

__global__ void halves(test_args a)
{
  int i = own_index();
  if (i >= a.n) return;
  a.y[i] = cu_float(cu_as<cu_f16>(a.x[i]));
  a.y[a.n + i] = cu_float(cu_as<cu_bf16>(a.x[i]));
}

__global__ void grid(test_args a)
{
  if (threadIdx.x != blockDim.x - 1 || threadIdx.y != blockDim.y - 1) return;
  unsigned number = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  a.y[number] = (float)(100 * blockIdx.z + 10 * blockIdx.y + blockIdx.x);
}

template <int> __global__ void __launch_bounds__(BOUND * 3, 2) bounded(test_args) {}

CU_TABLE(shim_test_table, CU_ENTRY(scale), CU_ENTRY(count), CU_ENTRY(sum), CU_ENTRY(reverse<false>),
         CU_ENTRY(reverse<true>), CU_ENTRY(shuffle), CU_ENTRY(half_warps), CU_ENTRY(dynamic), CU_ENTRY(wait_apart),
         CU_ENTRY(two_barriers), CU_ENTRY(leave_early), CU_ENTRY(overrun), CU_ENTRY(overrun_shared), CU_ENTRY(halves),
         CU_ENTRY(grid), CU_ENTRY(bounded<1>))
