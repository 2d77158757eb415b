/* pointwise_source.c -- writes the source text of pointwise kernels: load, compute in float, store.
**
** One thread makes `width` neighbouring results and steps on by the size of the grid. Values are floats, bools 0 and 1.
** Rounding happens at the end and where a program casts.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cuda/pointwise_source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/kernels/pointwise.h"

#define TEXT(...) TEXT_OF(__VA_ARGS__)
#define TEXT_OF(...) #__VA_ARGS__

/* ---- text that grows -------------------------------------------------------------------------- */

typedef struct {
  FILE *file;
  char *text;
  size_t len;
} page;

/* ---- ops -------------------------------------------------------------------------------------- */

/* ORDER POINTWISE_MAP. A B C: arguments, M N: numbers. NaN behaves as in the ops. */
static const struct {
  capl_op_id op;
  const char *expression;
} expressions[] = {
  {CAPL_OP_relu, "A > 0.0f || A != A ? A : 0.0f"},
  {CAPL_OP_relu_grad, "A > 0.0f ? B : 0.0f"},
  {CAPL_OP_add, "A + B"},
  {CAPL_OP_sub, "A - B"},
  {CAPL_OP_mul, "A * B"},
  {CAPL_OP_div, "A / B"},
  {CAPL_OP_maximum, "A != A || A > B ? A : B"},
  {CAPL_OP_minimum, "A != A || A < B ? A : B"},
  {CAPL_OP_affine, "M * A + N"},
  {CAPL_OP_pow, "powf(A, M)"},
  {CAPL_OP_exp, "expf(A)"},
  {CAPL_OP_log, "logf(A)"},
  {CAPL_OP_sqrt, "sqrtf(A)"},
  {CAPL_OP_abs, "fabsf(A)"},
  {CAPL_OP_sigmoid, "1.0f / (1.0f + expf(-A))"},
  {CAPL_OP_tanh, "tanhf(A)"},
  {CAPL_OP_sign, "(float)((A > 0.0f) - (A < 0.0f))"},
  {CAPL_OP_eq, "A == B"},
  {CAPL_OP_ne, "A != B"},
  {CAPL_OP_lt, "A < B"},
  {CAPL_OP_le, "A <= B"},
  {CAPL_OP_gt, "A > B"},
  {CAPL_OP_ge, "A >= B"},
  {CAPL_OP_where, "A != 0.0f ? B : C"},
  {CAPL_OP_cast, NULL}, /* by dtype */
  {CAPL_OP_erf, "erff(A)"},
  {CAPL_OP_sin, "sinf(A)"},
  {CAPL_OP_cos, "cosf(A)"},
  {CAPL_OP_silu, "A / (1.0f + expf(-A))"},
  {CAPL_OP_silu_grad, "B * (rtc_sigmoid(A) * (1.0f + A * (1.0f - rtc_sigmoid(A))))"},
  {CAPL_OP_gelu, "rtc_gelu(A, M)"},
  {CAPL_OP_gelu_grad, "B * rtc_gelu_slope(A, M)"},
  {CAPL_OP_softplus, "M * A > N ? A : ((M * A < 0.0f ? 0.0f : M * A) + log1pf(expf(-fabsf(M * A)))) / M"},
  {CAPL_OP_softplus_grad, "M * A > N ? B : B * rtc_sigmoid(M * A)"},
  {CAPL_OP_leaky_relu, "A > 0.0f ? A : M * A"},
  {CAPL_OP_leaky_relu_grad, "A > 0.0f ? B : M * B"},
  {CAPL_OP_elu, "A > 0.0f ? A : M * expm1f(A)"},
  {CAPL_OP_elu_grad, "A > 0.0f ? B : B * M * expf(A)"},
  {CAPL_OP_hardsigmoid, "rtc_between(A + 3.0f, 0.0f, 6.0f) / 6.0f"},
  {CAPL_OP_hardsigmoid_grad, "A > -3.0f && A < 3.0f ? B / 6.0f : 0.0f"},
  {CAPL_OP_hardswish, "A * (rtc_between(A + 3.0f, 0.0f, 6.0f) / 6.0f)"},
  {CAPL_OP_hardswish_grad, "B * (A <= -3.0f ? 0.0f : A < 3.0f ? A / 3.0f + 0.5f : A >= 3.0f ? 1.0f : A)"},
  {CAPL_OP_log_sigmoid, "(A > 0.0f ? 0.0f : A) - log1pf(expf(-fabsf(A)))"},
  {CAPL_OP_log_sigmoid_grad, "B * rtc_sigmoid(-A)"},
  {CAPL_OP_clamp, "rtc_between(A, M, N)"},
  {CAPL_OP_clamp_grad, "A > M && A < N ? B : 0.0f"},
};
#define X(name, tensors, numbers) +1
_Static_assert(sizeof expressions / sizeof *expressions == POINTWISE_MAP(X), "each op of a program has its expression");
#undef X

