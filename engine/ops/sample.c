/* sample.c -- descriptors of interpolate and grid_sample: images read between their pixels.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/sample.h"

#include <inttypes.h>
#include <string.h>

#include "ops/rules.h"
#include "ops/window.h"

enum { SIZE_MAX_PX = 1 << 20, TEXT = 96 };

/* ---- interpolate ----------------------------------------------------------------------------- */

/* Output size along one axis: as given, or floor(in * scale). */
static capl_status output_size(const capl_call *call, int axis, int64_t in, int64_t *out)
{
  int64_t size = call->attr[INTERPOLATE_SIZE].v[axis];
  double scale = call->attr[INTERPOLATE_SCALE_H + axis].f, scaled = floor((double)in * scale);
  if (size > 0 || (scale > 0 && scaled >= 1 && scaled <= SIZE_MAX_PX)) {
    *out = size > 0 ? size : (int64_t)scaled;
    return CAPL_OK;
  }
  const char *name = axis ? "width" : "height";
  if (scale > 0)
    return CAPL_FAIL(CAPL_EVALUE, "scale %g makes %g px of a %s of %" PRId64 " px; 1 to %d are possible", scale, scaled,
                     name, in, SIZE_MAX_PX);
  CAPL_FAIL(CAPL_EVALUE, "neither size nor a scale says what the %s becomes", name);
  capl_error_hint("give size = {height, width}, or scale_h and scale_w");
  return CAPL_EVALUE;
}

static capl_status need_mode(const capl_call *call)
{
  if (!call->attr[INTERPOLATE_ALIGN].i || call->attr[INTERPOLATE_MODE].i == SAMPLE_BILINEAR) return CAPL_OK;
  CAPL_FAIL(CAPL_EVALUE, "align_corners is about mode bilinear, mode is nearest");
  capl_error_hint("leave align_corners out, or use mode = \"bilinear\"");
  return CAPL_EVALUE;
}

static capl_status need_pixels(const capl_tensor *t, const char *name)
{
  CAPL_TRY(window_need_image(t, name));
  if (t->size[2] > 0 && t->size[3] > 0) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE, "%s is %" PRId64 "x%" PRId64 ", there are no pixels to read", name, t->size[2],
                   t->size[3]);
}

static capl_status interpolate_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *x = call->in[0];
  CAPL_TRY(window_need_attrs(call));
  CAPL_TRY(need_mode(call));
  CAPL_TRY(need_pixels(x, "x"));
  spec_set(out, x->dtype, 4, x->size);
  for (int axis = 0; axis < 2; axis++) CAPL_TRY(output_size(call, axis, x->size[2 + axis], &out->size[2 + axis]));
  return CAPL_OK;
}

static capl_status interpolate_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  const int64_t *size = node->in[0]->size;
  capl_attr attr[CAPL_MAX_ATTR];
  memcpy(attr, node->attr, sizeof attr);
  attr[INTERPOLATE_SIZE] = CAPL_A_INTS2(size[2], size[3]);
  return GRAD_CALL(CAPL_OP_interpolate_grad, attr, &dx[0], dy[0]);
}

static capl_status interpolate_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *dy = call->in[0];
  const int64_t *size = call->attr[INTERPOLATE_SIZE].v;
  CAPL_TRY(window_need_attrs(call));
  CAPL_TRY(need_mode(call));
  CAPL_TRY(need_pixels(dy, "dy"));
  if (size[0] < 1 || size[1] < 1)
    return CAPL_FAIL(CAPL_EVALUE, "size is %" PRId64 "x%" PRId64 ", x has at least one pixel", size[0], size[1]);
  spec_set(out, dy->dtype, 4, dy->size);
  memcpy(out->size + 2, size, 2 * sizeof *size);
  return CAPL_OK;
}


const capl_op capl_op_interpolate = {
  NAME_AND_ATTRS(interpolate),
  .ins = "x",
  OUTS(y),
  .layout = CAPL_LAYOUT_IMAGE,
  .shape = interpolate_shape,
  .grad = interpolate_rule,
  .doc = "Images made larger or smaller.\n"
         "x (N,C,H,W) floating -> y (N,C,h,w) of that dtype. size: {h, w} in px; where it is 0, floor(H * scale_h) "
         "and\n"
         "floor(W * scale_w). mode: nearest pixel, or a mean of the 2x2 nearest ones weighted by distance (which "
         "skips pixels\n"
         "when an image becomes less than half as large: use avg_pool2d there).\n"
         "align_corners (bilinear): corner pixels' centres stay corners; without it the images' edges meet.\n"
         "A scale that is given is also what positions are computed with, as PyTorch does unless "
         "recompute_scale_factor is true.\n"
         "Errors: shape if x is not 4-d or has no pixels; value if neither size nor scale is given.",
};

