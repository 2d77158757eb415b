/* canvas.c -- the paper that pictures are drawn on: a Cairo surface, one font, texts that cannot go wrong.
** SPDX-License-Identifier: Apache-2.0
*/
#include "report/canvas.h"

#include <cairo-ft.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

enum { TEXT_BYTES = 1024 }; /* of one text; what is longer would be wider than any paper */

/* Its 0 has a stroke: confusions of 0 and O are what most sheets of readings are looked at for. */
static const char noto_mono[] = "/usr/share/fonts/truetype/noto/NotoSansMono-Regular.ttf";

/* FreeType's faces and Cairo's font caches serve one thread at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- fonts ----------------------------------------------------------------------------------- */

/* Fonts stay open for the life of the process: Cairo's caches refer to them for as long as they like. */
typedef struct font_file {
  char *path;
  cairo_font_face_t *face;
  struct font_file *next;
} font_file;

static font_file *fonts;

static const char *font_path(const char *font)
{
  const char *env = getenv("CAPL_FONT");
  if (font && *font) return font;
  return access(noto_mono, R_OK) != 0 && env && *env ? env : noto_mono;
}

static capl_status check_font(const char *path)
{
  if (access(path, R_OK) == 0) return CAPL_OK;
  CAPL_FAIL(CAPL_EIO, "cannot open the font %s: %s", path, strerror(errno));
  capl_error_hint("install the Debian package fonts-noto-mono (it provides %s), or name another TrueType file with "
                  "font = PATH or CAPL_FONT=PATH", noto_mono);
  return CAPL_EIO;
}

/* Each font has a FreeType of its own: one that met a lack of memory as it started lacks parts for good. */
static capl_status open_face(const char *path, FT_Library *freetype, FT_Face *face)
{
  CAPL_TRY(check_font(path));
  FT_Error error = FT_Init_FreeType(freetype);
  if (error) return CAPL_FAIL(CAPL_ENOMEM, "no memory to start FreeType");
  error = FT_New_Face(*freetype, path, 0, face);
  if (!error) return CAPL_OK;
  FT_Done_FreeType(*freetype);
  if (error == FT_Err_Out_Of_Memory) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the font %s", path);
  return CAPL_FAIL(CAPL_EFORMAT, "%s is not a font FreeType can read", path);
}

static capl_status keep_font(const char *path, cairo_font_face_t *face)
{
  font_file *f = calloc(1, sizeof *f);
  if (f) f->path = strdup(path);
  if (!f || !f->path) {
    free(f);
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for the font %s", path);
  }
  f->face = face;
  f->next = fonts;
  fonts = f;
  return CAPL_OK;
}

static capl_status add_font(const char *path, cairo_font_face_t **out)
{
  FT_Library freetype;
  FT_Face face;
  CAPL_TRY(open_face(path, &freetype, &face));
  *out = cairo_ft_font_face_create_for_ft_face(face, 0);
  capl_status status = CAPL_OK;
  if (cairo_font_face_status(*out) != CAIRO_STATUS_SUCCESS)
    status = CAPL_FAIL(CAPL_ENOMEM, "no memory for the font %s", path);
  if (status == CAPL_OK) status = keep_font(path, *out);
  if (status == CAPL_OK) return CAPL_OK;
  cairo_font_face_destroy(*out);
  FT_Done_FreeType(freetype); /* and its face */
  return status;
}

static capl_status find_font(const char *path, cairo_font_face_t **out)
{
  for (font_file *f = fonts; f; f = f->next)
    if (strcmp(f->path, path) == 0) {
      *out = f->face;
      return CAPL_OK;
    }
  return add_font(path, out);
}

static void use_font(canvas *c, cairo_font_face_t *face)
{
  cairo_font_options_t *options = cairo_font_options_create();
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_SLIGHT);
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_ON);
  cairo_set_font_options(c->cr, options);
  cairo_font_options_destroy(options);
  cairo_set_font_face(c->cr, face);
}

/* ---- paper ----------------------------------------------------------------------------------- */

static capl_status make_paper(canvas *c, const char *font, int width, int height)
{
  if (width < 1 || height < 1 || width > REPORT_MAX_SIDE || height > REPORT_MAX_SIDE ||
      (int64_t)width * height > REPORT_MAX_PIXELS)
    return CAPL_FAIL(CAPL_EVALUE, "a picture of %d x %d px; the limit is %d px per side and %d megapixels", width,
                     height, REPORT_MAX_SIDE, REPORT_MAX_PIXELS >> 20);
  cairo_font_face_t *face;
  CAPL_TRY(find_font(font_path(font), &face));
  c->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  c->cr = cairo_create(c->surface);
  if (cairo_status(c->cr) != CAIRO_STATUS_SUCCESS)
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for a picture of %d x %d px", width, height);
  use_font(c, face);
  canvas_fill(c, COLOUR_PAPER, 0, 0, width, height);
  return CAPL_OK;
}

static void release(canvas *c)
{
  cairo_destroy(c->cr);
  cairo_surface_destroy(c->surface);
  *c = (canvas){0};
  pthread_mutex_unlock(&lock);
}

capl_status canvas_begin(canvas *c, const char *font, int width, int height)
{
  *c = (canvas){0};
  pthread_mutex_lock(&lock);
  capl_status status = make_paper(c, font, width, height);
  if (status != CAPL_OK) release(c);
  return status;
}

