/* dist_straggler.c -- which rank is found to keep the others waiting, and which is not.
** SPDX-License-Identifier: Apache-2.0
*/
#include <poll.h>
#include <stdio.h>

#include "dist/watchdog.h"
#include "unit.h"

enum { N = 3 };

typedef struct {
  watchdog *watchdog;
  rank_view views[N];
  rank_identity members[N];
  watchdog_diagnosis diagnosis;
} scene;

static const char *const hosts[N] = {"a", "a", "b"};

/* Three healthy ranks in step 7, which have done 40 collectives and 2 messages and compute. */
static void begin(scene *s)
{
  memset(s, 0, sizeof *s);
  assert_ok(watchdog_new(0, N, 3, &s->watchdog));
  for (int r = 0; r < N; r++) {
    s->views[r] = (rank_view){.known = true, .heard_s = 0.2};
    s->views[r].status = (watchdog_status){.step = 7, .entered = 40, .done = 40, .sent = 2, .answered = 2, .wait_s = -1,
                                        .gather_s = -1, .idle_s = 0.1, .free_s = 100, .hold_s = -1, .left_s = -1,
                                        .peer = -1};
    snprintf(s->members[r].host, sizeof s->members[r].host, "%s", hosts[r]);
    s->members[r].process = 100 + r;
  }
}

static void waits(scene *s, int rank, const char *name, uint64_t number, uint64_t bytes, double seconds)
{
  watchdog_status *w = &s->views[rank].status;
  w->entered = w->number = number;
  w->done = number - 1;
  w->bytes = bytes;
  w->wait_s = w->idle_s = seconds;
  snprintf(w->name, sizeof w->name, "%s", name);
}

static void gathers(scene *s, int rank, uint64_t number, double seconds)
{
  s->views[rank].status.sent = number;
  s->views[rank].status.gather_s = seconds;
}

static void leaves(scene *s, int rank, int status, double seconds, const char *error)
{
  watchdog_status *w = &s->views[rank].status;
  w->left_s = seconds;
  w->status = status;
  snprintf(w->error, sizeof w->error, "%s", error);
}

/* text NULL: nothing is wrong. */
static void expect(scene *s, int me, int status, const char *text)
{
  watchdog_diagnose(s->watchdog, me, s->views, s->members, &s->diagnosis);
  if (!text) {
    assert_string_equal(s->diagnosis.text, "");
    assert_int_equal(s->diagnosis.finding, WATCHDOG_OK);
  } else {
    assert_string_equal(s->diagnosis.text, text);
    assert_int_equal(s->diagnosis.status, status);
    assert_int_equal(s->diagnosis.finding, status ? WATCHDOG_LOST : WATCHDOG_NOTE);
  }
}

static void end(scene *s)
{
  watchdog_free(s->watchdog);
}

/* ---- healthy ---------------------------------------------------------------------------------- */

static void ranks_that_wait_less_than_the_watchdog_are_well(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  expect(&s, 0, 0, NULL);
  waits(&s, 0, "all_reduce", 41, 400, 2.7);
  waits(&s, 1, "all_reduce", 41, 400, 2.5);
  expect(&s, 0, 0, NULL);
  end(&s);
}

static void a_long_step_of_all_ranks_is_nobodys_fault(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  for (int r = 0; r < N; r++) s.views[r].status.idle_s = 500;
  expect(&s, 0, 0, NULL);
  end(&s);
}

/* ---- lost ------------------------------------------------------------------------------------- */

static void a_closed_socket_is_a_death_unless_its_rank_has_left(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  s.views[1].gone = true;
  s.views[1].gone_s = 0.1;
  expect(&s, 0, 0, NULL); /* it may be one of many that end */
  s.views[1].gone_s = 0.3;
  expect(&s, 0, 75, "rank 1 (host a, process 101) died in step 7");
  waits(&s, 2, "all_reduce", 41, 400, 1);
  s.views[2].status.step = 8;
  expect(&s, 0, 75, "rank 1 (host a, process 101) died in step 8; the others wait for it: all_reduce 41");
  s.views[1].known = false;
  expect(&s, 0, 75, "rank 1 (host a, process 101) died before the first step; the others wait for it: all_reduce 41");
  s.views[1].known = true;
  leaves(&s, 1, 0, 0.4, "");
  s.views[2].status.wait_s = -1;
  expect(&s, 0, 0, NULL);
  end(&s);
}

