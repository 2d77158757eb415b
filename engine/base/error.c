/* error.c -- the thread's last error record.
** SPDX-License-Identifier: Apache-2.0
*/
#include "capl/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static _Thread_local capl_error last;

static const char *const names[CAPL_STATUS_COUNT] = {
#define X(code, name, text) name,
  CAPL_STATUS_MAP(X)
#undef X
};

capl_status capl_fail_at(const char *file, int line, capl_status code, const char *fmt, ...)
{
  /* Formatted aside first: the arguments may point into the record that is replaced, and a path may be long. */
  char message[8192];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  last.code = code;
  last.file = file;
  last.line = line;
  capl_text_show(last.message, sizeof last.message, message, false);
  last.context[0] = last.hint[0] = '\0';
  return code;
}

void capl_error_context(const char *fmt, ...)
{
  size_t used = strlen(last.context);
  if (used && used + 1 < sizeof last.context) last.context[used++] = '\n';
  va_list args;
  va_start(args, fmt);
  vsnprintf(last.context + used, sizeof last.context - used, fmt, args);
  va_end(args);
}

void capl_error_hint(const char *fmt, ...)
{
  if (last.hint[0]) return;
  char hint[8192];
  va_list args;
  va_start(args, fmt);
  vsnprintf(hint, sizeof hint, fmt, args);
  va_end(args);
  capl_text_show(last.hint, sizeof last.hint, hint, true);
}

const capl_error *capl_error_last(void)
{
  return &last;
}

void capl_error_restore(const capl_error *record)
{
  if (record != &last) last = *record;
}

const char *capl_status_name(capl_status code)
{
  return (unsigned)code < CAPL_STATUS_COUNT ? names[code] : "unknown";
}
