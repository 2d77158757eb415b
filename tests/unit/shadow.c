/* shadow.c -- tests of 16-bit weights kept beside f32 ones: what steps write, what makes them stale, recorded steps.
**
** On ref and cpu, or on the device that CAPL_TEST_DEVICE names: tests/cuda runs them on the fake CUDA runtime.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>

#include "capl/backend.h"
#include "capl/capl.h"
#include "capl/capture.h"

enum { MOST = 5003 };

static capl_device *device;

static void open_device(const char *name)
{
  assert_ok(capl_device_open(name, &device));
}

static int nothing_is_left(void **state)
{
  (void)state;
  capl_memory_stats s;
  capl_memory_stats_get(device, &s);
  assert_int_equal(s.live, 0);
  return 0;
}

#define IN(...) ((capl_tensor *[]){__VA_ARGS__})
#define UNREF(...)                                                                                          \
  do {                                                                                                      \
    capl_tensor *list_[] = {__VA_ARGS__};                                                                   \
    for (size_t k_ = 0; k_ < sizeof list_ / sizeof *list_; k_++) capl_tensor_unref(list_[k_]);              \
  } while (0)

/* ---- tensors ---------------------------------------------------------------------------------- */

static capl_tensor *row(int64_t n, double value)
{
  capl_tensor *t;
  assert_ok(capl_tensor_new(device, CAPL_F32, 1, &n, CAPL_AUTO, &t));
  assert_ok(capl_tensor_fill(t, value));
  return t;
}

static capl_tensor *weight(int64_t n)
{
  capl_tensor *t = row(n, 0);
  assert_ok(capl_tensor_fill_normal(t, 0, 1, 1, (uint32_t)n, 0, 0));
  t->requires_grad = true;
  return t;
}

/* Numbers that rounding treats in its own way each: ties, subnormals, what f16 cannot hold, infinities, NaN. */
static capl_tensor *odd_numbers(int64_t n)
{
  static const double odd[] = {0,     -0.0,  1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-11, 1 + 0x3p-11, 65504,     65520,
                               -70000, 1e-41, 3e-8,  -6e-5,      0x1.fep127, -3.4e38,     INFINITY,    -INFINITY, NAN,
                               1e-30};
  double values[MOST];
  for (int64_t i = 0; i < n; i++) values[i] = odd[i % (int64_t)(sizeof odd / sizeof *odd)];
  capl_tensor *t;
  assert_ok(capl_tensor_from_doubles(device, CAPL_F32, 1, &n, values, &t));
  return t;
}

static void raw_bits(const capl_tensor *t, uint16_t *out)
{
  size_t bytes = capl_tensor_bytes(t);
  if (device->backend->host_memory) memcpy(out, capl_tensor_data(t), bytes);
  else assert_ok(device->backend->copy_out(out, capl_tensor_data(t), bytes));
}

/* The first element of t becomes the NaN whose bits are all 1: adding to them, as rounding does with numbers,
** overflows. */
static void all_ones_nan(capl_tensor *t)
{
  uint32_t bits = 0x7fffffff;
  if (device->backend->host_memory) memcpy(capl_tensor_data(t), &bits, sizeof bits);
  else assert_ok(device->backend->copy_in(capl_tensor_data(t), &bits, sizeof bits));
}

static uint64_t casts(void)
{
  return capl_counter_get("weight_casts");
}

/* The bits of low are those of a cast of t. */
static void check_is_cast(capl_tensor *t, capl_tensor *low)
{
  uint16_t got[MOST], want[MOST];
  capl_attr attr[CAPL_MAX_ATTR] = {0};
  attr[capl_attr_index(capl_op_get(CAPL_OP_cast), "dtype")].i = low->dtype;
  capl_tensor *cast;
  assert_ok(capl_op_call(CAPL_OP_cast, &t, 1, attr, &cast));
  raw_bits(low, got);
  raw_bits(cast, want);
  for (int64_t i = 0; i < capl_tensor_numel(t); i++)
    if (got[i] != want[i]) fail_msg("element %d is %04x, a cast gives %04x", (int)i, got[i], want[i]);
  capl_tensor_unref(cast);
}

