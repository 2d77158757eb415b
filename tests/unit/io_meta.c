/* io_meta.c -- tests of meta.json: what is read, what is refused and how, versions.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capl/capl.h"
#include "io/meta.h"

static const char sound[] =
    "{\"capl_model\": 1, \"output\": \"text\", \"decoding\": \"argmax\", \"charset\": \"AB-Z\", \"length\": 4, "
    "\"width\": 160, "
    "\"height\": 60, \"channels\": 3, \"resize\": \"bicubic\", \"normalize\": {\"mean\": [0.5, 0.4, 0.3], \"std\": "
    "[0.2, 0.2, 0.1]}, "
    "\"more\": [1, {}]}";

static void every_value_arrives(void **state)
{
  (void)state;
  model_meta m;
  assert_ok(meta_parse("m", sound, &m));
  assert_int_equal(m.width, 160);
  assert_int_equal(m.height, 60);
  assert_int_equal(m.channels, 3);
  assert_int_equal(m.n_outputs, 1);
  assert_string_equal(capl_vocab_text(m.outputs[0].vocab), "AB-Z"); /* no range: a model file is not a recipe */
  assert_int_equal(m.conversion.norm, CAPL_NORM_MEAN_STD);
  assert_float_equal(m.conversion.mean[2], 0.3, 1e-6);
  assert_float_equal(m.conversion.std[2], 0.1, 1e-6);
  meta_fini(&m);
}

static const char *with(const char *from, const char *to);

static void a_letterbox_arrives(void **state)
{
  (void)state;
  model_meta m;
  assert_ok(meta_parse("m", sound, &m));
  assert_false(m.letterbox.on);
  meta_fini(&m);
  assert_ok(meta_parse("m", with("\"bicubic\"", "{\"mode\": \"letterbox\", \"position\": \"top-left\", \"fill\": [1, 2, 3]}"),
                       &m));
  assert_true(m.letterbox.on && m.letterbox.top_left && m.letterbox.fill[0] == 1 && m.letterbox.fill[2] == 3);
  meta_fini(&m);
}

/* sound with `from` replaced by `to`. */
static const char *with(const char *from, const char *to)
{
  static char text[1024];
  const char *at = strstr(sound, from);
  assert_non_null(at);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - sound), sound, to, at + strlen(from));
  return text;
}

static void wrong_values_are_named_with_what_they_should_be(void **state)
{
  (void)state;
  static const struct {
    const char *from, *to, *message;
  } cases[] = {
    {"\"length\": 4", "\"length\": null", "m: length is a whole number from 1 to 32, not null"},
    {"\"length\": 4", "\"length\": 33", "m: length is a whole number from 1 to 32, not 33"},
    {"\"length\": 4", "\"size\": 4", "m: length is a whole number from 1 to 32, not missing"},
    {"\"width\": 160", "\"width\": 1e30", "m: width is a whole number from 1 to 16384, not 1e+30"},
    {"\"height\": 60", "\"height\": 0.5", "m: height is a whole number from 1 to 16384, not 0.5"},
    {"\"channels\": 3", "\"channels\": 2", "m: channels is 1 or 3, not 2"},
    {"\"AB-Z\"", "\"ABA\"", "m: charset is 1 to 65536 different visible characters, not \"ABA\""},
    {"\"AB-Z\"", "\"\"", "m: charset is 1 to 65536 different visible characters, not \"\""},
    {"\"AB-Z\"", "[\"A\"]", "m: charset is 1 to 65536 different visible characters, not a list"},
    {"\"argmax\"", "\"beam\"", "m: decoding is \"argmax\" or \"ctc\", not \"beam\""},
    {"\"argmax\"", "\"ctc\"", "m: blank is 4, the class after the 4 characters of the charset, not missing"},
    {"\"length\"", "\"widths\": [], \"length\"",
     "m: widths is a list of at most 64 ascending widths in px, not a list"},
    {"\"length\"", "\"widths\": [96, 96], \"length\"",
     "m: widths is a list of at most 64 ascending widths in px, not 96"},
    {"\"text\"", "\"masks\"", "m: output is \"boxes\", \"class\", \"classes\", \"image\", \"mask\", \"numbers\", \"points\", \"series\" or \"text\", "
     "not \"masks\""},
    {"\"text\"", "\"class\"", "m: classes is a list of 1 to 65536 names, not missing"},
    {"\"text\"", "\"class\", \"classes\": []", "m: classes is a list of 1 to 65536 names, not a list"},
    {"\"text\"", "\"class\", \"classes\": [\"a\", 1]", "m: classes is a list of 1 to 65536 names, not 1"},
    {"\"text\"", "\"class\", \"classes\": [\"a\", \"a\"]", "m: classes: class a is named twice"},
    {"\"text\"", "\"numbers\", \"numbers\": [\"a\"], \"mean\": [1, 2]", "m: mean is a list of 1 numbers, one for each name, not a list"},
    {"\"text\"", "\"numbers\", \"numbers\": [\"a\"], \"std\": [0]",
     "m: std is a list of 1 numbers above 0, one for each name, not 0"},
    {"\"text\"", "\"points\"", "m: points is a list of 1 to 64 names, not missing"},
    {"\"text\"", "\"class\", \"classes\": [\"a\", \"\"]", "m: classes: name 2 of the classes is empty"},
    {"\"bicubic\"", "true", "m: resize is \"bicubic\" or {mode = \"letterbox\", position, fill}, not true"},
    {"\"bicubic\"", "{\"mode\": \"crop\"}", "m: resize.mode is \"letterbox\", not \"crop\""},
    {"\"bicubic\"", "{\"position\": 1}", "m: resize.position is \"center\" or \"top-left\", not 1"},
    {"\"bicubic\"", "{\"fill\": [1, 2]}", "m: resize.fill is a list of levels 0 to 255, one for each channel, not a list"},
    {"\"bicubic\"", "{\"fill\": [1, 2, 256]}", "m: resize.fill is a list of levels 0 to 255, one for each channel, not 256"},
    {"\"bicubic\"", "{}", "m: resize.fill is a list of levels 0 to 255, one for each channel, not missing"},
    {"\"bicubic\"", "{\"mode\": \"letterbox\"}, \"widths\": [80, 160]",
     "m: resize.mode is \"bicubic\" where there are widths, not \"letterbox\""},
    {"[0.2, 0.2, 0.1]", "[0.2, 0, 0.1]",
     "m: normalize is \"standardize\", \"unit\" or {mean, std} with one number per channel, std above 0, not an "
     "object"},
    {"[0.5, 0.4, 0.3]", "[0.5]",
     "m: normalize is \"standardize\", \"unit\" or {mean, std} with one number per channel, std above 0, not an "
     "object"},
  };
  model_meta m;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_fails(meta_parse("m", with(cases[i].from, cases[i].to), &m), CAPL_EFORMAT, cases[i].message);
}

