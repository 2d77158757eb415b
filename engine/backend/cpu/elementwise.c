/* elementwise.c -- arithmetic element by element, dtype conversion, dropout.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/generic_dtypes.h"
#include "base/float16.h"

bool cpu_supports_first(const capl_call *call)
{
  return call->in[0] && cpu_real(call->in[0]);
}

bool cpu_supports_same(const capl_call *call)
{
  for (int i = 0; i < call->n_in; i++)
    if (!call->in[i] || !cpu_real(call->in[i]) || call->in[i]->dtype != call->in[0]->dtype) return false;
  return call->n_in > 0;
}

static void pack(capl_dtype real, int64_t n, const void *p, int64_t step, void *out)
{
  if (real == CAPL_BF16)
    for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[i] = ((const uint16_t *)p)[i * step];
  else
    for (int64_t i = 0; i < n; i++) ((float *)out)[i] = ((const float *)p)[i * step];
}

static void unpack(capl_dtype real, int64_t n, const void *p, void *out, int64_t step)
{
  if (real == CAPL_BF16)
    for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[i * step] = ((const uint16_t *)p)[i];
  else
    for (int64_t i = 0; i < n; i++) ((float *)out)[i * step] = ((const float *)p)[i];
}

const void *cpu_packed(capl_dtype real, int64_t n, const void *p, int64_t step, float *room, int *unit)
{
  *unit = step != 0;
  if (step == 0 || step == 1) return p;
  pack(real, n, p, step, room);
  return room;
}

const void *cpu_repeated(capl_dtype real, int64_t n, const void *p, float *room)
{
  pack(real, n, p, 0, room);
  return room;
}

static int64_t piece_of(int64_t left, bool whole)
{
  return whole || left < CPU_PIECE ? left : CPU_PIECE;
}

/* ---- two operands ---- */

typedef struct {
  vec_binary_kind kind;
  capl_dtype real;
  void *y;
  const void *a, *b;
} binary_job;

static void binary_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const binary_job *job = arg;
  float room_a[CPU_PIECE], room_b[CPU_PIECE];
  bool whole = (uint64_t)step[1] <= 1 && (uint64_t)step[2] <= 1;
  for (int64_t i = 0, m; i < n; i += m) {
    int sa, sb;
    m = piece_of(n - i, whole);
    const void *a = cpu_packed(job->real, m, cpu_at(job->a, job->real, at[1] + i * step[1]), step[1], room_a, &sa);
    const void *b = cpu_packed(job->real, m, cpu_at(job->b, job->real, at[2] + i * step[2]), step[2], room_b, &sb);
    cpu_now->binary(job->kind, job->real, m, a, sa, b, sb, cpu_at(job->y, job->real, at[0] + i));
  }
}

static capl_status binary(const capl_call *call, vec_binary_kind kind)
{
  if (!cpu_supports_same(call)) return cpu_generic_binary(call, kind);
  const capl_tensor *t[] = {call->out[0], call->in[0], call->in[1]};
  binary_job job = {kind, t[0]->dtype, capl_tensor_data(t[0]), capl_tensor_data(t[1]), capl_tensor_data(t[2])};
  cpu_loop loop;
  cpu_loop_init(&loop, 3, t);
  cpu_loop_run(&loop, binary_run, &job);
  return CAPL_OK;
}

#define BINARY(op, inputs) \
  static capl_status cpu_##op(const capl_call *call) { return binary(call, VEC_##op); }
VEC_BINARY_MAP(BINARY)

/* ---- comparisons ---- */

typedef struct {
  vec_compare_kind kind;
  capl_dtype real;
  uint8_t *y;
  const void *a, *b;
} compare_job;