/* The shadow of t, asked for, is a cast of it, and that took `ran` casts. */
static void check_shadow(capl_tensor *t, capl_dtype dtype, int ran)
{
  uint64_t before = casts();
  capl_tensor *low;
  assert_ok(capl_shadow_get(t, dtype, &low));
  assert_non_null(low);
  assert_int_equal(casts() - before, ran);
  assert_int_equal(low->dtype, dtype);
  check_is_cast(t, low);
  capl_tensor_unref(low);
}

/* ---- optimizer steps --------------------------------------------------------------------------- */

static const struct {
  capl_op_id op;
  int groups;
  const char *attrs;
} methods[] = {{CAPL_OP_sgd_step, 3, "lr=0.1 momentum=0.9"},
               {CAPL_OP_adam_step, 4, "lr=0.01 step=3 weight_decay=0.1 decoupled=true"},
               {CAPL_OP_amsgrad_step, 5, "lr=0.01 step=3"},
               {CAPL_OP_rmsprop_step, 5, "lr=0.01 momentum=0.9 centered=true"}};

/* A step of two weights; control: NULL = none. */
static void step(int method, capl_tensor *const weights[2], capl_tensor *const grads[2], capl_tensor *const states[6],
                 capl_tensor *control)
{
  capl_tensor *in[11] = {weights[0], weights[1], grads[0], grads[1]};
  int n = 2 * methods[method].groups;
  for (int k = 4; k < n; k++) in[k] = states[k - 4];
  if (control) in[n++] = control;
  assert_ok(capl_run(methods[method].op, in, n, methods[method].attrs, NULL));
}

static void steps_of(int method, capl_dtype dtype)
{
  capl_tensor *weights[2] = {weight(MOST), weight(3)}, *grads[2] = {odd_numbers(MOST), odd_numbers(3)}, *states[6];
  for (int k = 0; k < 6; k++) states[k] = row(k % 2 ? 3 : MOST, 1);
  all_ones_nan(weights[0]);
  for (int k = 0; k < 2; k++) check_shadow(weights[k], dtype, 1);
  for (int n = 0; n < 3; n++) {
    step(method, weights, grads, states, NULL);
    for (int k = 0; k < 2; k++) check_shadow(weights[k], dtype, 0);
  }
  UNREF(weights[0], weights[1], grads[0], grads[1], states[0], states[1], states[2], states[3], states[4], states[5]);
}

static void steps_write_what_a_cast_gives(void **state)
{
  (void)state;
  for (int method = 0; method < 3; method++) {
    steps_of(method, CAPL_BF16);
    steps_of(method, CAPL_F16);
  }
}

/* A control as step_control leaves it: multiplier 1, rate 0.1, and whether the step is skipped. */
static capl_tensor *control_of(bool skip)
{
  int64_t n = 9;
  capl_tensor *t;
  assert_ok(capl_tensor_from_doubles(device, CAPL_F32, 1, &n, (double[]){1, 0, 1, 0, 1, skip, 0, 0, 0.1}, &t));
  return t;
}

static void a_skipped_step_leaves_both(void **state)
{
  (void)state;
  capl_tensor *weights[2] = {weight(40), weight(3)}, *grads[2] = {row(40, NAN), row(3, NAN)}, *states[6];
  capl_tensor *skipped = control_of(true), *made = control_of(false), *before;
  for (int k = 0; k < 6; k++) states[k] = row(k % 2 ? 3 : 40, 1);
  check_shadow(weights[0], CAPL_BF16, 1);
  assert_ok(capl_run(CAPL_OP_contiguous, weights, 1, NULL, &before));
  step(1, weights, grads, states, skipped);
  double was[40], is[40];
  assert_ok(capl_tensor_to_doubles(before, was));
  assert_ok(capl_tensor_to_doubles(weights[0], is));
  assert_memory_equal(was, is, sizeof was);
  check_shadow(weights[0], CAPL_BF16, 0);
  assert_ok(capl_tensor_fill(grads[0], 1));
  step(1, weights, grads, states, made);
  check_shadow(weights[0], CAPL_BF16, 0);
  UNREF(weights[0], weights[1], grads[0], grads[1], states[0], states[1], states[2], states[3], states[4], states[5],
        skipped, made, before);
}

