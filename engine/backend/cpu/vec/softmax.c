/* softmax.c -- softmax, log_softmax, their gradients, and logarithms of sums of exponentials.
**
** A long row fills vectors by itself. Of short ones, and of those whose elements lie apart, each lane has its own row,
** so that nothing is summed across lanes. The largest value may miss a NaN: the sum of the exponentials has it.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/cpu/vec/math.h"

enum { SUMS = 4 }; /* side by side: each waits for its last addition */

/* ---- long rows ---- */

INLINE vf at(capl_dtype real, const void *x, int64_t i, int k)
{
  return v_load(real, x, i + k * VN);
}

INLINE vf row_top(capl_dtype real, int64_t n, const void *x)
{
  vf top[SUMS];
  int64_t i = 0;
  for (int k = 0; k < SUMS; k++) top[k] = v_set(-__builtin_inff());
  for (; i + SUMS * VN <= n; i += SUMS * VN)
    for (int k = 0; k < SUMS; k++) top[k] = v_max(top[k], at(real, x, i, k));
  for (; i < n; i += VN) top[0] = v_max(top[0], v_load_upto(real, x, i, n, -__builtin_inff()));
  return v_set(v_largest(v_max(v_max(top[0], top[1]), v_max(top[2], top[3]))));
}

/* Sum of exp(x - top); y, unless it is NULL, gets the exponentials. */
INLINE float row_sum(capl_dtype real, int64_t n, const void *x, vf top, float *y)
{
  vf sum[SUMS] = {{0}};
  int64_t i = 0;
  for (; i + SUMS * VN <= n; i += SUMS * VN)
    for (int k = 0; k < SUMS; k++) {
      vf e = v_exp(at(real, x, i, k) - top);
      if (y) v_store(CAPL_F32, y, i + k * VN, e);
      sum[k] += e;
    }
  for (; i < n; i += VN) {
    vf e = v_exp(v_load_upto(real, x, i, n, -__builtin_inff()) - top);
    if (y) v_store_upto(CAPL_F32, y, i, n, e);
    sum[0] += e;
  }
  return v_total(sum[0] + sum[1] + (sum[2] + sum[3]));
}

/* f32 keeps the exponentials in y; 16 bits would round them twice. */
INLINE void long_softmax(capl_dtype real, int64_t n, const void *x, void *y, bool log)
{
  bool kept = real == CAPL_F32 && !log;
  vf top = row_top(real, n, x);
  float total = row_sum(real, n, x, top, kept ? y : NULL);
  vf scale = v_set(1 / total), log_total = v_set(log ? logf(total) : 0);
  for (int64_t i = 0; i < n; i += VN) {
    vf v = v_load_upto(real, kept ? y : x, i, n, 0);
    v_store_upto(real, y, i, n, kept ? v * scale : log ? v - top - log_total : v_exp(v - top) * scale);
  }
}

/* softmax: dx = y * (dy - sum(y * dy)); log_softmax: dx = dy - exp(y) * sum(dy) */
INLINE void long_grad(capl_dtype real, int64_t n, const void *y, const void *dy, void *dx, bool log)
{
  vf sum[SUMS] = {{0}};
  int64_t i = 0;
  for (; i + SUMS * VN <= n; i += SUMS * VN)
    for (int k = 0; k < SUMS; k++) sum[k] += log ? at(real, dy, i, k) : at(real, dy, i, k) * at(real, y, i, k);
  for (; i < n; i += VN) {
    vf g = v_load_upto(real, dy, i, n, 0);
    sum[0] += log ? g : g * v_load_upto(real, y, i, n, 0);
  }
  vf total = v_set(v_total(sum[0] + sum[1] + (sum[2] + sum[3])));
  for (i = 0; i < n; i += VN) {
    vf v = v_load_upto(real, y, i, n, 0), g = v_load_upto(real, dy, i, n, 0);
    v_store_upto(real, dx, i, n, log ? g - v_exp(v) * total : v * (g - total));
  }
}

/* ---- a row in each lane: v[k] holds element k of rows first, first + 1, … ---- */

INLINE void load_lanes(const vec_rows *r, capl_dtype real, const void *x, int64_t first, int rows, vf *v)
{
  int64_t begin = first * r->row;
  if (r->row == 1) {
    for (int64_t k = 0; k < r->n; k++) v[k] = v_load_upto(real, x, begin + k * r->step, begin + k * r->step + rows, 0);
    return;
  }
  float *lane = (float *)(void *)v;
  for (int i = 0; i < VN; i++)
    for (int64_t k = 0; k < r->n; k++)
      lane[k * VN + i] = i < rows ? f_load(real, x, begin + i * r->row + k * r->step) : 0;
}

