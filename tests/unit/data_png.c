/* data_png.c -- tests of the PNG reader and writer. The files are made here byte by byte, so that the
** reader is held against the format and not against its own library.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

enum { W = 13, H = 9 };

/* ---- making files ---------------------------------------------------------------------------- */

enum { GRAY = 0, RGB = 2, PALETTE = 3, GRAY_ALPHA = 4, RGB_ALPHA = 6 }; /* colour types of the format */

static const int channels_of[] = {[GRAY] = 1, [RGB] = 3, [PALETTE] = 1, [GRAY_ALPHA] = 2, [RGB_ALPHA] = 4};

typedef struct {
  uint8_t bytes[32768];
  size_t size;
} file;

static void put(file *f, const void *bytes, size_t size)
{
  assert_true(f->size + size <= sizeof f->bytes);
  memcpy(f->bytes + f->size, bytes, size);
  f->size += size;
}

static void put_u32(file *f, uint32_t value)
{
  put(f, (uint8_t[]){(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value}, 4);
}

static uint32_t crc_of(const uint8_t *bytes, size_t size)
{
  uint32_t crc = 0xffffffff;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    for (int k = 0; k < 8; k++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  return ~crc;
}

static uint32_t adler_of(const uint8_t *bytes, size_t size)
{
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < size; i++) {
    a = (a + bytes[i]) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

static void put_chunk(file *f, const char *type, const void *bytes, size_t size)
{
  put_u32(f, (uint32_t)size);
  size_t start = f->size;
  put(f, type, 4);
  put(f, bytes, size);
  put_u32(f, crc_of(f->bytes + start, f->size - start));
}

/* Raw sample k of pixel (x,y), below 2^depth. */
static unsigned raw(int x, int y, int k, int depth)
{
  unsigned r = (unsigned)(x * 7919 + y * 104729 + k * 1299709 + 12345);
  r ^= r >> 7;
  return r * 2654435761u >> 7 & ((1u << depth) - 1);
}

static void put_bits(uint8_t *row, int index, int depth, unsigned value)
{
  if (depth == 16) {
    row[2 * index] = (uint8_t)(value >> 8);
    row[2 * index + 1] = (uint8_t)value;
  } else {
    int bit = index * depth;
    row[bit / 8] |= (uint8_t)(value << (8 - depth - bit % 8));
  }
}

/* The pixels x0, x0 + dx, … of the rows y0, y0 + dy, …: the whole image, or one of the passes of an interlaced one. */
static void put_pass(file *f, int colour, int depth, int x0, int y0, int dx, int dy)
{
  int channels = channels_of[colour];
  for (int y = y0; y < H && x0 < W; y += dy) {
    uint8_t row[1 + W * 8] = {0}; /* filter: none */
    int n = 0;
    for (int x = x0; x < W; x += dx, n++) {
      for (int k = 0; k < channels; k++) put_bits(row + 1, n * channels + k, depth, raw(x, y, k, depth));
    }
    put(f, row, (size_t)(1 + (n * channels * depth + 7) / 8));
  }
}

/* Pixels in one stored block of deflate. */
static void put_pixels(file *f, int colour, int depth, bool interlaced)
{
  static const int passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2},
                                   {0, 1, 1, 2}};
  file rows = {.size = 0}, stream = {.size = 0};
  if (!interlaced) put_pass(&rows, colour, depth, 0, 0, 1, 1);
  for (int i = 0; interlaced && i < 7; i++)
    put_pass(&rows, colour, depth, passes[i][0], passes[i][1], passes[i][2], passes[i][3]);
  unsigned n = (unsigned)rows.size;
  put(&stream, (uint8_t[]){0x78, 1, 1, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)~n, (uint8_t)(~n >> 8)}, 7);
  put(&stream, rows.bytes, rows.size);
  put_u32(&stream, adler_of(rows.bytes, rows.size));
  put_chunk(f, "IDAT", stream.bytes, stream.size);
}

static void put_header(file *f, uint32_t width, uint32_t height, int colour, int depth, bool interlaced)
{
  file header = {.size = 0};
  put_u32(&header, width);
  put_u32(&header, height);
  put(&header, (uint8_t[]){(uint8_t)depth, (uint8_t)colour, 0, 0, interlaced}, 5);
  f->size = 0;
  put(f, "\x89PNG\r\n\x1a\n", 8);
  put_chunk(f, "IHDR", header.bytes, header.size);
}

