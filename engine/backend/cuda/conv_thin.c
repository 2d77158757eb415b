/* conv_thin.c -- convolutions of one input channel by own kernels: how images are cut into strips.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/conv_thin.h"

#include "backend/cuda/kernels/conv_thin.h"
#include "backend/cuda/kernels/pixels.h"

enum { VALUE_BYTES = 16 }; /* of a thread */

/* Numbers that kernels keep in 32 bits. */
static bool is_small(const conv_sizes *s)
{
  enum { MOST = 1 << 24, OUTPUTS = 1 << 12 }; /* with counters (cu_counters) for 512 blocks in x */
  int64_t strips = s->N * s->out_H * cu_divide_up(s->out_W, CONV_THIN_PIXELS);
  return s->N <= MOST && s->H <= MOST && s->W <= MOST && s->O <= OUTPUTS && s->padding[0] <= MOST
      && s->padding[1] <= MOST &&
         strips < INT32_MAX;
}

bool conv_is_thin(const conv_sizes *s)
{
  for (int i = 0; i < 2; i++)
    if (s->kernel[i] != 3 || s->dilation[i] != 1 || s->stride[i] > 2) return false;
  bool empty = s->N == 0 || s->H == 0 || s->W == 0 || s->O == 0 || s->out_H == 0 || s->out_W == 0;
  return s->C == 1 && s->groups == 1 && s->stride[0] == s->stride[1] && !empty && is_small(s);
}

/* ---- how a call is cut into threads ---- */

/* Strips that a block works on at a time. */
static int64_t strips_of_block(capl_dtype dtype)
{
  int lanes = CONV_THIN_CHANNELS * (int)capl_dtype_size(dtype) / VALUE_BYTES;
  return CONV_THIN_THREADS / lanes;
}

/* Long strips read the least of x; few images are cut into shorter ones, so that every multiprocessor has some. */
static conv_thin_strips strips_of(const conv_sizes *s, capl_dtype dtype)
{
  conv_thin_strips t = {.H = (int)s->H, .W = (int)s->W, .out_H = (int)s->out_H, .out_W = (int)s->out_W, .O = s->O,
                        .padding = {(int)s->padding[0], (int)s->padding[1]}, .rows = CONV_THIN_ROWS,
                        .column_strips = (int)cu_divide_up(s->out_W, CONV_THIN_PIXELS)};
  int64_t wanted = (int64_t)cu.multiprocessors * CONV_THIN_BLOCKS * strips_of_block(dtype);
  while (t.rows > 1 && s->N * cu_divide_up(s->out_H, t.rows) * t.column_strips < wanted) t.rows--;
  t.row_strips = (int)cu_divide_up(s->out_H, t.rows);
  t.strips = (uint32_t)(s->N * t.row_strips * t.column_strips);
  return t;
}

/* All blocks run at once and loop on: a thread loads its weights, or writes its sums, a single time. */
static int64_t blocks_of(const conv_thin_strips *t, capl_dtype dtype)
{
  int64_t most = (int64_t)cu.multiprocessors * CONV_THIN_BLOCKS,
  needed = cu_divide_up(t->strips, strips_of_block(dtype));
  return needed < most ? needed : most;
}

static int64_t tiles_of(const conv_thin_strips *t)
{
  return cu_divide_up(t->O, CONV_THIN_CHANNELS);
}

static capl_status launch(int kernel, capl_dtype dtype, int64_t stride, const void *image, const conv_thin_strips *t,
                          const void *args)
{
  bool wide = t->O * (int64_t)capl_dtype_size(dtype) % VALUE_BYTES == 0 && (uintptr_t)image % VALUE_BYTES == 0;
  int entry = kernel + ((int)(stride - 1) * 2 + wide) * CU_TYPES + (int)cu_type_of(dtype);
  return cu_launch_2d(cu_conv_thin_table[entry], blocks_of(t, dtype), tiles_of(t), CONV_THIN_THREADS, 0, args);
}

/* ---- forward and weight gradient ---- */

capl_status conv_thin_forward(capl_dtype dtype, const conv_args *args)
{
  conv_thin_args thin = {.s = strips_of(&args->s, dtype), .x = args->x, .w = args->w, .bias = args->bias,
                         .bias_f32 = args->bias_f32, .y = args->y};
  return launch(CONV_THIN, dtype, args->s.stride[0], thin.y, &thin.s, &thin);
}

capl_status conv_thin_weights(capl_device *device, capl_dtype dtype, const conv_grad_w_args *args, conv_thin_grads to)
{
  conv_thin_grad_w_args thin = {.s = strips_of(&args->s, dtype), .x = args->x, .dy = args->dy, .dw = to.dw,
                                .db = to.db};
  int64_t parts = blocks_of(&thin.s, dtype);
  void *partial;
  CAPL_TRY(cu_counters(parts, tiles_of(&thin.s), &thin.counters));
  CAPL_TRY(capl_scratch_get(device, (size_t)(parts * (CONV_THIN_TAPS + 1) * thin.s.O) * sizeof(float), &partial));
  thin.partial = partial;
  capl_status status = launch(CONV_THIN_GRAD_W, dtype, args->s.stride[0], thin.dy, &thin.s, &thin);
  capl_scratch_put(device, partial); /* work on it is queued before that of its next owner */
  return status;
}
