/* attention.h -- the attributes of scaled_dot_product_attention and how its tensors are walked, for every backend.
**
** q (...,L,E), k (...,S,E), v (...,S,Ev), mask broadcast to (...,L,S). The dims in front are counted through as one
** number b, in row-major order.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_OPS_ATTENTION_H
#define CAPL_OPS_ATTENTION_H

#include <math.h>

#include "ops/attrs.h"

/* The gradient has the same attributes. */
enum {
  ATTENTION_CAUSAL = AT(scaled_dot_product_attention, is_causal),
  ATTENTION_SCALE = AT(scaled_dot_product_attention, scale),
  ATTENTION_DROPOUT = AT(scaled_dot_product_attention, dropout_p),
  ATTENTION_SEED = AT(scaled_dot_product_attention, seed),
  ATTENTION_OFFSET = AT(scaled_dot_product_attention, offset),
};
enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_MASK };
/* Inputs of the gradient after q, k, v. */
enum { ATTENTION_GRAD_Y = 3, ATTENTION_GRAD_LSE, ATTENTION_GRAD_DY, ATTENTION_GRAD_MASK };

typedef struct {
  int64_t batch, L, S, E, Ev;
  double scale;
} attention_sizes;

static inline attention_sizes attention_sizes_of(const capl_call *call)
{
  const capl_tensor *q = call->in[ATTENTION_Q], *k = call->in[ATTENTION_K], *v = call->in[ATTENTION_V];
  attention_sizes s = {1, q->size[q->ndim - 2], k->size[k->ndim - 2], q->size[q->ndim - 1], v->size[v->ndim - 1],
                       call->attr[ATTENTION_SCALE].f};
  for (int d = 0; d < q->ndim - 2; d++) s.batch *= q->size[d];
  if (s.scale == 0) s.scale = s.E > 0 ? 1 / sqrt((double)s.E) : 1;
  return s;
}

/* Step of t, broadcast to q's number of dims, along dim d of q; 0 where t has one element or no such dim. */
static inline int64_t attention_step(const capl_tensor *t, const capl_tensor *q, int d)
{
  int own = d - (q->ndim - t->ndim);
  return own >= 0 && t->size[own] > 1 ? t->stride[own] : 0;
}

/* Offset in elements of matrix b of t. */
static inline int64_t attention_at(const capl_tensor *t, const capl_tensor *q, int64_t b)
{
  int64_t offset = 0;
  for (int d = q->ndim - 3; d >= 0; d--) {
    offset += b % q->size[d] * attention_step(t, q, d);
    b /= q->size[d];
  }
  return offset;
}

/* Steps along the rows and columns of the matrices of t. */
static inline int64_t attention_row(const capl_tensor *t, const capl_tensor *q)
{
  return attention_step(t, q, q->ndim - 2);
}

static inline int64_t attention_column(const capl_tensor *t, const capl_tensor *q)
{
  return attention_step(t, q, q->ndim - 1);
}

#endif
