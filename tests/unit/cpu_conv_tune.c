/* cpu_conv_tune.c -- the switch autotune: nothing is timed without it, a choice takes effect when it is handed over,
** and every algorithm computes the same.
** SPDX-License-Identifier: Apache-2.0
*/
#include <math.h>

#include "capl/capl.h"
#include "unit.h"

static capl_device *cpu, *ref;

enum { N = 2, C = 32, H = 9, W = 12 };

/* A convolution's op with its inputs. */
typedef struct {
  capl_op_id op;
  const char *attrs;
  capl_tensor *in[2];
} call;

static capl_tensor *random_on(capl_device *device, capl_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w,
                              uint32_t stream)
{
  capl_rng rng;
  capl_tensor *t;
  double *values = calloc((size_t)(n * c * h * w), sizeof *values);
  capl_rng_init(&rng, 5, stream, 0, 0);
  for (int64_t i = 0; i < n * c * h * w; i++) values[i] = (double)capl_rng_u32(&rng) / 4294967296.0 - 0.5;
  assert_ok(capl_tensor_from_doubles(device, dtype, 4, (int64_t[]){n, c, h, w}, values, &t));
  free(values);
  return t;
}

static call make(capl_device *device, capl_dtype dtype, capl_op_id op)
{
  capl_tensor *x = random_on(device, dtype, N, C, H, W, 1), *dy = random_on(device, dtype, N, C, H, W, 2);
  capl_tensor *w = random_on(device, dtype, C, C, 3, 3, 3);
  call c = {op, "padding=1", {x, w}};
  if (op == CAPL_OP_conv2d_grad_x) c = (call){op, "padding=1 size=9,12", {dy, w}};
  if (op == CAPL_OP_conv2d_grad_w) c = (call){op, "padding=1 kernel=3", {x, dy}};
  capl_tensor *all[3] = {x, dy, w};
  for (int i = 0; i < 3; i++)
    if (all[i] != c.in[0] && all[i] != c.in[1]) capl_tensor_unref(all[i]);
  return c;
}

static void drop(call *c) { capl_tensor_unref(c->in[0]), capl_tensor_unref(c->in[1]); }

static capl_status run(const call *c, capl_tensor **first)
{
  capl_tensor *out[CAPL_MAX_OUT] = {NULL};
  capl_status status = capl_run(c->op, (capl_tensor **)c->in, 2, c->attrs, out);
  *first = out[0];
  for (int k = 1; k < CAPL_MAX_OUT; k++)
    if (out[k]) capl_tensor_unref(out[k]);
  return status;
}

static void run_and_drop(const call *c)
{
  capl_tensor *y;
  assert_ok(run(c, &y));
  capl_tensor_unref(y);
}

static double error_of(const capl_tensor *got, const capl_tensor *want)
{
  int64_t n = capl_tensor_numel(want);
  double *a = calloc((size_t)n, sizeof *a), *b = calloc((size_t)n, sizeof *b), difference = 0, norm = 0;
  assert_ok(capl_tensor_to_doubles(got, a));
  assert_ok(capl_tensor_to_doubles(want, b));
  for (int64_t i = 0; i < n; i++) difference += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
  free(a), free(b);
  return sqrt(difference / norm);
}

/* The last of the choices, and how many there are. */
typedef struct {
  int count;
  bool in_use;
  char call[256], times[256];
} found;

static void take(void *user, const capl_algorithm *a)
{
  found *f = user;
  f->count++;
  f->in_use = a->in_use;
  snprintf(f->call, sizeof f->call, "%s", a->call);
  snprintf(f->times, sizeof f->times, "%s", a->times);
}

static found choices(void)
{
  found f = {.count = 0};
  capl_device_algorithms(cpu, take, &f);
  return f;
}

static uint64_t counted(const char *name) { return capl_counter_get(name); }

static void nothing_is_timed_by_itself(void **state)
{
  (void)state;
  call c = make(cpu, CAPL_F32, CAPL_OP_conv2d);
  run_and_drop(&c);
  assert_int_equal(choices().count, 0);
  assert_int_equal(counted("autotuned_kernels"), 0);
  drop(&c);
}

