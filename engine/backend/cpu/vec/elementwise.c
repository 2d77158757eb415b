/* elementwise.c -- runs of elements: arithmetic, activations, dtype conversion, dropout.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/cpu/vec/math.h"

/* ---- two operands ---- */

INLINE vf power_of(vf a, vf b)
{
  float x[VN], y[VN];
  memcpy(x, &a, sizeof x);
  memcpy(y, &b, sizeof y);
  for (int k = 0; k < VN; k++) x[k] = powf(x[k], y[k]);
  return v_load_f32(x);
}

/* fmod, with the sign of b. */
INLINE vf remainder_of(vf a, vf b)
{
  float x[VN], y[VN];
  memcpy(x, &a, sizeof x);
  memcpy(y, &b, sizeof y);
  for (int k = 0; k < VN; k++) x[k] = fmodf(x[k], y[k]);
  vf r = v_load_f32(x);
  return r + v_where((r != (vf){0}) & ((r < (vf){0}) ^ (b < (vf){0})), b);
}

INLINE vf binary_of(vec_binary_kind kind, vf a, vf b)
{
  switch (kind) {
  case VEC_add: return a + b;
  case VEC_sub: return a - b;
  case VEC_mul: return a * b;
  case VEC_div: return a / b;
  case VEC_maximum: return v_select((a > b) | (a != a), a, b); /* NaN wins, as in PyTorch */
  case VEC_minimum: return v_select((a < b) | (a != a), a, b);
  case VEC_relu_grad: return v_where(a > (vf){0}, b); /* a is y */
  case VEC_power: return power_of(a, b);
  case VEC_remainder: return remainder_of(a, b);
  }
  __builtin_unreachable();
}

/* Element i of an operand that moves (step 1) or stands still (step 0). */
INLINE vf operand(capl_dtype real, const void *p, int step, vf still, int64_t i)
{
  return step ? v_load(real, p, i) : still;
}

INLINE void binary_run(vec_binary_kind kind, capl_dtype real, int64_t n, const void *a, int sa, const void *b, int sb,
                       void *y)
{
  vf still_a = v_set(f_load(real, a, 0)), still_b = v_set(f_load(real, b, 0));
  int64_t i = 0;
  for (; i + VN <= n; i += VN)
    v_store(real, y, i, binary_of(kind, operand(real, a, sa, still_a, i), operand(real, b, sb, still_b, i)));
  if (i == n) return;
  vf last_a = sa ? v_load_part(real, a, i, (int)(n - i)) : still_a;
  vf last_b = sb ? v_load_part(real, b, i, (int)(n - i)) : still_b;
  v_store_part(real, y, i, binary_of(kind, last_a, last_b), (int)(n - i));
}

INLINE void binary_steps(vec_binary_kind kind, capl_dtype real, int64_t n, const void *a, int sa, const void *b,
                         int sb, void *y)
{
  if (sa && sb) binary_run(kind, real, n, a, 1, b, 1, y);
  else if (sa) binary_run(kind, real, n, a, 1, b, 0, y);
  else binary_run(kind, real, n, a, 0, b, sb, y);
}

