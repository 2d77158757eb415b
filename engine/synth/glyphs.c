/* glyphs.c -- renders the letters of a font through FreeType.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "synth/glyphs.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "synth/renderer.h"

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

/* The ink's rows with an edge, as wide as the strips reach. */
static void copy_ink(const FT_Bitmap *bitmap, int8_t *to, int row_bytes)
{
  for (int y = 0; y < (int)bitmap->rows + 2; y++)
    for (int x = 0; x < row_bytes; x++) *to++ = pixel_less(bitmap, x - 1, y - 1);
}

static int strip_rows(int ink_h)
{
  return ink_h + 2 + STRIP_SLACK;
}

static int strip_count(int ink_w)
{
  return (ink_w + 2) / STRIP_APART + 1;
}

size_t glyph_strips_room(int side)
{
  return (size_t)strip_count(side) * (size_t)strip_rows(side) * STRIP_W;
}

void glyph_strips(const capl_glyph *glyph, int8_t *strips)
{
  int n = strip_count(glyph->ink_w), rows = strip_rows(glyph->ink_h);
  for (int strip = 0; strip < n; strip++) {
    for (int y = 0; y < rows; y++, strips += STRIP_W)
      memcpy(strips, glyph->ink + clamp(y, glyph->ink_h + 1) * glyph->ink_row + strip * STRIP_APART, STRIP_W);
  }
}

/* px from the top of the line to the base of its letters. */
static int line_ascent(FT_Face face, const char *path)
{
  const char *slash = strrchr(path, '/');
  if (strcmp(slash ? slash + 1 : path, CAPL_FONT_NOTO_MONO) == 0)
    return (face->size->metrics.y_ppem * DROID_ASCENT + DROID_EM - 1) / DROID_EM;
  return (int)((face->size->metrics.ascender + 63) >> 6);
}

/* A glyph and its ink in one block. ink: trimmed. */
static capl_glyph *new_glyph(const capl_glyph *measures, const FT_Bitmap *ink, size_t *bytes)
{
  int row = measures->ink_w + 2 + STRIP_W;
  *bytes = sizeof(capl_glyph) + (size_t)row * (ink->rows + 2);
  capl_glyph *glyph = malloc(*bytes);
  if (!glyph) return NULL;
  int8_t *rows = (int8_t *)(glyph + 1);
  *glyph = *measures;
  glyph->strip_bytes = strip_rows(glyph->ink_h) * STRIP_W;
  glyph->ink = rows;
  glyph->ink_row = row;
  copy_ink(ink, rows, row);
  return glyph;
}

/* The same glyph with strips in place of its ink, which is freed. */
static capl_glyph *with_strips(capl_glyph *glyph, size_t *bytes)
{
  size_t room = (size_t)strip_count(glyph->ink_w) * (size_t)glyph->strip_bytes;
  *bytes = sizeof *glyph + room;
  capl_glyph *made = malloc(*bytes);
  if (made) {
    *made = *glyph;
    glyph_strips(glyph, (int8_t *)(made + 1));
    made->strips = (int8_t *)(made + 1);
    made->ink = NULL;
  }
  free(glyph);
  return made;
}

static capl_glyph *glyph_of_slot(const FT_Face face, const char *path, size_t *bytes)
{
  FT_GlyphSlot slot = face->glyph;
  int advance = (int)(slot->advance.x >> 6), right = slot->bitmap_left + (int)slot->bitmap.width;
  capl_glyph glyph = {
    .cell_w = (advance > right ? advance : right) + 1,
    .cell_h = line_ascent(face, path) - slot->bitmap_top + (int)slot->bitmap.rows + 1,
  };
  FT_Bitmap ink = slot->bitmap;
  trim(&ink);
  glyph.ink_w = (int)ink.width;
  glyph.ink_h = (int)ink.rows;
  return new_glyph(&glyph, &ink, bytes);
}

