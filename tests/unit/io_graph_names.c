/* io_graph_names.c -- tests of graphs with several named inputs and outputs.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capl/capl.h"
#include "capl/model.h"
#include "io/graph_passes.h"

static capl_device *ref;
static char folder[64];

static int setup(void **state)
{
  (void)state;
  assert_ok(capl_device_open("ref", &ref));
  strcpy(folder, "/tmp/capl-names-XXXXXX");
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

static capl_tensor *uniform(int ndim, const int64_t *size, uint64_t seed)
{
  capl_tensor *t;
  assert_ok(capl_tensor_new(ref, CAPL_F32, ndim, size, CAPL_AUTO, &t));
  assert_ok(capl_tensor_fill_uniform(t, -1, 1, seed, 0, 0, 0));
  return t;
}

static capl_tensor *run(capl_op_id id, capl_tensor *a, capl_tensor *b)
{
  capl_tensor *in[2] = {a, b}, *out[CAPL_MAX_OUT];
  assert_ok(capl_run(id, in, b ? 2 : 1, NULL, out));
  return out[0];
}

/* ---- the model: image (N,4) and level (N,4) -> sum (N,4) and points (N,3) ---------------------------------- */

enum { SUM, POINTS, OUTPUTS };

static void forward(capl_tensor *image, capl_tensor *level, capl_tensor *weight, capl_tensor **y)
{
  y[SUM] = run(CAPL_OP_add, image, level);
  y[POINTS] = run(CAPL_OP_linear, y[SUM], weight);
}

/* Ends a trace of it under the names given to what comes in and out. */
static capl_status trace(int64_t batch, const char *const *in, const char *const *out, capl_graph **g)
{
  capl_tensor *weight = uniform(2, (int64_t[]){3, 4}, 1), *y[OUTPUTS];
  capl_tensor *image = uniform(2, (int64_t[]){batch, 4}, 2), *level = uniform(2, (int64_t[]){batch, 4}, 3);
  assert_ok(capl_trace_begin());
  forward(image, level, weight, y);
  capl_named_tensor inputs[] = {{(char *)in[0], image}, {(char *)in[1], level}};
  capl_named_tensor outputs[] = {{(char *)out[0], y[SUM]}, {(char *)out[1], y[POINTS]}};
  capl_named_tensor weights[] = {{"head.weight", weight}};
  capl_status status = capl_trace_end_named(&(capl_traced){inputs, 2, outputs, 2, weights, 1}, g);
  for (int k = 0; k < 2; k++) {
    capl_tensor_unref(inputs[k].tensor);
    capl_tensor_unref(outputs[k].tensor);
  }
  capl_tensor_unref(weight);
  return status;
}

static const char *const names_in[] = {"image", "level"}, *const names_out[] = {"sum", "points"};

static capl_graph *sound(void)
{
  capl_graph *a, *b;
  assert_ok(trace(2, names_in, names_out, &a));
  assert_ok(trace(3, names_in, names_out, &b));
  assert_ok(capl_graph_merge_batch(a, b));
  capl_graph_free(b);
  return a;
}

static void assert_same(const capl_tensor *a, const capl_tensor *b)
{
  double x[64], y[64];
  assert_true(capl_tensor_same_shape(a, b));
  assert_ok(capl_tensor_to_doubles(a, x));
  assert_ok(capl_tensor_to_doubles(b, y));
  for (int64_t i = 0; i < capl_tensor_numel(a); i++) assert_true(x[i] == y[i]);
}

/* Outputs are in the order of their names: points, sum. */
static void assert_runs(const capl_graph *g, int64_t batch)
{
  capl_tensor *image = uniform(2, (int64_t[]){batch, 4}, 7), *level = uniform(2, (int64_t[]){batch, 4}, 8);
  capl_tensor *weight = uniform(2, (int64_t[]){3, 4}, 1), *expected[OUTPUTS], *y[OUTPUTS];
  forward(image, level, weight, expected);
  assert_ok(capl_graph_run_named(g, (capl_named_tensor[]){{"level", level}, {"image", image}}, 2, y));
  assert_same(y[0], expected[POINTS]);
  assert_same(y[1], expected[SUM]);
  capl_tensor *all[] = {image, level, weight, expected[0], expected[1], y[0], y[1]};
  for (int k = 0; k < 7; k++) capl_tensor_unref(all[k]);
}

/* ---- tests ------------------------------------------------------------------------------------- */

