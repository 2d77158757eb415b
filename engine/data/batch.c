/* batch.c -- makes one row of a batch.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/batch.h"

#include <stdlib.h>

enum { SUBSTITUTES = 16 };

capl_status row_scratch_init(row_scratch *scratch, const capl_source *source)
{
  size_t bytes = (size_t)source->width * (size_t)source->height * (size_t)source->channels;
  *scratch = (row_scratch){0};
  scratch->levels = malloc(bytes);
  scratch->augmented = malloc(bytes);
  if (!scratch->levels || !scratch->augmented) return CAPL_FAIL(CAPL_ENOMEM, "no memory for images of %zu bytes", bytes);
  return capl_augment_scratch_init(&scratch->augment, source->height, source->width, source->channels);
}

void row_scratch_fini(row_scratch *scratch)
{
  capl_image_fini(&scratch->decoded);
  free(scratch->levels);
  free(scratch->augmented);
  capl_augment_scratch_fini(&scratch->augment);
}

static uint32_t sample_at(const row_maker *maker, uint32_t epoch, uint32_t position)
{
  return maker->shuffle ? capl_shuffle(maker->seed, epoch, maker->source->count, position) : position;
}

static capl_status read_sample(const row_maker *maker, row_scratch *scratch, uint32_t epoch, uint32_t id, int32_t *labels)
{
  capl_status status = capl_source_read_with(maker->source, epoch, id, &scratch->decoded, scratch->levels, labels);
  if (status == CAPL_OK) return CAPL_OK;
  maker->on_bad(maker->context, id);
  capl_error_context("sample %u, epoch %u", id, epoch);
  if (!maker->skip && capl_source_name(maker->source, id)) capl_error_hint("on_error = \"skip\" of the loader takes other files in place of bad ones");
  return status;
}

/* Stand-ins are drawn from another permutation, so that neighbouring bad samples do not get the same one. */
static uint32_t substitute(const row_maker *maker, uint32_t epoch, uint32_t position, uint32_t attempt)
{
  uint32_t n = maker->source->count;
  uint32_t at = (uint32_t)(((uint64_t)position + attempt) % n);
  return capl_shuffle(~maker->seed, epoch, n, at);
}

static capl_status read_or_replace(const row_maker *maker, row_scratch *scratch, uint32_t epoch, uint32_t position,
                                   int32_t *labels, row_note *note)
{
  note->id = sample_at(maker, epoch, position);
  note->substituted = false;
  capl_status status = read_sample(maker, scratch, epoch, note->id, labels);
  if (!maker->skip) return status;
  for (uint32_t attempt = 1; status != CAPL_OK && attempt <= SUBSTITUTES; attempt++) {
    note->id = substitute(maker, epoch, position, attempt);
    note->substituted = true;
    status = read_sample(maker, scratch, epoch, note->id, labels);
  }
  if (status != CAPL_OK) capl_error_hint("%d samples in a row were tried in place of a bad one; all are bad", SUBSTITUTES);
  return status;
}

capl_status row_make(const row_maker *maker, row_scratch *scratch, uint32_t epoch, uint32_t position, void *image,
                     int32_t *labels, row_note *note)
{
  CAPL_TRY(read_or_replace(maker, scratch, epoch, position, labels, note));
  const capl_source *source = maker->source;
  const uint8_t *levels = scratch->levels;
  note->augmented = false;
  if (maker->augments) {
    note->augmented = capl_augment_run(&maker->augment, maker->seed, epoch, note->id, levels, &scratch->augment, scratch->augmented);
    levels = scratch->augmented;
  }
  size_t n_pixels = (size_t)source->width * (size_t)source->height;
  capl_convert(&maker->conversion, levels, n_pixels, source->channels, image);
  return CAPL_OK;
}