static void a_silent_rank_is_named_with_what_the_others_wait_for(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  waits(&s, 0, "all_reduce", 412, 400, 2);
  s.views[2].heard_s = 3.2;
  expect(&s, 0, 75, "rank 2 (host b, process 102) has not answered for 3.2 s: all_reduce 412 in step 7; the others "
                    "wait for it");
  s.views[2].heard_s = 0.1;
  s.views[0].heard_s = 3.1;
  waits(&s, 1, "broadcast", 41, 400, 2);
  expect(&s, 1, 75, "rank 0 (host a, process 100) has not answered for 3.1 s: broadcast 41 in step 7; the others "
                    "wait for it");
  s.views[0].heard_s = 0.1;
  s.views[2].heard_s = 50; /* only rank 0 hears the others */
  expect(&s, 1, 0, NULL);
  end(&s);
}

static void an_error_is_told_a_moment_later_with_its_own_status(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  leaves(&s, 2, 1, 0.1, "recipe.lua:4: no such file");
  expect(&s, 0, 0, NULL);
  leaves(&s, 2, 1, 0.6, "recipe.lua:4: no such file");
  expect(&s, 0, 1, "rank 2 (b) ended with an error: recipe.lua:4: no such file");
  leaves(&s, 2, 130, 0.6, "");
  expect(&s, 0, 130, "rank 2 (b) was stopped by signal 2");
  leaves(&s, 2, 124, 0.6, "");
  expect(&s, 0, 124, "rank 2 (b) ended with status 124 in step 7");
  leaves(&s, 0, 1, 0.1, "recipe.lua:5: neither"); /* this rank says its own */
  expect(&s, 0, 0, NULL);
  end(&s);
}

/* ---- waited for ------------------------------------------------------------------------------- */

static void who_has_not_come_to_a_collective_is_found_out(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  waits(&s, 0, "all_reduce", 41, 400, 3.1);
  waits(&s, 1, "all_reduce", 41, 400, 3.0);
  expect(&s, 0, 75, "rank 2 (host b, process 102) has kept the others waiting for 3.3 s: all_reduce 41 in step 7; it "
                    "responds, but "
                    "does something else");
  s.views[2].status.step = 6;
  expect(&s, 0, 75, "rank 2 (host b, process 102) has kept the others waiting for 3.3 s: all_reduce 41 in step 7; it "
                    "responds, but "
                    "does something else in step 6");
  s.views[2].heard_s = 2.9;
  expect(&s, 0, 75, "rank 2 (host b, process 102) has not answered for 2.9 s: all_reduce 41 in step 7; the others "
                    "wait for it");
  end(&s);
}

static void who_has_not_come_to_a_message_is_found_out(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  gathers(&s, 0, 3, 4);
  gathers(&s, 2, 3, 4);
  expect(&s, 0, 75, "rank 1 (host a, process 101) has kept the others waiting for 4.2 s: message 3 in step 7; it "
                    "responds, but does "
                    "something else");
  end(&s);
}

static void a_rank_that_holds_the_watchdog_is_noted_once(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  waits(&s, 0, "all_reduce", 41, 400, 9);
  waits(&s, 2, "all_reduce", 41, 400, 9);
  s.views[1].status.hold_s = 9.8;
  s.views[1].status.free_s = 0;
  strcpy(s.views[1].status.hold, "compiling");
  expect(&s, 0, 0, "rank 1 (host a, process 101) is compiling for 10 s; the others wait for it: all_reduce 41");
  expect(&s, 0, 0, NULL);
  strcpy(s.views[1].status.hold, "evaluating");
  expect(&s, 0, 0, "rank 1 (host a, process 101) is evaluating for 10 s; the others wait for it: all_reduce 41");
  s.views[1].status.hold_s = -1; /* from the end of a hold on it has its seconds again */
  s.views[1].status.free_s = 1;
  expect(&s, 0, 0, NULL);
  s.views[1].status.free_s = 3.1;
  expect(&s, 0, 75, "rank 1 (host a, process 101) has kept the others waiting for 9.2 s: all_reduce 41 in step 7; it "
                    "responds, but "
                    "does something else");
  end(&s);
}

