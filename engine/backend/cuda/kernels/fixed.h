/* fixed.h -- sums of floats whose terms arrive in any order: added as whole numbers, so that every order gives the same
** bits.
**
** Terms are multiples of 2^-scale in 64 bits, where scale follows from the largest term and from how many may meet in
** one sum, so that none overflows: of n terms, those below 2^(n's bits - 62) of the largest are rounded away. When a
** term is no finite number, or an index is out of range, all sums become NaN.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_FIXED_H
#define CAPL_CUDA_KERNELS_FIXED_H

#include "backend/cuda/kernels/loop.h"

typedef struct {
  unsigned long long *sums; /* by element offset of the result, which is dense */
  unsigned *largest;        /* bits of the largest term's absolute value; behind it 1 if all sums shall be NaN */
  int bits;                 /* that the largest term may have */
} cu_fixed;

/* *largest := of all elements. Operands: src. */
typedef struct {
  cu_loop loop;
  const void *src;
  unsigned *largest;
} fixed_largest_args;

/* y := x + sums, or sums where x is NULL. Operands: y, x. */
typedef struct {
  cu_loop loop;
  cu_fixed f;
  void *y;
  const void *x;
} fixed_store_args;

/* Each + cu_type. */
enum { FIXED_LARGEST = 0, FIXED_STORE = 3, FIXED_THREADS = 256 };

enum { FIXED_INFINITY = 0x7f800000 }; /* bits: all that is no finite number is at or above it */

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_fixed_table[];
#ifdef __cplusplus
}

#include <math.h>

/* The largest term is below 2^exponent. */
static __device__ __forceinline__ int cu_fixed_scale(const cu_fixed &f)
{
  return f.bits - ((int)(*f.largest >> 23) - 126);
}

static __device__ __forceinline__ void cu_fixed_add(const cu_fixed &f, int scale, int64_t at, float term)
{
  atomicAdd(&f.sums[at], (unsigned long long)llrintf(scalbnf(term, scale)));
}

/* What went wrong shows in all of the result: nothing can be read back. In a word of its own: other threads may be
** reading the largest term. */
static __device__ __forceinline__ void cu_fixed_spoil(const cu_fixed &f)
{
  atomicMax(f.largest + 1, 1u);
}
#endif

#endif
