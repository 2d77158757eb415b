/* golden.c -- golden pairs: written beside the model, replayed on the machine that reads it.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/text.h"
#include "io/golden.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/model_run.h"

enum { PATH_ROOM = 4096 + 96 };

static const char *image_path(const char *folder, int i, char *buf)
{
  snprintf(buf, PATH_ROOM, "%s/golden/%02d.png", folder, i);
  return buf;
}

static const char *output_path(const char *folder, char *buf)
{
  snprintf(buf, PATH_ROOM, "%s/golden.safetensors", folder);
  return buf;
}

static const char *inputs_path(const char *folder, char *buf)
{
  snprintf(buf, PATH_ROOM, "%s/golden/inputs.safetensors", folder);
  return buf;
}

/* ---- writing ----------------------------------------------------------------------------------- */

static int count_all(const capl_golden *g)
{
  int n = 0;
  for (; g; g = g->next) n += g->n;
  return n;
}

static bool is_of(const capl_golden *g, const capl_tensor *t) { return t->ndim >= 1 && t->size[0] == g->n; }

static int outputs_of(const capl_golden *g) { return g->output ? 1 : g->n_outputs; }

/* Output o of the pairs; its name "output" where it has none. */
static capl_named_tensor output_at(const capl_golden *g, int o)
{
  capl_named_tensor y = g->output ? (capl_named_tensor){NULL, g->output} : g->outputs[o];
  if (!y.name || !*y.name) y.name = "output";
  return y;
}

static capl_status check_golden(const capl_golden *g, int all)
{
  for (int i = 0; i < g->n_inputs; i++)
    if (!is_of(g, g->inputs[i].tensor))
      return CAPL_FAIL(CAPL_EVALUE, "golden pairs: the input '%s' is not one of %d samples", g->inputs[i].name, g->n);
  for (int o = 0; o < outputs_of(g); o++) {
    const capl_tensor *y = output_at(g, o).tensor;
    if (g->n >= 1 && all <= CAPL_GOLDEN_MAX && is_of(g, y) && y->dtype == CAPL_F32) continue;
    char text[160];
    return CAPL_FAIL(CAPL_EVALUE, "golden pairs: %d images and the output %s; 1 to %d of both are needed, in f32", all,
                     capl_tensor_describe(y, text, sizeof text), CAPL_GOLDEN_MAX);
  }
  return CAPL_OK;
}

/* A tensor's name, with ".96" behind it for the pairs of one of several widths. */
static const char *tensor_name(const char *name, bool several, int width, char *buf, size_t room)
{
  if (several) snprintf(buf, room, "%s.%d", name, width);
  else snprintf(buf, room, "%s", name);
  return buf;
}

static capl_status write_images(const char *folder, const capl_golden *g, int first)
{
  char path[PATH_ROOM];
  size_t bytes = (size_t)g->width * (size_t)g->height * (size_t)g->channels;
  for (int i = 0; i < g->n; i++)
    CAPL_TRY(capl_png_write(image_path(folder, first + i, path), g->images + (size_t)i * bytes, g->width, g->height,
                            g->channels));
  return CAPL_OK;
}

/* What the model was given, where that is no image. */
static capl_status write_inputs(const char *folder, const capl_golden *g)
{
  char path[PATH_ROOM];
  capl_named_tensor list[CAPL_GRAPH_PORTS_MAX];
  int n = g->n_inputs < CAPL_GRAPH_PORTS_MAX ? g->n_inputs : CAPL_GRAPH_PORTS_MAX;
  if (g->next) return CAPL_FAIL(CAPL_EVALUE, "golden pairs of several widths need images");
  for (int i = 0; i < n; i++) {
    list[i] = g->inputs[i];
    if (!list[i].name || !*list[i].name) list[i].name = "input";
  }
  return capl_safetensors_save(inputs_path(folder, path), list, n);
}

/* The outputs of all widths in one file. list, names: room for them. */
static capl_status write_outputs(const char *folder, const capl_golden *golden, bool several, capl_named_tensor *list,
                                 char (*names)[CAPL_GRAPH_NAME_MAX + 16])
{
  char path[PATH_ROOM];
  int n = 0;
  for (const capl_golden *g = golden; g; g = g->next)
    for (int o = 0; o < outputs_of(g); o++, n++) {
      list[n] = output_at(g, o);
      tensor_name(list[n].name, several, g->width, names[n], sizeof names[n]);
      list[n].name = names[n];
    }
  return capl_safetensors_save(output_path(folder, path), list, n);
}

static capl_status write_all_outputs(const char *folder, const capl_golden *golden, bool several)
{
  size_t n = 1;
  for (const capl_golden *g = golden; g; g = g->next) n += (size_t)outputs_of(g);
  capl_named_tensor *list = calloc(n, sizeof *list);
  char (*names)[CAPL_GRAPH_NAME_MAX + 16] = calloc(n, sizeof *names);
  capl_status status = list && names ? write_outputs(folder, golden, several, list, names)
      : CAPL_FAIL(CAPL_ENOMEM, "no memory for the golden pairs of %s", folder);
  free(list);
  free(names);
  return status;
}

