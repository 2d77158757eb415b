/* model_files.c -- many files through a model: the loader's threads decode while the graph computes.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "data/list.h"
#include "io/model_run.h"

struct capl_model_files {
  capl_model *model;
  capl_source *source;
  capl_loader *loader;
  capl_reading readings[MODEL_BATCH];
};

/* A few images are not worth starting threads for. */
static int choose_workers(int wanted, uint32_t n)
{
  enum { FEW = 4 };
  if (wanted < 0) wanted = n <= FEW ? 0 : capl_cpu_count();
  return wanted;
}

/* paths NULL: the files of `of`. */
static capl_status begin(capl_model_files *f, capl_source *of, const char *const *paths, uint32_t n, int workers)
{
  const model_meta *meta = &f->model->meta;
  if (meta->width == 0 || meta->n_inputs > 1)
    return CAPL_FAIL(CAPL_EUNSUPPORTED, "%s takes %s; image files are not enough to run it", f->model->path,
                     meta->width == 0 ? "no image" : "inputs beside an image");
  list_size size = {meta->width, meta->height, meta->channels, meta->n_widths, meta->widths, meta->letterbox};
  if (paths) CAPL_TRY(list_source_new(paths, n, &size, &f->source));
  else CAPL_TRY(list_source_of(of, &size, &f->source));
  if (n == 0) return CAPL_OK;
  capl_loader_options o = {.batch = n < MODEL_BATCH ? (int)n : MODEL_BATCH, .workers = choose_workers(workers, n),
                           .type = CAPL_PIXEL_U8}; /* a standardized image is one of its own width */
  CAPL_TRY(capl_loader_new(f->source, &o, &f->loader));
  return capl_loader_epoch(f->loader, 1);
}

static capl_status begin_new(capl_model *model, capl_source *of, const char *const *paths, uint32_t n, int workers,
                             capl_model_files **files)
{
  *files = NULL;
  capl_model_files *f = calloc(1, sizeof *f);
  if (!f) return CAPL_FAIL(CAPL_ENOMEM, "no memory to read %u files", n);
  f->model = model;
  capl_status status = begin(f, of, paths, n, workers);
  if (status == CAPL_OK) *files = f;
  else capl_model_files_end(f);
  return status;
}

capl_status capl_model_files_begin(capl_model *model, const char *const *paths, uint32_t n, int workers,
                                   capl_model_files **files)
{
  return begin_new(model, NULL, paths, n, workers, files);
}

capl_status capl_model_source_begin(capl_model *model, capl_source *source, int workers, capl_model_files **files)
{
  return begin_new(model, source, NULL, capl_source_count(source), workers, files);
}

/* What reading the files gave, before the model has seen them. */
static void note_sizes(capl_model_files *f, const capl_batch *batch, model_batch *b)
{
  for (int i = 0; i < batch->count; i++) {
    const list_note *note = list_source_note(f->source, batch->ids[i]);
    b->w[i] = note->w;
    capl_readings_free(&f->readings[i], 1);
    f->readings[i] = (capl_reading){.width = note->width, .height = note->height};
    if (note->message) model_reading_fail(&f->readings[i], note->status, note->message);
  }
}

capl_status capl_model_files_next(capl_model_files *f, const capl_reading **readings, int *n)
{
  capl_batch batch = {0};
  *readings = f->readings;
  *n = 0;
  if (f->loader) CAPL_TRY(capl_loader_next(f->loader, &batch));
  if (batch.count == 0) return CAPL_OK;
  model_batch b = {.n = batch.count, .levels = batch.images, .stride = model_levels(f->model)};
  note_sizes(f, &batch, &b);
  capl_status status = model_read_batch(f->model, &b, f->readings, NULL);
  if (status == CAPL_OK) *n = batch.count;
  return status;
}

void capl_model_files_end(capl_model_files *f)
{
  if (!f) return;
  capl_readings_free(f->readings, MODEL_BATCH);
  capl_loader_free(f->loader);
  capl_source_unref(f->source);
  free(f);
}
