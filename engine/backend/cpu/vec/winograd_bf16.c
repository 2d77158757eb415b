/* winograd_bf16.c -- the transforms of Winograd convolution F(2x2,3x3) whose factors are bf16: 16 multiplications where
** direct convolution has 36.
**
** As winograd.c with points 0, 1, -1 and infinity. Transforms and sums are f32; what is multiplied is rounded to bf16
** once, in pairs as the dot product of bf16 wants them. Larger tiles need fewer products yet lose too much to that
** rounding: beside direct convolution in bf16 the error is 1.4 to 1.7 times as large here, 2.0 to 2.7 times with tiles
** of 2x3, 5 to 9 times with 4x4.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/simd.h"

/* Each function below does one side of a transform: values `step` apart in `from`, `to` apart in the result. */

/* B': 4 -> 4 */
INLINE void side_x(vf *x, int step)
{
  vf x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
  x[0] = x0 - x2;
  x[step] = x1 + x2;
  x[2 * step] = x2 - x1;
  x[3 * step] = x3 - x1;
}

/* G: 3 -> 4 */
INLINE void side_w(const vf *w, int step, vf *v, int to)
{
  vf ends = 0.5f * (w[0] + w[2 * step]), middle = 0.5f * w[step];
  v[0] = w[0];
  v[to] = ends + middle;
  v[2 * to] = ends - middle;
  v[3 * to] = w[2 * step];
}

/* D: 2 -> 4 */
INLINE void side_dy(const vf *y, int step, vf *v, int to)
{
  v[0] = y[0];
  v[to] = 0.5f * (y[0] + y[step]);
  v[2 * to] = 0.5f * (y[0] - y[step]);
  v[3 * to] = y[step];
}

/* A': 4 -> 2 */
INLINE void side_y(const vf *v, int step, vf *y, int to)
{
  y[0] = v[0] + v[step] + v[2 * step];
  y[to] = v[step] - v[2 * step] + v[3 * step];
}

/* C': 4 -> 3 */
INLINE void side_dw(const vf *v, int step, vf *w, int to)
{
  w[0] = v[0] + v[step] + v[2 * step];
  w[to] = v[step] - v[2 * step];
  w[2 * to] = v[step] + v[2 * step] + v[3 * step];
}

INLINE void tile_x(const void *const *each, int64_t c, vf *t)
{
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) t[i] = v_load_bf16((const uint16_t *)each[i] + c);
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) side_x(t + j, 4);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) side_x(t + 4 * i, 1);
}

void VEC(winograd_bf16_x)(const vec_winograd *p, const void *const *each, uint16_t *v)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf t[16];
    tile_x(each, c, t);
#pragma GCC unroll 16
    for (int f = 0; f < 16; f++) *(vh_at *)(v + f * p->frequency + c) = v_to_bf16(t[f]);
  }
}

INLINE void store_pairs(const vec_winograd *p, const vf *low, const vf *high, uint32_t *v)
{
#pragma GCC unroll 16
  for (int f = 0; f < 16; f++) {
    vu pairs = v_pair(low[f], high[f]);
    memcpy(v + f * p->frequency, &pairs, sizeof pairs);
  }
}

void VEC(winograd_bf16_x_pair)(const vec_winograd *p, const void *const *each, const void *const *other, uint32_t *v)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf low[16], high[16];
    tile_x(each, c, low);
    tile_x(other, c, high);
    store_pairs(p, low, high, v + c);
  }
}

/* t: 16 values. Returns the sum of the four pixels. */
INLINE vf tile_dy(const void *const *each, int64_t c, vf *t)
{
  vf in[4], half[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) in[i] = v_load_bf16((const uint16_t *)each[i] + c);
#pragma GCC unroll 2
  for (int j = 0; j < 2; j++) side_dy(in + j, 2, half + j, 2);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) side_dy(half + 2 * i, 1, t + 4 * i, 1);
  return 4.0f * t[5];
}

void VEC(winograd_bf16_dy_pair)(const vec_winograd *p, const void *const *each, const void *const *other, uint32_t *v,
                                float *total)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf low[16], high[16], sum = v_load_f32(total + c);
    sum += tile_dy(each, c, low);
    *(vf_at *)(total + c) = sum + tile_dy(other, c, high);
    store_pairs(p, low, high, v + c);
  }
}

