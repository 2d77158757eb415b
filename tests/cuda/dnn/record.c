/* record.c -- tests of cuDNN records as data: text form, keys, tensors, and which are refused.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdio.h>

#include "backend/cuda/dnn.h"

cu_context cu; /* dnn_begin reads the switches; no GPU here */

static dnn_record parsed(const char *text)
{
  dnn_record record;
  assert_ok(dnn_parse(text, &record));
  return record;
}

/* ---- text ------------------------------------------------------------------------------------- */

static const char *const texts[] = {
  "conv2d bf16 x=64,1,60,160 y=64,32,60,160 kernel=3,3 padding=1,1 bias=bf16",
  "conv2d f16 x=2,33,9,9 y=2,10,3,2 kernel=3,2 stride=2,3 padding=1,0 dilation=1,2 groups=5 bias=f32 relu "
  "deterministic",
  "conv2d_grad_x f32 x=1,1,1,1 y=1,1,1,1 tf32",
  "conv2d_grad_w f32 x=8,4,5,6 y=8,4,3,4 kernel=3,3 deterministic",
  "batch_norm bf16 x=4,8,3,3 y=4,8,3,3 relu add running",
  "batch_norm_grad f32 x=4,4,1,1 y=4,4,1,1",
  "max_pool2d f16 x=1,3,8,8 y=1,3,4,4 kernel=2,2 stride=2,2 index",
  "max_pool2d_grad f32 x=1,3,8,8 y=1,3,4,4 kernel=2,2 stride=2,2",
  "avg_pool2d f32 x=1,3,8,8 y=1,3,4,4 kernel=3,3 stride=2,2 padding=1,1 count_pad",
  "avg_pool2d_grad bf16 x=1,3,8,8 y=1,3,4,4 kernel=2,2 stride=2,2",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static void a_text_comes_back_word_for_word(void **state)
{
  (void)state;
  for (int i = 0; i < TEXTS; i++) {
    char buf[DNN_TEXT];
    dnn_record record = parsed(texts[i]);
    assert_string_equal(dnn_describe(&record, buf, sizeof buf), texts[i]);
  }
}

static void the_longest_text_fits(void **state)
{
  (void)state;
  char buf[DNN_TEXT + 200];
  dnn_record record;
  memset(&record, 0x7F, sizeof record);
  record.kind = DNN_MAX_POOL_GRAD;
  record.dtype = record.bias_dtype = CAPL_BF16;
  record.bias = record.relu = record.add = record.running = record.index = record.count_pad = true;
  record.tf32 = record.deterministic = true;
  /* 20 positions of an int64 are more than any size an op allows; DNN_TEXT counts on 13. */
  int64_t *numbers[] = {record.x, record.y};
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 4; k++) numbers[i][k] = 9999999999999;
  for (int k = 0; k < 2; k++) record.kernel[k] = record.stride[k] = record.padding[k] = record.dilation[k] = 1048576;
  record.groups = 1048576;
  dnn_describe(&record, buf, sizeof buf);
  assert_true(strlen(buf) < DNN_TEXT);
  dnn_record again = parsed(buf);
  assert_true(dnn_same(&again, &record));
}

static void a_wrong_word_is_named(void **state)
{
  (void)state;
  dnn_record r;
  assert_fails(dnn_parse("conv3d f32", &r), CAPL_EVALUE, "a record has no kind 'conv3d'");
  assert_string_equal(capl_error_last()->hint, "did you mean 'conv2d'?");
  assert_fails(dnn_parse("", &r), CAPL_EVALUE, "a record has no kind ''");
  assert_fails(dnn_parse("conv2d f32 x=1,2,3", &r), CAPL_EVALUE,
               "'x=1,2,3' of a record: 4 numbers are needed, separated by commas");
  assert_fails(dnn_parse("conv2d f32 x=1,2,3,4,5", &r), CAPL_EVALUE,
               "'x=1,2,3,4,5' of a record: 4 numbers are needed, separated by commas");
  assert_fails(dnn_parse("conv2d f32 stride=a,1", &r), CAPL_EVALUE,
               "'stride=a,1' of a record: 2 numbers are needed, separated by commas");
  assert_fails(dnn_parse("conv2d f32 rely", &r), CAPL_EVALUE, "a record has no field 'rely'");
  assert_string_equal(capl_error_last()->hint, "did you mean 'relu'?");
  assert_int_equal(dnn_parse("conv2d f33", &r), CAPL_EVALUE);
}

/* ---- keys ------------------------------------------------------------------------------------- */