/* The first weight's has been stale since fill, the second has no gradient. */
static void stale_ones_are_cast_later(void **state)
{
  (void)state;
  capl_tensor *weights[2] = {weight(40), weight(3)}, *grads[2] = {row(40, 1), NULL},
      *states[6] = {row(40, 1), row(3, 1)};
  for (int k = 0; k < 2; k++) check_shadow(weights[k], CAPL_BF16, 1);
  assert_ok(capl_tensor_fill(weights[0], 2));
  step(0, weights, grads, states, NULL);
  check_shadow(weights[0], CAPL_BF16, 1);
  check_shadow(weights[1], CAPL_BF16, 0);
  UNREF(weights[0], weights[1], grads[0], states[0], states[1]);
}

/* Weights whose members lie in different orders go through copies, on cpu through ref. */
static void steps_of_mixed_orders_write_it_too(void **state)
{
  (void)state;
  int64_t size[4] = {2, 3, 4, 5}, n = 120;
  capl_tensor *w, *g = row(n, 1), *m = row(n, 1), *v = row(n, 1), *shaped[3];
  assert_ok(capl_tensor_new(device, CAPL_F32, 4, size, CAPL_AUTO, &w)); /* channels-last */
  assert_ok(capl_tensor_fill_normal(w, 0, 1, 1, 0, 0, 0));
  w->requires_grad = true;
  capl_tensor *flat[3] = {g, m, v};
  for (int k = 0; k < 3; k++) assert_ok(capl_run(CAPL_OP_reshape, &flat[k], 1, "size=2,3,4,5", &shaped[k]));
  check_shadow(w, CAPL_BF16, 1);
  assert_ok(capl_run(CAPL_OP_adam_step, IN(w, shaped[0], shaped[1], shaped[2]), 4, "lr=0.1 step=1", NULL));
  check_shadow(w, CAPL_BF16, 0);
  UNREF(w, g, m, v, shaped[0], shaped[1], shaped[2]);
}

/* An average that a step of descent moves towards the weights (train.EMA) reads them. */
static void a_step_writes_no_gradients(void **state)
{
  (void)state;
  capl_tensor *w = weight(40), *average = row(40, 0);
  check_shadow(w, CAPL_BF16, 1);
  assert_ok(capl_run(CAPL_OP_sgd_step, IN(average, w, NULL), 3, "lr=-0.1", NULL));
  check_shadow(w, CAPL_BF16, 0);
  UNREF(w, average);
}

/* ---- what makes a shadow stale, and what has none ------------------------------------------------ */

static void every_write_makes_it_stale(void **state)
{
  (void)state;
  capl_tensor *w = weight(40), *other = weight(41), *part, *whole, *from;
  assert_ok(capl_tensor_alias(w, 1, (int64_t[]){7}, (int64_t[]){1}, 5, &part));
  assert_ok(capl_tensor_alias(other, 1, (int64_t[]){40}, (int64_t[]){1}, 1, &from));
  assert_ok(capl_tensor_detach(w, &whole));
  check_shadow(w, CAPL_BF16, 1);
  check_shadow(w, CAPL_BF16, 0);
  assert_ok(capl_tensor_fill(w, 0));
  check_shadow(w, CAPL_BF16, 1);
  assert_ok(capl_tensor_fill(part, 3));
  check_shadow(w, CAPL_BF16, 1);
  assert_ok(capl_tensor_copy(whole, from));
  check_shadow(w, CAPL_BF16, 1);
  assert_ok(capl_tensor_fill_uniform(whole, 0, 1, 1, 2, 3, 4));
  check_shadow(w, CAPL_BF16, 1);
  check_shadow(whole, CAPL_BF16, 0);
  UNREF(w, other, part, whole, from);
}