static void palette_colour(unsigned i, uint8_t rgb[3])
{
  rgb[0] = (uint8_t)(i * 37);
  rgb[1] = (uint8_t)(i * 91 + 5);
  rgb[2] = (uint8_t)(255 - i * 3);
}

static void put_palette(file *f, int depth, bool transparent)
{
  uint8_t colours[256][3], alpha[256];
  size_t n = (size_t)1 << depth;
  for (unsigned i = 0; i < n; i++) {
    palette_colour(i, colours[i]);
    alpha[i] = (uint8_t)(i * 53);
  }
  put_chunk(f, "PLTE", colours, 3 * n);
  if (transparent) put_chunk(f, "tRNS", alpha, n);
}

static void encode(file *f, int colour, int depth, bool interlaced, bool transparent)
{
  put_header(f, W, H, colour, depth, interlaced);
  if (colour == PALETTE) put_palette(f, depth, transparent);
  if (colour == GRAY && transparent) put_chunk(f, "tRNS", "\0\0", 2);
  put_pixels(f, colour, depth, interlaced);
  put_chunk(f, "IEND", "", 0);
}

/* ---- what they should read as ---------------------------------------------------------------- */

static unsigned to_8_bit(unsigned value, int depth)
{
  return depth == 16 ? (value * 255 + 32895) >> 16 : value * 255 / ((1u << depth) - 1);
}

static uint8_t on_white(unsigned level, unsigned alpha)
{
  return (uint8_t)((level * alpha + 255 * (255 - alpha) + 127) / 255);
}

static void expected_rgb(int colour, int depth, bool transparent, int x, int y, uint8_t rgb[3])
{
  if (colour == PALETTE) {
    unsigned i = raw(x, y, 0, depth), alpha = transparent ? (uint8_t)(i * 53) : 255;
    palette_colour(i, rgb);
    for (int k = 0; k < 3; k++) rgb[k] = on_white(rgb[k], alpha);
    return;
  }
  int channels = channels_of[colour], colours = channels <= 2 ? 1 : 3;
  unsigned alpha = channels == colours ? 255 : to_8_bit(raw(x, y, colours, depth), depth);
  if (transparent && raw(x, y, 0, depth) == 0) alpha = 0;
  for (int k = 0; k < 3; k++) rgb[k] = on_white(to_8_bit(raw(x, y, colours == 1 ? 0 : k, depth), depth), alpha);
}

