/* ops_conv_norm.c -- tests of convolution, products, batch norm and pooling on ref, without Lua.
**
** Gradients are compared with central differences in f64, fused ones with those of the simple ops; then
** dtypes, costs and error messages. Known values, layouts and other backends: tests/op.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/count.h"
#include "capl/backend.h"
#include "capl/tape.h"

static capl_device *ref;

static int open_ref(void **state)
{
  (void)state;
  assert_ok(capl_device_open("ref", &ref));
  return 0;
}

enum { INPUTS = 5, ELEMENTS = 2048 };

typedef struct {
  int ndim;
  int64_t size[4];
} shape;

#define S(...)                                                                 \
  {                                                                            \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ } \
  }

/* ---- gradients against central differences ------------------------------------------------------ */

typedef struct {
  capl_op_id op;
  const char *attrs;
  int n_in, n_grad; /* the first n_grad inputs are differentiated */
  shape in[INPUTS];
} gradient_case;

#define CONV(attrs, x, w, ...)                         \
  {                                                    \
    CAPL_OP_conv2d, attrs, 3, 3, { x, w, __VA_ARGS__ } \
  }
#define NORM(op, attrs, x, c)                                \
  {                                                          \
    CAPL_OP_##op, attrs, 5, 3, { x, S(c), S(c), S(c), S(c) } \
  }
#define POOL(op, attrs, x)           \
  {                                  \
    CAPL_OP_##op, attrs, 1, 1, { x } \
  }
#define X(...) S(__VA_ARGS__)

static const gradient_case gradient_cases[] = {
    CONV("padding=1", X(2, 1, 5, 3), X(3, 1, 3, 3), S(3)),
    CONV("stride=2,3 padding=1,0", X(1, 3, 7, 8), X(5, 3, 3, 2), S(5)),
    CONV("stride=3 padding=2", X(1, 2, 9, 8), X(1, 2, 2, 5), S(1)), /* some inputs are read by no window */
    CONV("dilation=2,1 padding=2,1", X(2, 2, 5, 5), X(3, 2, 3, 3), S(3)),
    CONV("groups=2", X(1, 4, 3, 5), X(6, 2, 3, 1), S(6)),
    CONV("groups=5 padding=1", X(1, 5, 4, 3), X(5, 1, 3, 3), S(5)), /* depthwise */
    CONV("groups=3 stride=2", X(1, 3, 5, 5), X(6, 1, 3, 3), S(6)),  /* depthwise, two outputs each */
    {CAPL_OP_conv2d, "", 2, 2, {X(1, 7, 3, 3), X(2, 7, 1, 1)}},
    {CAPL_OP_linear, "", 3, 3, {S(5, 7), S(3, 7), S(3)}},
    {CAPL_OP_linear, "", 2, 2, {S(2, 3, 4), S(5, 4)}},
    {CAPL_OP_linear, "", 3, 3, {S(6), S(1, 6), S(1)}},
    {CAPL_OP_matmul, "", 2, 2, {S(3, 4), S(4, 5)}},
    {CAPL_OP_matmul, "transpose_a=true", 2, 2, {S(4, 3), S(4, 5)}},
    {CAPL_OP_matmul, "transpose_b=true", 2, 2, {S(2, 3, 4), S(5, 4)}},
    {CAPL_OP_matmul, "transpose_a=true transpose_b=true", 2, 2, {S(1, 4, 3), S(3, 5, 4)}},
    {CAPL_OP_matmul, "", 2, 2, {S(2, 1, 3, 2), S(3, 2, 3)}},
    NORM(batch_norm, "training=true", X(5, 3), 3),
    NORM(batch_norm, "training=true eps=0.01", X(2, 3, 3, 5), 3),
    NORM(batch_norm, "", X(2, 3, 3, 5), 3),
    NORM(bn_act, "training=true", X(3, 5, 3, 1), 5),
    NORM(bn_act, "", X(4, 7), 7),
    NORM(bn_act, "training=true act=silu", X(3, 5, 3, 1), 5),
    NORM(bn_act, "act=silu", X(4, 7), 7),
    NORM(bn_act_pool, "training=true", X(2, 3, 5, 7), 3),
    NORM(bn_act_pool, "", X(1, 1, 4, 2), 1),
    POOL(max_pool2d, "kernel=2", X(2, 3, 5, 4)),
    POOL(max_pool2d, "kernel=3 stride=2 padding=1", X(1, 2, 7, 5)),
    POOL(max_pool2d, "kernel=3,2 stride=2,3 ceil_mode=true", X(1, 5, 6, 6)),
    POOL(avg_pool2d, "kernel=2", X(2, 3, 5, 4)),
    POOL(avg_pool2d, "kernel=3 stride=2 padding=1 ceil_mode=true", X(1, 2, 6, 5)),
    POOL(avg_pool2d, "kernel=3 stride=2 padding=1 count_include_pad=false", X(1, 2, 6, 5)),
    POOL(adaptive_avg_pool2d, "output=1", X(2, 3, 3, 5)),
    POOL(adaptive_avg_pool2d, "output=3,7", X(1, 2, 5, 4)), /* windows overlap, outputs repeat */
    POOL(adaptive_max_pool2d, "output=2,3", X(1, 3, 5, 7)),
};

