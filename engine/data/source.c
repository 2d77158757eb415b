/* source.c -- what all sources share.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields/unicode.h"

capl_source *capl_source_ref(capl_source *source)
{
  atomic_fetch_add(&source->refs, 1);
  return source;
}

void capl_source_unref(capl_source *source)
{
  if (!source || atomic_fetch_sub(&source->refs, 1) != 1) return;
  capl_vocab *vocab = source->vocab;
  source->ops->close(source);
  capl_vocab_unref(vocab);
}

capl_source source_like(const capl_source *of)
{
  capl_source like = *of;
  atomic_init(&like.refs, 1);
  capl_vocab_ref(like.vocab);
  return like;
}

uint32_t capl_source_count(const capl_source *source)
{
  return source->count;
}

int capl_source_width(const capl_source *source)
{
  return source->width;
}

int capl_source_height(const capl_source *source)
{
  return source->height;
}

int capl_source_channels(const capl_source *source)
{
  return source->channels;
}

const capl_letterbox *capl_source_letterbox(const capl_source *source)
{
  return &source->letterbox;
}

const int *capl_source_widths(const capl_source *source, int *n)
{
  *n = source->n_widths;
  return source->widths;
}

int capl_source_width_of(const capl_source *source, uint32_t id)
{
  return source->n_widths ? source->widths[source->ops->width_of(source, id)] : source->width;
}

size_t capl_source_pixels_bytes(const capl_source *source, uint32_t id)
{
  return (size_t)capl_source_width_of(source, id) * (size_t)source->height * (size_t)source->channels;
}

size_t source_field_bytes(const capl_source *source, int i, int width)
{
  const capl_field *field = &source->field[i];
  bool varies = source->n_widths && field->kind == CAPL_FIELD_MASK;
  return varies ? (size_t)source->height * (size_t)width : capl_field_bytes(field);
}

int capl_source_length(const capl_source *source)
{
  return source->length;
}

int capl_source_length_min(const capl_source *source)
{
  return source->length_min ? source->length_min : source->length;
}

bool capl_source_fixed(const capl_source *source)
{
  return source->fixed;
}

const char *capl_source_charset(const capl_source *source)
{
  return capl_vocab_text(source->vocab);
}

char capl_source_several(const capl_source *source)
{
  return source->several;
}

const capl_vocab *capl_source_vocab(const capl_source *source)
{
  return source->vocab;
}

const char *capl_source_name(const capl_source *source, uint32_t i)
{
  return source->ops->name && i < source->count ? source->ops->name(source, i) : NULL;
}

const char *capl_source_text(const capl_source *source, uint32_t i)
{
  return source->ops->text && i < source->count ? source->ops->text(source, i) : NULL;
}

static capl_status check_id(const capl_source *source, uint32_t id)
{
  if (id < source->count) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "sample %u does not exist; the source has %u", id, source->count);
}

capl_status capl_source_set_label(capl_source *source, uint32_t i, const char *text)
{
  if (!source->ops->set_label) return CAPL_FAIL(CAPL_ESTATE, "this source makes its own labels");
  CAPL_TRY(check_id(source, i));
  return source->ops->set_label(source, i, text);
}

capl_status capl_source_set_text(capl_source *source, uint32_t i, const char *text)
{
  if (!source->ops->set_text) return CAPL_FAIL(CAPL_ESTATE, "this source has no files");
  CAPL_TRY(check_id(source, i));
  return source->ops->set_text(source, i, text);
}

capl_status capl_source_check_label(const capl_source *source, uint32_t i)
{
  CAPL_TRY(check_id(source, i));
  return source->ops->check_label ? source->ops->check_label(source, i) : CAPL_OK;
}

enum { CODES = UNICODE_LAST + 1 };

/* Marks the characters of a text; what is no UTF-8 is none. */
static void mark(bool *seen, const char *text)
{
  for (int bytes; *text; text += bytes ? bytes : 1) {
    int32_t code = unicode_at(text, &bytes);
    if (code >= 0) seen[code] = true;
  }
}

