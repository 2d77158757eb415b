/* text_shown.c -- tests of texts from outside made fit to show.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"

static const char *shown(const char *from, bool lines)
{
  static char text[256];
  capl_text_show(text, sizeof text, from, lines);
  return text;
}

static void names_in_any_script_stay_as_they_are(void **state)
{
  (void)state;
  assert_string_equal(shown("Ab 1~", false), "Ab 1~");
  assert_string_equal(shown("验证码_é_😀.png", false), "验证码_é_😀.png");
}

static void control_characters_cannot_reach_the_terminal(void **state)
{
  (void)state;
  assert_string_equal(shown("\x1b[31mred\x7f\r", false), "\\x1b[31mred\\x7f\\x0d");
  assert_string_equal(shown("a\nb\tc", false), "a\\nb\\tc");
  assert_string_equal(shown("a\nb\tc", true), "a\nb\tc");
  assert_string_equal(shown("\xc2\x9b" "31m", false), "\\xc2\\x9b" "31m"); /* the one-character form of ESC [ */
}

static void a_path_cannot_be_turned_round_to_read_as_another(void **state)
{
  (void)state;
  assert_string_equal(shown("/etc\xe2\x80\xaegpj.", false), "/etc\\xe2\\x80\\xaegpj.");
  assert_string_equal(shown("\xe2\x81\xa6\xd8\x9c\xe2\x80\xa8", true), "\\xe2\\x81\\xa6\\xd8\\x9c\\xe2\\x80\\xa8");
  /* a dash, a letter, … */
  assert_string_equal(shown("\xe2\x80\x93\xd8\xb9\xe2\x80\xa6", false), "\xe2\x80\x93\xd8\xb9\xe2\x80\xa6");
}

static void bytes_that_are_no_utf8_are_spelled(void **state)
{
  (void)state;
  assert_string_equal(shown("\xff\xfe", false), "\\xff\\xfe");
  assert_string_equal(shown("\xc0\xaf", false), "\\xc0\\xaf");         /* overlong '/' */
  assert_string_equal(shown("\xed\xa0\x80", false), "\\xed\\xa0\\x80"); /* half of a UTF-16 pair */
  assert_string_equal(shown("\xf4\x90\x80\x80", false), "\\xf4\\x90\\x80\\x80");
  assert_string_equal(shown("\xe9\xaa", false), "\\xe9\\xaa"); /* cut off */
}

static void a_long_text_loses_its_middle(void **state)
{
  (void)state;
  char text[32];
  capl_text_show(text, sizeof text, "0123456789012345678901234567890", false);
  assert_string_equal(text, "0123456789012345678901234567890");
  capl_text_show(text, sizeof text, "begin 0123456789 0123456789 0123456789 end", false);
  assert_string_equal(text, "begin 0123456 … 123456789 end");
  capl_text_show(text, sizeof text, "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01", false);
  assert_true(strlen(text) < sizeof text && strncmp(text, "\\x01\\x01\\x01 … ", 14) == 0);
}

static void a_message_keeps_the_reason_behind_a_long_path(void **state)
{
  (void)state;
  char path[4096];
  memset(path, 'a', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  (void)CAPL_FAIL(CAPL_EIO, "cannot read /%s: the disk\nis on fire", path);
  const char *message = capl_error_last()->message, *reason = "a: the disk\\nis on fire";
  assert_int_equal(strncmp(message, "cannot read /aaa", 16), 0);
  assert_string_equal(message + strlen(message) - strlen(reason), reason);
}

static void a_full_disk_comes_with_its_remedy(void **state)
{
  (void)state;
  assert_string_equal(capl_errno_text(ENOSPC), "the disk is full (No space left on device); free some space there");
  assert_string_equal(capl_errno_text(EACCES), strerror(EACCES));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_in_any_script_stay_as_they_are),
    cmocka_unit_test(control_characters_cannot_reach_the_terminal),
    cmocka_unit_test(a_path_cannot_be_turned_round_to_read_as_another),
    cmocka_unit_test(bytes_that_are_no_utf8_are_spelled),
    cmocka_unit_test(a_long_text_loses_its_middle),
    cmocka_unit_test(a_message_keeps_the_reason_behind_a_long_path),
    cmocka_unit_test(a_full_disk_comes_with_its_remedy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
