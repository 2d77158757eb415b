/* pool.c -- max, average and adaptive pooling and their gradients.
**
** Own kernels for all: pooling moves bytes and does next to nothing with them, and cuDNN's indices are of another type.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/pixel_grid.h"
#include "backend/cuda/kernels/pool.h"
#include "ops/attrs.h"
#include "ops/window.h"

/* Windows of at least so many values get a block each. */
enum { LARGE_AREA = 64 };

/* x: what is pooled (or dx), y: the result (or dy); attr == NULL: adaptive. */
static pool_axis axis_of(const capl_tensor *x, const capl_tensor *y, const capl_attr *attr, int axis)
{
  pool_axis a = {.in = (int)x->size[2 + axis], .out = (int)y->size[2 + axis], .dilation = 1};
  if (!attr) return a;
  a.kernel = (int)attr[POOL_KERNEL].v[axis];
  a.stride = (int)window_stride(&attr[POOL_STRIDE], &attr[POOL_KERNEL], axis);
  a.padding = (int)attr[POOL_PADDING].v[axis];
  return a;
}

static pool_shape shape_of(const capl_tensor *x, const capl_tensor *y, const capl_attr *attr)
{
  return (pool_shape){axis_of(x, y, attr, 0), axis_of(x, y, attr, 1), false};
}

static pool_shape dilated(pool_shape s, const capl_attr *attr)
{
  if (!attr) return s;
  s.h.dilation = (int)attr[MAX_POOL_DILATION].v[0];
  s.w.dilation = (int)attr[MAX_POOL_DILATION].v[1];
  return s;
}

static int64_t images_pixels(const capl_tensor *t)
{
  return t->size[0] * t->size[2] * t->size[3];
}

/* ---- forward ---- */

/* Values of the largest window. */
static int64_t area_of(const pool_shape *s)
{
  int64_t h = s->h.kernel ? s->h.kernel : s->h.in / s->h.out, w = s->w.kernel ? s->w.kernel : s->w.in / s->w.out;
  return h * w;
}

/* kernel: for small windows; large: its sibling. index is NULL where there is none. */
static capl_status forward(const capl_call *call, pool_shape shape, int kernel, int large, const capl_tensor *index)
{
  const capl_tensor *x = call->in[0];
  capl_tensor *y = call->out[0];
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  pool_args args = {.s = shape, .x = capl_tensor_data(x), .y = capl_tensor_data(y),
                    .index = index ? capl_tensor_data(index) : NULL};
  bool wide = cu_is_wide(x, args.y) && (!index || cu_starts_wide(args.index, index->dtype));
  args.p = cu_pixel_grid(images_pixels(y), y, wide, CU_PIXEL_BLOCKS);
  if (area_of(&shape) < LARGE_AREA) return cu_launch_pixels(cu_pool_table, kernel, x->dtype, wide, &args.p, &args);
  args.p.chunk = 1;
  return cu_launch_pixels(cu_pool_table, large, x->dtype, wide, &args.p, &args);
}

static capl_status max_forward(const capl_call *call, const capl_attr *attr)
{
  pool_shape shape = dilated(shape_of(call->in[0], call->out[0], attr), attr);
  return forward(call, shape, POOL_MAX, POOL_MAX_LARGE, call->out[1]);
}

static capl_status average_forward(const capl_call *call, const capl_attr *attr)
{
  pool_shape shape = shape_of(call->in[0], call->out[0], attr);
  shape.count_pad = attr && attr[AVG_POOL_COUNT_PAD].i;
  return forward(call, shape, POOL_AVERAGE, POOL_AVERAGE_LARGE, NULL);
}

static capl_status cu_max_pool2d(const capl_call *call) { return max_forward(call, call->attr); }

static capl_status cu_adaptive_max_pool2d(const capl_call *call) { return max_forward(call, NULL); }

static capl_status cu_avg_pool2d(const capl_call *call) { return average_forward(call, call->attr); }

static capl_status cu_adaptive_avg_pool2d(const capl_call *call) { return average_forward(call, NULL); }