static int64_t numel(const shape *s)
{
  int64_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= s->size[d];
  return n;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* Values in [-1,1) that all differ by 2/n at least, in a scrambled order: no ties, no near ties. */
static void scrambled(double *values, int64_t n, int salt)
{
  int64_t step = 7 * n / 11 + salt;
  while (n > 1 && common_divisor(step, n) > 1) step++;
  for (int64_t i = 0; i < n; i++)
    values[i] = -1 + 2.0 * (double)((i * step + 3 * salt) % n) / (double)n + 0.0123;
}

static void fill_inputs(const gradient_case *c, double values[INPUTS][ELEMENTS])
{
  for (int i = 0; i < c->n_in; i++) {
    int64_t n = numel(&c->in[i]);
    assert_true(n <= ELEMENTS);
    scrambled(values[i], n, i + 1);
    if (i == 4) /* a running variance is positive */
      for (int64_t k = 0; k < n; k++) values[i][k] = 0.5 + fabs(values[i][k]);
  }
}

/* sum of y * weights; y is the op's first output. The weights depend on its size alone. */
static capl_tensor *loss_of(const gradient_case *c, capl_tensor **in)
{
  double values[ELEMENTS];
  capl_tensor *out[CAPL_MAX_OUT], *weights, *product, *loss;
  assert_ok(capl_run(c->op, in, c->n_in, c->attrs, out));
  int64_t n = capl_tensor_numel(out[0]);
  assert_true(n <= ELEMENTS);
  scrambled(values, n, 9);
  assert_ok(capl_tensor_from_doubles(ref, CAPL_F64, out[0]->ndim, out[0]->size, values, &weights));
  assert_ok(capl_run(CAPL_OP_mul, (capl_tensor *[]){out[0], weights}, 2, NULL, &product));
  assert_ok(capl_run(CAPL_OP_sum, &product, 1, NULL, &loss));
  for (int i = 0; i < capl_op_get(c->op)->n_out; i++) capl_tensor_unref(out[i]);
  capl_tensor_unref(weights);
  capl_tensor_unref(product);
  return loss;
}

static void make_inputs(const gradient_case *c, double values[INPUTS][ELEMENTS], bool leaves,
                        capl_tensor **in)
{
  for (int i = 0; i < c->n_in; i++) {
    assert_ok(capl_tensor_from_doubles(ref, CAPL_F64, c->in[i].ndim, c->in[i].size, values[i], &in[i]));
    in[i]->requires_grad = leaves && i < c->n_grad;
  }
}

static void drop_inputs(const gradient_case *c, capl_tensor **in)
{
  for (int i = 0; i < c->n_in; i++) capl_tensor_unref(in[i]);
}

static double loss_at(const gradient_case *c, double values[INPUTS][ELEMENTS])
{
  double value;
  capl_tensor *in[INPUTS];
  make_inputs(c, values, false, in);
  capl_tensor *loss = loss_of(c, in);
  assert_ok(capl_tensor_item(loss, &value));
  capl_tensor_unref(loss);
  drop_inputs(c, in);
  return value;
}

static double difference(const gradient_case *c, double values[INPUTS][ELEMENTS], int i, int64_t k)
{
  const double step = 1e-5;
  double at = values[i][k];
  values[i][k] = at + step;
  double above = loss_at(c, values);
  values[i][k] = at - step;
  double below = loss_at(c, values);
  values[i][k] = at;
  return (above - below) / (2 * step);
}

static void check_gradient(const gradient_case *c, double values[INPUTS][ELEMENTS], int i,
                           const capl_tensor *grad)
{
  double got[ELEMENTS];
  assert_non_null(grad);
  assert_int_equal(capl_tensor_numel(grad), numel(&c->in[i]));
  assert_ok(capl_tensor_to_doubles(grad, got));
  for (int64_t k = 0; k < numel(&c->in[i]); k++) {
    double expected = difference(c, values, i, k);
    if (!(fabs(got[k] - expected) <= 1e-7 * (1 + fabs(expected))))
      fail_msg("%s(%s): input %d, element %lld: gradient %.9g, difference quotient %.9g",
               capl_op_get(c->op)->name, c->attrs, i, (long long)k, got[k], expected);
  }
}

static void gradients_agree_with_central_differences(void **state)
{
  (void)state;
  static double values[INPUTS][ELEMENTS];
  for (size_t n = 0; n < sizeof gradient_cases / sizeof gradient_cases[0]; n++) {
    const gradient_case *c = &gradient_cases[n];
    capl_tensor *in[INPUTS];
    fill_inputs(c, values);
    make_inputs(c, values, true, in);
    capl_tensor *loss = loss_of(c, in);
    assert_ok(capl_backward(loss, 1));
    capl_tensor_unref(loss);
    for (int i = 0; i < c->n_grad; i++) check_gradient(c, values, i, in[i]->grad);
    drop_inputs(c, in);
  }
}

/* ---- helpers of the tests below ----------------------------------------------------------------------- */

static capl_tensor *make(capl_dtype dtype, shape s, const double *values)
{
  capl_tensor *t;
  assert_ok(capl_tensor_from_doubles(ref, dtype, s.ndim, s.size, values, &t));
  return t;
}

#define MAKE(dtype, s, ...) make((dtype), (shape)s, (double[]){__VA_ARGS__})

/* Compares all values and drops the tensor. */
static void check_and_drop(capl_tensor *t, int64_t n, const double *expected)
{
  double got[64];
  assert_int_equal(capl_tensor_numel(t), n);
  assert_ok(capl_tensor_to_doubles(t, got));
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(got[i] - expected[i]) <= 1e-12))
      fail_msg("element %lld is %.15g, expected %.15g", (long long)i, got[i], expected[i]);
  capl_tensor_unref(t);
}

