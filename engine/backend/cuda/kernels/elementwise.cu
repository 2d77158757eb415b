/* elementwise.cu -- arithmetic element by element, dtype conversion, dropout.
**
** All of these wait for memory: 2 or 3 times the bytes of the tensor. Which operation it is, is the same for all
** threads and is asked once per vector, which costs a few of the ~200 instructions that a vector has time for.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/elementwise.h"

#include "backend/cuda/kernels/any.h"

namespace {

/* Blocks of THREADS that a multiprocessor holds if they are thrifty with registers. Kernels with one stream to read
** want all of them, to have enough loads under way; those with two can do with fewer and keep more in registers. */
#define THREADS 256
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
#define ALL_BLOCKS 8
#elif __CUDA_ARCH__ == 750
#define ALL_BLOCKS 4
#else
#define ALL_BLOCKS 6
#endif
#define ONE_STREAM __launch_bounds__(THREADS, ALL_BLOCKS)
#define TWO_STREAMS __launch_bounds__(THREADS, ALL_BLOCKS * 3 / 4)

/* The index in operand k of an element of the tail; i counts from the loop's start. */
template <class A> __device__ __forceinline__ int64_t tail_at(const A &a, int k, int64_t i)
{
  return a.loop.stride[k][a.loop.ndim - 1] != 0 ? i : 0;
}

/* ---- one operand ----------------------------------------------------------------------------- */

template <class R> __device__ __forceinline__ R unary_relu(R x, R, R) { return x > 0 || x != x ? x : (R)0; }
template <class R> __device__ __forceinline__ R unary_affine(R x, R scale, R shift) { return scale * x + shift; }
template <class R> __device__ __forceinline__ R unary_abs(R x, R, R) { return fabs(x); }
template <class R> __device__ __forceinline__ R unary_sign(R x, R, R) { return (R)((x > 0) - (x < 0)); }
__device__ __forceinline__ float unary_pow(float x, float exponent, float) { return powf(x, exponent); }
__device__ __forceinline__ float unary_exp(float x, float, float) { return expf(x); }
__device__ __forceinline__ float unary_log(float x, float, float) { return logf(x); }
__device__ __forceinline__ float unary_sqrt(float x, float, float) { return sqrtf(x); }
__device__ __forceinline__ float unary_log1p(float x, float, float) { return log1pf(x); }
__device__ __forceinline__ float unary_floor(float x, float, float) { return floorf(x); }
__device__ __forceinline__ float unary_round(float x, float, float) { return rintf(x); }
__device__ __forceinline__ float unary_tanh(float x, float, float) { return tanhf(x); }