void VEC(winograd_bf16_y)(const vec_winograd *p, const float *v, const float *bias, int rows, int columns, uint16_t *y)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf in[4], t[8], out[2], shift = bias ? v_load_f32(bias + c) : (vf){0};
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) in[i] = v_load_f32(v + (4 * i + j) * p->frequency + c);
      side_y(in, 1, t + j, 4);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
      if (i >= rows) break;
      side_y(t + 4 * i, 1, out, 1);
#pragma GCC unroll 2
      for (int j = 0; j < 2; j++) {
        vf sum = out[j] + shift;
        if (j < columns) *(vh_at *)(y + i * p->row + j * p->pixel + c) = v_to_bf16(p->relu ? v_relu(sum) : sum);
      }
    }
  }
}

INLINE void taps_w(const vec_winograd *p, const float *w, vf *v)
{
  vf in[3], t[12];
#pragma GCC unroll 3
  for (int j = 0; j < 3; j++) {
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) in[i] = v_load_f32(w + i * p->row + j * p->pixel);
    side_w(in, 1, t + j, 3);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) side_w(t + 3 * i, 1, v + 4 * i, 1);
}

void VEC(winograd_bf16_w)(const vec_winograd *p, const float *w, const float *other, uint32_t *v)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf low[16], high[16];
    taps_w(p, w + c, low);
    taps_w(p, other + c, high);
    store_pairs(p, low, high, v + c);
  }
}

void VEC(winograd_bf16_dw)(const vec_winograd *p, int parts, const float *const *v, float *dw)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf in[4], t[12], out[3];
    for (int j = 0; j < 4; j++) {
      for (int i = 0; i < 4; i++) {
        in[i] = v_load_f32(v[0] + (4 * i + j) * p->frequency + c);
        for (int k = 1; k < parts; k++) in[i] += v_load_f32(v[k] + (4 * i + j) * p->frequency + c);
      }
      side_dw(in, 1, t + j, 4);
    }
    for (int i = 0; i < 3; i++) {
      side_dw(t + 4 * i, 1, out, 1);
      for (int j = 0; j < 3; j++) *(vf_at *)(dw + i * p->row + j * p->pixel + c) = out[j];
    }
  }
}

/* ---- along lines: one side only ---- */

void VEC(winoline_bf16_x)(const vec_winograd *p, const void *const *each, uint16_t *v)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf t[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) t[j] = v_load_bf16((const uint16_t *)each[j] + c);
    side_x(t, 1);
#pragma GCC unroll 4
    for (int f = 0; f < 4; f++) *(vh_at *)(v + f * p->frequency + c) = v_to_bf16(t[f]);
  }
}

void VEC(winoline_bf16_y)(const vec_winograd *p, const float *v, const float *bias, int columns, uint16_t *y)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf in[4], out[2], shift = bias ? v_load_f32(bias + c) : (vf){0};
#pragma GCC unroll 4
    for (int f = 0; f < 4; f++) in[f] = v_load_f32(v + f * p->frequency + c);
    side_y(in, 1, out, 1);
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      vf sum = out[j] + shift;
      if (j < columns) *(vh_at *)(y + j * p->pixel + c) = v_to_bf16(p->relu ? v_relu(sum) : sum);
    }
  }
}

void VEC(winoline_bf16_w)(const vec_winograd *p, const float *w, const float *other, uint32_t *v)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf in[2][3], t[2][4];
#pragma GCC unroll 3
    for (int j = 0; j < 3; j++) {
      in[0][j] = v_load_f32(w + j * p->pixel + c);
      in[1][j] = v_load_f32(other + j * p->pixel + c);
    }
    for (int i = 0; i < 2; i++) side_w(in[i], 1, t[i], 1);
#pragma GCC unroll 4
    for (int f = 0; f < 4; f++) {
      vu pairs = v_pair(t[0][f], t[1][f]);
      memcpy(v + f * p->frequency + c, &pairs, sizeof pairs);
    }
  }
}
