/* generic_dtypes.c -- elementwise ops on integers, bool, f16, f64 and mixtures, in pieces of 64-bit numbers.
** SPDX-License-Identifier: Apache-2.0
*/
#include "backend/cpu/generic_dtypes.h"

#include <math.h>

#include "base/float16.h"

/* A piece of either kind. */
typedef union {
  double real[CPU_PIECE];
  int64_t whole[CPU_PIECE];
} room;

/* One operand of a run: element i lies at p[at + i * step]. */
typedef struct {
  capl_dtype dtype;
  const void *p;
} operand;

static operand operand_of(const capl_tensor *t)
{
  return (operand){t->dtype, capl_tensor_data(t)};
}

/* ---- reading ---- */

#define READ(type, value)                                                       \
  for (int64_t i = 0; i < n; i++) {                                             \
    type e = ((const type *)o->p)[at + i * step];                               \
    out[i] = (value);                                                           \
  }                                                                             \
  break

static void read_real(const operand *o, int64_t at, int64_t step, int64_t n, double *out)
{
  switch (o->dtype) {
  case CAPL_F32: READ(float, e);
  case CAPL_F64: READ(double, e);
  case CAPL_BF16: READ(uint16_t, capl_bf16_to_float(e));
  case CAPL_F16: READ(uint16_t, capl_f16_to_float(e));
  case CAPL_I32: READ(int32_t, e);
  case CAPL_I64: READ(int64_t, (double)e);
  default: READ(uint8_t, e); /* u8, bool */
  }
}

static void read_whole(const operand *o, int64_t at, int64_t step, int64_t n, int64_t *out)
{
  switch (o->dtype) {
  case CAPL_I32: READ(int32_t, e);
  case CAPL_I64: READ(int64_t, e);
  default: READ(uint8_t, e); /* u8, bool */
  }
}

/* ---- writing: outputs run without gaps ---- */

/* Cut towards zero and kept in range; NaN gives 0. */
static int64_t cut(double v, double lowest, double highest, int64_t lo, int64_t hi)
{
  if (isnan(v)) return 0;
  return v <= lowest ? lo : v >= highest ? hi : (int64_t)v;
}

#define CUT(v, lo, hi) cut((v), (double)(lo), (double)(hi), (lo), (hi))
#define WRITE(type, value)                                                      \
  for (int64_t i = 0; i < n; i++) ((type *)y)[at + i] = (type)(value);          \
  break

static void write_real(capl_dtype dtype, void *y, int64_t at, int64_t n, const double *v)
{
  switch (dtype) {
  case CAPL_F32: WRITE(float, v[i]);
  case CAPL_F64: WRITE(double, v[i]);
  case CAPL_BF16: WRITE(uint16_t, capl_bf16_from_float(capl_float_to_odd(v[i])));
  case CAPL_F16: WRITE(uint16_t, capl_f16_from_float(capl_float_to_odd(v[i])));
  case CAPL_I32: WRITE(int32_t, CUT(v[i], INT32_MIN, INT32_MAX));
  case CAPL_I64: WRITE(int64_t, CUT(v[i], INT64_MIN, INT64_MAX));
  case CAPL_U8: WRITE(uint8_t, CUT(v[i], 0, UINT8_MAX));
  default: WRITE(uint8_t, v[i] != 0); /* bool */
  }
}

static void write_whole(capl_dtype dtype, void *y, int64_t at, int64_t n, const int64_t *v)
{
  switch (dtype) {
  case CAPL_I32: WRITE(int32_t, (uint32_t)v[i]);
  case CAPL_I64: WRITE(int64_t, v[i]);
  case CAPL_U8: WRITE(uint8_t, v[i]);
  default: WRITE(uint8_t, v[i] != 0); /* bool */
  }
}

/* ---- arithmetic on pieces; a becomes the result ---- */

#define EACH(value) \
  for (int64_t i = 0; i < n; i++) a[i] = (value); \
  break

