/* launch_lines.c -- what several processes print: whole lines by rank, frames through mpirun, mpirun's own words.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program/launch/mux.h"
#include "program/launch/mpirun.h"
#include "program/launch/tag.h"
#include "unit.h"

static char seen[1 << 21]; /* what was handed on, each time with a '|' behind it */
static size_t seen_len;

static void see(void *user, const char *text, size_t len)
{
  (void)user;
  assert_true(seen_len + len + 2 < sizeof seen);
  memcpy(seen + seen_len, text, len);
  seen_len += len;
  seen[seen_len++] = '|';
  seen[seen_len] = '\0';
}

static int forget(void **state)
{
  (void)state;
  seen_len = 0;
  seen[0] = '\0';
  return 0;
}

static void feed(tag *t, const char *text) { tag_feed(t, text, strlen(text)); }

/* ---- lines ----------------------------------------------------------------------------------- */

static void lines_are_handed_on_when_they_are_whole(void **state)
{
  (void)state;
  tag t = {.name = "[rank 1] ", .put = see};
  feed(&t, "one\ntw");
  assert_string_equal(seen, "[rank 1] one\n|");
  feed(&t, "o\n\nthree");
  tag_end(&t);
  assert_string_equal(seen, "[rank 1] one\n|[rank 1] two\n|[rank 1] \n|[rank 1] three\n|");
}

static void rank_0_has_no_name_and_may_draw_a_bar(void **state)
{
  (void)state;
  tag plain = {.put = see}, bar = {.put = see, .live = true};
  feed(&plain, "\r10 %\033[K");
  assert_string_equal(seen, "");
  feed(&plain, "\n");
  assert_string_equal(seen, "\r10 %\033[K\n|");
  feed(&bar, "\r10 %");
  assert_string_equal(seen, "\r10 %\033[K\n|\r10 %|");
  tag_end(&bar);
  tag_end(&plain);
}

static void commands_to_the_terminal_of_other_ranks_are_shown(void **state)
{
  (void)state;
  tag t = {.name = "[rank 2] ", .put = see};
  feed(&t, "a\033[2Jb\rc\td\r\n");
  assert_string_equal(seen, "[rank 2] a\\x1b[2Jb\\x0dc\td\n|");
  tag_end(&t);
}

static void a_line_without_end_is_broken(void **state)
{
  (void)state;
  tag t = {.name = "[rank 1] ", .put = see};
  char *many = malloc(TAG_LINE);
  memset(many, 'x', TAG_LINE);
  tag_feed(&t, many, TAG_LINE);
  tag_end(&t);
  int lines = 0;
  for (char *p = seen; (p = strstr(p, "\n|")); p += 2) lines++;
  assert_in_range(lines, 2, 4);
  assert_int_equal(seen_len, (size_t)TAG_LINE + (size_t)lines * (strlen("[rank 1] ") + 2));
  free(many);
}