static void check_kind(int colour, int depth, bool interlaced, bool transparent)
{
  file f;
  encode(&f, colour, depth, interlaced, transparent);
  capl_image rgb = {0}, gray = {0};
  assert_ok(capl_png_decode(f.bytes, f.size, "test.png", 3, &rgb));
  assert_ok(capl_png_decode(f.bytes, f.size, "test.png", 1, &gray));
  assert_int_equal(rgb.width * 1000 + rgb.height, W * 1000 + H);
  for (int i = 0; i < W * H; i++) {
    uint8_t e[3];
    expected_rgb(colour, depth, transparent, i % W, i / W, e);
    if (memcmp(e, rgb.pixels + 3 * i, 3) != 0) {
      fail_msg("colour type %d depth %d pixel %d: got %d %d %d, expected %d %d %d", colour, depth, i, rgb.pixels[3 * i],
               rgb.pixels[3 * i + 1], rgb.pixels[3 * i + 2], e[0], e[1], e[2]);
    }
    assert_int_equal(gray.pixels[i], (e[0] * 19595u + e[1] * 38470u + e[2] * 7471u + 0x8000u) >> 16);
  }
  capl_image_fini(&rgb);
  capl_image_fini(&gray);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void every_colour_type_and_depth_reads(void **state)
{
  (void)state;
  static const struct {
    int colour, depth;
  } kinds[] = {
    {GRAY, 1},    {GRAY, 2},    {GRAY, 4},    {GRAY, 8},       {GRAY, 16},       {RGB, 8},       {RGB, 16},
    {PALETTE, 1}, {PALETTE, 2}, {PALETTE, 4}, {PALETTE, 8}, {GRAY_ALPHA, 8}, {GRAY_ALPHA, 16}, {RGB_ALPHA, 8},
    {RGB_ALPHA, 16},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    for (int interlaced = 0; interlaced < 2; interlaced++)
      check_kind(kinds[i].colour, kinds[i].depth, interlaced, false);
  }
}

static void transparency_chunks_are_composited_on_white(void **state)
{
  (void)state;
  check_kind(PALETTE, 8, false, true);
  check_kind(PALETTE, 2, true, true);
  check_kind(GRAY, 8, false, true);
}

static void zero_channels_means_what_the_file_has(void **state)
{
  (void)state;
  file f;
  capl_image image = {0};
  encode(&f, GRAY_ALPHA, 8, false, false);
  assert_ok(capl_png_decode(f.bytes, f.size, "test.png", 0, &image));
  assert_int_equal(image.channels, 1);
  encode(&f, PALETTE, 4, false, false);
  assert_ok(capl_png_decode(f.bytes, f.size, "test.png", 0, &image));
  assert_int_equal(image.channels, 3);
  assert_fails(capl_png_decode(f.bytes, f.size, "test.png", 4, &image), CAPL_EVALUE,
               "test.png: channels must be 0, 1 or 3, not 4");
  capl_image_fini(&image);
}

static void check_indices(int colour, int depth, bool interlaced, bool transparent)
{
  static file f;
  f.size = 0;
  encode(&f, colour, depth, interlaced, transparent);
  capl_image mask = {0};
  assert_ok(capl_png_decode_indices(f.bytes, f.size, "m.png", &mask));
  assert_int_equal(mask.width * 1000 + mask.height, W * 1000 + H);
  for (int i = 0; i < W * H; i++) assert_int_equal(mask.pixels[i], raw(i % W, i / W, 0, depth));
  capl_image_fini(&mask);
}

static void indices_are_what_the_file_has(void **state)
{
  (void)state;
  for (int depth = 1; depth <= 8; depth *= 2) {
    for (int interlaced = 0; interlaced < 2; interlaced++) {
      check_indices(GRAY, depth, interlaced, false);
      check_indices(PALETTE, depth, interlaced, false);
      check_indices(PALETTE, depth, interlaced, true);
    }
  }
}

static void indices_of_other_images_are_refused(void **state)
{
  (void)state;
  static const struct {
    int colour, depth;
    const char *text;
  } kinds[] = {{RGB, 8, "m.png: the PNG has colours without a palette, which is no mask"},
               {RGB_ALPHA, 8, "m.png: the PNG has colours without a palette, which is no mask"},
               {GRAY_ALPHA, 8, "m.png: the PNG has transparency, which is no mask"},
               {GRAY, 16, "m.png: the PNG has 16 bits per pixel, which is no mask"}};
  capl_image mask = {0};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    file f;
    encode(&f, kinds[i].colour, kinds[i].depth, false, false);
    assert_fails(capl_png_decode_indices(f.bytes, f.size, "m.png", &mask), CAPL_EFORMAT, kinds[i].text);
  }
  assert_fails(capl_png_decode_indices("\xff\xd8\xff\xe0", 4, "m.png", &mask), CAPL_EFORMAT,
               "m.png: the file is JPEG, not PNG");
  capl_image_fini(&mask);
}

static void what_is_written_reads_back(void **state)
{
  (void)state;
  uint8_t pixels[W * H * 3];
  capl_image image = {0};
  for (int i = 0; i < (int)sizeof pixels; i++) pixels[i] = (uint8_t)raw(i, 1, 2, 8);
  for (int channels = 1; channels <= 3; channels += 2) {
    assert_ok(capl_png_write(in_folder("a.png"), pixels, W, H, channels));
    assert_ok(capl_png_read(in_folder("a.png"), 0, &image));
    assert_int_equal(image.channels, channels);
    assert_memory_equal(image.pixels, pixels, (size_t)(W * H * channels));
  }
  capl_image_fini(&image);
}

static void writing_where_nothing_can_be_written_says_so(void **state)
{
  (void)state;
  uint8_t pixels[4] = {0};
  assert_fails(capl_png_write("/no/where/a.png", pixels, 2, 2, 1), CAPL_EIO,
               "/no/where/a.png: cannot be written: No such file or directory");
  assert_fails(capl_png_write("a.png", pixels, 2, 2, 2), CAPL_EVALUE,
               "a.png: cannot write 2 x 2 px of 2 channels as PNG");
}

