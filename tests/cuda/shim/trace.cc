/* trace.cc -- a line for what is queued on which stream, for tests that look at the order of things.
** SPDX-License-Identifier: Apache-2.0
*/
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "include/shim.h"

static int trace_to = -1;

/* Of each process its own file. */
__attribute__((constructor)) static void open_trace()
{
  char name[4096];
  const char *trace = getenv("CAPL_SHIM_TRACE");
  if (!trace || !*trace) return;
  snprintf(name, sizeof name, "%s.%d", trace, (int)getpid());
  trace_to = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

/* A line is one write: lines of several threads stay whole. */
void shim_trace(const char *format, ...)
{
  char line[256];
  va_list arguments;
  if (trace_to < 0) return;
  va_start(arguments, format);
  int n = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (n < 0 || n > (int)sizeof line - 2) return;
  line[n++] = '\n';
  if (write(trace_to, line, (size_t)n) != n) trace_to = -1;
}
