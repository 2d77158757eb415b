/* conv_thin.h -- the first convolution of a network that reads grey images: one input channel, 3x3.
**
** Forward writes y (for 1x60x160 and 32 outputs 33 times the bytes of x), the weight gradient reads dy: bytes decide,
** and cuDNN moves more of them, since it pads x to 8 channels in its workspace.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CUDA_KERNELS_CONV_THIN_H
#define CAPL_CUDA_KERNELS_CONV_THIN_H

#include "backend/cuda/kernels/conv.h"

enum {
  CONV_THIN_TAPS = 9,     /* of a 3x3 kernel */
  CONV_THIN_PIXELS = 4,   /* side by side, of a thread */
  CONV_THIN_ROWS = 12,    /* at most, of a thread's walk down an image */
  CONV_THIN_CHANNELS = 32, /* of a block; more are blocks in y */
  CONV_THIN_THREADS = 128,
  CONV_THIN_BLOCKS = 3,   /* per multiprocessor, all at once: 168 registers a thread; two blocks of the
                           ** weight gradient with stride 2 or narrow loads, which need more */
};

/* How the output pixels are shared: strips of CONV_THIN_PIXELS columns by `rows` rows, lanes of a pixel side by
** side. */
typedef struct {
  int H, W, out_H, out_W, padding[2];
  int64_t O;
  int rows, row_strips, column_strips;
  uint32_t strips; /* of all images */
} conv_thin_strips;

/* y = x * w + bias. */
typedef struct {
  conv_thin_strips s;
  const void *x, *w;
  const void *bias; /* NULL: none */
  bool bias_f32;    /* else of the dtype of x */
  void *y;
} conv_thin_args;

/* partial (blocks, CONV_THIN_TAPS + 1, O): what each block in x sums for every weight, and of dy for the bias; the last
** one adds that up (join.h). */
typedef struct {
  conv_thin_strips s;
  const void *x, *dy;
  float *partial;
  unsigned *counters;
  float *dw, *db; /* db: NULL where it is not wanted */
} conv_thin_grad_w_args;

/* Each kernel of the three types with stride 1, narrow then wide, and with stride 2. Wide: y or dy is moved 16 bytes at
** a time, so it begins there and O is a multiple of that. */
enum { CONV_THIN = 0, CONV_THIN_GRAD_W = 12 };

#ifdef __cplusplus
extern "C" {
#endif
extern const cu_entry cu_conv_thin_table[];
#ifdef __cplusplus
}
#endif

#endif
