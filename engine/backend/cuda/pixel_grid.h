/* pixel_grid.h -- how pool.c and sample.c cut images into threads: wide or narrow kernels, and how many blocks.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_PIXEL_GRID_H
#define CAPL_CUDA_PIXEL_GRID_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/pixels.h"

/* Whether CU_WIDE_VALUES elements can be moved at once from p on; NULL = yes. */
static inline bool cu_starts_wide(const void *p, capl_dtype dtype)
{
  return (uintptr_t)p % (CU_WIDE_VALUES * capl_dtype_size(dtype)) == 0;
}

/* Whether the wide kernels take an image t and another pointer of its dtype (NULL = none). */
static inline bool cu_is_wide(const capl_tensor *t, const void *other)
{
  return t->size[1] % CU_WIDE_VALUES == 0 && cu_starts_wide(capl_tensor_data(t), t->dtype) &&
         cu_starts_wide(other, t->dtype);
}

/* How blocks share `pixels` of t's channels. */
static inline cu_pixels cu_pixel_grid(int64_t pixels, const capl_tensor *t, bool wide, int blocks_per_multiprocessor)
{
  int64_t blocks = (int64_t)blocks_per_multiprocessor * cu.multiprocessors;
  return cu_pixels_of(pixels, t->size[1], wide ? CU_WIDE_VALUES : 1, blocks);
}

/* Queues kernel number `kernel` of a table of CU_WIDE rows; type: of the images. */
static inline capl_status cu_launch_pixels(const cu_entry *table, int kernel, capl_dtype type, bool wide,
                                        const cu_pixels *p, const void *args)
{
  cu_entry entry = table[cu_wide_entry(kernel, wide, cu_type_of(type))];
  return cu_launch_2d(entry, cu_pixel_blocks(p), cu_pixel_tiles(p), CU_PIXEL_THREADS, 0, args);
}

#endif
