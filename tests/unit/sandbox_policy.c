/* sandbox_policy.c -- tests of what a recipe may read and write: where paths lead, what is granted, what is said
** otherwise.
**
** There is one policy per process and no way back from closing it: tests that close it do so in a child.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include "unit.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/policy.h"

static char place[] = "/tmp/capl-policy-XXXXXX";

static int make_place(void **state)
{
  (void)state;
  if (!mkdtemp(place) || chdir(place) != 0) return 1;
  bool made = mkdir("data", 0755) == 0 && mkdir("data/train", 0755) == 0 && mkdir("runs", 0755) == 0
      && mkdir("database", 0755) == 0 &&
              symlink("data/train", "short") == 0 && symlink("/etc/passwd", "data/leak") == 0
              && symlink("gone/further", "data/nowhere") == 0 &&
              symlink("b", "a") == 0 && symlink("a", "b") == 0;
  FILE *file = fopen("data/one.txt", "w");
  return !(made && file && fclose(file) == 0);
}

static int remove_place(void **state)
{
  static const char *const made[] = {"data/one.txt", "data/leak", "data/nowhere", "a", "b", "short", NULL};
  static const char *const folders[] = {"data/train", "data", "runs", "database", NULL};
  (void)state;
  for (int i = 0; made[i]; i++) unlink(made[i]);
  for (int i = 0; folders[i]; i++) rmdir(folders[i]);
  return chdir("/") != 0 || rmdir(place) != 0;
}

static const char *below(const char *rest)
{
  static char text[4][300];
  static int next;
  next = (next + 1) % 4;
  snprintf(text[next], sizeof text[next], "%s%s", place, rest);
  return text[next];
}

static void assert_leads(const char *path, const char *to)
{
  char real[CAPL_POLICY_PATH];
  assert_ok(capl_policy_resolve(path, real));
  assert_string_equal(real, to);
}

static void a_path_is_followed_through_links_and_dots(void **state)
{
  (void)state;
  assert_leads("data", below("/data"));
  assert_leads("./data//train/.", below("/data/train"));
  assert_leads("data/../runs/", below("/runs"));
  assert_leads("short/x.png", below("/data/train/x.png"));
  assert_leads("short/../one.txt", below("/data/one.txt")); /* as the kernel sees it: behind the link, not before it */
  assert_leads("/", "/");
  assert_leads("/..", "/");
  assert_leads("data/leak", "/etc/passwd");
}

static void what_does_not_exist_is_kept_and_links_to_nothing_are_followed(void **state)
{
  (void)state;
  assert_leads("runs/new/best", below("/runs/new/best"));
  assert_leads("runs/new/../../..", "/tmp");
  assert_leads("data/nowhere", below("/data/gone/further"));
  assert_leads("data/one.txt/below", below("/data/one.txt/below"));
}

static void circles_and_endless_paths_are_errors(void **state)
{
  char real[CAPL_POLICY_PATH], path[3 * CAPL_POLICY_PATH];
  (void)state;
  assert_fails(capl_policy_resolve("a/x", real), CAPL_EIO, "a/x: too many links lead in a circle");
  assert_fails(capl_policy_resolve("", real), CAPL_EVALUE, "an empty path");
  memset(path, 'x', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  assert_int_equal(capl_policy_resolve(path, real), CAPL_EVALUE);
  path[CAPL_POLICY_PATH - 1] = '\0'; /* fits alone, not behind the working folder */
  assert_int_equal(capl_policy_resolve(path, real), CAPL_EVALUE);
}

/* The test goes on in a child, which ends with 0 when all held. */
#define IN_A_CHILD                                     \
  pid_t child_ = fork();                               \
  if (child_ > 0) {                                    \
    int status_;                                       \
    assert_int_equal(waitpid(child_, &status_, 0), child_); \
    assert_int_equal(status_, 0);                      \
    return;                                            \
  }
#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) fprintf(stderr, "line %d: %s\n", __LINE__, #condition), _exit(1); \
  } while (0)

static void everything_is_allowed_until_the_policy_is_closed(void **state)
{
  (void)state;
  IN_A_CHILD
  CHECK(!capl_policy_is_closed() && capl_policy_check("/etc/passwd", CAPL_MAY_READ | CAPL_MAY_WRITE) == CAPL_OK);
  capl_policy_close();
  CHECK(capl_policy_is_closed() && capl_policy_check("/etc/passwd", CAPL_MAY_READ) == CAPL_EIO);
  CHECK(capl_policy_grant("/etc", CAPL_MAY_READ) == CAPL_ESTATE);
  capl_policy_set_limits(&(capl_limits){.seconds = 5});
  CHECK(capl_policy_limits()->seconds == 0);
  _exit(0);
}

