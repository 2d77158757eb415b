/* op_call.c -- tests of the dispatcher: descriptors, attributes, argument checks, layouts, autocast, fallbacks.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdio.h>

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
  capl_memory_stats_get(ref, &s);
  assert_int_equal(s.live, 0);
  return 0;
}

#define SIZE(...) ((int64_t[]){__VA_ARGS__})
#define IN(...) ((capl_tensor *[]){__VA_ARGS__})

static capl_tensor *make(capl_dtype dtype, int ndim, const int64_t *size, const double *values)
{
  capl_tensor *t;
  assert_ok(capl_tensor_from_doubles(ref, dtype, ndim, size, values, &t));
  return t;
}

static void every_op_describes_itself(void **state)
{
  (void)state;
  for (int id = 0; id < CAPL_OP_COUNT; id++) {
    const capl_op *op = capl_op_get((capl_op_id)id);
    assert_non_null(op);
    assert_ptr_equal(capl_op_find(op->name), op);
    assert_int_equal(capl_op_id_of(op), id);
    if (!op->doc || strlen(op->doc) < 10 || !op->ins || !op->outs) fail_msg("%s lacks doc, ins or outs", op->name);
    if (!op->shape && !op->view) fail_msg("%s has neither shape nor view rule", op->name);
    if (op->n_out > CAPL_MAX_OUT) fail_msg("%s has too many outputs", op->name);
    int named = *op->outs != '\0';
    for (const char *p = op->outs; *p; p++) named += *p == ',';
    if (op->amp == CAPL_AMP_LOW && !op->low_in) fail_msg("%s is of class low, and .low_in names no input", op->name);
    if (named != op->n_out)
      fail_msg("%s: .outs '%s' names %d outputs, .n_out is %d", op->name, op->outs, named, op->n_out);
  }
  assert_null(capl_op_get(CAPL_OP_COUNT));
  assert_null(capl_op_find("conv2"));
}

static void facts_of_attributes_fit_their_kinds(void **state)
{
  (void)state;
  for (int id = 0; id < CAPL_OP_COUNT; id++) {
    const capl_op *op = capl_op_get((capl_op_id)id);
    int k = 0;
    for (; k < CAPL_MAX_ATTR && op->attrs[k].name; k++) {
      const capl_attr_spec *spec = &op->attrs[k];
      bool whole = spec->kind == CAPL_ATTR_INT || spec->kind == CAPL_ATTR_INTS;
      if ((spec->dim || spec->index || spec->stream) && !whole)
        fail_msg("%s: %s counts no whole numbers", op->name, spec->name);
      if (spec->per_step && !op->step_groups)
        fail_msg("%s: %s changes per step, and the op writes nothing", op->name, spec->name);
      assert_int_equal(capl_attr_index(op, spec->name), k); /* no name twice */
    }
  }
}

static void every_op_has_a_ref_kernel(void **state)
{
  (void)state;
  for (int id = 0; id < CAPL_OP_COUNT; id++) {
    const capl_op *op = capl_op_get((capl_op_id)id);
    bool elsewhere = op->view || op->expand; /* an alias, or other ops */
    if (!elsewhere && !capl_device_has(ref, (capl_op_id)id)) fail_msg("%s has no ref kernel", op->name);
  }
}

static void attributes_start_at_their_defaults(void **state)
{
  (void)state;
  const capl_op *conv = capl_op_get(CAPL_OP_conv2d);
  capl_attr attr[CAPL_MAX_ATTR];
  capl_attr_defaults(conv, attr);
  int stride = capl_attr_index(conv, "stride"), groups = capl_attr_index(conv, "groups");
  assert_true(stride >= 0 && groups >= 0);
  assert_int_equal(attr[stride].n, 2);
  assert_int_equal(attr[stride].v[0], 1);
  assert_int_equal(attr[stride].v[1], 1);
  assert_int_equal(attr[groups].i, 1);
  assert_int_equal(capl_attr_index(conv, "color"), -1);
}

