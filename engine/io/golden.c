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
  for (int i = 0; !g->images && i < g->n_inputs; i++)
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
  for (const capl_golden *g = golden; g; first += g->n, g = g->next)
    CAPL_TRY(g->images ? write_images(folder, g, first) : write_inputs(folder, g));
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
  double *then;    /* [n][T*K] */
} pairs;

static capl_tensor *tensor_of(const capl_model *m, const capl_named_tensor *list, int count, int w)
{
  char name[32];
  tensor_name("output", model_meta_of(m)->n_widths > 1, model_width(m, w), name, sizeof name);
  for (int k = 0; k < count; k++)
    if (strcmp(list[k].name, name) == 0) return list[k].tensor;
  return NULL;
}

static capl_status no_output(const capl_model *m, const char *path, int w)
{
  char name[32];
  tensor_name("output", model_meta_of(m)->n_widths > 1, model_width(m, w), name, sizeof name);
  return CAPL_FAIL(CAPL_EFORMAT, "%s holds no tensor %s of %d numbers for each of 1 to %d images", path, name,
                   model_outputs(m, w), CAPL_GOLDEN_MAX);
}

static capl_status read_pairs(const capl_model *m, const char *path, const capl_tensor *t, pairs *p)
{
  int each = model_outputs(m, p->w);
  bool fits = t->ndim >= 1 && t->size[0] >= 1 && t->size[0] <= CAPL_GOLDEN_MAX - p->first && t->dtype == CAPL_F32 &&
              capl_tensor_numel(t) == t->size[0] * each;
  if (!fits) return no_output(m, path, p->w);
  p->n = (int)t->size[0];
  p->then = malloc((size_t)p->n * (size_t)each * sizeof *p->then);
  return p->then ? capl_tensor_to_doubles(t, p->then) : CAPL_FAIL(CAPL_ENOMEM, "no memory for %s", path);
}

/* What the model said then, width by width; some widths may have no pairs. *n: of list. */
static capl_status read_outputs(const capl_model *m, const char *path, pairs *list, int *n)
{
  capl_named_tensor *tensors;
  int count, first = 0;
  capl_status status = CAPL_OK;
  CAPL_TRY(capl_safetensors_load(path, model_device(m), &tensors, &count));
  *n = 0;
  for (int w = 0; status == CAPL_OK && w < model_widths(m); w++) {
    const capl_tensor *t = tensor_of(m, tensors, count, w);
    if (!t) continue;
    pairs *p = &list[(*n)++];
    *p = (pairs){.w = w, .first = first};
    status = read_pairs(m, path, t, p);
    first += p->n;
  }
  if (status == CAPL_OK && (*n == 0 || *n != count)) status = no_output(m, path, 0);
  capl_named_tensors_free(tensors, count);
  return status;
}

static capl_status run_images(capl_model *model, const char *folder, const pairs *p, double *now,
                              capl_reading *readings)
{
  char path[CAPL_GOLDEN_MAX][PATH_ROOM];
  capl_model_image images[CAPL_GOLDEN_MAX];
  for (int i = 0; i < p->n; i++) images[i] = (capl_model_image){.path = image_path(folder, p->first + i, path[i])};
  CAPL_TRY(model_run_batch(model, images, p->n, readings, now));
  for (int i = 0; i < p->n; i++)
    if (readings[i].status != CAPL_OK) return CAPL_FAIL(readings[i].status, "%s", readings[i].error);
  return CAPL_OK;
}

static void compare(const capl_model *model, const pairs *p, const double *now, const capl_reading *readings,
                    capl_model_verdict *v)
{
  int each = model_outputs(model, p->w);
  for (int i = 0; i < p->n * each; i++) {
    double difference = fabs(now[i] - p->then[i]), size = fabs(p->then[i]);
    if (!(difference <= v->difference)) v->difference = difference; /* NaN counts as the greatest */
    if (size > v->largest) v->largest = size;
  }
  for (int i = 0; i < p->n; i++) {
    capl_reading before;
    model_decode(model, p->then + (size_t)i * (size_t)each, p->w, &before);
    v->same_texts += strcmp(before.text, readings[i].text) == 0;
  }
  v->n += p->n;
}

static capl_status replay(capl_model *model, const char *folder, const pairs *p, capl_model_verdict *v)
{
  capl_reading *readings = calloc((size_t)p->n, sizeof *readings);
  double *now = malloc((size_t)p->n * (size_t)model_outputs(model, p->w) * sizeof *now);
  capl_status status = now && readings ? run_images(model, folder, p, now, readings)
                                       : CAPL_FAIL(CAPL_ENOMEM, "no memory for the golden pairs of %s", folder);
  if (status == CAPL_OK) compare(model, p, now, readings, v);
  free(readings);
  free(now);
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
  const char *folder = model_path(model);
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
  for (int k = 0; status == CAPL_OK && k < n; k++) status = replay(model, folder, &list[k], verdict);
  for (int k = 0; k < n; k++) free(list[k].then);
  verify_outputs(model, verdict);
  return status;
}
