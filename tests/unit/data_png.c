/* data_png.c -- tests of the PNG reader and writer. The files are made with libpng itself, row by row.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

#include <png.h>

enum { W = 13, H = 9 };

/* ---- making files ---------------------------------------------------------------------------- */

typedef struct {
  uint8_t bytes[65536];
  size_t size;
} file;

static void collect(png_structp png, png_bytep bytes, size_t size)
{
  file *f = png_get_io_ptr(png);
  assert_true(f->size + size <= sizeof f->bytes);
  memcpy(f->bytes + f->size, bytes, size);
  f->size += size;
}

static void flush(png_structp png)
{
  (void)png;
}

static const int channels_of[] = {[PNG_COLOR_TYPE_GRAY] = 1, [PNG_COLOR_TYPE_RGB] = 3, [PNG_COLOR_TYPE_PALETTE] = 1,
                                  [PNG_COLOR_TYPE_GRAY_ALPHA] = 2, [PNG_COLOR_TYPE_RGB_ALPHA] = 4};

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

static void fill_row(uint8_t *row, int y, int channels, int depth)
{
  memset(row, 0, W * 8);
  for (int x = 0; x < W; x++) {
    for (int k = 0; k < channels; k++) put_bits(row, x * channels + k, depth, raw(x, y, k, depth));
  }
}

static png_color palette_colour(unsigned i)
{
  return (png_color){(uint8_t)(i * 37), (uint8_t)(i * 91 + 5), (uint8_t)(255 - i * 3)};
}

static void set_palette(png_structp png, png_infop info, int depth, bool transparent)
{
  png_color colours[256];
  uint8_t alpha[256];
  for (unsigned i = 0; i < 1u << depth; i++) {
    colours[i] = palette_colour(i);
    alpha[i] = (uint8_t)(i * 53);
  }
  png_set_PLTE(png, info, colours, 1 << depth);
  if (transparent) png_set_tRNS(png, info, alpha, 1 << depth, NULL);
}

static void encode(file *f, int colour, int depth, bool interlaced, bool transparent)
{
  f->size = 0;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, f, collect, flush);
  png_set_IHDR(png, info, W, H, depth, colour, interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (colour == PNG_COLOR_TYPE_PALETTE) set_palette(png, info, depth, transparent);
  if (colour == PNG_COLOR_TYPE_GRAY && transparent) png_set_tRNS(png, info, NULL, 0, &(png_color_16){.gray = 0});
  png_write_info(png, info);
  int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; pass++) {
    for (int y = 0; y < H; y++) {
      uint8_t row[W * 8];
      fill_row(row, y, channels_of[colour], depth);
      png_write_row(png, row);
    }
  }
  png_write_end(png, NULL);
  png_destroy_write_struct(&png, &info);
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
  if (colour == PNG_COLOR_TYPE_PALETTE) {
    unsigned i = raw(x, y, 0, depth), alpha = transparent ? (uint8_t)(i * 53) : 255;
    png_color c = palette_colour(i);
    rgb[0] = on_white(c.red, alpha);
    rgb[1] = on_white(c.green, alpha);
    rgb[2] = on_white(c.blue, alpha);
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
    {PNG_COLOR_TYPE_GRAY, 1},    {PNG_COLOR_TYPE_GRAY, 2},       {PNG_COLOR_TYPE_GRAY, 4},        {PNG_COLOR_TYPE_GRAY, 8},
    {PNG_COLOR_TYPE_GRAY, 16},   {PNG_COLOR_TYPE_RGB, 8},        {PNG_COLOR_TYPE_RGB, 16},        {PNG_COLOR_TYPE_PALETTE, 1},
    {PNG_COLOR_TYPE_PALETTE, 2}, {PNG_COLOR_TYPE_PALETTE, 4},    {PNG_COLOR_TYPE_PALETTE, 8},     {PNG_COLOR_TYPE_GRAY_ALPHA, 8},
    {PNG_COLOR_TYPE_GRAY_ALPHA, 16}, {PNG_COLOR_TYPE_RGB_ALPHA, 8}, {PNG_COLOR_TYPE_RGB_ALPHA, 16},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    for (int interlaced = 0; interlaced < 2; interlaced++) check_kind(kinds[i].colour, kinds[i].depth, interlaced, false);
  }
}

static void transparency_chunks_are_composited_on_white(void **state)
{
  (void)state;
  check_kind(PNG_COLOR_TYPE_PALETTE, 8, false, true);
  check_kind(PNG_COLOR_TYPE_PALETTE, 2, true, true);
  check_kind(PNG_COLOR_TYPE_GRAY, 8, false, true);
}