static void attributes_are_read_from_text(void **state)
{
  (void)state;
  const capl_op *conv = capl_op_get(CAPL_OP_conv2d);
  const capl_op *loss = capl_op_get(CAPL_OP_cross_entropy);
  const capl_op *cast = capl_op_get(CAPL_OP_cast);
  capl_attr attr[CAPL_MAX_ATTR];
  capl_attr_defaults(conv, attr);
  int stride = capl_attr_index(conv, "stride");
  assert_ok(capl_attr_parse(conv, attr, "stride", "3"));
  assert_memory_equal(attr[stride].v, SIZE(3, 3), 16);
  assert_ok(capl_attr_parse(conv, attr, "stride", "2,1"));
  assert_memory_equal(attr[stride].v, SIZE(2, 1), 16);
  capl_attr_defaults(loss, attr);
  assert_ok(capl_attr_parse(loss, attr, "reduction", "sum"));
  assert_int_equal(attr[capl_attr_index(loss, "reduction")].i, 1);
  capl_attr_defaults(cast, attr);
  assert_ok(capl_attr_parse(cast, attr, "dtype", "bf16"));
  assert_int_equal(attr[0].i, CAPL_BF16);
}

static void bad_attributes_are_refused(void **state)
{
  (void)state;
  const capl_op *conv = capl_op_get(CAPL_OP_conv2d);
  const capl_op *loss = capl_op_get(CAPL_OP_cross_entropy);
  const capl_op *reshape = capl_op_get(CAPL_OP_reshape);
  capl_attr attr[CAPL_MAX_ATTR];
  capl_attr_defaults(conv, attr);
  assert_fails(capl_attr_parse(conv, attr, "strid", "2"), CAPL_EVALUE, "conv2d has no attribute 'strid'");
  assert_string_equal(capl_error_last()->hint, "did you mean 'stride'?");
  assert_fails(capl_attr_parse(conv, attr, "stride", "1,2,3"), CAPL_EVALUE, "conv2d: stride needs 2 numbers, not 3");
  assert_fails(capl_attr_parse(conv, attr, "stride", "1.5"), CAPL_EVALUE,
               "conv2d: stride must be a whole number, not 1.5");
  assert_fails(capl_attr_parse(conv, attr, "stride", "two"), CAPL_EVALUE, "conv2d: stride: 'two' is no number");
  assert_int_equal(capl_attr_parse(conv, attr, "stride", "0"), CAPL_EVALUE);
  assert_int_equal(capl_attr_parse(conv, attr, "stride", ""), CAPL_EVALUE);
  assert_int_equal(capl_attr_parse(conv, attr, "stride", "2,"), CAPL_EVALUE);
  assert_int_equal(capl_attr_parse(conv, attr, "groups", "nan"), CAPL_EVALUE);
  capl_attr_defaults(loss, attr);
  assert_fails(capl_attr_parse(loss, attr, "reduction", "average"), CAPL_EVALUE,
               "cross_entropy: reduction must be one of mean|sum|none, not 'average'");
  capl_attr_defaults(reshape, attr);
  assert_fails(capl_attr_parse(reshape, attr, "size", "1,1,1,1,1,1,1"), CAPL_EVALUE,
               "reshape: size: '1,1,1,1,1,1,1' has more than 6 numbers");
}

static void a_call_runs_and_returns_new_tensors(void **state)
{
  (void)state;
  capl_tensor *a = make(CAPL_F32, 1, SIZE(3), (double[]){1, 2, 3}), *y;
  double v[3];
  assert_ok(capl_run(CAPL_OP_affine, &a, 1, "scale=2 shift=1", &y));
  assert_ok(capl_tensor_to_doubles(y, v));
  assert_memory_equal(v, ((double[]){3, 5, 7}), sizeof v);
  assert_null(y->node);
  capl_tensor_unref(y);
  capl_tensor_unref(a);
}

