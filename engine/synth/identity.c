/* identity.c -- by what a cache knows the samples of a generator again: what was asked for, the fonts, and some
** samples.
**
** Options alone would not do: a later version of the program may draw another image for the same ones.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/identity.h"

#include <stdlib.h>

#include "data/image.h"
#include "data/hash64.h"
#include "synth/captcha.h"

/* ---- what was asked for ---------------------------------------------------------------------- */

/* Value by value: what lies between them in memory is nobody's. */
static uint64_t mix_range(uint64_t h, const capl_captcha_range *range)
{
  float of[] = {range->given, range->lo, range->hi};
  return hash64_bytes(h, of, sizeof of);
}

static uint64_t mix_colours(uint64_t h, const capl_captcha_colours *colours)
{
  h = hash64_bytes(h, colours->lo, sizeof colours->lo);
  h = hash64_bytes(h, colours->hi, sizeof colours->hi);
  return hash64_text(h, colours->given ? "given" : "");
}

static uint64_t mix_option(uint64_t h, const capl_captcha_options *options, const capl_style_option *option)
{
  const void *field = (const char *)options + option->offset;
  if (option->kind == CAPL_STYLE_COLOUR) return mix_colours(h, field);
  if (option->kind != CAPL_STYLE_WORD) return mix_range(h, field);
  const char *word = *(const char *const *)field;
  return hash64_text(h, word ? word : "");
}

uint64_t identity_of_captcha(uint64_t h, const capl_captcha *gen)
{
  const capl_style_option *option;
  int of[] = {gen->length_lo, gen->length, gen->width, gen->height, gen->own_size, gen->own_dots, gen->own_fonts,
              gen->n_fonts};
  h = hash64_text(hash64_text(h, gen->preset->name), capl_vocab_text(gen->vocab));
  h = hash64_bytes(h, of, sizeof of);
  for (int i = 0; i < gen->n_members; i++) h = hash64_bytes(h, &gen->member[i]->width, sizeof gen->member[i]->width);
  h = hash64_bytes(h, gen->pick, (size_t)gen->n_pick * sizeof *gen->pick);
  for (int i = 0; (option = capl_style_option_at(i)); i++) h = mix_option(h, &gen->options, option);
  for (int i = 0; i < gen->n_fonts; i++) {
    const captcha_font *font = &gen->font[i];
    h = hash64_text(h, font->path);
    if (font->index) h = hash64_bytes(h, &font->index, sizeof font->index);
  }
  return h;
}

/* ---- what it gives here ---------------------------------------------------------------------- */

capl_status identity_of_fonts(const capl_captcha *gen, uint64_t *h)
{
  for (int i = 0; i < gen->n_fonts; i++) {
    file_bytes file;
    CAPL_TRY(file_bytes_read(gen->font[i].path, &file));
    *h = hash64_bytes(*h, file.at, file.size);
    free(file.at);
  }
  return CAPL_OK;
}

capl_status identity_of_drawn(capl_source *source, uint64_t place, uint64_t *content)
{
  *content = hash64_text(place, capl_freetype_version());
  return identity_of_samples(source, content);
}
