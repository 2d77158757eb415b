/* conv_timed.h -- what the benchmarks of convolutions share: random tensors, and the time of one call.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_BENCH_CONV_TIMED_H
#define CAPL_BENCH_CONV_TIMED_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "capl/capl.h"

/* Ends the program with the message of a call that failed. */
static inline void must(capl_status status)
{
  if (status == CAPL_OK) return;
  fprintf(stderr, "%s: %s\n", program_invocation_short_name, capl_error_last()->message);
  exit(1);
}

/* Normally distributed numbers (N,C,H,W): zeros take less power and so are faster. */
static inline capl_tensor *normal(capl_device *device, capl_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w)
{
  capl_tensor *t, *low;
  must(capl_tensor_new(device, CAPL_F32, 4, (int64_t[]){n, c, h, w}, CAPL_AUTO, &t));
  must(capl_tensor_fill_normal(t, 0, 1, 1, 0, 0, 0));
  if (dtype == CAPL_F32) return t;
  must(capl_run(CAPL_OP_cast, &t, 1, "dtype=bf16", &low));
  capl_tensor_unref(t);
  return low;
}

/* Milliseconds of one call on two inputs, by a clock of the system. */
static inline double once(capl_op_id op, capl_tensor **in, const char *attrs, clockid_t clock)
{
  capl_tensor *out[CAPL_MAX_OUT] = {NULL};
  struct timespec start, end;
  clock_gettime(clock, &start);
  must(capl_run(op, in, 2, attrs, out));
  clock_gettime(clock, &end);
  for (int k = 0; k < capl_op_get(op)->n_out; k++) capl_tensor_unref(out[k]);
  return 1e3 * (double)(end.tv_sec - start.tv_sec) + 1e-6 * (double)(end.tv_nsec - start.tv_nsec);
}

#endif