capl_status golden_write(const char *folder, const capl_golden *golden, bool several)
{
  char path[PATH_ROOM];
  int all = count_all(golden), first = 0;
  snprintf(path, sizeof path, "%s/golden", folder);
  for (const capl_golden *g = golden; g; g = g->next) CAPL_TRY(check_golden(g, all));
  if (mkdir(path, 0777) != 0) return CAPL_FAIL(CAPL_EIO, "cannot make %s: %s", path, capl_errno_text(errno));
  for (const capl_golden *g = golden; g; first += g->n, g = g->next) {
    if (g->images) CAPL_TRY(write_images(folder, g, first));
    if (!g->images || g->n_inputs) CAPL_TRY(write_inputs(folder, g));
  }
  return write_all_outputs(folder, golden, several);
}

void golden_remove(const char *folder)
{
  char path[PATH_ROOM];
  for (int i = 0; i < CAPL_GOLDEN_MAX; i++) unlink(image_path(folder, i, path));
  unlink(output_path(folder, path));
  unlink(inputs_path(folder, path));
  snprintf(path, sizeof path, "%s/golden", folder);
  rmdir(path);
}

/* ---- replaying --------------------------------------------------------------------------------- */

/* The pairs of one width. */
typedef struct {
  int w, first, n; /* width by number; images first … first + n - 1 */
  double *then[CAPL_GRAPH_PORTS_MAX]; /* of each output: [n][its numbers] */
} pairs;

/* What the file calls output o at width w. */
static const char *name_of(const capl_model *m, int o, int w, char *buf, size_t room)
{
  const char *name = m->meta.outputs[o].name;
  return tensor_name(*name ? name : "output", m->meta.n_widths > 1, model_width(m, w), buf, room);
}

static const capl_tensor *tensor_of(const capl_model *m, const capl_named_tensor *list, int count, int o, int w)
{
  char name[CAPL_GRAPH_NAME_MAX + 16];
  name_of(m, o, w, name, sizeof name);
  for (int k = 0; k < count; k++)
    if (strcmp(list[k].name, name) == 0) return list[k].tensor;
  return NULL;
}

static capl_status no_output(const capl_model *m, const char *path, int o, int w)
{
  char name[CAPL_GRAPH_NAME_MAX + 16];
  return CAPL_FAIL(CAPL_EFORMAT, "%s holds no tensor %s of %zu numbers for each of 1 to %d images", path,
                   name_of(m, o, w, name, sizeof name), model_shape_of(m, o, w)->count, CAPL_GOLDEN_MAX);
}

/* Output o, of as many images as the outputs before it. */
static capl_status read_pairs(const capl_model *m, const char *path, const capl_tensor *t, int o, pairs *p)
{
  int64_t each = (int64_t)model_shape_of(m, o, p->w)->count;
  bool fits = t && t->ndim >= 1 && t->size[0] >= 1 && t->size[0] <= CAPL_GOLDEN_MAX - p->first &&
              (o == 0 || t->size[0] == p->n) && t->dtype == CAPL_F32 && capl_tensor_numel(t) == t->size[0] * each;
  if (!fits) return no_output(m, path, o, p->w);
  p->n = (int)t->size[0];
  p->then[o] = malloc((size_t)(p->n * each) * sizeof **p->then);
  return p->then[o] ? capl_tensor_to_doubles(t, p->then[o]) : CAPL_FAIL(CAPL_ENOMEM, "no memory for %s", path);
}

static capl_status read_width(const capl_model *m, const char *path, const capl_named_tensor *tensors, int count,
                              pairs *p)
{
  for (int o = 0; o < m->meta.n_outputs; o++)
    CAPL_TRY(read_pairs(m, path, tensor_of(m, tensors, count, o, p->w), o, p));
  return CAPL_OK;
}

/* What the model said then, width by width; some widths may have no pairs. *n: of list. */
static capl_status read_outputs(const capl_model *m, const char *path, pairs *list, int *n)
{
  capl_named_tensor *tensors;
  int count, first = 0;
  capl_status status = CAPL_OK;
  CAPL_TRY(capl_safetensors_load(path, m->device, &tensors, &count));
  *n = 0;
  for (int w = 0; status == CAPL_OK && w < model_widths(m); w++) {
    if (!tensor_of(m, tensors, count, 0, w)) continue;
    pairs *p = &list[(*n)++];
    *p = (pairs){.w = w, .first = first};
    status = read_width(m, path, tensors, count, p);
    first += p->n;
  }
  if (status == CAPL_OK && (*n == 0 || *n * m->meta.n_outputs != count)) status = no_output(m, path, 0, 0);
  capl_named_tensors_free(tensors, count);
  return status;
}