/* Powers that need no logarithm. */
static const char *power_expression(double exponent)
{
  return exponent == 1 ? "A" : exponent == 2 ? "A * A" : exponent == 3 ? "A * A * A" : exponent == -1 ? "1.0f / A"
         : exponent == 0 ? "1.0f" : "powf(A, M)";
}

static const char *cast_expression(capl_dtype dtype)
{
  return dtype == CAPL_BF16 ? "cu_float(cu_as<cu_bf16>(A))" : dtype == CAPL_F16 ? "cu_float(cu_as<cu_f16>(A))"
         : dtype == CAPL_BOOL ? "A != 0.0f" : "A";
}

static const char *expression_of(const program_step *step)
{
  if (step->op == PROGRAM_CONST) return "M";
  if (step->op == CAPL_OP_cast) return cast_expression(step->dtype);
  if (step->op == CAPL_OP_pow) return power_expression(step->number[0]);
  for (size_t k = 0; k < sizeof expressions / sizeof *expressions; k++)
    if ((int)expressions[k].op == step->op) return expressions[k].expression;
  return "0.0f"; /* not reached: the list is complete */
}

static void write_number(page *out, double v)
{
  float f = (float)v;
  if (isnan(f)) fprintf(out->file, "__int_as_float(0x7fc00000)");
  else if (isinf(f)) fprintf(out->file, "__int_as_float(%s)", f > 0 ? "0x7f800000" : "(int)0xff800000");
  else fprintf(out->file, "%af", (double)f);
}

static void write_value(page *out, int value)
{
  if (value < PROGRAM_INPUTS) fprintf(out->file, "%c", 'a' + value);
  else fprintf(out->file, "t%d", value - PROGRAM_INPUTS);
}

static void write_step(page *out, const program_step *step, int k)
{
  fprintf(out->file, "  float t%d = ", k);
  for (const char *p = expression_of(step); *p; p++) {
    bool alone = !(p[1] >= 'a' && p[1] <= 'z') && !(p[1] >= 'A' && p[1] <= 'Z');
    if (alone && *p >= 'A' && *p <= 'C') write_value(out, step->arg[*p - 'A']);
    else if (alone && (*p == 'M' || *p == 'N')) write_number(out, step->number[*p - 'M']);
    else fputc(*p, out->file);
  }
  fprintf(out->file, ";\n");
}

/* ---- pieces of the kernel --------------------------------------------------------------------- */

static const char *element(capl_dtype dtype)
{
  return dtype == CAPL_F16 ? "cu_f16" : dtype == CAPL_BF16 ? "cu_bf16" : dtype == CAPL_BOOL ? "uint8_t" : "float";
}

/* Loads and stores of one or more neighbours. */
static const char helpers[] =
  "template <class T, int N> struct alignas(N * sizeof(T)) pack { T v[N]; };\n"
  "template <class T> static __device__ __forceinline__ float get(T v) { return cu_float(v); }\n"
  "template <> __device__ __forceinline__ float get<uint8_t>(uint8_t v) { return v != 0; }\n"
  "template <class T> static __device__ __forceinline__ void put(T &p, float v) { p = cu_as<T>(v); }\n"
  "template <> __device__ __forceinline__ void put<uint8_t>(uint8_t &p, float v) { p = v != 0.0f; }\n";

/* What expressions call: as in kernels/activation.cu. */
static const char functions[] =
  "static __device__ __forceinline__ float rtc_sigmoid(float x)\n"
  "{ float e = expf(-fabsf(x)); return x >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e); }\n"
  "static __device__ __forceinline__ float rtc_between(float x, float lo, float hi)\n"
  "{ x = x < lo ? lo : x; return x > hi ? hi : x; }\n"
  "static __device__ __forceinline__ float rtc_gate(float x)\n"
  "{ x = rtc_between(x, -12.0f, 12.0f); return rtc_sigmoid(1.59576912f * x * (1.0f + 0.044715f * x * x)); }\n"
  "static __device__ __forceinline__ float rtc_gelu(float x, float form)\n"
  "{ return form != 0.0f ? x * rtc_gate(x) : x * 0.5f * erfcf(-x * 0.70710678f); }\n"
  "static __device__ __forceinline__ float rtc_gelu_slope(float x, float form)\n"
  "{\n"
  "  float near = rtc_between(x, -50.0f, 50.0f), z = rtc_between(x, -12.0f, 12.0f), gate = rtc_gate(x);\n"
  "  return form == 0.0f ? 0.5f * erfcf(-x * 0.70710678f) + near * expf(-0.5f * near * near) * 0.39894228f\n"
  "         : gate + z * gate * (1.0f - gate) * 1.59576912f * (1.0f + 0.134145f * z * z);\n"
  "}\n";

static bool used(const pointwise_form *form, int i)
{
  return form->place[i] != POINTWISE_UNUSED;
}

/* float value(float a, float b) { ... } */
static void write_function(page *out, const program *p, const pointwise_form *form)
{
  const char *separator = "";
  fprintf(out->file, "static __device__ __forceinline__ float value(");
  for (int i = 0; i < form->inputs; i++) {
    if (!used(form, i)) continue;
    fprintf(out->file, "%sfloat %c", separator, 'a' + i);
    separator = ", ";
  }
  fprintf(out->file, ")\n{\n");
  for (int k = 0; k < p->n; k++) write_step(out, &p->step[k], k);
  fprintf(out->file, "  return t%d;\n}\n", p->n - 1);
}