static void a_model_without_a_description_is_no_damaged_one(void **state)
{
  (void)state;
  model_meta m;
  assert_fails(meta_parse("m", "{\"capl_model\": 1, \"width\": 8, \"height\": 8, \"channels\": 1}", &m), CAPL_EFORMAT,
               "m does not say what the model gives: no output and no charset");
}

static void another_version_is_named_beside_ours(void **state)
{
  (void)state;
  model_meta m;
  char expected[128];
  snprintf(expected, sizeof expected, "m is of format version 2; capl %s reads version 1", capl_version());
  assert_fails(meta_parse("m", with("\"capl_model\": 1", "\"capl_model\": 2"), &m), CAPL_EFORMAT, expected);
  assert_string_equal(capl_error_last()->hint, "use a newer capl");
  snprintf(expected, sizeof expected, "m is of format version 0; capl %s reads version 1", capl_version());
  assert_fails(meta_check_version("m", "{\"capl_model\": 0}"), CAPL_EFORMAT, expected);
  assert_string_equal(capl_error_last()->hint, "save the model again with this capl");
  assert_fails(meta_check_version("m", "{}"), CAPL_EFORMAT,
               "m has no number capl_model: it is no model of this program, or an unfinished one");
  assert_fails(meta_check_version("m", "{\"capl_model\": 1} tail"), CAPL_EFORMAT, "m:1: broken JSON at column 19");
  assert_fails(meta_check_version("m", "[1]"), CAPL_EFORMAT, "m holds no JSON object");
  assert_fails(meta_check_version("m", ""), CAPL_EFORMAT, "m:1: broken JSON at column 1");
}

static void a_stamp_comes_first_and_replaces_an_older_one(void **state)
{
  (void)state;
  char *text;
  assert_ok(meta_stamp("{\"a\": 2, \"capl_model\": 77, \"capl\": 3}", &text));
  assert_memory_equal(text, "{\n\t\"capl_model\":\t1,\n\t\"capl\":\t\"", 28);
  assert_null(strstr(text, "77"));
  assert_non_null(strstr(text, "\"a\":\t2"));
  free(text);
}

static void what_could_not_be_opened_is_not_saved(void **state)
{
  (void)state;
  char *text;
  assert_fails(meta_stamp("{\"output\": \"text\", \"width\": 5}", &text), CAPL_EVALUE,
               "the model's meta data: height is a whole number from 1 to 16384, not missing");
  assert_fails(meta_stamp("[]", &text), CAPL_EVALUE, "a model's meta data must be a JSON object");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_value_arrives),
    cmocka_unit_test(a_letterbox_arrives),
    cmocka_unit_test(wrong_values_are_named_with_what_they_should_be),
    cmocka_unit_test(a_model_without_a_description_is_no_damaged_one),
    cmocka_unit_test(another_version_is_named_beside_ours),
    cmocka_unit_test(a_stamp_comes_first_and_replaces_an_older_one),
    cmocka_unit_test(what_could_not_be_opened_is_not_saved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
