/* io_fold.c -- tests of graph passes: batch norm folded away changes no number that matters.
** SPDX-License-Identifier: Apache-2.0
*/
#include "recognizer.h"

#include <math.h>

#include "io/graph_passes.h"

static int count_ops(const capl_graph *g, capl_op_id id)
{
  int n = 0;
  for (int k = 0; k < g->n_nodes; k++) n += g->nodes[k].op == id;
  return n;
}

/* Greatest difference of two tensors, relative to the greatest value of b. */
static double difference(const capl_tensor *a, const capl_tensor *b)
{
  int64_t n = capl_tensor_numel(a);
  assert_int_equal(n, capl_tensor_numel(b));
  double *va = calloc((size_t)n, sizeof *va), *vb = calloc((size_t)n, sizeof *vb), most = 0, largest = 0;
  assert_ok(capl_tensor_to_doubles(a, va));
  assert_ok(capl_tensor_to_doubles(b, vb));
  for (int64_t i = 0; i < n; i++) {
    assert_true(isfinite(va[i]));
    most = fmax(most, fabs(va[i] - vb[i]));
    largest = fmax(largest, fabs(vb[i]));
  }
  free(va);
  free(vb);
  assert_true(largest > 0.1);
  return most / largest;
}

static void fold_and_compare(const char *device_name)
{
  capl_device *device;
  assert_ok(capl_device_open(device_name, &device));
  capl_graph *plain = tiny_graph(device), *folded = tiny_graph(device);
  assert_ok(graph_fold(folded, NULL));
  assert_int_equal(count_ops(folded, CAPL_OP_bn_act_pool) + count_ops(folded, CAPL_OP_bn_act)
                   + count_ops(folded, CAPL_OP_batch_norm), 0);
  assert_int_equal(count_ops(folded, CAPL_OP_relu), 2);
  assert_int_equal(count_ops(folded, CAPL_OP_max_pool2d), 1);
  assert_int_equal(folded->n_nodes, plain->n_nodes); /* one more for the pooling, one fewer for batch_norm */
  for (int64_t batch = 1; batch < 6; batch += 2) {
    capl_tensor *x = tiny_uniform(device, 4, (int64_t[]){batch, 1, TINY_HEIGHT, TINY_WIDTH}, 0, 1, 77), *a, *b;
    assert_ok(capl_graph_run(folded, x, &a));
    assert_ok(capl_graph_run(plain, x, &b));
    assert_true(difference(a, b) < 1e-5);
    capl_tensor_unref(x);
    capl_tensor_unref(a);
    capl_tensor_unref(b);
  }
  capl_graph_free(plain);
  capl_graph_free(folded);
}

static void folding_agrees_within_1e_5_on_ref(void **state)
{
  (void)state;
  fold_and_compare("ref");
}

static void folding_agrees_within_1e_5_on_cpu(void **state)
{
  (void)state;
  fold_and_compare("cpu");
}

/* One weight for two convolutions, and a convolution read by two nodes: changing either would change the other. */
static void what_is_shared_is_left_alone(void **state)
{
  (void)state;
  capl_device *device;
  assert_ok(capl_device_open("ref", &device));
  capl_tensor *w[TINY_WEIGHTS];
  tiny_weights(device, w);
  capl_tensor *x = tiny_uniform(device, 4, (int64_t[]){2, 4, 6, 6}, -1, 1, 3), *before, *after;
  capl_graph *g;
  assert_ok(capl_trace_begin());
  capl_tensor *y = capl_tensor_ref(x), *z, *sum;
  tiny_then(&y, CAPL_OP_conv2d, "padding=1", &w[TINY_CONV2], 1);
  tiny_then(&y, CAPL_OP_bn_act, NULL, &w[TINY_SCALE], 4);
  tiny_then(&y, CAPL_OP_conv2d, "padding=1", &w[TINY_CONV2], 1); /* the same weight again */
  z = capl_tensor_ref(y);
  tiny_then(&z, CAPL_OP_batch_norm, NULL, &w[TINY_SCALE2], 4);
  assert_ok(capl_run(CAPL_OP_add, (capl_tensor *[]){y, z}, 2, NULL, &sum));
  assert_ok(capl_trace_end(x, sum, NULL, 0, &g));
  assert_ok(capl_graph_run(g, x, &before));
  assert_ok(graph_fold(g, NULL));
  assert_int_equal(count_ops(g, CAPL_OP_bn_act), 1);
  assert_int_equal(count_ops(g, CAPL_OP_batch_norm), 1);
  assert_ok(capl_graph_run(g, x, &after));
  assert_true(difference(after, before) == 0);
  capl_tensor *all[] = {x, y, z, sum, before, after};
  for (int i = 0; i < 6; i++) capl_tensor_unref(all[i]);
  for (int k = 0; k < TINY_WEIGHTS; k++) capl_tensor_unref(w[k]);
  capl_graph_free(g);
}

