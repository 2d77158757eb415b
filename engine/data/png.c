/* png.c -- reads and writes PNG files through libpng.
**
** libpng reports an error by calling back and jumping out. Each direction therefore has one function that
** calls setjmp and nothing else; what must be released lives in a struct of its caller, so a jump leaks nothing.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "data/image.h"

static const double megapixels_max = 64;

/* ---- images ---------------------------------------------------------------------------------- */

static capl_status reserve(capl_image *image, size_t bytes)
{
  if (bytes <= image->capacity) return CAPL_OK;
  uint8_t *grown = realloc(image->pixels, bytes);
  if (!grown) return CAPL_FAIL(CAPL_ENOMEM, "no memory for an image of %zu bytes", bytes);
  image->pixels = grown;
  image->capacity = bytes;
  return CAPL_OK;
}

capl_status capl_image_resize(capl_image *image, int width, int height, int channels)
{
  CAPL_TRY(reserve(image, (size_t)width * (size_t)height * (size_t)channels));
  image->width = width;
  image->height = height;
  image->channels = channels;
  return CAPL_OK;
}

void capl_image_fini(capl_image *image)
{
  free(image->pixels);
  *image = (capl_image){0};
}

/* In place: the alpha channel is dropped, the rest composited on white. */
static void drop_alpha(uint8_t *p, size_t n, int colours)
{
  for (size_t i = 0; i < n; i++) {
    unsigned alpha = p[i * (size_t)(colours + 1) + (size_t)colours];
    for (int c = 0; c < colours; c++) {
      unsigned value = p[i * (size_t)(colours + 1) + (size_t)c] * alpha + 255 * (255 - alpha);
      p[i * (size_t)colours + (size_t)c] = (uint8_t)((value + 127) / 255);
    }
  }
}

static void to_gray(uint8_t *p, size_t n)
{
  for (size_t i = 0; i < n; i++) p[i] = capl_luma(p[3 * i], p[3 * i + 1], p[3 * i + 2]);
}

static void to_rgb(uint8_t *p, size_t n)
{
  for (size_t i = n; i-- > 0;) p[3 * i] = p[3 * i + 1] = p[3 * i + 2] = p[i];
}

/* ---- libpng's callbacks ---------------------------------------------------------------------- */

static void keep_reason(png_structp png, png_const_charp reason)
{
  char *kept = png_get_error_ptr(png);
  snprintf(kept, 128, "%s", reason);
  png_longjmp(png, 1);
}

static void ignore_warning(png_structp png, png_const_charp text)
{
  (void)png;
  (void)text;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
  png_structp png;
  png_infop info;
  const uint8_t *at;
  size_t left;
  const char *name;
  int channels; /* of the file, after expansion: 1..4 */
  capl_image *image;
  char reason[128];
} png_reader;

static void read_bytes(png_structp png, png_bytep to, size_t size)
{
  png_reader *r = png_get_io_ptr(png);
  if (size > r->left) png_error(png, "the file ends too early");
  memcpy(to, r->at, size);
  r->at += size;
  r->left -= size;
}

/* Palettes, 1..4 and 16 bits per channel and transparency chunks all become 8-bit channels. */
static void expand_to_8_bit(png_reader *r)
{
  png_set_expand(r->png);
  png_set_scale_16(r->png);
  png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
  r->channels = png_get_channels(r->png, r->info);
}

static capl_status check_size(const png_reader *r, double width, double height)
{
  if (width * height <= megapixels_max * 1e6) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s: %.0f x %.0f px is more than %g megapixels", r->name, width, height, megapixels_max);
}

