/* activation.cu -- activations and their gradients, in one pass each; erf, sine and cosine.
**
** All of these wait for memory. Which one it is, is the same for all threads and is asked once per vector.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/activation.h"

namespace {

#define THREADS 256

/* exp of what is not above 0 cannot overflow. */
__device__ __forceinline__ float sigmoid(float x)
{
  float e = expf(-fabsf(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

/* Comparisons, so that NaN stays. */
__device__ __forceinline__ float between(float x, float lo, float hi)
{
  x = x < lo ? lo : x;
  return x > hi ? hi : x;
}

/* ---- values: p, q are the op's numbers ------------------------------------------------------- */

__device__ __forceinline__ float value_erf(float x, float, float) { return erff(x); }
__device__ __forceinline__ float value_sin(float x, float, float) { return sinf(x); }
__device__ __forceinline__ float value_cos(float x, float, float) { return cosf(x); }
__device__ __forceinline__ float value_silu(float x, float, float) { return x / (1 + expf(-x)); }

/* 0.5 (1 + tanh(u)) is sigmoid(2 u); beyond 12 nothing changes any more, but x^3 may overflow. */
__device__ __forceinline__ float tanh_gate(float x)
{
  x = between(x, -12, 12);
  return sigmoid(1.59576912f * x * (1 + 0.044715f * x * x));
}

__device__ __forceinline__ float value_gelu(float x, float form, float)
{
  return form != 0 ? x * tanh_gate(x) : x * 0.5f * erfcf(-x * 0.70710678f);
}

__device__ __forceinline__ float value_softplus(float x, float beta, float threshold)
{
  float z = beta * x;
  return z > threshold ? x : ((z < 0 ? 0 : z) + log1pf(expf(-fabsf(z)))) / beta;
}

__device__ __forceinline__ float value_leaky_relu(float x, float slope, float) { return x > 0 ? x : slope * x; }
__device__ __forceinline__ float value_elu(float x, float alpha, float) { return x > 0 ? x : alpha * expm1f(x); }
__device__ __forceinline__ float value_hardsigmoid(float x, float, float) { return between(x + 3, 0, 6) / 6; }
__device__ __forceinline__ float value_hardswish(float x, float, float) { return x * (between(x + 3, 0, 6) / 6); }

__device__ __forceinline__ float value_log_sigmoid(float x, float, float)
{
  return (x > 0 ? 0 : x) - log1pf(expf(-fabsf(x)));
}

__device__ __forceinline__ float value_clamp(float x, float lo, float hi) { return between(x, lo, hi); }

/* ---- slopes ---------------------------------------------------------------------------------- */

__device__ __forceinline__ float slope_silu(float x, float, float)
{
  float s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

__device__ __forceinline__ float slope_gelu(float x, float form, float)
{
  float near = between(x, -50, 50), z = between(x, -12, 12);
  if (form == 0) return 0.5f * erfcf(-x * 0.70710678f) + near * expf(-0.5f * near * near) * 0.39894228f;
  float gate = tanh_gate(x);
  return gate + z * gate * (1 - gate) * 1.59576912f * (1 + 0.134145f * z * z);
}

__device__ __forceinline__ float slope_softplus(float x, float beta, float threshold)
{
  return beta * x > threshold ? 1.0f : sigmoid(beta * x);
}

__device__ __forceinline__ float slope_leaky_relu(float x, float slope, float) { return x > 0 ? 1.0f : slope; }
__device__ __forceinline__ float slope_elu(float x, float alpha, float) { return x > 0 ? 1.0f : alpha * expf(x); }
__device__ __forceinline__ float slope_hardsigmoid(float x, float, float) { return x > -3 && x < 3 ? 1.0f / 6 : 0.0f; }

__device__ __forceinline__ float slope_hardswish(float x, float, float)
{
  return x <= -3 ? 0.0f : x < 3 ? x / 3 + 0.5f : x >= 3 ? 1.0f : x;
}

__device__ __forceinline__ float slope_log_sigmoid(float x, float, float) { return sigmoid(-x); }
__device__ __forceinline__ float slope_clamp(float x, float lo, float hi) { return x > lo && x < hi ? 1.0f : 0.0f; }

/* By the result. 1 - y first, which is exact where y is near 1. */
__device__ __forceinline__ float slope_sigmoid(float y, float, float) { return y * (1 - y); }
__device__ __forceinline__ float slope_tanh(float y, float, float) { return (1 - y) * (1 + y); }

/* ---- kernels --------------------------------------------------------------------------------- */

template <class T, int N>
__device__ __forceinline__ cu_pack<T, N> forward_of(const activation_args &a, cu_pack<T, N> x)
{
  switch (a.kind) {
#define CASE(X, op, numbers)                                                                              \
  case KIND_##op:                                                                                         \
    for (int j = 0; j < N; j++) x.v[j] = cu_as<T>(value_##op(cu_float(x.v[j]), a.p, a.q));                \
    break;
    FUNCTION_MAP(CASE, )
    ACTIVATION_MAP(CASE, )
#undef CASE
  default: break;
  }
  return x;
}

template <class T, int N>
__device__ __forceinline__ cu_pack<T, N> backward_of(const activation_args &a, cu_pack<T, N> x, const cu_pack<T, N> &dy)
{
  switch (a.kind) {
#define CASE(X, op, numbers)                                                                                      \
  case KIND_##op:                                                                                                 \
    for (int j = 0; j < N; j++) x.v[j] = cu_as<T>(cu_float(dy.v[j]) * slope_##op(cu_float(x.v[j]), a.p, a.q));    \
    break;
    ACTIVATION_MAP(CASE, )
    SATURATING_MAP(CASE, )
#undef CASE
  default: break;
  }
  return x;
}

/* The index in operand k of an element of the tail; i counts from the loop's start. */
__device__ __forceinline__ int64_t tail_at(const activation_args &a, int k, int64_t i)
{
  return a.loop.stride[k][a.loop.ndim - 1] != 0 ? i : 0;
}

template <class T, int N> __global__ void __launch_bounds__(THREADS) forward(activation_args a)
{
  T *y = (T *)a.out;
  const T *x = (const T *)a.x;
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[2];
    cu_locate<2>(a.loop, i, at);
    cu_store<T, N>(y + at[0], forward_of<T, N>(a, cu_load_step<T, N>(x + at[1], a.loop.stride[1][a.loop.ndim - 1])));
  }
  if (cu_first() < a.tail) {
    int64_t i = a.loop.total * N + cu_first();
    cu_store<T, 1>(y + i, forward_of<T, 1>(a, cu_load<T, 1>(x + tail_at(a, 1, i))));
  }
}

template <class T, int N> __global__ void __launch_bounds__(THREADS) backward(activation_args a)
{
  T *dx = (T *)a.out;
  const T *x = (const T *)a.x, *dy = (const T *)a.dy;
  int64_t step_x = a.loop.stride[1][a.loop.ndim - 1], step_dy = a.loop.stride[2][a.loop.ndim - 1];
  for (int64_t i = cu_first(); i < a.loop.total; i += cu_stride()) {
    int64_t at[3];
    cu_locate<3>(a.loop, i, at);
    cu_store<T, N>(dx + at[0], backward_of<T, N>(a, cu_load_step<T, N>(x + at[1], step_x),
                                                 cu_load_step<T, N>(dy + at[2], step_dy)));
  }
  if (cu_first() < a.tail) {
    int64_t i = a.loop.total * N + cu_first();
    cu_store<T, 1>(dx + i, backward_of<T,
                   1>(a, cu_load<T, 1>(x + tail_at(a, 1, i)), cu_load<T, 1>(dy + tail_at(a, 2, i))));
  }
}

} // namespace

#define SINGLES(kernel) CU_ENTRY(kernel<float, 1>), CU_ENTRY(kernel<cu_f16, 1>), CU_ENTRY(kernel<cu_bf16, 1>)
#define VECTORS(kernel) CU_ENTRY(kernel<float, 4>), CU_ENTRY(kernel<cu_f16, 8>), CU_ENTRY(kernel<cu_bf16, 8>)

CU_TABLE(cu_activation_table, SINGLES(forward), VECTORS(forward), SINGLES(backward), VECTORS(backward))