static double real_remainder(double a, double b)
{
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t whole_remainder(int64_t a, int64_t b)
{
  if (b == 0 || b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static void combine_real(vec_binary_kind kind, int64_t n, double *a, const double *b)
{
  switch (kind) {
  case VEC_add: EACH(a[i] + b[i]);
  case VEC_sub: EACH(a[i] - b[i]);
  case VEC_mul: EACH(a[i] * b[i]);
  case VEC_div: EACH(a[i] / b[i]);
  case VEC_remainder: EACH(real_remainder(a[i], b[i]));
  case VEC_maximum: EACH(isnan(a[i]) || a[i] > b[i] ? a[i] : b[i]);
  default: EACH(isnan(a[i]) || a[i] < b[i] ? a[i] : b[i]);
  }
}

/* Through unsigned, so that overflow wraps around instead of being undefined. */
#define WRAPPED(op) ((int64_t)((uint64_t)a[i] op (uint64_t)b[i]))

static void combine_whole(vec_binary_kind kind, int64_t n, int64_t *a, const int64_t *b)
{
  switch (kind) {
  case VEC_add: EACH(WRAPPED(+));
  case VEC_sub: EACH(WRAPPED(-));
  case VEC_mul: EACH(WRAPPED(*));
  case VEC_remainder: EACH(whole_remainder(a[i], b[i]));
  case VEC_maximum: EACH(a[i] > b[i] ? a[i] : b[i]);
  default: EACH(a[i] < b[i] ? a[i] : b[i]);
  }
}

#define COMPARISONS              \
  switch (kind) {                \
  case VEC_eq: EACH(a[i] == b[i]); \
  case VEC_ne: EACH(a[i] != b[i]); \
  case VEC_lt: EACH(a[i] < b[i]);  \
  case VEC_le: EACH(a[i] <= b[i]); \
  case VEC_gt: EACH(a[i] > b[i]);  \
  default: EACH(a[i] >= b[i]);     \
  }

static void compare_real(vec_compare_kind kind, int64_t n, double *a, const double *b) { COMPARISONS }
static void compare_whole(vec_compare_kind kind, int64_t n, int64_t *a, const int64_t *b) { COMPARISONS }

/* ---- runs ---- */

typedef struct {
  operand in[3];
  capl_dtype dtype; /* of y */
  void *y;
  bool whole, compares;
  vec_binary_kind binary;
  vec_compare_kind compare;
} exact_job;

static int64_t piece_of(int64_t left)
{
  return left < CPU_PIECE ? left : CPU_PIECE;
}

static void pair_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const exact_job *job = arg;
  room a, b;
  for (int64_t i = 0, m; i < n; i += m) {
    m = piece_of(n - i);
    int64_t at_a = at[1] + i * step[1], at_b = at[2] + i * step[2];
    if (job->whole) {
      read_whole(&job->in[0], at_a, step[1], m, a.whole);
      read_whole(&job->in[1], at_b, step[2], m, b.whole);
      if (job->compares) compare_whole(job->compare, m, a.whole, b.whole);
      else combine_whole(job->binary, m, a.whole, b.whole);
      write_whole(job->dtype, job->y, at[0] + i, m, a.whole);
    } else {
      read_real(&job->in[0], at_a, step[1], m, a.real);
      read_real(&job->in[1], at_b, step[2], m, b.real);
      if (job->compares) compare_real(job->compare, m, a.real, b.real);
      else combine_real(job->binary, m, a.real, b.real);
      write_real(job->dtype, job->y, at[0] + i, m, a.real);
    }
  }
}

static bool is_whole(const capl_tensor *t)
{
  return !capl_dtype_is_float(t->dtype);
}

/* The loop over y and the first n inputs. */
static capl_status run(const capl_call *call, int n, cpu_loop_body body, exact_job *job)
{
  const capl_tensor *t[CPU_LOOP_MAX] = {call->out[0]};
  cpu_loop loop;
  for (int i = 0; i < n; i++) {
    t[1 + i] = call->in[i];
    job->in[i] = operand_of(call->in[i]);
  }
  job->dtype = call->out[0]->dtype;
  job->y = capl_tensor_data(call->out[0]);
  cpu_loop_init(&loop, 1 + n, t);
  cpu_loop_run(&loop, body, job);
  return CAPL_OK;
}

capl_status cpu_generic_binary(const capl_call *call, vec_binary_kind kind)
{
  exact_job job = {.binary = kind, .whole = is_whole(call->in[0]) && is_whole(call->in[1]) && kind != VEC_div};
  return run(call, 2, pair_run, &job);
}

capl_status cpu_generic_compare(const capl_call *call, vec_compare_kind kind)
{
  exact_job job = {.compares = true, .compare = kind, .whole = is_whole(call->in[0]) && is_whole(call->in[1])};
  return run(call, 2, pair_run, &job);
}

/* ---- where: condition, a, b; each side is converted as cast does ---- */

static void where_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const exact_job *job = arg;
  const uint8_t *condition = job->in[0].p;
  room a, b;
  for (int64_t i = 0, m; i < n; i += m) {
    m = piece_of(n - i);
    int64_t at_a = at[2] + i * step[2], at_b = at[3] + i * step[3], yes = at[1] + i * step[1];
    if (job->whole) {
      read_whole(&job->in[1], at_a, step[2], m, a.whole);
      read_whole(&job->in[2], at_b, step[3], m, b.whole);
      for (int64_t k = 0; k < m; k++) a.whole[k] = condition[yes + k * step[1]] ? a.whole[k] : b.whole[k];
      write_whole(job->dtype, job->y, at[0] + i, m, a.whole);
    } else {
      read_real(&job->in[1], at_a, step[2], m, a.real);
      read_real(&job->in[2], at_b, step[3], m, b.real);
      for (int64_t k = 0; k < m; k++) a.real[k] = condition[yes + k * step[1]] ? a.real[k] : b.real[k];
      write_real(job->dtype, job->y, at[0] + i, m, a.real);
    }
  }
}

capl_status cpu_generic_where(const capl_call *call)
{
  exact_job job = {.whole = is_whole(call->in[1]) && is_whole(call->in[2])};
  return run(call, 3, where_run, &job);
}

/* ---- cast ---- */

static void cast_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const exact_job *job = arg;
  room x;
  for (int64_t i = 0, m; i < n; i += m) {
    m = piece_of(n - i);
    if (job->whole) {
      read_whole(&job->in[0], at[1] + i * step[1], step[1], m, x.whole);
      write_whole(job->dtype, job->y, at[0] + i, m, x.whole);
    } else {
      read_real(&job->in[0], at[1] + i * step[1], step[1], m, x.real);
      write_real(job->dtype, job->y, at[0] + i, m, x.real);
    }
  }
}

capl_status cpu_generic_cast(const capl_call *call)
{
  exact_job job = {.whole = is_whole(call->in[0]) && is_whole(call->out[0])};
  return run(call, 1, cast_run, &job);
}
