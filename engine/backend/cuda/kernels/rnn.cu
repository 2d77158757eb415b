/* rnn.cu -- lstm and gru: one step of all sequences in both directions, and back; a thread per element of the state.
**
** Sums and cells are f32; h goes on as y has it, rounded to y's type. Behind the end of a sequence rows are zeros.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/kernels/rnn.h"

#include <math.h>

#include "backend/cuda/kernels/kernel.h"

namespace {

__device__ __forceinline__ float sigmoid(float x)
{
  return 1.0f / (1.0f + expf(-x));
}

__device__ __forceinline__ int64_t length_of(const rnn_shape &s, int64_t n)
{
  if (!s.lengths) return s.T;
  int64_t length = s.lengths_64 ? ((const int64_t *)s.lengths)[n] : ((const int32_t *)s.lengths)[n];
  return length < 0 ? 0 : length > s.T ? s.T : length;
}

/* An element of the state, and the row of this step; row_before is that of the step before, if there is one. */
struct place {
  int64_t d, n, j, length, row, row_before;
  bool valid;
};

__device__ __forceinline__ int64_t row_of(const rnn_shape &s, int64_t d, int64_t step, int64_t length, int64_t n)
{
  int64_t t = d == 0 || s.models || step >= length ? step : length - 1 - step;
  return t * s.row_t + n * s.row_n;
}

__device__ __forceinline__ place find(const rnn_shape &s, int64_t i, int64_t step)
{
  place p;
  p.j = i % s.H;
  p.n = i / s.H % s.N;
  p.d = i / (s.H * s.N);
  p.length = length_of(s, p.n);
  p.valid = step < p.length;
  p.row = row_of(s, p.d, step, p.length, p.n);
  p.row_before = step > 0 ? row_of(s, p.d, step - 1, p.length, p.n) : 0;
  return p;
}

/* Element of part k in a row of `parts` parts per direction. */
__device__ __forceinline__ int64_t at(const rnn_shape &s, const place &p, int64_t row, int parts, int k)
{
  return ((row * s.D + p.d) * parts + k) * s.H + p.j;
}

/* Element of part k in u, or in a step of du. */
__device__ __forceinline__ int64_t flat(const rnn_shape &s, const place &p, int parts, int k)
{
  return ((p.d * s.N + p.n) * parts + k) * s.H + p.j;
}

__device__ __forceinline__ float u_of(const rnn_args &a, const place &p, int parts, int k)
{
  float u = a.u[flat(a.s, p, parts, k)];
  return a.bias ? u + a.bias[(p.d * parts + k) * a.s.H + p.j] : u;
}

#define EACH(s, i) \
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (s).D * (s).N * (s).H; \
       i += (int64_t)gridDim.x * blockDim.x)

/* ---- forward ---- */

/* i, f, g, o */
template <class T> __global__ void lstm_step(rnn_args a)
{
  const T *x = (const T *)a.x;
  T *gates = (T *)a.gates, *y = (T *)a.y, *h = (T *)a.h;
  EACH(a.s, i)
  {
    place p = find(a.s, i, a.step);
    float gate[4], c = 0.0f, out = 0.0f;
    for (int k = 0; k < 4; k++) {
      float z = p.valid ? cu_float(x[at(a.s, p, p.row, 4, k)]) + u_of(a, p, 4, k) : 0.0f;
      gate[k] = k == 2 ? tanhf(z) : sigmoid(z);
      gates[at(a.s, p, p.row, 4, k)] = cu_as<T>(p.valid ? gate[k] : 0.0f);
    }
    if (p.valid) {
      c = gate[1] * a.c[i] + gate[0] * gate[2];
      out = gate[3] * tanhf(c);
      a.c[i] = c;
      h[i] = cu_as<T>(out);
    }
    a.cells[at(a.s, p, p.row, 1, 0)] = c;
    y[at(a.s, p, p.row, 1, 0)] = cu_as<T>(out);
  }
}

/* r, z, n, and what r is multiplied with */
template <class T> __global__ void gru_step(rnn_args a)
{
  const T *x = (const T *)a.x;
  T *gates = (T *)a.gates, *y = (T *)a.y, *h = (T *)a.h;
  EACH(a.s, i)
  {
    place p = find(a.s, i, a.step);
    float kept[4] = {0.0f, 0.0f, 0.0f, 0.0f}, out = 0.0f;
    if (p.valid) {
      kept[3] = u_of(a, p, 3, 2);
      kept[0] = sigmoid(cu_float(x[at(a.s, p, p.row, 3, 0)]) + u_of(a, p, 3, 0));
      kept[1] = sigmoid(cu_float(x[at(a.s, p, p.row, 3, 1)]) + u_of(a, p, 3, 1));
      kept[2] = tanhf(cu_float(x[at(a.s, p, p.row, 3, 2)]) + kept[0] * kept[3]);
      out = kept[2] + kept[1] * (cu_float(h[i]) - kept[2]);
      h[i] = cu_as<T>(out);
    }
    for (int k = 0; k < 4; k++) gates[at(a.s, p, p.row, 4, k)] = cu_as<T>(kept[k]);
    y[at(a.s, p, p.row, 1, 0)] = cu_as<T>(out);
  }
}

