/* pool.c -- reference kernels of max, average and adaptive pooling.
**
** Forward kernels walk the windows; gradients scatter dy into one plane of doubles per image and
** channel, so that overlapping windows are summed before the result is rounded.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>
#include <string.h>

#include "capl/backend.h"
#include "ops/attrs.h"
#include "ops/window.h"

#include "backend/ref/ref.h"
#include "base/count.h"

/* Input positions [first, last) that one window covers along an axis. */
typedef struct {
  int64_t first, last;
  int64_t step;   /* from one of them to the next */
  int64_t start;  /* of the whole window, may lie in the padding */
  int64_t padded; /* how many positions the window covers, padding included */
} span;

typedef struct {
  span rows, columns;
} window;

/* How a pool cuts H,W `in` into `out` windows. attr == NULL: adaptive. */
typedef struct {
  int64_t in[2], out[2];
  const capl_attr *attr;
  const int64_t *dilation; /* NULL = 1 */
} pool;

static pool pool_of(const capl_tensor *x, const capl_tensor *y, const capl_attr *attr)
{
  return (pool){{x->size[2], x->size[3]}, {y->size[2], y->size[3]}, attr, NULL};
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static span span_of(const pool *p, int axis, int64_t out)
{
  int64_t in = p->in[axis];
  if (!p->attr) {
    int64_t first = window_adaptive_first(out, in, p->out[axis]);
    int64_t last = window_adaptive_last(out, in, p->out[axis]);
    return (span){first, last, 1, first, last - first};
  }
  int64_t kernel = p->attr[POOL_KERNEL].v[axis], padding = p->attr[POOL_PADDING].v[axis];
  int64_t stride = window_stride(&p->attr[POOL_STRIDE], &p->attr[POOL_KERNEL], axis);
  int64_t start = out * stride - padding, step = p->dilation ? p->dilation[axis] : 1, first = start;
  while (first < 0) first += step;
  /* What ceil_mode adds beyond the padding counts nowhere. */
  int64_t padded = smaller(start + kernel, in + padding) - start;
  return (span){first, smaller(start + window_reach(kernel, step), in), step, start, padded};
}

static window window_of(const pool *p, int64_t h, int64_t w)
{
  return (window){span_of(p, 0, h), span_of(p, 1, w)};
}

/* ---- max --------------------------------------------------------------------------------------- */

typedef struct {
  double value;
  int64_t row, column;
} winner;

/* The first largest value of a window; NaN beats everything. */
static winner largest(const capl_tensor *x, int64_t n, int64_t c, window v)
{
  winner best = {-INFINITY, v.rows.first, v.columns.first};
  for (int64_t row = v.rows.first; row < v.rows.last; row += v.rows.step)
    for (int64_t column = v.columns.first; column < v.columns.last; column += v.columns.step) {
      double value = ref_get(x, ref_at4(x, n, c, row, column));
      if (value > best.value || (isnan(value) && !isnan(best.value))) best = (winner){value, row, column};
    }
  return best;
}

/* index: position in the window for max_pool2d, in the image for the adaptive pool. */
static capl_status max_forward(const capl_call *call, const capl_attr *attr)
{
  const capl_tensor *x = call->in[0];
  capl_tensor *y = call->out[0], *index = call->out[1];
  pool p = pool_of(x, y, attr);
  if (attr) p.dilation = attr[MAX_POOL_DILATION].v;
  int64_t row_length = attr ? attr[POOL_KERNEL].v[1] : p.in[1];
  for (int64_t n = 0; n < y->size[0]; n++)
    for (int64_t c = 0; c < y->size[1]; c++)
      for (int64_t h = 0; h < p.out[0]; h++)
        for (int64_t w = 0; w < p.out[1]; w++) {
          window v = window_of(&p, h, w);
          winner best = largest(x, n, c, v);
          int64_t top = attr ? v.rows.start : 0, left = attr ? v.columns.start : 0;
          ref_set(y, ref_at4(y, n, c, h, w), best.value);
          int64_t row = (best.row - top) / v.rows.step, column = (best.column - left) / v.columns.step;
          ref_set_int(index, ref_at4(index, n, c, h, w), row * row_length + column);
        }
  return CAPL_OK;
}

static capl_status ref_max_pool2d(const capl_call *call) { return max_forward(call, call->attr); }

static capl_status ref_adaptive_max_pool2d(const capl_call *call) { return max_forward(call, NULL); }

/* ---- average ----------------------------------------------------------------------------------- */

static int64_t divisor(const pool *p, window v)
{
  if (p->attr && p->attr[AVG_POOL_COUNT_PAD].i) return v.rows.padded * v.columns.padded;
  return (v.rows.last - v.rows.first) * (v.columns.last - v.columns.first);
}

static double average(const pool *p, const capl_tensor *x, int64_t n, int64_t c, window v)
{
  double sum = 0;
  for (int64_t row = v.rows.first; row < v.rows.last; row++)
    for (int64_t column = v.columns.first; column < v.columns.last; column++)
      sum += ref_get(x, ref_at4(x, n, c, row, column));
  return sum / (double)divisor(p, v);
}

static capl_status average_forward(const capl_call *call, const capl_attr *attr)
{
  const capl_tensor *x = call->in[0];
  capl_tensor *y = call->out[0];
  pool p = pool_of(x, y, attr);
  for (int64_t n = 0; n < y->size[0]; n++)
    for (int64_t c = 0; c < y->size[1]; c++)
      for (int64_t h = 0; h < p.out[0]; h++)
        for (int64_t w = 0; w < p.out[1]; w++)
          ref_set(y, ref_at4(y, n, c, h, w), average(&p, x, n, c, window_of(&p, h, w)));
  return CAPL_OK;
}

static capl_status ref_avg_pool2d(const capl_call *call) { return average_forward(call, call->attr); }

static capl_status ref_adaptive_avg_pool2d(const capl_call *call) { return average_forward(call, NULL); }

/* ---- gradients: scatter into a plane of H*W doubles --------------------------------------------- */

/* Adds what windows of image n, channel c send back to plane. */
typedef capl_status scatter_fn(const pool *p, const capl_call *call, int64_t n, int64_t c, double *plane);

static capl_status scatter_average(const pool *p, const capl_call *call, int64_t n, int64_t c, double *plane)
{
  const capl_tensor *dy = call->in[0];
  for (int64_t h = 0; h < p->out[0]; h++)
    for (int64_t w = 0; w < p->out[1]; w++) {
      window v = window_of(p, h, w);
      double share = ref_get(dy, ref_at4(dy, n, c, h, w)) / (double)divisor(p, v);
      for (int64_t row = v.rows.first; row < v.rows.last; row++)
        for (int64_t column = v.columns.first; column < v.columns.last; column++)
          plane[row * p->in[1] + column] += share;
    }
  return CAPL_OK;
}

/* Position in the plane of the winner that index names for window h,w. EVALUE if it is not in the window. */
static capl_status winner_position(const pool *p, int64_t index, int64_t h, int64_t w, int64_t *position)
{
  window v = window_of(p, h, w);
  int64_t row_length = p->attr ? p->attr[POOL_KERNEL].v[1] : p->in[1];
  int64_t row = index / row_length * v.rows.step + (p->attr ? v.rows.start : 0);
  int64_t column = index % row_length * v.columns.step + (p->attr ? v.columns.start : 0);
  if (row < v.rows.first || row >= v.rows.last || column < v.columns.first || column >= v.columns.last)
    return CAPL_FAIL(CAPL_EVALUE, "index %d of output %d,%d lies outside its window", (int)index,
                     (int)capl_counted(h), (int)capl_counted(w));
  *position = row * p->in[1] + column;
  return CAPL_OK;
}

static capl_status scatter_winner(const pool *p, const capl_call *call, int64_t n, int64_t c, double *plane)
{
  const capl_tensor *dy = call->in[0], *index = call->in[1];
  for (int64_t h = 0; h < p->out[0]; h++)
    for (int64_t w = 0; w < p->out[1]; w++) {
      int64_t position = 0, named = ref_get_int(index, ref_at4(index, n, c, h, w));
      CAPL_TRY(winner_position(p, named, h, w, &position));
      plane[position] += ref_get(dy, ref_at4(dy, n, c, h, w));
    }
  return CAPL_OK;
}

static void store_plane(capl_tensor *dx, int64_t n, int64_t c, const double *plane)
{
  for (int64_t h = 0; h < dx->size[2]; h++)
    for (int64_t w = 0; w < dx->size[3]; w++)
      ref_set(dx, ref_at4(dx, n, c, h, w), plane[h * dx->size[3] + w]);
}

/* attr, dilation: NULL as in a pool. */
static capl_status pool_backward(const capl_call *call, const capl_attr *attr, const int64_t *dilation,
                                 scatter_fn *scatter)
{
  capl_tensor *dx = call->out[0];
  pool p = pool_of(dx, call->in[0], attr);
  p.dilation = dilation;
  size_t bytes = sizeof(double) * (size_t)(p.in[0] * p.in[1]);
  void *plane;
  CAPL_TRY(capl_scratch_get(dx->device, bytes, &plane));
  capl_status status = CAPL_OK;
  for (int64_t n = 0; n < dx->size[0] && status == CAPL_OK; n++)
    for (int64_t c = 0; c < dx->size[1] && status == CAPL_OK; c++) {
      memset(plane, 0, bytes);
      status = scatter(&p, call, n, c, plane);
      store_plane(dx, n, c, plane);
    }
  capl_scratch_put(dx->device, plane);
  return status;
}

static capl_status ref_max_pool2d_grad(const capl_call *call)
{
  return pool_backward(call, call->attr, call->attr[MAX_POOL_DILATION].v, scatter_winner);
}

static capl_status ref_avg_pool2d_grad(const capl_call *call)
{
  return pool_backward(call, call->attr, NULL, scatter_average);
}

static capl_status ref_adaptive_avg_pool2d_grad(const capl_call *call)
{
  return pool_backward(call, NULL, NULL, scatter_average);
}

static capl_status ref_adaptive_max_pool2d_grad(const capl_call *call)
{
  return pool_backward(call, NULL, NULL, scatter_winner);
}

const capl_kernel ref_pool_kernels[] = {
    {CAPL_OP_max_pool2d, ref_max_pool2d, ref_supports_any, 0},
    {CAPL_OP_max_pool2d_grad, ref_max_pool2d_grad, ref_supports_any, 0},
    {CAPL_OP_avg_pool2d, ref_avg_pool2d, ref_supports_any, 0},
    {CAPL_OP_avg_pool2d_grad, ref_avg_pool2d_grad, ref_supports_any, 0},
    {CAPL_OP_adaptive_avg_pool2d, ref_adaptive_avg_pool2d, ref_supports_any, 0},
    {CAPL_OP_adaptive_avg_pool2d_grad, ref_adaptive_avg_pool2d_grad, ref_supports_any, 0},
    {CAPL_OP_adaptive_max_pool2d, ref_adaptive_max_pool2d, ref_supports_any, 0},
    {CAPL_OP_adaptive_max_pool2d_grad, ref_adaptive_max_pool2d_grad, ref_supports_any, 0},
    {0},
};
