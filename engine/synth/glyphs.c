/* glyphs.c -- renders the letters of a font through FreeType.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "synth/glyphs.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ft2build.h>
#include FT_FREETYPE_H

#include "capl/synth.h"
#include "fields/unicode.h"
#include "synth/fonts.h"

enum { DROID_ASCENT = 2163, DROID_EM = 2048 }; /* units of Droid Sans Mono */

static int clamp(int value, int last)
{
  return value < 0 ? 0 : value > last ? last : value;
}

enum { STRIP_W = 8, STRIP_APART = 2, STRIP_SLACK = 8 }; /* px; rows */

/* Rows and columns at the bitmap's edge may be blank; the ink is what lies within them. */
static bool blank_column(const FT_Bitmap *bitmap, int x)
{
  for (int y = 0; y < (int)bitmap->rows; y++) {
    if (bitmap->buffer[(ptrdiff_t)y * bitmap->pitch + x]) return false;
  }
  return true;
}

static bool blank_row(const FT_Bitmap *bitmap, int y)
{
  for (int x = 0; x < (int)bitmap->width; x++) {
    if (bitmap->buffer[(ptrdiff_t)y * bitmap->pitch + x]) return false;
  }
  return true;
}

static void trim(FT_Bitmap *bitmap)
{
  while (bitmap->rows > 1 && blank_row(bitmap, 0)) bitmap->rows--, bitmap->buffer += bitmap->pitch;
  while (bitmap->rows > 1 && blank_row(bitmap, (int)bitmap->rows - 1)) bitmap->rows--;
  while (bitmap->width > 1 && blank_column(bitmap, 0)) bitmap->width--, bitmap->buffer++;
  while (bitmap->width > 1 && blank_column(bitmap, (int)bitmap->width - 1)) bitmap->width--;
}

/* A pixel less 128; beyond the bitmap that of the edge. */
static int8_t pixel_less(const FT_Bitmap *bitmap, int x, int y)
{
  const uint8_t *row = bitmap->buffer + (ptrdiff_t)clamp(y, (int)bitmap->rows - 1) * bitmap->pitch;
  return (int8_t)(row[clamp(x, (int)bitmap->width - 1)] - 128);
}

static bool set_strips(capl_glyph *glyph, const FT_Bitmap *bitmap)
{
  int n = (glyph->ink_w + 2) / STRIP_APART + 1, rows = glyph->ink_h + 2 + STRIP_SLACK;
  glyph->strip_bytes = rows * STRIP_W;
  glyph->strips = malloc((size_t)n * (size_t)glyph->strip_bytes);
  if (!glyph->strips) return false;
  int8_t *to = glyph->strips;
  for (int strip = 0; strip < n; strip++) {
    for (int y = 0; y < rows; y++) {
      for (int x = 0; x < STRIP_W; x++) *to++ = pixel_less(bitmap, strip * STRIP_APART + x - 1, y - 1);
    }
  }
  return true;
}

/* px from the top of the line to the base of its letters. */
static int line_ascent(FT_Face face, const char *path)
{
  const char *slash = strrchr(path, '/');
  if (strcmp(slash ? slash + 1 : path, CAPL_FONT_NOTO_MONO) == 0)
    return (face->size->metrics.y_ppem * DROID_ASCENT + DROID_EM - 1) / DROID_EM;
  return (int)((face->size->metrics.ascender + 63) >> 6);
}