/* ---- back ---- */

/* Gradient of h behind the step. */
template <class T> __device__ __forceinline__ float gradient_of_h(const rnn_grad_args &a, const place &p, int64_t i)
{
  float dh = a.dh[i];
  if (a.step < p.length - 1) dh += a.back[i];
  if (a.dy) dh += cu_float(((const T *)a.dy)[at(a.s, p, p.row, 1, 0)]);
  return dh;
}

/* h before the step, which is noted for the gradient of the weights. */
template <class T> __device__ __forceinline__ float state_before(const rnn_grad_args &a, const place &p, int64_t i)
{
  T h = cu_as<T>(0.0f);
  if (p.valid && a.step > 0) h = ((const T *)a.y)[at(a.s, p, p.row_before, 1, 0)];
  else if (p.valid && a.h0) h = ((const T *)a.h0)[i];
  ((T *)a.before)[((p.d * a.s.T + a.step) * a.s.N + p.n) * a.s.H + p.j] = h;
  return cu_float(h);
}

template <class T>
__device__ __forceinline__ void put_slope(const rnn_grad_args &a, const place &p, int parts, int k, float dx, float du)
{
  int64_t to = (((p.d * a.s.T + a.step) * a.s.N + p.n) * parts + k) * a.s.H + p.j;
  ((T *)a.dx)[at(a.s, p, p.row, parts, k)] = cu_as<T>(dx);
  ((T *)a.du)[to] = cu_as<T>(du);
}

template <class T> __global__ void lstm_step_back(rnn_grad_args a)
{
  const T *gates = (const T *)a.gates;
  EACH(a.s, e)
  {
    place p = find(a.s, e, a.step);
    float slope[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    state_before<T>(a, p, e);
    if (p.valid) {
      float i = cu_float(gates[at(a.s, p, p.row, 4, 0)]), f = cu_float(gates[at(a.s, p, p.row, 4, 1)]);
      float g = cu_float(gates[at(a.s, p, p.row, 4, 2)]), o = cu_float(gates[at(a.s, p, p.row, 4, 3)]);
      float c = tanhf(a.cells[at(a.s, p, p.row, 1, 0)]), before = a.c0 && a.step == 0 ? a.c0[e] : 0.0f;
      if (a.step > 0) before = a.cells[at(a.s, p, p.row_before, 1, 0)];
      float dh = gradient_of_h<T>(a, p, e), dc = a.dc[e] + dh * o * (1.0f - c * c);
      slope[0] = dc * g * i * (1.0f - i);
      slope[1] = dc * before * f * (1.0f - f);
      slope[2] = dc * i * (1.0f - g * g);
      slope[3] = dh * c * o * (1.0f - o);
      a.dc[e] = dc * f;
      a.dh[e] = 0.0f;
    }
    for (int k = 0; k < 4; k++) put_slope<T>(a, p, 4, k, slope[k], slope[k]);
  }
}

template <class T> __global__ void gru_step_back(rnn_grad_args a)
{
  const T *gates = (const T *)a.gates;
  EACH(a.s, e)
  {
    place p = find(a.s, e, a.step);
    float slope[3] = {0.0f, 0.0f, 0.0f}, r = 0.0f, before = state_before<T>(a, p, e);
    if (p.valid) {
      float z = cu_float(gates[at(a.s, p, p.row, 4, 1)]), n = cu_float(gates[at(a.s, p, p.row, 4, 2)]);
      r = cu_float(gates[at(a.s, p, p.row, 4, 0)]);
      float dh = gradient_of_h<T>(a, p, e), dn = dh * (1.0f - z) * (1.0f - n * n);
      slope[0] = dn * cu_float(gates[at(a.s, p, p.row, 4, 3)]) * r * (1.0f - r);
      slope[1] = dh * (before - n) * z * (1.0f - z);
      slope[2] = dn;
      a.dh[e] = dh * z;
    }
    for (int k = 0; k < 3; k++) put_slope<T>(a, p, 3, k, slope[k], k == 2 ? slope[k] * r : slope[k]);
  }
}

__global__ void rnn_end(rnn_end_args a)
{
  EACH(a.s, i)
  {
    if (length_of(a.s, i / a.s.H % a.s.N) > 0) a.dh[i] += a.back[i];
  }
}

} // namespace

CU_TABLE(cu_rnn_table, CU_FLOATS(lstm_step), CU_FLOATS(lstm_step_back), CU_FLOATS(gru_step), CU_FLOATS(gru_step_back),
         CU_ENTRY(rnn_end))
