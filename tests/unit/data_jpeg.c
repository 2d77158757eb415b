/* data_jpeg.c -- tests of the JPEG reader. The files are written here by libjpeg in all the ways that occur, then
** damaged. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

#include <jpeglib.h>

enum { W = 37, H = 23 };

typedef struct {
  J_COLOR_SPACE colours; /* of the pixels given */
  J_COLOR_SPACE stored;
  bool progressive, arithmetic;
  int restart;     /* MCUs between restart markers, 0 = none */
  int orientation; /* of EXIF, 0 = no such segment */
  int width, height; /* 0 = W, H */
} look;

typedef struct {
  unsigned char *bytes; /* free() */
  unsigned long size;
} file;

static int channels_of(J_COLOR_SPACE space)
{
  return space == JCS_GRAYSCALE ? 1 : space == JCS_CMYK ? 4 : 3;
}

/* A smooth picture, so that what coding loses is little: channel c of pixel (x, y). */
static uint8_t level(int x, int y, int c)
{
  return (uint8_t)(40 + 3 * x + 2 * y + 20 * c);
}

static void put_orientation(struct jpeg_compress_struct *jpeg, int orientation)
{
  uint8_t exif[] = {'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0,
                    0, 0, 0, 0, 0};
  exif[25] = (uint8_t)orientation;
  jpeg_write_marker(jpeg, JPEG_APP0 + 1, exif, sizeof exif);
}

static file make(look l)
{
  file f = {NULL, 0};
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, &f.bytes, &f.size);
  jpeg.image_width = (JDIMENSION)(l.width ? l.width : W);
  jpeg.image_height = (JDIMENSION)(l.height ? l.height : H);
  jpeg.in_color_space = l.colours;
  jpeg.input_components = channels_of(l.colours);
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, l.stored);
  jpeg_set_quality(&jpeg, 100, TRUE);
  if (l.progressive) jpeg_simple_progression(&jpeg);
  jpeg.arith_code = l.arithmetic;
  jpeg.restart_interval = (unsigned)l.restart;
  jpeg_start_compress(&jpeg, TRUE);
  if (l.orientation) put_orientation(&jpeg, l.orientation);
  uint8_t *row = calloc(jpeg.image_width, 4);
  while (jpeg.next_scanline < jpeg.image_height) {
    for (int x = 0; x < (int)jpeg.image_width; x++)
      for (int c = 0; c < jpeg.input_components; c++)
        row[x * jpeg.input_components + c] = level(x, (int)jpeg.next_scanline, c);
    JSAMPROW rows = row;
    jpeg_write_scanlines(&jpeg, &rows, 1);
  }
  free(row);
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  return f;
}

static void assert_near(int seen, int expected, int tolerance)
{
  if (abs(seen - expected) > tolerance) fail_msg("level %d, expected %d", seen, expected);
}

static void check_gray(look l)
{
  file f = make(l);
  capl_image image = {0};
  assert_ok(capl_image_decode(f.bytes, f.size, "a.jpg", 0, &image));
  assert_int_equal(image.width * 10000 + image.height * 10 + image.channels, W * 10000 + H * 10 + 1);
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++) assert_near(image.pixels[y * W + x], level(x, y, 0), 2);
  assert_ok(capl_image_decode(f.bytes, f.size, "a.jpg", 3, &image));
  assert_int_equal(image.channels, 3);
  for (int i = 0; i < 3 * W * H; i++) assert_near(image.pixels[i], level(i / 3 % W, i / 3 / W, 0), 2);
  capl_image_fini(&image);
  free(f.bytes);
}

