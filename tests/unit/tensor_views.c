/* tensor_views.c -- tests of dtypes, tensor handles, memory order, values and aliases.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include "base/stop.h"
#include "capl/backend.h"
#include "capl/rng.h"
#include "capl/tensor.h"

static capl_device *ref;

static int open_ref(void **state)
{
  (void)state;
  assert_ok(capl_device_open("ref", &ref));
  return 0;
}

#define SIZE(...) ((int64_t[]){__VA_ARGS__})

static capl_tensor *make(capl_dtype dtype, int ndim, const int64_t *size, const double *values)
{
  capl_tensor *t;
  assert_ok(capl_tensor_from_doubles(ref, dtype, ndim, size, values, &t));
  return t;
}

static void check_values(const capl_tensor *t, int64_t n, const double *expected)
{
  double got[64];
  assert_int_equal(capl_tensor_numel(t), n);
  assert_ok(capl_tensor_to_doubles(t, got));
  for (int64_t i = 0; i < n; i++)
    if (got[i] != expected[i]) fail_msg("element %lld is %g, expected %g", (long long)i, got[i], expected[i]);
}

static void dtypes_have_names_sizes_and_aliases(void **state)
{
  (void)state;
  capl_dtype d;
  for (int i = 0; i < CAPL_DTYPE_COUNT; i++) {
    assert_ok(capl_dtype_parse(capl_dtype_name((capl_dtype)i), &d));
    assert_int_equal(d, i);
  }
  assert_ok(capl_dtype_parse("bfloat16", &d));
  assert_int_equal(d, CAPL_BF16);
  assert_int_equal(capl_dtype_size(CAPL_BF16), 2);
  assert_int_equal(capl_dtype_size(CAPL_I64), 8);
  assert_true(capl_dtype_is_float(CAPL_F16));
  assert_false(capl_dtype_is_float(CAPL_BOOL));
  assert_fails(capl_dtype_parse("bff16", &d), CAPL_EVALUE, "unknown dtype 'bff16'");
  assert_non_null(strstr(capl_error_last()->hint, "did you mean 'bf16'?"));
}

static void images_lie_channels_last_unless_asked_otherwise(void **state)
{
  (void)state;
  capl_tensor *image, *row, *matrix;
  assert_ok(capl_tensor_new(ref, CAPL_F32, 4, SIZE(2, 3, 4, 5), CAPL_AUTO, &image));
  assert_ok(capl_tensor_new(ref, CAPL_F32, 4, SIZE(2, 3, 4, 5), CAPL_ROW, &row));
  assert_ok(capl_tensor_new(ref, CAPL_F32, 2, SIZE(3, 4), CAPL_AUTO, &matrix));
  assert_memory_equal(image->stride, SIZE(60, 1, 15, 3), 4 * sizeof(int64_t));
  assert_memory_equal(row->stride, SIZE(60, 20, 5, 1), 4 * sizeof(int64_t));
  assert_memory_equal(matrix->stride, SIZE(4, 1), 2 * sizeof(int64_t));
  assert_true(capl_tensor_is_nhwc(image) && !capl_tensor_is_row(image) && capl_tensor_is_dense(image));
  assert_true(!capl_tensor_is_nhwc(row) && capl_tensor_is_row(row) && capl_tensor_is_dense(row));
  assert_true(capl_tensor_same_shape(image, row) && !capl_tensor_same_layout(image, row));
  capl_tensor_unref(image);
  capl_tensor_unref(row);
  capl_tensor_unref(matrix);
}

static void one_channel_images_are_both_orders_at_once(void **state)
{
  (void)state;
  capl_tensor *t;
  assert_ok(capl_tensor_new(ref, CAPL_U8, 4, SIZE(2, 1, 4, 5), CAPL_AUTO, &t));
  assert_true(capl_tensor_is_nhwc(t) && capl_tensor_is_row(t));
  capl_tensor_unref(t);
}

static void values_go_in_and_out_in_logical_order(void **state)
{
  (void)state;
  const double v[] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int d = 0; d < CAPL_DTYPE_COUNT; d++) {
    if (d == CAPL_BOOL) continue;
    capl_tensor *t = make((capl_dtype)d, 4, SIZE(1, 2, 2, 2), v);
    check_values(t, 8, v);
    capl_tensor_unref(t);
  }
  capl_tensor *t = make(CAPL_F32, 4, SIZE(1, 2, 2, 2), v);
  /* Memory order N,H,W,C: the channels of a pixel are neighbours. */
  const float memory[] = {0, 4, 1, 5, 2, 6, 3, 7};
  assert_memory_equal(capl_tensor_data(t), memory, sizeof memory);
  capl_tensor_unref(t);
}

