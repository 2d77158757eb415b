/* io_recognizer.c -- tests of capl_model_*: texts and confidences from files and memory, images of other sizes, golden
** pairs, and model files whose parts contradict each other.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE /* memmem */
#include "recognizer.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static capl_device *cpu;
static char folder[64], model_path[96];

static int setup(void **state)
{
  (void)state;
  assert_ok(capl_device_open("cpu", &cpu));
  strcpy(folder, "/tmp/capl-recognizer-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(model_path, sizeof model_path, "%s/m.capl", folder);
  tiny_save(model_path, cpu);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static const char *below(const char *name)
{
  static char path[8][192];
  static int next;
  char *p = path[next++ % 8];
  snprintf(p, sizeof path[0], "%s/%s", folder, name);
  return p;
}

static void write_text(const char *path, const char *text)
{
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

/* Replaces the first `from` of a file, which may be binary. */
static void replace_in(const char *path, const char *from, const char *to)
{
  static char text[1 << 16];
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t len = fread(text, 1, sizeof text, f), n = strlen(from);
  fclose(f);
  char *at = memmem(text, len, from, n);
  assert_non_null(at);
  f = fopen(path, "wb");
  fwrite(text, 1, (size_t)(at - text), f);
  fputs(to, f);
  fwrite(at + n, 1, len - (size_t)(at - text) - n, f);
  fclose(f);
}

/* A copy of the sound model to damage. */
static const char *copy_model(const char *name)
{
  char command[320];
  const char *path = below(name);
  snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", path, model_path, path);
  assert_int_equal(system(command), 0);
  return path;
}

static void the_text_is_the_best_class_and_confidence_the_product(void **state)
{
  (void)state;
  capl_model *m;
  assert_ok(capl_model_open(model_path, &(capl_model_options){.precision = "fp32"}, &m));
  capl_model_info info;
  capl_model_info_get(m, &info);
  assert_int_equal(info.n_outputs, 1);
  assert_string_equal(info.outputs[0].kind, "text");
  assert_string_equal(capl_vocab_text(info.outputs[0].vocab), "AB-");
  assert_string_equal(info.precision, "fp32");
  uint8_t levels[TINY_WIDTH * TINY_HEIGHT];
  tiny_images(levels, 1, 9);
  capl_reading r;
  assert_ok(capl_model_run(m, &(capl_model_sample){.pixels = levels, .width = TINY_WIDTH, .height = TINY_HEIGHT,
                                                  .channels = 1}, 1, &r));

  capl_graph *g = tiny_graph(cpu);
  capl_tensor *x, *y;
  double v[TINY_LENGTH * TINY_CLASSES], confidence = 1;
  assert_ok(capl_tensor_new(cpu, CAPL_F32, 4, (int64_t[]){1, 1, TINY_HEIGHT, TINY_WIDTH}, CAPL_AUTO, &x));
  for (int i = 0; i < TINY_WIDTH * TINY_HEIGHT; i++) ((float *)capl_tensor_data(x))[i] = (float)levels[i] / 255;
  assert_ok(capl_graph_run(g, x, &y));
  assert_ok(capl_tensor_to_doubles(y, v));
  char text[TINY_LENGTH + 1] = "";
  for (int t = 0; t < TINY_LENGTH; t++) {
    const double *row = v + t * TINY_CLASSES;
    int best = row[0] >= row[1] && row[0] >= row[2] ? 0 : row[1] >= row[2] ? 1 : 2;
    text[t] = "AB-"[best];
    confidence *= exp(row[best]) / (exp(row[0]) + exp(row[1]) + exp(row[2]));
  }
  assert_int_equal(r.n_outputs, 1);
  assert_string_equal(r.outputs[0].text, text);
  assert_float_equal(r.outputs[0].confidence, confidence, 1e-5);
  assert_int_equal(r.width, TINY_WIDTH);
  capl_readings_free(&r, 1);
  capl_tensor_unref(x);
  capl_tensor_unref(y);
  capl_graph_free(g);
  capl_model_close(m);
}

/* The same graph, whose 6 scores are those of 6 classes. */
static const char *class_model(void)
{
  const char *path = copy_model("classes.capl");
  char meta[256];
  snprintf(meta, sizeof meta, "%s/meta.json", path);
  write_text(meta, "{\"capl_model\": 1, \"output\": \"class\", \"classes\": [\"a\", \"b\", \"two words\", \"d\", \"é\", "
                   "\"猫\"], \"width\": 12, \"height\": 8, \"channels\": 1, \"normalize\": \"unit\"}");
  return path;
}

static void a_class_comes_with_the_most_probable_ones_in_order(void **state)
{
  (void)state;
  capl_model *m;
  capl_model_info info;
  assert_ok(capl_model_open(class_model(), &(capl_model_options){.precision = "fp32"}, &m));
  capl_model_info_get(m, &info);
  assert_string_equal(info.outputs[0].kind, "class");
  const capl_vocab *vocab = info.outputs[0].vocab;
  assert_int_equal(capl_vocab_count(vocab), 6);
  enum { N = 20 };
  uint8_t levels[N][TINY_WIDTH * TINY_HEIGHT];
  tiny_images(levels[0], N, 9);
  for (int i = 0; i < N; i++) {
    capl_reading r;
    double sum = 0;
    assert_ok(capl_model_run(m, &(capl_model_sample){.pixels = levels[i], .width = TINY_WIDTH, .height = TINY_HEIGHT,
                                                    .channels = 1}, 1, &r));
    const capl_output *o = &r.outputs[0];
    assert_int_equal(o->n_top, 6);
    assert_string_equal(o->text, o->top[0].name);
    assert_float_equal(o->confidence, o->top[0].probability, 1e-6);
    for (int k = 0; k < o->n_top; k++) {
      assert_string_equal(o->top[k].name, capl_vocab_name(vocab, o->top[k].id));
      assert_true(k == 0 || o->top[k].probability <= o->top[k - 1].probability);
      sum += (double)o->top[k].probability;
    }
    capl_readings_free(&r, 1);
    assert_float_equal(sum, 1, 1e-5);
  }
  capl_model_verdict v;
  assert_ok(capl_model_verify(m, &v));
  assert_true(v.ok && v.same_texts == v.n);
  char expected[256];
  snprintf(expected, sizeof expected, "beam, characters and length are for texts; %s gives class",
           below("classes.capl"));
  assert_fails(capl_model_decoding_set(m, &(capl_text_decoding){.characters = "a"}), CAPL_EVALUE, expected);
  assert_ok(capl_model_decoding_set(m, &(capl_text_decoding){0}));
  capl_model_close(m);
}

static capl_model *open_with(const char *output)
{
  capl_model *m;
  const char *path = copy_model("other.capl");
  char meta[256], text[512];
  snprintf(meta, sizeof meta, "%s/meta.json", path);
  snprintf(text, sizeof text, "{\"capl_model\": 1, %s, \"width\": 12, \"height\": 8, \"channels\": 1, \"normalize\": "
                              "\"unit\"}", output);
  write_text(meta, text);
  assert_ok(capl_model_open(path, &(capl_model_options){.precision = "fp32"}, &m));
  return m;
}

/* What the tiny graph gives for an image that is twice as wide and three times as high as it takes. */
static void run_larger(capl_model *m, capl_output *first)
{
  static double values[32];
  static int used;
  capl_reading reading, *r = &reading;
  static uint8_t levels[6 * TINY_WIDTH * TINY_HEIGHT];
  memset(levels, 77, sizeof levels);
  assert_ok(capl_model_run(m, &(capl_model_sample){.pixels = levels, .width = 2 * TINY_WIDTH, .height = 3 * TINY_HEIGHT,
                                                  .channels = 1}, 1, r));
  assert_int_equal(r->status, CAPL_OK);
  *first = r->outputs[0];
  first->name = first->kind = first->text = "";
  first->values = memcpy(values + used, first->values, (size_t)first->n_values * sizeof *values);
  used = (used + first->n_values) % 16;
  capl_readings_free(r, 1);
  capl_model_close(m);
}

static void numbers_come_in_their_units(void **state)
{
  (void)state;
  capl_output plain, scaled;
  run_larger(open_with("\"output\": \"numbers\", \"numbers\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"]"), &plain);
  run_larger(open_with("\"output\": \"numbers\", \"numbers\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"], \"mean\": [1, 2, "
                       "3, 4, 5, 6], \"std\": [1, 10, 1, 1, 1, 0.5]"), &scaled);
  assert_int_equal(plain.n_values, 6);
  assert_float_equal(scaled.values[0], plain.values[0] + 1, 1e-12);
  assert_float_equal(scaled.values[1], 10 * plain.values[1] + 2, 1e-12);
  assert_float_equal(scaled.values[5], plain.values[5] / 2 + 6, 1e-12);
  assert_int_equal(plain.per_row, 6);
}

static void points_come_in_px_of_the_image(void **state)
{
  (void)state;
  capl_output plain, points;
  run_larger(open_with("\"output\": \"numbers\", \"numbers\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"]"), &plain);
  run_larger(open_with("\"output\": \"points\", \"points\": [\"left\", \"right\", \"nose\"]"), &points);
  assert_int_equal(points.n_values, 9);
  assert_int_equal(points.per_row, 3);
  for (int p = 0; p < 3; p++) {
    assert_float_equal(points.values[3 * p], plain.values[2 * p] * 2, 1e-12);
    assert_float_equal(points.values[3 * p + 1], plain.values[2 * p + 1] * 3, 1e-12);
    assert_float_equal(points.values[3 * p + 2], 1, 0);
  }
}

static void classes_that_are_not_those_of_the_graph_are_refused(void **state)
{
  (void)state;
  const char *path = class_model();
  char meta[256];
  capl_model *m;
  snprintf(meta, sizeof meta, "%s/meta.json", path);
  replace_in(meta, "\"d\", ", "");
  assert_int_equal(capl_model_open(path, NULL, &m), CAPL_EFORMAT);
  assert_non_null(strstr(capl_error_last()->message, "meta.json describes one of 5 classes: (N,5)"));
}

/* More than one batch; each image also as a file, as RGB, and one after the other. */
static void files_memory_and_threads_give_the_same(void **state)
{
  (void)state;
  enum { N = 150 };
  static uint8_t levels[N][TINY_WIDTH * TINY_HEIGHT], rgb[N][3 * TINY_WIDTH * TINY_HEIGHT];
  static char names[N][128];
  static capl_model_sample images[N], coloured[N];
  static capl_reading from_memory[N], from_rgb[N];
  const char *paths[N];
  tiny_images(levels[0], N, 11);
  for (int i = 0; i < N; i++) {
    snprintf(names[i], sizeof names[i], "%s/%d.png", folder, i);
    paths[i] = names[i];
    assert_ok(capl_png_write(paths[i], levels[i], TINY_WIDTH, TINY_HEIGHT, 1));
    for (int p = 0; p < TINY_WIDTH * TINY_HEIGHT; p++) memset(rgb[i] + 3 * p, levels[i][p], 3);
    images[i] = (capl_model_sample){.pixels = levels[i], .width = TINY_WIDTH, .height = TINY_HEIGHT, .channels = 1};
    coloured[i] = (capl_model_sample){.pixels = rgb[i], .width = TINY_WIDTH, .height = TINY_HEIGHT, .channels = 3};
  }
  capl_model *m;
  assert_ok(capl_model_open(model_path, NULL, &m));
  assert_ok(capl_model_run(m, images, N, from_memory));
  assert_ok(capl_model_run(m, coloured, N, from_rgb));
  for (int workers = -1; workers < 4; workers++) {
    capl_model_files *files;
    assert_ok(capl_model_files_begin(m, paths, N, workers, &files));
    const capl_reading *r;
    int n, seen = 0;
    do {
      assert_ok(capl_model_files_next(files, &r, &n));
      for (int i = 0; i < n; i++, seen++) {
        const capl_output *o = &r[i].outputs[0];
        assert_string_equal(o->text, from_memory[seen].outputs[0].text);
        assert_float_equal(o->confidence, from_memory[seen].outputs[0].confidence, 1e-6);
        assert_string_equal(o->text, from_rgb[seen].outputs[0].text);
      }
    } while (n > 0);
    assert_int_equal(seen, N);
    capl_model_files_end(files);
  }
  capl_readings_free(from_memory, N);
  capl_readings_free(from_rgb, N);
  capl_model_close(m);
}

typedef struct {
  const capl_reading *expected;
  const capl_model_sample *images;
  int n, wrong;
} thread_job;

static void *read_again_and_again(void *arg)
{
  thread_job *job = arg;
  capl_reading *r = calloc((size_t)job->n, sizeof *r);
  for (int round = 0; round < 6; round++) {
    capl_model *m;
    if (capl_model_open(model_path, NULL, &m) != CAPL_OK || capl_model_run(m, job->images, job->n, r) != CAPL_OK) {
      job->wrong = -1;
      break;
    }
    for (int i = 0; i < job->n; i++) job->wrong += strcmp(r[i].outputs[0].text, job->expected[i].outputs[0].text) != 0;
    capl_readings_free(r, job->n);
    capl_model_close(m);
  }
  free(r);
  return NULL;
}

static void each_thread_may_have_a_model(void **state)
{
  (void)state;
  enum { N = 20, THREADS = 3 };
  static uint8_t levels[N][TINY_WIDTH * TINY_HEIGHT];
  capl_model_sample images[N];
  capl_reading expected[N];
  tiny_images(levels[0], N, 12);
  for (int i = 0; i < N; i++)
    images[i] = (capl_model_sample){.pixels = levels[i], .width = TINY_WIDTH, .height = TINY_HEIGHT, .channels = 1};
  capl_model *m;
  assert_ok(capl_model_open(model_path, NULL, &m));
  assert_ok(capl_model_run(m, images, N, expected));
  pthread_t threads[THREADS];
  thread_job jobs[THREADS];
  for (int t = 0; t < THREADS; t++) {
    jobs[t] = (thread_job){expected, images, N, 0};
    assert_int_equal(pthread_create(&threads[t], NULL, read_again_and_again, &jobs[t]), 0);
  }
  for (int t = 0; t < THREADS; t++) {
    pthread_join(threads[t], NULL);
    assert_int_equal(jobs[t].wrong, 0);
  }
  capl_readings_free(expected, N);
  capl_model_close(m);
}

static void a_bad_image_does_not_stop_the_others(void **state)
{
  (void)state;
  uint8_t levels[TINY_WIDTH * TINY_HEIGHT] = {0}, wide[40 * 30];
  memset(wide, 77, sizeof wide);
  write_text(below("bad.png"), "no png");
  const char *bad = below("bad.png");
  capl_model_sample images[] = {
    {.path = bad},
    {.pixels = levels, .width = TINY_WIDTH, .height = TINY_HEIGHT, .channels = 2},
    {.pixels = wide, .width = 40, .height = 30, .channels = 1},
    {.pixels = wide, .width = 1200, .height = 1, .channels = 1},
  };
  capl_reading r[4];
  capl_model *m;
  assert_ok(capl_model_open(model_path, NULL, &m));
  assert_ok(capl_model_run(m, images, 4, r));
  assert_int_equal(r[0].status, CAPL_EFORMAT);
  assert_memory_equal(r[0].error, bad, strlen(bad));
  assert_int_equal(r[0].n_outputs, 0);
  assert_string_equal(r[1].error, "an image needs a path, or pixels with width, height and 1 or 3 channels; it is 12 "
                                  "x 8 px of 2 channels");
  assert_int_equal(r[2].status, CAPL_OK);
  assert_int_equal(strlen(r[2].outputs[0].text), TINY_LENGTH);
  assert_int_equal(r[2].width, 40);
  assert_string_equal(r[3].error, "the image is 1200 x 1 px, more than 64 times the 12 x 8 px to fit it to");
  capl_readings_free(r, 4);
  capl_model_close(m);
}

static void golden_pairs_are_replayed(void **state)
{
  (void)state;
  static const capl_model_options options[] = {{.precision = "fp32"}, {.precision = "fp32", .plain = true},
                                               {.precision = "bf16"}};
  for (int i = 0; i < 3; i++) {
    capl_model *m;
    capl_model_verdict v;
    assert_ok(capl_model_open(model_path, &options[i], &m));
    assert_ok(capl_model_verify(m, &v));
    assert_int_equal(v.n, 3);
    assert_true(v.ok);
    assert_true(v.largest > 0.1);
    if (i < 2) assert_int_equal(v.same_texts, 3);
    if (i < 2) assert_true(v.difference < 1e-5 * v.largest);
    capl_model_close(m);
  }
}

/* A variance is another number: nothing that a reader could find wrong. */
static void change_weight(const char *path)
{
  char file[256];
  snprintf(file, sizeof file, "%s/weights.safetensors", path);
  FILE *f = fopen(file, "r+b");
  assert_non_null(f);
  fseek(f, -4, SEEK_END);
  fwrite(&(float){40.0f}, 4, 1, f);
  fclose(f);
}

static void a_changed_weight_is_refused_by_all_that_open_a_model(void **state)
{
  (void)state;
  const char *path = copy_model("changed.capl");
  capl_named_tensor *list;
  capl_graph *graph;
  capl_model *m;
  char *meta;
  int n;
  assert_ok(capl_model_weights(path, cpu, &list, &n));
  capl_named_tensors_free(list, n);
  change_weight(path);
  assert_int_equal(capl_model_open(path, NULL, &m), CAPL_EFORMAT);
  assert_null(m);
  const char *message = capl_error_last()->message;
  assert_non_null(strstr(message, "changed.capl/weights.safetensors is not what was saved: its SHA-256 is "));
  const char *second = strstr(message, ", meta.json says ");
  assert_non_null(second);
  assert_int_equal(strlen(second + strlen(", meta.json says ")), 64);
  assert_int_not_equal(memcmp(second - 64, second + strlen(", meta.json says "), 64), 0);
  assert_non_null(strstr(capl_error_last()->hint, "copy the model again"));
  assert_int_equal(capl_model_load(path, cpu, &graph, &meta), CAPL_EFORMAT);
  assert_null(graph);
  assert_int_equal(capl_model_weights(path, cpu, &list, &n), CAPL_EFORMAT);
  assert_null(list);
}

static void a_changed_weight_of_a_model_without_hash_is_found_out_by_verify(void **state)
{
  (void)state;
  const char *path = copy_model("older.capl");
  char file[256];
  snprintf(file, sizeof file, "%s/meta.json", path);
  replace_in(file, "weights_sha256", "weights_sha255");
  capl_model *m;
  capl_model_verdict v;
  assert_ok(capl_model_open(path, &(capl_model_options){.precision = "fp32"}, &m));
  assert_ok(capl_model_verify(m, &v));
  assert_true(v.ok);
  capl_model_close(m);
  change_weight(path);
  assert_ok(capl_model_open(path, &(capl_model_options){.precision = "fp32"}, &m));
  assert_ok(capl_model_verify(m, &v));
  assert_false(v.ok);
  capl_model_close(m);
}

static void missing_golden_pairs_are_an_error_of_verify_alone(void **state)
{
  (void)state;
  const char *path = copy_model("no_golden.capl");
  char file[256], expected[512];
  snprintf(file, sizeof file, "%s/golden.safetensors", path);
  assert_int_equal(unlink(file), 0);
  capl_model *m;
  capl_model_verdict v;
  assert_ok(capl_model_open(path, NULL, &m));
  snprintf(expected, sizeof expected, "%s has no golden pairs: %s is missing", path, file);
  assert_fails(capl_model_verify(m, &v), CAPL_EFORMAT, expected);
  capl_model_close(m);
}

/* A copy of the model with `from` replaced by `to` in one of its files. */
static const char *damaged(const char *file, const char *from, const char *to)
{
  const char *path = copy_model("damaged.capl");
  char name[256];
  snprintf(name, sizeof name, "%s/%s", path, file);
  replace_in(name, from, to);
  return path;
}

static void parts_that_contradict_each_other_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *file, *from, *to, *message; /* %s: the model's path */
  } cases[] = {
    {"meta.json", "\"AB-\"", "\"AB\"",
     "%s: the graph gives (N,6), meta.json describes 2 characters out of a charset of 2: (N,2,2)"},
    {"meta.json", "\"width\":\t12", "\"width\":\t13",
     "%s: the graph takes (N,1,8,12) f32, meta.json describes images (N,1,8,13) f32"},
    {"graph.json", "\"capl_graph\":\t1", "\"capl_graph\":\t9",
     "%s/graph.json is a graph of version 9; capl %s reads versions 1 to 3"},
    {"graph.json", "\"conv2d\"", "\"conv9d\"",
     "%s/graph.json is no capl graph: an op is unknown here; it may come from a newer capl"},
    {"graph.json", "\"stride\":\t[1, 1]", "\"stride\":\t[0, 1]",
     "%s/graph.json is no capl graph: conv2d: stride must be in 1..1.04858e+06, not 0"},
    {"graph.json", "\"stride\":\t[1, 1]", "\"stride\":\t[1]",
     "%s/graph.json is no capl graph: stride of conv2d is of the wrong kind"},
    {"graph.json", "\"eps\":\t1e-05", "\"eps\":\t2",
     "%s/graph.json is no capl graph: bn_act_pool: eps must be in 0..1, not 2"},
    {"graph.json", "\"in\":\t[0, 1]", "\"in\":\t[0, 25]",
     "%s/graph.json is no capl graph: a node reads a value that nothing made before"},
    {"graph.json", "\"in\":\t[0, 1]", "\"in\":\t[0]", "%s: conv2d takes other inputs (x, weight, bias?), not 1 inputs"},
    {"graph.json", "\"in\":\t[0, 1]", "\"in\":\t[0, 2]", "%s: conv2d: weight must have 4 dims, it has 1: (4)"},
    {"weights.safetensors", "\"F32\"", "\"F31\"", "%s/weights.safetensors: tensor 'w0': its dtype is unknown here"},
    {"weights.safetensors", "\"w0\"", "\"v0\"",
     "%s/graph.json needs the weight 'w0', which weights.safetensors does not have"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    capl_model *m;
    const char *path = damaged(cases[i].file, cases[i].from, cases[i].to);
    char expected[512];
    if (cases[i].message) snprintf(expected, sizeof expected, cases[i].message, path, capl_version());
    assert_int_equal(capl_model_open(path, NULL, &m), CAPL_EFORMAT);
    assert_null(m);
    if (cases[i].message) assert_string_equal(capl_error_last()->message, expected);
  }
}

static void precisions_are_checked(void **state)
{
  (void)state;
  capl_model *m;
  assert_fails(capl_model_open(model_path, &(capl_model_options){.precision = "fp12"}, &m), CAPL_EVALUE,
               "unknown precision 'fp12'; did you mean 'fp16'?");
  assert_fails(capl_model_open(model_path, &(capl_model_options){.precision = "fp16"}, &m), CAPL_EUNSUPPORTED,
               "precision = fp16 is not supported on cpu, which offers bf16, fp32");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_text_is_the_best_class_and_confidence_the_product),
    cmocka_unit_test(a_class_comes_with_the_most_probable_ones_in_order),
    cmocka_unit_test(numbers_come_in_their_units),
    cmocka_unit_test(points_come_in_px_of_the_image),
    cmocka_unit_test(classes_that_are_not_those_of_the_graph_are_refused),
    cmocka_unit_test(files_memory_and_threads_give_the_same),
    cmocka_unit_test(each_thread_may_have_a_model),
    cmocka_unit_test(a_bad_image_does_not_stop_the_others),
    cmocka_unit_test(golden_pairs_are_replayed),
    cmocka_unit_test(a_changed_weight_is_refused_by_all_that_open_a_model),
    cmocka_unit_test(a_changed_weight_of_a_model_without_hash_is_found_out_by_verify),
    cmocka_unit_test(missing_golden_pairs_are_an_error_of_verify_alone),
    cmocka_unit_test(parts_that_contradict_each_other_are_refused),
    cmocka_unit_test(precisions_are_checked),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