static void zero_channels_means_what_the_file_has(void **state)
{
  (void)state;
  file f;
  capl_image image = {0};
  encode(&f, PNG_COLOR_TYPE_GRAY_ALPHA, 8, false, false);
  assert_ok(capl_png_decode(f.bytes, f.size, "test.png", 0, &image));
  assert_int_equal(image.channels, 1);
  encode(&f, PNG_COLOR_TYPE_PALETTE, 4, false, false);
  assert_ok(capl_png_decode(f.bytes, f.size, "test.png", 0, &image));
  assert_int_equal(image.channels, 3);
  assert_fails(capl_png_decode(f.bytes, f.size, "test.png", 4, &image), CAPL_EVALUE,
               "test.png: channels must be 0, 1 or 3, not 4");
  capl_image_fini(&image);
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
    {"\xff\xd8\xff\xe0 JFIF", 9, "x.png: this is a JPEG file, not PNG"},
    {"GIF89a......", 12, "x.png: this is a GIF file, not PNG"},
    {"RIFF....WEBPVP8 ", 16, "x.png: this is a WebP file, not PNG"},
    {"BM........", 10, "x.png: this is a BMP file, not PNG"},
    {"hello, world", 12, "x.png: not a PNG file"},
    {"\x89PNG", 4, "x.png: not a PNG file"},
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
  assert_fails(capl_png_read("/no/such.png", 1, &image), CAPL_EIO, "/no/such.png: cannot be read: No such file or directory");
  assert_fails(capl_png_read("/tmp", 1, &image), CAPL_EIO, "/tmp: cannot be read: it is not a file");
  capl_image_fini(&image);
}

/* Every possible cut, and one flipped bit at every place: an error or an image, never anything worse. Pixels are
** under a checksum, so a flip in them is always an error. */
static void damaged_files_are_refused_wherever_the_damage_is(void **state)
{
  (void)state;
  static file f, copy;
  encode(&f, PNG_COLOR_TYPE_RGB, 8, false, false);
  capl_image image = {0};
  for (size_t keep = 0; keep < f.size; keep++) {
    assert_int_equal(capl_png_decode(f.bytes, keep, "x.png", 1, &image), CAPL_EFORMAT);
  }
  for (size_t i = 0; i < f.size; i++) {
    copy = f;
    copy.bytes[i] ^= 0x10;
    if (capl_png_decode(copy.bytes, copy.size, "x.png", 1, &image) == CAPL_OK) fail_msg("a flip in byte %zu went unnoticed", i);
  }
  assert_fails(capl_png_decode(f.bytes, f.size - 12, "x.png", 1, &image), CAPL_EFORMAT,
               "x.png: damaged PNG: the file ends too early");
  capl_image_fini(&image);
}

static void an_image_of_too_many_pixels_is_refused_by_its_header(void **state)
{
  (void)state;
  /* A sound header of 100,000 x 100,000 px and nothing else. */
  static const uint8_t bytes[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 1, 0x86, 0xa0,
                                  0, 1, 0x86, 0xa0, 8, 0, 0, 0, 0, 0xcf, 0x19, 0x7e, 0x5d};
  uint8_t whole[sizeof bytes + 12];
  memcpy(whole, bytes, sizeof bytes);
  uint32_t crc = 0xffffffff;
  for (int i = 12; i < 29; i++) {
    crc ^= bytes[i];
    for (int k = 0; k < 8; k++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  crc = ~crc;
  for (int i = 0; i < 4; i++) whole[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
  memcpy(whole + sizeof bytes, "\0\0\0\0IDAT\x35\xaf\x06\x1e", 12);
  capl_image image = {0};
  assert_fails(capl_png_decode(whole, sizeof whole, "x.png", 1, &image), CAPL_EVALUE,
               "x.png: 100000 x 100000 px is more than 64 megapixels");
  capl_image_fini(&image);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_colour_type_and_depth_reads),
    cmocka_unit_test(transparency_chunks_are_composited_on_white),
    cmocka_unit_test(zero_channels_means_what_the_file_has),
    cmocka_unit_test(what_is_written_reads_back),
    cmocka_unit_test(writing_where_nothing_can_be_written_says_so),
    cmocka_unit_test(other_files_are_named_for_what_they_are),
    cmocka_unit_test(a_missing_file_is_an_io_error),
    cmocka_unit_test(damaged_files_are_refused_wherever_the_damage_is),
    cmocka_unit_test(an_image_of_too_many_pixels_is_refused_by_its_header),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