static void a_grant_holds_for_what_lies_below_and_for_nothing_beside(void **state)
{
  (void)state;
  IN_A_CHILD
  CHECK(capl_policy_grant("data", CAPL_MAY_READ) == CAPL_OK && capl_policy_grant("runs", CAPL_MAY_WRITE) == CAPL_OK);
  CHECK(capl_policy_grant("./runs/", CAPL_MAY_READ) == CAPL_OK);
  capl_policy_close();
  static const struct {
    const char *path;
    int rights;
    bool allowed;
  } cases[] = {
    {"data", CAPL_MAY_READ, true}, {"data/one.txt", CAPL_MAY_READ, true}, {"data/one.txt", CAPL_MAY_WRITE, false},
    {"short/new.png", CAPL_MAY_READ, true}, {"data/../data/train", CAPL_MAY_READ, true},
    {"data/leak", CAPL_MAY_READ, false}, {"data/../database", CAPL_MAY_READ, false}, {"database", CAPL_MAY_READ, false},
    {"data/..", CAPL_MAY_READ, false}, {".", CAPL_MAY_READ, false}, {"runs/a/b", CAPL_MAY_READ | CAPL_MAY_WRITE, true},
    {"runs/../data/x", CAPL_MAY_WRITE, false}, {"/proc/self/cwd/data/one.txt", CAPL_MAY_READ, true},
    {"/proc/self/root/./etc/passwd", CAPL_MAY_READ, false}, {"data/nowhere", CAPL_MAY_READ, true},
    {"a", CAPL_MAY_READ, false}, {"", CAPL_MAY_READ, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if ((capl_policy_check(cases[i].path, cases[i].rights) == CAPL_OK) != cases[i].allowed)
      fprintf(stderr, "%s: %d\n", cases[i].path, cases[i].rights), _exit(1);
  _exit(0);
}

static void what_holds_the_home_is_too_wide_whatever_home_says(void **state)
{
  const char *const homes[] = {NULL, "/elsewhere", "home", ""};
  const struct passwd *user = getpwuid(geteuid());
  (void)state;
  IN_A_CHILD
  for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
    if (homes[i]) setenv("HOME", homes[i], 1);
    else unsetenv("HOME");
    CHECK(capl_policy_is_too_wide("/") && capl_policy_is_too_wide("/var/tmp")
          && !capl_policy_is_too_wide(below("/data")));
    CHECK(!user || capl_policy_is_too_wide(user->pw_dir));
  }
  setenv("HOME", below("/data/train"), 1);
  CHECK(capl_policy_is_too_wide(below("/data")) && capl_policy_is_too_wide(place)
        && !capl_policy_is_too_wide(below("/runs")));
  _exit(0);
}

static void nothing_is_granted_to_write_where_a_folder_is_protected(void **state)
{
  (void)state;
  IN_A_CHILD
  CHECK(capl_policy_protect("data/train", "what others believe") == CAPL_OK);
  CHECK(capl_policy_grant("data", CAPL_MAY_READ) == CAPL_OK
        && capl_policy_grant("database", CAPL_MAY_WRITE) == CAPL_OK);
  CHECK(capl_policy_grant("data", CAPL_MAY_WRITE) == CAPL_EVALUE
        && capl_policy_grant("short/x", CAPL_MAY_WRITE) == CAPL_EVALUE);
  CHECK(capl_policy_grant("data/one.txt", CAPL_MAY_WRITE) == CAPL_OK);
  CHECK(capl_policy_grant("data/one.txt", CAPL_MAY_WRITE | CAPL_MAY_BESIDE) == CAPL_EVALUE);
  CHECK(capl_policy_grant("/", CAPL_MAY_WRITE) == CAPL_EVALUE
        && strstr(capl_error_last()->message, "holds what others believe"));
  _exit(0);
}

static void a_resolved_path_is_granted_and_not_where_a_link_leads_since(void **state)
{
  char real[CAPL_POLICY_PATH];
  (void)state;
  IN_A_CHILD
  CHECK(mkdir("moved", 0755) == 0 && capl_policy_resolve("moved", real) == CAPL_OK);
  CHECK(rmdir("moved") == 0 && symlink("database", "moved") == 0
        && capl_policy_grant_resolved(real, CAPL_MAY_READ) == CAPL_OK);
  unlink("moved");
  capl_policy_close();
  CHECK(capl_policy_check("moved/x", CAPL_MAY_READ) == CAPL_OK
        && capl_policy_check("database/x", CAPL_MAY_READ) == CAPL_EIO);
  _exit(0);
}

static void the_whole_system_can_be_granted_by_its_root(void **state)
{
  (void)state;
  IN_A_CHILD
  CHECK(capl_policy_grant("/", CAPL_MAY_READ) == CAPL_OK);
  capl_policy_close();
  CHECK(capl_policy_check("/etc/passwd", CAPL_MAY_READ) == CAPL_OK
        && capl_policy_check("/etc/passwd", CAPL_MAY_WRITE) == CAPL_EIO);
  _exit(0);
}

static void a_refusal_names_the_path_what_is_allowed_and_the_way_out(void **state)
{
  char expected[1200];
  (void)state;
  IN_A_CHILD
  CHECK(capl_policy_grant("data", CAPL_MAY_READ) == CAPL_OK
        && capl_policy_grant("runs", CAPL_MAY_READ | CAPL_MAY_WRITE) == CAPL_OK);
  capl_policy_close();
  CHECK(capl_policy_check("data/leak", CAPL_MAY_READ) == CAPL_EIO);
  const capl_error *e = capl_error_last();
  CHECK(strcmp(e->message, "this recipe may not read data/leak (that is /etc/passwd)") == 0);
  snprintf(expected, sizeof expected, "it may read: %s, %s", below("/data"), below("/runs"));
  CHECK(strcmp(e->context, expected) == 0);
  CHECK(strstr(e->hint, "--data=DIR") && strstr(e->hint, "--- needs: read=FOLDER") && strstr(e->hint, "--trust"));
  CHECK(capl_policy_check(below("/data/x"), CAPL_MAY_WRITE) == CAPL_EIO);
  snprintf(expected, sizeof expected, "this recipe may not write %s", below("/data/x"));
  CHECK(strcmp(e->message, expected) == 0);
  snprintf(expected, sizeof expected, "it may write: %s", below("/runs"));
  CHECK(strcmp(e->context, expected) == 0 && strstr(e->hint, "--out=FILE"));
  _exit(0);
}

static void so_many_grants_that_not_all_can_be_shown_are_counted(void **state)
{
  char path[64];
  (void)state;
  IN_A_CHILD
  capl_status status = CAPL_OK;
  int granted = 0;
  for (; status == CAPL_OK; granted++) {
    snprintf(path, sizeof path, "/nowhere/folder-%d", granted);
    status = capl_policy_grant(path, CAPL_MAY_READ);
  }
  CHECK(status == CAPL_EVALUE && granted == 513);
  CHECK(capl_policy_grant("/nowhere/folder-7", CAPL_MAY_WRITE) == CAPL_OK); /* one that is known already */
  capl_policy_close();
  CHECK(capl_policy_check("/etc/passwd", CAPL_MAY_READ) == CAPL_EIO);
  CHECK(strstr(capl_error_last()->context, "/nowhere/folder-0, ") && strstr(capl_error_last()->context, " more"));
  _exit(0);
}

static void who_writes_too_much_is_told_how_much_that_is(void **state)
{
  (void)state;
  IN_A_CHILD
  capl_policy_set_limits(&(capl_limits){.output_bytes = 20000000000u});
  CHECK(capl_policy_wrote(30000000000u) == CAPL_OK); /* the policy is open */
  capl_policy_close();
  CHECK(capl_policy_wrote(20000000000u) == CAPL_OK && capl_policy_wrote(1) == CAPL_EIO);
  CHECK(strcmp(capl_error_last()->message, "the recipe has printed and written more than 20 GB") == 0);
  _exit(0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_path_is_followed_through_links_and_dots),
    cmocka_unit_test(what_does_not_exist_is_kept_and_links_to_nothing_are_followed),
    cmocka_unit_test(circles_and_endless_paths_are_errors),
    cmocka_unit_test(everything_is_allowed_until_the_policy_is_closed),
    cmocka_unit_test(a_grant_holds_for_what_lies_below_and_for_nothing_beside),
    cmocka_unit_test(what_holds_the_home_is_too_wide_whatever_home_says),
    cmocka_unit_test(nothing_is_granted_to_write_where_a_folder_is_protected),
    cmocka_unit_test(a_resolved_path_is_granted_and_not_where_a_link_leads_since),
    cmocka_unit_test(the_whole_system_can_be_granted_by_its_root),
    cmocka_unit_test(a_refusal_names_the_path_what_is_allowed_and_the_way_out),
    cmocka_unit_test(so_many_grants_that_not_all_can_be_shown_are_counted),
    cmocka_unit_test(who_writes_too_much_is_told_how_much_that_is),
  };
  return cmocka_run_group_tests(tests, make_place, remove_place);
}