static void a_shape_is_timed_once_and_used_when_it_is_handed_over(void **state)
{
  (void)state;
  call c = make(cpu, CAPL_F32, CAPL_OP_conv2d);
  assert_ok(capl_device_switch(cpu, "autotune", true));
  uint64_t products = counted("fp32_kernels"), tuned = counted("autotuned_kernels");
  for (int i = 0; i < 2; i++) run_and_drop(&c);
  found f = choices();
  assert_int_equal(counted("fp32_kernels"), products + 2); /* the trials are no products of the network */
  assert_int_equal(counted("autotuned_kernels"), tuned);
  assert_int_equal(f.count, 1);
  assert_false(f.in_use);
  assert_string_equal(f.call, "conv2d f32 x=2,32,9,12 w=32,32,3,3 stride=1,1 padding=1,1 dilation=1,1 groups=1");
  assert_non_null(strstr(f.times, "winograd ")), assert_non_null(strstr(f.times, "onednn "));
  assert_ok(capl_device_algorithm_use(cpu, f.call, "onednn"));
  run_and_drop(&c);
  assert_int_equal(counted("autotuned_kernels"), tuned + 1);
  assert_true(choices().in_use);
  assert_ok(capl_device_switch(cpu, "autotune", false));
  assert_int_equal(choices().count, 0);
  run_and_drop(&c);
  assert_int_equal(counted("autotuned_kernels"), tuned + 1);
  drop(&c);
}

/* Every algorithm that was timed. */
static void check_all(call *c, const char *times, const char *text, const capl_tensor *want, double tolerance)
{
  char list[256];
  snprintf(list, sizeof list, "%s", times);
  for (char *rest = list, *part; (part = strtok_r(rest, ",", &rest));) {
    char name[32];
    capl_tensor *got;
    assert_int_equal(sscanf(part, " %31s", name), 1);
    assert_ok(capl_device_algorithm_use(cpu, text, name));
    uint64_t winograd = counted("winograd_bf16_kernels");
    assert_ok(run(c, &got));
    bool low = got->dtype == CAPL_BF16 || c->in[0]->dtype == CAPL_BF16;
    assert_int_equal(counted("winograd_bf16_kernels") - winograd, low && !strcmp(name, "winograd"));
    double error = error_of(got, want);
    if (!(error <= tolerance)) fail_msg("%s by %s: error %.3g", text, name, error);
    capl_tensor_unref(got);
  }
}

static void every_algorithm_computes_the_same(void **state)
{
  (void)state;
  static const capl_op_id ops[] = {CAPL_OP_conv2d, CAPL_OP_conv2d_grad_x, CAPL_OP_conv2d_grad_w};
  for (int low = 0; low < 2; low++)
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
      call c = make(cpu, low ? CAPL_BF16 : CAPL_F32, ops[i]), exact = make(ref, CAPL_F32, ops[i]);
      capl_tensor *want;
      assert_ok(run(&exact, &want));
      assert_ok(capl_device_switch(cpu, "autotune", true));
      run_and_drop(&c);
      found f = choices();
      assert_non_null(strstr(f.times, "winograd"));
      check_all(&c, f.times, f.call, want, low ? 0.02 : 1e-5);
      assert_ok(capl_device_switch(cpu, "autotune", false));
      capl_tensor_unref(want);
      drop(&c), drop(&exact);
    }
}

static void what_cannot_be_is_an_error(void **state)
{
  (void)state;
  const char *text = "conv2d f32 x=2,32,9,12 w=32,32,3,3 stride=1,1 padding=1,1 dilation=1,1 groups=1";
  assert_int_equal(capl_device_algorithm_use(cpu, text, "winogard"), CAPL_EVALUE);
  assert_non_null(strstr(capl_error_last()->message, "there is no algorithm 'winogard'; there are winograd, "));
  assert_string_equal(capl_error_last()->hint, "did you mean winograd?");
  assert_int_equal(capl_device_algorithm_use(ref, text, "winograd"), CAPL_EUNSUPPORTED);
  call c = make(cpu, CAPL_F32, CAPL_OP_conv2d);
  capl_tensor *y;
  assert_ok(capl_device_algorithm_use(cpu, text, "product"));
  assert_int_equal(run(&c, &y), CAPL_EVALUE);
  assert_non_null(strstr(capl_error_last()->message, "cannot be computed by algorithm product"));
  assert_ok(capl_device_switch(cpu, "autotune", false));
  drop(&c);
}

static int open_devices(void **state)
{
  (void)state;
  if (capl_device_open("cpu", &cpu) != CAPL_OK || capl_device_open("ref", &ref) != CAPL_OK) return -1;
  unsetenv("CAPL_ASSUME"); /* winograd= overrules timing; the instruction set is chosen */
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_is_timed_by_itself),
    cmocka_unit_test(a_shape_is_timed_once_and_used_when_it_is_handed_over),
    cmocka_unit_test(every_algorithm_computes_the_same),
    cmocka_unit_test(what_cannot_be_is_an_error),
  };
  return cmocka_run_group_tests(tests, open_devices, NULL);
}
