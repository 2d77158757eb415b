/* letters.h -- antialiased letters of several fonts, sizes and turns, rendered once.
**
** What the styles that draw text as it comes from the font need; the lepture style has letters of its own (glyphs.h).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_LETTERS_H
#define CAPL_DATA_LETTERS_H

#include <stdint.h>

#include "capl/synth.h"

enum { CAPTCHA_LETTER_SIZES = 8 };

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
  int n_fonts, n_sizes, n_turns, n_chars;
  captcha_em size[CAPTCHA_LETTER_SIZES];
  const int *degrees; /* [n_turns], counter-clockwise; borrowed */
  int ascent[CAPL_FONTS_MAX * CAPTCHA_LETTER_SIZES]; /* [font * n_sizes + size] px from the top of the line to its
                                                     ** base */
  captcha_letter *letter;
} captcha_letters;

/* letters: n_sizes, size, n_turns and degrees are set by the caller, the rest is 0. fonts: paths. symbols: one letter
** each. EFORMAT if a file is no font or lacks a character, ENOMEM. Finish with _fini either way. */
capl_status captcha_letters_init(captcha_letters *letters, char *const *fonts, int n_fonts, const capl_vocab *symbols);
void captcha_letters_fini(captcha_letters *letters);

/* Sets the sizes: at most CAPTCHA_LETTER_SIZES, evenly from lo to hi px. */
void captcha_letters_sizes(captcha_letters *letters, int lo, int hi);

static inline const captcha_letter *captcha_letters_at(const captcha_letters *l, int font, int size, int turn, int id)
{
  return &l->letter[((font * l->n_sizes + size) * l->n_turns + turn) * l->n_chars + id];
}

#endif
