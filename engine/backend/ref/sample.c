/* sample.c -- ref kernels of interpolate, grid_sample and their gradients.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/sample.h"

#include <string.h>

#include "backend/ref/ref.h"

/* Sums of a whole tensor in double, by element offset; dx is dense. */
static capl_status sums_new(const capl_tensor *dx, double **out)
{
  void *memory;
  size_t bytes = (size_t)capl_tensor_numel(dx) * sizeof(double);
  CAPL_TRY(capl_scratch_get(dx->device, bytes, &memory));
  memset(memory, 0, bytes);
  *out = memory;
  return CAPL_OK;
}

static void sums_store(capl_tensor *dx, double *sums)
{
  for (int64_t i = 0; i < capl_tensor_numel(dx); i++) ref_set(dx, i, sums[i]);
  capl_scratch_put(dx->device, sums);
}

/* ---- interpolate ---- */

/* The four pixels of x that output (h,w) reads, and their weights. */
typedef struct {
  int64_t h[4], w[4];
  double weight[4];
} corners;

static corners corners_of(const sample_axis *axes, int64_t h, int64_t w)
{
  sample_pair y = sample_pair_of(&axes[0], h), x = sample_pair_of(&axes[1], w);
  return (corners){{y.first, y.first, y.second, y.second},
                   {x.first, x.second, x.first, x.second},
                   {(1 - y.share) * (1 - x.share), (1 - y.share) * x.share, y.share * (1 - x.share),
                    y.share * x.share}};
}

static capl_status ref_interpolate(const capl_call *call)
{
  const capl_tensor *x = call->in[0];
  capl_tensor *y = call->out[0];
  const sample_axis axes[2] = {sample_axis_for(call->attr, 0, x, y), sample_axis_for(call->attr, 1, x, y)};
  ref_walk w;
  for (REF_WALK(&w, y); w.more; ref_walk_next(&w)) {
    corners c = corners_of(axes, w.index[2], w.index[3]);
    double sum = 0;
    for (int k = 0; k < 4; k++)
      if (c.weight[k] != 0) sum += c.weight[k] * ref_get(x, ref_at4(x, w.index[0], w.index[1], c.h[k], c.w[k]));
    ref_set(y, w.at[0], sum);
  }
  return CAPL_OK;
}

static capl_status ref_interpolate_grad(const capl_call *call)
{
  const capl_tensor *dy = call->in[0];
  capl_tensor *dx = call->out[0];
  const sample_axis axes[2] = {sample_axis_for(call->attr, 0, dx, dy), sample_axis_for(call->attr, 1, dx, dy)};
  double *sums;
  CAPL_TRY(sums_new(dx, &sums));
  ref_walk w;
  for (REF_WALK(&w, dy); w.more; ref_walk_next(&w)) {
    corners c = corners_of(axes, w.index[2], w.index[3]);
    for (int k = 0; k < 4; k++)
      if (c.weight[k] != 0)
        sums[ref_at4(dx, w.index[0], w.index[1], c.h[k], c.w[k])] += c.weight[k] * ref_get(dy, w.at[0]);
  }
  sums_store(dx, sums);
  return CAPL_OK;
}

/* ---- grid_sample ---- */

/* What one pixel of the result reads: up to four pixels of x, how their weights change with x and y of the grid. */
typedef struct {
  int n;
  int64_t h[4], w[4];
  double weight[4], by_x[4], by_y[4];
} reads;

static bool inside(const capl_tensor *x, int64_t h, int64_t w)
{
  return h >= 0 && h < x->size[2] && w >= 0 && w < x->size[3];
}

static void add_read(reads *r, const capl_tensor *x, int64_t h, int64_t w, double weight, double by_x, double by_y)
{
  if (!inside(x, h, w)) return;
  int k = r->n++;
  r->h[k] = h;
  r->w[k] = w;
  r->weight[k] = weight;
  r->by_x[k] = by_x;
  r->by_y[k] = by_y;
}

