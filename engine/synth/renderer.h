/* renderer.h -- what one thread renders letters with: the generator's fonts as FreeType has them open.
**
** FreeType's objects belong to one thread at a time, so each thread has its own; a font is opened when its first letter
** is rendered.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SYNTH_RENDERER_H
#define CAPL_SYNTH_RENDERER_H

#include <ft2build.h>
#include FT_FREETYPE_H

#include "capl/synth.h"
#include "synth/fonts.h"
#include "synth/letter_store.h"

typedef struct captcha_renderer {
  const captcha_font *font; /* borrowed from the generator */
  FT_Library library;
  FT_Face face[CAPL_FONTS_MAX];
  void *loose[CAPL_LABEL_MAX]; /* letters of the image in the making that the store had no room for */
  int n_loose;
} captcha_renderer;

void captcha_renderer_init(captcha_renderer *renderer, const captcha_font *fonts);
void captcha_renderer_fini(captcha_renderer *renderer);

/* EFORMAT if the file is no font. */
capl_status captcha_renderer_open(captcha_renderer *renderer, int font, FT_Face *face);
/* The same at a size; EFORMAT if the font cannot have it. wide: 0 = as high. */
capl_status captcha_renderer_size(captcha_renderer *renderer, int font, int wide, int high, FT_Face *face);
/* A symbol's glyph as a bitmap in face->glyph. EFORMAT if it has no ink. */
capl_status captcha_renderer_load(captcha_renderer *renderer, int font, const char *symbol, FT_Int32 flags);

/* Gives a letter to the store; one that it has no room for lives until _drop. Returns the letter to use. */
void *captcha_renderer_keep(captcha_renderer *renderer, letter_store *store, size_t i, void *letter, size_t bytes);
void captcha_renderer_drop(captcha_renderer *renderer); /* after each image */

/* Every font has a glyph for every symbol: EFORMAT with the first that one lacks, how many it lacks, and what to do. */
capl_status captcha_fonts_check(captcha_renderer *renderer, int first_font, int n_fonts, const capl_vocab *symbols);

#endif