static void named_inputs_and_outputs_survive_a_file(void **state)
{
  (void)state;
  char path[96], *meta, *text;
  snprintf(path, sizeof path, "%s/net.capl", folder);
  capl_graph *g = sound(), *back;
  assert_runs(g, 5);
  assert_ok(capl_model_save(path, g, "{}", NULL));
  assert_ok(capl_model_load(path, ref, &back, &meta));
  assert_int_equal(capl_graph_inputs(back), 2);
  assert_int_equal(capl_graph_outputs(back), 2);
  assert_string_equal(capl_graph_input_name(back, 0), "image");
  assert_string_equal(capl_graph_input_name(back, 1), "level");
  assert_string_equal(capl_graph_output_name(back, 0), "points");
  assert_string_equal(capl_graph_output_name(back, 1), "sum");
  for (int64_t batch = 0; batch < 5; batch++) assert_runs(back, batch);
  assert_ok(graph_to_json(back, &text));
  assert_non_null(strstr(text, "\"capl_graph\":\t3"));
  free(text);
  free(meta);
  capl_graph_free(g);
  capl_graph_free(back);
}

/* A reader of version 1 must be able to read what needs no names. */
static void a_graph_without_names_keeps_its_version(void **state)
{
  (void)state;
  capl_tensor *x = uniform(2, (int64_t[]){2, 4}, 1);
  capl_graph *g;
  char *text;
  assert_ok(capl_trace_begin());
  capl_tensor *y = run(CAPL_OP_exp, x, NULL);
  assert_ok(capl_trace_end(x, y, NULL, 0, &g));
  assert_ok(graph_to_json(g, &text));
  assert_non_null(strstr(text, "\"capl_graph\":\t1"));
  assert_non_null(strstr(text, "\"output\":\t1"));
  assert_null(strstr(text, "name"));
  free(text);
  capl_graph_free(g);
  capl_tensor_unref(x);
  capl_tensor_unref(y);
}

/* What a trace under these names is refused with. */
static void assert_refused(const char *const *in, const char *const *out, const char *message)
{
  capl_graph *g;
  assert_int_equal(trace(2, in, out, &g), CAPL_EVALUE);
  assert_string_equal(capl_error_last()->message, message);
}

static void wrong_names_are_refused(void **state)
{
  (void)state;
  static const char *const spaced[] = {"sum", "two points"}, *const twice[] = {"sum", "sum"};
  static const char *const none[] = {"image", NULL}, *const digit[] = {"1st", "level"};
  assert_refused(names_in, spaced, "'two points' is no name for an output of a model");
  assert_refused(names_in, twice, "two outputs of the model are named 'sum'");
  assert_refused(none, names_out, "'' is no name for an input of a model");
  assert_refused(digit, names_out, "'1st' is no name for an input of a model");
}

static void an_output_that_no_op_made_is_refused_by_name(void **state)
{
  (void)state;
  capl_tensor *x = uniform(2, (int64_t[]){2, 4}, 1);
  capl_graph *g;
  assert_ok(capl_trace_begin());
  capl_tensor *y = run(CAPL_OP_exp, x, NULL);
  capl_named_tensor in = {NULL, x}, out[] = {{"a", y}, {"same", x}};
  assert_int_equal(capl_trace_end_named(&(capl_traced){&in, 1, out, 2, NULL, 0}, &g), CAPL_EVALUE);
  assert_string_equal(capl_error_last()->message, "the model's output same was not made by any op: nothing to record");
  capl_tensor_unref(x);
  capl_tensor_unref(y);
}

static void traces_of_other_outputs_do_not_merge(void **state)
{
  (void)state;
  static const char *const other[] = {"sum", "corners"}, *const swapped[] = {"points", "sum"};
  capl_graph *a, *b, *c;
  assert_ok(trace(2, names_in, names_out, &a));
  assert_ok(trace(3, names_in, other, &b));
  assert_ok(trace(3, names_in, swapped, &c));
  assert_int_equal(capl_graph_merge_batch(a, b), CAPL_EVALUE);
  assert_string_equal(capl_error_last()->message,
                      "the model has other outputs for another batch size (points, sum, then corners, sum)");
  assert_int_equal(capl_graph_merge_batch(a, c), CAPL_EVALUE);
  assert_string_equal(capl_error_last()->message,
                      "the model takes its output points from another op for another batch size");
  capl_graph_free(a);
  capl_graph_free(b);
  capl_graph_free(c);
}