static reads reads_of(const capl_call *call, const capl_tensor *x, const capl_tensor *grid, int64_t n, int64_t i,
                      int64_t j)
{
  const capl_attr *attr = call->attr;
  sample_padding padding = (sample_padding)attr[GRID_PADDING].i;
  double slope_x, slope_y;
  int64_t at = n * grid->stride[0] + i * grid->stride[1] + j * grid->stride[2];
  double px = sample_position(ref_get(grid, at), x->size[3], padding, attr[GRID_ALIGN].i, &slope_x);
  double py = sample_position(ref_get(grid, at + grid->stride[3]), x->size[2], padding, attr[GRID_ALIGN].i, &slope_y);
  reads r = {0};
  if (attr[GRID_MODE].i == SAMPLE_NEAREST) {
    add_read(&r, x, sample_round(py), sample_round(px), 1, 0, 0);
    return r;
  }
  int64_t left = sample_floor(px), top = sample_floor(py);
  double fx = px - (double)left, fy = py - (double)top;
  add_read(&r, x, top, left, (1 - fx) * (1 - fy), -(1 - fy) * slope_x, -(1 - fx) * slope_y);
  add_read(&r, x, top, left + 1, fx * (1 - fy), (1 - fy) * slope_x, -fx * slope_y);
  add_read(&r, x, top + 1, left, (1 - fx) * fy, -fy * slope_x, (1 - fx) * slope_y);
  add_read(&r, x, top + 1, left + 1, fx * fy, fy * slope_x, fx * slope_y);
  return r;
}

static capl_status ref_grid_sample(const capl_call *call)
{
  const capl_tensor *x = call->in[0], *grid = call->in[1];
  capl_tensor *y = call->out[0];
  ref_walk w;
  for (REF_WALK(&w, y); w.more; ref_walk_next(&w)) {
    reads r = reads_of(call, x, grid, w.index[0], w.index[2], w.index[3]);
    double sum = 0;
    for (int k = 0; k < r.n; k++) sum += r.weight[k] * ref_get(x, ref_at4(x, w.index[0], w.index[1], r.h[k], r.w[k]));
    ref_set(y, w.at[0], sum);
  }
  return CAPL_OK;
}

/* Gradient of the grid's pair for result (n,i,j); adds to sums what goes to x. */
static void grid_grad_at(const capl_call *call, double *sums, int64_t n, int64_t i, int64_t j)
{
  const capl_tensor *dy = call->in[0], *x = call->in[1];
  capl_tensor *dx = call->out[0], *dgrid = call->out[1];
  reads r = reads_of(call, x, call->in[2], n, i, j);
  double gx = 0, gy = 0;
  for (int64_t c = 0; c < x->size[1]; c++) {
    double d = ref_get(dy, ref_at4(dy, n, c, i, j));
    for (int k = 0; k < r.n; k++) {
      double v = ref_get(x, ref_at4(x, n, c, r.h[k], r.w[k]));
      sums[ref_at4(dx, n, c, r.h[k], r.w[k])] += r.weight[k] * d;
      gx += r.by_x[k] * v * d;
      gy += r.by_y[k] * v * d;
    }
  }
  int64_t at = n * dgrid->stride[0] + i * dgrid->stride[1] + j * dgrid->stride[2];
  ref_set(dgrid, at, gx);
  ref_set(dgrid, at + dgrid->stride[3], gy);
}

static capl_status ref_grid_sample_grad(const capl_call *call)
{
  const capl_tensor *grid = call->in[2];
  double *sums;
  CAPL_TRY(sums_new(call->out[0], &sums));
  for (int64_t n = 0; n < grid->size[0]; n++)
    for (int64_t i = 0; i < grid->size[1]; i++)
      for (int64_t j = 0; j < grid->size[2]; j++) grid_grad_at(call, sums, n, i, j);
  sums_store(call->out[0], sums);
  return CAPL_OK;
}

const capl_kernel ref_sample_kernels[] = {
  {CAPL_OP_interpolate, ref_interpolate, ref_supports_any, 0},
  {CAPL_OP_interpolate_grad, ref_interpolate_grad, ref_supports_any, 0},
  {CAPL_OP_grid_sample, ref_grid_sample, ref_supports_any, 0},
  {CAPL_OP_grid_sample_grad, ref_grid_sample_grad, ref_supports_any, 0},
  {0},
};
