/* main.c -- the program: command_line.c reads its words, header.c the recipe's header; launch/ does the rest.
**
** The supervisor runs no Lua. It starts the job's workers (bind/worker.h), forwards SIGINT, SIGTERM and SIGHUP to them,
** stops them when the minutes the recipe asked for are over, and ends with their exit status:
**   0 done, 1 error, 2 wrong command line, 75 a rank or a device was lost, 124 out of time, 130 Ctrl-C,
**   128+n ended by signal n.
** SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assume.h"
#include "program/command_line.h"
#include "program/launch/launch.h"
#include "program/launch/output.h"
#include "sandbox/sandbox.h"
#include "sandbox/policy.h"
#include "program/launch/supervise.h"
#include "program/recipe_file.h"

static int print_error(void)
{
  const capl_error *e = capl_error_last();
  fprintf(stderr, "%s\n", e->message);
  for (const char *line = e->context; *line; line += strspn(line, "\n")) {
    int n = (int)strcspn(line, "\n");
    fprintf(stderr, "  %.*s\n", n, line);
    line += n;
  }
  if (*e->hint) fprintf(stderr, "  hint: %s\n", e->hint);
  return EXIT_ERROR;
}

/* From here on the recipe is these bytes, whatever becomes of the file. */
static capl_status read_recipe(capl_job *job)
{
  CAPL_TRY(capl_recipe_file_read(job->recipe, &job->file));
  job->recipe = job->file.path;
  return capl_header_parse(job->recipe, job->file.text, job->file.size, &job->header);
}

/* A file opened later must not become standard output because that was closed: `capl … >&-`. What stands in for
** a closed stream fails as that would. */
static void hold_standard_streams(void)
{
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0) return;
}

/* The exit status when all that was printed has arrived; else says so and makes success an error. */
static int flush_output(int status)
{
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fprintf(stderr, "%s\n", output_lost());
  return status ? status : EXIT_ERROR;
}

int main(int argc, char **argv)
{
  hold_standard_streams();
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a write that fails, and that has a message */
  command_line c;
  if (capl_assume_check() != CAPL_OK || capl_sandbox_check_assumed() != CAPL_OK) return print_error();
  int wrong = command_line_read(argc, argv, &c);
  if (wrong) return wrong;
  launch *l = &c.l;
  if (l->job.recipe && !c.help && read_recipe(&l->job) != CAPL_OK) return print_error();
  if (c.minutes >= 0) l->job.header.minutes = c.minutes;
  l->seconds = l->job.header.minutes * 60;
  bool unsaid = c.minutes < 0 && l->job.header.minutes == 0;
  /* of somebody else's, as a rule */
  if (unsaid && l->job.recipe && !l->job.trusted) l->seconds = CAPL_LIMIT_DAYS * 86400.0;
  l->flush = flush_output;
  return launch_job(l, argc, argv);
}
