/* augment.h -- kernels that make a batch of images from u8 levels: turn, colour, noise, normalise, in one pass.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_AUGMENT_H
#define CAPL_CUDA_KERNELS_AUGMENT_H

#include "backend/cuda/kernels/types.h"
#include "capl/feed.h"

enum {
  AUGMENT_THREADS = 256,
  AUGMENT_STRIP = AUGMENT_THREADS / 32, /* rows of an image that one block makes: one by each warp */
  AUGMENT_WHOLE_BYTES = 47 * 1024,      /* levels of an image that fit a block's shared memory everywhere, beside its sums */
};

typedef struct {
  const capl_feed_row *rows; /* [N] */
  const uint8_t *images;
  void *out;              /* (N,H,W,C) */
  unsigned long long *sums; /* [N][strips][2]: sum and squares of the levels; NULL = rows say how to normalise */
  int height, width;
  int strips; /* ceil(H / AUGMENT_STRIP) */
  int fill;   /* level outside the source; -1 = nearest edge pixel */
} augment_args;

/* How source pixels lie in memory. */
typedef enum { AUGMENT_GRAY, AUGMENT_RGB, AUGMENT_RGBX, AUGMENT_LAYOUTS } augment_layout;

/* Kernels of one layout. STRIPS: block (strip, n) makes rows of image n. WHOLE: block n makes image n of at most
** AUGMENT_WHOLE_BYTES values, standardised. SUMS: block (strip, n) adds up what STRIPS then standardises by. */
typedef enum {
  AUGMENT_STRIPS, /* + cu_type */
  AUGMENT_STRIPS_U8 = AUGMENT_STRIPS + CU_TYPES,
  AUGMENT_WHOLE, /* + cu_type */
  AUGMENT_SUMS = AUGMENT_WHOLE + CU_TYPES,
  AUGMENT_KERNELS
} augment_kernel;

/* [layout * AUGMENT_KERNELS + kernel] */
#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_augment_table[];
#ifdef __cplusplus
}
#endif

#endif