static void wrong_inputs_are_named(void **state)
{
  (void)state;
  capl_tensor *a = make(CAPL_F32, 1, SIZE(2), (double[]){1, 2}), *y = NULL;
  assert_int_equal(capl_run(CAPL_OP_add, IN(a), 1, NULL, &y), CAPL_EVALUE);
  assert_int_equal(capl_run(CAPL_OP_add, IN(a, a, a), 3, NULL, &y), CAPL_EVALUE);
  assert_fails(capl_run(CAPL_OP_add, IN(a, NULL), 2, NULL, &y), CAPL_EVALUE, "add: b is missing");
  assert_fails(capl_run(CAPL_OP_add, IN(a, a), 2, "alpha=1", &y), CAPL_EVALUE, "add has no attribute 'alpha'");
  assert_fails(capl_run(CAPL_OP_add, IN(a, a), 2, "alpha", &y), CAPL_EVALUE, "add: 'alpha' is not name=value");
  assert_null(y);
  capl_tensor_unref(a);
}

static void shape_errors_name_the_op_and_show_the_inputs(void **state)
{
  (void)state;
  capl_tensor *x, *w, *y;
  assert_ok(capl_tensor_new(ref, CAPL_F32, 4, SIZE(2, 3, 8, 8), CAPL_AUTO, &x));
  assert_ok(capl_tensor_new(ref, CAPL_F32, 4, SIZE(4, 1, 3, 3), CAPL_AUTO, &w));
  assert_int_equal(capl_run(CAPL_OP_conv2d, IN(x, w), 2, NULL, &y), CAPL_ESHAPE);
  assert_non_null(strstr(capl_error_last()->message, "conv2d: "));
  assert_string_equal(capl_error_last()->context, "x (2,3,8,8) f32 ref   weight (4,1,3,3) f32 ref");
  assert_null(y);
  capl_tensor_unref(x);
  capl_tensor_unref(w);
}

static void inputs_of_two_devices_do_not_mix(void **state)
{
  (void)state;
  capl_device *meta;
  capl_tensor *a = make(CAPL_F32, 1, SIZE(2), (double[]){1, 2}), *b, *y;
  assert_ok(capl_device_open("meta", &meta));
  assert_ok(capl_tensor_new(meta, CAPL_F32, 1, SIZE(2), CAPL_AUTO, &b));
  assert_fails(capl_run(CAPL_OP_add, IN(a, b), 2, NULL, &y), CAPL_EVALUE,
               "add: b is on meta, an earlier input on ref");
  capl_tensor_unref(a);
  capl_tensor_unref(b);
}

static void meta_knows_shapes_without_arithmetic(void **state)
{
  (void)state;
  capl_device *meta;
  capl_tensor *x, *w, *y;
  assert_ok(capl_device_open("meta", &meta));
  assert_ok(capl_tensor_new(meta, CAPL_F32, 4, SIZE(100000, 64, 512, 512), CAPL_AUTO, &x));
  assert_ok(capl_tensor_new(meta, CAPL_F32, 4, SIZE(128, 64, 3, 3), CAPL_AUTO, &w));
  assert_ok(capl_run(CAPL_OP_conv2d, IN(x, w), 2, "stride=2 padding=1", &y));
  assert_memory_equal(y->size, SIZE(100000, 128, 256, 256), 4 * sizeof(int64_t));
  capl_tensor_unref(x);
  capl_tensor_unref(w);
  capl_tensor_unref(y);
}

