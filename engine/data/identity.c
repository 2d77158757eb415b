/* identity.c -- by what a cache knows the samples of a source again: their form, and the first of them.
** SPDX-License-Identifier: Apache-2.0
*/
#include "data/identity.h"

#include <stdio.h>
#include <stdlib.h>

#include "data/hash64.h"

enum { LOOKED_AT = 4 }; /* samples */

uint64_t identity_of_form(uint64_t h, const capl_source *source)
{
  uint32_t of[] = {source->count, (uint32_t)source->width, (uint32_t)source->height, (uint32_t)source->channels,
                   (uint32_t)source->length};
  return hash64_bytes(h, of, sizeof of);
}

static uint64_t mix_sample(uint64_t h, const capl_source *source, const capl_sample *s)
{
  h = hash64_bytes(h, s->pixels, (size_t)source->width * (size_t)source->height * (size_t)source->channels);
  h = hash64_bytes(h, s->labels, (size_t)source->length * sizeof *s->labels);
  for (int i = 0; i < source->n_fields; i++) h = hash64_bytes(h, s->field[i], capl_field_bytes(&source->field[i]));
  return h;
}

static capl_status make_room(const capl_source *source, capl_sample *s)
{
  s->pixels = calloc((size_t)source->width * (size_t)source->height, (size_t)source->channels);
  s->labels = calloc((size_t)source->length + 1, sizeof *s->labels);
  bool fine = s->pixels && s->labels;
  for (int i = 0; i < source->n_fields; i++)
    fine = (s->field[i] = calloc(1, capl_field_bytes(&source->field[i]))) && fine;
  return fine ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a sample");
}

static void free_room(const capl_source *source, capl_sample *s)
{
  free(s->pixels);
  free(s->labels);
  for (int i = 0; i < source->n_fields; i++) free(s->field[i]);
}

capl_status identity_of_samples(capl_source *source, uint64_t *h)
{
  capl_sample sample = {0};
  capl_status status = make_room(source, &sample);
  for (uint32_t i = 0; i < LOOKED_AT && i < source->count && status == CAPL_OK; i++) {
    status = capl_source_read(source, 0, i, &sample);
    if (status == CAPL_OK) *h = mix_sample(*h, source, &sample);
  }
  free_room(source, &sample);
  return status;
}

/* Which samples of its root a subset has. */
static uint64_t mix_chosen(uint64_t h, capl_source *source)
{
  for (uint32_t i = 0; i < source->count; i++) {
    uint32_t id = i;
    source->ops->root(source, &id);
    h = hash64_bytes(h, &id, sizeof id);
  }
  return h;
}

capl_status capl_source_hash(capl_source *source, char hash[CAPL_SOURCE_HASH_TEXT])
{
  uint32_t first = 0;
  capl_source *root = source->ops->root && source->count ? source->ops->root(source, &first) : source;
  uint64_t place = identity_of_form(0, root), content = place;
  CAPL_TRY(root->ops->identity ? root->ops->identity(root, &place, &content) : identity_of_samples(root, &content));
  if (root != source) content = mix_chosen(content, source);
  snprintf(hash, CAPL_SOURCE_HASH_TEXT, "%016llx", (unsigned long long)content);
  return CAPL_OK;
}