static void compare_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const compare_job *job = arg;
  float room_a[CPU_PIECE], room_b[CPU_PIECE];
  bool whole = (uint64_t)step[1] <= 1 && (uint64_t)step[2] <= 1;
  for (int64_t i = 0, m; i < n; i += m) {
    int sa, sb;
    m = piece_of(n - i, whole);
    const void *a = cpu_packed(job->real, m, cpu_at(job->a, job->real, at[1] + i * step[1]), step[1], room_a, &sa);
    const void *b = cpu_packed(job->real, m, cpu_at(job->b, job->real, at[2] + i * step[2]), step[2], room_b, &sb);
    cpu_now->compare(job->kind, job->real, m, a, sa, b, sb, job->y + at[0] + i);
  }
}

static capl_status compare(const capl_call *call, vec_compare_kind kind)
{
  if (!cpu_supports_same(call)) return cpu_generic_compare(call, kind);
  const capl_tensor *t[] = {call->out[0], call->in[0], call->in[1]};
  compare_job job = {kind, t[1]->dtype, capl_tensor_data(t[0]), capl_tensor_data(t[1]), capl_tensor_data(t[2])};
  cpu_loop loop;
  cpu_loop_init(&loop, 3, t);
  cpu_loop_run(&loop, compare_run, &job);
  return CAPL_OK;
}

#define COMPARE(op) \
  static capl_status cpu_##op(const capl_call *call) { return compare(call, VEC_##op); }
VEC_COMPARE_MAP(COMPARE)

/* ---- where: condition, a, b ---- */

typedef struct {
  size_t bytes;
  char *y;
  const uint8_t *condition;
  const char *a, *b;
} where_job;

#define WHERE_RUN(type)                                                                                        \
  for (int64_t i = 0; i < n; i++)                                                                              \
  ((type *)job->y)[at[0] + i * step[0]] = job->condition[at[1] + i * step[1]]                                  \
                                            ? ((const type *)job->a)[at[2] + i * step[2]]                      \
                                            : ((const type *)job->b)[at[3] + i * step[3]]

static void where_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const where_job *job = arg;
  if (job->bytes == 2) WHERE_RUN(uint16_t);
  else WHERE_RUN(uint32_t);
}

static capl_status cpu_where(const capl_call *call)
{
  if (!cpu_real(call->in[1]) || call->in[2]->dtype != call->in[1]->dtype) return cpu_generic_where(call);
  const capl_tensor *t[] = {call->out[0], call->in[0], call->in[1], call->in[2]};
  where_job job = {capl_dtype_size(t[0]->dtype), capl_tensor_data(t[0]), capl_tensor_data(t[1]), capl_tensor_data(t[2]),
                   capl_tensor_data(t[3])};
  cpu_loop loop;
  cpu_loop_init(&loop, 4, t);
  cpu_loop_run(&loop, where_run, &job);
  return CAPL_OK;
}

static bool supports_where(const capl_call *call)
{
  return call->in[0]->dtype == CAPL_BOOL;
}

/* ---- one operand ---- */

typedef struct {
  vec_unary_kind kind;
  capl_dtype real;
  void *y;
  const void *x;
  float scale, shift;
} unary_job;

static void unary_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const unary_job *job = arg;
  float room[CPU_PIECE];
  bool whole = step[1] == 1;
  for (int64_t i = 0, m; i < n; i += m) {
    m = piece_of(n - i, whole);
    const void *x = cpu_at(job->x, job->real, at[1] + i * step[1]);
    if (!whole) {
      pack(job->real, m, x, step[1], room);
      x = room;
    }
    cpu_now->unary(job->kind, job->real, m, x, cpu_at(job->y, job->real, at[0] + i), job->scale, job->shift);
  }
}

static capl_status unary_with(const capl_call *call, vec_unary_kind kind, double scale, double shift)
{
  const capl_tensor *t[] = {call->out[0], call->in[0]};
  unary_job job = {kind, t[0]->dtype, capl_tensor_data(t[0]), capl_tensor_data(t[1]), (float)scale, (float)shift};
  cpu_loop loop;
  cpu_loop_init(&loop, 2, t);
  cpu_loop_run(&loop, unary_run, &job);
  return CAPL_OK;
}