static void check_none(capl_tensor *t, capl_dtype dtype)
{
  capl_tensor *low;
  assert_ok(capl_shadow_get(t, dtype, &low));
  assert_null(low);
}

static void only_weights_have_one(void **state)
{
  (void)state;
  capl_tensor *plain = row(8, 1), *w = weight(8), *part, *twice, *computed;
  assert_ok(capl_tensor_alias(w, 1, (int64_t[]){4}, (int64_t[]){1}, 0, &part));
  assert_ok(capl_tensor_alias(w, 2, (int64_t[]){2, 4}, (int64_t[]){0, 1}, 0, &twice));
  part->requires_grad = twice->requires_grad = true;
  assert_ok(capl_run(CAPL_OP_abs, &w, 1, NULL, &computed));
  check_none(plain, CAPL_BF16);
  check_none(part, CAPL_BF16);
  check_none(twice, CAPL_BF16);
  check_none(computed, CAPL_BF16);
  check_none(w, CAPL_F64);
  check_shadow(w, CAPL_BF16, 1);
  w->requires_grad = false; /* frozen after it was used */
  check_shadow(w, CAPL_BF16, 0);
  assert_ok(capl_weight_mark(plain)); /* and before */
  check_shadow(plain, CAPL_BF16, 1);
  check_shadow(plain, CAPL_BF16, 0);
  UNREF(plain, w, part, twice, computed);
}

static void it_has_one_type_at_a_time(void **state)
{
  (void)state;
  capl_tensor *w = weight(8), *held;
  check_shadow(w, CAPL_BF16, 1);
  check_shadow(w, CAPL_F16, 1);
  check_shadow(w, CAPL_F16, 0);
  assert_ok(capl_shadow_get(w, CAPL_F16, &held));
  check_none(w, CAPL_BF16); /* somebody reads the other */
  capl_tensor_unref(held);
  check_shadow(w, CAPL_BF16, 1);
  capl_tensor_unref(w);
}

/* ---- autocast ------------------------------------------------------------------------------------ */

static capl_tensor *loss_of(capl_tensor *x, capl_tensor *w)
{
  capl_tensor *y, *loss;
  capl_autocast_set(CAPL_BF16);
  assert_ok(capl_run(CAPL_OP_linear, IN(x, w), 2, NULL, &y));
  assert_int_equal(y->dtype, CAPL_BF16);
  capl_autocast_set(CAPL_F32);
  assert_ok(capl_run(CAPL_OP_sum, &y, 1, NULL, &loss));
  capl_tensor_unref(y);
  return loss;
}

static capl_tensor *matrix(int64_t rows, int64_t columns, bool grad)
{
  capl_tensor *t;
  assert_ok(capl_tensor_new(device, CAPL_F32, 2, (int64_t[]){rows, columns}, CAPL_AUTO, &t));
  assert_ok(capl_tensor_fill_normal(t, 0, 1, 7, (uint32_t)columns, 0, 0));
  t->requires_grad = grad;
  return t;
}

static void a_second_forward_casts_nothing_and_has_gradients(void **state)
{
  (void)state;
  capl_tensor *x = matrix(4, 6, false), *w = matrix(5, 6, true), *first = loss_of(x, w);
  uint64_t before = casts();
  capl_tensor *second = loss_of(x, w);
  assert_int_equal(casts(), before);
  assert_ok(capl_backward(first, 1));
  double once[30], twice[30];
  assert_int_equal(w->grad->dtype, CAPL_F32);
  assert_ok(capl_tensor_to_doubles(w->grad, once));
  assert_ok(capl_backward(second, 1));
  assert_ok(capl_tensor_to_doubles(w->grad, twice));
  for (int k = 0; k < 30; k++) assert_true(once[k] != 0 && twice[k] == 2 * once[k]);
  UNREF(x, w, first, second);
}