static void each_field_makes_another_key(void **state)
{
  (void)state;
  dnn_record records[TEXTS];
  for (int i = 0; i < TEXTS; i++) records[i] = parsed(texts[i]);
  for (int i = 0; i < TEXTS; i++)
    for (int k = 0; k < TEXTS; k++) assert_int_equal(dnn_same(&records[i], &records[k]), i == k);
  dnn_record a = records[0], b = a;
  b.tf32 = true;
  assert_false(dnn_same(&a, &b));
  assert_true(dnn_hash(&a) != dnn_hash(&b));
  b = a;
  b.x[3]++;
  assert_false(dnn_same(&a, &b));
  b = a;
  b.bias_dtype = CAPL_F32;
  assert_false(dnn_same(&a, &b));
}

static void gaps_in_the_struct_do_not_count(void **state)
{
  (void)state;
  dnn_record a, b;
  memset(&a, 0xAA, sizeof a);
  memset(&b, 0x55, sizeof b);
  dnn_record clean = parsed(texts[0]);
  /* Assigned field by field, so that what lies between them stays. */
#define TAKE(field) memcpy(&a.field, &clean.field, sizeof a.field), memcpy(&b.field, &clean.field, sizeof b.field)
  TAKE(kind), TAKE(dtype), TAKE(x), TAKE(y), TAKE(kernel), TAKE(stride), TAKE(padding), TAKE(dilation), TAKE(groups);
  TAKE(bias), TAKE(bias_dtype), TAKE(relu), TAKE(add), TAKE(running), TAKE(index), TAKE(count_pad), TAKE(tf32);
  TAKE(deterministic);
  assert_true(dnn_same(&a, &b));
  assert_int_equal(dnn_hash(&a), dnn_hash(&b));
}

static void the_switches_in_force_are_part_of_a_record(void **state)
{
  (void)state;
  cu.tf32 = cu.deterministic = true;
  dnn_record f32 = dnn_begin(DNN_CONV, CAPL_F32), f16 = dnn_begin(DNN_CONV, CAPL_F16),
      norm = dnn_begin(DNN_NORM, CAPL_F32);
  assert_true(f32.tf32 && f32.deterministic);
  assert_true(!f16.tf32 && f16.deterministic); /* tf32 is about f32 products */
  assert_true(!norm.tf32 && norm.deterministic);
  cu.tf32 = cu.deterministic = false;
  f32 = dnn_begin(DNN_CONV, CAPL_F32);
  assert_true(!f32.tf32 && !f32.deterministic);
}

/* ---- tensors ---------------------------------------------------------------------------------- */

static void need_tensor(const dnn_record *r, dnn_role role, bool read, bool written, capl_dtype dtype,
                        const int64_t *size)
{
  dnn_tensor t = dnn_tensor_of(r, role);
  assert_true(t.used == (read || written));
  assert_true(t.read == read && t.written == written);
  assert_int_equal(t.dtype, dtype);
  assert_memory_equal(t.size, size, sizeof t.size);
}
#define SIZE(...) ((const int64_t[4]){__VA_ARGS__})

static int used_tensors(const dnn_record *r)
{
  int n = 0;
  for (int role = 0; role < DNN_ROLES; role++) n += dnn_tensor_of(r, (dnn_role)role).used;
  return n;
}

static void a_convolution_has_its_tensors(void **state)
{
  (void)state;
  dnn_record r = parsed("conv2d bf16 x=2,6,9,8 y=2,4,7,6 kernel=3,3 groups=2 bias=f32");
  need_tensor(&r, DNN_X, true, false, CAPL_BF16, SIZE(2, 6, 9, 8));
  need_tensor(&r, DNN_W, true, false, CAPL_BF16, SIZE(4, 3, 3, 3));
  need_tensor(&r, DNN_BIAS, true, false, CAPL_F32, SIZE(1, 4, 1, 1));
  need_tensor(&r, DNN_Y, false, true, CAPL_BF16, SIZE(2, 4, 7, 6));
  assert_int_equal(used_tensors(&r), 4);
  r = parsed("conv2d_grad_w f16 x=2,6,9,8 y=2,4,7,6 kernel=3,3 groups=2");
  need_tensor(&r, DNN_DW, false, true, CAPL_F16, SIZE(4, 3, 3, 3));
  need_tensor(&r, DNN_DY, true, false, CAPL_F16, SIZE(2, 4, 7, 6));
  assert_int_equal(used_tensors(&r), 3);
}

static void a_norm_and_a_pool_have_their_tensors(void **state)
{
  (void)state;
  dnn_record r = parsed("batch_norm f16 x=4,8,3,5 y=4,8,3,5 relu add running");
  need_tensor(&r, DNN_RUNNING_VAR, true, true, CAPL_F32, SIZE(1, 8, 1, 1));
  need_tensor(&r, DNN_INVSTD, false, true, CAPL_F32, SIZE(1, 8, 1, 1));
  need_tensor(&r, DNN_ADD, true, false, CAPL_F16, SIZE(4, 8, 3, 5));
  assert_int_equal(used_tensors(&r), 9);
  r = parsed("max_pool2d_grad f32 x=1,3,8,8 y=1,3,4,4 kernel=2,2 stride=2,2");
  need_tensor(&r, DNN_INDEX, true, false, CAPL_U8, SIZE(1, 3, 4, 4));
  need_tensor(&r, DNN_DX, false, true, CAPL_F32, SIZE(1, 3, 8, 8));
  assert_int_equal(used_tensors(&r), 3);
}