static void check_colour(look l)
{
  file f = make(l);
  capl_image image = {0};
  assert_ok(capl_image_decode(f.bytes, f.size, "a.jpg", 0, &image));
  assert_int_equal(image.channels, 3);
  for (int i = 0; i < 3 * W * H; i++) assert_near(image.pixels[i], level(i / 3 % W, i / 3 / W, i % 3), 5);
  assert_ok(capl_image_decode(f.bytes, f.size, "a.jpg", 1, &image));
  assert_int_equal(image.channels, 1);
  for (int i = 0; i < W * H; i++)
    assert_near(image.pixels[i], (int)(0.299 * level(i % W, i / W, 0) + 0.587 * level(i % W, i / W, 1)
                                       + 0.114 * level(i % W, i / W, 2)), 3);
  capl_image_fini(&image);
  free(f.bytes);
}

static void every_usual_kind_is_read(void **state)
{
  (void)state;
  check_gray((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE});
  check_gray((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .progressive = true});
  check_colour((look){.colours = JCS_RGB, .stored = JCS_YCbCr});
  check_colour((look){.colours = JCS_RGB, .stored = JCS_YCbCr, .progressive = true});
  check_colour((look){.colours = JCS_RGB, .stored = JCS_YCbCr, .restart = 3});
  check_colour((look){.colours = JCS_RGB, .stored = JCS_RGB});
}

static void inks_become_colours(void **state)
{
  (void)state;
  static const J_COLOR_SPACE stored[] = {JCS_CMYK, JCS_YCCK};
  for (int k = 0; k < 2; k++) { /* both carry Adobe's mark: what is stored is inverted ink */
    file f = make((look){.colours = JCS_CMYK, .stored = stored[k]});
    capl_image image = {0};
    assert_ok(capl_image_decode(f.bytes, f.size, "a.jpg", 0, &image));
    assert_int_equal(image.channels, 3);
    for (int i = 0; i < 3 * W * H; i++) {
      int x = i / 3 % W, y = i / 3 / W;
      assert_near(image.pixels[i], level(x, y, i % 3) * level(x, y, 3) / 255, 6);
    }
    capl_image_fini(&image);
    free(f.bytes);
  }
}

/* The corner of the upright image where the file's first pixel lies, and its next one in the row. */
static void images_are_turned_as_the_camera_says(void **state)
{
  (void)state;
  static const struct { bool right, down, turned; } upright[9] = {
    {0, 0, 0}, {0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0}, {0, 0, 1}, {1, 0, 1}, {1, 1, 1}, {0, 1, 1}};
  for (int o = 1; o <= 8; o++) {
    file f = make((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .orientation = o});
    capl_image image = {0};
    capl_image_info info;
    assert_ok(capl_image_decode(f.bytes, f.size, "a.jpg", 1, &image));
    assert_ok(capl_image_probe(f.bytes, f.size, "a.jpg", &info));
    int width = upright[o].turned ? H : W, height = upright[o].turned ? W : H;
    assert_int_equal(image.width * 1000 + image.height, width * 1000 + height);
    assert_int_equal(info.width * 1000 + info.height, width * 1000 + height);
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++) {
        int u = upright[o].turned ? y : x, v = upright[o].turned ? x : y;
        if (upright[o].right) u = width - 1 - u;
        if (upright[o].down) v = height - 1 - v;
        assert_near(image.pixels[v * width + u], level(x, y, 0), 2);
      }
    capl_image_fini(&image);
    free(f.bytes);
  }
}

static void nonsense_in_exif_changes_nothing(void **state)
{
  (void)state;
  file plain = make((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE});
  capl_image expected = {0}, image = {0};
  assert_ok(capl_image_decode(plain.bytes, plain.size, "a.jpg", 1, &expected));
  file f = make((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .orientation = 9});
  unsigned char *exif = memmem(f.bytes, f.size, "Exif", 4);
  for (int i = 6; i < 32; i++) {
    for (int value = 0; value < 256; value += 51) {
      unsigned char kept = exif[i];
      exif[i] = (unsigned char)value;
      assert_ok(capl_image_decode(f.bytes, f.size, "a.jpg", 1, &image));
      exif[i] = kept;
      if (image.width == W && i != 25) assert_memory_equal(image.pixels, expected.pixels, W * H);
    }
  }
  capl_image_fini(&image);
  capl_image_fini(&expected);
  free(f.bytes);
  free(plain.bytes);
}