static void ranks_that_make_different_calls_are_told_both(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  waits(&s, 0, "all_reduce", 41, 5000000, 1);
  waits(&s, 1, "all_reduce", 41, 5000000, 1);
  waits(&s, 2, "all_reduce", 41, 2500000, 1);
  expect(&s, 0, 75, "the ranks do not exchange the same: rank 0 (host a, process 100) is in all_reduce 41 of 5.0 MB, "
                    "rank 2 (host b, "
                    "process 102) in all_reduce 41 of 2.5 MB");
  end(&s);
  begin(&s);
  waits(&s, 0, "all_reduce", 41, 400, 2);
  waits(&s, 1, "all_reduce", 41, 400, 2);
  gathers(&s, 2, 3, 2);
  expect(&s, 0, 75, "the ranks wait for each other: rank 0 (host a, process 100) for all_reduce 41, rank 2 (host b, "
                    "process 102) for "
                    "message 3");
  s.views[2].status.step = CAPL_STEPS_OVER;
  expect(&s, 0, 75, "rank 2 (host b, process 102) has done its work, but rank 0 still needs it: all_reduce 41 in "
                    "step 7");
  end(&s);
}

static void partners_of_an_exchange_are_told_from_the_others(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  waits(&s, 0, "exchange", 40, 400, 4);
  s.views[0].status.number = 0;
  s.views[0].status.done = 40;
  s.views[0].status.peer = 2;
  expect(&s, 0, 75, "rank 2 (host b, process 102) has kept the others waiting for 4.2 s: exchange with rank 2 in "
                    "step 7; it responds, "
                    "but does something else");
  end(&s);
}

static void a_collective_that_all_are_in_and_that_does_not_end_is_nobodys(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  for (int r = 0; r < N; r++) waits(&s, r, "all_reduce", 41, 400, 3.5);
  expect(&s, 0, 0, NULL); /* the last of them may have come this moment */
  watchdog_set_seconds(s.watchdog, 0.1);
  for (int r = 0; r < N; r++) s.views[r].heard_s = 0;
  poll(NULL, 0, 60);
  expect(&s, 0, 0, NULL);
  for (int r = 0; r < N; r++) waits(&s, r, "all_reduce", 42, 400, 3.5); /* it did end; this is another */
  poll(NULL, 0, 60);
  expect(&s, 0, 0, NULL);
  poll(NULL, 0, 110);
  expect(&s, 0, 75, "all ranks have been in all_reduce 42 for 0.1 s, and it does not end: in step 7");
  end(&s);
}

static void a_rank_that_ended_while_others_need_it_is_an_error(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  leaves(&s, 1, 0, 5, "");
  expect(&s, 0, 0, NULL); /* nobody needs it yet */
  waits(&s, 2, "all_reduce", 41, 400, 1.5);
  expect(&s, 0, 75, "rank 1 (host a, process 101) has done its work in step 7, but rank 2 still needs it: all_reduce "
                    "41 in step 7");
  end(&s);
}

static void who_does_nothing_while_the_others_wait_for_the_end_is_found_out(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  leaves(&s, 1, 0, 4, "");
  leaves(&s, 2, 0, 4, "");
  s.views[0].status.idle_s = 2;
  expect(&s, 0, 0, NULL);
  s.views[0].status.idle_s = 4;
  expect(&s, 0, 75, "rank 0 (host a, process 100) has kept the others waiting for 4.2 s: they are finished; it "
                    "responds, but "
                    "is busy in step 7");
  s.views[0].status.hold_s = 4;
  expect(&s, 0, 0, NULL);
  end(&s);
}

/* ---- what a rank says of itself, and who says the diagnosis --------------------------------------- */

