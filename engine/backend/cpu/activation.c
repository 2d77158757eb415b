/* activation.c -- activations and their gradients, in one pass each; erf, sine and cosine.
** SPDX-License-Identifier: Apache-2.0
*/
#include "ops/activation.h"

#include "backend/cpu/cpu.h"

typedef struct {
  vec_activation_kind kind;
  capl_dtype real;
  const void *x, *dy;
  void *out;
  float p, q;
} activation_job;

static activation_job job_of(const capl_call *call, vec_activation_kind kind)
{
  return (activation_job){.kind = kind, .real = call->in[0]->dtype, .x = capl_tensor_data(call->in[0]),
                          .dy = call->n_in > 1 ? capl_tensor_data(call->in[1]) : NULL,
                          .out = capl_tensor_data(call->out[0]), .p = (float)activation_number(call, 0),
                          .q = (float)activation_number(call, 1)};
}

static int64_t piece_of(int64_t left, bool whole)
{
  return whole || left < CPU_PIECE ? left : CPU_PIECE;
}

static void forward_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const activation_job *job = arg;
  float room[CPU_PIECE];
  for (int64_t i = 0, m; i < n; i += m) {
    int moves;
    m = piece_of(n - i, step[1] == 1);
    const void *x = cpu_packed(job->real, m, cpu_at(job->x, job->real, at[1] + i * step[1]), step[1], room, &moves);
    if (!moves) x = cpu_repeated(job->real, m, x, room);
    cpu_now->activation(job->kind, job->real, m, x, cpu_at(job->out, job->real, at[0] + i), job->p, job->q);
  }
}

static void backward_run(void *arg, int64_t n, const int64_t *at, const int64_t *step)
{
  const activation_job *job = arg;
  float room_x[CPU_PIECE], room_dy[CPU_PIECE];
  bool whole = (uint64_t)step[1] <= 1 && (uint64_t)step[2] <= 1;
  for (int64_t i = 0, m; i < n; i += m) {
    int sx, sy;
    m = piece_of(n - i, whole);
    const void *x = cpu_packed(job->real, m, cpu_at(job->x, job->real, at[1] + i * step[1]), step[1], room_x, &sx);
    const void *dy = cpu_packed(job->real, m, cpu_at(job->dy, job->real, at[2] + i * step[2]), step[2], room_dy, &sy);
    cpu_now->activation_grad(job->kind, job->real, m, x, sx, dy, sy, cpu_at(job->out, job->real, at[0] + i), job->p,
                             job->q);
  }
}

static capl_status forward(const capl_call *call, vec_activation_kind kind)
{
  const capl_tensor *t[] = {call->out[0], call->in[0]};
  activation_job job = job_of(call, kind);
  cpu_loop loop;
  cpu_loop_init(&loop, 2, t);
  cpu_loop_run(&loop, forward_run, &job);
  return CAPL_OK;
}

static capl_status backward(const capl_call *call, vec_activation_kind kind)
{
  const capl_tensor *t[] = {call->out[0], call->in[0], call->in[1]};
  activation_job job = job_of(call, kind);
  cpu_loop loop;
  cpu_loop_init(&loop, 3, t);
  cpu_loop_run(&loop, backward_run, &job);
  return CAPL_OK;
}

/* ORDER vec_activation_kind: the lists of ops/activation.h */
#define FUNCTION(X, op, numbers) KIND_##op,
enum { FUNCTION_MAP(FUNCTION, ) ACTIVATION_MAP(FUNCTION, ) SATURATING_MAP(FUNCTION, ) KINDS };
#undef FUNCTION
_Static_assert(KINDS == VEC_BY_TANH + 1 && (int)KIND_silu == VEC_SILU && (int)KIND_elu == VEC_ELU &&
                 (int)KIND_log_sigmoid == VEC_LOG_SIGMOID, "vec_activation_kind follows the lists of ops/activation.h");

#define FUNCTION(X, op, numbers) \
  static capl_status cpu_##op(const capl_call *call) { return forward(call, (vec_activation_kind)KIND_##op); }
#define ACTIVATION(X, op, numbers) \
  FUNCTION(X, op, numbers)         \
  static capl_status cpu_##op##_grad(const capl_call *call) { return backward(call, (vec_activation_kind)KIND_##op); }
#define SATURATING(X, op, numbers) \
  static capl_status cpu_##op##_grad(const capl_call *call) { return backward(call, (vec_activation_kind)KIND_##op); }
FUNCTION_MAP(FUNCTION, )
ACTIVATION_MAP(ACTIVATION, )
SATURATING_MAP(SATURATING, )

#define FUNCTION_ROW(X, op, numbers) {CAPL_OP_##op, cpu_##op, cpu_supports_first, CPU_REAL},
#define ACTIVATION_ROW(X, op, numbers) \
  FUNCTION_ROW(X, op, numbers) {CAPL_OP_##op##_grad, cpu_##op##_grad, cpu_supports_same, CPU_REAL},
#define SATURATING_ROW(X, op, numbers) {CAPL_OP_##op##_grad, cpu_##op##_grad, cpu_supports_same, CPU_REAL},
const capl_kernel cpu_activation_kernels[] = {FUNCTION_MAP(FUNCTION_ROW, ) ACTIVATION_MAP(ACTIVATION_ROW, )
                                                SATURATING_MAP(SATURATING_ROW, ){0}};
