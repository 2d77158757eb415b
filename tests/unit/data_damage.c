/* data_damage.c -- tests of PNG files that are wrong although every checksum is right: chunks lost, doubled, moved,
** cut, headers that contradict the pixels, bombs. Each kind of damage has a name and is either refused or, where
** nothing is lost by it, read as the sound file is.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

#include <zlib.h>

enum { W = 20, H = 12, CHUNKS_MAX = 8 };

/* ---- files as lists of chunks ---------------------------------------------------------------- */

typedef struct {
  char type[4];
  uint8_t *data;
  uint32_t size;
  uint32_t told; /* as its length is written down */
  uint32_t spoil; /* added to the checksum */
} chunk;

typedef struct {
  chunk chunk[CHUNKS_MAX];
  int n;
} chunks;

static uint32_t get_32(const uint8_t *p)
{
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_32(uint8_t *p, uint32_t value)
{
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static chunks take_apart(const uint8_t *bytes, size_t size)
{
  chunks c = {.n = 0};
  for (size_t at = 8; at < size; at += 12 + get_32(bytes + at)) {
    chunk *k = &c.chunk[c.n++];
    k->size = k->told = get_32(bytes + at);
    memcpy(k->type, bytes + at + 4, 4);
    k->data = malloc(k->size + 64);
    memcpy(k->data, bytes + at + 8, k->size);
  }
  return c;
}

static void drop(chunks *c)
{
  for (int i = 0; i < c->n; i++) free(c->chunk[i].data);
}

/* Returns the size; *bytes: free(). */
static size_t put_together(const chunks *c, uint8_t **bytes)
{
  size_t size = 8;
  for (int i = 0; i < c->n; i++) size += 12 + c->chunk[i].size;
  uint8_t *p = *bytes = malloc(size);
  memcpy(p, "\x89PNG\r\n\x1a\n", 8);
  p += 8;
  for (int i = 0; i < c->n; i++) {
    const chunk *k = &c->chunk[i];
    put_32(p, k->told);
    memcpy(p + 4, k->type, 4);
    memcpy(p + 8, k->data, k->size);
    put_32(p + 8 + k->size, (uint32_t)crc32(0, p + 4, k->size + 4) + k->spoil);
    p += 12 + k->size;
  }
  return size;
}

/* ---- the sound file -------------------------------------------------------------------------- */

static uint8_t pixels[W * H * 3];

static chunks sound(void)
{
  uint8_t *bytes;
  size_t size;
  for (int i = 0; i < (int)sizeof pixels; i++) pixels[i] = (uint8_t)(i * 37 + i / 11);
  assert_ok(capl_png_encode(pixels, W, H, 3, &bytes, &size));
  chunks c = take_apart(bytes, size);
  free(bytes);
  assert_int_equal(c.n, 3); /* IHDR, IDAT, IEND */
  return c;
}

static int tried;

/* EFORMAT or EVALUE with the name in front. */
static void assert_refused(const chunks *c, const char *what, int which)
{
  uint8_t *bytes;
  size_t size = put_together(c, &bytes);
  capl_image image = {0};
  capl_status status = capl_image_decode(bytes, size, "x.png", 3, &image);
  if (status != CAPL_EFORMAT && status != CAPL_EVALUE) fail_msg("%s %d: status %d", what, which, status);
  assert_memory_equal(capl_error_last()->message, "x.png: ", 7);
  capl_image_fini(&image);
  free(bytes);
  tried++;
}

static void assert_read(const chunks *c, const char *what)
{
  uint8_t *bytes;
  size_t size = put_together(c, &bytes);
  capl_image image = {0};
  if (capl_image_decode(bytes, size, "x.png", 3, &image) != CAPL_OK)
    fail_msg("%s: %s", what, capl_error_last()->message);
  assert_memory_equal(image.pixels, pixels, sizeof pixels);
  capl_image_fini(&image);
  free(bytes);
  tried++;
}

/* ---- whole chunks ---------------------------------------------------------------------------- */

static void a_chunk_that_is_lost_or_out_of_place_is_an_error(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) {
    chunks c = sound(), lost = c;
    memmove(&lost.chunk[i], &lost.chunk[i + 1], (size_t)(2 - i) * sizeof(chunk));
    lost.n--;
    assert_refused(&lost, "lost", i);
    for (int k = 0; k < i; k++) {
      chunks moved = c;
      moved.chunk[i] = c.chunk[k];
      moved.chunk[k] = c.chunk[i];
      assert_refused(&moved, "exchanged", 3 * i + k);
    }
    drop(&c);
  }
}

static void a_header_told_twice_is_an_error(void **state)
{
  (void)state;
  chunks c = sound(), twice = c;
  memmove(&twice.chunk[1], &twice.chunk[0], 3 * sizeof(chunk));
  twice.n = 4;
  assert_refused(&twice, "second header", 0);
  drop(&c);
}

static void every_wrong_checksum_is_an_error(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) {
    for (int bit = 0; bit < 32; bit += 5) {
      chunks c = sound();
      c.chunk[i].spoil = 1u << bit;
      if (i < 2) assert_refused(&c, "checksum", i); /* the last chunk holds nothing that could be wrong */
      drop(&c);
    }
  }
}

