/* tape_backward.c -- tests of recording and of walking the tape backwards.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include "capl/capl.h"

static capl_device *ref;

static int open_ref(void **state)
{
  (void)state;
  assert_ok(capl_device_open("ref", &ref));
  return 0;
}

static int no_memory_is_left(void **state)
{
  (void)state;
  capl_memory_stats s;
  capl_grad_set_enabled(true);
  capl_memory_stats_get(ref, &s);
  assert_int_equal(s.live, 0);
  return 0;
}

#define IN(...) ((capl_tensor *[]){__VA_ARGS__})

/* A vector, or with n = 0 a scalar. */
static capl_tensor *vector(capl_dtype dtype, int64_t n, const double *values)
{
  capl_tensor *t;
  assert_ok(capl_tensor_from_doubles(ref, dtype, n > 0, &n, values, &t));
  return t;
}

static capl_tensor *leaf(int64_t n, const double *values)
{
  capl_tensor *t = vector(CAPL_F32, n, values);
  t->requires_grad = true;
  return t;
}

static capl_tensor *run(capl_op_id id, capl_tensor **in, int n_in, const char *attrs)
{
  capl_tensor *out[CAPL_MAX_OUT];
  assert_ok(capl_run(id, in, n_in, attrs, out));
  return out[0];
}

static void check(const capl_tensor *t, int64_t n, const double *expected)
{
  double v[8];
  assert_non_null(t);
  assert_int_equal(capl_tensor_numel(t), n);
  assert_ok(capl_tensor_to_doubles(t, v));
  for (int64_t i = 0; i < n; i++)
    if (v[i] != expected[i]) fail_msg("element %lld is %g, expected %g", (long long)i, v[i], expected[i]);
}

static void unref_all(int n, capl_tensor **list)
{
  for (int i = 0; i < n; i++) capl_tensor_unref(list[i]);
}
#define UNREF(...) unref_all((int)(sizeof(IN(__VA_ARGS__)) / sizeof(capl_tensor *)), IN(__VA_ARGS__))

static void gradients_follow_the_product_rule(void **state)
{
  (void)state;
  capl_tensor *a = leaf(2, (double[]){2, 3}), *b = leaf(2, (double[]){5, 7});
  capl_tensor *y = run(CAPL_OP_mul, IN(a, b), 2, NULL), *loss = run(CAPL_OP_sum, &y, 1, NULL);
  assert_ok(capl_backward(loss, 1));
  check(a->grad, 2, (double[]){5, 7});
  check(b->grad, 2, (double[]){2, 3});
  UNREF(a, b, y, loss);
}

static void gradients_of_every_use_and_every_run_add_up(void **state)
{
  (void)state;
  capl_tensor *a = leaf(2, (double[]){2, 3});
  for (int times = 1; times <= 2; times++) {
    /* a * a + a: 2a + 1 */
    capl_tensor *square = run(CAPL_OP_mul, IN(a, a), 2, NULL), *y = run(CAPL_OP_add, IN(square, a), 2, NULL);
    capl_tensor *loss = run(CAPL_OP_sum, &y, 1, NULL);
    assert_ok(capl_backward(loss, 1));
    check(a->grad, 2, (double[]){5 * times, 7 * times});
    UNREF(square, y, loss);
  }
  UNREF(a);
}

static void the_seed_scales_every_gradient(void **state)
{
  (void)state;
  capl_tensor *a = leaf(2, (double[]){2, 3}), *loss = run(CAPL_OP_sum, &a, 1, NULL);
  assert_ok(capl_backward(loss, 1024));
  check(a->grad, 2, (double[]){1024, 1024});
  UNREF(a, loss);
}

static void a_seed_can_be_a_tensor(void **state)
{
  (void)state;
  capl_tensor *x = leaf(2, (double[]){3, 4}), *loss = run(CAPL_OP_sum, &x, 1, NULL);
  capl_tensor *seed = vector(CAPL_F64, 1, (double[]){0.5}), *two = vector(CAPL_F32, 2, (double[]){1, 1});
  capl_tensor *whole = vector(CAPL_I32, 1, (double[]){1});
  assert_fails(capl_backward_from(loss, two), CAPL_ESHAPE,
               "backward: the seed is one floating-point number, not (2) f32 ref");
  assert_fails(capl_backward_from(loss, whole), CAPL_ESHAPE,
               "backward: the seed is one floating-point number, not (1) i32 ref");
  assert_ok(capl_backward_from(loss, seed));
  check(x->grad, 2, (double[]){0.5, 0.5});
  UNREF(x, loss, seed, two, whole);
}

