/* loop.c -- loops over strided operands: sorts and joins dims, then hands out runs of elements.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "backend/cpu/cpu.h"

/* Stride of t in dim d of an output with ndim dims; 0 where t is broadcast. */
static int64_t stride_in(const capl_tensor *t, int ndim, int d)
{
  int own = d - (ndim - t->ndim);
  return own < 0 || t->size[own] == 1 ? 0 : t->stride[own];
}

void cpu_loop_swap(cpu_loop *loop, int a, int b)
{
  int64_t size = loop->size[a];
  loop->size[a] = loop->size[b];
  loop->size[b] = size;
  for (int k = 0; k < loop->operands; k++) {
    int64_t stride = loop->stride[k][a];
    loop->stride[k][a] = loop->stride[k][b];
    loop->stride[k][b] = stride;
  }
}

/* Whether dims d - 1 and d are one dim for every operand. */
static bool joins(const cpu_loop *loop, int d)
{
  for (int k = 0; k < loop->operands; k++)
    if (loop->stride[k][d - 1] != loop->stride[k][d] * loop->size[d]) return false;
  return true;
}

static void join(cpu_loop *loop, int d)
{
  loop->size[d - 1] *= loop->size[d];
  for (int k = 0; k < loop->operands; k++) loop->stride[k][d - 1] = loop->stride[k][d];
  for (int e = d; e + 1 < loop->ndim; e++) cpu_loop_swap(loop, e, e + 1);
  loop->ndim--;
}

void cpu_loop_init(cpu_loop *loop, int operands, const capl_tensor *const *t)
{
  memset(loop, 0, sizeof *loop);
  loop->operands = operands;
  for (int d = 0; d < t[0]->ndim; d++) {
    if (t[0]->size[d] == 1) continue;
    int n = loop->ndim++;
    loop->size[n] = t[0]->size[d];
    for (int k = 0; k < operands; k++) loop->stride[k][n] = stride_in(t[k], t[0]->ndim, d);
  }
  for (int d = 1; d < loop->ndim; d++)
    for (int e = d; e > 0 && loop->stride[0][e - 1] < loop->stride[0][e]; e--) cpu_loop_swap(loop, e - 1, e);
  for (int d = loop->ndim - 1; d > 0; d--)
    if (joins(loop, d)) join(loop, d);
  if (loop->ndim == 0) loop->size[loop->ndim++] = 1;
}

/* Index of flat element `flat`, and the offset of every operand there. */
static void locate(const cpu_loop *loop, int64_t flat, int64_t *index, int64_t *at)
{
  memset(at, 0, CPU_LOOP_MAX * sizeof *at);
  for (int d = loop->ndim - 1; d >= 0; d--) {
    index[d] = flat % loop->size[d];
    flat /= loop->size[d];
    for (int k = 0; k < loop->operands; k++) at[k] += index[d] * loop->stride[k][d];
  }
}

/* Moves `by` elements along the innermost dim and carries. */
static void advance(const cpu_loop *loop, int64_t by, int64_t *index, int64_t *at)
{
  for (int d = loop->ndim - 1; d >= 0; d--, by = 1) {
    index[d] += by;
    for (int k = 0; k < loop->operands; k++) at[k] += by * loop->stride[k][d];
    if (index[d] < loop->size[d]) return;
    for (int k = 0; k < loop->operands; k++) at[k] -= index[d] * loop->stride[k][d];
    index[d] = 0;
  }
}

void cpu_loop_part(const cpu_loop *loop, int64_t begin, int64_t end, cpu_loop_body body, void *arg)
{
  int last = loop->ndim - 1;
  int64_t index[CAPL_MAX_NDIM], at[CPU_LOOP_MAX], step[CPU_LOOP_MAX] = {0};
  for (int k = 0; k < loop->operands; k++) step[k] = loop->stride[k][last];
  locate(loop, begin, index, at);
  while (begin < end) {
    int64_t run = loop->size[last] - index[last];
    if (run > end - begin) run = end - begin;
    body(arg, run, at, step);
    advance(loop, run, index, at);
    begin += run;
  }
}

int64_t cpu_loop_total(const cpu_loop *loop)
{
  int64_t total = 1;
  for (int d = 0; d < loop->ndim; d++) total *= loop->size[d];
  return total;
}

typedef struct {
  const cpu_loop *loop;
  cpu_loop_body body;
  void *arg;
} loop_job;

static void loop_task(void *arg, int64_t begin, int64_t end, int thread)
{
  (void)thread;
  const loop_job *job = arg;
  cpu_loop_part(job->loop, begin, end, job->body, job->arg);
}

void cpu_loop_run(const cpu_loop *loop, cpu_loop_body body, void *arg)
{
  loop_job job = {loop, body, arg};
  cpu_parallel(cpu_loop_total(loop), CPU_GRAIN, loop_task, &job);
}