void VEC(binary)(vec_binary_kind kind, capl_dtype real, int64_t n, const void *a, int sa, const void *b, int sb,
                 void *y)
{
#define CASE(op, ...)                                                                 \
  case VEC_##op:                                                                      \
    if (real == CAPL_BF16) binary_steps(VEC_##op, CAPL_BF16, n, a, sa, b, sb, y);     \
    else binary_steps(VEC_##op, CAPL_F32, n, a, sa, b, sb, y);                        \
    break;
  switch (kind) { VEC_BINARY_MAP(CASE) }
#undef CASE
}

/* ---- comparisons ---- */

INLINE vi compare_of(vec_compare_kind kind, vf a, vf b)
{
  switch (kind) {
  case VEC_eq: return a == b;
  case VEC_ne: return a != b;
  case VEC_lt: return a < b;
  case VEC_le: return a <= b;
  case VEC_gt: return a > b;
  default: return a >= b; /* VEC_ge */
  }
}

INLINE void compare_run(vec_compare_kind kind, capl_dtype real, int64_t n, const void *a, int sa, const void *b,
                        int sb, uint8_t *y)
{
  vf still_a = v_set(f_load(real, a, 0)), still_b = v_set(f_load(real, b, 0));
  for (int64_t i = 0; i < n; i += VN) {
    int part = n - i < VN ? (int)(n - i) : VN;
    vi yes = compare_of(kind, sa ? v_load_part(real, a, i, part) : still_a,
                        sb ? v_load_part(real, b, i, part) : still_b);
    for (int k = 0; k < part; k++) y[i + k] = yes[k] != 0;
  }
}

void VEC(compare)(vec_compare_kind kind, capl_dtype real, int64_t n, const void *a, int sa, const void *b, int sb,
                  uint8_t *y)
{
  if (real == CAPL_BF16) compare_run(kind, CAPL_BF16, n, a, sa, b, sb, y);
  else compare_run(kind, CAPL_F32, n, a, sa, b, sb, y);
}

/* ---- one operand ---- */

/* Lanes through libm: the rare functions. */
INLINE vf each(float (*f)(float), vf x)
{
  float lane[VN];
  memcpy(lane, &x, sizeof lane);
  for (int k = 0; k < VN; k++) lane[k] = f(lane[k]);
  return v_load_f32(lane);
}

INLINE vf pow_of(vf x, float exponent)
{
  float lane[VN];
  if (exponent == 2) return x * x;
  memcpy(lane, &x, sizeof lane);
  for (int k = 0; k < VN; k++) lane[k] = powf(lane[k], exponent);
  return v_load_f32(lane);
}

/* -1, 0 or 1; NaN stays NaN */
INLINE vf sign_of(vf x)
{
  vf one = v_set(1), y = v_where(x > (vf){0}, one) - v_where(x < (vf){0}, one);
  return v_select(x != x, x, y);
}

INLINE vf unary_of(vec_unary_kind kind, vf x, vf scale, vf shift)
{
  switch (kind) {
  case VEC_relu: return v_relu(x);
  case VEC_affine: return x * scale + shift;
  case VEC_pow: return pow_of(x, scale[0]);
  case VEC_exp: return v_exp(x);
  case VEC_log: return v_log(x);
  case VEC_sqrt: return each(sqrtf, x);
  case VEC_abs: return v_abs(x);
  case VEC_sign: return sign_of(x);
  case VEC_sigmoid: return v_sigmoid(x);
  case VEC_log1p: return each(log1pf, x);
  case VEC_floor: return each(floorf, x);
  case VEC_round: return each(rintf, x);
  default: return v_tanh(x); /* VEC_tanh */
  }
}

INLINE void unary_run(vec_unary_kind kind, capl_dtype real, int64_t n, const void *x, void *y, float scale,
                      float shift)
{
  vf s = v_set(scale), t = v_set(shift);
  int64_t i = 0;
  for (; i + VN <= n; i += VN) v_store(real, y, i, unary_of(kind, v_load(real, x, i), s, t));
  if (i < n) v_store_part(real, y, i, unary_of(kind, v_load_part(real, x, i, (int)(n - i)), s, t), (int)(n - i));
}

void VEC(unary)(vec_unary_kind kind, capl_dtype real, int64_t n, const void *x, void *y, float scale, float shift)
{
#define CASE(op)                                                                  \
  case VEC_##op:                                                                  \
    if (real == CAPL_BF16) unary_run(VEC_##op, CAPL_BF16, n, x, y, scale, shift); \
    else unary_run(VEC_##op, CAPL_F32, n, x, y, scale, shift);                    \
    break;
  switch (kind) { VEC_UNARY_MAP(CASE) }
#undef CASE
}

/* ---- dtypes ---- */

void VEC(to_bf16)(int64_t n, const float *x, uint16_t *y)
{
  int64_t i = 0;
  for (; i + VN <= n; i += VN) v_store(CAPL_BF16, y, i, v_load_f32(x + i));
  for (; i < n; i++) y[i] = capl_bf16_from_float(x[i]);
}

void VEC(to_f32)(int64_t n, const uint16_t *x, float *y)
{
  int64_t i = 0;
  for (; i + VN <= n; i += VN) v_store(CAPL_F32, y, i, v_load_bf16(x + i));
  for (; i < n; i++) y[i] = capl_bf16_to_float(x[i]);
}

/* ---- dropout ---- */

enum { BLOCKS = 16, PARTS = BLOCKS / VN }; /* Philox blocks side by side: 64 words */

/* Both halves of f * x: products of every second lane are as wide as two. In its generic form a dropout took five
** times as long. */
INLINE void wide_product(uint32_t f, vu x, vu *low, vu *high)
{
#if defined(__AVX512F__)
  __m512i factor = _mm512_set1_epi32((int)f), even = _mm512_mul_epu32((__m512i)x, factor),
          odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)x, 32), factor);
  *low = (vu)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  *high = (vu)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
#elif defined(__AVX2__)
  __m256i factor = _mm256_set1_epi32((int)f), even = _mm256_mul_epu32((__m256i)x, factor),
          odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)x, 32), factor);
  *low = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  *high = (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
#else
  for (int k = 0; k < VN; k++) {
    uint64_t product = (uint64_t)f * x[k];
    (*low)[k] = (uint32_t)product;
    (*high)[k] = (uint32_t)(product >> 32);
  }
#endif
}

