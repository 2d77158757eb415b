/* image.h -- image files: PNG and JPEG in, PNG out, resizing.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IMAGE_H
#define CAPL_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint8_t *pixels; /* H,W,C; owned, grown by the readers, freed by capl_image_fini */
  size_t capacity; /* bytes */
  int width, height, channels;
} capl_image; /* start from {0} */

CAPL_API void capl_image_fini(capl_image *image);

/* How an image comes to another size: stretched, or with its proportions kept, as large as fits, one colour around. */
typedef struct {
  bool on;         /* false: it is stretched */
  bool top_left;   /* false: it is centred; an odd pixel of padding is on the right, at the bottom */
  uint8_t fill[3]; /* levels of the padding; of gray images the first one */
} capl_letterbox;

/* Reads any colour type and depth as u8. channels: 1, 3, or 0 = what the file has (gray or RGB); alpha
** is composited on white. image's buffer is reused when large enough.
** EIO (cannot be opened or read), EFORMAT (damaged, empty, or another kind of file, which is named),
** EVALUE (more than 64 megapixels), ENOMEM. Messages start with the path. */
CAPL_API capl_status capl_png_read(const char *path, int channels, capl_image *image);
/* The same from memory; name stands for the path in messages. */
CAPL_API capl_status capl_png_decode(const void *bytes, size_t size, const char *name, int channels,
                                     capl_image *image);
/* A mask: the levels of a gray PNG, or the numbers of a palette's colours, as the file has them, one byte each. EFORMAT
** also for other colour types and 16 bits per pixel. */
CAPL_API capl_status capl_png_decode_indices(const void *bytes, size_t size, const char *name, capl_image *image);
/* The same for PNG or JPEG, whichever the first bytes are. JPEG: baseline and progressive; gray is its luma; turned
** upright by its EXIF orientation; CMYK becomes RGB. EFORMAT also for damage that other readers pass over with gray
** pixels, and for 12-bit, arithmetic and lossless coding. */
CAPL_API capl_status capl_image_read(const char *path, int channels, capl_image *image);
CAPL_API capl_status capl_image_decode(const void *bytes, size_t size, const char *name, int channels,
                                       capl_image *image);

typedef struct {
  const char *format;          /* "PNG", "JPEG"; constant */
  int width, height, channels; /* as the file says; channels with alpha */
} capl_image_info;

/* What the header says; nothing is decoded. Errors as capl_image_decode. */
CAPL_API capl_status capl_image_probe(const void *bytes, size_t size, const char *name, capl_image_info *info);
/* The bytes of such a file. *bytes: caller frees with free(). EVALUE, ENOMEM. */
CAPL_API capl_status capl_png_encode(const uint8_t *pixels, int width, int height, int channels, uint8_t **bytes,
                                     size_t *size);
/* Writes H,W,channels u8 (1 or 3) to a temporary name and renames it. EIO, EVALUE. */
CAPL_API capl_status capl_png_write(const char *path, const uint8_t *pixels, int width, int height,
                                    int channels);

#ifdef __cplusplus
}
#endif
#endif