static void every_wrong_length_is_an_error(void **state)
{
  (void)state;
  static const uint32_t wrong[] = {0, 1, 5, 12, 14, 255, 65535, 0x7ffffff0, 0x7fffffff, 0x80000000, 0xffffffff};
  for (int i = 0; i < 2; i++) {
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
      chunks c = sound();
      c.chunk[i].told = wrong[k];
      assert_refused(&c, "length", (int)(100 * i + (int)k));
      drop(&c);
    }
  }
}

static void chunks_that_nobody_knows_are_refused_if_they_matter_and_passed_over_if_not(void **state)
{
  (void)state;
  static const char *const types[] = {"ABCD", "IDAX", "aBCD", "tEXx", "\0\0\0\0", "1234"};
  for (int k = 0; k < 6; k++) {
    chunks c = sound(), more = c;
    memmove(&more.chunk[2], &more.chunk[1], 2 * sizeof(chunk));
    more.chunk[1] = (chunk){.data = (uint8_t *)"data", .size = 4, .told = 4};
    memcpy(more.chunk[1].type, types[k], 4);
    more.n = 4;
    if (k == 2 || k == 3) assert_read(&more, types[k]);
    else assert_refused(&more, "type", k);
    drop(&c);
  }
}

/* ---- the header ------------------------------------------------------------------------------ */

static void every_wrong_header_is_an_error(void **state)
{
  (void)state;
  static const struct { int at, value; } bytes[] = {
    {8, 0}, {8, 1}, {8, 2}, {8, 3}, {8, 4}, {8, 5}, {8, 7}, {8, 9}, {8, 16}, {8, 17}, {8, 32}, {8, 255},
    {9, 1}, {9, 3}, {9, 4}, {9, 5}, {9, 6}, {9, 7}, {9, 8}, {9, 255}, {10, 1}, {10, 255}, {11, 1}, {11, 64}, {12, 1},
    {12, 2}, {12, 255}};
  for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++) {
    chunks c = sound();
    c.chunk[0].data[bytes[k].at] = (uint8_t)bytes[k].value;
    assert_refused(&c, "header byte", bytes[k].at * 1000 + bytes[k].value);
    drop(&c);
  }
}

static void every_wrong_size_is_an_error(void **state)
{
  (void)state;
  static const uint32_t sizes[] = {0, W + 1, W * 2, 1000, 65536, 1 << 24, 0x7fffffff, 0x80000000, 0xffffffff};
  for (int side = 0; side < 2; side++) {
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
      chunks c = sound();
      put_32(c.chunk[0].data + 4 * side, sizes[k]);
      assert_refused(&c, side ? "height" : "width", (int)k);
      drop(&c);
    }
  }
}

