/* plan_cache.c -- tests of the cache on disk: what is kept comes back, what is damaged or foreign never does.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/cuda/plan_cache.h"
#include "base/log.h"

enum { PATH_LEN = 512 };

static char folder[PATH_LEN];

/* ---- log lines -------------------------------------------------------------------------------- */

static int lines;
static char last_line[1024];

static void hear(void *user, const char *line)
{
  (void)user;
  lines++;
  snprintf(last_line, sizeof last_line, "%s", line);
}

/* ---- one entry -------------------------------------------------------------------------------- */

static const char scope[] = "GPU sm_90, cuDNN 9.19.0", key[] = "conv2d bf16 x=1,1,3,3", value[] = "line one\nline two";

static void write_it(void)
{
  plan_cache_write("plan", scope, key, value, strlen(value));
}

/* Whether the entry can be had; then it must be the right one. */
static bool read_it(void)
{
  size_t len;
  char *got = plan_cache_read("plan", scope, key, &len);
  if (!got) return false;
  assert_int_equal(len, strlen(value));
  assert_string_equal(got, value);
  free(got);
  return true;
}

/* The one file of the cache. */
static void find_file(char *path)
{
  char command[PATH_LEN + 64];
  snprintf(command, sizeof command, "find '%s/capl' -type f", folder);
  FILE *list = popen(command, "r");
  assert_non_null(list);
  assert_non_null(fgets(path, PATH_LEN, list));
  path[strcspn(path, "\n")] = '\0';
  char rest[PATH_LEN];
  assert_null(fgets(rest, sizeof rest, list)); /* nothing temporary stays */
  pclose(list);
}

static size_t slurp(const char *path, char *buf, size_t room)
{
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t n = fread(buf, 1, room, f);
  fclose(f);
  assert_true(n > 0 && n < room);
  return n;
}

static void spill(const char *path, const char *buf, size_t n)
{
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(buf, 1, n, f), n);
  fclose(f);
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void what_is_kept_comes_back(void **state)
{
  (void)state;
  lines = 0;
  assert_false(read_it());
  write_it();
  assert_true(read_it());
  plan_cache_write("plan", scope, key, "x", 1);
  plan_cache_write("plan", scope, key, value, strlen(value)); /* replaced, not appended */
  assert_true(read_it());
  assert_int_equal(lines, 0);
}

static void other_kinds_scopes_and_keys_are_other_entries(void **state)
{
  (void)state;
  size_t len;
  lines = 0;
  write_it();
  assert_null(plan_cache_read("cubin", scope, key, &len));
  assert_null(plan_cache_read("plan", "GPU sm_90, cuDNN 9.20.0", key, &len));
  assert_null(plan_cache_read("plan", scope, "conv2d bf16 x=1,1,3,4", &len));
  assert_int_equal(lines, 0); /* that is nothing to tell */
}

static void any_changed_byte_is_noticed_and_told_in_one_line(void **state)
{
  (void)state;
  char path[PATH_LEN], text[4096], damaged[4096];
  write_it();
  find_file(path);
  size_t n = slurp(path, text, sizeof text);
  for (size_t i = 0; i < n; i++)
    for (int bit = 0; bit < 8; bit++) {
      memcpy(damaged, text, n);
      damaged[i] = (char)(damaged[i] ^ 1 << bit);
      spill(path, damaged, n);
      lines = 0;
      assert_false(read_it());
      assert_int_equal(lines, 1);
    }
  assert_non_null(strstr(last_line, "is damaged: it is made again"));
  write_it(); /* the rebuilt one */
  assert_true(read_it());
}

static void a_file_cut_or_lengthened_is_noticed(void **state)
{
  (void)state;
  char path[PATH_LEN], text[4096];
  write_it();
  find_file(path);
  size_t n = slurp(path, text, sizeof text - 1);
  for (size_t cut = 0; cut < n; cut++) {
    spill(path, text, cut);
    assert_false(read_it());
  }
  text[n] = '\n';
  spill(path, text, n + 1);
  assert_false(read_it());
  spill(path, text, n);
  assert_true(read_it());
}

/* A file from elsewhere under the name of this entry: whole, but of no use. */
static void an_entry_of_another_version_is_told(void **state)
{
  (void)state;
  char path[PATH_LEN], text[4096];
  plan_cache_write("plan", "GPU sm_90, cuDNN 9.18.0", key, value, strlen(value));
  find_file(path);
  size_t n = slurp(path, text, sizeof text);
  unlink(path);
  write_it();
  find_file(path);
  spill(path, text, n);
  lines = 0;
  assert_false(read_it());
  assert_int_equal(lines, 1);
  assert_non_null(strstr(last_line, "was made for another GPU or another version"));
}

static void a_dropped_entry_is_gone_with_a_line(void **state)
{
  (void)state;
  write_it();
  lines = 0;
  plan_cache_drop("plan", scope, key, "cuDNN does not read it");
  assert_int_equal(lines, 1);
  assert_non_null(strstr(last_line, "is of no use and is made again: cuDNN does not read it"));
  assert_false(read_it());
  assert_int_equal(lines, 1);
}

static void what_is_no_plain_file_is_never_read(void **state)
{
  (void)state;
  char path[PATH_LEN], elsewhere[PATH_LEN + 16];
  write_it();
  find_file(path);
  snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
  assert_int_equal(rename(path, elsewhere), 0);
  assert_int_equal(symlink(elsewhere, path), 0);
  assert_false(read_it());
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_false(read_it()); /* nor waited for */
  unlink(path);
}

static void a_place_that_cannot_be_written_is_told_once(void **state)
{
  (void)state;
  char blocked[PATH_LEN + 16];
  snprintf(blocked, sizeof blocked, "%s/file", folder);
  spill(blocked, "x", 1); /* a file where a folder is needed: refused to root, too */
  setenv("XDG_CACHE_HOME", blocked, 1);
  lines = 0;
  write_it();
  write_it();
  assert_int_equal(lines, 1);
  assert_non_null(strstr(last_line, "cannot be written"));
  assert_false(read_it());
}

static void without_a_place_nothing_is_kept_and_nothing_told(void **state)
{
  (void)state;
  char endless[2 * PATH_MAX] = "/";
  memset(endless + 1, 'x', sizeof endless - 2); /* no path is as long: where HOME is not set, the list of users has
                                                ** one */
  setenv("XDG_CACHE_HOME", endless, 1);
  lines = 0;
  write_it();
  assert_false(read_it());
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", folder, 1); /* ~/.cache/capl then */
  write_it();
  assert_true(read_it());
  char path[PATH_LEN + 32];
  snprintf(path, sizeof path, "%s/.cache/capl", folder);
  assert_int_equal(access(path, R_OK), 0);
  assert_int_equal(lines, 0);
}

static int new_folder(void **state)
{
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/capl-plan-cache-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  setenv("XDG_CACHE_HOME", folder, 1);
  capl_log_set(hear, NULL);
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  char command[PATH_LEN + 64];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, new_folder, remove_folder)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(what_is_kept_comes_back),
    TEST(other_kinds_scopes_and_keys_are_other_entries),
    TEST(any_changed_byte_is_noticed_and_told_in_one_line),
    TEST(a_file_cut_or_lengthened_is_noticed),
    TEST(an_entry_of_another_version_is_told),
    TEST(a_dropped_entry_is_gone_with_a_line),
    TEST(what_is_no_plain_file_is_never_read),
    TEST(a_place_that_cannot_be_written_is_told_once),
    TEST(without_a_place_nothing_is_kept_and_nothing_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
