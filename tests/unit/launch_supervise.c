/* launch_supervise.c -- processes and their supervisor: exit statuses, signals, limits, output, and that none is left behind.
** Workers are small functions here; each supervisor runs in a process of its own, which the test may kill.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/supervise.h"
#include "unit.h"

enum { MOST = 4 };

typedef struct {
  pid_t pids[MOST]; /* of workers that have begun */
  volatile int saved;
} shared;

static shared *page;

/* ---- workers --------------------------------------------------------------------------------- */

typedef int (*worker)(int index);

static void begin(int index) { page->pids[index] = getpid(); }

static int done(int index) { return begin(index), 0; }
static int rank_1_fails(int index) { return begin(index), index == 1 ? 3 : pause(); }
static int sleeps(int index) { return begin(index), pause(); }
static int rank_1_dies(int index) { return begin(index), index == 1 ? raise(SIGKILL) : pause(); }
static int only_zero_is_lost(int index) { return begin(index), index == 0 ? EXIT_LOST : (usleep(50000), 4); }

static int deaf(int index)
{
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  return begin(index), index == 1 ? 5 : (sleep(30), 0);
}

static volatile sig_atomic_t told;
static void on_told(int n) { told = n; }

/* Ends by itself when it is asked to; rank 0 takes a while to save. */
static atomic_bool *saving;
static int saves(int index)
{
  signal(SIGTERM, on_told);
  begin(index);
  while (!told) usleep(10000);
  if (index > 0) return 128 + told;
  atomic_store(&saving[0], true);
  usleep(1500000);
  page->saved = 1;
  return 128 + told;
}

static int prints(int index)
{
  begin(index);
  for (int i = 0; i < 200; i++) dprintf(1, "rank %d line %d and some more of it\n", index, i);
  return dprintf(1, "rank %d ends", index), 0;
}

static int run(void *user, int index) { return ((worker)user)(index); }

/* ---- a supervisor in its own process ----------------------------------------------------------- */

typedef struct {
  pid_t pid;
  int output;
  char text[1 << 16];
} trial;

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void start(trial *t, crew c, worker w)
{
  int ends[2];
  memset(page, 0, sizeof *page);
  memset(saving, 0, MOST * sizeof *saving);
  assert_int_equal(pipe(ends), 0);
  c.run = run;
  c.user = (void *)w;
  t->pid = fork();
  if (t->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(ends[1], 1), dup2(ends[1], 2);
    close(ends[0]), close(ends[1]);
    _exit(supervise(&c));
  }
  close(ends[1]);
  t->output = ends[0];
}

static void wait_begun(int n)
{
  for (double end = now() + 5; now() < end; usleep(5000)) {
    int begun = 0;
    for (int i = 0; i < n; i++) begun += page->pids[i] != 0;
    if (begun == n) return;
  }
  fail_msg("not all workers began");
}

static bool alive(pid_t pid) { return pid > 0 && kill(pid, 0) == 0; }

static void assert_all_gone(void)
{
  for (double end = now() + 2; now() < end; usleep(10000)) {
    bool any = false;
    for (int i = 0; i < MOST; i++) any = any || alive(page->pids[i]);
    if (!any) return;
  }
  fail_msg("a worker is left");
}

