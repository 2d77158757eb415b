/* sandbox.h -- the system's layer of the sandbox: what the kernel refuses to this process, whatever code runs in it.
**
** Landlock keeps it to the files of the policy and to those the engine needs; a filter of system calls keeps it from
** programs, processes, sockets and the parts of the kernel that training does not use. Enabled once, when
** devices and communicators are open, before a recipe's text is read. It cannot be disabled.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SANDBOX_SANDBOX_H
#define CAPL_SANDBOX_SANDBOX_H

#include <stdbool.h>

#include "capl/error.h"

typedef struct {
  int files;     /* Landlock's version that guards files, 0 = they are not guarded */
  bool calls;    /* system calls are filtered */
  char why[160]; /* what is missing, and why; "" when both are active */
  char calls_why[160]; /* why calls are not filtered */
} capl_sandbox;

/* Enables Landlock and the filter of system calls, as far as this kernel supports them, from the closed policy. ESTATE:
** the policy is open. A missing layer is no error, see capl_sandbox_state. EINTERNAL: one failed half way; the process
** must not go on. */
CAPL_API capl_status capl_sandbox_enable(void);

/* The active layers. */
CAPL_API const capl_sandbox *capl_sandbox_state(void);

/* EUNSUPPORTED: CAPL_ASSUME names a version of Landlock that this kernel lacks. For the start of a program. */
CAPL_API capl_status capl_sandbox_check_assumed(void);

/* What this kernel supports; enables nothing. For capl info. */
CAPL_API capl_sandbox capl_sandbox_possible(void);

#endif