/* ---- gradients ---- */

/* index is NULL for averages. */
static capl_status backward(const capl_call *call, pool_shape shape, int kernel, const capl_tensor *index)
{
  const capl_tensor *dy = call->in[0];
  capl_tensor *dx = call->out[0];
  if (capl_tensor_numel(dx) == 0) return CAPL_OK;
  pool_grad_args args = {.s = shape, .dy = capl_tensor_data(dy), .index = index ? capl_tensor_data(index) : NULL,
                         .dx = capl_tensor_data(dx)};
  bool wide = cu_is_wide(dy, args.dx) && (!index || cu_starts_wide(args.index, index->dtype));
  args.p = cu_pixel_grid(images_pixels(dx), dx, wide, CU_PIXEL_BLOCKS);
  return cu_launch_pixels(cu_pool_table, kernel, dy->dtype, wide, &args.p, &args);
}

static capl_status max_backward(const capl_call *call, const capl_attr *attr)
{
  return backward(call, dilated(shape_of(call->out[0], call->in[0], attr), attr), POOL_MAX_GRAD, call->in[1]);
}

static capl_status average_backward(const capl_call *call, const capl_attr *attr)
{
  pool_shape shape = shape_of(call->out[0], call->in[0], attr);
  shape.count_pad = attr && attr[AVG_POOL_COUNT_PAD].i;
  return backward(call, shape, POOL_AVERAGE_GRAD, NULL);
}

static capl_status cu_max_pool2d_grad(const capl_call *call) { return max_backward(call, call->attr); }

static capl_status cu_adaptive_max_pool2d_grad(const capl_call *call) { return max_backward(call, NULL); }

static capl_status cu_avg_pool2d_grad(const capl_call *call) { return average_backward(call, call->attr); }

static capl_status cu_adaptive_avg_pool2d_grad(const capl_call *call) { return average_backward(call, NULL); }

/* ---- rows ---- */

/* Kernels count the pixels of one image in 32 bits; images beyond that do not fit into a GPU. */
static bool supports_image(const capl_call *call)
{
  const capl_tensor *t = call->in[0];
  const int64_t longest = (int64_t)1 << 30;
  return t->size[2] <= longest && t->size[3] <= longest && t->size[2] * t->size[3] <= longest;
}

/* dx may be the larger image. */
static bool supports_sized(const capl_call *call, int size_attr)
{
  const int64_t *size = call->attr[size_attr].v, longest = (int64_t)1 << 30;
  return supports_image(call) && size[0] * size[1] <= longest;
}

static bool supports_max_grad(const capl_call *call) { return supports_sized(call, MAX_POOL_SIZE); }

static bool supports_average_grad(const capl_call *call) { return supports_sized(call, AVG_POOL_SIZE); }

/* The output's size of a forward op, the input's of a gradient. */
static bool supports_adaptive(const capl_call *call) { return supports_sized(call, ADAPTIVE_SIZE); }

const capl_kernel cu_pool_kernels[] = {
  {CAPL_OP_max_pool2d, cu_max_pool2d, supports_image, CU_REAL},
  {CAPL_OP_max_pool2d_grad, cu_max_pool2d_grad, supports_max_grad, CU_REAL},
  {CAPL_OP_avg_pool2d, cu_avg_pool2d, supports_image, CU_REAL},
  {CAPL_OP_avg_pool2d_grad, cu_avg_pool2d_grad, supports_average_grad, CU_REAL},
  {CAPL_OP_adaptive_avg_pool2d, cu_adaptive_avg_pool2d, supports_adaptive, CU_REAL},
  {CAPL_OP_adaptive_avg_pool2d_grad, cu_adaptive_avg_pool2d_grad, supports_adaptive, CU_REAL},
  {CAPL_OP_adaptive_max_pool2d, cu_adaptive_max_pool2d, supports_adaptive, CU_REAL},
  {CAPL_OP_adaptive_max_pool2d_grad, cu_adaptive_max_pool2d_grad, supports_adaptive, CU_REAL},
  {0},
};
