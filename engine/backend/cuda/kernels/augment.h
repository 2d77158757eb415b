/* augment.h -- kernels that make a batch of images from u8 levels: turn, colour, noise, normalize, in one pass.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_AUGMENT_H
#define CAPL_CUDA_KERNELS_AUGMENT_H

#include "backend/cuda/kernels/types.h"
#include "capl/feed.h"

enum {
  AUGMENT_THREADS = 256,
  AUGMENT_STRIP = AUGMENT_THREADS / 32, /* rows of an image that one block makes: one by each warp */
  AUGMENT_WHOLE_BYTES = 47 * 1024,      /* levels of an image that fit a block's shared memory everywhere, beside its
                                        ** sums */
};

typedef struct {
  const capl_feed_row *rows; /* [N] */
  const uint8_t *images;
  void *out;              /* (N,H,W,C) */
  unsigned long long *sums; /* [N][strips][2]: sum and squares of the levels; NULL = rows say how to normalize */
  int height, width;
  int strips; /* ceil(H / AUGMENT_STRIP) */
  int fill;   /* level outside the source; -1 = nearest edge pixel */
  /* Of the kernels that can do all: */
  const capl_feed_more *more;
  const uint8_t *filtered; /* images of the rows that filter, by row; NULL = none does */
  const int32_t *nodes;    /* [rows][row_nodes] */
  int row_nodes;
  int partner;             /* row n is mixed with row n + partner; 0 = none is */
  int erase_value;
} augment_args;

/* Filters images before geometry reads them: block (strip, n) makes rows of row n's image. */
typedef struct {
  const capl_feed_row *rows;
  const capl_feed_more *more;
  const uint8_t *images, *tables;
  uint8_t *out; /* (rows,H,W,pixel_bytes) */
  int height, width, pixel_bytes;
} filter_args;

/* How source pixels lie in memory. */
typedef enum { AUGMENT_GRAY, AUGMENT_RGB, AUGMENT_RGBX, AUGMENT_LAYOUTS } augment_layout;

/* Kernels of one layout. STRIPS: block (strip, n) makes rows of image n. WHOLE: block n makes image n of at most
** AUGMENT_WHOLE_BYTES values, standardized. SUMS: block (strip, n) adds up what STRIPS then standardizes by. */
typedef enum {
  AUGMENT_STRIPS, /* + cu_type */
  AUGMENT_STRIPS_U8 = AUGMENT_STRIPS + CU_TYPES,
  AUGMENT_WHOLE, /* + cu_type */
  AUGMENT_SUMS = AUGMENT_WHOLE + CU_TYPES,
  AUGMENT_KERNELS
} augment_kernel;

/* What is drawn for a row: one affine map, one gain and noise; or anything. */
typedef enum { AUGMENT_PLAIN, AUGMENT_ALL, AUGMENT_KINDS } augment_kind;

enum { AUGMENT_FILTER = AUGMENT_KINDS * AUGMENT_LAYOUTS * AUGMENT_KERNELS };

/* [(kind * AUGMENT_LAYOUTS + layout) * AUGMENT_KERNELS + kernel], then AUGMENT_FILTER */
#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_augment_table[];
#ifdef __cplusplus
}
#endif

#endif
