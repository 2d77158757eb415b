/* letters.c -- renders letters through FreeType, turned by its own exact arithmetic.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/letters.h"

#include <stdlib.h>
#include <string.h>

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_TRIGONOMETRY_H

#include "fields/unicode.h"

static uint8_t *bordered_copy(const FT_Bitmap *bitmap)
{
  size_t stride = bitmap->width + 2;
  uint8_t *copy = calloc(stride, bitmap->rows + 2);
  if (!copy) return NULL;
  for (unsigned y = 0; y < bitmap->rows; y++) {
    memcpy(copy + (y + 1) * stride + 1, bitmap->buffer + (ptrdiff_t)y * bitmap->pitch, bitmap->width);
  }
  return copy;
}

/* Hinting belongs to upright letters alone. */
static void set_turn(FT_Face face, int degrees)
{
  FT_Angle angle = (FT_Angle)degrees * 65536;
  FT_Matrix turn = {FT_Cos(angle), -FT_Sin(angle), FT_Sin(angle), FT_Cos(angle)};
  FT_Set_Transform(face, degrees ? &turn : NULL, NULL);
}

static capl_status render(FT_Face face, const char *c, int degrees, const char *path, captcha_letter *letter)
{
  FT_Int32 flags = FT_LOAD_RENDER | (degrees ? FT_LOAD_NO_HINTING : 0);
  int bytes;
  FT_ULong code = (FT_ULong)unicode_at(c, &bytes);
  if (!FT_Get_Char_Index(face, code))
    return CAPL_FAIL(CAPL_EFORMAT, "font %s has no glyph for '%s'", path, c);
  if (FT_Load_Char(face, code, flags)) return CAPL_FAIL(CAPL_EFORMAT, "font %s: cannot render '%s'", path, c);
  FT_GlyphSlot slot = face->glyph;
  if (slot->bitmap.pixel_mode != FT_PIXEL_MODE_GRAY || !slot->bitmap.width || !slot->bitmap.rows) {
    return CAPL_FAIL(CAPL_EFORMAT, "font %s: '%s' has no ink at %d px", path, c, (int)face->size->metrics.y_ppem);
  }
  *letter = (captcha_letter){
    .width = (int)slot->bitmap.width,
    .height = (int)slot->bitmap.rows,
    .left = slot->bitmap_left,
    .top = slot->bitmap_top,
    .advance = (int)((slot->linearHoriAdvance + 0x8000) >> 16),
    .coverage = bordered_copy(&slot->bitmap),
  };
  return letter->coverage ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for the letters of %s", path);
}

/* All letters of one font, in the order of captcha_letters_at. */
static capl_status render_font(FT_Face face, const char *path, int font, captcha_letters *l, const capl_vocab *symbols)
{
  captcha_letter *to = l->letter + font * l->n_sizes * l->n_turns * l->n_chars;
  for (int s = 0; s < l->n_sizes; s++) {
    if (FT_Set_Pixel_Sizes(face, (FT_UInt)l->size[s].wide, (FT_UInt)l->size[s].high)) {
      return CAPL_FAIL(CAPL_EFORMAT, "font %s: cannot be used at %d px", path, l->size[s].high);
    }
    l->ascent[font * l->n_sizes + s] = (int)(face->size->metrics.ascender >> 6);
    for (int t = 0; t < l->n_turns; t++) {
      set_turn(face, l->degrees[t]);
      for (int i = 0; i < l->n_chars; i++)
        CAPL_TRY(render(face, capl_vocab_name(symbols, i), l->degrees[t], path, to++));
    }
  }
  return CAPL_OK;
}

static capl_status render_fonts(FT_Library library, captcha_letters *l, char *const *fonts, const capl_vocab *symbols)
{
  for (int f = 0; f < l->n_fonts; f++) {
    FT_Face face;
    if (FT_New_Face(library, fonts[f], 0, &face)) {
      return CAPL_FAIL(CAPL_EFORMAT, "%s is not a font FreeType can read", fonts[f]);
    }
    capl_status status = render_font(face, fonts[f], f, l, symbols);
    FT_Done_Face(face);
    CAPL_TRY(status);
  }
  return CAPL_OK;
}

static size_t count(const captcha_letters *l)
{
  return (size_t)l->n_fonts * (size_t)l->n_sizes * (size_t)l->n_turns * (size_t)l->n_chars;
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

capl_status captcha_letters_init(captcha_letters *l, char *const *fonts, int n_fonts, const capl_vocab *symbols)
{
  l->n_fonts = n_fonts;
  l->n_chars = capl_vocab_count(symbols);
  l->letter = calloc(count(l), sizeof *l->letter);
  if (!l->letter) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the letters of %s", fonts[0]);
  FT_Library library;
  if (FT_Init_FreeType(&library)) return CAPL_FAIL(CAPL_EINTERNAL, "FreeType cannot be started");
  capl_status status = render_fonts(library, l, fonts, symbols);
  FT_Done_FreeType(library);
  return status;
}

void captcha_letters_fini(captcha_letters *l)
{
  for (size_t i = 0; l->letter && i < count(l); i++) free(l->letter[i].coverage);
  free(l->letter);
  *l = (captcha_letters){0};
}