static void integers_are_clamped_not_wrapped(void **state)
{
  (void)state;
  const double v[] = {-1, 300, 2.9};
  capl_tensor *t = make(CAPL_U8, 1, SIZE(3), v);
  check_values(t, 3, (double[]){0, 255, 2});
  capl_tensor_unref(t);
  t = make(CAPL_BOOL, 1, SIZE(3), (double[]){0, 7, -0.5});
  check_values(t, 3, (double[]){0, 1, 1});
  capl_tensor_unref(t);
}

static void an_alias_shares_memory_and_keeps_it_alive(void **state)
{
  (void)state;
  capl_tensor *t = make(CAPL_F32, 2, SIZE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
  capl_tensor *column;
  assert_ok(capl_tensor_alias(t, 1, SIZE(2), SIZE(3), 1, &column));
  check_values(column, 2, (double[]){2, 5});
  assert_false(capl_tensor_is_row(column));
  assert_false(capl_tensor_is_dense(column));
  assert_ok(capl_tensor_fill(column, 9));
  check_values(t, 6, (double[]){1, 9, 3, 4, 9, 6});
  capl_tensor_unref(t);
  check_values(column, 2, (double[]){9, 9});
  capl_tensor_unref(column);
}

static void transposed_and_broadcast_views_read_right(void **state)
{
  (void)state;
  capl_tensor *t = make(CAPL_I32, 2, SIZE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
  capl_tensor *transposed, *broadcast;
  assert_ok(capl_tensor_alias(t, 2, SIZE(3, 2), SIZE(1, 3), 0, &transposed));
  check_values(transposed, 6, (double[]){1, 4, 2, 5, 3, 6});
  assert_true(capl_tensor_is_dense(transposed) && !capl_tensor_is_row(transposed));
  assert_ok(capl_tensor_alias(t, 2, SIZE(2, 3), SIZE(0, 1), 3, &broadcast));
  check_values(broadcast, 6, (double[]){4, 5, 6, 4, 5, 6});
  assert_false(capl_tensor_is_dense(broadcast));
  capl_tensor_unref(transposed);
  capl_tensor_unref(broadcast);
  capl_tensor_unref(t);
}

static void copies_convert_dtype_and_order(void **state)
{
  (void)state;
  const double v[] = {1.5, -2, 3, 4, 5, 6, 7, 300};
  capl_tensor *image = make(CAPL_F32, 4, SIZE(1, 2, 2, 2), v), *row, *wrong;
  assert_ok(capl_tensor_new(ref, CAPL_F64, 4, SIZE(1, 2, 2, 2), CAPL_ROW, &row));
  assert_ok(capl_tensor_copy(row, image));
  assert_memory_equal(capl_tensor_data(row), v, sizeof v);
  assert_ok(capl_tensor_new(ref, CAPL_U8, 1, SIZE(8), CAPL_AUTO, &wrong));
  assert_fails(capl_tensor_copy(wrong, image), CAPL_ESHAPE, "cannot copy (1,2,2,2) f32 ref into (8) u8 ref");
  capl_tensor_unref(image);
  capl_tensor_unref(row);
  capl_tensor_unref(wrong);
}

static void item_wants_exactly_one_element(void **state)
{
  (void)state;
  double v;
  capl_tensor *scalar = make(CAPL_BF16, 0, NULL, (double[]){2.5});
  capl_tensor *vector = make(CAPL_F32, 1, SIZE(2), (double[]){1, 2});
  assert_ok(capl_tensor_item(scalar, &v));
  assert_true(v == 2.5);
  assert_fails(capl_tensor_item(vector, &v), CAPL_ESHAPE, "item() needs one element, the tensor is (2) f32 ref");
  capl_tensor_unref(scalar);
  capl_tensor_unref(vector);
}

static void empty_tensors_are_ordinary(void **state)
{
  (void)state;
  capl_tensor *t, *copy;
  assert_ok(capl_tensor_new(ref, CAPL_F32, 4, SIZE(0, 3, 4, 5), CAPL_AUTO, &t));
  assert_int_equal(capl_tensor_numel(t), 0);
  assert_int_equal(capl_tensor_bytes(t), 0);
  assert_ok(capl_tensor_fill(t, 1));
  assert_ok(capl_tensor_new_like(t, &copy));
  assert_ok(capl_tensor_copy(copy, t));
  assert_ok(capl_tensor_to_doubles(copy, NULL));
  capl_tensor_unref(t);
  capl_tensor_unref(copy);
}

static void impossible_sizes_are_refused(void **state)
{
  (void)state;
  capl_tensor *t;
  assert_fails(capl_tensor_new(ref, CAPL_F32, 2, SIZE(2, -3), CAPL_AUTO, &t), CAPL_EVALUE,
               "size -3 of dim 2 is negative");
  assert_fails(capl_tensor_new(ref, CAPL_F32, 7, SIZE(1, 1, 1, 1, 1, 1, 1), CAPL_AUTO, &t), CAPL_EVALUE,
               "a tensor has 0 to 6 dims, not 7");
  assert_fails(capl_tensor_new(ref, CAPL_F32, 2, SIZE(INT64_MAX / 2, 3), CAPL_AUTO, &t), CAPL_EVALUE,
               "a tensor of that size has too many elements");
}

static void descriptions_fit_their_buffer(void **state)
{
  (void)state;
  char text[64], small[8];
  capl_tensor *t = make(CAPL_I64, 3, SIZE(1, 2, 3), (double[6]){0});
  assert_string_equal(capl_tensor_describe(t, text, sizeof text), "(1,2,3) i64 ref");
  assert_string_equal(capl_tensor_describe(t, small, sizeof small), "(1,2,3)");
  assert_string_equal(capl_shape_describe(0, NULL, text, sizeof text), "()");
  capl_tensor_unref(t);
}

static void random_fills_are_the_named_stream(void **state)
{
  (void)state;
  enum { N = 10 };
  capl_tensor *t = make(CAPL_F32, 1, SIZE(N), (double[N]){0});
  double got[N];
  capl_rng rng;
  assert_ok(capl_tensor_fill_uniform(t, -2, 6, 3, 1, 2, 4));
  assert_ok(capl_tensor_to_doubles(t, got));
  capl_rng_init(&rng, 3, 1, 2, 4);
  for (int i = 0; i < N; i++) assert_true(got[i] == (float)(-2 + 8.0 * capl_rng_float(&rng)));
  assert_ok(capl_tensor_fill_normal(t, 1, 0.5, 3, 1, 2, 5));
  assert_ok(capl_tensor_to_doubles(t, got));
  capl_rng_init(&rng, 3, 1, 2, 5);
  for (int i = 0; i < N; i++) assert_true(got[i] == (float)(1 + 0.5 * capl_rng_normal(&rng)));
  capl_tensor_unref(t);
}

static bool always(void) { return true; }

static void long_fills_end_when_somebody_wants_the_end(void **state)
{
  (void)state;
  enum { SHORT = 1000, LONG = 1 << 20 };
  static double values[LONG];
  capl_tensor *t = NULL, *few = make(CAPL_F32, 1, SIZE(SHORT), values);
  assert_ok(capl_tensor_new(ref, CAPL_F32, 1, SIZE(LONG), CAPL_AUTO, &t));
  capl_stop_when(always);
  capl_status uniform = capl_tensor_fill_uniform(t, 0, 1, 3, 1, 2, 4),
      normal = capl_tensor_fill_normal(t, 0, 1, 3, 1, 2, 4);
  capl_tensor *listed = NULL;
  capl_status list = capl_tensor_from_doubles(ref, CAPL_F32, 1, SIZE(LONG), values, &listed);
  capl_status brief = capl_tensor_fill_normal(few, 0, 1, 3, 1, 2, 4);
  capl_stop_when(NULL);
  assert_int_equal(uniform, CAPL_EINTERRUPT);
  assert_int_equal(normal, CAPL_EINTERRUPT);
  assert_int_equal(list, CAPL_EINTERRUPT);
  assert_null(listed);
  assert_ok(brief);
  assert_ok(capl_tensor_fill_normal(t, 0, 1, 3, 1, 2, 4));
  capl_tensor_unref(few);
  capl_tensor_unref(t);
}

static void random_fills_ignore_the_memory_order(void **state)
{
  (void)state;
  capl_tensor *image, *row;
  double a[24], b[24];
  assert_ok(capl_tensor_new(ref, CAPL_F32, 4, SIZE(2, 3, 2, 2), CAPL_AUTO, &image));
  assert_ok(capl_tensor_new(ref, CAPL_F32, 4, SIZE(2, 3, 2, 2), CAPL_ROW, &row));
  assert_ok(capl_tensor_fill_uniform(image, 0, 1, 1, 0, 0, 0));
  assert_ok(capl_tensor_fill_uniform(row, 0, 1, 1, 0, 0, 0));
  assert_ok(capl_tensor_to_doubles(image, a));
  assert_ok(capl_tensor_to_doubles(row, b));
  assert_memory_equal(a, b, sizeof a);
  capl_tensor_unref(image);
  capl_tensor_unref(row);
}

static void meta_tensors_have_shapes_but_no_values(void **state)
{
  (void)state;
  capl_device *meta;
  capl_tensor *t;
  double v;
  assert_ok(capl_device_open("meta", &meta));
  /* 4 TB: nothing is really allocated. */
  assert_ok(capl_tensor_new(meta, CAPL_F32, 2, SIZE(1 << 20, 1 << 20), CAPL_AUTO, &t));
  assert_null(capl_tensor_data(t));
  assert_ok(capl_tensor_fill(t, 1));
  capl_tensor_unref(t);
  assert_ok(capl_tensor_new(meta, CAPL_F32, 0, NULL, CAPL_AUTO, &t));
  assert_fails(capl_tensor_item(t, &v), CAPL_EUNSUPPORTED, "meta tensors have shapes but no values");
  capl_tensor_unref(t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(dtypes_have_names_sizes_and_aliases),
    cmocka_unit_test(images_lie_channels_last_unless_asked_otherwise),
    cmocka_unit_test(one_channel_images_are_both_orders_at_once),
    cmocka_unit_test(values_go_in_and_out_in_logical_order),
    cmocka_unit_test(integers_are_clamped_not_wrapped),
    cmocka_unit_test(an_alias_shares_memory_and_keeps_it_alive),
    cmocka_unit_test(transposed_and_broadcast_views_read_right),
    cmocka_unit_test(copies_convert_dtype_and_order),
    cmocka_unit_test(item_wants_exactly_one_element),
    cmocka_unit_test(empty_tensors_are_ordinary),
    cmocka_unit_test(impossible_sizes_are_refused),
    cmocka_unit_test(descriptions_fit_their_buffer),
    cmocka_unit_test(random_fills_are_the_named_stream),
    cmocka_unit_test(long_fills_end_when_somebody_wants_the_end),
    cmocka_unit_test(random_fills_ignore_the_memory_order),
    cmocka_unit_test(meta_tensors_have_shapes_but_no_values),
  };
  return cmocka_run_group_tests(tests, open_ref, NULL);
}
