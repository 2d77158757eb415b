/* block.h -- runs the blocks of one launch, one after the other, on the host thread that asks.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_BLOCK_H
#define SHIM_BLOCK_H

#include "include/cuda_runtime.h"

enum { MAX_THREADS = 1024, MAX_SHARED = 227 << 10 };

struct launch {
  const shim_kernel *kernel;
  dim3 grid, block;
  size_t shared;
  const void *args;
};

/* false: the kernel cannot go on (shim_fault says why); its remaining blocks are not run. */
bool block_run_all(const launch &l, bool backwards);

#endif
