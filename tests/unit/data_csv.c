/* data_csv.c -- tests of tables of text: quotes, line ends, damage, numbers.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "data_files.h"

#include <math.h>

#include "data/csv.h"

/* All records of a text: fields in brackets, with the line each begins on. "!" and the message in their place. */
static const char *cut(const char *text, size_t size, csv_style style)
{
  static char seen[4096];
  size_t n = 0;
  bool more = true;
  csv t = {0};
  capl_status status = csv_from(&t, text, size, "t.csv", style);
  while (status == CAPL_OK && more) {
    status = csv_next(&t, &more);
    if (status != CAPL_OK || !more) break;
    n += (size_t)snprintf(seen + n, sizeof seen - n, "%u", t.line);
    for (int i = 0; i < t.n_fields; i++) n += (size_t)snprintf(seen + n, sizeof seen - n, "[%s]", t.field[i]);
  }
  if (status != CAPL_OK) n += (size_t)snprintf(seen + n, sizeof seen - n, "!%s", capl_error_last()->message);
  csv_fini(&t);
  seen[n] = 0;
  return seen;
}

#define CUT(text) cut(text, sizeof text - 1, (csv_style){0})

static void records_are_cut_as_the_standard_says(void **state)
{
  (void)state;
  assert_string_equal(CUT("a,b,c\n1,2,3\n"), "1[a][b][c]2[1][2][3]");
  assert_string_equal(CUT("a,b"), "1[a][b]");
  assert_string_equal(CUT("a,\n,b\n,"), "1[a][]2[][b]3[][]");
  assert_string_equal(CUT("\"x,y\",\"he said \"\"no\"\"\",\"\"\n"), "1[x,y][he said \"no\"][]");
  assert_string_equal(CUT("\"two\nlines\",z\nnext,1"), "1[two\nlines][z]3[next][1]");
  assert_string_equal(CUT("\"two\r\nlines\",z\r\nnext,1\r\n"), "1[two\r\nlines][z]3[next][1]");
  assert_string_equal(CUT("ab\"c,d\"\n"), "1[ab\"c][d\"]");
}

static void lines_end_as_on_any_system(void **state)
{
  (void)state;
  assert_string_equal(CUT("a,b\r\n1,2\r\n"), "1[a][b]2[1][2]");
  assert_string_equal(CUT("a,b\r1,2\r"), "1[a][b]2[1][2]");
  assert_string_equal(CUT("\xef\xbb\xbf" "a,b\n\n\r\n1,2"), "1[a][b]4[1][2]");
  assert_string_equal(CUT(""), "");
  assert_string_equal(CUT("\n\n"), "");
}

static void other_separators_and_plain_quotes(void **state)
{
  (void)state;
  assert_string_equal(cut("a;b,c\n", 6, (csv_style){.separator = ';'}), "1[a][b,c]");
  assert_string_equal(cut("\"a\tb\"\n", 6, (csv_style){.separator = '\t', .plain = true}), "1[\"a][b\"]");
}

static void damage_is_named_with_its_line(void **state)
{
  (void)state;
  assert_string_equal(CUT("a,b\n1,\"2\n3,4\n"), "1[a][b]!t.csv:2: the quote of field 2 is never closed");
  assert_string_equal(CUT("\""), "!t.csv:1: the quote of field 1 is never closed");
  assert_string_equal(CUT("a\n\"b\"c\n"), "1[a]!t.csv:2: text after the closing quote of field 1");
  assert_string_equal(CUT("a\nb\0c\n"), "!t.csv:2: holds a NUL byte; it is damaged or no text");
  assert_string_equal(CUT("\xff\xfe" "a\0"), "!t.csv is text in UTF-16; save it as UTF-8");
}

static void endless_fields_and_records_are_refused(void **state)
{
  (void)state;
  size_t size = CSV_FIELD_MAX + 100;
  char *text = malloc(size);
  memset(text, 'x', size);
  assert_string_equal(cut(text, size, (csv_style){0}),
                      "!t.csv:1: field 1 is longer than 1048576 bytes; is a quote missing?");
  text[0] = '"';
  assert_string_equal(cut(text, size, (csv_style){0}),
                      "!t.csv:1: field 1 is longer than 1048576 bytes; is a quote missing?");
  memset(text, ',', size);
  assert_string_equal(cut(text, size, (csv_style){0}), "!t.csv:1: has more than 4096 fields");
  free(text);
}