/* ---- refusals --------------------------------------------------------------------------------- */

static void what_no_engine_takes_is_refused_with_the_reason(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
    {"conv2d bf16 x=64,1,60,160 y=64,32,60,160 kernel=3,3 padding=1,1", NULL},
    {"conv2d f64 x=1,1,3,3 y=1,1,3,3", "only f32, f16 and bf16"},
    {"conv2d f32 x=1,1,3,3 y=1,1,3,3 bias=i32", "only f32, f16 and bf16 for bias"},
    {"conv2d f32 x=0,1,3,3 y=0,1,3,3", "a tensor is empty"},
    {"conv2d f32 x=1,3,3,3 y=1,2,3,3 groups=2", "groups do not divide the channels"},
    {"batch_norm bf16 x=4,8,3,3 y=4,8,3,3", NULL},
    {"batch_norm bf16 x=4,20,3,3 y=4,20,3,3", "channels are not a multiple of 8"},
    {"batch_norm f32 x=4,20,3,3 y=4,20,3,3", NULL},
    {"batch_norm_grad f32 x=4,10,3,3 y=4,10,3,3", "channels are not a multiple of 4"},
    {"batch_norm f32 x=4,4,3,3 y=4,4,3,2", "x and y differ in size"},
    {"max_pool2d f32 x=1,3,30,30 y=1,3,2,2 kernel=12,12 stride=12,12 index",
     "an i8 index cannot name the window's positions"},
    {"max_pool2d f32 x=1,3,30,30 y=1,3,2,2 kernel=12,12 stride=12,12", NULL},
    {"max_pool2d f32 x=1,3,8,8 y=1,4,4,4 kernel=2,2 stride=2,2", "x and y differ in images or channels"},
    {"avg_pool2d f32 x=1,3,7,7 y=1,3,4,4 kernel=2,2 stride=2,2 count_pad",
     "cuDNN would count what ceil_mode adds as padding"},
    {"avg_pool2d f32 x=1,3,7,7 y=1,3,4,4 kernel=2,2 stride=2,2", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    dnn_record r = parsed(cases[i][0]);
    const char *refusal = dnn_refusal(&r);
    assert_int_equal(dnn_supports(&r), !cases[i][1]);
    if (cases[i][1]) assert_string_equal(refusal ? refusal : "taken", cases[i][1]);
  }
}

/* ---- counters --------------------------------------------------------------------------------- */

static uint64_t count_of(const char *text, bool tensor_cores, const char *counter)
{
  dnn_record r = parsed(text);
  uint64_t before = capl_counter_get(counter);
  dnn_count(&r, tensor_cores);
  return capl_counter_get(counter) - before;
}

static void a_product_counts_in_the_type_it_ran_in(void **state)
{
  (void)state;
  const char *tf32 = "conv2d f32 x=1,1,3,3 y=1,1,3,3 tf32";
  assert_int_equal(count_of(tf32, true, "tf32_kernels"), 1);
  assert_int_equal(count_of(tf32, false, "tf32_kernels"), 0); /* allowed, but not what the engine does */
  assert_int_equal(count_of(tf32, false, "fp32_kernels"), 1);
  assert_int_equal(count_of("conv2d_grad_w bf16 x=1,1,3,3 y=1,1,3,3", true, "bf16_kernels"), 1);
  assert_int_equal(count_of("conv2d_grad_x f16 x=1,1,3,3 y=1,1,3,3", true, "fp16_kernels"), 1);
  assert_int_equal(count_of("batch_norm f32 x=4,4,3,3 y=4,4,3,3", true, "fp32_kernels"), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_text_comes_back_word_for_word),
    cmocka_unit_test(the_longest_text_fits),
    cmocka_unit_test(a_wrong_word_is_named),
    cmocka_unit_test(each_field_makes_another_key),
    cmocka_unit_test(gaps_in_the_struct_do_not_count),
    cmocka_unit_test(the_switches_in_force_are_part_of_a_record),
    cmocka_unit_test(a_convolution_has_its_tensors),
    cmocka_unit_test(a_norm_and_a_pool_have_their_tensors),
    cmocka_unit_test(what_no_engine_takes_is_refused_with_the_reason),
    cmocka_unit_test(a_product_counts_in_the_type_it_ran_in),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
