/* fixed.c -- opens and closes sums that give the same bits in any order.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/fixed.h"

#include "backend/cuda/loop.h"

enum { SUM_BITS = 62, HEADER = 64 };

static int bits_of(int64_t n)
{
  return n > 0 ? 64 - __builtin_clzll((unsigned long long)n) : 0;
}

static capl_status find_largest(const capl_tensor *src, unsigned *largest)
{
  const capl_tensor *t[] = {src};
  fixed_largest_args a = {.src = capl_tensor_data(src), .largest = largest};
  if (capl_tensor_numel(src) == 0) return CAPL_OK;
  loop_init(&a.loop, 1, t);
  return cu_launch(cu_fixed_table[FIXED_LARGEST + cu_type_of(src->dtype)], cu_blocks(a.loop.total, FIXED_THREADS),
                   FIXED_THREADS, 0, &a);
}

capl_status fixed_open(const capl_tensor *y, const capl_tensor *src, int64_t count, cu_fixed *out)
{
  void *memory;
  size_t bytes = HEADER + (size_t)capl_tensor_numel(y) * sizeof *out->sums;
  CAPL_TRY(capl_scratch_get(y->device, bytes, &memory));
  *out = (cu_fixed){.sums = (unsigned long long *)((char *)memory + HEADER), .largest = memory,
                    .bits = SUM_BITS - bits_of(count)};
  capl_status status = cu_status(cudaMemsetAsync(memory, 0, bytes, cu.stream), "filling with zeros");
  if (status == CAPL_OK) status = find_largest(src, out->largest);
  if (status != CAPL_OK) capl_scratch_put(y->device, memory);
  return status;
}

static capl_status store(const cu_fixed *f, capl_tensor *y, const capl_tensor *x)
{
  const capl_tensor *t[] = {y, x ? x : y};
  fixed_store_args a = {.f = *f, .y = capl_tensor_data(y), .x = x ? capl_tensor_data(x) : NULL};
  loop_init(&a.loop, 2, t);
  return cu_launch(cu_fixed_table[FIXED_STORE + cu_type_of(y->dtype)], cu_blocks(a.loop.total, FIXED_THREADS),
                   FIXED_THREADS, 0, &a);
}

capl_status fixed_close(capl_status status, cu_fixed *f, capl_tensor *y, const capl_tensor *x)
{
  if (status == CAPL_OK) status = store(f, y, x);
  capl_scratch_put(y->device, f->largest);
  return status;
}