static capl_status render(FT_Face face, const char *c, const char *path, capl_glyph *glyph)
{
  int bytes;
  FT_ULong code = (FT_ULong)unicode_at(c, &bytes);
  if (!FT_Get_Char_Index(face, code)) return CAPL_FAIL(CAPL_EFORMAT, "font %s has no glyph for '%s'", path, c);
  if (FT_Load_Char(face, code, FT_LOAD_RENDER))
    return CAPL_FAIL(CAPL_EFORMAT, "font %s: cannot render '%s'", path, c);
  FT_GlyphSlot slot = face->glyph;
  if (slot->bitmap.pixel_mode != FT_PIXEL_MODE_GRAY || !slot->bitmap.width || !slot->bitmap.rows) {
    return CAPL_FAIL(CAPL_EFORMAT, "font %s: '%s' has no ink", path, c);
  }
  int advance = (int)(slot->advance.x >> 6), right = slot->bitmap_left + (int)slot->bitmap.width;
  glyph->cell_w = (advance > right ? advance : right) + 1;
  glyph->cell_h = line_ascent(face, path) - slot->bitmap_top + (int)slot->bitmap.rows + 1;
  FT_Bitmap ink = slot->bitmap;
  trim(&ink);
  glyph->ink_w = (int)ink.width;
  glyph->ink_h = (int)ink.rows;
  return set_strips(glyph, &ink) ? CAPL_OK : CAPL_FAIL(CAPL_ENOMEM, "no memory for the glyphs of %s", path);
}

static capl_status render_size(FT_Face face, int px, const capl_vocab *symbols, const char *path, capl_glyph *glyph,
                               int *space_w)
{
  if (FT_Set_Pixel_Sizes(face, 0, (FT_UInt)px) || FT_Load_Char(face, ' ', FT_LOAD_DEFAULT)) {
    return CAPL_FAIL(CAPL_EFORMAT, "font %s: cannot be used at %d px", path, px);
  }
  *space_w = (int)(face->glyph->advance.x >> 6) + 1;
  for (int i = 0; i < capl_vocab_count(symbols); i++)
    CAPL_TRY(render(face, capl_vocab_name(symbols, i), path, &glyph[i]));
  return CAPL_OK;
}

static capl_status render_all(FT_Library library, capl_glyphs *glyphs, const capl_vocab *symbols, const int *sizes_px)
{
  FT_Face face;
  if (FT_New_Face(library, glyphs->path, 0, &face))
    return CAPL_FAIL(CAPL_EFORMAT, "%s is not a font FreeType can read", glyphs->path);
  capl_status status = CAPL_OK;
  for (int s = 0; s < glyphs->n_sizes && status == CAPL_OK; s++) {
    status = render_size(face, sizes_px[s], symbols, glyphs->path, glyphs->glyph + s * glyphs->n_chars,
                         &glyphs->space_w[s]);
  }
  FT_Done_Face(face);
  return status;
}

capl_status capl_glyphs_init(capl_glyphs *glyphs, const char *path, const capl_vocab *symbols, const int *sizes_px,
                             int n_sizes)
{
  *glyphs = (capl_glyphs){.n_sizes = n_sizes, .n_chars = capl_vocab_count(symbols)};
  glyphs->path = strdup(path);
  glyphs->glyph = calloc((size_t)(n_sizes * glyphs->n_chars), sizeof *glyphs->glyph);
  glyphs->space_w = calloc((size_t)n_sizes, sizeof *glyphs->space_w);
  if (!glyphs->path || !glyphs->glyph || !glyphs->space_w)
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for the glyphs of %s", path);
  FT_Library library;
  if (FT_Init_FreeType(&library)) return CAPL_FAIL(CAPL_EINTERNAL, "FreeType cannot be started");
  capl_status status = render_all(library, glyphs, symbols, sizes_px);
  FT_Done_FreeType(library);
  return status;
}

const char *capl_freetype_version(void)
{
  static _Thread_local char text[32];
  FT_Library library;
  int major = 0, minor = 0, patch = 0;
  if (FT_Init_FreeType(&library) == 0) {
    FT_Library_Version(library, &major, &minor, &patch);
    FT_Done_FreeType(library);
  }
  snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
  return text;
}

void capl_glyphs_fini(capl_glyphs *glyphs)
{
  if (glyphs->glyph) {
    for (int i = 0; i < glyphs->n_sizes * glyphs->n_chars; i++) free(glyphs->glyph[i].strips);
  }
  free(glyphs->glyph);
  free(glyphs->space_w);
  free(glyphs->path);
  *glyphs = (capl_glyphs){0};
}
