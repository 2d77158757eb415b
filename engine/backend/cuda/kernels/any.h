/* any.h -- elements whose dtype is known only at run time, converted as the ref backend converts them.
**
** For what is rare: integers, mixed dtypes. The dtype is the same for all threads, so its switch costs little beside
** the memory; values pass through double or int64_t, which hold those of every dtype.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_ANY_H
#define CAPL_CUDA_KERNELS_ANY_H

#include <string.h>

#include "backend/cuda/kernels/kernel.h"
#include "capl/tensor.h"

static __device__ __forceinline__ bool cu_is_whole(int dtype)
{
  return dtype == CAPL_U8 || dtype == CAPL_BOOL || dtype == CAPL_I32 || dtype == CAPL_I64;
}

/* Rounded so that a later rounding to 16 bits gives what one rounding of v would give: inexact results are odd. */
static __device__ __forceinline__ float cu_to_odd(double v)
{
  float f = (float)v;
  if (v != v || f - f != 0.0f || (double)f == v) return f;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (fabs((double)f) > fabs(v)) bits--; /* towards zero */
  bits |= 1;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Cut towards zero and kept in range; NaN gives 0. */
static __device__ __forceinline__ int64_t cu_pixel_grid(double v, int64_t lo, int64_t hi)
{
  if (v != v) return 0;
  if (v <= (double)lo) return lo;
  if (v >= (double)hi) return hi;
  return (int64_t)v;
}

static __device__ __forceinline__ int64_t cu_get_whole(int dtype, const void *p, int64_t i)
{
  switch (dtype) {
  case CAPL_I32: return ((const int32_t *)p)[i];
  case CAPL_I64: return ((const int64_t *)p)[i];
  default: return ((const uint8_t *)p)[i];
  }
}

static __device__ __forceinline__ double cu_get_real(int dtype, const void *p, int64_t i)
{
  switch (dtype) {
  case CAPL_F32: return ((const float *)p)[i];
  case CAPL_F16: return cu_float(((const cu_f16 *)p)[i]);
  case CAPL_BF16: return cu_float(((const cu_bf16 *)p)[i]);
  case CAPL_F64: return ((const double *)p)[i];
  default: return (double)cu_get_whole(dtype, p, i);
  }
}

static __device__ __forceinline__ void cu_set_real(int dtype, void *p, int64_t i, double v)
{
  switch (dtype) {
  case CAPL_F32: ((float *)p)[i] = (float)v; break;
  case CAPL_F16: ((cu_f16 *)p)[i] = cu_as<cu_f16>(cu_to_odd(v)); break;
  case CAPL_BF16: ((cu_bf16 *)p)[i] = cu_as<cu_bf16>(cu_to_odd(v)); break;
  case CAPL_F64: ((double *)p)[i] = v; break;
  case CAPL_BOOL: ((uint8_t *)p)[i] = v != 0; break;
  case CAPL_U8: ((uint8_t *)p)[i] = (uint8_t)cu_pixel_grid(v, 0, UINT8_MAX); break;
  case CAPL_I32: ((int32_t *)p)[i] = (int32_t)cu_pixel_grid(v, INT32_MIN, INT32_MAX); break;
  case CAPL_I64: ((int64_t *)p)[i] = cu_pixel_grid(v, INT64_MIN, INT64_MAX); break;
  default: break;
  }
}

/* Wraps around where v does not fit. */
static __device__ __forceinline__ void cu_set_whole(int dtype, void *p, int64_t i, int64_t v)
{
  switch (dtype) {
  case CAPL_BOOL: ((uint8_t *)p)[i] = v != 0; break;
  case CAPL_U8: ((uint8_t *)p)[i] = (uint8_t)v; break;
  case CAPL_I32: ((int32_t *)p)[i] = (int32_t)(uint32_t)v; break;
  case CAPL_I64: ((int64_t *)p)[i] = v; break;
  default: cu_set_real(dtype, p, i, (double)v);
  }
}

/* y[i] := x[j], exact between integers. */
static __device__ __forceinline__ void cu_move(int to, void *y, int64_t i, int from, const void *x, int64_t j)
{
  if (cu_is_whole(to) && cu_is_whole(from)) cu_set_whole(to, y, i, cu_get_whole(from, x, j));
  else cu_set_real(to, y, i, cu_get_real(from, x, j));
}

#endif