capl_status capl_source_characters(const capl_source *source, char **characters)
{
  bool *seen = calloc(CODES, sizeof *seen);
  size_t n = 1;
  /* what is drawn has no end of samples, and no labels to look at */
  for (uint32_t i = 0; seen && source->ops->text && i < source->count; i++) {
    const char *text = capl_source_text(source, i);
    if (text) mark(seen, text);
  }
  for (int32_t code = 0; seen && code < CODES; code++) n += seen[code] ? UNICODE_BYTES : 0;
  char *to = *characters = seen ? malloc(n) : NULL;
  for (int32_t code = 0; to && code < CODES; code++)
    if (seen[code]) to += unicode_write(code, to);
  if (to) *to = '\0';
  free(seen);
  return to ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for the characters of %u labels", source->count);
}

static capl_status set_labels(capl_source *source, capl_vocab *vocab, int length_min, int length)
{
  if (!source->ops->set_labels) return CAPL_FAIL(CAPL_ESTATE, "this source's labels are what they are");
  return source->ops->set_labels(source, vocab, length_min, length);
}

static capl_status check_unlabelled(const capl_source *source)
{
  char room[128];
  if (!source->length) return CAPL_OK;
  return CAPL_FAIL(CAPL_ESTATE, "the source has a charset already: %s",
                   capl_vocab_describe(source->vocab, room, sizeof room));
}

capl_status capl_source_set_classes(capl_source *source, const capl_vocab *classes)
{
  CAPL_TRY(check_unlabelled(source));
  return set_labels(source, (capl_vocab *)classes, source->several ? 0 : 1, source->several ? CAPL_LABEL_MAX : 1);
}

capl_status capl_source_set_charset(capl_source *source, const char *charset, int length_min, int length)
{
  capl_vocab *vocab;
  CAPL_TRY(check_unlabelled(source));
  CAPL_TRY(capl_vocab_charset(charset, &vocab));
  capl_status status = set_labels(source, vocab, length_min, length);
  capl_vocab_unref(vocab);
  return status;
}

/* Characters of a text, or names of classes. */
static int count_label(const capl_source *source, const char *text)
{
  if (capl_vocab_is_symbols(source->vocab)) return unicode_count(text);
  int n = !source->several || *text;
  for (; source->several && *text; text++) n += *text == source->several;
  return n;
}

capl_status capl_source_fit_length(capl_source *source)
{
  int lo = 0, hi = 0;
  if (!source->ops->text) return CAPL_OK;
  for (uint32_t i = 0; i < source->count; i++) {
    const char *text = capl_source_text(source, i);
    if (!text || capl_source_check_label(source, i) != CAPL_OK) continue;
    int n = count_label(source, text);
    if (lo == 0 || n < lo) lo = n;
    if (n > hi) hi = n;
  }
  return hi ? set_labels(source, NULL, source->several ? 0 : lo, hi) : CAPL_OK;
}

const char *capl_source_title(const capl_source *source, uint32_t i, char *out, size_t room)
{
  const char *name = capl_source_name(source, i);
  if (source->ops->title) source->ops->title(source, i, out, room);
  else snprintf(out, room, "%s", name ? name : "");
  return out;
}

capl_status capl_source_encoded(capl_source *source, uint32_t i, encoded_bytes *bytes)
{
  if (!source->ops->encoded) return CAPL_FAIL(CAPL_ESTATE, "this source has no files");
  CAPL_TRY(check_id(source, i));
  return source->ops->encoded(source, i, bytes);
}

capl_status capl_source_read_with(capl_source *source, const capl_read *what, capl_image *scratch,
                                  const capl_sample *to)
{
  CAPL_TRY(check_id(source, what->id));
  return source->ops->read(source, what, scratch, to);
}

capl_status capl_source_read(capl_source *source, uint32_t epoch, uint32_t id, const capl_sample *to)
{
  capl_image scratch = {0};
  capl_status status = capl_source_read_with(source, &(capl_read){.epoch = epoch, .id = id}, &scratch, to);
  capl_image_fini(&scratch);
  return status;
}

int capl_source_fields(const capl_source *source)
{
  return source->n_fields;
}

const capl_field *capl_source_field(const capl_source *source, int i)
{
  return i >= 0 && i < source->n_fields ? &source->field[i] : NULL;
}

size_t capl_field_count(const capl_field *field)
{
  size_t n = 1;
  for (int i = 0; i < field->ndim; i++) n *= (size_t)field->size[i];
  return n;
}

size_t capl_field_bytes(const capl_field *field)
{
  return capl_field_count(field) * (field->kind == CAPL_FIELD_MASK ? 1 : sizeof(float));
}
