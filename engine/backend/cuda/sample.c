/* sample.c -- interpolate, grid_sample and their gradients.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/sample.h"

#include <string.h>

#include "backend/cuda/pixel_grid.h"
#include "backend/cuda/fixed.h"
#include "backend/cuda/kernels/sample.h"

/* ---- interpolate ----------------------------------------------------------------------------- */

static sample_line line_of(const capl_attr *attr, int axis, const capl_tensor *x, const capl_tensor *y)
{
  sample_axis a = sample_axis_for(attr, axis, x, y);
  return (sample_line){(int)a.in, (int)a.out, (float)a.ratio, a.bilinear, a.align};
}

/* x, y: the image and the result of interpolate, or dx and dy. */
static capl_status resample(const capl_call *call, int kernel, const capl_tensor *x, const capl_tensor *y)
{
  const capl_tensor *from = call->in[0];
  capl_tensor *to = call->out[0];
  interpolate_args a = {.h = line_of(call->attr, 0, x, y), .w = line_of(call->attr, 1, x, y),
                        .from = capl_tensor_data(from), .to = capl_tensor_data(to)};
  if (capl_tensor_numel(to) == 0) return CAPL_OK;
  bool wide = cu_is_wide(from, a.to);
  a.p = cu_pixel_grid(to->size[0] * to->size[2] * to->size[3], to, wide, CU_PIXEL_BLOCKS);
  return cu_launch_pixels(cu_sample_table, kernel, from->dtype, wide, &a.p, &a);
}

static capl_status cu_interpolate(const capl_call *call)
{
  return resample(call, INTERPOLATE, call->in[0], call->out[0]);
}

static capl_status cu_interpolate_grad(const capl_call *call)
{
  return resample(call, INTERPOLATE_GRAD, call->out[0], call->in[0]);
}

/* ---- grid_sample ----------------------------------------------------------------------------- */

static grid_shape shape_of(const capl_call *call, const capl_tensor *x, const capl_tensor *grid)
{
  const capl_attr *attr = call->attr;
  grid_shape s = {.N = x->size[0], .C = x->size[1], .H = x->size[2], .W = x->size[3], .h = grid->size[1],
                  .w = grid->size[2], .x = capl_tensor_data(x), .grid = capl_tensor_data(grid),
                  .nearest = attr[GRID_MODE].i == SAMPLE_NEAREST, .align = attr[GRID_ALIGN].i,
                  .padding = (int)attr[GRID_PADDING].i};
  memcpy(s.grid_stride, grid->stride, sizeof s.grid_stride);
  return s;
}

static capl_status launch(int kernel, capl_dtype dtype, int64_t threads, const void *args)
{
  return cu_launch(cu_sample_table[kernel + cu_type_of(dtype)], cu_blocks(threads, GRID_THREADS), GRID_THREADS, 0,
                   args);
}

static capl_status cu_grid_sample(const capl_call *call)
{
  capl_tensor *y = call->out[0];
  grid_args a = {shape_of(call, call->in[0], call->in[1]), capl_tensor_data(y)};
  if (capl_tensor_numel(y) == 0) return CAPL_OK;
  return launch(GRID_SAMPLE, y->dtype, capl_tensor_numel(y), &a);
}

/* Every output pixel may read the same pixel of x, with weights that add up to 1 at most. */
static capl_status sum_dx(const capl_call *call, grid_grad_args *a)
{
  const capl_tensor *dy = call->in[0];
  capl_tensor *dx = call->out[0];
  if (capl_tensor_numel(dx) == 0) return CAPL_OK;
  CAPL_TRY(fixed_open(dx, dy, 2 * a->s.h * a->s.w, &a->dx));
  capl_status status = capl_tensor_numel(dy) > 0 ? launch(GRID_DX, dy->dtype, capl_tensor_numel(dy), a) : CAPL_OK;
  return fixed_close(status, &a->dx, dx, NULL);
}

static capl_status cu_grid_sample_grad(const capl_call *call)
{
  capl_tensor *dgrid = call->out[1];
  grid_grad_args a = {.s = shape_of(call, call->in[1], call->in[2]), .dy = capl_tensor_data(call->in[0]),
                      .dgrid = capl_tensor_data(dgrid)};
  memcpy(a.dgrid_stride, dgrid->stride, sizeof a.dgrid_stride);
  CAPL_TRY(sum_dx(call, &a));
  int64_t places = a.s.N * a.s.h * a.s.w;
  return places > 0 ? launch(GRID_DGRID, dgrid->dtype, places * 32, &a) : CAPL_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Kernels count the pixels of one axis in 32 bits, and those of interpolate in float, exact up to 2^24. */
static bool supports_image(const capl_call *call)
{
  const capl_tensor *t = call->in[0];
  const int64_t longest = 1 << 24;
  return t->size[2] <= longest && t->size[3] <= longest;
}

const capl_kernel cu_sample_kernels[] = {
  {CAPL_OP_interpolate, cu_interpolate, supports_image, CU_REAL},
  {CAPL_OP_interpolate_grad, cu_interpolate_grad, supports_image, CU_REAL},
  {CAPL_OP_grid_sample, cu_grid_sample, supports_image, CU_REAL},
  {CAPL_OP_grid_sample_grad, cu_grid_sample_grad, supports_image, CU_REAL},
  {0},
};
