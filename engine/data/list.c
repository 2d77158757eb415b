/* list.c -- named PNG files as a source.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/list.h"

#include <stdlib.h>
#include <string.h>

#include "data/fit.h"
#include "data/source.h"

typedef struct {
  capl_source base;
  char **path;
  list_note *note; /* each written once, by the thread that reads it */
} list_source;

static capl_status read_file(const list_source *s, uint32_t id, capl_image *scratch, uint8_t *pixels)
{
  const capl_source *base = &s->base;
  CAPL_TRY(capl_image_read(s->path[id], base->channels, scratch));
  s->note[id].width = scratch->width;
  s->note[id].height = scratch->height;
  capl_status status = fit_image(scratch->pixels, scratch->width, scratch->height, base->channels, base->width, base->height, pixels);
  if (status == CAPL_OK) return status;
  capl_error e = *capl_error_last();
  return CAPL_FAIL(e.code, "%s: %s", s->path[id], e.message);
}

static capl_status list_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  list_source *s = (list_source *)source;
  uint32_t id = what->id;
  if (read_file(s, id, scratch, to->pixels) == CAPL_OK) return CAPL_OK;
  list_note *note = &s->note[id];
  note->status = capl_error_last()->code;
  note->message = strdup(capl_error_last()->message);
  if (!note->message) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to keep what is wrong with it", s->path[id]);
  memset(to->pixels, 0, (size_t)source->width * (size_t)source->height * (size_t)source->channels);
  return CAPL_OK;
}

static const char *list_name(const capl_source *source, uint32_t i)
{
  return ((const list_source *)source)->path[i];
}

static void list_close(capl_source *source)
{
  list_source *s = (list_source *)source;
  for (uint32_t i = 0; s->path && i < source->count; i++) free(s->path[i]);
  for (uint32_t i = 0; s->note && i < source->count; i++) free(s->note[i].message);
  free(s->path);
  free(s->note);
  free(s);
}

const list_note *list_source_note(const capl_source *source, uint32_t i)
{
  return &((const list_source *)source)->note[i];
}

static capl_status copy_paths(list_source *s, const char *const *paths, uint32_t n)
{
  s->path = calloc((size_t)n + 1, sizeof *s->path);
  s->note = calloc((size_t)n + 1, sizeof *s->note);
  if (!s->path || !s->note) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a list of %u files", n);
  for (; s->base.count < n; s->base.count++)
    if (!(s->path[s->base.count] = strdup(paths[s->base.count])))
      return CAPL_FAIL(CAPL_ENOMEM, "no memory for a list of %u files", n);
  return CAPL_OK;
}

capl_status list_source_new(const char *const *paths, uint32_t n, int width, int height, int channels, capl_source **out)
{
  static const capl_source_ops ops = {.read = list_read, .close = list_close, .name = list_name};
  list_source *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a list of %u files", n);
  s->base = (capl_source){.ops = &ops, .refs = 1, .width = width, .height = height, .channels = channels};
  capl_status status = copy_paths(s, paths, n);
  if (status == CAPL_OK) *out = &s->base;
  else list_close(&s->base);
  return status;
}