/* ---- the pixels ------------------------------------------------------------------------------ */

static void pixels_cut_short_under_a_right_checksum_are_an_error(void **state)
{
  (void)state;
  chunks c = sound();
  uint32_t whole = c.chunk[1].size;
  /* the last four bytes are a checksum of deflate's own */
  for (uint32_t keep = 0; keep + 5 < whole; keep += whole / 40 + 1) {
    c.chunk[1].size = c.chunk[1].told = keep;
    assert_refused(&c, "pixels", (int)keep);
  }
  drop(&c);
}

static void a_stream_that_is_none_is_an_error(void **state)
{
  (void)state;
  for (int k = 0; k < 8; k++) {
    chunks c = sound();
    uint8_t *data = c.chunk[1].data;
    if (k < 2) data[k] ^= 0xff;
    else if (k < 5) memset(data + k, 0xff, 8);
    else if (k == 5) memset(data, 0, c.chunk[1].size);
    else if (k == 6) memset(data + 2, 0, c.chunk[1].size - 2);
    else data[c.chunk[1].size - 1] ^= 1; /* deflate's checksum */
    assert_refused(&c, "stream", k);
    drop(&c);
  }
}

static void a_filter_that_does_not_exist_is_an_error(void **state)
{
  (void)state;
  uint8_t rows[H * (1 + W * 3)] = {0};
  for (int filter = 5; filter < 256; filter += 50) {
    chunks c = sound();
    rows[5 * (1 + W * 3)] = (uint8_t)filter;
    uLongf size = compressBound(sizeof rows);
    free(c.chunk[1].data);
    c.chunk[1].data = malloc(size);
    assert_int_equal(compress(c.chunk[1].data, &size, rows, sizeof rows), Z_OK);
    c.chunk[1].size = c.chunk[1].told = (uint32_t)size;
    assert_refused(&c, "filter", filter);
    drop(&c);
  }
}

/* 60 megapixels of zeros in 60 kB, told to be an image of 20 x 12. */
static void more_pixels_than_the_header_says_are_an_error_not_memory(void **state)
{
  (void)state;
  enum { ZEROS = 60 << 20 };
  chunks c = sound();
  uint8_t *zeros = calloc(1, ZEROS);
  uLongf size = compressBound(ZEROS);
  free(c.chunk[1].data);
  c.chunk[1].data = malloc(size);
  assert_int_equal(compress2(c.chunk[1].data, &size, zeros, ZEROS, 1), Z_OK);
  c.chunk[1].size = c.chunk[1].told = (uint32_t)size;
  free(zeros);
  assert_refused(&c, "bomb", 0);
  put_32(c.chunk[0].data, 60000);
  put_32(c.chunk[0].data + 4, 60000);
  assert_refused(&c, "bomb", 1);
  drop(&c);
}

static void there_were_more_than_a_hundred_kinds(void **state)
{
  (void)state;
  assert_true(tried > 130);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_chunk_that_is_lost_or_out_of_place_is_an_error),
    cmocka_unit_test(a_header_told_twice_is_an_error),
    cmocka_unit_test(every_wrong_checksum_is_an_error),
    cmocka_unit_test(every_wrong_length_is_an_error),
    cmocka_unit_test(chunks_that_nobody_knows_are_refused_if_they_matter_and_passed_over_if_not),
    cmocka_unit_test(every_wrong_header_is_an_error),
    cmocka_unit_test(every_wrong_size_is_an_error),
    cmocka_unit_test(pixels_cut_short_under_a_right_checksum_are_an_error),
    cmocka_unit_test(a_stream_that_is_none_is_an_error),
    cmocka_unit_test(a_filter_that_does_not_exist_is_an_error),
    cmocka_unit_test(more_pixels_than_the_header_says_are_an_error_not_memory),
    cmocka_unit_test(there_were_more_than_a_hundred_kinds),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
