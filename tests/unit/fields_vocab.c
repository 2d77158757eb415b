/* fields_vocab.c -- tests of vocabularies: symbols of texts, names of classes, Unicode's normal form.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/field.h"

static void spells(const char *spec, const char *expected)
{
  capl_vocab *v;
  assert_ok(capl_vocab_charset(spec, &v));
  assert_string_equal(capl_vocab_text(v), expected);
  capl_vocab_unref(v);
}

static void a_charset_expands_its_ranges_in_order(void **state)
{
  (void)state;
  spells("0-3xA-C", "0123xABC");
  spells("-a", "-a");
  spells("a-", "a-");
  spells("一-三а-гé", "一丁丂七丄丅丆万丈三абвгé");
  capl_vocab *v;
  spells("gb2312-1:3", "啊骄受"); /* numbers 0, 1251 and 2503 of level 1 */
  assert_ok(capl_vocab_charset("gb2312-1", &v));
  assert_int_equal(capl_vocab_count(v), 3755);
  capl_vocab_unref(v);
  assert_ok(capl_vocab_charset("!-~", &v));
  assert_int_equal(capl_vocab_count(v), 94);
  assert_true(capl_vocab_is_symbols(v));
  capl_vocab_unref(v);
}

static void a_charset_says_what_is_wrong_with_it(void **state)
{
  (void)state;
  static const struct {
    const char *spec, *message;
  } cases[] = {
    {"", "the charset is empty"},
    {"gb2312-1:0", "charset \"gb2312-1:0\": N of gb2312-1:N is a number of characters, 1..3755"},
    {"gb2312-2", "charset \"gb2312-2\" holds '2' twice"},
    {"9-0", "charset \"9-0\": the range 9-0 runs backwards"},
    {"三-一", "charset \"三-一\": the range 三-一 runs backwards"},
    {"0-9A7", "charset \"0-9A7\" holds '7' twice"},
    {"e\u0301é", "charset \"éé\" holds 'é' twice"}, /* two spellings of one character */
    {"a b", "charset \"a b\" holds U+0020; symbols are visible characters, no blanks"},
    {"a\u3000", "charset \"a\u3000\" holds U+3000; symbols are visible characters, no blanks"},
    {"a\u200b", "charset \"a\u200b\" holds U+200B; symbols are visible characters, no blanks"},
    {"\ufa0e-\ufa11", "charset \"\ufa0e-\ufa11\" holds U+FA10, which is written '塚' in Unicode's normal form C"},
    {"a\xff", "\"a\\xff\" is not UTF-8: byte 0xff at position 2"},
    {"\x80", "\"\\x80\" is not UTF-8: byte 0x80 at position 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    capl_vocab *v;
    assert_fails(capl_vocab_charset(cases[i].spec, &v), CAPL_EVALUE, cases[i].message);
  }
}

/* Thai's and Arabic's marks: normal form C of the whole text would put them in another order, or join them. */
static void combining_marks_come_back_from_the_text_of_a_charset(void **state)
{
  (void)state;
  static const char *const specs[] = {"ก-ฮ\u0e31\u0e34-\u0e3a", "\u063e-\u0688", "ey\u0302-\u0304"};
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    capl_vocab *v, *again;
    assert_ok(capl_vocab_charset(specs[i], &v));
    assert_ok(capl_vocab_symbols(capl_vocab_text(v), &again));
    assert_true(capl_vocab_equal(v, again));
    capl_vocab_unref(v);
    capl_vocab_unref(again);
  }
}

static void a_list_of_symbols_has_no_ranges(void **state)
{
  (void)state;
  capl_vocab *v;
  assert_ok(capl_vocab_symbols("A-Z", &v));
  assert_int_equal(capl_vocab_count(v), 3);
  assert_int_equal(capl_vocab_find(v, "-", 1), 1);
  capl_vocab_unref(v);
}