static void kernels_see_the_memory_order_they_ask_for(void **state)
{
  (void)state;
  /* The same pooling of a channels-last image, a row-major one and a view of every other row. */
  capl_tensor *image, *row, *tall, *view, *y[3][2];
  double v[3][8];
  assert_ok(capl_tensor_new(ref, CAPL_F32, 4, SIZE(1, 2, 4, 4), CAPL_AUTO, &image));
  assert_ok(capl_tensor_fill_uniform(image, 0, 1, 1, 0, 0, 0));
  assert_ok(capl_tensor_new(ref, CAPL_F32, 4, SIZE(1, 2, 4, 4), CAPL_ROW, &row));
  assert_ok(capl_tensor_copy(row, image));
  assert_ok(capl_tensor_new(ref, CAPL_F32, 4, SIZE(1, 2, 8, 4), CAPL_ROW, &tall));
  assert_ok(capl_tensor_alias(tall, 4, image->size, SIZE(64, 32, 8, 1), 0, &view));
  assert_ok(capl_tensor_copy(view, image));
  capl_tensor *inputs[] = {image, row, view};
  for (int i = 0; i < 3; i++) {
    assert_ok(capl_run(CAPL_OP_max_pool2d, &inputs[i], 1, "kernel=2", y[i]));
    assert_ok(capl_tensor_to_doubles(y[i][0], v[i]));
    assert_memory_equal(v[i], v[0], sizeof v[0]);
    capl_tensor_unref(y[i][0]);
    capl_tensor_unref(y[i][1]);
    capl_tensor_unref(inputs[i]);
  }
  capl_tensor_unref(tall);
}

static void writes_into_a_view_reach_its_owner(void **state)
{
  (void)state;
  /* sgd on every other element: a parameter need not be dense. */
  capl_tensor *all = make(CAPL_F32, 1, SIZE(6), (double[]){1, 1, 1, 1, 1, 1}), *param;
  capl_tensor *grad = make(CAPL_F32, 1, SIZE(3), (double[]){1, 2, 3});
  double v[6];
  assert_ok(capl_tensor_alias(all, 1, SIZE(3), SIZE(2), 0, &param));
  capl_tensor *buffer = make(CAPL_F32, 1, SIZE(3), (double[]){0, 0, 0});
  capl_status status = capl_run(CAPL_OP_sgd_step, IN(param, grad, buffer), 3, "lr=0.5", NULL);
  if (status == CAPL_OK) { /* it may also refuse; it must not lose the write */
    assert_ok(capl_tensor_to_doubles(all, v));
    assert_memory_equal(v, ((double[]){0.5, 1, 0, 1, -0.5, 1}), sizeof v);
  }
  capl_tensor_unref(all);
  capl_tensor_unref(param);
  capl_tensor_unref(grad);
  capl_tensor_unref(buffer);
}

static void statistics_in_a_view_are_updated_too(void **state)
{
  (void)state;
  /* running_mean is every other element of a longer vector, and batch_norm asks for dense inputs. */
  capl_tensor *x = make(CAPL_F32, 2, SIZE(2, 2), (double[]){1, 2, 3, 6});
  capl_tensor *one = make(CAPL_F32, 1, SIZE(2), (double[]){1, 1}), *zero = make(CAPL_F32, 1, SIZE(2), (double[]){0, 0});
  capl_tensor *longer = make(CAPL_F32, 1, SIZE(4), (double[]){0, 5, 0, 5}), *mean, *out[3] = {NULL};
  double v[4];
  assert_ok(capl_tensor_alias(longer, 1, SIZE(2), SIZE(2), 0, &mean));
  capl_status status = capl_run(CAPL_OP_batch_norm, IN(x, one, zero, mean, one), 5, "training=true momentum=0.5", out);
  if (status == CAPL_OK) { /* it may also refuse; it must not lose the write */
    assert_ok(capl_tensor_to_doubles(longer, v));
    assert_memory_equal(v, ((double[]){1, 5, 2, 5}), sizeof v);
  }
  for (int i = 0; i < 3; i++) capl_tensor_unref(out[i]);
  capl_tensor *all[] = {x, one, zero, longer, mean};
  for (int i = 0; i < 5; i++) capl_tensor_unref(all[i]);
}

static void outputs_nobody_wants_are_released(void **state)
{
  (void)state;
  capl_tensor *a = make(CAPL_F32, 1, SIZE(2), (double[]){1, 2});
  assert_ok(capl_run(CAPL_OP_exp, &a, 1, NULL, NULL));
  capl_tensor_unref(a);
}

