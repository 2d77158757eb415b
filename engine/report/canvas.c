/* canvas.c -- the paper that pictures are drawn on: a Cairo surface, fonts, texts that cannot go wrong.
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
  FT_Face ft;
  cairo_font_face_t *face;
  struct font_file *next;
} font_file;

static font_file *fonts;

/* Where letters come from that the font of the text lacks, those of East Asia first; of Debian's packages
** fonts-noto-cjk, fonts-wqy-microhei, fonts-wqy-zenhei, fonts-arphic-uming, fonts-dejavu-core. One that is not there is
** left out. */
static const char *const others[] = {
  "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc", "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
  "/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc", "/usr/share/fonts/truetype/arphic/uming.ttc",
  "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"};

enum { OTHERS = sizeof others / sizeof *others };

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
  int why = errno;
  if (!error) return CAPL_OK;
  FT_Done_FreeType(*freetype);
  if (error == FT_Err_Cannot_Open_Resource || error == FT_Err_Cannot_Open_Stream)
    return CAPL_FAIL(CAPL_EIO, "cannot open the font %s: %s", path, capl_errno_text(why));
  if (error == FT_Err_Out_Of_Memory) return CAPL_FAIL(CAPL_ENOMEM, "no memory for the font %s", path);
  return CAPL_FAIL(CAPL_EFORMAT, "%s is not a font FreeType can read", path);
}

static capl_status keep_font(const char *path, FT_Face ft, cairo_font_face_t *face)
{
  font_file *f = calloc(1, sizeof *f);
  if (f) f->path = strdup(path);
  if (!f || !f->path) {
    free(f);
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for the font %s", path);
  }
  f->ft = ft;
  f->face = face;
  f->next = fonts;
  fonts = f;
  return CAPL_OK;
}

static capl_status add_font(const char *path)
{
  FT_Library freetype;
  FT_Face ft;
  CAPL_TRY(open_face(path, &freetype, &ft));
  cairo_font_face_t *face = cairo_ft_font_face_create_for_ft_face(ft, 0);
  capl_status status = CAPL_OK;
  if (cairo_font_face_status(face) != CAIRO_STATUS_SUCCESS)
    status = CAPL_FAIL(CAPL_ENOMEM, "no memory for the font %s", path);
  if (status == CAPL_OK) status = keep_font(path, ft, face);
  if (status == CAPL_OK) return CAPL_OK;
  cairo_font_face_destroy(face);
  FT_Done_FreeType(freetype); /* and its face */
  return status;
}

static font_file *known_font(const char *path)
{
  font_file *f = fonts;
  while (f && strcmp(f->path, path) != 0) f = f->next;
  return f;
}

static capl_status find_font(const char *path, font_file **out)
{
  if (!known_font(path)) CAPL_TRY(add_font(path));
  *out = known_font(path);
  return CAPL_OK;
}

/* One of the others, NULL where it is not installed; that it cannot be used is no failure of the picture. */
static font_file *other_font(int i)
{
  font_file *f = NULL;
  if (access(others[i], R_OK) != 0) return NULL;
  capl_error before = *capl_error_last();
  if (find_font(others[i], &f) != CAPL_OK) capl_error_restore(&before);
  return f;
}

/* The font that has a code point: the text's own, else the first of the others; its own where none has it. */
static font_file *font_with(font_file *own, FT_ULong code)
{
  if (code < 128 || FT_Get_Char_Index(own->ft, code)) return own;
  for (int i = 0; i < OTHERS; i++) {
    font_file *f = other_font(i);
    if (f && FT_Get_Char_Index(f->ft, code)) return f;
  }
  return own;
}

static void set_options(canvas *c)
{
  cairo_font_options_t *options = cairo_font_options_create();
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_SLIGHT);
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_ON);
  cairo_set_font_options(c->cr, options);
  cairo_font_options_destroy(options);
}

/* ---- paper ----------------------------------------------------------------------------------- */

static capl_status make_paper(canvas *c, const char *font, int width, int height)
{
  if (width < 1 || height < 1 || width > REPORT_MAX_SIDE || height > REPORT_MAX_SIDE ||
      (int64_t)width * height > REPORT_MAX_PIXELS)
    return CAPL_FAIL(CAPL_EVALUE, "a picture of %d x %d px; the limit is %d px per side and %d megapixels", width,
                     height, REPORT_MAX_SIDE, REPORT_MAX_PIXELS >> 20);
  CAPL_TRY(find_font(font_path(font), &c->font));
  c->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  c->cr = cairo_create(c->surface);
  if (cairo_status(c->cr) != CAIRO_STATUS_SUCCESS)
    return CAPL_FAIL(CAPL_ENOMEM, "no memory for a picture of %d x %d px", width, height);
  set_options(c);
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

/* p: a valid UTF-8 character of n bytes. */
static uint32_t code_of(const char *p, int n)
{
  static const unsigned first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t code = (unsigned char)p[0] & first_bits[n];
  for (int i = 1; i < n; i++) code = code << 6 | ((unsigned char)p[i] & 0x3f);
  return code;
}

/* Control characters, and code points that are no characters, at which Cairo stops: U+FDD0..FDEF, U+xFFFE, U+xFFFF. */
static bool is_no_glyph(uint32_t code)
{
  return code < 32 || (code >= 0x7f && code < 0xa0) || (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
}

bool text_next(const char **text, char character[8])
{
  const char *p = *text;
  if (!*p) return false;
  int n = capl_text_char(p);
  if (n == 0 || is_no_glyph(code_of(p, n))) strcpy(character, "\xef\xbf\xbd");
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

/* The longest beginning of *clean that one font draws -> piece, and steps over it; false at the end. Sets the font. */
static bool next_piece(canvas *c, double size, const char **clean, char piece[TEXT_BYTES])
{
  const char *p = *clean;
  font_file *font = NULL;
  for (int n; *p; p += n) {
    n = capl_text_char(p);
    font_file *next = font_with(c->font, code_of(p, n));
    if (font && next != font) break;
    font = next;
  }
  size_t bytes = (size_t)(p - *clean);
  if (bytes == 0) return false;
  memcpy(piece, *clean, bytes);
  piece[bytes] = '\0';
  *clean = p;
  cairo_set_font_face(c->cr, font->face);
  cairo_set_font_size(c->cr, size);
  return true;
}

static double width_of(canvas *c, double size, const char *clean)
{
  char piece[TEXT_BYTES];
  double width = 0;
  while (next_piece(c, size, &clean, piece)) {
    cairo_text_extents_t extents;
    cairo_text_extents(c->cr, piece, &extents);
    width += extents.x_advance;
  }
  return width;
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
  const char *rest = clean;
  char piece[TEXT_BYTES];
  while (next_piece(c, size, &rest, piece)) cairo_show_text(c->cr, piece); /* each goes on where the last one ended */
  return width;
}