static void a_history_knows_its_dtypes(void **state)
{
  (void)state;
  bool has;
  capl_tensor *x = leaf(2, (double[]){3, 4}), *low = run(CAPL_OP_cast, &x, 1, "dtype=f16");
  capl_tensor *back = run(CAPL_OP_cast, &low, 1, "dtype=f32"), *loss = run(CAPL_OP_sum, &back, 1, NULL);
  assert_ok(capl_history_has(loss, CAPL_F16, &has));
  assert_true(has);
  assert_ok(capl_history_has(loss, CAPL_BF16, &has));
  assert_false(has);
  assert_ok(capl_history_has(x, CAPL_F32, &has)); /* nothing was recorded for a leaf */
  assert_false(has);
  assert_ok(capl_backward(loss, 1)); /* asking changed nothing */
  check(x->grad, 2, (double[]){1, 1});
  UNREF(x, low, back, loss);
}

static void broadcast_inputs_get_summed_gradients(void **state)
{
  (void)state;
  capl_tensor *a = leaf(3, (double[]){1, 2, 3}), *s = leaf(0, (double[]){10});
  capl_tensor *y = run(CAPL_OP_mul, IN(a, s), 2, NULL), *loss = run(CAPL_OP_sum, &y, 1, NULL);
  assert_ok(capl_backward(loss, 1));
  check(a->grad, 3, (double[]){10, 10, 10});
  check(s->grad, 1, (double[]){6});
  UNREF(a, s, y, loss);
}

static void gradients_of_16_bit_leaves_are_f32_and_of_f64_leaves_f64(void **state)
{
  (void)state;
  static const capl_dtype dtypes[][2] = {{CAPL_BF16, CAPL_F32}, {CAPL_F16, CAPL_F32}, {CAPL_F64, CAPL_F64}};
  for (int i = 0; i < 3; i++) {
    capl_tensor *a = vector(dtypes[i][0], 2, (double[]){1, 2});
    a->requires_grad = true;
    capl_tensor *loss = run(CAPL_OP_sum, &a, 1, NULL);
    assert_ok(capl_backward(loss, 1));
    assert_int_equal(a->grad->dtype, dtypes[i][1]);
    check(a->grad, 2, (double[]){1, 1});
    UNREF(a, loss);
  }
}

static void leaves_without_requires_grad_get_none(void **state)
{
  (void)state;
  capl_tensor *a = leaf(1, (double[]){2}), *constant = vector(CAPL_F32, 1, (double[]){3});
  capl_tensor *y = run(CAPL_OP_mul, IN(a, constant), 2, NULL), *loss = run(CAPL_OP_sum, &y, 1, NULL);
  assert_ok(capl_backward(loss, 1));
  check(a->grad, 1, (double[]){3});
  assert_null(constant->grad);
  UNREF(a, constant, y, loss);
}

static void nothing_is_recorded_while_recording_is_off(void **state)
{
  (void)state;
  capl_tensor *a = leaf(1, (double[]){2});
  assert_true(capl_grad_set_enabled(false));
  capl_tensor *quiet = run(CAPL_OP_sum, &a, 1, NULL);
  assert_false(capl_grad_set_enabled(true));
  assert_true(capl_grad_enabled());
  assert_null(quiet->node);
  assert_int_equal(capl_backward(quiet, 1), CAPL_ESTATE);
  UNREF(a, quiet);
}

static void only_a_scalar_can_be_the_start(void **state)
{
  (void)state;
  capl_tensor *a = leaf(2, (double[]){2, 3}), *y = run(CAPL_OP_exp, &a, 1, NULL);
  assert_fails(capl_backward(y, 1), CAPL_ESHAPE,
               "backward starts from one number, this tensor is (2) f32 ref: use mean() or sum() first");
  UNREF(a, y);
}

static void a_second_walk_through_the_same_calls_is_refused(void **state)
{
  (void)state;
  capl_tensor *a = leaf(1, (double[]){2}), *loss = run(CAPL_OP_exp, &a, 1, NULL);
  assert_ok(capl_backward(loss, 1));
  assert_int_equal(capl_backward(loss, 1), CAPL_ESTATE);
  assert_non_null(strstr(capl_error_last()->message, "a second time"));
  UNREF(a, loss);
}

