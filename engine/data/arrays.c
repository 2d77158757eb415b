/* arrays.c -- a source of samples that lie in memory: images, labels and fields as whole arrays, copied once.
** SPDX-License-Identifier: Apache-2.0
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/source.h"

enum { SLACK = 64 }; /* for reading vectors past the end */

typedef struct {
  capl_source base;
  size_t image_bytes, field_bytes[CAPL_FIELDS_MAX]; /* of one sample */
  uint8_t *images;
  int32_t *labels;
  uint8_t *field[CAPL_FIELDS_MAX];
} arrays_source;

static capl_status arrays_borrow(capl_source *source, const capl_read *what, capl_image *scratch, capl_sample *at,
                                 bool *lent)
{
  (void)scratch;
  const arrays_source *s = (const arrays_source *)source;
  size_t id = what->id, length = (size_t)source->length;
  if (at->labels && s->labels) memcpy(at->labels, s->labels + id * length, length * sizeof *s->labels);
  at->pixels = s->images ? s->images + id * s->image_bytes : NULL;
  for (int i = 0; i < CAPL_FIELDS_MAX; i++) at->field[i] = s->field[i] ? s->field[i] + id * s->field_bytes[i] : NULL;
  *lent = true;
  return CAPL_OK;
}

static capl_status arrays_read(capl_source *source, const capl_read *what, capl_image *scratch, const capl_sample *to)
{
  const arrays_source *s = (const arrays_source *)source;
  capl_sample at = {.labels = to->labels};
  bool lent;
  CAPL_TRY(arrays_borrow(source, what, scratch, &at, &lent));
  if (to->pixels && at.pixels) memcpy(to->pixels, at.pixels, s->image_bytes);
  for (int i = 0; i < source->n_fields; i++) {
    if (to->field[i]) memcpy(to->field[i], at.field[i], s->field_bytes[i]);
  }
  return CAPL_OK;
}

static void arrays_close(capl_source *source)
{
  arrays_source *s = (arrays_source *)source;
  free(s->images);
  free(s->labels);
  for (int i = 0; i < CAPL_FIELDS_MAX; i++) free(s->field[i]);
  free(s);
}

/* ---- opening --------------------------------------------------------------------------------- */

static capl_status check(const capl_arrays *a)
{
  if (a->count == 0) return CAPL_FAIL(CAPL_EVALUE, "arrays hold no sample");
  if (a->n_fields < 0 || a->n_fields > CAPL_FIELDS_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "%d fields; a sample has at most %d beside image and labels", a->n_fields,
                     CAPL_FIELDS_MAX);
  if (a->length < 0 || a->length > CAPL_LABEL_MAX)
    return CAPL_FAIL(CAPL_EVALUE, "labels have %d places; there can be at most %d", a->length, CAPL_LABEL_MAX);
  if (a->images && (a->width < 1 || a->height < 1 || (a->channels != 1 && a->channels != 3)))
    return CAPL_FAIL(CAPL_EVALUE, "images of %d x %d px with %d channels; they have 1 or 3", a->width, a->height,
                     a->channels);
  return CAPL_OK;
}

static capl_status check_labels(const capl_arrays *a)
{
  for (size_t i = 0; i < (size_t)a->count * (size_t)a->length; i++) {
    int32_t label = a->labels[i];
    if (label >= -1 && (a->classes == 0 || label < a->classes)) continue;
    return CAPL_FAIL(CAPL_EVALUE, "label %d of sample %zu is outside 0..%d, and not -1 for none", label,
                     i / (size_t)a->length, a->classes - 1);
  }
  return CAPL_OK;
}

static capl_status copy(void *to, const void *from, size_t bytes)
{
  uint8_t *room = malloc(bytes + SLACK);
  *(void **)to = room;
  if (!room) return CAPL_FAIL(CAPL_ENOMEM, "no memory for an array of %zu bytes", bytes);
  memcpy(room, from, bytes);
  memset(room + bytes, 0, SLACK);
  return CAPL_OK;
}

static capl_status copy_all(arrays_source *s, const capl_arrays *a)
{
  size_t count = a->count;
  if (a->images) CAPL_TRY(copy(&s->images, a->images, count * s->image_bytes));
  if (a->length) CAPL_TRY(copy(&s->labels, a->labels, count * (size_t)a->length * sizeof *a->labels));
  for (int i = 0; i < a->n_fields; i++) CAPL_TRY(copy(&s->field[i], a->values[i], count * s->field_bytes[i]));
  return CAPL_OK;
}

static void describe(arrays_source *s, const capl_arrays *a)
{
  static const capl_source_ops ops = {.read = arrays_read, .borrow = arrays_borrow, .close = arrays_close};
  capl_source *base = &s->base;
  *base = (capl_source){.ops = &ops, .refs = 1, .count = a->count, .n_fields = a->n_fields, .length = a->length,
                        .fixed = true};
  if (a->images) base->width = a->width, base->height = a->height, base->channels = a->channels;
  s->image_bytes = (size_t)base->width * (size_t)base->height * (size_t)base->channels;
  for (int i = 0; i < a->n_fields; i++) {
    base->field[i] = a->field[i];
    s->field_bytes[i] = capl_field_bytes(&a->field[i]);
  }
}

capl_status capl_source_arrays_new(const capl_arrays *arrays, capl_source **source)
{
  CAPL_TRY(check(arrays));
  if (arrays->length) CAPL_TRY(check_labels(arrays));
  arrays_source *s = calloc(1, sizeof *s);
  if (!s) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a source");
  describe(s, arrays);
  s->base.vocab = capl_vocab_ref((capl_vocab *)arrays->names);
  capl_status status = arrays->charset ? capl_vocab_charset(arrays->charset, &s->base.vocab) : CAPL_OK;
  if (status == CAPL_OK) status = copy_all(s, arrays);
  if (status == CAPL_OK) *source = &s->base;
  else capl_source_unref(&s->base);
  return status;
}
