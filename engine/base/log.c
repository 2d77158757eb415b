/* log.c -- messages the engine wants a person to see, through one callback.
** SPDX-License-Identifier: Apache-2.0
*/
#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static capl_log_fn callback_;
static void *user_;

void capl_log_set(capl_log_fn callback, void *user)
{
  callback_ = callback;
  user_ = user;
}

void capl_log(const char *fmt, ...)
{
  if (!callback_) return;
  char line[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  callback_(user_, line);
}