static void wrong_inputs_are_refused_by_name(void **state)
{
  (void)state;
  capl_graph *g = sound();
  capl_tensor *x = uniform(2, (int64_t[]){2, 4}, 1), *more = uniform(2, (int64_t[]){3, 4}, 1);
  capl_tensor *wide = uniform(2, (int64_t[]){2, 5}, 1), *y[OUTPUTS];
  const struct {
    capl_named_tensor in[2];
    int n;
    const char *message;
  } cases[] = {
    {{{NULL, x}}, 1, "the model takes its inputs by name; the first is 'image'"},
    {{{"image", x}}, 1, "the model needs the input 'level'"},
    {{{"image", x}, {"mask", x}}, 2, "the model has no input 'mask'; its first is 'image'"},
    {{{"image", x}, {"image", x}}, 2, "the input 'image' is given twice"},
    {{{"image", x}, {"level", more}}, 2, "the input 'level' is of 3 samples, 'image' of 2"},
    {{{"image", x}, {"level", wide}}, 2, "the model takes (N,4) f32 as level, the input is (2,5) f32 ref"},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    assert_true(capl_graph_run_named(g, cases[k].in, cases[k].n, y) != CAPL_OK);
    assert_string_equal(capl_error_last()->message, cases[k].message);
  }
  assert_int_equal(capl_graph_run(g, x, y), CAPL_EVALUE);
  capl_tensor_unref(x);
  capl_tensor_unref(more);
  capl_tensor_unref(wide);
  capl_graph_free(g);
}

static void every_output_has_a_shape_and_folding_keeps_it(void **state)
{
  (void)state;
  int ndim;
  int64_t size[CAPL_MAX_NDIM];
  capl_graph *g = sound();
  assert_ok(graph_fold(g, NULL));
  assert_ok(graph_shape(g, 7, 0, 0, &ndim, size, NULL));
  assert_true(ndim == 2 && size[0] == 7 && size[1] == 3);
  assert_ok(graph_shape(g, 7, 0, 1, &ndim, size, NULL));
  assert_true(ndim == 2 && size[0] == 7 && size[1] == 4);
  capl_graph_free(g);
}

/* Saves the sound model with two golden samples; its outputs for them are off by that much. */
static void save_golden(const char *path, const char *meta, double off)
{
  capl_graph *g = sound();
  capl_tensor *x = uniform(2, (int64_t[]){2, 4}, 7), *more = uniform(2, (int64_t[]){2, 4}, 8), *y[OUTPUTS], *sum;
  capl_named_tensor inputs[] = {{"image", x}, {"level", more}};
  double numbers[8];
  assert_ok(capl_graph_run_named(g, inputs, 2, y));
  assert_ok(capl_tensor_to_doubles(y[1], numbers));
  numbers[0] += off;
  assert_ok(capl_tensor_from_doubles(ref, CAPL_F32, 2, (int64_t[]){2, 4}, numbers, &sum));
  capl_named_tensor outputs[] = {{"points", y[0]}, {"sum", sum}};
  capl_golden golden = {.n = 2, .inputs = inputs, .n_inputs = 2, .outputs = outputs, .n_outputs = 2};
  assert_ok(capl_model_save(path, g, meta, &golden));
  capl_tensor *all[] = {x, more, y[0], y[1], sum};
  for (int k = 0; k < 5; k++) capl_tensor_unref(all[k]);
  capl_graph_free(g);
}

static void golden_pairs_of_every_output_are_verified(void **state)
{
  (void)state;
  char path[96];
  capl_model_verdict v;
  snprintf(path, sizeof path, "%s/golden.capl", folder);
  save_golden(path, "{}", 0);
  assert_ok(capl_model_verify_tensors(path, "ref", &v));
  assert_true(v.ok && v.n == 2 && v.difference == 0);
  save_golden(path, "{}", 0.1);
  assert_ok(capl_model_verify_tensors(path, "ref", &v));
  assert_true(!v.ok && v.difference > 0.09);
}

/* One who reads meta.json must know of all of them. */
static void ports_that_meta_json_does_not_describe_are_refused(void **state)
{
  (void)state;
  char path[96];
  capl_model *model;
  snprintf(path, sizeof path, "%s/text.capl", folder);
  save_golden(path, "{\"output\": \"text\", \"charset\": \"ab\", \"length\": 2, \"width\": 4, \"height\": 2, "
              "\"channels\": 1, \"normalize\": \"unit\", \"resize\": \"bicubic\", \"decoding\": \"argmax\"}", 0);
  assert_int_equal(capl_model_open(path, &(capl_model_options){.device = "ref"}, &model), CAPL_EFORMAT);
  assert_non_null(strstr(capl_error_last()->message, "inputs, meta.json describes 1"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(named_inputs_and_outputs_survive_a_file),
    cmocka_unit_test(a_graph_without_names_keeps_its_version),
    cmocka_unit_test(wrong_names_are_refused),
    cmocka_unit_test(an_output_that_no_op_made_is_refused_by_name),
    cmocka_unit_test(traces_of_other_outputs_do_not_merge),
    cmocka_unit_test(wrong_inputs_are_refused_by_name),
    cmocka_unit_test(golden_pairs_of_every_output_are_verified),
    cmocka_unit_test(ports_that_meta_json_does_not_describe_are_refused),
    cmocka_unit_test(every_output_has_a_shape_and_folding_keeps_it),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