/* exp of what is not above 0 cannot overflow. */
__device__ __forceinline__ float unary_sigmoid(float x, float, float)
{
  float e = expf(-fabsf(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

template <class T, int N>
__device__ __forceinline__ cu_pack<T, N> unary_of(const unary_args &a, cu_pack<T, N> pack)
{
  float scale = (float)a.scale, shift = (float)a.shift;
  switch (a.op) {
#define X(op)                                                                                              \
  case UNARY_##op:                                                                                         \
    for (int j = 0; j < N; j++) pack.v[j] = cu_as<T>(unary_##op(cu_float(pack.v[j]), scale, shift));       \
    break;
    UNARY_MAP(X)
#undef X
  default: break;
  }
  return pack;
}

template <class T, int N> __global__ void ONE_STREAM unary(unary_args a)
{
  T *y = (T *)a.y;
  const T *x = (const T *)a.x;
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[2];
    cu_locate<2>(a.loop, i, at);
    cu_store<T, N>(y + at[0], unary_of<T, N>(a, cu_load_step<T, N>(x + at[1], a.loop.stride[1][a.loop.ndim - 1])));
  }
  if (cu_first() < a.tail) {
    int64_t i = a.loop.total * N + cu_first();
    cu_store<T, 1>(y + i, unary_of<T, 1>(a, cu_load<T, 1>(x + tail_at(a, 1, i))));
  }
}

/* In 64 bits, wrapping around. */
static __device__ __forceinline__ int64_t affine_whole(const unary_args &a, int64_t x)
{
  return (int64_t)((uint64_t)(int64_t)a.scale * (uint64_t)x + (uint64_t)(int64_t)a.shift);
}

/* Integers: the ops that have a meaning for them. */
__global__ void unary_any(unary_args a)
{
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[2];
    cu_locate<2>(a.loop, i, at);
    if (a.op == UNARY_affine && cu_is_whole(a.to)) {
      cu_set_whole(a.to, a.y, at[0], affine_whole(a, cu_get_whole(a.from, a.x, at[1])));
      continue;
    }
    double x = cu_get_real(a.from, a.x, at[1]);
    switch (a.op) {
    case UNARY_relu: x = unary_relu(x, a.scale, a.shift); break;
    case UNARY_affine: x = unary_affine(x, a.scale, a.shift); break;
    case UNARY_abs: x = unary_abs(x, a.scale, a.shift); break;
    case UNARY_sign: x = unary_sign(x, a.scale, a.shift); break;
    default: break;
    }
    cu_set_real(a.to, a.y, at[0], x);
  }
}

/* ---- two operands ---------------------------------------------------------------------------- */

template <class R> __device__ __forceinline__ R binary_add(R a, R b) { return a + b; }
template <class R> __device__ __forceinline__ R binary_sub(R a, R b) { return a - b; }
template <class R> __device__ __forceinline__ R binary_mul(R a, R b) { return a * b; }
template <class R> __device__ __forceinline__ R binary_div(R a, R b) { return a / b; }
template <class R> __device__ __forceinline__ R binary_maximum(R a, R b) { return a != a || a > b ? a : b; }
template <class R> __device__ __forceinline__ R binary_minimum(R a, R b) { return a != a || a < b ? a : b; }
template <class R> __device__ __forceinline__ R binary_power(R a, R b) { return (R)pow(a, b); }
/* fmod, with the sign of b. */
template <class R> __device__ __forceinline__ R binary_remainder(R a, R b)
{
  R r = (R)fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class R> __device__ __forceinline__ R binary_relu_grad(R y, R dy) { return y > 0 ? dy : (R)0; }

template <class T, int N>
__device__ __forceinline__ cu_pack<T, N> binary_of(int which, const cu_pack<T, N> &a, const cu_pack<T, N> &b)
{
  cu_pack<T, N> y;
  switch (which) {
#define X(op, inputs)                                                                                      \
  case BINARY_##op:                                                                                        \
    for (int j = 0; j < N; j++) y.v[j] = cu_as<T>(binary_##op(cu_float(a.v[j]), cu_float(b.v[j])));        \
    break;
    BINARY_MAP(X)
#undef X
  default: y = a; break;
  }
  return y;
}

template <class T, int N> __global__ void TWO_STREAMS binary(binary_args g)
{
  T *y = (T *)g.y;
  const T *a = (const T *)g.a, *b = (const T *)g.b;
  int64_t step_a = g.loop.stride[1][g.loop.ndim - 1], step_b = g.loop.stride[2][g.loop.ndim - 1];
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[3];
    cu_locate<3>(g.loop, i, at);
    cu_store<T, N>(y + at[0], binary_of<T, N>(g.op, cu_load_step<T, N>(a + at[1], step_a),
                                              cu_load_step<T, N>(b + at[2], step_b)));
  }
  if (cu_first() < g.tail) {
    int64_t i = g.loop.total * N + cu_first();
    cu_store<T, 1>(y + i, binary_of<T,
                   1>(g.op, cu_load<T, 1>(a + tail_at(g, 1, i)), cu_load<T, 1>(b + tail_at(g, 2, i))));
  }
}

__device__ __forceinline__ double binary_real(int which, double a, double b)
{
  switch (which) {
#define X(op, inputs) case BINARY_##op: return binary_##op(a, b);
    BINARY_MAP(X)
#undef X
  default: return a;
  }
}

__device__ __forceinline__ int64_t remainder_whole(int64_t a, int64_t b)
{
  if (b == 0 || b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Through unsigned, so that overflow wraps around. Quotients are never whole. */
__device__ __forceinline__ int64_t binary_whole(int which, int64_t a, int64_t b)
{
  switch (which) {
  case BINARY_add: return (int64_t)((uint64_t)a + (uint64_t)b);
  case BINARY_sub: return (int64_t)((uint64_t)a - (uint64_t)b);
  case BINARY_mul: return (int64_t)((uint64_t)a * (uint64_t)b);
  case BINARY_maximum: return a > b ? a : b;
  case BINARY_minimum: return a < b ? a : b;
  case BINARY_relu_grad: return a > 0 ? b : 0;
  case BINARY_remainder: return remainder_whole(a, b);
  default: return a;
  }
}

__global__ void binary_any(binary_args g)
{
  bool whole = cu_is_whole(g.da) && cu_is_whole(g.db) && g.op != BINARY_div;
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[3];
    cu_locate<3>(g.loop, i, at);
    if (whole)
      cu_set_whole(g.to, g.y, at[0],
                   binary_whole(g.op, cu_get_whole(g.da, g.a, at[1]), cu_get_whole(g.db, g.b, at[2])));
    else
      cu_set_real(g.to, g.y, at[0], binary_real(g.op, cu_get_real(g.da, g.a, at[1]), cu_get_real(g.db, g.b, at[2])));
  }
}

/* ---- comparisons ----------------------------------------------------------------------------- */

template <class R> __device__ __forceinline__ bool compare_eq(R a, R b) { return a == b; }
template <class R> __device__ __forceinline__ bool compare_ne(R a, R b) { return a != b; }
template <class R> __device__ __forceinline__ bool compare_lt(R a, R b) { return a < b; }
template <class R> __device__ __forceinline__ bool compare_le(R a, R b) { return a <= b; }
template <class R> __device__ __forceinline__ bool compare_gt(R a, R b) { return a > b; }
template <class R> __device__ __forceinline__ bool compare_ge(R a, R b) { return a >= b; }

template <class T, int N>
__device__ __forceinline__ cu_pack<uint8_t, N> compare_of(int which, const cu_pack<T, N> &a, const cu_pack<T, N> &b)
{
  cu_pack<uint8_t, N> y;
  switch (which) {
#define X(op)                                                                                              \
  case COMPARE_##op:                                                                                       \
    for (int j = 0; j < N; j++) y.v[j] = compare_##op(cu_float(a.v[j]), cu_float(b.v[j]));                 \
    break;
    COMPARE_MAP(X)
#undef X
  default: break;
  }
  return y;
}

template <class T, int N> __global__ void compare(binary_args g)
{
  uint8_t *y = (uint8_t *)g.y;
  const T *a = (const T *)g.a, *b = (const T *)g.b;
  int64_t step_a = g.loop.stride[1][g.loop.ndim - 1], step_b = g.loop.stride[2][g.loop.ndim - 1];
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[3];
    cu_locate<3>(g.loop, i, at);
    cu_store<uint8_t, N>(y + at[0], compare_of<T, N>(g.op, cu_load_step<T, N>(a + at[1], step_a),
                                                     cu_load_step<T, N>(b + at[2], step_b)));
  }
  if (cu_first() < g.tail) {
    int64_t i = g.loop.total * N + cu_first();
    cu_store<uint8_t, 1>(y + i, compare_of<T, 1>(g.op, cu_load<T, 1>(a + tail_at(g, 1, i)),
                                                 cu_load<T, 1>(b + tail_at(g, 2, i))));
  }
}

template <class R> __device__ __forceinline__ bool compare_values(int which, R a, R b)
{
  switch (which) {
#define X(op) case COMPARE_##op: return compare_##op(a, b);
    COMPARE_MAP(X)
#undef X
  default: return false;
  }
}

__global__ void compare_any(binary_args g)
{
  bool whole = cu_is_whole(g.da) && cu_is_whole(g.db);
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[3];
    cu_locate<3>(g.loop, i, at);
    ((uint8_t *)g.y)[at[0]] =
      whole ? compare_values(g.op, cu_get_whole(g.da, g.a, at[1]), cu_get_whole(g.db, g.b, at[2]))
            : compare_values(g.op, cu_get_real(g.da, g.a, at[1]), cu_get_real(g.db, g.b, at[2]));
  }
}

/* ---- where ----------------------------------------------------------------------------------- */

template <class U, int N> __global__ void TWO_STREAMS where(where_args g)
{
  U *y = (U *)g.y;
  const uint8_t *condition = (const uint8_t *)g.condition;
  const U *a = (const U *)g.a, *b = (const U *)g.b;
  int last = g.loop.ndim - 1;
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[4];
    cu_locate<4>(g.loop, i, at);
    cu_pack<uint8_t, N> c = cu_load_step<uint8_t, N>(condition + at[1], g.loop.stride[1][last]);
    cu_pack<U, N> p = cu_load_step<U, N>(a + at[2], g.loop.stride[2][last]);
    cu_pack<U, N> q = cu_load_step<U, N>(b + at[3], g.loop.stride[3][last]);
    for (int j = 0; j < N; j++) p.v[j] = c.v[j] ? p.v[j] : q.v[j];
    cu_store<U, N>(y + at[0], p);
  }
  if (cu_first() < g.tail) {
    int64_t i = g.loop.total * N + cu_first();
    y[i] = condition[tail_at(g, 1, i)] ? a[tail_at(g, 2, i)] : b[tail_at(g, 3, i)];
  }
}

__global__ void where_any(where_args g)
{
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[4];
    cu_locate<4>(g.loop, i, at);
    if (((const uint8_t *)g.condition)[at[1]]) cu_move(g.to, g.y, at[0], g.da, g.a, at[2]);
    else cu_move(g.to, g.y, at[0], g.db, g.b, at[3]);
  }
}

