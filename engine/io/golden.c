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

/* ---- writing ----------------------------------------------------------------------------------- */

static int count_all(const capl_golden *g)
{
  int n = 0;
  for (; g; g = g->next) n += g->n;
  return n;
}

static capl_status check_golden(const capl_golden *g, int all)
{
  if (g->n >= 1 && all <= CAPL_GOLDEN_MAX && g->output->ndim >= 1 && g->output->size[0] == g->n
      && g->output->dtype == CAPL_F32)
    return CAPL_OK;
  char text[160];
  return CAPL_FAIL(CAPL_EVALUE, "golden pairs: %d images and the output %s; 1 to %d of both are needed, in f32", all,
                   capl_tensor_describe(g->output, text, sizeof text), CAPL_GOLDEN_MAX);
}

/* "output", or "output.96" for the pairs of one of several widths. */
static const char *tensor_name(bool several, int width, char *buf, size_t room)
{
  if (several) snprintf(buf, room, "output.%d", width);
  else snprintf(buf, room, "output");
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

capl_status golden_write(const char *folder, const capl_golden *golden, bool several)
{
  char path[PATH_ROOM], names[CAPL_GOLDEN_MAX][32];
  capl_named_tensor outputs[CAPL_GOLDEN_MAX];
  int all = count_all(golden), first = 0, n = 0;
  snprintf(path, sizeof path, "%s/golden", folder);
  for (const capl_golden *g = golden; g; g = g->next) CAPL_TRY(check_golden(g, all));
  if (mkdir(path, 0777) != 0) return CAPL_FAIL(CAPL_EIO, "cannot make %s: %s", path, capl_errno_text(errno));
  for (const capl_golden *g = golden; g; first += g->n, n++, g = g->next) {
    CAPL_TRY(write_images(folder, g, first));
    tensor_name(several, g->width, names[n], sizeof names[n]);
    outputs[n] = (capl_named_tensor){names[n], g->output};
  }
  return capl_safetensors_save(output_path(folder, path), outputs, n);
}

void golden_remove(const char *folder)
{
  char path[PATH_ROOM];
  for (int i = 0; i < CAPL_GOLDEN_MAX; i++) unlink(image_path(folder, i, path));
  unlink(output_path(folder, path));
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
  tensor_name(model_meta_of(m)->n_widths > 1, model_width(m, w), name, sizeof name);
  for (int k = 0; k < count; k++)
    if (strcmp(list[k].name, name) == 0) return list[k].tensor;
  return NULL;
}

static capl_status no_output(const capl_model *m, const char *path, int w)
{
  char name[32];
  tensor_name(model_meta_of(m)->n_widths > 1, model_width(m, w), name, sizeof name);
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

static void verify_outputs(const capl_model *model, capl_model_verdict *v)
{
  bool low = model_is_low(model);
  v->tolerance = fmax((low ? 5e-2 : 1e-3) * v->largest, 1e-4);
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
