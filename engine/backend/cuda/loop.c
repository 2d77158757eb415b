/* loop.c -- sorts and joins the dims of strided operands, and finds out whether whole vectors may be moved.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/loop.h"

#include <string.h>

/* Stride of t in dim d of an output with ndim dims; 0 where t is broadcast. */
static int64_t stride_in(const capl_tensor *t, int ndim, int d)
{
  int own = d - (ndim - t->ndim);
  return own < 0 || t->size[own] == 1 ? 0 : t->stride[own];
}

static void swap(int64_t *a, int64_t *b)
{
  int64_t kept = *a;
  *a = *b;
  *b = kept;
}

static void swap_dims(cu_loop *loop, int a, int b)
{
  swap(&loop->size[a], &loop->size[b]);
  for (int k = 0; k < CU_LOOP_OPERANDS; k++) swap(&loop->stride[k][a], &loop->stride[k][b]);
}

/* Whether dims d - 1 and d are one dim for every operand. */
static bool joins(const cu_loop *loop, int operands, int d)
{
  for (int k = 0; k < operands; k++)
    if (loop->stride[k][d - 1] != loop->stride[k][d] * loop->size[d]) return false;
  return true;
}

static void join(cu_loop *loop, int d)
{
  loop->size[d - 1] *= loop->size[d];
  for (int k = 0; k < CU_LOOP_OPERANDS; k++) loop->stride[k][d - 1] = loop->stride[k][d];
  for (int e = d; e + 1 < loop->ndim; e++) swap_dims(loop, e, e + 1);
  loop->ndim--;
}

/* shift = log2 of size, rounded up; factor = 2^bits * (2^shift - size) / size + 1 (Granlund and Montgomery, 1994). */
static void prepare_division(cu_loop *loop, int d)
{
  uint64_t size = (uint64_t)loop->size[d];
  int shift = size > 1 ? 64 - __builtin_clzll(size - 1) : 0;
  uint64_t rest = ((uint64_t)1 << shift) - size;
  loop->shift[d] = shift;
  if (loop->wide) loop->factor[d] = (uint64_t)(((unsigned __int128)rest << 64) / size + 1);
  else loop->factor[d] = (rest << 32) / size + 1; /* without the slow division of 128 bits */
}

void loop_finish(cu_loop *loop)
{
  loop->total = 1;
  for (int d = 0; d < loop->ndim; d++) loop->total *= loop->size[d];
  loop->wide = loop->total > INT32_MAX;
  if (loop->total == 0) return;
  for (int d = 1; d < loop->ndim; d++) prepare_division(loop, d); /* of dim 0 there is nothing to divide by */
}

void loop_init(cu_loop *loop, int operands, const capl_tensor *const *t)
{
  memset(loop, 0, sizeof *loop);
  for (int d = 0; d < t[0]->ndim; d++) {
    if (t[0]->size[d] == 1) continue;
    int n = loop->ndim++;
    loop->size[n] = t[0]->size[d];
    for (int k = 0; k < operands; k++) loop->stride[k][n] = stride_in(t[k], t[0]->ndim, d);
  }
  for (int d = 1; d < loop->ndim; d++)
    for (int e = d; e > 0 && loop->stride[0][e - 1] < loop->stride[0][e]; e--) swap_dims(loop, e - 1, e);
  for (int d = loop->ndim - 1; d > 0; d--)
    if (joins(loop, operands, d)) join(loop, d);
  if (loop->ndim == 0) loop->size[loop->ndim++] = 1;
  loop_finish(loop);
}

/* Whether operand k can be read `width` elements at a time. */
static bool widens(const cu_loop *loop, int k, const capl_tensor *t, int width)
{
  int last = loop->ndim - 1;
  if (loop->stride[k][last] == 0 && loop->size[last] > 1) return k > 0; /* the output must not stay */
  if (loop->stride[k][last] != 1) return false;
  for (int d = 0; d < last; d++)
    if (loop->stride[k][d] % width != 0) return false;
  size_t bytes = (size_t)width * capl_dtype_size(t->dtype);
  return (uintptr_t)capl_tensor_data(t) % (bytes < 16 ? bytes : 16) == 0; /* 16: the most one instruction moves */
}

bool loop_widen(cu_loop *loop, int operands, const capl_tensor *const *t, int width, int64_t *tail)
{
  int last = loop->ndim - 1;
  if (loop->total < width || (last > 0 && loop->size[last] % width != 0)) return false;
  for (int k = 0; k < operands; k++)
    if (!widens(loop, k, t[k], width)) return false;
  *tail = last > 0 ? 0 : loop->size[0] % width;
  loop->size[last] /= width;
  for (int k = 0; k < operands; k++) loop->stride[k][last] *= width;
  loop_finish(loop);
  return true;
}

int64_t loop_blocks(const cu_loop *loop, int64_t tail)
{
  return cu_blocks(loop->total > tail ? loop->total : tail, CU_THREADS);
}
