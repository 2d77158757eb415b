/* read_back.c -- what the real cuBLASLt holds of a record is what the record says. Needs no GPU.
**
** cuBLASLt gives no algorithms without a GPU, but its descriptors live on the host: the test makes them through blas.c,
** reads every attribute back and compares with what the record must become in the library's terms: columns instead of
** rows, so A is our b, B our a, and D has our N rows and M columns.
** SPDX-License-Identifier: Apache-2.0
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cuda/blas.h"

cu_context cu = {.capability = 90};

capl_status cu_status(cudaError_t error, const char *doing)
{
  return error == cudaSuccess ? CAPL_OK : CAPL_FAIL(CAPL_EDEVICE, "%s", doing);
}

/* In the expected texts: compute 68 is f32, 77 is f32 through tf32; types 0 f32, 2 f16, 14 bf16; epilogues 1 none, 2
** relu, 4 bias, 6 bias and relu, 512 sums of B. */
enum { COMPUTE_32F = 68, COMPUTE_TF32 = 77 };

static void expect(const blas_record *record, const char *wanted)
{
  char text[512];
  assert_int_equal(blas_read_back(record, text, sizeof text), CAPL_OK);
  assert_string_equal(text, wanted);
}

static void a_layer_is_its_weight_turned_times_x(void **state)
{
  (void)state;
  blas_record r = blas_begin(CAPL_BF16, 64, 10, 300, false, true);
  r.epilogue = BLAS_BIAS;
  expect(&r, "compute=68 scale=0 turn=1,0 epilogue=4 vector=14"
             " A=bf16 300x10 ld=300 batch=1:0 order=0 B=bf16 300x64 ld=300 batch=1:0 order=0"
             " D=bf16 10x64 ld=10 batch=1:0 order=0");
  r.epilogue = BLAS_BIAS_RELU;
  expect(&r, "compute=68 scale=0 turn=1,0 epilogue=6 vector=14"
             " A=bf16 300x10 ld=300 batch=1:0 order=0 B=bf16 300x64 ld=300 batch=1:0 order=0"
             " D=bf16 10x64 ld=10 batch=1:0 order=0");
}

static void relu_alone_has_no_vector(void **state)
{
  (void)state;
  blas_record r = blas_begin(CAPL_F32, 5, 3, 7, false, false);
  r.epilogue = BLAS_RELU;
  expect(&r, "compute=68 scale=0 turn=0,0 epilogue=2 vector=4294967295"
             " A=f32 3x7 ld=3 batch=1:0 order=0 B=f32 7x5 ld=7 batch=1:0 order=0 D=f32 3x5 ld=3 batch=1:0 order=0");
}

static void weight_gradients_are_f32_and_sum_the_rows_of_a(void **state)
{
  (void)state;
  blas_record r = blas_begin(CAPL_F16, 10, 300, 64, true, false);
  r.y.dtype = CAPL_F32;
  r.epilogue = BLAS_ROW_SUMS;
  expect(&r, "compute=68 scale=0 turn=0,1 epilogue=512 vector=0"
             " A=f16 300x64 ld=300 batch=1:0 order=0 B=f16 10x64 ld=10 batch=1:0 order=0"
             " D=f32 300x10 ld=300 batch=1:0 order=0");
}

static void tf32_is_in_force_only_where_the_record_says_so(void **state)
{
  (void)state;
  const char *format = "compute=%d scale=0 turn=0,0 epilogue=1 vector=4294967295"
                       " A=f32 3x7 ld=3 batch=1:0 order=0 B=f32 7x5 ld=7 batch=1:0 order=0 D=f32 3x5 ld=3 batch=1:0 "
                       "order=0";
  char wanted[256];
  blas_record off = blas_begin(CAPL_F32, 5, 3, 7, false, false);
  snprintf(wanted, sizeof wanted, format, COMPUTE_32F);
  expect(&off, wanted);
  cu.tf32 = true;
  blas_record on = blas_begin(CAPL_F32, 5, 3, 7, false, false), half = blas_begin(CAPL_BF16, 5, 3, 7, false, false);
  cu.capability = 75;
  blas_record old = blas_begin(CAPL_F32, 5, 3, 7, false, false);
  cu.capability = 90;
  cu.tf32 = false;
  snprintf(wanted, sizeof wanted, format, COMPUTE_TF32);
  expect(&on, wanted);
  assert_false(half.tf32);
  assert_false(old.tf32);
}

