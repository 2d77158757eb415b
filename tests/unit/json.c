/* json.c -- tests of the reader and the writer of JSON.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <math.h>

#include "base/json.h"

static const json_rules strict = {.name = "m", .most_bytes = 1000, .most_values = 100, .most_depth = 12, .unique = true,
                                  .no_null = true};

static capl_status read_with(const json_rules *rules, const char *text)
{
  JSON_OWNED *root = NULL;
  return json_read(rules, text, strlen(text), &root);
}

static void texts_are_read_as_they_are_written(void **state)
{
  static const char text[] = "{\"a\":[1,-2.5e3,true,{}],\n\"b\":\"x\\\"\\n\\\\\\/\\u00e9\\u20ac\\ud83d\\ude00\",\"c\":{\"d\":false}} ";
  (void)state;
  JSON_OWNED *root = NULL;
  assert_ok(json_read(&strict, text, strlen(text), &root));
  assert_string_equal(cJSON_GetObjectItemCaseSensitive(root, "b")->valuestring, "x\"\n\\/é€😀");
  char *again = json_print(root, false);
  assert_string_equal(again, "{\"a\":[1,-2500,true,{}],\"b\":\"x\\\"\\n\\\\/é€😀\",\"c\":{\"d\":false}}");
  free(again);
}

static void what_is_odd_is_refused_with_its_place(void **state)
{
  static const struct {
    const char *text, *message;
  } cases[] = {
    {"", "m:1: broken JSON at column 1"},
    {"{\"a\":1} {}", "m:1: broken JSON at column 9"},
    {"{\"a\":1", "m:1: broken JSON at column 6"},
    {"{\"a\":1,\n \"b\" 2}", "m:2: broken JSON at column 6"},
    {"{\"a\":\"x", "m:1: broken JSON at column 7"},
    {"{\"a\":\"\n\"}", "m:1: JSON with a control character in a text at column 7"},
    {"{\"a\":\"b\\u0000\"}", "m:1: JSON with a zero byte in a text at column 9"},
    {"{\"a\":01}", "m:1: JSON with a number that starts with 0 at column 6"},
    {"[1, -01]", "m:1: JSON with a number that starts with 0 at column 5"},
    {"{\"a\":1e999}", "m:1: JSON with a number that is too large at column 2"},
    {"{\"a\":NaN}", "m:1: broken JSON at column 6"},
    {"{\"a\":\"\\ud800\"}", "m:1: broken JSON at column 7"},
    {"{\"a\":[1,]}", "m:1: broken JSON at column 9"},
    {"{\"a\":null}", "m:1: JSON with \"a\" = null, which is not allowed here, at column 2"},
    {"{\"a\":1,\n\"b\":{\"a\":2,\"c\":3,\"a\":2}}", "m:2: JSON with the key \"a\" twice at column 18"},
    {"{\"\\n\":1,\"\\u000a\":2}", "m:1: JSON with the key \"\\n\" twice at column 9"},
    {"{\"a\": [\"x\", {\"b\": -1.5e+3, \"c\": true},\n  [ ],\n\t1, null]}", "m:3: JSON with null, which is not allowed here, at column 5"},
    {"[\"a:\", \"]\\\"\", 1e999]", "m:1: JSON with a number that is too large at column 15"},
    {"{\"a\": {\"a\": 1},\n\"a\": {\"b\": 1,\n\"b\": 1}}", "m:2: JSON with the key \"a\" twice at column 1"},
    {"[[[[[[[[[[[[[1]]]]]]]]]]]]]", "m:1: JSON with more than 12 levels at column 13"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_fails(read_with(&strict, cases[i].text), CAPL_EFORMAT, cases[i].message);
  assert_ok(read_with(&strict, "[[[[[[[[[[[[1, 0.5, -0.5, 10, \"[[\\\"00\"]]]]]]]]]]]]"));
}

static void a_text_takes_no_more_than_its_limits(void **state)
{
  char text[1100] = "[";
  (void)state;
  for (int i = 0; i < 120; i++) strcat(text, "1,");
  assert_fails(read_with(&strict, text), CAPL_EFORMAT, "m:1: JSON with more than 100 values at column 199");
  memset(text, ' ', 1001);
  assert_fails(read_with(&strict, text), CAPL_EFORMAT, "m:1: JSON with more than 1000 bytes at column 1");
}

static void without_rules_keys_may_repeat_and_be_null(void **state)
{
  (void)state;
  assert_ok(read_with(NULL, "{\"a\": null, \"a\": 1}"));
  assert_fails(read_with(NULL, "{\n  \"a\" }"), CAPL_EFORMAT, "broken JSON at line 2, column 7");
  assert_fails(read_with(NULL, "[1,\n 1e999]"), CAPL_EFORMAT, "JSON with a number that is too large at line 2, column 2");
  const json_rules inside = {.name = "list.jsonl", .line = 41};
  assert_fails(read_with(&inside, "{\"a\": 1e999}"), CAPL_EFORMAT,
               "list.jsonl:41: JSON with a number that is too large at column 2");
}

static const char *number(double x, int digits)
{
  static char text[64];
  FILE *out = fmemopen(text, sizeof text, "w");
  json_put_number(out, x, digits);
  fclose(out);
  return text;
}

static void numbers_are_read_back_as_they_were(void **state)
{
  static const double numbers[] = {0, 1, -3, 0.1, 1e-300, 0x1.fffffffffffffp1023, 0.1 + 0.2, 1 / 3.0, 9007199254740991,
                                   4294967296};
  (void)state;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    assert_true(strtod(number(numbers[i], 0), NULL) == numbers[i]);
    JSON_OWNED *list = cJSON_CreateArray(), *again = NULL;
    cJSON_AddItemToArray(list, cJSON_CreateNumber(numbers[i]));
    char *text = json_print(list, false);
    assert_ok(json_read(NULL, text, strlen(text), &again));
    assert_true(cJSON_GetArrayItem(again, 0)->valuedouble == numbers[i]);
    free(text);
  }
  assert_string_equal(number(0.1, 0), "0.1");
  assert_string_equal(number(0.1 + 0.2, 0), "0.30000000000000004");
  assert_string_equal(number(1 / 3.0, 4), "0.3333");
  assert_string_equal(number(4294967296, 4), "4294967296");
  assert_string_equal(number(-0.0, 0), "-0");
  assert_string_equal(number((double)NAN, 0), "null");
  assert_string_equal(number(-(double)INFINITY, 10), "null");
}

static void texts_are_always_utf8(void **state)
{
  static const char from[] = "a\xff\"\\\n\t\x01\x7f\0é\xe2\x82";
  char text[128];
  FILE *out = fmemopen(text, sizeof text, "w");
  (void)state;
  json_put_text(out, from, sizeof from - 1);
  fclose(out);
  assert_string_equal(text, "\"a\xef\xbf\xbd\\\"\\\\\\n\\t\\u0001\\u007f\\u0000é\xef\xbf\xbd\xef\xbf\xbd\"");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(texts_are_read_as_they_are_written),
    cmocka_unit_test(what_is_odd_is_refused_with_its_place),
    cmocka_unit_test(a_text_takes_no_more_than_its_limits),
    cmocka_unit_test(without_rules_keys_may_repeat_and_be_null),
    cmocka_unit_test(numbers_are_read_back_as_they_were),
    cmocka_unit_test(texts_are_always_utf8),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