#define PLAIN(op) \
  static capl_status cpu_##op(const capl_call *call) { return unary_with(call, VEC_##op, 0, 0); }
VEC_PLAIN_MAP(PLAIN)

static capl_status cpu_affine(const capl_call *call)
{
  return unary_with(call, VEC_affine, call->attr[AT(affine, scale)].f, call->attr[AT(affine, shift)].f);
}

static capl_status cpu_pow(const capl_call *call)
{
  return unary_with(call, VEC_pow, call->attr[AT(pow, exponent)].f, 0);
}

/* ---- dtype conversion ---- */

typedef struct {
  capl_dtype from, to;
  const void *x;
  void *y;
} cast_job;

static float element(capl_dtype dtype, const void *p, int64_t i)
{
  switch (dtype) {
  case CAPL_F32: return ((const float *)p)[i];
  case CAPL_BF16: return capl_bf16_to_float(((const uint16_t *)p)[i]);
  case CAPL_F16: return capl_f16_to_float(((const uint16_t *)p)[i]);
  case CAPL_I32: return (float)((const int32_t *)p)[i];
  case CAPL_I64: return (float)((const int64_t *)p)[i];
  default: return ((const uint8_t *)p)[i]; /* u8, bool */
  }
}

/* n elements to f32, whatever they are. */
static void widen(const cast_job *job, int64_t n, const void *x, int64_t step, float *out)
{
  if (job->from == CAPL_U8 && step == 1)
    for (int64_t i = 0; i < n; i++) out[i] = ((const uint8_t *)x)[i];
  else
    for (int64_t i = 0; i < n; i++) out[i] = element(job->from, x, i * step);
}

static void cast_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const cast_job *job = arg;
  float room[CPU_PIECE];
  const void *x = cpu_at(job->x, job->from, at[1]);
  void *y = cpu_at(job->y, job->to, at[0]);
  if (step[1] == 1 && job->from == job->to) memcpy(y, x, (size_t)n * capl_dtype_size(job->to));
  else if (step[1] == 1 && job->from == CAPL_F32 && job->to == CAPL_BF16) cpu_now->to_bf16(n, x, y);
  else if (step[1] == 1 && job->from == CAPL_BF16 && job->to == CAPL_F32) cpu_now->to_f32(n, x, y);
  else
    for (int64_t i = 0, m; i < n; i += m) {
      m = piece_of(n - i, false);
      float *wide = job->to == CAPL_F32 ? (float *)y + i : room;
      widen(job, m, cpu_at(x, job->from, i * step[1]), step[1], wide);
      if (job->to == CAPL_BF16) cpu_now->to_bf16(m, wide, (uint16_t *)y + i);
    }
}

/* To f32 or bf16 from all but f64; rounding i64 through f32 and then to bf16 would round twice. */
static bool is_vector_cast(capl_dtype from, capl_dtype to)
{
  if ((to != CAPL_F32 && to != CAPL_BF16) || from == CAPL_F64) return false;
  return to == CAPL_F32 || (from != CAPL_I64 && from != CAPL_I32);
}

static capl_status cpu_cast(const capl_call *call)
{
  if (!is_vector_cast(call->in[0]->dtype, (capl_dtype)call->attr[AT(cast, dtype)].i)) return cpu_generic_cast(call);
  const capl_tensor *t[] = {call->out[0], call->in[0]};
  cast_job job = {t[1]->dtype, t[0]->dtype, capl_tensor_data(t[1]), capl_tensor_data(t[0])};
  cpu_loop loop;
  cpu_loop_init(&loop, 2, t);
  cpu_loop_run(&loop, cast_run, &job);
  return CAPL_OK;
}