/* As a product in f32 does: it keeps the weights themselves for its gradient. */
static void backward_sees_that_weights_were_changed(void **state)
{
  (void)state;
  capl_tensor *x = matrix(4, 6, true), *w = matrix(5, 6, true), *old = loss_of(x, w);
  assert_ok(capl_tensor_fill(w, 1));
  capl_tensor *loss = loss_of(x, w);
  assert_fails(capl_backward(old, 1), CAPL_ESTATE,
               "backward of linear: its input 2 was changed in place after the forward pass");
  assert_ok(capl_backward(loss, 1));
  UNREF(x, w, old, loss);
}

/* ---- recorded steps ------------------------------------------------------------------------------- */

/* y := x times w in bf16; then w -= 0.5 where step asks for it, by the optimizer or by hand. */
typedef enum { LOOK, STEP, BY_HAND } what;

static void work(capl_tensor *x, capl_tensor *w, capl_tensor *ones, capl_tensor *y, what how)
{
  capl_tensor *now, *moved;
  bool before = capl_grad_set_enabled(false);
  capl_autocast_set(CAPL_BF16);
  assert_ok(capl_run(CAPL_OP_linear, IN(x, w), 2, NULL, &now));
  capl_autocast_set(CAPL_F32);
  assert_ok(capl_tensor_copy(y, now));
  if (how == STEP) assert_ok(capl_run(CAPL_OP_sgd_step, IN(w, ones, NULL), 3, "lr=0.5", NULL));
  if (how == BY_HAND) {
    assert_ok(capl_run(CAPL_OP_sub, IN(w, ones), 2, NULL, &moved));
    assert_ok(capl_tensor_copy(w, moved));
    capl_tensor_unref(moved);
  }
  capl_grad_set_enabled(before);
  capl_tensor_unref(now);
}

/* y is x times w in bf16: of the w that `was`. */
static void check_product(capl_tensor *x, capl_tensor *was, capl_tensor *y)
{
  capl_tensor *now;
  double got[20], want[20];
  capl_autocast_set(CAPL_BF16);
  assert_ok(capl_run(CAPL_OP_linear, IN(x, was), 2, NULL, &now));
  capl_autocast_set(CAPL_F32);
  assert_ok(capl_tensor_to_doubles(y, got));
  assert_ok(capl_tensor_to_doubles(now, want));
  assert_memory_equal(got, want, sizeof got);
  capl_tensor_unref(now);
}

static capl_tensor *copy_of(capl_tensor *w)
{
  capl_tensor *copy;
  bool before = capl_grad_set_enabled(false);
  assert_ok(capl_run(CAPL_OP_affine, &w, 1, "scale=1 shift=0", &copy));
  capl_grad_set_enabled(before);
  return copy;
}

/* Launches a recording of `how` five times; before the third the weights are written from outside. fresh: the recording
** holds no cast, so one has to run before a launch that finds other weights than the one before left. */
static void launches_of(what how, bool fresh)
{
  capl_tensor *x = matrix(4, 6, false), *w = matrix(5, 6, true), *ones = copy_of(w), *y;
  capl_capture *c;
  assert_ok(capl_tensor_fill(ones, 1));
  assert_ok(capl_tensor_new(device, CAPL_F32, 2, (int64_t[]){4, 5}, CAPL_AUTO, &y));
  for (int k = 0; k < 2; k++) work(x, w, ones, y, how); /* kernels are loaded */
  if (fresh) check_shadow(w, CAPL_BF16, how == BY_HAND);
  else assert_ok(capl_tensor_fill(w, 0.3));
  assert_ok(capl_capture_begin(device, &c));
  work(x, w, ones, y, how);
  assert_ok(capl_capture_end(c));
  for (int k = 0; k < 5; k++) {
    if (k == 2) assert_ok(capl_tensor_fill_normal(w, 0, 1, 11, 0, 0, 0));
    capl_tensor *was = copy_of(w);
    uint64_t before = casts();
    assert_ok(capl_capture_launch(c, 0));
    assert_int_equal(casts() - before, fresh && (k == 2 || (k == 0 && how == BY_HAND)));
    check_product(x, was, y);
    check_shadow(w, CAPL_BF16, how == BY_HAND);
    capl_tensor_unref(was);
  }
  capl_capture_free(c);
  check_shadow(w, CAPL_BF16, 0);
  UNREF(x, w, ones, y);
}

