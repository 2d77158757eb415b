/* winograd.c -- the transforms of Winograd convolution, F(4x4,3x3): 36 multiplications where direct
** convolution has 144.
**
** With points 0, 1, -1, 2, -2 and infinity (Lavin and Gray, "Fast Algorithms for Convolutional Neural
** Networks", 2015):  y = A' [(G w G') . (B' x B)] A.  The weight gradient is a correlation too, of x with
** 4x4 tiles of dy:   dw = C' [(D dy D') . (B' x B)] C,  where C and D belong to the same points.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/simd.h"

/* Each function below does one side of a transform: values `step` apart in `from`, likewise in `to`. */

/* B': 6 -> 6 */
INLINE void side_x(const vf *x, int step, vf *v)
{
  vf x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step], x5 = x[5 * step];
  vf a = x4 - 4.0f * x2, b = x3 - 4.0f * x1, c = x4 - x2, d = 2.0f * (x3 - x1);
  v[0] = 4.0f * x0 - 5.0f * x2 + x4;
  v[step] = a + b;
  v[2 * step] = a - b;
  v[3 * step] = c + d;
  v[4 * step] = c - d;
  v[5 * step] = 4.0f * x1 - 5.0f * x3 + x5;
}

/* G: 3 -> 6 */
INLINE void side_w(const vf *w, int step, vf *v, int to)
{
  const float sixth = 1.0f / 6, small = 1.0f / 24;
  vf w0 = w[0], w1 = w[step], w2 = w[2 * step], even = -sixth * (w0 + w2), ends = small * w0 + sixth * w2;
  v[0] = 0.25f * w0;
  v[to] = even - sixth * w1;
  v[2 * to] = even + sixth * w1;
  v[3 * to] = ends + 0.5f * sixth * w1;
  v[4 * to] = ends - 0.5f * sixth * w1;
  v[5 * to] = w2;
}

/* D: 4 -> 6 */
INLINE void side_dy(const vf *y, int step, vf *v, int to)
{
  const float sixth = 1.0f / 6, small = 1.0f / 24;
  vf y0 = y[0], y1 = y[step], y2 = y[2 * step], y3 = y[3 * step];
  vf even = -sixth * (y0 + y2), odd = -sixth * (y1 + y3);
  vf even2 = small * y0 + sixth * y2, odd2 = 2 * small * y1 + 2 * sixth * y3;
  v[0] = 0.25f * y0;
  v[to] = even + odd;
  v[2 * to] = even - odd;
  v[3 * to] = even2 + odd2;
  v[4 * to] = even2 - odd2;
  v[5 * to] = y3;
}

/* A': 6 -> 4 */
INLINE void side_y(const vf *v, int step, vf *y, int to)
{
  vf s1 = v[step] + v[2 * step], d1 = v[step] - v[2 * step];
  vf s2 = v[3 * step] + v[4 * step], d2 = v[3 * step] - v[4 * step];
  y[0] = v[0] + s1 + s2;
  y[to] = d1 + 2.0f * d2;
  y[2 * to] = s1 + 4.0f * s2;
  y[3 * to] = d1 + 8.0f * d2 + v[5 * step];
}

/* C': 6 -> 3 */
INLINE void side_dw(const vf *v, int step, vf *w, int to)
{
  vf s1 = v[step] + v[2 * step], s2 = v[3 * step] + v[4 * step];
  w[0] = v[0] + s1 + s2;
  w[to] = v[step] - v[2 * step] + 2.0f * (v[3 * step] - v[4 * step]);
  w[2 * to] = s1 + 4.0f * s2 + v[5 * step];
}

/* Where the vector from channel `first` on begins: the last one overlaps the one before it where channels do not fill
** it, and computes the same for those it has again. */
INLINE int64_t start(const vec_winograd *p, int64_t first)
{
  return first + VN <= p->channels ? first : p->channels - VN;
}

INLINE void store_all(const vec_winograd *p, const vf *from, float *v)
{
#pragma GCC unroll 36
  for (int i = 0; i < 36; i++) *(vf_at *)(v + i * p->frequency) = from[i];
}

/* Pixel i, j of a tile; each lists the pixels one by one where x is NULL. */
INLINE vf pixel(const vec_winograd *p, const float *x, const void *const *each, int size, int i, int j, int64_t c)
{
  return v_load_f32((x ? x + i * p->row + j * p->pixel : (const float *)each[i * size + j]) + c);
}

INLINE void transform_x(const vec_winograd *p, const float *x, const void *const *each, float *v)
{
  for (int64_t first = 0; first < p->channels; first += VN) {
    int64_t c = start(p, first);
    vf t[36];
#pragma GCC unroll 6
    for (int j = 0; j < 6; j++) {
#pragma GCC unroll 6
      for (int i = 0; i < 6; i++) t[6 * i + j] = pixel(p, x, each, 6, i, j, c);
      side_x(t + j, 6, t + j);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) side_x(t + 6 * i, 1, t + 6 * i);
    store_all(p, t, v + c);
  }
}

void VEC(winograd_x)(const vec_winograd *p, const float *x, const void *const *each, float *v)
{
  if (x) transform_x(p, x, NULL, v);
  else transform_x(p, NULL, each, v);
}

