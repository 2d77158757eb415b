/* pixels.h -- how the threads of a grid share an array of pixels with C values each (images in NHWC, or rows of (N,C)).
**
** A thread keeps its channels and walks over pixels, so that per-channel numbers stay in registers. The C values of a
** pixel are cut into groups of `vector` values, one group per thread: neighbouring threads read neighbouring memory,
** and a block reads `height` whole pixels (or a tile of `width` groups of them) at a time. Every block has its own
** run of `chunk` pixels, every y-block its own tile of groups.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_PIXELS_H
#define CAPL_CUDA_PIXELS_H

#include "backend/cuda/kernels/types.h"

typedef struct {
  int64_t pixels, channels;
  int64_t groups; /* channels / vector */
  int64_t chunk;  /* pixels of a block */
  int width;      /* groups of a block, side by side */
  int height;     /* pixels that a block reads at a time */
} cu_pixels;

enum {
  CU_WIDE_VALUES = 4, /* of a load in the wide instances of kernels */
  CU_PIXEL_THREADS = 256,
  CU_PIXEL_BLOCKS = 4,  /* per multiprocessor: all of a grid run at once with 64 registers a thread, */
  CU_WINDOW_BLOCKS = 3, /* or with 80, in kernels that hold a whole window */
  CU_PIXEL_STEPS = 4,  /* pixels that a thread should have at least, before more blocks pay */
  CU_PIXEL_CHUNK = 1 << 30, /* pixels of a block, at most: kernels count them in 32 bits */
};

static inline int64_t cu_divide_up(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* pixels, channels > 0; channels a multiple of vector; blocks: how many may run at once. */
static inline cu_pixels cu_pixels_of(int64_t pixels, int64_t channels, int vector, int64_t blocks)
{
  cu_pixels p = {pixels, channels, channels / vector, 0, 0, 0};
  int64_t tiles = cu_divide_up(p.groups, CU_PIXEL_THREADS);
  p.width = (int)cu_divide_up(p.groups, tiles);
  p.height = CU_PIXEL_THREADS / p.width;
  int64_t worth = cu_divide_up(pixels, (int64_t)CU_PIXEL_STEPS * p.height), most = cu_divide_up(blocks, tiles);
  p.chunk = cu_divide_up(pixels, worth < most ? worth : most);
  if (p.chunk > CU_PIXEL_CHUNK) p.chunk = CU_PIXEL_CHUNK;
  return p;
}

/* Where a table of CU_WIDE rows has kernel number `kernel` for a type. */
static inline int cu_wide_entry(int kernel, bool wide, cu_type type)
{
  return (2 * kernel + wide) * CU_TYPES + (int)type;
}

/* Where a table of CU_VECTORS rows has kernel number `kernel` for a type. vector: values of a load. */
static inline int cu_vector_entry(int kernel, int vector, cu_type type)
{
  int width = vector == 1 ? 0 : vector * (type == CU_F32 ? 4 : 2) == 16 ? 2 : 1;
  return (3 * kernel + width) * CU_TYPES + (int)type;
}

static inline int64_t cu_pixel_blocks(const cu_pixels *p)
{
  return cu_divide_up(p->pixels, p->chunk);
}

static inline int64_t cu_pixel_tiles(const cu_pixels *p)
{
  return cu_divide_up(p->groups, p->width);
}

#endif
