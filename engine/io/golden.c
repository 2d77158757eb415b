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

static capl_status check_golden(const capl_golden *g)
{
  if (g->n >= 1 && g->n <= CAPL_GOLDEN_MAX && g->output->ndim >= 1 && g->output->size[0] == g->n && g->output->dtype == CAPL_F32)
    return CAPL_OK;
  char text[160];
  return CAPL_FAIL(CAPL_EVALUE, "golden pairs: %d images and the output %s; 1 to %d of both are needed, in f32", g->n,
                   capl_tensor_describe(g->output, text, sizeof text), CAPL_GOLDEN_MAX);
}

capl_status golden_write(const char *folder, const capl_golden *g)
{
  char path[PATH_ROOM];
  CAPL_TRY(check_golden(g));
  snprintf(path, sizeof path, "%s/golden", folder);
  if (mkdir(path, 0777) != 0) return CAPL_FAIL(CAPL_EIO, "cannot make %s: %s", path, capl_errno_text(errno));
  size_t bytes = (size_t)g->width * (size_t)g->height * (size_t)g->channels;
  for (int i = 0; i < g->n; i++)
    CAPL_TRY(capl_png_write(image_path(folder, i, path), g->images + (size_t)i * bytes, g->width, g->height, g->channels));
  static char name[] = "output";
  return capl_safetensors_save(output_path(folder, path), &(capl_named_tensor){name, g->output}, 1);
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

/* Values of the output as it was, (n, T*K) in *values, which the caller frees. */
static capl_status read_output(const char *path, capl_device *device, int each, int *n, double **values)
{
  capl_named_tensor *list;
  int count;
  CAPL_TRY(capl_safetensors_load(path, device, &list, &count));
  capl_tensor *t = count == 1 && strcmp(list[0].name, "output") == 0 ? list[0].tensor : NULL;
  bool fits = t && t->ndim >= 1 && t->size[0] >= 1 && t->size[0] <= CAPL_GOLDEN_MAX && t->dtype == CAPL_F32 &&
              capl_tensor_numel(t) == t->size[0] * each;
  capl_status status = CAPL_OK;
  if (!fits) status = CAPL_FAIL(CAPL_EFORMAT, "%s holds no tensor output of %d numbers for each of 1 to %d images", path, each, CAPL_GOLDEN_MAX);
  if (status == CAPL_OK) {
    *n = (int)t->size[0];
    *values = malloc((size_t)*n * (size_t)each * sizeof **values);
    status = *values ? capl_tensor_to_doubles(t, *values) : CAPL_FAIL(CAPL_ENOMEM, "no memory for %s", path);
  }
  capl_named_tensors_free(list, count);
  return status;
}

static capl_status run_images(capl_model *model, const char *folder, int n, double *now, capl_reading *readings)
{
  char path[CAPL_GOLDEN_MAX][PATH_ROOM];
  capl_model_image images[CAPL_GOLDEN_MAX];
  for (int i = 0; i < n; i++) images[i] = (capl_model_image){.path = image_path(folder, i, path[i])};
  CAPL_TRY(model_run_batch(model, images, n, readings, now));
  for (int i = 0; i < n; i++)
    if (readings[i].status != CAPL_OK) return CAPL_FAIL(readings[i].status, "%s", readings[i].error);
  return CAPL_OK;
}

static void compare(const capl_model *model, const double *then, const double *now, const capl_reading *readings,
                    capl_model_verdict *v)
{
  int each = model_outputs(model);
  for (int i = 0; i < v->n * each; i++) {
    double difference = fabs(now[i] - then[i]), size = fabs(then[i]);
    if (!(difference <= v->difference)) v->difference = difference; /* NaN counts as the greatest */
    if (size > v->largest) v->largest = size;
  }
  for (int i = 0; i < v->n; i++) {
    capl_reading before;
    model_decode(model, then + (size_t)i * (size_t)each, &before);
    v->same_texts += strcmp(before.text, readings[i].text) == 0;
  }
  bool low = model_is_low(model);
  v->tolerance = fmax((low ? 5e-2 : 1e-3) * v->largest, 1e-4);
  v->ok = v->difference <= v->tolerance && (low || v->same_texts == v->n);
}

static capl_status replay(capl_model *model, const char *folder, const double *then, capl_model_verdict *v)
{
  capl_reading readings[CAPL_GOLDEN_MAX];
  double *now = malloc((size_t)v->n * (size_t)model_outputs(model) * sizeof *now);
  capl_status status = now ? run_images(model, folder, v->n, now, readings)
                           : CAPL_FAIL(CAPL_ENOMEM, "no memory for the golden pairs of %s", folder);
  if (status == CAPL_OK) compare(model, then, now, readings, v);
  free(now);
  return status;
}

capl_status capl_model_verify(capl_model *model, capl_model_verdict *verdict)
{
  const char *folder = model_path(model);
  char path[PATH_ROOM];
  double *then = NULL;
  *verdict = (capl_model_verdict){0};
  if (access(output_path(folder, path), F_OK) != 0) {
    CAPL_FAIL(CAPL_EFORMAT, "%s has no golden pairs: %s is missing", folder, path);
    capl_error_hint("they are written when a recipe saves a model after reading images through a loader");
    return CAPL_EFORMAT;
  }
  capl_status status = read_output(path, model_device(model), model_outputs(model), &verdict->n, &then);
  if (status == CAPL_OK) status = replay(model, folder, then, verdict);
  free(then);
  return status;
}
