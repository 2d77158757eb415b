/* vector_types.h -- CUDA's short vectors and dim3, for builds without the CUDA toolkit.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_VECTOR_TYPES_H
#define SHIM_VECTOR_TYPES_H

#define __align__(n) __attribute__((aligned(n)))

/* ORDER sizes and alignments are those of CUDA: an access through a vector type at a lesser alignment is a fault on the
** card, and -fsanitize=alignment reports it here. */
#define SHIM_VECTORS(type, name, align2, align4)                        \
  typedef struct { type x; } name##1;                                   \
  typedef struct __align__(align2) { type x, y; } name##2;              \
  typedef struct { type x, y, z; } name##3;                             \
  typedef struct __align__(align4) { type x, y, z, w; } name##4;

SHIM_VECTORS(signed char, char, 2, 4)
SHIM_VECTORS(unsigned char, uchar, 2, 4)
SHIM_VECTORS(short, short, 4, 8)
SHIM_VECTORS(unsigned short, ushort, 4, 8)
SHIM_VECTORS(int, int, 8, 16)
SHIM_VECTORS(unsigned int, uint, 8, 16)
SHIM_VECTORS(float, float, 8, 16)
SHIM_VECTORS(long long, longlong, 16, 16)
SHIM_VECTORS(unsigned long long, ulonglong, 16, 16)
SHIM_VECTORS(double, double, 16, 16)

typedef struct dim3 {
  unsigned int x, y, z;
#ifdef __cplusplus
  constexpr dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1) : x(a), y(b), z(c) {}
#endif
} dim3;

#endif
