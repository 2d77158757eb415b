/* conv_native.c -- convolutions without a cuDNN engine: tiled matrix products, or plain sums where tiles stay empty.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/conv_native.h"

#include "backend/cuda/kernels/conv_tiled.h"
#include "backend/cuda/kernels/pixels.h"

enum {
  COLUMNS_MIN = 8,    /* of the 64 of a tile: plain sums read one number for each product, tiles 1/8 of one at least */
  WEIGHTS_MIN = 128,  /* a group's, of the 4096 of a tile */
  PART_PIXELS = 256,  /* of a part of a weight gradient, at least */
  BLOCKS_BUSY = 8,    /* per multiprocessor */
  LANES_MAX = 8,
};

/* Numbers that the tiled kernels keep in 32 bits. */
static bool is_small(const conv_sizes *s)
{
  enum { MOST = 1 << 28 };
  int64_t taps = s->kernel[0] * s->kernel[1];
  bool kernel = taps <= MOST && taps * s->C <= MOST && taps * s->O <= MOST;
  for (int i = 0; i < 2; i++)
    kernel = kernel && s->padding[i] <= MOST && s->dilation[i] * s->kernel[i] <= MOST && s->stride[i] <= MOST;
  return kernel && s->H <= MOST && s->W <= MOST && s->out_H <= MOST && s->out_W <= MOST;
}

static int64_t taps_of(const conv_sizes *s) { return s->kernel[0] * s->kernel[1]; }
static int64_t inputs_of(const conv_sizes *s) { return s->C / s->groups; }
static int64_t outputs_of(const conv_sizes *s) { return s->O / s->groups; }

/* Tiles of a product with so many rows and columns in each group. */
static int64_t tiles_of(const conv_sizes *s, int64_t rows, int64_t columns)
{
  return s->groups * cu_divide_up(rows, CONV_TILE) * cu_divide_up(columns, CONV_TILE);
}

static capl_status launch_tiled(int kernel, capl_dtype dtype, int64_t blocks, const void *args)
{
  return cu_launch(cu_conv_tiled_table[kernel + (int)cu_type_of(dtype)], blocks, CONV_TILE_THREADS, 0, args);
}

static capl_status launch_plain(int kernel, capl_dtype dtype, int64_t blocks, const void *args)
{
  return cu_launch(cu_conv_table[kernel + (int)cu_type_of(dtype)], blocks, CU_THREADS, 0, args);
}

capl_status conv_native_forward(capl_dtype dtype, const conv_args *args)
{
  const conv_sizes *s = &args->s;
  int64_t pixels = s->N * s->out_H * s->out_W, tiles = tiles_of(s, pixels, outputs_of(s));
  if (is_small(s) && outputs_of(s) >= COLUMNS_MIN && tiles < INT32_MAX)
    return launch_tiled(CONV_TILED, dtype, tiles, args);
  return launch_plain(CONV, dtype, cu_blocks(pixels * s->O, CU_THREADS), args);
}

capl_status conv_native_grad_x(capl_dtype dtype, const conv_grad_x_args *args)
{
  const conv_sizes *s = &args->s;
  int64_t pixels = s->N * s->H * s->W, tiles = tiles_of(s, pixels, inputs_of(s));
  if (is_small(s) && inputs_of(s) >= COLUMNS_MIN && tiles < INT32_MAX)
    return launch_tiled(CONV_TILED_GRAD_X, dtype, tiles, args);
  conv_grad_x_args plain = *args;
  for (plain.lanes = 1; plain.lanes < LANES_MAX && 2 * plain.lanes <= outputs_of(s);) plain.lanes *= 2;
  return launch_plain(CONV_GRAD_X, dtype, cu_blocks(pixels * s->C * plain.lanes, CU_THREADS), &plain);
}

/* ---- gradient of the weights: parts of the pixels, then their total ---- */

/* How many parts keep the GPU busy beside so many blocks each; sets args->chunk. */
static int64_t cut_pixels(conv_grad_w_args *args, int64_t blocks)
{
  int64_t pixels = args->s.N * args->s.out_H * args->s.out_W;
  int64_t wanted = cu_divide_up((int64_t)cu.multiprocessors * BLOCKS_BUSY, blocks),
      most = cu_divide_up(pixels, PART_PIXELS);
  int64_t parts = wanted < most ? wanted : most;
  args->chunk = parts > 0 ? cu_divide_up(pixels, parts) : 0;
  return args->chunk > 0 ? cu_divide_up(pixels, args->chunk) : 0;
}

static capl_status sum_parts(const conv_grad_w_args *args, int64_t parts, float *dw)
{
  conv_total_args total = {args->partial, parts, taps_of(&args->s) * inputs_of(&args->s), args->s.O, dw};
  return cu_launch(cu_conv_table[CONV_TOTAL], cu_divide_up(total.K * total.O, CONV_TOTAL_COLUMNS), CONV_TOTAL_THREADS,
                   0, &total);
}

capl_status conv_native_grad_w(capl_device *device, capl_dtype dtype, const conv_grad_w_args *args, float *dw)
{
  const conv_sizes *s = &args->s;
  int64_t K = taps_of(s) * inputs_of(s);
  bool tiled = is_small(s) && outputs_of(s) * K >= WEIGHTS_MIN;
  int64_t blocks = tiled ? tiles_of(s, outputs_of(s), K)
                         : cu_divide_up(s->O, CONV_GRAD_W_OUTPUTS) * cu_divide_up(K, CONV_GRAD_W_TAPS);
  conv_grad_w_args cut = *args;
  void *partial = NULL;
  int64_t parts = cut_pixels(&cut, blocks);
  if (parts > 0) CAPL_TRY(capl_scratch_get(device, (size_t)(parts * K * s->O) * sizeof(float), &partial));
  cut.partial = partial;
  capl_status status = tiled ? launch_tiled(CONV_TILED_GRAD_W, dtype, blocks * parts, &cut)
                             : launch_plain(CONV_GRAD_W, dtype, blocks * parts, &cut);
  if (status == CAPL_OK) status = sum_parts(&cut, parts, dw);
  if (partial) capl_scratch_put(device, partial); /* work on it is queued before that of its next owner */
  return status;
}