/* The whole screen of one failure. */
static void assert_refused(const file *f, capl_status code, const char *message)
{
  capl_image image = {0};
  assert_fails(capl_image_decode(f->bytes, f->size, "a.jpg", 1, &image), code, message);
  capl_image_fini(&image);
}

static unsigned char *frame_of(const file *f)
{
  for (unsigned long i = 2; i + 10 < f->size; i++)
    if (f->bytes[i] == 0xff && (f->bytes[i + 1] == 0xc0 || f->bytes[i + 1] == 0xc2)) return f->bytes + i;
  return NULL;
}

static void kinds_that_are_not_read_are_named(void **state)
{
  (void)state;
  file f = make((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .arithmetic = true});
  assert_refused(&f, CAPL_EFORMAT, "a.jpg: JPEG with arithmetic coding, which is not read");
  assert_string_equal(capl_error_last()->hint,
                      "convert it first, for example with ImageMagick: convert a.jpg PNG:NEW.png");
  free(f.bytes);
  f = make((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE});
  unsigned char *frame = frame_of(&f);
  frame[1] = 0xc3;
  assert_refused(&f, CAPL_EFORMAT, "a.jpg: JPEG with lossless coding, which is not read");
  frame[1] = 0xc5;
  assert_refused(&f, CAPL_EFORMAT, "a.jpg: JPEG with hierarchical coding, which is not read");
  frame[1] = 0xc0;
  frame[4] = 12;
  assert_refused(&f, CAPL_EFORMAT, "a.jpg: JPEG with 12 bits per channel, which is not read");
  frame[4] = 8;
  frame[9] = 0;
  assert_refused(&f, CAPL_EFORMAT, "a.jpg: damaged JPEG: it has 0 channels");
  frame[9] = 1;
  frame[5] = frame[6] = 0;
  assert_refused(&f, CAPL_EFORMAT, "a.jpg: damaged JPEG: it is 37 x 0 px");
  free(f.bytes);
}

static void too_large_an_image_is_refused_before_memory_is_taken(void **state)
{
  (void)state;
  file f = make((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE});
  unsigned char *frame = frame_of(&f);
  frame[5] = frame[6] = frame[7] = frame[8] = 0xff;
  assert_refused(&f, CAPL_EVALUE, "a.jpg: 65535 x 65535 px is more than 64 megapixels");
  free(f.bytes);
}

/* A progressive file whose last scan is told again and again: small to send, long to read. */
static void endless_scans_are_stopped(void **state)
{
  (void)state;
  file f = make((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .progressive = true});
  unsigned long last = f.size - 2;
  while (!(f.bytes[last] == 0xff && f.bytes[last + 1] == 0xda)) last--;
  unsigned long scan = f.size - 2 - last, many = 200;
  file bomb = {malloc(f.size + many * scan), f.size - 2};
  memcpy(bomb.bytes, f.bytes, f.size - 2);
  for (unsigned long i = 0; i < many; i++, bomb.size += scan) memcpy(bomb.bytes + bomb.size, f.bytes + last, scan);
  memcpy(bomb.bytes + bomb.size, "\xff\xd9", 2);
  bomb.size += 2;
  capl_image image = {0};
  assert_int_equal(capl_image_decode(bomb.bytes, bomb.size, "a.jpg", 1, &image), CAPL_EFORMAT);
  capl_image_fini(&image);
  free(bomb.bytes);
  free(f.bytes);
}

