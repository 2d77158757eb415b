/* places.c -- tests of where the user's caches, histories and answers lie.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/places.h"

static const char *place(const char *named, const char *home, const char *name)
{
  static char path[64];
  if (named) setenv("XDG_STATE_HOME", named, 1);
  else unsetenv("XDG_STATE_HOME");
  setenv("HOME", home, 1);
  return capl_place("XDG_STATE_HOME", ".local/state", name, path, sizeof path) ? path : "nowhere";
}

static void a_variable_goes_before_the_home(void **state)
{
  (void)state;
  assert_string_equal(place("/state", "/home", "history"), "/state/capl/history");
  assert_string_equal(place(NULL, "/home", "history"), "/home/.local/state/capl/history");
  assert_string_equal(place(NULL, "/home", ""), "/home/.local/state/capl");
}

static void a_relative_path_is_no_place(void **state)
{
  (void)state;
  assert_string_equal(place("state", "/home", "history"), "/home/.local/state/capl/history");
  assert_string_equal(place("", "/home", "history"), "/home/.local/state/capl/history");
  assert_string_equal(place("state", "home", "history"), "nowhere");
}

static void a_path_without_room_is_no_place(void **state)
{
  char home[64];
  (void)state;
  memset(home, 'a', sizeof home);
  home[0] = '/';
  home[63 - strlen("/.local/state/capl/x")] = '\0';
  assert_int_equal(strlen(place(NULL, home, "x")), 63);
  assert_string_equal(place(NULL, home, "xy"), "nowhere");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_variable_goes_before_the_home),
    cmocka_unit_test(a_relative_path_is_no_place),
    cmocka_unit_test(a_path_without_room_is_no_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
