/* switch.h -- moving between stacks: a few instructions on x86-64, ucontext elsewhere.
**
** Both tell AddressSanitizer, which otherwise takes a foreign stack for an overrun.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef SHIM_SWITCH_H
#define SHIM_SWITCH_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) && !defined(SHIM_UCONTEXT)
#define SHIM_UCONTEXT
#endif
#ifdef SHIM_UCONTEXT
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SHIM_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHIM_ASAN
#endif
#endif
#ifdef SHIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* A place to return to: a stack with the registers of who left it. stack == NULL: the host thread's own. */
struct place {
  void *stack = nullptr;
  size_t size = 0;
  void *fake = nullptr; /* AddressSanitizer's notes on this stack */
#ifdef SHIM_UCONTEXT
  ucontext_t context;
#else
  void *top = nullptr; /* registers are saved below */
#endif
};

/* Makes `where` begin main() on its own stack when it is first gone to. */
void place_make(place *where, void *stack, size_t size, void (*main)());
/* Leaves `from`, continues `to`; returns when somebody goes to `from`. */
void place_go(place *from, place *to);
/* First thing on a new stack. */
void place_arrived(place *here);

#endif