INLINE void transform_dy(const vec_winograd *p, const float *dy, const void *const *each, float *v)
{
  for (int64_t first = 0; first < p->channels; first += VN) {
    int64_t c = start(p, first);
    vf in[4], t[24], out[36];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) in[i] = pixel(p, dy, each, 4, i, j, c);
      side_dy(in, 1, t + j, 4);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) side_dy(t + 4 * i, 1, out + 6 * i, 1);
    store_all(p, out, v + c);
  }
}

void VEC(winograd_dy)(const vec_winograd *p, const float *dy, const void *const *each, float *v)
{
  if (dy) transform_dy(p, dy, NULL, v);
  else transform_dy(p, NULL, each, v);
}

/* Sums of products as they are stored in y. */
INLINE vf finish(vf sum, vf shift, bool relu)
{
  return relu ? v_relu(sum + shift) : sum + shift;
}

void VEC(winograd_y)(const vec_winograd *p, const float *v, const float *bias, int rows, int columns, float *y)
{
  for (int64_t first = 0; first < p->channels; first += VN) {
    int64_t c = start(p, first);
    vf in[6], t[24], out[4], shift = bias ? v_load_f32(bias + c) : (vf){0};
#pragma GCC unroll 6
    for (int j = 0; j < 6; j++) {
#pragma GCC unroll 6
      for (int i = 0; i < 6; i++) in[i] = v_load_f32(v + (6 * i + j) * p->frequency + c);
      side_y(in, 1, t + j, 6);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      if (i >= rows) break;
      side_y(t + 6 * i, 1, out, 1);
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) {
        if (j < columns) *(vf_at *)(y + i * p->row + j * p->pixel + c) = finish(out[j], shift, p->relu);
      }
    }
  }
}

void VEC(winograd_w)(const vec_winograd *p, const float *w, float *v)
{
  for (int64_t first = 0; first < p->channels; first += VN) {
    int64_t c = start(p, first);
    vf in[3], t[18], out[36];
#pragma GCC unroll 3
    for (int j = 0; j < 3; j++) {
#pragma GCC unroll 3
      for (int i = 0; i < 3; i++) in[i] = v_load_f32(w + i * p->row + j * p->pixel + c);
      side_w(in, 1, t + j, 3);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) side_w(t + 3 * i, 1, out + 6 * i, 1);
    store_all(p, out, v + c);
  }
}

INLINE vf total_of(int parts, const float *const *v, int64_t at)
{
  vf sum = v_load_f32(v[0] + at);
  for (int k = 1; k < parts; k++) sum += v_load_f32(v[k] + at);
  return sum;
}

void VEC(winograd_dw)(const vec_winograd *p, int parts, const float *const *v, float *dw)
{
  for (int64_t first = 0; first < p->channels; first += VN) {
    int64_t c = start(p, first);
    vf in[6], t[18], out[3];
    for (int j = 0; j < 6; j++) {
      for (int i = 0; i < 6; i++) in[i] = total_of(parts, v, (6 * i + j) * p->frequency + c);
      side_dw(in, 1, t + j, 6);
    }
    for (int i = 0; i < 3; i++) {
      side_dw(t + 6 * i, 1, out, 1);
      for (int j = 0; j < 3; j++) *(vf_at *)(dw + i * p->row + j * p->pixel + c) = out[j];
    }
  }
}

/* ---- along lines: one side only ---- */

void VEC(winoline_x)(const vec_winograd *p, const float *x, const void *const *each, float *v)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf t[6];
    for (int j = 0; j < 6; j++) t[j] = pixel(p, x, each, 6, 0, j, c);
    side_x(t, 1, t);
    for (int j = 0; j < 6; j++) *(vf_at *)(v + j * p->frequency + c) = t[j];
  }
}

void VEC(winoline_dy)(const vec_winograd *p, const float *dy, const void *const *each, float *v)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf in[4], out[6];
    for (int j = 0; j < 4; j++) in[j] = pixel(p, dy, each, 4, 0, j, c);
    side_dy(in, 1, out, 1);
    for (int j = 0; j < 6; j++) *(vf_at *)(v + j * p->frequency + c) = out[j];
  }
}

void VEC(winoline_y)(const vec_winograd *p, const float *v, const float *bias, int columns, float *y)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf in[6], out[4], shift = bias ? v_load_f32(bias + c) : (vf){0};
    for (int j = 0; j < 6; j++) in[j] = v_load_f32(v + j * p->frequency + c);
    side_y(in, 1, out, 1);
    for (int j = 0; j < 4; j++)
      if (j < columns) *(vf_at *)(y + j * p->pixel + c) = finish(out[j], shift, p->relu);
  }
}

void VEC(winoline_w)(const vec_winograd *p, const float *w, float *v)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf in[3], out[6];
    for (int j = 0; j < 3; j++) in[j] = v_load_f32(w + j * p->pixel + c);
    side_w(in, 1, out, 1);
    for (int j = 0; j < 6; j++) *(vf_at *)(v + j * p->frequency + c) = out[j];
  }
}

void VEC(winoline_dw)(const vec_winograd *p, int parts, const float *const *v, float *dw)
{
  for (int64_t c = 0; c < p->channels; c += VN) {
    vf in[6], out[3];
    for (int j = 0; j < 6; j++) in[j] = total_of(parts, v, j * p->frequency + c);
    side_dw(in, 1, out, 1);
    for (int j = 0; j < 3; j++) *(vf_at *)(dw + j * p->pixel + c) = out[j];
  }
}