/* Cairo's 32-bit words 0xXXRRGGBB as bytes R, G, B. */
static void copy_pixels(uint8_t *to, const uint8_t *from, int width, int height, int stride)
{
  for (int y = 0; y < height; y++) {
    const uint32_t *row = (const uint32_t *)(const void *)(from + (size_t)y * (size_t)stride);
    for (int x = 0; x < width; x++, to += 3) {
      to[0] = (uint8_t)(row[x] >> 16);
      to[1] = (uint8_t)(row[x] >> 8);
      to[2] = (uint8_t)row[x];
    }
  }
}

static capl_status take_pixels(canvas *c, report_picture *out)
{
  cairo_surface_flush(c->surface);
  cairo_status_t drawn = cairo_status(c->cr);
  if (drawn == CAIRO_STATUS_NO_MEMORY) return CAPL_FAIL(CAPL_ENOMEM, "no memory to draw the picture");
  if (drawn != CAIRO_STATUS_SUCCESS) return CAPL_FAIL(CAPL_EINTERNAL, "Cairo: %s", cairo_status_to_string(drawn));
  int width = cairo_image_surface_get_width(c->surface), height = cairo_image_surface_get_height(c->surface);
  out->pixels = malloc((size_t)width * (size_t)height * 3);
  if (!out->pixels) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a picture of %d x %d px", width, height);
  out->width = width;
  out->height = height;
  copy_pixels(out->pixels, cairo_image_surface_get_data(c->surface), width, height,
              cairo_image_surface_get_stride(c->surface));
  return CAPL_OK;
}

capl_status canvas_end(canvas *c, capl_status status, report_picture *out)
{
  if (status == CAPL_OK && out) status = take_pixels(c, out);
  release(c);
  return status;
}

void canvas_colour(canvas *c, uint32_t rgb, double opacity)
{
  cairo_set_source_rgba(c->cr, (rgb >> 16) / 255.0, (rgb >> 8 & 255) / 255.0, (rgb & 255) / 255.0, opacity);
}

void canvas_fill(canvas *c, uint32_t rgb, double x, double y, double width, double height)
{
  canvas_colour(c, rgb, 1);
  cairo_rectangle(c->cr, x, y, width, height);
  cairo_fill(c->cr);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Control characters, and code points that are no characters, at which Cairo stops: U+FDD0..FDEF, U+xFFFE, U+xFFFF.
** p: a valid UTF-8 character of n bytes. */
static bool is_no_glyph(const unsigned char *p, int n)
{
  static const unsigned first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t code = p[0] & first_bits[n];
  for (int i = 1; i < n; i++) code = code << 6 | (p[i] & 0x3f);
  return code < 32 || (code >= 0x7f && code < 0xa0) || (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
}

bool text_next(const char **text, char character[8])
{
  const char *p = *text;
  if (!*p) return false;
  int n = capl_text_char(p);
  if (n == 0 || is_no_glyph((const unsigned char *)p, n)) strcpy(character, "\xef\xbf\xbd");
  else memcpy(character, p, (size_t)n), character[n] = '\0';
  *text += n ? n : 1;
  return true;
}

/* At most most characters of from, each of which can be shown; an ellipsis for the rest. Returns their number. */
static int clean_text(char to[TEXT_BYTES], const char *from, int most)
{
  char character[8];
  size_t n = 0;
  int count = 0;
  for (; text_next(&from, character); count++) {
    bool last = count + 1 == most || n + 12 > TEXT_BYTES;
    const char *put = last && *from ? "\xe2\x80\xa6" : character;
    memcpy(to + n, put, strlen(put));
    n += strlen(put);
    if (last) {
      count++;
      break;
    }
  }
  to[n] = '\0';
  return count;
}

static double width_of(canvas *c, double size, const char *clean)
{
  cairo_text_extents_t extents;
  cairo_set_font_size(c->cr, size);
  cairo_text_extents(c->cr, clean, &extents);
  return extents.x_advance;
}

double canvas_text_width(canvas *c, double size, const char *text)
{
  char clean[TEXT_BYTES];
  clean_text(clean, text ? text : "", TEXT_BYTES);
  return width_of(c, size, clean);
}

/* text made fit for room px. Returns its width. */
static double fit_text(canvas *c, char clean[TEXT_BYTES], double room, double size, const char *text)
{
  int count = clean_text(clean, text, TEXT_BYTES);
  double width = width_of(c, size, clean);
  while (width > room && count > 1) {
    int fewer = (int)(count * room / width); /* right at once if all characters are equally wide */
    count = clean_text(clean, text, fewer < 1 ? 1 : fewer < count ? fewer : count - 1);
    width = width_of(c, size, clean);
  }
  return width;
}

double canvas_text(canvas *c, double x, double y, double room, text_side side, double size, uint32_t rgb,
                   const char *text)
{
  char clean[TEXT_BYTES];
  if (!text || !*text) return 0;
  double width = fit_text(c, clean, room, size, text);
  double left = side == TEXT_LEFT ? x : side == TEXT_CENTRE ? x - width / 2 : x - width;
  canvas_colour(c, rgb, 1);
  cairo_move_to(c->cr, (int)(left + 0.5), (int)(y + 0.5)); /* whole pixels keep small letters sharp */
  cairo_show_text(c->cr, clean);
  return width;
}
