/* data_list.c -- tests of list files: the three formats, what is wrong with a line, where paths begin, a million lines.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

#include <sys/stat.h>

#include "data/list_file.h"

static const capl_list_options defaults;

/* ---- parsing --------------------------------------------------------------------------------- */

/* "path=label@line path=label@line" of a list that name stands for. */
static const char *lines_of(const char *name, const char *text, const capl_list_options *options)
{
  static char out[2000];
  list_lines l = {0};
  assert_ok(list_lines_parse(text, strlen(text), name, options, false, &l));
  *out = '\0';
  for (uint32_t i = 0; i < l.path.count; i++) {
    const char *label = texts_get(&l.label, i);
    size_t used = strlen(out);
    snprintf(out + used, sizeof out - used, "%s%s=%s@%u", i ? " " : "", texts_get(&l.path, i), label ? label : "-",
             l.line[i]);
  }
  list_lines_fini(&l);
  return out;
}

static void assert_lines(const char *name, const char *text, const char *expected)
{
  assert_string_equal(lines_of(name, text, &defaults), expected);
}

static void each_format_gives_paths_and_labels(void **state)
{
  (void)state;
  assert_lines("a.tsv", "a.png\t7K0Q\nb/c.jpg\tX Y\n", "a.png=7K0Q@1 b/c.jpg=X Y@2");
  assert_lines("a.jsonl", "{\"path\": \"a.png\", \"label\": \"7K\"}\n{\"text\": \"\\u0042\", \"file\": \"b.png\"}",
               "a.png=7K@1 b.png=B@2");
  assert_lines("a.csv", "id,path,label\n1,a.png,7K\n2,\"b,c.png\",\"say \"\"hi\"\"\"\n",
               "a.png=7K@2 b,c.png=say \"hi\"@3");
  assert_lines("a.csv", "text,filename\nT,a.png\n", "a.png=T@2");
}

static void the_format_is_seen_when_the_name_does_not_tell_it(void **state)
{
  (void)state;
  assert_lines("list", "a.png\tA\n", "a.png=A@1");
  assert_lines("list.txt", "\n {\"path\": \"a.png\"}\n", "a.png=-@2");
  assert_lines("list.txt", "path,label\na.png,A\n", "a.png=A@2");
  assert_lines("list.txt", "a.png\nb.png\n", "a.png=-@1 b.png=-@2");
}

static void marks_line_ends_and_blank_lines_are_no_matter(void **state)
{
  (void)state;
  assert_lines("a.tsv", "\xef\xbb\xbf" "a.png\tA\r\n\r\nb.png\tB\r\n", "a.png=A@1 b.png=B@3");
  assert_lines("a.jsonl", "\xef\xbb\xbf{\"path\":\"a.png\"}\r\n\r\n{\"path\":\"b.png\"}", "a.png=-@1 b.png=-@3");
  assert_lines("a.csv", "\xef\xbb\xbfpath,label\r\na.png,A\r\n", "a.png=A@2");
  assert_string_equal(lines_of("a.csv", "path;label\na.png;A\n", &(capl_list_options){.separator = ';'}), "a.png=A@2");
}

static void keys_can_be_named(void **state)
{
  (void)state;
  capl_list_options options = {.path_key = "p", .label_key = "l"};
  assert_string_equal(lines_of("a.csv", "l,p,path\nA,a.png,no\n", &options), "a.png=A@2");
  assert_string_equal(lines_of("a.jsonl", "{\"p\":\"a.png\",\"l\":\"A\",\"path\":\"no\"}", &options), "a.png=A@1");
}

