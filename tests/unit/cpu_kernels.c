/* cpu_kernels.c -- the cpu backend against ref: every op it has, odd sizes, f32 and bf16, gradients too.
**
** Inputs lie on bf16's grid, so both dtypes compute from the same numbers; the oracle is always ref in
** f32. The gradients are those of sum(y * r) with a random r. CAPL_ASSUME=isa=… selects the kernels under test.
** SPDX-License-Identifier: Apache-2.0
*/
#include <setjmp.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float16.h"
#include "capl/capl.h"

static capl_device *cpu, *ref;

#define OK(expr)                                                                            \
  do {                                                                                      \
    if ((expr) != CAPL_OK) fail_msg("%s: %s\n%s", #expr, capl_error_last()->message, capl_error_last()->context); \
  } while (0)

/* ---- inputs ---- */

enum { MAX_IN = 6 };

typedef enum {
  NONE,    /* left out */
  DATA,    /* -1..1, of the dtype under test */
  SMALL,   /* -0.05..0.05, likewise */
  FACTOR,  /* f32: 0.5..1.5 */
  SHIFT,   /* f32: -1..1 */
  RUNNING, /* f32: 0.5..1.5, no gradient */
  POSITIVE,/* 0.1..2, of the dtype under test */
  TARGET,  /* f32: 0 or 1, no gradient */
  TARGET_X,/* the same, of the dtype under test */
  CONDITION, /* bool */
  LABEL,   /* i32 below 5, no gradient */
} kind;

typedef struct {
  kind kind;
  int ndim;
  int64_t size[4];
} input;

typedef struct {
  capl_op_id op;
  const char *attrs;
  input in[MAX_IN];
} op_case;

#define S1(a) 1, {a}
#define S2(a, b) 2, {a, b}
#define S3(a, b, c) 3, {a, b, c}
#define S4(a, b, c, d) 4, {a, b, c, d}
#define NORM(C) {FACTOR, S1(C)}, {SHIFT, S1(C)}, {RUNNING, S1(C)}, {RUNNING, S1(C)}

static const op_case cases[] = {
  /* first layer: the own kernel for its weights; odd width, stride, 5x5, several input channels, bf16 rows */
  {CAPL_OP_conv2d, "padding=1", {{DATA, S4(3, 1, 9, 13)}, {DATA, S4(32, 1, 3, 3)}, {SHIFT, S1(32)}}},
  {CAPL_OP_conv2d, "padding=2 stride=2", {{DATA, S4(2, 1, 11, 17)}, {DATA, S4(16, 1, 5, 5)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv2d, "padding=1", {{DATA, S4(2, 3, 8, 7)}, {DATA, S4(48, 3, 3, 3)}, {0}}},
  {CAPL_OP_conv2d, "", {{DATA, S4(2, 4, 6, 5)}, {DATA, S4(16, 4, 1, 3)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv2d, "padding=1", {{DATA, S4(2, 1, 6, 5)}, {DATA, S4(7, 1, 3, 3)}, {SHIFT, S1(7)}}},
  /* rows with few channels: widths below a tile and such that the last one overlaps, strides, 1x3, act; phases of dx,
     also where the last pixels are read by no window, and of a kernel with two taps */
  {CAPL_OP_conv2d, "padding=1", {{DATA, S4(3, 1, 20, 23)}, {DATA, S4(8, 1, 3, 3)}, {SHIFT, S1(8)}}},
  {CAPL_OP_conv2d, "padding=1", {{DATA, S4(2, 1, 3, 7)}, {DATA, S4(8, 1, 3, 3)}, {0}}},
  {CAPL_OP_conv2d, "padding=1 stride=2", {{DATA, S4(2, 1, 19, 30)}, {DATA, S4(8, 1, 3, 3)}, {SHIFT, S1(8)}}},
  {CAPL_OP_conv2d, "padding=0,3 stride=3,1", {{DATA, S4(2, 1, 17, 12)}, {DATA, S4(24, 1, 5, 7)}, {SHIFT, S1(24)}}},
  {CAPL_OP_conv2d, "padding=1", {{DATA, S4(2, 4, 9, 14)}, {DATA, S4(16, 4, 3, 3)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv2d, "stride=1,2", {{DATA, S4(2, 3, 5, 29)}, {DATA, S4(8, 3, 1, 3)}, {SHIFT, S1(8)}}},
  {CAPL_OP_conv2d_act, "padding=1", {{DATA, S4(2, 1, 9, 25)}, {DATA, S4(8, 1, 3, 3)}, {SHIFT, S1(8)}}},
  {CAPL_OP_conv2d_act, "padding=1 act=silu", {{DATA, S4(2, 1, 9, 25)}, {DATA, S4(24, 1, 3, 3)}, {SHIFT, S1(24)}}},
  {CAPL_OP_conv2d, "stride=2 padding=1", {{DATA, S4(3, 8, 12, 42)}, {DATA, S4(16, 8, 3, 3)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv2d, "stride=2 padding=0,3", {{DATA, S4(2, 8, 11, 9)}, {DATA, S4(6, 8, 2, 7)}, {0}}},
  {CAPL_OP_conv2d, "stride=2", {{DATA, S4(2, 8, 8, 26)}, {DATA, S4(16, 8, 3, 5)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv_transpose2d, "stride=2 padding=1 output_padding=1",
   {{DATA, S4(2, 16, 9, 13)}, {DATA, S4(16, 8, 3, 3)}, {SHIFT, S1(8)}}},
  /* Winograd sizes, with an image that does not divide into its tiles */
  {CAPL_OP_conv2d, "padding=1", {{DATA, S4(2, 32, 7, 20)}, {DATA, S4(64, 32, 3, 3)}, {SHIFT, S1(64)}}},
  {CAPL_OP_conv2d, "padding=1", {{DATA, S4(1, 40, 5, 9)}, {DATA, S4(33, 40, 3, 3)}, {SHIFT, S1(33)}}},
  {CAPL_OP_conv2d, "padding=2", {{DATA, S4(2, 16, 5, 6)}, {DATA, S4(48, 16, 3, 3)}, {SHIFT, S1(48)}}},
  {CAPL_OP_conv2d, "padding=0,1", {{DATA, S4(3, 48, 13, 9)}, {DATA, S4(16, 48, 3, 3)}, {0}}},
  {CAPL_OP_conv2d, "", {{DATA, S4(2, 32, 25, 33)}, {DATA, S4(32, 32, 3, 3)}, {SHIFT, S1(32)}}},
  {CAPL_OP_conv2d, "padding=1", {{DATA, S4(1, 16, 3, 3)}, {DATA, S4(16, 16, 3, 3)}, {SHIFT, S1(16)}}},
  /* Winograd along rows: vertical strides, any kernel height, rows of x that no window reads */
  {CAPL_OP_conv2d, "stride=2,1 padding=1", {{DATA, S4(9, 16, 8, 20)}, {DATA, S4(48, 16, 3, 3)}, {SHIFT, S1(48)}}},
  {CAPL_OP_conv2d, "stride=2,1 padding=1", {{DATA, S4(3, 32, 7, 13)}, {DATA, S4(16, 32, 3, 3)}, {0}}},
  {CAPL_OP_conv2d, "stride=3,1 padding=0,2", {{DATA, S4(2, 16, 9, 14)}, {DATA, S4(16, 16, 2, 3)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv2d, "padding=2,0", {{DATA, S4(4, 16, 6, 41)}, {DATA, S4(32, 16, 5, 3)}, {SHIFT, S1(32)}}},
  /* weight gradients over pixels: strides that leave a rest, one row of output, 1x1 */
  {CAPL_OP_conv2d, "stride=2 padding=1", {{DATA, S4(5, 16, 9, 12)}, {DATA, S4(48, 16, 3, 3)}, {SHIFT, S1(48)}}},
  {CAPL_OP_conv2d, "stride=3,2 padding=0,2", {{DATA, S4(3, 9, 11, 7)}, {DATA, S4(16, 9, 2, 5)}, {0}}},
  {CAPL_OP_conv2d, "", {{DATA, S4(19, 32, 4, 10)}, {DATA, S4(32, 32, 4, 1)}, {SHIFT, S1(32)}}},
  {CAPL_OP_conv2d, "padding=0,1", {{DATA, S4(11, 16, 3, 6)}, {DATA, S4(16, 16, 3, 2)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv2d, "", {{DATA, S4(10, 40, 3, 5)}, {DATA, S4(32, 40, 1, 1)}, {SHIFT, S1(32)}}},
  /* stride, dilation, unequal padding, groups, depthwise, 1x1, odd channels */
  {CAPL_OP_conv2d, "stride=2 padding=1", {{DATA, S4(2, 17, 9, 8)}, {DATA, S4(19, 17, 3, 3)}, {SHIFT, S1(19)}}},
  {CAPL_OP_conv2d, "dilation=2 padding=2,1", {{DATA, S4(2, 6, 9, 11)}, {DATA, S4(5, 6, 3, 3)}, {SHIFT, S1(5)}}},
  {CAPL_OP_conv2d, "groups=3 padding=1", {{DATA, S4(2, 6, 7, 5)}, {DATA, S4(9, 2, 3, 3)}, {SHIFT, S1(9)}}},
  {CAPL_OP_conv2d, "groups=16 padding=1", {{DATA, S4(2, 16, 7, 5)}, {DATA, S4(16, 1, 3, 3)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv2d, "", {{DATA, S4(3, 24, 5, 6)}, {DATA, S4(10, 24, 1, 1)}, {SHIFT, S1(10)}}},
  {CAPL_OP_conv2d, "stride=3,2", {{DATA, S4(1, 2, 10, 9)}, {DATA, S4(3, 2, 2, 4)}, {0}}},
  /* depthwise by lines: rest of a vector, rows that nothing reaches, kernels larger than the image, two outputs each */
  {CAPL_OP_conv2d, "groups=40 stride=2 padding=1",
   {{DATA, S4(3, 40, 11, 27)}, {DATA, S4(40, 1, 3, 3)}, {SHIFT, S1(40)}}},
  {CAPL_OP_conv2d, "groups=19 stride=4,3 padding=3", {{DATA, S4(2, 19, 9, 8)}, {DATA, S4(19, 1, 2, 2)}, {0}}},
  {CAPL_OP_conv2d, "groups=16 padding=6 dilation=2",
   {{DATA, S4(2, 16, 5, 9)}, {DATA, S4(16, 1, 7, 7)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv2d, "groups=9 padding=2", {{DATA, S4(5, 9, 6, 7)}, {DATA, S4(18, 1, 5, 5)}, {SHIFT, S1(18)}}},
  {CAPL_OP_conv2d_act, "padding=1", {{DATA, S4(2, 24, 7, 20)}, {DATA, S4(64, 24, 3, 3)}, {SHIFT, S1(64)}}},
  {CAPL_OP_conv2d_act, "padding=1 act=silu", {{DATA, S4(2, 32, 7, 20)}, {DATA, S4(64, 32, 3, 3)}, {SHIFT, S1(64)}}},
  {CAPL_OP_conv2d_act, "stride=2,1 padding=1", {{DATA, S4(9, 16, 8, 20)}, {DATA, S4(48, 16, 3, 3)}, {SHIFT, S1(48)}}},
  {CAPL_OP_conv2d_act, "stride=2 padding=1", {{DATA, S4(2, 17, 9, 8)}, {DATA, S4(19, 17, 3, 3)}, {SHIFT, S1(19)}}},
  {CAPL_OP_conv2d_act, "stride=2 act=silu", {{DATA, S4(2, 5, 9, 8)}, {DATA, S4(6, 5, 3, 3)}, {0}}},
  {CAPL_OP_conv2d_act, "groups=16 padding=1", {{DATA, S4(2, 16, 7, 5)}, {DATA, S4(16, 1, 3, 3)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv_transpose2d, "stride=2 padding=1 output_padding=1",
   {{DATA, S4(2, 32, 5, 6)}, {DATA, S4(32, 16, 3, 3)}, {SHIFT, S1(16)}}},
  {CAPL_OP_conv_transpose2d, "stride=2 groups=20", {{DATA, S4(2, 20, 5, 6)}, {DATA, S4(20, 1, 2, 2)}, {SHIFT, S1(20)}}},

  {CAPL_OP_linear, "", {{DATA, S2(5, 37)}, {DATA, S2(11, 37)}, {SHIFT, S1(11)}}},
  {CAPL_OP_linear, "", {{DATA, S3(2, 3, 64)}, {DATA, S2(48, 64)}, {0}}},
  {CAPL_OP_linear, "", {{DATA, S2(1, 1)}, {DATA, S2(1, 1)}, {SHIFT, S1(1)}}},
  {CAPL_OP_linear_act, "", {{DATA, S2(5, 37)}, {DATA, S2(11, 37)}, {SHIFT, S1(11)}}},
  /* few rows, many weights: rests of vectors of rows, of blocks of inputs, of strips and vectors of outputs */
  {CAPL_OP_linear, "", {{DATA, S2(17, 1040)}, {DATA, S2(253, 1040)}, {SHIFT, S1(253)}}},
  {CAPL_OP_linear, "", {{DATA, S2(67, 2064)}, {DATA, S2(129, 2064)}, {0}}},
  {CAPL_OP_linear_act, "", {{DATA, S3(2, 24, 1040)}, {DATA, S2(253, 1040)}, {SHIFT, S1(253)}}},
  {CAPL_OP_matmul, "", {{DATA, S2(5, 7)}, {DATA, S2(7, 3)}}},
  {CAPL_OP_matmul, "", {{DATA, S3(3, 5, 7)}, {DATA, S3(3, 7, 4)}}},
  {CAPL_OP_matmul, "transpose_a=true", {{DATA, S3(3, 7, 5)}, {DATA, S3(3, 7, 4)}}},
  {CAPL_OP_matmul, "transpose_b=true", {{DATA, S4(2, 3, 5, 8)}, {DATA, S4(2, 3, 4, 8)}}},
  {CAPL_OP_matmul, "transpose_a=true transpose_b=true", {{DATA, S2(6, 5)}, {DATA, S3(2, 3, 6)}}},
  {CAPL_OP_matmul, "", {{DATA, S4(2, 1, 3, 5)}, {DATA, S3(4, 5, 6)}}},

  {CAPL_OP_batch_norm, "training=true", {{DATA, S4(3, 5, 7, 3)}, NORM(5)}},
  {CAPL_OP_batch_norm, "training=true", {{DATA, S4(2, 64, 5, 13)}, NORM(64)}},
  {CAPL_OP_batch_norm, "training=true", {{DATA, S2(9, 35)}, NORM(35)}},
  {CAPL_OP_batch_norm, "training=false", {{DATA, S4(2, 19, 3, 4)}, NORM(19)}},
  {CAPL_OP_bn_act, "training=true", {{DATA, S4(3, 5, 7, 3)}, NORM(5)}},
  {CAPL_OP_bn_act, "training=true eps=0.001", {{DATA, S4(2, 128, 6, 25)}, NORM(128)}},
  {CAPL_OP_bn_act, "training=true", {{DATA, S4(2, 48, 11, 13)}, NORM(48)}},
  {CAPL_OP_bn_act, "training=false", {{DATA, S4(2, 19, 3, 4)}, NORM(19)}},
  {CAPL_OP_bn_act, "training=true act=silu", {{DATA, S4(3, 37, 7, 3)}, NORM(37)}},
  {CAPL_OP_bn_act, "training=false act=silu", {{DATA, S4(2, 19, 3, 4)}, NORM(19)}},
  {CAPL_OP_bn_act_pool, "training=true", {{DATA, S4(2, 32, 6, 10)}, NORM(32)}},
  {CAPL_OP_bn_act_pool, "training=true", {{DATA, S4(3, 21, 7, 5)}, NORM(21)}},
  {CAPL_OP_bn_act_pool, "training=true", {{DATA, S4(2, 3, 2, 3)}, NORM(3)}},
  {CAPL_OP_bn_act_pool, "training=false", {{DATA, S4(2, 17, 5, 4)}, NORM(17)}},

  {CAPL_OP_layer_norm, "normalized_shape=37", {{DATA, S3(3, 5, 37)}, {FACTOR, S1(37)}, {SHIFT, S1(37)}}},
  {CAPL_OP_rms_norm, "normalized_shape=5,37", {{DATA, S3(3, 5, 37)}, {FACTOR, S2(5, 37)}}},
  {CAPL_OP_group_norm, "num_groups=4", {{DATA, S4(2, 36, 5, 3)}, {FACTOR, S1(36)}, {SHIFT, S1(36)}}},
  {CAPL_OP_group_norm, "num_groups=3", {{DATA, S3(2, 6, 41)}, {FACTOR, S1(6)}, {SHIFT, S1(6)}}},

  {CAPL_OP_interpolate, "size=7,20 mode=bilinear", {{DATA, S4(2, 19, 4, 9)}}},
  {CAPL_OP_interpolate, "size=3,5 mode=bilinear align_corners=true", {{DATA, S4(2, 3, 8, 9)}}},
  {CAPL_OP_interpolate, "size=90,12", {{DATA, S4(1, 33, 2, 9)}}},
  {CAPL_OP_grid_sample, "", {{DATA, S4(2, 19, 7, 9)}, {DATA, S4(2, 40, 30, 2)}}},
  {CAPL_OP_grid_sample, "padding_mode=reflection", {{DATA, S4(1, 1, 7, 9)}, {DATA, S4(1, 40, 30, 2)}}},
  {CAPL_OP_gather, "dim=0", {{DATA, S2(5, 70)}, {LABEL, S2(600, 70)}}},
  {CAPL_OP_scatter, "dim=0", {{DATA, S2(5, 70)}, {LABEL, S2(600, 70)}, {DATA, S2(600, 70)}}},
  {CAPL_OP_scatter_add, "dim=0", {{DATA, S2(5, 70)}, {LABEL, S2(600, 70)}, {DATA, S2(600, 70)}}},
  {CAPL_OP_index_select, "dim=1", {{DATA, S3(40, 5, 37)}, {LABEL, S1(60)}}},
  {CAPL_OP_embedding, "padding_idx=2", {{DATA, S2(5, 67)}, {LABEL, S2(30, 20)}}},
  {CAPL_OP_scaled_dot_product_attention, "",
   {{DATA, S4(2, 2, 23, 20)}, {DATA, S4(2, 2, 37, 20)}, {DATA, S4(2, 2, 37, 9)}}},
  {CAPL_OP_scaled_dot_product_attention, "is_causal=true dropout_p=0.2 seed=9",
   {{DATA, S3(2, 110, 32)}, {DATA, S3(2, 300, 32)}, {DATA, S3(2, 300, 32)}}},

  {CAPL_OP_max_pool2d, "kernel=2", {{DATA, S4(2, 19, 7, 9)}}},
  {CAPL_OP_max_pool2d, "kernel=3 stride=2 padding=1", {{DATA, S4(2, 16, 7, 9)}}},
  {CAPL_OP_max_pool2d, "kernel=3,2 stride=1,3 ceil_mode=true", {{DATA, S4(1, 5, 6, 8)}}},
  {CAPL_OP_max_pool2d, "kernel=3,2 stride=1,3 padding=1,0 dilation=2,3", {{DATA, S4(2, 19, 7, 9)}}},
  {CAPL_OP_max_pool2d, "kernel=3,2 stride=1,3 padding=1 dilation=2,3", {{DATA, S4(2, 16, 9, 27)}}},
  {CAPL_OP_avg_pool2d, "kernel=2,4 stride=1,2 padding=1,2 count_include_pad=false", {{DATA, S4(2, 19, 7, 21)}}},
  {CAPL_OP_avg_pool2d, "kernel=2", {{DATA, S4(2, 19, 7, 9)}}},
  {CAPL_OP_avg_pool2d, "kernel=3 stride=2 padding=1", {{DATA, S4(2, 16, 7, 9)}}},
  {CAPL_OP_avg_pool2d, "kernel=3 stride=2 padding=1 ceil_mode=true count_include_pad=false", {{DATA, S4(1, 5, 6, 8)}}},
  {CAPL_OP_adaptive_avg_pool2d, "output=1", {{DATA, S4(2, 19, 7, 9)}}},
  {CAPL_OP_adaptive_avg_pool2d, "output=3,4", {{DATA, S4(2, 16, 7, 9)}}},
  {CAPL_OP_adaptive_avg_pool2d, "output=5", {{DATA, S4(1, 3, 2, 3)}}},
  {CAPL_OP_adaptive_avg_pool2d, "output=1", {{DATA, S4(3, 19, 17, 18)}}},
  {CAPL_OP_adaptive_max_pool2d, "output=3,4", {{DATA, S4(2, 21, 7, 9)}}},

  {CAPL_OP_add, "", {{DATA, S4(2, 19, 3, 5)}, {DATA, S4(2, 19, 3, 5)}}},
  {CAPL_OP_sub, "", {{DATA, S4(2, 19, 3, 5)}, {DATA, S4(1, 19, 1, 1)}}},
  {CAPL_OP_mul, "", {{DATA, S3(4, 1, 33)}, {DATA, S3(1, 7, 1)}}},
  {CAPL_OP_mul, "", {{DATA, S2(1, 1)}, {DATA, S4(2, 3, 5, 7)}}},
  {CAPL_OP_div, "", {{DATA, S2(7, 18)}, {POSITIVE, S2(7, 1)}}},
  {CAPL_OP_maximum, "", {{DATA, S1(37)}, {DATA, S1(37)}}},
  {CAPL_OP_minimum, "", {{DATA, S1(37)}, {DATA, S1(1)}}},
  {CAPL_OP_eq, "", {{TARGET_X, S2(7, 18)}, {TARGET_X, S2(1, 18)}}},
  {CAPL_OP_ne, "", {{TARGET_X, S2(7, 18)}, {TARGET_X, S2(7, 1)}}},
  {CAPL_OP_lt, "", {{DATA, S2(7, 18)}, {DATA, S2(7, 1)}}},
  {CAPL_OP_le, "", {{DATA, S2(1, 18)}, {DATA, S2(7, 1)}}},
  {CAPL_OP_gt, "", {{DATA, S4(2, 19, 3, 5)}, {DATA, S4(1, 19, 1, 1)}}},
  {CAPL_OP_ge, "", {{DATA, S1(33)}, {DATA, S1(33)}}},
  {CAPL_OP_where, "", {{CONDITION, S4(2, 1, 3, 5)}, {DATA, S4(2, 19, 3, 5)}, {DATA, S1(1)}}},
  {CAPL_OP_sign, "", {{DATA, S1(53)}}},
  {CAPL_OP_pow, "exponent=2", {{DATA, S1(53)}}},
  {CAPL_OP_pow, "exponent=-1.5", {{POSITIVE, S2(5, 13)}}},
  {CAPL_OP_relu, "", {{DATA, S4(2, 19, 3, 5)}}},
  {CAPL_OP_affine, "scale=-2.5 shift=0.75", {{DATA, S3(3, 4, 7)}}},
  {CAPL_OP_exp, "", {{DATA, S1(53)}}},
  {CAPL_OP_log, "", {{POSITIVE, S1(53)}}},
  {CAPL_OP_sqrt, "", {{POSITIVE, S1(53)}}},
  {CAPL_OP_log1p, "", {{POSITIVE, S1(53)}}},
  {CAPL_OP_floor, "", {{DATA, S1(53)}}},
  {CAPL_OP_round, "", {{DATA, S2(5, 13)}}},
  {CAPL_OP_power, "", {{POSITIVE, S2(5, 13)}, {DATA, S1(13)}}},
  {CAPL_OP_remainder, "", {{DATA, S2(5, 13)}, {POSITIVE, S1(13)}}},
  {CAPL_OP_abs, "", {{DATA, S1(53)}}},
  {CAPL_OP_sigmoid, "", {{DATA, S1(53)}}},
  {CAPL_OP_tanh, "", {{DATA, S1(53)}}},
  {CAPL_OP_erf, "", {{DATA, S4(2, 19, 3, 5)}}},
  {CAPL_OP_sin, "", {{DATA, S1(53)}}},
  {CAPL_OP_cos, "", {{DATA, S1(53)}}},
  {CAPL_OP_silu, "", {{DATA, S4(2, 19, 3, 5)}}},
  {CAPL_OP_gelu, "", {{DATA, S1(53)}}},
  {CAPL_OP_gelu, "approximate=tanh", {{DATA, S1(53)}}},
  {CAPL_OP_softplus, "beta=2 threshold=1", {{DATA, S1(53)}}},
  {CAPL_OP_leaky_relu, "negative_slope=0.2", {{DATA, S1(53)}}},
  {CAPL_OP_elu, "alpha=0.7", {{DATA, S1(53)}}},
  {CAPL_OP_hardsigmoid, "", {{DATA, S1(53)}}},
  {CAPL_OP_hardswish, "", {{DATA, S1(53)}}},
  {CAPL_OP_log_sigmoid, "", {{DATA, S1(53)}}},
  {CAPL_OP_clamp, "min=-0.5 max=0.3", {{DATA, S1(53)}}},
  {CAPL_OP_dropout, "p=0.3 seed=77 offset=5", {{DATA, S2(9, 111)}}},
  {CAPL_OP_dropout, "p=0.3 seed=78 offset=6", {{DATA, S2(301, 111)}}},
  {CAPL_OP_dropout, "p=0.5 seed=3", {{DATA, S4(2, 5, 3, 7)}}},

  {CAPL_OP_contiguous, "", {{DATA, S4(3, 37, 5, 7)}}},
  {CAPL_OP_reshape, "size=3,-1", {{DATA, S4(3, 128, 7, 20)}}},
  {CAPL_OP_concat, "dim=1", {{DATA, S4(2, 3, 4, 5)}, {DATA, S4(2, 6, 4, 5)}}},
  {CAPL_OP_concat, "dim=0", {{DATA, S2(2, 3)}, {DATA, S2(1, 3)}}},
  {CAPL_OP_narrow_grad, "dim=1 start=2 size=9", {{DATA, S3(3, 5, 4)}}},

  {CAPL_OP_sum, "", {{DATA, S4(2, 19, 3, 5)}}},
  {CAPL_OP_sum, "dims=0,2,3", {{DATA, S4(2, 19, 3, 5)}}},
  {CAPL_OP_sum, "dims=1 keepdim=true", {{DATA, S4(2, 19, 3, 5)}}},
  {CAPL_OP_mean, "dims=2", {{DATA, S3(3, 5, 33)}}},
  {CAPL_OP_mean, "dims=2,3", {{DATA, S4(3, 20, 5, 7)}}},
  {CAPL_OP_mean, "dims=0", {{DATA, S2(129, 7)}}},
  {CAPL_OP_amax, "", {{DATA, S3(3, 5, 33)}}},
  {CAPL_OP_amax, "dims=1", {{DATA, S4(2, 19, 3, 5)}}},
  {CAPL_OP_amax, "dims=0,2 keepdim=true", {{DATA, S3(65, 7, 5)}}},
  {CAPL_OP_argmax, "dim=1", {{DATA, S2(9, 36)}}},
  {CAPL_OP_argmax, "dim=1", {{DATA, S4(2, 19, 3, 5)}}},
  {CAPL_OP_argmax, "dim=1", {{DATA, S2(3, 1500)}}},
  {CAPL_OP_argsort, "", {{DATA, S2(9, 36)}}},
  {CAPL_OP_argsort, "dim=1 descending=true", {{DATA, S2(3, 150)}}},
  {CAPL_OP_softmax, "", {{DATA, S3(3, 5, 37)}}},
  {CAPL_OP_softmax, "dim=0", {{DATA, S2(7, 37)}}},
  {CAPL_OP_softmax, "dim=1", {{DATA, S4(2, 19, 3, 5)}}},
  {CAPL_OP_log_softmax, "", {{DATA, S2(6, 36)}}},

  {CAPL_OP_cross_entropy, "", {{DATA, S2(33, 7)}, {LABEL, S1(33)}}},
  {CAPL_OP_cross_entropy, "label_smoothing=0.1 ignore_index=2", {{DATA, S2(33, 36)}, {LABEL, S1(33)}}},
  {CAPL_OP_cross_entropy, "reduction=none", {{DATA, S2(9, 5)}, {LABEL, S1(9)}}},
  {CAPL_OP_cross_entropy, "label_smoothing=0.1", {{DATA, S2(5, 20001)}, {LABEL, S1(5)}}},
  {CAPL_OP_cross_entropy, "label_smoothing=0.1", {{DATA, S2(33, 36)}, {LABEL, S1(33)}, {RUNNING, S1(36)}}},
  {CAPL_OP_cross_entropy, "gamma=2", {{DATA, S2(33, 36)}, {LABEL, S1(33)}, {RUNNING, S1(36)}}},
  {CAPL_OP_dice_sums, "ignore_index=2", {{DATA, S3(2, 33, 7)}, {LABEL, S2(2, 33)}}},
  {CAPL_OP_smooth_l1, "beta=0.7", {{DATA, S2(5, 37)}, {TARGET, S2(5, 37)}}},
  {CAPL_OP_smooth_l1, "reduction=none", {{DATA, S2(5, 37)}, {TARGET, S2(5, 37)}}},
  {CAPL_OP_sigmoid_focal, "", {{DATA, S2(5, 37)}, {TARGET, S2(5, 37)}}},
  {CAPL_OP_sigmoid_focal, "gamma=1.5 reduction=none", {{DATA, S2(5, 37)}, {TARGET, S2(5, 37)}}},
  {CAPL_OP_bce_with_logits, "", {{DATA, S2(5, 37)}, {TARGET, S2(5, 37)}}},
  {CAPL_OP_bce_with_logits, "reduction=sum", {{DATA, S2(5, 37)}, {TARGET, S2(5, 37)}}},
  {CAPL_OP_bce_with_logits, "reduction=none", {{DATA, S2(5, 37)}, {TARGET, S2(5, 37)}}},
  {CAPL_OP_multilabel_soft_margin, "", {{DATA, S2(5, 37)}, {TARGET, S2(5, 37)}}},
};

static double draw(kind k, capl_rng *rng)
{
  double u = (double)capl_rng_u32(rng) / 4294967296.0;
  switch (k) {
  case FACTOR:
  case RUNNING: u += 0.5; break;
  case POSITIVE: u = 0.1 + 1.9 * u; break;
  case SMALL: u = 0.1 * u - 0.05; break;
  case TARGET:
  case TARGET_X:
  case CONDITION: return u > 0.7;
  case LABEL: return floor(5 * u);
  default: u = 2 * u - 1;
  }
  return capl_bf16_to_float(capl_bf16_from_float((float)u));
}

static capl_dtype dtype_of(kind k, capl_dtype dtype)
{
  switch (k) {
  case LABEL: return CAPL_I32;
  case CONDITION: return CAPL_BOOL;
  case DATA:
  case POSITIVE:
  case SMALL:
  case TARGET_X: return dtype;
  default: return CAPL_F32;
  }
}

static bool wants_grad(const op_case *c, int i)
{
  kind k = c->in[i].kind;
  return capl_op_get(c->op)->grad && (k == DATA || k == FACTOR || k == SHIFT || k == POSITIVE);
}

static capl_tensor *make(capl_device *device, capl_dtype dtype, kind k, int ndim, const int64_t *size, uint32_t stream)
{
  capl_rng rng;
  int64_t n = 1;
  capl_tensor *t;
  for (int d = 0; d < ndim; d++) n *= size[d];
  double *values = calloc((size_t)n + 1, sizeof *values);
  capl_rng_init(&rng, 2024, stream, 0, 0);
  for (int64_t i = 0; i < n; i++) values[i] = draw(k, &rng);
  OK(capl_tensor_from_doubles(device, dtype, ndim, size, values, &t));
  free(values);
  return t;
}

/* ---- one run ---- */

typedef struct {
  int n_in, n_out;
  capl_tensor *in[MAX_IN], *out[CAPL_MAX_OUT];
} run;

static void differentiate(const run *r, capl_device *device)
{
  const capl_tensor *y = r->out[0];
  capl_tensor *weight = make(device, y->dtype, DATA, y->ndim, y->size, 99), *weighted, *loss;
  capl_tensor *pair[2] = {r->out[0], weight};
  OK(capl_op_call(CAPL_OP_mul, pair, 2, NULL, &weighted));
  OK(capl_op_call(CAPL_OP_sum, &weighted, 1, NULL, &loss));
  OK(capl_backward(loss, 1));
  capl_tensor_unref(weight);
  capl_tensor_unref(weighted);
  capl_tensor_unref(loss);
}

static run run_case(const op_case *c, capl_device *device, capl_dtype dtype)
{
  run r = {.n_out = capl_op_get(c->op)->n_out};
  bool any = false;
  for (int i = 0; i < MAX_IN && (c->in[i].ndim || i < 3); i++) {
    const input *in = &c->in[i];
    if (in->kind == NONE) continue;
    r.in[i] = make(device, dtype_of(in->kind, dtype), in->kind, in->ndim, in->size, (uint32_t)i);
    r.in[i]->requires_grad = wants_grad(c, i);
    any |= r.in[i]->requires_grad;
    r.n_in = i + 1;
  }
  OK(capl_run(c->op, r.in, r.n_in, c->attrs, r.out));
  if (any) differentiate(&r, device);
  return r;
}

static void drop(run *r)
{
  for (int i = 0; i < r->n_in; i++) capl_tensor_unref(r->in[i]);
  for (int i = 0; i < r->n_out; i++) capl_tensor_unref(r->out[i]);
}

/* Largest difference, relative to the largest value of want. */
static double distance(const capl_tensor *got, const capl_tensor *want)
{
  int64_t n = capl_tensor_numel(want);
  double *a = calloc((size_t)n + 1, sizeof *a), *b = calloc((size_t)n + 1, sizeof *b), worst = 0, scale = 1e-3;
  assert_true(capl_tensor_same_shape(got, want));
  OK(capl_tensor_to_doubles(got, a));
  OK(capl_tensor_to_doubles(want, b));
  for (int64_t i = 0; i < n; i++) {
    double d = fabs(a[i] - b[i]);
    if (!(d <= worst)) worst = d;
    if (fabs(b[i]) > scale) scale = fabs(b[i]);
  }
  free(a);
  free(b);
  return worst / scale;
}

static void compare(const op_case *c, capl_dtype dtype, const char *what, int i, const capl_tensor *got,
                    const capl_tensor *want)
{
  double limit = dtype == CAPL_BF16 ? 1.2e-2 : 2e-5;
  if (got->dtype == CAPL_U8 || got->dtype == CAPL_I32 || got->dtype == CAPL_BOOL) limit = 0;
  double d = distance(got, want);
  if (d <= limit) return;
  char x[96];
  fail_msg("%s (%s) %s: %s %d is off by %.3g of the largest value, %.3g is allowed; x %s", capl_op_get(c->op)->name,
           c->attrs, capl_dtype_name(dtype), what, i, d, limit,
           capl_shape_describe(c->in[0].ndim, c->in[0].size, x, sizeof x));
}

/* bn_act_pool: where relu lets nothing through, any place will do. */
static void compare_places(const op_case *c, capl_dtype dtype, const run *got, const run *want)
{
  int64_t n = capl_tensor_numel(want->out[0]);
  double *y = calloc((size_t)n, sizeof *y), *a = calloc((size_t)n, sizeof *a), *b = calloc((size_t)n, sizeof *b);
  OK(capl_tensor_to_doubles(want->out[0], y));
  OK(capl_tensor_to_doubles(got->out[3], a));
  OK(capl_tensor_to_doubles(want->out[3], b));
  for (int64_t i = 0; i < n; i++)
    if (y[i] > 0 ? a[i] != b[i] : a[i] > 3)
      fail_msg("bn_act_pool (%s) %s: element %d won in window %" PRId64 ", it is %d", c->attrs, capl_dtype_name(dtype),
               (int)a[i], i, (int)b[i]);
  free(y);
  free(a);
  free(b);
}

static void check_case(const op_case *c, capl_dtype dtype)
{
  uint64_t fallbacks = capl_counter_get("ref_fallbacks");
  run got = run_case(c, cpu, dtype);
  if (capl_counter_get("ref_fallbacks") != fallbacks)
    fail_msg("%s (%s) %s: ref ran, so nothing was tested", capl_op_get(c->op)->name, c->attrs, capl_dtype_name(dtype));
  run want = run_case(c, ref, CAPL_F32);
  bool pooled = c->op == CAPL_OP_bn_act_pool;
  for (int i = 0; i < got.n_out - pooled; i++) compare(c, dtype, "output", i, got.out[i], want.out[i]);
  if (pooled) compare_places(c, dtype, &got, &want);
  for (int i = 0; i < got.n_in; i++) {
    if (c->in[i].kind == RUNNING) compare(c, dtype, "running", i, got.in[i], want.in[i]);
    if (!got.in[i] || !wants_grad(c, i)) continue;
    assert_non_null(got.in[i]->grad);
    compare(c, dtype, "gradient", i, got.in[i]->grad, want.in[i]->grad);
  }
  drop(&got);
  drop(&want);
}

static void check_all(capl_dtype dtype)
{
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i], dtype);
}

static void kernels_agree_with_ref_in_f32(void **state)
{
  (void)state;
  check_all(CAPL_F32);
}

static void kernels_agree_with_ref_in_bf16(void **state)
{
  (void)state;
  check_all(CAPL_BF16);
}

/* ---- optimizers ---- */

static const struct {
  capl_op_id op;
  int groups;
  const char *attrs;
} steps[] = {
  {CAPL_OP_sgd_step, 3, "lr=0.1"},
  {CAPL_OP_sgd_step, 3, "lr=0.1 momentum=0.9 dampening=0.1 weight_decay=0.01 grad_scale=0.5"},
  {CAPL_OP_sgd_step, 3, "lr=0.1 momentum=0.9 nesterov=true first_step=true"},
  {CAPL_OP_adam_step, 4, "lr=0.01 step=3 weight_decay=0.1"},
  {CAPL_OP_adam_step, 4, "lr=0.01 step=1 weight_decay=0.1 decoupled=true grad_scale=0.25"},
  {CAPL_OP_amsgrad_step, 5, "lr=0.01 step=3 weight_decay=0.1 decoupled=true grad_scale=0.25"},
  {CAPL_OP_rmsprop_step, 5, "lr=0.01 weight_decay=0.1"},
  {CAPL_OP_rmsprop_step, 5, "lr=0.01 momentum=0.9 centered=true alpha=0.9"},
};

enum { TENSORS = 3, MAX_GROUPS = 5 };
static const input params[TENSORS] = {{DATA, S4(19, 3, 3, 3)}, {DATA, S2(301, 211)}, {DATA, S1(5)}};

/* v and square averages must be positive, and larger than the square of the mean of gradients. */
static void make_groups(capl_device *device, int groups, capl_tensor **t)
{
  for (int g = 0; g < groups; g++)
    for (int i = 0; i < TENSORS; i++) {
      bool square = (groups >= 4 && g == 3) || (groups == 5 && g == 2);
      t[g * TENSORS + i] = make(device, CAPL_F32, square ? RUNNING : DATA, params[i].ndim, params[i].size,
                                (uint32_t)(10 * g + i));
      if (groups == 5 && g == 4) OK(capl_tensor_fill(t[g * TENSORS + i], 0.125));
    }
}

static void optimizer_steps_agree_with_ref(void **state)
{
  (void)state;
  for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
    capl_tensor *got[TENSORS * MAX_GROUPS], *want[TENSORS * MAX_GROUPS];
    int n = TENSORS * steps[s].groups;
    make_groups(cpu, steps[s].groups, got);
    make_groups(ref, steps[s].groups, want);
    OK(capl_run(steps[s].op, got, n, steps[s].attrs, NULL));
    OK(capl_run(steps[s].op, want, n, steps[s].attrs, NULL));
    for (int i = 0; i < n; i++) {
      double d = distance(got[i], want[i]);
      if (!(d < 2e-6))
        fail_msg("%s (%s): tensor %d is off by %.3g", capl_op_get(steps[s].op)->name, steps[s].attrs, i, d);
      capl_tensor_unref(got[i]);
      capl_tensor_unref(want[i]);
    }
  }
}

/* Twelve decisions in a row, among them three overflows and three growths of the loss scale; a step after each. */
static void controlled_steps_agree_with_ref(void **state)
{
  (void)state;
  enum { CONTROL = 10, GROUPS = 4, IN = TENSORS * GROUPS + 1 };
  const int64_t size = CONTROL;
  const double begin[CONTROL] = {65536, 0, 0, 0, 1, 0, 0, 0, 0.1, 0.02};
  const double norms[] = {1e5, INFINITY, 3e4, 2e4, 1e5, NAN, 5, 7e6, 0, 3, INFINITY, 1};
  capl_tensor *t[2][IN], *norm;
  capl_device *devices[2] = {cpu, ref};
  for (int d = 0; d < 2; d++) {
    make_groups(devices[d], GROUPS, t[d]);
    OK(capl_tensor_from_doubles(devices[d], CAPL_F32, 1, &size, begin, &t[d][IN - 1]));
    for (size_t s = 0; s < sizeof norms / sizeof *norms; s++) {
      OK(capl_tensor_from_doubles(devices[d], CAPL_F32, 0, NULL, &norms[s], &norm));
      OK(capl_run(CAPL_OP_step_control, (capl_tensor *[]){t[d][IN - 1], norm}, 2,
                  "max_norm=0.5 scaling=true growth_interval=2 growth_factor=4 backoff_factor=0.25", NULL));
      OK(capl_run(CAPL_OP_adam_step, t[d], IN, "lr=9 step=9 group=1 behind=1 weight_decay=0.1 decoupled=true", NULL));
      capl_tensor_unref(norm);
    }
  }
  double now[CONTROL];
  OK(capl_tensor_to_doubles(t[0][IN - 1], now));
  assert_true(now[2] == 9 && now[3] == 3 && now[7] == 3); /* steps, skipped, growths */
  for (int i = 0; i < IN; i++) {
    double d = distance(t[0][i], t[1][i]);
    if (!(d < 2e-6)) fail_msg("tensor %d is off by %.3g", i, d);
    capl_tensor_unref(t[0][i]);
    capl_tensor_unref(t[1][i]);
  }
}

static void missing_gradients_skip_their_parameter(void **state)
{
  (void)state;
  capl_tensor *t[TENSORS * 3], *first = NULL;
  make_groups(cpu, 3, t);
  OK(capl_op_call(CAPL_OP_contiguous, &t[0], 1, NULL, &first));
  capl_tensor *grad = t[TENSORS];
  t[TENSORS] = NULL;
  OK(capl_run(CAPL_OP_sgd_step, t, TENSORS * 3, "lr=0.1 momentum=0.9", NULL));
  assert_true(distance(t[0], first) == 0);
  t[TENSORS] = grad;
  for (int i = 0; i < TENSORS * 3; i++) capl_tensor_unref(t[i]);
  capl_tensor_unref(first);
}

static void grad_norm_agrees_with_ref(void **state)
{
  (void)state;
  capl_tensor *got[TENSORS * 3], *want[TENSORS * 3], *a, *b;
  make_groups(cpu, 3, got);
  make_groups(ref, 3, want);
  OK(capl_run(CAPL_OP_grad_norm, got, TENSORS * 3, NULL, &a));
  OK(capl_run(CAPL_OP_grad_norm, want, TENSORS * 3, NULL, &b));
  assert_true(distance(a, b) < 1e-6);
  for (int i = 0; i < TENSORS * 3; i++) capl_tensor_unref(got[i]), capl_tensor_unref(want[i]);
  capl_tensor_unref(a);
  capl_tensor_unref(b);
}

/* ---- numerics ---- */

/* Mean 1000, deviation 1: the naive E[x^2] - E[x]^2 in f32 would lose the variance. */
static void a_large_mean_does_not_hurt_the_variance(void **state)
{
  (void)state;
  enum { N = 4, C = 16, H = 9, W = 9 };
  const int64_t size[4] = {N, C, H, W}, channels[1] = {C};
  capl_tensor *in[5] = {NULL}, *out[3], *want[3], *in_ref[5] = {NULL};
  capl_device *devices[2] = {cpu, ref};
  for (int d = 0; d < 2; d++) {
    capl_tensor **t = d ? in_ref : in;
    OK(capl_tensor_new(devices[d], CAPL_F32, 4, size, CAPL_AUTO, &t[0]));
    OK(capl_tensor_fill_normal(t[0], 1000, 1, 5, 0, 0, 0));
    for (int i = 1; i < 3; i++) t[i] = make(devices[d], CAPL_F32, FACTOR, 1, channels, (uint32_t)i);
    OK(capl_run(CAPL_OP_batch_norm, t, 5, "training=true", d ? want : out));
  }
  assert_true(distance(out[2], want[2]) < 1e-5);
  for (int i = 0; i < 3; i++) {
    capl_tensor_unref(out[i]), capl_tensor_unref(want[i]);
    capl_tensor_unref(in[i]), capl_tensor_unref(in_ref[i]);
  }
}

static void nan_stays_nan(void **state)
{
  (void)state;
  const int64_t size[2] = {2, 21};
  static const capl_op_id ops[] = {CAPL_OP_relu, CAPL_OP_exp, CAPL_OP_sigmoid, CAPL_OP_softmax, CAPL_OP_affine,
    CAPL_OP_log, CAPL_OP_tanh, CAPL_OP_erf, CAPL_OP_silu, CAPL_OP_gelu, CAPL_OP_softplus, CAPL_OP_leaky_relu,
    CAPL_OP_elu, CAPL_OP_hardsigmoid, CAPL_OP_hardswish, CAPL_OP_log_sigmoid, CAPL_OP_clamp};
  for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
    for (int low = 0; low < 2; low++) {
      double values[42] = {0};
      capl_tensor *x, *y;
      for (int i = 0; i < 42; i++) values[i] = 0.5; /* where all of them have a value */
      values[3] = NAN;
      OK(capl_tensor_from_doubles(cpu, low ? CAPL_BF16 : CAPL_F32, 2, size, values, &x));
      OK(capl_run(ops[k], &x, 1, NULL, &y));
      OK(capl_tensor_to_doubles(y, values));
      if (!isnan(values[3]) || isnan(values[30])) fail_msg("%s loses or spreads NaN", capl_op_get(ops[k])->name);
      capl_tensor_unref(x);
      capl_tensor_unref(y);
    }
}

/* ---- a small network, some steps ---- */

enum { N = 6, STEPS = 4, PARAMETERS = 12 };

/* conv 1->32, bn_act_pool, conv 32->32 (Winograd), bn_act, linear, relu, linear; then running statistics */
static const input network[PARAMETERS + 4] = {
  {SMALL, S4(32, 1, 3, 3)}, {SHIFT, S1(32)}, {FACTOR, S1(32)}, {SHIFT, S1(32)}, {SMALL, S4(32, 32, 3, 3)},
  {SHIFT, S1(32)}, {FACTOR, S1(32)},         {SHIFT, S1(32)}, {SMALL, S2(24, 1920)}, {SMALL, S1(24)},
  {SMALL, S2(5, 24)}, {SMALL, S1(5)}, {RUNNING, S1(32)},        {RUNNING, S1(32)}, {RUNNING, S1(32)}, {RUNNING, S1(32)},
};

/* One op whose first input is *x, which its first output replaces. */
static void layer(capl_tensor **x, capl_op_id op, const char *attrs, int n_more, capl_tensor *const *more)
{
  capl_tensor *in[MAX_IN] = {*x}, *out[CAPL_MAX_OUT] = {NULL};
  for (int i = 0; i < n_more; i++) in[1 + i] = more[i];
  OK(capl_run(op, in, 1 + n_more, attrs, out));
  capl_tensor_unref(*x);
  *x = out[0];
  for (int i = 1; i < capl_op_get(op)->n_out; i++) capl_tensor_unref(out[i]);
}

static capl_tensor *forward(capl_tensor *x, capl_tensor **p, capl_tensor *labels)
{
  capl_tensor *norm1[4] = {p[2], p[3], p[12], p[13]}, *norm2[4] = {p[6], p[7], p[14], p[15]};
  capl_tensor_ref(x);
  layer(&x, CAPL_OP_conv2d, "padding=1", 2, p);
  layer(&x, CAPL_OP_bn_act_pool, "training=true", 4, norm1);
  layer(&x, CAPL_OP_conv2d, "padding=1", 2, p + 4);
  layer(&x, CAPL_OP_bn_act, "training=true", 4, norm2);
  layer(&x, CAPL_OP_reshape, "size=6,-1", 0, NULL);
  layer(&x, CAPL_OP_linear, "", 2, p + 8);
  layer(&x, CAPL_OP_relu, "", 0, NULL);
  layer(&x, CAPL_OP_linear, "", 2, p + 10);
  layer(&x, CAPL_OP_cross_entropy, "", 1, &labels);
  return x;
}

static void adam(capl_tensor **p, capl_tensor **moments, int step)
{
  char attrs[64];
  capl_tensor *in[4 * PARAMETERS];
  for (int i = 0; i < PARAMETERS; i++) {
    in[i] = p[i];
    in[PARAMETERS + i] = p[i]->grad;
    in[2 * PARAMETERS + i] = moments[i];
    in[3 * PARAMETERS + i] = moments[PARAMETERS + i];
  }
  snprintf(attrs, sizeof attrs, "lr=0.002 step=%d", step);
  OK(capl_run(CAPL_OP_adam_step, in, 4 * PARAMETERS, attrs, NULL));
  for (int i = 0; i < PARAMETERS; i++) {
    capl_tensor_unref(p[i]->grad);
    p[i]->grad = NULL;
  }
}

static void train(capl_device *device, capl_dtype dtype, double *losses)
{
  const int64_t image[4] = {N, 1, 13, 20}, rows[1] = {N};
  capl_tensor *p[PARAMETERS + 4], *moments[2 * PARAMETERS];
  capl_tensor *x = make(device, CAPL_F32, DATA, 4, image, 50), *labels = make(device, CAPL_I32, LABEL, 1, rows, 51);
  for (int i = 0; i < PARAMETERS + 4; i++) {
    const input *in = &network[i];
    p[i] = make(device, CAPL_F32, in->kind, in->ndim, in->size, (uint32_t)(60 + i));
    p[i]->requires_grad = i < PARAMETERS;
    for (int k = 0; i < PARAMETERS && k < 2; k++) {
      OK(capl_tensor_new_like(p[i], &moments[k * PARAMETERS + i]));
      OK(capl_tensor_fill(moments[k * PARAMETERS + i], 0));
    }
  }
  for (int step = 0; step < STEPS; step++) {
    capl_autocast_set(dtype);
    capl_tensor *loss = forward(x, p, labels);
    capl_autocast_set(CAPL_F32);
    OK(capl_tensor_item(loss, &losses[step]));
    OK(capl_backward(loss, 1));
    capl_tensor_unref(loss);
    adam(p, moments, step + 1);
  }
  for (int i = 0; i < PARAMETERS + 4; i++) capl_tensor_unref(p[i]);
  for (int i = 0; i < 2 * PARAMETERS; i++) capl_tensor_unref(moments[i]);
  capl_tensor_unref(x);
  capl_tensor_unref(labels);
}

static void a_network_trains_as_on_ref(void **state)
{
  (void)state;
  double want[STEPS], f32[STEPS], low[STEPS];
  train(ref, CAPL_F32, want);
  train(cpu, CAPL_F32, f32);
  train(cpu, CAPL_BF16, low);
  if (!(want[STEPS - 1] < 0.5 * want[0])) fail_msg("ref learns nothing: %.4f -> %.4f", want[0], want[STEPS - 1]);
  for (int i = 0; i < STEPS; i++) {
    if (!(fabs(f32[i] - want[i]) < 2e-4 * want[0]))
      fail_msg("f32, step %d: loss %.6f, ref %.6f", i + 1, f32[i], want[i]);
    if (!(fabs(low[i] - want[i]) < 5e-2 * want[0]))
      fail_msg("bf16, step %d: loss %.6f, ref %.6f", i + 1, low[i], want[i]);
  }
}

/* Not even the sums of the parts fit; or they do (37 KB like the gradient itself), but what oneDNN wants
** for each part may not, and then both threads fail. */
static void scratch_beyond_the_limit_is_an_error(void **state)
{
  (void)state;
  static const size_t room[] = {48 << 10, 96 << 10};
  const int64_t image[4] = {8, 32, 30, 40};
  capl_tensor *in[2] = {make(cpu, CAPL_F32, DATA, 4, image, 1), make(cpu, CAPL_F32, DATA, 4, image, 2)}, *out[2];
  capl_memory_stats stats;
  for (int k = 0; k < 2; k++) {
    capl_memory_stats_get(cpu, &stats);
    capl_memory_limit_set(cpu, stats.live + room[k]);
    capl_status status = capl_run(CAPL_OP_conv2d_grad_w, in, 2, "padding=1 kernel=3", out);
    capl_memory_limit_set(cpu, 0);
    if (k == 0 || status != CAPL_OK) {
      assert_int_equal(status, CAPL_ENOMEM);
      assert_non_null(strstr(capl_error_last()->message, "out of memory"));
      OK(capl_run(CAPL_OP_conv2d_grad_w, in, 2, "padding=1 kernel=3", out)); /* the device goes on */
    }
    for (int i = 0; i < 2; i++) capl_tensor_unref(out[i]);
  }
  for (int i = 0; i < 2; i++) capl_tensor_unref(in[i]);
}

/* PixelUnshuffle's copy: blocks of few elements change places, whatever their bytes. */
static void short_runs_are_copied_in_order(void **state)
{
  (void)state;
  for (int64_t run = 1; run <= 17; run++)
    for (int low = 0; low < 2; low++) {
      const int64_t size[5] = {2, 5, 4, 9, run};
      capl_device *devices[2] = {cpu, ref};
      capl_tensor *x[2], *view, *copy[2];
      for (int d = 0; d < 2; d++) {
        x[d] = make(devices[d], low ? CAPL_BF16 : CAPL_F32, DATA, 5, size, 3);
        OK(capl_run(CAPL_OP_permute, &x[d], 1, "dims=0,1,3,2,4", &view));
        OK(capl_run(CAPL_OP_contiguous, &view, 1, NULL, &copy[d]));
        capl_tensor_unref(view);
      }
      if (distance(copy[0], copy[1]) != 0) fail_msg("runs of %d elements are copied to other places", (int)run);
      for (int d = 0; d < 2; d++) capl_tensor_unref(x[d]), capl_tensor_unref(copy[d]);
    }
}

/* Matrices that are no whole tiles, inside larger ones. */
static void transposed_copies_are_exact(void **state)
{
  (void)state;
  static const int64_t sizes[] = {1, 3, 4, 7, 32, 37, 140};
  enum { KINDS = sizeof sizes / sizeof *sizes };
  for (int k = 0; k < KINDS * KINDS * 2; k++) {
    const int64_t size[3] = {2, sizes[k / 2 % KINDS], sizes[k / 2 / KINDS] + 1};
    capl_device *devices[2] = {cpu, ref};
    capl_tensor *x[2], *part, *view, *copy[2];
    for (int d = 0; d < 2; d++) {
      char attrs[64];
      x[d] = make(devices[d], k % 2 ? CAPL_BF16 : CAPL_F32, DATA, 3, size, 4);
      snprintf(attrs, sizeof attrs, "dim=2 start=1 length=%d", (int)size[2] - 1);
      OK(capl_run(CAPL_OP_narrow, &x[d], 1, attrs, &part));
      OK(capl_run(CAPL_OP_permute, &part, 1, "dims=0,2,1", &view));
      OK(capl_run(CAPL_OP_contiguous, &view, 1, NULL, &copy[d]));
      capl_tensor_unref(part), capl_tensor_unref(view);
    }
    if (distance(copy[0], copy[1]) != 0) fail_msg("%d x %d are copied to other places", (int)size[1], (int)size[2] - 1);
    for (int d = 0; d < 2; d++) capl_tensor_unref(x[d]), capl_tensor_unref(copy[d]);
  }
}

/* ---- the same again ---- */

static void results_repeat_bit_for_bit(void **state)
{
  (void)state;
  static const op_case c = {CAPL_OP_conv2d, "padding=1",
                            {{DATA, S4(9, 1, 31, 47)}, {DATA, S4(32, 1, 3, 3)}, {SHIFT, S1(32)}}};
  run a = run_case(&c, cpu, CAPL_F32), b = run_case(&c, cpu, CAPL_F32);
  for (int i = 0; i < 3; i++) {
    if (!a.in[i]->grad) continue;
    assert_memory_equal(capl_tensor_data(a.in[i]->grad), capl_tensor_data(b.in[i]->grad),
                        capl_tensor_bytes(a.in[i]->grad));
  }
  drop(&a);
  drop(&b);
}

/* What is predicted of an image must not depend on those beside it. */
static void one_image_is_computed_as_among_others(void **state)
{
  (void)state;
  const int64_t weight[2][4] = {{8, 1, 3, 3}, {16, 3, 5, 5}}, whole[2][4] = {{3, 1, 19, 33}, {3, 3, 19, 33}};
  for (int c = 0; c < 2; c++)
    for (int low = 0; low < 2; low++) {
      capl_dtype dtype = low ? CAPL_BF16 : CAPL_F32;
      capl_tensor *in[2] = {make(cpu, dtype, DATA, 4, whole[c], 1), make(cpu, dtype, DATA, 4, weight[c], 2)};
      capl_tensor *all, *last[2] = {NULL, in[1]}, *alone, *part;
      OK(capl_run(CAPL_OP_conv2d, in, 2, "padding=1", &all));
      OK(capl_run(CAPL_OP_narrow, in, 1, "dim=0 start=2 length=1", &last[0]));
      OK(capl_run(CAPL_OP_conv2d, last, 2, "padding=1", &alone));
      OK(capl_run(CAPL_OP_narrow, &all, 1, "dim=0 start=2 length=1", &part));
      assert_memory_equal(capl_tensor_data(part), capl_tensor_data(alone), capl_tensor_bytes(alone));
      capl_tensor *made[] = {in[0], in[1], all, last[0], alone, part};
      for (int i = 0; i < 6; i++) capl_tensor_unref(made[i]);
    }
}

static int open_devices(void **state)
{
  (void)state;
  if (capl_device_open("ref", &ref) != CAPL_OK || capl_device_open("cpu", &cpu) != CAPL_OK) {
    print_error("%s\n", capl_error_last()->message);
    return -1;
  }
  print_message("%s\n", cpu->backend->describe());
  return 0;
}

/* NAME_grad runs through the gradients of NAME. */
static bool is_gradient_of(const char *name, const char *op)
{
  size_t n = strlen(op);
  return strncmp(name, op, n) == 0 && strcmp(name + n, "_grad") == 0;
}

/* A row in every table that these cases never reach would be untested. */
static void every_kernel_has_a_case(void **state)
{
  (void)state;
  static const capl_op_id elsewhere[] = {
    CAPL_OP_sgd_step, CAPL_OP_adam_step, CAPL_OP_amsgrad_step, CAPL_OP_rmsprop_step, CAPL_OP_grad_norm,
    CAPL_OP_step_control, CAPL_OP_cast,
    CAPL_OP_muon_step, /* matrices only: tests/op/optim.lua, tests/lua/muon_spec.lua */
    /* through the gradients of their op */
    CAPL_OP_conv2d_grad_x, CAPL_OP_conv2d_grad_w, CAPL_OP_linear_grad_x, CAPL_OP_linear_grad_w,
    CAPL_OP_batch_norm_grad, CAPL_OP_bn_act_grad, CAPL_OP_bn_act_pool_grad, CAPL_OP_max_pool2d_grad,
    CAPL_OP_avg_pool2d_grad, CAPL_OP_adaptive_avg_pool2d_grad, CAPL_OP_relu_grad, CAPL_OP_softmax_grad,
    CAPL_OP_layer_norm_grad, CAPL_OP_rms_norm_grad, CAPL_OP_group_norm_grad,
    CAPL_OP_scaled_dot_product_attention_grad,
    CAPL_OP_log_softmax_grad, CAPL_OP_cross_entropy_grad, CAPL_OP_bce_with_logits_grad,
    /* inputs that hang together: tests/lua/ctc_spec.lua */
    CAPL_OP_ctc_loss, CAPL_OP_ctc_loss_grad,
    /* states and lengths: tests/op/lstm.lua, tests/op/gru.lua */
    CAPL_OP_lstm, CAPL_OP_lstm_grad, CAPL_OP_gru, CAPL_OP_gru_grad,
  };
  for (int op = 0; op < CAPL_OP_COUNT; op++) {
    bool found = !capl_device_has(cpu, (capl_op_id)op);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) 
      found |= (int)cases[i].op == op
          || is_gradient_of(capl_op_get((capl_op_id)op)->name, capl_op_get(cases[i].op)->name);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) found |= (int)elsewhere[i] == op;
    if (!found) fail_msg("%s has a cpu kernel and no case", capl_op_get((capl_op_id)op)->name);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_kernel_has_a_case),
    cmocka_unit_test(kernels_agree_with_ref_in_f32),
    cmocka_unit_test(kernels_agree_with_ref_in_bf16),
    cmocka_unit_test(optimizer_steps_agree_with_ref),
    cmocka_unit_test(controlled_steps_agree_with_ref),
    cmocka_unit_test(missing_gradients_skip_their_parameter),
    cmocka_unit_test(grad_norm_agrees_with_ref),
    cmocka_unit_test(a_large_mean_does_not_hurt_the_variance),
    cmocka_unit_test(nan_stays_nan),
    cmocka_unit_test(a_network_trains_as_on_ref),
    cmocka_unit_test(scratch_beyond_the_limit_is_an_error),
    cmocka_unit_test(short_runs_are_copied_in_order),
    cmocka_unit_test(transposed_copies_are_exact),
    cmocka_unit_test(results_repeat_bit_for_bit),
    cmocka_unit_test(one_image_is_computed_as_among_others),
  };
  /* What bf16 rounds to the other side of 0 has another gradient behind relu: unit/cpu_winograd tests those. */
  setenv("CAPL_ASSUME", "winograd=never", 0);
  return cmocka_run_group_tests_name("cpu kernels", tests, open_devices, NULL);
}