static void a_header_names_columns_and_fixes_their_number(void **state)
{
  (void)state;
  csv t = {0};
  bool more;
  assert_ok(csv_from(&t, "id, x ,\n1,2,3\n4,5\n", 18, "t.csv", (csv_style){0}));
  assert_ok(csv_header(&t));
  assert_int_equal(csv_column(&t, "x"), 1);
  assert_int_equal(csv_column(&t, "y"), -1);
  assert_ok(csv_next(&t, &more));
  assert_string_equal(t.field[2], "3");
  assert_string_equal(t.column[1], "x");
  assert_fails(csv_next(&t, &more), CAPL_EFORMAT, "t.csv:3: has 2 fields, the header 3");
  csv_fini(&t);
  assert_ok(csv_from(&t, "a,b,a\n", 6, "t.csv", (csv_style){0}));
  assert_fails(csv_header(&t), CAPL_EFORMAT, "t.csv:1: columns 1 and 3 are both called a");
  csv_fini(&t);
  assert_ok(csv_from(&t, "", 0, "t.csv", (csv_style){0}));
  assert_fails(csv_header(&t), CAPL_EFORMAT, "t.csv is empty; its first line should name the columns");
  csv_fini(&t);
}

static void numbers_are_read_whole_or_refused(void **state)
{
  (void)state;
  static const char text[] = "1.5, -2e3\t,.25,+7,NaN,,-,1.2.3,0x10,inf,1e999,12 3,7\n";
  static const double expected[] = {1.5, -2000, 0.25, 7};
  static const char *const refused[] = {"'1.2.3' is no number", "'0x10' is no number", "'inf' is no number",
                                        "'1e999' is too large", "'12 3' is no number"};
  csv t = {0};
  bool more, missing;
  double x;
  assert_ok(csv_from(&t, text, sizeof text - 1, "t.csv", (csv_style){0}));
  assert_ok(csv_next(&t, &more));
  for (int i = 0; i < 4; i++) {
    assert_ok(csv_number(&t, i, &x, &missing));
    assert_true(x == expected[i] && !missing);
  }
  for (int i = 4; i < 7; i++) {
    assert_ok(csv_number(&t, i, &x, &missing));
    assert_true(missing);
  }
  for (int i = 0; i < 5; i++) {
    char message[120];
    snprintf(message, sizeof message, "t.csv:1: column %d: %s", 8 + i, refused[i]);
    assert_fails(csv_number(&t, 7 + i, &x, &missing), CAPL_EFORMAT, message);
  }
  csv_fini(&t);
}

static void what_is_no_file_is_named(void **state)
{
  (void)state;
  csv t = {0};
  char message[600];
  snprintf(message, sizeof message, "%s: is a folder, not a file", folder);
  assert_fails(csv_open(&t, folder, (csv_style){0}), CAPL_EIO, message);
  csv_fini(&t);
  snprintf(message, sizeof message, "%s/none.csv: cannot be opened: No such file or directory", folder);
  assert_fails(csv_open(&t, in_folder("none.csv"), (csv_style){0}), CAPL_EIO, message);
  csv_fini(&t);
  write_bytes(in_folder("a.csv"), "a,b\n1,2\n", 8);
  bool more;
  assert_ok(csv_open(&t, in_folder("a.csv"), (csv_style){0}));
  assert_ok(csv_header(&t));
  assert_ok(csv_next(&t, &more));
  assert_true(more && strcmp(t.field[1], "2") == 0);
  csv_fini(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(records_are_cut_as_the_standard_says),
    cmocka_unit_test(lines_end_as_on_any_system),
    cmocka_unit_test(other_separators_and_plain_quotes),
    cmocka_unit_test(damage_is_named_with_its_line),
    cmocka_unit_test(endless_fields_and_records_are_refused),
    cmocka_unit_test(a_header_names_columns_and_fixes_their_number),
    cmocka_unit_test(numbers_are_read_whole_or_refused),
    cmocka_unit_test(what_is_no_file_is_named),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
