/* jpeg.c -- reads JPEG files through libjpeg-turbo: baseline and progressive, gray, YCbCr, RGB, CMYK and YCCK.
**
** The frame header is looked at here first: what libjpeg would refuse in words of its own, or read although nobody
** could rely on it (12 bits, arithmetic coding, lossless), is refused by name. libjpeg reports an error by calling
** back; we jump out of it, and what must be released lives in a struct of the caller. Most of its warnings mean that
** pixels are lost and gray ones are put in their place: those are errors too.
** SPDX-License-Identifier: Apache-2.0
*/
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "data/image.h"

/* An honest progressive file has about ten; each costs a walk over the whole image. */
enum { SCANS_MAX = 100 };

/* ---- the frame header ------------------------------------------------------------------------ */

typedef struct {
  int process; /* SOF0..SOF15: 0 baseline, 1 extended, 2 progressive */
  int precision, width, height, components;
  int orientation; /* of EXIF, 1..8 */
} jpeg_frame;

static unsigned get_16(const uint8_t *p, bool little)
{
  return little ? p[0] | (unsigned)p[1] << 8 : p[1] | (unsigned)p[0] << 8;
}

static uint32_t get_32(const uint8_t *p, bool little)
{
  return little ? get_16(p, true) | (uint32_t)get_16(p + 2, true) << 16
  : (uint32_t)get_16(p, false) << 16 | get_16(p + 2, false);
}

/* How the camera was held: tag 0x0112 of the first directory of the TIFF data in an EXIF segment; 1 = upright. */
static int exif_orientation(const uint8_t *p, size_t size)
{
  if (size < 20 || memcmp(p, "Exif\0\0", 6) != 0) return 1;
  p += 6, size -= 6;
  bool little = p[0] == 'I';
  size_t at = get_32(p + 4, little);
  if (at > size || size - at < 2) return 1;
  unsigned entries = get_16(p + at, little);
  at += 2;
  for (unsigned i = 0; i < entries && size - at >= 12; i++, at += 12) {
    if (get_16(p + at, little) != 0x0112) continue;
    unsigned value = get_16(p + at + 8, little);
    return value >= 1 && value <= 8 ? (int)value : 1;
  }
  return 1;
}