static void a_value_changed_after_the_call_is_noticed(void **state)
{
  (void)state;
  capl_tensor *a = leaf(2, (double[]){2, 3}), *b = vector(CAPL_F32, 2, (double[]){5, 7});
  capl_tensor *y = run(CAPL_OP_mul, IN(a, b), 2, NULL), *loss = run(CAPL_OP_sum, &y, 1, NULL);
  assert_ok(capl_tensor_fill(b, 1));
  assert_fails(capl_backward(loss, 1), CAPL_ESTATE,
               "backward of mul: its input 2 was changed in place after the forward pass");
  assert_null(a->grad);
  UNREF(a, b, y, loss);
}

static void a_detached_tensor_shares_values_but_no_history(void **state)
{
  (void)state;
  capl_tensor *a = leaf(1, (double[]){2}), *y = run(CAPL_OP_exp, &a, 1, NULL), *cut;
  assert_ok(capl_tensor_detach(y, &cut));
  assert_null(cut->node);
  assert_ptr_equal(capl_tensor_data(cut), capl_tensor_data(y));
  UNREF(a, y, cut);
}

static void memory_of_a_chain_falls_while_it_is_walked(void **state)
{
  (void)state;
  enum { LENGTH = 50, N = 100000 };
  capl_memory_stats s;
  capl_tensor *a, *y;
  assert_ok(capl_tensor_new(ref, CAPL_F32, 1, (int64_t[]){N}, CAPL_AUTO, &a));
  assert_ok(capl_tensor_fill(a, 0.01));
  a->requires_grad = true;
  y = capl_tensor_ref(a);
  for (int i = 0; i < LENGTH; i++) {
    capl_tensor *next = run(CAPL_OP_tanh, &y, 1, NULL);
    capl_tensor_unref(y);
    y = next;
  }
  capl_tensor *loss = run(CAPL_OP_sum, &y, 1, NULL);
  capl_tensor_unref(y);
  capl_memory_stats_get(ref, &s);
  assert_true(s.live >= (size_t)LENGTH * N * 4); /* the tape holds what tanh's gradient reads */
  capl_memory_peak_reset(ref);
  size_t before = s.live;
  assert_ok(capl_backward(loss, 1));
  capl_memory_stats_get(ref, &s);
  assert_true(s.peak < before + 8 * N * 4);
  assert_true(s.live < 4 * N * 4); /* a and its gradient */
  UNREF(a, loss);
}

static void a_very_deep_graph_is_freed_without_deep_recursion(void **state)
{
  (void)state;
  capl_tensor *a = leaf(1, (double[]){0}), *y = capl_tensor_ref(a);
  for (int i = 0; i < 200000; i++) {
    capl_tensor *next = run(CAPL_OP_affine, &y, 1, NULL);
    capl_tensor_unref(y);
    y = next;
  }
  UNREF(a, y); /* never walked: dropped as a whole */
}

static void unused_outputs_do_not_hinder_the_walk(void **state)
{
  (void)state;
  capl_tensor *x, *out[2];
  assert_ok(capl_tensor_from_doubles(ref, CAPL_F32, 4, (int64_t[]){1, 1, 2, 2}, (double[]){1, 4, 3, 2}, &x));
  x->requires_grad = true;
  assert_ok(capl_run(CAPL_OP_max_pool2d, &x, 1, "kernel=2", out));
  assert_null(out[1]->node); /* an index has no gradient */
  capl_tensor *loss = run(CAPL_OP_sum, out, 1, NULL);
  assert_ok(capl_backward(loss, 1));
  check(x->grad, 4, (double[]){0, 1, 0, 0});
  UNREF(x, out[0], out[1], loss);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, no_memory_is_left)
  const struct CMUnitTest tests[] = {
    TEST(gradients_follow_the_product_rule),
    TEST(gradients_of_every_use_and_every_run_add_up),
    TEST(the_seed_scales_every_gradient),
    TEST(a_seed_can_be_a_tensor),
    TEST(a_history_knows_its_dtypes),
    TEST(broadcast_inputs_get_summed_gradients),
    TEST(gradients_of_16_bit_leaves_are_f32_and_of_f64_leaves_f64),
    TEST(leaves_without_requires_grad_get_none),
    TEST(nothing_is_recorded_while_recording_is_off),
    TEST(only_a_scalar_can_be_the_start),
    TEST(a_second_walk_through_the_same_calls_is_refused),
    TEST(a_value_changed_after_the_call_is_noticed),
    TEST(a_detached_tensor_shares_values_but_no_history),
    TEST(memory_of_a_chain_falls_while_it_is_walked),
    TEST(a_very_deep_graph_is_freed_without_deep_recursion),
    TEST(unused_outputs_do_not_hinder_the_walk),
  };
  return cmocka_run_group_tests(tests, open_ref, NULL);
}
