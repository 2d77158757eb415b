/* interrupt_late.c -- Ctrl-C that arrives when Lua has ended, or is ending.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <signal.h>
#include <sys/time.h>

#include "bind/bind.h"

static lua_State *new_state(void)
{
  lua_State *L;
  assert_ok(capl_state_new(NULL, &L));
  capl_interrupt_install(L);
  return L;
}

static void a_request_after_the_end_does_nothing(void **state)
{
  (void)state;
  lua_State *L = new_state();
  capl_interrupt_remove();
  capl_state_close(L);
  capl_interrupt_request();
  assert_false(capl_interrupt_pending());
}

static void a_tick_that_comes_late_does_not_end_the_process(void **state)
{
  (void)state;
  lua_State *L = new_state();
  capl_interrupt_request();
  capl_interrupt_remove();
  raise(SIGPROF);
  capl_state_close(L);
  raise(SIGPROF);
}

/* The recipe has returned with the request unanswered: its ticks go on while the state is closed. */
static void a_state_closed_with_a_request_open_stops_the_ticks(void **state)
{
  (void)state;
  lua_State *L = new_state();
  capl_interrupt_request();
  capl_interrupt_remove();
  capl_state_close(L);
  struct itimerval timer;
  assert_int_equal(getitimer(ITIMER_PROF, &timer), 0);
  assert_int_equal(timer.it_interval.tv_usec, 0);
  assert_int_equal(timer.it_value.tv_usec, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_request_after_the_end_does_nothing),
    cmocka_unit_test(a_tick_that_comes_late_does_not_end_the_process),
    cmocka_unit_test(a_state_closed_with_a_request_open_stops_the_ticks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
