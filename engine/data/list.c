/* list.c -- named image files as a source, or those of another source.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/list.h"

#include <stdlib.h>
#include <string.h>

#include "data/resize.h"
#include "data/source.h"

enum { TITLE_ROOM = 4096 };

typedef struct {
  capl_source base;
  capl_source *of; /* whose files they are; NULL = those at path */
  char **path;
  list_size size;
  list_note *note; /* each written once, by the thread that reads it */
} list_source;

/* What messages call a file. */
static const char *title_of(const list_source *s, uint32_t id, char *room)
{
  return s->of ? capl_source_title(s->of, id, room, TITLE_ROOM) : s->path[id];
}

static capl_status decode(const list_source *s, uint32_t id, capl_image *scratch)
{
  char title[TITLE_ROOM];
  encoded_bytes bytes = {0};
  if (!s->of) return capl_image_read(s->path[id], s->base.channels, scratch);
  CAPL_TRY(capl_source_encoded(s->of, id, &bytes));
  capl_status status = capl_image_decode(bytes.at, bytes.size, title_of(s, id, title), s->base.channels, scratch);
  free(bytes.owned);
  return status;
}

static capl_status fit(const list_size *to, const capl_image *in, list_note *note, uint8_t *pixels)
{
  int used = to->width;
  note->width = in->width;
  note->height = in->height;
  if (to->n_widths == 0)
    return resize_fit(&to->letterbox, in->pixels, in->width, in->height, to->channels, to->width, to->height, pixels);
  note->w = resize_choose(in->width, in->height, to->height, to->widths, to->n_widths, &used);
  return resize_padded(in->pixels, in->width, in->height, to->channels, used, to->widths[note->w], to->height, pixels);
}

static capl_status read_file(const list_source *s, uint32_t id, capl_image *scratch, uint8_t *pixels)
{
  char title[TITLE_ROOM];
  CAPL_TRY(decode(s, id, scratch));
  capl_status status = fit(&s->size, scratch, &s->note[id], pixels);
  if (status == CAPL_OK) return status;
  capl_error e = *capl_error_last();
  return CAPL_FAIL(e.code, "%s: %s", title_of(s, id, title), e.message);
}

static capl_status list_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  list_source *s = (list_source *)source;
  uint32_t id = what->id;
  char title[TITLE_ROOM];
  if (read_file(s, id, scratch, to->pixels) == CAPL_OK) return CAPL_OK;
  list_note *note = &s->note[id];
  note->status = capl_error_last()->code;
  note->message = strdup(capl_error_last()->message);
  if (!note->message)
    return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to keep what is wrong with it", title_of(s, id, title));
  memset(to->pixels, 0, (size_t)source->width * (size_t)source->height * (size_t)source->channels);
  return CAPL_OK;
}

static const char *list_name(const capl_source *source, uint32_t i)
{
  const list_source *s = (const list_source *)source;
  return s->of ? capl_source_name(s->of, i) : s->path[i];
}

static void list_close(capl_source *source)
{
  list_source *s = (list_source *)source;
  for (uint32_t i = 0; s->path && i < source->count; i++) free(s->path[i]);
  for (uint32_t i = 0; s->note && i < source->count; i++) free(s->note[i].message);
  capl_source_unref(s->of);
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
  if (!s->path) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a list of %u files", n);
  for (; s->base.count < n; s->base.count++)
    if (!(s->path[s->base.count] = strdup(paths[s->base.count])))
      return CAPL_FAIL(CAPL_ENOMEM, "no memory for a list of %u files", n);
  return CAPL_OK;
}

static capl_status begin(uint32_t n, const list_size *size, list_source **out)
{
  static const capl_source_ops ops = {.read = list_read, .close = list_close, .name = list_name};
  *out = calloc(1, sizeof **out);
  if (!*out) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a list of %u files", n);
  (*out)->base = (capl_source){.ops = &ops, .refs = 1, .width = size->width, .height = size->height,
                               .channels = size->channels};
  (*out)->size = *size;
  (*out)->note = calloc((size_t)n + 1, sizeof *(*out)->note);
  if ((*out)->note) return CAPL_OK;
  list_close(&(*out)->base);
  return CAPL_FAIL(CAPL_ENOMEM, "no memory for a list of %u files", n);
}

capl_status list_source_of(capl_source *of, const list_size *size, capl_source **out)
{
  list_source *s;
  if (!of->ops->encoded) return CAPL_FAIL(CAPL_ESTATE, "this source has no files");
  CAPL_TRY(begin(of->count, size, &s));
  s->base.count = of->count;
  s->of = capl_source_ref(of);
  *out = &s->base;
  return CAPL_OK;
}

capl_status list_source_new(const char *const *paths, uint32_t n, const list_size *size, capl_source **out)
{
  list_source *s;
  CAPL_TRY(begin(n, size, &s));
  capl_status status = copy_paths(s, paths, n);
  if (status == CAPL_OK) *out = &s->base;
  else list_close(&s->base);
  return status;
}