/* Waits for the supervisor -> its exit status; its output in t->text. */
static int end(trial *t)
{
  size_t n = 0;
  int status;
  for (ssize_t got; n < sizeof t->text - 1 && (got = read(t->output, t->text + n, sizeof t->text - 1 - n)) > 0;) n += (size_t)got;
  t->text[n] = '\0';
  close(t->output);
  assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
  assert_all_gone();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static crew ranks(int n)
{
  return (crew){.count = n, .ranks = n, .output = OUTPUT_TAGGED, .saving = saving, .pace = 5};
}

/* ---- tests ----------------------------------------------------------------------------------- */

static trial t;

static void a_crew_that_does_its_work_ends_with_0(void **state)
{
  (void)state;
  start(&t, ranks(3), done);
  assert_int_equal(end(&t), 0);
  assert_string_equal(t.text, "");
}

static void the_first_failure_ends_the_others_and_is_the_status(void **state)
{
  (void)state;
  double begun = now();
  start(&t, ranks(3), rank_1_fails);
  assert_int_equal(end(&t), 3);
  assert_true(now() - begun < 3);
}

static void a_ranks_own_error_counts_more_than_that_it_was_lost(void **state)
{
  (void)state;
  start(&t, ranks(2), only_zero_is_lost);
  assert_int_equal(end(&t), 4);
}

static void a_crash_is_told_once_with_rank_and_signal(void **state)
{
  (void)state;
  char expected[256];
  start(&t, ranks(3), rank_1_dies);
  assert_int_equal(end(&t), 128 + SIGKILL);
  snprintf(expected, sizeof expected,
           "capl: rank 1 (process %d) was ended by signal 9 (Killed): often the system ran out of memory\n", (int)page->pids[1]);
  assert_string_equal(t.text, expected);
}

static void who_does_not_listen_is_killed(void **state)
{
  (void)state;
  double begun = now();
  start(&t, ranks(2), deaf);
  assert_int_equal(end(&t), 5);
  assert_true(now() - begun >= 0.7 && now() - begun < 5);
}

static void none_outlives_a_supervisor_that_is_killed(void **state)
{
  (void)state;
  start(&t, ranks(4), deaf);
  wait_begun(4);
  kill(t.pid, SIGKILL);
  assert_int_equal(end(&t), 128 + SIGKILL);
}

static void signals_are_passed_on(void **state)
{
  (void)state;
  start(&t, ranks(2), sleeps);
  wait_begun(2);
  kill(t.pid, SIGTERM);
  assert_int_equal(end(&t), 128 + SIGTERM);
  assert_string_equal(t.text, "");
}

static void one_that_does_not_listen_to_a_signal_is_killed(void **state)
{
  (void)state;
  crew c = ranks(1);
  c.pace = 50;
  start(&t, c, deaf);
  wait_begun(1);
  double told_at = now();
  kill(t.pid, SIGTERM);
  assert_int_equal(end(&t), 128 + SIGTERM);
  assert_true(now() - told_at < 5);
  assert_non_null(strstr(t.text, "did not end by itself"));
}

static void a_rank_that_saves_is_not_disturbed_by_those_that_have_ended(void **state)
{
  (void)state;
  start(&t, ranks(3), saves);
  wait_begun(3);
  kill(t.pid, SIGTERM);
  assert_int_equal(end(&t), 128 + SIGTERM);
  assert_int_equal(page->saved, 1);
  assert_non_null(strstr(t.text, "capl: ending after this step, and saving"));
}

static void time_that_is_over_ends_all(void **state)
{
  (void)state;
  crew c = ranks(2);
  c.limit = 0.3;
  start(&t, c, sleeps);
  assert_int_equal(end(&t), EXIT_TIME);
  assert_non_null(strstr(t.text, "capl: stopped after 0.005 minutes, the limit of this run"));
}

static void lines_of_ranks_are_whole(void **state)
{
  (void)state;
  start(&t, ranks(3), prints);
  assert_int_equal(end(&t), 0);
  int lines = 0;
  for (char *save = NULL, *line = strtok_r(t.text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), lines++) {
    int rank = line[0] == '[' ? atoi(line + strlen("[rank ")) : 0, number = -1, named = -1, used = 0;
    const char *text = strstr(line, "rank ");
    if (rank) text = strstr(line, "] ") + 2;
    bool whole = (sscanf(text, "rank %d line %d and some more of it%n", &named, &number, &used) == 2 && !text[used] && used > 0) ||
                 (sscanf(text, "rank %d ends%n", &named, &used) == 1 && used > 0 && !text[used]);
    if (!whole || named != rank) fail_msg("'%s'", line);
  }
  assert_int_equal(lines, 3 * 201);
}

int main(void)
{
  page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  saving = mmap(NULL, MOST * sizeof *saving, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  signal(SIGCHLD, SIG_DFL);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_crew_that_does_its_work_ends_with_0),
    cmocka_unit_test(the_first_failure_ends_the_others_and_is_the_status),
    cmocka_unit_test(a_ranks_own_error_counts_more_than_that_it_was_lost),
    cmocka_unit_test(a_crash_is_told_once_with_rank_and_signal),
    cmocka_unit_test(who_does_not_listen_is_killed),
    cmocka_unit_test(none_outlives_a_supervisor_that_is_killed),
    cmocka_unit_test(signals_are_passed_on),
    cmocka_unit_test(one_that_does_not_listen_to_a_signal_is_killed),
    cmocka_unit_test(a_rank_that_saves_is_not_disturbed_by_those_that_have_ended),
    cmocka_unit_test(time_that_is_over_ends_all),
    cmocka_unit_test(lines_of_ranks_are_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