static capl_status run_images(capl_model *model, const pairs *p, double *const *now, capl_reading *readings)
{
  char path[CAPL_GOLDEN_MAX][PATH_ROOM];
  capl_model_sample samples[CAPL_GOLDEN_MAX];
  for (int i = 0; i < p->n; i++)
    samples[i] = (capl_model_sample){.path = image_path(model->path, p->first + i, path[i])};
  CAPL_TRY(model_run_batch(model, samples, p->n, readings, now));
  for (int i = 0; i < p->n; i++)
    if (readings[i].status != CAPL_OK) return CAPL_FAIL(readings[i].status, "%s", readings[i].error);
  return CAPL_OK;
}

static void compare_numbers(const double *now, const double *then, size_t n, capl_model_verdict *v)
{
  for (size_t i = 0; i < n; i++) {
    double difference = fabs(now[i] - then[i]), size = fabs(then[i]);
    if (!(difference <= v->difference)) v->difference = difference; /* NaN counts as the greatest */
    if (size > v->largest) v->largest = size;
  }
}

static bool same_texts(const capl_reading *a, const capl_reading *b)
{
  bool same = a->n_outputs == b->n_outputs;
  for (int o = 0; same && o < a->n_outputs; o++) same = strcmp(a->outputs[o].text, b->outputs[o].text) == 0;
  return same;
}

static void compare(const capl_model *m, const pairs *p, double *const *now, const capl_reading *readings,
                    capl_model_verdict *v)
{
  for (int o = 0; o < m->meta.n_outputs; o++)
    compare_numbers(now[o], p->then[o], (size_t)p->n * model_shape_of(m, o, p->w)->count, v);
  for (int i = 0; i < p->n; i++) {
    capl_reading before = {.status = CAPL_OK, .width = readings[i].width, .height = readings[i].height};
    double *numbers[CAPL_GRAPH_PORTS_MAX] = {NULL};
    for (int o = 0; o < m->meta.n_outputs; o++)
      numbers[o] = p->then[o] + (size_t)i * model_shape_of(m, o, p->w)->count;
    model_decode(m, numbers, p->w, &before);
    v->same_texts += same_texts(&before, &readings[i]);
    capl_readings_free(&before, 1);
  }
  v->n += p->n;
}

/* now: room for all outputs of the pairs. */
static capl_status replay_into(capl_model *m, const pairs *p, double **now, capl_reading *readings,
                               capl_model_verdict *v)
{
  bool good = readings != NULL;
  for (int o = 0; o < m->meta.n_outputs; o++) {
    now[o] = malloc((size_t)p->n * model_shape_of(m, o, p->w)->count * sizeof **now);
    good = good && now[o];
  }
  if (!good) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the golden pairs of %s", m->path);
  CAPL_TRY(run_images(m, p, now, readings));
  return compare(m, p, now, readings, v), CAPL_OK;
}

static capl_status replay(capl_model *m, const pairs *p, capl_model_verdict *v)
{
  double *now[CAPL_GRAPH_PORTS_MAX] = {NULL};
  capl_reading *readings = calloc((size_t)p->n, sizeof *readings);
  capl_status status = replay_into(m, p, now, readings, v);
  if (readings) capl_readings_free(readings, p->n);
  free(readings);
  for (int o = 0; o < m->meta.n_outputs; o++) free(now[o]);
  return status;
}

double golden_tolerance(bool low, double largest) { return fmax((low ? 5e-2 : 1e-3) * largest, 1e-4); }

static void verify_outputs(const capl_model *model, capl_model_verdict *v)
{
  bool low = model_is_low(model);
  v->tolerance = golden_tolerance(low, v->largest);
  v->ok = v->difference <= v->tolerance && (low || v->same_texts == v->n);
}

capl_status capl_model_verify(capl_model *model, capl_model_verdict *verdict)
{
  const char *folder = model->path;
  char path[PATH_ROOM];
  pairs list[META_WIDTHS_MAX] = {{0}};
  int n = 0;
  *verdict = (capl_model_verdict){0};
  if (access(output_path(folder, path), F_OK) != 0) {
    CAPL_FAIL(CAPL_EFORMAT, "%s has no golden pairs: %s is missing", folder, path);
    capl_error_hint("they are written when a recipe saves a model after reading images through a loader");
    return CAPL_EFORMAT;
  }
  capl_status status = read_outputs(model, path, list, &n);
  for (int k = 0; status == CAPL_OK && k < n; k++) status = replay(model, &list[k], verdict);
  for (int k = 0; k < n; k++)
    for (int o = 0; o < CAPL_GRAPH_PORTS_MAX; o++) free(list[k].then[o]);
  verify_outputs(model, verdict);
  return status;
}