static void folding_keeps_the_activation(void **state)
{
  (void)state;
  capl_device *device;
  assert_ok(capl_device_open("ref", &device));
  capl_tensor *w[TINY_WEIGHTS];
  tiny_weights(device, w);
  capl_tensor *x = tiny_uniform(device, 4, (int64_t[]){2, 4, 6, 6}, -1, 1, 3), *before, *after;
  capl_graph *g;
  assert_ok(capl_trace_begin());
  capl_tensor *y = capl_tensor_ref(x);
  tiny_then(&y, CAPL_OP_conv2d, "padding=1", &w[TINY_CONV2], 1);
  tiny_then(&y, CAPL_OP_bn_act, "act=silu", &w[TINY_SCALE], 4);
  assert_ok(capl_trace_end(x, y, NULL, 0, &g));
  assert_ok(capl_graph_run(g, x, &before));
  assert_ok(graph_fold(g, NULL));
  assert_int_equal(count_ops(g, CAPL_OP_bn_act), 0);
  assert_int_equal(count_ops(g, CAPL_OP_silu), 1);
  assert_ok(capl_graph_run(g, x, &after));
  assert_true(difference(after, before) < 1e-5);
  capl_tensor *all[] = {x, y, before, after};
  for (int i = 0; i < 4; i++) capl_tensor_unref(all[i]);
  for (int k = 0; k < TINY_WEIGHTS; k++) capl_tensor_unref(w[k]);
  capl_graph_free(g);
}

static void lowering_casts_only_what_16_bit_ops_read(void **state)
{
  (void)state;
  capl_device *device;
  assert_ok(capl_device_open("ref", &device));
  capl_graph *g = tiny_graph(device);
  assert_ok(graph_lower(g, CAPL_BF16));
  int low = 0;
  for (int k = 0; k < g->n_weights; k++) low += g->weights[k].tensor->dtype == CAPL_BF16;
  assert_int_equal(low, 5); /* two convolutions and a linear, two biases; batch norm stays in f32 */
  capl_graph_free(g);
}

static void shapes_are_known_without_arithmetic(void **state)
{
  (void)state;
  capl_device *device;
  int ndim;
  int64_t size[CAPL_MAX_NDIM];
  assert_ok(capl_device_open("ref", &device));
  capl_graph *g = tiny_graph(device);
  assert_ok(graph_shape(g, 7, 0, 0, &ndim, size, NULL));
  assert_int_equal(ndim, 2);
  assert_int_equal(size[0], 7);
  assert_int_equal(size[1], TINY_LENGTH * TINY_CLASSES);
  capl_graph_free(g);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(folding_agrees_within_1e_5_on_ref),
    cmocka_unit_test(folding_agrees_within_1e_5_on_cpu),
    cmocka_unit_test(what_is_shared_is_left_alone),
    cmocka_unit_test(folding_keeps_the_activation),
    cmocka_unit_test(lowering_casts_only_what_16_bit_ops_read),
    cmocka_unit_test(shapes_are_known_without_arithmetic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
