/* elementwise.c -- ref kernels of ops that treat every element alike.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "backend/ref/ref.h"
#include "capl/rng.h"

/* one tensor: y = f(x) */

static double relu(double x)
{
  return x > 0 || isnan(x) ? x : 0;
}

static double sigmoid(double x)
{
  return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static double sign(double x)
{
  return (x > 0) - (x < 0);
}

static capl_status map(const capl_call *call, double (*f)(double))
{
  ref_walk w;
  for (REF_WALK(&w, call->out[0], call->in[0]); w.more; ref_walk_next(&w))
    ref_set(call->out[0], w.at[0], f(ref_get(call->in[0], w.at[1])));
  return CAPL_OK;
}

#define MAP_KERNEL(op, f)                                    \
  static capl_status ref_##op(const capl_call *call)         \
  {                                                          \
    return map(call, f);                                     \
  }
MAP_KERNEL(relu, relu)
MAP_KERNEL(exp, exp)
MAP_KERNEL(log, log)
MAP_KERNEL(sqrt, sqrt)
MAP_KERNEL(log1p, log1p)
MAP_KERNEL(floor, floor)
MAP_KERNEL(round, rint)
MAP_KERNEL(abs, fabs)
MAP_KERNEL(sigmoid, sigmoid)
MAP_KERNEL(tanh, tanh)
MAP_KERNEL(sign, sign)

/* In 64 bits, wrapping around. */
static capl_status affine_whole(const capl_call *call, uint64_t scale, uint64_t shift)
{
  ref_walk w;
  for (REF_WALK(&w, call->out[0], call->in[0]); w.more; ref_walk_next(&w))
    ref_set_int(call->out[0], w.at[0], (int64_t)(scale * (uint64_t)ref_get_int(call->in[0], w.at[1]) + shift));
  return CAPL_OK;
}

static capl_status ref_affine(const capl_call *call)
{
  double scale = call->attr[AT(affine, scale)].f, shift = call->attr[AT(affine, shift)].f;
  ref_walk w;
  if (!capl_dtype_is_float(call->out[0]->dtype))
    return affine_whole(call, (uint64_t)(int64_t)scale, (uint64_t)(int64_t)shift);
  for (REF_WALK(&w, call->out[0], call->in[0]); w.more; ref_walk_next(&w))
    ref_set(call->out[0], w.at[0], scale * ref_get(call->in[0], w.at[1]) + shift);
  return CAPL_OK;
}

static capl_status ref_pow(const capl_call *call)
{
  ref_walk w;
  for (REF_WALK(&w, call->out[0], call->in[0]); w.more; ref_walk_next(&w))
    ref_set(call->out[0], w.at[0], pow(ref_get(call->in[0], w.at[1]), call->attr[AT(pow, exponent)].f));
  return CAPL_OK;
}

static capl_status ref_cast(const capl_call *call)
{
  ref_walk w;
  for (REF_WALK(&w, call->out[0], call->in[0]); w.more; ref_walk_next(&w))
    ref_move(call->out[0], w.at[0], call->in[0], w.at[1]);
  return CAPL_OK;
}

/* y, dy -> dx */
static capl_status ref_relu_grad(const capl_call *call)
{
  const capl_tensor *y = call->in[0], *dy = call->in[1];
  ref_walk w;
  for (REF_WALK(&w, call->out[0], y, dy); w.more; ref_walk_next(&w))
    ref_set(call->out[0], w.at[0], ref_get(y, w.at[1]) > 0 ? ref_get(dy, w.at[2]) : 0);
  return CAPL_OK;
}

/* The random word that decides about element i; see the op's doc. */
static uint32_t dropout_word(int64_t i, uint64_t seed, uint64_t offset)
{
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t counter[4] = {(uint32_t)(i / 4), (uint32_t)offset, (uint32_t)(offset >> 32), 0xD20};
  uint32_t block[4];
  capl_philox(key, counter, block);
  return block[i % 4];
}

static capl_status ref_dropout(const capl_call *call)
{
  double p = call->attr[AT(dropout, p)].f, scale = 1 / (1 - p);
  uint64_t seed = (uint64_t)call->attr[AT(dropout, seed)].i, offset = (uint64_t)call->attr[AT(dropout, offset)].i;
  ref_walk w;
  for (REF_WALK(&w, call->out[0], call->in[0]); w.more; ref_walk_next(&w)) {
    bool keep = dropout_word(w.count, seed, offset) >= p * 0x1p32;
    ref_set(call->out[0], w.at[0], keep ? scale * ref_get(call->in[0], w.at[1]) : 0);
  }
  return CAPL_OK;
}

/* two tensors: y = f(a, b), in 64-bit integers where the result is an integer */

static double add(double a, double b) { return a + b; }
static double sub(double a, double b) { return a - b; }
static double mul(double a, double b) { return a * b; }
static double divide(double a, double b) { return a / b; }
static double maximum(double a, double b) { return isnan(a) || a > b ? a : b; }
static double minimum(double a, double b) { return isnan(a) || a < b ? a : b; }

/* Through unsigned, so that overflow wraps around instead of being undefined. */
static int64_t add_int(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t sub_int(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t mul_int(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t maximum_int(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t minimum_int(int64_t a, int64_t b) { return a < b ? a : b; }

/* fmod, with the sign of b. */
static double remainder_of(double a, double b)
{
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t remainder_int(int64_t a, int64_t b)
{
  if (b == 0 || b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

typedef struct {
  double (*real)(double, double);
  int64_t (*whole)(int64_t, int64_t); /* NULL: results are never integers */
} binary_fn;

static bool both_whole(const capl_tensor *a, const capl_tensor *b)
{
  return !capl_dtype_is_float(a->dtype) && !capl_dtype_is_float(b->dtype);
}

static capl_status combine(const capl_call *call, binary_fn f)
{
  const capl_tensor *a = call->in[0], *b = call->in[1];
  capl_tensor *y = call->out[0];
  bool whole = f.whole && both_whole(a, b);
  ref_walk w;
  for (REF_WALK(&w, y, a, b); w.more; ref_walk_next(&w)) {
    if (whole)
      ref_set_int(y, w.at[0], f.whole(ref_get_int(a, w.at[1]), ref_get_int(b, w.at[2])));
    else
      ref_set(y, w.at[0], f.real(ref_get(a, w.at[1]), ref_get(b, w.at[2])));
  }
  return CAPL_OK;
}

#define COMBINE_KERNEL(op, ...)                              \
  static capl_status ref_##op(const capl_call *call)         \
  {                                                          \
    return combine(call, (binary_fn){__VA_ARGS__});          \
  }
COMBINE_KERNEL(add, add, add_int)
COMBINE_KERNEL(sub, sub, sub_int)
COMBINE_KERNEL(mul, mul, mul_int)
COMBINE_KERNEL(div, divide, NULL)
COMBINE_KERNEL(maximum, maximum, maximum_int)
COMBINE_KERNEL(minimum, minimum, minimum_int)
COMBINE_KERNEL(power, pow, NULL)
COMBINE_KERNEL(remainder, remainder_of, remainder_int)

/* comparisons */

#define COMPARE_KERNEL(op, sign)                                                                    \
  static capl_status ref_##op(const capl_call *call)                                                \
  {                                                                                                 \
    const capl_tensor *a = call->in[0], *b = call->in[1];                                           \
    bool whole = both_whole(a, b);                                                                  \
    ref_walk w;                                                                                     \
    for (REF_WALK(&w, call->out[0], a, b); w.more; ref_walk_next(&w))                               \
      ref_set_int(call->out[0], w.at[0],                                                            \
                  whole ? ref_get_int(a, w.at[1]) sign ref_get_int(b, w.at[2])                      \
                        : ref_get(a, w.at[1]) sign ref_get(b, w.at[2]));                            \
    return CAPL_OK;                                                                                 \
  }
COMPARE_KERNEL(eq, ==)
COMPARE_KERNEL(ne, !=)
COMPARE_KERNEL(lt, <)
COMPARE_KERNEL(le, <=)
COMPARE_KERNEL(gt, >)
COMPARE_KERNEL(ge, >=)

static capl_status ref_where(const capl_call *call)
{
  const capl_tensor *condition = call->in[0], *a = call->in[1], *b = call->in[2];
  ref_walk w;
  for (REF_WALK(&w, call->out[0], condition, a, b); w.more; ref_walk_next(&w)) {
    bool yes = ref_get_int(condition, w.at[1]) != 0;
    ref_move(call->out[0], w.at[0], yes ? a : b, yes ? w.at[2] : w.at[3]);
  }
  return CAPL_OK;
}

#define ROW(op) {CAPL_OP_##op, ref_##op, ref_supports_any, 0}
const capl_kernel ref_elementwise_kernels[] = {
  ROW(relu), ROW(relu_grad), ROW(dropout), ROW(add),    ROW(sub),  ROW(mul),     ROW(div),  ROW(maximum),
  ROW(minimum), ROW(affine), ROW(pow),     ROW(exp),    ROW(log),  ROW(sqrt),    ROW(abs),  ROW(sigmoid),
  ROW(tanh), ROW(sign),      ROW(eq),      ROW(ne),     ROW(lt),   ROW(le),      ROW(gt),   ROW(ge),
  ROW(where), ROW(cast),     ROW(log1p),   ROW(floor),  ROW(round), ROW(power),
  ROW(remainder), {0},
};
