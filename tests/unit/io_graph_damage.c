/* io_graph_damage.c -- every value of a graph.json replaced by what an attacker or a bad disk might put there.
**
** A sound model that uses many ops is saved; then one value after the other is replaced by others and the model is
** loaded and run. Whatever comes out, it is a tensor or an error: the sanitizers watch. CAPL_FUZZ=1 tries every
** replacement of every value, otherwise a fixed share of them is enough.
** SPDX-License-Identifier: Apache-2.0
*/
#include "damage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capl/capl.h"

static capl_device *device;
static char folder[64];

static int setup(void **state)
{
  (void)state;
  strcpy(folder, "/tmp/capl-damage-XXXXXX");
  assert_non_null(mkdtemp(folder));
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

/* ---- the model --------------------------------------------------------------------------------- */

static capl_tensor *uniform(int ndim, const int64_t *size)
{
  capl_tensor *t;
  assert_ok(capl_tensor_new(device, CAPL_F32, ndim, size, CAPL_AUTO, &t));
  assert_ok(capl_tensor_fill_uniform(t, 0.1, 1, 7, 0, 0, 0));
  return t;
}

/* *x := first output of the op over *x and others. */
static void then(capl_tensor **x, capl_op_id id, const char *attrs, capl_tensor *const *others, int n)
{
  capl_tensor *in[8] = {*x}, *out[CAPL_MAX_OUT];
  for (int i = 0; i < n; i++) in[1 + i] = others[i];
  assert_ok(capl_run(id, in, 1 + n, attrs, out));
  for (int k = 1; k < capl_op_get(id)->n_out; k++) capl_tensor_unref(out[k]);
  capl_tensor_unref(*x);
  *x = out[0];
}

enum { CONV, SCALE, SHIFT, MEAN, VAR, HEAD, WEIGHTS };
enum { CLASS, SUM, OUTPUTS };

/* x (N,2,8,8) -> one class per row, and the sums of x plus more (N). */
static void forward(capl_tensor *const *input, capl_tensor *const *w, capl_tensor **out)
{
  capl_tensor *x = capl_tensor_ref(input[0]);
  char text[64];
  long long batch = x->size[0];
  then(&x, CAPL_OP_conv2d, "padding=1", &w[CONV], 1);
  then(&x, CAPL_OP_batch_norm, NULL, &w[SCALE], 4);
  then(&x, CAPL_OP_bn_act_pool, NULL, &w[SCALE], 4); /* 4x4 */
  then(&x, CAPL_OP_max_pool2d, "kernel=3 stride=1 padding=1", NULL, 0);
  then(&x, CAPL_OP_avg_pool2d, "kernel=2 stride=1 padding=1", NULL, 0); /* 5x5 */
  then(&x, CAPL_OP_adaptive_avg_pool2d, "output=2,3", NULL, 0);
  then(&x, CAPL_OP_narrow, "dim=3 start=1 length=2", NULL, 0);
  capl_tensor *twin = capl_tensor_ref(x);
  then(&x, CAPL_OP_concat, "dim=1", &twin, 1); /* 8 channels of 2x2 */
  capl_tensor_unref(twin);
  then(&x, CAPL_OP_permute, "dims=0,2,3,1", NULL, 0);
  snprintf(text, sizeof text, "size=%lld,8", batch * 4);
  then(&x, CAPL_OP_reshape, text, NULL, 0);
  then(&x, CAPL_OP_linear, NULL, &w[HEAD], 1);
  then(&x, CAPL_OP_dropout, "p=0.5 seed=3", NULL, 0);
  then(&x, CAPL_OP_narrow_grad, "dim=1 start=1 size=7", NULL, 0);
  then(&x, CAPL_OP_cast, "dtype=bf16", NULL, 0);
  then(&x, CAPL_OP_amax, "dims=1 keepdim=true", NULL, 0);
  snprintf(text, sizeof text, "size=%lld,3", batch * 4);
  then(&x, CAPL_OP_expand, text, NULL, 0);
  then(&x, CAPL_OP_affine, "scale=2", NULL, 0);
  then(&x, CAPL_OP_softmax, "dim=1", NULL, 0);
  then(&x, CAPL_OP_argmax, "dim=1", NULL, 0);
  out[CLASS] = x;
  out[SUM] = capl_tensor_ref(input[0]);
  then(&out[SUM], CAPL_OP_sum, "dims=1,2,3", NULL, 0);
  then(&out[SUM], CAPL_OP_add, NULL, &input[1], 1);
}

/* image (N,2,8,8) and more (N). */
static void inputs(int64_t batch, capl_named_tensor *list)
{
  list[0] = (capl_named_tensor){"image", uniform(4, (int64_t[]){batch, 2, 8, 8})};
  list[1] = (capl_named_tensor){"more", uniform(1, (int64_t[]){batch})};
}

static capl_graph *trace(capl_tensor *const *w, int64_t batch)
{
  static char names[WEIGHTS][8] = {"conv", "scale", "shift", "mean", "var", "head"};
  capl_named_tensor named[WEIGHTS];
  for (int k = 0; k < WEIGHTS; k++) named[k] = (capl_named_tensor){names[k], w[k]};
  capl_named_tensor in[2], out[OUTPUTS] = {{"class", NULL}, {"sum", NULL}};
  capl_tensor *y[OUTPUTS];
  capl_graph *g;
  inputs(batch, in);
  assert_ok(capl_trace_begin());
  forward((capl_tensor *[]){in[0].tensor, in[1].tensor}, w, y);
  for (int k = 0; k < OUTPUTS; k++) out[k].tensor = y[k];
  assert_ok(capl_trace_end_named(&(capl_traced){in, 2, out, OUTPUTS, named, WEIGHTS}, &g));
  for (int k = 0; k < 2; k++) {
    capl_tensor_unref(in[k].tensor);
    capl_tensor_unref(y[k]);
  }
  return g;
}

static void save_model(const char *path)
{
  capl_tensor *w[WEIGHTS] = {[CONV] = uniform(4, (int64_t[]){4, 2, 3, 3}), [HEAD] = uniform(2, (int64_t[]){5, 8})};
  for (int k = SCALE; k <= VAR; k++) w[k] = uniform(1, (int64_t[]){4});
  capl_graph *a = trace(w, 2), *b = trace(w, 3);
  assert_ok(capl_graph_merge_batch(a, b));
  assert_ok(capl_model_save(path, a, "{}", NULL));
  capl_graph_free(a);
  capl_graph_free(b);
  for (int k = 0; k < WEIGHTS; k++) capl_tensor_unref(w[k]);
}

/* ---- damage ------------------------------------------------------------------------------------ */

/* Loads and runs the model. Nothing is asserted but that an error says something. Returns whether it ran. */
static bool attempt(const char *model)
{
  capl_graph *g;
  char *meta;
  if (capl_model_load(model, device, &g, &meta) != CAPL_OK) {
    assert_true(*capl_error_last()->message != '\0');
    return false;
  }
  capl_named_tensor in[2];
  capl_tensor *y[CAPL_GRAPH_PORTS_MAX] = {NULL};
  inputs(2, in);
  capl_status status = capl_graph_run_named(g, in, 2, y);
  if (status != CAPL_OK) assert_true(*capl_error_last()->message != '\0');
  for (int k = 0; k < capl_graph_outputs(g); k++) capl_tensor_unref(y[k]);
  for (int k = 0; k < 2; k++) capl_tensor_unref(in[k].tensor);
  capl_graph_free(g);
  free(meta);
  return status == CAPL_OK;
}

static void damage_graph(const char *device_name)
{
  char model[128], path[160];
  assert_ok(capl_device_open(device_name, &device));
  snprintf(model, sizeof model, "%s/net.capl", folder);
  snprintf(path, sizeof path, "%s/graph.json", model);
  save_model(model);
  assert_true(attempt(model));
  capl_memory_limit_set(device, 64 << 20);
  damage_every_value(path, 13, attempt, model);
  capl_memory_limit_set(device, 0);
}

static void any_value_of_a_graph_may_be_damaged_on_ref(void **state)
{
  (void)state;
  damage_graph("ref");
}

static void any_value_of_a_graph_may_be_damaged_on_cpu(void **state)
{
  (void)state;
  damage_graph("cpu");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_value_of_a_graph_may_be_damaged_on_ref),
    cmocka_unit_test(any_value_of_a_graph_may_be_damaged_on_cpu),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
