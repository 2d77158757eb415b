/* stop.c -- whether somebody wants the end: a process has one place that knows, and sets it here.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/stop.h"

#include <stdatomic.h>
#include <stddef.h>

static bool (*_Atomic wanted)(void);

void capl_stop_when(bool (*asked)(void)) { atomic_store_explicit(&wanted, asked, memory_order_relaxed); }

capl_status capl_stop_check(void)
{
  bool (*asked)(void) = atomic_load_explicit(&wanted, memory_order_relaxed);
  return asked && asked() ? CAPL_FAIL(CAPL_EINTERRUPT, "interrupted") : CAPL_OK;
}