/* Words of blocks first .. first + BLOCKS - 1 (Philox4x32-10, ops.def's counter), a block a lane. */
INLINE void philox_words(const vec_dropout *p, uint64_t first, uint32_t words[4 * BLOCKS])
{
  uint32_t out[4][BLOCKS], number[VN];
  for (int part = 0; part < PARTS; part++) {
    uint32_t k0 = p->key[0], k1 = p->key[1];
    vu c0, c1 = (vu){0} + p->word1, c2 = (vu){0} + p->word2, c3 = (vu){0} + 0xD20u;
    for (int b = 0; b < VN; b++) number[b] = (uint32_t)(first + (uint64_t)(part * VN + b));
    memcpy(&c0, number, sizeof c0);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      vu low, high, low2, high2;
      wide_product(0xD2511F53u, c0, &low, &high);
      wide_product(0xCD9E8D57u, c2, &low2, &high2);
      c0 = high2 ^ c1 ^ k0;
      c1 = low2;
      c2 = high ^ c3 ^ k1;
      c3 = low;
    }
    const vu *c[4] = {&c0, &c1, &c2, &c3};
    for (int w = 0; w < 4; w++) memcpy(out[w] + part * VN, c[w], sizeof c0);
  }
  for (int b = 0; b < BLOCKS; b++)
    for (int w = 0; w < 4; w++) words[4 * b + w] = out[w][b];
}

/* Elements [i, end), whose words begin at *words. */
INLINE void dropout_some(const vec_dropout *p, const capl_dtype real, int64_t i, int64_t end, const uint32_t *words,
                         const void *x, void *y)
{
  for (; i + VN <= end; i += VN, words += VN) {
    vu word;
    memcpy(&word, words, sizeof word);
    v_store(real, y, i, v_where((vi)(word >= p->threshold), v_load(real, x, i) * p->scale));
  }
  for (; i < end; i++) f_store(real, y, i, *words++ >= p->threshold ? f_load(real, x, i) * p->scale : 0);
}

INLINE void dropout_of(const vec_dropout *p, const capl_dtype real, int64_t first, int64_t n, const void *x, void *y)
{
  uint32_t words[4 * BLOCKS];
  for (int64_t i = 0, end; i < n; i = end) {
    int place = (int)((first + i) % (4 * BLOCKS));
    philox_words(p, (uint64_t)(first + i - place) / 4, words);
    end = i + 4 * BLOCKS - place < n ? i + 4 * BLOCKS - place : n;
    dropout_some(p, real, i, end, words + place, x, y);
  }
}

void VEC(dropout)(const vec_dropout *p, capl_dtype real, int64_t first, int64_t n, const void *x, void *y)
{
  if (real == CAPL_BF16) dropout_of(p, CAPL_BF16, first, n, x, y);
  else dropout_of(p, CAPL_F32, first, n, x, y);
}
