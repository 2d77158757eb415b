/* io_passes.c -- tests of the passes over an opened graph: constants, activations, unused weights, results in place,
** packed weights. Each compares with the graph as it was written. And what a run leaves unwritten or shares out.
** SPDX-License-Identifier: Apache-2.0
*/
#include "recognizer.h"

#include <math.h>

#include "capl/backend.h"
#include "io/graph_passes.h"
#include "ops/run_kernel.h"
#include "tensor/storage.h"

static int count_ops(const capl_graph *g, capl_op_id id)
{
  int n = 0;
  for (int k = 0; k < g->n_nodes; k++) n += g->nodes[k].op == id;
  return n;
}

static double *numbers_of(const capl_tensor *t)
{
  double *v = calloc((size_t)capl_tensor_numel(t) + 1, sizeof *v);
  assert_ok(capl_tensor_to_doubles(t, v));
  return v;
}

/* Greatest difference of two tensors, relative to the greatest value of b. */
static double difference(const capl_tensor *a, const capl_tensor *b)
{
  double *va = numbers_of(a), *vb = numbers_of(b), most = 0, largest = 0;
  assert_int_equal(capl_tensor_numel(a), capl_tensor_numel(b));
  for (int64_t i = 0; i < capl_tensor_numel(a); i++) {
    assert_true(isfinite(va[i]));
    most = fmax(most, fabs(va[i] - vb[i]));
    largest = fmax(largest, fabs(vb[i]));
  }
  free(va);
  free(vb);
  assert_true(largest > 0.01);
  return most / largest;
}

/* ---- networks: x and what it becomes ---- */

enum { WEIGHTS = 16 };

typedef struct {
  const char *name;
  int ndim;
  int64_t size[4]; /* of x */
  capl_tensor *(*run)(capl_device *device, capl_tensor *x, capl_tensor **w);
  int folded;      /* nodes fewer on the cpu, at least */
} network;

