/* data_scan.c -- tests of what is told of the files of a set: which of them are the same.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

enum { WIDTH = 8, HEIGHT = 6, TAIL = 24 };

/* ---- files whose hashes are the same, though they are not ---- */

static uint64_t word_at(const uint8_t *at)
{
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

/* One step of the hash of engine/data/scan.c. */
static uint64_t step(uint64_t hash, uint64_t word)
{
  hash = (hash ^ word) * 0xbf58476d1ce4e5b9u;
  return hash ^ hash >> 29;
}

/* Changes the 16 bytes at `at`, a multiple of 8, so that the hash of all stays what it is. */
static void change_unseen(uint64_t start, uint8_t *bytes, size_t size, size_t at)
{
  uint64_t hash = start ^ size * 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < at; i += 8) hash = step(hash, word_at(bytes + i));
  uint64_t word = word_at(bytes + at), other = word ^ 0x101;
  uint64_t next = word_at(bytes + at + 8) ^ step(hash, word) ^ step(hash, other);
  memcpy(bytes + at, &other, sizeof other);
  memcpy(bytes + at + 8, &next, sizeof next);
}

static void fill(uint8_t *pixels)
{
  for (size_t i = 0; i < WIDTH * HEIGHT * 3; i++) pixels[i] = (uint8_t)(i * 29 + i / 3);
}

/* A PNG file with some bytes behind its end, which nobody looks at. */
static uint8_t *with_tail(size_t *size)
{
  uint8_t pixels[WIDTH * HEIGHT * 3], *bytes;
  fill(pixels);
  assert_ok(capl_png_encode(pixels, WIDTH, HEIGHT, 3, &bytes, size));
  bytes = realloc(bytes, *size + TAIL);
  assert_non_null(bytes);
  memset(bytes + *size, 7, TAIL);
  *size += TAIL;
  return bytes;
}

/* ---- looking at them ---- */

static capl_scan *scan(const char *name)
{
  capl_source *source;
  capl_scan *found;
  assert_ok(capl_source_folder_new(in_folder(name), &(capl_folder_options){.width = 1, .height = 1}, &source));
  assert_ok(capl_scan_new(source, true, 0, NULL, &found));
  capl_source_unref(source);
  return found;
}

static void check_pairs(const capl_scan *a, const capl_scan *b, bool pixels, uint32_t n, const capl_same *expected)
{
  capl_same *pairs;
  uint32_t found;
  assert_ok(capl_scan_same(a, b, pixels, &pairs, &found));
  assert_int_equal(found, n);
  for (uint32_t i = 0; i < n; i++) assert_true(pairs[i].id == expected[i].id && pairs[i].first == expected[i].first);
  free(pairs);
}

static void make(const char *name)
{
  assert_int_equal(mkdir(in_folder(name), 0777), 0);
}

static void equal_hashes_alone_make_no_equal_files(void **state)
{
  (void)state;
  size_t size;
  uint8_t *bytes = with_tail(&size);
  make("tails");
  write_bytes(in_folder("tails/a.png"), bytes, size);
  change_unseen(0, bytes, size, (size - TAIL + 7) / 8 * 8);
  write_bytes(in_folder("tails/b.png"), bytes, size);
  write_bytes(in_folder("tails/c.png"), bytes, size);
  free(bytes);
  capl_scan *found = scan("tails");
  assert_true(capl_scan_facts(found, 0)->content == capl_scan_facts(found, 1)->content);
  check_pairs(found, NULL, false, 1, &(capl_same){.id = 2, .first = 1});
  check_pairs(found, NULL, true, 2, (capl_same[]){{.id = 1, .first = 0}, {.id = 2, .first = 0}});
  check_pairs(found, found, false, 3, (capl_same[]){{0, 0}, {1, 1}, {2, 1}});
  capl_scan_free(found);
}

static void equal_hashes_alone_make_no_equal_pictures(void **state)
{
  (void)state;
  uint8_t pixels[WIDTH * HEIGHT * 3];
  fill(pixels);
  make("pictures");
  assert_ok(capl_png_write(in_folder("pictures/a.png"), pixels, WIDTH, HEIGHT, 3));
  change_unseen((uint64_t)WIDTH << 32 | HEIGHT, pixels, sizeof pixels, 16);
  assert_ok(capl_png_write(in_folder("pictures/b.png"), pixels, WIDTH, HEIGHT, 3));
  capl_scan *found = scan("pictures");
  assert_true(capl_scan_facts(found, 0)->pixels == capl_scan_facts(found, 1)->pixels);
  check_pairs(found, NULL, true, 0, NULL);
  capl_scan_free(found);
}

static void a_file_that_is_gone_when_it_is_compared_is_named(void **state)
{
  (void)state;
  uint8_t pixels[WIDTH * HEIGHT * 3];
  capl_same *pairs;
  uint32_t n;
  fill(pixels);
  make("gone");
  assert_ok(capl_png_write(in_folder("gone/a.png"), pixels, WIDTH, HEIGHT, 3));
  assert_ok(capl_png_write(in_folder("gone/b.png"), pixels, WIDTH, HEIGHT, 3));
  capl_scan *found = scan("gone");
  assert_int_equal(unlink(in_folder("gone/b.png")), 0);
  assert_int_equal(capl_scan_same(found, NULL, false, &pairs, &n), CAPL_EIO);
  assert_non_null(strstr(capl_error_last()->message, "gone/b.png"));
  assert_null(pairs);
  capl_scan_free(found);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(equal_hashes_alone_make_no_equal_files),
    cmocka_unit_test(equal_hashes_alone_make_no_equal_pictures),
    cmocka_unit_test(a_file_that_is_gone_when_it_is_compared_is_named),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