#define CHECK(t, ...) \
  check_and_drop((t), (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

/* ---- the fused gradients equal those of the simple ops --------------------------------------------- */

static void same_values(const capl_tensor *a, const capl_tensor *b)
{
  double left[ELEMENTS], right[ELEMENTS];
  assert_true(capl_tensor_same_shape(a, b));
  assert_ok(capl_tensor_to_doubles(a, left));
  assert_ok(capl_tensor_to_doubles(b, right));
  for (int64_t i = 0; i < capl_tensor_numel(a); i++)
    if (!(fabs(left[i] - right[i]) <= 1e-12))
      fail_msg("element %lld is %.15g and %.15g", (long long)i, left[i], right[i]);
}

/* ref expands bn_act and bn_act_pool, so its tape holds simple ops; the fused gradient is called here. */
static void check_fused_gradient(capl_op_id grad_op, const gradient_case *c, const char *grad_attrs)
{
  static double values[INPUTS][ELEMENTS];
  capl_tensor *in[INPUTS], *out[CAPL_MAX_OUT], *got[3], *dy;
  fill_inputs(c, values);
  make_inputs(c, values, true, in);
  capl_tensor *loss = loss_of(c, in);
  assert_ok(capl_backward(loss, 1));
  capl_tensor_unref(loss);
  assert_ok(capl_run(c->op, in, c->n_in, c->attrs, out));
  scrambled(values[0], capl_tensor_numel(out[0]), 9); /* loss_of's weights */
  assert_ok(capl_tensor_from_doubles(ref, CAPL_F64, out[0]->ndim, out[0]->size, values[0], &dy));
  capl_tensor *fused[] = {in[0], dy, in[1], in[2], out[1], out[2], out[3]};
  bool pooled = grad_op == CAPL_OP_bn_act_pool_grad;
  assert_ok(capl_run(grad_op, fused, pooled ? 7 : 6, grad_attrs, got));
  for (int i = 0; i < 3; i++) {
    same_values(got[i], in[i]->grad);
    capl_tensor_unref(got[i]);
  }
  for (int i = 0; i < (pooled ? 4 : 3); i++) capl_tensor_unref(out[i]);
  capl_tensor_unref(dy);
  drop_inputs(c, in);
}

static void fused_gradients_equal_those_of_the_simple_ops(void **state)
{
  (void)state;
  static const gradient_case plain[] = {NORM(bn_act, "", X(3, 5, 3, 1), 5), NORM(bn_act, "", X(6, 7), 7)};
  static const gradient_case batch[] = {NORM(bn_act, "training=true", X(3, 5, 3, 1), 5),
                                        NORM(bn_act, "training=true", X(6, 7), 7)};
  for (int i = 0; i < 2; i++) {
    check_fused_gradient(CAPL_OP_bn_act_grad, &plain[i], "");
    check_fused_gradient(CAPL_OP_bn_act_grad, &batch[i], "training=true");
  }
  static const gradient_case silu = NORM(bn_act, "act=silu", X(3, 5, 3, 1), 5);
  static const gradient_case batch_silu = NORM(bn_act, "training=true act=silu", X(6, 7), 7);
  check_fused_gradient(CAPL_OP_bn_act_grad, &silu, "act=silu");
  check_fused_gradient(CAPL_OP_bn_act_grad, &batch_silu, "training=true act=silu");
  static const gradient_case pool = NORM(bn_act_pool, "", X(2, 3, 5, 7), 3);
  static const gradient_case batch_pool = NORM(bn_act_pool, "training=true", X(2, 3, 4, 5), 3);
  check_fused_gradient(CAPL_OP_bn_act_pool_grad, &pool, "");
  check_fused_gradient(CAPL_OP_bn_act_pool_grad, &batch_pool, "training=true");
}

/* ---- dtypes and empty batches -------------------------------------------------------------------- */

static void sixteen_bit_inputs_give_f32_parameter_gradients(void **state)
{
  (void)state;
  capl_tensor *out[3], *x = MAKE(CAPL_BF16, S(1, 1, 1, 3), 1, 2, 3),
                       *dy = MAKE(CAPL_BF16, S(1, 1, 1, 3), 256, 1, 1);
  assert_ok(capl_run(CAPL_OP_conv2d_grad_w, (capl_tensor *[]){x, dy}, 2, "kernel=1", out));
  assert_int_equal(out[0]->dtype, CAPL_F32);
  assert_int_equal(out[1]->dtype, CAPL_F32);
  CHECK(out[0], 261); /* bf16 has no 261 */
  CHECK(out[1], 258);
  assert_ok(capl_run(CAPL_OP_conv2d_grad_x, (capl_tensor *[]){dy, dy}, 2, "size=1,5", out));
  assert_int_equal(out[0]->dtype, CAPL_BF16);
  capl_tensor_unref(out[0]);
  capl_tensor *one = MAKE(CAPL_F32, S(1), 1);
  assert_ok(capl_run(CAPL_OP_batch_norm, (capl_tensor *[]){x, one, one}, 3, "training=true", out));
  assert_int_equal(out[0]->dtype, CAPL_BF16);
  assert_int_equal(out[1]->dtype, CAPL_F32);
  for (int i = 0; i < 3; i++) capl_tensor_unref(out[i]);
  capl_tensor_unref(one);
  capl_tensor_unref(x);
  capl_tensor_unref(dy);
}

static void an_empty_batch_gives_empty_results_and_zero_gradients(void **state)
{
  (void)state;
  double none[1] = {0};
  capl_tensor *out[2], *y, *x = make(CAPL_F64, (shape)S(0, 2, 4, 4), none);
  capl_tensor *weight = MAKE(CAPL_F64, S(1, 2, 1, 1), 1, 1);
  assert_ok(capl_run(CAPL_OP_conv2d, (capl_tensor *[]){x, weight}, 2, "", &y));
  assert_memory_equal(y->size, ((int64_t[]){0, 1, 4, 4}), 4 * sizeof(int64_t));
  assert_ok(capl_run(CAPL_OP_conv2d_grad_w, (capl_tensor *[]){x, y}, 2, "kernel=1", out));
  CHECK(out[0], 0, 0);
  CHECK(out[1], 0);
  capl_tensor_unref(y);
  assert_ok(capl_run(CAPL_OP_max_pool2d, &x, 1, "kernel=2", out));
  assert_int_equal(capl_tensor_numel(out[0]), 0);
  capl_tensor_unref(out[0]);
  capl_tensor_unref(out[1]);
  capl_tensor_unref(x);
  capl_tensor_unref(weight);
}

/* ---- cost ------------------------------------------------------------------------------------------ */

static void add_macs(void *user, const capl_profile_event *event) { *(double *)user += event->macs; }

/* Forward and backward of one op take three times its products: y, dx and dw. */
static void products_are_counted_in_both_directions(void **state)
{
  (void)state;
  static const struct {
    gradient_case call;
    double products;
  } cases[] = {
      {CONV("padding=1", X(2, 3, 5, 5), X(4, 3, 3, 3), S(4)), 2 * 4 * 25 * 27},
      {CONV("groups=4 stride=2", X(1, 4, 5, 5), X(8, 1, 3, 3), S(8)), 8 * 4 * 9},
      {{CAPL_OP_linear, "", 3, 3, {S(5, 7), S(3, 7), S(3)}}, 5 * 7 * 3},
      {{CAPL_OP_matmul, "transpose_a=true", 2, 2, {S(2, 4, 3), S(2, 4, 5)}}, 2 * 3 * 4 * 5},
  };
  static double values[INPUTS][ELEMENTS];
  for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
    capl_tensor *in[INPUTS];
    double counted = 0;
    make_inputs(&cases[n].call, values, true, in);
    capl_profile_set(add_macs, &counted);
    capl_tensor *loss = loss_of(&cases[n].call, in);
    assert_true(counted == cases[n].products);
    assert_ok(capl_backward(loss, 1));
    capl_profile_set(NULL, NULL);
    assert_true(counted == 3 * cases[n].products);
    capl_tensor_unref(loss);
    drop_inputs(&cases[n].call, in);
  }
}

/* ---- errors --------------------------------------------------------------------------------------- */

typedef struct {
  capl_op_id op;
  const char *attrs;
  int n_in;
  shape in[INPUTS];
  capl_status code;
  const char *message, *hint;
} error_case;

static const error_case error_cases[] = {
    {CAPL_OP_conv2d,
     "",
     2,
     {S(2, 3, 5, 5), S(8, 1, 3, 3)},
     CAPL_ESHAPE,
     "conv2d: weight expects 1 input channel, x has 3",
     "use nn.Conv2d(3, 8, …) or feed images with 1 channel"},
    {CAPL_OP_conv2d,
     "",
     2,
     {S(2, 3, 5, 5), S(8, 3, 7, 7)},
     CAPL_ESHAPE,
     "conv2d: x is 5x5, the 7x7 kernel (padding 0, dilation 1) does not fit",
     ""},
    {CAPL_OP_conv2d,
     "groups=3",
     2,
     {S(2, 3, 5, 5), S(8, 1, 3, 3)},
     CAPL_EVALUE,
     "conv2d: weight has 8 output channels, groups = 3 does not divide them",
     "input and output channels must both be multiples of groups"},
    {CAPL_OP_conv2d,
     "groups=2",
     2,
     {S(2, 3, 5, 5), S(8, 1, 3, 3)},
     CAPL_EVALUE,
     "conv2d: x has 3 input channels, groups = 2 does not divide them",
     "input and output channels must both be multiples of groups"},
    {CAPL_OP_conv2d,
     "",
     3,
     {S(2, 3, 5, 5), S(8, 3, 3, 3), S(7)},
     CAPL_ESHAPE,
     "conv2d: bias must be (8), one per output channel; it is (7)",
     ""},
    {CAPL_OP_conv2d_grad_w,
     "",
     2,
     {S(2, 3, 5, 5), S(2, 3, 5, 5)},
     CAPL_EVALUE,
     "conv2d_grad_w: kernel must be given",
     ""},
    {CAPL_OP_conv2d_grad_x,
     "size=4,4",
     2,
     {S(2, 3, 5, 5), S(3, 3, 3, 3)},
     CAPL_ESHAPE,
     "conv2d_grad_x: dy is (2,3,5,5), weight and size give an output of (2,3,2,2)",
     ""},
    {CAPL_OP_linear,
     "",
     2,
     {S(2, 3), S(4, 5)},
     CAPL_ESHAPE,
     "linear: weight expects 5 input features, x has 3",
     "use nn.Linear(3, 4)"},
    {CAPL_OP_matmul,
     "transpose_a=true",
     2,
     {S(2, 3), S(4, 5)},
     CAPL_ESHAPE,
     "matmul: inner sizes differ: a has 2 columns (transposed), b has 4 rows",
     ""},
    {CAPL_OP_matmul,
     "",
     2,
     {S(2, 3, 4), S(3, 4, 5)},
     CAPL_ESHAPE,
     "matmul: batch sizes 2 of a and 3 of b do not match",
     ""},
    {CAPL_OP_batch_norm,
     "training=true",
     3,
     {S(1, 3), S(3), S(3)},
     CAPL_EVALUE,
     "batch_norm: training needs more than 1 value per channel, x (1,3) has 1",
     "use larger batches (drop_last = true drops a rest of one image), or model:eval()"},
    {CAPL_OP_batch_norm,
     "",
     3,
     {S(2, 3), S(3), S(3)},
     CAPL_EVALUE,
     "batch_norm: training = false uses running_mean and running_var, which are not given",
     ""},
    {CAPL_OP_bn_act_pool,
     "training=true",
     3,
     {S(2, 3, 1, 5), S(3), S(3)},
     CAPL_ESHAPE,
     "bn_act_pool: x is 1x5, the 2x2 pooling window does not fit",
     ""},
    {CAPL_OP_max_pool2d,
     "kernel=3 padding=2",
     1,
     {S(2, 3, 5, 5)},
     CAPL_EVALUE,
     "max_pool2d: padding 2 is more than half the kernel size 3",
     ""},
    {CAPL_OP_max_pool2d,
     "kernel=16",
     1,
     {S(1, 1, 16, 16)},
     CAPL_EVALUE,
     "max_pool2d: a 16x16 window has more than the 255 positions an index can name",
     ""},
    {CAPL_OP_avg_pool2d,
     "kernel=6",
     1,
     {S(2, 3, 5, 5)},
     CAPL_ESHAPE,
     "avg_pool2d: x is 5x5, the 6x6 pooling window (padding 0) does not fit",
     ""},
    {CAPL_OP_adaptive_avg_pool2d,
     "output=1",
     1,
     {S(1, 2, 0, 3)},
     CAPL_ESHAPE,
     "adaptive_avg_pool2d: x is 0x3, there is nothing to pool",
     ""},
};

static void errors_name_both_sides(void **state)
{
  (void)state;
  static double values[INPUTS][ELEMENTS];
  for (size_t n = 0; n < sizeof error_cases / sizeof error_cases[0]; n++) {
    const error_case *e = &error_cases[n];
    gradient_case c = {e->op, e->attrs, e->n_in, 0, {{0}}};
    capl_tensor *in[INPUTS], *out[CAPL_MAX_OUT];
    memcpy(c.in, e->in, sizeof c.in);
    make_inputs(&c, values, false, in);
    assert_fails(capl_run(e->op, in, e->n_in, e->attrs, out), e->code, e->message);
    assert_string_equal(capl_error_last()->hint, e->hint);
    drop_inputs(&c, in);
  }
}

/* A tensor of indices may come from anywhere: a wrong one is an error, not a write out of bounds. */
static void a_wrong_index_is_refused(void **state)
{
  (void)state;
  capl_tensor *dx, *dy = MAKE(CAPL_F64, S(1, 1, 1, 1), 1), *nine = MAKE(CAPL_U8, S(1, 1, 1, 1), 9);
  capl_tensor *minus = MAKE(CAPL_I32, S(1, 1, 1, 1), -1);
  assert_fails(capl_run(CAPL_OP_max_pool2d_grad, (capl_tensor *[]){dy, nine}, 2, "kernel=2 size=2,2", &dx),
               CAPL_EVALUE, "max_pool2d_grad: index 9 of output 0,0 lies outside its window");
  assert_fails(capl_run(CAPL_OP_adaptive_max_pool2d_grad, (capl_tensor *[]){dy, minus}, 2, "size=2,2", &dx),
               CAPL_EVALUE, "adaptive_max_pool2d_grad: index -1 of output 0,0 lies outside its window");
  capl_tensor_unref(dy);
  capl_tensor_unref(nine);
  capl_tensor_unref(minus);
}

/* Callers in C count dims and places from 0; those of the Lua binding from 1 (tests/op). */
static void messages_count_from_the_callers_first_number(void **state)
{
  (void)state;
  capl_tensor *x = make(CAPL_F32, (shape){2, {2, 3}}, (double[6]){0}), *y;
  assert_fails(capl_run(CAPL_OP_sum, &x, 1, "dims=1,1", &y), CAPL_EVALUE, "sum: dim 1 is given twice");
  assert_fails(capl_run(CAPL_OP_sum, &x, 1, "dims=2", &y), CAPL_EVALUE,
               "sum: dim 2 is outside 0..1 of a tensor with 2 dims");
  capl_count_from(1);
  assert_fails(capl_run(CAPL_OP_sum, &x, 1, "dims=1,1", &y), CAPL_EVALUE, "sum: dim 2 is given twice");
  assert_fails(capl_run(CAPL_OP_sum, &x, 1, "dims=-3", &y), CAPL_EVALUE,
               "sum: dim -3 is outside 1..2 of a tensor with 2 dims");
  capl_count_from(0);
  capl_tensor_unref(x);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_agree_with_central_differences),
      cmocka_unit_test(fused_gradients_equal_those_of_the_simple_ops),
      cmocka_unit_test(sixteen_bit_inputs_give_f32_parameter_gradients),
      cmocka_unit_test(an_empty_batch_gives_empty_results_and_zero_gradients),
      cmocka_unit_test(products_are_counted_in_both_directions),
      cmocka_unit_test(errors_name_both_sides),
      cmocka_unit_test(a_wrong_index_is_refused),
      cmocka_unit_test(messages_count_from_the_callers_first_number),
  };
  return cmocka_run_group_tests(tests, open_ref, NULL);
}
