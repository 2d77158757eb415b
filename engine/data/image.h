/* image.h -- small helpers on u8 images that several files here need.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_IMAGE_H
#define CAPL_DATA_IMAGE_H

#include "capl/data.h"

/* Makes room for H*W*channels bytes and sets the sizes. ENOMEM. */
CAPL_API capl_status capl_image_resize(capl_image *image, int width, int height, int channels);

/* The usual 8-bit luma: 0.299 R + 0.587 G + 0.114 B in 16-bit fixed point, rounded. */
static inline uint8_t capl_luma(uint8_t red, uint8_t green, uint8_t blue)
{
  return (uint8_t)((red * 19595u + green * 38470u + blue * 7471u + 0x8000u) >> 16);
}

/* ---- for the readers of PNG and JPEG ----------------------------------------------------------- */

typedef enum { IMAGE_OTHER, IMAGE_PNG, IMAGE_JPEG } image_kind;

/* By the first bytes. */
image_kind image_kind_of(const void *bytes, size_t size);
/* EFORMAT with what the file is instead of the wanted kind. */
capl_status image_refuse(const void *bytes, size_t size, const char *name, const char *wanted);
/* EVALUE for an image that would take more memory than any captcha, photograph or scan should. */
capl_status image_check_size(const char *name, double width, double height);
/* EVALUE unless 0, 1 or 3. */
capl_status image_check_channels(const char *name, int channels);
/* In place, from the channels that image has (gray, gray and alpha, RGB, RGB and alpha) to 1 or 3; 0: alpha alone goes.
** Alpha is composited on white. The buffer has room for the larger of both. */
void image_convert(capl_image *image, int channels);

/* jpeg.c; bytes begin as JPEG does. */
capl_status jpeg_decode(const uint8_t *bytes, size_t size, const char *name, int channels, capl_image *image);
capl_status jpeg_probe(const uint8_t *bytes, size_t size, const char *name, capl_image_info *info);

/* A file as it is. */
typedef struct {
  uint8_t *at; /* free() */
  size_t size;
} file_bytes;

/* EIO naming path, ENOMEM. Never waits: a pipe or a device is an error. */
CAPL_API capl_status file_bytes_read(const char *path, file_bytes *file);

#endif
