/* image.c -- image files of either kind: which kind a file is, the way into memory, channels made what is asked for.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "sandbox/policy.h"

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

capl_status image_check_size(const char *name, double width, double height)
{
  if (width * height <= megapixels_max * 1e6) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s: %.0f x %.0f px is more than %g megapixels", name, width, height, megapixels_max);
}

capl_status image_check_channels(const char *name, int channels)
{
  if (channels == 0 || channels == 1 || channels == 3) return CAPL_OK;
  return CAPL_FAIL(CAPL_EVALUE, "%s: channels must be 0, 1 or 3, not %d", name, channels);
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

void image_convert(capl_image *image, int channels)
{
  size_t n = (size_t)image->width * (size_t)image->height;
  int colours = image->channels <= 2 ? 1 : 3;
  if (image->channels != colours) drop_alpha(image->pixels, n, colours);
  if (channels == 1 && colours == 3) to_gray(image->pixels, n);
  if (channels == 3 && colours == 1) to_rgb(image->pixels, n);
  image->channels = channels ? channels : colours;
}

/* ---- kinds of files -------------------------------------------------------------------------- */

enum { IMAGE_HINT, PAGE_HINT, LFS_HINT, ARCHIVE_HINT };

typedef struct {
  const char *kind, *magic;
  size_t offset, length;
  int hint;
} other_kind;

