/* coverage.c -- every op has a kernel on cuda, in f32, f16 and bf16 where it is not f32 by definition.
** SPDX-License-Identifier: Apache-2.0
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "capl/backend.h"
#include "capl/capl.h"

enum { REAL = CAPL_BIT(CAPL_F32) | CAPL_BIT(CAPL_F16) | CAPL_BIT(CAPL_BF16) };

/* Ops whose tensors are f32 by definition: master weights, gradients, optimizer states. */
static const capl_op_id f32_only[] = {CAPL_OP_sgd_step, CAPL_OP_adam_step, CAPL_OP_amsgrad_step,
                                      CAPL_OP_rmsprop_step, CAPL_OP_grad_norm, CAPL_OP_step_control};

static uint32_t wanted_dtypes(capl_op_id op)
{
  for (size_t k = 0; k < sizeof f32_only / sizeof *f32_only; k++)
    if (f32_only[k] == op) return CAPL_BIT(CAPL_F32);
  return REAL;
}

/* Made by the passes over opened model files only, and only for devices that have it; elsewhere it runs expanded. And
** what the optimizer Muon makes of other ops where there is no kernel. */
static bool may_lack_a_kernel(capl_op_id op)
{
  return (op == CAPL_OP_conv2d_act && capl_op_get(op)->expand) || op == CAPL_OP_muon_step;
}

/* What is wrong with the row of one op; NULL = nothing. */
static const char *trouble(const capl_device *cuda, capl_op_id id)
{
  const capl_op *op = capl_op_get(id);
  const capl_kernel *row = cuda->kernels[id];
  if (op->view) return row ? "is a view and has a kernel" : NULL;
  if (!row) return may_lack_a_kernel(id) ? NULL : "has no kernel";
  uint32_t wanted = wanted_dtypes(id);
  return row->dtypes && (row->dtypes & wanted) != wanted ? "lacks a dtype" : NULL;
}

static void every_op_has_a_kernel(void **state)
{
  (void)state;
  capl_device *cuda;
  if (capl_device_open("cuda", &cuda) != CAPL_OK) fail_msg("%s", capl_error_last()->message);
  int bad = 0;
  for (int id = 0; id < CAPL_OP_COUNT; id++) {
    const char *why = trouble(cuda, (capl_op_id)id);
    if (!why) continue;
    print_error("%s %s\n", capl_op_get((capl_op_id)id)->name, why);
    bad++;
  }
  assert_int_equal(bad, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_has_a_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
