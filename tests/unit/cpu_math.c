/* cpu_math.c -- the cpu backend's functions of one number against libm in double precision, over all magnitudes of f32.
**
** Errors are in units in the last place of the f32 nearest to the true value, or absolute where a function passes
** through 0 between numbers that f32 can hold. CAPL_ASSUME=isa=… selects the kernels under test.
** SPDX-License-Identifier: Apache-2.0
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capl/capl.h"

#define OK(expr)                                                            \
  do {                                                                      \
    if ((expr) != CAPL_OK) fail_msg("%s: %s", #expr, capl_error_last()->message); \
  } while (0)

enum { STEP = 9973 }; /* a prime: bits of every kind */

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double silu(double x) { return x / (1 + exp(-x)); }
static double gelu(double x) { return 0.5 * x * erfc(-x * M_SQRT1_2); }
static double softplus(double x) { return x > 20 ? x : fmax(x, 0) + log1p(exp(-fabs(x))); }
static double log_sigmoid(double x) { return fmin(x, 0) - log1p(exp(-fabs(x))); }
static double elu(double x) { return x > 0 ? x : expm1(x); }

static const struct {
  capl_op_id op;
  double (*f)(double);
  double ulp, absolute; /* either is good enough; exp is 0 below -87 */
} functions[] = {
  {CAPL_OP_exp, exp, 1.5, 2 * FLT_MIN},
  {CAPL_OP_log, log, 1.5, 0},
  {CAPL_OP_tanh, tanh, 2, 2 * FLT_MIN},
  {CAPL_OP_sigmoid, sigmoid, 3, 2 * FLT_MIN},
  {CAPL_OP_erf, erf, 3, 2 * FLT_MIN},
  {CAPL_OP_silu, silu, 3, 100 * FLT_MIN},
  {CAPL_OP_gelu, gelu, 250, 100 * FLT_MIN},
  {CAPL_OP_softplus, softplus, 3, 2 * FLT_MIN},
  {CAPL_OP_log_sigmoid, log_sigmoid, 3, 2 * FLT_MIN},
  {CAPL_OP_elu, elu, 3, 2 * FLT_MIN},
};

/* Every STEP-th number of f32, subnormals, both signs, infinities and NaN. */
static float *numbers(int64_t *n)
{
  static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, FLT_MIN, -FLT_MIN, FLT_MAX, -FLT_MAX, 1e-45f};
  float *x = malloc((size_t)(1ull << 32) / STEP * sizeof *x + sizeof special + sizeof *x);
  assert_non_null(x);
  memcpy(x, special, sizeof special);
  *n = sizeof special / sizeof *special;
  for (uint64_t bits = 0; bits < 1ull << 32; bits += STEP) {
    uint32_t low = (uint32_t)bits;
    memcpy(&x[*n], &low, sizeof low);
    ++*n;
  }
  return x;
}

static double ulp_of(double v)
{
  float f = fabsf((float)v);
  return f < FLT_MIN ? FLT_MIN * FLT_EPSILON : (double)(nextafterf(f, INFINITY) - f);
}

static bool close_enough(double got, double want, double ulp, double absolute)
{
  if (isnan(want)) return isnan(got);
  if (isinf((float)want)) return got == (double)(float)want || got >= (double)FLT_MAX * (1 - 1e-6);
  return fabs(got - want) <= ulp * ulp_of(want) || fabs(got - want) <= absolute;
}

static void compare(capl_op_id op, double (*f)(double), double ulp, double absolute, const float *x, const float *y,
                    int64_t n)
{
  double worst = 0;
  float at = 0;
  for (int64_t i = 0; i < n; i++) {
    double want = f((double)x[i]), off = fabs((double)y[i] - want);
    if (!close_enough((double)y[i], want, ulp, absolute))
      fail_msg("%s of %.9g is %.9g, should be %.9g: off by %.3g ulp", capl_op_get(op)->name, (double)x[i], (double)y[i],
               want, off / ulp_of(want));
    if (off > absolute && off / ulp_of(want) > worst && isfinite(off)) worst = off / ulp_of(want), at = x[i];
  }
  print_message("%s: at most %.2f ulp, at %.9g\n", capl_op_get(op)->name, worst, (double)at);
}

static void functions_are_as_exact_as_stated(void **state)
{
  (void)state;
  capl_device *cpu;
  int64_t n;
  float *x = numbers(&n);
  OK(capl_device_open("cpu", &cpu));
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
    capl_tensor *in, *out;
    OK(capl_tensor_new(cpu, CAPL_F32, 1, &n, CAPL_AUTO, &in));
    memcpy(capl_tensor_data(in), x, (size_t)n * sizeof *x);
    OK(capl_op_call(functions[k].op, &in, 1, NULL, &out));
    compare(functions[k].op, functions[k].f, functions[k].ulp, functions[k].absolute, x, capl_tensor_data(out), n);
    capl_tensor_unref(in);
    capl_tensor_unref(out);
  }
  free(x);
}

/* Of numbers up to 0: the gradient of log_softmax at a row (x, 0) by (0, 1) begins with -exp(x). */
static void exponentials_of_softmax_are_exact(void **state)
{
  (void)state;
  capl_device *cpu;
  int64_t n, below = 0;
  float *x = numbers(&n);
  OK(capl_device_open("cpu", &cpu));
  for (int64_t i = 0; i < n; i++)
    if (!(x[i] > 0)) x[below++] = x[i];
  capl_tensor *in[2], *out;
  for (int k = 0; k < 2; k++) OK(capl_tensor_new(cpu, CAPL_F32, 2, (int64_t[]){below, 2}, CAPL_AUTO, &in[k]));
  for (int64_t i = 0; i < below; i++) {
    memcpy((float *)capl_tensor_data(in[0]) + 2 * i, (float[]){x[i], 0}, 2 * sizeof *x);
    memcpy((float *)capl_tensor_data(in[1]) + 2 * i, (float[]){0, 1}, 2 * sizeof *x);
  }
  OK(capl_op_call(CAPL_OP_log_softmax_grad, in, 2, NULL, &out));
  float *y = capl_tensor_data(out);
  for (int64_t i = 0; i < below; i++) y[i] = -y[2 * i];
  compare(CAPL_OP_exp, exp, 2, 2 * FLT_MIN, x, y, below);
  free(x);
  for (int k = 0; k < 2; k++) capl_tensor_unref(in[k]);
  capl_tensor_unref(out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(functions_are_as_exact_as_stated),
    cmocka_unit_test(exponentials_of_softmax_are_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
