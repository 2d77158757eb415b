/* fixture.cu -- kernels with the faults that budgets.py must find: loads one by one, an array in memory, instructions
** that take longer than the memory; the same in loops with several ways, of which the wide one counts; one thread that
** takes longer than a launch.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdint.h>

extern "C" __global__ void __launch_bounds__(256) one_by_one(const float *x, float *y, int n)
{
  float sum = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
  y[threadIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(256) array_in_memory(const int *x, int *y, int n)
{
  int count[16] = {};
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 256) count[x[i] & 15]++;
  for (int k = 0; k < 16; k++) y[16 * threadIdx.x + k] = count[(k + n) & 15];
}

extern "C" __global__ void __launch_bounds__(256) many_instructions(const uint32_t *x, uint32_t *y, int n)
{
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 256) {
    uint32_t v = x[i];
#pragma unroll
    for (int k = 0; k < 40; k++) v = (v ^ (v >> 3)) * 2654435761u;
    y[i] = v;
  }
}

extern "C" __global__ void __launch_bounds__(256) narrow_accesses(const float *x, uint16_t *y, int n)
{
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 256)
#pragma unroll
    for (int k = 0; k < 4; k++) y[4 * i + k] = (uint16_t)x[4 * i + k];
}

extern "C" __global__ void __launch_bounds__(256) slow_wide_way(const uint4 *x, uint4 *y, int n, int in_words)
{
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 256) {
    if (in_words) {
      ((uint32_t *)y)[i] = ((const uint32_t *)x)[i];
      continue;
    }
    uint4 v = x[i];
#pragma unroll
    for (int k = 0; k < 80; k++) v.x = (v.x ^ (v.y >> 3)) * 2654435761u, v.y += v.z ^ v.x, v.z -= v.w ^ v.y;
    y[i] = v;
  }
}

extern "C" __global__ void long_thread(uint32_t *x)
{
  uint32_t v = *x;
#pragma unroll
  for (int k = 0; k < 400; k++) v = (v ^ (v >> 3)) * 2654435761u;
  *x = v;
}