static void convert_part(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const cast_job *job = arg;
  const void *x = cpu_at(job->x, job->from, begin);
  void *y = cpu_at(job->y, job->to, begin);
  if (job->from == job->to) memcpy(y, x, (size_t)(end - begin) * capl_dtype_size(job->to));
  else if (job->to == CAPL_BF16) cpu_now->to_bf16(end - begin, x, y);
  else cpu_now->to_f32(end - begin, x, y);
}

void cpu_convert(capl_dtype from, const void *src, capl_dtype to, void *dst, int64_t n)
{
  cast_job job = {from, to, src, dst};
  cpu_parallel(n, CPU_GRAIN, convert_part, &job);
}

/* ---- dropout ---- */

typedef struct {
  vec_dropout p;
  capl_dtype real;
  const void *x;
  void *y;
} dropout_job;

/* Operand 0 stands for the logical order: at[0] is the number of the run's first element. */
static void dropout_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const dropout_job *job = arg;
  float room[CPU_PIECE];
  bool whole = step[1] == 1 && step[2] == 1;
  for (int64_t i = 0, m; i < n; i += m) {
    m = piece_of(n - i, whole);
    const void *x = cpu_at(job->x, job->real, at[1] + i * step[1]);
    void *y = cpu_at(job->y, job->real, at[2] + i * step[2]);
    if (whole) cpu_now->dropout(&job->p, job->real, at[0] + i, m, x, y);
    else {
      pack(job->real, m, x, step[1], room);
      cpu_now->dropout(&job->p, job->real, at[0] + i, m, room, room);
      unpack(job->real, m, room, y, step[2]);
    }
  }
}

static bool supports_dropout(const capl_call *call)
{
  return cpu_real(call->in[0]) && call->attr[AT(dropout, p)].f < 1;
}

static vec_dropout dropout_of(const capl_attr *attr)
{
  double p = attr[AT(dropout, p)].f, threshold = p * 4294967296.0;
  uint64_t seed = (uint64_t)attr[AT(dropout, seed)].i, offset = (uint64_t)attr[AT(dropout, offset)].i;
  uint32_t limit = (uint32_t)threshold;
  return (vec_dropout){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}, .word1 = (uint32_t)offset,
                       .word2 = (uint32_t)(offset >> 32), .threshold = limit < threshold ? limit + 1 : limit,
                       .scale = (float)(1 / (1 - p))};
}

static capl_status cpu_dropout(const capl_call *call)
{
  capl_tensor logical = *call->out[0];
  const capl_tensor *t[] = {&logical, call->in[0], call->out[0]};
  capl_strides_row(logical.ndim, logical.size, logical.stride);
  dropout_job job = {dropout_of(call->attr), t[1]->dtype, capl_tensor_data(t[1]), capl_tensor_data(t[2])};
  cpu_loop loop;
  cpu_loop_init(&loop, 3, t);
  cpu_loop_run(&loop, dropout_run, &job);
  return CAPL_OK;
}

static bool supports_any(const capl_call *call)
{
  (void)call;
  return true;
}

#define ROW_every(op) {CAPL_OP_##op, cpu_##op, supports_any, 0},
#define ROW_real(op) {CAPL_OP_##op, cpu_##op, cpu_supports_same, CPU_REAL},
#define BINARY_ROW(op, inputs) ROW_##inputs(op)
#define UNARY_ROW(op) {CAPL_OP_##op, cpu_##op, cpu_supports_first, CPU_REAL},
const capl_kernel cpu_elementwise_kernels[] = {
  VEC_BINARY_MAP(BINARY_ROW)
  VEC_COMPARE_MAP(ROW_every)
  VEC_UNARY_MAP(UNARY_ROW)
  {CAPL_OP_where, cpu_where, supports_where, 0},
  {CAPL_OP_cast, cpu_cast, supports_any, 0},
  {CAPL_OP_dropout, cpu_dropout, supports_dropout, CPU_REAL},
  {0},
};