static void notes_of_the_program_are_what_its_heartbeat_says(void **state)
{
  (void)state;
  watchdog *w;
  watchdog_status s;
  assert_ok(watchdog_new(1, 2, 3, &w));
  watchdog_set_step(w, 5);
  uint64_t a = watchdog_queue(w, "all_reduce", 4000, -1), b = watchdog_queue(w, "exchange", 16, 0),
      c = watchdog_queue(w, "barrier", 0, -1);
  watchdog_status_now(w, &s);
  assert_int_equal(s.step, 5);
  assert_int_equal(s.entered, 2); /* what is between two ranks is no number of all */
  assert_int_equal(s.number, 1);
  assert_string_equal(s.name, "all_reduce");
  watchdog_finish(w, a);
  watchdog_status_now(w, &s);
  assert_string_equal(s.name, "exchange");
  assert_int_equal(s.number, 0);
  assert_int_equal(s.peer, 0);
  watchdog_finish(w, b);
  watchdog_finish(w, c);
  watchdog_gather_begin(w);
  watchdog_set_hold(w, "compiling");
  watchdog_status_now(w, &s);
  assert_true(s.wait_s < 0 && s.gather_s >= 0 && s.hold_s >= 0);
  assert_int_equal(s.done, 2);
  for (int i = 0; i < 1000; i++) watchdog_queue(w, "all_reduce", 4, -1); /* more than it keeps names of */
  watchdog_finish(w, 1003);
  watchdog_status_now(w, &s);
  assert_int_equal(s.entered, 1002);
  assert_int_equal(s.done, 1002);
  watchdog_free(w);
}

static bool done_up_to(void *user, int64_t ticket) { return ticket <= *(int64_t *)user; }

static void what_nobody_waits_for_is_asked_of_the_library(void **state)
{
  (void)state;
  watchdog *w;
  watchdog_status s;
  int64_t done = 10;
  assert_ok(watchdog_new(1, 2, 3, &w));
  watchdog_set_query(w, done_up_to, &done);
  for (int64_t i = 1; i <= 3; i++) watchdog_set_ticket(w, watchdog_queue(w, "all_reduce", 4, -1), 9 + i);
  watchdog_status_now(w, &s);
  assert_int_equal(s.done, 1);
  done = 12;
  watchdog_status_now(w, &s);
  assert_int_equal(s.done, 3);
  assert_true(s.wait_s < 0);
  watchdog_free(w);
}

static void one_rank_speaks_also_when_rank_0_cannot(void **state)
{
  (void)state;
  scene s;
  begin(&s);
  assert_true(watchdog_reports_here(0, N, &s.diagnosis, s.views, s.members));
  s.diagnosis.reported = true; /* by another rank, which has sent it */
  for (int r = 0; r < N; r++) assert_false(watchdog_reports_here(r, N, &s.diagnosis, s.views, s.members));
  s.diagnosis.reported = false;
  s.views[0].gone = true; /* its host is well: the next one there */
  assert_true(watchdog_reports_here(1, N, &s.diagnosis, s.views, s.members));
  assert_false(watchdog_reports_here(2, N, &s.diagnosis, s.views, s.members));
  s.views[0].gone = false; /* its host is silent: the first of another */
  assert_false(watchdog_reports_here(1, N, &s.diagnosis, s.views, s.members));
  assert_true(watchdog_reports_here(2, N, &s.diagnosis, s.views, s.members));
  leaves(&s, 0, 1, 1, "it says so itself");
  assert_false(watchdog_reports_here(1, N, &s.diagnosis, s.views, s.members));
  end(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(ranks_that_wait_less_than_the_watchdog_are_well),
    cmocka_unit_test(a_long_step_of_all_ranks_is_nobodys_fault),
    cmocka_unit_test(a_closed_socket_is_a_death_unless_its_rank_has_left),
    cmocka_unit_test(a_silent_rank_is_named_with_what_the_others_wait_for),
    cmocka_unit_test(an_error_is_told_a_moment_later_with_its_own_status),
    cmocka_unit_test(who_has_not_come_to_a_collective_is_found_out),
    cmocka_unit_test(who_has_not_come_to_a_message_is_found_out),
    cmocka_unit_test(a_rank_that_holds_the_watchdog_is_noted_once),
    cmocka_unit_test(ranks_that_make_different_calls_are_told_both),
    cmocka_unit_test(partners_of_an_exchange_are_told_from_the_others),
    cmocka_unit_test(a_collective_that_all_are_in_and_that_does_not_end_is_nobodys),
    cmocka_unit_test(a_rank_that_ended_while_others_need_it_is_an_error),
    cmocka_unit_test(who_does_nothing_while_the_others_wait_for_the_end_is_found_out),
    cmocka_unit_test(notes_of_the_program_are_what_its_heartbeat_says),
    cmocka_unit_test(what_nobody_waits_for_is_asked_of_the_library),
    cmocka_unit_test(one_rank_speaks_also_when_rank_0_cannot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