static void recorded_steps_read_what_the_weights_are(void **state)
{
  (void)state;
  if (!capl_capture_possible(device)) skip();
  for (what how = LOOK; how <= BY_HAND; how++) {
    launches_of(how, true);
    launches_of(how, false);
  }
}

/* Nobody had cast the weights when the recording was made. */
static void what_a_recording_writes_is_seen_later(void **state)
{
  (void)state;
  if (!capl_capture_possible(device)) skip();
  capl_tensor *w = weight(40), *ones = row(40, 1);
  capl_capture *c;
  assert_ok(capl_run(CAPL_OP_sgd_step, IN(w, ones, NULL), 3, "lr=0.5", NULL));
  assert_ok(capl_capture_begin(device, &c));
  assert_ok(capl_run(CAPL_OP_sgd_step, IN(w, ones, NULL), 3, "lr=0.5", NULL));
  assert_ok(capl_capture_end(c));
  for (int k = 0; k < 3; k++) {
    assert_ok(capl_capture_launch(c, 0));
    check_shadow(w, CAPL_BF16, 1);
  }
  capl_capture_free(c);
  UNREF(w, ones);
}

/* Weights that were written from outside stay through a launch whose step is skipped. */
static void a_recorded_step_that_is_skipped_leaves_both(void **state)
{
  (void)state;
  if (!capl_capture_possible(device)) skip();
  capl_tensor *w = weight(40), *grad = row(40, 1), *control = control_of(true);
  capl_capture *c;
  check_shadow(w, CAPL_BF16, 1);
  assert_ok(capl_run(CAPL_OP_sgd_step, IN(w, grad, NULL, control), 4, "lr=0", NULL));
  assert_ok(capl_capture_begin(device, &c));
  assert_ok(capl_run(CAPL_OP_sgd_step, IN(w, grad, NULL, control), 4, "lr=0", NULL));
  assert_ok(capl_capture_end(c));
  for (int k = 0; k < 3; k++) {
    assert_ok(capl_tensor_fill(w, 1.001 * k));
    assert_ok(capl_capture_launch(c, 0));
    check_shadow(w, CAPL_BF16, 0);
  }
  capl_capture_free(c);
  UNREF(w, grad, control);
}

static void what_was_recorded_has_not_run(void **state)
{
  (void)state;
  if (!capl_capture_possible(device)) skip();
  capl_tensor *w = weight(40), *low;
  capl_capture *c;
  check_shadow(w, CAPL_BF16, 1);
  assert_ok(capl_tensor_fill(w, 2));
  assert_ok(capl_capture_begin(device, &c));
  assert_ok(capl_shadow_get(w, CAPL_BF16, &low));
  capl_tensor_unref(low);
  capl_capture_free(c);
  check_shadow(w, CAPL_BF16, 1);
  capl_tensor_unref(w);
}

#define TEST(name) cmocka_unit_test_teardown(name, nothing_is_left)

static int all_on(const char *name)
{
  const struct CMUnitTest tests[] = {
      TEST(steps_write_what_a_cast_gives),
      TEST(a_skipped_step_leaves_both),
      TEST(stale_ones_are_cast_later),
      TEST(steps_of_mixed_orders_write_it_too),
      TEST(a_step_writes_no_gradients),
      TEST(every_write_makes_it_stale),
      TEST(only_weights_have_one),
      TEST(it_has_one_type_at_a_time),
      TEST(a_second_forward_casts_nothing_and_has_gradients),
      TEST(backward_sees_that_weights_were_changed),
      TEST(recorded_steps_read_what_the_weights_are),
      TEST(what_a_recording_writes_is_seen_later),
      TEST(a_recorded_step_that_is_skipped_leaves_both),
      TEST(what_was_recorded_has_not_run),
  };
  open_device(name);
  return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void)
{
  const char *name = getenv("CAPL_TEST_DEVICE");
  return name ? all_on(name) : all_on("ref") | all_on("cpu");
}
