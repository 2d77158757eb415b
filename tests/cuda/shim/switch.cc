/* switch.cc -- moving between stacks (switch.h).
** SPDX-License-Identifier: Apache-2.0
*/
#include "switch.h"

#ifdef SHIM_ASAN
static place *left; /* who went away last: its bounds become known on arrival */

static void leave(place *from, place *to)
{
  left = from;
  __sanitizer_start_switch_fiber(&from->fake, to->stack, to->size);
}

static void arrive(place *here)
{
  const void *bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(here->fake, &bottom, &size);
  left->stack = (void *)bottom;
  left->size = size;
}
#else
static void leave(place *, place *) {}
static void arrive(place *) {}
#endif

void place_arrived(place *here)
{
  arrive(here);
}

#ifdef SHIM_UCONTEXT

void place_make(place *where, void *stack, size_t size, void (*main)())
{
  where->stack = stack;
  where->size = size;
  where->fake = nullptr;
  getcontext(&where->context);
  where->context.uc_stack.ss_sp = stack;
  where->context.uc_stack.ss_size = size;
  where->context.uc_link = nullptr;
  makecontext(&where->context, main, 0);
}

void place_go(place *from, place *to)
{
  leave(from, to);
  swapcontext(&from->context, &to->context);
  arrive(from);
}

#else

/* Saves what a function must keep (System V ABI) on the stack it leaves, and takes it from the one it goes to. */
extern "C" void shim_switch(void **save, void *load) __attribute__((visibility("hidden")));
asm(R"(
  .pushsection .text
  .globl shim_switch
  .hidden shim_switch
  .type shim_switch, @function
shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size shim_switch, .-shim_switch
  .popsection
)");

/* The new stack looks as if main's caller had just been left: six registers, then main's address to return to. At its
** entry the stack pointer is 8 below a multiple of 16, as after a call. */
void place_make(place *where, void *stack, size_t size, void (*main)())
{
  where->stack = stack;
  where->size = size;
  where->fake = nullptr;
  uintptr_t end = ((uintptr_t)stack + size) & ~(uintptr_t)15;
  void **top = (void **)end;
  *--top = nullptr; /* main does not return */
  *--top = (void *)main;
  for (int k = 0; k < 6; k++) *--top = nullptr;
  where->top = top;
}

void place_go(place *from, place *to)
{
  leave(from, to);
  shim_switch(&from->top, to->top);
  arrive(from);
}

#endif