static capl_tensor *weight(capl_device *device, capl_tensor **w, int k, int ndim, const int64_t *size)
{
  if (!w[k]) w[k] = tiny_uniform(device, ndim, size, -0.4, 0.6, 100 + (uint64_t)k);
  return w[k];
}
#define W(k, ...) \
  weight(device, w, k, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static capl_tensor *op2(capl_op_id id, const char *attrs, capl_tensor *a, capl_tensor *b)
{
  capl_tensor *y;
  assert_ok(capl_run(id, (capl_tensor *[]){a, b}, 2, attrs, &y));
  return y;
}

/* 32 channels: Winograd kernels; 5x3 and a stride: oneDNN's. */
static capl_tensor *convolutions(capl_device *device, capl_tensor *x, capl_tensor **w)
{
  capl_tensor *y = capl_tensor_ref(x);
  tiny_then(&y, CAPL_OP_conv2d, "padding=1", (capl_tensor *[]){W(0, 32, 16, 3, 3), W(1, 32)}, 2);
  tiny_then(&y, CAPL_OP_relu, NULL, NULL, 0);
  tiny_then(&y, CAPL_OP_conv2d, "padding=1 stride=2,1", (capl_tensor *[]){W(2, 32, 32, 3, 3), W(3, 32)}, 2);
  tiny_then(&y, CAPL_OP_max_pool2d, "kernel=2", NULL, 0);
  tiny_then(&y, CAPL_OP_relu, NULL, NULL, 0);
  tiny_then(&y, CAPL_OP_conv2d, "padding=2,1 stride=2", (capl_tensor *[]){W(4, 16, 32, 5, 3), W(5, 16)}, 2);
  tiny_then(&y, CAPL_OP_silu, NULL, NULL, 0);
  tiny_then(&y, CAPL_OP_conv2d, "padding=1 groups=16", (capl_tensor *[]){W(6, 16, 1, 3, 3), W(7, 16)}, 2);
  tiny_then(&y, CAPL_OP_relu, NULL, NULL, 0);
  return y;
}

/* The input of both branches is read twice; the sum may take the place of a branch. */
static capl_tensor *residual(capl_device *device, capl_tensor *x, capl_tensor **w)
{
  capl_tensor *y = capl_tensor_ref(x), *branch, *sum;
  tiny_then(&y, CAPL_OP_conv2d, "padding=1", (capl_tensor *[]){W(0, 16, 16, 3, 3)}, 1);
  tiny_then(&y, CAPL_OP_relu, NULL, NULL, 0);
  branch = capl_tensor_ref(y);
  tiny_then(&branch, CAPL_OP_conv2d, "padding=1", (capl_tensor *[]){W(1, 16, 16, 3, 3), W(2, 16)}, 2);
  tiny_then(&branch, CAPL_OP_silu, NULL, NULL, 0);
  sum = op2(CAPL_OP_add, NULL, branch, y);
  capl_tensor_unref(branch);
  branch = op2(CAPL_OP_mul, NULL, sum, y);
  capl_tensor_unref(sum);
  tiny_then(&branch, CAPL_OP_relu, NULL, NULL, 0);
  tiny_then(&branch, CAPL_OP_affine, "scale=0.5 shift=1", NULL, 0);
  capl_tensor_unref(y);
  return branch;
}

/* Weights of two directions side by side, as nn.LSTM puts them. */
static capl_tensor *recurrent(capl_device *device, capl_tensor *x, capl_tensor **w)
{
  capl_tensor *y = capl_tensor_ref(x);
  tiny_then(&y, CAPL_OP_affine, "scale=2", NULL, 0); /* a value before those that become weights */
  capl_tensor *w_ih = op2(CAPL_OP_concat, "dim=0", W(0, 64, 12), W(1, 64, 12));
  capl_tensor *w_hh = op2(CAPL_OP_concat, "dim=0", W(2, 64, 16), W(3, 64, 16));
  capl_tensor *bias = op2(CAPL_OP_add, NULL, W(4, 128), W(5, 128));
  tiny_then(&y, CAPL_OP_linear, NULL, (capl_tensor *[]){w_ih, bias}, 2);
  tiny_then(&y, CAPL_OP_lstm, "batch_first=1", (capl_tensor *[]){w_hh}, 1);
  tiny_then(&y, CAPL_OP_linear, NULL, (capl_tensor *[]){W(6, 9, 32), W(7, 9)}, 2);
  tiny_then(&y, CAPL_OP_relu, NULL, NULL, 0);
  capl_tensor_unref(w_ih);
  capl_tensor_unref(w_hh);
  capl_tensor_unref(bias);
  return y;
}

static const network networks[] = {
  {"convolutions", 4, {3, 16, 13, 15}, convolutions, 4},
  {"residual", 4, {2, 16, 9, 11}, residual, 2},
  {"recurrent", 3, {3, 7, 12}, recurrent, 4},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

static capl_tensor *input_of(const network *n, capl_device *device)
{
  return tiny_uniform(device, n->ndim, n->size, -1, 1, 55);
}

static capl_graph *graph_of(const network *n, capl_device *device)
{
  capl_tensor *w[WEIGHTS] = {NULL}, *x = input_of(n, device);
  capl_graph *g;
  assert_ok(capl_trace_begin());
  capl_tensor *y = n->run(device, x, w);
  assert_ok(capl_trace_end(x, y, NULL, 0, &g));
  for (int k = 0; k < WEIGHTS; k++) capl_tensor_unref(w[k]);
  capl_tensor_unref(x);
  capl_tensor_unref(y);
  return g;
}

static void freeze(capl_graph *g)
{
  for (int k = 0; k < g->n_weights; k++)
    if (g->weights[k].tensor) capl_weight_freeze(g->weights[k].tensor);
}

/* ---- tests ---- */

static void agree_on(const char *device_name, bool fused)
{
  capl_device *device;
  assert_ok(capl_device_open(device_name, &device));
  for (int k = 0; k < NETWORKS; k++) {
    const network *n = &networks[k];
    capl_graph *plain = graph_of(n, device), *g = graph_of(n, device);
    capl_tensor *x = input_of(n, device), *same = input_of(n, device), *wanted, *first, *second;
    assert_ok(graph_optimize(g, device));
    freeze(g);
    if (fused) assert_true(g->n_nodes <= plain->n_nodes - n->folded);
    assert_ok(capl_graph_run(plain, x, &wanted));
    assert_ok(capl_graph_run(g, x, &first));
    assert_ok(capl_graph_run(g, x, &second)); /* with what the first run packed */
    if (difference(first, wanted) >= 1e-5) fail_msg("%s on %s: %g", n->name, device_name, difference(first, wanted));
    assert_true(difference(second, first) == 0);
    assert_true(difference(x, same) == 0); /* nothing is computed in the caller's memory */
    capl_tensor *all[] = {x, same, wanted, first, second};
    for (int i = 0; i < 5; i++) capl_tensor_unref(all[i]);
    capl_graph_free(plain);
    capl_graph_free(g);
  }
}

static void passes_agree_within_1e_5_on_ref(void **state)
{
  (void)state;
  agree_on("ref", false);
}

static void passes_agree_within_1e_5_on_cpu(void **state)
{
  (void)state;
  agree_on("cpu", true);
}

static void activations_are_in_the_kernels_before_them(void **state)
{
  (void)state;
  capl_device *cpu;
  assert_ok(capl_device_open("cpu", &cpu));
  capl_graph *g = graph_of(&networks[0], cpu);
  assert_ok(graph_optimize(g, cpu));
  assert_int_equal(count_ops(g, CAPL_OP_conv2d_act), 4);
  assert_int_equal(count_ops(g, CAPL_OP_relu) + count_ops(g, CAPL_OP_silu) + count_ops(g, CAPL_OP_conv2d), 0);
  assert_int_equal(count_ops(g, CAPL_OP_max_pool2d), 1);
  capl_graph_free(g);
  g = graph_of(&networks[2], cpu);
  assert_ok(graph_optimize(g, cpu));
  assert_int_equal(count_ops(g, CAPL_OP_linear_act), 1);
  capl_graph_free(g);
}

static void constants_are_computed_once_and_their_parts_freed(void **state)
{
  (void)state;
  capl_device *cpu;
  assert_ok(capl_device_open("cpu", &cpu));
  capl_graph *g = graph_of(&networks[2], cpu);
  int before = g->n_weights, freed = 0;
  assert_ok(graph_optimize(g, cpu));
  assert_int_equal(count_ops(g, CAPL_OP_concat) + count_ops(g, CAPL_OP_add), 0);
  assert_int_equal(g->n_weights, before + 3);
  for (int k = 0; k < g->n_weights; k++) freed += !g->weights[k].tensor;
  assert_int_equal(freed, 6);
  capl_graph_free(g);
}

static int forms(const capl_graph *g)
{
  int n = 0;
  for (int k = 0; k < g->n_weights; k++) n += g->weights[k].tensor && g->weights[k].tensor->storage->forms;
  return n;
}

static void only_frozen_weights_are_packed_and_only_until_they_are_written(void **state)
{
  (void)state;
  capl_device *cpu;
  assert_ok(capl_device_open("cpu", &cpu));
  const network *n = &networks[0];
  capl_graph *g = graph_of(n, cpu);
  capl_tensor *x = input_of(n, cpu), *before, *after, *w = g->weights[0].tensor;
  assert_ok(capl_graph_run(g, x, &before));
  assert_int_equal(forms(g), 0);
  capl_tensor_unref(before);
  freeze(g);
  assert_ok(capl_graph_run(g, x, &before));
  assert_true(forms(g) > 0 && w->storage->forms);
  assert_ok(capl_tensor_fill(w, 0.25));
  assert_null(w->storage->forms);
  assert_ok(capl_graph_run(g, x, &after));
  assert_true(difference(after, before) > 0.01);
  capl_tensor_unref(after);
  capl_tensor_unref(before);
  capl_tensor_unref(x);
  capl_graph_free(g);
}

/* Both layers in two directions, with sequences that end early. */
static void unread_outputs_change_no_other_one(void **state)
{
  (void)state;
  static const struct {
    capl_op_id id;
    int64_t width;
    uint32_t unread;
  } layers[] = {{CAPL_OP_lstm, 2 * 4 * 16, 1u << 3 | 1u << 4}, {CAPL_OP_gru, 2 * 3 * 16, 1u << 2}};
  capl_device *cpu;
  assert_ok(capl_device_open("cpu", &cpu));
  for (int k = 0; k < 2; k++) {
    capl_tensor *in[5] = {NULL}, *all[CAPL_MAX_OUT], *some[CAPL_MAX_OUT];
    in[0] = tiny_uniform(cpu, 3, (int64_t[]){7, 5, layers[k].width}, -2, 2, 1);
    in[1] = tiny_uniform(cpu, 2, (int64_t[]){layers[k].width, 16}, -1, 1, 2);
    assert_ok(capl_tensor_from_doubles(cpu, CAPL_I64, 1, (int64_t[]){5}, (double[]){7, 3, 0, 1, 6}, &in[4]));
    assert_ok(capl_op_call(layers[k].id, in, 5, NULL, all));
    assert_ok(op_call_unread(layers[k].id, in, 5, NULL, layers[k].unread, some));
    for (int o = 0; o < capl_op_get(layers[k].id)->n_out; o++) {
      if (!(layers[k].unread >> o & 1u)) assert_true(difference(some[o], all[o]) == 0);
      capl_tensor_unref(all[o]);
      capl_tensor_unref(some[o]);
    }
    for (int i = 0; i < 5; i++) capl_tensor_unref(in[i]);
  }
}

static void count_task(void *arg, int64_t i)
{
  ((int *)arg)[i]++;
}

static void each_task_runs_once(void **state)
{
  (void)state;
  capl_device *cpu;
  assert_ok(capl_device_open("cpu", &cpu));
  for (int n = 0; n <= 9; n++) {
    int count[10] = {0};
    cpu->backend->for_each(n, count_task, count);
    for (int i = 0; i < 10; i++) assert_int_equal(count[i], i < n);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(passes_agree_within_1e_5_on_ref),
    cmocka_unit_test(passes_agree_within_1e_5_on_cpu),
    cmocka_unit_test(activations_are_in_the_kernels_before_them),
    cmocka_unit_test(constants_are_computed_once_and_their_parts_freed),
    cmocka_unit_test(only_frozen_weights_are_packed_and_only_until_they_are_written),
    cmocka_unit_test(unread_outputs_change_no_other_one),
    cmocka_unit_test(each_task_runs_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
