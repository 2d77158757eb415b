/* user_dirs.c -- tests of where the user's caches, histories and answers lie.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/user_dirs.h"

static const char *place(const char *named, const char *home, const char *name)
{
  static char path[64];
  if (named) setenv("XDG_STATE_HOME", named, 1);
  else unsetenv("XDG_STATE_HOME");
  setenv("HOME", home, 1);
  return capl_user_path("XDG_STATE_HOME", ".local/state", name, path, sizeof path) ? path : "nowhere";
}

static void a_variable_goes_before_the_home(void **state)
{
  (void)state;
  assert_string_equal(place("/state", "/home", "history"), "/state/capl/history");
  assert_string_equal(place(NULL, "/home", "history"), "/home/.local/state/capl/history");
  assert_string_equal(place(NULL, "/home", ""), "/home/.local/state/capl");
}

static void the_list_of_users_knows_the_home_without_the_variable(void **state)
{
  const struct passwd *user = getpwuid(geteuid());
  (void)state;
  if (!user || *user->pw_dir != '/') skip();
  unsetenv("HOME");
  assert_null(capl_home_named());
  assert_string_equal(capl_home(), user->pw_dir);
  setenv("HOME", "/elsewhere", 1);
  assert_string_equal(capl_home(), "/elsewhere");
  assert_string_equal(capl_home_listed(), user->pw_dir);
}

static void a_relative_path_is_no_place(void **state)
{
  (void)state;
  assert_string_equal(place("state", "/home", "history"), "/home/.local/state/capl/history");
  assert_string_equal(place("", "/home", "history"), "/home/.local/state/capl/history");
  if (capl_home_listed()) assert_string_not_equal(place("state", "home", "history"), "home/.local/state/capl/history");
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

static void a_file_is_made_anew_and_not_through_a_link(void **state)
{
  char folder[] = "/tmp/capl-places-XXXXXX";
  struct stat info;
  (void)state;
  assert_non_null(mkdtemp(folder));
  assert_int_equal(chdir(folder), 0);
  for (int i = 0; i < 3; i++) { /* nothing is there, a file, a link */
    if (i == 2) assert_true(rename("new", "kept") == 0 && symlink("kept", "new") == 0);
    int fd = capl_file_create_new("new");
    assert_true(fd >= 0 && write(fd, "abc", i == 2 ? 1 : 3) > 0 && close(fd) == 0);
  }
  assert_true(lstat("new", &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 1);
  assert_true(stat("kept", &info) == 0 && info.st_size == 3);
  assert_true(unlink("new") == 0 && unlink("kept") == 0 && chdir("/") == 0 && rmdir(folder) == 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_variable_goes_before_the_home),
    cmocka_unit_test(the_list_of_users_knows_the_home_without_the_variable),
    cmocka_unit_test(a_relative_path_is_no_place),
    cmocka_unit_test(a_file_is_made_anew_and_not_through_a_link),
    cmocka_unit_test(a_path_without_room_is_no_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