static bool is_frame(int marker)
{
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* Reads segment after segment up to the frame header; false: there is none. */
static bool find_frame(const uint8_t *bytes, size_t size, jpeg_frame *frame)
{
  frame->orientation = 1;
  for (size_t at = 2; size - at >= 4;) {
    if (bytes[at] != 0xff) return false;
    int marker = bytes[at + 1];
    if (marker == 0xff) { at++; continue; } /* filling */
    size_t length = get_16(bytes + at + 2, false);
    if (length < 2 || length > size - at - 2) return false;
    const uint8_t *body = bytes + at + 4;
    if (marker == 0xe1 && frame->orientation == 1) frame->orientation = exif_orientation(body, length - 2);
    if (is_frame(marker)) {
      if (length < 8) return false;
      frame->process = marker - 0xc0;
      frame->precision = body[0];
      frame->height = (int)get_16(body + 1, false);
      frame->width = (int)get_16(body + 3, false);
      frame->components = body[5];
      return true;
    }
    if (marker == 0xd9 || marker == 0xda) return false; /* the end, or pixels */
    at += 2 + length;
  }
  return false;
}

static const char *refused_process(const jpeg_frame *frame)
{
  if (frame->process > 8) return "arithmetic coding";
  if (frame->process == 3) return "lossless coding";
  if (frame->process > 3) return "hierarchical coding";
  return NULL;
}

static capl_status check_frame(const uint8_t *bytes, size_t size, const char *name, jpeg_frame *frame)
{
  if (size < 4 || !find_frame(bytes, size, frame))
    return CAPL_FAIL(CAPL_EFORMAT, "%s: damaged JPEG: no frame header", name);
  const char *refused = refused_process(frame);
  if (!refused && frame->precision != 8)
    refused = frame->precision == 12 ? "12 bits per channel" : "an odd number of bits per channel";
  if (refused) {
    CAPL_FAIL(CAPL_EFORMAT, "%s: JPEG with %s, which is not read", name, refused);
    capl_error_hint("convert it first, for example with ImageMagick: convert %s PNG:NEW.png", name);
    return CAPL_EFORMAT;
  }
  if (frame->components != 1 && frame->components != 3 && frame->components != 4)
    return CAPL_FAIL(CAPL_EFORMAT, "%s: damaged JPEG: it has %d channels", name, frame->components);
  if (frame->width < 1 || frame->height < 1)
    return CAPL_FAIL(CAPL_EFORMAT, "%s: damaged JPEG: it is %d x %d px", name, frame->width, frame->height);
  return image_check_size(name, frame->width, frame->height);
}

capl_status jpeg_probe(const uint8_t *bytes, size_t size, const char *name, capl_image_info *info)
{
  jpeg_frame frame;
  CAPL_TRY(check_frame(bytes, size, name, &frame));
  bool turned = frame.orientation >= 5;
  *info = (capl_image_info){"JPEG", turned ? frame.height : frame.width, turned ? frame.width : frame.height,
                            frame.components};
  return CAPL_OK;
}

/* ---- libjpeg's callbacks --------------------------------------------------------------------- */

typedef struct {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf out;
  const char *name;
  capl_image *image;
  char reason[JMSG_LENGTH_MAX];
} jpeg_reader;

static void keep_reason(j_common_ptr jpeg)
{
  jpeg_reader *r = jpeg->client_data;
  jpeg->err->format_message(jpeg, r->reason);
  longjmp(r->out, 1);
}

/* Warnings that leave every pixel as it was written. */
static bool is_harmless(int code)
{
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR;
}

static void handle_warning(j_common_ptr jpeg, int level)
{
  if (level < 0 && !is_harmless(jpeg->err->msg_code)) keep_reason(jpeg);
}

static void count_scans(j_common_ptr jpeg)
{
  jpeg_reader *r = jpeg->client_data;
  if (r->jpeg.input_scan_number <= SCANS_MAX) return;
  snprintf(r->reason, sizeof r->reason, "more than %d scans", SCANS_MAX);
  longjmp(r->out, 1);
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* Gray is the luma that a colour file holds; nothing is computed from its colours then. */
static void choose_colours(struct jpeg_decompress_struct *jpeg, int channels)
{
  J_COLOR_SPACE has = jpeg->jpeg_color_space;
  if (has == JCS_CMYK || has == JCS_YCCK) jpeg->out_color_space = JCS_CMYK;
  else if (has == JCS_GRAYSCALE || (channels == 1 && has == JCS_YCbCr)) jpeg->out_color_space = JCS_GRAYSCALE;
  else jpeg->out_color_space = JCS_RGB;
}

static bool begin(jpeg_reader *r, const uint8_t *bytes, size_t size, int channels)
{
  if (setjmp(r->out)) return false;
  jpeg_create_decompress(&r->jpeg);
  r->jpeg.client_data = r;
  r->jpeg.progress = &r->progress;
  r->progress.progress_monitor = count_scans;
  jpeg_mem_src(&r->jpeg, bytes, (unsigned long)size);
  jpeg_read_header(&r->jpeg, TRUE);
  choose_colours(&r->jpeg, channels);
  jpeg_calc_output_dimensions(&r->jpeg);
  return true;
}

static bool read_pixels(jpeg_reader *r)
{
  if (setjmp(r->out)) return false;
  jpeg_start_decompress(&r->jpeg);
  size_t stride = (size_t)r->jpeg.output_width * (size_t)r->jpeg.output_components;
  while (r->jpeg.output_scanline < r->jpeg.output_height) {
    JSAMPROW row = r->image->pixels + r->jpeg.output_scanline * stride;
    jpeg_read_scanlines(&r->jpeg, &row, 1);
  }
  jpeg_finish_decompress(&r->jpeg);
  return true;
}

/* In place. Files with Adobe's mark hold inverted inks, as every program since has read them. */
static void cmyk_to_rgb(uint8_t *p, size_t n, bool inverted)
{
  for (size_t i = 0; i < n; i++) {
    unsigned black = inverted ? p[4 * i + 3] : 255u - p[4 * i + 3];
    for (size_t c = 0; c < 3; c++) {
      unsigned ink = inverted ? p[4 * i + c] : 255u - p[4 * i + c];
      p[3 * i + c] = (uint8_t)((ink * black + 127) / 255);
    }
  }
}

static capl_status damaged(const jpeg_reader *r)
{
  return CAPL_FAIL(CAPL_EFORMAT, "%s: damaged JPEG: %s", r->name, r->reason);
}

static capl_status decode(jpeg_reader *r, const uint8_t *bytes, size_t size, int channels)
{
  if (!begin(r, bytes, size, channels)) return damaged(r);
  int has = r->jpeg.output_components;
  CAPL_TRY(image_check_size(r->name, r->jpeg.output_width, r->jpeg.output_height));
  CAPL_TRY(capl_image_resize(r->image, (int)r->jpeg.output_width, (int)r->jpeg.output_height,
                             has > channels ? has : channels));
  if (!read_pixels(r)) return damaged(r);
  size_t n = (size_t)r->image->width * (size_t)r->image->height;
  if (has == 4) cmyk_to_rgb(r->image->pixels, n, r->jpeg.saw_Adobe_marker);
  r->image->channels = has == 4 ? 3 : has;
  image_convert(r->image, channels);
  return CAPL_OK;
}

/* ---- turning --------------------------------------------------------------------------------- */

/* Upright pixel (x, y) of a width x height image is at this place of the file's. EXIF numbers the sides at which the
** first row and the first column lie: 1 top left, 2 top right, 3 bottom right, 4 bottom left, 5..8 with both
** exchanged. */
static size_t place(int orientation, int x, int y, int width, int height)
{
  bool right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  bool down = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  if (orientation < 5) return (size_t)(down ? height - 1 - y : y) * (size_t)width + (size_t)(right ? width - 1 - x : x);
  int row = down ? width - 1 - x : x, column = right ? height - 1 - y : y;
  return (size_t)row * (size_t)height + (size_t)column;
}

/* As cameras and telephones mean it, and viewers show it. */
static capl_status turn_upright(capl_image *image, int orientation, const char *name)
{
  if (orientation == 1) return CAPL_OK;
  int width = orientation < 5 ? image->width : image->height, height = orientation < 5 ? image->height : image->width;
  size_t channels = (size_t)image->channels, bytes = (size_t)width * (size_t)height * channels;
  uint8_t *lying = malloc(bytes);
  if (!lying) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to turn the image upright", name);
  memcpy(lying, image->pixels, bytes);
  uint8_t *to = image->pixels;
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++, to += channels)
      memcpy(to, lying + channels * place(orientation, x, y, width, height), channels);
  }
  free(lying);
  image->width = width;
  image->height = height;
  return CAPL_OK;
}

capl_status jpeg_decode(const uint8_t *bytes, size_t size, const char *name, int channels, capl_image *image)
{
  jpeg_frame frame;
  CAPL_TRY(check_frame(bytes, size, name, &frame));
  jpeg_reader *r = calloc(1, sizeof *r);
  if (!r) return CAPL_FAIL(CAPL_ENOMEM, "%s: no memory to read the JPEG", name);
  r->name = name;
  r->image = image;
  r->jpeg.err = jpeg_std_error(&r->errors);
  r->jpeg.client_data = r; /* for errors of jpeg_create_decompress, which keeps it */
  r->errors.error_exit = keep_reason;
  r->errors.emit_message = handle_warning;
  capl_status status = decode(r, bytes, size, channels);
  jpeg_destroy_decompress(&r->jpeg);
  free(r);
  return status == CAPL_OK ? turn_upright(image, frame.orientation, name) : status;
}