static void whole_lines_take_the_place_of_a_bar(void **state)
{
  (void)state;
  int ends[2];
  char got[128] = "";
  bool amid = false;
  assert_int_equal(pipe(ends), 0);
  screen s = {.fd = ends[1], .terminal = true, .amid = &amid}, file = {.fd = ends[1], .amid = &amid};
  screen_put(&s, "\r10 %", 5, true);
  screen_put(&s, "[rank 1] hello\n", 15, false);
  screen_put(&s, "\r20 %", 5, true);
  screen_put(&file, "plain\n", 6, false);
  assert_int_equal(read(ends[0], got, sizeof got - 1), 5 + 4 + 15 + 5 + 6);
  assert_string_equal(got, "\r10 %\r\033[K[rank 1] hello\n\r20 %plain\n");
  close(ends[0]);
  close(ends[1]);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void see_frame(void *user, int rank, char stream, const char *text, size_t len)
{
  char head[16];
  (void)user;
  snprintf(head, sizeof head, "%c%d:", stream, rank);
  see(NULL, head, strlen(head));
  see(NULL, text, len);
}

static size_t written(int *ends, char *bytes, size_t room)
{
  close(ends[1]);
  size_t n = 0;
  for (ssize_t got; (got = read(ends[0], bytes + n, room - n)) > 0;) n += (size_t)got;
  close(ends[0]);
  return n;
}

static void frames_are_found_among_other_words_however_they_are_cut(void **state)
{
  (void)state;
  char bytes[4096];
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  mux_write(ends[1], 0, '1', "hello\n", 6);
  assert_int_equal(write(ends[1], "mpirun says\n", 12), 12);
  mux_write(ends[1], 4095, '2', "error\n", 6);
  mux_write(ends[1], 3, 'x', "137", 3);
  size_t n = written(ends, bytes, sizeof bytes);
  for (size_t piece = 1; piece < n; piece++) {
    frame_reader *r = calloc(1, sizeof *r);
    r->frame = see_frame, r->other = see;
    forget(NULL);
    for (size_t at = 0; at < n; at += piece) mux_feed(r, bytes + at, at + piece < n ? piece : n - at);
    mux_end(r);
    free(r);
    char joined[256] = "", *to = joined;
    for (char *p = seen; *p; p++) /* other words may come in parts */
      if (!(*p == '|' && p > seen && strchr("mpirun says", p[-1]))) *to++ = *p;
    assert_string_equal(joined, "10:|hello\n|mpirun says\n|24095:|error\n|x3:|137|");
  }
}

static void a_long_text_takes_several_frames(void **state)
{
  (void)state;
  enum { LONG = 10000 };
  static char text[LONG], bytes[2 * LONG];
  int ends[2];
  memset(text, 'y', sizeof text);
  assert_int_equal(pipe(ends), 0);
  mux_write(ends[1], 1, '1', text, sizeof text);
  size_t n = written(ends, bytes, sizeof bytes);
  assert_int_equal(n, LONG + 3 * FRAME_HEAD);
  frame_reader *r = calloc(1, sizeof *r);
  r->frame = see_frame, r->other = see;
  mux_feed(r, bytes, n);
  assert_int_equal(r->len, 0);
  free(r);
}

static void what_only_looks_like_a_frame_is_text(void **state)
{
  (void)state;
  frame_reader *r = calloc(1, sizeof *r);
  r->frame = see_frame, r->other = see;
  const char *text = "\036capl1-000100005hello \036caplcaplcaplcapl \036cap";
  mux_feed(r, text, strlen(text));
  mux_end(r);
  char joined[256] = "", *to = joined;
  for (char *p = seen; *p; p++)
    if (*p != '|') *to++ = *p;
  assert_string_equal(joined, text);
  free(r);
}

/* ---- mpirun's words --------------------------------------------------------------------------- */

#define RULE "--------------------------------------------------------------------------\n"

static void say(const char *text)
{
  mpirun_words w = {.put = see};
  for (const char *p = text; *p; p++) mpirun_words_feed(&w, p, 1);
  mpirun_words_end(&w);
}

static void notes_on_ranks_that_ended_are_not_repeated(void **state)
{
  (void)state;
  say(RULE "Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the "
           "job has been "
           "aborted.\n" RULE RULE "mpirun detected that one or more processes exited with non-zero status, thus "
                                  "causing\nthe job to be "
           "terminated. The first process to do so was:\n\n  Process name: [[1,1],1]\n  Exit code:    3\n" RULE);
  say(RULE "prterun detected that one or more processes exited with non-zero status,\nthus causing the job to be "
           "terminated. The "
           "first process to do so was:\n\n   Process name: [prterun-vm-28866@1,1]\n   Exit code:    3\n" RULE);
  say("mpirun.openmpi: Forwarding signal 10 to job\n");
  say("2 more processes have sent help message help-x.txt / y\nSet MCA parameter \"prte_base_help_aggregate\" to 0 "
      "to see all\n");
  assert_string_equal(seen, "");
}

static void a_killed_rank_is_told_in_one_line(void **state)
{
  (void)state;
  say(RULE "mpirun noticed that process rank 1 with PID 4711 on node vm exited on signal 9 (Killed).\n" RULE);
  say(RULE "prterun noticed that process rank 1 with PID 29219 on node vm exited on\nsignal 9 (Killed).\n" RULE);
  assert_string_equal(seen, "capl: rank 1 (host vm) was ended by signal 9 (Killed)\n|"
                            "capl: rank 1 (host vm) was ended by signal 9 (Killed)\n|");
}

static void everything_else_is_shown(void **state)
{
  (void)state;
  say("ssh: Could not resolve hostname b\n" RULE "There are not enough slots available in the system\n" RULE "the end");
  assert_string_equal(seen, "ssh: Could not resolve hostname b\n|There are not enough slots available in the "
                            "system\n|the end\n|");
}

static void a_note_without_end_is_shown_in_parts(void **state)
{
  (void)state;
  mpirun_words w = {.put = see};
  mpirun_words_feed(&w, RULE, strlen(RULE));
  for (int i = 0; i < 20000; i++) mpirun_words_feed(&w, "z", 1);
  mpirun_words_end(&w);
  size_t z = 0;
  for (char *p = seen; *p; p++) z += *p == 'z';
  assert_int_equal(z, 20000);
}

/* ---- mpirun's call ---------------------------------------------------------------------------- */

static bool calls_with(const char *word)
{
  const char *recipe[] = {"capl", "job.lua"};
  const char **words = mpirun_command("/usr/bin/mpirun", 2, 2, recipe);
  bool found = false;
  for (int i = 0; words[i]; i++) found = found || strcmp(words[i], word) == 0;
  free(words);
  return found;
}

/* It counts cores, of which a machine may have half as many as processors. */
static void mpirun_does_not_count_processors_itself(void **state)
{
  (void)state;
  unsetenv("SLURM_JOB_ID");
  assert_true(calls_with("--oversubscribe"));
  setenv("SLURM_JOB_ID", "7", 1);
  assert_false(calls_with("--oversubscribe"));
  unsetenv("SLURM_JOB_ID");
}

/* Of hosts that a batch system gives it, it has to reach all. */
static void mpirun_of_one_host_leaves_networks_alone(void **state)
{
  (void)state;
  unsetenv("SLURM_JOB_ID");
  unsetenv("OMPI_MCA_btl");
  assert_true(calls_with("^tcp,openib,ofi,usnic,uct"));
  setenv("OMPI_MCA_btl", "self,tcp", 1); /* the user knows better */
  assert_false(calls_with("^tcp,openib,ofi,usnic,uct"));
  unsetenv("OMPI_MCA_btl");
  setenv("SLURM_JOB_ID", "7", 1);
  assert_false(calls_with("^tcp,openib,ofi,usnic,uct"));
  unsetenv("SLURM_JOB_ID");
}

static void mpirun_is_given_a_home(void **state)
{
  (void)state;
  char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
  unsetenv("HOME");
  setenv("SLURM_JOB_ID", "7", 1); /* no library is loaded into this process's children */
  mpirun_environment();
  assert_true(getenv("HOME") && *getenv("HOME") == '/');
  setenv("HOME", "/of/a/user", 1);
  mpirun_environment();
  assert_string_equal(getenv("HOME"), "/of/a/user");
  unsetenv("SLURM_JOB_ID");
  if (home) setenv("HOME", home, 1);
  free(home);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, forget)
  const struct CMUnitTest tests[] = {
    TEST(lines_are_handed_on_when_they_are_whole),
    TEST(rank_0_has_no_name_and_may_draw_a_bar),
    TEST(commands_to_the_terminal_of_other_ranks_are_shown),
    TEST(a_line_without_end_is_broken),
    TEST(whole_lines_take_the_place_of_a_bar),
    TEST(frames_are_found_among_other_words_however_they_are_cut),
    TEST(a_long_text_takes_several_frames),
    TEST(what_only_looks_like_a_frame_is_text),
    TEST(notes_on_ranks_that_ended_are_not_repeated),
    TEST(a_killed_rank_is_told_in_one_line),
    TEST(everything_else_is_shown),
    TEST(mpirun_does_not_count_processors_itself),
    TEST(mpirun_of_one_host_leaves_networks_alone),
    TEST(mpirun_is_given_a_home),
    TEST(a_note_without_end_is_shown_in_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
