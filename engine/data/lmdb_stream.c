/* lmdb_stream.c -- takes in what the reading child says of a database.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/lmdb_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void lmdb_stream_fini(lmdb_stream *s)
{
  byte_store_fini(&s->bytes);
  texts_fini(&s->label);
  free(s->at);
  free(s->json);
  s->at = NULL;
  s->json = NULL;
}

/* The child's own fault, or that of whoever speaks in its place. */
static capl_status nonsense(const lmdb_stream *s)
{
  return CAPL_FAIL(CAPL_EFORMAT,
                   "%s: the LMDB reader process sent an invalid message after record %u; the file is damaged", s->where,
                   s->count);
}

static capl_status bad_record(const lmdb_stream *s, const char *what)
{
  return CAPL_FAIL(CAPL_EFORMAT, "%s: record %u: %s", s->where, s->frame.number, what);
}

static capl_status reserve(lmdb_stream *s)
{
  if (LMDB_KEPT * s->count + LMDB_KEPT < s->places) return CAPL_OK;
  uint32_t places = s->places + s->places / 2 + 256;
  uint64_t *grown = realloc(s->at, places * sizeof *grown);
  if (!grown) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for %u records", s->where, places / LMDB_KEPT);
  if (!s->at) grown[0] = 0;
  s->at = grown;
  s->places = places;
  return CAPL_OK;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static capl_status begin_count(lmdb_stream *s)
{
  if (s->counted || s->frame.number > LMDB_COUNT_MAX) return nonsense(s);
  if (s->frame.number == 0) return CAPL_FAIL(CAPL_EVALUE, "%s: the database is empty: num-samples is 0", s->where);
  s->counted = true;
  s->promised = s->frame.number;
  return CAPL_OK;
}

static bool wants_mask(const lmdb_stream *s) { return s->wanted && file_fields_has_mask(s->wanted); }
static bool wants_target(const lmdb_stream *s) { return s->wanted && target_files_has(&s->wanted->target); }
static bool wants_numbers(const lmdb_stream *s) { return s->wanted && s->wanted->n_numbers > 0; }

static capl_status no_part(const lmdb_stream *s, const char *part, const char *option)
{
  CAPL_FAIL(CAPL_EFORMAT, "%s: record %u: there is no %s-%09u", s->where, s->frame.number, part, s->frame.number);
  capl_error_hint("%s needs one for each record; 'capl data pack' with the options of the files writes them", option);
  return CAPL_EFORMAT;
}

/* Mask, target image and fields. */
static capl_status begin_parts(lmdb_stream *s)
{
  const lmdb_frame *f = &s->frame;
  if (f->mask > LMDB_IMAGE_MAX) return bad_record(s, "the mask has more than 64 MiB");
  if (f->target > LMDB_IMAGE_MAX) return bad_record(s, "the target image has more than 64 MiB");
  if (f->fields > LMDB_FIELDS_MAX) return bad_record(s, "the fields have more than 1 MiB");
  if (wants_mask(s) && !f->mask) return no_part(s, "mask", "mask");
  if (wants_target(s) && !f->target) return no_part(s, "target", "target_image");
  if (wants_numbers(s) && !f->fields) return no_part(s, "fields", s->wanted->numbers[0].of.name);
  s->mask_left = f->mask;
  s->target_left = f->target;
  s->fields_left = f->fields;
  s->json_length = 0;
  if (!wants_numbers(s)) return CAPL_OK;
  char *json = realloc(s->json, f->fields);
  if (!json) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for record %u", s->where, f->number);
  s->json = json;
  return CAPL_OK;
}

static capl_status begin_record(lmdb_stream *s)
{
  const lmdb_frame *f = &s->frame;
  if (!s->counted || f->number != s->count + 1 || f->number > s->promised) return nonsense(s);
  if (f->image == 0) return bad_record(s, "the image is empty");
  if (f->image > LMDB_IMAGE_MAX) return bad_record(s, "the image has more than 64 MiB");
  bool labelled = f->label != LMDB_NO_LABEL;
  if (labelled && f->label > LMDB_LABEL_MAX) return bad_record(s, "the label is longer than 4095 bytes");
  if (s->count > 0 && labelled != (texts_get(&s->label, 0) != NULL))
    return bad_record(s, labelled ? "has a label, the records before it have none"
                      : "has no label, the records before it have one");
  CAPL_TRY(reserve(s));
  s->image_left = f->image;
  s->label_left = labelled ? f->label : 0;
  return begin_parts(s);
}

static capl_status begin_frame(lmdb_stream *s)
{
  s->text_length = 0;
  switch (s->frame.kind) {
  case LMDB_COUNT: return begin_count(s);
  case LMDB_RECORD: return begin_record(s);
  case LMDB_ERROR:
    if (s->frame.label == 0 || s->frame.label > LMDB_LABEL_MAX) return nonsense(s);
    s->label_left = s->frame.label;
    return CAPL_OK;
  case LMDB_END:
    if (!s->counted || s->count != s->promised || s->frame.number != s->promised) return nonsense(s);
    s->ended = true;
    return CAPL_OK;
  default: return nonsense(s);
  }
}

static capl_status check_label(const lmdb_stream *s)
{
  if (strlen(s->text) != s->text_length) return bad_record(s, "the label holds a NUL byte");
  return capl_text_is_utf8(s->text) ? CAPL_OK : bad_record(s, "the label is no UTF-8");
}

static capl_status add_numbers(lmdb_stream *s)
{
  char where[4200];
  JSON_OWNED *object = NULL;
  if (!wants_numbers(s)) return CAPL_OK;
  snprintf(where, sizeof where, "%s: fields-%09u", s->where, s->frame.number);
  CAPL_TRY(json_read(&(json_rules){.name = where}, s->json, s->json_length, &object));
  for (int k = 0; k < s->wanted->n_numbers; k++)
    CAPL_TRY(field_numbers_add_object(&s->wanted->numbers[k], where, object));
  return CAPL_OK;
}

static capl_status end_record(lmdb_stream *s)
{
  bool labelled = s->frame.label != LMDB_NO_LABEL;
  if (labelled) CAPL_TRY(check_label(s));
  CAPL_TRY(texts_add(&s->label, labelled ? s->text : NULL));
  uint64_t *at = s->at + LMDB_KEPT * (size_t)s->count++;
  at[1] = at[0] + s->frame.image;
  at[2] = at[1] + (wants_mask(s) ? s->frame.mask : 0);
  at[3] = s->bytes.size;
  return add_numbers(s);
}

static capl_status end_frame(lmdb_stream *s)
{
  char shown[600];
  s->text[s->text_length] = '\0';
  if (s->frame.kind == LMDB_RECORD) return end_record(s);
  if (s->frame.kind != LMDB_ERROR) return CAPL_OK;
  capl_text_show(shown, sizeof shown, s->text, false);
  return CAPL_FAIL(CAPL_EFORMAT, "%s: %s", s->where, shown);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
  return a < b ? a : b;
}

/* Takes what belongs to the part at hand. Returns how much that was in *taken. */
static capl_status take(lmdb_stream *s, const uint8_t *bytes, size_t size, size_t *taken)
{
  if (s->have < sizeof s->frame) {
    *taken = least(size, sizeof s->frame - s->have);
    memcpy((char *)&s->frame + s->have, bytes, *taken);
    s->have += (uint32_t)*taken;
    return s->have == sizeof s->frame ? begin_frame(s) : CAPL_OK;
  }
  if (s->image_left) {
    *taken = least(size, s->image_left);
    s->image_left -= (uint32_t)*taken;
    return byte_store_append(&s->bytes, bytes, *taken);
  }
  if (s->label_left) {
    *taken = least(size, s->label_left);
    memcpy(s->text + s->text_length, bytes, *taken);
    s->text_length += (uint32_t)*taken;
    s->label_left -= (uint32_t)*taken;
    return CAPL_OK;
  }
  if (s->mask_left) {
    *taken = least(size, s->mask_left);
    s->mask_left -= (uint32_t)*taken;
    return wants_mask(s) ? byte_store_append(&s->bytes, bytes, *taken) : CAPL_OK;
  }
  if (s->target_left) {
    *taken = least(size, s->target_left);
    s->target_left -= (uint32_t)*taken;
    return wants_target(s) ? byte_store_append(&s->bytes, bytes, *taken) : CAPL_OK;
  }
  *taken = least(size, s->fields_left);
  if (wants_numbers(s)) memcpy(s->json + s->json_length, bytes, *taken);
  s->json_length += (uint32_t)*taken;
  s->fields_left -= (uint32_t)*taken;
  return CAPL_OK;
}

static bool is_whole(const lmdb_stream *s)
{
  return s->have == sizeof s->frame && !s->image_left && !s->label_left && !s->mask_left && !s->target_left &&
         !s->fields_left;
}

capl_status lmdb_stream_feed(lmdb_stream *s, const void *bytes, size_t size)
{
  for (const uint8_t *p = bytes; size > 0;) {
    size_t taken = 0;
    if (s->ended) return nonsense(s);
    CAPL_TRY(take(s, p, size, &taken));
    p += taken;
    size -= taken;
    if (!is_whole(s)) continue;
    CAPL_TRY(end_frame(s));
    s->have = 0;
  }
  return CAPL_OK;
}
