/* identity.c -- by what a cache knows the samples of a generator again: what was asked for, the fonts, and some samples.
**
** Options alone would not do: a later version of the program may draw another image for the same ones.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/identity.h"

#include <stdio.h>
#include <stdlib.h>

#include "synth/captcha.h"
#include "data/image.h"
#include "data/mix.h"

enum { DRAWN = 4 }; /* samples that are looked at */

/* ---- what was asked for ---------------------------------------------------------------------- */

/* Value by value: what lies between them in memory is nobody's. */
static uint64_t mix_range(uint64_t h, const capl_captcha_range *range)
{
  float of[] = {range->given, range->lo, range->hi};
  return mix_bytes(h, of, sizeof of);
}

static uint64_t mix_colours(uint64_t h, const capl_captcha_colours *colours)
{
  h = mix_bytes(h, colours->lo, sizeof colours->lo);
  h = mix_bytes(h, colours->hi, sizeof colours->hi);
  return mix_text(h, colours->given ? "given" : "");
}

static uint64_t mix_option(uint64_t h, const capl_captcha_options *options, const capl_style_option *option)
{
  const void *field = (const char *)options + option->offset;
  if (option->kind == CAPL_STYLE_COLOUR) return mix_colours(h, field);
  if (option->kind != CAPL_STYLE_WORD) return mix_range(h, field);
  const char *word = *(const char *const *)field;
  return mix_text(h, word ? word : "");
}

uint64_t identity_of_captcha(uint64_t h, const capl_captcha *gen)
{
  const capl_style_option *option;
  int of[] = {gen->length_lo, gen->length, gen->width, gen->height, gen->own_size, gen->own_dots, gen->own_fonts, gen->n_fonts};
  h = mix_text(mix_text(h, gen->preset->name), gen->charset);
  h = mix_bytes(h, of, sizeof of);
  for (int i = 0; i < gen->n_members; i++) h = mix_bytes(h, &gen->member[i]->width, sizeof gen->member[i]->width);
  h = mix_bytes(h, gen->pick, (size_t)gen->n_pick);
  for (int i = 0; (option = capl_style_option_at(i)); i++) h = mix_option(h, &gen->options, option);
  for (int i = 0; i < gen->n_fonts; i++) h = mix_text(h, gen->font[i]);
  return h;
}

uint64_t identity_of_form(uint64_t h, const capl_source *source)
{
  uint32_t of[] = {source->count, (uint32_t)source->width, (uint32_t)source->height, (uint32_t)source->channels, (uint32_t)source->length};
  return mix_bytes(h, of, sizeof of);
}

/* ---- what it gives here ---------------------------------------------------------------------- */

capl_status identity_of_fonts(const capl_captcha *gen, uint64_t *h)
{
  for (int i = 0; i < gen->n_fonts; i++) {
    file_bytes file;
    CAPL_TRY(file_bytes_read(gen->font[i], &file));
    *h = mix_bytes(*h, file.at, file.size);
    free(file.at);
  }
  return CAPL_OK;
}

static uint64_t mix_sample(uint64_t h, const capl_source *source, const capl_sample *s)
{
  h = mix_bytes(h, s->pixels, (size_t)source->width * (size_t)source->height * (size_t)source->channels);
  h = mix_bytes(h, s->labels, (size_t)source->length * sizeof *s->labels);
  for (int i = 0; i < source->n_fields; i++) h = mix_bytes(h, s->field[i], capl_field_bytes(&source->field[i]));
  return h;
}

static capl_status make_room(const capl_source *source, capl_sample *s)
{
  s->pixels = calloc((size_t)source->width * (size_t)source->height, (size_t)source->channels);
  s->labels = calloc((size_t)source->length + 1, sizeof *s->labels);
  bool fine = s->pixels && s->labels;
  for (int i = 0; i < source->n_fields; i++) fine = (s->field[i] = calloc(1, capl_field_bytes(&source->field[i]))) && fine;
  return fine ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for a sample");
}

static void free_room(const capl_source *source, capl_sample *s)
{
  free(s->pixels);
  free(s->labels);
  for (int i = 0; i < source->n_fields; i++) free(s->field[i]);
}

capl_status identity_of_drawn(capl_source *source, uint64_t place, uint64_t *content)
{
  capl_sample sample = {0};
  *content = mix_text(place, capl_freetype_version());
  capl_status status = make_room(source, &sample);
  for (uint32_t i = 0; i < DRAWN && i < source->count && status == CAPL_OK; i++) {
    status = capl_source_read(source, 0, i, &sample);
    if (status == CAPL_OK) *content = mix_sample(*content, source, &sample);
  }
  free_room(source, &sample);
  return status;
}

/* ---- of any source --------------------------------------------------------------------------- */

/* Which samples of its root a subset has. */
static uint64_t mix_chosen(uint64_t h, capl_source *source)
{
  for (uint32_t i = 0; i < source->count; i++) {
    uint32_t id = i;
    source->ops->root(source, &id);
    h = mix_bytes(h, &id, sizeof id);
  }
  return h;
}

capl_status capl_source_hash(capl_source *source, char hash[CAPL_SOURCE_HASH_TEXT])
{
  uint32_t first = 0;
  capl_source *root = source->ops->root && source->count ? source->ops->root(source, &first) : source;
  uint64_t place = identity_of_form(0, root), content;
  if (root->ops->identity)
    CAPL_TRY(root->ops->identity(root, &place, &content));
  else
    CAPL_TRY(identity_of_drawn(root, place, &content));
  if (root != source) content = mix_chosen(content, source);
  snprintf(hash, CAPL_SOURCE_HASH_TEXT, "%016llx", (unsigned long long)content);
  return CAPL_OK;
}