static void each_mistake_is_named_with_its_line(void **state)
{
  (void)state;
  static const struct { const char *name, *text; capl_status code; const char *message; } cases[] = {
    {"a.tsv", "a.png\tA\nb.png B\n", CAPL_EFORMAT, "a.tsv:2: has no TAB between a path and a label"},
    {"a.tsv", "a.png\tA\tB\n", CAPL_EFORMAT, "a.tsv:1: has 3 fields; a path, a TAB and a label are expected"},
    {"a.tsv", "\tA\n", CAPL_EFORMAT, "a.tsv:1: the path is empty"},
    {"a.tsv", "a.png\tA\n\xff.png\tB\n", CAPL_EFORMAT, "a.tsv:2: the path is no UTF-8"},
    {"a.tsv", "a.png\tA\nb.png\t\xc3\x28\n", CAPL_EFORMAT, "a.tsv:2: the label is no UTF-8"},
    {"a.tsv", "", CAPL_EVALUE, "a.tsv: names no image"},
    {"a.tsv", "\n\n", CAPL_EVALUE, "a.tsv: names no image"},
    {"a.tsv", "\xff\xfe" "a", CAPL_EFORMAT, "a.tsv is text in UTF-16; save it as UTF-8"},
    {"a.jsonl", "{\"path\": \"a.png\", \"label\": \"A\"}\n{\"path\": \n", CAPL_EFORMAT,
     "a.jsonl:2: broken JSON at column 9"},
    {"a.jsonl", "[1]\n", CAPL_EFORMAT,
     "a.jsonl:1: is no JSON object, such as {\"path\": \"a.png\", \"label\": \"7K0Q\"}"},
    {"a.jsonl", "{\"label\": \"A\"}\n", CAPL_EFORMAT, "a.jsonl:1: has no key \"path\""},
    {"a.jsonl", "{\"path\": \"a.png\"}\n", CAPL_EFORMAT, "a.jsonl:1: has no key \"label\""},
    {"a.jsonl", "{\"path\": 7, \"label\": \"A\"}\n", CAPL_EFORMAT,
     "a.jsonl:1: \"path\" is no text; write \"path\": \"a.png\""},
    {"a.jsonl", "{\"path\": \"a.png\", \"label\": 42}\n", CAPL_EFORMAT,
     "a.jsonl:1: \"label\" is no text; write \"label\": \"0042\""},
    {"a.jsonl", "{\"path\": \"a\\u0000.png\", \"label\": \"A\"}\n", CAPL_EFORMAT,
     "a.jsonl:1: JSON with a zero byte in a text at column 13"},
    {"a.jsonl", "{\"path\": \"a\", \"label\": \"A\"} x\n", CAPL_EFORMAT, "a.jsonl:1: broken JSON at column 29"},
    {"a.csv", "id,label\n1,A\n", CAPL_EFORMAT, "a.csv:1: no column is called path; there are: id, label"},
    {"a.csv", "path,id\na.png,1\n", CAPL_EFORMAT, "a.csv:1: no column is called label; there are: path, id"},
    {"a.csv", "path,label\na.png\n", CAPL_EFORMAT, "a.csv:2: has 1 field, the header 2"},
    {"a.csv", "path,label\na.png,\"A\n", CAPL_EFORMAT, "a.csv:2: the quote of field 2 is never closed"},
    {"a.csv", "path,path\n", CAPL_EFORMAT, "a.csv:1: columns 1 and 2 are both called path"},
    {"a.csv", "path,label\n", CAPL_EVALUE, "a.csv: names no image"},
    {"a.csv", "", CAPL_EFORMAT, "a.csv is empty; its first line should name the columns"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    list_lines l = {0};
    assert_fails(list_lines_parse(cases[i].text, strlen(cases[i].text), cases[i].name, &defaults, true, &l),
                 cases[i].code, cases[i].message);
    list_lines_fini(&l);
  }
}

static void a_byte_of_zero_and_endless_lines_are_named(void **state)
{
  (void)state;
  list_lines l = {0};
  assert_fails(list_lines_parse("a.png\tA\nb\0.png\tB\n", 18, "a.tsv", &defaults, true, &l), CAPL_EFORMAT,
               "a.tsv:2: holds a NUL byte; it is damaged or no text");
  list_lines_fini(&l);
  char *text = malloc(3 << 20);
  memset(text, 'x', 3 << 20);
  assert_fails(list_lines_parse(text, 3 << 20, "a.tsv", &defaults, true, &l), CAPL_EFORMAT,
               "a.tsv:1: field 1 is longer than 1048576 bytes; is a quote missing?");
  list_lines_fini(&l);
  assert_fails(list_lines_parse(text, 5000, "a.tsv", &defaults, false, &l), CAPL_EFORMAT,
               "a.tsv:1: the path is longer than 4095 bytes");
  list_lines_fini(&l);
  free(text);
}

/* Cut at any byte, a list is either a shorter list or an error that names it. */
static void a_list_cut_anywhere_is_read_or_refused(void **state)
{
  (void)state;
  static const char *const lists[][2] = {
    {"a.tsv", "a.png\tA\nb.png\tB\n"},
    {"a.jsonl", "{\"path\": \"a.png\", \"label\": \"A\"}\n{\"path\": \"\\u00e9.png\", \"label\": \"B\"}\n"},
    {"a.csv", "path,label\n\"a\"\".png\",A\n\"b\nc.png\",B\n"}};
  for (int k = 0; k < 3; k++) {
    for (size_t keep = 0; keep <= strlen(lists[k][1]); keep++) {
      list_lines l = {0};
      char *exact = malloc(keep ? keep : 1);
      memcpy(exact, lists[k][1], keep);
      capl_status status = list_lines_parse(exact, keep, lists[k][0], &defaults, true, &l);
      if (status == CAPL_OK) assert_in_range(l.path.count, 1, 2);
      else assert_memory_equal(capl_error_last()->message, lists[k][0], strlen(lists[k][0]));
      list_lines_fini(&l);
      free(exact);
    }
  }
}

/* ---- sources --------------------------------------------------------------------------------- */

static int make_files(void **state)
{
  if (make_folder(state) != 0 || mkdir(in_folder("sets"), 0777) != 0 || mkdir(in_folder("sets/b"), 0777) != 0)
    return -1;
  static uint8_t pixels[6][8];
  for (int i = 0; i < 48; i++) pixels[i / 8][i % 8] = (uint8_t)(i * 5);
  static const char *const files[] = {"sets/a.png", "sets/b/c.png", "d.png"};
  for (int i = 0; i < 3; i++) {
    pixels[0][0] = (uint8_t)i;
    assert_ok(capl_png_write(in_folder(files[i]), pixels[0], 8, 6, 1));
  }
  return 0;
}

static void write_list(const char *name, const char *text)
{
  write_bytes(in_folder(name), text, strlen(text));
}

static const char *said(const char *what)
{
  static char text[1024];
  snprintf(text, sizeof text, what, folder);
  return text;
}

/* The first pixel of a sample tells which file it is. */
static int first_pixel(capl_source *source, uint32_t i)
{
  uint8_t pixels[48];
  assert_ok(capl_source_read(source, 0, i, &(capl_sample){.pixels = pixels}));
  return pixels[0];
}

static void paths_begin_at_the_folder_of_the_list(void **state)
{
  (void)state;
  char list[1024];
  snprintf(list, sizeof list, "b/c.png\tAB\na.png\tCD\n%s/d.png\tEF\n", folder);
  write_list("sets/list.tsv", list);
  capl_source *source;
  assert_ok(capl_source_list_new(in_folder("sets/list.tsv"),
                                 &(capl_list_options){.images = {.charset = "A-F", .length = 2}}, &source));
  assert_int_equal(capl_source_count(source), 3);
  for (uint32_t i = 0; i < 3; i++) assert_int_equal(first_pixel(source, i), i == 0 ? 1 : i == 1 ? 0 : 2);
  assert_string_equal(capl_source_name(source, 0), "b/c.png");
  assert_string_equal(capl_source_text(source, 2), "EF");
  int32_t labels[2];
  assert_ok(capl_source_read(source, 0, 1, &(capl_sample){.pixels = (uint8_t[48]){0}, .labels = labels}));
  assert_memory_equal(labels, ((int32_t[]){2, 3}), sizeof labels);
  capl_source_unref(source);
  write_list("other.tsv", "c.png\tAB\n");
  assert_ok(capl_source_list_new(in_folder("other.tsv"), &(capl_list_options){.root = in_folder("sets/b")}, &source));
  assert_int_equal(first_pixel(source, 0), 1);
  assert_string_equal(capl_source_text(source, 0), "AB"); /* kept without a charset too */
  capl_source_unref(source);
}

static void what_is_wrong_with_an_image_is_told_with_list_and_line(void **state)
{
  (void)state;
  write_list("sets/wrong.tsv", "a.png\tAB\n\nnone.png\tCD\na.png\tab\na.png\tABC\n");
  write_list("sets/b/broken.png", "GIF89a");
  capl_source *source;
  capl_list_options options = {.images = {.charset = "A-F", .length = 2}};
  assert_ok(capl_source_list_new(in_folder("sets/wrong.tsv"), &options, &source));
  uint8_t pixels[48];
  int32_t labels[2];
  capl_sample to = {.pixels = pixels, .labels = labels};
  assert_fails(capl_source_read(source, 0, 1, &to), CAPL_EIO,
               said("%1$s/sets/wrong.tsv:3: %1$s/sets/none.png: cannot be read: No such file or directory"));
  assert_fails(capl_source_read(source, 0, 2, &to), CAPL_EVALUE,
               said("%1$s/sets/wrong.tsv:4: %1$s/sets/a.png: label \"ab\" has 'a' at position 1, which is not in the "
                    "charset ABCDEF (it has 'A')"));
  assert_fails(capl_source_check_label(source, 3), CAPL_EVALUE,
               said("%1$s/sets/wrong.tsv:5: %1$s/sets/a.png: label \"ABC\" has 3 characters; expected 2"));
  capl_source_unref(source);
  write_list("sets/gif.tsv", "b/broken.png\tAB\n");
  assert_fails(capl_source_list_new(in_folder("sets/gif.tsv"), &options, &source), CAPL_EFORMAT,
               said("%1$s/sets/gif.tsv:1: %1$s/sets/b/broken.png: the file is GIF, not PNG or JPEG"));
  write_list("sets/small.tsv", "a.png\tAB\n");
  options.images.width = options.images.height = 9;
  assert_ok(capl_source_list_new(in_folder("sets/small.tsv"), &options, &source));
  assert_fails(capl_source_read(source, 0, 0, &to), CAPL_ESHAPE,
               said("%1$s/sets/small.tsv:1: %1$s/sets/a.png: the image is 8 x 6 px; expected 9 x 9"));
  capl_source_unref(source);
  assert_fails(capl_source_list_new(in_folder("none.tsv"), NULL, &source), CAPL_EIO,
               said("%s/none.tsv: cannot be opened: No such file or directory"));
  assert_fails(capl_source_list_new(in_folder("sets"), NULL, &source), CAPL_EIO,
               said("%s/sets: is a folder, not a file"));
  assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
  assert_fails(capl_source_list_new(in_folder("pipe"), NULL, &source), CAPL_EIO,
               said("%s/pipe: is a pipe or device, not a file"));
}

/* Bytes of memory in use that malloc gave out. */
static size_t resident(void)
{
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  assert_non_null(f);
  assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
  fclose(f);
  return (size_t)pages * 4096;
}

static void a_million_lines_take_some_dozen_bytes_each(void **state)
{
  (void)state;
  enum { LINES = 1000000 };
  FILE *f = fopen(in_folder("sets/million.tsv"), "w");
  assert_non_null(f);
  for (int i = 0; i < LINES; i++) fprintf(f, "%s\t%06d\n", i % 2 ? "a.png" : "b/c.png", i);
  assert_int_equal(fclose(f), 0);
  size_t before = resident();
  capl_source *source;
  assert_ok(capl_source_list_new(in_folder("sets/million.tsv"),
                                 &(capl_list_options){.images = {.charset = "0-9", .length = 6}}, &source));
  size_t taken = resident() - before;
  assert_int_equal(capl_source_count(source), LINES);
  assert_string_equal(capl_source_text(source, 765432), "765432");
  assert_int_equal(first_pixel(source, 765432), 1);
  for (uint32_t i = 0; i < LINES; i++) assert_ok(capl_source_check_label(source, i));
#ifndef __SANITIZE_ADDRESS__
  if (taken > 64ul * LINES) fail_msg("%zu bytes for a million lines", taken);
#else
  (void)taken;
#endif
  capl_source_unref(source);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_format_gives_paths_and_labels),
    cmocka_unit_test(the_format_is_seen_when_the_name_does_not_tell_it),
    cmocka_unit_test(marks_line_ends_and_blank_lines_are_no_matter),
    cmocka_unit_test(keys_can_be_named),
    cmocka_unit_test(each_mistake_is_named_with_its_line),
    cmocka_unit_test(a_byte_of_zero_and_endless_lines_are_named),
    cmocka_unit_test(a_list_cut_anywhere_is_read_or_refused),
    cmocka_unit_test(paths_begin_at_the_folder_of_the_list),
    cmocka_unit_test(what_is_wrong_with_an_image_is_told_with_list_and_line),
    cmocka_unit_test(a_million_lines_take_some_dozen_bytes_each),
  };
  return cmocka_run_group_tests(tests, make_files, remove_folder);
}