static void autocast_lowers_products_and_keeps_losses(void **state)
{
  (void)state;
  capl_tensor *x = make(CAPL_F32, 2, SIZE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
  capl_tensor *w = make(CAPL_F32, 2, SIZE(2, 3), (double[]){1, 0, 0, 0, 1, 0});
  capl_tensor *labels = make(CAPL_I32, 1, SIZE(2), (double[]){0, 1}), *y, *loss;
  assert_int_equal(capl_autocast_set(CAPL_BF16), CAPL_F32);
  assert_int_equal(capl_autocast_get(), CAPL_BF16);
  assert_ok(capl_run(CAPL_OP_linear, IN(x, w), 2, NULL, &y));
  assert_int_equal(y->dtype, CAPL_BF16);
  assert_ok(capl_run(CAPL_OP_cross_entropy, IN(y, labels), 2, NULL, &loss));
  assert_int_equal(loss->dtype, CAPL_F32);
  assert_int_equal(capl_autocast_set(CAPL_F32), CAPL_BF16);
  capl_tensor_unref(y);
  assert_ok(capl_run(CAPL_OP_linear, IN(x, w), 2, NULL, &y));
  assert_int_equal(y->dtype, CAPL_F32);
  capl_tensor_unref(loss);
  capl_tensor_unref(y);
  capl_tensor_unref(x);
  capl_tensor_unref(w);
  capl_tensor_unref(labels);
}

static int events;
static char event_label[32];

static void note_event(void *user, const capl_profile_event *event)
{
  (void)user;
  events++;
  snprintf(event_label, sizeof event_label, "%s", event->label ? event->label : "");
  assert_string_equal(event->call->op->name, "add");
  assert_string_equal(event->backend, "ref");
  assert_true(event->seconds >= 0);
  assert_true(event->bytes == 3 * 8);
}

static void the_profiler_sees_each_kernel_with_its_label(void **state)
{
  (void)state;
  capl_tensor *a = make(CAPL_F32, 1, SIZE(2), (double[]){1, 2}), *y;
  capl_profile_set(note_event, NULL);
  capl_profile_label_set("net > [1] Sum");
  assert_ok(capl_run(CAPL_OP_add, IN(a, a), 2, NULL, &y));
  capl_profile_label_set(NULL);
  capl_profile_set(NULL, NULL);
  assert_int_equal(events, 1);
  assert_string_equal(event_label, "net > [1] Sum");
  capl_tensor_unref(a);
  capl_tensor_unref(y);
}

static void unknown_devices_and_counters_say_so(void **state)
{
  (void)state;
  capl_device *device;
  assert_fails(capl_device_open("gpu", &device), CAPL_EUNSUPPORTED, "unknown device 'gpu'");
  assert_int_equal(capl_counter_get("no such counter"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, no_memory_is_left)
  const struct CMUnitTest tests[] = {
    TEST(every_op_describes_itself),
    TEST(facts_of_attributes_fit_their_kinds),
    TEST(every_op_has_a_ref_kernel),
    TEST(attributes_start_at_their_defaults),
    TEST(attributes_are_read_from_text),
    TEST(bad_attributes_are_refused),
    TEST(a_call_runs_and_returns_new_tensors),
    TEST(wrong_inputs_are_named),
    TEST(shape_errors_name_the_op_and_show_the_inputs),
    TEST(inputs_of_two_devices_do_not_mix),
    TEST(meta_knows_shapes_without_arithmetic),
    TEST(kernels_see_the_memory_order_they_ask_for),
    TEST(writes_into_a_view_reach_its_owner),
    TEST(statistics_in_a_view_are_updated_too),
    TEST(outputs_nobody_wants_are_released),
    TEST(autocast_lowers_products_and_keeps_losses),
    TEST(the_profiler_sees_each_kernel_with_its_label),
    TEST(unknown_devices_and_counters_say_so),
  };
  return cmocka_run_group_tests(tests, open_ref, NULL);
}