/* What a file is by its first bytes; NULL = unknown. */
static const other_kind *find_kind(const uint8_t *bytes, size_t size)
{
  static const other_kind kinds[] = {
    {"PNG", "\x89PNG\r\n\x1a\n", 0, 8, IMAGE_HINT},
    {"JPEG", "\xff\xd8\xff", 0, 3, IMAGE_HINT},
    {"GIF", "GIF8", 0, 4, IMAGE_HINT},
    {"WebP", "WEBP", 8, 4, IMAGE_HINT},
    {"BMP", "BM", 0, 2, IMAGE_HINT},
    {"TIFF", "II*\0", 0, 4, IMAGE_HINT},
    {"TIFF", "MM\0*", 0, 4, IMAGE_HINT},
    {"AVIF or HEIC", "ftyp", 4, 4, IMAGE_HINT},
    {"JPEG 2000", "\0\0\0\x0cjP  ", 0, 8, IMAGE_HINT},
    {"JPEG XL", "\xff\x0a", 0, 2, IMAGE_HINT},
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

image_kind image_kind_of(const void *bytes, size_t size)
{
  const other_kind *kind = find_kind(bytes, size);
  if (!kind) return IMAGE_OTHER;
  return strcmp(kind->kind, "PNG") == 0 ? IMAGE_PNG : strcmp(kind->kind, "JPEG") == 0 ? IMAGE_JPEG : IMAGE_OTHER;
}

static capl_status refuse_kind(const other_kind *k, const char *name, const char *wanted)
{
  CAPL_FAIL(CAPL_EFORMAT, "%s: the file is %s, not %s", name, k->kind, wanted);
  switch (k->hint) {
  case PAGE_HINT: capl_error_hint("a web server may have sent this page instead of the image; fetch it again"); break;
  case LFS_HINT: capl_error_hint("git holds only its address here; 'git lfs pull' fetches the image"); break;
  case ARCHIVE_HINT: capl_error_hint("unpack it first"); break;
  default: capl_error_hint("convert it first, for example with ImageMagick: convert %s PNG:NEW.png", name);
  }
  return CAPL_EFORMAT;
}

/* The first bytes, as `xxd` shows them. */
static capl_status refuse_unknown(const uint8_t *bytes, size_t size, const char *name, const char *wanted)
{
  char shown[32] = "";
  for (size_t i = 0; i < size && i < 8; i++) snprintf(shown + 3 * i, sizeof shown - 3 * i, " %02x", bytes[i]);
  return CAPL_FAIL(CAPL_EFORMAT, "%s: the file is no %s; it starts with%s", name, wanted, shown);
}

capl_status image_refuse(const void *bytes, size_t size, const char *name, const char *wanted)
{
  if (size == 0) return CAPL_FAIL(CAPL_EFORMAT, "%s: the file is empty", name);
  const other_kind *kind = find_kind(bytes, size);
  return kind ? refuse_kind(kind, name, wanted) : refuse_unknown(bytes, size, name, wanted);
}

/* ---- either kind ----------------------------------------------------------------------------- */

static const char wanted_kinds[] = "PNG or JPEG";

capl_status capl_image_decode(const void *bytes, size_t size, const char *name, int channels, capl_image *image)
{
  CAPL_TRY(image_check_channels(name, channels));
  switch (image_kind_of(bytes, size)) {
  case IMAGE_PNG: return capl_png_decode(bytes, size, name, channels, image);
  case IMAGE_JPEG: return jpeg_decode(bytes, size, name, channels, image);
  default: return image_refuse(bytes, size, name, wanted_kinds);
  }
}

capl_status capl_image_read(const char *path, int channels, capl_image *image)
{
  file_bytes file;
  CAPL_TRY(file_bytes_read(path, &file));
  capl_status status = capl_image_decode(file.at, file.size, path, channels, image);
  free(file.at);
  return status;
}

static uint32_t big_endian(const uint8_t *p)
{
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The header chunk comes first: 8 bytes of signature, 8 of length and name, then width, height, depth, colour type. */
static capl_status png_probe(const uint8_t *bytes, size_t size, const char *name, capl_image_info *info)
{
  static const int channels[] = {1, 0, 3, 3, 2, 0, 4}; /* a palette has colours */
  if (size < 26 || memcmp(bytes + 12, "IHDR", 4) != 0 || bytes[25] > 6 || !channels[bytes[25]])
    return CAPL_FAIL(CAPL_EFORMAT, "%s: damaged PNG: no header", name);
  uint32_t width = big_endian(bytes + 16), height = big_endian(bytes + 20);
  if (width < 1 || height < 1) return CAPL_FAIL(CAPL_EFORMAT, "%s: damaged PNG: it is %u x %u px", name, width, height);
  CAPL_TRY(image_check_size(name, width, height));
  *info = (capl_image_info){"PNG", (int)width, (int)height, channels[bytes[25]]};
  return CAPL_OK;
}

capl_status capl_image_probe(const void *bytes, size_t size, const char *name, capl_image_info *info)
{
  switch (image_kind_of(bytes, size)) {
  case IMAGE_PNG: return png_probe(bytes, size, name, info);
  case IMAGE_JPEG: return jpeg_probe(bytes, size, name, info);
  default: return image_refuse(bytes, size, name, wanted_kinds);
  }
}

/* ---- files ----------------------------------------------------------------------------------- */

static capl_status read_error(const char *path)
{
  int reason = errno;
  char target[512];
  ssize_t n = reason == ENOENT ? readlink(path, target, sizeof target) : -1;
  if (n > 0)
    return CAPL_FAIL(CAPL_EIO, "%s: cannot be read: it is a link to %.*s, which is not there", path, (int)n, target);
  return CAPL_FAIL(CAPL_EIO, "%s: cannot be read: %s", path, capl_errno_text(reason));
}

static const char *kind_name(mode_t mode)
{
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : "a device";
}

/* The whole file; file->at: caller frees, on failure too. */
static capl_status slurp(int fd, const char *path, file_bytes *file)
{
  struct stat st;
  if (fstat(fd, &st) != 0) return read_error(path);
  if (!S_ISREG(st.st_mode))
    return CAPL_FAIL(CAPL_EIO, "%s: cannot be read: it is %s, not a file", path, kind_name(st.st_mode));
  file->at = malloc((size_t)st.st_size + 1);
  if (!file->at) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory for %lld bytes", path, (long long)st.st_size);
  while (file->size < (size_t)st.st_size) {
    ssize_t n = read(fd, file->at + file->size, (size_t)st.st_size - file->size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return read_error(path);
    if (n == 0) break;
    file->size += (size_t)n;
  }
  return CAPL_OK;
}

capl_status file_bytes_read(const char *path, file_bytes *file)
{
  *file = (file_bytes){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
  capl_status status = capl_policy_opened(fd, path);
  if (fd < 0) return status ? status : read_error(path);
  if (status == CAPL_OK) status = slurp(fd, path, file);
  close(fd);
  if (status == CAPL_OK) return status;
  free(file->at);
  *file = (file_bytes){0};
  return status;
}