static void batches_have_their_steps_and_may_repeat_a_matrix(void **state)
{
  (void)state;
  blas_record r = blas_begin(CAPL_F32, 5, 3, 7, true, true);
  r.batch = 4;
  r.b.batch_step = 0;
  expect(&r, "compute=68 scale=0 turn=1,1 epilogue=1 vector=4294967295"
             " A=f32 7x3 ld=7 batch=4:0 order=0 B=f32 5x7 ld=5 batch=4:35 order=0 D=f32 3x5 ld=3 batch=4:15 order=0");
}

static void records_are_described_in_one_line(void **state)
{
  (void)state;
  char text[BLAS_TEXT];
  blas_record r = blas_begin(CAPL_BF16, 10, 300, 64, true, false);
  r.y.dtype = CAPL_F32;
  r.epilogue = BLAS_ROW_SUMS;
  blas_align(&r, &(blas_pointers){(void *)0x1002, (void *)0x1010, (void *)0x1100, (void *)0x1004});
  assert_string_equal(blas_describe(&r, text, sizeof text),
                      "bf16 10x300x64 a=turned rows=10,300,300 y=f32 aligned=2,16,64,4 row_sums");
}

static void records_differ_in_everything_that_a_plan_depends_on(void **state)
{
  (void)state;
  const blas_record r = blas_begin(CAPL_BF16, 10, 300, 64, true, false);
  blas_record same = blas_begin(CAPL_BF16, 10, 300, 64, true, false), other[9];
  for (int k = 0; k < 9; k++) other[k] = r;
  other[0].M++;
  other[1].batch = 2;
  other[2].a.turned = false;
  other[3].b.row_step++;
  other[4].y.dtype = CAPL_F32;
  other[5].epilogue = BLAS_ROW_SUMS;
  other[6].b.alignment = 2;
  other[7].deterministic = true;
  other[8].vector_alignment = 4;
  assert_true(blas_same(&r, &same));
  assert_int_equal(blas_hash(&r), blas_hash(&same));
  for (int k = 0; k < 9; k++) assert_false(blas_same(&r, &other[k]));
}

static void without_a_gpu_a_product_fails_with_words(void **state)
{
  (void)state;
  bool found;
  blas_record r = blas_begin(CAPL_F32, 5, 3, 7, false, false);
  if (blas_supports(&r, &found) == CAPL_OK) { /* there is a GPU after all */
    blas_close();
    skip();
  }
  assert_int_equal(capl_error_last()->code, CAPL_EDEVICE);
  cu.capturing = true;
  assert_int_equal(blas_supports(&r, &found), CAPL_ESTATE);
  assert_non_null(strstr(capl_error_last()->message, "captured step"));
  cu.capturing = false;
  assert_non_null(strchr(blas_version(), '.'));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_layer_is_its_weight_turned_times_x),
    cmocka_unit_test(relu_alone_has_no_vector),
    cmocka_unit_test(weight_gradients_are_f32_and_sum_the_rows_of_a),
    cmocka_unit_test(tf32_is_in_force_only_where_the_record_says_so),
    cmocka_unit_test(batches_have_their_steps_and_may_repeat_a_matrix),
    cmocka_unit_test(records_are_described_in_one_line),
    cmocka_unit_test(records_differ_in_everything_that_a_plan_depends_on),
    cmocka_unit_test(without_a_gpu_a_product_fails_with_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
