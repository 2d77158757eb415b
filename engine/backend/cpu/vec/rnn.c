/* rnn.c -- the cells of lstm and gru: one step of one sequence, and back.
**
** The state goes on as y has it, rounded to y's type: the backward pass finds it there.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/vec/simd.h"

/* e to the power f as scale * (1 + less), scale a power of 2; f is limited to -86 .. 86, NaN stays. */
typedef struct {
  vf scale, less;
} power;

INLINE power power_of(vf f)
{
  vf kept = v_min(v_set(86.0f), v_max(v_set(-86.0f), f)), magic = v_set(12582912.0f); /* as in v_exp */
  vf turns = kept * 1.44269504f + magic, n = turns - magic;
  vf r = kept - n * 0.693359375f + n * 2.12194440e-4f;
  return (power){v_scaled(v_set(1), n, turns), v_exp_quotient(r) * r * r + r};
}

/* A quotient whose division may be shared with another one: of a sigmoid's and a tangent's denominators the product is
** finite and its reciprocal no denormal. */
typedef struct {
  vf up, down;
} quotient;

INLINE quotient sigmoid_of(vf x)
{
  power e = power_of(-x);
  return (quotient){v_set(1), e.scale * e.less + (e.scale + 1.0f)}; /* down: 1 .. 2.3e37 */
}

/* Of e = exp(-2 |x|) only e - 1 is computed: near 0 the quotient keeps its small digits. */
INLINE quotient tangent_of(vf x)
{
  power e = power_of(-2.0f * (vf)((vi)x & 0x7FFFFFFF));
  vf up = (1.0f - e.scale) - e.scale * e.less; /* 1 - exp(-2 |x|) */
  return (quotient){(vf)((vi)up | ((vi)x & (int)0x80000000)), 2.0f - up};
}

INLINE vf value(quotient q)
{
  return q.up / q.down;
}

/* Both values with one division. */
INLINE void values(quotient a, quotient b, vf *x, vf *y)
{
  vf both = 1.0f / (a.down * b.down);
  *x = a.up * (b.down * both);
  *y = b.up * (a.down * both);
}

INLINE vf sigmoid(vf x)
{
  return value(sigmoid_of(x));
}

/* Relative error below 5e-7. */
INLINE vf hyperbolic_tangent(vf x)
{
  return value(tangent_of(x));
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
    vf gate[4], tangent;
    for (int k = 0; k < 4; k++) gate[k] = load(real, p->x, k * H, j, H) + load(F32, p->u, k * H, j, H);
    quotient in = sigmoid_of(gate[0]), forget = sigmoid_of(gate[1]), new = tangent_of(gate[2]);
    quotient out = sigmoid_of(gate[3]);
    values(in, new, &gate[0], &gate[2]);
    gate[1] = value(forget);
    vf c = gate[1] * load(F32, p->c, 0, j, H) + gate[0] * gate[2];
    values(out, tangent_of(c), &gate[3], &tangent);
    vf h = gate[3] * tangent;
    for (int k = 0; p->gates && k < 4; k++) store(real, p->gates, k * H, j, H, gate[k]);
    store(F32, p->c, 0, j, H, c);
    if (p->cells) store(F32, p->cells, 0, j, H, c);
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
    vf gate[4] = {r, z, n, u};
    for (int k = 0; p->gates && k < 4; k++) store(real, p->gates, k * H, j, H, gate[k]);
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