/* value(get(...), ...), with what stands in the place of the index. */
static void write_call(page *out, const pointwise_form *form, const char *format)
{
  const char *separator = "";
  fprintf(out->file, "value(");
  for (int i = 0; i < form->inputs; i++) {
    if (!used(form, i)) continue;
    fprintf(out->file, "%s", separator);
    if (form->place[i] == POINTWISE_ONE) fprintf(out->file, "one_%c", 'a' + i);
    else if (form->place[i] == POINTWISE_STRIDED) fprintf(out->file, "get(x_%c[at_%c])", 'a' + i, 'a' + i);
    else fprintf(out->file, format, 'a' + i);
    separator = ", ";
  }
  fprintf(out->file, ")");
}

static void write_pointers(page *out, const pointwise_form *form)
{
  fprintf(out->file, "  %s *y = (%s *)g.y;\n", element(form->y), element(form->y));
  for (int i = 0; i < form->inputs; i++) {
    const char *type = element(form->x[i]);
    if (used(form, i)) fprintf(out->file, "  const %s *x_%c = (const %s *)g.x[%d];\n", type, 'a' + i, type, i);
    if (form->place[i] == POINTWISE_ONE) fprintf(out->file, "  float one_%c = get(*x_%c);\n", 'a' + i, 'a' + i);
  }
}

/* The offsets at_a ... of strided inputs at element i of y. */
static void write_offsets(page *out, const pointwise_form *form)
{
  bool any = false;
  for (int i = 0; i < form->inputs; i++) {
    if (form->place[i] != POINTWISE_STRIDED) continue;
    fprintf(out->file, "    int64_t at_%c = 0;\n", 'a' + i);
    any = true;
  }
  if (!any) return;
  fprintf(out->file, "    count left = i;\n");
  for (int d = form->ndim - 1; d >= 0; d--) {
    if (d > 0)
      fprintf(out->file, "    count rest%d = left / (count)g.size[%d], index%d = left - rest%d * (count)g.size[%d];\n",
              d, d, d, d, d);
    else fprintf(out->file, "    count index0 = left;\n");
    for (int i = 0; i < form->inputs; i++)
      if (form->place[i] == POINTWISE_STRIDED)
        fprintf(out->file, "    at_%c += (int64_t)index%d * g.stride[%d][%d];\n", 'a' + i, d, i, d);
    if (d > 0) fprintf(out->file, "    left = rest%d;\n", d);
  }
}

/* Whole packs; the elements behind the last one are left to the loop over single ones. */
static void write_packs(page *out, const pointwise_form *form)
{
  int width = form->width;
  fprintf(out->file, "  count packs = (count)g.n / %d;\n  for (count i = first; i < packs; i += step) {\n", width);
  for (int i = 0; i < form->inputs; i++)
    if (form->place[i] == POINTWISE_ALIKE)
      fprintf(out->file, "    pack<%s, %d> p_%c = ((const pack<%s, %d> *)x_%c)[i];\n", element(form->x[i]), width,
              'a' + i, element(form->x[i]), width, 'a' + i);
  fprintf(out->file, "    pack<%s, %d> p_y;\n    for (int j = 0; j < %d; j++) put(p_y.v[j], ", element(form->y), width,
          width);
  write_call(out, form, "get(p_%c.v[j])");
  fprintf(out->file, ");\n    ((pack<%s, %d> *)y)[i] = p_y;\n  }\n  first += packs * %d;\n", element(form->y), width,
          width);
}

static void write_kernel(page *out, const program *p, const pointwise_form *form)
{
  fprintf(out->file, "/* %s */\n%s\n", p->text, TEXT(POINTWISE_ARGS));
  fprintf(out->file, "typedef %s count;\n%s%s", form->wide ? "int64_t" : "uint32_t", helpers, functions);
  write_function(out, p, form);
  fprintf(out->file, "RTC_KERNEL void pointwise(pointwise_args g)\n{\n"
                     "  count first = (count)blockIdx.x * blockDim.x + threadIdx.x, step = (count)gridDim.x * "
                     "blockDim.x;\n");
  write_pointers(out, form);
  if (form->width > 1) write_packs(out, form);
  fprintf(out->file, "  for (count i = first; i < (count)g.n; i += step) {\n");
  write_offsets(out, form);
  fprintf(out->file, "    put(y[i], ");
  write_call(out, form, "get(x_%c[i])");
  fprintf(out->file, ");\n  }\n}\n");
}

char *pointwise_source(const program *p, const pointwise_form *form)
{
  page out = {0};
  out.file = open_memstream(&out.text, &out.len);
  if (!out.file) return NULL;
  write_kernel(&out, p, form);
  bool failed = ferror(out.file) != 0;
  if (fclose(out.file) == 0 && !failed) return out.text;
  free(out.text);
  return NULL;
}