INLINE void store_lanes(const vec_rows *r, capl_dtype real, void *y, int64_t first, int rows, const vf *v)
{
  int64_t begin = first * r->row;
  if (r->row == 1) {
    for (int64_t k = 0; k < r->n; k++) v_store_upto(real, y, begin + k * r->step, begin + k * r->step + rows, v[k]);
    return;
  }
  const float *lane = (const float *)(const void *)v;
  for (int i = 0; i < rows; i++)
    for (int64_t k = 0; k < r->n; k++) f_store(real, y, begin + i * r->row + k * r->step, lane[k * VN + i]);
}

INLINE vf lanes_top(int64_t n, const vf *v)
{
  vf top = v[0];
  for (int64_t k = 1; k < n; k++) top = v_max(top, v[k]);
  return top;
}

INLINE void lanes_softmax(int64_t n, vf *v, bool log)
{
  vf top = lanes_top(n, v), sum = {0};
  for (int64_t k = 0; k < n; k++) {
    vf e = v_exp(v[k] - top);
    if (!log) v[k] = e;
    sum += e;
  }
  vf scale = 1.0f / sum, log_total = log ? v_log(sum) : sum;
  for (int64_t k = 0; k < n; k++) v[k] = log ? v[k] - top - log_total : v[k] * scale;
}

/* dy becomes dx. */
INLINE void lanes_grad(int64_t n, const vf *y, vf *dy, bool log)
{
  vf sum = {0};
  for (int64_t k = 0; k < n; k++) sum += log ? dy[k] : dy[k] * y[k];
  for (int64_t k = 0; k < n; k++) dy[k] = log ? dy[k] - v_exp(y[k]) * sum : y[k] * (dy[k] - sum);
}

INLINE int rows_at(const vec_rows *r, int64_t first)
{
  return r->count - first < VN ? (int)(r->count - first) : VN;
}

/* ---- kernels ---- */

INLINE bool is_long(const vec_rows *r)
{
  return r->step == 1 && r->n > VEC_FEW;
}

INLINE void softmax_of(const vec_rows *r, capl_dtype real, const void *x, void *y, bool log)
{
  vf v[VEC_FEW];
  int64_t size = (int64_t)capl_dtype_size(real);
  if (is_long(r))
    for (int64_t c = 0; c < r->count; c++)
      long_softmax(real, r->n, (const char *)x + c * r->row * size, (char *)y + c * r->row * size, log);
  else
    for (int64_t c = 0; c < r->count; c += VN) {
      load_lanes(r, real, x, c, rows_at(r, c), v);
      lanes_softmax(r->n, v, log);
      store_lanes(r, real, y, c, rows_at(r, c), v);
    }
}

INLINE void grad_of(const vec_rows *r, capl_dtype real, const void *y, const void *dy, void *dx, bool log)
{
  vf v[VEC_FEW], g[VEC_FEW];
  int64_t size = (int64_t)capl_dtype_size(real);
  if (is_long(r))
    for (int64_t c = 0; c < r->count; c++)
      long_grad(real, r->n, (const char *)y + c * r->row * size, (const char *)dy + c * r->row * size,
                (char *)dx + c * r->row * size, log);
  else
    for (int64_t c = 0; c < r->count; c += VN) {
      load_lanes(r, real, y, c, rows_at(r, c), v);
      load_lanes(r, real, dy, c, rows_at(r, c), g);
      lanes_grad(r->n, v, g, log);
      store_lanes(r, real, dx, c, rows_at(r, c), g);
    }
}

void VEC(softmax)(const vec_rows *r, const void *x, void *y)
{
  if (r->real == CAPL_BF16) softmax_of(r, CAPL_BF16, x, y, r->log);
  else softmax_of(r, CAPL_F32, x, y, r->log);
}

void VEC(softmax_grad)(const vec_rows *r, const void *y, const void *dy, void *dx)
{
  if (r->real == CAPL_BF16) grad_of(r, CAPL_BF16, y, dy, dx, r->log);
  else grad_of(r, CAPL_F32, y, dy, dx, r->log);
}

INLINE void lanes_log_sums(int64_t n, const vf *v, int rows, double *y)
{
  vf top = lanes_top(n, v), sum = {0};
  for (int64_t k = 0; k < n; k++) sum += v_exp(v[k] - top);
  vf log_total = v_log(sum);
  for (int i = 0; i < rows; i++) y[i] = (double)top[i] + (double)log_total[i];
}

void VEC(log_sums)(const vec_rows *r, const float *x, double *y)
{
  vf v[VEC_FEW];
  if (is_long(r))
    for (int64_t c = 0; c < r->count; c++) {
      vf top = row_top(CAPL_F32, r->n, x + c * r->row);
      y[c] = (double)top[0] + log((double)row_sum(CAPL_F32, r->n, x + c * r->row, top, NULL));
    }
  else
    for (int64_t c = 0; c < r->count; c += VN) {
      load_lanes(r, CAPL_F32, x, c, rows_at(r, c), v);
      lanes_log_sums(r->n, v, rows_at(r, c), y + c);
    }
}