/* ---- conversions ----------------------------------------------------------------------------- */

__global__ void move_any(cast_args g)
{
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[2];
    cu_locate<2>(g.loop, i, at);
    cu_move(g.to, g.y, at[0], g.from, g.x, at[1]);
  }
}

/* Exact or rounded once; i64 first becomes double, as everywhere. */
template <class T> __device__ __forceinline__ float to_float(T v) { return cu_float(v); }
template <> __device__ __forceinline__ float to_float(uint8_t v) { return (float)v; }
template <> __device__ __forceinline__ float to_float(int32_t v) { return (float)v; }
template <> __device__ __forceinline__ float to_float(int64_t v) { return (float)(double)v; }

template <class To, class From> __global__ void ONE_STREAM cast(cast_args g)
{
  To *y = (To *)g.y;
  const From *x = (const From *)g.x;
  for (int64_t i = cu_first(); i < g.loop.total; i += cu_stride()) {
    int64_t at[2];
    cu_locate<2>(g.loop, i, at);
    cu_pack<From, CAST_VECTOR> from = cu_load_step<From, CAST_VECTOR>(x + at[1], g.loop.stride[1][g.loop.ndim - 1]);
    cu_pack<To, CAST_VECTOR> to;
    for (int j = 0; j < CAST_VECTOR; j++) to.v[j] = cu_as<To>(to_float(from.v[j]));
    cu_store<To, CAST_VECTOR>(y + at[0], to);
  }
  if (cu_first() < g.tail) {
    int64_t i = g.loop.total * CAST_VECTOR + cu_first();
    y[i] = cu_as<To>(to_float(x[tail_at(g, 1, i)]));
  }
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* The four random words of elements 4 * block ... 4 * block + 3. */
__device__ __forceinline__ void dropout_words(const dropout_args &a, int64_t block, uint32_t *words)
{
  uint64_t offset = a.offset + (uint64_t)*a.delta;
  cu_philox(a.seed, (uint32_t)block, (uint32_t)offset, (uint32_t)(offset >> 32), 0xD20, words);
}

template <class T> __device__ __forceinline__ T dropped(const dropout_args &a, uint32_t word, T x)
{
  return cu_as<T>(word >= a.limit ? a.scale * cu_float(x) : 0.0f);
}

/* Any strides: a block of random words for every element. */
template <class T> __global__ void TWO_STREAMS dropout(dropout_args a)
{
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[3];
    uint32_t words[4];
    cu_locate<3>(a.loop, i, at);
    dropout_words(a, at[2] / 4, words);
    int k = (int)(at[2] % 4);
    uint32_t word = k == 0 ? words[0] : k == 1 ? words[1] : k == 2 ? words[2] : words[3];
    ((T *)a.y)[at[0]] = dropped(a, word, ((const T *)a.x)[at[1]]);
  }
}

