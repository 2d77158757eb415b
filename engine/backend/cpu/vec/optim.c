/* optim.c -- optimizer steps over runs of f32; plain loops that the compiler vectorizes.
**
** Moments of parameters whose gradient stays 0 decay into denormal numbers, which cost a hundred
** cycles each: they are flushed to zero while a step runs.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/cpu/vec/simd.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { FLUSH_BITS = 0x8040 }; /* flush to zero, denormals are zero */

static unsigned flush_begin(void)
{
#if defined(__x86_64__)
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | FLUSH_BITS);
  return before;
#else
  return 0;
#endif
}

static void flush_end(unsigned before)
{
#if defined(__x86_64__)
  _mm_setcsr(before);
#else
  (void)before;
#endif
}

INLINE void adam_run(const vec_adam *p, bool amsgrad, int64_t n, float *restrict w, const float *restrict g,
                     float *restrict m, float *restrict v, float *restrict largest)
{
  const vec_adam s = *p;
  for (int64_t i = 0; i < n; i++) {
    float slope = g[i] * s.grad_scale + s.decay_grad * w[i];
    float first = s.beta1 * m[i] + (1 - s.beta1) * slope;
    float second = s.beta2 * v[i] + (1 - s.beta2) * slope * slope;
    m[i] = first;
    v[i] = second;
    if (amsgrad) second = largest[i] = largest[i] > second ? largest[i] : second;
    w[i] = w[i] * s.keep_weight - s.rate * first / (sqrtf(second) * s.root_correct + s.eps);
  }
}

void VEC(adam)(const vec_adam *p, int64_t n, float *w, const float *g, float *m, float *v, float *largest)
{
  unsigned before = flush_begin();
  if (largest) adam_run(p, true, n, w, g, m, v, largest);
  else adam_run(p, false, n, w, g, m, v, NULL);
  flush_end(before);
}

static void sgd_plain(const vec_sgd *p, int64_t n, float *restrict w, const float *restrict g)
{
  const vec_sgd s = *p;
  for (int64_t i = 0; i < n; i++) w[i] -= s.lr * (g[i] * s.grad_scale + s.weight_decay * w[i]);
}

static void sgd_momentum(const vec_sgd *p, int64_t n, float *restrict w, const float *restrict g,
                         float *restrict buffer)
{
  const vec_sgd s = *p;
  float keep = s.first_step ? 0 : s.momentum, take = s.first_step ? 1 : 1 - s.dampening;
  float own = s.nesterov ? 1 : 0, share = s.nesterov ? s.momentum : 1;
  for (int64_t i = 0; i < n; i++) {
    float slope = g[i] * s.grad_scale + s.weight_decay * w[i];
    float b = (s.first_step ? 0 : keep * buffer[i]) + take * slope;
    buffer[i] = b;
    w[i] -= s.lr * (own * slope + share * b);
  }
}

void VEC(sgd)(const vec_sgd *p, int64_t n, float *w, const float *g, float *buffer)
{
  unsigned before = flush_begin();
  if (p->momentum == 0) sgd_plain(p, n, w, g);
  else sgd_momentum(p, n, w, g, buffer);
  flush_end(before);
}

void VEC(momentum)(const vec_sgd *p, int64_t n, const float *restrict g, float *restrict buffer, float *restrict y)
{
  const vec_sgd s = *p;
  unsigned before = flush_begin();
  float own = s.nesterov ? s.grad_scale : 0, share = s.nesterov ? s.momentum : 1;
  for (int64_t i = 0; i < n; i++) {
    float b = s.momentum * buffer[i] + s.grad_scale * g[i];
    buffer[i] = b;
    y[i] = own * g[i] + share * b;
  }
  flush_end(before);
}

void VEC(combine)(int64_t n, float s, const float *a, float t, const float *b, float *y)
{
  for (int64_t i = 0; i < n; i++) y[i] = s * a[i] + t * b[i];
}

INLINE void rmsprop_run(const vec_rmsprop *p, bool momentum, bool centered, int64_t n, float *restrict w,
                        const float *restrict g, float *restrict square, float *restrict buffer,
                        float *restrict mean)
{
  const vec_rmsprop s = *p;
  for (int64_t i = 0; i < n; i++) {
    float slope = g[i] * s.grad_scale + s.weight_decay * w[i];
    float variance = square[i] = s.alpha * square[i] + (1 - s.alpha) * slope * slope;
    if (centered) {
      float average = mean[i] = s.alpha * mean[i] + (1 - s.alpha) * slope;
      variance -= average * average;
    }
    float update = slope / (sqrtf(variance) + s.eps);
    if (momentum) update = buffer[i] = s.momentum * buffer[i] + update;
    w[i] -= s.lr * update;
  }
}

void VEC(rmsprop)(const vec_rmsprop *p, int64_t n, float *w, const float *g, float *square, float *buffer,
                  float *mean)
{
  unsigned before = flush_begin();
  bool momentum = p->momentum != 0;
  if (momentum && p->centered) rmsprop_run(p, true, true, n, w, g, square, buffer, mean);
  else if (momentum) rmsprop_run(p, true, false, n, w, g, square, buffer, mean);
  else if (p->centered) rmsprop_run(p, false, true, n, w, g, square, buffer, mean);
  else rmsprop_run(p, false, false, n, w, g, square, buffer, mean);
  flush_end(before);
}