capl_status capl_glyphs_render(const capl_glyphs *g, captcha_renderer *r, size_t place, const capl_glyph **glyph)
{
  size_t id = place % (size_t)g->n_chars, bytes;
  int sized = (int)(place / (size_t)g->n_chars), font = g->first_font + sized / g->n_sizes;
  FT_Face face;
  CAPL_TRY(captcha_renderer_size(r, font, 0, g->size_px[sized % g->n_sizes], &face));
  CAPL_TRY(captcha_renderer_load(r, font, capl_vocab_name(g->symbols, (int32_t)id), 0));
  capl_glyph *made = glyph_of_slot(face, r->font[font].path, &bytes);
  if (made && g->whole) made = with_strips(made, &bytes);
  if (!made) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the glyphs of %s", r->font[font].path);
  *glyph = captcha_renderer_keep(r, g->store, place, made, bytes);
  return CAPL_OK;
}

static capl_status find_blanks(capl_glyphs *g, captcha_renderer *r)
{
  FT_Face face;
  for (int sized = 0; sized < g->n_fonts * g->n_sizes; sized++) {
    int font = g->first_font + sized / g->n_sizes, px = g->size_px[sized % g->n_sizes];
    CAPL_TRY(captcha_renderer_size(r, font, 0, px, &face));
    FT_Error why = FT_Load_Char(face, ' ', FT_LOAD_NO_BITMAP);
    if (why == FT_Err_Out_Of_Memory) return CAPL_FAIL(CAPL_ENOMEM, "font %s: no memory", r->font[font].path);
    if (why)
      return CAPL_FAIL(CAPL_EFORMAT, "font %s: cannot be used at %d px", r->font[font].path, px);
    g->space_w[sized] = (int)(face->glyph->advance.x >> 6) + 1;
  }
  return CAPL_OK;
}

/* Until the store is full: then the rest are rendered when they are used. */
static capl_status render_all(capl_glyphs *g, captcha_renderer *r)
{
  const capl_glyph *glyph;
  for (size_t place = 0; place < g->store->n && !r->n_loose; place++)
    CAPL_TRY(capl_glyphs_render(g, r, place, &glyph));
  g->whole = r->n_loose == 0;
  captcha_renderer_drop(r);
  return CAPL_OK;
}

capl_status capl_glyphs_init(capl_glyphs *g, captcha_renderer *r, const capl_vocab *symbols, size_t most)
{
  int n_sized = g->n_fonts * g->n_sizes;
  g->symbols = symbols;
  g->n_chars = capl_vocab_count(symbols);
  g->whole = g->n_chars <= CAPTCHA_SMALL_CHARSET;
  g->store = calloc(1, sizeof *g->store);
  g->space_w = calloc((size_t)n_sized, sizeof *g->space_w);
  if (!g->store || !g->space_w) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the glyphs of a captcha");
  CAPL_TRY(letter_store_init(g->store, capl_glyphs_place(g, n_sized, 0), most));
  CAPL_TRY(captcha_fonts_check(r, g->first_font, g->n_fonts, symbols));
  CAPL_TRY(find_blanks(g, r));
  return g->whole ? render_all(g, r) : CAPL_OK;
}

static int at_least(int value, int least)
{
  return value > least ? value : least;
}

void glyph_bounds_add(capl_glyph_bounds *bounds, const capl_glyph *g, float grow_x, float grow_y)
{
  float diagonal = hypotf((float)g->ink_w, (float)g->ink_h);
  int wide = g->cell_w + 2 * (int)ceilf(grow_x * (float)g->cell_w) + 2;
  int high = g->cell_h + 2 * (int)ceilf(grow_y * (float)g->cell_h) + 2;
  int cell = g->cell_w < g->cell_h ? g->cell_w : g->cell_h;
  bounds->side = at_least(bounds->side, at_least((int)ceilf(diagonal) + 2, at_least(wide, high)));
  bounds->shrink = fmaxf(bounds->shrink, (diagonal + 2) / (float)cell);
  bounds->cell_w = at_least(bounds->cell_w, g->cell_w);
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

void capl_glyphs_fini(capl_glyphs *g)
{
  if (g->store) letter_store_fini(g->store);
  free(g->store);
  free(g->space_w);
  *g = (capl_glyphs){0};
}