static bool read_header(png_reader *r)
{
  if (setjmp(png_jmpbuf(r->png))) return false;
  png_set_read_fn(r->png, r, read_bytes);
  png_set_user_limits(r->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* check_size is stricter and says more */
  png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* profiles, texts, times */
  png_set_benign_errors(r->png, 0); /* a wrong checksum of the pixels is an error, not a warning */
  png_read_info(r->png, r->info);
  return true;
}

static bool read_pixels(png_reader *r, size_t stride, int height)
{
  if (setjmp(png_jmpbuf(r->png))) return false;
  int passes = png_get_interlace_type(r->png, r->info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
  for (int pass = 0; pass < passes; pass++) {
    for (int y = 0; y < height; y++) png_read_row(r->png, r->image->pixels + (size_t)y * stride, NULL);
  }
  png_read_end(r->png, NULL);
  return true;
}

static bool prepare(png_reader *r)
{
  if (setjmp(png_jmpbuf(r->png))) return false;
  expand_to_8_bit(r);
  return true;
}

static capl_status damaged(const png_reader *r)
{
  return CAPL_FAIL(CAPL_EFORMAT, "%s: damaged PNG: %s", r->name, r->reason);
}

/* From the channels of the file to the one or three asked for (0: gray stays gray, colour stays colour). */
static void convert(png_reader *r, int channels)
{
  capl_image *image = r->image;
  size_t n = (size_t)image->width * (size_t)image->height;
  int colours = r->channels <= 2 ? 1 : 3;
  if (r->channels != colours) drop_alpha(image->pixels, n, colours);
  if (channels == 1 && colours == 3) to_gray(image->pixels, n);
  if (channels == 3 && colours == 1) to_rgb(image->pixels, n);
  image->channels = channels ? channels : colours;
}

static capl_status decode(png_reader *r, int channels)
{
  if (!read_header(r)) return damaged(r);
  int width = (int)png_get_image_width(r->png, r->info), height = (int)png_get_image_height(r->png, r->info);
  CAPL_TRY(check_size(r, width, height));
  if (!prepare(r)) return damaged(r);
  CAPL_TRY(capl_image_resize(r->image, width, height, r->channels > channels ? r->channels : channels));
  if (!read_pixels(r, (size_t)width * (size_t)r->channels, height)) return damaged(r);
  convert(r, channels);
  return CAPL_OK;
}

/* ---- other files ----------------------------------------------------------------------------- */

enum { IMAGE_HINT, PAGE_HINT, LFS_HINT, ARCHIVE_HINT };

typedef struct {
  const char *kind, *magic;
  size_t offset, length;
  int hint;
} other_kind;

/* What a file that is not PNG is instead, by its first bytes; NULL = unknown. */
static const other_kind *find_kind(const uint8_t *bytes, size_t size)
{
  static const other_kind kinds[] = {
    {"JPEG", "\xff\xd8\xff", 0, 3, IMAGE_HINT},
    {"GIF", "GIF8", 0, 4, IMAGE_HINT},
    {"WebP", "WEBP", 8, 4, IMAGE_HINT},
    {"BMP", "BM", 0, 2, IMAGE_HINT},
    {"TIFF", "II*\0", 0, 4, IMAGE_HINT},
    {"TIFF", "MM\0*", 0, 4, IMAGE_HINT},
    {"AVIF or HEIC", "ftyp", 4, 4, IMAGE_HINT},
    {"SVG", "<svg", 0, 4, IMAGE_HINT},
    {"HTML", "<!DOCTYPE html", 0, 14, PAGE_HINT},
    {"HTML", "<!doctype html", 0, 14, PAGE_HINT},
    {"HTML", "<html", 0, 5, PAGE_HINT},
    {"a Git LFS pointer", "version https://git-lfs", 0, 23, LFS_HINT},
    {"a ZIP archive", "PK\3\4", 0, 4, ARCHIVE_HINT},
    {"gzip data", "\x1f\x8b", 0, 2, ARCHIVE_HINT},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (size < kinds[i].offset + kinds[i].length) continue;
    if (memcmp(bytes + kinds[i].offset, kinds[i].magic, kinds[i].length) == 0) return &kinds[i];
  }
  return NULL;
}

static capl_status refuse_kind(const other_kind *k, const char *name)
{
  CAPL_FAIL(CAPL_EFORMAT, "%s: the file is %s, not PNG", name, k->kind);
  switch (k->hint) {
  case PAGE_HINT: capl_error_hint("a web server may have sent this page instead of the image; fetch it again"); break;
  case LFS_HINT: capl_error_hint("git holds only its address here; 'git lfs pull' fetches the image"); break;
  case ARCHIVE_HINT: capl_error_hint("unpack it first"); break;
  default: capl_error_hint("convert it first, for example with ImageMagick: convert %s PNG:NEW.png", name);
  }
  return CAPL_EFORMAT;
}

/* The first bytes, as `xxd` shows them. */
static capl_status refuse_unknown(const uint8_t *bytes, size_t size, const char *name)
{
  char shown[32] = "";
  for (size_t i = 0; i < size && i < 8; i++) snprintf(shown + 3 * i, sizeof shown - 3 * i, " %02x", bytes[i]);
  return CAPL_FAIL(CAPL_EFORMAT, "%s: the file is no PNG; it begins with%s", name, shown);
}

static capl_status check_kind(const uint8_t *bytes, size_t size, const char *name)
{
  if (size == 0) return CAPL_FAIL(CAPL_EFORMAT, "%s: the file is empty", name);
  if (size >= 8 && png_sig_cmp(bytes, 0, 8) == 0) return CAPL_OK;
  const other_kind *kind = find_kind(bytes, size);
  return kind ? refuse_kind(kind, name) : refuse_unknown(bytes, size, name);
}

/* ---- decoding -------------------------------------------------------------------------------- */

capl_status capl_png_decode(const void *bytes, size_t size, const char *name, int channels, capl_image *image)
{
  if (channels != 0 && channels != 1 && channels != 3) return CAPL_FAIL(CAPL_EVALUE, "%s: channels must be 0, 1 or 3, not %d", name, channels);
  CAPL_TRY(check_kind(bytes, size, name));
  png_reader r = {.at = bytes, .left = size, .name = name, .image = image};
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r.reason, keep_reason, ignore_warning);
  if (r.png) r.info = png_create_info_struct(r.png);
  capl_status status = r.info ? decode(&r, channels) : CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to read the PNG", name);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  return status;
}

static capl_status read_error(const char *path)
{
  int reason = errno;
  char target[512];
  ssize_t n = reason == ENOENT ? readlink(path, target, sizeof target) : -1;
  if (n > 0) return CAPL_FAIL(CAPL_EIO, "%s: cannot be read: it is a link to %.*s, which is not there", path, (int)n, target);
  return CAPL_FAIL(CAPL_EIO, "%s: cannot be read: %s", path, capl_errno_text(reason));
}

static const char *kind_name(mode_t mode)
{
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : "a device";
}

/* The whole file; *bytes: caller frees. */
static capl_status slurp(FILE *f, const char *path, uint8_t **bytes, size_t *size)
{
  struct stat st;
  if (fstat(fileno(f), &st) != 0) return read_error(path);
  if (!S_ISREG(st.st_mode)) return CAPL_FAIL(CAPL_EIO, "%s: cannot be read: it is %s, not a file", path, kind_name(st.st_mode));
  *bytes = malloc((size_t)st.st_size + 1);
  if (!*bytes) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for %lld bytes", path, (long long)st.st_size);
  *size = fread(*bytes, 1, (size_t)st.st_size, f);
  return ferror(f) ? read_error(path) : CAPL_OK;
}

capl_status capl_png_read(const char *path, int channels, capl_image *image)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
  FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");
  if (!f) {
    capl_status failed = read_error(path);
    if (fd >= 0) close(fd);
    return failed;
  }
  uint8_t *bytes = NULL;
  size_t size = 0;
  capl_status status = slurp(f, path, &bytes, &size);
  fclose(f);
  if (status == CAPL_OK) status = capl_png_decode(bytes, size, path, channels, image);
  free(bytes);
  return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct {
  png_structp png;
  png_infop info;
  FILE *file;
  char reason[128];
} png_writer;

static void write_bytes(png_structp png, png_bytep from, size_t size)
{
  png_writer *w = png_get_io_ptr(png);
  if (fwrite(from, 1, size, w->file) != size) png_error(png, capl_errno_text(errno));
}

static void flush_nothing(png_structp png)
{
  (void)png; /* fclose does, and says whether it could */
}

static bool write_image(png_writer *w, const uint8_t *pixels, int width, int height, int channels)
{
  if (setjmp(png_jmpbuf(w->png))) return false;
  png_set_write_fn(w->png, w, write_bytes, flush_nothing);
  /* Small noisy images: unfiltered rows at the fastest level take a third of the time and fewer bytes. */
  png_set_compression_level(w->png, 1);
  png_set_filter(w->png, 0, PNG_FILTER_NONE);
  png_set_IHDR(w->png, w->info, (png_uint_32)width, (png_uint_32)height, 8, channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(w->png, w->info);
  for (int y = 0; y < height; y++) png_write_row(w->png, pixels + (size_t)y * (size_t)(width * channels));
  png_write_end(w->png, NULL);
  return true;
}

static capl_status encode(FILE *file, const char *path, const uint8_t *pixels, int width, int height, int channels)
{
  png_writer w = {.file = file};
  w.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, w.reason, keep_reason, ignore_warning);
  if (w.png) w.info = png_create_info_struct(w.png);
  capl_status status = CAPL_OK;
  if (!w.info) {
    status = CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to write the PNG", path);
  } else if (!write_image(&w, pixels, width, height, channels)) {
    status = CAPL_FAIL(CAPL_EIO, "%s: cannot be written: %s", path, w.reason);
  }
  png_destroy_write_struct(&w.png, &w.info);
  return status;
}

static capl_status write_error(const char *path)
{
  return CAPL_FAIL(CAPL_EIO, "%s: cannot be written: %s", path, capl_errno_text(errno));
}

capl_status capl_png_write(const char *path, const uint8_t *pixels, int width, int height, int channels)
{
  static atomic_uint serial; /* two threads may write beside each other */
  if ((channels != 1 && channels != 3) || width < 1 || height < 1) {
    return CAPL_FAIL(CAPL_EVALUE, "%s: cannot write %d x %d px of %d channels as PNG", path, width, height, channels);
  }
  char temporary[4096];
  int length = snprintf(temporary, sizeof temporary, "%s.tmp%d-%u", path, (int)getpid(), atomic_fetch_add(&serial, 1));
  if (length >= (int)sizeof temporary) return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", path);
  FILE *file = fopen(temporary, "wbe");
  if (!file) return write_error(path);
  capl_status status = encode(file, path, pixels, width, height, channels);
  if (fclose(file) != 0 && status == CAPL_OK) status = write_error(path);
  if (status == CAPL_OK && rename(temporary, path) != 0) status = write_error(path);
  if (status != CAPL_OK) unlink(temporary);
  return status;
}
