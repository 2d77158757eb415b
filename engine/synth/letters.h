/* letters.h -- antialiased letters of several fonts, sizes and turns, each rendered once.
**
** What the styles that draw text as it comes from the font need; the lepture style has letters of its own (glyphs.h).
** Letters of a small charset are rendered when the generator is made, those of a large one at their first use.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_LETTERS_H
#define CAPL_DATA_LETTERS_H

#include <stdint.h>

#include "capl/synth.h"
#include "synth/letter_store.h"

typedef struct captcha_renderer captcha_renderer; /* renderer.h */

enum {
  CAPTCHA_LETTER_SIZES = 8,
  CAPTCHA_SMALL_CHARSET = 256, /* symbols of a charset that is rendered when the generator is made */
};

typedef struct {
  int width, height;  /* px of the ink's bounding box */
  int left, top;      /* px from the letter's origin on the base line: to the right, and up to the first row */
  int advance;        /* px, unturned */
  uint8_t *coverage;  /* (height + 2, width + 2): the ink with a border of nothing */
} captcha_letter;

typedef struct {
  int wide, high; /* px per em */
} captcha_em;

typedef struct {
  int first_font, n_fonts; /* of the generator's */
  int n_sizes, n_turns, n_chars;
  captcha_em size[CAPTCHA_LETTER_SIZES];
  const int *degrees; /* [n_turns], counter-clockwise; borrowed */
  int ascent[CAPL_FONTS_MAX * CAPTCHA_LETTER_SIZES]; /* [font * n_sizes + size] px from the top of the line to its
                                                     ** base */
  const capl_vocab *symbols; /* one letter each; borrowed */
  letter_store *store;       /* captcha_letter by captcha_letters_place */
} captcha_letters;

/* letters: first_font, n_fonts, n_sizes, size, n_turns and degrees are set by the caller, the rest is 0. most: bytes of
** letters to keep. EFORMAT if a file is no font or lacks a symbol, ENOMEM. Finish with _fini either way. */
capl_status captcha_letters_init(captcha_letters *letters, captcha_renderer *renderer, const capl_vocab *symbols,
                                 size_t most);
void captcha_letters_fini(captcha_letters *letters);

/* Sets the sizes: at most CAPTCHA_LETTER_SIZES, evenly from lo to hi px. */
void captcha_letters_sizes(captcha_letters *letters, int lo, int hi);

/* font: counted from first_font. */
static inline size_t captcha_letters_place(const captcha_letters *l, int font, int size, int turn, int id)
{
  return (((size_t)font * (size_t)l->n_sizes + (size_t)size) * (size_t)l->n_turns + (size_t)turn) * (size_t)l->n_chars +
         (size_t)id;
}

/* Renders the letter of a place and puts it into the store. *letter: borrowed, until captcha_renderer_drop at least. */
capl_status captcha_letters_render(const captcha_letters *letters, captcha_renderer *renderer, size_t place,
                                   const captcha_letter **letter);

#endif
