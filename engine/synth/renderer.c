/* renderer.c -- fonts opened through FreeType, and what they lack.
** SPDX-License-Identifier: Apache-2.0
*/
#include "synth/renderer.h"

#include <stdio.h>
#include <stdlib.h>

#include "fields/unicode.h"

void captcha_renderer_init(captcha_renderer *r, const captcha_font *fonts)
{
  *r = (captcha_renderer){.font = fonts};
}

void captcha_renderer_fini(captcha_renderer *r)
{
  captcha_renderer_drop(r);
  for (int i = 0; i < CAPL_FONTS_MAX; i++)
    if (r->face[i]) FT_Done_Face(r->face[i]);
  if (r->library) FT_Done_FreeType(r->library);
  *r = (captcha_renderer){0};
}

capl_status captcha_renderer_open(captcha_renderer *r, int font, FT_Face *face)
{
  const captcha_font *f = &r->font[font];
  FT_Error why = 0;
  if (!r->library) why = FT_Init_FreeType(&r->library);
  if (!why && !r->face[font])
    why = FT_New_Memory_Face(r->library, f->bytes, (FT_Long)f->size, f->index, &r->face[font]);
  if (!r->library || why == FT_Err_Out_Of_Memory) return CAPL_FAIL(CAPL_ENOMEM, "font %s: no memory", f->path);
  if (why) {
    if (!f->index) return CAPL_FAIL(CAPL_EFORMAT, "%s is not a font FreeType can read", f->path);
    return CAPL_FAIL(CAPL_EFORMAT, "%s has no font number %d that FreeType can read", f->path, f->index);
  }
  *face = r->face[font];
  return CAPL_OK;
}

/* A font whose size is set anew runs its program for it anew. */
static bool has_size(const FT_Face face, int wide, int high)
{
  return face->size->metrics.y_ppem == high && face->size->metrics.x_ppem == (wide ? wide : high);
}

capl_status captcha_renderer_size(captcha_renderer *r, int font, int wide, int high, FT_Face *face)
{
  CAPL_TRY(captcha_renderer_open(r, font, face));
  FT_Error why = has_size(*face, wide, high) ? 0 : FT_Set_Pixel_Sizes(*face, (FT_UInt)wide, (FT_UInt)high);
  if (why == FT_Err_Out_Of_Memory) return CAPL_FAIL(CAPL_ENOMEM, "font %s: no memory", r->font[font].path);
  if (why)
    return CAPL_FAIL(CAPL_EFORMAT, "font %s: cannot be used at %d px", r->font[font].path, high);
  return CAPL_OK;
}

/* Bitmaps that a font brings along for small sizes are not antialiased. */
capl_status captcha_renderer_load(captcha_renderer *r, int font, const char *symbol, FT_Int32 flags)
{
  int bytes;
  const char *path = r->font[font].path;
  FT_Face face = r->face[font];
  flags |= FT_LOAD_RENDER | FT_LOAD_NO_BITMAP;
  FT_Error why = FT_Load_Char(face, (FT_ULong)unicode_at(symbol, &bytes), flags);
  if (why == FT_Err_Out_Of_Memory) return CAPL_FAIL(CAPL_ENOMEM, "font %s: no memory for '%s'", path, symbol);
  if (why)
    return CAPL_FAIL(CAPL_EFORMAT, "font %s: cannot render '%s'", path, symbol);
  const FT_Bitmap *ink = &face->glyph->bitmap;
  if (ink->pixel_mode == FT_PIXEL_MODE_GRAY && ink->width && ink->rows) return CAPL_OK;
  return CAPL_FAIL(CAPL_EFORMAT, "font %s: '%s' has no ink at %d px", path, symbol, (int)face->size->metrics.y_ppem);
}

void *captcha_renderer_keep(captcha_renderer *r, letter_store *store, size_t i, void *letter, size_t bytes)
{
  bool kept;
  void *use = letter_store_put(store, i, letter, bytes, &kept);
  if (!kept) r->loose[r->n_loose++] = use;
  return use;
}

void captcha_renderer_drop(captcha_renderer *r)
{
  while (r->n_loose) free(r->loose[--r->n_loose]);
}

/* ---- what fonts lack ------------------------------------------------------------------------- */

static capl_status check_font(captcha_renderer *r, int font, const capl_vocab *symbols)
{
  FT_Face face;
  int32_t n = capl_vocab_count(symbols), lacking = 0;
  const char *first = NULL;
  int bytes;
  CAPL_TRY(captcha_renderer_open(r, font, &face));
  for (int32_t id = n - 1; id >= 0; id--) {
    const char *symbol = capl_vocab_name(symbols, id);
    if (FT_Get_Char_Index(face, (FT_ULong)unicode_at(symbol, &bytes))) continue;
    first = symbol;
    lacking++;
  }
  if (!lacking) return CAPL_OK;
  int32_t code = unicode_at(first, &bytes);
  CAPL_FAIL(CAPL_EFORMAT, "font %s has no glyph for '%s' (U+%04X); it lacks %d of the %d characters of the charset",
            r->font[font].path, first, (unsigned)code, lacking, n);
  captcha_fonts_hint(code);
  return CAPL_EFORMAT;
}

capl_status captcha_fonts_check(captcha_renderer *r, int first_font, int n_fonts, const capl_vocab *symbols)
{
  for (int f = first_font; f < first_font + n_fonts; f++) CAPL_TRY(check_font(r, f, symbols));
  return CAPL_OK;
}
