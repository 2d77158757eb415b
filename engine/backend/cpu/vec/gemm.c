/* gemm.c -- y = a * b for matrices that fit the caches: the arithmetic of own convolutions.
**
** A tile of y stays in registers: ROWS rows of two vectors. Elements of a are broadcast, so a may have
** any strides; b comes in panels of two vectors of columns, whose rows are read once per tile.
** AVX-512 reaches 85 to 95 % of the processor's peak from about 30 products per element of y on.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/simd.h"

#if defined(__AVX512F__)
enum { ROWS = 12 }; /* 24 of 32 registers are sums */
#else
enum { ROWS = 6 }; /* 12 of 16 */
#endif
enum { WIDE = 2 }; /* vectors in a panel */

/* Row r of a, counted from four pointers so that addresses need no arithmetic. */
INLINE float element(const char *const *q, int r, int64_t a_row)
{
  return *(const float *)(q[r / 3] + r % 3 * a_row);
}

/* sum + left * right; with low both are pairs of bf16, of which both products are added. */
INLINE vf add_product(vf sum, vf left, vf right, const bool low)
{
  if (!low) return sum + left * right;
#if defined(__AVX512BF16__)
  return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
#else
  vu a = (vu)left, b = (vu)right;
  return sum + (vf)(a << 16) * (vf)(b << 16) + (vf)(a & 0xFFFF0000u) * (vf)(b & 0xFFFF0000u);
#endif
}

/* rows x blocks vectors of y; the sum runs over all segments. a_row, a_step in bytes. */
INLINE void sum_tile(const vec_product *p, const float *a, const float *b, const int rows, const int blocks,
                     int64_t a_row, int64_t a_step, const bool low, vf *acc)
{
  for (int64_t s = 0; s < p->segments; s++) {
    const char *q[4];
    for (int i = 0; i < 4; i++) q[i] = (const char *)(a + s * p->a_segment) + 3 * i * a_row;
    for (int64_t l = 0; l < p->length; l++) {
      vf right[WIDE];
#pragma GCC unroll 2
      for (int k = 0; k < blocks; k++) right[k] = v_load_f32(b + k * VN);
#pragma GCC unroll 12
      for (int r = 0; r < rows; r++) {
        vf left = v_set(element(q, r, a_row));
#pragma GCC unroll 2
        for (int k = 0; k < blocks; k++) acc[r * WIDE + k] = add_product(acc[r * WIDE + k], left, right[k], low);
      }
#pragma GCC unroll 4
      for (int i = 0; i < (rows + 2) / 3; i++) q[i] += a_step;
      b += p->b_row;
    }
  }
}

INLINE void tile(const vec_product *p, const float *a, const float *b, const float *bias, float *y, const int rows,
                 const int blocks, int64_t a_row, int64_t a_step, const bool low)
{
  vf acc[ROWS * WIDE];
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int k = 0; k < blocks; k++) {
      acc[r * WIDE + k] = bias ? v_load_f32(bias + k * VN) : (vf){0};
      if (p->add) acc[r * WIDE + k] = v_load_f32(y + r * p->y_row + k * VN);
    }
  sum_tile(p, a, b, rows, blocks, a_row, a_step, low, acc);
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int k = 0; k < blocks; k++)
      if (p->past) v_store_past(CAPL_F32, y + r * p->y_row, k * VN, acc[r * WIDE + k]);
      else *(vf_at *)(y + r * p->y_row + k * VN) = acc[r * WIDE + k];
}

/* The number of rows is known in each case. */
INLINE void tile_of(const vec_product *p, const float *a, const float *b, const float *bias, float *y, int64_t rows,
                    const int blocks, int64_t a_row, int64_t a_step, const bool low)
{
  switch (rows) {
#define CASE(n) case n: tile(p, a, b, bias, y, n, blocks, a_row, a_step, low); break
    CASE(1); CASE(2); CASE(3); CASE(4); CASE(5); CASE(6);
#if defined(__AVX512F__)
    CASE(7); CASE(8); CASE(9); CASE(10); CASE(11); CASE(12);
#endif
#undef CASE
  default: break;
  }
}

/* In tiles of about as many rows each: few rows have too few sums for the processor to add at the same time. */
INLINE void panel(const vec_product *p, const float *a, const float *b, const float *bias, float *y, const int blocks,
                  int64_t a_row, int64_t a_step, const bool low)
{
  int64_t r = 0, n;
  for (int64_t tiles = (p->rows + ROWS - 1) / ROWS; tiles > 0; tiles--, r += n) {
    n = (p->rows - r + tiles - 1) / tiles;
    tile_of(p, a + r * p->a_row, b, bias, y + r * p->y_row, n, blocks, a_row, a_step, low);
  }
}

INLINE void panels(const vec_product *p, const float *a, const float *b, const float *bias, float *y, int64_t a_row,
                   int64_t a_step, const bool low)
{
  int64_t c = 0;
  for (; c + WIDE * VN <= p->columns; c += WIDE * VN, b += p->b_panel)
    panel(p, a, b, bias ? bias + c : NULL, y + c, WIDE, a_row, a_step, low);
  if (c < p->columns) panel(p, a, b, bias ? bias + c : NULL, y + c, 1, a_row, a_step, low);
}

INLINE void product_of(const vec_product *p, const float *a, const float *b, const float *bias, float *y,
                       const bool low)
{
  enum { ONE = sizeof(float) }; /* two builds: one of the strides of a is known */
  if (p->a_step == 1) panels(p, a, b, bias, y, p->a_row * ONE, ONE, low);
  else panels(p, a, b, bias, y, ONE, p->a_step * ONE, low);
  if (p->past) v_store_past_end();
}

void VEC(product)(const vec_product *p, const float *a, const float *b, const float *bias, float *y)
{
  product_of(p, a, b, bias, y, false);
}

void VEC(product_pairs)(const vec_product *p, const void *a, const void *b, const float *bias, float *y)
{
  product_of(p, a, b, bias, y, true);
}

void VEC(pair_bf16)(int64_t n, const float *x, const float *other, uint32_t *y)
{
  int64_t i = 0;
  for (; i + VN <= n; i += VN) {
    vu pairs = v_pair(v_load_f32(x + i), v_load_f32(other + i));
    memcpy(y + i, &pairs, sizeof pairs);
  }
  for (; i < n; i++) y[i] = capl_bf16_from_float(x[i]) | (uint32_t)capl_bf16_from_float(other[i]) << 16;
}
