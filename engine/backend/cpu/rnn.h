/* rnn.h -- what the recurrent kernels share: how the work is divided, and packed weights.
**
** Sequences do not depend on each other, nor do directions: each task is a range of sequences in one direction and goes
** through all time steps by itself, so that threads never wait for each other on the way. States and what the state
** gives are f32 in the task's own room; weights lie in panels, as vec.h's product reads them. Where the processor
** multiplies bf16 faster, products of bf16 sequences are of pairs of bf16, with sums in f32; y is bf16 anyway, and so
** is dx.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_CPU_RNN_H
#define CAPL_CPU_RNN_H

#include "backend/cpu/cpu.h"
#include "ops/rnn.h"

typedef struct {
  rnn_sizes s;
  int parts, kept; /* gates per unit: computed, and kept for the backward pass */
  capl_dtype real; /* of sequences */
  bool low;        /* products of pairs of bf16 */
  const capl_tensor *lengths;
  int64_t chunks;  /* tasks per direction */
} rnn_plan;

/* One task: sequences [first, end) in direction d. */
typedef struct {
  int64_t d, first, end, longest;
} rnn_task;

/* Sizes, checked lengths, and as many tasks as keep all threads busy. */
capl_status rnn_plan_set(rnn_plan *p, const capl_call *call, const capl_tensor *seq, const capl_tensor *w, int parts,
                         int kept, const capl_tensor *lengths);
int64_t rnn_tasks(const rnn_plan *p);
/* Tasks that are worth a thread of their own: the grain of cpu_parallel. */
int64_t rnn_grain(const rnn_plan *p);
rnn_task rnn_task_of(const rnn_plan *p, int64_t index);

/* A matrix for the product: terms rows of columns, padded with zeros to whole vectors, in panels. length: floats in a
** column, or pairs of bf16. */
typedef struct {
  int64_t terms, length, columns, padded, panel; /* panel: floats or pairs from one to the next */
} rnn_panels;

rnn_panels rnn_panels_of(const rnn_plan *p, int64_t terms, int64_t columns);
/* Floats or pairs of a packed matrix, both of 4 bytes. */
int64_t rnn_packed(const rnn_panels *m);
/* The D blocks of w_hh, turned so that h * packed gives the gates, or as they are; one after the other in out. */
void rnn_pack(const rnn_plan *p, const capl_tensor *w, bool turned, float *out);

/* n values of t from element `at` on as f32: in place, or converted into room. */
const float *rnn_floats(const capl_tensor *t, int64_t at, int64_t n, float *room);

/* supports(): all inputs that are no lengths are f32 or bf16, and there is something to do. */
bool rnn_supports(const capl_call *call);

#endif
