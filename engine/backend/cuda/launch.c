/* launch.c -- queues kernels on the one stream of arithmetic, with the sizes CUDA takes.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/join.h"

enum {
  GRID_X = 2147483647,
  GRID_Y = 65535,
  USUAL_SHARED = 48 << 10, /* more dynamic shared memory has to be asked for, kernel by kernel */
  RESIDENT_THREADS = 2048, /* of a multiprocessor, at most (sm_80, sm_90) */
  WAVES = 4                /* blocks per place on the GPU: the last ones to end leave less of it idle */
};

static capl_status allow_shared(cu_entry entry, size_t shared)
{
  if (shared <= USUAL_SHARED) return CAPL_OK;
  return cu_status(cudaFuncSetAttribute(entry.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared),
                   "asking for shared memory");
}

static capl_status launch(cu_entry entry, struct dim3 grid, int threads, size_t shared, const void *args)
{
  CAPL_TRY(allow_shared(entry, shared));
  void *list[] = {(void *)args};
  struct dim3 block = {(unsigned)threads, 1, 1};
  return cu_status(cudaLaunchKernel(entry.kernel, grid, block, list, shared, cu.stream), "launching a kernel");
}

capl_status cu_launch(cu_entry entry, int64_t blocks, int threads, size_t shared, const void *args)
{
  return cu_launch_2d(entry, blocks, 1, threads, shared, args);
}

capl_status cu_launch_2d(cu_entry entry, int64_t blocks_x, int64_t blocks_y, int threads, size_t shared,
                         const void *args)
{
  if (blocks_x == 0 || blocks_y == 0) return CAPL_OK;
  if (blocks_x < 0 || blocks_x > GRID_X || blocks_y < 0 || blocks_y > GRID_Y)
    return CAPL_FAIL(CAPL_EDEVICE, "a kernel was given a grid of %lld x %lld blocks; a GPU takes %d x %d",
                     (long long)blocks_x, (long long)blocks_y, GRID_X, GRID_Y);
  struct dim3 grid = {(unsigned)blocks_x, (unsigned)blocks_y, 1};
  return launch(entry, grid, threads, shared, args);
}

int64_t cu_blocks(int64_t n, int threads)
{
  int64_t wanted = (n + threads - 1) / threads;
  int64_t busy = (int64_t)cu.multiprocessors * (RESIDENT_THREADS / threads) * WAVES;
  return wanted < busy ? wanted : busy;
}

capl_status cu_counters(int64_t blocks_x, int64_t blocks_y, unsigned **out)
{
  *out = cu.counters;
  if (blocks_x <= 1 || blocks_y <= CU_COUNTERS / cu_join_counters(blocks_x)) return CAPL_OK;
  return CAPL_FAIL(CAPL_EDEVICE, "a grid of %lld x %lld blocks that joins what they leave needs more than %d counters",
                   (long long)blocks_x, (long long)blocks_y, CU_COUNTERS);
}