static void tens_of_thousands_of_symbols_are_each_found(void **state)
{
  (void)state;
  capl_vocab *v;
  char text[5] = "";
  assert_ok(capl_vocab_charset("一-鿋", &v)); /* U+4E00..U+9FCB */
  assert_int_equal(capl_vocab_count(v), 0x9fcb - 0x4e00 + 1);
  for (int32_t id = 0; id < capl_vocab_count(v); id++) {
    int code = 0x4e00 + id;
    snprintf(text, sizeof text, "%c%c%c", 0xe0 | code >> 12, 0x80 | (code >> 6 & 63), 0x80 | (code & 63));
    assert_string_equal(capl_vocab_name(v, id), text);
    assert_int_equal(capl_vocab_find(v, text, 3), id);
  }
  assert_int_equal(capl_vocab_find(v, "a", 1), -1);
  assert_null(capl_vocab_name(v, capl_vocab_count(v)));
  assert_null(capl_vocab_name(v, -1));
  capl_vocab_unref(v);
}

static void more_symbols_than_there_may_be_are_refused(void **state)
{
  (void)state;
  capl_vocab *v;
  assert_int_equal(capl_vocab_charset("一-鿋가-힣𠀀-𪛖", &v), CAPL_EVALUE);
  assert_non_null(strstr(capl_error_last()->message, "has more than 65536 characters"));
}

static void a_text_becomes_ids_up_to_the_first_unknown_symbol(void **state)
{
  (void)state;
  capl_vocab *v;
  int32_t ids[4] = {-7, -7, -7, -7};
  const char *wrong, *text = "中A国";
  assert_ok(capl_vocab_charset("国中A", &v));
  assert_int_equal(capl_vocab_encode(v, text, ids, 4, &wrong), 3);
  assert_null(wrong);
  assert_memory_equal(ids, ((int32_t[]){1, 2, 0, -7}), sizeof ids);
  assert_int_equal(capl_vocab_encode(v, text, ids, 1, &wrong), 3); /* how many there would be */
  text = "中b国";
  assert_int_equal(capl_vocab_encode(v, text, ids, 4, &wrong), 1);
  assert_ptr_equal(wrong, text + 3);
  text = "中\xe4";
  assert_int_equal(capl_vocab_encode(v, text, ids, 4, &wrong), 1);
  assert_ptr_equal(wrong, text + 3);
  capl_vocab_unref(v);
}

static void names_of_classes_are_whole_names(void **state)
{
  (void)state;
  const char *const names[] = {"cat", "Schäferhund", "two words", "猫"};
  capl_vocab *v;
  int32_t id;
  const char *wrong;
  assert_ok(capl_vocab_names(names, 4, &v));
  assert_false(capl_vocab_is_symbols(v));
  assert_string_equal(capl_vocab_text(v), "");
  assert_int_equal(capl_vocab_encode(v, "two words", &id, 1, &wrong), 1);
  assert_null(wrong);
  assert_int_equal(id, 2);
  capl_vocab_encode(v, "two", &id, 1, &wrong);
  assert_non_null(wrong);
  capl_vocab_unref(v);
}

static void class_names_are_refused_with_the_reason(void **state)
{
  (void)state;
  static char big[CAPL_NAME_MAX + 2];
  memset(big, 'x', CAPL_NAME_MAX + 1);
  const struct {
    const char *names[2];
    const char *message;
  } cases[] = {
    {{"a", ""}, "name 2 of the classes is empty"},
    {{"a", "a"}, "class a is named twice"},
    {{"caf\u00e9", "cafe\u0301"}, "class cafe\u0301 is named twice, in two spellings of Unicode"},
    {{"a", "b\n"}, "the class name \"b\\n\" has a control character"},
    {{"a", "b\xff"}, "\"b\\xff\" is not UTF-8: byte 0xff at position 2"},
  };
  capl_vocab *v;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_fails(capl_vocab_names(cases[i].names, 2, &v), CAPL_EVALUE, cases[i].message);
  assert_int_equal(capl_vocab_names((const char *const[]){big}, 1, &v), CAPL_EVALUE);
  assert_non_null(strstr(capl_error_last()->message, "has more than 200 bytes"));
  assert_fails(capl_vocab_names(NULL, 0, &v), CAPL_EVALUE, "0 classes; there are 1 to 65536");
}

static void becomes(const char *text, capl_folding folding, const char *expected)
{
  char *out;
  assert_ok(capl_text_normalize(text, &folding, &out));
  assert_string_equal(out, expected);
  free(out);
}

