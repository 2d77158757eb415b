/* png.c -- reads and writes PNG files through libpng.
**
** libpng reports an error by calling back and jumping out. Each direction therefore has one function that
** calls setjmp and nothing else; what must be released lives in a struct of its caller, so a jump leaks nothing.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <png.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/user_dirs.h"
#include "base/text.h"
#include "data/image.h"
#include "sandbox/policy.h"

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
  bool indices; /* levels and numbers of colours stay as they are */
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

/* One byte per pixel, which the file's bits are. */
static void expand_to_bytes(png_reader *r)
{
  png_set_packing(r->png);
  png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
  r->channels = png_get_channels(r->png, r->info);
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
  if (r->indices) expand_to_bytes(r);
  else expand_to_8_bit(r);
  return true;
}

static capl_status damaged(const png_reader *r)
{
  return CAPL_FAIL(CAPL_EFORMAT, "%s: damaged PNG: %s", r->name, r->reason);
}

static capl_status check_indices(const png_reader *r)
{
  int type = png_get_color_type(r->png, r->info), bits = png_get_bit_depth(r->png, r->info);
  if ((type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_PALETTE) && bits <= 8) return CAPL_OK;
  const char *what = type & PNG_COLOR_MASK_COLOR ? "has colours without a palette"
                     : type & PNG_COLOR_MASK_ALPHA ? "has transparency"
                                                   : "has 16 bits per pixel";
  CAPL_FAIL(CAPL_EFORMAT, "%s: the PNG %s, which is no mask", r->name, what);
  capl_error_hint("a mask is a gray or palette PNG of at most 8 bits per pixel: each level or colour is a class");
  return CAPL_EFORMAT;
}

static capl_status decode(png_reader *r, int channels)
{
  if (!read_header(r)) return damaged(r);
  if (r->indices) CAPL_TRY(check_indices(r));
  int width = (int)png_get_image_width(r->png, r->info), height = (int)png_get_image_height(r->png, r->info);
  CAPL_TRY(image_check_size(r->name, width, height));
  if (!prepare(r)) return damaged(r);
  CAPL_TRY(capl_image_resize(r->image, width, height, r->channels > channels ? r->channels : channels));
  if (!read_pixels(r, (size_t)width * (size_t)r->channels, height)) return damaged(r);
  r->image->channels = r->channels;
  image_convert(r->image, channels);
  return CAPL_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static capl_status decode_bytes(const void *bytes, size_t size, const char *name, int channels, bool indices,
                                capl_image *image)
{
  if (image_kind_of(bytes, size) != IMAGE_PNG) return image_refuse(bytes, size, name, "PNG");
  png_reader r = {.at = bytes, .left = size, .name = name, .image = image, .indices = indices};
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r.reason, keep_reason, ignore_warning);
  if (r.png) r.info = png_create_info_struct(r.png);
  capl_status status = r.info ? decode(&r, channels) : CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to read the PNG", name);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  return status;
}

capl_status capl_png_decode(const void *bytes, size_t size, const char *name, int channels, capl_image *image)
{
  CAPL_TRY(image_check_channels(name, channels));
  return decode_bytes(bytes, size, name, channels, false, image);
}

capl_status capl_png_decode_indices(const void *bytes, size_t size, const char *name, capl_image *image)
{
  return decode_bytes(bytes, size, name, 1, true, image);
}

capl_status capl_png_read(const char *path, int channels, capl_image *image)
{
  file_bytes file;
  CAPL_TRY(file_bytes_read(path, &file));
  capl_status status = capl_png_decode(file.at, file.size, path, channels, image);
  free(file.at);
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
  png_set_IHDR(w->png, w->info, (png_uint_32)width, (png_uint_32)height, 8,
               channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
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

static capl_status check_pixels(const char *name, int width, int height, int channels)
{
  if ((channels == 1 || channels == 3) && width > 0 && height > 0) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s: cannot write %d x %d px of %d channels as PNG", name, width, height, channels);
}

capl_status capl_png_encode(const uint8_t *pixels, int width, int height, int channels, uint8_t **bytes, size_t *size)
{
  char *text = NULL;
  *bytes = NULL;
  CAPL_TRY(check_pixels("an image", width, height, channels));
  FILE *file = open_memstream(&text, size);
  if (!file) return CAPL_FAIL(CAPL_ENOMEM, "no memory for a PNG file");
  capl_status status = encode(file, "an image", pixels, width, height, channels);
  if (fclose(file) != 0 && status == CAPL_OK) status = CAPL_FAIL(CAPL_ENOMEM, "no memory for a PNG file");
  if (status == CAPL_OK) *bytes = (uint8_t *)text;
  else free(text);
  return status;
}

static capl_status write_error(const char *path)
{
  return CAPL_FAIL(CAPL_EIO, "%s: cannot be written: %s", path, capl_errno_text(errno));
}

capl_status capl_png_write(const char *path, const uint8_t *pixels, int width, int height, int channels)
{
  static atomic_uint serial; /* two threads may write beside each other */
  CAPL_TRY(check_pixels(path, width, height, channels));
  char temporary[4096];
  int length = snprintf(temporary, sizeof temporary, "%s.tmp%d-%u", path, (int)getpid(), atomic_fetch_add(&serial, 1));
  if (length >= (int)sizeof temporary) return CAPL_FAIL(CAPL_EIO, "%s: the path is too long", path);
  int fd = capl_file_create_new(temporary);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
  if (!file) return write_error(path);
  capl_status status = encode(file, path, pixels, width, height, channels);
  if (status == CAPL_OK) status = capl_policy_wrote((uint64_t)ftell(file));
  if (fclose(file) != 0 && status == CAPL_OK) status = write_error(path);
  if (status == CAPL_OK && rename(temporary, path) != 0) status = write_error(path);
  if (status != CAPL_OK) unlink(temporary);
  return status;
}
