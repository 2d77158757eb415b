/* letters.c -- renders letters through FreeType, turned by its own exact arithmetic.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/letters.h"

#include <stdlib.h>
#include <string.h>

#include "synth/renderer.h"
#include FT_TRIGONOMETRY_H

/* A letter and its coverage in one block. */
static captcha_letter *new_letter(const FT_GlyphSlot slot, size_t *bytes)
{
  const FT_Bitmap *bitmap = &slot->bitmap;
  size_t stride = bitmap->width + 2;
  *bytes = sizeof(captcha_letter) + stride * (bitmap->rows + 2);
  captcha_letter *letter = calloc(1, *bytes);
  if (!letter) return NULL;
  *letter = (captcha_letter){
    .width = (int)bitmap->width,
    .height = (int)bitmap->rows,
    .left = slot->bitmap_left,
    .top = slot->bitmap_top,
    .advance = (int)((slot->linearHoriAdvance + 0x8000) >> 16),
    .coverage = (uint8_t *)(letter + 1),
  };
  for (unsigned y = 0; y < bitmap->rows; y++)
    memcpy(letter->coverage + (y + 1) * stride + 1, bitmap->buffer + (ptrdiff_t)y * bitmap->pitch, bitmap->width);
  return letter;
}

/* Hinting belongs to upright letters alone. */
static void set_turn(FT_Face face, int degrees)
{
  FT_Angle angle = (FT_Angle)degrees * 65536;
  FT_Matrix turn = {FT_Cos(angle), -FT_Sin(angle), FT_Sin(angle), FT_Cos(angle)};
  FT_Set_Transform(face, degrees ? &turn : NULL, NULL);
}

capl_status captcha_letters_render(const captcha_letters *l, captcha_renderer *r, size_t place,
                                   const captcha_letter **letter)
{
  size_t id = place % (size_t)l->n_chars, row = place / (size_t)l->n_chars, bytes;
  int turn = (int)(row % (size_t)l->n_turns), sized = (int)(row / (size_t)l->n_turns), size = sized % l->n_sizes;
  int font = l->first_font + sized / l->n_sizes, degrees = l->degrees[turn];
  FT_Face face;
  CAPL_TRY(captcha_renderer_size(r, font, l->size[size].wide, l->size[size].high, &face));
  set_turn(face, degrees);
  CAPL_TRY(captcha_renderer_load(r, font, capl_vocab_name(l->symbols, (int32_t)id), degrees ? FT_LOAD_NO_HINTING : 0));
  captcha_letter *made = new_letter(face->glyph, &bytes);
  if (!made) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the letters of %s", r->font[font].path);
  *letter = captcha_renderer_keep(r, l->store, place, made, bytes);
  return CAPL_OK;
}

static capl_status find_ascents(captcha_letters *l, captcha_renderer *r)
{
  FT_Face face;
  for (int f = 0; f < l->n_fonts; f++) {
    for (int s = 0; s < l->n_sizes; s++) {
      CAPL_TRY(captcha_renderer_size(r, l->first_font + f, l->size[s].wide, l->size[s].high, &face));
      l->ascent[f * l->n_sizes + s] = (int)(face->size->metrics.ascender >> 6);
    }
  }
  return CAPL_OK;
}

/* Until the store is full. */
static capl_status render_all(const captcha_letters *l, captcha_renderer *r)
{
  const captcha_letter *letter;
  for (size_t place = 0; place < l->store->n && !r->n_loose; place++)
    CAPL_TRY(captcha_letters_render(l, r, place, &letter));
  captcha_renderer_drop(r);
  return CAPL_OK;
}

void captcha_letters_sizes(captcha_letters *l, int lo, int hi)
{
  int n = hi - lo + 1 < CAPTCHA_LETTER_SIZES ? hi - lo + 1 : CAPTCHA_LETTER_SIZES;
  l->n_sizes = n;
  for (int i = 0; i < n; i++) {
    int size = n == 1 ? lo : lo + (hi - lo) * i / (n - 1);
    l->size[i] = (captcha_em){size, size};
  }
}

capl_status captcha_letters_init(captcha_letters *l, captcha_renderer *r, const capl_vocab *symbols, size_t most)
{
  l->symbols = symbols;
  l->n_chars = capl_vocab_count(symbols);
  l->store = calloc(1, sizeof *l->store);
  if (!l->store) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the letters of a captcha");
  CAPL_TRY(letter_store_init(l->store, captcha_letters_place(l, l->n_fonts, 0, 0, 0), most));
  CAPL_TRY(captcha_fonts_check(r, l->first_font, l->n_fonts, symbols));
  CAPL_TRY(find_ascents(l, r));
  return l->n_chars <= CAPTCHA_SMALL_CHARSET ? render_all(l, r) : CAPL_OK;
}

void captcha_letters_fini(captcha_letters *l)
{
  if (l->store) letter_store_fini(l->store);
  free(l->store);
  *l = (captcha_letters){0};
}