static void texts_are_composed_and_folded(void **state)
{
  (void)state;
  static const capl_folding keep = {CAPL_CASE_KEEP, false}, lower = {CAPL_CASE_LOWER, false},
    upper = {CAPL_CASE_UPPER, false}, width = {CAPL_CASE_KEEP, true}, both = {CAPL_CASE_LOWER, true};
  becomes("", keep, "");
  becomes("cafe\u0301", keep, "café");
  becomes("\u1112\u1161\u11ab", keep, "한"); /* as macOS names files */
  becomes("ÄбΣ", lower, "äбσ");
  becomes("äбA1", upper, "ÄБA1");
  becomes("ＡＢ１２，ｶﾅ", width, "AB12,カナ");
  becomes("ＡＢ中", both, "ab中");
  becomes("①ﬁ", width, "①ﬁ"); /* of other compatibility characters it keeps its hands off */
  char *out;
  assert_fails(capl_text_normalize("ab\xc3", NULL, &out), CAPL_EVALUE, "\"ab\\xc3\" is not UTF-8: byte 0xc3 at position 3");
}

static void has_lookalikes(const char *symbols, const char *expected)
{
  char set[CAPL_LOOKALIKES_ROOM], all[256] = "";
  for (int next = 0; capl_text_lookalikes(symbols, &next, set);) strcat(strcat(all, set), " ");
  assert_string_equal(all, expected);
}

static void symbols_that_look_alike_are_sets_of_a_charset(void **state)
{
  (void)state;
  has_lookalikes("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0O 1I ");
  has_lookalikes("0123456789", "");
  has_lookalikes("末0巳未国А己A", "AА 己巳 未末 ");
  char seen[4096] = "", set[CAPL_LOOKALIKES_ROOM]; /* a charset of all characters has all sets; none shares a symbol */
  capl_vocab *v;
  assert_ok(capl_vocab_charset("!-~Α-ΡΣ-ωА-яーア-ン—〇一-龥", &v));
  for (int next = 0; capl_text_lookalikes(capl_vocab_text(v), &next, set);) {
    for (const char *p = set; *p;) {
      char symbol[8] = "";
      int bytes = (*p & 0x80) == 0 ? 1 : (*p & 0xe0) == 0xc0 ? 2 : 3;
      memcpy(symbol, p, (size_t)bytes);
      assert_null(strstr(seen, symbol));
      strcat(seen, symbol);
      p += bytes;
    }
  }
  assert_non_null(strstr(seen, "竟"));
  capl_vocab_unref(v);
}

static void equal_vocabularies_have_the_same_names_in_the_same_order(void **state)
{
  (void)state;
  capl_vocab *a, *b, *c, *names;
  assert_ok(capl_vocab_charset("A-C", &a));
  assert_ok(capl_vocab_symbols("ABC", &b));
  assert_ok(capl_vocab_symbols("ACB", &c));
  assert_ok(capl_vocab_names((const char *const[]){"A", "B", "C"}, 3, &names));
  assert_true(capl_vocab_equal(a, b) && capl_vocab_equal(NULL, NULL));
  assert_false(capl_vocab_equal(a, c) || capl_vocab_equal(a, names) || capl_vocab_equal(a, NULL));
  capl_vocab_unref(a);
  capl_vocab_unref(b);
  capl_vocab_unref(c);
  capl_vocab_unref(names);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_charset_expands_its_ranges_in_order),
    cmocka_unit_test(a_charset_says_what_is_wrong_with_it),
    cmocka_unit_test(combining_marks_come_back_from_the_text_of_a_charset),
    cmocka_unit_test(a_list_of_symbols_has_no_ranges),
    cmocka_unit_test(tens_of_thousands_of_symbols_are_each_found),
    cmocka_unit_test(more_symbols_than_there_may_be_are_refused),
    cmocka_unit_test(a_text_becomes_ids_up_to_the_first_unknown_symbol),
    cmocka_unit_test(names_of_classes_are_whole_names),
    cmocka_unit_test(class_names_are_refused_with_the_reason),
    cmocka_unit_test(texts_are_composed_and_folded),
    cmocka_unit_test(symbols_that_look_alike_are_sets_of_a_charset),
    cmocka_unit_test(equal_vocabularies_have_the_same_names_in_the_same_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