/* Memory in logical order: a block of random words for four neighbours. */
template <class T> __global__ void TWO_STREAMS dropout_row(dropout_args a)
{
  T *y = (T *)a.y;
  const T *x = (const T *)a.x;
  uint32_t words[4];
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    cu_pack<T, DROPOUT_VECTOR> pack = cu_load<T, DROPOUT_VECTOR>(x + 4 * i);
    dropout_words(a, i, words);
    for (int j = 0; j < 4; j++) pack.v[j] = dropped(a, words[j], pack.v[j]);
    cu_store<T, DROPOUT_VECTOR>(y + 4 * i, pack);
  }
  if (cu_first() < a.tail) {
    int64_t i = 4 * a.loop.total + cu_first();
    dropout_words(a, a.loop.total, words);
    y[i] = dropped(a, words[cu_first()], x[i]);
  }
}

} // namespace

#define SINGLES(kernel) CU_ENTRY(kernel<float, 1>), CU_ENTRY(kernel<cu_f16, 1>), CU_ENTRY(kernel<cu_bf16, 1>)
#define VECTORS(kernel) CU_ENTRY(kernel<float, 4>), CU_ENTRY(kernel<cu_f16, 8>), CU_ENTRY(kernel<cu_bf16, 8>)
#define CASTS(to)                                                                                         \
  CU_ENTRY(cast<to, float>), CU_ENTRY(cast<to, cu_f16>), CU_ENTRY(cast<to, cu_bf16>), CU_ENTRY(cast<to, uint8_t>), \
    CU_ENTRY(cast<to, int32_t>), CU_ENTRY(cast<to, int64_t>)

CU_TABLE(cu_elementwise_table, SINGLES(unary), VECTORS(unary), SINGLES(binary), VECTORS(binary), SINGLES(compare),
         VECTORS(compare), CU_FLOATS(dropout), CU_FLOATS(dropout_row), CU_ENTRY(unary_any), CU_ENTRY(binary_any),
         CU_ENTRY(compare_any), CU_ENTRY(where_any), CU_ENTRY(move_any), CU_ENTRY(where<uint8_t, 1>),
         CU_ENTRY(where<uint16_t, 1>), CU_ENTRY(where<uint32_t, 1>), CU_ENTRY(where<uint64_t, 1>),
         CU_ENTRY(where<uint8_t, 16>), CU_ENTRY(where<uint16_t, 8>), CU_ENTRY(where<uint32_t, 4>),
         CU_ENTRY(where<uint64_t, 2>), CASTS(float), CASTS(cu_f16), CASTS(cu_bf16))
