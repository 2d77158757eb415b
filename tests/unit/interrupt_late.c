/* interrupt_late.c -- Ctrl-C that arrives when Lua has ended, or is ending.
** SPDX-License-Identifier: Apache-2.0
*/
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

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

/* Stops this process with SIGPROF while the stack pointer is at `top`, as kernels made by oneDNN have it in the
** heap. */
static void tick_with_stack_at(char *top)
{
#if defined(__x86_64__)
  long result;
  __asm__ volatile("mov %%rsp, %%r12\n\tmov %[top], %%rsp\n\tsyscall\n\tmov %%r12, %%rsp"
                   : "=a"(result)
                   : "0"(62L /* kill */), "D"((long)getpid()), "S"((long)SIGPROF), [top] "r"(top)
                   : "rcx", "r11", "r12", "memory");
  assert_int_equal(result, 0);
#else
  (void)top;
  raise(SIGPROF);
#endif
}

static void a_tick_leaves_alone_what_lies_below_the_stack_pointer(void **state)
{
  (void)state;
  enum { BELOW = 64 * 1024 };
  lua_State *L = new_state();
  char *heap = malloc(BELOW);
  assert_non_null(heap);
  memset(heap, 0x5A, BELOW);
  tick_with_stack_at(heap + BELOW);
  int changed = 0;
  for (int i = 0; i < BELOW; i++) changed += heap[i] != 0x5A;
  free(heap);
  capl_interrupt_remove();
  capl_state_close(L);
  assert_int_equal(changed, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_request_after_the_end_does_nothing),
    cmocka_unit_test(a_tick_that_comes_late_does_not_end_the_process),
    cmocka_unit_test(a_tick_leaves_alone_what_lies_below_the_stack_pointer),
    cmocka_unit_test(a_state_closed_with_a_request_open_stops_the_ticks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