static void other_files_are_named_for_what_they_are(void **state)
{
  (void)state;
  capl_image image = {0};
  static const struct {
    const char *bytes;
    size_t size;
    const char *message;
  } files[] = {
    {"", 0, "x.png: the file is empty"},
    {"\xff\xd8\xff\xe0 JFIF", 9, "x.png: the file is JPEG, not PNG"},
    {"GIF89a......", 12, "x.png: the file is GIF, not PNG"},
    {"RIFF....WEBPVP8 ", 16, "x.png: the file is WebP, not PNG"},
    {"BM........", 10, "x.png: the file is BMP, not PNG"},
    {"<!DOCTYPE html><html>", 21, "x.png: the file is HTML, not PNG"},
    {"version https://git-lfs.github.com/spec/v1", 42, "x.png: the file is a Git LFS pointer, not PNG"},
    {"PK\3\4....", 8, "x.png: the file is a ZIP archive, not PNG"},
    {"hello, world", 12, "x.png: the file is no PNG; it starts with 68 65 6c 6c 6f 2c 20 77"},
    {"\x89PNG", 4, "x.png: the file is no PNG; it starts with 89 50 4e 47"},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    assert_fails(capl_png_decode(files[i].bytes, files[i].size, "x.png", 1, &image), CAPL_EFORMAT, files[i].message);
  }
  capl_image_fini(&image);
}

static void a_missing_file_is_an_io_error(void **state)
{
  (void)state;
  capl_image image = {0};
  assert_fails(capl_png_read("/no/such.png", 1, &image), CAPL_EIO,
               "/no/such.png: cannot be read: No such file or directory");
  assert_fails(capl_png_read("/tmp", 1, &image), CAPL_EIO, "/tmp: cannot be read: it is a folder, not a file");
  capl_image_fini(&image);
}

/* Every possible cut, and one flipped bit at every place: an error or an image, never anything worse. Pixels are
** under a checksum, so a flip in them is always an error. */
static void damaged_masks_are_refused(void **state)
{
  (void)state;
  static file f, copy;
  encode(&f, PALETTE, 4, true, false);
  capl_image mask = {0};
  for (size_t keep = 0; keep < f.size; keep++)
    assert_int_equal(capl_png_decode_indices(f.bytes, keep, "m.png", &mask), CAPL_EFORMAT);
  for (size_t i = 0; i < f.size - 12; i++) {
    copy = f;
    copy.bytes[i] ^= 0x10;
    assert_int_equal(capl_png_decode_indices(copy.bytes, copy.size, "m.png", &mask), CAPL_EFORMAT);
  }
  capl_image_fini(&mask);
}

static void damaged_files_are_refused_wherever_the_damage_is(void **state)
{
  (void)state;
  static file f, copy;
  encode(&f, RGB, 8, false, false);
  capl_image image = {0};
  for (size_t keep = 0; keep < f.size; keep++) {
    assert_int_equal(capl_png_decode(f.bytes, keep, "x.png", 1, &image), CAPL_EFORMAT);
  }
  /* Not in the last chunk, IEND: it holds nothing, and libpng 1.6.48 forgives its length. */
  for (size_t i = 0; i < f.size - 12; i++) {
    copy = f;
    copy.bytes[i] ^= 0x10;
    if (capl_png_decode(copy.bytes, copy.size, "x.png", 1, &image) == CAPL_OK)
      fail_msg("a flip in byte %zu went unnoticed", i);
  }
  assert_fails(capl_png_decode(f.bytes, f.size - 12, "x.png", 1, &image), CAPL_EFORMAT,
               "x.png: damaged PNG: the file ends too early");
  capl_image_fini(&image);
}

static void an_image_of_too_many_pixels_is_refused_by_its_header(void **state)
{
  (void)state;
  file f;
  put_header(&f, 100000, 100000, GRAY, 8, false);
  put_chunk(&f, "IDAT", "", 0);
  capl_image image = {0};
  assert_fails(capl_png_decode(f.bytes, f.size, "x.png", 1, &image), CAPL_EVALUE,
               "x.png: 100000 x 100000 px is more than 64 megapixels");
  capl_image_fini(&image);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_colour_type_and_depth_reads),
    cmocka_unit_test(transparency_chunks_are_composited_on_white),
    cmocka_unit_test(zero_channels_means_what_the_file_has),
    cmocka_unit_test(indices_are_what_the_file_has),
    cmocka_unit_test(indices_of_other_images_are_refused),
    cmocka_unit_test(damaged_masks_are_refused),
    cmocka_unit_test(what_is_written_reads_back),
    cmocka_unit_test(writing_where_nothing_can_be_written_says_so),
    cmocka_unit_test(other_files_are_named_for_what_they_are),
    cmocka_unit_test(a_missing_file_is_an_io_error),
    cmocka_unit_test(damaged_files_are_refused_wherever_the_damage_is),
    cmocka_unit_test(an_image_of_too_many_pixels_is_refused_by_its_header),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
