/* rnn.c -- the cells of lstm and gru: one step of one sequence, and back.
**
** The state goes on as y has it, rounded to y's type: the backward pass finds it there.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/simd.h"

INLINE vf sigmoid(vf x)
{
  return 1.0f / (1.0f + v_exp(-x));
}

/* Relative error below 5e-7. Near 0 a series: the quotient would lose the small digits. */
INLINE vf hyperbolic_tangent(vf x)
{
  vf size = (vf)((vi)x & 0x7FFFFFFF), e = v_exp(-2.0f * size), quotient = (1.0f - e) / (1.0f + e), s = x * x;
  vf series = ((((-8.8632355e-3f * s + 2.1869489e-2f) * s - 5.3968254e-2f) * s + 1.3333333e-1f) * s
               - 3.3333333e-1f) * s;
  vf far = (vf)((vi)quotient | ((vi)x & (int)0x80000000));
  return v_select(size < v_set(0.35f), x + x * series, far);
}

/* Element i and up of a part of `hidden` values that begins at `start`. */
INLINE vf load(capl_dtype real, const void *p, int64_t start, int64_t i, int64_t hidden)
{
  if (i + VN <= hidden) return v_load(real, p, start + i);
  return v_load_part(real, p, start + i, (int)(hidden - i));
}

INLINE void store(capl_dtype real, void *p, int64_t start, int64_t i, int64_t hidden, vf f)
{
  if (i + VN <= hidden) v_store(real, p, start + i, f);
  else v_store_part(real, p, start + i, f, (int)(hidden - i));
}

#define F32 CAPL_F32

/* ---- lstm: i, f, g, o ---- */

INLINE void lstm_of(capl_dtype real, const vec_rnn *p)
{
  int64_t H = p->hidden;
  for (int64_t j = 0; j < H; j += VN) {
    vf gate[4];
    for (int k = 0; k < 4; k++) gate[k] = load(real, p->x, k * H, j, H) + load(F32, p->u, k * H, j, H);
    for (int k = 0; k < 4; k++) {
      gate[k] = k == 2 ? hyperbolic_tangent(gate[k]) : sigmoid(gate[k]);
      store(real, p->gates, k * H, j, H, gate[k]);
    }
    vf c = gate[1] * load(F32, p->c, 0, j, H) + gate[0] * gate[2];
    vf h = gate[3] * hyperbolic_tangent(c);
    store(F32, p->c, 0, j, H, c);
    store(F32, p->cells, 0, j, H, c);
    store(real, p->y, 0, j, H, h);
    store(F32, p->h, 0, j, H, load(real, p->y, 0, j, H));
  }
}

void VEC(lstm_cell)(const vec_rnn *p)
{
  if (p->real == CAPL_BF16) lstm_of(CAPL_BF16, p);
  else lstm_of(CAPL_F32, p);
}

INLINE void lstm_grad_of(capl_dtype real, const vec_rnn_grad *p)
{
  int64_t H = p->hidden;
  for (int64_t j = 0; j < H; j += VN) {
    vf i = load(real, p->gates, 0, j, H), f = load(real, p->gates, H, j, H), g = load(real, p->gates, 2 * H, j, H),
       o = load(real, p->gates, 3 * H, j, H), c = hyperbolic_tangent(load(F32, p->cells, 0, j, H));
    vf dh = load(F32, p->dh, 0, j, H), before = p->before ? load(F32, p->before, 0, j, H) : (vf){0};
    if (p->dy) dh += load(F32, p->dy, 0, j, H);
    vf dc = load(F32, p->dc, 0, j, H) + dh * o * (1.0f - c * c);
    vf slope[4] = {dc * g * i * (1.0f - i), dc * before * f * (1.0f - f), dc * i * (1.0f - g * g),
                   dh * c * o * (1.0f - o)};
    for (int k = 0; k < 4; k++) {
      store(F32, p->du, k * H, j, H, slope[k]);
      store(real, p->dx, k * H, j, H, slope[k]);
    }
    store(F32, p->dc, 0, j, H, dc * f);
  }
}

void VEC(lstm_cell_grad)(const vec_rnn_grad *p)
{
  if (p->real == CAPL_BF16) lstm_grad_of(CAPL_BF16, p);
  else lstm_grad_of(CAPL_F32, p);
}

/* ---- gru: r, z, n, and what r is multiplied with ---- */

INLINE void gru_of(capl_dtype real, const vec_rnn *p)
{
  int64_t H = p->hidden;
  for (int64_t j = 0; j < H; j += VN) {
    vf u = load(F32, p->u, 2 * H, j, H);
    vf r = sigmoid(load(real, p->x, 0, j, H) + load(F32, p->u, 0, j, H));
    vf z = sigmoid(load(real, p->x, H, j, H) + load(F32, p->u, H, j, H));
    vf n = hyperbolic_tangent(load(real, p->x, 2 * H, j, H) + r * u);
    vf h = n + z * (load(F32, p->h, 0, j, H) - n);
    store(real, p->gates, 0, j, H, r);
    store(real, p->gates, H, j, H, z);
    store(real, p->gates, 2 * H, j, H, n);
    store(real, p->gates, 3 * H, j, H, u);
    store(real, p->y, 0, j, H, h);
    store(F32, p->h, 0, j, H, load(real, p->y, 0, j, H));
  }
}

void VEC(gru_cell)(const vec_rnn *p)
{
  if (p->real == CAPL_BF16) gru_of(CAPL_BF16, p);
  else gru_of(CAPL_F32, p);
}

INLINE void gru_grad_of(capl_dtype real, const vec_rnn_grad *p)
{
  int64_t H = p->hidden;
  for (int64_t j = 0; j < H; j += VN) {
    vf r = load(real, p->gates, 0, j, H), z = load(real, p->gates, H, j, H), n = load(real, p->gates, 2 * H, j, H),
       u = load(real, p->gates, 3 * H, j, H);
    vf dh = load(F32, p->dh, 0, j, H);
    if (p->dy) dh += load(F32, p->dy, 0, j, H);
    vf dn = dh * (1.0f - z) * (1.0f - n * n);
    vf slope[3] = {dn * u * r * (1.0f - r), dh * (load(F32, p->before, 0, j, H) - n) * z * (1.0f - z), dn};
    for (int k = 0; k < 3; k++) {
      store(F32, p->du, k * H, j, H, k == 2 ? dn * r : slope[k]);
      store(real, p->dx, k * H, j, H, slope[k]);
    }
    store(F32, p->dh, 0, j, H, dh * z);
  }
}

void VEC(gru_cell_grad)(const vec_rnn_grad *p)
{
  if (p->real == CAPL_BF16) gru_grad_of(CAPL_BF16, p);
  else gru_grad_of(CAPL_F32, p);
}