const capl_op capl_op_interpolate_grad = {
  NAME_AND_ATTRS(interpolate_grad),
  .ins = "dy",
  OUTS(dx),
  .layout = CAPL_LAYOUT_IMAGE,
  .shape = interpolate_grad_shape,
  .doc = "The gradient of interpolate: each pixel of dx sums what read it, in one order. Not differentiable.\n"
         "dy (N,C,h,w) floating -> dx (N,C,H,W) of that dtype. size: {H, W} of x; the rest as in interpolate.",
};

/* ---- grid_sample ----------------------------------------------------------------------------- */

static capl_status need_grid(const capl_tensor *x, const capl_tensor *grid)
{
  char left[TEXT], right[TEXT];
  CAPL_TRY(need_pixels(x, "x"));
  CAPL_TRY(need_same_dtype(grid, "grid", x, "x"));
  if (grid->ndim == 4 && grid->size[3] == 2 && grid->size[0] == x->size[0]) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESHAPE,
                   "grid is %s, x is %s: grid must be (%" PRId64 ",h,w,2), a pair x,y for each pixel of the result",
                   capl_shape_describe(grid->ndim, grid->size, left, sizeof left),
                   capl_shape_describe(x->ndim, x->size, right, sizeof right), x->size[0]);
}

static void sampled_size(const capl_tensor *x, const capl_tensor *grid, int64_t *size)
{
  memcpy(size, x->size, 2 * sizeof *size);
  memcpy(size + 2, grid->size + 1, 2 * sizeof *size);
}

static capl_status grid_sample_shape(const capl_call *call, capl_out_spec *out)
{
  int64_t size[4];
  CAPL_TRY(need_grid(call->in[0], call->in[1]));
  sampled_size(call->in[0], call->in[1], size);
  spec_set(out, call->in[0]->dtype, 4, size);
  return CAPL_OK;
}

static capl_status grid_sample_rule(const capl_node *node, capl_tensor *const *dy, capl_tensor **dx)
{
  capl_tensor *both[2];
  CAPL_TRY(GRAD_CALL(CAPL_OP_grid_sample_grad, node->attr, both, dy[0], node->in[0], node->in[1]));
  for (int i = 0; i < 2; i++) {
    if (node->needs[i]) dx[i] = both[i];
    else capl_tensor_unref(both[i]);
  }
  return CAPL_OK;
}

static capl_status grid_sample_grad_shape(const capl_call *call, capl_out_spec *out)
{
  const capl_tensor *dy = call->in[0], *x = call->in[1], *grid = call->in[2];
  int64_t size[4];
  CAPL_TRY(need_grid(x, grid));
  sampled_size(x, grid, size);
  CAPL_TRY(need_same_dtype(dy, "dy", x, "x"));
  CAPL_TRY(window_need_size(dy, "dy", 4, size, "x and grid give a result of"));
  spec_set(&out[0], x->dtype, 4, x->size);
  spec_set(&out[1], grid->dtype, 4, grid->size);
  out[1].format = CAPL_ROW;
  return CAPL_OK;
}


const capl_op capl_op_grid_sample = {
  NAME_AND_ATTRS(grid_sample),
  .ins = "x, grid",
  OUTS(y),
  .amp = CAPL_AMP_WIDEST,
  .layout = CAPL_LAYOUT_IMAGE,
  .save_in = 3u,
  .shape = grid_sample_shape,
  .grad = grid_sample_rule,
  .doc = "Images read at the places that grid names: warps, crops, spatial transformers.\n"
         "x (N,C,H,W) floating, grid (N,h,w,2) of x's dtype -> y (N,C,h,w). grid[n][i][j] is {x, y} of that pixel of "
         "y in the\n"
         "image n: -1 is its left or upper end, 1 its right or lower one; ends are edges, or the centres of corner "
         "pixels with\n"
         "align_corners. mode: the nearest pixel (halves to the even one), or the mean of the 2x2 around, by "
         "distance.\n"
         "padding_mode, outside x: zeros; border = the pixel at the border; reflection = mirrored at the ends.\n"
         "Gradients for x and grid (none for grid with nearest).\n"
         "Errors: shape, if grid does not fit x; dtype, if x is no float.",
};

const capl_op capl_op_grid_sample_grad = {
  NAME_AND_ATTRS(grid_sample_grad),
  .ins = "dy, x, grid",
  OUTS(dx, dgrid),
  .layout = CAPL_LAYOUT_IMAGE,
  .shape = grid_sample_grad_shape,
  .doc = "The gradients of grid_sample. Not differentiable.\n"
         "dy (N,C,h,w), x (N,C,H,W), grid (N,h,w,2) of one dtype -> dx like x, dgrid like grid. The order of sums is "
         "fixed: the\n"
         "same bits each time.",
};
