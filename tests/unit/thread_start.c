/* thread_start.c -- tests of the engine's worker threads.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "base/thread.h"

typedef struct {
  sigset_t mask;
  char name[16];
} seen;

static void *look_around(void *out)
{
  seen *s = out;
  pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
  pthread_getname_np(pthread_self(), s->name, sizeof s->name);
  return NULL;
}

static void a_thread_blocks_every_signal(void **state)
{
  (void)state;
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGPROF, SIGCHLD};
  seen s;
  pthread_t thread;
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  assert_ok(capl_thread_start(&thread, "looker", look_around, &s));
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    assert_true(sigismember(&s.mask, signals[i]));
    assert_int_equal(sigismember(&before, signals[i]), sigismember(&after, signals[i]));
  }
}

static int gate[2];

static void *wait_at_gate(void *out)
{
  char byte;
  assert_int_equal(read(gate[0], &byte, 1), 1);
  return look_around(out);
}

static void names_are_shown_and_cut_to_fifteen_characters(void **state)
{
  (void)state;
  static const struct {
    const char *given, *shown;
  } cases[] = {{"loader 3", "loader 3"}, {"a name much too long", "a name much too"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    seen s;
    pthread_t thread;
    assert_int_equal(pipe(gate), 0);
    assert_ok(capl_thread_start(&thread, cases[i].given, wait_at_gate, &s));
    assert_int_equal(write(gate[1], "x", 1), 1); /* named by now: the thread may look */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(s.name, cases[i].shown);
    close(gate[0]);
    close(gate[1]);
  }
}

static void the_cpu_count_respects_the_affinity_mask(void **state)
{
  (void)state;
  cpu_set_t before, one;
  assert_true(capl_cpu_count() >= 1);
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(capl_cpu_count(), 1);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_thread_blocks_every_signal),
    cmocka_unit_test(names_are_shown_and_cut_to_fifteen_characters),
    cmocka_unit_test(the_cpu_count_respects_the_affinity_mask),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
