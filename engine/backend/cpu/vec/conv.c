/* conv.c -- weight gradient of a convolution with few input channels (the first layer).
**
** oneDNN pads such channels to a full vector; here the vector runs over output channels, and the
** taps of one kernel row are consecutive values of x. f32 1->32 3x3, 64 images of 60x160: 9.3 -> 1.9 ms.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/conv_lanes.h"

#if defined(__AVX512F__)
enum { GROUP = 9, WIDE = 2 }; /* taps at once and vectors of channels at once; GROUP * WIDE accumulators */
#else
enum { GROUP = 9, WIDE = 1 };
#endif

/* Taps [first, first + count) of all kernel rows taken as one list, `blocks` vectors of channels from c on. */
INLINE void some_taps(const vec_conv_row *p, capl_dtype real, const float *const *x, const void *dy, float *dw,
                      int64_t first, const int count, int64_t c, const int blocks, const int lanes)
{
  vf acc[GROUP * WIDE];
  const float *tap[GROUP];
#pragma GCC unroll 9
  for (int t = 0; t < count; t++) {
    tap[t] = x[(first + t) / p->taps] + (first + t) % p->taps;
    for (int b = 0; b < blocks; b++) acc[t * WIDE + b] = lanes_load(dw + (first + t) * p->channels + c + b * VN, lanes);
  }
  for (int64_t j = 0; j < p->width; j++) {
    vf g[WIDE];
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++) g[b] = lanes_load_real(real, dy, j * p->channels + c + b * VN, lanes);
#pragma GCC unroll 9
    for (int t = 0; t < count; t++) {
      const float *one = &tap[t][j * p->step];
      if (lanes == 8) { /* no vector shares it */
        acc[t * WIDE] = lanes_add_one(acc[t * WIDE], g[0], one, false, lanes);
        continue;
      }
      vf v = v_set(*one);
#pragma GCC unroll 2
      for (int b = 0; b < blocks; b++) acc[t * WIDE + b] += v * g[b];
    }
  }
  for (int t = 0; t < count; t++)
    for (int b = 0; b < blocks; b++)
      lanes_store(CAPL_F32, dw, (first + t) * p->channels + c + b * VN, acc[t * WIDE + b], lanes);
}

INLINE void bias_sums(const vec_conv_row *p, capl_dtype real, const void *dy, float *db, int64_t c, const int blocks,
                      const int lanes)
{
  vf acc[WIDE];
  for (int b = 0; b < blocks; b++) acc[b] = lanes_load(db + c + b * VN, lanes);
  for (int64_t j = 0; j < p->width; j++)
    for (int b = 0; b < blocks; b++) acc[b] += lanes_load_real(real, dy, j * p->channels + c + b * VN, lanes);
  for (int b = 0; b < blocks; b++) lanes_store(CAPL_F32, db, c + b * VN, acc[b], lanes);
}

INLINE void channels_at(const vec_conv_row *p, capl_dtype real, const float *const *x, const void *dy, float *dw,
                        float *db, int64_t c, const int blocks, const int lanes)
{
  int64_t n = p->kernel_h * p->taps, t = 0;
  for (; t + GROUP <= n; t += GROUP) some_taps(p, real, x, dy, dw, t, GROUP, c, blocks, lanes);
  for (; t + 3 <= n; t += 3) some_taps(p, real, x, dy, dw, t, 3, c, blocks, lanes);
  for (; t < n; t++) some_taps(p, real, x, dy, dw, t, 1, c, blocks, lanes);
  bias_sums(p, real, dy, db, c, blocks, lanes);
}

INLINE void row(const vec_conv_row *p, capl_dtype real, const float *const *x, const void *dy, float *dw, float *db)
{
  int64_t c = 0;
  for (; c + WIDE * VN <= p->channels; c += WIDE * VN) channels_at(p, real, x, dy, dw, db, c, WIDE, VN);
  for (; c + VN <= p->channels; c += VN) channels_at(p, real, x, dy, dw, db, c, 1, VN);
  if (c < p->channels) channels_at(p, real, x, dy, dw, db, c, 1, 8); /* VN is 16 */
}

/* A 3x3 kernel from one channel to eight is a build of its own: nine taps of three pointers. */
INLINE void any_row(vec_conv_row p, capl_dtype real, const float *const *x, const void *dy, float *dw, float *db)
{
  if (p.channels == 8 && p.kernel_h == 3 && p.taps == 3 && p.step == 1) {
    p.kernel_h = p.taps = 3;
    p.step = 1;
    row(&p, real, x, dy, dw, db);
  } else row(&p, real, x, dy, dw, db);
}

void VEC(conv_row_grad_w)(const vec_conv_row *p, const float *const *x, const void *dy, float *dw, float *db)
{
  if (p->real == CAPL_BF16) any_row(*p, CAPL_BF16, x, dy, dw, db);
  else any_row(*p, CAPL_F32, x, dy, dw, db);
}
