/* launch_supervise.c -- processes and their supervisor: exit statuses, signals, limits, output, and that none is left
** behind. Workers are small functions here; each supervisor runs in a process of its own, which the test may kill.
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
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "program/launch/supervise.h"
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

static int descriptors; /* that the supervisor may have, 0 = as many as this process */

static void start(trial *t, worker_group c, worker w)
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
    if (descriptors) setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)descriptors, (rlim_t)descriptors});
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

/* One that has ended may stay a while, until the first process of a container has looked after it. */
static bool alive(pid_t pid)
{
  char path[32], state = 'Z';
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *f = pid > 0 ? fopen(path, "r") : NULL;
  if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
  if (f) fclose(f);
  return state != 'Z';
}

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
  for (ssize_t got; n < sizeof t->text - 1 && (got = read(t->output, t->text + n, sizeof t->text - 1 - n)) > 0;)
    n += (size_t)got;
  t->text[n] = '\0';
  close(t->output);
  assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
  assert_all_gone();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static worker_group ranks(int n)
{
  return (worker_group){.count = n, .ranks = n, .output = OUTPUT_TAGGED, .saving = saving, .pace = 5};
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
           "capl: rank 1 (process %d) was ended by signal 9 (Killed): often the system ran out of memory\n",
           (int)page->pids[1]);
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

/* One that is in a long call of C has no ear for the signal that its supervisor's end is to it. */
static void one_that_does_not_listen_is_gone_5_s_after_its_supervisor(void **state)
{
  (void)state;
  start(&t, ranks(1), deaf);
  wait_begun(1);
  double killed = now();
  kill(t.pid, SIGKILL);
  while (alive(page->pids[0]) && now() - killed < 6) usleep(20000);
  double took = now() - killed;
  if (alive(page->pids[0])) kill(page->pids[0], SIGKILL);
  assert_int_equal(end(&t), 128 + SIGKILL);
  assert_true(took < 5);
}

/* A supervisor whose own parent has died, as a trial's whose sweep was killed: what does not end is not waited for. */
static void one_whose_starter_has_died_ends_soon(void **state)
{
  (void)state;
  int supervisor[2];
  pid_t pid = -1;
  memset(page, 0, sizeof *page);
  assert_int_equal(pipe(supervisor), 0);
  pid_t starter = fork();
  if (starter == 0) {
    pid_t me = getpid();
    pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != me) _exit(1);
      worker_group c = ranks(1);
      c.run = run, c.user = (void *)deaf, c.pace = 1, c.reported_elsewhere = true;
      _exit(supervise(&c));
    }
    if (write(supervisor[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    pause();
  }
  assert_int_equal(read(supervisor[0], &pid, sizeof pid), sizeof pid);
  close(supervisor[0]), close(supervisor[1]);
  wait_begun(1);
  double killed = now();
  kill(starter, SIGKILL);
  waitpid(starter, NULL, 0);
  while (alive(page->pids[0]) && now() - killed < 6) usleep(20000);
  bool gone = !alive(page->pids[0]);
  if (!gone) kill(page->pids[0], SIGKILL);
  assert_true(gone && now() - killed < 5);
}

/* Who starts it may have chosen not to hear of children, which is inherited. */
static void children_are_seen_also_where_their_end_was_ignored(void **state)
{
  (void)state;
  signal(SIGCHLD, SIG_IGN);
  start(&t, ranks(2), rank_1_fails);
  signal(SIGCHLD, SIG_DFL);
  alarm(20); /* it would wait for ever */
  assert_int_equal(end(&t), 3);
  alarm(0);
}

/* Every number of descriptors, from none: started, or refused with the reason; never deaf. */
static void too_few_descriptors_are_an_error(void **state)
{
  (void)state;
  for (int limit = 3; limit < 24; limit++) {
    descriptors = limit;
    double begun = now();
    start(&t, ranks(2), done);
    alarm(20);
    int status = end(&t);
    alarm(0);
    if (status == 0) break;
    assert_int_equal(status, EXIT_ERROR);
    assert_non_null(strstr(t.text, "Too many open files; see ulimit -n"));
    assert_true(now() - begun < 5);
    assert_true(limit < 20);
  }
  descriptors = 0;
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
  worker_group c = ranks(1);
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
  worker_group c = ranks(2);
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
    bool whole = (sscanf(text, "rank %d line %d and some more of it%n", &named, &number, &used) == 2 && !text[used]
                  && used > 0) ||
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
    cmocka_unit_test(one_that_does_not_listen_is_gone_5_s_after_its_supervisor),
    cmocka_unit_test(one_whose_starter_has_died_ends_soon),
    cmocka_unit_test(children_are_seen_also_where_their_end_was_ignored),
    cmocka_unit_test(too_few_descriptors_are_an_error),
    cmocka_unit_test(signals_are_passed_on),
    cmocka_unit_test(one_that_does_not_listen_to_a_signal_is_killed),
    cmocka_unit_test(a_rank_that_saves_is_not_disturbed_by_those_that_have_ended),
    cmocka_unit_test(time_that_is_over_ends_all),
    cmocka_unit_test(lines_of_ranks_are_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