/* Every beginning of a file is an error, not an image with gray rows. */
static void check_cut(look l)
{
  file f = make(l);
  capl_image image = {0};
  for (unsigned long keep = 0; keep < f.size; keep++) {
    unsigned char *bytes = malloc(keep + 1); /* exactly as long, so that reading past it is seen */
    memcpy(bytes, f.bytes, keep);
    bytes = realloc(bytes, keep ? keep : 1);
    if (capl_image_decode(bytes, keep, "a.jpg", 0, &image) != CAPL_EFORMAT)
      fail_msg("%lu of %lu bytes are taken for an image", keep, f.size);
    assert_memory_equal(capl_error_last()->message, "a.jpg: ", 7);
    free(bytes);
  }
  capl_image_fini(&image);
  free(f.bytes);
}

static void a_file_cut_anywhere_is_an_error(void **state)
{
  (void)state;
  check_cut((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .orientation = 6});
  check_cut((look){.colours = JCS_RGB, .stored = JCS_YCbCr, .progressive = true});
  check_cut((look){.colours = JCS_RGB, .stored = JCS_YCbCr, .restart = 2});
}

/* Whatever a byte becomes, the answer is an image of sound size or an error with a message. */
static void no_damaged_byte_does_harm(void **state)
{
  (void)state;
  file f = make((look){.colours = JCS_RGB, .stored = JCS_YCbCr, .progressive = true, .width = 9, .height = 9});
  capl_image image = {0};
  int refused = 0;
  for (unsigned long i = 3; i < f.size; i++) {
    unsigned char kept = f.bytes[i];
    for (int k = 0; k < 3; k++) {
      f.bytes[i] = (unsigned char)(kept ^ (0x01 << 3 * k));
      capl_status status = capl_image_decode(f.bytes, f.size, "a.jpg", 3, &image);
      refused += status != CAPL_OK;
      if (status != CAPL_OK) assert_true(status == CAPL_EFORMAT || status == CAPL_EVALUE);
      else assert_int_equal(image.channels, 3);
    }
    f.bytes[i] = kept;
  }
  assert_true(refused > 100);
  capl_image_fini(&image);
  free(f.bytes);
}

static void other_kinds_are_named(void **state)
{
  (void)state;
  capl_image image = {0};
  assert_fails(capl_image_decode("GIF89a", 6, "a.png", 1, &image), CAPL_EFORMAT,
               "a.png: the file is GIF, not PNG or JPEG");
  assert_fails(capl_image_decode("RIFF....WEBPVP8 ", 16, "a.jpg", 1, &image), CAPL_EFORMAT,
               "a.jpg: the file is WebP, not PNG or JPEG");
  assert_fails(capl_image_decode("BM......", 8, "a.jpg", 1, &image), CAPL_EFORMAT,
               "a.jpg: the file is BMP, not PNG or JPEG");
  assert_fails(capl_image_decode("", 0, "a.jpg", 1, &image), CAPL_EFORMAT, "a.jpg: the file is empty");
  assert_fails(capl_image_decode("captcha", 7, "a.jpg", 1, &image), CAPL_EFORMAT,
               "a.jpg: the file is no PNG or JPEG; it starts with 63 61 70 74 63 68 61");
  file f = make((look){.colours = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE});
  assert_fails(capl_png_decode(f.bytes, f.size, "a.png", 1, &image), CAPL_EFORMAT, "a.png: the file is JPEG, not PNG");
  assert_fails(capl_image_decode(f.bytes, f.size, "a.png", 2, &image), CAPL_EVALUE,
               "a.png: channels must be 0, 1 or 3, not 2");
  free(f.bytes);
  capl_image_fini(&image);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_usual_kind_is_read),
    cmocka_unit_test(inks_become_colours),
    cmocka_unit_test(images_are_turned_as_the_camera_says),
    cmocka_unit_test(nonsense_in_exif_changes_nothing),
    cmocka_unit_test(kinds_that_are_not_read_are_named),
    cmocka_unit_test(too_large_an_image_is_refused_before_memory_is_taken),
    cmocka_unit_test(endless_scans_are_stopped),
    cmocka_unit_test(a_file_cut_anywhere_is_an_error),
    cmocka_unit_test(no_damaged_byte_does_harm),
    cmocka_unit_test(other_kinds_are_named),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
